//! Circumstances of a change of level: actions that coincide with it, and series that changed with it.
//!
//! A series changed with a level if it has a change of its own by the same test (`change`) that lasts or comes back like
//! that of the level, begins and ends near it and not later, and has the direction that explains moments (`series`): the
//! series is higher while the phase is worse. So what falls because less is done, or rises because more is, has no name.
//! The confidence of the test is corrected for the number of series (Bonferroni), and a series that has nothing to do
//! with the level must change near it by chance as well. Names are ranked, and those that do not matter are left out, as a
//! selection does.
//!
//! Circular shifts (`shift`) do not test one long episode. Shifts that put it on itself tell nothing: of an episode of half
//! of a phase none is left. Of one of a third, two do not overlap, so that no *p* is below a third, and any series
//! with one long high part is as high at some shift.

use plimsoll_record::data::Run;

use super::change::{Change, Known, Test};
use super::moments::{self, SlowPhase};
use super::series::{OFFERED_LOAD, ReadSeries};
use super::shift::{DEVIATION_MAX, LEAD_MAX};
use crate::number;
use crate::selection;
use crate::stat::{self, CONFIDENCE};
use crate::view::{DifferenceView, EvidenceView};

/// Actions, and series, that are named.
const NAMED_MAX: usize = 3;
/// Slices of a batch by which the end of a warm-up is found.
const WARMUP_OFF: usize = 5;

/// Actions and series beside a change of level.
pub struct Beside {
    /// Parts of the sentence: actions first.
    pub clauses: Vec<String>,
    /// Series that changed with the level, best first.
    pub evidence: Vec<EvidenceView>,
}

impl Beside {
    /// Looks for actions, and for series among `read`, that changed with a level, which is worse than the other or better.
    pub fn of(run: &Run, phase: &SlowPhase<'_, '_>, level: &Change, is_worse: bool, read: &[ReadSeries]) -> Self {
        let watched: Vec<&ReadSeries> = read.iter().filter(|one| is_changing(one)).collect();
        let (load, changed): (Vec<Changed<'_>>, Vec<Changed<'_>>) =
            changed(level, is_worse, &watched).into_iter().partition(Changed::is_load);
        let mut with_begin: Vec<String> = load.iter().map(|load| format!("a change of {}", load.words())).collect();
        let is_warmup = !is_worse && is_end_of_warmup(phase, level);
        with_begin.extend(is_warmup.then(|| "the end of a warm-up that was not left out".to_owned()));
        let mut clauses = coinciding(run, phase, level, with_begin);
        let names: Vec<String> = changed.iter().map(Changed::words).collect();
        clauses.extend(match (names.is_empty(), watched.len() as u64) {
            (false, _) => Some(format!("changed at the same time: {}", listed(names, "further series"))),
            (true, watched) if watched > 0 && clauses.is_empty() => {
                let series = number::plural(watched, "series", "series");
                Some(format!("no watched series changed with it so clearly that it is named ({series})"))
            }
            (true, _) => None,
        });
        let evidence = changed.iter().take(NAMED_MAX).map(|one| one.evidence(level, phase.slice_ns)).collect();
        Beside { clauses, evidence }
    }
}

/// A series that changed with a level.
struct Changed<'r> {
    series: &'r ReadSeries,
    own: Change,
    difference: DifferenceView,
}

impl<'r> Changed<'r> {
    fn of(series: &'r ReadSeries, level: &Change, confidence: f64) -> Option<Self> {
        let own = Known::of(&series.values).change_with(level, Test { confidence, least: None })?;
        let (inside, outside) = own.sides(&series.values);
        let name = (series.name.as_str(), series.unit.as_str());
        let difference = selection::of_series(name, series.is_counted, &inside, &outside)?;
        let is_worth = difference.clear && selection::matters(&difference);
        is_worth.then_some(Changed { series, own, difference })
    }

    fn is_load(&self) -> bool {
        self.series.name == OFFERED_LOAD
    }

    /// Describes the change: `disk vda from 12.0 % to 97.0 %`.
    fn words(&self) -> String {
        let shown = |value: f64| number::with_unit(value, &self.series.unit);
        let DifferenceView { inside, outside, .. } = self.difference;
        format!("{} from {} to {}", self.series.name, shown(outside), shown(inside))
    }

