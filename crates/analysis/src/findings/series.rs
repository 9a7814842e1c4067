//! Series that may explain slow moments, with a value for each slice of a phase.
//!
//! **Direction.** A series explains a moment by a rise, and never by a fall. If clients send less, or get no answers,
//! everything falls that a server does for them: its processor time, its reads and writes, what it sends, its counters
//! of work. Such a fall is an effect as often as a cause, so it is told as seen ([`Idleness`]). A lack of what is free is a
//! rise as well, of what is used or missed: levels that rise if others take less ([`FREE`]) explain nothing.

use std::collections::BTreeMap;

use plimsoll_core::Slice;
use plimsoll_core::sampler::{ANSWERS, PROGRESS, STORE, WITNESS};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Run, Sample, Series, SeriesKind};

use super::robust;
use super::shift::{self, DEVIATION_MAX, HIGH};
use crate::latency::Times;
use crate::nodes::is_of_sampler;
use crate::number;
use crate::phase::PhaseFacts;
use crate::resource;
use crate::stall;
use crate::stat;

/// Sources whose series explain no slow moment: what clients received, what the witness saw, and what a node that joins
/// has left.
const NO_CAUSES: [&str; 3] = [ANSWERS, WITNESS, PROGRESS];

/// Sources and names of levels of what is free or idle: they rise when servers do less.
const FREE: [(&str, &str); 1] = [("memory", "available")];

/// Source of what the drive itself counts.
const GENERATOR: &str = "generator";

/// Name of the rate at which operations become due.
pub const OFFERED_LOAD: &str = "the offered load";

/// Share of the usual use up to which a server works no more.
const NO_WORK: f64 = 0.05;
/// Lowest usual use of which a lack is no chance: of a processor in per cent, as ticks of 10 ms show it, and of a
/// network in bytes per second.
const CPU_MIN: f64 = 10.0;
const SENT_MIN: f64 = 1_000.0;

/// Meaning of a series for slow moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A figure that may explain them if it rises.
    Figure,
    /// Cycles, which are counted when they end.
    Cycle,
    /// Processes of a server that others stopped, or a control group that others froze.
    Stopped,
}

impl Meaning {
    fn of(series: &Series) -> Self {
        match (series.source.as_str(), series.name.as_str()) {
            _ if series.kind == SeriesKind::Cycle => Meaning::Cycle,
            ("server", "stopped") | ("cgroup", "frozen" | "frozen_time") => Meaning::Stopped,
            _ => Meaning::Figure,
        }
    }

    /// Returns the factor of a candidate's score. Work, queues and counters follow when a server is stopped, so that is
    /// named before them.
    pub fn weight(self) -> f64 {
        match self {
            Meaning::Stopped => 2.0,
            Meaning::Figure | Meaning::Cycle => 1.0,
        }
    }
}

/// A series of a phase as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadSeries {
    /// Name as sentences have it: `disk vda`, of a cycle `checkpoint of postgres`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Source: the name of a sampler, `store`, or `generator`.
    pub source: String,
    /// Meaning for slow moments.
    pub meaning: Meaning,
    /// True for counts of a time, whose mean says more than their median.
    pub is_counted: bool,
    /// A value for each slice; `None` where nothing was read.
    pub values: Vec<Option<f64>>,
}

impl ReadSeries {
    /// Returns a figure that is no count.
    pub fn figure(name: String, unit: &str, source: &str, values: Vec<Option<f64>>) -> Self {
        let (unit, source) = (unit.to_owned(), source.to_owned());
        ReadSeries { name, unit, source, meaning: Meaning::Figure, is_counted: false, values }
    }
}

/// A series of a phase with its deviations.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedSeries {
    /// Name as sentences have it: `disk vda`, of a cycle `checkpoint of postgres`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Source: the name of a sampler, `store`, or `generator`.
    pub source: String,
    /// Meaning for slow moments.
    pub meaning: Meaning,
    /// A value for each slice; `None` where nothing was read.
    pub values: Vec<Option<f64>>,
    /// Deviations of the slices, as [`robust::deviations`] has them.
    pub deviations: Vec<f64>,
    /// See [`shift::near`].
    pub near: Vec<f64>,
}

impl WatchedSeries {
    /// Returns the series with its deviations; `None` for a constant, and if most values are unknown.
    pub fn new(name: String, unit: &str, source: &str, meaning: Meaning, values: Vec<Option<f64>>) -> Option<Self> {
        let deviations = robust::deviations(&values, DEVIATION_MAX)?;
        let near = shift::near(&deviations);
        Some(Self { name, unit: unit.to_owned(), source: source.to_owned(), meaning, values, deviations, near })
    }

    /// Returns true if the series is high where a slow moment begins, or shortly before.
    pub fn is_high_before(&self, first: usize) -> bool {
        self.near.get(first).is_some_and(|deviation| *deviation >= HIGH)
    }
}

/// Slices in which a server did no work although operations waited. It waited for something, or its clients sent
/// nothing: no cause, but worth a clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idleness {
    /// Clause of a sentence: `the server hardly used a processor`.
    pub clause: String,
    /// True for each of these slices.
    pub slices: Vec<bool>,
}

