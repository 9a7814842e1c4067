//! Connections that are lost or end, and how others are begun in their place.

use plimsoll_core::{Outcome, StoreError, waits};
use rustix::io::Errno;

use super::WireWorker;
use crate::link::{HungUp, Stage};
use crate::place::{ResolvedAddress, is_for_good, name, unanswered};
use crate::reactor::Reactor;
use crate::result::StopReason;
use crate::worker::Busy;

/// Most pieces of what a server said before sending to it failed.
const LAST_WORDS_PIECES_MAX: u32 = 16;

/// Reason that a connection is given up.
pub(super) enum Loss {
    Closed,
    System(Errno),
    Silent(u64),
    Session(StoreError),
    OpTimeout,
}

impl<R: Reactor> WireWorker<R> {
    pub(super) fn connect(&mut self, slot: usize, now_ns: u64) {
        if self.links[slot].is_branched {
            self.links[slot].begin(now_ns, &self.kinds);
            return self.grant(slot, now_ns);
        }
        if let Some(address) = self.links[slot].session.next_address() {
            // Where a name leads nowhere, the address before is tried again.
            if let Ok(place) = ResolvedAddress::resolve(&address) {
                self.links[slot].connection.place = place;
                self.core.asks(self.lanes.of(slot), &address);
            }
        }
        let timeout_ns = self.core.settings.connect_timeout_ns(self.starting);
        let begun = self.links[slot].connect(now_ns).and_then(|socket| self.reactor.connect(slot, socket));
        match begun {
            Ok(()) => {}
            // The queue of a Unix socket is full: its server is there, and has not got round to us.
            Err(Errno::AGAIN) if self.links[slot].queues_again(now_ns, timeout_ns) => {}
            Err(errno) => self.lose(slot, now_ns, Loss::System(errno)),
        }
    }

    fn close(&mut self, slot: usize) {
        if self.links[slot].is_branched {
            self.close_branches(slot);
        } else {
            self.reactor.close(slot);
        }
    }

    /// The server ended the connection as it may: another one is begun without a wait, and nothing was lost.
    #[cold]
    pub(super) fn open_again(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        if link.connection.stage == Stage::Ready {
            self.not_ready += 1;
        }
        // Of several connections each is counted by itself.
        self.ended_connections += u64::from(!link.is_branched);
        link.ended(now_ns);
        self.close(slot);
        if !self.starting {
            self.core.withdraw(self.lanes.of(slot));
        }
        self.connect(slot, now_ns);
    }

    /// The connection has done its operations: it is closed, and another one begun.
    #[cold]
    pub(super) fn leave(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        link.session.close(&mut link.out);
        self.reactor.say_goodbye(slot, &link.out);
        self.not_ready += 1;
        link.ended(now_ns);
        self.close(slot);
        if !self.core.has_ended() {
            self.connect(slot, now_ns);
        }
    }

    /// Sending failed. A server that ended the connection may have said why before, and that is the better error: it
    /// is listened to until it has no more to say.
    #[cold]
    pub(super) fn hang_up(&mut self, slot: usize, now_ns: u64, errno: Errno) {
        let link = &mut self.links[slot];
        link.out.clear();
        if link.hung_up.is_some() {
            return;
        }
        link.hung_up = Some(HungUp { errno, pieces_left: LAST_WORDS_PIECES_MAX });
        self.reactor.hang_up(slot);
        if !self.starting {
            self.core.withdraw(self.lanes.of(slot));
        }
        // Nothing was heard before the connection stood, and nothing will be.
        if self.links[slot].connection.stage == Stage::Connecting {
            self.lose(slot, now_ns, Loss::System(errno));
        }
    }

    /// The session has been handed a piece of a server's last words, and made nothing of them.
    #[cold]
    pub(super) fn hear_on(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        link.out.clear();
        let Some(hung_up) = &mut link.hung_up else { return };
        hung_up.pieces_left = hung_up.pieces_left.saturating_sub(1);
        if hung_up.pieces_left == 0 {
            self.end_of_words(slot, now_ns, Loss::Closed);
        }
    }

    /// The server says no more. Where sending failed before, that is why.
    #[cold]
    pub(super) fn end_of_words(&mut self, slot: usize, now_ns: u64, loss: Loss) {
        let unsent = self.links[slot].hung_up.map(|hung_up| Loss::System(hung_up.errno));
        self.lose(slot, now_ns, unsent.unwrap_or(loss));
    }

