//! Slices as the control thread makes them: the workers' counts merged, with what they were doing.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, PoisonError};

use hdrhistogram::Histogram;
use plimsoll_core::pause::PAUSES_MAX;
use plimsoll_core::{
    AFFECTED_NS, ClientSilence, Disturbance, KindId, Measure, OpKind, Outcome, Pause, ServerAnswers, Slice,
    SliceHistogram, TICK_NS, covered_ns, paused_ns,
};

use crate::board::{Board, Doing, GRACE_NS, Shared};
use crate::clock::wall_ns;
use crate::grid::Grid;
use crate::group::Flow;
use crate::histogram::{Digits, TOP_NS, WorkerHistogram};
use crate::result::{Lag, OpTime};
use crate::witness::{Watch, Witness};

/// Takes slice after slice from the workers' boards.
pub(crate) struct Collector {
    grid: Grid,
    /// The schedules of those that have one.
    flows: Vec<Flow>,
    boards: Vec<Arc<Board>>,
    /// The slice that is taken next.
    ordinal: u32,
    not_before_ns: u64,
    /// Resource use of each worker at the end of the last slice.
    used: Vec<Usage>,
    /// CPU time of each worker in the slices that count.
    counted_cpu_ns: Vec<u64>,
    /// Time that each worker had waited for a processor by then.
    counted_queued_ns: Vec<u64>,
    lag: Option<Histogram<u64>>,
    response: Option<Histogram<u64>>,
    /// Operations due and never sent that no worker knows of, for the last slice.
    unfinished: Option<Histogram<u64>>,
    /// Kinds that are steps of others, by position.
    is_step: Box<[bool]>,
    /// Operations that can be in flight at a time: a client has one.
    pub in_flight_max: u64,
    /// Observations of a witness, if there is one.
    pub watch: Option<Watching>,
    totals: Totals,
}

/// Observations of a witness during a phase, cut into slices.
pub(crate) struct Watching {
    watch: Watch,
    /// Pauses that ended and belong to no slice yet.
    pauses: Vec<Pause>,
    counted: Counted,
    /// Disturbed time of the slices that were cut and count.
    disturbed_ns: u64,
    /// Time of pauses that ended in them.
    paused_ns: u64,
    /// Time before which pauses were observed only in part.
    unseen_to_ns: u64,
}

/// Time that a counted pause is remembered after its aftermath. A longer one on another processor, known of only
/// later, may count a part of this one again.
const REMEMBERED_NS: u64 = 10_000_000_000;

impl Watching {
    pub fn new(witness: &Witness) -> Self {
        Self {
            watch: witness.watch(),
            pauses: Vec::new(),
            counted: Counted::default(),
            disturbed_ns: 0,
            paused_ns: 0,
            unseen_to_ns: 0,
        }
    }

    /// Returns the observations of the slice from `start_ns` to `end_ns`; the last slice has all that remain.
    fn cut(&mut self, start_ns: u64, end_ns: u64, is_last: bool) -> Disturbance {
        let seen = self.watch.take();
        self.unseen_to_ns = self.unseen_to_ns.max(seen.unseen_to_ns);
        self.pauses.extend(seen.pauses);
        let (mut pauses, later): (Vec<Pause>, _) =
            self.pauses.iter().partition(|pause| is_last || pause.end_ns <= end_ns);
        self.pauses = later;
        let disturbed_ns = self.counted.count(&pauses, end_ns);
        if pauses.len() > PAUSES_MAX {
            pauses.sort_unstable_by_key(|pause| std::cmp::Reverse(pause.length_ns()));
            pauses.truncate(PAUSES_MAX);
        }
        pauses.sort_unstable_by_key(|pause| pause.end_ns);
        Disturbance {
            // A pause over the slice's start was not known of when the slice before was cut.
            disturbed_ns: disturbed_ns.min(end_ns.saturating_sub(start_ns)),
            pauses,
            lateness: seen.lateness.filter(|lateness| !lateness.is_empty()),
            disturbed: Vec::new(),
        }
    }
}

