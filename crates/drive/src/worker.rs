//! The worker's core: which operation is next, when, and what it came to. No I/O, no thread, no clock:
//! an executor tells it the time, which is how its tests run on a made-up one.

mod steps;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_core::pace::Wake;
use plimsoll_core::{Answer, KindId, Observer, Op, OpKind, Outcome, Steps, Stream, Ticket, ValueBuf};

use crate::board::{Board, RING, Shared};
use crate::clock::thread_switches;
use crate::errors::ErrorTable;
use crate::grid::Grid;
use crate::schedule::{Cursor, NEVER_NS};
use crate::spec::{OpTime, SPIN_NS, StopReason};
use crate::witness::Taint;
pub(crate) use steps::NextStep;
use steps::Tracks;

/// Longest a worker goes without looking whether it should stop.
pub(crate) const CHECK_NS: u64 = 10_000_000;
/// How long what is in flight goes on when the user wants an end.
pub(crate) const CANCEL_NS: u64 = 500_000_000;
/// Longest turn of a worker's loop in which an answer counts as taken when it came: a few dozen sockets' worth. What
/// is shorter is not carried on from operation to operation: in a queue that is the store's it would add up.
const ABREAST_NS: u64 = 100_000;
/// In place of the number of a client's next operation: it has no more.
const DONE: u64 = u64::MAX;
/// The grid of coarse wake-ups.
const COARSE_NS: u64 = 1_000_000;

/// Everything a core is made of.
pub(crate) struct Setup {
    pub stream: Arc<dyn Stream>,
    pub observer: Option<Box<dyn Observer>>,
    pub board: Arc<Board>,
    pub shared: Arc<Shared>,
    /// The clients it drives, by slot.
    pub clients: Vec<u32>,
    /// Their ways through operations of several steps, by slot; [`Tracks`] says what becomes of them.
    pub steps: Vec<Option<Box<dyn Steps>>>,
    /// All kinds of operation, by position.
    pub kinds: Arc<[OpKind]>,
    /// Number of each client's first operation.
    pub first_cycle: u64,
    pub ops_per_client: u64,
    /// Age of the oldest due operation at which an open loop gives up.
    pub backlog_ns: u64,
    pub op_timeout_ns: u64,
    pub open_timeout_ns: u64,
    pub ends_on_loss: bool,
    pub wake: Wake,
    /// Room for the times of single operations; 0 when they are not wanted.
    pub each_max: usize,
    /// CPU time of the worker so far, where it is the generator's alone.
    pub cpu_ns: fn() -> u64,
    /// How long the worker has waited for a processor that others had so far.
    pub queued_ns: fn() -> u64,
    /// Until when what is due is disturbed by a pause of the machine; stays at 0 without a witness.
    pub taint: Arc<Taint>,
}

/// What the phase's start tells a core.
#[derive(Debug)]
pub(crate) struct Start {
    pub grid: Grid,
    pub turns: Turns,
}

/// Where operations' times come from.
#[derive(Debug)]
pub(crate) enum Turns {
    /// Closed loop: when the last one is done.
    Closed,
    /// Open loop, every `stride`th arrival from `next` on.
    Own { arrivals: Cursor, next: u64, stride: u64 },
    /// Open loop, whichever arrival nobody has taken yet.
    Shared { arrivals: Cursor },
}

/// What an executor is to do next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send this on the session of `slot`; the ticket is the slot's number.
    /// [`WorkerCore::op`] is what is sent.
    // Not the `Op` itself: it would be copied by words that straddle those it was written by, and waiting for them to
    // reach the cache is a quarter of all that an operation costs.
    Send { slot: usize, cycle: u64, scheduled_ns: u64, kind: KindId },
    /// An operation of several steps has begun on `slot`: ask [`WorkerCore::step`] what is to be sent.
    Steps { slot: usize },
    /// Nothing is due before this time.
    SleepUntil(u64),
    /// No session is idle.
    Wait,
    /// Nothing will be started any more.
    Stop,
}

/// An operation that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub kind: KindId,
    pub cycle: u64,
    pub scheduled_ns: u64,
    pub sent_ns: u64,
}

