//! `cargo xtask bench` and `cargo xtask peers`: build the package in `bench/` in release mode, outside the workspace, and run it.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{cargo, output, run};

/// Runs `bench/` with `words`. Its dependencies have the workspace's versions.
pub fn bench(root: &Path, words: &[&str], arguments: &[String]) -> Result {
    let package = root.join("bench");
    let locked = std::fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"));
    locked.map_err(|error| format!("{}/Cargo.lock: {error}", package.display()))?;
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude", "*"]).current_dir(root);
    // Sources without a repository can be measured too.
    let commit = output(&mut git).map_or_else(|_| "unknown".to_owned(), |commit| commit.trim().to_owned());
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--manifest-path"]).arg(package.join("Cargo.toml")).arg("--");
    run(command.args(words).args(arguments).env("PLIMSOLL_COMMIT", commit))
}
