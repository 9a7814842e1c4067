//! A simulated drive, operation by operation.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_core::random::SplitMix;
use plimsoll_core::{Answer, BlockingSession, Call, Observer, Op, Outcome, Sessions, Slice, Ticket, ValueBuf};
use plimsoll_drive::{
    Arrivals, Drive, DriveError, DriveResult, DriveSpec, ErrorCount, Limit, OpTime, Pace, StopReason,
};

use super::StoreModel;
use super::slicing::{EndedOp, Slicing, record, times_of};

/// Operations from one slow one to the next, above the rate of a [`super::SlowTail`].
const SLOW_EACH: u64 = 20;

/// Carries out `drive` from `start_ns` on.
pub(super) fn run(
    mut drive: Drive<'_>,
    model: StoreModel,
    start_ns: u64,
    on_slice: &mut dyn FnMut(Slice),
) -> Result<DriveResult, DriveError> {
    let spec = drive.spec;
    if let Some(error) = &model.error {
        return Err(DriveError::Store(error.clone()));
    }
    let has_policy = spec.retry.is_some() || spec.breaker.is_some();
    let has_own = spec.think.is_some() || spec.reconnect.is_some() || has_policy;
    if !spec.groups.is_empty() || !spec.stages.is_empty() || has_own {
        return Err(not_simulated("a drive with scenarios, think times, stages, reconnects, retries or breakers"));
    }
    let (Sessions::Blocking(sessions) | Sessions::Instant(sessions)) = &mut drive.sessions else {
        return Err(not_simulated("a store whose sessions need a server"));
    };
    let mut sessions = std::mem::take(sessions);
    for session in &mut sessions {
        session.prepare(drive.kinds).map_err(DriveError::Store)?;
    }
    let length_ns = if let Limit::Duration(length) = spec.limit { Some(nanos(length)) } else { None };
    let is_open = spec.pace.is_open();
    let slicing = Slicing::new(start_ns, nanos(spec.warmup), length_ns, nanos(spec.slice), is_open);
    let mut running = Running {
        queue: Queue::of(&model, spec, start_ns),
        schedule: Schedule::of(spec, start_ns),
        slicing: slicing.with_ticks(spec.ticks, sessions.len() as u32, model.key_parts),
        lanes: sessions.iter().map(|_| Lane { cycle: spec.first_cycle, counted: 0, answer: None }).collect(),
        free: (0..sessions.len()).map(|lane| Reverse((start_ns, lane))).collect(),
        unheard: BinaryHeap::new(),
        halted: None,
        last_end_ns: start_ns,
        kinds: vec![[0; 4]; drive.kinds.len()],
        warmup_ops: 0,
        errors: Vec::new(),
        each: Vec::new(),
        sessions,
        model,
        drive,
    };
    running.drive(on_slice)?;
    Ok(running.finish(on_slice))
}