/// What a slot is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    No,
    /// One operation that was sent as it is.
    Op,
    /// An operation of several steps.
    Steps,
}

// `kind` and `busy` are whole words because they are written and read within nanoseconds: a processor that
// reads a word right after a part of it was written waits for the write to reach its cache.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    client: u32,
    kind: u32,
    /// A [`Busy`].
    busy: u64,
    /// Number of the next operation.
    cycle: u64,
    scheduled_ns: u64,
    sent_ns: u64,
    /// When its operation could have been sent by a generator that is never late.
    could_ns: u64,
    /// When that generator would have had the session idle.
    free_ns: u64,
    ended_ns: u64,
}

impl Slot {
    /// When a generator that is never late would have had this session idle again, of which the answer was taken at
    /// `now_ns` by a worker that had last done all there was to do at `caught_up_ns`.
    ///
    /// It would have sent the operation at `could_ns`, and the store would have taken as long as it did. An answer
    /// that is taken long after the worker was last abreast of its sockets may have been there ever since then,
    /// and the worker is not given the benefit of the doubt.
    #[inline]
    fn free_after(&self, now_ns: u64, caught_up_ns: u64) -> u64 {
        let is_abreast = now_ns.saturating_sub(caught_up_ns) <= ABREAST_NS;
        let answered_ns = if is_abreast { now_ns } else { caught_up_ns.max(self.sent_ns) };
        self.could_ns + (answered_ns - self.sent_ns)
    }
}

/// Slots that wait for an operation, longest first. The first stands beside the queue: in a closed loop it is
/// most often the only one.
struct Idle {
    first: Option<u32>,
    others: VecDeque<u32>,
}

impl Idle {
    #[inline]
    fn push(&mut self, slot: u32) {
        if self.first.is_none() {
            self.first = Some(slot);
        } else {
            self.others.push_back(slot);
        }
    }

    #[inline]
    fn pop(&mut self) {
        self.first = if self.others.is_empty() { None } else { self.others.pop_front() };
    }

    fn remove(&mut self, slots: &Range<u32>) {
        self.others.retain(|other| !slots.contains(other));
        if self.first.is_some_and(|first| slots.contains(&first)) {
            self.pop();
        }
    }
}

pub(crate) struct WorkerCore {
    stream: Arc<dyn Stream>,
    observer: Option<Box<dyn Observer>>,
    pub board: Arc<Board>,
    shared: Arc<Shared>,
    grid: Grid,
    turns: Turns,
    slice: u32,
    /// When [`WorkerCore::check`] is due.
    check_at_ns: u64,
    params: ValueBuf,
    /// Apart, because most streams have none.
    tracks: Option<Box<Tracks>>,
    slots: Vec<Slot>,
    idle: Idle,
    in_flight: u64,
    started: u64,
    finished: u64,
    /// Clients that may have more operations.
    live_clients: usize,
    pub op_timeout_ns: u64,
    /// How long opening a session may take.
    pub open_timeout_ns: u64,
    /// An operation that is lost with its connection ends the phase.
    pub ends_on_loss: bool,
    /// Number after that of each client's last operation.
    end_cycle: u64,
    backlog_ns: u64,
    wake: Wake,
    /// The arrival that is next, when it has been taken from the schedule.
    held_ns: Option<u64>,
    ended: Option<StopReason>,
    ended_ns: u64,
    /// When it was seen that the user wants an end.
    cancelled_ns: Option<u64>,
    last_end_ns: u64,
    errors: ErrorTable,
    each: Vec<OpTime>,
    each_left_out: u64,
    cpu_ns: fn() -> u64,
    queued_ns: fn() -> u64,
    taint: Arc<Taint>,
    cpu_at_start_ns: u64,
    queued_at_start_ns: u64,
    switches_at_start: (u64, u64),
    /// The last moment at which the worker is known to have done all there was to do.
    caught_up_ns: u64,
    /// Times are kept against a schedule.
    is_open: bool,
    /// Reads the schedule ahead of what is due.
    ahead: Option<Ahead>,
}

