//! Files and directories that the kernel, or what is not durable, refers to: a descriptor each, so that no name is needed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// A file or directory of those below.
#[derive(Debug)]
pub(crate) struct FileNode {
    /// Inode number in the file system below.
    pub(crate) ino: u64,
    pub(crate) kind: FileType,
    /// Opened with O_PATH.
    fd: OwnedFd,
    /// Descriptor of a regular file's contents; opened at the first use.
    data: OnceLock<File>,
    /// Number of its links that are hidden names, for removed ones that may come back.
    pub(crate) hidden: AtomicU64,
    /// Durably without a name: nothing of it can be lost any more.
    pub(crate) is_gone: AtomicBool,
}

impl FileNode {
    fn of(fd: OwnedFd, stat: &Stat) -> Self {
        Self {
            ino: stat.st_ino,
            kind: FileType::from_raw_mode(stat.st_mode),
            fd,
            data: OnceLock::new(),
            hidden: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// A path to it for calls that take no descriptor of O_PATH.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Returns the attributes, without hidden links.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        let mut stat = rustix::fs::fstat(&self.fd)?;
        if !self.is_dir() {
            stat.st_nlink = stat.st_nlink.saturating_sub(self.hidden.load(Ordering::Relaxed) as _);
        }
        Ok(stat)
    }

    /// Returns the descriptor that reads and writes it.
    pub(crate) fn data(&self) -> Result<&File, Errno> {
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        if self.kind != FileType::RegularFile {
            return Err(if self.is_dir() { Errno::ISDIR } else { Errno::INVAL });
        }
        let opened = rustix::fs::open(self.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.data.get_or_init(|| File::from(opened)))
    }

    /// Reads up to the end of the file; how much that was.
    pub(crate) fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let data = self.data()?;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match data.read_at(rest, offset + done as u64)? {
                0 => break,
                more => done += more,
            }
        }
        Ok(done)
    }

    /// Syncs the file below to its disk.
    pub(crate) fn sync(&self, is_data_only: bool) -> Result<(), Errno> {
        if self.is_dir() {
            return rustix::fs::fsync(self.directory()?);
        }
        let file = self.data()?;
        if is_data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }
    }

    /// Opens the directory for listing.
    pub(crate) fn directory(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(self.fd(), ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Returns true if the directory is empty.
    pub(crate) fn is_empty(&self) -> Result<bool, Errno> {
        for entry in rustix::fs::Dir::new(self.directory()?)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Known nodes, by their numbers.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) root: Arc<FileNode>,
    /// Nodes, with the number of the kernel's look-ups of each.
    known: HashMap<u64, (Arc<FileNode>, u64)>,
    device: u64,
}

impl Nodes {
    pub(crate) fn new(root: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&root)?;
        Ok(Self { root: Arc::new(FileNode::of(root, &stat)), known: HashMap::new(), device: stat.st_dev })
    }

    pub(crate) fn get(&self, ino: u64) -> Result<Arc<FileNode>, Errno> {
        if ino == self.root.ino {
            return Ok(Arc::clone(&self.root));
        }
        self.known.get(&ino).map(|(node, _)| Arc::clone(node)).ok_or(Errno::STALE)
    }

    pub(crate) fn at(&mut self, directory: &FileNode, name: &OsStr) -> Result<Arc<FileNode>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(directory.fd(), name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_dev != self.device {
            // What is mounted below has numbers of its own.
            return Err(Errno::XDEV);
        }
        if stat.st_ino == self.root.ino {
            return Ok(Arc::clone(&self.root));
        }
        let (node, _) = self.known.entry(stat.st_ino).or_insert_with(|| (Arc::new(FileNode::of(fd, &stat)), 0));
        Ok(Arc::clone(node))
    }

    /// The kernel knows it once more.
    pub(crate) fn looked_up(&mut self, ino: u64) {
        if let Some((_, count)) = self.known.get_mut(&ino) {
            *count += 1;
        }
    }

    /// The kernel has forgotten it so often.
    pub(crate) fn forget(&mut self, ino: u64, times: u64) {
        if let Some((_, count)) = self.known.get_mut(&ino) {
            *count = count.saturating_sub(times);
        }
        self.let_go(ino);
    }

    /// Closes the node if there is no reference to it any more.
    pub(crate) fn let_go(&mut self, ino: u64) {
        if self.known.get(&ino).is_some_and(|(node, count)| *count == 0 && Arc::strong_count(node) == 1) {
            self.known.remove(&ino);
        }
    }

    /// Removes all nodes: nothing is mounted, and nothing is to be undone.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

/// The attributes of a name, whatever it is of.
pub(crate) fn stat_at(directory: &FileNode, name: &OsStr) -> Result<Stat, Errno> {
    rustix::fs::statat(directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW)
}