/// Disturbed time that was counted, so that none counts twice: a pause over the end of a slice is unknown when the
/// slice is cut.
#[derive(Debug, Default)]
struct Counted {
    /// Pauses that were counted, and that those of other processors may still overlap.
    pauses: Vec<Pause>,
    /// End of their time and their aftermath.
    to_ns: u64,
}

impl Counted {
    /// Time from `from_ns` to `to_ns` that is disturbed when `pauses` are known too, and was not counted.
    fn more_ns<'a>(&'a self, pauses: impl IntoIterator<Item = &'a Pause>, from_ns: u64, to_ns: u64) -> u64 {
        let all_ns = covered_ns(self.pauses.iter().chain(pauses), Pause::until_ns, from_ns, to_ns);
        all_ns.saturating_sub(covered_ns(self.pauses.iter(), Pause::until_ns, from_ns, self.to_ns))
    }

    /// Counts what `pauses` disturb by `to_ns`, and returns what is new of it.
    fn count(&mut self, pauses: &[Pause], to_ns: u64) -> u64 {
        let more_ns = self.more_ns(pauses, 0, to_ns);
        self.pauses.extend(pauses);
        self.pauses.retain(|pause| pause.until_ns() + REMEMBERED_NS > to_ns);
        self.to_ns = to_ns;
        more_ns
    }
}

/// Resource use of a worker since the phase's start.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
    queued_ns: u64,
}

impl Usage {
    fn of(board: &Board) -> Self {
        Self {
            cpu_ns: board.cpu_ns.load(Relaxed),
            voluntary: board.voluntary.load(Relaxed),
            involuntary: board.involuntary.load(Relaxed),
            queued_ns: board.queued_ns.load(Relaxed),
        }
    }
}

/// Operations and clients without an answer at the end of a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenOps<'a> {
    /// Operations that did not return.
    pub hung: &'a [OpTime],
    /// Silences that no answer ended.
    pub silent: &'a [ClientSilence],
}

/// Totals of all slices. Counts are without the warm-up's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub kinds: Vec<[u64; 4]>,
    /// Counts of steps, which are not operations.
    pub steps: Vec<[u64; 4]>,
    pub warmup_ops: u64,
    pub unfinished: u64,
    pub lag: Lag,
    /// Response times of an open loop's operations, all outcomes.
    pub response: Lag,
    pub late_slices: u32,
    /// CPU time of the worker that used most, in `started_ns`.
    pub busiest_cpu_ns: u64,
    /// Time for which the worker that waited most was ready to run while others had its processor.
    pub queued_ns: u64,
    /// Time in which the machine stood still; `None` without a witness.
    pub paused_ns: Option<u64>,
    /// Time in which operations were started and counted.
    pub started_ns: u64,
    pub involuntary_switches: u64,
}

impl Totals {
    /// Share of its processor that the busiest worker used.
    pub fn busiest_worker(&self) -> f64 {
        self.busiest_cpu_ns as f64 / self.started_ns.max(1) as f64
    }
}

impl Collector {
    pub fn new(grid: Grid, flows: Vec<Flow>, boards: Vec<Arc<Board>>, kinds: &[OpKind]) -> Self {
        let none = vec![[0; 4]; kinds.len()];
        let workers = boards.len();
        Self {
            grid,
            flows,
            boards,
            ordinal: 0,
            not_before_ns: 0,
            used: vec![Usage::default(); workers],
            counted_cpu_ns: vec![0; workers],
            counted_queued_ns: vec![0; workers],
            lag: None,
            response: None,
            unfinished: None,
            is_step: kinds.iter().map(|kind| kind.step_of.is_some()).collect(),
            in_flight_max: u64::MAX,
            watch: None,
            totals: Totals { kinds: none.clone(), steps: none, ..Totals::default() },
        }
    }

    pub fn due_ns(&self) -> u64 {
        (self.grid.end(self.ordinal) + GRACE_NS).max(self.not_before_ns)
    }

