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
        if waits {
            self.not_begun.push(lane as u32);
        }
        waits
    }

    /// Takes one of `lanes` whose operation waits for another connection.
    pub fn next_not_begun(&mut self, lanes: &Range<usize>) -> Option<usize> {
        let at = self.not_begun.iter().position(|lane| lanes.contains(&(*lane as usize)))?;
        Some(self.not_begun.remove(at) as usize)
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
