//! Faults that a plan set during a drive: the time without answers, the time until throughput was back, and failed
//! operations.
//!
//! Ticks tell these times to 10 ms. Unusual is a silence that is longer than all before the first fault of the phase.

mod affected;
mod backlog;
mod clients;
mod course;
mod elections;
mod failed;
mod key_parts;
mod lost;
mod missed;
mod nodes;
mod notes;
mod observed;
mod own_waits;
mod repeats;
mod stale;
mod unknown;
mod waits;

use indexmap::IndexSet;
use plimsoll_core::{Slice, TICK_NS};
use plimsoll_record::Distribution;
use plimsoll_record::data::{EventClass, FaultKind, FaultSpan, Goal, Run};

use crate::failover;
use crate::name;
use crate::number;
use crate::phase::{PhaseFacts, Quantity};
use crate::view::{AfterHealingView, FailoverView, FaultView, PhaseView};
use course::{Course, Recovery};
use failed::Failed;
pub use lost::losses;
pub use observed::not_observed;
use own_waits::ClientWaits;
pub use repeats::repeats;

/// Delay of a fault, in seconds, from which its sentence reports it.
const LATE_S: f64 = 0.1;
/// Time after the healing in which a store has to come back, and operations may fail as during the fault.
const HEALED_NS: u64 = 5_000_000_000;
/// Longest time between a reset and the next attempt of a client to connect.
const RESET_NS: u64 = 1_000_000_000;
/// Operations that a fault met had been sent a little before it, in seconds.
const BEFORE_TIMEOUT_S: f64 = 0.02;
/// Time after a time-out, in seconds, in which a client connects and has an answer again.
const AFTER_TIMEOUT_S: f64 = 0.1;
/// Faults that are named in one sentence.
const NAMED_MAX: usize = 3;

/// Returns the faults of a run with their effects, in the order in which they began, without skipped repeats.
pub fn faults(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<FaultView> {
    let of_phase = |facts: &PhaseFacts<'_>| {
        let mut faults = with_goals(facts, &run.header.goals);
        for one in &mut faults {
            let elections = elections::count(run, facts, one);
            if let Some(failover) = &mut one.failover {
                failover.elections = elections;
            }
            let elections = elections::after_healing(run, facts, one);
            if let Some(silence) = &mut one.after_healing {
                silence.elections = elections;
            }
        }
        notes::add(facts, &mut faults);
        faults
    };
    let of_trial = |facts: &Vec<PhaseFacts<'_>>| {
        let mut faults: Vec<FaultView> = facts.iter().flat_map(of_phase).collect();
        if let Some(one) = facts.first() {
            lost::add(one.trial, &mut faults);
        }
        faults.iter_mut().for_each(|one| one.sentence = sentence(one));
        faults
    };
    facts.iter().flat_map(of_trial).collect()
}

/// Returns the faults of a phase with their effects, without those on goals, and without lost writes.
pub fn of_phase(facts: &PhaseFacts<'_>) -> Vec<FaultView> {
    with_goals(facts, &[])
}

fn with_goals(facts: &PhaseFacts<'_>, goals: &[Goal]) -> Vec<FaultView> {
    let phase = facts.phase.header.ordinal;
    let of_phase = facts.trial.faults.iter().filter(|span| span.phase == phase && !span.detail.is_skipped);
    let spans: Vec<&FaultSpan> = of_phase.collect();
    let Some(first_ns) = facts.first_fault_ns() else { return Vec::new() };
    let course = Course::of(facts, first_ns);
    let next_ns = |span: &FaultSpan| {
        // Faults that were planned for one time, or began in one tick, have their effects together.
        let its_tick_ns = tick_ns(facts, span.begun_ns);
        let later = spans.iter().filter(|other| other.planned_ns > span.planned_ns).map(|other| other.begun_ns);
        later.filter(|begun_ns| tick_ns(facts, *begun_ns) > its_tick_ns).min()
    };
    spans.iter().map(|span| one(facts, goals, (first_ns, course.as_ref()), span, next_ns(span))).collect()
}

