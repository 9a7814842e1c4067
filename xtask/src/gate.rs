//! `cargo xtask gate`: whether HEAD was proved by a green run of `.ci/run`, which is run if not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{building, line_of, run};

/// Commit and tree of HEAD, and the changes of the work tree.
struct Head {
    commit: String,
    tree: String,
    changes: String,
}

impl Head {
    fn read(root: &Path) -> Result<Self> {
        let git = |arguments: &[&str]| line_of(Command::new("git").args(arguments).current_dir(root));
        let (commit, tree) = (git(&["rev-parse", "HEAD"])?, git(&["rev-parse", "HEAD^{tree}"])?);
        Ok(Self { commit, tree, changes: git(&["status", "--porcelain"])? })
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

/// Records that HEAD is proved, if the work tree is HEAD's. The last line of `.ci/run` calls it.
pub fn mark(root: &Path) -> Result {
    let Head { commit, tree, changes } = Head::read(root)?;
    if !changes.is_empty() {
        println!("green, and not marked: the work tree differs from HEAD\n{changes}");
        return Ok(());
    }
    let path = path(root);
    let made = std::fs::create_dir_all(root.join("target"));
    let written = made.and_then(|()| std::fs::write(&path, format!("{commit} {tree}\n")));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    println!("proved: {commit}");
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
