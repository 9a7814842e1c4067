//! Changes of level: throughput, or a percentile, that is at another level from some time of a phase on, to its end or
//! until it comes back. Each names the actions that coincide with it, and the series that changed with it (`beside`).

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::Run;

use super::beside::{self, Beside};
use super::change::{Change, Known, Test};
use super::command::again;
use super::moments::SlowPhase;
use super::sentence::Words;
use super::series::{self, ReadSeries};
use super::sides;
use crate::name;
use crate::number;
use crate::stat::{self, CONFIDENCE};
use crate::view::{Chart, FindingView, Line};

/// Ratio of two levels that is worth a finding.
const TIMES_MIN: f64 = 1.25;
/// Ratio to the median from which a value counts no more than others.
const FAR_TIMES: f64 = 100.0;
/// Rules that explain slow moments.
const EXPLAINING: [&str; 3] = ["fault", "pause", "cause"];
/// Name of the measure that is better if it is higher.
const THROUGHPUT: &str = "throughput";

/// A measure of a phase with a change of level.
struct Level {
    name: &'static str,
    unit: &'static str,
    /// A value for each slice.
    values: Vec<Option<f64>>,
    change: Change,
    /// Medians at the new level, and otherwise.
    now: f64,
    otherwise: f64,
}

impl Level {
    /// Returns the change of level of a measure; `None` without one.
    fn of((name, unit, values): (&'static str, &'static str, Vec<Option<f64>>)) -> Option<Self> {
        let change = change(&values)?;
        let (now, otherwise) = change.sides(&values);
        let (now, otherwise) = (stat::median(&now)?, stat::median(&otherwise)?);
        Some(Level { name, unit, values, change, now, otherwise })
    }

    /// Returns true if the new level is worse than the other.
    fn is_worse(&self) -> bool {
        (self.now < self.otherwise) == (self.name == THROUGHPUT)
    }
}

/// Returns the changes of level of a phase: of its throughput and of a percentile of its slices. Levels that come back and
/// that `others`, findings about slow moments, explain are left out.
pub fn levels(run: &Run, phase: &SlowPhase<'_, '_>, others: &[FindingView]) -> Vec<FindingView> {
    // A load that changes has other levels. Load steps of a search are no phases that findings look at.
    if !phase.facts.phase.header.stages.is_empty() {
        return Vec::new();
    }
    let rates: Vec<Option<f64>> = phase.slices.iter().map(|(_, rate)| Some(*rate)).collect();
    let seconds = |ns: &[Option<f64>]| ns.iter().map(|ns| Some((*ns)? / 1e9)).collect::<Vec<Option<f64>>>();
    let percentile = phase.percentile.as_ref().map(|(name, ns)| (*name, "s", seconds(ns)));
    let measures = std::iter::once((THROUGHPUT, "1/s", rates)).chain(percentile);
    let is_open = |level: &Level| !is_explained(phase, &level.change, others);
    let found: Vec<Level> = measures.filter_map(Level::of).filter(is_open).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let slices: Vec<&Slice<Distribution>> = phase.slices.iter().map(|(slice, _)| *slice).collect();
    let (read, _) = series::read(run, phase.facts, &slices, phase.slice_ns);
    found.into_iter().filter_map(|level| finding(run, phase, level, &read)).collect()
}

/// Returns true if most of a level that comes back lies in slow moments whose cause is known.
fn is_explained(phase: &SlowPhase<'_, '_>, level: &Change, others: &[FindingView]) -> bool {
    let place = name::place(phase.facts);
    let is_meant = |one: &&FindingView| one.place == place && EXPLAINING.contains(&one.rule);
    let spans: Vec<(f64, f64)> = others.iter().filter(is_meant).flat_map(|one| one.spans_s.iter().copied()).collect();
    let is_covered = |slice: &Slice<Distribution>| {
        let start_s = slice.start_ns as f64 / 1e9;
        spans.iter().any(|(from_s, until_s)| (*from_s..*until_s).contains(&start_s))
    };
    let inside: Vec<usize> = (0..phase.slices.len()).filter(|slice| level.is_inside(*slice)).collect();
    let covered = inside.iter().filter(|slice| is_covered(phase.slices[**slice].0)).count();
    level.end.is_some() && covered * 2 > inside.len()
}

