//! Actions, missing nodes and errors in conspicuous seconds of a phase. They prove no cause. Series that rise with slow
//! seconds are a matter of `findings`.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::Slice;
use plimsoll_core::sampler::{ANSWERS, PROGRESS, STORE};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Run, Sample, Series};

use crate::acts;
use crate::number;
use crate::phase::PhaseFacts;

/// Factor by which there are more errors than usual.
const MORE_ERRORS_TIMES: f64 = 3.0;
/// Most actions, and most other facts, that are named.
const ACTS_MAX: usize = 4;
const NAMED_MAX: usize = 3;

/// Seconds of a phase that are compared with its others.
struct Seconds<'a> {
    run: &'a Run,
    facts: &'a PhaseFacts<'a>,
    /// Starts and ends, in nanoseconds.
    spans: &'a [(u64, u64)],
    /// Length of a slice, and so about the time between two samples.
    slice_ns: u64,
    /// Samples of the phase.
    samples: Vec<&'a Sample>,
}

/// Describes the actions in these spans, and then missing nodes and errors; empty without any.
pub fn meanwhile(run: &Run, facts: &PhaseFacts<'_>, spans: &[(u64, u64)], slice_ns: u64) -> String {
    let (from, to) = (facts.phase.header.start_ns, facts.phase.end.end_ns);
    let samples = run.samples.iter().filter(|sample| sample.at_ns > from && sample.at_ns <= to + slice_ns).collect();
    let seconds = Seconds { run, facts, spans, slice_ns, samples };
    // An operation that waits for what was done may be one of the slice before.
    let near: Vec<(u64, u64)> = spans.iter().map(|(start, end)| (start.saturating_sub(slice_ns), *end)).collect();
    let mut with = acts::during(run, facts.trial.header.ordinal, &near, ACTS_MAX);
    with.extend(seconds.vanished().into_iter().chain(seconds.errors()).take(NAMED_MAX));
    match with.as_slice() {
        [] => String::new(),
        with => format!("; at the same time: {}", number::list(with)),
    }
}

impl Seconds<'_> {
    /// Returns the span that a sample is of: it covers the time before it.
    fn span_of(&self, at_ns: u64) -> Option<&(u64, u64)> {
        self.spans.iter().find(|(start, end)| at_ns > *start && at_ns <= *end + self.slice_ns / 2)
    }

    /// Names sources that had samples before a span and none in it, while others had: a node that is gone.
    fn vanished(&self) -> Vec<String> {
        // Times of samples by source and subject. A server that answered nothing has a rate of 0.
        let mut times: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
        for (sample, (position, value)) in
            self.samples.iter().flat_map(|sample| sample.values.iter().map(move |value| (sample, value)))
        {
            let series = self.run.series.get(*position as usize);
            // A node that has joined has no progress any more.
            let is_seen = |series: &&Series| match series.source.as_str() {
                ANSWERS => *value > 0.0,
                // The threads and the host of a node go with its processes, which tell of all of them.
                "server" => series.name != "busy",
                "tcp" | "cgroup" | "network" => !series.subject.starts_with("node "),
                source => source != PROGRESS,
            };
            if let Some(series) = series.filter(is_seen) {
                times.entry((&series.source, &series.subject)).or_default().insert(sample.at_ns);
            }
        }
        let in_span =
            |its: &BTreeSet<u64>, span: &(u64, u64)| its.iter().any(|at_ns| self.span_of(*at_ns) == Some(span));
        let is_gone = |source: &str, its: &BTreeSet<u64>, span: &(u64, u64)| {
            let slices_before = span.0.saturating_sub(self.facts.phase.header.start_ns) / self.slice_ns.max(1);
            let before = its.range(..=span.0).count() as u64;
            let is_regular = before > 0 && before * 2 >= slices_before;
            let is_comparable = |other: &str| other == source || source != ANSWERS;
            let mut others = times.iter().filter(|((other, _), _)| is_comparable(other));
            is_regular && !in_span(its, span) && others.any(|(_, its)| in_span(its, span))
        };
        let words = |source: &str, subject: &str| match source {
            ANSWERS => format!("{subject} answered nothing"),
            STORE => format!("no counters came from {subject}"),
            _ => format!("no samples of {}", [source, subject].join(" ").trim_end()),
        };
        let gone = times.iter().filter(|((source, _), its)| self.spans.iter().any(|span| is_gone(source, its, span)));
        gone.map(|((source, subject), _)| words(source, subject)).collect()
    }

    /// Describes errors, if there were more of them a second in the spans than in the rest of the phase.
    fn errors(&self) -> Option<String> {
        let facts = self.facts;
        let is_in = |slice: &&Slice<Distribution>| {
            self.spans.iter().any(|(start, end)| slice.start_ns >= *start && slice.end_ns <= *end)
        };
        let (inside, outside): (Vec<_>, Vec<_>) = facts.counted().partition(is_in);
        let count = |slices: &[&Slice<Distribution>]| -> u64 {
            let ended = slices.iter().flat_map(|slice| facts.ended(slice));
            ended.filter(|one| one.outcome.is_error()).map(|one| one.histogram.len()).sum()
        };
        let per_slice = |slices: &[&Slice<Distribution>]| count(slices) as f64 / slices.len().max(1) as f64;
        let (now, usual) = (per_slice(&inside), per_slice(&outside));
        let usually = if usual == 0.0 { " (otherwise none)" } else { "" };
        let what = || format!("{} failed{usually}", number::plural(count(&inside), "operation", "operations"));
        (now > MORE_ERRORS_TIMES * usual).then(what)
    }
}
