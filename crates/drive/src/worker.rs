//! The worker's core: which operation is next, when, and what it came to. No I/O, no thread, no clock:
//! an executor tells it the time, which is how its tests run on a made-up one.

mod breaker;
mod each;
mod ends;
mod lane;
mod not_begun;
mod rest;
mod retries;
mod setup;
mod steps;
mod turns;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_core::pace::WakeMode;
use plimsoll_core::{Address, Answer, KindId, Observer, Op, Outcome, Stream, Ticket, ValueBuf, WireSession};

use crate::board::{Board, Shared};
use crate::clock::thread_switches;
use crate::errors::ErrorTable;
use crate::grid::Grid;
use crate::result::{OpTime, StopReason};
use crate::schedule::NEVER_NS;
use crate::silence::Unanswered;
use crate::spec::SPIN_NS;
use crate::witness::Taint;
use breaker::Circuits;
pub(crate) use lane::{Begun, Busy};
use lane::{Idle, Lane};
pub(crate) use rest::Rests;
use retries::Retries;
pub(crate) use setup::{CoreReport, Settings, Setup, Start};
pub(crate) use steps::NextStep;
use steps::Tracks;
use turns::Ahead;
pub(crate) use turns::Turns;

/// Longest a worker goes without looking whether it should stop.
pub(crate) const CHECK_NS: u64 = 10_000_000;
/// Time that operations in flight may take when the user wants an end.
pub(crate) const CANCEL_NS: u64 = 500_000_000;
/// Value in place of the number of a client's next operation: it has no more.
const DONE: u64 = u64::MAX;

/// Next action of an executor.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send this on the session of `lane`; the ticket is the lane's number.
    /// [`WorkerCore::op`] is what is sent.
    // Not the `Op` itself: it would be copied by words that straddle those it was written by, and waiting for them to
    // reach the cache is a quarter of all that an operation costs.
    Send { lane: usize, cycle: u64, scheduled_ns: u64, kind: KindId },
    /// An operation of several steps has begun on `lane`: ask [`WorkerCore::step`] what is to be sent.
    Steps { lane: usize },
    /// No operation is due before this time.
    SleepUntil(u64),
    /// No session is idle.
    Wait,
    /// No operation will be started any more.
    Stop,
}

