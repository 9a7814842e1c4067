//! `cargo xtask gate`: whether HEAD was proved by a green run of `.ci/run`, which is run if not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::git::git;
use crate::process::{building, run};

/// Commit and tree of HEAD, and the changes of the work tree.
struct Head {
    commit: String,
    tree: String,
    changes: String,
}

impl Head {
    fn read(root: &Path) -> Result<Self> {
        let (commit, tree) = (git(root, &["rev-parse", "HEAD"])?, git(root, &["rev-parse", "HEAD^{tree}"])?);
        // New files too, which the user's configuration may hide.
        let hides_nothing = "core.excludesFile=/dev/null";
        let changes = git(root, &["-c", hides_nothing, "status", "--porcelain", "--untracked-files=normal"])?;
        Ok(Self { commit, tree, changes })
    }

    /// All of it as text, to be compared with that of another time.
    fn state(&self) -> String {
        format!("{} {}\n{}", self.commit, self.tree, self.changes)
    }
}

/// Reports that HEAD was proved, or runs `.ci/run`.
pub fn gate(root: &Path) -> Result {
    let Head { commit, tree, changes } = Head::read(root)?;
    let path = path(root);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    if known.trim_end().ends_with(&tree) && changes.is_empty() {
        println!("proved: {commit}, by {}", path.display());
        return Ok(());
    }
    if !changes.is_empty() {
        println!("the work tree differs from HEAD, so this proves files that are not committed\n{changes}");
    }
    run(building(Command::new(root.join(".ci/run"))).current_dir(root))
}

/// Prints the state of HEAD and the work tree. The first line of `.ci/run` keeps it for [`mark`].
pub fn begin(root: &Path) -> Result {
    println!("{}", Head::read(root)?.state());
    Ok(())
}

/// Records that HEAD is proved, if the work tree is HEAD's and both are still as [`begin`] printed. The last line of
/// `.ci/run` calls it.
pub fn mark(root: &Path, begun: &str) -> Result {
    let head = Head::read(root)?;
    if !head.changes.is_empty() {
        println!("green, and not marked: the work tree differs from HEAD\n{}", head.changes);
        return Ok(());
    }
    if begun.trim_end() != head.state().trim_end() {
        println!("green, and not marked: HEAD or the work tree was another one when this run began\n{begun}");
        return Ok(());
    }
    let path = path(root);
    let made = std::fs::create_dir_all(root.join("target"));
    let written = made.and_then(|()| std::fs::write(&path, format!("{} {}\n", head.commit, head.tree)));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    println!("proved: {}", head.commit);
    Ok(())
}

/// Returns the commit that was proved last.
pub fn proved(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path(root)).ok()?;
    text.split_once(' ').map(|(commit, _)| commit.to_owned())
}

fn path(root: &Path) -> PathBuf {
    root.join("target/gate")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::example::{change, repository};

    #[test]
    fn only_what_the_run_began_with_is_marked() {
        let root = repository(&[(".gitignore", "/target\n"), ("a", "1")]);
        let root = root.path();
        let state = || Head::read(root).unwrap().state();
        let marks = |begun: &str| {
            mark(root, begun).unwrap();
            proved(root)
        };
        let first = state();
        change(root, &[("a", "2")]);
        assert_eq!(marks(&first), None, "committed meanwhile");
        std::fs::write(root.join("a"), "3").unwrap();
        let dirty = state();
        assert_eq!(marks(&dirty), None, "not committed");
        change(root, &[]);
        assert_eq!(marks(&dirty), None, "committed meanwhile, as it was");
        // As the shell passes it on.
        assert_eq!(marks(state().trim_end()), Some(git(root, &["rev-parse", "HEAD"]).unwrap()));
        gate(root).unwrap();
        git(root, &["config", "status.showUntrackedFiles", "no"]).unwrap();
        std::fs::write(root.join("target/hidden"), "*\n").unwrap();
        git(root, &["config", "core.excludesFile", &root.join("target/hidden").to_string_lossy()]).unwrap();
        std::fs::write(root.join("b"), "new").unwrap();
        assert!(gate(root).is_err(), "there is no .ci/run here");
    }
}
