//! Times of a worker's single operations, as many as there is room for.

use plimsoll_core::{KindId, Outcome};

use super::WorkerCore;
use super::lane::Lane;
use crate::result::OpTime;

impl WorkerCore {
    /// Keeps the times of the operation of `lane` that ended at `end_ns`, or notes that there was no room for it.
    pub(super) fn keep(&mut self, lane: usize, end_ns: u64, outcome: Outcome, rows: u64) {
        if self.each.len() == self.each.capacity() {
            self.each_until_ns = self.each_until_ns.min(end_ns);
            return;
        }
        let Lane { client, kind, cycle, scheduled_ns, sent_ns, .. } = self.lanes[lane];
        self.each.push(OpTime {
            client,
            cycle: cycle - 1,
            kind: kind as KindId,
            outcome,
            scheduled_ns,
            sent_ns,
            end_ns,
            rows,
        });
    }
}
