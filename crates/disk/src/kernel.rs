//! Calls that need `unsafe`: sync_file_range(2), which has no safe wrapper, and a request over io_uring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode};

/// Writes the pages of `length` bytes at `offset` out and waits for that. The device is not asked to flush.
pub fn sync_file_range(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the call takes numbers and a descriptor that is open as long as it is borrowed; it touches no memory of
    // this program.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An io_uring that one flush at a time goes through.
pub struct FlushRing(IoUring);

impl FlushRing {
    /// A ring; an error where the kernel, or who set it up, does not permit one.
    pub fn new() -> io::Result<Self> {
        IoUring::new(2).map(FlushRing)
    }

    /// fdatasync of `file`.
    pub fn fdatasync(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::Fsync::new(Fd(file.as_raw_fd())).flags(FsyncFlags::DATASYNC).build();
        // SAFETY: the request names no memory, and the descriptor is borrowed until its completion is there.
        unsafe { self.0.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.0.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if let Some(done) = self.0.completion().next() {
                return if done.result() < 0 { Err(io::Error::from_raw_os_error(-done.result())) } else { Ok(()) };
            }
        }
    }
}
