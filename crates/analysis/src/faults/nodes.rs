//! Nodes that gave no answers in the effect of a fault, if operations go to several.

use plimsoll_core::sampler::ANSWERS;
use plimsoll_record::data::Run;

use super::NAMED_MAX;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::{FaultNodesView, FaultView, SilentNodeView};

/// Returns the nodes of a phase that gave no answers in whole slices of the effect of `fault`, and had given some before
/// it; `None` if operations went to one server.
pub(super) fn silent(run: &Run, facts: &PhaseFacts<'_>, fault: &FaultView) -> Option<FaultNodesView> {
    let (from_ns, effect_ns) = fault.effect_ns;
    let until_ns = fault.next_ns.map_or(effect_ns, |next_ns| effect_ns.min(next_ns));
    let prefix = format!("{} ", facts.trial.header.store_label);
    let series = run.series.iter().enumerate().filter(|(_, one)| one.source == ANSWERS && one.name == "rate");
    let series = series.filter_map(|(position, one)| Some((position as u32, one.subject.strip_prefix(&prefix)?)));
    let (mut silent, mut of) = (Vec::new(), 0);
    for (position, name) in series {
        let rates = Rates::of(run, facts, position);
        if rates.0.iter().any(|rate| rate.end_ns <= from_ns && rate.per_s > 0.0) {
            of += 1;
            let seconds = rates.silent_ns(from_ns, until_ns) as f64 / 1e9;
            silent.extend((seconds > 0.0).then(|| SilentNodeView { name: name.to_owned(), seconds }));
        }
    }
    (of > 1).then_some(FaultNodesView { silent, of })
}

/// Answers of a node in a slice.
struct Rate {
    start_ns: u64,
    end_ns: u64,
    per_s: f64,
}

/// Answers of a node in the slices of a phase, in order.
struct Rates(Vec<Rate>);

impl Rates {
    /// Reads the series at `position`, which has a value at the end of each slice.
    fn of(run: &Run, facts: &PhaseFacts<'_>, position: u32) -> Self {
        let value = |end_ns: u64| {
            let from = run.samples.partition_point(|sample| sample.at_ns < end_ns);
            let at_end = run.samples[from..].iter().take_while(|sample| sample.at_ns == end_ns);
            let mut values = at_end.flat_map(|sample| &sample.values);
            values.find(|(of, _)| *of == position).map(|(_, per_s)| *per_s)
        };
        let rate = |(start_ns, end_ns)| value(end_ns).map(|per_s| Rate { start_ns, end_ns, per_s });
        Rates(facts.counted().map(|slice| (slice.start_ns, slice.end_ns)).filter_map(rate).collect())
    }

    /// Returns the longest time without an answer, of whole slices that began from `from_ns` to `until_ns`.
    fn silent_ns(&self, from_ns: u64, until_ns: u64) -> u64 {
        let (mut longest_ns, mut present_ns) = (0, 0);
        for rate in self.0.iter().filter(|rate| rate.start_ns >= from_ns && rate.start_ns < until_ns) {
            present_ns = if rate.per_s > 0.0 { 0 } else { present_ns + (rate.end_ns - rate.start_ns) };
            longest_ns = longest_ns.max(present_ns);
        }
        longest_ns
    }
}

/// Returns `no answer from 1 of 3 nodes (node 2) for at least 3.00 s`; `None` if all nodes gave answers.
pub(super) fn words(view: &FaultNodesView) -> Option<String> {
    let longest_s = view.silent.iter().map(|node| node.seconds).max_by(f64::total_cmp)?;
    let more = if view.silent.len() > NAMED_MAX { ", …" } else { "" };
    let names: Vec<&str> = view.silent.iter().take(NAMED_MAX).map(|node| node.name.as_str()).collect();
    let (n, of, longest) = (view.silent.len(), view.of, number::seconds(longest_s));
    Some(format!("no answer from {n} of {of} nodes ({}{more}) for at least {longest}", names.join(", ")))
}
