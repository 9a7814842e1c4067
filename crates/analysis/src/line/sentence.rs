//! The result in words.

use plimsoll_core::quantity::Percentile;

use crate::number;
use crate::view::AtRate;

use super::{Beyond, Broken, Ending, LineResult, LineState};

/// Beginnings of sentences about searches that found no line, that failed, and that are undecided.
pub(super) const NO_LINE: &str = "No line was found";
pub(super) const ENDED: &str = "The search ended";
pub(super) const OPEN: &str = "What it carries is undecided";

/// Writes a sentence: the rate that the store carries and the one at which it gives way, each with its load steps, then
/// the goal that breaks there, the cause, and the behaviour beyond.
pub(super) fn sentence(result: &LineResult) -> String {
    let rate = |one: &AtRate| number::significant(one.rate_per_s);
    let (held, failed) = (result.held.as_ref(), result.failed.as_ref());
    match (&result.ending, held, failed) {
        (Ending::Failed(why), Some(held), Some(failed)) if held.decided && failed.decided => {
            format!(
                "{ENDED}: {why}; until then it {}; it {}.",
                number::uncapital(&carries(held)),
                number::uncapital(&gives_way(failed))
            )
        }
        (Ending::Failed(why), Some(held), _) => {
            format!("{ENDED} after goals held at {} op/s in {}: {why}.", rate(held), in_steps(held.held, held))
        }
        (Ending::Failed(why), ..) => format!("{ENDED}: {why}."),
        (Ending::NoFailure, Some(held), _) => {
            format!(
                "Carries at least {} op/s, the most that was tried: held in {}.",
                rate(held),
                in_steps(held.held, held)
            )
        }
        (Ending::NoPass, _, Some(failed)) => format!(
            "Does not keep its goals even at {} op/s: {}; failed in {}.",
            rate(failed),
            result.broken.as_ref().map_or("nothing was measured".to_string(), broke),
            in_steps(failed.failed, failed)
        ),
        (_, Some(held), Some(failed)) if result.state == LineState::Decided => found(result, held, failed),
        (Ending::NotMeasured(why), None, None) => format!("{NO_LINE}: {why}."),
        _ => undecided(result),
    }
}

/// `5 of 5 load steps of 6.00 s`.
fn in_steps(n: u64, of: &AtRate) -> String {
    let longer = if of.seconds_max > of.seconds * 1.05 { " or longer" } else { "" };
    format!(
        "{n} of {} of {}{longer}",
        number::plural(of.steps(), "load step", "load steps"),
        number::seconds(of.seconds)
    )
}

fn found(result: &LineResult, held: &AtRate, failed: &AtRate) -> String {
    let mut text = format!(
        "{}; {}, {}",
        carries(held),
        number::uncapital(&gives_way(failed)),
        result.broken.as_ref().map_or("a goal breaks".to_string(), breaks)
    );
    match result.causes.first() {
        Some(cause) => text.push_str(&format!("; what changed with it: {}", cause.text)),
        None => text.push_str("; no sampled series explains it"),
    }
    match (result.beyond, result.beyond_share) {
        (Beyond::Sheds, _) => text.push_str("; asked for more, it refuses operations and continues"),
        (Beyond::Queues, _) => text.push_str("; asked for more, its rate does not fall and clients wait"),
        (Beyond::Collapses, Some(share)) => {
            text.push_str(&format!(
                "; asked for more, it falls to {} % of its rate",
                number::significant(share * 100.0)
            ));
        }
        _ => {}
    }
    text.push_str(&result.cycles.as_ref().map_or(String::new(), |cycles| cycles_seen(cycles, result.cycles_held)));
    text.push('.');
    text
}

/// `Carries 24,000 op/s: held in 5 of 5 load steps of 6.00 s`.
fn carries(held: &AtRate) -> String {
    format!("Carries {} op/s: held in {}", number::significant(held.rate_per_s), in_steps(held.held, held))
}

/// `Gives way at 27,000 op/s: failed in 3 of 3 load steps of 6.00 s`.
fn gives_way(failed: &AtRate) -> String {
    format!(
        "Gives way at {} op/s: failed in {}",
        number::significant(failed.rate_per_s),
        in_steps(failed.failed, failed)
    )
}

/// Describes what load steps have shown so far, and why that does not decide the line.
fn undecided(result: &LineResult) -> String {
    let seen = |what: &str, n: u64, of: &AtRate| {
        format!("{what} at {} op/s in {}", number::significant(of.rate_per_s), in_steps(n, of))
    };
    let shown = |one: &&AtRate| one.decided;
    let (held, failed) = (result.held.as_ref(), result.failed.as_ref());
    let mut parts = match (held.filter(shown), failed.filter(shown)) {
        (Some(held), Some(failed)) => vec![carries(held), number::uncapital(&gives_way(failed))],
        (Some(held), None) => vec![carries(held), "where it gives way is undecided".to_owned()],
        (None, Some(failed)) => vec![gives_way(failed), "what it carries is undecided".to_owned()],
        (None, None) if held.or(failed).is_none() => vec![NO_LINE.to_owned()],
        (None, None) => vec![OPEN.to_owned()],
    };
    parts.extend(held.filter(|one| !one.decided).map(|held| seen("goals held", held.held, held)));
    parts.extend(failed.filter(|one| !one.decided).map(|failed| seen("goals broke", failed.failed, failed)));
    if let Some(between) = &result.between {
        parts.push(format!("between them goals held in {}", in_steps(between.held, between)));
    }
    let why = match (&result.state, &result.ending) {
        (_, Ending::Generator(why)) => {
            let why = why.strip_prefix("the generator was the limit: ").unwrap_or(why);
            format!("the generator, not the store, is the limit: {why}")
        }
        (LineState::Undecided(why), _) => why.clone(),
        _ => "the search did not end".to_owned(),
    };
    parts.push(why);
    let said = match parts.first().is_some_and(|first| first == NO_LINE) {
        true => parts.join(": "),
        false => parts.join("; "),
    };
    let cycles = result.cycles.as_ref().filter(|_| held.zip(failed).is_some());
    format!("{said}{}.", cycles.map_or(String::new(), |cycles| cycles_seen(cycles, result.cycles_held)))
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
