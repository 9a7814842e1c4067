//! Operations that a server has not begun, and that are sent again over another connection, or after a wait.

use std::ops::Range;

use plimsoll_core::KindId;

use super::{Busy, Lane, WorkerCore};

impl WorkerCore {
    /// Notes that the operation of `lane` waits for another connection, or for a time, until it is sent again. Returns
    /// false if it cannot be: steps before it may have changed what it depends on.
    #[cold]
    pub fn wait_for_connection(&mut self, lane: usize) -> bool {
        let waits = self.busy(lane) == Busy::Op;
        if waits && !self.not_begun[lane] {
            self.not_begun[lane] = true;
            self.not_begun_count += 1;
        }
        waits
    }

    /// Takes the next of `lanes` whose operation waits to be sent again and times out by `until_ns`. All its lanes are
    /// looked at once, however many are taken.
    #[cold]
    pub fn next_not_begun(&mut self, lanes: &mut Range<usize>, until_ns: u64) -> Option<usize> {
        if self.not_begun_count == 0 {
            return None;
        }
        let is_due = |lane: usize| self.deadline_ns(lane).is_none_or(|deadline_ns| deadline_ns <= until_ns);
        let lane = lanes.find(|&lane| self.not_begun[lane] && is_due(lane))?;
        self.not_begun[lane] = false;
        self.not_begun_count -= 1;
        Some(lane)
    }

    /// Makes the operation of `lane` once more, to be sent again: see [`WorkerCore::op`]. It is a function of its number.
    #[cold]
    pub fn again(&mut self, lane: usize) -> Option<KindId> {
        let Lane { client, cycle, .. } = self.lanes[lane];
        self.params.clear();
        self.asked_again += 1;
        self.stream.op(client, cycle.saturating_sub(1), &mut self.params)
    }

    /// Operations that were sent again.
    pub fn asked_again(&self) -> u64 {
        self.asked_again
    }
}