/// Returns everything that was watched in these slices, whose longest lasts `slice_ns`, and that changed; and the times
/// in which servers did no work.
pub fn watched(
    run: &Run,
    facts: &PhaseFacts<'_>,
    slices: &[&Slice<Distribution>],
    slice_ns: u64,
) -> (Vec<WatchedSeries>, Vec<Idleness>) {
    let (all, idle) = read(run, facts, slices, slice_ns);
    let watched = all.into_iter().filter_map(|one| {
        let ReadSeries { name, unit, source, meaning, values, .. } = one;
        WatchedSeries::new(name, &unit, &source, meaning, values)
    });
    (watched.collect(), idle)
}

/// Returns everything that was read in these slices, whose longest lasts `slice_ns`, and the times in which servers did
/// no work.
pub fn read(
    run: &Run,
    facts: &PhaseFacts<'_>,
    slices: &[&Slice<Distribution>],
    slice_ns: u64,
) -> (Vec<ReadSeries>, Vec<Idleness>) {
    let mut all: Vec<(String, &Series, Vec<Option<f64>>)> = Vec::new();
    let read = values(run, slices, slice_ns);
    let missing = missing(run, &read);
    for (series, values) in run.series.iter().zip(read) {
        let is_meant = values.iter().any(Option::is_some) && !is_of_all_nodes(run, series);
        let Some(name) = name(series).filter(|_| is_meant) else { continue };
        // Shares of one and the same resource (user and system) are added up.
        match all.iter_mut().find(|(known, other, _)| *known == name && other.unit == series.unit) {
            Some((_, _, sums)) => sums.iter_mut().zip(values).for_each(|(sum, value)| {
                *sum = sum.map_or(value, |sum| Some(sum + value.unwrap_or(0.0)));
            }),
            None => all.push((name, series, values)),
        }
    }
    let idle = all.iter().filter_map(|(_, series, values)| without_work(series, values, slices)).collect();
    let sampled = all.into_iter().map(|(name, series, values)| {
        let meaning = Meaning::of(series);
        let unit = match series.kind {
            SeriesKind::Distribution => "ms",
            // Their names say what is counted.
            SeriesKind::Level if meaning == Meaning::Stopped => "",
            _ => series.unit.as_str(),
        };
        let is_counted = matches!(series.kind, SeriesKind::Cycle | SeriesKind::Total);
        let (unit, source) = (unit.to_owned(), series.source.clone());
        ReadSeries { name, unit, source, meaning, is_counted, values }
    });
    (sampled.chain(missing).chain(of_generator(facts, slices)).collect(), idle)
}

/// Returns true for the number of stopped processes of all nodes together, if each node has its own: that says which.
fn is_of_all_nodes(run: &Run, series: &Series) -> bool {
    let is_its_part =
        |other: &Series| other.source == series.source && other.name == series.name && !other.subject.is_empty();
    Meaning::of(series) == Meaning::Stopped && series.subject.is_empty() && run.series.iter().any(is_its_part)
}

/// Returns the nodes and other subjects of which nothing was read in some slices, or that answered nothing, while
/// others of the same source went on: 1 in these slices.
fn missing(run: &Run, values: &[Vec<Option<f64>>]) -> Vec<ReadSeries> {
    let slices = values.first().map_or(0, Vec::len);
    // The slices in which a subject of a source was seen.
    let mut seen: BTreeMap<(&str, &str), Vec<bool>> = BTreeMap::new();
    for (series, values) in run.series.iter().zip(values) {
        let is_of_part = !series.subject.is_empty() && ![WITNESS, PROGRESS].contains(&series.source.as_str());
        if !is_of_part || series.kind == SeriesKind::Distribution {
            continue;
        }
        let seen = seen.entry((&series.source, &series.subject)).or_insert_with(|| vec![false; slices]);
        let is_read = |value: f64| series.source != ANSWERS || value > 0.0;
        seen.iter_mut().zip(values).for_each(|(seen, value)| *seen |= value.is_some_and(is_read));
    }
    let series = seen.iter().map(|(&(source, subject), own)| {
        let others = seen.iter().filter(|((of, one), _)| *of == source && *one != subject);
        let others: Vec<&Vec<bool>> = others.map(|(_, seen)| seen).collect();
        let is_missing = |at: usize| !own[at] && others.iter().any(|seen| seen[at]);
        let values = (0..slices).map(|at| Some(if is_missing(at) { 1.0 } else { 0.0 })).collect();
        let what = if source == ANSWERS { "missing answers" } else { "missing readings" };
        ReadSeries::figure(format!("{what} of {subject}"), "", source, values)
    });
    series.collect()
}