    /// The next slice, unless a worker is still counting into it. `done` says which workers are gone.
    pub fn take(&mut self, now_ns: u64, shared: &Shared, done: &dyn Fn(usize) -> bool) -> Option<Slice> {
        // A worker that wakes up after the phase's end stays in the last slice, and counts there what it did not send.
        let is_last = self.grid.is_drain(self.ordinal + 1) && !self.grid.is_drain(self.ordinal);
        let mid_count = |(worker, board): (usize, &Arc<Board>)| {
            let may_count = match board.doing() {
                Doing::Working => true,
                Doing::Asleep => is_last,
                Doing::InStore { .. } => false,
            };
            board.slice() <= self.ordinal && may_count && !done(worker)
        };
        if self.boards.iter().enumerate().any(mid_count) {
            return None;
        }
        if now_ns >= self.grid.end(self.ordinal + 1) {
            self.totals.late_slices += 1;
        }
        let mut slice = self.merge(shared);
        trim_ticks(&mut slice);
        self.watched(&mut slice, false);
        self.describe_waiting(&mut slice, now_ns);
        self.count(&slice);
        self.ordinal += 1;
        shared.taken.store(self.ordinal, Release);
        // A worker that waited for this moves on now; give it as long as after a slice's end.
        self.not_before_ns = now_ns + GRACE_NS;
        Some(slice)
    }

    /// Returns the part so far of the first slice, whose counts stay; `None` after its end. Workers count meanwhile, so
    /// that the newest operations may be missing.
    pub fn preview(&self, now_ns: u64) -> Option<Slice> {
        if self.ordinal > 0 || now_ns >= self.grid.end(0) {
            return None;
        }
        let rows: Vec<_> = self.boards.iter().map(|board| board.tally(0).each()).collect();
        let mut slice = Slice {
            preview: true,
            warmup: self.grid.is_warmup(0),
            start_ns: self.grid.start(0),
            end_ns: now_ns,
            wall_ns: wall_ns(),
            histograms: merged(rows, WorkerHistogram::add_to),
            ..Slice::default()
        };
        self.describe_waiting(&mut slice, now_ns);
        Some(slice)
    }

    /// Returns the totals, when all workers are done or given up. The last slice ends at `end_ns`.
    pub fn finish(
        mut self,
        end_ns: u64,
        open: OpenOps<'_>,
        shared: &Shared,
        on_slice: &mut dyn FnMut(Slice),
    ) -> Totals {
        // A slice that would begin with the end has nothing in it.
        let last = self.last().max(self.grid.at(end_ns.saturating_sub(1), self.ordinal));
        while self.ordinal <= last {
            let is_last = self.ordinal == last;
            let mut slice = self.merge(shared);
            if is_last {
                slice.end_ns = end_ns.clamp(slice.start_ns, self.grid.end(self.ordinal));
                for hung in open.hung {
                    add_hung(&mut slice, hung, end_ns, !self.flows.is_empty());
                }
                open.silent.iter().for_each(|silent| add_silent(&mut slice, *silent, end_ns));
                if let Some(unfinished) = self.unfinished.take() {
                    let all = slice.unfinished.get_or_insert_with(|| Digits::Three.empty());
                    all.add(unfinished).expect("histograms of the same layout");
                }
            }
            trim_ticks(&mut slice);
            slice.due_unsent = slice.unfinished.as_ref().map_or(0, Histogram::len);
            self.watched(&mut slice, is_last);
            self.count(&slice);
            self.ordinal += 1;
            shared.taken.store(self.ordinal, Release);
            on_slice(slice);
        }
        self.totals.lag = self.lag.as_ref().map(summary).unwrap_or_default();
        self.totals.response = self.response.as_ref().map(summary).unwrap_or_default();
        self.totals.busiest_cpu_ns = self.counted_cpu_ns.iter().copied().max().unwrap_or(0);
        self.totals.queued_ns = self.counted_queued_ns.iter().copied().max().unwrap_or(0);
        self.totals.paused_ns = self.watch.as_ref().map(|watching| watching.paused_ns);
        self.totals
    }

    /// The phase's end when its last operation ended at `end_ns` and its last worker was done by `now_ns`: a
    /// worker that was kept from running may have been done later than that, in a slice of its own.
    pub fn end_ns(&self, end_ns: u64, now_ns: u64) -> u64 {
        let last = self.last();
        if last > 0 && end_ns <= self.grid.start(last) { now_ns.max(self.grid.start(last) + 1) } else { end_ns }
    }

    /// The last slice that was begun.
    fn last(&self) -> u32 {
        self.boards.iter().map(|board| board.slice()).max().unwrap_or(0).max(self.ordinal)
    }

