//! Writes that a cut can lose, by the files that contain them: of a directory by its files, of a device by the extents of
//! the files on it (FIEMAP, Documentation/filesystems/fiemap.rst of Linux).

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use plimsoll_core::FileSystem;

use crate::control::Control;
use crate::counters::{SECTOR_BYTES, UnsyncedFile};
use crate::device::MOUNT;
use crate::error::FaultError;

/// Writes at risk at a cut, by file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilesAtRisk {
    /// The files. A write of a device that spans several files counts for each.
    pub files: Vec<UnsyncedFile>,
    /// Changes to names; of a device they are among `elsewhere`.
    pub names: u64,
    /// Sizes and attributes; of a device writes to blocks that belong to no file.
    pub elsewhere: u64,
}

/// Write to a device that no flush has made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnflushedWrite {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) replaces: bool,
}

impl fmt::Display for UnflushedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.first, self.end, u8::from(self.replaces))
    }
}

impl UnflushedWrite {
    fn of_answer(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (first, end, replaces) = (words.next()?, words.next()?, words.next()?);
        Some(Self { first: first.parse().ok()?, end: end.parse().ok()?, replaces: replaces == "1" })
    }
}

impl UnsyncedFile {
    /// Writes the file as five words of an answer.
    pub(crate) fn answer(&self) -> String {
        let Self { path, bytes, age, writes, replaces } = self;
        format!("{bytes}\t{}\t{writes}\t{}\t{}", age.as_nanos(), u8::from(*replaces), path.escape_debug())
    }

    pub(crate) fn of_answer(words: &[&str]) -> Option<Self> {
        let [bytes, age_ns, writes, replaces, path] = words else { return None };
        Some(Self {
            path: (*path).to_owned(),
            bytes: bytes.parse().ok()?,
            age: Duration::from_nanos(age_ns.parse().ok()?),
            writes: writes.parse().ok()?,
            replaces: *replaces == "1",
        })
    }
}

impl Control {
    /// Returns the writes at risk at the cut that has happened, by file. Call it before the power cycle: a device is
    /// searched through its mount. Returns `None` on a file system that does not report positions on its device.
    ///
    /// # Errors
    /// If the daemon does not answer, or the mount cannot be read.
    pub fn files_at_risk(&self) -> Result<Option<FilesAtRisk>, FaultError> {
        match self.state()?.0 {
            FileSystem::Files => self.of_directory_tree().map(Some),
            FileSystem::Ext4 | FileSystem::Xfs => {
                let answer = self.ask_now("writes")?;
                let writes = answer.split('\t').filter(|word| !word.is_empty()).map(UnflushedWrite::of_answer);
                let writes: Option<Vec<_>> = writes.collect();
                let mount = self.directory().join(MOUNT);
                let found = by_file(&mount, &writes.ok_or_else(|| self.strange(&answer))?);
                found.map(Some).map_err(FaultError::at(&mount))
            }
            // Its positions are logical ones (btrfs-inspect-internal(8)).
            FileSystem::Btrfs | FileSystem::BtrfsNoDataCow => Ok(None),
        }
    }

    fn of_directory_tree(&self) -> Result<FilesAtRisk, FaultError> {
        let files = self.files()?;
        let answer = self.ask_now("names")?;
        let names: u64 = answer.parse().map_err(|_| self.strange(&answer))?;
        let all = self.cut()?.map_or(0, |cut| cut.at_risk.writes);
        let in_files: u64 = files.iter().map(|file| file.writes).sum();
        Ok(FilesAtRisk { files, names, elsewhere: all.saturating_sub(names + in_files) })
    }
}

/// A part of a device that belongs to a file, by the file's position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileExtent {
    first: u64,
    end: u64,
    file: usize,
}

/// Assigns `writes` to the files below `mount`.
fn by_file(mount: &Path, writes: &[UnflushedWrite]) -> io::Result<FilesAtRisk> {
    let (mut files, mut extents) = (Vec::new(), Vec::new());
    list(mount, mount, &mut files, &mut extents)?;
    extents.sort_unstable();
    Ok(assigned(files, &extents, writes))
}