fn finding(run: &Run, phase: &SlowPhase<'_, '_>, level: Level, read: &[ReadSeries]) -> Option<FindingView> {
    let Change { at, end, .. } = level.change;
    let start_ns = |at: usize| phase.slices.get(at).map(|(slice, _)| slice.start_ns);
    let (from_ns, until_ns) = (start_ns(at)?, end.and_then(start_ns).or(Some(phase.slices.last()?.0.end_ns))?);
    let (from_s, until_s) = (from_ns as f64 / 1e9, until_ns as f64 / 1e9);
    let name = level.name;
    let [now, otherwise] = [level.now, level.otherwise].map(|value| number::with_unit(value, level.unit));
    let Beside { clauses, evidence } = Beside::of(run, phase, &level.change, level.is_worse(), read);
    let levels = match end {
        None => format!("from {from_s:.1} s on {name} is {now} (median), and before it was {otherwise}"),
        Some(_) => format!("from {from_s:.1} s to {until_s:.1} s {name} was {now} (median), and otherwise {otherwise}"),
    };
    let sentence = std::iter::once(levels).chain(clauses).collect::<Vec<String>>().join("; ");
    let explain = beside::explain(run, phase, (from_ns, until_ns));
    let look = match evidence.is_empty() {
        true => {
            " Look for what changed then: data that outgrew a cache, work of the store, a limit on disk or processors."
        }
        false => "",
    };
    let next = format!("Compare this time with the rest of the phase: `{explain}`.{look}");
    let first = evidence.first().and_then(|first| read.iter().find(|one| one.name == first.series));
    let sides = first
        .and_then(|one| sides::without(run, phase, (one.source.as_str(), one.name.as_str()), sides::length_s(phase)));
    let (next, command) = match sides {
        Some((words, command)) => (format!("{next} {words}"), command),
        None => (next, again(run, false)),
    };
    let words = Words {
        rule: "level",
        sentence,
        opposite: "In a repeated run the level changes at another time, or not at all.".to_owned(),
        next,
        command,
    };
    let chart = Chart {
        name: number::capital(name),
        x_name: "Time".to_owned(),
        x_unit: "s".to_owned(),
        unit: level.unit.to_owned(),
        x: (0..level.values.len()).filter_map(start_ns).map(|ns| ns as f64 / 1e9).collect(),
        lines: vec![Line::new(name, level.values)],
        ..Chart::default()
    };
    let spans_s = vec![(from_s, until_s)];
    Some(FindingView { spans_s, evidence, chart: Some(chart), ..words.finding(phase.facts) })
}

/// Returns the change of level that stands out most, if it is large, and more than the values' variation explains.
fn change(values: &[Option<f64>]) -> Option<Change> {
    let mut known = Known::of(values);
    // A slice without operations must not outweigh all others.
    let middle = stat::median(&known.values).filter(|middle| *middle > 0.0)?;
    for value in &mut known.values {
        *value = value.clamp(middle / FAR_TIMES, middle * FAR_TIMES).ln();
    }
    known.change(Test { confidence: CONFIDENCE, least: Some(TIMES_MIN.ln()) })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use plimsoll_core::random::SplitMix;

    use super::super::made::repeating;
    use super::*;

    /// Values around 1,000, and around `other` in some of them, each half like the one before.
    fn values(dice: &mut SplitMix, inside: &Range<usize>, other: f64) -> Vec<Option<f64>> {
        let noise = repeating(dice, 0.5, 160).into_iter().enumerate();
        let value = |(at, noise): (usize, f64)| {
            let middle = if inside.contains(&at) { other } else { 1_000.0 };
            Some(middle * (0.1 * noise).exp())
        };
        noise.map(value).collect()
    }

    #[test]
    fn a_level_is_found_at_its_place_and_noise_has_none() {
        let mut dice = SplitMix::new(41);
        for inside in [100..160, 60..100] {
            let end = Some(inside.end).filter(|end| *end < 160);
            let mut found = 0;
            for _ in 0..50 {
                let Some(level) = Level::of((THROUGHPUT, "1/s", values(&mut dice, &inside, 500.0))) else { continue };
                found += 1;
                let change = level.change;
                assert!(change.at.abs_diff(inside.start) <= 4, "{change:?}");
                assert_eq!(change.end.is_some(), end.is_some(), "{change:?}");
                assert!(change.end.zip(end).is_none_or(|(one, other)| one.abs_diff(other) <= 4), "{change:?}");
                assert!((level.now - 500.0).abs() < 80.0 && (level.otherwise - 1_000.0).abs() < 100.0);
                assert!(level.is_worse());
            }
            assert!(found >= 48, "{found} of 50");
        }
        let wrong = (0..200).filter(|_| change(&values(&mut dice, &(0..0), 1_000.0)).is_some()).count();
        assert!(wrong <= 2, "{wrong} of 200");
    }

    #[test]
    fn a_dip_and_a_short_series_are_no_other_level() {
        let low = |n: usize, at: Range<usize>| -> Vec<Option<f64>> {
            (0..n).map(|slice| Some(if at.contains(&slice) { 100.0 } else { 1_000.0 })).collect()
        };
        assert_eq!(change(&low(160, 60..72)), None);
        assert_eq!(change(&low(29, 14..29)), None);
        let lasting = change(&low(60, 30..60)).unwrap();
        assert_eq!((lasting.at, lasting.end), (30, None));
        let back = change(&low(160, 60..80)).unwrap();
        assert_eq!((back.at, back.end), (60, Some(80)));
    }
}
