//! Questions to git about the repository.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::line_of;

/// Returns what `git` with `arguments` prints in `root`.
pub fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    line_of(Command::new("git").args(arguments).current_dir(root))
}

/// Returns the full name of the commit `name`. Fails if there is none.
pub fn commit(root: &Path, name: &str) -> Result<String> {
    git(root, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
}

/// Returns the names of a list that ends each with a zero byte, as `-z` prints it.
pub fn names(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split('\0').filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
pub mod example {
    use super::*;

    /// A repository whose branch `main` has one commit with these files.
    pub fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        git(root.path(), &["init", "--quiet", "--initial-branch=main"]).unwrap();
        change(root.path(), files);
        root
    }

    /// Writes these files and commits all.
    pub fn change(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(root, &["add", "--all"]).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false"];
        git(root, &[&who[..], &["commit", "--quiet", "--message", "A change"]].concat()).unwrap();
    }
}
