//! The result in words.

use plimsoll_core::study::goal_name;
use plimsoll_record::data::GoalKind;

use crate::number;
use crate::view::{AtRate, LineView};

use super::{Beyond, Broken, Ending, LineResult, LineState, Requirement, through};

/// The sentences of all searches, each with its store.
pub(crate) fn of_all(lines: &[LineView]) -> String {
    lines.iter().map(of_store).collect::<Vec<_>>().join(" ")
}

/// The sentence of one search with its store in it: `postgres carries …`, `No line of postgres was found: …`.
pub(crate) fn of_store(line: &LineView) -> String {
    of(&line.result, Some(&line.store))
}

/// Writes the result in sentences: the rate that the store carries, and the one at which it gives way with the goal that
/// breaks there, each with its load steps; then the cause, and the behaviour beyond. The first names the `store`, if it
/// is given.
pub(super) fn of(result: &LineResult, store: Option<&str>) -> String {
    let ended = store.map_or("The search ended".to_owned(), |store| format!("The search on {store} ended"));
    let [held, failed] = result.shown();
    let stated = [held.map(|one| stated(one, true, result)), failed.map(|one| stated(one, false, result))];
    match (&result.ending, &stated, &result.held, &result.failed) {
        (Ending::Failed(why), [Some(held), Some(failed)], ..) => {
            format!("{ended}: {why}. Until then it {held}. It {failed}.")
        }
        (Ending::Failed(why), _, Some(held), _) => format!("{ended} after {}: {why}.", goals(held, true)),
        (Ending::Failed(why), ..) => format!("{ended}: {why}."),
        (Ending::NoFailure, [Some(held), _], ..) => begin(store, &format!("{held}.")),
        (Ending::NoPass, .., Some(failed)) => {
            let (rate, steps) = (op_per_s(failed), in_steps(failed, false));
            begin(store, &format!("does not keep its goals even at {rate}: {}; failed in {steps}.", breaks(result)))
        }
        (_, [Some(held), Some(failed)], ..) if result.state == LineState::Decided => {
            begin(store, &format!("{held}. It {failed}, {}.", at_line(result)))
        }
        _ => undecided(result, &stated, store),
    }
}

/// Begins a sentence with a clause about the store.
fn begin(store: Option<&str>, clause: &str) -> String {
    store.map_or_else(|| number::capital(clause), |store| format!("{store} {clause}"))
}

fn op_per_s(one: &AtRate) -> String {
    format!("{} ops/s", number::significant(one.rate_per_s))
}

/// `5 of 5 load steps of 6.00 s`: those that held, or those that failed.
fn in_steps(of: &AtRate, held: bool) -> String {
    let n = if held { of.held } else { of.failed };
    let longer = if of.seconds_max > of.seconds * 1.05 { " or longer" } else { "" };
    let steps = number::plural(of.steps(), "load step", "load steps");
    format!("{n} of {steps} of {}{longer}", number::seconds(of.seconds))
}

/// `goals held at 24,000 ops/s in 4 of 5 load steps of 6.00 s`, or `goals broke at …`.
fn goals(one: &AtRate, held: bool) -> String {
    format!("goals {} at {} in {}", if held { "held" } else { "broke" }, op_per_s(one), in_steps(one, held))
}

/// `carries 24,000 ops/s: held in 5 of 5 load steps of 6.00 s`, or `gives way at 27,000 ops/s: failed in …`. With faults
/// `carries 24,000 ops/s through kill primary: …`.
fn stated(one: &AtRate, carried: bool, result: &LineResult) -> String {
    let (rate, steps) = (op_per_s(one), in_steps(one, carried));
    if !carried {
        return format!("gives way at {rate}: failed in {steps}");
    }
    let is_most = result.ending == Ending::NoFailure;
    let (least, most) = if is_most { ("at least ", ", the most that was tried") } else { ("", "") };
    let through = if result.through.is_empty() { "" } else { " through " };
    let (faults, costs) = (number::list(&result.through), through::costs(result));
    format!("carries {least}{rate}{through}{faults}{most}: held in {steps}{costs}")
}

