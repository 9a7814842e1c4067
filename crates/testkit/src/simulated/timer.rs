//! Waits on simulated time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_drive::{Clock, Timer};

/// Timer on simulated time: a time passes once all threads that entered wait. Those that are due go on one after the
/// other, in the order in which they began to wait.
pub struct SimulatedTimer {
    pub(super) now_ns: &'static AtomicU64,
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Default)]
struct Turns {
    /// Number of threads that do not wait.
    running: usize,
    /// Times until which others wait, by the order in which they began to.
    waiting: BTreeMap<u64, u64>,
    /// Number of waits so far.
    waits: u64,
}

impl Default for SimulatedTimer {
    fn default() -> Self {
        // As long as the process: a clock is copied everywhere.
        let now_ns: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        Self { now_ns, turns: Mutex::default(), changed: Condvar::new() }
    }
}

impl SimulatedTimer {
    /// Returns the clock of this time.
    pub fn clock(&self) -> Clock {
        Clock::simulated(self.now_ns)
    }

    /// Returns the present time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits once until `until_ns`, or until another thread has left.
    fn wait_once(&self, until_ns: u64) {
        let mut turns = self.turns();
        let own = turns.waits;
        turns.waits += 1;
        turns.waiting.insert(own, until_ns);
        turns.running -= 1;
        // Its own turn needs no wake-up.
        if self.next(&mut turns) != Some(own) {
            self.changed.notify_all();
        }
        while turns.waiting.contains_key(&own) {
            turns = self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the wait that is due next, if all threads wait, and advances the time to its own. Returns its number.
    fn next(&self, turns: &mut Turns) -> Option<u64> {
        if turns.running > 0 {
            return None;
        }
        let (order, until_ns) =
            turns.waiting.iter().map(|(order, until_ns)| (*order, *until_ns)).min_by_key(|(_, until_ns)| *until_ns)?;
        assert!(until_ns < u64::MAX, "all threads wait for an end");
        turns.waiting.remove(&order);
        turns.running += 1;
        self.now_ns.fetch_max(until_ns, Ordering::SeqCst);
        Some(order)
    }
}

impl Timer for SimulatedTimer {
    fn wait(&self, over: &Receiver<()>, until_ns: Option<u64>) -> bool {
        let until_ns = until_ns.unwrap_or(u64::MAX);
        loop {
            if over.try_recv() == Err(TryRecvError::Disconnected) {
                return true;
            }
            if self.now_ns() >= until_ns {
                return false;
            }
            self.wait_once(until_ns);
        }
    }

    fn sleep(&self, length: Duration) {
        let until_ns = self.now_ns() + length.as_nanos() as u64;
        while self.now_ns() < until_ns {
            self.wait_once(until_ns);
        }
    }

    fn enter(&self) {
        self.turns().running += 1;
    }

    fn leave(&self) {
        let mut turns = self.turns();
        turns.running -= 1;
        // It may have closed channels of others.
        turns.waiting.values_mut().for_each(|until_ns| *until_ns = 0);
        self.next(&mut turns);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_drive::Entered;

    use super::*;

    #[test]
    fn time_passes_while_all_wait_and_an_end_is_seen_at_its_time() {
        let (timer, (open, over)) = (SimulatedTimer::default(), std::sync::mpsc::channel());
        let order = Mutex::new(Vec::new());
        let note = |what: &'static str| order.lock().unwrap().push((what, timer.now_ns() / 1_000_000));
        std::thread::scope(|scope| {
            let [first, second, third] = [(); 3].map(|()| Entered::of(&timer));
            let (timer, note) = (&timer, &note);
            scope.spawn(move || {
                let _entered = first;
                for _ in 0..3 {
                    timer.sleep(Duration::from_millis(400));
                    note("slept");
                }
            });
            scope.spawn(move || {
                let _entered = second;
                timer.sleep(Duration::from_millis(900));
                note("closed");
                drop(open);
            });
            let _entered = third;
            assert!(!timer.wait(&over, Some(500_000_000)));
            note("waited");
            assert!(timer.wait(&over, None));
            note("ended");
        });
        let wanted =
            [("slept", 400), ("waited", 500), ("slept", 800), ("closed", 900), ("ended", 900), ("slept", 1_200)];
        assert_eq!(order.into_inner().unwrap(), wanted);
    }
}
