//! A load step and its result, from the recording.

use plimsoll_core::{Outcome, Slice};
use plimsoll_record::Distribution;
use plimsoll_record::data::{About, Goal, GoalKind, PhaseState, ResultName, Sample, Series};

use crate::faults;
use crate::goal;
use crate::latency::Times;
use crate::number;
use crate::phase::PhaseFacts;
use crate::resource::Resource;
use crate::view::{FaultView, RungState};
use crate::warning::worst_lag_ns;

use super::taken::taken;
use super::{GoalSeen, LineSpec, Rung, through};

/// Operations that were due and may be left unsent when the time is up, as a share of all that were due, and as seconds
/// of the rate: more of both means that the store does not keep up, however long it is given.
const UNSENT_MAX: f64 = 0.005;
const UNSENT_MAX_S: f64 = 0.1;

/// Lateness of the generator from which on what was due is sent as a burst: refusals of it are no evidence.
const BURST_NS: u64 = 100_000_000;

/// Use of a resource in a load step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceUse {
    /// Resource that was sampled.
    pub resource: Resource,
    /// Values in the unit of the resource, one for each sample.
    pub values: Vec<f64>,
    /// Waiting times of the slowest 1 % (or the slowest) of the same second, if known: one for each value.
    pub waits_s: Vec<Option<f64>>,
}

/// Load step that was driven, with its result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadStep {
    /// Rung as it was driven.
    pub rung: Rung,
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
    /// The goals of the spec that one load step can measure, in their order.
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
    /// Longest time without an answer after each of its faults, in seconds.
    pub outages_s: Vec<f64>,
    /// Time until a client noticed the fault with the longest of these times, in seconds; `None` if none did.
    pub noticed_s: Option<f64>,
    /// Time until throughput was back after each of its faults, in seconds; infinite if it did not come back.
    pub recoveries_s: Vec<f64>,
    /// Operations whose outcome is unknown.
    pub unknown: u64,
    /// Acknowledged writes that were lost; `None` if that is not known.
    pub lost: Option<u64>,
    /// A fault of the search did not take place.
    pub lacks_faults: bool,
    /// Longest time for which a fault was observed after which throughput did not come back.
    pub unrecovered_s: Option<f64>,
    /// Resources that were sampled, with their use.
    pub resources: Vec<ResourceUse>,
    /// Maintenance cycles that ended in it, by counter.
    pub cycles: Vec<(String, f64)>,
    /// Longest time that the store works, by its settings, until a cycle has ended, if it is known.
    pub cycle_s: Option<f64>,
    /// Most operations until a cycle has ended, if cycles depend on work.
    pub cycle_ops: Option<f64>,
    /// Length of a cycle in words, with the setting to change.
    pub cycle_words: Option<String>,
}

