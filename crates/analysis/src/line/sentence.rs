//! The result in words.

use plimsoll_core::quantity::Percentile;

use crate::number;

use super::{Beyond, Broken, Ending, LineResult, LineState, Rung, RungSummary};

/// Beginning of sentences about searches that found no line, and that failed.
pub(super) const NO_LINE: &str = "No line was found";
pub(super) const ENDED: &str = "The search ended";

/// Writes a sentence: the rate that the store carries, the limit that breaks above it, the cause, and the behaviour
/// there.
pub(super) fn sentence(result: &LineResult) -> String {
    match (&result.ending, result.rate_per_s, result.uncertainty_per_s) {
        (Ending::Failed(why), ..) => match result.held_per_s {
            Some(held) => format!("{ENDED} after {} op/s had held: {why}.", number::significant(held)),
            None => format!("{ENDED}: {why}."),
        },
        (Ending::NotMeasured(why), ..) => format!("{NO_LINE}: {why}."),
        (Ending::NoFailure, ..) => format!(
            "Carries at least {} op/s, the most that was tried: no goal broke.",
            result.held_per_s.map_or("–".to_string(), number::significant)
        ),
        (Ending::NoPass, ..) => format!(
            "Does not keep its goals even at {} op/s: {}.",
            result.failed_per_s.map_or("–".to_string(), number::significant),
            result.broken.as_ref().map_or("nothing was measured".to_string(), broke)
        ),
        (_, Some(rate), Some(uncertainty)) => match &result.state {
            LineState::Undecided(why) => undecided(result, why),
            _ => found(result, rate, uncertainty),
        },
        (Ending::Generator(why), ..) => {
            let why = why.strip_prefix("the generator was the limit: ").unwrap_or(why);
            let why = format!("the generator, not the store, is the limit: {why}");
            match result.held_per_s {
                Some(held) => format!("Carries at least {} op/s; above that {why}.", number::significant(held)),
                None => format!("{NO_LINE}: {why}."),
            }
        }
        _ => {
            let why = match &result.state {
                LineState::Undecided(why) => why.as_str(),
                _ => "the search did not end",
            };
            match (result.held_per_s, result.failed_per_s) {
                (Some(held), _) => format!("Carries at least {} op/s; {why}.", number::significant(held)),
                (_, Some(failed)) => format!(
                    "Does not carry {} op/s; whether it carries less was not tried in the time there was.",
                    number::significant(failed)
                ),
                _ => format!("{NO_LINE}: {why}."),
            }
        }
    }
}

/// Describes a search that found no rate at which a goal breaks before its time was up. Goals may have broken in rungs
/// that others outweigh: the line lies where the least time is on its wrong side.
pub(super) fn none_above(rungs: &[(Rung, RungSummary)]) -> String {
    let judged = rungs.iter().filter_map(|(rung, seen)| Some((rung.rate_per_s?, seen.worst_ratio(rung)?)));
    let broke: Vec<f64> = judged.filter(|(_, ratio)| *ratio > 1.0).map(|(rate, _)| rate).collect();
    match broke.iter().copied().reduce(f64::min) {
        None => "time was up before a goal broke".to_string(),
        Some(lowest) => format!(
            "a goal broke in {} (at {}{}), but at that rate and above goals held for longer, and time was up before one \
             broke at the highest",
            number::plural(broke.len() as u64, "load step", "load steps"),
            number::with_unit(lowest, "1/s"),
            if broke.len() > 1 { " and above" } else { "" },
        ),
    }
}

fn undecided(result: &LineResult, why: &str) -> String {
    let rate = |rate: Option<f64>| number::significant(rate.unwrap_or(0.0));
    let (low, high) = (rate(result.low_per_s), rate(result.high_per_s));
    let cycles = result.cycles.as_ref().map_or(String::new(), |cycles| cycles_seen(cycles, result.cycles_held));
    format!("Carries between {low} and {high} op/s, which is undecided: {why}{cycles}.")
}

fn found(result: &LineResult, rate: f64, uncertainty: f64) -> String {
    let (rate, uncertainty) = as_measured(rate, uncertainty);
    let mut text = format!("Carries {rate} ± {uncertainty} op/s; above that ");
    text.push_str(&result.broken.as_ref().map_or("a goal breaks".to_string(), breaks));
    match result.causes.first() {
        Some(cause) => text.push_str(&format!("; what changed with it: {}", cause.text)),
        None => text.push_str("; no sampled series changed with it"),
    }
    match (result.beyond, result.beyond_share) {
        (Beyond::Sheds, _) => text.push_str("; asked for more, it refuses operations and continues"),
        (Beyond::Queues, _) => text.push_str("; asked for more, it keeps its rate and clients wait"),
        (Beyond::Collapses, Some(share)) => {
            text.push_str(&format!(
                "; asked for more, it falls to {} % of its rate",
                number::significant(share * 100.0)
            ));
        }
        _ => {}
    }
    match &result.ending {
        Ending::Generator(why) => {
            text.push_str(&format!("; the search ended because of the generator, not the store: {why}"))
        }
        Ending::TimeUp => text.push_str("; time was up before the wanted precision was reached"),
        _ => {}
    }
    text.push_str(&result.cycles.as_ref().map_or(String::new(), |cycles| cycles_seen(cycles, result.cycles_held)));
    text.push('.');
    text
}