/// Returns these faults of a run with the repeats that were skipped because no node had their role, which had no effects.
pub fn with_skipped(mut faults: Vec<FaultView>, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<FaultView> {
    let skips: Vec<FaultView> = facts.iter().flatten().flat_map(skipped).collect();
    if !skips.is_empty() {
        faults.extend(skips);
        faults.sort_by_key(|one| (one.place, one.effect_ns.0));
    }
    faults
}

fn skipped(facts: &PhaseFacts<'_>) -> Vec<FaultView> {
    let phase = facts.phase.header.ordinal;
    let view = |span: &FaultSpan| FaultView {
        backlog: None,
        failover: None,
        rejected: 0,
        unknown: 0,
        unknown_writes: None,
        stale: Vec::new(),
        duplicates: 0,
        affected: None,
        is_to_end: false,
        ..one(facts, &[], (span.begun_ns, None), span, None)
    };
    let spans = facts.trial.faults.iter().filter(|span| span.phase == phase && span.detail.is_skipped);
    spans.map(view).collect()
}

/// Returns the beginning of the tick of this time; without ticks, the time.
fn tick_ns(facts: &PhaseFacts<'_>, at_ns: u64) -> u64 {
    let is_its =
        |slice: &&Slice<Distribution>| (slice.start_ns..slice.end_ns).contains(&at_ns) && !slice.ticks.is_empty();
    let slice = facts.phase.slices.iter().find(is_its);
    slice.map_or(at_ns, |slice| {
        let last = slice.ticks.len() as u64 - 1;
        slice.start_ns + ((at_ns - slice.start_ns) / TICK_NS).min(last) * TICK_NS
    })
}

/// Returns a fault of a phase with its effects. The first fault of the phase began at `first_ns`, the next one at
/// `next_ns`.
fn one(
    facts: &PhaseFacts<'_>,
    goals: &[Goal],
    (first_ns, course): (u64, Option<&Course>),
    span: &FaultSpan,
    next_ns: Option<u64>,
) -> FaultView {
    let slices = &facts.phase.slices;
    let end_ns = slices.last().map_or(facts.phase.end.end_ns, |slice| slice.end_ns).max(span.begun_ns);
    let planned_end_ns = slices.iter().rfind(|slice| !slice.drain).map_or(end_ns, |slice| slice.end_ns);
    // The tick in which the next fault began has effects of that one.
    let limit_ns = next_ns.map_or(end_ns, |next_ns| tick_ns(facts, next_ns));
    let since_s = |ns: u64| ns.saturating_sub(span.begun_ns) as f64 / 1e9;
    let left_s = observed::left_s(span, planned_end_ns);
    // That no silence was seen means nothing then.
    let outage = course.map(|course| course.outage(span, limit_ns));
    let outage = outage.filter(|outage| outage.is_some() || observed::is_observed(left_s));
    let after_healing = course.and_then(|course| course.after_healing(span, limit_ns));
    let last = outage.flatten().into_iter().chain(after_healing).max_by_key(|(_, to)| *to);
    // One that is not over when the next begins may end with that one.
    let recovery = course.map_or(Recovery::NotKnown, |course| course.recovery(span, last, next_ns, end_ns));
    let recovered_s = match recovery {
        Recovery::NotFallen => Some(0.0),
        Recovery::Back(at_ns) => Some(since_s(at_ns)),
        Recovery::Open | Recovery::NotKnown => None,
    };
    let recovered_ns = match recovery {
        Recovery::NotFallen => span.begun_ns,
        Recovery::Back(at_ns) => at_ns,
        Recovery::Open => end_ns,
        Recovery::NotKnown => span.begun_ns,
    };
    let silent_ns = after_healing.map_or(0, |(_, to)| to);
    let until_ns = ended_ns(span).unwrap_or(end_ns).max(recovered_ns).max(silent_ns);
    let Failed { rejected, unknown, until_ns: failed_ns } =
        failed::count(facts, span.begun_ns, until_ns.min(limit_ns), limit_ns);
    let is_its = |at_ns: u64| is_in_effect(at_ns, span.begun_ns, until_ns, next_ns);
    let is_given_up = |at_ns: u64| is_in_effect(at_ns, span.begun_ns, until_ns.max(failed_ns), next_ns);
    let unknown_writes = unknown::writes(facts, is_given_up).filter(|_| unknown > 0);
    let is_healed_before = ended_ns(span).is_some_and(|ended_ns| ended_ns + HEALED_NS <= planned_end_ns);
    let outage_s = outage.map(|outage| outage.map_or(0.0, |(from, to)| (to - from) as f64 / 1e9));
    let waits = ClientWaits::of(facts, span, limit_ns, outage.flatten());
    let outage_open = outage.flatten().zip(course).is_some_and(|((_, to), course)| to >= course.ticks.end_ns());
    let mut view = FaultView {
        trial: name::trial(&facts.trial.header),
        phase: facts.phase.header.name.clone(),
        kind: span.kind,
        subject: span.subject.clone(),
        fault: span.fault.clone(),
        name: name::fault(span),
        planned_s: span.planned_ns as f64 / 1e9,
        at_s: span.begun_ns as f64 / 1e9,
        taken_s: span.taken_ns.map(since_s),
        healed_s: span.healed_ns.map(since_s),
        error: span.error.clone(),
        is_skipped: span.detail.is_skipped,
        observed_s: since_s(planned_end_ns),
        left_s,
        noticed_s: course.and_then(|course| course.noticed_ns(span, until_ns, limit_ns)).map(since_s),
        next_ns,
        outage_s,
        outage_is_timeout: !outage_open && unknown > 0 && outage_s.is_some_and(|time_s| is_op_timeout(facts, time_s)),
        may_wait_to_connect: waits == ClientWaits::ToConnect,
        after_healing: after_healing.zip(span.healed_ns).map(|((from, to), healed_ns)| AfterHealingView {
            seconds: (to - from) as f64 / 1e9,
            after_s: from.saturating_sub(healed_ns) as f64 / 1e9,
            open: course.is_some_and(|course| to >= course.ticks.end_ns()),
            elections: None,
        }),
        outage_at_s: outage.flatten().map(|(from, _)| from as f64 / 1e9),
        outage_open,
        recovered_s,
        recovered_open: recovery == Recovery::Open,
        missed: missed::goals(facts, goals, (span.begun_ns, until_ns), (first_ns, limit_ns)),
        backlog: backlog::after(facts, (span.begun_ns, until_ns), first_ns, limit_ns),
        failover: failover_of(facts, course, span, limit_ns, recovery).map(|failover| waits.judged(failover)),
        rejected,
        unknown,
        unknown_writes,
        stale: stale::reads(facts, is_its),
        duplicates: stale::duplicates(facts, is_its),
        lost: None,
        nodes: course.and_then(|course| course.silent_nodes(span, until_ns.min(limit_ns).min(planned_end_ns))),
        clients: course.and_then(|course| course.silent_clients(span, limit_ns)),
        key_parts: course.and_then(|course| course.silent_parts(span, limit_ns)),
        affected: affected::clients(facts, span.begun_ns, until_ns, (first_ns, next_ns)),
        sentence: String::new(),
        notes: Vec::new(),
        planned: span.detail.name.clone(),
        place: (span.trial, span.phase),
        effect_ns: (span.begun_ns, until_ns),
        ended_ns: ended_ns(span),
        is_to_end: until_ns >= planned_end_ns && !is_healed_before,
        is_healed_before,
    };
    view.sentence = sentence(&view);
    view
}

/// Returns true if the tick of `at_ns` belongs to an effect from `from_ns` to `until_ns` and ends before the next fault
/// begins. Ticks begin at multiples of their length.
fn is_in_effect(at_ns: u64, from_ns: u64, until_ns: u64, next_ns: Option<u64>) -> bool {
    let tick = |at_ns: u64| at_ns / TICK_NS;
    let is_before_next = next_ns.is_none_or(|next_ns| tick(at_ns) < tick(next_ns));
    tick(at_ns) >= tick(from_ns) && at_ns < until_ns.max(from_ns + 1) && is_before_next
}

/// Returns true if a time is as long as the time-out of operations of a phase, after which clients ask again.
fn is_op_timeout(facts: &PhaseFacts<'_>, time_s: f64) -> bool {
    let timeout_s = facts.phase.header.op_timeout_ns.map(|timeout_ns| timeout_ns as f64 / 1e9);
    timeout_s.is_some_and(|timeout_s| {
        time_s > 0.0 && (timeout_s - BEFORE_TIMEOUT_S..timeout_s + AFTER_TIMEOUT_S).contains(&time_s)
    })
}

/// Returns the failover after a fault beside the formula of its store. At `limit_ns` another fault begins, or
/// observation ends.
fn failover_of(
    facts: &PhaseFacts<'_>,
    course: Option<&Course>,
    span: &FaultSpan,
    limit_ns: u64,
    recovery: Recovery,
) -> Option<FailoverView> {
    let header = &facts.trial.header;
    let time = header.failover_time.as_ref()?;
    let bounds = failover::bounds(time, span)?;
    // Silences that begin with the healing are no part of the failover.
    let until_ns = span.healing_ns.map_or(limit_ns, |healing_ns| healing_ns.min(limit_ns));
    let silence = course.and_then(|course| Some((course.outage(span, until_ns)?.1, course.ticks.end_ns())));
    let served = match (time.is_of_part, recovery) {
        (false, _) => silence.map(|(to_ns, end_ns)| (to_ns, to_ns >= end_ns)),
        (true, Recovery::Back(at_ns)) => Some((at_ns, false)),
        (true, Recovery::Open) => Some((limit_ns, true)),
        (true, Recovery::NotFallen | Recovery::NotKnown) => None,
    };
    let since_s = |ns: u64| ns.saturating_sub(span.begun_ns) as f64 / 1e9;
    let measured = served.map(|(at_ns, is_open)| (since_s(at_ns), is_open));
    Some(failover::judged(&header.store_label, bounds, measured, since_s(until_ns)))
}

/// Returns the time from which a fault is over; `None` if it is not. A node that joined has changed nothing since.
/// Clients notice a reset after its end.
fn ended_ns(span: &FaultSpan) -> Option<u64> {
    match span.kind {
        FaultKind::Join => span.taken_ns.or(span.healed_ns),
        FaultKind::Reset => span.healed_ns.map(|healed_ns| healed_ns + RESET_NS),
        _ => span.healed_ns,
    }
}

/// Returns true if a slice overlaps an effect, which may have no length.
fn overlap(slice: (u64, u64), effect: (u64, u64)) -> bool {
    slice.0 < effect.1.max(effect.0 + 1) && slice.1 > effect.0
}

/// Returns the longest time in seconds for which one of these faults was observed without throughput coming back.
pub fn unrecovered_s(faults: &[FaultView]) -> Option<f64> {
    faults.iter().filter(|one| one.recovered_open).map(|one| one.observed_s).max_by(f64::total_cmp)
}

/// Returns the longest time in seconds until throughput was back after one of these faults. A time that did not end is a
/// reason that there is none.
pub fn recovery(faults: &[FaultView]) -> Result<Quantity, String> {
    if let Some(open) = faults.iter().find(|one| one.recovered_open) {
        let observed = number::seconds(open.observed_s);
        return Err(format!("did not see throughput back within {observed} after the {}", open.name));
    }
    let longest = faults.iter().filter_map(|one| one.recovered_s).max_by(f64::total_cmp);
    let quantity = longest.map(|value| Quantity { value, n: faults.len() as u64 });
    quantity.ok_or_else(|| "has no fault after which recovery was seen".to_owned())
}

/// Describes a fault with its effects, without a full stop.
pub fn sentence(view: &FaultView) -> String {
    let mut head = name::at(&view.name, view.at_s);
    let late_s = view.at_s - view.planned_s;
    if late_s >= LATE_S {
        head += &format!(", {} later than planned", number::seconds(late_s));
    }
    let error = match (&view.error, view.taken_s) {
        (Some(error), _) if view.is_skipped => return format!("{head} was skipped: {error}"),
        (Some(error), None) => return format!("{head} failed: {error}"),
        (Some(error), Some(_)) if view.healed_s.is_none() => format!("; it was not healed: {error}"),
        (Some(error), Some(_)) => format!("; {error}"),
        (None, _) => String::new(),
    };
    let mut effects: Vec<String> = Vec::new();
    match view.outage_s {
        None if !observed::is_observed(view.left_s) => {
            effects.push("its effect was not observed: the load ended then".to_owned());
        }
        None => effects.push("its effect on clients was not counted".to_owned()),
        Some(_) if view.is_unnoticed() => effects.push("no client noticed".to_owned()),
        Some(_) if view.noticed_s.is_none() => effects.push("no operation failed".to_owned()),
        Some(0.0) => effects.push("no outage".to_owned()),
        Some(_) => {}
    }
    effects.extend(no_answer(view, false));
    effects.extend(view.noticed_s.map(|noticed_s| match noticed_s * 1e9 < TICK_NS as f64 {
        true => "noticed within 10 ms".to_owned(),
        false => format!("noticed after {}", number::seconds(noticed_s)),
    }));
    match view.recovered_s {
        _ if view.recovery_after_next_s().is_some() => {
            let next = number::seconds(view.next_s().unwrap_or_default());
            effects.push(format!("throughput not back when the next fault began after {next}"));
        }
        Some(0.0) if view.noticed_s.is_some() => effects.push("throughput did not fall".to_owned()),
        Some(0.0) => {}
        Some(after_s) => effects.push(format!("throughput back after {}", number::seconds(after_s))),
        None if view.recovered_open => {
            effects.push(format!("throughput not back within {}", number::seconds(view.observed_s)));
        }
        None if view.noticed_s.is_none() && view.outage_s.is_some() => {
            effects.push("change of throughput not known".to_owned());
        }
        None => {}
    }
    effects.extend(view.missed.iter().map(missed::words));
    effects.extend(view.backlog.map(backlog::words));
    let counts = [
        (view.unknown, "outcome unknown", "outcomes unknown"),
        (view.rejected, "operation rejected", "operations rejected"),
    ];
    let counts = counts.iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| number::plural(*n, one, many));
    let mut counts: Vec<String> = counts.collect();
    if let (Some(writes), Some(unknown)) = (view.unknown_writes, counts.first_mut()) {
        *unknown += &format!(" (writes: {})", writes.words());
    }
    counts.extend(view.affected.filter(|_| !view.is_unnoticed()).and_then(affected::words));
    counts.extend(view.clients.and_then(clients::words));
    counts.extend(view.nodes.as_ref().and_then(nodes::words));
    counts.extend(view.key_parts.and_then(key_parts::words));
    counts.extend(stale::words(view));
    let copies = number::plural(view.duplicates, "duplicate record read", "duplicate records read");
    counts.extend((view.duplicates > 0).then_some(copies));
    counts.extend(view.lost.and_then(lost::words));
    let counts = if counts.is_empty() { String::new() } else { format!("; {}", counts.join(", ")) };
    let formula = view.failover.as_ref().map_or(String::new(), |one| format!("; {}", failover::words(one)));
    format!("{head}: {}{formula}{counts}{error}", effects.join(", "))
}

