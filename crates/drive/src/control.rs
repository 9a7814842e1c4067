//! The control thread's part of a phase: it starts the workers, collects their slices, and ends it.

mod launch;

use hdrhistogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::pace::WakeMode;
use plimsoll_core::panics::Panic;
use plimsoll_core::{AnswerTally, Observer, OpKind, Outcome, Sessions, Slice, StoreError, Stream, waits};

use crate::board::{Board, GRACE_NS, Shared};
use crate::clock::Clock;
use crate::collect::{Collector, OpenOps, Watching};
use crate::each;
use crate::grid::Grid;
use crate::group::{Flow, Placed};
use crate::late::late_because;
use crate::link::LostConnections;
use crate::result::{BreakerCounts, DriveResult, ErrorCount, IoUsed, OpTime, RetryCounts, StopReason};
use crate::schedule::{Cursor, Schedule};
use crate::spec::{DriveError, DriveSpec, Limit};
use crate::worker::{CANCEL_NS, CoreReport, Start, Turns};
pub(crate) use launch::pin;

/// Time between deciding the start and the start, for every worker to be there.
const RUN_UP_NS: u64 = 1_000_000;
/// Longest that the control thread goes without looking whether it should stop.
const LOOK_NS: u64 = 20_000_000;
/// Interval between looks while wire workers drive: each look is a sleep of its own, 25 µs of CPU.
const WIRE_LOOK_NS: u64 = 100_000_000;
/// Time from the start until the first slice is shown as far as it is.
const PREVIEW_NS: u64 = 500_000_000;
/// Delay of a slice after which its workers are given up.
const STUCK_NS: u64 = 30_000_000_000;
/// Earliest and latest time before the planned end at which it can be postponed: workers check for it every 10 ms.
const PUT_OFF_NS: u64 = 200_000_000;
const PUT_OFF_LAST_NS: u64 = 30_000_000;
/// Shortest time by which an end is put off.
const PUT_OFF_BY_NS: u64 = 100_000_000;
/// Time that the end of a phase waits for its threads to drop their sessions.
const LEAVE_NS: u64 = 30_000_000_000;

/// Message of a worker to the control thread.
pub(crate) enum Message {
    /// Sessions of the worker are open and prepared, or the error.
    Opened(Result<(), StoreError>),
    Done {
        worker: usize,
        report: Box<WorkerReport>,
    },
    Panicked(Panic),
}

/// Final report of a worker.
pub(crate) struct WorkerReport {
    pub core: CoreReport,
    pub io: Option<IoUsed>,
    pub lost_connections: LostConnections,
    pub ended_connections: u64,
    pub failed_connects: u64,
    pub asked_again: u64,
    pub answers: Option<AnswerTally>,
    pub connects: Option<Histogram<u64>>,
    pub down_ns: u64,
}

/// A phase to be driven.
pub struct Drive<'a> {
    /// The run's clock.
    pub clock: &'a Clock,
    /// Parameters of the drive.
    pub spec: &'a DriveSpec,
    /// Sessions, with [`DriveSpec::depth`] clients each. They are opened and prepared before the phase begins, and
    /// dropped when it is over.
    pub sessions: Sessions,
    /// All kinds of operation, by position.
    pub kinds: &'a [OpKind],
    /// Operations of the clients. Each client's cycles count from [`DriveSpec::first_cycle`].
    pub stream: Arc<dyn Stream>,
    /// Observers, one for each worker ([`DriveSpec::worker_count`]), or none at all.
    pub observers: Vec<Box<dyn Observer>>,
    /// Ends the phase early when set: nothing new is started, and the result covers what was done.
    pub stop: Arc<AtomicBool>,
}

impl Drive<'_> {
    /// Drives the phase to its end. `on_slice` is called on this thread, for each slice in order, soon after
    /// its end; it may take its time as long as it is well under a slice's length.
    pub fn run(self, on_slice: &mut dyn FnMut(Slice)) -> Result<DriveResult, DriveError> {
        self.spec.check()?;
        self.spec.check_groups(&self.sessions)?;
        self.spec.check_depth(&self.sessions)?;
        let placed = self.spec.placed(&self.sessions);
        let workers = placed.last().map_or(0, |last| last.workers.end);
        if workers == 0 {
            return Err(DriveError::Spec("there is no session to drive".to_owned()));
        }
        if !self.observers.is_empty() && self.observers.len() != workers {
            let given = self.observers.len();
            return Err(DriveError::Spec(format!("{workers} workers need as many observers, not {given}")));
        }
        let mut phase = RunningPhase::launch(self, placed)?;
        if !phase.wait_until_open()? {
            return phase.call_off();
        }
        phase.start();
        phase.follow(on_slice)
    }
}