pub(crate) struct WorkerCore {
    stream: Arc<dyn Stream>,
    observer: Option<Box<dyn Observer>>,
    pub board: Arc<Board>,
    shared: Arc<Shared>,
    grid: Grid,
    turns: Turns,
    slice: u32,
    /// Start of the slice.
    slice_start_ns: u64,
    /// Time at which [`WorkerCore::check`] is due.
    check_at_ns: u64,
    params: ValueBuf,
    /// Apart, because most streams have none.
    tracks: Option<Box<Tracks>>,
    lanes: Vec<Lane>,
    /// Number of the server of each lane; none if all lanes use one server.
    servers: Box<[u32]>,
    /// Clients that wait for an answer; none if silences are not looked for.
    unanswered: Unanswered,
    /// Part of the keys of the last operation of each lane; none if sessions do not know.
    parts: Box<[u8]>,
    idle: Idle,
    /// True for each lane whose operation the server has not begun: it waits for another connection, or for a time.
    not_begun: Box<[bool]>,
    /// Number of these lanes.
    not_begun_count: usize,
    asked_again: u64,
    /// Apart, because most phases have none.
    rests: Option<Box<Rests>>,
    first_cycle: u64,
    /// Time from which on operations count towards `ops_max`; [`NEVER_NS`] once they do.
    count_from_ns: u64,
    // The number in flight is their difference. Kept beside `started`, it would be written as one word and read as two
    // at once, which waits for the write to reach the cache.
    started: u64,
    finished: u64,
    /// Clients that may have more operations.
    live_clients: usize,
    pub settings: Settings,
    /// The arrival that is next, when it has been taken from the schedule.
    held_ns: Option<u64>,
    ended: Option<StopReason>,
    ended_ns: u64,
    /// Time at which the user's wish to end was seen.
    cancelled_ns: Option<u64>,
    last_end_ns: u64,
    errors: ErrorTable,
    each: Vec<OpTime>,
    /// End of the first operation without room in `each`; [`u64::MAX`] without one.
    each_until_ns: u64,
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

impl WorkerCore {
    pub fn new(setup: Setup) -> Self {
        let cycle = setup.first_cycle;
        // With room behind, so that another worker's lanes are not in the same cache line: they are written with every
        // operation.
        let mut lanes = Vec::with_capacity(setup.clients.len() + 128_usize.div_ceil(size_of::<Lane>()));
        lanes.extend(setup.clients.iter().map(|&client| Lane {
            client,
            cycle,
            end_cycle: u64::MAX,
            ..Lane::default()
        }));
        Self {
            stream: setup.stream,
            observer: setup.observer,
            board: setup.board,
            shared: setup.shared,
            grid: Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1, end_ns: None },
            turns: Turns::Closed,
            slice: 0,
            slice_start_ns: 0,
            check_at_ns: 0,
            params: ValueBuf::with_capacity(64, 4096),
            tracks: Tracks::new(&setup.kinds, setup.steps),
            idle: Idle { first: None, others: VecDeque::with_capacity(lanes.len()) },
            not_begun: vec![false; lanes.len()].into(),
            not_begun_count: 0,
            asked_again: 0,
            servers: if setup.tells_servers { vec![0; lanes.len()].into() } else { Box::default() },
            unanswered: Unanswered::of(if setup.tells_silences { lanes.len() } else { 0 }),
            parts: if setup.tells_parts { vec![0; lanes.len()].into() } else { Box::default() },
            rests: setup.rests,
            first_cycle: cycle,
            count_from_ns: NEVER_NS,
            started: 0,
            finished: 0,
            live_clients: lanes.len(),
            lanes,
            settings: setup.settings,
            held_ns: None,
            ended: None,
            ended_ns: 0,
            cancelled_ns: None,
            last_end_ns: 0,
            errors: ErrorTable::new(),
            each: Vec::with_capacity(setup.each_max),
            each_until_ns: u64::MAX,
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
        self.slice_start_ns = start.grid.start_ns;
        self.check_at_ns = start.grid.start_ns;
        self.count_from_ns = start.grid.warmup_end_ns;
        self.caught_up_ns = start.grid.start_ns;
        self.is_open = !matches!(self.turns, Turns::Closed);
        if let Turns::Own { arrivals, next, .. } = &self.turns {
            let mut arrivals = arrivals.again();
            self.ahead = Some(Ahead { due_ns: arrivals.at(*next), arrivals, next: *next });
        }
        self.cpu_at_start_ns = (self.settings.cpu_ns)();
        self.queued_at_start_ns = (self.settings.queued_ns)();
        self.switches_at_start = thread_switches();
        self.grid.start_ns
    }

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

    /// The session of `lane` is ready for an operation: in the moment in which its last one was answered, or later
    /// when it had to be opened again.
    pub fn release(&mut self, lane: usize, now_ns: u64) {
        let index = lane as u32;
        let lane = &mut self.lanes[lane];
        if lane.ended_ns != now_ns {
            lane.free_ns = now_ns;
        }
        if let Some(rests) = &mut self.rests {
            if rests.circuits.as_mut().is_some_and(|circuits| circuits.is_ready(index))
                || rests.retries.as_mut().is_some_and(|retries| retries.is_ready(index))
            {
                return;
            }
            // A client that is done is not waited for.
            if lane.cycle < lane.end_cycle {
                // A think time begins with the answer, whatever has become of its connection since.
                let ended_ns = (lane.cycle > self.first_cycle).then_some(lane.ended_ns);
                let until_ns = rests.until(&self.grid, lane.client, lane.cycle, ended_ns, now_ns);
                if until_ns > now_ns {
                    return rests.push(index, until_ns);
                }
            }
        }
        self.idle.push(index);
    }

    /// The session of `lanes` is not there any more.
    pub fn withdraw(&mut self, lanes: Range<usize>) {
        let lanes = lanes.start as u32..lanes.end as u32;
        self.idle.remove(&lanes);
        if let Some(rests) = &mut self.rests {
            rests.remove(&lanes);
        }
    }

    #[inline]
    pub fn busy(&self, lane: usize) -> Busy {
        match self.lanes[lane].busy {
            0 => Busy::No,
            1 => Busy::Op,
            _ => Busy::Steps,
        }
    }

    /// The server at `address` is asked by `lanes` from now on.
    pub fn asks(&mut self, lanes: Range<usize>, address: &Address) {
        if !self.servers.is_empty() {
            let server = self.shared.server(address);
            lanes.for_each(|lane| self.asks_server(lane, server));
        }
    }

