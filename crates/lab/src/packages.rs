//! Programs that servers consist of, and the Debian packages that contain them.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use plimsoll_core::{StoreError, StoreErrorKind};

/// Directories in which programs are looked for; also the `PATH` of everything started here.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program that a server needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// File name.
    pub name: &'static str,
    /// Directories searched before those of [`SYSTEM_PATH`]. A component `*` stands for any name; the one with the
    /// highest numbers is tried first.
    pub directories: &'static [&'static str],
    /// Debian package that contains the program.
    pub package: &'static str,
}

impl Program {
    /// Returns the program's path.
    ///
    /// # Errors
    /// `Missing`, with the command that installs it.
    pub fn find(&self) -> Result<PathBuf, StoreError> {
        let own = self.directories.iter().flat_map(|directory| expand(Path::new(directory)));
        own.chain(SYSTEM_PATH.split(':').map(PathBuf::from))
            .map(|directory| directory.join(self.name))
            .find(|path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
            .ok_or_else(|| {
                let looked = [self.directories.join(", "), SYSTEM_PATH.to_owned()].join(", ");
                StoreError::new(StoreErrorKind::Missing, format!("{} is not installed", self.name))
                    .detail(format!("looked in {}", looked.trim_start_matches(", ")))
                    .next(format!("apt-get install {}", self.package))
            })
    }
}

/// Returns all directories that match `pattern`, those with the highest numbers first.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        if component.as_os_str() != "*" {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let entries = found.iter().filter_map(|path| path.read_dir().ok()).flatten().flatten();
        found = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    }
    found.sort_by_key(|path| Reverse(numbers(path)));
    found
}

/// Returns the numbers in a path, in order, so that 15 sorts after 9 and 9.6 after 9.5.
fn numbers(path: &Path) -> Vec<u64> {
    let text = path.to_string_lossy();
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "9.5", "17"] {
            std::fs::create_dir_all(root.path().join(version).join("bin")).unwrap();
        }
        std::fs::write(root.path().join("18"), "a file is no version").unwrap();
        let pattern = root.path().join("*/bin");
        let names: Vec<_> =
            expand(&pattern).iter().map(|path| path.strip_prefix(root.path()).unwrap().to_owned()).collect();
        assert_eq!(names, ["17/bin", "15/bin", "9.6/bin", "9.5/bin"].map(PathBuf::from));
    }

    #[test]
    fn a_program_is_found_on_the_system_path() {
        let shell = Program { name: "sh", directories: &["/nowhere/*/bin"], package: "dash" }.find().unwrap();
        assert!(shell.ends_with("sh"));
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let program = Program { name: "no-such-program", directories: &["/usr/lib/nosuch/*/bin"], package: "nosuch" };
        let error = program.find().unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Missing);
        assert_eq!(error.what, "no-such-program is not installed");
        assert!(error.detail.unwrap().contains("/usr/lib/nosuch/*/bin"));
        assert_eq!(error.next.as_deref(), Some("apt-get install nosuch"));
    }
}