/// A phase with its threads running.
struct RunningPhase<'a> {
    clock: &'a Clock,
    spec: &'a DriveSpec,
    kinds: Arc<[OpKind]>,
    /// True if each session has a thread of its own, which its store may block for any time.
    blocking: bool,
    placed: Vec<Placed>,
    boards: Vec<Arc<Board>>,
    shared: Arc<Shared>,
    go: Vec<SyncSender<Start>>,
    threads: Vec<JoinHandle<()>>,
    inbox: Receiver<Message>,
    reports: Vec<Option<Box<WorkerReport>>>,
    hung: Vec<OpTime>,
    /// Operations among them that were given up only because the user wanted an end.
    stopped: u64,
    grid: Grid,
    /// The schedules of those that have one.
    flows: Vec<Flow>,
    /// Time at which the phase was told to end early, with the reason.
    halted: Option<(u64, StopReason)>,
}

impl<'a> RunningPhase<'a> {
    /// False when the phase is not wanted any more.
    fn wait_until_open(&mut self) -> Result<bool, DriveError> {
        // A worker gives up a little earlier and knows better why.
        let waited = 2 * self.spec.open_timeout;
        let deadline_ns = self.clock.now_ns() + nanos(waited);
        let mut open = 0;
        while open < self.boards.len() && !self.shared.must_end() {
            let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
            match self.inbox.recv_timeout(Duration::from_nanos(left_ns.min(LOOK_NS))) {
                Ok(Message::Opened(Ok(()))) => open += 1,
                Ok(Message::Opened(Err(error))) => return Err(DriveError::Store(error)),
                Ok(message) => self.take(message)?,
                Err(RecvTimeoutError::Timeout) if left_ns > 0 => {}
                // Workers see for themselves that they are not wanted any more, and are gone.
                Err(_) if self.shared.must_end() => {}
                Err(_) => return Err(DriveError::Stuck { what: "opening the sessions", waited }),
            }
        }
        Ok(!self.shared.must_end())
    }

    /// Returns the result of a phase that was cancelled before it began: no time, no slice and no operation.
    fn call_off(&mut self) -> Result<DriveResult, DriveError> {
        let now_ns = self.clock.now_ns();
        self.grid.start_ns = now_ns;
        self.grid.warmup_end_ns = now_ns;
        self.halted = Some((now_ns, StopReason::Cancelled));
        let collector = Collector::new(self.grid, Vec::new(), self.boards.clone(), &self.kinds);
        self.finish(collector, &mut |_| {})
    }

    fn start(&mut self) {
        let start_ns = self.clock.now_ns() + RUN_UP_NS;
        let warmup_end_ns = start_ns + nanos(self.spec.warmup);
        let end_ns = match self.spec.limit {
            Limit::Duration(length) => Some(warmup_end_ns + nanos(length)),
            _ => None,
        };
        self.grid = Grid { start_ns, warmup_end_ns, slice_ns: nanos(self.spec.slice), end_ns };
        let _ = self.spec.started.set(start_ns);
        for Placed { group, workers, seed, .. } in &self.placed {
            let schedule = Schedule::new(&group.pace, *seed, self.spec.warmup, start_ns);
            let taken = self.blocking.then(Arc::<AtomicU64>::default);
            for (number, go) in self.go[workers.clone()].iter().enumerate() {
                let turns = match (schedule.clone().map(Cursor::new), taken.clone()) {
                    (None, _) => Turns::Closed,
                    (Some(arrivals), Some(taken)) => Turns::Shared { arrivals, taken },
                    (Some(arrivals), None) => {
                        Turns::Own { arrivals, next: number as u64, stride: workers.len() as u64 }
                    }
                };
                // A worker that is gone has said so, and is found out about in `follow`.
                let _ = go.send(Start { grid: self.grid, turns });
            }
            self.flows.extend(schedule.map(|arrivals| Flow { arrivals, workers: workers.clone(), taken }));
        }
    }

