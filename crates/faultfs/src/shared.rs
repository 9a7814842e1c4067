//! A device, as FUSE and the control socket share it, and answers that are given late.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use plimsoll_core::fault::{CutMoment, Fault, Survivors};

use crate::counters::{AtRisk, Counters, Cut};
use crate::power::Power;

/// A device that can lose power, and have other faults.
pub(crate) trait Device: Send + 'static {
    fn power(&self) -> &Power;
    fn power_mut(&mut self) -> &mut Power;
    /// Carries out a cut; what is answered to the request that it comes with.
    ///
    /// # Errors
    /// EIO where that is the answer.
    fn power_off(&mut self) -> Result<(), rustix::io::Errno>;
    fn counters(&self) -> Counters;
    /// Returns the error of the storage below, which is not a requested fault.
    fn broken(&self) -> Option<&str>;
    /// Restores power after a cut: keeps the survivors, and continues with nothing un-flushed. Faults stay as they are
    /// set.
    ///
    /// # Errors
    /// In words, when there was no cut, or files cannot be written.
    fn power_on(&mut self, survivors: Survivors) -> Result<AtRisk, String>;
    /// Arms a power cut, or with `freezes` a freeze; returns false if power was cut before, and cannot be cut later.
    fn arm(&mut self, at: CutMoment, freezes: bool) -> bool {
        let can_go = self.power_mut().arm(at, freezes);
        if at == CutMoment::Now && self.cut().is_none() {
            let _ = self.power_off();
        }
        can_go
    }

    /// Arms a freeze after which flushes fail.
    fn halt(&mut self, at: CutMoment) -> bool {
        self.power_mut().halt();
        self.arm(at, true)
    }

    /// Handles the notice that another device on the same circuit has lost power: this one does too, as it was armed
    /// to. A device that is not armed ignores it, because the notice is late.
    fn told(&mut self) {
        if self.power().is_armed() {
            let freezes = self.power().freezes();
            self.arm(CutMoment::Now, freezes);
        }
    }

    fn set(&mut self, fault: Fault) {
        self.power_mut().set(fault);
    }

    /// Removes all faults; an armed cut stays so.
    fn mend(&mut self) {
        self.power_mut().mend();
    }

    /// Removes all faults and disarms the cut.
    fn clear(&mut self) {
        self.power_mut().clear();
    }

    /// Counts from zero.
    fn count_anew(&mut self) {
        self.power_mut().counters = Counters::default();
    }

    /// The cut that has happened.
    fn cut(&self) -> Option<Cut> {
        self.power().cut()
    }

    /// The answer to a command of its own; none where it has no such.
    fn other(&mut self, _command: &str) -> Option<Result<String, String>> {
        None
    }
}

pub(crate) struct SharedDevice<D> {
    device: Mutex<D>,
    has_cut: Condvar,
    open: AtomicU64,
    late: Mutex<Vec<(Instant, DueReply)>>,
    is_late: Condvar,
}

impl<D: Device> SharedDevice<D> {
    /// Begins to give late answers, too.
    pub(crate) fn new(device: D) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Self {
            device: Mutex::new(device),
            has_cut: Condvar::new(),
            open: AtomicU64::new(0),
            late: Mutex::default(),
            is_late: Condvar::new(),
        });
        let late = Arc::clone(&shared);
        std::thread::Builder::new().name("late".into()).spawn(move || late.give_late())?;
        Ok(shared)
    }

    /// Calls `act` with the device. Threads that wait for a cut are notified of one.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut D) -> T) -> T {
        let mut device = locked(&self.device);
        let had_power = device.cut().is_none();
        let done = act(&mut device);
        if had_power && device.cut().is_some() {
            self.has_cut.notify_all();
            drop(device);
            self.is_late.notify_all();
        }
        done
    }

    /// Adds a user.
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a user.
    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns the number of users: at least one while a loop device or a mount is on it.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// Waits for the power to go, or until `limit` is over.
    pub(crate) fn wait_for_cut(&self, limit: Duration) {
        let device = locked(&self.device);
        let waited = self.has_cut.wait_timeout_while(device, limit, |device| device.cut().is_none());
        drop(waited);
    }

    /// Sends a reply now, or after the delay that is set for such requests.
    pub(crate) fn answer(&self, delay: Option<Duration>, answer: DueReply) {
        match delay {
            None => answer.give(false),
            Some(delay) => {
                locked(&self.late).push((Instant::now() + delay, answer));
                self.is_late.notify_all();
            }
        }
    }

    /// Sends delayed replies as they become due, or immediately when power is cut. A frozen device still sends them.
    /// Never returns.
    fn give_late(&self) -> ! {
        let mut late = locked(&self.late);
        loop {
            let (is_cut, is_dead, halts) = {
                let device = locked(&self.device);
                let (is_cut, power) = (device.cut().is_some(), device.power());
                (is_cut, power.is_dead() || device.broken().is_some(), is_cut && power.halts())
            };
            let now = Instant::now();
            while let Some(at) = late.iter().position(|(due, _)| is_cut || *due <= now) {
                let answer = late.swap_remove(at).1;
                let fails = is_dead || halts && matches!(answer, DueReply::Flush(..));
                answer.give(fails);
            }
            // Not for ever, so that a cut which is missed in between delays no answer for long.
            let next = late.iter().map(|(due, _)| due.saturating_duration_since(now)).min();
            let wait = next.map_or(Duration::from_secs(1), |next| next.min(Duration::from_millis(10)));
            late = match self.is_late.wait_timeout(late, wait) {
                Ok((late, _)) => late,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer that is known, with whom it is for.
pub(crate) enum DueReply {
    Read(ReplyData, Result<Vec<u8>, rustix::io::Errno>),
    Write(ReplyWrite, Result<u32, rustix::io::Errno>),
    Flush(ReplyEmpty, Result<(), rustix::io::Errno>),
    Other(ReplyEmpty, Result<(), rustix::io::Errno>),
}

impl DueReply {
    fn give(self, fails: bool) {
        let error = |errno: rustix::io::Errno| Errno::from_i32(if fails { libc::EIO } else { errno.raw_os_error() });
        match self {
            Self::Read(reply, Ok(data)) if !fails => reply.data(&data),
            Self::Read(reply, done) => reply.error(error(done.err().unwrap_or(rustix::io::Errno::IO))),
            Self::Write(reply, Ok(length)) if !fails => reply.written(length),
            Self::Write(reply, done) => reply.error(error(done.err().unwrap_or(rustix::io::Errno::IO))),
            Self::Flush(reply, Ok(())) | Self::Other(reply, Ok(())) if !fails => reply.ok(),
            Self::Flush(reply, done) | Self::Other(reply, done) => {
                reply.error(error(done.err().unwrap_or(rustix::io::Errno::IO)))
            }
        }
    }
}
