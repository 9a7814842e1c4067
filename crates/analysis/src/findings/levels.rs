//! Lasting changes: throughput, or a percentile, that is at another level from some time of a phase on.

use plimsoll_record::data::Run;

use super::command::again;
use super::moments::SlowPhase;
use super::sentence::Words;
use crate::number;
use crate::stat::{self, difference};
use crate::view::{Chart, FindingView, Line};

/// Ratio of two levels that is worth a finding.
const TIMES_MIN: f64 = 1.25;
/// Slices before and after a change.
const SIDE_MIN: usize = 15;
/// Half widths of the 95 % interval of the difference between which 0 must not lie. The place of the change is chosen
/// among all places, so that a single one is too few.
const HALF_WIDTHS: f64 = 3.0;
/// Ratio to the median from which a value counts no more than others.
const FAR_TIMES: f64 = 100.0;

/// A lasting change: the first slice of the new level, and the medians before and from then on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change {
    at: usize,
    before: f64,
    after: f64,
}

/// Returns the lasting changes of a phase: of its throughput and of a percentile of its slices.
pub fn levels(run: &Run, phase: &SlowPhase<'_, '_>) -> Vec<FindingView> {
    // A load that changes has other levels.
    if !phase.facts.phase.header.stages.is_empty() {
        return Vec::new();
    }
    let rates: Vec<Option<f64>> = phase.slices.iter().map(|(_, rate)| Some(*rate)).collect();
    let seconds = |ns: &[Option<f64>]| ns.iter().map(|ns| Some((*ns)? / 1e9)).collect::<Vec<Option<f64>>>();
    let percentile = phase.percentile.as_ref().map(|(name, ns)| (*name, "s", seconds(ns)));
    let measures = std::iter::once(("throughput", "1/s", rates)).chain(percentile);
    measures.filter_map(|(name, unit, values)| finding(run, phase, (name, unit), values)).collect()
}

fn finding(
    run: &Run,
    phase: &SlowPhase<'_, '_>,
    (name, unit): (&str, &str),
    values: Vec<Option<f64>>,
) -> Option<FindingView> {
    let Change { at, before, after } = change(&values)?;
    let start_s = |at: usize| phase.slices.get(at).map(|(slice, _)| slice.start_ns as f64 / 1e9);
    let end_s = phase.slices.last()?.0.end_ns as f64 / 1e9;
    let [before, after] = [before, after].map(|value| number::with_unit(value, unit));
    let words = Words {
        rule: "level",
        sentence: format!("from {:.1} s on {name} is {after} (median), and before it was {before}", start_s(at)?),
        opposite: "In a repeated run the level changes at another time, or not at all.".to_owned(),
        next:
            "Look for what changed then: data that outgrew a cache, work of the store, a limit on disk or processors."
                .to_owned(),
        command: again(run, false),
    };
    let chart = Chart {
        name: number::capital(name),
        x_name: "Time".to_owned(),
        x_unit: "s".to_owned(),
        unit: unit.to_owned(),
        x: (0..values.len()).filter_map(start_s).collect(),
        lines: vec![Line::new(name, values)],
        ..Chart::default()
    };
    Some(FindingView { spans_s: vec![(start_s(at)?, end_s)], chart: Some(chart), ..words.finding(phase.facts) })
}

/// Returns the change of level that stands out most, if it is large, and more than the values' variation explains.
fn change(values: &[Option<f64>]) -> Option<Change> {
    let known = values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
    let (places, known): (Vec<usize>, Vec<f64>) = known.unzip();
    // A slice without operations must not outweigh all others.
    let middle = stat::median(&known).filter(|middle| *middle > 0.0)?;
    let logs: Vec<f64> = known.iter().map(|value| value.clamp(middle / FAR_TIMES, middle * FAR_TIMES).ln()).collect();
    let n = logs.len();
    let last = n.checked_sub(SIDE_MIN)?;
    let whole: f64 = logs.iter().sum();
    let mut sum = 0.0_f64;
    let mut best = (0_usize, 0.0_f64);
    // The place with the largest difference of means, as CUSUM weighs places (Page, *Biometrika* 41, 1954).
    for (at, log) in logs.iter().enumerate().take(last + 1) {
        let (before, after) = (at as f64, (n - at) as f64);
        let weight = (sum / before.max(1.0) - (whole - sum) / after).abs() * (before * after).sqrt();
        if at >= SIDE_MIN && weight > best.1 {
            best = (at, weight);
        }
        sum += log;
    }
    let at = Some(best.0).filter(|at| *at > 0)?;
    let (before, after) = (stat::median(&logs[..at])?, stat::median(&logs[at..])?);
    let (low, high) = difference::welch(&logs[..at], &logs[at..])?;
    let (middle, half) = (f64::midpoint(low, high), (high - low) / 2.0);
    let is_certain = middle.abs() > HALF_WIDTHS * half && middle.signum() == (after - before).signum();
    // A dip moves a mean and no median.
    let is_large = (after - before).abs() >= TIMES_MIN.ln();
    (is_certain && is_large).then_some(Change { at: places[at], before: before.exp(), after: after.exp() })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::*;

    /// A hundred values around 1,000 and sixty around `later`, each half like the one before.
    fn values(dice: &mut SplitMix, later: f64) -> Vec<Option<f64>> {
        let mut last = 0.0;
        let mut value = |at: usize| {
            last = 0.5 * last + dice.share() - 0.5;
            let middle = if at < 100 { 1_000.0 } else { later };
            Some(middle * (1.0 + 0.3 * last))
        };
        (0..160).map(&mut value).collect()
    }

    #[test]
    fn a_level_that_stays_is_found_at_its_place_and_noise_has_none() {
        let mut dice = SplitMix::new(41);
        for _ in 0..100 {
            let found = change(&values(&mut dice, 500.0)).unwrap();
            assert!(found.at.abs_diff(100) <= 4, "{found:?}");
            assert!((found.before - 1_000.0).abs() < 100.0 && (found.after - 500.0).abs() < 50.0, "{found:?}");
        }
        let wrong = (0..200).filter(|_| change(&values(&mut dice, 1_000.0)).is_some()).count();
        assert!(wrong <= 2, "{wrong} of 200");
    }

    #[test]
    fn a_dip_and_a_short_series_are_no_lasting_change() {
        let low = |n: usize, at: std::ops::Range<usize>| -> Vec<Option<f64>> {
            (0..n).map(|slice| Some(if at.contains(&slice) { 100.0 } else { 1_000.0 })).collect()
        };
        assert_eq!(change(&low(160, 60..80)), None);
        assert_eq!(change(&low(29, 14..29)), None);
        assert_eq!(change(&low(60, 30..60)).unwrap().at, 30);
    }
}