/// Describes the cycles of the store that the deciding rungs saw.
fn cycles_seen(cycles: &[(String, f64)], held: f64) -> String {
    let seen: Vec<String> = cycles
        .iter()
        .filter(|(_, n)| *n > 0.0)
        .map(|(name, n)| number::plural(*n as u64, &number::singular(name), &name.replace('_', " ")))
        .collect();
    if seen.is_empty() {
        let names: Vec<String> = cycles.iter().map(|(name, _)| number::singular(name)).collect();
        return format!("; no {} happened within the trial", names.join(" or "));
    }
    let held = if held == 0.0 { ", none of them while the goals held" } else { "" };
    format!("; the deciding load steps saw {}{held}", number::list(&seen))
}

/// `p99 passes 20.0 ms`.
fn breaks(broken: &Broken) -> String {
    let limit = number::with_unit(broken.limit, &broken.unit);
    match broken.what.as_str() {
        "carried" => format!(
            "it does not keep up: {} of {} a second finish",
            number::significant(broken.got),
            number::significant(broken.limit)
        ),
        "errors" if broken.limit == 0.0 => format!("operations fail ({})", number::with_unit(broken.got, &broken.unit)),
        "errors" => format!("errors pass {limit} ({})", number::with_unit(broken.got, &broken.unit)),
        what => format!("{} passes {limit} ({})", goal_name(what), number::with_unit(broken.got, &broken.unit)),
    }
}

/// `p99 is 48.0 ms, wanted ≤ 20.0 ms`.
fn broke(broken: &Broken) -> String {
    let (got, limit) = (number::with_unit(broken.got, &broken.unit), number::with_unit(broken.limit, &broken.unit));
    match broken.what.as_str() {
        "carried" => breaks(broken),
        what => format!(
            "{} {got}, wanted ≤ {limit}",
            if what == "errors" { "errors are".to_string() } else { format!("{} is", goal_name(what)) }
        ),
    }
}

/// A goal's name as it is written: `p99.9`.
pub fn goal_name(what: &str) -> String {
    Percentile::named(what).map_or_else(|| what.to_string(), |percentile| percentile.to_string())
}

/// A value and its uncertainty with the same last digit: two of the uncertainty if it begins with a 1, else one.
fn as_measured(value: f64, uncertainty: f64) -> (String, String) {
    if !(uncertainty > 0.0 && uncertainty.is_finite()) {
        return (number::significant(value), number::significant(uncertainty));
    }
    let exponent = uncertainty.log10().floor() as i32;
    let first = uncertainty / 10f64.powi(exponent);
    let last = if first < 1.95 { exponent - 1 } else { exponent };
    let step = 10f64.powi(last);
    let decimals = usize::try_from(-last).unwrap_or(0);
    let text = |value: f64| {
        let rounded = (value / step).round() * step;
        if decimals == 0 { number::count(rounded as u64) } else { format!("{rounded:.decimals$}") }
    };
    (text(value), text(uncertainty))
}

#[cfg(test)]
mod tests {
    use plimsoll_record::data::GoalKind;

    use super::super::{GoalSeen, LineSpec, Purpose, estimate};
    use super::*;

    /// A rung of 3 s that saw this p99, where 1 ms is the limit.
    fn rung(rate: f64, p99_ms: f64) -> (Rung, RungSummary) {
        let (what, limit, value, n) = (GoalKind::named("p99").unwrap(), 1e6, Some(p99_ms * 1e6), 1_000);
        let goal = GoalSeen { what, of: None, limit, unit: "ns".into(), value, missing: None, n, slices: Vec::new() };
        let purpose = Purpose::Climb;
        (
            Rung { ordinal: 0, rate_per_s: Some(rate), purpose, warmup_s: 1.0, seconds: 3.0 },
            RungSummary { seconds: 3.0, goals: vec![goal], ..RungSummary::default() },
        )
    }

    #[test]
    fn a_goal_that_broke_in_a_rung_that_others_outweigh_is_said_when_time_is_up() {
        let sentence = |rungs: &[_]| estimate::result(&LineSpec::default(), rungs, Ending::TimeUp).sentence;
        let held = [rung(200.0, 0.5), rung(300.0, 0.5)];
        assert_eq!(sentence(&held), "Carries at least 300 op/s; time was up before a goal broke.");
        assert_eq!(
            sentence(&[&[rung(100.0, 2.0)][..], &held].concat()),
            "Carries at least 300 op/s; a goal broke in 1 load step (at 100/s), but at that rate and above goals held for \
             longer, and time was up before one broke at the highest."
        );
        let all = [&[rung(100.0, 2.0), rung(150.0, 2.0)][..], &held, &held].concat();
        assert!(
            sentence(&all).contains("; a goal broke in 2 load steps (at 100/s and above), but "),
            "{}",
            sentence(&all)
        );
        // Here it is the rungs that held that are outweighed.
        let most_broke = [rung(100.0, 2.0), rung(200.0, 0.5), rung(300.0, 2.0)];
        let result = estimate::result(&LineSpec::default(), &most_broke, Ending::TimeUp);
        let why = "time was up before a rate was found at which every goal holds";
        assert_eq!((result.held_per_s, result.state), (None, LineState::Undecided(why.into())));
    }

    #[test]
    fn a_value_and_its_uncertainty_end_at_the_same_digit() {
        let text = |value, uncertainty| {
            let (value, uncertainty) = as_measured(value, uncertainty);
            format!("{value} ± {uncertainty}")
        };
        assert_eq!(text(41_237.0, 612.0), "41,200 ± 600");
        assert_eq!(text(41_237.0, 160.0), "41,240 ± 160");
        assert_eq!(text(4.237, 0.06), "4.24 ± 0.06");
        assert_eq!(text(4_237.4, 0.0), "4,240 ± 0");
    }
}