    /// Returns true if a session that ends at `now_ns` has nothing in flight, as servers end idle sessions. This costs no
    /// operation and no time. One that did not last is tried again after a wait instead.
    pub(super) fn is_idle_end(&self, slot: usize, now_ns: u64) -> bool {
        self.links[slot].connection.has_lasted(now_ns)
            && self.is_under_way()
            && self.lanes.of(slot).all(|lane| self.core.busy(lane) == Busy::No)
    }

    /// Returns true between the start and the end of the phase.
    pub(super) fn is_under_way(&self) -> bool {
        !self.starting && !self.core.has_ended()
    }

    /// Gives a connection up: its operation is unknown, and it is opened again after a while.
    #[cold]
    pub(super) fn lose(&mut self, slot: usize, now_ns: u64, loss: Loss) {
        if self.is_idle_end(slot, now_ns) {
            self.links[slot].connection.idle_end_ns = Some(now_ns);
            return self.open_again(slot, now_ns);
        }
        let link = &mut self.links[slot];
        let another_address = link.connection.stage == Stage::Connecting && link.connection.has_another_address();
        let (code, error) = match loss {
            Loss::Closed => ("connection", link.connection.place.closed()),
            Loss::System(errno) => ("connection", link.connection.place.error(errno)),
            Loss::Silent(waited_ns) => ("connection", link.connection.place.silent(waited_ns)),
            Loss::Session(error) => ("connection", error),
            Loss::OpTimeout if self.core.is_cancelled() => (waits::STOPPED, waits::interrupted()),
            Loss::OpTimeout => {
                let awaited = link.session.branches().and_then(|branches| branches.awaited().map(name));
                let name = awaited.as_ref().unwrap_or(&link.connection.place.name);
                ("timeout", unanswered(name, self.core.settings.op_timeout_ns))
            }
        };
        if link.connection.stage == Stage::Ready {
            self.not_ready += 1;
            self.lost_connections.note(now_ns);
        } else if !self.starting && !another_address {
            self.failed_connects += 1;
            self.failure.fail(Outcome::Rejected, waits::CONNECT, &error.to_string());
            self.core.not_connected(self.lanes.of(slot), now_ns, &self.failure);
        }
        if !another_address && let Some(ended_ns) = link.connection.lose_after_idle() {
            self.lost_connections.note(ended_ns);
            self.ended_connections -= 1;
        }
        match another_address {
            true => link.ended(now_ns),
            false => link.lose_connection(now_ns),
        }
        self.close(slot);
        if another_address {
            return;
        }
        if self.starting {
            self.first_error.get_or_insert(error);
            return;
        }
        let had_work = self.lanes.of(slot).any(|lane| self.core.busy(lane) != Busy::No);
        self.core.withdraw(self.lanes.of(slot));
        let mut lanes = self.lanes.of(slot);
        while let Some(lane) = self.core.next_not_begun(&mut lanes, u64::MAX) {
            self.failure.fail(Outcome::Rejected, "closed", &error.to_string());
            self.core.finish(lane, now_ns, Outcome::Rejected, &self.failure);
        }
        self.failure.fail(Outcome::Unknown, code, &error.to_string());
        for lane in self.lanes.of(slot) {
            self.core.give_up(lane, now_ns, &self.failure);
        }
        let link = &mut self.links[slot];
        if code == "timeout" {
            // A protocol without a greeting is ready again at once, and may stay without an answer.
            link.silent_since_ns.get_or_insert(now_ns);
        }
        let open_ns = self.core.settings.open_timeout_ns;
        let is_away = |lost_ns: u64| now_ns.saturating_sub(lost_ns) > open_ns;
        if is_for_good(&error) {
            self.core.halt(now_ns, StopReason::Refused(error));
        } else if (self.core.settings.ends_on_loss && had_work && !self.core.is_cancelled())
            || (!self.core.has_planned_end()
                && link.connection.lost_ns.into_iter().chain(link.silent_since_ns).any(is_away))
        {
            // No other session performs this client's operations, and no clock would end the phase.
            self.core.halt(now_ns, StopReason::Lost(error));
        }
    }

    #[cold]
    pub(super) fn give_up_overdue(&mut self, now_ns: u64) {
        self.deadline_ns = u64::MAX;
        for slot in 0..self.links.len() {
            if self.links[slot].again_ns.is_some() {
                self.refuse_put_off(slot, now_ns);
            }
            let Some(deadline_ns) = self.lanes.of(slot).filter_map(|lane| self.core.deadline_ns(lane)).min() else {
                continue;
            };
            if now_ns >= deadline_ns {
                self.lose(slot, now_ns, Loss::OpTimeout);
            } else {
                self.deadline_ns = self.deadline_ns.min(deadline_ns);
            }
        }
    }
}