    fn evidence(&self, level: &Change, slice_ns: u64) -> EvidenceView {
        let (inside, outside) = self.own.sides(&self.series.values);
        let spread = stat::variance(&inside).max(stat::variance(&outside)).sqrt();
        let shift = stat::mean(&inside) - stat::mean(&outside);
        let lead = level.at.saturating_sub(self.own.at);
        EvidenceView {
            series: self.series.name.clone(),
            unit: self.series.unit.clone(),
            usual: self.difference.outside,
            seen: self.difference.inside,
            lead_s: lead as f64 * slice_ns as f64 / 1e9,
            effect: (shift / spread).clamp(-DEVIATION_MAX, DEVIATION_MAX),
            ..EvidenceView::default()
        }
    }
}

/// Returns true if not all known values are equal.
fn is_changing(series: &ReadSeries) -> bool {
    let mut known = series.values.iter().flatten();
    let first = known.next();
    known.any(|value| Some(value) != first)
}

/// Returns the series that changed with a level, best first. The offered load counts in either direction.
fn changed<'r>(level: &Change, is_worse: bool, watched: &[&'r ReadSeries]) -> Vec<Changed<'r>> {
    let confidence = 1.0 - (1.0 - CONFIDENCE) / watched.len().max(1) as f64;
    let all = watched.iter().copied().filter_map(|series| Changed::of(series, level, confidence));
    let is_meant = |one: &Changed<'_>| {
        let is_higher = one.difference.inside > one.difference.outside;
        one.is_load() || is_higher == is_worse
    };
    let mut all: Vec<Changed<'r>> = all.filter(is_meant).collect();
    all.sort_by(|a, b| selection::by_rank(&a.difference, &b.difference));
    all
}

/// Returns clauses with the actions that begin or end with the level, and with `others`, which coincide with its begin.
fn coinciding(run: &Run, phase: &SlowPhase<'_, '_>, level: &Change, others: Vec<String>) -> Vec<String> {
    let Change { at, end, off } = *level;
    let start_ns = |slice: usize| phase.slices.get(slice).map(|(slice, _)| slice.start_ns);
    let is_near = |slice: usize, at_ns: u64| {
        let from_ns = start_ns(slice.saturating_sub(off + LEAD_MAX)).unwrap_or(0);
        (from_ns..=start_ns(slice + off).unwrap_or(u64::MAX)).contains(&at_ns)
    };
    let (mut with_begin, mut with_end) = (Vec::new(), Vec::new());
    for (from_ns, until_ns, name) in moments::acts(run, phase.facts) {
        if is_near(at, from_ns) {
            with_begin.push(name);
        } else if is_near(at, until_ns) {
            with_begin.push(format!("the end of {name}"));
        } else if end.is_some_and(|end| is_near(end, from_ns)) {
            with_end.push(name);
        } else if end.is_some_and(|end| is_near(end, until_ns)) {
            with_end.push(format!("the end of {name}"));
        }
    }
    with_begin.extend(others);
    let clause = |what: &str, names: Vec<String>| {
        (!names.is_empty()).then(|| format!("{what} coincides with {}", listed(names, "further actions")))
    };
    clause("the change", with_begin).into_iter().chain(clause("its end", with_end)).collect()
}

/// Returns true if throughput had settled with the level, as after a warm-up. The warm-up of the plan is in no level.
fn is_end_of_warmup(phase: &SlowPhase<'_, '_>, level: &Change) -> bool {
    let Change { at, end: None, .. } = *level else { return false };
    phase.facts.settled_after().is_some_and(|(settled, left_out)| settled.abs_diff(left_out + at) <= WARMUP_OFF)
}

/// Lists names; of many, the first and the number of the others.
fn listed(mut names: Vec<String>, others: &str) -> String {
    let more = names.len().saturating_sub(NAMED_MAX) as u64;
    names.truncate(NAMED_MAX);
    names.extend((more > 0).then(|| format!("{} {others}", number::count(more))));
    number::list(&names)
}

