//! `cargo xtask gate`: whether HEAD was proved by a green run of `.ci/run`, which is run if not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{line_of, run};

/// Reports that HEAD was proved, or runs `.ci/run`. With `--mark`, the last line of `.ci/run`, records that HEAD is
/// proved.
pub fn gate(root: &Path, arguments: &[String]) -> Result {
    let git = |arguments: &[&str]| line_of(Command::new("git").args(arguments).current_dir(root));
    let (commit, tree) = (git(&["rev-parse", "HEAD"])?, git(&["rev-parse", "HEAD^{tree}"])?);
    let changes = git(&["status", "--porcelain"])?;
    match arguments {
        [only] if only == "--mark" => {
            if !changes.is_empty() {
                println!("green, and not marked: the work tree differs from HEAD\n{changes}");
                return Ok(());
            }
            let path = mark(root);
            let written = std::fs::create_dir_all(root.join("target"))
                .and_then(|()| std::fs::write(&path, format!("{commit} {tree}\n")));
            written.map_err(|error| format!("{}: {error}", path.display()))?;
            println!("proved: {commit}");
            Ok(())
        }
        [] => {
            let known = std::fs::read_to_string(mark(root)).unwrap_or_default();
            if known.trim_end().ends_with(&tree) && changes.is_empty() {
                println!("proved: {commit}, by {}", mark(root).display());
                return Ok(());
            }
            if !changes.is_empty() {
                println!("the work tree differs from HEAD, so this proves files that are not committed\n{changes}");
            }
            run(Command::new(root.join(".ci/run")).current_dir(root))
        }
        _ => Err("cargo xtask gate: say whether HEAD was proved, and run .ci/run if not".to_owned()),
    }
}

/// Returns the commit that was proved last.
pub fn proved(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(mark(root)).ok()?;
    text.split_once(' ').map(|(commit, _)| commit.to_owned())
}

fn mark(root: &Path) -> PathBuf {
    root.join("target/gate")
}
