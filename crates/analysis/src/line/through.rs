//! Costs of faults at shares of the line: a store that is less loaded may be back sooner.

use crate::number;
use crate::stat;
use crate::view::{Chart, Line, Mark, RungState};

use super::estimate::times;
use super::{LineSpec, LoadStep};

/// Shares of the rate that is carried, at which a search through faults drives one load step each.
const SHARES: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
/// Largest difference of rates that count as the same share.
const NEAR: f64 = 0.05;

/// Returns the shares of the line `carries`, as rates, at which no load step was driven yet.
pub(super) fn missing<'a>(spec: &LineSpec, steps: &'a [LoadStep], carries: f64) -> impl Iterator<Item = f64> + use<'a> {
    let least = if spec.faults.is_empty() { f64::INFINITY } else { spec.rate_min_per_s };
    let wanted = SHARES.iter().map(move |share| share * carries).filter(move |rate| *rate >= least);
    wanted.filter(|rate| near(steps, *rate).next().is_none())
}

/// Describes the time without an answer and until throughput was back, by the load, and the lowest load at which it did
/// not come back. `None` without load steps at two loads.
pub(super) fn words(steps: &[LoadStep], carries: f64) -> Option<String> {
    let cost = |share: f64| {
        let is_known = |step: &&LoadStep| {
            // Above the line goals break.
            let is_below = step.rung.rate_per_s.is_some_and(|rate| rate <= carries);
            has_times(step) && is_below
        };
        let those: Vec<&LoadStep> = near(steps, share * carries).filter(is_known).collect();
        let median = |of: fn(&LoadStep) -> &[f64]| {
            stat::median(&those.iter().filter_map(|step| longest(of(step))).collect::<Vec<_>>())
        };
        let (outage_s, back_s) = (median(|step| &step.outages_s)?, median(|step| &step.recoveries_s)?);
        // A half of several load steps may lie at infinity.
        let shown = |seconds: f64| {
            if seconds.is_finite() { number::seconds(seconds) } else { "more than the load step".to_owned() }
        };
        let broke = those.iter().filter(|step| step.state() == RungState::Failed).count();
        let broke = if broke > 0 { format!(", goals broke in {broke}") } else { String::new() };
        let (at, n) = (format!("{:.0} %", share * 100.0), those.len());
        let (outage, back) = (shown(outage_s), shown(back_s));
        Some(format!("at {at} of the line no answer for {outage}, throughput back after {back} (n = {n}{broke})"))
    };
    let costs: Vec<String> = SHARES.iter().copied().chain([1.0]).filter_map(cost).collect();
    let lost = unrecovered_per_s(steps).map_or_else(String::new, |rate| {
        let rate = number::with_unit(rate, "1/s");
        format!(" The lowest load at which throughput did not come back within the load step was {rate}.")
    });
    let costs = (costs.len() > 1).then(|| costs.join("; "))?;
    Some(format!("Costs of a fault by load (medians of the longest times of load steps): {costs}.{lost}"))
}

/// Draws the time without an answer and until throughput was back, by the load, with `marks` and the lowest load at which
/// throughput did not come back. Nothing without load steps at two loads.
pub(super) fn charts(steps: &[LoadStep], marks: &[Mark]) -> Vec<Chart> {
    let known: Vec<&LoadStep> = steps.iter().filter(|step| has_times(step)).collect();
    let mut asked_per_s: Vec<f64> = known.iter().filter_map(|step| step.rung.rate_per_s).collect();
    asked_per_s.sort_by(f64::total_cmp);
    asked_per_s.dedup();
    if asked_per_s.len() < 2 {
        return Vec::new();
    }
    let mut marks = marks.to_vec();
    marks.extend(unrecovered_per_s(steps).map(|x| Mark { x, name: "throughput not back".to_owned() }));
    let chart = |name: &str, of: fn(&LoadStep) -> &[f64]| {
        let at = |rate: &f64| {
            let those = known.iter().filter(|step| step.is_at(*rate));
            times(those.filter_map(|step| longest(of(step))).collect())
        };
        let spreads: Vec<Option<[f64; 3]>> = asked_per_s.iter().map(at).collect();
        let line = |(position, name): (usize, &str)| {
            // A time that did not end has no point.
            let value = |one: &[f64; 3]| one.get(position).copied().filter(|seconds| seconds.is_finite());
            Line::new(name, spreads.iter().map(|one| one.as_ref().and_then(value)).collect())
        };
        let lines = ["shortest", "median", "longest"].into_iter().enumerate().map(line).collect();
        Chart {
            x_unit: "1/s".to_owned(),
            marks: marks.clone(),
            ..Chart::of_points(name, "Asked for", "s", asked_per_s.clone(), lines)
        }
    };
    vec![
        chart("Time without an answer after a fault", |step| &step.outages_s),
        chart("Time until throughput is back after a fault", |step| &step.recoveries_s),
    ]
}

