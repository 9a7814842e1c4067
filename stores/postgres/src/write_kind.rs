//! Kinds of PostgreSQL's files, and the settings that protect its data pages.

use plimsoll_core::{PageGuard, WriteKind, settings_named};

/// Returns the kind of a file of the data directory ("Database File Layout" in PostgreSQL's manual): segments of
/// relations are data pages. Free space maps are not, because no log restores them.
pub(crate) fn write_kind(path: &str) -> WriteKind {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_in = |wanted: &str| directories.split('/').any(|part| part == wanted);
    let is_segment = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match name {
        _ if is_in("pg_wal") => WriteKind::Log,
        _ if is_in("base") || is_in("global") || is_in("pg_tblspc") => {
            if is_segment || name.ends_with("_vm") {
                WriteKind::DataPages
            } else {
                WriteKind::Other
            }
        }
        _ => WriteKind::Other,
    }
}

/// Pages leave small buffers all the time, and the page cache soon after.
pub(crate) const PAGE_GUARD: PageGuard = PageGuard {
    param: "settings",
    named: |settings| settings_named(settings, &["full_page_writes"]),
    busy: &[("shared_buffers", "1MiB"), ("settings", "backend_flush_after=1 bgwriter_flush_after=1")],
    records: "20000",
};

#[cfg(test)]
mod tests {
    use super::{PAGE_GUARD, WriteKind, write_kind};

    #[test]
    fn files_of_a_data_directory_have_their_kinds() {
        for (path, kind) in [
            ("pg_wal/000000010000000000000001", WriteKind::Log),
            ("cluster/pg_wal/archive_status/000000010000000000000001.done", WriteKind::Log),
            ("node-1/data/base/5/16384", WriteKind::DataPages),
            ("base/5/16384.1", WriteKind::DataPages),
            ("base/5/16384_vm", WriteKind::DataPages),
            ("global/1262", WriteKind::DataPages),
            ("base/5/16384_fsm", WriteKind::Other),
            ("base/5/pg_filenode.map", WriteKind::Other),
            ("global/pg_control", WriteKind::Other),
            ("base/pgsql_tmp/pgsql_tmp123.0", WriteKind::Other),
            ("pg_xact/0000", WriteKind::Other),
            ("(removed)", WriteKind::Other),
        ] {
            assert_eq!(write_kind(path), kind, "{path}");
        }
    }

    #[test]
    fn full_page_writes_are_the_setting_that_protects_pages() {
        let named = PAGE_GUARD.named;
        assert_eq!(named("fsync=on full_page_writes=off"), ["full_page_writes=off"]);
        assert!(named("fsync=off").is_empty());
    }
}
