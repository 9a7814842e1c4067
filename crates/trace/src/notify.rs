//! Use of the files in a directory and below it, by any process, from the kernel's events (inotify(7)).
//!
//! The kernel makes one event of several that are alike and directly follow one another, so counts are lower bounds; and it
//! tells neither bytes nor syncs. Mapped memory is not seen.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::TraceError;
use crate::files::FilesSeen;

/// Most directories that are watched.
const DIRECTORIES_MAX: usize = 100_000;

/// Watches a directory, until it is dropped. It has to be read often enough: the kernel keeps 16,384 events.
pub struct DirectoryWatch {
    events: OwnedFd,
    /// Directories by their watch.
    directories: BTreeMap<i32, PathBuf>,
    seen: FilesSeen,
}

impl DirectoryWatch {
    /// Begins to watch `directory` and all below it.
    ///
    /// # Errors
    /// It is no directory, may not be read, or there are too many below it.
    pub fn start(directory: &Path) -> Result<Self, TraceError> {
        let failed = |source: std::io::Error| TraceError::Directory { path: directory.display().to_string(), source };
        let directory = directory.canonicalize().map_err(failed)?;
        let events =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        let mut watch = Self { events, directories: BTreeMap::new(), seen: FilesSeen::default() };
        std::fs::read_dir(&directory).map_err(failed)?;
        watch.add(&directory)?;
        Ok(watch)
    }

    /// Watches `directory` and all below it. Directories that disappear meanwhile are not watched.
    fn add(&mut self, directory: &Path) -> Result<(), TraceError> {
        let mut queue = vec![directory.to_owned()];
        while let Some(directory) = queue.pop() {
            if self.directories.len() >= DIRECTORIES_MAX {
                self.seen.lost += 1;
                return Ok(());
            }
            let wanted = WatchFlags::ACCESS
                | WatchFlags::MODIFY
                | WatchFlags::OPEN
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::CLOSE_NOWRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            match inotify::add_watch(&self.events, &directory, wanted) {
                Ok(watch) => drop(self.directories.insert(watch, directory.clone())),
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => {
                    return Err(TraceError::Directory { path: directory.display().to_string(), source: error.into() });
                }
            }
            let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            queue.extend(entries.filter(is_directory).map(|entry| entry.path()));
        }
        Ok(())
    }

    /// Returns the number of watched directories.
    pub fn directories(&self) -> usize {
        self.directories.len()
    }

    /// Counts what happened since, and says what was seen so far.
    ///
    /// # Errors
    /// A directory that was made meanwhile cannot be watched.
    pub fn read(&mut self) -> Result<&FilesSeen, TraceError> {
        let mut made = Vec::new();
        let mut room = [MaybeUninit::uninit(); 64 << 10];
        let mut reader = inotify::Reader::new(&self.events, &mut room);
        while let Ok(event) = reader.next() {
            let is = |flag| event.events().contains(flag);
            if is(ReadFlags::QUEUE_OVERFLOW) {
                self.seen.lost += 1;
                continue;
            }
            let Some(directory) = self.directories.get(&event.wd()) else { continue };
            if is(ReadFlags::IGNORED) {
                self.directories.remove(&event.wd());
                continue;
            }
            use std::os::unix::ffi::OsStrExt;
            let Some(name) = event.file_name() else { continue };
            let path = directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if is(ReadFlags::ISDIR) {
                if is(ReadFlags::CREATE) || is(ReadFlags::MOVED_TO) {
                    made.push(path);
                }
                continue;
            }
            let Some(file) = self.seen.at(&path) else { continue };
            file.opens += u64::from(is(ReadFlags::OPEN));
            file.reads += u64::from(is(ReadFlags::ACCESS));
            file.writes += u64::from(is(ReadFlags::MODIFY));
            file.closes += u64::from(is(ReadFlags::CLOSE_WRITE) || is(ReadFlags::CLOSE_NOWRITE));
            file.creates += u64::from(is(ReadFlags::CREATE));
            file.deletes += u64::from(is(ReadFlags::DELETE));
            file.renames += u64::from(is(ReadFlags::MOVED_FROM) || is(ReadFlags::MOVED_TO));
        }
        made.iter().try_for_each(|directory| self.add(directory))?;
        Ok(&self.seen)
    }
}
