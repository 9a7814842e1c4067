//! Directory trees: their size and their removal.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::Path;

use plimsoll_core::StoreError;

/// Removes a file, or a directory with its contents. A missing path is not an error.
///
/// # Errors
/// Errors of the operating system.
pub fn remove_tree(path: &Path) -> Result<(), StoreError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io(path.display(), &error)),
        _ => Ok(()),
    }
}

/// Sums `of` over all files of a tree; `None` if the tree cannot be read.
pub fn tree_bytes(dir: &Path, of: fn(&Metadata) -> u64) -> Option<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        // A file that the server removes meanwhile does not count.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { tree_bytes(&entry.path(), of)? } else { of(&metadata) };
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
        assert_eq!(tree_bytes(dir.path(), Metadata::len), Some(7));
        assert_eq!(tree_bytes(&dir.path().join("none"), Metadata::len), None);
    }
}
