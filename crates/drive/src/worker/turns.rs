//! Due times of operations, and the times at which the worker must be awake for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use plimsoll_core::pace::WakeMode;

use super::WorkerCore;
use crate::schedule::{Cursor, NEVER_NS};

/// The grid of coarse wake-ups.
const COARSE_NS: u64 = 1_000_000;

/// Source of the operations' times.
#[derive(Debug)]
pub(crate) enum Turns {
    /// Closed loop: when the last one is done.
    Closed,
    /// Open loop, every `stride`th arrival from `next` on.
    Own { arrivals: Cursor, next: u64, stride: u64 },
    /// Open loop, the next arrival that no worker has taken yet: as many as `taken` are.
    Shared { arrivals: Cursor, taken: Arc<AtomicU64> },
}

/// A look ahead in the schedule, which goes on where it ended.
pub(super) struct Ahead {
    pub arrivals: Cursor,
    pub next: u64,
    /// The time of arrival `next`.
    pub due_ns: u64,
}

impl WorkerCore {
    /// Returns the next time at which the worker must be awake for an arrival after `after_ns`, which must not be
    /// before that of the last call.
    pub fn awake_after(&mut self, after_ns: u64) -> Option<u64> {
        let (Some(ahead), Turns::Own { next, stride, .. }) = (&mut self.ahead, &self.turns) else { return None };
        // What has been taken from the schedule is behind.
        let first = *next - if self.held_ns.is_some() { *stride } else { 0 };
        if ahead.next < first {
            (ahead.next, ahead.due_ns) = (first, ahead.arrivals.at(first));
        }
        while ahead.due_ns <= after_ns {
            ahead.next += *stride;
            ahead.due_ns = ahead.arrivals.at(ahead.next);
        }
        let due_ns = ahead.due_ns;
        let wake_ns = if self.settings.wake == WakeMode::Coarse { self.coarse(due_ns) } else { due_ns };
        self.grid.end_ns.is_none_or(|end_ns| wake_ns < end_ns).then_some(wake_ns).filter(|at_ns| *at_ns != NEVER_NS)
    }

    /// The first coarse wake-up not before `at_ns`.
    pub(super) fn coarse(&self, at_ns: u64) -> u64 {
        let after_ns = at_ns.saturating_sub(self.grid.start_ns).div_ceil(COARSE_NS).saturating_mul(COARSE_NS);
        self.grid.start_ns.saturating_add(after_ns)
    }

    /// The scheduled time of the next operation; `None` in a closed loop.
    pub(super) fn due(&mut self) -> Option<u64> {
        if let Some(at_ns) = self.held_ns {
            return Some(at_ns);
        }
        self.held_ns = match &mut self.turns {
            Turns::Closed => None,
            Turns::Own { arrivals, next, stride } => {
                let index = *next;
                *next += *stride;
                Some(arrivals.at(index))
            }
            Turns::Shared { arrivals, taken } => Some(arrivals.at(taken.fetch_add(1, Relaxed))),
        };
        self.held_ns
    }

    /// Returns the scheduled time of the oldest operation that was not sent.
    pub(super) fn oldest_unsent_ns(&mut self) -> Option<u64> {
        match &mut self.turns {
            Turns::Closed => None,
            _ if self.held_ns.is_some() => self.held_ns,
            Turns::Own { arrivals, next, .. } => Some(arrivals.at(*next)),
            Turns::Shared { arrivals, taken } => Some(arrivals.at(taken.load(Relaxed))),
        }
    }
}
