//! Faults during a search: goals on them, what they cost at the line, and at shares of it, as a store that is less loaded
//! may be back sooner.

use plimsoll_core::TICK_NS;
use plimsoll_record::data::{Goal, GoalKind};

use crate::goal;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::{Chart, FaultView, Line, Mark, RungState};

use super::estimate::times;
use super::{GoalSeen, LineResult, LineSpec, LoadStep};

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

/// Returns true if a fault of the search did not take effect, or its effect on throughput is not known.
pub(super) fn lacks_faults(spec: &LineSpec, faults: &[FaultView]) -> bool {
    let is_seen = |one: &FaultView| one.taken_s.is_some() && one.whole_recovery_s().is_some();
    spec.faults.iter().any(|name| !faults.iter().filter(|one| one.planned == *name).any(is_seen))
}

/// Returns the fault with the longest time without an answer. A fault that begins in the silence of another one has the
/// rest of it, and clients notice it at once.
pub(super) fn longest_outage(faults: &[FaultView]) -> Option<&FaultView> {
    let known = faults.iter().filter_map(|one| Some((one, one.whole_outage_s()?)));
    let longest = known.reduce(|longest, next| if next.1 > longest.1 { next } else { longest });
    longest.map(|(one, _)| one)
}

/// Measures a goal on faults.
pub(super) fn after_faults(faults: &[FaultView], goal: &Goal) -> GoalSeen {
    // A time that did not end was at least that long.
    let time_s = |one: &FaultView| if goal.what == GoalKind::Outage { one.outage_s } else { one.least_recovery_s() };
    let times_s = faults.iter().map(time_s).collect::<Option<Vec<f64>>>();
    let times_s = times_s.ok_or("what the faults cost was not counted");
    let longest_s = times_s.and_then(|all| all.into_iter().max_by(f64::total_cmp).ok_or("no fault took effect"));
    GoalSeen::new(goal, longest_s.map(|longest_s| longest_s * 1e9).map_err(str::to_owned), faults.len() as u64)
}

/// Counts the lost writes, stale records or unknown outcomes that a goal limits.
pub(super) fn counted(facts: &PhaseFacts<'_>, goal: &Goal) -> GoalSeen {
    let measured = match goal.what {
        GoalKind::Lost => goal::lost(std::slice::from_ref(facts)),
        GoalKind::Stale => goal::stale(goal, std::slice::from_ref(facts)),
        _ => Ok(facts.unknown()),
    };
    let n = measured.as_ref().map_or(0, |quantity| quantity.n);
    GoalSeen::new(goal, measured.map(|quantity| quantity.value), n)
}

/// `, no answer for 3.10 s (2.80 s to 3.60 s), 2.00 s of it until it was noticed; 41 outcomes unknown, none lost`; nothing
/// without faults.
pub(super) fn costs(result: &LineResult) -> String {
    let unknown = result.unknown.map(|n| match n {
        0 => "no outcome unknown".to_owned(),
        n => number::plural(n, "outcome unknown", "outcomes unknown"),
    });
    let lost = result.lost.map(|n| match n {
        0 => "none lost".to_owned(),
        n => number::plural(n, "acknowledged write lost", "acknowledged writes lost"),
    });
    let counts: Vec<String> = unknown.into_iter().chain(lost).collect();
    let counts = if counts.is_empty() { String::new() } else { format!("; {}", counts.join(", ")) };
    format!("{}{counts}", outages(result))
}

/// `, no answer for 3.10 s (2.80 s to 3.60 s), 2.00 s of it until it was noticed`; nothing without faults.
fn outages(result: &LineResult) -> String {
    match result.outages.filter(|_| !result.through.is_empty()) {
        None => String::new(),
        Some([_, _, 0.0]) => ", no outage".to_owned(),
        Some([least, _, most]) if most.is_infinite() => {
            format!(", no answer for {} to more than was observed", number::seconds(least))
        }
        Some([least, median, most]) => {
            let noticed = noticed(result, median);
            let [least, median, most] = [least, median, most].map(number::seconds);
            format!(", no answer for {median} ({least} to {most}){noticed}")
        }
    }
}

/// `, 2.00 s of it until it was noticed`, beside a time without an answer; nothing if no client noticed a fault.
fn noticed(result: &LineResult, outage_s: f64) -> String {
    let Some([_, noticed_s, _]) = result.noticed else { return String::new() };
    let noticed = number::seconds(noticed_s);
    match noticed_s {
        noticed_s if noticed_s * 1e9 < TICK_NS as f64 => ", noticed within 10 ms".to_owned(),
        noticed_s if noticed_s > outage_s => format!(", noticed after {noticed}"),
        _ => format!(", {noticed} of it until it was noticed"),
    }
}

/// Describes a broken goal on faults: `lost writes pass 5 (9)`. `shown` are its limit and its value. `None` for other
/// goals.
pub(super) fn breaks(what: GoalKind, limit: f64, [shown, got_shown]: [&str; 2]) -> Option<String> {
    Some(match what {
        GoalKind::Outage => format!("no operation is answered for {got_shown}, longer than {shown}"),
        GoalKind::Recovery => format!("throughput comes back only after {got_shown}, later than {shown}"),
        GoalKind::Lost if limit == 0.0 => format!("acknowledged writes are lost ({got_shown})"),
        GoalKind::Lost => format!("lost writes pass {shown} ({got_shown})"),
        GoalKind::Stale if limit == 0.0 => format!("answers have stale records ({got_shown})"),
        GoalKind::Stale => format!("stale records in answers pass {shown} ({got_shown})"),
        GoalKind::Unknown if limit == 0.0 => format!("outcomes of operations are unknown ({got_shown})"),
        GoalKind::Unknown => format!("unknown outcomes pass {shown} ({got_shown})"),
        _ => return None,
    })
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