    /// Adds arrivals that were due before `end_ns` and that no blocking worker took to the last slice.
    pub fn leave_unfinished(&mut self, end_ns: u64) {
        for Flow { arrivals, taken, .. } in &self.flows {
            let Some(next) = taken.as_ref().map(|taken| taken.load(Relaxed)) else { continue };
            for index in next..arrivals.due_before(end_ns).max(next) {
                let waited_ns = end_ns.saturating_sub(arrivals.at(index)).min(TOP_NS);
                let unfinished = self.unfinished.get_or_insert_with(|| Digits::Three.empty());
                unfinished.record(waited_ns).expect("a value of the same layout");
            }
        }
    }

    /// Merges and empties the workers' counts of the current slice.
    fn merge(&mut self, shared: &Shared) -> Slice {
        let mut slice = Slice {
            ordinal: self.ordinal,
            warmup: self.grid.is_warmup(self.ordinal),
            drain: self.grid.is_drain(self.ordinal),
            start_ns: self.grid.start(self.ordinal),
            end_ns: self.grid.end(self.ordinal),
            wall_ns: wall_ns(),
            ..Slice::default()
        };
        let tallies: Vec<_> = self.boards.iter().map(|board| board.tally(self.ordinal)).collect();
        slice.histograms = merged(tallies.iter().map(|tally| tally.each()).collect(), WorkerHistogram::drain_into);
        let servers = shared.servers.lock().unwrap_or_else(PoisonError::into_inner);
        slice.servers = servers
            .iter()
            .enumerate()
            .map(|(server, by)| {
                let mut times = None;
                for histogram in tallies.iter().filter_map(|tally| tally.servers().get(server)) {
                    histogram.drain_into(&mut times);
                }
                ServerAnswers { by: by.clone(), times }
            })
            .collect();
        drop(servers);
        let mut lag = None;
        for tally in &tallies {
            tally.lag.drain_into(&mut lag);
            tally.unfinished.drain_into(&mut slice.unfinished);
            tally.drain_ticks_into(&mut slice.ticks);
            tally.drain_affected_into(&mut slice.affected);
            tally.drain_silences_into(&mut slice.silences);
            tally.drain_server_ticks_into(&mut slice.server_ticks);
            tally.key_parts.drain_into(&mut slice.key_parts);
        }
        if let Some(lag) = lag {
            let Lag { p50_ns, p99_ns, max_ns, .. } = summary(&lag);
            (slice.lag_p50_ns, slice.lag_p99_ns, slice.lag_max_ns) = (p50_ns, p99_ns, max_ns);
            if !slice.warmup {
                let all = self.lag.get_or_insert_with(|| Digits::Two.empty());
                all.add(lag).expect("histograms of the same layout");
            }
        }
        for (worker, board) in self.boards.iter().enumerate() {
            let (now, before) = (Usage::of(board), self.used[worker]);
            let cpu_ns = now.cpu_ns.saturating_sub(before.cpu_ns);
            slice.worker_cpu_ns += cpu_ns;
            slice.voluntary_switches += now.voluntary.saturating_sub(before.voluntary);
            slice.involuntary_switches += now.involuntary.saturating_sub(before.involuntary);
            if !slice.warmup && !slice.drain {
                self.counted_cpu_ns[worker] += cpu_ns;
                self.counted_queued_ns[worker] += now.queued_ns.saturating_sub(before.queued_ns);
            }
            self.used[worker] = now;
        }
        slice
    }

    /// Moves on in what the witness sees: it remembers a few seconds.
    pub fn look(&mut self) {
        if let Some(watching) = &mut self.watch {
            watching.watch.look();
        }
    }

    /// Returns the disturbed time by `now_ns`, without the warm-up's; `None` without a witness.
    pub fn disturbed_ns(&self, now_ns: u64) -> Option<u64> {
        let watching = self.watch.as_ref()?;
        let open = watching.pauses.iter().chain(watching.watch.pauses());
        Some(watching.disturbed_ns + watching.counted.more_ns(open, self.grid.warmup_end_ns, now_ns))
    }

