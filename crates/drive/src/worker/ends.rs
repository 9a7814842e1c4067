//! The ends of a worker's slices and of its phase.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use plimsoll_core::{AFFECTED_NS, ClientSilence};

use super::{Busy, CHECK_NS, DONE, Turns, WorkerCore};
use crate::board::RING;
use crate::clock::thread_switches;
use crate::result::StopReason;
use crate::schedule::NEVER_NS;

impl WorkerCore {
    #[cold]
    pub(super) fn client_is_done(&mut self, now_ns: u64, reason: StopReason) {
        self.live_clients -= 1;
        if self.live_clients == 0 {
            self.end(now_ns, reason);
        }
    }

    #[cold]
    pub(super) fn check(&mut self, now_ns: u64) {
        let taken = self.shared.taken.load(Acquire);
        if let Some(end_ns) = &mut self.grid.end_ns {
            // Only ever later, and long before the end that was planned.
            *end_ns = (*end_ns).max(self.shared.end_ns.load(Relaxed));
        }
        if now_ns >= self.count_from_ns {
            self.count_from_ns = NEVER_NS;
            let mut retries = self.rests.as_mut().and_then(|rests| rests.retries.as_mut());
            for (at, lane) in self.lanes.iter_mut().enumerate() {
                let is_sent = lane.busy != Busy::No as u64;
                // An operation in flight, or before its next try, ends after the warm-up, and is counted.
                let in_flight = u64::from(is_sent || retries.as_ref().is_some_and(|retries| retries.waits(at)));
                lane.end_cycle = (lane.cycle - in_flight).saturating_add(self.settings.ops_max);
                if let Some(retries) = retries.as_mut().filter(|_| is_sent) {
                    retries.outlasts_warmup(at, lane.cycle);
                }
            }
        }
        // A worker that has nothing to count any more stays where it is, so that the slice is the phase's last.
        let is_over = self.in_flight() == 0 && (self.has_ended() || self.grid.end_ns.is_some_and(|end| now_ns >= end));
        let current = if is_over { taken } else { self.grid.at(now_ns, self.slice) };
        let moves_to = current.min(taken.saturating_add(RING - 1));
        if moves_to > self.slice {
            let retries = self.rests.as_ref().and_then(|rests| rests.retries.as_ref());
            let waits = |at: usize| retries.is_some_and(|retries| retries.waits(at));
            let lanes = self.lanes.iter().enumerate();
            let unfinished = lanes.filter(|(at, lane)| lane.busy != Busy::No as u64 || waits(*at));
            let oldest_ns = unfinished.map(|(_, lane)| lane.scheduled_ns).min();
            self.board.oldest_ns.store(oldest_ns.unwrap_or(u64::MAX), Relaxed);
            self.publish_usage();
            self.slice = moves_to;
            self.slice_start_ns = self.grid.start(moves_to);
            self.board.move_to(moves_to);
        }
        if self.cancelled_ns.is_none() && self.shared.is_cancelled() {
            self.cancelled_ns = Some(now_ns);
        }
        let planned_end_ns = self.grid.end_ns.filter(|_| self.ended.is_none()).unwrap_or(u64::MAX);
        if self.ended.is_none() {
            if now_ns >= planned_end_ns {
                self.end(planned_end_ns, StopReason::Limit);
            } else if self.shared.must_end() {
                self.end(now_ns, StopReason::Cancelled);
            } else if let Some(due_ns) = self.oldest_unsent_ns()
                && now_ns.saturating_sub(due_ns) > self.settings.backlog_ns
            {
                // A worker that was abreast of its sockets all the while waited for the store.
                let is_stores = self.caught_up_ns.saturating_sub(due_ns) > self.settings.backlog_ns / 2;
                self.halt(now_ns, if is_stores { StopReason::Backlog } else { StopReason::Behind });
            }
        }
        let slice_end_ns = self.grid.end(self.slice);
        let slice_end_ns = if slice_end_ns > now_ns { slice_end_ns } else { now_ns + CHECK_NS / 10 };
        let planned_end_ns = if self.ended.is_none() { planned_end_ns } else { u64::MAX };
        self.check_at_ns = slice_end_ns.min(now_ns + CHECK_NS).min(planned_end_ns);
    }

    /// Returns the silences of clients that have had no answer since an operation failed.
    pub(super) fn silent(&self) -> Vec<ClientSilence> {
        let idle: BTreeSet<u32> = self.idle.first.iter().chain(&self.idle.others).copied().collect();
        let silence = |(index, from_ns): (usize, u64)| {
            let lane = self.lanes.get(index)?;
            // A client without a connection waits for one.
            let is_idle = idle.contains(&(index as u32));
            let (ready_ns, length_ns) = lane.unasked(self.is_open && is_idle, self.last_end_ns.max(self.ended_ns));
            // A client that is done asks for nothing more.
            let is_asked = lane.cycle != DONE && length_ns < AFFECTED_NS;
            let until_ns = if is_asked { None } else { Some(ready_ns) };
            Some(ClientSilence { client: lane.client, from_ns, until_ns })
        };
        self.unanswered.rest().filter_map(silence).collect()
    }

    pub(super) fn publish_usage(&self) {
        self.board.cpu_ns.store((self.settings.cpu_ns)().saturating_sub(self.cpu_at_start_ns), Relaxed);
        self.board.queued_ns.store((self.settings.queued_ns)().saturating_sub(self.queued_at_start_ns), Relaxed);
        let ((voluntary, involuntary), before) = (thread_switches(), self.switches_at_start);
        self.board.voluntary.store(voluntary.saturating_sub(before.0), Relaxed);
        self.board.involuntary.store(involuntary.saturating_sub(before.1), Relaxed);
    }

    #[cold]
    pub(super) fn end(&mut self, at_ns: u64, reason: StopReason) {
        if self.ended.is_some() {
            return;
        }
        // An operation that the stream does not have was never due.
        if !matches!(reason, StopReason::Exhausted) && self.live_clients > 0 {
            let tally = self.board.tally(self.slice);
            // An idle session would have taken them: then it was the generator that did not.
            let free_ns = self.idle.first.map(|lane| self.lanes[lane as usize].free_ns);
            let mut wait = |due_ns: u64| {
                let is_due = due_ns < at_ns;
                if is_due {
                    tally.unfinished.record(at_ns - due_ns);
                    if let Some(free_ns) = free_ns {
                        tally.lag.record(at_ns.saturating_sub(due_ns.max(free_ns)));
                    }
                }
                is_due
            };
            if self.held_ns.take().is_none_or(&mut wait)
                && let Turns::Own { arrivals, next, stride } = &mut self.turns
            {
                while wait(arrivals.at(*next)) {
                    *next += *stride;
                }
            }
        }
        self.ended = Some(reason);
        self.ended_ns = at_ns;
    }
}
