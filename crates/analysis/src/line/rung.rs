//! Result of a rung, from the recording.

use plimsoll_core::{Outcome, Slice};
use plimsoll_record::Distribution;
use plimsoll_record::data::{About, Goal, GoalKind, PhaseState, ResultName, Sample, Series};

use crate::latency::Times;
use crate::phase::{PhaseFacts, Quantity};

use super::taken::{Taken, taken};
use super::{GoalSeen, LineSpec, Rung};

/// Operations that were due and may be left unsent when the time is up, as a share of all that were due, and as seconds
/// of the rate: more of both means that the store does not keep up, however long it is given.
const UNSENT_MAX: f64 = 0.005;
const UNSENT_MAX_S: f64 = 0.1;

/// A sampled resource during a rung.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Name in a sentence: `the server's CPU`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// The most there is of it, in `unit`; `None` where that is not known.
    pub capacity: Option<f64>,
    /// True for the share of time in which a task had to wait for it.
    pub waiting: bool,
    /// Values, one for each sample.
    pub values: Vec<f64>,
    /// Waiting times of the slowest 1 % (or the slowest) of the same second, if known: one for each value.
    pub waits_s: Vec<Option<f64>>,
}

/// Result of a rung.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RungSummary {
    /// Counted time.
    pub seconds: f64,
    /// Total duration, including settling before it.
    pub took_s: f64,
    /// Operations that did not fail, a second.
    pub rate_per_s: f64,
    /// Operations that ended, whatever they came to, a second.
    pub ended_per_s: f64,
    /// Operations that were due and never sent because time was up, as a share of all that were due; none where others had the
    /// processors at the end.
    pub unsent_share: f64,
    /// Operations that the store refused, a second.
    pub rejected_per_s: f64,
    /// The goals of the spec that one rung can measure, in their order.
    pub goals: Vec<GoalSeen>,
    /// Reason that a missed goal is no evidence about the store: the generator was late, or other programs had the
    /// processors for most of it.
    pub void: Option<String>,
    /// Part of the counted time that goals are not judged on because other programs had the processors.
    pub taken_s: f64,
    /// Others had the processors nearly all the time, so that it is judged as it was seen, beside them.
    pub beside_others: bool,
    /// Reason that the phase failed.
    pub failed: Option<String>,
    /// Resources that were sampled.
    pub resources: Vec<Resource>,
    /// Maintenance cycles that ended in it, by counter.
    pub cycles: Vec<(String, f64)>,
    /// Longest time that the store works, by its settings, until a cycle has ended, if it is known.
    pub cycle_s: Option<f64>,
    /// Most operations until a cycle has ended, if cycles depend on work.
    pub cycle_ops: Option<f64>,
    /// Length of a cycle in words, with the setting to change.
    pub cycle_words: Option<String>,
}

impl RungSummary {
    /// Converts a phase to the result of a rung. `samples` are those of the whole run, or those taken since shortly
    /// before its trial; `started_ns` is when the rung's preparations began.
    pub(super) fn of(
        spec: &LineSpec,
        facts: &PhaseFacts<'_>,
        samples: &[Sample],
        series: &[Series],
        started_ns: u64,
    ) -> RungSummary {
        let end_ns = facts.phase.end.end_ns;
        let counted = facts.counted_s.max(1e-9);
        let (void, failed) = match &facts.phase.end.state {
            PhaseState::Complete | PhaseState::Failed(_) if facts.late().is_some() => {
                (facts.late().map(str::to_string), None)
            }
            PhaseState::Void(why) => (Some(why.clone()), None),
            PhaseState::Failed(why) => (None, Some(why.clone())),
            PhaseState::Unfinished | PhaseState::Interrupted => (None, Some("it did not end".to_string())),
            PhaseState::Complete => (None, None),
        };
        let end = &facts.phase.end;
        let result = |name| end.result(name).map(|result| result.value);
        let taken = taken(samples, series, end_ns);
        let judged = Judged::of(facts, &taken, None);
        let seen = |goal: &Goal| match goal.of.as_deref() {
            None => seen(&judged.parts, goal),
            op => seen(&Judged::of(facts, &taken, op).parts, goal),
        };
        let void = void.or_else(|| judged.void());
        let unsent = judged.unsent;
        RungSummary {
            seconds: facts.counted_s,
            took_s: end_ns.saturating_sub(started_ns) as f64 / 1e9,
            rate_per_s: facts.rate(None).map_or(0.0, |rate| rate.value),
            ended_per_s: facts.count(None, |_| true) as f64 / counted,
            unsent_share: unsent as f64 / (facts.count(None, |_| true) + unsent).max(1) as f64,
            rejected_per_s: facts.count(None, |outcome| outcome == Outcome::Rejected) as f64 / counted,
            goals: spec.goals.iter().filter(|goal| searchable(goal)).map(seen).collect(),
            void,
            taken_s: judged.taken as f64 * facts.counted_s / judged.slices.max(1) as f64,
            beside_others: taken == Taken::Always,
            failed,
            resources: super::explain::resources(facts, samples, series),
            cycles: end
                .results
                .iter()
                .filter(|result| result.name == ResultName::Cycles)
                .map(|result| (result.subject.clone(), result.value))
                .collect(),
            cycle_s: result(ResultName::CycleSeconds),
            cycle_ops: result(ResultName::CycleOperations),
            cycle_words: end.remarks.iter().find(|(about, _)| *about == About::Cycle).map(|(_, words)| words.clone()),
        }
    }

