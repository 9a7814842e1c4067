//! Steps within operations: the statements of a transaction, each under the operation that it is part of.
//!
//! A kind that names another in `step_of` is timed like an operation and counts as none. An operation that was tried
//! several times is of a kind of its own, `<name> retried`; its steps are those of `<name>`.

use plimsoll_core::study::is_of_step;
use plimsoll_core::{KindId, Measure, OpKind};

use crate::latency::Times;
use crate::phase::PhaseFacts;
use crate::view::StepView;

/// Suffix of the name of an operation type that counts operations which needed several attempts.
const RETRIED: &str = " retried";

/// Per cent of an operation's time above which its steps together must have overlapped: all of it, and what histograms
/// round.
const WHOLE_PERCENT: f64 = 100.5;

/// The kind that `kind` is shown with: the one whose operations needed one try only, or itself. The second value puts
/// the retried ones after the others.
pub fn first_try(kinds: &[OpKind], kind: KindId) -> (KindId, bool) {
    let name = kinds.get(usize::from(kind)).and_then(|kind| kind.name.strip_suffix(RETRIED));
    match name.and_then(|name| kinds.iter().position(|kind| kind.name == name && kind.step_of.is_none())) {
        Some(first) => (first as KindId, true),
        None => (kind, false),
    }
}

/// Returns all steps of a phase, under their operations, in the order of their types.
pub fn steps(facts: &PhaseFacts<'_>) -> Vec<StepView> {
    let kinds = &facts.trial.header.kinds;
    let mut seen: Vec<(KindId, KindId)> =
        facts.steps.keys().filter_map(|(kind, ..)| Some((kinds.get(usize::from(*kind))?.step_of?, *kind))).collect();
    seen.sort_unstable();
    seen.dedup();
    let mut steps: Vec<StepView> = seen.into_iter().filter_map(|(of, kind)| one(facts, of, kind)).collect();
    // Those of a pipeline are under way at the same time: their times together are no part of the operation's.
    let overlap: Vec<String> = steps
        .chunk_by(|a, b| a.op == b.op)
        .filter(|steps| steps.iter().filter_map(|step| step.share_percent).sum::<f64>() > WHOLE_PERCENT)
        .filter_map(|steps| Some(steps.first()?.op.clone()))
        .collect();
    steps.iter_mut().filter(|step| overlap.contains(&step.op)).for_each(|step| step.share_percent = None);
    steps
}

/// Times of a step.
#[derive(Default)]
pub struct StepTimes {
    /// Times of all outcomes.
    pub all: Times,
    /// Times of answered steps.
    pub answered: Times,
    /// Number of rejected or unknown steps.
    pub errors: u64,
}

/// Returns the times of the step with the name or prefix `name`; `None` if there is none, or it was never sent.
pub fn timed(facts: &PhaseFacts<'_>, name: &str) -> Option<StepTimes> {
    let mut kinds = facts.trial.header.kinds.iter();
    let kind = kinds.position(|kind| kind.step_of.is_some() && is_of_step(name, &kind.name))?;
    times(facts, kind as KindId)
}

fn times(facts: &PhaseFacts<'_>, kind: KindId) -> Option<StepTimes> {
    let mut seen = StepTimes::default();
    for ((_, outcome, _), times) in facts.steps.iter().filter(|((at, _, measure), _)| *at == kind && sent(*measure)) {
        seen.all.add(times.counts());
        match outcome.is_error() {
            true => seen.errors += times.len(),
            false => seen.answered.add(times.counts()),
        }
    }
    (!seen.all.is_empty()).then_some(seen)
}

fn one(facts: &PhaseFacts<'_>, of: KindId, kind: KindId) -> Option<StepView> {
    let StepTimes { all, answered, errors } = times(facts, kind)?;
    let whole_ns = operations_ns(facts, of);
    Some(StepView {
        op: facts.op_name(of).to_string(),
        name: facts.op_name(kind).to_string(),
        count: all.len(),
        errors,
        mean_ns: all.mean_ns(),
        stddev_ns: all.stddev_ns(),
        percentiles: answered.percentiles(),
        max_ns: all.max_ns(),
        share_percent: (whole_ns > 0.0).then(|| all.mean_ns() * all.len() as f64 * 100.0 / whole_ns),
    })
}

/// Nanoseconds that all operations of kind `of` took from their sending, retried ones included.
fn operations_ns(facts: &PhaseFacts<'_>, of: KindId) -> f64 {
    let kinds = &facts.trial.header.kinds;
    let fits = |kind: KindId, measure| first_try(kinds, kind).0 == of && sent(measure);
    let all = facts.histograms.iter().filter(|((kind, _, measure), _)| fits(*kind, *measure));
    all.map(|(_, times)| times.mean_ns() * times.len() as f64).sum()
}

/// Steps have no schedule of their own: what they took is from their sending.
fn sent(measure: Measure) -> bool {
    measure == Measure::Service
}