    /// The phase ends later than was planned.
    pub fn put_off_end(&mut self, end_ns: u64) {
        self.grid.end_ns = Some(end_ns);
    }

    /// Adds what the witness saw. Comes after [`Collector::merge`] and before the workers get the slice's counts again.
    fn watched(&mut self, slice: &mut Slice, is_last: bool) {
        let Some(watching) = &mut self.watch else { return };
        let mut watched = watching.cut(slice.start_ns, slice.end_ns, is_last);
        let is_seen = watching.unseen_to_ns <= slice.start_ns;
        if !slice.warmup && !slice.drain {
            // Time without an observation is not known to be undisturbed.
            let length_ns = slice.length_ns();
            watching.disturbed_ns += if is_seen { watched.disturbed_ns } else { length_ns };
            watching.paused_ns += paused_ns(&watched.pauses, 0, 0, u64::MAX);
        }
        let tallies = self.boards.iter().map(|board| board.tally(self.ordinal));
        watched.disturbed = merged(tallies.map(|tally| tally.each_disturbed()).collect(), WorkerHistogram::drain_into);
        slice.watched = is_seen.then_some(watched);
    }

    /// Records the operations that were due and in flight when the slice was taken, a millisecond or two after its
    /// end.
    fn describe_waiting(&self, slice: &mut Slice, now_ns: u64) {
        let (mut started, mut finished) = (0, 0);
        let mut oldest_ns = u64::MAX;
        for board in &self.boards {
            // What has finished is read first, so that nothing seems to have ended before it began.
            finished += board.finished.load(Relaxed);
            started += board.started.load(Relaxed);
            oldest_ns = oldest_ns.min(match board.doing() {
                Doing::InStore { scheduled_ns } => scheduled_ns,
                _ => board.oldest_ns.load(Relaxed),
            });
        }
        // Between the two readings more may have ended and begun than are ever in flight.
        slice.in_flight = started.saturating_sub(finished).min(self.in_flight_max);
        for Flow { arrivals, workers, .. } in &self.flows {
            let first_tries = |board: &Arc<Board>| {
                let retried = board.retried.load(Relaxed);
                board.started.load(Relaxed).saturating_sub(retried)
            };
            let started: u64 = self.boards[workers.clone()].iter().map(first_tries).sum();
            // Nothing becomes due after the planned end, however long the last answers take.
            let until_ns = self.grid.end_ns.unwrap_or(u64::MAX).min(now_ns);
            let due_unsent = arrivals.due_before(until_ns).saturating_sub(started);
            if due_unsent > 0 {
                oldest_ns = oldest_ns.min(arrivals.at(started));
            }
            slice.due_unsent += due_unsent;
        }
        slice.oldest_age_ns = slice.end_ns.saturating_sub(oldest_ns);
    }

    fn count(&mut self, slice: &Slice) {
        for histogram in slice.histograms.iter().filter(|histogram| histogram.measure == Measure::Service) {
            let n = histogram.histogram.len();
            let kind = usize::from(histogram.kind);
            match (self.is_step[kind], slice.warmup) {
                (true, true) => {}
                (true, false) => self.totals.steps[kind][histogram.outcome as usize] += n,
                (false, true) => self.totals.warmup_ops += n,
                (false, false) => self.totals.kinds[kind][histogram.outcome as usize] += n,
            }
        }
        self.totals.unfinished += slice.unfinished.as_ref().map_or(0, Histogram::len);
        if slice.warmup {
            return;
        }
        let scheduled: usize = self.flows.iter().map(|flow| flow.workers.len()).sum();
        let is_mixed = scheduled < self.boards.len();
        for histogram in slice.histograms.iter().filter(|histogram| histogram.measure == Measure::Response) {
            // What a closed loop did beside an open one was never scheduled, and its two times are the same.
            let is_same = |one: &SliceHistogram| {
                one.measure == Measure::Service
                    && (one.kind, one.outcome) == (histogram.kind, histogram.outcome)
                    && one.histogram == histogram.histogram
            };
            if is_mixed && slice.histograms.iter().any(is_same) {
                continue;
            }
            let all = self.response.get_or_insert_with(|| Digits::Three.empty());
            // Outcomes other than ok have fewer digits, and no time that would not fit.
            all.add(&histogram.histogram).expect("histograms of the same range");
        }
        self.totals.involuntary_switches += slice.involuntary_switches;
        if !slice.drain {
            self.totals.started_ns += slice.length_ns();
        }
    }
}

