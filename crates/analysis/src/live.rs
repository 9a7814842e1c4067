//! Figures of a run in progress, in bounded memory: sums and newest slices of the running phase, its goals and
//! faults, its slow moments (`moments`), the newest value of each series, and those that are unusual (`unusual`).
//!
//! The sums are those of the report, which alone knows a warm-up that is found afterwards
//! ([`PhaseHeader::finds_warmup`]): until then its slices count.

mod moments;
mod unusual;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plimsoll_core::Measure;
use plimsoll_core::study::{is_of_operation, is_of_step};
use plimsoll_record::data::{
    Event, FaultSpan, Goal, GoalKind, PhaseEnd, PhaseHeader, PhaseKind, PhaseState, ResultName, RunHeader, Sample,
    Series, TrialHeader,
};

pub use moments::LiveMoment;
pub use unusual::{UnusualSeries, UnusualValue};

use self::moments::LiveMoments;
use crate::latency::Times;
use crate::phase::is_overload;
use crate::slices::{ALL, SliceRow};

/// Number of newest events that are kept.
const EVENTS_KEPT: usize = 20;
/// Shortest silence that is shown while it goes on.
const SILENCE_NS: u64 = 1_000_000_000;
/// Slices after the end of a fault in which a moment is still in its effect.
const AFTERMATH: f64 = 2.0;

/// State of a run in progress. It receives events in order.
#[derive(Debug, Clone, Default)]
pub struct Live {
    kept: usize,
    goals: Vec<Goal>,
    /// Names of the steps of the trial's operations.
    steps: Vec<String>,
    trial: Option<TrialHeader>,
    phase: Option<LivePhase>,
    series: BTreeMap<u32, (Series, Option<f64>)>,
    unusual: UnusualSeries,
    events: VecDeque<Event>,
}

/// Phase that began last.
#[derive(Debug, Clone, Default)]
pub struct LivePhase {
    /// Header of the phase.
    pub header: PhaseHeader,
    /// Planned duration; `None` if it is not known.
    pub takes: Option<Duration>,
    /// State at the end; `None` while the phase is in progress.
    pub ended: Option<PhaseState>,
    /// Sums of all operation types together.
    pub done: LiveSums,
    /// Newest slices, the newest last: rows of all operation types together, also of the warm-up.
    pub newest: VecDeque<SliceRow>,
    /// Operation types by name, once one of their operations has ended.
    pub types: BTreeMap<String, LiveType>,
    /// Faults of the phase, in the order in which they began. A fault without `healed_ns` is in progress.
    pub faults: Vec<FaultSpan>,
    /// Goals of the phase if it is a drive, otherwise those of the drive before it in its trial.
    pub goals: Vec<LiveGoal>,
    /// Name of the phase that the goals are of.
    pub goals_phase: String,
    silence: LiveSilence,
    moments: LiveMoments,
}

/// Operation type of a phase.
#[derive(Debug, Clone, Default)]
pub struct LiveType {
    /// Sums of the type.
    pub done: LiveSums,
    /// Newest slices in which operations of the type ended, the newest last.
    pub newest: VecDeque<SliceRow>,
}

/// Sums over slices that count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveSums {
    /// Operations that ended.
    pub count: u64,
    /// Operations that count as errors: rejected, unknown or never sent, but not because the user wanted an end.
    pub failed: u64,
    /// Number of rejected ones among those that ended.
    pub rejected: u64,
    /// Number of unknown ones among those that ended.
    pub unknown: u64,
    /// Operations that were due and never sent when the phase ended; not in `count`.
    pub unfinished: u64,
    /// Seconds in which operations were started.
    pub seconds: f64,
    /// Times as the report merges them: without rejected operations, with those that were never sent.
    pub times: Times,
    /// Operations that did not fail and ended after the planned end: they are in no rate.
    drained: u64,
}

/// Goal of a phase and its value so far.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveGoal {
    /// Name of the goal: `p99`, `read.p99.9`, `errors`.
    pub name: String,
    /// The limit, in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
    /// True for a lower limit.
    pub at_least: bool,
    /// Value since the beginning of the phase; `None` before there is one, of a phase that did not complete, and for
    /// goals that only the report judges. Of `outage`, the longest silence that is certain so far: it may be longer.
    pub seen: Option<f64>,
    /// True if the value is a silence that goes on, and so a lower bound.
    pub open: bool,
    /// True if the value holds the goal; `None` without a value.
    pub holds: Option<bool>,
    /// True if only the report judges the goal, at the end of the run.
    pub at_end: bool,
}

