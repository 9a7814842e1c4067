//! Phases that did far fewer operations than their own load requires, or in which nothing was answered for a time.
//!
//! A client of a closed loop spends its time in operations and in think times: in T seconds N clients do
//! N × T / (think time + mean response time) operations (Little's law). In an open loop the schedule has the number.
//! A phase with far fewer measured something else than was asked, and its other figures do not show it.
//!
//! Clients without a connection do not count for that. If nothing at all is answered meanwhile, the absence counts itself.

use plimsoll_core::Outcome;
use plimsoll_record::data::{PhaseKind, PhaseState, ResultName, Run};

use crate::number;
use crate::outage;
use crate::phase::PhaseFacts;

/// Share of the required operations that is far too small. Response times, think times and times without connection are
/// measured, and add up to the whole time; so an honest phase misses only the last operation of each client, which is
/// allowed for separately, and the delays of the generator. Those would have to be as long as all the rest: a machine
/// that stood still for half of the phase.
const SHARE: f64 = 0.5;
/// Delay of the generator that is allowed for after each answer, in seconds: its longest time between two looks at what is
/// due. Without it, sessions that take turns on one thread, and answer in microseconds, would seem idle.
const TURN_S: f64 = 0.01;
/// Standard deviations of a Poisson number that chance is allowed: once in millions of phases.
const DEVIATIONS: f64 = 5.0;

/// Required operations, and the number below which the phase did far too few.
struct Required {
    operations: f64,
    least: f64,
    why: String,
}

/// Returns a sentence about a complete timed phase that did far too few operations, or answered none for a time that has no
/// known reason, to be continued; `None` for any other. A search judges its load steps itself.
pub fn shortfall(run: &Run, facts: &PhaseFacts<'_>) -> Option<String> {
    let (header, end) = (&facts.phase.header, &facts.phase.end);
    if header.kind != PhaseKind::Drive || header.rung.is_some() || end.state != PhaseState::Complete {
        return None;
    }
    let planned_s = facts.result(ResultName::PlannedSeconds)?.value;
    too_few(facts, planned_s).or_else(|| absent(run, facts))
}

/// Returns a sentence about a phase with an outage that nothing explains.
fn absent(run: &Run, facts: &PhaseFacts<'_>) -> Option<String> {
    let words = outage::words(&outage::unexplained(run, facts)?);
    Some(format!(
        "nothing was answered for {words}, and no fault of the plan, command for a lab or goal on `outage` allows that"
    ))
}

/// Returns a sentence about a phase that did far too few operations.
fn too_few(facts: &PhaseFacts<'_>, planned_s: f64) -> Option<String> {
    // A warm-up that was found does not count.
    let share = (facts.counted_s / planned_s).min(1.0);
    let required = open(facts, share).or_else(|| closed(facts, share))?;
    // What was due and not sent is judged as such, unless that was the generator's fault.
    let unsent = if facts.late().is_none() { facts.unfinished_count() } else { 0 };
    let done = facts.count(None, |_: Outcome| true);
    if (done + unsent) as f64 >= required.least {
        return None;
    }
    let what = number::plural(done, "operation was", "operations were");
    let silent = match silent_s(facts) {
        0.0 => String::new(),
        silent_s => format!(", and nothing was answered for up to {}", number::seconds(silent_s)),
    };
    let operations = number::count(required.operations.round() as u64);
    Some(format!("{what} done instead of about {operations}{silent}: {}", required.why))
}

fn open(facts: &PhaseFacts<'_>, share: f64) -> Option<Required> {
    let due = facts.result(ResultName::Due)?.value * share;
    // What is in flight at either end is counted on one side only.
    let least = (due - f64::from(facts.phase.header.clients) - DEVIATIONS * due.sqrt()) * SHARE;
    Some(Required { operations: due, least, why: "so many were due by the schedule".to_string() })
}

fn closed(facts: &PhaseFacts<'_>, share: f64) -> Option<Required> {
    let had = facts.result(ResultName::ClientSeconds)?;
    let think = facts.phase.end.result(ResultName::ThinkSeconds)?;
    let (clients, think_s, mean_s) = (had.n.max(1) as f64, think.value, facts.mean_of_all_s());
    let client_s = had.value * share;
    let with = |delay_s: f64| client_s / (think_s + mean_s + delay_s).max(f64::MIN_POSITIVE);
    // Clients that share a thread wait for each other: at least one of them is always at work, or thinks.
    let one_by_one = client_s / clients / (mean_s + TURN_S);
    let at_least = with(TURN_S).min(one_by_one);
    let has_tail = !think.subject.is_empty();
    let chance = if has_tail { DEVIATIONS * at_least.sqrt() } else { 0.0 };
    let thinks = match think_s {
        0.0 => String::new(),
        _ if has_tail => format!("a mean think time of {} and ", number::seconds(think_s)),
        _ => format!("a think time of at most {} and ", number::seconds(think_s)),
    };
    Some(Required {
        operations: with(0.0),
        least: (at_least - clients - chance) * SHARE,
        why: format!(
            "{} had a connection for {} in all, with {thinks}a mean response time of {}",
            number::plural(had.n, "client", "clients"),
            number::seconds(client_s),
            number::seconds(mean_s)
        ),
    })
}

/// Longest time in the slices that count in which no operation ended, in seconds.
fn silent_s(facts: &PhaseFacts<'_>) -> f64 {
    let (mut longest_ns, mut quiet_ns) = (0, 0);
    for slice in facts.counted() {
        let is_quiet = facts.operations(slice).all(|one| one.histogram.is_empty());
        quiet_ns = if is_quiet { quiet_ns + slice.length_ns() } else { 0 };
        longest_ns = longest_ns.max(quiet_ns);
    }
    longest_ns as f64 / 1e9
}
