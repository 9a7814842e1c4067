//! Directory of a log that grows: a server goes on in a new file there, with another name.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::TrialError;
use crate::log_file::files;

/// Time between two looks for a new file.
const LOOK: Duration = Duration::from_secs(1);
/// Extensions of compressed files, which no server continues.
const PACKED: [&str; 4] = ["gz", "xz", "bz2", "zst"];

/// Device and number of a file.
pub(crate) type Identity = (u64, u64);

/// Files of a directory that were there before.
pub(crate) struct LogDirectory {
    path: PathBuf,
    known: BTreeSet<Identity>,
    looked: Instant,
}

impl LogDirectory {
    /// Notes the files of a directory. Returns that and the file that was written last.
    ///
    /// # Errors
    /// The directory cannot be read, or has no file in clear.
    pub(crate) fn open(path: &Path) -> Result<(Self, PathBuf), TrialError> {
        let is_packed = |file: &PathBuf| PACKED.iter().any(|packed| file.extension().is_some_and(|own| own == *packed));
        let written = |file: &PathBuf| file.metadata().and_then(|metadata| metadata.modified()).ok();
        let newest = files(path)?.into_iter().filter(|file| !is_packed(file)).max_by_key(written).ok_or_else(|| {
            TrialError::usage(format!("{}: all files in this directory are compressed", path.display()))
                .next("name a directory in which a server writes its log, or leave --follow out")
        })?;
        let known = there(path).into_iter().map(|(identity, _)| identity).collect();
        Ok((Self { path: path.to_owned(), known, looked: Instant::now() }, newest))
    }

    /// Returns a file that is new since the last look and has the extension of `file`: the first one by its name.
    pub(crate) fn appeared(&mut self, file: &Path) -> Option<PathBuf> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        let is_next = |(identity, other): &(Identity, PathBuf)| {
            !self.known.contains(identity) && other.extension() == file.extension()
        };
        let (identity, next) = there(&self.path).into_iter().filter(is_next).min_by(|a, b| a.1.cmp(&b.1))?;
        self.known.insert(identity);
        Some(next)
    }
}

/// Returns the file at a path. A pipe or a directory there is none.
pub(crate) fn regular(path: &Path) -> Option<Metadata> {
    path.metadata().ok().filter(Metadata::is_file)
}

/// Returns the device and number of a file.
pub(crate) fn identity(file: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;

    (file.dev(), file.ino())
}

/// Returns the files of a directory. While it cannot be read there are none.
fn there(directory: &Path) -> Vec<(Identity, PathBuf)> {
    let entries = directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|path| Some((identity(&regular(&path)?), path))).collect()
}

#[cfg(test)]
#[path = "log_directory_tests.rs"]
mod tests;