/// Silence of a phase: time without answers although operations waited for them.
#[derive(Debug, Clone, Default)]
struct LiveSilence {
    /// Longest one so far; `None` before a slice that counts.
    longest_ns: Option<u64>,
    /// Length of the one at the end of the newest slice; `None` if clients rested in it, until the next answer.
    open_ns: Option<u64>,
    /// The clients rest between operations.
    rests: bool,
    /// The phase has a schedule.
    is_open_loop: bool,
}

impl LiveSilence {
    /// Returns the silence of a phase before its first slice.
    fn of(header: &PhaseHeader) -> Self {
        let is_open_loop = header.rate_per_s.is_some();
        LiveSilence { open_ns: Some(0), rests: !header.stages.is_empty(), is_open_loop, ..LiveSilence::default() }
    }

    /// Adds a slice of all operation types together. Slices of the warm-up and of the drain change nothing.
    fn add(&mut self, row: &SliceRow) {
        if row.warmup || row.drain {
            return;
        }
        self.is_open_loop |= row.measure == Measure::Response.name();
        let failed = row.rejected + row.unknown;
        let is_silent = row.count <= failed;
        let waits = row.in_flight > 0 || row.due_unsent > 0 || failed > 0 || !(self.rests || self.is_open_loop);
        let [first, longest, last] = row.silent_ns;
        let open_ns = self.open_ns.map(|open_ns| open_ns + first).filter(|_| waits || !is_silent);
        let inner_ns = if is_silent { 0 } else { longest };
        self.longest_ns = self.longest_ns.max(open_ns).max(Some(inner_ns));
        self.open_ns = if is_silent { open_ns } else { Some(last) };
    }

    /// Returns true if the longest silence so far goes on.
    fn is_open(&self) -> bool {
        self.open_ns.is_some_and(|open_ns| open_ns > 0 && Some(open_ns) == self.longest_ns)
    }
}

impl LiveSums {
    /// Adds a slice. A slice of the warm-up changes nothing.
    pub fn add(&mut self, row: &SliceRow) {
        if row.warmup {
            return;
        }
        self.count += row.count;
        self.failed += row.rejected + row.unknown + row.unfinished;
        self.rejected += row.rejected;
        self.unknown += row.unknown;
        self.unfinished += row.unfinished;
        if row.drain {
            self.drained += row.count.saturating_sub(row.rejected + row.unknown);
        } else {
            self.seconds += row.end_s - row.start_s;
        }
        self.times.add(&row.times_ns);
    }

    /// Adds the sums of another operation type of the same phase.
    fn join(&mut self, other: &LiveSums) {
        self.count += other.count;
        self.failed += other.failed;
        self.rejected += other.rejected;
        self.unknown += other.unknown;
        self.unfinished += other.unfinished;
        self.seconds = self.seconds.max(other.seconds);
        self.times.add(other.times.counts());
        self.drained += other.drained;
    }

    /// Number of operations that ended and did not fail.
    pub fn ok(&self) -> u64 {
        self.count.saturating_sub(self.rejected + self.unknown)
    }

    /// Operations that did not fail, a second; `None` before any time has passed.
    pub fn rate_per_s(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.ok().saturating_sub(self.drained) as f64 / self.seconds)
    }

    /// Share of failed operations in per cent; `None` before any has ended.
    pub fn error_percent(&self) -> Option<f64> {
        // What the user's wish for an end left unsent is no failure, and not in `failed`.
        let n = self.count + self.failed.saturating_sub(self.rejected + self.unknown);
        (n > 0).then(|| self.failed as f64 * 100.0 / n as f64)
    }

    /// Value of the quantity that a goal limits, in the goal's unit.
    fn quantity(&self, what: GoalKind) -> Option<f64> {
        match what {
            GoalKind::Percentile(percentile) => self.times.percentile(&percentile.name()).ok().map(|ns| ns as f64),
            GoalKind::Mean => (!self.times.is_empty()).then(|| self.times.mean_ns()),
            GoalKind::Errors => self.error_percent(),
            GoalKind::Unknown => Some(self.unknown as f64),
            GoalKind::Rate => self.rate_per_s(),
            GoalKind::Lost | GoalKind::Wrong | GoalKind::Stale => None,
            GoalKind::Status | GoalKind::Outage | GoalKind::Recovery => None,
        }
    }
}

impl LiveGoal {
    /// Judges `goal` by its value.
    fn judged(goal: &Goal, seen: Option<f64>, at_end: bool) -> Self {
        let at_least = goal.what == GoalKind::Rate;
        LiveGoal {
            name: goal.name(),
            limit: goal.limit,
            unit: goal.unit.clone(),
            at_least,
            seen,
            open: false,
            holds: seen.map(|seen| if at_least { seen >= goal.limit } else { seen <= goal.limit }),
            at_end,
        }
    }

