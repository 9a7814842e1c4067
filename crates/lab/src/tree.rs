//! How much a directory tree holds.

use std::path::Path;

/// Bytes of all files of a tree; `None` where it cannot be read.
pub fn tree_bytes(dir: &Path) -> Option<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        // A file that the server removes meanwhile counts nothing.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { tree_bytes(&entry.path())? } else { metadata.len() };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_count_and_what_is_not_there_has_no_size() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("one"), [0; 3]).unwrap();
        std::fs::write(dir.path().join("a/b/two"), [0; 4]).unwrap();
        assert_eq!(tree_bytes(dir.path()), Some(7));
        assert_eq!(tree_bytes(&dir.path().join("none")), None);
    }
}