impl LoadStep {
    /// Converts a phase, but for its rung and duration. `samples` are those of the whole run, or those taken since
    /// shortly before its trial.
    pub(super) fn of(spec: &LineSpec, facts: &PhaseFacts<'_>, samples: &[Sample], series: &[Series]) -> LoadStep {
        let end = &facts.phase.end;
        let (late, failed) = match &end.state {
            PhaseState::Void(why) => (Some(why.as_str()), None),
            PhaseState::Failed(why) if facts.late().is_none() => (None, Some(why.clone())),
            _ => (facts.late(), None),
        };
        let result = |name| end.result(name).map(|result| result.value);
        let cycles = end.results.iter().filter(|result| result.name == ResultName::Cycles);
        let spans = taken(samples, series, end.end_ns);
        let faults = faults::of_phase(facts);
        let overlap =
            |slice: &Slice<Distribution>, (from, until): &(u64, u64)| slice.start_ns < *until && *from < slice.end_ns;
        // While a fault is in effect its own goals judge.
        let is_faulted = |slice: &Slice<Distribution>| faults.iter().any(|one| overlap(slice, &one.effect_ns));
        let counted = facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice) && !is_faulted(slice));
        let counted: Vec<_> = counted.collect();
        let is_taken = |part: &&[&Slice<Distribution>]| {
            part.first().is_some_and(|slice| spans.iter().flatten().any(|span| overlap(slice, span)))
        };
        let ends_taken = parts(&counted).last().is_some_and(|part| is_taken(&part));
        let (taken, free): (Vec<_>, Vec<_>) = parts(&counted).partition(is_taken);
        let (n, taken_n) = (taken.len() + free.len(), taken.len());
        let by_others = (taken_n * 2 > n).then(|| {
            format!("other programs or the hypervisor used the processors in {taken_n} of {n} slices, or the queue from them was worked off")
        });
        let judged = if by_others.is_some() { counted.clone() } else { free.concat() };
        // A closed loop has no faults.
        let of_faults = !spec.faults.is_empty() && facts.phase.header.rate_per_s.is_some();
        let measured = |goal: &Goal| match goal.what {
            GoalKind::Outage | GoalKind::Recovery => of_faults.then(|| through::after_faults(&faults, goal)),
            GoalKind::Lost | GoalKind::Stale | GoalKind::Unknown => of_faults.then(|| through::counted(facts, goal)),
            what => what.is_searchable().then(|| seen(facts, &judged, goal)),
        };
        let goals: Vec<GoalSeen> = spec.goals.iter().filter_map(measured).collect();
        let has_errors = goals.iter().any(|one| one.what == GoalKind::Errors && one.ratio() > Some(1.0));
        let lag_ns = worst_lag_ns(facts).filter(|lag_ns| has_errors && *lag_ns > BURST_NS);
        let burst = lag_ns.map(|lag_ns| {
            format!("the generator was up to {} late, and sent what was due in a burst", number::nanoseconds(lag_ns))
        });
        let unsent = if ends_taken { 0 } else { facts.unfinished_count() };
        let ended = facts.count(None, |_| true);
        let counted_s = facts.counted_s.max(1e-9);
        LoadStep {
            rate_per_s: facts.rate(None).map_or(0.0, |rate| rate.value),
            ended_per_s: ended as f64 / counted_s,
            unsent_share: unsent as f64 / (ended + unsent).max(1) as f64,
            rejected_per_s: facts.count(None, |outcome| outcome == Outcome::Rejected) as f64 / counted_s,
            goals,
            void: late.map(str::to_string).or(by_others).or(burst),
            taken_s: taken_n as f64 * facts.counted_s / n.max(1) as f64,
            beside_others: spans.is_none(),
            failed,
            outages_s: faults.iter().filter_map(FaultView::whole_outage_s).collect(),
            noticed_s: through::longest_outage(&faults).and_then(|one| one.noticed_s),
            recoveries_s: faults.iter().filter_map(FaultView::whole_recovery_s).collect(),
            unknown: facts.unknown().value as u64,
            lost: goal::lost(std::slice::from_ref(facts)).ok().map(|lost| lost.value as u64),
            lacks_faults: of_faults && through::lacks_faults(spec, &faults),
            unrecovered_s: faults::unrecovered_s(&faults),
            resources: super::explain::resources(facts, samples, series),
            cycles: cycles.map(|result| (result.subject.clone(), result.value)).collect(),
            cycle_s: result(ResultName::CycleSeconds),
            cycle_ops: result(ResultName::CycleOperations),
            cycle_words: end.remarks.iter().find(|(about, _)| *about == About::Cycle).map(|(_, words)| words.clone()),
            ..LoadStep::default()
        }
    }

    /// Returns true if it was driven at `rate_per_s`.
    pub(super) fn is_at(&self, rate_per_s: f64) -> bool {
        self.rung.rate_per_s == Some(rate_per_s)
    }

    /// Returns the rate that was offered; `None` for a closed loop, and if a reason makes it void.
    pub(super) fn offered_per_s(&self) -> Option<f64> {
        self.rung.rate_per_s.filter(|_| self.void.is_none())
    }

    /// Returns its state.
    pub(super) fn state(&self) -> RungState {
        match self.worst_ratio() {
            Some(ratio) if ratio <= 1.0 => RungState::Held,
            Some(_) => RungState::Failed,
            None if self.void.is_some() => RungState::Undecided,
            None if self.rung.rate_per_s.is_none() => RungState::Start,
            None => RungState::NotMeasured,
        }
    }

    /// Returns the largest share of its limit that a goal used, with keeping up as one of the goals; over 1 is broken.
    /// Returns `None` without evidence.
    ///
    /// If it is void by a late generator, only a broken goal says nothing: response time starts when an operation is
    /// due, so lateness makes it longer and never shorter, and goals that held all the same did hold.
    pub(super) fn worst_ratio(&self) -> Option<f64> {
        self.rung.rate_per_s?;
        let unrecovered = self.unrecovered_s.map_or(0.0, |_| f64::INFINITY);
        let ratio = self.goals.iter().filter_map(GoalSeen::ratio).fold(self.unsent_ratio().max(unrecovered), f64::max);
        // A goal that is broken is broken whatever else was not measured.
        let is_told = ratio > 1.0 || self.unmeasured().is_none() && !self.lacks_faults;
        (self.failed.is_none() && is_told && (self.void.is_none() || ratio <= 1.0)).then_some(ratio)
    }

    /// Returns the unsent operations as a share of the permitted ones: over 1 the store did not keep up.
    pub(super) fn unsent_ratio(&self) -> f64 {
        self.unsent_share / UNSENT_MAX.max(UNSENT_MAX_S / self.rung.seconds.max(UNSENT_MAX_S))
    }

    /// True when others had the processors in most of it.
    pub(super) fn is_taken(&self) -> bool {
        self.taken_s * 2.0 > self.rung.seconds
    }

    /// Returns the number of maintenance cycles that ended in it, of all counters.
    pub(super) fn cycles_ended(&self) -> f64 {
        self.cycles.iter().map(|(_, n)| n).sum()
    }

    /// The first goal that was not measured. What a ledger could not tell is left to the goals of the run.
    pub(super) fn unmeasured(&self) -> Option<&GoalSeen> {
        self.goals.iter().find(|goal| goal.value.is_none() && !goal.what.is_of_ledger())
    }
}

