//! The store's own maintenance cycle: its length, and the load steps that lasted through one.
//!
//! A checkpoint, a flush or a compaction comes now and then, and what it costs is felt only then: a rate that holds for
//! ten seconds between two of them need not hold for an hour. So the load steps that decide are to last through one.

use super::{LineSpec, LoadStep};

/// Factor on the apparent length of a cycle, so that a late one still ends in the load step.
const MARGIN: f64 = 1.15;
const MARGIN_S: f64 = 1.0;

/// Time that a thorough search takes for a rung through a cycle, if nothing tells the length of cycles.
const UNKNOWN_S: f64 = 600.0;

/// Load steps at this share of a rate and above tell how often cycles come at it: many are brought on by work.
const LIKE: f64 = 0.7;

/// Ratio of the use of a limit with a cycle to the use without one from which the difference is no coincidence.
const APART: f64 = 1.25;

/// Time, warm-up included, in which a cycle ends at `rate`; `None` where nothing tells, unless the search is thorough.
pub(super) fn whole_s(spec: &LineSpec, steps: &[LoadStep], rate: f64) -> Option<f64> {
    let by_settings = steps.iter().rev().find_map(|step| step.cycle_s);
    let by_work = steps.iter().rev().find_map(|step| step.cycle_ops).map(|operations| operations / rate);
    let known = [by_settings, by_work, seen_s(steps, rate, by_work.is_some())].into_iter().flatten();
    let length_s = known.filter(|length_s| length_s.is_finite()).min_by(f64::total_cmp);
    let is_counted = spec.thorough && steps.last().is_some_and(|step| !step.cycles.is_empty());
    length_s.map(|length_s| length_s * MARGIN + MARGIN_S).or(is_counted.then_some(UNKNOWN_S))
}

/// Time between two cycles as load steps saw them, of the counter that counts the most. If they come `by_work`, the
/// time at other rates is converted to this one.
fn seen_s(steps: &[LoadStep], rate: f64, by_work: bool) -> Option<f64> {
    let is_like = |step: &&LoadStep| step.rung.rate_per_s.unwrap_or(step.rate_per_s) >= LIKE * rate;
    let (mut time_s, mut n) = (0.0, 0.0);
    for step in steps.iter().filter(|step| step.cycles_ended() >= 1.0).filter(is_like) {
        // The counters are read from before the warm-up on.
        time_s += step.rung.total_s() * if by_work { step.rate_per_s / rate } else { 1.0 };
        n += step.cycles.iter().map(|(_, n)| *n).fold(0.0, f64::max);
    }
    (n > 0.0).then(|| time_s / n)
}

/// True when goals broke in a load step with a cycle at a rate at which, or above which, they held without, and by more
/// than load steps at one rate differ: then one without a cycle says nothing about what the store carries.
pub(super) fn matters(steps: &[LoadStep]) -> bool {
    let told = |step: &LoadStep| Some((step.cycles_ended() >= 1.0, step.rung.rate_per_s?, step.worst_ratio()?));
    let told: Vec<(bool, f64, f64)> = steps.iter().filter_map(told).collect();
    let used = |broken: bool| told.iter().filter(move |(saw, _, ratio)| [*saw, *ratio > 1.0] == [broken; 2]);
    used(false).any(|(_, held_at, held)| used(true).any(|(_, at, broke)| at <= held_at && *broke > APART * held))
}
