//! Dropping a store's own files from the page cache, and counting their resident pages.
//!
//! Only the files of one directory tree are dropped from the page cache, never the system's.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of a file that are mapped and checked at a time; a multiple of every page size.
const WINDOW_BYTES: u64 = 1 << 30;

/// Share of a directory tree's files that is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCache {
    /// Total length of the files.
    pub file_bytes: u64,
    /// Bytes of the files that are in the page cache, in whole pages.
    pub resident_bytes: u64,
}

impl PageCache {
    fn add(&mut self, other: Self) {
        self.file_bytes += other.file_bytes;
        self.resident_bytes += other.resident_bytes;
    }
}

/// Writes every regular file under `root` to its device, drops it from the page cache, and counts what stayed.
///
/// Pages stay if a process has them mapped, if they were written again meanwhile, or if the file system is in the page
/// cache (tmpfs): the figure shows this. Symbolic links are not followed; files that disappear meanwhile are left out.
///
/// # Errors
/// The path of the first directory that cannot be listed, or file that cannot be read, synced or mapped.
pub fn drop_files(root: &Path) -> io::Result<PageCache> {
    let mut found = PageCache::default();
    // The kernel keeps a page that is in use at that moment; its own threads release theirs soon.
    let mut further_tries = 20;
    for_each_file(root, &mut |file| {
        rustix::fs::fdatasync(file)?;
        let left = loop {
            rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
            let left = count(file)?;
            if left.resident_bytes == 0 || further_tries == 0 {
                break left;
            }
            further_tries -= 1;
            std::thread::sleep(Duration::from_millis(10));
        };
        found.add(left);
        Ok(())
    })?;
    Ok(found)
}

/// Counts, without changing anything, how much of the regular files under `root` stands in the page cache.
///
/// The kernel reports this for files that the caller owns or may write, and counts all pages of others as resident.
///
/// # Errors
/// As [`drop_files`].
pub fn resident(root: &Path) -> io::Result<PageCache> {
    let mut found = PageCache::default();
    for_each_file(root, &mut |file| {
        found.add(count(file)?);
        Ok(())
    })?;
    Ok(found)
}

fn for_each_file(path: &Path, visit: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let metadata = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(at)?,
    };
    if metadata.is_dir() {
        let entries = match path.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(at)?,
        };
        for entry in entries {
            for_each_file(&entry.map_err(at)?.path(), visit)?;
        }
        return Ok(());
    }
    if !metadata.is_file() {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(at(error.into())),
        Ok(file) => visit(&File::from(file)).map_err(at),
    }
}

/// Returns the length of `file` and its resident bytes.
fn count(file: &File) -> io::Result<PageCache> {
    let page_bytes = rustix::param::page_size() as u64;
    let file_bytes = file.metadata()?.len();
    let mut found = PageCache { file_bytes, resident_bytes: 0 };
    let mut offset = 0;
    let mut pages = Vec::new();
    while offset < file_bytes {
        let window_bytes = WINDOW_BYTES.min(file_bytes - offset);
        pages.resize(window_bytes.div_ceil(page_bytes) as usize, 0u8);
        ask_pages(file, offset, window_bytes as usize, &mut pages)?;
        found.resident_bytes += pages.iter().filter(|page| **page & 1 == 1).count() as u64 * page_bytes;
        offset += window_bytes;
    }
    Ok(found)
}

/// Sets the lowest bit of each of `pages` for the resident pages of a part of `file`.
fn ask_pages(file: impl AsFd, offset: u64, length: usize, pages: &mut [u8]) -> io::Result<()> {
    // SAFETY: a new mapping at an address of the kernel's choice; it is never read (the file may shrink, and a read
    // would then kill this process), only queried, and unmapped below.
    let start =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
    // SAFETY: start and length are those of the mapping above, and `pages` has one byte for each of its pages.
    let answer = match unsafe { libc::mincore(start, length, pages.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the mapping above, which nothing refers to.
    unsafe { rustix::mm::munmap(start, length)? };
    answer
}
