//! Goals on percentiles of response times that were held before the faults of a phase, and missed after one.

use plimsoll_core::Slice;
use plimsoll_core::quantity::Percentile;
use plimsoll_record::Distribution;
use plimsoll_record::data::{Goal, GoalKind};

use crate::number;
use crate::phase::PhaseFacts;
use crate::view::MissedGoalView;

/// Returns the goals that slices missed in the effect of a fault, before `limit_ns`, with the time at which they held
/// again. Slices that miss them later have another cause. The first fault of the phase began at `first_ns`.
pub(super) fn goals(
    facts: &PhaseFacts<'_>,
    goals: &[Goal],
    (begun_ns, until_ns): (u64, u64),
    (first_ns, limit_ns): (u64, u64),
) -> Vec<MissedGoalView> {
    let slices = || facts.phase.slices.iter().filter(|slice| !slice.drain);
    let before: Vec<_> = slices().filter(|slice| !facts.is_warmup(slice) && slice.end_ns <= first_ns).collect();
    let after: Vec<_> = slices().filter(|slice| slice.end_ns > begun_ns && slice.end_ns <= limit_ns).collect();
    let since_s = |slice: &&Slice<Distribution>| slice.end_ns.saturating_sub(begun_ns) as f64 / 1e9;
    let missed = |goal: &Goal| {
        let GoalKind::Percentile(percentile) = goal.what else { return None };
        let held_before = before.iter().filter_map(|slice| is_held(facts, goal, percentile, slice));
        let (held, missed): (Vec<bool>, Vec<bool>) = held_before.partition(|is_held| *is_held);
        if held.len() <= missed.len() {
            return None;
        }
        let after_it: Vec<Option<bool>> = after.iter().map(|slice| is_held(facts, goal, percentile, slice)).collect();
        let in_effect = after.iter().take_while(|slice| slice.start_ns < until_ns).count();
        let last = after_it.iter().take(in_effect).rposition(|is_held| *is_held == Some(false))?;
        let back = after_it.iter().skip(last).position(|is_held| *is_held == Some(true));
        Some(MissedGoalView {
            goal: goal.name(),
            held_s: back.and_then(|back| after.get(last + back)).map(since_s),
            observed_s: after.last().map(since_s)?,
        })
    };
    goals.iter().filter_map(missed).collect()
}

/// Returns true if the operations that ended in a slice hold a goal; false also if none ended. `None` if too few did.
fn is_held(facts: &PhaseFacts<'_>, goal: &Goal, percentile: Percentile, slice: &Slice<Distribution>) -> Option<bool> {
    let times = facts.waited_in(slice, goal.of.as_deref());
    let is_enough = times.is_empty() || times.len() >= percentile.samples(1);
    is_enough.then(|| !times.is_empty() && times.above(goal.limit) <= percentile.above(times.len()))
}

/// Returns `p99 within its goal after 4.00 s`.
pub(super) fn words(missed: &MissedGoalView) -> String {
    match missed.held_s {
        Some(held_s) => format!("{} within its goal after {}", missed.goal, number::seconds(held_s)),
        None => format!("{} not within its goal for {}", missed.goal, number::seconds(missed.observed_s)),
    }
}