/// Returns `no answer for 3.10 s`; `None` without an outage. `of_several` is the longest of several.
fn no_answer(view: &FaultView, of_several: bool) -> Option<String> {
    let outage_s = view.outage_s.filter(|outage_s| *outage_s > 0.0)?;
    let words = match (view.outage_open, of_several) {
        (true, _) => "more than ",
        (false, true) => "up to ",
        (false, false) => "",
    };
    let timeout = match (view.outage_is_timeout, view.may_wait_to_connect) {
        (true, _) => " (as long as the time-out of operations)",
        (false, true) => " (clients may have waited for a connection)",
        (false, false) => "",
    };
    let healing = view.after_healing.as_ref().filter(|_| !of_several).map_or(String::new(), |one| {
        let again = match one.seconds < outage_s {
            true => format!("again for {}, ", one.length()),
            false => String::new(),
        };
        format!(" ({again}{})", one.cause())
    });
    Some(format!("no answer for {words}{}{timeout}{healing}", number::seconds(outage_s)))
}

/// Returns `1 fault (kill of node 1, the primary)`, and the longest outage in words if it is known.
pub fn together(faults: &[&FaultView]) -> (String, Option<String>) {
    let names: IndexSet<&str> = faults.iter().map(|one| one.name.as_str()).collect();
    let more = if names.len() > NAMED_MAX { "; …" } else { "" };
    let named = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join("; ");
    let outages = faults.iter().filter_map(|one| Some((one.outage_s?, *one)));
    let longest = outages.max_by(|a, b| a.0.total_cmp(&b.0));
    let outage = longest.map(|(_, one)| no_answer(one, faults.len() > 1).unwrap_or_else(|| "no outage".to_owned()));
    let is_open = |one: &FaultView| one.recovered_open && one.recovery_after_next_s().is_none();
    let unrecovered = faults.iter().find(|one| is_open(one) && one.is_healed_before);
    let unrecovered =
        unrecovered.map(|one| format!(", throughput not back within {}", number::seconds(one.observed_s)));
    let outage = outage.map(|outage| outage + &unrecovered.unwrap_or_default());
    (format!("{} ({named}{more})", number::plural(faults.len() as u64, "fault", "faults")), outage)
}