/// Returns true if the cost of the faults of a load step at a rate is known.
fn has_times(step: &LoadStep) -> bool {
    !step.outages_s.is_empty() && !step.recoveries_s.is_empty() && step.worst_ratio().is_some()
}

/// Returns the longest of these times.
pub(super) fn longest(seconds: &[f64]) -> Option<f64> {
    seconds.iter().copied().reduce(f64::max)
}

/// Returns the lowest load at which throughput did not come back.
fn unrecovered_per_s(steps: &[LoadStep]) -> Option<f64> {
    let lost = steps.iter().filter(|step| step.unrecovered_s.is_some()).filter_map(|step| step.rung.rate_per_s);
    lost.reduce(f64::min)
}

/// Returns the load steps at about this rate.
fn near(steps: &[LoadStep], rate: f64) -> impl Iterator<Item = &LoadStep> {
    steps.iter().filter(move |step| step.rung.rate_per_s.is_some_and(|asked| (asked / rate - 1.0).abs() <= NEAR))
}

#[cfg(test)]
mod tests {
    use super::super::Rung;
    use super::*;

    fn step(rate: f64, outage_s: f64, back_s: f64) -> LoadStep {
        let rung = Rung { rate_per_s: Some(rate), ..Rung::default() };
        let unrecovered_s = back_s.is_infinite().then_some(9.0);
        LoadStep { rung, outages_s: vec![outage_s], recoveries_s: vec![back_s], unrecovered_s, ..LoadStep::default() }
    }

    #[test]
    fn each_share_of_the_line_is_driven_once_if_there_are_faults() {
        let spec = LineSpec { faults: vec!["kill primary".to_owned()], ..LineSpec::default() };
        let mut steps = vec![step(1_000.0, 3.0, 4.0), step(1_200.0, 3.0, f64::INFINITY)];
        let mut driven = Vec::new();
        for _ in 0..4 {
            let rate = missing(&spec, &steps, 1_000.0).next().unwrap();
            driven.push(rate);
            steps.push(step(rate, 2.0, 2.0));
        }
        assert_eq!(missing(&spec, &steps, 1_000.0).next(), None);
        assert_eq!(driven, [300.0, 500.0, 700.0, 900.0]);
        assert_eq!(missing(&LineSpec::default(), &[], 1_000.0).next(), None, "no faults, no curve");
    }

    #[test]
    fn costs_are_told_by_the_load_and_with_the_load_that_ends_recovery() {
        let steps = [(300.0, 2.0, 2.5), (1_000.0, 3.0, 4.0), (990.0, 5.0, 6.0), (1_020.0, 9.0, 9.0)];
        let steps = steps.into_iter().chain([(1_200.0, 3.0, f64::INFINITY)]);
        let steps: Vec<LoadStep> = steps.map(|(rate, outage_s, back_s)| step(rate, outage_s, back_s)).collect();
        let words = words(&steps, 1_000.0).unwrap();
        let shares = "at 30 % of the line no answer for 2.00 s, throughput back after 2.50 s (n = 1); \
                      at 100 % of the line no answer for 4.00 s, throughput back after 5.00 s (n = 2).";
        assert!(words.contains(shares), "{words}");
        assert!(words.ends_with("did not come back within the load step was 1,200/s."), "{words}");
        assert_eq!(super::words(&steps[1..2], 1_000.0), None);
    }

    #[test]
    fn costs_are_drawn_over_the_load_without_times_that_did_not_end() {
        let steps = [(300.0, 2.0, 2.5), (1_000.0, 3.0, 4.0), (1_000.0, 5.0, 6.0), (1_200.0, 3.0, f64::INFINITY)];
        let steps = steps.map(|(rate, outage_s, back_s)| step(rate, outage_s, back_s));
        let drawn = charts(&steps, &[Mark { x: 1_000.0, name: "carries".to_owned() }]);
        let [outage, back] = drawn.as_slice() else { panic!("{drawn:?}") };
        assert_eq!((outage.unit.as_str(), &outage.x[..]), ("s", &[300.0, 1_000.0, 1_200.0][..]));
        let values = |chart: &Chart, name: &str| {
            chart.lines.iter().find(|line| line.name == name).map(|line| line.values.clone()).unwrap()
        };
        assert_eq!(values(outage, "shortest"), [Some(2.0), Some(3.0), Some(3.0)]);
        assert_eq!(values(outage, "median"), [Some(2.0), Some(4.0), Some(3.0)]);
        assert_eq!(values(outage, "longest"), [Some(2.0), Some(5.0), Some(3.0)]);
        assert_eq!(values(back, "median"), [Some(2.5), Some(5.0), None], "it did not come back");
        let marks: Vec<(f64, &str)> = back.marks.iter().map(|mark| (mark.x, mark.name.as_str())).collect();
        assert_eq!(marks, [(1_000.0, "carries"), (1_200.0, "throughput not back")]);
        assert!(charts(&steps[1..3], &[]).is_empty(), "one load is no curve");
    }
}