/// `p99 passes 20.0 ms (48.0 ms). What changed with it: …. Asked for more, …`.
fn at_line(result: &LineResult) -> String {
    let none = "No sampled series explains it".to_owned();
    let cause = result.causes.first().map_or(none, |cause| format!("What changed with it: {}", cause.text));
    let percent = number::significant(result.beyond_share.unwrap_or(0.0) * 100.0);
    let beyond = match result.beyond {
        Beyond::Sheds => ". Asked for more, it refuses operations and continues".to_owned(),
        Beyond::Queues => ". Asked for more, its rate does not fall and clients wait".to_owned(),
        Beyond::Collapses => format!(". Asked for more, it falls to {percent} % of its rate"),
        Beyond::NotSeen => String::new(),
    };
    format!("{}. {cause}{beyond}{}", breaks(result), cycles_seen(result))
}

/// Describes what load steps have shown so far, the `stated`, and why that does not decide the line.
fn undecided(result: &LineResult, stated: &[Option<String>; 2], store: Option<&str>) -> String {
    let why = match (&result.ending, &result.state) {
        (Ending::Generator(why), _) => format!("the generator, not the store, is the limit: {why}"),
        (Ending::NotMeasured(why), _) => format!("a goal was not measured: {why}"),
        (_, LineState::Undecided(why)) => why.clone(),
        _ => "the search did not end".to_owned(),
    };
    let (held, failed) = (result.held.as_ref(), result.failed.as_ref());
    if held.or(failed).is_none() {
        return format!("No line{} was found: {why}.", store.map_or(String::new(), |store| format!(" of {store}")));
    }
    let mut parts = match stated {
        [Some(held), Some(failed)] => vec![begin(store, held), format!("It {failed}")],
        [Some(held), None] => vec![begin(store, held), "Where it gives way is undecided".to_owned()],
        [None, Some(failed)] => vec![begin(store, failed), "What it carries is undecided".to_owned()],
        [None, None] => vec![format!("What {} carries is undecided", store.unwrap_or("it"))],
    };
    parts.extend(held.filter(|one| !one.decided).map(|one| number::capital(&goals(one, true))));
    let broke = |one: &AtRate| match result.broken {
        Some(_) => format!("{}: {}", number::capital(&goals(one, false)), breaks(result)),
        None => number::capital(&goals(one, false)),
    };
    parts.extend(failed.filter(|one| !one.decided).map(broke));
    parts.extend(result.between.iter().map(|one| format!("Between them goals held in {}", in_steps(one, true))));
    parts.push(number::capital(&why));
    let cycles = held.zip(failed).map_or(String::new(), |_| cycles_seen(result));
    format!("{}{cycles}.", parts.join(". "))
}

/// Describes the cycles of the store that the deciding rungs saw, as a sentence after another; nothing without counters.
fn cycles_seen(result: &LineResult) -> String {
    let Some(cycles) = &result.cycles else { return String::new() };
    let seen: Vec<String> = cycles
        .iter()
        .filter(|(_, n)| *n > 0.0)
        .map(|(name, n)| number::plural(*n as u64, &number::singular(name), &name.replace('_', " ")))
        .collect();
    if seen.is_empty() {
        let names: Vec<String> = cycles.iter().map(|(name, _)| number::singular(name)).collect();
        return format!(
            ". No {} happened within the trial, so these rates do not contain its cost",
            names.join(" or ")
        );
    }
    let held = if result.cycles_held == 0.0 { ", none of them while the goals held" } else { "" };
    format!(". The deciding load steps saw {}{held}", number::list(&seen))
}

/// `p99 passes 20.0 ms (48.0 ms)`.
fn breaks(result: &LineResult) -> String {
    let Some(Broken { what, limit, got, unit }) = &result.broken else { return "a goal breaks".to_owned() };
    let (shown, got_shown) = (number::limit(*limit, unit), number::beside_limit(*got, *limit, unit));
    match what {
        Requirement::Carried => {
            let (got, limit) = (number::significant(*got), number::significant(*limit));
            format!("it does not keep up: {got} of {limit} a second finish")
        }
        Requirement::Recovers => format!("throughput does not come back within {shown} after the fault"),
        Requirement::Goal(GoalKind::Errors, None) if *limit == 0.0 => format!("operations fail ({got_shown})"),
        Requirement::Goal(GoalKind::Errors, None) => format!("errors pass {shown} ({got_shown})"),
        Requirement::Goal(what, of) => through::breaks(*what, *limit, [&shown, &got_shown])
            .unwrap_or_else(|| format!("{} passes {shown} ({got_shown})", goal_name(*what, of.as_deref()))),
    }
}