/// A look ahead in the schedule, which goes on where it ended.
struct Ahead {
    arrivals: Cursor,
    next: u64,
    /// The time of arrival `next`.
    due_ns: u64,
}

/// What a core leaves behind.
pub(crate) struct CoreReport {
    pub stop: StopReason,
    pub last_end_ns: u64,
    pub errors: ErrorTable,
    pub each: Vec<OpTime>,
    pub each_left_out: u64,
}

impl WorkerCore {
    pub fn new(setup: Setup) -> Self {
        let cycle = setup.first_cycle;
        // With room behind, so that another worker's slots are not in the same cache line: they are written with every
        // operation.
        let mut slots = Vec::with_capacity(setup.clients.len() + 128_usize.div_ceil(size_of::<Slot>()));
        slots.extend(setup.clients.iter().map(|&client| Slot { client, cycle, ..Slot::default() }));
        Self {
            stream: setup.stream,
            observer: setup.observer,
            board: setup.board,
            shared: setup.shared,
            grid: Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1, end_ns: None },
            turns: Turns::Closed,
            slice: 0,
            check_at_ns: 0,
            params: ValueBuf::with_capacity(64, 4096),
            tracks: Tracks::new(&setup.kinds, setup.steps),
            idle: Idle { first: None, others: VecDeque::with_capacity(slots.len()) },
            in_flight: 0,
            started: 0,
            finished: 0,
            live_clients: slots.len(),
            slots,
            op_timeout_ns: setup.op_timeout_ns,
            open_timeout_ns: setup.open_timeout_ns,
            ends_on_loss: setup.ends_on_loss,
            end_cycle: setup.first_cycle.saturating_add(setup.ops_per_client),
            backlog_ns: setup.backlog_ns,
            wake: setup.wake,
            held_ns: None,
            ended: None,
            ended_ns: 0,
            cancelled_ns: None,
            last_end_ns: 0,
            errors: ErrorTable::new(),
            each: Vec::with_capacity(setup.each_max),
            each_left_out: 0,
            cpu_ns: setup.cpu_ns,
            queued_ns: setup.queued_ns,
            taint: setup.taint,
            cpu_at_start_ns: 0,
            queued_at_start_ns: 0,
            switches_at_start: (0, 0),
            caught_up_ns: 0,
            is_open: false,
            ahead: None,
        }
    }

    /// The phase begins, at the time that is returned.
    pub fn begin(&mut self, start: Start) -> u64 {
        self.grid = start.grid;
        self.turns = start.turns;
        self.last_end_ns = start.grid.start_ns;
        self.check_at_ns = start.grid.start_ns;
        self.caught_up_ns = start.grid.start_ns;
        self.is_open = !matches!(self.turns, Turns::Closed);
        if let Turns::Own { arrivals, next, .. } = &self.turns {
            let mut arrivals = arrivals.again();
            self.ahead = Some(Ahead { due_ns: arrivals.at(*next), arrivals, next: *next });
        }
        self.cpu_at_start_ns = (self.cpu_ns)();
        self.queued_at_start_ns = (self.queued_ns)();
        self.switches_at_start = thread_switches();
        self.grid.start_ns
    }

    /// The slice that is counted into.
    #[inline]
    pub fn slice(&self) -> u32 {
        self.slice
    }

    /// True when operations have scheduled times.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The worker has done all there was to do at `at_ns`: it went to sleep then, or it was woken by what it waited
    /// for. Executors say so each time they sleep.
    #[inline]
    pub fn caught_up(&mut self, at_ns: u64) {
        self.caught_up_ns = at_ns;
    }

    /// The session of `slot` is ready for an operation: in the moment in which its last one was answered, or later
    /// when it had to be opened again.
    pub fn release(&mut self, slot: usize, now_ns: u64) {
        let index = slot as u32;
        let slot = &mut self.slots[slot];
        if slot.ended_ns != now_ns {
            slot.free_ns = now_ns;
        }
        self.idle.push(index);
    }

    /// The session of `slots` is not there any more.
    pub fn withdraw(&mut self, slots: Range<usize>) {
        self.idle.remove(&(slots.start as u32..slots.end as u32));
    }

    /// What `slot` is busy with.
    #[inline]
    pub fn busy(&self, slot: usize) -> Busy {
        match self.slots[slot].busy {
            0 => Busy::No,
            1 => Busy::Op,
            _ => Busy::Steps,
        }
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// True when nothing will be started any more.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Number of slots.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// True when the phase ends at a time.
    pub fn has_planned_end(&self) -> bool {
        self.grid.end_ns.is_some()
    }

    /// What to do next, at `now_ns`.
    #[inline(always)]
    pub fn next(&mut self, now_ns: u64) -> Next {
        self.check_if_due(now_ns);
        loop {
            if self.ended.is_some() {
                return Next::Stop;
            }
            let Some(index) = self.idle.first else { return Next::Wait };
            let index = index as usize;
            let due_ns = if self.is_open { self.due() } else { None };
            let scheduled_ns = match due_ns {
                None => now_ns,
                Some(at_ns) if at_ns <= now_ns => at_ns,
                // A schedule that is over and no clock that would end the phase.
                Some(NEVER_NS) if self.grid.end_ns.is_none() => {
                    self.end(now_ns, StopReason::Exhausted);
                    return Next::Stop;
                }
                Some(at_ns) => {
                    let end_ns = self.grid.end_ns.unwrap_or(u64::MAX);
                    let wake_ns = if self.wake == Wake::Coarse { self.coarse(at_ns) } else { at_ns };
                    // What is due in the last millisecond would otherwise never be sent.
                    return Next::SleepUntil(if wake_ns < end_ns { wake_ns } else { at_ns.min(end_ns) });
                }
            };
            self.idle.pop();
            let slot = &mut self.slots[index];
            self.params.clear();
            let cycle = slot.cycle;
            let kind = match cycle < self.end_cycle {
                true => self.stream.op(slot.client, cycle, &mut self.params),
                false => None,
            };
            let Some(kind) = kind else {
                // A client that is done comes back when its connection was lost and opened again, and is still done.
                if cycle != DONE {
                    slot.cycle = DONE;
                    let reason = if cycle < self.end_cycle { StopReason::Exhausted } else { StopReason::Limit };
                    self.client_is_done(now_ns, reason);
                }
                continue;
            };
            slot.busy = Busy::Op as u64;
            slot.kind = u32::from(kind);
            slot.cycle = cycle + 1;
            slot.scheduled_ns = scheduled_ns;
            slot.sent_ns = now_ns;
            self.in_flight += 1;
            self.started += 1;
            self.board.started.store(self.started, Relaxed);
            if self.is_open {
                self.held_ns = None;
                slot.could_ns = scheduled_ns.max(slot.free_ns);
                self.board.tally(self.slice).lag.record(now_ns.saturating_sub(slot.could_ns));
            }
            let op = Op::new(kind, self.params.values());
            if let Some(observer) = &mut self.observer {
                observer.sent(Ticket(index as u32), now_ns, slot.client, cycle, &op);
            }
            if let Some(tracks) = &mut self.tracks
                && tracks.is_steps(kind)
            {
                slot.busy = Busy::Steps as u64;
                tracks.begin(index, cycle, kind, op.params);
                return Next::Steps { slot: index };
            }
            return Next::Send { slot: index, cycle, scheduled_ns, kind };
        }
    }

    /// The operation of `kind` that [`WorkerCore::next`] said to send last.
    #[inline(always)]
    pub fn op(&self, kind: KindId) -> Op<'_> {
        Op::new(kind, self.params.values())
    }

    /// The operation that `slot` is busy with.
    pub fn begun(&self, slot: usize) -> Begun {
        let Slot { kind, cycle, scheduled_ns, sent_ns, .. } = self.slots[slot];
        // A slot's cycle is that of its next operation.
        Begun { kind: kind as KindId, cycle: cycle.saturating_sub(1), scheduled_ns, sent_ns }
    }

    /// The operation of `slot` came to `outcome` at `now_ns`. The session is not released by this.
    #[inline(always)]
    pub fn finish(&mut self, slot: usize, now_ns: u64, outcome: Outcome, answer: &Answer) {
        self.check_if_due(now_ns);
        self.count_finished(slot, now_ns, outcome, answer);
        if outcome.is_error() {
            self.errors.note(outcome, answer);
        }
    }

    #[inline(always)]
    fn count_finished(&mut self, slot: usize, now_ns: u64, outcome: Outcome, answer: &Answer) {
        let index = slot;
        let slot = &mut self.slots[index];
        debug_assert!(slot.busy != Busy::No as u64, "an operation ends once");
        slot.busy = Busy::No as u64;
        self.in_flight -= 1;
        self.finished += 1;
        self.last_end_ns = now_ns;
        self.board.finished.store(self.finished, Relaxed);
        if self.is_open {
            slot.ended_ns = now_ns;
            slot.free_ns = slot.free_after(now_ns, self.caught_up_ns);
        }
        let service_ns = now_ns.saturating_sub(slot.sent_ns);
        let response_ns = now_ns.saturating_sub(slot.scheduled_ns);
        let tally = self.board.tally(self.slice);
        tally.record(slot.kind as KindId, outcome, service_ns, response_ns);
        // A witness goes before everybody on its processor: what a pause held up ends after it was told of. In a closed
        // loop an operation is due when it is sent.
        if self.taint.covers(slot.scheduled_ns) {
            tally.record_disturbed(slot.kind as KindId, outcome, response_ns);
        }
        if let Some(observer) = &mut self.observer {
            observer.finished(Ticket(index as u32), now_ns, outcome, answer);
        }
        if self.each.capacity() > 0 && now_ns >= self.grid.warmup_end_ns {
            self.keep(index, now_ns, outcome);
        }
    }

    /// Looks at slice's end, phase's end and stop flags when one of them may have come.
    #[inline]
    pub fn check_if_due(&mut self, now_ns: u64) {
        if now_ns >= self.check_at_ns {
            self.check(now_ns);
        }
    }

    /// True when the phase is to end, for whatever reason.
    pub fn must_end(&self) -> bool {
        self.shared.must_end()
    }

    /// True when the user wants an end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled_ns.is_some()
    }

    /// Ends the phase for this worker, or for all of them when `reason` is not its own.
    pub fn halt(&mut self, now_ns: u64, reason: StopReason) {
        self.shared.halt.store(true, Relaxed);
        self.end(now_ns, reason);
    }

    /// When the worker is to be awake next for an arrival after `after_ns`, which is not before what it was asked with
    /// last.
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
        let wake_ns = if self.wake == Wake::Coarse { self.coarse(due_ns) } else { due_ns };
        self.grid.end_ns.is_none_or(|end_ns| wake_ns < end_ns).then_some(wake_ns).filter(|at_ns| *at_ns != NEVER_NS)
    }

    /// The first coarse wake-up not before `at_ns`.
    fn coarse(&self, at_ns: u64) -> u64 {
        let after_ns = at_ns.saturating_sub(self.grid.start_ns).div_ceil(COARSE_NS).saturating_mul(COARSE_NS);
        self.grid.start_ns.saturating_add(after_ns)
    }

    /// How long before a due operation a blocking executor looks at the clock instead of sleeping.
    pub fn spin_ns(&self) -> u64 {
        match self.wake {
            Wake::Spin => SPIN_NS,
            Wake::Precise | Wake::Coarse => 0,
        }
    }

    /// How workers wake up.
    pub fn wake(&self) -> Wake {
        self.wake
    }

    /// The scheduled time of the next operation; `None` in a closed loop.
    fn due(&mut self) -> Option<u64> {
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
            Turns::Shared { arrivals } => Some(arrivals.at(self.shared.next_arrival.fetch_add(1, Relaxed))),
        };
        self.held_ns
    }

    /// When the oldest operation that nobody has sent is or was due.
    fn oldest_unsent_ns(&mut self) -> Option<u64> {
        match &mut self.turns {
            Turns::Closed => None,
            _ if self.held_ns.is_some() => self.held_ns,
            Turns::Own { arrivals, next, .. } => Some(arrivals.at(*next)),
            Turns::Shared { arrivals } => Some(arrivals.at(self.shared.next_arrival.load(Relaxed))),
        }
    }

    #[cold]
    fn client_is_done(&mut self, now_ns: u64, reason: StopReason) {
        self.live_clients -= 1;
        if self.live_clients == 0 {
            self.end(now_ns, reason);
        }
    }

    #[cold]
    fn check(&mut self, now_ns: u64) {
        let taken = self.shared.taken.load(std::sync::atomic::Ordering::Acquire);
        if let Some(end_ns) = &mut self.grid.end_ns {
            // Only ever later, and long before the end that was planned.
            *end_ns = (*end_ns).max(self.shared.end_ns.load(Relaxed));
        }
        // A worker that has nothing to count any more stays where it is, so that the slice is the phase's last.
        let is_over = self.in_flight == 0 && (self.has_ended() || self.grid.end_ns.is_some_and(|end| now_ns >= end));
        let current = if is_over { taken } else { self.grid.at(now_ns, self.slice) };
        let moves_to = current.min(taken.saturating_add(RING - 1));
        if moves_to > self.slice {
            let oldest_ns =
                self.slots.iter().filter(|slot| slot.busy != Busy::No as u64).map(|slot| slot.scheduled_ns).min();
            self.board.oldest_ns.store(oldest_ns.unwrap_or(u64::MAX), Relaxed);
            self.publish_usage();
            self.slice = moves_to;
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
                && now_ns.saturating_sub(due_ns) > self.backlog_ns
            {
                // A worker that was abreast of its sockets all the while waited for the store.
                let is_stores = self.caught_up_ns.saturating_sub(due_ns) > self.backlog_ns / 2;
                self.halt(now_ns, if is_stores { StopReason::Backlog } else { StopReason::Behind });
            }
        }
        let slice_end_ns = self.grid.end(self.slice);
        let slice_end_ns = if slice_end_ns > now_ns { slice_end_ns } else { now_ns + CHECK_NS / 10 };
        let planned_end_ns = if self.ended.is_none() { planned_end_ns } else { u64::MAX };
        self.check_at_ns = slice_end_ns.min(now_ns + CHECK_NS).min(planned_end_ns);
    }

    fn publish_usage(&self) {
        self.board.cpu_ns.store((self.cpu_ns)().saturating_sub(self.cpu_at_start_ns), Relaxed);
        self.board.queued_ns.store((self.queued_ns)().saturating_sub(self.queued_at_start_ns), Relaxed);
        let ((voluntary, involuntary), before) = (thread_switches(), self.switches_at_start);
        self.board.voluntary.store(voluntary.saturating_sub(before.0), Relaxed);
        self.board.involuntary.store(involuntary.saturating_sub(before.1), Relaxed);
    }

    #[cold]
    fn end(&mut self, at_ns: u64, reason: StopReason) {
        if self.ended.is_some() {
            return;
        }
        // An operation that the stream does not have was never due.
        if !matches!(reason, StopReason::Exhausted) && self.live_clients > 0 {
            let unfinished = &self.board.tally(self.slice).unfinished;
            let mut wait = |due_ns: u64| {
                let is_due = due_ns < at_ns;
                if is_due {
                    unfinished.record(at_ns - due_ns);
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

    fn keep(&mut self, slot: usize, end_ns: u64, outcome: Outcome) {
        if self.each.len() == self.each.capacity() {
            self.each_left_out += 1;
            return;
        }
        let Slot { client, kind, cycle, scheduled_ns, sent_ns, .. } = self.slots[slot];
        self.each.push(OpTime {
            client,
            cycle: cycle - 1,
            kind: kind as KindId,
            outcome,
            scheduled_ns,
            sent_ns,
            end_ns,
        });
    }

    /// What the worker has to say when it is done.
    pub fn report(self) -> CoreReport {
        self.publish_usage();
        let planned = self.ended == Some(StopReason::Limit) && self.grid.end_ns == Some(self.ended_ns);
        CoreReport {
            last_end_ns: if planned { self.last_end_ns.max(self.ended_ns) } else { self.last_end_ns },
            stop: self.ended.unwrap_or(StopReason::Cancelled),
            errors: self.errors,
            each: self.each,
            each_left_out: self.each_left_out,
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
