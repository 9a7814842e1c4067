//! Kinds of MariaDB's and MySQL's files, and the settings that protect InnoDB's data pages.

use plimsoll_core::{PageGuard, WriteKind, settings_named};

/// Returns the kind of a file of the data directory. The system tablespace is neither: MariaDB's double-write buffer is
/// a part of it, and the file's name does not tell the parts apart.
pub(crate) fn write_kind(path: &str) -> WriteKind {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_binary_log = name.rsplit_once('.').is_some_and(|(stem, number)| {
        (stem.ends_with("bin") || stem.ends_with("binlog") || stem.ends_with("relay"))
            && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_log = name.starts_with("ib_logfile") || is_numbered("#ib_redo") || name.starts_with("aria_log.");
    let is_undo = is_numbered("undo") || is_numbered("undo_");
    match () {
        () if is_log || is_binary_log => WriteKind::Log,
        () if name.ends_with(".ibd") || is_undo => WriteKind::DataPages,
        () => WriteKind::Other,
    }
}

/// Pages leave a small buffer pool all the time, and a short log soon needs a checkpoint.
pub(crate) const PAGE_GUARD: PageGuard = PageGuard {
    param: "settings",
    named: |settings| settings_named(settings, &["innodb_doublewrite"]),
    busy: &[("buffer_pool", "8MiB"), ("log_file", "4MiB")],
    records: "20000",
};

#[cfg(test)]
mod tests {
    use super::{WriteKind, write_kind};

    #[test]
    fn files_of_a_data_directory_have_their_kinds() {
        for (path, kind) in [
            ("ib_logfile0", WriteKind::Log),
            ("#innodb_redo/#ib_redo12", WriteKind::Log),
            ("node-2/binlog.000001", WriteKind::Log),
            ("aria_log.00000001", WriteKind::Log),
            ("plimsoll/usertable.ibd", WriteKind::DataPages),
            ("undo001", WriteKind::DataPages),
            ("undo_002", WriteKind::DataPages),
            ("ibdata1", WriteKind::Other),
            ("#ib_16384_0.dblwr", WriteKind::Other),
            ("ibtmp1", WriteKind::Other),
            ("mysql/db.MAI", WriteKind::Other),
            ("(removed)", WriteKind::Other),
        ] {
            assert_eq!(write_kind(path), kind, "{path}");
        }
    }
}