/// Returns the command that compares a time of the phase with the rest of it.
pub fn explain(run: &Run, phase: &SlowPhase<'_, '_>, (from_ns, until_ns): (u64, u64)) -> String {
    let shown = |ns: u64| match ns / 1_000_000 {
        ms if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        ms => format!("{}.{:03}s", ms / 1_000, ms % 1_000),
    };
    // Trials may run at the same time.
    let trial = match run.trials.len() {
        1 => String::new(),
        _ => format!(" --trial {}", phase.facts.trial.header.ordinal),
    };
    format!("plimsoll explain {}{trial} --from {} --to {}", run.header.id, shown(from_ns), shown(until_ns))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::super::made::{made, repeating};
    use super::*;

    const SLICES: usize = 120;
    const SERIES: usize = 20;

    fn series(name: &str, unit: &str, values: impl IntoIterator<Item = f64>) -> ReadSeries {
        ReadSeries::figure(name.to_owned(), unit, "made", values.into_iter().map(Some).collect())
    }

    fn names(level: &Change, is_worse: bool, all: &[ReadSeries]) -> Vec<String> {
        let watched: Vec<&ReadSeries> = all.iter().filter(|one| is_changing(one)).collect();
        changed(level, is_worse, &watched).iter().map(|one| one.series.name.clone()).collect()
    }

    /// A level in a phase of 120 slices: of odd runs until the end, of even runs until it comes back.
    fn level(dice: &mut SplitMix, run: usize) -> Change {
        let (at, length) = (20 + dice.below(40), 20 + dice.below(20));
        Change { at, end: run.is_multiple_of(2).then_some(at + length), off: 1 + dice.below(3) }
    }

    /// Series of which each value repeats none to nearly all of the one before.
    fn unrelated(dice: &mut SplitMix) -> Vec<ReadSeries> {
        let one = |at: usize| {
            let values = repeating(dice, [0.0, 0.5, 0.8, 0.95][at % 4], SLICES);
            series(&format!("queue of vd{at}"), "", values.into_iter().map(|value| (20.0 + 10.0 * value).max(0.0)))
        };
        (0..SERIES).map(one).collect()
    }

    /// A series that has nothing to do with the level is named if three things happen by chance: it changes (5 % of the
    /// runs, by the correction for all series), near the level (13 of 90 places at most, if both are inexact) and upwards
    /// (a half). That is less than 1 % of the runs, and of 200 runs more than 5 would be wrong with a probability of
    /// 0.02. The test of one series is not exact if its values repeat each other; the limit includes that.
    #[test]
    fn series_that_have_nothing_to_do_with_a_level_are_named_in_at_most_5_of_200_runs() {
        let mut dice = SplitMix::new(61);
        let is_named = |run: &usize| {
            let level = level(&mut dice, *run);
            !names(&level, true, &unrelated(&mut dice)).is_empty()
        };
        let wrong = (0..200).filter(is_named).count();
        assert!(wrong <= 5, "{wrong} of 200");
    }

    #[test]
    fn a_series_that_rises_with_a_level_is_named_alone_among_others() {
        let mut dice = SplitMix::new(62);
        let is_named = |run: &usize| {
            let level = level(&mut dice, *run);
            let mut all = unrelated(&mut dice);
            let high = made(SLICES, level.at..level.end.unwrap_or(SLICES), 60.0);
            let noise = repeating(&mut dice, 0.5, SLICES);
            all.push(series("disk vda", "%", high.iter().zip(noise).map(|(high, noise)| 20.0 + high + 3.0 * noise)));
            names(&level, true, &all) == ["disk vda"]
        };
        let right = (0..100).filter(is_named).count();
        assert!(right >= 95, "{right} of 100");
    }

    #[test]
    fn what_is_higher_while_the_phase_is_worse_is_named_in_the_order_of_a_selection() {
        let level = Change { at: 50, end: None, off: 1 };
        let step = |name, unit, usual: f64, other: f64| {
            series(name, unit, (0..SLICES).map(move |at| if at < 50 { usual } else { other }))
        };
        let all = [
            step("the server's CPU", "%", 90.0, 20.0),
            step("waiting for disks", "%", 10.0, 20.0),
            step("disk vda", "%", 12.0, 97.0),
            step("memory: dirty", "B", 1e3, 1e4),
            step("tcp: unread", "B", 1e9, 1.1e9),
            step("constant", "%", 50.0, 50.0),
        ];
        // Next to nothing, and nearly equal values, are not worth a name.
        assert_eq!(names(&level, true, &all), ["disk vda", "waiting for disks"]);
        assert_eq!(names(&level, false, &all), ["the server's CPU"]);
        // Of a load that falls, or rises, throughput is an effect.
        let load = [step(OFFERED_LOAD, "1/s", 1e3, 600.0)];
        assert_eq!([true, false].map(|is_worse| names(&level, is_worse, &load)), [[OFFERED_LOAD], [OFFERED_LOAD]]);
        let words = Changed::of(&all[2], &level, CONFIDENCE).unwrap().words();
        assert_eq!(words, "disk vda from 12.0 % to 97.0 %");
    }
}