    /// Passes slices to `on_slice` until all workers are done.
    fn follow(&mut self, on_slice: &mut dyn FnMut(Slice)) -> Result<DriveResult, DriveError> {
        let mut collector = Collector::new(self.grid, self.flows.clone(), self.boards.clone(), &self.kinds);
        let sessions = self.placed.last().map_or(0, |last| last.sessions.end);
        collector.in_flight_max = self.spec.clients(sessions).into();
        collector.watch = self.spec.witness.as_ref().map(Watching::new);
        let mut preview_ns = self.preview_ns();
        while !self.all_done() {
            self.wait_until(collector.due_ns().min(self.put_off_at_ns()).min(preview_ns))?;
            if self.all_done() {
                break;
            }
            let now_ns = self.clock.now_ns();
            self.look_for_ends(now_ns);
            collector.look();
            self.put_off_end(now_ns, &mut collector);
            if now_ns >= preview_ns {
                preview_ns = u64::MAX;
                if let Some(slice) = collector.preview(now_ns) {
                    on_slice(slice);
                }
            }
            if now_ns >= collector.due_ns() {
                let done = |worker: usize| self.reports[worker].is_some();
                if let Some(slice) = collector.take(now_ns, &self.shared, &done) {
                    on_slice(slice);
                } else if now_ns > collector.due_ns() + STUCK_NS {
                    let waited = Duration::from_nanos(STUCK_NS);
                    return Err(DriveError::Stuck { what: "collecting a slice from its workers", waited });
                }
            }
        }
        self.finish(collector, on_slice)
    }

    /// Returns the time at which the first slice is shown as far as it is; never if it soon ends.
    fn preview_ns(&self) -> u64 {
        let at_ns = self.grid.start_ns + PREVIEW_NS;
        if self.spec.preview && at_ns + PREVIEW_NS <= self.grid.end(0) { at_ns } else { u64::MAX }
    }

    /// Returns the time at which a postponement of the end is decided.
    fn put_off_at_ns(&self) -> u64 {
        let end_ns = self.grid.end_ns.filter(|_| self.spec.undisturbed.is_some() && self.halted.is_none());
        let at_ns = end_ns.map_or(u64::MAX, |end_ns| end_ns.saturating_sub(PUT_OFF_NS));
        // Once it is seen, the slices alone say when to be awake.
        if self.clock.now_ns() < at_ns { at_ns } else { u64::MAX }
    }

    /// Postpones the planned end when the phase will not have been undisturbed for long enough by then.
    fn put_off_end(&mut self, now_ns: u64, collector: &mut Collector) {
        let (Some(wanted), Some(end_ns)) = (self.spec.undisturbed, self.grid.end_ns) else { return };
        let left_ns = end_ns.saturating_sub(now_ns);
        if !(PUT_OFF_LAST_NS..=PUT_OFF_NS).contains(&left_ns) || self.halted.is_some() {
            return;
        }
        let Some(disturbed_ns) = collector.disturbed_ns(now_ns) else { return };
        let undisturbed_ns = (end_ns - self.grid.warmup_end_ns).saturating_sub(disturbed_ns);
        let missing_ns = nanos(wanted.at_least).saturating_sub(undisturbed_ns);
        let last_ns = self.grid.warmup_end_ns + nanos(wanted.at_most);
        if missing_ns > 0 && last_ns > end_ns {
            let end_ns = (end_ns + missing_ns.max(PUT_OFF_BY_NS)).min(last_ns);
            self.shared.end_ns.store(end_ns, Ordering::Relaxed);
            self.grid.end_ns = Some(end_ns);
            collector.put_off_end(end_ns);
        }
    }

    fn all_done(&self) -> bool {
        let hung = |worker: usize| self.hung.iter().any(|hung| hung.client as usize == worker);
        self.reports.iter().enumerate().all(|(worker, report)| report.is_some() || (self.blocking && hung(worker)))
    }