/// Merges the workers' histograms, which `rows` has in the same order and `take` empties or leaves.
fn merged<'a>(
    mut rows: Vec<impl Iterator<Item = (KindId, Outcome, Measure, &'a WorkerHistogram)>>,
    take: fn(&WorkerHistogram, &mut Option<Histogram<u64>>),
) -> Vec<SliceHistogram> {
    let mut all = Vec::new();
    loop {
        let mut of = None;
        let mut merged = None;
        for row in &mut rows {
            let Some((kind, outcome, measure, histogram)) = row.next() else { continue };
            of = Some((kind, outcome, measure));
            take(histogram, &mut merged);
        }
        let Some((kind, outcome, measure)) = of else { return all };
        if let Some(histogram) = merged {
            all.push(SliceHistogram { kind, outcome, measure, histogram });
        }
    }
}

/// An operation that did not return is unknown, after the time that was waited for it.
fn add_hung(slice: &mut Slice, hung: &OpTime, end_ns: u64, open: bool) {
    let service = (Measure::Service, end_ns.saturating_sub(hung.sent_ns));
    let response = (Measure::Response, end_ns.saturating_sub(hung.scheduled_ns));
    if let Some(last) = slice.ticks.last_mut() {
        last.failed = last.failed.saturating_add(1);
    }
    if let Some(affected) = &mut slice.affected {
        affected.insert(hung.client);
    }
    add_silent(slice, ClientSilence { client: hung.client, from_ns: hung.sent_ns, until_ns: None }, end_ns);
    for (measure, time_ns) in [service, response].into_iter().take(if open { 2 } else { 1 }) {
        let same = |h: &&mut SliceHistogram| (h.kind, h.outcome, h.measure) == (hung.kind, Outcome::Unknown, measure);
        let time_ns = time_ns.min(TOP_NS);
        if let Some(found) = slice.histograms.iter_mut().find(same) {
            found.histogram.record(time_ns).expect("a value of the same layout");
        } else {
            let mut histogram = Digits::Two.empty();
            histogram.record(time_ns).expect("a value of the same layout");
            slice.histograms.push(SliceHistogram { kind: hung.kind, outcome: Outcome::Unknown, measure, histogram });
        }
    }
}

/// Adds a silence that no answer ended before the end of the phase, if it was long.
fn add_silent(slice: &mut Slice, silence: ClientSilence, end_ns: u64) {
    let length_ns = silence.until_ns.unwrap_or(end_ns).saturating_sub(silence.from_ns);
    if let Some(silences) = slice.silences.as_mut().filter(|_| length_ns >= AFFECTED_NS) {
        silences.push(silence);
    }
}

/// Removes the ticks after the slice's end. Operations in them count in the last one that stays.
fn trim_ticks(slice: &mut Slice) {
    let count = slice.length_ns().div_ceil(TICK_NS).max(1) as usize;
    while slice.ticks.len() > count
        && let Some(later) = slice.ticks.pop()
        && let Some(last) = slice.ticks.last_mut()
    {
        last.answered = last.answered.saturating_add(later.answered);
        last.failed = last.failed.saturating_add(later.failed);
    }
    if let Some(servers) = &mut slice.server_ticks {
        while servers.answered.len() > count
            && let Some(later) = servers.answered.pop()
            && let Some(last) = servers.answered.last_mut()
        {
            *last |= later;
        }
    }
    let Some(parts) = &mut slice.key_parts else { return };
    while parts.ticks.len() > count
        && let Some(later) = parts.ticks.pop()
        && let Some(last) = parts.ticks.last_mut()
    {
        last.asked = (last.asked & !later.answered) | later.asked;
        last.answered |= later.answered;
    }
}

fn summary(times: &Histogram<u64>) -> Lag {
    let [p50_ns, p99_ns] = [0.5, 0.99].map(|quantile| times.value_at_quantile(quantile));
    Lag { n: times.len(), p50_ns, p99_ns, max_ns: times.max() }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