/// Returns the slices in which a server hardly used a processor, or a node hardly sent anything, while operations waited.
/// `None` for series of other work, and without such slices.
fn without_work(series: &Series, values: &[Option<f64>], slices: &[&Slice<Distribution>]) -> Option<Idleness> {
    let (verb, least) = match (series.source.as_str(), series.name.as_str()) {
        ("server", "user" | "system") => ("hardly used a processor", CPU_MIN),
        ("network", "sent") if series.subject.starts_with("node ") => ("hardly sent anything", SENT_MIN),
        _ => return None,
    };
    let server = if series.subject.is_empty() { "the server" } else { series.subject.as_str() };
    let usual = robust::usual(values);
    let is_idle = |((value, usual), slice): ((&Option<f64>, &f64), &&Slice<Distribution>)| {
        let is_waited_for = slice.in_flight > 0 || slice.due_unsent > 0;
        is_waited_for && *usual >= least && value.is_some_and(|value| value <= NO_WORK * usual)
    };
    let slices: Vec<bool> = values.iter().zip(&usual).zip(slices).map(is_idle).collect();
    slices.contains(&true).then(|| Idleness { clause: format!("{server} {verb}"), slices })
}

/// Returns the series that the drive itself keeps: the generator's delay and preemptions, and the offered load.
fn of_generator(facts: &PhaseFacts<'_>, slices: &[&Slice<Distribution>]) -> Vec<ReadSeries> {
    let each = |of: &dyn Fn(&Slice<Distribution>) -> f64| -> Vec<Option<f64>> {
        slices.iter().map(|slice| Some(of(slice))).collect()
    };
    let mut all = vec![("the generator's preemptions", "", each(&|slice| slice.involuntary_switches as f64))];
    if facts.open_loop {
        all.push(("the generator's scheduling delay", "ms", each(&|slice| slice.lag_p99_ns as f64 / 1e6)));
        all.push((OFFERED_LOAD, "1/s", each(&|slice| stall::due_per_s(facts, slice))));
    }
    let new = |(name, unit, values): (&str, &str, Vec<Option<f64>>)| {
        ReadSeries::figure(name.to_owned(), unit, GENERATOR, values)
    };
    all.into_iter().map(new).collect()
}

/// Returns the name of a series in a sentence; `None` for what explains no slow moment.
pub fn name(series: &Series) -> Option<String> {
    match series.kind {
        _ if NO_CAUSES.contains(&series.source.as_str()) => None,
        _ if FREE.contains(&(series.source.as_str(), series.name.as_str())) => None,
        SeriesKind::Cycle => Some(format!("{} of {}", number::singular(&series.name), series.subject)),
        SeriesKind::Distribution => is_of_sampler(series).then(|| {
            let words = [series.source.as_str(), &series.subject, &series.name];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            format!("{} (p99)", words.join(" ").replace('_', " "))
        }),
        // Of what a store counts, more in a slow moment is no consequence of more operations.
        SeriesKind::Total if series.source == STORE => Some(format!("{}: {}", series.subject, series.spoken())),
        SeriesKind::Level | SeriesKind::Total => resource::waits_for(series),
    }
}

/// Returns the values of all series of the run in these slices: the mean of several, of cycles the sum. A reading
/// covers the time before it, so the reading at a slice's end is of the slice.
pub fn values(run: &Run, slices: &[&Slice<Distribution>], slice_ns: u64) -> Vec<Vec<Option<f64>>> {
    let mut values: Vec<Vec<Option<f64>>> = vec![Vec::new(); run.series.len()];
    let mut times: Vec<Option<Times>> = vec![None; run.series.len()];
    let mut read: Vec<u32> = vec![0; run.series.len()];
    let half_ns = slice_ns / 2;
    for (at, slice) in slices.iter().enumerate() {
        let (from_ns, to_ns) = (slice.start_ns + half_ns, slice.end_ns + half_ns);
        let first = run.samples.partition_point(|sample| sample.at_ns < from_ns);
        let inside = run.samples.iter().skip(first).take_while(|sample| sample.at_ns < to_ns);
        for sample in inside {
            add(sample, at, &mut values, &mut read);
            for (series, distribution) in &sample.distributions {
                if let Some(times) = times.get_mut(*series as usize) {
                    times.get_or_insert_default().add(distribution.counts());
                }
            }
        }
        for (position, line) in values.iter_mut().enumerate() {
            line.resize(at + 1, None);
            let count = std::mem::take(&mut read[position]);
            let is_mean = run.series[position].kind != SeriesKind::Cycle;
            line[at] = line[at].map(|sum| if is_mean { sum / f64::from(count.max(1)) } else { sum });
            if let Some(times) = times[position].take() {
                line[at] = Some(times.slowest_ns() as f64 / 1e6);
            }
        }
    }
    values
}

/// Returns the median of the values of a series; `None` if most are unknown.
pub fn middle(values: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    stat::median(&known).filter(|_| known.len() * 2 >= values.len())
}

/// Adds the values of a sample to the sums of the slice at `at`, and counts them.
fn add(sample: &Sample, at: usize, values: &mut [Vec<Option<f64>>], read: &mut [u32]) {
    for (series, value) in &sample.values {
        let position = *series as usize;
        if let (Some(line), Some(read)) = (values.get_mut(position), read.get_mut(position)) {
            line.resize(at + 1, None);
            line[at] = Some(line[at].unwrap_or(0.0) + value);
            *read += 1;
        }
    }
}
