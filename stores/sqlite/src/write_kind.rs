//! Kinds of SQLite's files, and the settings that protect its pages.

use plimsoll_core::{PageGuard, WriteKind};

/// Returns the kind of a file: the database, its write-ahead log or rollback journal, or an index of the log in shared
/// memory.
pub(crate) fn write_kind(path: &str) -> WriteKind {
    match path.rsplit_once('-').map(|(_, ending)| ending) {
        Some("wal" | "journal") => WriteKind::Log,
        _ if path.ends_with(".sqlite") => WriteKind::DataPages,
        _ => WriteKind::Other,
    }
}

/// A rollback journal protects pages that are overwritten in place by each transaction. With a write-ahead log, pages
/// are overwritten at checkpoints only.
pub(crate) const PAGE_GUARD: PageGuard = PageGuard {
    param: "journal_mode",
    named: |mode| if mode.is_empty() || mode == "wal" { Vec::new() } else { vec![format!("journal_mode={mode}")] },
    busy: &[],
    records: "",
};

#[cfg(test)]
mod tests {
    use super::{WriteKind, write_kind};

    #[test]
    fn files_beside_the_database_have_their_kinds() {
        for (path, kind) in [
            ("store.sqlite", WriteKind::DataPages),
            ("store.sqlite-wal", WriteKind::Log),
            ("store.sqlite-journal", WriteKind::Log),
            ("store.sqlite-shm", WriteKind::Other),
            ("(removed)", WriteKind::Other),
        ] {
            assert_eq!(write_kind(path), kind, "{path}");
        }
    }
}
