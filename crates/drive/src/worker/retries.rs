//! Operations that are sent again after they failed, as client libraries do.
//!
//! Each try is counted by itself, with its own outcome, and observers are told of each: a write whose first try has no
//! answer may happen twice. A phase without retries pays nothing: they stand with the rests of clients, which are looked at
//! anyway.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_core::pace::{Retry, RetryScope};
use plimsoll_core::{KindId, Op, OpKind, Outcome, Ticket};

use super::{Busy, Next, WorkerCore};
use crate::result::RetryCounts;

/// The failed operations of a worker's lanes.
pub(crate) struct Retries {
    retry: Retry,
    /// By kind: a repetition changes nothing.
    is_idempotent: Box<[bool]>,
    lanes: Box<[Failed]>,
    /// Lanes whose session is ready for another try, longest first. There is room for all.
    ready: VecDeque<u32>,
    counts: RetryCounts,
}

/// Failed tries of a lane's operation.
#[derive(Debug, Clone, Copy, Default)]
struct Failed {
    /// Number of the operation after it.
    cycle: u64,
    tries: u32,
    /// True if the operation is to be sent again.
    waits: bool,
}

impl Retries {
    /// Takes its memory here.
    pub fn new(retry: Retry, lanes: usize, kinds: &[OpKind]) -> Self {
        Self {
            retry,
            is_idempotent: kinds.iter().map(OpKind::is_idempotent).collect(),
            lanes: vec![Failed::default(); lanes].into(),
            ready: VecDeque::with_capacity(lanes),
            counts: RetryCounts::default(),
        }
    }

    /// Notes a failed try of the operation before `cycle`. Returns true if it is sent again.
    pub fn failed(&mut self, lane: usize, cycle: u64, kind: usize, outcome: Outcome) -> bool {
        let may = match self.retry.scope {
            RetryScope::All => true,
            // A refused operation has certainly not happened.
            RetryScope::Idempotent => outcome == Outcome::Rejected || self.is_idempotent[kind],
        };
        let failed = &mut self.lanes[lane];
        let tries = if failed.cycle == cycle { failed.tries + 1 } else { 1 };
        *failed = Failed { cycle, tries, waits: may && tries < self.retry.tries };
        failed.waits
    }

    /// Returns true if the operation of a lane is to be sent again.
    pub fn waits(&self, lane: usize) -> bool {
        self.lanes[lane].waits
    }

    /// Counts the try in flight of `lane` at the end of the warm-up, if it is a retry: its outcome is counted, too.
    /// `cycle` is the number after its operation's.
    pub fn outlasts_warmup(&mut self, lane: usize, cycle: u64) {
        self.counts.retries += u64::from(self.lanes[lane].cycle == cycle);
    }

    /// The operation of a lane is not sent again. Returns true if it was to be.
    fn give_up(&mut self, lane: usize) -> bool {
        std::mem::take(&mut self.lanes[lane].waits)
    }

    /// The session of `lane` is ready. Returns true if the lane's operation is to be sent again.
    pub fn is_ready(&mut self, lane: u32) -> bool {
        let waits = self.lanes[lane as usize].waits;
        if waits {
            self.ready.push_back(lane);
        }
        waits
    }

    /// Takes a lane whose operation is sent again now.
    pub fn take(&mut self) -> Option<u32> {
        let lane = self.ready.pop_front()?;
        self.lanes[lane as usize].waits = false;
        Some(lane)
    }

    /// The sessions of `lanes` are not there any more.
    pub fn remove(&mut self, lanes: &Range<u32>) {
        self.ready.retain(|lane| !lanes.contains(lane));
    }

    /// Returns the counts at the end of the phase. An operation that still waits for a try has failed.
    pub fn report(mut self) -> RetryCounts {
        self.counts.given_up += self.lanes.iter().filter(|lane| lane.waits).count() as u64;
        self.counts
    }
}

impl WorkerCore {
    fn retries(&mut self) -> Option<&mut Retries> {
        self.rests.as_mut()?.retries.as_mut()
    }

    /// The operation of `lane` has failed: decides if it is sent again, and if others are sent after it.
    #[cold]
    pub(super) fn failed(&mut self, lane: usize, now_ns: u64, outcome: Outcome) {
        let is_broken = self.breaks(lane, now_ns, 1);
        let (kind, cycle) = (self.lanes[lane].kind as usize, self.lanes[lane].cycle);
        let is_counted = now_ns >= self.grid.warmup_end_ns;
        if let Some(retries) = self.retries() {
            if retries.failed(lane, cycle, kind, outcome) {
                if is_broken {
                    self.give_up_retry(lane, now_ns);
                }
            } else if is_counted {
                retries.counts.given_up += 1;
            }
        }
    }

    /// The circuit of `lane` is open: its operation is not sent again.
    pub(super) fn give_up_retry(&mut self, lane: usize, now_ns: u64) {
        let is_counted = now_ns >= self.grid.warmup_end_ns;
        if let Some(retries) = self.retries()
            && retries.give_up(lane)
            && is_counted
        {
            retries.counts.given_up += 1;
        }
    }

    /// Begins another try of the operation of a lane. It is a function of its number.
    #[cold]
    pub(super) fn send_again(&mut self, index: usize, now_ns: u64) -> Next {
        let lane = &mut self.lanes[index];
        let (client, cycle, kind) = (lane.client, lane.cycle.saturating_sub(1), lane.kind as KindId);
        // By a schedule its response time goes on. In a closed loop an operation is due when it is sent.
        if !self.is_open {
            lane.scheduled_ns = now_ns;
        }
        lane.busy = Busy::Op as u64;
        lane.sent_ns = now_ns;
        lane.could_ns = lane.scheduled_ns.max(lane.free_ns);
        let (scheduled_ns, could_ns) = (lane.scheduled_ns, lane.could_ns);
        self.params.clear();
        let _ = self.stream.op(client, cycle, &mut self.params);
        self.started += 1;
        self.board.started.store(self.started, Relaxed);
        self.board.retried.fetch_add(1, Relaxed);
        if self.is_open {
            self.board.tally(self.slice).lag.record(now_ns.saturating_sub(could_ns));
        }
        let op = Op::new(kind, self.params.values());
        if let Some(observer) = &mut self.observer {
            observer.sent(Ticket(index as u32), now_ns, client, cycle, &op);
        }
        let is_counted = now_ns >= self.grid.warmup_end_ns;
        if let Some(circuits) = self.rests.as_mut().and_then(|rests| rests.circuits.as_mut()) {
            circuits.tries_again(index, cycle);
        }
        if let Some(retries) = self.retries().filter(|_| is_counted) {
            retries.counts.retries += 1;
        }
        Next::Send { lane: index, cycle, scheduled_ns, kind }
    }
}
