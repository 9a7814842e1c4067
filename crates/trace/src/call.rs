//! The calls that make a process wait until data are on a device.

use std::fmt;

/// A call that is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// fsync(2)
    Fsync,
    /// fdatasync(2)
    Fdatasync,
    /// sync_file_range(2)
    SyncFileRange,
    /// msync(2)
    Msync,
    /// sync(2)
    Sync,
    /// syncfs(2)
    Syncfs,
    /// A sync inside of another call: a write to a file opened with O_DSYNC or O_SYNC. Seen on ext4 and f2fs.
    WriteThrough,
    /// An fsync by io_uring, from its submission on.
    UringFsync,
    /// A sync_file_range by io_uring.
    UringSyncFileRange,
}

/// Number of the system call, or one that no system call has; and the name.
const ALL: [(Call, u16, &str); 9] = [
    (Call::Fsync, libc::SYS_fsync as u16, "fsync"),
    (Call::Fdatasync, libc::SYS_fdatasync as u16, "fdatasync"),
    (Call::SyncFileRange, libc::SYS_sync_file_range as u16, "sync_file_range"),
    (Call::Msync, libc::SYS_msync as u16, "msync"),
    (Call::Sync, libc::SYS_sync as u16, "sync"),
    (Call::Syncfs, libc::SYS_syncfs as u16, "syncfs"),
    (Call::WriteThrough, OTHERS, "O_DSYNC write"),
    (Call::UringFsync, OTHERS + 1, "io_uring fsync"),
    (Call::UringSyncFileRange, OTHERS + 2, "io_uring sync_file_range"),
];

/// Numbers from here on are those of no system call.
pub(crate) const OTHERS: u16 = 0x4000;

impl Call {
    /// Calls that are system calls.
    pub(crate) const SYSTEM: [Call; 6] =
        [Call::Fsync, Call::Fdatasync, Call::SyncFileRange, Call::Msync, Call::Sync, Call::Syncfs];

    pub(crate) fn number(self) -> u16 {
        ALL[self as usize].1
    }

    /// Returns the usual name.
    pub fn name(self) -> &'static str {
        ALL[self as usize].2
    }

    pub(crate) fn of_number(number: u16) -> Option<Self> {
        ALL.iter().find(|(_, one, _)| *one == number).map(|(call, ..)| *call)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_a_number_of_its_own() {
        for (at, (call, number, name)) in ALL.iter().enumerate() {
            assert_eq!((*call as usize, call.number(), call.name()), (at, *number, *name));
            assert_eq!(Call::of_number(*number), Some(*call));
        }
        assert_eq!(Call::of_number(9_999), None);
    }
}