fn not_simulated(what: &str) -> DriveError {
    DriveError::Spec(format!("{what} is not simulated"))
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Returns the part of the keys of an operation, of so many.
fn part_of(op: &Op<'_>, parts: u8) -> u8 {
    let step = |sum: u8, byte: &u8| sum.wrapping_mul(31).wrapping_add(*byte);
    let sum = op.params.get(0).with_bytes(|bytes| bytes.iter().fold(0, step));
    sum.checked_rem(parts).unwrap_or(0)
}

/// Progress of a client.
struct Lane {
    /// Number of its next operation.
    cycle: u64,
    /// Operations that ended after the warm-up.
    counted: u64,
    /// Answer that its observer has not heard of yet.
    answer: Option<(Outcome, Answer)>,
}

/// Queue of the store.
struct Queue {
    service_ns: f64,
    spread: f64,
    latency_ns: u64,
    wait_max_ns: u64,
    slow_ns: u64,
    /// Starts and ends of outages.
    outages: Vec<(u64, u64)>,
    /// Part of the keys that is refused, from a time to another.
    refused_part: Option<(u8, (u64, u64))>,
    random: SplitMix,
    free_ns: u64,
    served: u64,
}

impl Queue {
    fn of(model: &StoreModel, spec: &DriveSpec, start_ns: u64) -> Self {
        let rate_per_s = spec.pace.rate().map_or(0.0, |rate| rate.peak_per_s());
        let slow = model.tail.filter(|tail| rate_per_s > tail.above_per_s);
        let outage = |(from, length): &(Duration, Duration)| {
            let from_ns = start_ns + nanos(*from);
            (from_ns, from_ns + nanos(*length))
        };
        Self {
            service_ns: 1e9 / model.capacity_per_s,
            spread: model.spread,
            latency_ns: nanos(model.latency),
            wait_max_ns: model.wait_max.map_or(u64::MAX, nanos),
            slow_ns: slow.map_or(0, |tail| nanos(tail.by)),
            outages: model.outages.iter().map(outage).collect(),
            refused_part: model.refused_part.map(|(part, from, length)| (part, outage(&(from, length)))),
            random: SplitMix::new(spec.seed),
            free_ns: start_ns,
            served: 0,
        }
    }

    /// Returns the time of the answer to an operation for `part` that arrives at `sent_ns`; `None` if it is refused.
    fn answers_at(&mut self, sent_ns: u64, part: u8) -> Option<u64> {
        let is_refused =
            |&(of, (from_ns, until_ns)): &(u8, (u64, u64))| of == part && (from_ns..until_ns).contains(&sent_ns);
        if self.refused_part.as_ref().is_some_and(is_refused) {
            return None;
        }
        let mut begins_ns = self.free_ns.max(sent_ns);
        for (from_ns, until_ns) in &self.outages {
            if (*from_ns..*until_ns).contains(&begins_ns) {
                begins_ns = *until_ns;
            }
        }
        if begins_ns - sent_ns > self.wait_max_ns {
            return None;
        }
        let varied = 1.0 + self.spread * (2.0 * self.random.share() - 1.0);
        self.free_ns = begins_ns + (self.service_ns * varied) as u64;
        self.served += 1;
        let slow_ns = if self.served.is_multiple_of(SLOW_EACH) { self.slow_ns } else { 0 };
        Some(self.free_ns + self.latency_ns + slow_ns)
    }
}

/// Scheduled times of an open loop.
struct Schedule {
    /// Mean time between two operations, in nanoseconds.
    gap_ns: f64,
    /// Random numbers of a Poisson process; `None` for even arrivals.
    random: Option<SplitMix>,
    next_ns: f64,
    /// Operations whose times were calculated and that were not sent.
    due: VecDeque<u64>,
    /// Number of operations due so far, from the end of the warm-up.
    counted: u64,
    warmup_end_ns: u64,
}

impl Schedule {
    /// Returns `None` for a closed loop.
    fn of(spec: &DriveSpec, start_ns: u64) -> Option<Self> {
        let Pace::Open { rate, arrivals } = &spec.pace else { return None };
        Some(Self {
            gap_ns: 1e9 / rate.peak_per_s(),
            random: (*arrivals == Arrivals::Poisson).then(|| SplitMix::new(!spec.seed)),
            next_ns: start_ns as f64,
            due: VecDeque::new(),
            counted: 0,
            warmup_end_ns: start_ns + nanos(spec.warmup),
        })
    }

    /// Calculates one more time.
    fn add(&mut self) -> u64 {
        let gaps = self.random.as_mut().map_or(1.0, |random| -(1.0 - random.share()).ln());
        let due_ns = self.next_ns as u64;
        self.next_ns += gaps * self.gap_ns;
        self.counted += u64::from(due_ns >= self.warmup_end_ns);
        self.due.push_back(due_ns);
        due_ns
    }

    /// Calculates all times before `until_ns`.
    fn fill(&mut self, until_ns: u64) {
        while (self.next_ns as u64) < until_ns {
            self.add();
        }
    }

    /// Returns the time of the next operation.
    fn first(&mut self) -> u64 {
        match self.due.front() {
            Some(due_ns) => *due_ns,
            None => self.add(),
        }
    }
}

struct Running<'d> {
    drive: Drive<'d>,
    model: StoreModel,
    sessions: Vec<Box<dyn BlockingSession>>,
    queue: Queue,
    schedule: Option<Schedule>,
    slicing: Slicing,
    lanes: Vec<Lane>,
    /// Clients without an operation in flight, by the time since when.
    free: BinaryHeap<Reverse<(u64, usize)>>,
    /// Times of answers that observers have not heard of yet, and their clients.
    unheard: BinaryHeap<Reverse<(u64, usize)>>,
    /// Early end of the drive, and its reason.
    halted: Option<(u64, StopReason)>,
    last_end_ns: u64,
    kinds: Vec<[u64; 4]>,
    warmup_ops: u64,
    errors: Vec<ErrorCount>,
    each: Vec<OpTime>,
}

