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
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;

    fn write(place: &Path, name: &str, age: Duration) -> PathBuf {
        let path = place.join(name);
        fs::write(&path, "line\n").unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
        path
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// Looks for a file that continues `file`, however short the time since the last look is.
    fn appeared(directory: &mut LogDirectory, file: &Path) -> Option<PathBuf> {
        directory.looked = directory.looked.checked_sub(LOOK).unwrap();
        directory.appeared(file)
    }

    #[test]
    fn a_directory_is_followed_in_the_file_that_was_written_last_and_is_not_compressed() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), "b.log", 2 * MINUTE);
        let newest = write(place.path(), "a.log", MINUTE);
        for packed in ["c.log.gz", "c.log.xz", "c.log.bz2", "c.log.zst"] {
            write(place.path(), packed, Duration::ZERO);
        }
        write(place.path(), ".hidden", Duration::ZERO);
        assert_eq!(LogDirectory::open(place.path()).unwrap().1, newest);
        fs::remove_file(&newest).unwrap();
        fs::remove_file(place.path().join("b.log")).unwrap();
        let error = LogDirectory::open(place.path()).err().unwrap();
        assert!(error.what.ends_with("all files in this directory are compressed"), "{error:?}");
        assert!(error.next.unwrap().contains("leave --follow out"));
    }

    #[test]
    fn a_log_goes_on_in_new_files_of_its_extension_one_after_the_other() {
        let place = tempfile::tempdir().unwrap();
        let first = write(place.path(), "1.csv", MINUTE);
        let mut directory = LogDirectory::open(place.path()).unwrap().0;
        assert_eq!(appeared(&mut directory, &first), None);
        // Renamed, it is no other file.
        fs::rename(&first, place.path().join("0.csv")).unwrap();
        write(place.path(), "2.log", Duration::ZERO);
        assert_eq!(appeared(&mut directory, &first), None);
        let [third, second] = ["3.csv", "2.csv"].map(|name| write(place.path(), name, Duration::ZERO));
        directory.looked = Instant::now();
        assert_eq!(directory.appeared(&first), None, "it was looked at just now");
        assert_eq!(appeared(&mut directory, &first), Some(second.clone()));
        assert_eq!(appeared(&mut directory, &second), Some(third.clone()));
        assert_eq!(appeared(&mut directory, &third), None);
        // While a directory cannot be read there is nothing in it.
        drop(place);
        assert_eq!(appeared(&mut directory, &third), None);
    }
}
