//! Explanations of the line: resources that are exhausted there, or that correlate with the slow seconds.
//!
//! Nothing here proves a cause. A resource is named when it is close to its capacity where goals break and was not
//! where they held, or when the slow seconds are those in which it was used most; otherwise it is said that nothing
//! that is sampled explains it.

use indexmap::IndexMap;
use plimsoll_core::sampler::ANSWERS;
use plimsoll_record::data::{Sample, Series};

use crate::number;
use crate::phase::PhaseFacts;
use crate::resource::{self, Resource, USED_UP, named, processors};
use crate::stat::{self, fit};

use super::{Cause, LoadStep, ResourceUse};

/// Shares of a capacity that its use, and of time that waiting for it, has to have grown by.
const GROWN: f64 = 0.03;
const WAITING: f64 = 0.10;

/// Rank correlation of a resource with the waits of the same second that is worth naming, and pairs it needs.
const CORRELATED: f64 = 0.5;
const PAIRS_MIN: usize = 12;

/// Returns all series sampled during a phase's drive, without the warm-up. The generator's own use explains nothing
/// about the store.
pub(super) fn resources(facts: &PhaseFacts<'_>, samples: &[Sample], series: &[Series]) -> Vec<ResourceUse> {
    let counted = || facts.phase.slices.iter().filter(|slice| !slice.warmup);
    let (Some(first), Some(last)) = (counted().next(), counted().next_back()) else { return Vec::new() };
    let inside: Vec<&Sample> =
        samples.iter().filter(|sample| sample.at_ns > first.start_ns && sample.at_ns <= last.end_ns).collect();
    // Of the slowest per cent of the sample's slice; of its slowest operation if it had too few.
    let wait_s = |sample: &&Sample| {
        let at_ns = sample.at_ns;
        let slice = facts.phase.slices.iter().find(|slice| slice.start_ns < at_ns && at_ns <= slice.end_ns)?;
        let times = facts.waited_in(slice, None);
        (!times.is_empty()).then(|| times.slowest_ns() as f64 / 1e9)
    };
    let waits_s: Vec<Option<f64>> = inside.iter().map(wait_s).collect();
    let cores = processors(series);
    let mut used: Vec<(Resource, Vec<f64>)> = Vec::new();
    for (position, one) in series.iter().enumerate() {
        let values: Vec<f64> = inside.iter().map(|sample| sample.value(position).unwrap_or(f64::NAN)).collect();
        let is_sampled = values.iter().any(|value| !value.is_nan());
        // Times of clients' own answers, by node, are what is to be explained.
        if let Some(named) = named(one, cores).filter(|_| is_sampled && one.source != ANSWERS) {
            resource::add(&mut used, named, values, |sum, value| *sum += value);
        }
    }
    used.into_iter().map(|(resource, values)| ResourceUse { resource, values, waits_s: waits_s.clone() }).collect()
}

/// Returns the median of all samples of these.
pub(super) fn middle<'a>(of: impl IntoIterator<Item = &'a ResourceUse>) -> Option<f64> {
    stat::median_of(of.into_iter().flat_map(|one| &one.values).copied().filter(|value| !value.is_nan()))
}

/// Returns the explanations of goals that held at `held` and not at `failed`, likeliest first.
pub(super) fn causes(steps: &[LoadStep], held: Option<f64>, failed: f64) -> Vec<Cause> {
    let all = steps.iter().flat_map(|step| &step.resources);
    let each: IndexMap<_, _> = all.map(|one| ((&one.resource.name, &one.resource.unit), &one.resource)).collect();
    let causes = each.into_values().filter_map(|resource| cause(steps, held, failed, resource));
    let mut causes: Vec<Cause> = causes.collect();
    causes.sort_by(|a, b| b.score.total_cmp(&a.score));
    causes
}

fn cause(steps: &[LoadStep], held: Option<f64>, failed: f64, resource: &Resource) -> Option<Cause> {
    let at = |wanted: &dyn Fn(f64) -> bool| {
        let all = steps.iter().filter(|step| step.offered_per_s().is_some_and(wanted)).flat_map(|step| &step.resources);
        let is_its = |one: &&ResourceUse| one.resource.name == resource.name && one.resource.unit == resource.unit;
        all.filter(is_its).collect::<Vec<&ResourceUse>>()
    };
    let used = middle(at(&|rate| rate == failed))?;
    // Where goals held well below the line: a resource that was used up there already is not what broke them.
    let lowest = steps.iter().filter_map(|step| step.rung.rate_per_s).fold(f64::INFINITY, f64::min);
    let grown = used - middle(at(&|rate| rate == lowest && rate < failed)).unwrap_or(0.0);
    let (name, capacity) = (&resource.name, resource.capacity.unwrap_or(f64::INFINITY));
    // A single thread is bound by one core.
    let (bound, certain) =
        if used >= USED_UP * capacity { (capacity, (used / capacity).min(1.0)) } else { (100.0, 0.97) };
    let (text, score) = match resource.words(used) {
        Some(text) if resource.waiting => {
            let grown = Some(grown / capacity).filter(|grown| *grown > WAITING)?;
            (text, 0.5 + 0.3 * grown.min(1.0))
        }
        Some(text) if grown > GROWN * bound => (text, certain),
        _ => {
            // Seconds near the line: those in which it was used most against those that were slow.
            let near = at(&|rate| rate == failed || Some(rate) == held);
            let seconds = near.iter().flat_map(|one| one.values.iter().zip(&one.waits_s));
            let known = seconds.filter(|(value, _)| !value.is_nan());
            let pairs: Vec<(f64, f64)> = known.filter_map(|(value, wait)| Some((*value, (*wait)?))).collect();
            let r = Some(fit::rank_correlation(&pairs)).filter(|r| pairs.len() >= PAIRS_MIN && *r >= CORRELATED)?;
            let (shown, n) = (number::significant(r), pairs.len());
            (format!("the slow seconds went with much of {name} (rank correlation {shown}, n = {n})"), 0.75 * r)
        }
    };
    Some(Cause { text, resource: name.clone(), score })
}
