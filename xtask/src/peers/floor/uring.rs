//! The floor's kernel calls over io_uring: one call submits what is to be sent and waits, receives go on by themselves.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{Fd, SubmitArgs};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::{ALARMS, Event, Kernel, timers};

// The drive's own, so that the kernel writes into memory of the same shape.
#[allow(dead_code, reason = "what arrives is not looked at")]
#[path = "../../../../crates/drive/src/reactor/pool.rs"]
mod pool;
use pool::{GROUP, Pool};

const QUEUE: u32 = 256;
const PIECES: std::ops::RangeInclusive<usize> = 64..=4096;
/// A send's number: it has an answer only where it was not done in full.
const SEND: u64 = u64::MAX;

/// Sockets come first by number, and timers behind them.
pub struct Uring {
    ring: IoUring,
    pool: Pool,
    sockets: Vec<OwnedFd>,
    timers: [OwnedFd; ALARMS + 1],
    flags: EnterFlags,
}

impl Uring {
    pub fn new(sockets: Vec<OwnedFd>) -> io::Result<Uring> {
        let pieces = (2 * sockets.len()).clamp(*PIECES.start(), *PIECES.end()).next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize((8 * sockets.len() + pieces + 64).next_power_of_two().max(2 * QUEUE as usize) as u32)
            .build(QUEUE)?;
        let iowait = if ring.params().is_feature_no_iowait() { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let pool = Pool::offer(&ring, pieces as u16)?;
        let mut uring = Uring { ring, pool, sockets, timers: timers()?, flags: EnterFlags::GETEVENTS | iowait };
        for socket in 0..uring.sockets.len() {
            uring.receive(socket)?;
        }
        for (number, timer) in (uring.sockets.len() as u64..).zip(&uring.timers) {
            let poll = opcode::PollAdd::new(Fd(timer.as_raw_fd()), u32::from(PollFlags::IN.bits())).multi(true);
            // SAFETY: it points to nothing.
            unsafe { uring.ring.submission().push(&poll.build().user_data(number)) }.map_err(io::Error::other)?;
        }
        Ok(uring)
    }

    /// Receives from now on.
    fn receive(&mut self, socket: usize) -> io::Result<()> {
        let fd = Fd(self.sockets[socket].as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, GROUP).build().user_data(socket as u64);
        // SAFETY: it writes to the pool, which stays until the process ends.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }
}

impl Kernel for Uring {
    #[inline]
    fn send(&mut self, socket: usize, bytes: &'static [u8]) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | SendFlags::from_bits_retain(libc::MSG_WAITALL as u32);
        let entry = opcode::Send::new(Fd(self.sockets[socket].as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(flags.bits() as i32)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(SEND);
        // SAFETY: the bytes stay until the process ends.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and the flags say so.
        let entered = unsafe { self.ring.submitter().enter::<SubmitArgs<'_, '_>>(queued, 1, self.flags.bits(), None) };
        match entered {
            Err(error) if error.raw_os_error() != Some(Errno::INTR.raw_os_error()) => Err(error),
            _ => Ok(()),
        }
    }

    #[inline]
    fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            let Some(entry) = self.ring.completion().next() else { return Ok(None) };
            let (number, result) = (entry.user_data(), entry.result());
            if number == SEND {
                return Err(came_short(result));
            }
            let socket = number as usize;
            if let Some(timer) = socket.checked_sub(self.sockets.len()) {
                return Ok(Some(Event::Timer { timer }));
            }
            if let Some(piece) = cqueue::buffer_select(entry.flags()) {
                self.pool.give(piece);
            }
            if !cqueue::more(entry.flags()) {
                self.receive(socket)?;
            }
            match result {
                1.. => return Ok(Some(Event::Arrived { socket, bytes: result as usize })),
                // All of the pool was in use; what arrived waits in the socket.
                _ if result == -Errno::NOBUFS.raw_os_error() => {}
                _ => return Err(came_short(result)),
            }
        }
    }

    fn timers(&self) -> &[OwnedFd; ALARMS + 1] {
        &self.timers
    }
}

/// The kernel's word on a send or a receive that failed, or ended early.
fn came_short(result: i32) -> io::Error {
    if result < 0 { io::Error::from_raw_os_error(-result) } else { io::ErrorKind::UnexpectedEof.into() }
}
