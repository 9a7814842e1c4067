//! Actions and changes in conspicuous seconds of a phase. They prove no cause.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::Slice;
use plimsoll_core::sampler::{ANSWERS, PROGRESS, STORE};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Run, Sample, Series, SeriesKind};

use crate::acts;
use crate::line;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;

/// Per cent that a share of time or of a capacity is higher or lower by, to be named.
const DIFFERS_PERCENT: f64 = 20.0;
/// Factor by which a value without a capacity is higher or lower.
const DIFFERS_TIMES: f64 = 3.0;
/// Orders of magnitude from which a difference is no larger than others.
const ORDERS_MAX: f64 = 5.0;
/// Most actions, and most deviations, that are named.
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

/// A deviation: how far it stands out, below 0 for what fell, and its description.
type Deviation = (f64, String);

/// Describes the actions in these spans, and then the series that differed in them from the rest of the phase.
pub fn meanwhile(run: &Run, facts: &PhaseFacts<'_>, spans: &[(u64, u64)], slice_ns: u64) -> String {
    let (from, to) = (facts.phase.header.start_ns, facts.phase.end.end_ns);
    let samples = run.samples.iter().filter(|sample| sample.at_ns > from && sample.at_ns <= to + slice_ns).collect();
    let seconds = Seconds { run, facts, spans, slice_ns, samples };
    // An operation that waits for what was done may be one of the slice before.
    let near: Vec<(u64, u64)> = spans.iter().map(|(start, end)| (start.saturating_sub(slice_ns), *end)).collect();
    let mut with = acts::during(run, facts.trial.header.ordinal, &near, ACTS_MAX);
    with.extend(seconds.deviations());
    match with.as_slice() {
        [] => "no sampled series changed in these seconds".to_string(),
        with => format!("at the same time: {}", number::list(with)),
    }
}

impl Seconds<'_> {
    /// Lists the largest deviations. Falls come last: with fewer operations most values fall.
    fn deviations(&self) -> Vec<String> {
        let series = 0..self.run.series.len();
        let found = self.vanished().into_iter().chain(self.errors());
        let found = found.chain(series.filter_map(|position| self.deviation(position)));
        let (mut more, mut less): (Vec<Deviation>, Vec<_>) = found.partition(|(by, _)| *by >= 0.0);
        more.sort_by(|a, b| b.0.total_cmp(&a.0));
        less.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Several series of one thing, such as the user's and the kernel's time, are one deviation.
        let mut things = BTreeSet::new();
        let all = more.into_iter().chain(less).map(|(_, text)| text);
        let mut all: Vec<String> =
            all.filter(|text| things.insert(text.split(" was ").next().unwrap_or_default().to_owned())).collect();
        all.truncate(NAMED_MAX);
        all
    }

    /// Returns the span that a sample is of: it covers the time before it.
    fn span_of(&self, at_ns: u64) -> Option<&(u64, u64)> {
        self.spans.iter().find(|(start, end)| at_ns > *start && at_ns <= *end + self.slice_ns / 2)
    }

    /// Compares one series inside and outside of the spans.
    fn deviation(&self, position: usize) -> Option<Deviation> {
        let series = self.run.series.get(position)?;
        if series.kind == SeriesKind::Cycle {
            return self.cycle(position);
        }
        let values = |wanted: bool| -> Vec<f64> {
            let those = self.samples.iter().filter(|sample| self.span_of(sample.at_ns).is_some() == wanted);
            those.filter_map(|sample| sample.value(position)).collect()
        };
        let (inside, outside) = (values(true), values(false));
        let what = line::waits_for(series).filter(|_| !inside.is_empty())?;
        let (now, usual) = (stat::mean(&inside), stat::median(&outside).unwrap_or(0.0));
        // A server without answers has vanished, or the stall is that of all.
        if series.source == ANSWERS && now == 0.0 {
            return None;
        }
        let shown = |value: f64| number::with_unit(value, &series.unit);
        let (stands_out, by) = match series.unit.as_str() {
            "%" => ((now - usual).abs() > DIFFERS_PERCENT, (now - usual) / 100.0),
            _ => {
                let differs = now > DIFFERS_TIMES * usual || DIFFERS_TIMES * now < usual;
                (usual > 0.0 && differs, 0.1 * (now / usual).log10().clamp(-ORDERS_MAX, ORDERS_MAX))
            }
        };
        stands_out.then(|| (by, format!("{what} was {} (usually {})", shown(now), shown(usual))))
    }

    /// Names a maintenance cycle of the store that ended in or next to the spans.
    fn cycle(&self, position: usize) -> Option<Deviation> {
        let (series, slice_ns) = (self.run.series.get(position)?, self.slice_ns);
        let has_one = |(start, end): &&(u64, u64)| {
            let near = |sample: &&&Sample| sample.at_ns + slice_ns > *start && sample.at_ns <= *end + slice_ns;
            self.samples.iter().filter(near).any(|sample| sample.value(position).is_some_and(|n| n > 0.0))
        };
        let (with, of) = (self.spans.iter().filter(has_one).count(), self.spans.len());
        let one = number::singular(&series.name);
        let in_n = if of == 1 { String::new() } else { format!(" (in {with} of {of})") };
        (with > 0).then(|| (2.0 * with as f64 / of as f64, format!("a {one} of {} ended{in_n}", series.subject)))
    }

    /// Names sources that had samples before a span and none in it, while others had: a node that is gone.
    fn vanished(&self) -> Vec<Deviation> {
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
        gone.map(|((source, subject), _)| (ORDERS_MAX, words(source, subject))).collect()
    }

    /// Describes errors, if there were more of them a second in the spans than in the rest of the phase.
    fn errors(&self) -> Option<Deviation> {
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
        (now > DIFFERS_TIMES * usual).then(|| (ORDERS_MAX, what()))
    }
}