    /// Notes the server of an operation by the server's number.
    #[inline]
    pub fn asks_server(&mut self, lane: usize, server: usize) {
        if let Some(known) = self.servers.get_mut(lane)
            && *known != server as u32
        {
            *known = server as u32;
            if let Some(observer) = &mut self.observer {
                observer.answered_by(Ticket(lane as u32), server as u32);
            }
        }
    }

    /// Notes the part of the keys of the operation, or step, that `session` has just started for `lane`.
    #[inline]
    pub fn asks_part(&mut self, lane: usize, now_ns: u64, session: &dyn WireSession) {
        if let Some(part) = self.parts.get_mut(lane) {
            *part = session.key_part();
            let at_ns = now_ns.saturating_sub(self.slice_start_ns);
            self.board.tally(self.slice).key_parts.ask(at_ns, *part);
        }
    }

    /// The number of the server at `address`.
    pub fn server(&self, address: &Address) -> usize {
        if self.servers.is_empty() { 0 } else { self.shared.server(address) }
    }

    /// Returns the number of the client of `lane`.
    #[cfg(feature = "async")]
    pub fn client(&self, lane: usize) -> u32 {
        self.lanes[lane].client
    }

    pub fn in_flight(&self) -> u64 {
        self.started - self.finished
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// True when the phase ends at a time.
    pub fn has_planned_end(&self) -> bool {
        self.grid.end_ns.is_some()
    }

    /// Returns the next action, at `now_ns`.
    #[inline(always)]
    pub fn next(&mut self, now_ns: u64) -> Next {
        self.check_if_due(now_ns);
        if let Some(rests) = &mut self.rests {
            while let Some(lane) = rests.pop(now_ns) {
                self.idle.push(lane);
            }
            if self.ended.is_none()
                && let Some(lane) = rests.retries.as_mut().and_then(Retries::take)
            {
                return self.send_again(lane as usize, now_ns);
            }
        }
        loop {
            if self.ended.is_some() {
                return Next::Stop;
            }
            let Some(index) = self.idle.first else {
                return if self.rests.is_some() { self.without_idle(now_ns) } else { Next::Wait };
            };
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
                    let wake_ns = if self.settings.wake == WakeMode::Coarse { self.coarse(at_ns) } else { at_ns };
                    // What is due in the last millisecond would otherwise never be sent.
                    return Next::SleepUntil(if wake_ns < end_ns { wake_ns } else { at_ns.min(end_ns) });
                }
            };
            self.idle.pop();
            let Some((cycle, kind)) = self.begin_op(index, scheduled_ns, now_ns) else { continue };
            if let Some(tracks) = &mut self.tracks
                && tracks.is_steps(kind)
            {
                self.lanes[index].busy = Busy::Steps as u64;
                tracks.begin(index, cycle, kind, self.params.values());
                return Next::Steps { lane: index };
            }
            return Next::Send { lane: index, cycle, scheduled_ns, kind };
        }
    }

    /// Begins the next operation of the client of a lane, due at `scheduled_ns`. Returns its number and type, or `None` if
    /// the client is done.
    #[inline(always)]
    fn begin_op(&mut self, index: usize, scheduled_ns: u64, now_ns: u64) -> Option<(u64, KindId)> {
        let lane = &mut self.lanes[index];
        self.params.clear();
        let cycle = lane.cycle;
        let kind = match cycle < lane.end_cycle {
            true => self.stream.op(lane.client, cycle, &mut self.params),
            false => None,
        };
        let Some(kind) = kind else {
            // A client that is done comes back when its connection was lost and opened again, and is still done.
            if cycle != DONE {
                let reason = if cycle < lane.end_cycle { StopReason::Exhausted } else { StopReason::Limit };
                lane.cycle = DONE;
                self.client_is_done(now_ns, reason);
            }
            return None;
        };
        lane.busy = Busy::Op as u64;
        lane.kind = u32::from(kind);
        lane.cycle = cycle + 1;
        lane.scheduled_ns = scheduled_ns;
        lane.sent_ns = now_ns;
        self.started += 1;
        self.board.started.store(self.started, Relaxed);
        if self.is_open {
            self.held_ns = None;
            lane.could_ns = scheduled_ns.max(lane.free_ns);
            self.board.tally(self.slice).lag.record(now_ns.saturating_sub(lane.could_ns));
        }
        let op = Op::new(kind, self.params.values());
        if let Some(observer) = &mut self.observer {
            observer.sent(Ticket(index as u32), now_ns, lane.client, cycle, &op);
        }
        Some((cycle, kind))
    }