/// Returns true if an outage of a phase, at `at_s` on the run's clock, is told with one of its faults.
pub fn has_outage(faults: &[&FaultView], place: (u32, u32), at_s: f64) -> bool {
    let is_there = |one: &FaultView| one.outage_at_s.is_some_and(|other| (other - at_s).abs() * 1e9 <= TICK_NS as f64);
    faults.iter().any(|one| one.place == place && is_there(one))
}

/// Returns the healing after which an outage began at `at_s` on the run's clock: `healing of the cut of node 1 at 11.46 s`.
pub fn healing_before(facts: &PhaseFacts<'_>, at_s: f64) -> Option<String> {
    let after = |one: FaultView| {
        let healed_s = one.at_s + one.healed_s?;
        let is_its = (healed_s + one.after_healing?.after_s - at_s).abs() * 1e9 <= TICK_NS as f64;
        is_its.then(|| name::at(&format!("healing of the {}", one.name), healed_s))
    };
    of_phase(facts).into_iter().find_map(after)
}

/// Returns true if a fault of the trial was in effect in this time, or ended shortly before it.
pub fn is_near(facts: &PhaseFacts<'_>, (from_ns, to_ns): (u64, u64)) -> bool {
    let is_over = |span: &FaultSpan| ended_ns(span).is_some_and(|ended_ns| ended_ns + HEALED_NS < from_ns);
    facts.trial.faults.iter().any(|span| span.begun_ns <= to_ns && !span.detail.is_skipped && !is_over(span))
}

