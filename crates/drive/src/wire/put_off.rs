//! Operations that a server has not begun, and that are started again: on the next connection, or after a wait on this
//! one.

use plimsoll_core::{Op, Outcome, Ticket};

use super::WireWorker;
use crate::link::Stage;
use crate::reactor::Reactor;
use crate::worker::CHECK_NS;

/// Shortest time for the answer to an operation that is sent again.
pub(super) const ANSWER_NS: u64 = CHECK_NS;

impl<R: Reactor> WireWorker<R> {
    /// Starts what the server had not begun, on the connection before or on this one.
    #[cold]
    pub(super) fn ask_again(&mut self, slot: usize) {
        let mut lanes = self.lanes.of(slot);
        let (more, mut has_begun) = (lanes.len() > 1, false);
        while let Some(lane) = self.core.next_not_begun(&mut lanes, u64::MAX) {
            let Some(kind) = self.core.again(lane) else { continue };
            let link = &mut self.links[slot];
            link.session.start(Ticket(lane as u32), &Op { more, ..self.core.op(kind) }, &mut link.out);
            has_begun = true;
        }
        if has_begun && more {
            let link = &mut self.links[slot];
            link.session.flush(&mut link.out);
        }
    }

    /// Starts what servers have put off, after the waits for it. An operation that is too late for that, because the
    /// machine did not run in time, is refused.
    #[cold]
    pub(super) fn send_put_off(&mut self, now_ns: u64) {
        self.again_ns = u64::MAX;
        for slot in 0..self.links.len() {
            match self.links[slot].again_ns {
                Some(again_ns) if again_ns > now_ns => self.again_ns = self.again_ns.min(again_ns),
                Some(_) => {
                    self.refuse_put_off(slot, now_ns);
                    let link = &mut self.links[slot];
                    link.again_ns = None;
                    if link.hung_up.is_none() && link.connection.stage == Stage::Ready {
                        self.ask_again(slot);
                        self.send(slot, now_ns);
                    }
                }
                None => {}
            }
        }
    }

    /// Ends operations that the server has put off, and that have no time left for another answer, by its refusal. The
    /// connection stays: no answer is owed on it.
    #[cold]
    pub(super) fn refuse_put_off(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        let Some(refusal) = link.refusal.as_ref().filter(|_| link.hung_up.is_none()) else { return };
        let releases = link.left != 1;
        let (mut lanes, mut refused) = (self.lanes.of(slot), 0);
        while let Some(lane) = self.core.next_not_begun(&mut lanes, now_ns.saturating_add(ANSWER_NS)) {
            self.core.finish(lane, now_ns, Outcome::Rejected, refusal);
            if releases {
                self.core.release(lane, now_ns);
            }
            refused += 1;
        }
        if releases {
            link.left -= refused.min(link.left);
        } else if refused > 0 {
            self.leave(slot, now_ns);
        }
    }
}
