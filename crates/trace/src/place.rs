//! File of a call, as far as `/proc` still shows it.

use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::call::Call;

/// Reference to a file in a call: a descriptor, an address, or the inode reported by a file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    pub(crate) pid: u32,
    pub(crate) call: Call,
    pub(crate) argument: u64,
    /// The kernel's own number of the device, for [`Call::WriteThrough`].
    pub(crate) device: u64,
}

impl Given {
    /// The file's path; `None` where it cannot be told: a process that is gone, a request of io_uring.
    pub(crate) fn path(self) -> Option<PathBuf> {
        match self.call {
            Call::Msync => mapped_at(self.pid, self.argument),
            Call::WriteThrough => self.with_inode(),
            Call::Sync | Call::UringFsync | Call::UringSyncFileRange => None,
            _ => of_descriptor(self.pid, self.argument as i32),
        }
    }

    fn with_inode(self) -> Option<PathBuf> {
        // 12 bits of major number above 20 of minor, in the kernel.
        let device = rustix::fs::makedev((self.device >> 20) as u32, (self.device & 0xf_ffff) as u32);
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).ok()?;
        let is_it = |path: &PathBuf| {
            path.metadata().is_ok_and(|meta| (meta.st_dev(), meta.st_ino()) == (device, self.argument))
        };
        let found = open.flatten().map(|entry| entry.path()).find(is_it)?;
        std::fs::read_link(found).ok()
    }
}

/// Returns the path of descriptor `fd` of process `pid`.
pub(crate) fn of_descriptor(pid: u32, fd: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()
}

/// The file that is mapped at `address`.
fn mapped_at(pid: u32, address: u64) -> Option<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let is_inside = u64::from_str_radix(from, 16).ok()? <= address && address < u64::from_str_radix(to, 16).ok()?;
        let path = rest.split_once('/').map(|(_, path)| Path::new("/").join(path));
        is_inside.then_some(path).flatten()
    })
}

/// A process's name; empty when it is gone.
pub(crate) fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map(|name| name.trim_end().to_owned()).unwrap_or_default()
}
