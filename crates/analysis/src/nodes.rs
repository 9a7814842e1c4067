//! Operations answered by each server, if there are several, with a server that is slower than all others; and the
//! times of samplers.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::sampler::{ANSWERS, WITNESS};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Run, Sample, Series, SeriesKind};

use crate::latency::Times;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::NodeView;

/// Times the longest of the others that a server's time has to be for it to be called slower.
const SLOWER: f64 = 1.25;
/// Percentiles by which servers are compared, with the number of answers that each requires: enough that a difference
/// of [`SLOWER`] is no coincidence.
const COMPARED: [(&str, u64); 2] = [("p50", 500), ("p99", 20_000)];

/// Returns the servers' answers in the counted time of this phase of `run`; none if operations went to one server.
pub fn nodes(run: &Run, facts: &PhaseFacts<'_>) -> Vec<NodeView> {
    of_series(run, facts, node_name, |_| true)
}

/// Returns the name of the server whose answers the series has.
fn node_name(series: &Series) -> Option<String> {
    (series.source == ANSWERS).then(|| series.subject.clone())
}

/// Returns the times that samplers measured individually in the counted time of this phase of `run`.
pub fn sampled(run: &Run, facts: &PhaseFacts<'_>) -> Vec<NodeView> {
    let name = |series: &Series| {
        is_of_sampler(series).then(|| {
            let words =
                [series.source.as_str(), &series.subject, &series.name].into_iter().filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(" ").replace('_', " ")
        })
    };
    of_series(run, facts, name, |_| true)
}

/// Returns true if a distribution was read by a sampler.
pub fn is_of_sampler(series: &Series) -> bool {
    series.kind == SeriesKind::Distribution && series.source != ANSWERS && series.source != WITNESS
}

/// Returns the distributions of a sample for which `name` returns a name.
fn named<'a>(
    run: &'a Run,
    sample: &'a Sample,
    name: &impl Fn(&Series) -> Option<String>,
) -> impl Iterator<Item = (u32, String, &'a Distribution)> {
    sample.distributions.iter().filter_map(move |(position, times)| {
        let series = run.series.get(*position as usize).filter(|one| one.kind == SeriesKind::Distribution);
        Some((*position, name(series?)?, times))
    })
}

/// Returns the count and times of each distribution for which `name` returns a name, of the samples that `is_wanted`
/// accepts.
fn of_series(
    run: &Run,
    facts: &PhaseFacts<'_>,
    name: impl Fn(&Series) -> Option<String>,
    is_wanted: impl Fn(&Sample) -> bool,
) -> Vec<NodeView> {
    let slices = || facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice));
    let (Some(first), Some(last), Some(counted)) = (slices().next(), slices().next_back(), facts.counted().last())
    else {
        return Vec::new();
    };
    let is_inside = |at_ns: u64| at_ns > first.start_ns && at_ns <= last.end_ns;
    // By series: of what, all times, and how many of them belong to a rate.
    let mut all: BTreeMap<u32, (String, Times, u64)> = BTreeMap::new();
    for sample in run.samples.iter().filter(|sample| is_inside(sample.at_ns) && is_wanted(sample)) {
        for (position, name, times) in named(run, sample, &name) {
            let node = all.entry(position).or_insert_with(|| (name, Times::default(), 0));
            node.1.add(times.counts());
            node.2 += if sample.at_ns <= counted.end_ns { times.len() } else { 0 };
        }
    }
    let view = |(name, times, of_rate): (String, Times, u64)| NodeView {
        name,
        count: times.len(),
        rate_per_s: of_rate as f64 / facts.counted_s,
        mean_ns: times.mean_ns(),
        percentiles: times.percentiles(),
        max_ns: times.max_ns(),
    };
    let mut nodes: Vec<NodeView> = all.into_values().map(view).collect();
    // `node 10` comes after `node 9`.
    nodes.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    nodes
}

