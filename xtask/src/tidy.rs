//! `cargo xtask tidy`: rules of the house that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

mod crate_graph;
mod files;
pub mod links;
#[cfg(test)]
mod new_store;
mod prose;
mod rust_text;
mod store_list;
mod store_names;
mod words;

/// Lists the places that the language budget counts, of all areas or of one.
pub fn list_prose(root: &Path, area: Option<&str>) -> Result {
    prose::list(root, &files_below(root)?, area)
}

/// Checks everything and says all that is wrong, one a line.
pub fn tidy(root: &Path) -> Result {
    let files = files_below(root)?;
    let mut wrong = Vec::new();
    crate_graph::check(root, &files, &mut wrong)?;
    store_list::check(root, &mut wrong)?;
    store_names::check(root, &files, &mut wrong)?;
    files::check(root, &files, &mut wrong)?;
    links::check(root, &files, &mut wrong)?;
    prose::check(root, &files, &mut wrong)?;
    words::check(root, &mut wrong)?;
    if wrong.is_empty() {
        println!("tidy: {} files, nothing wrong", files.len());
        return Ok(());
    }
    Err(wrong.join("\n"))
}

/// All files of the repository, relative to `root`, in order; neither what is built nor what is hidden,
/// but for `.ci` and `.github`.
fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let at = |error: std::io::Error| format!("{}: {error}", root.join(&directory).display());
        for entry in fs::read_dir(root.join(&directory)).map_err(at)? {
            let entry = entry.map_err(at)?;
            let path = directory.join(entry.file_name());
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = entry.file_type().map_err(at)?;
            let ours = (!name.starts_with('.') || name == ".ci" || name == ".github") && name != "target";
            if kind.is_dir() && ours {
                directories.push(path);
            } else if kind.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The text of a file of the repository.
fn read(root: &Path, file: impl AsRef<Path>) -> Result<String> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A repository with these files.
    pub fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Returns what `check` refuses in a repository with these files.
    pub fn refused(check: fn(&Path, &[PathBuf], &mut Vec<String>) -> Result, files: &[(&str, &str)]) -> Vec<String> {
        let root = repository(files);
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let mut wrong = Vec::new();
        check(root.path(), &paths, &mut wrong).unwrap();
        wrong
    }

    #[test]
    fn what_is_built_and_what_is_hidden_is_not_looked_at() {
        let root = repository(&[
            ("b/a.rs", ""),
            ("a.md", ""),
            (".ci/run", ""),
            (".git/x.md", ""),
            ("target/x.rs", ""),
            ("fuzz/target/x.rs", ""),
        ]);
        let files = files_below(root.path()).unwrap();
        assert_eq!(files, [".ci/run", "a.md", "b/a.rs"].map(PathBuf::from));
    }
}
