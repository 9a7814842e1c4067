//! Costs of faults at shares of the line: a store that is less loaded may be back sooner.

use crate::number;
use crate::stat;

use super::{LineSpec, LoadStep};

/// Shares of the rate that is carried, at which a search through faults drives one load step each.
const SHARES: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
/// Largest difference of rates that count as the same share.
const NEAR: f64 = 0.05;

/// Returns the lowest share of the line `carries`, as a rate, at which no load step was driven yet.
pub(super) fn missing(spec: &LineSpec, steps: &[LoadStep], carries: f64) -> Option<f64> {
    let wanted = SHARES.iter().filter(|_| !spec.faults.is_empty()).map(|share| share * carries);
    let mut wanted = wanted.filter(|rate| *rate >= spec.rate_min_per_s);
    wanted.find(|rate| !near(steps, *rate).any(|_| true))
}

/// Describes the time without an answer and until throughput was back, by the load, and the lowest load at which it did
/// not come back. `None` without load steps at two loads.
pub(super) fn words(steps: &[LoadStep], carries: f64) -> Option<String> {
    let cost = |share: f64| {
        let those: Vec<&LoadStep> = near(steps, share * carries).collect();
        let median = |of: fn(&LoadStep) -> &[f64]| {
            let longest = |step: &&LoadStep| of(step).iter().copied().reduce(f64::max);
            stat::median(&those.iter().filter_map(longest).collect::<Vec<_>>())
        };
        let (outage_s, back_s) = (median(|step| &step.outages_s)?, median(|step| &step.recoveries_s)?);
        // A half of several load steps may lie at infinity.
        let shown = |seconds: f64| match seconds.is_finite() {
            true => number::seconds(seconds),
            false => "more than the load step".to_owned(),
        };
        Some(format!(
            "at {:.0} % of the line no answer for {}, throughput back after {} (n = {})",
            share * 100.0,
            shown(outage_s),
            shown(back_s),
            those.len()
        ))
    };
    let costs: Vec<String> = SHARES.iter().copied().chain([1.0]).filter_map(cost).collect();
    let lost = steps.iter().filter(|step| step.unrecovered_s.is_some()).filter_map(|step| step.rung.rate_per_s);
    let lost = lost.reduce(f64::min).map_or_else(String::new, |rate| {
        format!(
            " The lowest load at which throughput did not come back within the load step was {}.",
            number::with_unit(rate, "1/s")
        )
    });
    let costs = (costs.len() > 1).then(|| costs.join("; "))?;
    Some(format!("Costs of a fault by load (medians): {costs}.{lost}"))
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
        while let Some(rate) = missing(&spec, &steps, 1_000.0) {
            driven.push(rate);
            steps.push(step(rate, 2.0, 2.0));
        }
        assert_eq!(driven, [300.0, 500.0, 700.0, 900.0]);
        assert_eq!(missing(&LineSpec::default(), &[], 1_000.0), None, "no faults, no curve");
    }

    #[test]
    fn costs_are_told_by_the_load_and_with_the_load_that_ends_recovery() {
        let steps = [(300.0, 2.0, 2.5), (1_000.0, 3.0, 4.0), (1_020.0, 5.0, 6.0), (1_200.0, 3.0, f64::INFINITY)];
        let steps: Vec<LoadStep> = steps.map(|(rate, outage_s, back_s)| step(rate, outage_s, back_s)).to_vec();
        let words = words(&steps, 1_000.0).unwrap();
        let wanted = "Costs of a fault by load (medians): at 30 % of the line no answer for 2.00 s, throughput back \
                      after 2.50 s (n = 1); at 100 % of the line no answer for 4.00 s, throughput back after 5.00 s \
                      (n = 2).";
        assert!(words.starts_with(wanted), "{words}");
        assert!(words.ends_with("did not come back within the load step was 1,200/s."), "{words}");
        assert_eq!(super::words(&steps[1..2], 1_000.0), None);
    }
}