fn assigned(paths: Vec<String>, extents: &[FileExtent], writes: &[UnflushedWrite]) -> FilesAtRisk {
    let file = |path| UnsyncedFile { path, bytes: 0, age: Duration::ZERO, writes: 0, replaces: false };
    let mut found = FilesAtRisk { files: paths.into_iter().map(file).collect(), ..FilesAtRisk::default() };
    for write in writes {
        let from = extents.partition_point(|extent| extent.end <= write.first);
        let mut last = None;
        for extent in extents.iter().skip(from).take_while(|extent| extent.first < write.end) {
            let Some(file) = found.files.get_mut(extent.file) else { continue };
            file.bytes += (extent.end.min(write.end) - extent.first.max(write.first)) * SECTOR_BYTES;
            file.writes += u64::from(last != Some(extent.file));
            file.replaces |= write.replaces;
            last = Some(extent.file);
        }
        found.elsewhere += u64::from(last.is_none());
    }
    found.files.retain(|file| file.writes > 0);
    found
}

/// Lists the regular files of a directory, by their paths below `mount`, and their extents.
fn list(mount: &Path, directory: &Path, files: &mut Vec<String>, extents: &mut Vec<FileExtent>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            list(mount, &path, files, extents)?;
        } else if kind.is_file() {
            let file = match File::open(&path) {
                // A server that ends removes files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            extents_of(&file, files.len(), extents)?;
            files.push(path.strip_prefix(mount).unwrap_or(&path).display().to_string());
        }
    }
    Ok(())
}

/// `struct fiemap_extent` of linux/fiemap.h
#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// Extents that one request returns.
const EXTENTS_MAX: usize = 64;

/// `struct fiemap` of linux/fiemap.h, with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS_MAX],
}

/// linux/fs.h
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// Not on the device yet, compressed, or within metadata: without a position of its own.
const WITHOUT_POSITION: u32 = 0x2 | 0x4 | 0x8 | 0x200;

/// Appends the extents of `file`.
fn extents_of(file: &File, number: usize, extents: &mut Vec<FileExtent>) -> io::Result<()> {
    let mut start = 0;
    loop {
        // SAFETY: integers and arrays of them, for all of which zero is a value.
        let mut map: Fiemap = unsafe { std::mem::zeroed() };
        (map.start, map.length, map.count) = (start, u64::MAX - start, EXTENTS_MAX as u32);
        // SAFETY: the structure that FS_IOC_FIEMAP reads and writes, alive during the call; `count` is its room.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let found = map.extents.get(..map.mapped as usize).unwrap_or(&map.extents);
        for extent in found.iter().filter(|extent| extent.flags & WITHOUT_POSITION == 0) {
            let (first, end) = (extent.physical / SECTOR_BYTES, (extent.physical + extent.length) / SECTOR_BYTES);
            extents.push(FileExtent { first, end, file: number });
        }
        match found.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => start = last.logical + last.length,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_for_each_file_that_it_spans_and_elsewhere_without_one() {
        let extent = |first, end, file| FileExtent { first, end, file };
        let extents = [extent(8, 16, 0), extent(16, 24, 0), extent(24, 32, 1), extent(40, 48, 0)];
        let write = |first, end, replaces| UnflushedWrite { first, end, replaces };
        let writes = [write(0, 8, true), write(12, 28, false), write(40, 48, true), write(32, 40, false)];
        let found = assigned(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], &extents, &writes);
        let seen: Vec<_> = found
            .files
            .iter()
            .map(|file| (&*file.path, file.writes, file.bytes / SECTOR_BYTES, file.replaces))
            .collect();
        assert_eq!(seen, [("a", 2, 20, true), ("b", 1, 4, false)]);
        assert_eq!((found.elsewhere, found.names), (2, 0));
    }

    #[test]
    fn answers_are_read_again() {
        let write = UnflushedWrite { first: 7, end: 9, replaces: true };
        assert_eq!(UnflushedWrite::of_answer(&write.to_string()), Some(write));
        let age = Duration::from_nanos(5);
        let file = UnsyncedFile { path: "a b".to_owned(), bytes: 1, age, writes: 3, replaces: false };
        assert_eq!(UnsyncedFile::of_answer(&file.answer().split('\t').collect::<Vec<_>>()), Some(file));
    }
}