/// Effects of faults for which a driven phase is not judged. Goals judge them all the same.
#[derive(Debug, Default)]
pub struct Allowance {
    /// A fault of the disk, or one of an earlier phase: in effect in the whole phase.
    pub is_whole: bool,
    /// A fault was in effect at the planned end.
    pub is_to_end: bool,
    /// Counted operations that failed while faults were in effect.
    pub failed: u64,
}

/// Returns the effects of faults on `phase` of trial `trial`.
pub fn allowance(run: &Run, faults: &[FaultView], trial: u32, phase: &PhaseView) -> Allowance {
    let is_whole = |span: &FaultSpan| {
        let is_of_phase = span.phase == phase.ordinal && span.kind == FaultKind::Disk;
        let is_over = ended_ns(span).is_some_and(|ended_ns| (ended_ns as f64 / 1e9) < phase.start_s);
        (is_of_phase || span.phase < phase.ordinal) && !is_over
    };
    let is_whole = run.faults().any(|span| span.trial == trial && is_whole(span));
    let here: Vec<&FaultView> = faults.iter().filter(|one| one.place == (trial, phase.ordinal)).collect();
    let ordinal = Some(trial);
    let trial = run.trials.iter().find(|one| one.header.ordinal == trial);
    let has_new_code = |from_ns: u64, to_ns: u64| {
        let of_trial = run.events.iter().filter(|event| event.class == EventClass::ErrorCode && event.trial == ordinal);
        of_trial.into_iter().any(|event| event.from_ns > from_ns && event.from_ns <= to_ns)
    };
    // The errors of a fault may go on for some seconds, but those of another sort are not its own.
    let effect_ns = |one: &FaultView| {
        let grace_ns = one.ended_ns.map_or(0, |ended_ns| ended_ns + HEALED_NS);
        let (from_ns, to_ns) = one.effect_ns;
        (from_ns, if has_new_code(to_ns, grace_ns) { to_ns } else { to_ns.max(grace_ns) })
    };
    let effects_ns: Vec<(u64, u64)> = here.iter().map(|one| effect_ns(one)).collect();
    let recorded = trial.and_then(|trial| {
        let recorded = trial.phases.iter().find(|one| one.header.ordinal == phase.ordinal)?;
        (!here.is_empty()).then(|| PhaseFacts::gather(trial, recorded))
    });
    let is_in =
        |slice: &&Slice<Distribution>| effects_ns.iter().any(|one| overlap((slice.start_ns, slice.end_ns), *one));
    let failed = recorded.map_or(0, |facts| {
        let slices = facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice)).filter(is_in);
        let ended = slices.flat_map(|slice| facts.ended(slice)).filter(|one| one.outcome.is_error());
        ended.map(|one| one.histogram.len()).sum()
    });
    Allowance { is_whole, is_to_end: here.iter().any(|one| one.is_to_end), failed }
}