/// Groups slices: each whole one with what follows it and is none, the remainder and answers after the planned end.
fn parts<'s, 'a>(slices: &'s [&'a Slice<Distribution>]) -> impl Iterator<Item = &'s [&'a Slice<Distribution>]> {
    let longest_ns = slices.iter().map(|slice| slice.length_ns()).max().unwrap_or(0);
    slices.chunk_by(move |_, next| next.drain || next.length_ns() * 2 <= longest_ns)
}

/// Measures a goal over these slices, without operations that a pause of the machine disturbed. What was due and never
/// sent is judged by itself.
fn seen(facts: &PhaseFacts<'_>, slices: &[&Slice<Distribution>], goal: &Goal) -> GoalSeen {
    let op = goal.of.as_deref();
    let (value, n) = match goal.what {
        GoalKind::Errors => {
            let ended = || slices.iter().flat_map(|slice| facts.ended(slice)).filter(|one| facts.is_kind(one.kind, op));
            let n: u64 = ended().map(|one| one.histogram.len()).sum();
            let failed: u64 = ended().filter(|one| one.outcome.is_error()).map(|one| one.histogram.len()).sum();
            let percent = failed as f64 * 100.0 / n as f64;
            (if n > 0 { Ok(percent) } else { Err("no operation ended".to_string()) }, n)
        }
        percentile => {
            let mut all = Times::default();
            for slice in slices {
                all.add(facts.judged_slice(slice, op).unwrap_or_else(|| facts.waited_in(slice, op)).counts());
            }
            (all.percentile(&percentile.name()).map(|ns| ns as f64), all.len())
        }
    };
    GoalSeen::new(goal, value, n)
}
