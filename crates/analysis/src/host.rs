//! The samplers' series, grouped into panels.
//!
//! One panel holds series of one sampler in one unit: of one subject (a disk's reads and writes), or, when every
//! subject has one series only, of all of them (each core). Series that were zero all the time are named and not
//! drawn, and neither is idle CPU, which is what the other shares leave.

use std::collections::BTreeMap;

use plimsoll_core::sampler::FINE_INTERVAL;
use plimsoll_record::data::{Run, Sample, Series, SeriesKind};

use crate::latency::Times;
use crate::nodes::is_of_sampler;
use crate::number;
use crate::view::{Line, Mark, Panel};

/// Positions of the series that `source` has of the whole machine or process under these names.
pub fn positions(series: &[Series], source: &str, names: &[&str]) -> Vec<u32> {
    let fits = |(_, one): &(u32, &Series)| {
        one.source == source && one.subject.is_empty() && names.contains(&one.name.as_str())
    };
    (0..).zip(series).filter(fits).map(|(at, _)| at).collect()
}

/// Panels for everything that was sampled, and the names of what was zero all the time.
pub fn panels(run: &Run) -> (Vec<Panel>, Vec<String>) {
    let (mut panels, zero) = grouped(run, &run.samples, run.header.slice_ns as f64 / 1e9 * TOGETHER);
    panels.extend(distributions(run));
    (panels, zero)
}

/// Returns the panels of fine readings.
pub fn fine_panels(run: &Run) -> Vec<Panel> {
    grouped(run, &run.fine_samples, 0.0).0.iter().map(in_steps).collect()
}

/// Returns a panel of fine readings as steps, each over the time that it covers, with a gap after each fault.
fn in_steps(panel: &Panel) -> Panel {
    // Times with the positions of their readings. The last one is repeated at its end, and none is in the gap.
    let mut steps: Vec<(f64, Option<usize>)> = Vec::new();
    let mut readings = panel.t_s.iter().copied().enumerate().peekable();
    let mut start_s = None;
    while let Some((at, end_s)) = readings.next() {
        steps.push((start_s.unwrap_or_else(|| end_s - FINE_INTERVAL.as_secs_f64()), Some(at)));
        start_s = readings.peek().filter(|(_, next_s)| next_s - end_s <= FINE_GAP_S).map(|_| end_s);
        if start_s.is_none() {
            steps.extend([(end_s, Some(at)), (end_s + GAP_S, None)]);
        }
    }
    let step_values = |line: &Line| {
        let value = |at: &Option<usize>| at.and_then(|at| line.values.get(at).copied().flatten());
        Line { values: steps.iter().map(|(_, at)| value(at)).collect(), ..line.clone() }
    };
    let lines = panel.lines.iter().map(step_values).collect();
    Panel { steps: true, t_s: steps.iter().map(|(t_s, _)| *t_s).collect(), lines, ..panel.clone() }
}

/// Returns panels of these samples of the run, and the names of what was zero all the time. Readings of one source within
/// `together_s` have the same place on the time axis.
fn grouped(run: &Run, samples: &[Sample], together_s: f64) -> (Vec<Panel>, Vec<String>) {
    let (times, values) = readings(run, samples, together_s);
    let busiest = busiest_disk(run);
    let mut panels: Vec<Panel> = Vec::new();
    // Of each sampler and subject: how many series were read, and the names of those that were zero.
    let mut zero: BTreeMap<(&str, &str), (usize, Vec<String>)> = BTreeMap::new();
    for (series, values) in run.series.iter().zip(values) {
        if series.source == "cpu" && series.name == "idle" {
            continue;
        }
        let seen = zero.entry((&series.source, &series.subject)).or_default();
        // What was never read is not even zero.
        seen.0 += usize::from(values.iter().any(Option::is_some));
        if values.iter().all(|value| value.is_none_or(|value| value == 0.0)) {
            if values.iter().any(Option::is_some) {
                seen.1.push(series.spoken());
            }
            continue;
        }
        if series.kind == SeriesKind::Cycle {
            continue;
        }
        let is_alike =
            |one: &Series| (&one.source, &one.subject, &one.unit) == (&series.source, &series.subject, &series.unit);
        let alone = !series.subject.is_empty() && run.series.iter().filter(|one| is_alike(one)).count() == 1;
        let (name, line) = if alone {
            (format!("{}, {}", title(&series.source, ""), series.spoken()), series.subject.clone())
        } else {
            (title(&series.source, &series.subject), series.spoken())
        };
        let line = Line::new(line, values);
        match panels
            .iter_mut()
            .find(|panel| panel.name == name && panel.unit == series.unit && panel.source == series.source)
        {
            Some(panel) => panel.lines.push(line),
            None => panels.push(Panel {
                name,
                unit: series.unit.clone(),
                source: series.source.clone(),
                steps: false,
                primary: primary(&series.source, &series.subject, &series.unit, busiest.as_deref()),
                t_s: times.get(series.source.as_str()).cloned().unwrap_or_default(),
                lines: vec![line],
            }),
        }
    }
    let zero = zero
        .into_iter()
        .filter(|(_, (_, names))| !names.is_empty())
        .map(|((sampler, subject), (read, names))| {
            let title = title(sampler, subject);
            if names.len() == read { title } else { format!("{title} ({})", names.join(", ")) }
        })
        .collect();
    (panels, zero)
}