    /// Waits for messages, not longer than until `at_ns`, and takes one.
    fn wait_until(&mut self, at_ns: u64) -> Result<(), DriveError> {
        // Short enough to see a stop flag and a hung operation in time, and to come back to a late worker. Wire workers
        // see a stop themselves and say when they are done.
        let look_ns = if self.blocking { LOOK_NS } else { WIRE_LOOK_NS };
        let wait_ns = at_ns.saturating_sub(self.clock.now_ns()).clamp(200_000, look_ns);
        match self.inbox.recv_timeout(Duration::from_nanos(wait_ns)) {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    fn take(&mut self, message: Message) -> Result<(), DriveError> {
        match message {
            Message::Done { worker, report } => self.reports[worker] = Some(report),
            Message::Panicked(panic) => {
                self.shared.halt.store(true, Ordering::Relaxed);
                return Err(DriveError::Panicked(panic));
            }
            Message::Opened(_) => {}
        }
        Ok(())
    }

    /// Sees whether the phase has to end, and leaves blocking workers behind that do not return then.
    fn look_for_ends(&mut self, now_ns: u64) {
        if self.halted.is_none() && self.shared.must_end() {
            self.halted = Some((now_ns, StopReason::Cancelled));
        }
        if !self.blocking {
            return;
        }
        let timeout_ns = nanos(self.spec.op_timeout);
        let cancelled_ns = self.halted.as_ref().filter(|_| self.shared.is_cancelled()).map(|(at_ns, _)| *at_ns);
        let planned_end = self.grid.end_ns.is_some_and(|end_ns| now_ns >= end_ns);
        let mut late = Vec::new();
        for (worker, board) in self.boards.iter().enumerate() {
            let crate::board::Doing::InStore { scheduled_ns } = board.doing() else { continue };
            let sent_ns = board.sent_ns.load(Ordering::Relaxed);
            let called_ns = board.called_ns();
            let over = match cancelled_ns {
                Some(at_ns) => now_ns.saturating_sub(called_ns.max(at_ns)) > timeout_ns.min(CANCEL_NS),
                None => now_ns.saturating_sub(called_ns) > timeout_ns,
            } && self.reports[worker].is_none();
            if !over || self.hung.iter().any(|hung| hung.client as usize == worker) {
                continue;
            }
            if planned_end || self.halted.is_some() {
                let hung = OpTime {
                    client: worker as u32,
                    cycle: board.cycle.load(Ordering::Relaxed),
                    kind: board.kind.load(Ordering::Relaxed) as u16,
                    outcome: Outcome::Unknown,
                    scheduled_ns,
                    sent_ns,
                    end_ns: now_ns,
                    rows: 0,
                };
                board.question();
                late.push((hung, called_ns));
            } else if self.grid.end_ns.is_none() {
                // No clock would ever end this phase.
                self.shared.halt.store(true, Ordering::Relaxed);
                self.halted = Some((now_ns, StopReason::Hung));
            }
        }
        if !late.is_empty() {
            std::thread::sleep(Duration::from_nanos(GRACE_NS));
        }
        for (hung, called_ns) in late {
            if self.boards[hung.client as usize].give_up(called_ns) {
                self.hung.push(hung);
                self.stopped += u64::from(cancelled_ns.is_some());
            }
        }
    }

    fn finish(&mut self, mut collector: Collector, on_slice: &mut dyn FnMut(Slice)) -> Result<DriveResult, DriveError> {
        let now_ns = self.clock.now_ns();
        let mut stop = self.halted.take().map_or(StopReason::Exhausted, |(_, reason)| reason);
        let mut end_ns = self.grid.start_ns;
        let (mut each, mut each_until_ns, mut errors) = (Vec::new(), u64::MAX, Vec::new());
        let (mut lost, mut ended_connections, mut down_ns, mut io) = (LostConnections::default(), 0, 0, None);
        let (mut failed_connects, mut asked_again, mut connects) = (0, 0, None::<Histogram<u64>>);
        let (mut answers, mut retries) = (None::<AnswerTally>, None::<RetryCounts>);
        let (mut breaker, mut silent) = (None::<BreakerCounts>, Vec::new());
        for report in self.reports.iter_mut().filter_map(Option::take) {
            end_ns = end_ns.max(report.core.last_end_ns);
            if report.core.stop.rank() > stop.rank() {
                stop = report.core.stop;
            }
            silent.extend(report.core.silent);
            each.extend(report.core.each);
            each_until_ns = each_until_ns.min(report.core.each_until_ns);
            report.core.errors.add_to(&mut errors);
            if let Some(more) = report.core.retries {
                let all = retries.get_or_insert_default();
                (all.retries, all.given_up) = (all.retries + more.retries, all.given_up + more.given_up);
            }
            if let Some(more) = report.core.breaker {
                let all = breaker.get_or_insert_default();
                (all.opened, all.rejected) = (all.opened + more.opened, all.rejected + more.rejected);
            }
            lost.add(report.lost_connections);
            ended_connections += report.ended_connections;
            failed_connects += report.failed_connects;
            asked_again += report.asked_again;
            report.answers.iter().for_each(|more| answers.get_or_insert_default().add(more));
            match (&mut connects, report.connects) {
                (Some(all), Some(more)) => all.add(more).unwrap_or_default(),
                (all, more) => *all = all.take().or(more),
            }
            down_ns += report.down_ns;
            // Workers of one phase differ only where the system let some of them have what it refused to others.
            io = report.io.filter(|used| io.is_none() || *used != IoUsed::Uring).or(io);
        }
        if !self.hung.is_empty() {
            end_ns = now_ns;
            let all_stopped = self.stopped == self.hung.len() as u64;
            if stop.rank() < StopReason::Hung.rank() && self.grid.end_ns.is_none() && !all_stopped {
                stop = StopReason::Hung;
            }
        }
        if self.stopped > 0 {
            let (code, message) = (waits::STOPPED.to_owned(), waits::interrupted().to_string());
            match errors.iter_mut().find(|error| error.outcome == Outcome::Unknown && error.code == code) {
                Some(same) => same.count += self.stopped,
                None => {
                    let (outcome, count, first_ns, last_ns) = (Outcome::Unknown, self.stopped, now_ns, now_ns);
                    errors.push(ErrorCount { outcome, code, message, disk_full: false, count, first_ns, last_ns });
                }
            }
        }
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        if self.blocking && stop != StopReason::Exhausted {
            let planned_end_ns = self.grid.end_ns.unwrap_or(u64::MAX);
            let shared_end_ns = planned_end_ns.min(end_ns);
            collector.leave_unfinished(shared_end_ns);
        }
        end_ns = collector.end_ns(end_ns, now_ns);
        let totals = collector.finish(end_ns, OpenOps { hung: &self.hung, silent: &silent }, &self.shared, on_slice);
        let behind = (stop == StopReason::Behind).then_some(self.spec.backlog);
        let coarse = self.spec.wake == WakeMode::Coarse;
        let until_ns = self.grid.end_ns.unwrap_or(end_ns);
        let due_in = |flow: &Flow| {
            flow.arrivals.due_before(until_ns).saturating_sub(flow.arrivals.due_before(self.grid.warmup_end_ns))
        };
        let each_until_ns = each::first(&mut each, each_until_ns, self.spec.each_max);
        let late = self.spec.is_open().then(|| late_because(&totals, behind, coarse)).flatten();
        Ok(DriveResult {
            start_ns: self.grid.start_ns,
            measured_from_ns: self.grid.warmup_end_ns.min(end_ns),
            planned_end_ns: self.grid.end_ns,
            end_ns,
            ops: totals.kinds.iter().flatten().sum(),
            busiest_worker: totals.busiest_worker(),
            warmup_ops: totals.warmup_ops,
            kinds: totals.kinds,
            steps: totals.steps,
            unfinished: totals.unfinished,
            due: self.flows.iter().map(due_in).sum(),
            stop,
            each,
            each_until_ns,
            errors,
            lost_connections: lost.count,
            lost_between_ns: lost.between_ns,
            ended_connections,
            failed_connects,
            asked_again,
            retries,
            breaker,
            answers,
            connects,
            down_ns,
            io,
            hung: self.hung.clone(),
            lag: totals.lag,
            late_slices: totals.late_slices,
            involuntary_switches: totals.involuntary_switches,
            late,
        })
    }
}

impl Drop for RunningPhase<'_> {
    /// Ends the phase: its threads start no operations, and end with their sessions before this returns, except for
    /// those that hang in their store.
    fn drop(&mut self) {
        self.shared.halt.store(true, Ordering::Relaxed);
        self.go.clear();
        let deadline_ns = self.clock.now_ns() + LEAVE_NS;
        for (worker, thread) in self.threads.drain(..).enumerate() {
            let hung = self.blocking && self.hung.iter().any(|hung| hung.client as usize == worker);
            while !hung && !thread.is_finished() && self.clock.now_ns() < deadline_ns {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}