impl Running<'_> {
    fn is_stopped(&self) -> bool {
        self.drive.stop.load(Ordering::SeqCst)
    }

    /// Sends operations until none may be sent any more.
    fn drive(&mut self, on_slice: &mut dyn FnMut(Slice)) -> Result<(), DriveError> {
        let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
        if self.is_stopped() {
            self.halted = Some((self.slicing.start_ns, StopReason::Cancelled));
            return Ok(());
        }
        while let Some(Reverse((free_ns, lane))) = self.free.pop() {
            let due_ns = self.schedule.as_mut().map_or(free_ns, Schedule::first);
            let sent_ns = due_ns.max(free_ns);
            self.look_for_end(due_ns, sent_ns);
            let end_ns = self.halted.as_ref().map(|(at_ns, _)| *at_ns).or(self.slicing.planned_end_ns);
            let until_ns = end_ns.map_or(sent_ns, |end_ns| end_ns.min(sent_ns));
            while self.slicing.until_ns() <= until_ns {
                on_slice(self.slice(self.slicing.until_ns(), false));
                if self.is_stopped() {
                    self.halted = Some((self.slicing.began_ns(), StopReason::Cancelled));
                    return Ok(());
                }
            }
            if end_ns.is_some_and(|end_ns| sent_ns >= end_ns) {
                return Ok(());
            }
            params.clear();
            self.send(lane, due_ns, sent_ns, &mut params, &mut answer)?;
        }
        Ok(())
    }

    /// Decides if the drive ends before the operation that is due at `due_ns` can be sent.
    fn look_for_end(&mut self, due_ns: u64, sent_ns: u64) {
        if let Some((after, why)) = &self.model.ends {
            let at_ns = self.slicing.start_ns + nanos(*after);
            if sent_ns >= at_ns {
                self.halted = Some((at_ns, why.clone()));
                return;
            }
        }
        let given_up_ns = due_ns + nanos(self.drive.spec.backlog);
        let planned_ns = self.slicing.planned_end_ns.unwrap_or(u64::MAX);
        if self.schedule.is_some() && sent_ns > given_up_ns && given_up_ns < planned_ns {
            self.halted = Some((given_up_ns, StopReason::Backlog));
        }
    }

    /// Sends the next operation of a client, if it has one.
    fn send(
        &mut self,
        lane: usize,
        due_ns: u64,
        sent_ns: u64,
        params: &mut ValueBuf,
        answer: &mut Answer,
    ) -> Result<(), DriveError> {
        let (client, cycle) = (lane as u32, self.lanes[lane].cycle);
        let Some(kind) = self.drive.stream.op(client, cycle, params) else { return Ok(()) };
        if self.drive.kinds[usize::from(kind)].call == Call::Steps {
            return Err(not_simulated("an operation of several steps"));
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.due.pop_front();
        }
        let op = Op::new(kind, params.values());
        self.observed_until(sent_ns);
        if let Some((observer, ticket)) = self.observer(lane) {
            observer.sent(ticket, sent_ns, client, cycle, &op);
        }
        answer.clear();
        let given_up_ns = sent_ns + nanos(self.drive.spec.op_timeout);
        let part = part_of(&op, self.model.key_parts);
        let (end_ns, outcome) = match self.queue.answers_at(sent_ns, part) {
            None => {
                let outcome = answer.fail(Outcome::Rejected, "BUSY", "there is too much to do");
                (sent_ns + self.queue.latency_ns, outcome)
            }
            Some(at_ns) if at_ns > given_up_ns => {
                (given_up_ns, answer.fail(Outcome::Unknown, "timeout", "no answer in time"))
            }
            Some(at_ns) => (at_ns, self.sessions[lane].execute(&op, answer)),
        };
        self.slicing.push(EndedOp { end_ns, sent_ns, due_ns, kind, client, outcome: outcome as usize, part });
        self.last_end_ns = self.last_end_ns.max(end_ns);
        let is_counted = end_ns >= self.slicing.warmup_end_ns;
        if self.drive.spec.each_max > 0 && is_counted {
            let rows = answer.rows;
            self.each.push(OpTime { client, cycle, kind, outcome, scheduled_ns: due_ns, sent_ns, end_ns, rows });
        }
        if outcome.is_error() {
            self.note(outcome, end_ns, answer);
        }
        match is_counted {
            true => self.kinds[usize::from(kind)][outcome as usize] += 1,
            false => self.warmup_ops += 1,
        }
        let of = &mut self.lanes[lane];
        of.cycle += 1;
        of.counted += u64::from(is_counted);
        if !self.drive.observers.is_empty() {
            of.answer = Some((outcome, std::mem::take(answer)));
            self.unheard.push(Reverse((end_ns, lane)));
        }
        if self.drive.spec.limit != Limit::Ops(of.counted) {
            self.free.push(Reverse((end_ns, lane)));
        }
        Ok(())
    }

    /// Returns the observer of a client, and the ticket of the client's operations there.
    fn observer(&mut self, lane: usize) -> Option<(&mut Box<dyn Observer>, Ticket)> {
        let count = self.drive.observers.len();
        let ticket = Ticket(lane.checked_div(count)? as u32);
        self.drive.observers.get_mut(lane % count).map(|observer| (observer, ticket))
    }

    /// Tells observers of the answers until a time: what observes several clients relies on the order of time.
    fn observed_until(&mut self, until_ns: u64) {
        while let Some(Reverse((end_ns, lane))) = self.unheard.pop() {
            if end_ns > until_ns {
                self.unheard.push(Reverse((end_ns, lane)));
                return;
            }
            let answer = self.lanes[lane].answer.take();
            if let (Some((outcome, answer)), Some((observer, ticket))) = (answer, self.observer(lane)) {
                observer.finished(ticket, end_ns, outcome, &answer);
            }
        }
    }

    fn note(&mut self, outcome: Outcome, at_ns: u64, answer: &Answer) {
        let is_same = |one: &&mut ErrorCount| one.outcome == outcome && one.code == answer.code;
        match self.errors.iter_mut().find(is_same) {
            Some(same) => {
                same.count += 1;
                same.last_ns = same.last_ns.max(at_ns);
                same.disk_full |= answer.disk_full;
            }
            None => {
                let (code, message) = (answer.code.clone(), answer.message.clone());
                let (disk_full, first_ns, last_ns) = (answer.disk_full, at_ns, at_ns);
                self.errors.push(ErrorCount { outcome, code, message, disk_full, count: 1, first_ns, last_ns });
            }
        }
    }

    /// Ends the present slice.
    fn slice(&mut self, until_ns: u64, is_last: bool) -> Slice {
        let planned_ns = self.slicing.planned_end_ns.unwrap_or(u64::MAX);
        let mut due = None;
        if let Some(schedule) = &mut self.schedule {
            schedule.fill(until_ns.min(planned_ns));
            due = Some(&schedule.due);
        }
        let due = due.into_iter().flatten().copied().filter(|due_ns| *due_ns < planned_ns);
        self.slicing.cut(until_ns, is_last, due)
    }

    /// Ends the drive with its last slices.
    fn finish(mut self, on_slice: &mut dyn FnMut(Slice)) -> DriveResult {
        self.observed_until(u64::MAX);
        let planned_end_ns = self.slicing.planned_end_ns;
        let stop = self.halted.as_ref().map_or_else(|| self.ended_as_planned(), |(_, why)| why.clone());
        let until_ns = self.halted.as_ref().map(|(at_ns, _)| *at_ns).or(planned_end_ns).unwrap_or(self.last_end_ns);
        let end_ns = self.last_end_ns.max(until_ns);
        let mut waits_ns = Vec::new();
        if let Some(schedule) = &mut self.schedule {
            schedule.fill(until_ns);
            let unsent = schedule.due.iter().take_while(|due_ns| **due_ns < until_ns);
            waits_ns.extend(unsent.map(|due_ns| until_ns - due_ns));
        }
        let unfinished = waits_ns.len() as u64;
        while self.slicing.began_ns() < end_ns {
            let cut_ns = self.slicing.until_ns().min(end_ns);
            let is_last = cut_ns == end_ns;
            let mut slice = self.slice(cut_ns, is_last);
            if is_last && unfinished > 0 {
                let times = slice.unfinished.get_or_insert_with(|| times_of(3));
                waits_ns.iter().for_each(|wait_ns| record(times, *wait_ns));
            }
            on_slice(slice);
        }
        if let (Some(schedule), Some(end_ns)) = (&mut self.schedule, planned_end_ns) {
            schedule.fill(end_ns);
        }
        self.errors.sort_by_key(|error| Reverse(error.count));
        let each_until_ns = plimsoll_drive::first_operations(&mut self.each, u64::MAX, self.drive.spec.each_max);
        DriveResult {
            start_ns: self.slicing.start_ns,
            measured_from_ns: self.slicing.warmup_end_ns.min(end_ns),
            planned_end_ns,
            end_ns,
            ops: self.kinds.iter().flatten().sum(),
            warmup_ops: self.warmup_ops,
            steps: vec![[0; 4]; self.kinds.len()],
            kinds: self.kinds,
            unfinished,
            due: self.schedule.map_or(0, |schedule| schedule.counted),
            stop,
            each: self.each,
            each_until_ns,
            errors: self.errors,
            late: self.model.late,
            ..DriveResult::default()
        }
    }

    /// Returns the reason for the end of a drive that nothing ended early.
    fn ended_as_planned(&self) -> StopReason {
        if self.drive.spec.limit == Limit::Exhausted { StopReason::Exhausted } else { StopReason::Limit }
    }
}
