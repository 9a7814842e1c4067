//! Waits of threads beside a drive: in real time, and in tests on simulated time.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::clock::Clock;

/// Waits for times of the run's clock.
pub trait Timer: Send + Sync {
    /// Waits until `until_ns`, or without end. Returns true if `over` was closed before.
    fn wait(&self, over: &Receiver<()>, until_ns: Option<u64>) -> bool;

    /// Waits for `length`.
    fn sleep(&self, length: Duration);

    /// Counts a thread among those without which simulated time does not pass.
    fn enter(&self) {}

    /// Ends [`Timer::enter`]: the thread ends, or waits for others.
    fn leave(&self) {}
}

/// Timer in real time.
pub(crate) struct RealTimer(pub(crate) Clock);

impl Timer for RealTimer {
    fn wait(&self, over: &Receiver<()>, until_ns: Option<u64>) -> bool {
        let Some(until_ns) = until_ns else {
            // Nothing is sent: the channel is closed.
            let _ = over.recv();
            return true;
        };
        let left_ns = until_ns.saturating_sub(self.0.now_ns());
        over.recv_timeout(Duration::from_nanos(left_ns)) != Err(RecvTimeoutError::Timeout)
    }

    fn sleep(&self, length: Duration) {
        std::thread::sleep(length);
    }
}

/// A thread that waits by a timer, until the value is dropped.
pub struct Entered<'t>(&'t dyn Timer);

impl<'t> Entered<'t> {
    /// Counts a thread that is about to start.
    pub fn of(timer: &'t dyn Timer) -> Self {
        timer.enter();
        Self(timer)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
