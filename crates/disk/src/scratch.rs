//! A directory of our own, in which everything is written. It is removed with all that is in it at the end; what a killed
//! process left is removed by the next one in the same place.
//!
//! Who uses a directory holds a lock on it (flock(2)), which the kernel takes away at any end of the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::at;

/// Prefix of the names of directories for measurements.
const PREFIX: &str = "plimsoll-sync-";
/// Attempts to create a directory while another process removes stale ones.
const TRIES: u32 = 8;

/// The directory. Dropping removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Holds the lock.
    handle: File,
}

impl Scratch {
    /// Removes what killed processes left in `parent`, and makes a directory there.
    pub fn new(parent: &Path) -> Result<Self, StoreError> {
        Self::named(parent, PREFIX)
    }

    /// Makes a directory as `new`, with a name that begins with `prefix`.
    pub(crate) fn named(parent: &Path, prefix: &str) -> Result<Self, StoreError> {
        sweep(parent, prefix, &|_| ());
        Self::make(parent, prefix)
    }

    /// Makes a directory in `parent` whose name begins with `prefix`.
    pub fn make(parent: &Path, prefix: &str) -> Result<Self, StoreError> {
        let about = at(parent.display(), fs::metadata(parent))
            .map_err(|error| error.or_next("name a directory that exists: its disk is measured"))?;
        if !about.is_dir() {
            return Err(StoreError::usage(format!("{} is not a directory", parent.display()))
                .next("name the directory that is to be measured"));
        }
        for number in 0..TRIES {
            let path = parent.join(format!("{prefix}{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                // A process of the same number, in another container, is at it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let what = format!("{}: this file system takes no new directories", parent.display());
                    return Err(StoreError::usage(what).next("name a directory on a disk"));
                }
                made => at(path.display(), made)?,
            }
            // In between, another process may have considered it stale and removed it.
            if let Some(handle) = hold(&path) {
                return Ok(Self { path, handle });
            }
        }
        Err(StoreError::broken(format!("{}: no directory could be made and locked there", parent.display()))
            .next("name a directory on a file system that has locks (flock)"))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, open, to flush it.
    pub(crate) fn handle(&self) -> &File {
        &self.handle
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is left to the next run.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Opens and locks the directory at `path`; returns `None` if another process holds it, or if it is gone.
fn hold(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let handle = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    flock(&handle, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (held, there) = (handle.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    ((held.dev(), held.ino()) == (there.dev(), there.ino())).then_some(handle)
}

/// Removes directories in `parent` whose process is gone, each after `before`.
pub fn sweep(parent: &Path, prefix: &str, before: &dyn Fn(&Path)) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix))
            && let Some(_held) = hold(&entry.path())
        {
            before(&entry.path());
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