/// Returns the node that is slower than every other in the slices in which all answered.
pub fn slowest(run: &Run, facts: &PhaseFacts<'_>) -> Option<String> {
    let answered = |sample: &Sample| named(run, sample, &node_name).map(|(position, ..)| position).collect();
    let counted: Vec<_> = facts.counted().collect();
    let (from_ns, to_ns) = (counted.first()?.start_ns, counted.last()?.end_ns);
    let inside = run.samples.iter().filter(|sample| sample.at_ns > from_ns && sample.at_ns <= to_ns);
    let each: Vec<BTreeSet<u32>> = inside.map(answered).filter(|nodes: &BTreeSet<u32>| !nodes.is_empty()).collect();
    let all: BTreeSet<u32> = each.iter().flatten().copied().collect();
    let slowest = slowest_of(&of_series(run, facts, node_name, |sample| answered(sample) == all))?;
    let is_always = each.iter().all(|nodes| *nodes == all);
    Some(if is_always { slowest } else { format!("{slowest}, in the seconds in which all answered") })
}

/// Returns the node that is slower than every other, by the first of [`COMPARED`] that shows it.
fn slowest_of(nodes: &[NodeView]) -> Option<String> {
    COMPARED.iter().find_map(|(name, samples)| {
        if nodes.len() < 2 || nodes.iter().any(|node| node.count < *samples) {
            return None;
        }
        let time = |node: &NodeView| node.percentiles.iter().find(|one| one.name == *name)?.ns;
        let mut times: Vec<(u64, &NodeView)> =
            nodes.iter().map(|node| Some((time(node)?, node))).collect::<Option<_>>()?;
        times.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
        let [(slow_ns, slowest), (next_ns, _), ..] = times[..] else { return None };
        (slow_ns as f64 >= SLOWER * next_ns as f64).then(|| {
            format!(
                "{} answers slowest: {name} {}, and no other node takes longer than {}",
                slowest.name,
                number::nanoseconds(slow_ns),
                number::nanoseconds(next_ns)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, times: &[(u64, u64)]) -> NodeView {
        let mut all = Times::default();
        all.add(times);
        NodeView {
            name: name.to_owned(),
            count: all.len(),
            rate_per_s: 0.0,
            mean_ns: all.mean_ns(),
            percentiles: all.percentiles(),
            max_ns: all.max_ns(),
        }
    }

    #[test]
    fn the_node_that_is_slower_than_every_other_is_named() {
        let fast = [(1_000_000, 30_000)];
        let nodes = [node("node 1", &fast), node("node 2", &[(1_300_000, 30_000)]), node("node 3", &fast)];
        let sentence = "node 2 answers slowest: p50 1.30 ms, and no other node takes longer than 1.00 ms";
        assert_eq!(slowest_of(&nodes).unwrap(), sentence);
        // By its tail alone.
        let nodes = [node("node 1", &fast), node("node 2", &[(1_000_000, 29_000), (9_000_000, 1_000)])];
        assert_eq!(
            slowest_of(&nodes).unwrap(),
            "node 2 answers slowest: p99 9.00 ms, and no other node takes longer than 1.00 ms"
        );
    }

    #[test]
    fn nobody_is_named_where_two_are_alike_or_little_was_answered() {
        let slow = [(2_000_000, 30_000)];
        let two_slow = [node("1", &slow), node("2", &slow), node("3", &[(1_000_000, 30_000)])];
        assert_eq!(slowest_of(&two_slow), None);
        assert_eq!(slowest_of(&[node("1", &slow), node("2", &[(1_000_000, 499)])]), None, "too few answers");
        assert_eq!(slowest_of(&[node("1", &slow), node("2", &[(1_700_000, 30_000)])]), None, "not by much");
        let few = [node("1", &[(1_000_000, 900), (9_000_000, 100)]), node("2", &[(1_000_000, 1_000)])];
        assert_eq!(slowest_of(&few), None, "too few answers for a tail");
        assert_eq!(slowest_of(&[node("1", &slow)]), None, "alone");
    }
}
