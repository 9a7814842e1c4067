//! Kinds of changes that a power cut can lose, and the settings of a store that protect one kind.

crate::words! {
    /// Kind of an unsynced change, by the use of its file.
    pub enum WriteKind {
        /// A log that is read at a restart, or a rollback journal.
        Log = "log",
        /// Contents of a data file that replace durable contents.
        DataPages = "data pages",
        /// Contents of a data file that replace none.
        NewData = "new data",
        /// A name of a file or directory: created, renamed or removed.
        Names = "names",
        /// Sizes and attributes of files, and blocks of a file system that belong to no file.
        FileSystem = "file system",
        /// Contents of all other files.
        Other = "other",
    }
}

/// Settings that protect a store's data pages, and a load under which such pages are often on their way.
#[derive(Debug, Clone, Copy)]
pub struct PageGuard {
    /// Parameter of the store that has the settings.
    pub param: &'static str,
    /// Returns the protecting settings that a value of the parameter names, as `NAME=VALUE`.
    pub named: fn(&str) -> Vec<String>,
    /// Parameters, with their values in plans, under which pages leave memory all the time. A value for
    /// [`PageGuard::param`] is added to the given one.
    pub busy: &'static [(&'static str, &'static str)],
    /// Number of records that do not fit into memory then; empty for the default.
    pub records: &'static str,
}

/// Returns the settings of `text`, `NAME=VALUE` between blanks or commas, that have one of `names`. A name is compared
/// without regard to case, `-` and `_`.
pub fn settings_named(text: &str, names: &[&str]) -> Vec<String> {
    let pieces: Vec<&str> = text.split('=').map(str::trim).collect();
    // A blank around `=` is permitted.
    let text = pieces.join("=");
    let is_named = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default().trim_start_matches('-').replace('-', "_");
        word.contains('=') && names.iter().any(|known| known.eq_ignore_ascii_case(&name))
    };
    text.split([' ', '\t', '\n', ',']).filter(is_named).map(ToOwned::to_owned).collect()
}

/// Returns [`WriteKind::Other`], whatever the file is: for stores without files of their own.
pub(crate) fn any_file(_path: &str) -> WriteKind {
    WriteKind::Other
}

#[cfg(test)]
mod tests {
    use super::settings_named;

    #[test]
    fn settings_are_found_by_name_however_they_are_written() {
        let found = |text| settings_named(text, &["full_page_writes", "innodb_doublewrite"]);
        assert_eq!(found("fsync=off full_page_writes = off"), ["full_page_writes=off"]);
        assert_eq!(found("--innodb-doublewrite=OFF,a=b"), ["--innodb-doublewrite=OFF"]);
        assert_eq!(found("full_page_writes_not=on wal=full_page_writes"), [""; 0]);
    }
}