/// A panel for each distribution that a sampler reads: its middle, its tail and its end.
fn distributions(run: &Run) -> impl Iterator<Item = Panel> + '_ {
    let of_samplers = (0u32..).zip(&run.series).filter(|(_, series)| is_of_sampler(series));
    of_samplers.filter_map(|(position, series)| {
        let (mut t_s, mut lines) = (Vec::new(), [const { Vec::new() }; 3]);
        for sample in &run.samples {
            for (_, read) in sample.distributions.iter().filter(|(one, _)| *one == position) {
                let mut times = Times::default();
                times.add(read.counts());
                t_s.push(sample.at_ns as f64 / 1e9);
                let percentile = |name| times.percentile(name).ok().map(|ns| ns as f64 / 1e6);
                let longest = (!times.is_empty()).then(|| times.max_ns() as f64 / 1e6);
                let values = [percentile("p50"), percentile("p99"), longest];
                lines.iter_mut().zip(values).for_each(|(line, value)| line.push(value));
            }
        }
        let is_seen = lines.iter().flatten().any(Option::is_some);
        is_seen.then(|| Panel {
            name: format!("{}, {}", title(&series.source, &series.subject), series.spoken()),
            unit: "ms".to_owned(),
            source: series.source.clone(),
            steps: false,
            primary: true,
            t_s,
            lines: ["p50", "p99", "max"]
                .into_iter()
                .zip(lines)
                .map(|(name, line)| Line::new(name.to_owned(), line))
                .collect(),
        })
    })
}

/// Returns the ends of the stores' cycles: a mark for each reading with some, named after the cycle.
pub fn cycles(run: &Run) -> Vec<Mark> {
    let mut marks = Vec::new();
    for sample in &run.samples {
        for (series, value) in sample.values.iter().filter(|(_, value)| *value > 0.0) {
            let Some(series) = run.series.get(*series as usize) else { continue };
            if series.kind == SeriesKind::Cycle {
                let many = || format!("{value:.0} {}", series.spoken());
                let name = if *value < 2.0 { number::singular(&series.name) } else { many() };
                marks.push(Mark { x: sample.at_ns as f64 / 1e9, name });
            }
        }
    }
    marks
}

/// Share of a slice within which readings of one source have the same place on the time axis: nodes are asked at
/// moments of their own.
const TOGETHER: f64 = 0.5;
/// Longest time between two fine readings around one fault, in seconds.
const FINE_GAP_S: f64 = 1.0;
/// Time from the last fine reading around a fault to the point without values after it, in seconds.
const GAP_S: f64 = 1e-6;

/// Times of each source's readings, and every series' values at these times.
type Readings<'r> = (BTreeMap<&'r str, Vec<f64>>, Vec<Vec<Option<f64>>>);

fn readings<'r>(run: &'r Run, samples: &[Sample], together_s: f64) -> Readings<'r> {
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut values: Vec<Vec<Option<f64>>> = vec![Vec::new(); run.series.len()];
    for sample in samples {
        let at_s = sample.at_ns as f64 / 1e9;
        for (position, value) in &sample.values {
            let position = *position as usize;
            let (Some(series), Some(line)) = (run.series.get(position), values.get_mut(position)) else { continue };
            let times = times.entry(&series.source).or_default();
            // A series has one value at a time.
            let is_later = line.len() >= times.len() || times.last().is_none_or(|last| at_s - last > together_s);
            if is_later {
                times.push(at_s);
            }
            line.resize(times.len() - 1, None);
            line.push(Some(*value));
        }
    }
    for (line, series) in values.iter_mut().zip(&run.series) {
        line.resize(times.get(series.source.as_str()).map_or(0, Vec::len), None);
    }
    (times, values)
}

/// A panel's title: the sampler and what it is of.
fn title(sampler: &str, subject: &str) -> String {
    let name = match sampler {
        "cpu" => "CPU".to_string(),
        "tcp" => "TCP".to_string(),
        "cgroup" => "Control group".to_string(),
        "offcpu" => "Off CPU".to_string(),
        other => number::capital(other),
    };
    // `cpu0` of the sampler `cpu` is CPU 0.
    let subject = subject.strip_prefix(sampler).unwrap_or(subject);
    if subject.is_empty() { name } else { format!("{name} {subject}") }
}

/// The panels that say which resource a store ran into: the whole CPU, the busiest disk, what waits, and the shares of
/// the generator and of the server.
fn primary(sampler: &str, subject: &str, unit: &str, busiest_disk: Option<&str>) -> bool {
    match sampler {
        "cpu" => subject.is_empty(),
        "disk" => Some(subject) == busiest_disk && matches!(unit, "B/s" | "1/s" | "ms" | "%"),
        "tasks" => unit == "tasks",
        "generator" | "server" => unit == "%" && subject.is_empty(),
        "pressure" | "fsync" | "offcpu" => true,
        _ => false,
    }
}

/// The disk that moved the most bytes.
fn busiest_disk(run: &Run) -> Option<String> {
    let disks = |series: &u32| {
        let series = run.series.get(*series as usize)?;
        (series.source == "disk" && series.unit == "B/s").then_some(series.subject.as_str())
    };
    let mut moved: BTreeMap<&str, f64> = BTreeMap::new();
    for (series, value) in run.samples.iter().flat_map(|sample| &sample.values) {
        if let Some(disk) = disks(series) {
            *moved.entry(disk).or_default() += value;
        }
    }
    moved.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(disk, _)| disk.to_string())
}
