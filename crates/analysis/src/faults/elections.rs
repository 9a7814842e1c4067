//! Elections of a failover, if a store reports the terms of its nodes.

use plimsoll_core::sampler::{STORE, TERM};
use plimsoll_record::data::Run;

use crate::phase::PhaseFacts;
use crate::view::FaultView;

/// Longest time between the first answers of another node and the reading of its term.
const READ_NS: u64 = 3_000_000_000;

/// Returns the number of elections between `fault` and the first answers of another node, of which each begins a term;
/// `None` if terms were not read before and after, or did not change.
pub(super) fn count(run: &Run, facts: &PhaseFacts<'_>, fault: &FaultView) -> Option<u64> {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let begun_ns = fault.effect_ns.0;
    let served_ns = begun_ns + ns(fault.failover.as_ref()?.measured_s?);
    // A node that comes back with a newer term starts another election.
    let healed_ns = fault.healed_s.map_or(u64::MAX, |healed_s| begun_ns + ns(healed_s));
    let before = newest_term(run, facts, (facts.phase.header.start_ns, begun_ns))?;
    let after = newest_term(run, facts, (served_ns, healed_ns.min(served_ns + READ_NS)))?;
    Some((after - before).max(0.0) as u64).filter(|count| *count > 0)
}

/// Returns the number of elections from the healing of `fault` to the end of the silence after it; `None` as in [`count`].
pub(super) fn after_healing(run: &Run, facts: &PhaseFacts<'_>, fault: &FaultView) -> Option<u64> {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let silence = fault.after_healing?;
    let begun_ns = fault.effect_ns.0;
    let healed_ns = begun_ns + ns(fault.healed_s?);
    let ended_ns = healed_ns + ns(silence.after_s + silence.seconds);
    let until_ns = fault.next_ns.unwrap_or(u64::MAX).min(ended_ns + READ_NS);
    let before = newest_term(run, facts, (begun_ns, healed_ns))?;
    let after = newest_term(run, facts, (healed_ns, until_ns))?;
    Some((after - before).max(0.0) as u64).filter(|count| *count > 0)
}

/// Returns the newest term that nodes of the store reported in this time.
fn newest_term(run: &Run, facts: &PhaseFacts<'_>, (from_ns, until_ns): (u64, u64)) -> Option<f64> {
    let label = facts.trial.header.store_label.as_str();
    // The label of another store may begin alike.
    let is_of_store =
        |subject: &str| subject.strip_prefix(label).is_some_and(|node| node.is_empty() || node.starts_with(' '));
    let is_term = |position: u32| {
        let series = run.series.get(position as usize);
        series.is_some_and(|one| one.source == STORE && one.name == TERM && is_of_store(&one.subject))
    };
    let from = run.samples.partition_point(|sample| sample.at_ns < from_ns);
    let inside = run.samples[from..].iter().take_while(|sample| sample.at_ns < until_ns);
    let values = inside.flat_map(|sample| &sample.values);
    values.filter(|(position, _)| is_term(*position)).map(|(_, term)| *term).max_by(f64::total_cmp)
}