    /// Returns the distance of the value from the limit, as a share of the limit: negative if the goal is missed.
    /// `None` without a value, and for a limit of 0.
    pub fn margin(&self) -> Option<f64> {
        let seen = self.seen.filter(|_| self.limit > 0.0)?;
        let room = if self.at_least { seen - self.limit } else { self.limit - seen };
        Some(room / self.limit)
    }
}

impl LivePhase {
    /// Iterates over the newest slow moments, oldest first: of a drive with a steady load that is no load step.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = &LiveMoment> {
        self.moments.newest()
    }

    /// Returns the length of a silence of a second or longer that goes on, in seconds.
    pub fn silence_s(&self) -> Option<f64> {
        let open_ns = self.silence.open_ns.filter(|open_ns| *open_ns >= SILENCE_NS && self.ended.is_none());
        open_ns.map(|open_ns| open_ns as f64 / 1e9)
    }

    /// Returns what went on during a slow moment: the faults in effect, else a pause of the machine if the moment is
    /// usual without it, else the series that rose.
    pub fn meanwhile(&self, moment: &LiveMoment) -> Vec<String> {
        let slice_s = self.newest.back().map_or(0.0, |row| row.end_s - row.start_s);
        let is_in_effect = |span: &&FaultSpan| {
            let until_s = span.healed_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9 + AFTERMATH * slice_s);
            (span.begun_ns as f64 / 1e9) < moment.end_s && until_s > moment.start_s && !span.detail.is_skipped
        };
        let faults = self.faults.iter().filter(is_in_effect);
        let faults: Vec<String> = faults.map(|span| span.with_subject(", ")).collect();
        match (faults.is_empty(), moment.paused) {
            (false, _) => faults,
            (true, true) => vec!["a pause of the machine".to_owned()],
            (true, false) => moment.changes.iter().map(UnusualValue::text).collect(),
        }
    }

    /// Compares a slice of all operation types together with those before, as far as the report does.
    fn compare(&mut self, row: &SliceRow) {
        let header = &self.header;
        let is_compared = header.kind == PhaseKind::Drive && header.rung.is_none() && header.stages.is_empty();
        if is_compared && !row.warmup && !row.drain {
            self.moments.slice(row, header.rate_per_s);
        }
    }

    /// Sums of the operation types that `of` names: a type, a scenario, or that type in any scenario. `None` before one
    /// of their operations has ended.
    fn sums_of(&self, of: &str) -> Option<LiveSums> {
        let all = self.types.iter().filter(|(name, _)| is_of_operation(of, name)).map(|(_, of_type)| &of_type.done);
        let mut sums: Option<LiveSums> = None;
        all.for_each(|one| sums.get_or_insert_default().join(one));
        sums
    }

    /// Judges `goals` in a trial whose operations have `steps`.
    fn judge(&mut self, goals: &[Goal], steps: &[String]) {
        // The rate of a type is over the whole time, also without its operations.
        self.types.values_mut().for_each(|of_type| of_type.done.seconds = self.done.seconds);
        if self.header.kind != PhaseKind::Drive {
            return;
        }
        let judged = goals.iter().map(|goal| {
            let seen = match (goal.what, goal.of.as_deref()) {
                (GoalKind::Outage, _) => self.silence.longest_ns.map(|ns| ns as f64),
                (what, None) => self.done.quantity(what),
                (what, Some(of)) => self.sums_of(of).and_then(|done| done.quantity(what)),
            };
            let is_of_step = goal.of.as_deref().is_some_and(|of| steps.iter().any(|name| is_of_step(of, name)));
            let is_of_report = goal.what.is_of_ledger() || matches!(goal.what, GoalKind::Status | GoalKind::Recovery);
            let open = goal.what == GoalKind::Outage && self.silence.is_open();
            LiveGoal { open, ..LiveGoal::judged(goal, seen, is_of_report || seen.is_none() && is_of_step) }
        });
        self.goals = judged.collect();
    }
}

impl Live {
    /// Makes a state before any event. `kept` is the number of newest slices that are kept, of all operation types
    /// together and of each.
    pub fn new(kept: usize) -> Self {
        Live { kept, ..Live::default() }
    }

    /// The run begins.
    pub fn begin_run(&mut self, header: &RunHeader) {
        self.goals.clone_from(&header.goals);
    }

    /// A trial begins.
    pub fn begin_trial(&mut self, header: &TrialHeader) {
        let steps = header.kinds.iter().filter(|kind| kind.step_of.is_some());
        self.steps = steps.map(|kind| kind.name.clone()).collect();
        (self.trial, self.phase) = (Some(header.clone()), None);
        // Its store may be another, whose counters are other series.
        self.series.values_mut().for_each(|(_, newest)| *newest = None);
    }

