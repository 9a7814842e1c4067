//! Programs and libraries at a fixed release: found on this machine, or fetched from PyPI into the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{line_of, run, target};

/// Program that a task needs.
pub struct Tool {
    /// Name of the program.
    pub name: &'static str,
    /// Release that the task was written for.
    pub release: &'static str,
    /// Package on PyPI.
    pub package: &'static str,
    /// Arguments with which it prints its name and release.
    pub version: &'static [&'static str],
}

impl Tool {
    /// Returns the path of the program, after it was fetched if it was missing.
    pub fn path(&self, root: &Path) -> Result<PathBuf> {
        let Tool { name, release, package, .. } = self;
        let place = target(root)?.join(format!("{}-{release}", name.trim_start_matches("cargo-")));
        let fetched = place.join("bin").join(name);
        if let Some(there) = [PathBuf::from(name), fetched.clone()].into_iter().find(|path| self.is_at(path)) {
            return Ok(there);
        }
        let installed = install(package, release, &place);
        if installed.is_ok() && self.is_at(&fetched) {
            return Ok(fetched);
        }
        let what = installed.err().unwrap_or_else(|| format!("{} is not {name} {release}", fetched.display()));
        Err(format!("{what}\n{name} {release} is needed\n  → cargo install --locked {name}@{release}"))
    }

    /// Returns whether this release is at `path`.
    fn is_at(&self, path: &Path) -> bool {
        let said = line_of(Command::new(path).args(self.version)).unwrap_or_default();
        let release = said.lines().next().and_then(|line| line.split(' ').nth(1));
        release.is_some_and(|release| release.trim_start_matches('v') == self.release)
    }
}

/// Python library that tests import.
pub struct Library {
    /// Package on PyPI, and name of the module.
    pub package: &'static str,
    /// Release that the tests were written for.
    pub release: &'static str,
}

impl Library {
    /// Returns the directory for `PYTHONPATH`, after the library was fetched if it was missing.
    pub fn place(&self, root: &Path) -> Result<PathBuf> {
        let Self { package, release } = self;
        let place = target(root)?.join(format!("python-{package}-{release}"));
        let import = format!("import {package}");
        let imported = || line_of(Command::new("python3").args(["-c", import.as_str()]).env("PYTHONPATH", &place));
        if imported().is_err() {
            install(package, release, &place)?;
            imported()?;
        }
        Ok(place)
    }
}

/// Installs a package of PyPI into a directory.
fn install(package: &str, release: &str, place: &Path) -> Result {
    // With `--upgrade` it also replaces a half of it that an interrupted run has left.
    let pip =
        "-m pip install --quiet --upgrade --no-deps --disable-pip-version-check --root-user-action=ignore --target";
    run(Command::new("python3").args(pip.split(' ')).arg(place).arg(format!("{package}=={release}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_release_that_was_asked_for_is_found() {
        let of = |said: &'static [&'static str]| Tool { name: "x", release: "1.2.3", package: "x", version: said };
        assert!(of(&["x v1.2.3"]).is_at(Path::new("echo")));
        assert!(of(&["x 1.2.3 (a date)"]).is_at(Path::new("echo")));
        assert!(!of(&["x 1.2.30"]).is_at(Path::new("echo")));
        assert!(!of(&["x 1.2.3"]).is_at(Path::new("/nowhere/x")));
    }
}