    /// Returns the largest share of its limit that a goal used, with keeping up as one of the goals; over 1 is broken.
    /// Returns `None` if `rung`, which had this result, has no evidence.
    ///
    /// Of a rung that is void by a late generator only a broken goal says nothing: response time starts when an operation
    /// is due, so lateness makes it longer and never shorter, and goals that held all the same did hold.
    pub(super) fn worst_ratio(&self, rung: &Rung) -> Option<f64> {
        rung.rate_per_s?;
        let unsent = self.unsent_ratio();
        let worst = self.goals.iter().filter_map(GoalSeen::ratio).fold(0.0, f64::max);
        let is_behind = self.goals.is_empty() || unsent > 1.0;
        let ratio = if is_behind { worst.max(unsent) } else { worst };
        // A goal that is broken is broken whatever else was not measured.
        let is_told = is_behind || worst > 1.0 || self.unmeasured().is_none();
        (self.failed.is_none() && is_told && (self.void.is_none() || ratio <= 1.0)).then_some(ratio)
    }

    /// Returns the unsent operations as a share of the permitted ones: over 1 the store did not keep up.
    pub(super) fn unsent_ratio(&self) -> f64 {
        self.unsent_share / UNSENT_MAX.max(UNSENT_MAX_S / self.seconds.max(UNSENT_MAX_S))
    }

    /// True when others had the processors in most of it.
    pub(super) fn is_taken(&self) -> bool {
        self.taken_s * 2.0 > self.seconds
    }

    /// True when a maintenance cycle ended in it.
    pub(super) fn saw_cycle(&self) -> bool {
        self.cycles.iter().any(|(_, n)| *n >= 1.0)
    }

    /// The first goal that was not measured.
    pub(super) fn unmeasured(&self) -> Option<&GoalSeen> {
        self.goals.iter().find(|goal| goal.value.is_none())
    }
}

/// Goals that one rung can measure.
fn searchable(goal: &Goal) -> bool {
    goal.what.is_searchable()
}

/// A slice of a rung: how long its operations took that goals are judged on (without what a pause of the machine disturbed,
/// where that is known), and how many ended and failed.
#[derive(Default)]
struct Part {
    times: Times,
    ended: u64,
    failed: u64,
    /// Others had the processors.
    taken: bool,
}

/// Data that a rung is judged by.
struct Judged {
    /// Slices of the rung without those taken by other programs, unless those are the majority.
    parts: Vec<Part>,
    /// Number of slices.
    slices: usize,
    /// Number of them that other programs took.
    taken: usize,
    /// Operations that were due and never sent.
    unsent: u64,
}

impl Judged {
    fn of(facts: &PhaseFacts<'_>, taken: &Taken, op: Option<&str>) -> Judged {
        let mut parts = parts(facts, taken, op);
        let slices = parts.len();
        let taken = parts.iter().filter(|part| part.taken).count();
        let unsent = if parts.last().is_some_and(|part| part.taken) { 0 } else { facts.unfinished_count() };
        if taken * 2 <= slices {
            parts.retain(|part| !part.taken);
        }
        Judged { parts, slices, taken, unsent }
    }

    /// Notes that most of the rung was taken by other programs.
    fn void(&self) -> Option<String> {
        let (taken, slices) = (self.taken, self.slices);
        (taken * 2 > slices).then(|| {
            format!("other programs or the hypervisor used the processors in {taken} of {slices} slices, or the queue from them was worked off")
        })
    }
}

/// The slices that count, of the operation type `op` or of all. What came back after the planned end, and what was never sent, belongs to the last of them.
fn parts(facts: &PhaseFacts<'_>, taken: &Taken, op: Option<&str>) -> Vec<Part> {
    let length_ns = |slice: &Slice<Distribution>| slice.end_ns.saturating_sub(slice.start_ns);
    let counted = || facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice));
    let longest_ns = counted().map(length_ns).max().unwrap_or(0);
    let mut parts: Vec<Part> = Vec::new();
    for slice in counted() {
        if parts.is_empty() || !slice.drain && length_ns(slice) * 2 > longest_ns {
            let taken = taken.is_in(slice.start_ns, slice.end_ns);
            parts.push(Part { taken, ..Part::default() });
        }
        let Some(part) = parts.last_mut() else { continue };
        let judged = facts.judged_slice(slice, op);
        part.times.add(judged.unwrap_or_else(|| facts.waited_in(slice, op)).counts());
        for one in facts.ended(slice).filter(|one| facts.is_kind(one.kind, op)) {
            part.ended += one.histogram.len();
            part.failed += if one.outcome.is_error() { one.histogram.len() } else { 0 };
        }
    }
    parts
}

/// A goal as the rung's `parts` tell it: all that goals are judged on, and nothing else.
fn seen(parts: &[Part], goal: &Goal) -> GoalSeen {
    let scale = if goal.unit == "ns" { 1e9 } else { 1.0 };
    // Of a rung that is void or failed there are values too; that it is one is said beside them.
    let (measured, n) = match goal.what {
        // What was due and never sent is judged by itself.
        GoalKind::Errors => {
            let sum = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
            let (n, failed) = (sum(|part| part.ended), sum(|part| part.failed));
            let percent = (n > 0).then(|| Quantity { value: failed as f64 * 100.0 / n as f64, n });
            (percent.ok_or_else(|| "no operation ended".to_string()), n)
        }
        percentile => {
            let mut all = Times::default();
            parts.iter().for_each(|part| all.add(part.times.counts()));
            (Quantity::percentile(&all, &percentile.name()), all.len())
        }
    };
    let (value, missing) = match measured {
        Ok(quantity) => (Some(quantity.value * scale), None),
        Err(why) => (None, Some(why)),
    };
    GoalSeen { what: goal.what, of: goal.of.clone(), limit: goal.limit, unit: goal.unit.clone(), value, missing, n }
}