    /// A phase of the trial begins, which will take so long if that is known.
    pub fn begin_phase(&mut self, header: &PhaseHeader, takes: Option<Duration>) {
        let before = self.phase.take().filter(|_| header.kind != PhaseKind::Drive);
        let (goals, goals_phase) =
            before.map_or_else(|| (Vec::new(), header.name.clone()), |before| (before.goals, before.goals_phase));
        let mut phase = LivePhase {
            header: header.clone(),
            takes,
            goals,
            goals_phase,
            silence: LiveSilence::of(header),
            ..LivePhase::default()
        };
        phase.judge(&self.goals, &self.steps);
        self.phase = Some(phase);
        self.unusual.forget();
    }

    /// The clients of the phase rest between operations: they think.
    pub fn rests(&mut self) {
        if let Some(phase) = &mut self.phase {
            phase.silence.rests = true;
        }
    }

    /// Adds a row of a slice of the phase: of all operation types together, or of one type. Only a measured slice is in
    /// the sums. A row of the same slice, as far as it was, makes room for it.
    pub fn slice(&mut self, row: &SliceRow, measured: bool) {
        let Some(phase) = &mut self.phase else { return };
        let (done, newest) = if row.op == ALL {
            (&mut phase.done, &mut phase.newest)
        } else {
            let of_type = phase.types.entry(row.op.clone()).or_default();
            (&mut of_type.done, &mut of_type.newest)
        };
        if newest.back().is_some_and(|last| last.slice == row.slice && last.end_s != row.end_s) {
            newest.pop_back();
        }
        if newest.len() >= self.kept.max(1) {
            newest.pop_front();
        }
        newest.push_back(row.clone());
        if measured {
            done.add(row);
            if row.op == ALL {
                phase.silence.add(row);
                phase.compare(row);
            }
            phase.judge(&self.goals, &self.steps);
        }
    }

    /// Ends the phase.
    pub fn end_phase(&mut self, end: &PhaseEnd) {
        let Some(phase) = &mut self.phase else { return };
        phase.ended = Some(end.state.clone());
        // As in the report: the last slice may end a moment after the planned end.
        if let Some(planned) = end.result(ResultName::PlannedSeconds) {
            phase.done.seconds = phase.done.seconds.min(planned.value);
        }
        if end.state == PhaseState::Interrupted {
            let stopped = end.result(ResultName::Stopped).map_or(0, |stopped| stopped.value as u64);
            phase.done.failed = phase.done.failed.saturating_sub(stopped + phase.done.unfinished);
        }
        phase.judge(&self.goals, &self.steps);
        let is_judged = end.state == PhaseState::Complete || is_overload(end);
        if phase.header.kind == PhaseKind::Drive && !is_judged {
            // The report judges nothing of such a phase.
            phase.goals.iter_mut().for_each(|goal| (goal.seen, goal.holds) = (None, None));
        }
    }

    /// Takes a series and the position by which samples name it.
    pub fn series(&mut self, position: u32, series: &Series) {
        self.series.entry(position).or_insert_with(|| (series.clone(), None));
        self.unusual.series(position, series);
    }

    /// Takes the values of a sample. A value that is not a number changes nothing.
    pub fn sample(&mut self, sample: &Sample) {
        for (position, value) in sample.values.iter().filter(|(_, value)| value.is_finite()) {
            if let Some((_, newest)) = self.series.get_mut(position) {
                *newest = Some(*value);
            }
        }
        self.unusual.sample(sample);
        if let Some(phase) = &mut self.phase {
            self.unusual.unusual(sample).for_each(|one| phase.moments.unusual(one));
        }
    }

    /// Takes the newest state of a fault.
    pub fn fault(&mut self, span: &FaultSpan) {
        let Some(phase) = &mut self.phase else { return };
        match phase.faults.iter_mut().find(|known| known.ordinal == span.ordinal) {
            Some(known) => known.clone_from(span),
            None => phase.faults.push(span.clone()),
        }
    }

    /// Takes an event of the run.
    pub fn event(&mut self, event: &Event) {
        if self.events.len() >= EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event.clone());
    }

    /// Returns the header of the trial that began last.
    pub fn trial(&self) -> Option<&TrialHeader> {
        self.trial.as_ref()
    }

    /// Returns the phase that began last.
    pub fn phase(&self) -> Option<&LivePhase> {
        self.phase.as_ref()
    }

    /// Iterates over the series that have a value in this trial, with the newest.
    pub fn values(&self) -> impl Iterator<Item = (&Series, f64)> {
        self.series.values().filter_map(|(series, value)| Some((series, (*value)?)))
    }

    /// Returns the series of the phase whose newest value is unusual.
    pub fn unusual(&self) -> &UnusualSeries {
        &self.unusual
    }

    /// Iterates over the newest events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}