    /// The operation of `kind` that [`WorkerCore::next`] said to send last.
    #[inline(always)]
    pub fn op(&self, kind: KindId) -> Op<'_> {
        Op::new(kind, self.params.values())
    }

    pub fn begun(&self, lane: usize) -> Begun {
        let Lane { kind, cycle, scheduled_ns, sent_ns, .. } = self.lanes[lane];
        // A lane's cycle is that of its next operation.
        Begun { kind: kind as KindId, cycle: cycle.saturating_sub(1), scheduled_ns, sent_ns }
    }

    /// The operation of `lane` came to `outcome` at `now_ns`. The session is not released by this.
    #[inline(always)]
    pub fn finish(&mut self, lane: usize, now_ns: u64, outcome: Outcome, answer: &Answer) {
        self.check_if_due(now_ns);
        self.count_finished(lane, now_ns, outcome, answer);
        if outcome.is_error() {
            self.errors.note(now_ns, outcome, answer);
            self.failed(lane, now_ns, outcome);
        }
    }

    #[inline(always)]
    fn count_finished(&mut self, lane: usize, now_ns: u64, outcome: Outcome, answer: &Answer) {
        let index = lane;
        let lane = &mut self.lanes[index];
        debug_assert!(lane.busy != Busy::No as u64, "an operation ends once");
        lane.busy = Busy::No as u64;
        self.finished += 1;
        self.last_end_ns = now_ns;
        self.board.finished.store(self.finished, Relaxed);
        let times = (lane.sent_ns, now_ns);
        let silence = self.unanswered.end(index, times, outcome, || lane.unasked(self.is_open, lane.scheduled_ns));
        lane.ended_ns = now_ns;
        if self.is_open {
            lane.free_ns = lane.free_after(now_ns, self.caught_up_ns);
        }
        let service_ns = now_ns.saturating_sub(lane.sent_ns);
        let response_ns = now_ns.saturating_sub(lane.scheduled_ns);
        let tally = self.board.tally(self.slice);
        tally.record(lane.kind as KindId, outcome, service_ns, response_ns);
        let at_ns = now_ns.saturating_sub(self.slice_start_ns);
        tally.record_tick(at_ns, outcome, lane.client, response_ns);
        if let Some((from_ns, until_ns)) = silence {
            tally.silences.note(index, lane.client, from_ns, until_ns);
        }
        if let Some(server) = self.servers.get(index)
            && !outcome.is_error()
        {
            tally.record_server(*server as usize, at_ns, response_ns);
        }
        if let Some(part) = self.parts.get(index)
            && !outcome.is_error()
        {
            tally.key_parts.answer(at_ns, *part);
        }
        // A witness goes before everybody on its processor: what a pause held up ends after it was told of. In a closed
        // loop an operation is due when it is sent.
        if self.taint.covers(lane.scheduled_ns) {
            tally.record_disturbed(lane.kind as KindId, outcome, response_ns);
        }
        if let Some(observer) = &mut self.observer {
            observer.finished(Ticket(index as u32), now_ns, outcome, answer);
        }
        if self.each.capacity() > 0 && now_ns >= self.grid.warmup_end_ns {
            self.keep(index, now_ns, outcome, answer.rows);
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

    /// Returns the time before a due operation at which a blocking executor polls the clock instead of sleeping,
    /// nanoseconds.
    pub fn spin_ns(&self) -> u64 {
        match self.settings.wake {
            WakeMode::Spin => SPIN_NS,
            WakeMode::Precise | WakeMode::Coarse => 0,
        }
    }

    /// Returns the worker's final report.
    pub fn report(self) -> CoreReport {
        self.publish_usage();
        let planned = self.ended == Some(StopReason::Limit) && self.grid.end_ns == Some(self.ended_ns);
        let silent = self.silent();
        let (retries, circuits) = self.rests.map_or((None, None), |rests| (rests.retries, rests.circuits));
        CoreReport {
            last_end_ns: if planned { self.last_end_ns.max(self.ended_ns) } else { self.last_end_ns },
            stop: self.ended.unwrap_or(StopReason::Cancelled),
            errors: self.errors,
            silent,
            each: self.each,
            each_until_ns: self.each_until_ns,
            retries: retries.map(Retries::report),
            breaker: circuits.map(Circuits::report),
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
