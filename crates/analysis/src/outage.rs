//! Outages: times in which a driven phase got no answer to any operation.
//!
//! Slices tell when operations ended. A silence lies between the last slice with an answer and the next one. Within the
//! bounds that these slices set, the longest response time in the next one tells its length: that operation had waited.
//! Phases with faults have ticks, which tell it to 10 ms.

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::{GoalKind, PhaseKind, PhaseState, ResultName, Run};

use crate::acts;
use crate::faults;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::ticks::PhaseTicks;
use crate::view::OutageView;

/// Shortest outage that is told, in seconds.
const LEAST_S: f64 = 1.0;
/// Answers that would usually have come meanwhile: with fewer, silence may be chance.
const ANSWERS_MIN: f64 = 20.0;
/// Time before an outage in which an action is named with it, in seconds.
const BEFORE_S: f64 = 1.0;
/// Most actions that are named with an outage: it is told in one line.
const ACTS_MAX: usize = 2;
/// Share of a closed loop's time, and seconds in any case, in which nothing may be answered for no known reason: a store
/// may flush, or collect garbage, and a busy machine may stand still.
const ABSENT_SHARE: f64 = 0.05;
const ABSENT_MIN_S: f64 = 2.0;

/// Returns the longest outage of a driven phase. Load steps have their own judgement, and without power none answers.
/// While a run only watches, silence may be a lack of clients.
pub fn outage(run: &Run, facts: &PhaseFacts<'_>) -> Option<OutageView> {
    longest(judged(run, facts).into_iter()).map(|one| shown(run, facts, &one))
}

/// Returns the longest outage of a closed loop, up to the planned end, that is longer than passes without a reason. Reasons
/// are faults of the plan, commands for a lab, and a goal on outages. `None` for an open loop: in that, response times hold
/// the wait. The time before the first answer does not count: a store may have to read its files first.
pub fn unexplained(run: &Run, facts: &PhaseFacts<'_>) -> Option<OutageView> {
    let has_goal = run.header.goals.iter().any(|goal| goal.what == GoalKind::Outage);
    if facts.open_loop || has_goal {
        return None;
    }
    let end_s = facts.counted().last()?.end_ns as f64 / 1e9;
    let least_s = ABSENT_MIN_S.max(ABSENT_SHARE * facts.counted_s);
    let is_unexplained = |one: &Silence| {
        let span_ns = one.span_ns(0.0);
        let has_begun =
            facts.phase.slices.iter().any(|slice| slice.start_ns <= span_ns.0 && answers(facts, slice).0 > 0);
        let trial = facts.trial.header.ordinal;
        has_begun && !faults::is_near(facts, span_ns) && !acts::is_commanded(run, trial, span_ns)
    };
    let within =
        judged(run, facts).into_iter().map(|one| Silence { seconds: one.seconds.min(end_s - one.at_s), ..one });
    longest(within.filter(|one| one.seconds > least_s && is_unexplained(one))).map(|one| shown(run, facts, &one))
}

/// Returns the silences of a phase of which outages are told.
fn judged(run: &Run, facts: &PhaseFacts<'_>) -> Vec<Silence> {
    let header = &facts.phase.header;
    let is_void = matches!(facts.phase.end.state, PhaseState::Void(_));
    let is_driven = header.kind == PhaseKind::Drive && !run.header.outline.watched;
    match is_driven && header.rung.is_none() && !has_cut(facts) && !is_void {
        true => told(facts).collect(),
        false => Vec::new(),
    }
}

/// Returns the outage as reports show it, with the actions around it.
fn shown(run: &Run, facts: &PhaseFacts<'_>, silence: &Silence) -> OutageView {
    let mut with = acts::begun(run, facts.trial.header.ordinal, silence.span_ns(BEFORE_S), ACTS_MAX);
    if with.is_empty() {
        with.extend(faults::healing_before(facts, silence.at_s));
    }
    let Silence { at_s, seconds, is_open, .. } = *silence;
    OutageView { at_s, seconds, open: is_open, with, place: String::new() }
}

/// Returns the silences of a driven phase that are no chance.
fn told(facts: &PhaseFacts<'_>) -> impl Iterator<Item = Silence> {
    let usual_per_s = usual_per_s(facts).unwrap_or(0.0);
    let is_told = move |one: &Silence| one.seconds >= LEAST_S && one.least_s * usual_per_s >= ANSWERS_MIN;
    silences(facts).into_iter().filter(is_told)
}

/// Returns the length of an outage that had not ended when observation ended, in seconds; it was longer.
pub fn open_s(facts: &PhaseFacts<'_>) -> Option<f64> {
    let is_open = |one: &Silence| one.is_open && !has_cut(facts);
    longest(told(facts).filter(is_open)).map(|one| one.seconds)
}

/// Returns true if the longest silence of a driven phase is an outage that had not ended when observation ended.
pub fn is_open(facts: &PhaseFacts<'_>) -> bool {
    open_s(facts).is_some_and(|open_s| open_s >= longest_s(facts))
}

/// Returns the median of times in seconds, and true if it is a lower bound; `None` without any. Each time is given with
/// true if it had not ended: such a time counts as longer than all that ended.
pub fn median(times: &[(f64, bool)]) -> Option<(f64, bool)> {
    let counted = |(seconds, is_open): &(f64, bool)| if *is_open { f64::INFINITY } else { *seconds };
    let ended_s = stat::median_of(times.iter().map(counted))?;
    match ended_s.is_finite() {
        true => Some((ended_s, false)),
        false => stat::median_of(times.iter().map(|(seconds, _)| *seconds)).map(|bound_s| (bound_s, true)),
    }
}

/// Returns the length of the longest silence of a driven phase, in seconds, or 0 if every slice has answers.
pub fn longest_s(facts: &PhaseFacts<'_>) -> f64 {
    longest(silences(facts).into_iter()).map_or(0.0, |one| one.seconds)
}

/// Returns true if a power cut is part of the trial.
fn has_cut(facts: &PhaseFacts<'_>) -> bool {
    facts.trial.phases.iter().any(|phase| phase.header.kind == PhaseKind::Power)
}

/// Time without answers although operations waited for them.
struct Silence {
    at_s: f64,
    seconds: f64,
    /// Length of its empty slices, or of its part before the planned end.
    least_s: f64,
    /// True if the outage had not ended when observation ended.
    is_open: bool,
}

impl Silence {
    /// Returns the time from `before_s` before the silence to its end, in nanoseconds.
    fn span_ns(&self, before_s: f64) -> (u64, u64) {
        let ns = |at_s: f64| (at_s.max(0.0) * 1e9).round() as u64;
        (ns(self.at_s - before_s), ns(self.at_s + self.seconds))
    }
}

fn longest(silences: impl Iterator<Item = Silence>) -> Option<Silence> {
    silences.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// Returns the median number of answers a second, of slices with answers.
fn usual_per_s(facts: &PhaseFacts<'_>) -> Option<f64> {
    let rates = facts.counted().map(|slice| (answers(facts, slice).0 as f64, seconds(slice.start_ns, slice.end_ns)));
    stat::median(&rates.filter(|(n, _)| *n > 0.0).map(|(n, seconds)| n / seconds).collect::<Vec<_>>())
}

/// Returns the silences of a driven phase, by its ticks if it has some. The drain may prolong the last one.
fn silences(facts: &PhaseFacts<'_>) -> Vec<Silence> {
    PhaseTicks::of(facts).map_or_else(|| silences_of_slices(facts), |ticks| silences_of_ticks(facts, &ticks))
}

/// Returns the times without an answer in which operations waited.
fn silences_of_ticks(facts: &PhaseFacts<'_>, ticks: &PhaseTicks) -> Vec<Silence> {
    let has_cut = has_cut(facts);
    let counted = ticks.part(|tick| !(tick.is_warmup || tick.is_drain && has_cut));
    let within = |from: u64, to: u64| facts.counted().filter(move |slice| slice.start_ns >= from && slice.end_ns <= to);
    let silence = |(from, to): (u64, u64)| {
        let least_s = seconds(from, to.min(ticks.planned_end_ns()));
        let is_silence = least_s > 0.0 && within(from, to).all(|slice| is_waiting(facts, slice));
        is_silence.then(|| Silence {
            at_s: from as f64 / 1e9,
            seconds: seconds(from, to),
            least_s,
            is_open: to >= ticks.end_ns(),
        })
    };
    counted.runs(|tick| tick.answered == 0).into_iter().filter_map(silence).collect()
}

/// Returns the silences that have an empty slice.
fn silences_of_slices(facts: &PhaseFacts<'_>) -> Vec<Silence> {
    let mut slices: Vec<&Slice<Distribution>> = facts.counted().collect();
    slices.extend(silent_drain(facts, &slices));
    let answers: Vec<(u64, u64)> = slices.iter().map(|slice| answers(facts, slice)).collect();
    let (Some(first), Some(last)) = (slices.first(), slices.last()) else { return Vec::new() };
    let (begin_ns, end_ns) = (first.start_ns, last.end_ns);
    let mut silences = Vec::new();
    let (mut from, mut from_end) = (begin_ns, begin_ns);
    let not_silent = slices.iter().zip(&answers).filter(|(slice, (n, _))| *n > 0 || !is_waiting(facts, slice));
    let not_silent = not_silent.map(|(slice, (_, max_ns))| (slice.start_ns, slice.end_ns, *max_ns));
    for (to, to_end, max_ns) in not_silent.chain([(end_ns, end_ns, 0)]) {
        let least_s = seconds(from_end, to);
        let length_s = (max_ns as f64 / 1e9).clamp(least_s, seconds(from, to_end).max(least_s));
        // What is longer than the empty slices lies before and after them alike.
        let at_s = (from_end as f64 / 1e9 - (length_s - least_s) / 2.0).max(from as f64 / 1e9);
        // Answers in slices side by side leave nothing that is known to be a silence.
        if least_s > 0.0 {
            // An answer in the drain ends it.
            let is_open = to == end_ns && !is_answered_after(facts, to);
            silences.push(Silence { at_s, seconds: length_s, least_s, is_open });
        }
        (from, from_end) = (to, to_end);
    }
    silences
}

/// Returns the slices of the drain up to the first in which an operation was answered or none was in flight; none if the
/// drain begins with answers. After that, operations without an answer are late themselves: no other one was sent.
fn silent_drain<'a>(facts: &PhaseFacts<'a>, counted: &[&'a Slice<Distribution>]) -> Vec<&'a Slice<Distribution>> {
    let is_silent = |slice: &Slice<Distribution>| answers(facts, slice).0 == 0 && slice.in_flight > 0;
    let mut drain: Vec<_> = facts.phase.slices.iter().filter(|slice| slice.drain).collect();
    let silent = drain.iter().take_while(|slice| is_silent(slice)).count();
    let has_begun = counted.last().is_some_and(|last| answers(facts, last).0 == 0 && is_waiting(facts, last));
    // In a closed loop all clients wait at the planned end. Otherwise few may, and one late operation is no outage.
    let usual = stat::median(&counted.iter().map(|slice| slice.in_flight as f64).collect::<Vec<_>>()).unwrap_or(0.0);
    let is_many = |slice: &&Slice<Distribution>| slice.in_flight > 1 && slice.in_flight as f64 >= usual;
    let begins = has_begun || is_always_waiting(facts) || drain.first().is_some_and(is_many);
    let is_outage = silent > 0 && begins && !counted.is_empty() && !has_cut(facts);
    drain.truncate(if is_outage { silent + 1 } else { 0 });
    drain
}

/// Returns the start of an outage, and its place if it is another one: `at 399 s in cut_off`.
pub fn at(outage: &OutageView) -> String {
    let place = if outage.place.is_empty() { String::new() } else { format!(" in {}", outage.place) };
    format!("at {}{place}", number::seconds(outage.at_s))
}

/// Describes an outage: its length, its start, and what was done then or shortly before.
pub fn words(outage: &OutageView) -> String {
    words_of(outage, &number::seconds(outage.seconds))
}

/// Describes an outage of this `length` in words, as [`words`] does.
pub fn words_of(outage: &OutageView, length: &str) -> String {
    let more = if outage.open { "more than " } else { "" };
    let span = format!("{more}{length} {}", at(outage));
    match outage.with.as_slice() {
        [] => span,
        with => format!("{span}, around then: {}", number::list(with)),
    }
}

/// Returns true if operations without an answer in `slice` waited for one. After the planned end, errors may be the end
/// of all that waited.
fn is_waiting(facts: &PhaseFacts<'_>, slice: &Slice<Distribution>) -> bool {
    let has_errors = facts.ended(slice).any(|one| !one.histogram.is_empty());
    let waits_unsent = slice.due_unsent > 0 || has_errors || is_always_waiting(facts);
    slice.in_flight > 0 || (!slice.drain && waits_unsent)
}

/// Returns true for a closed loop without rest: otherwise clients may think or be away, and a schedule may rest.
fn is_always_waiting(facts: &PhaseFacts<'_>) -> bool {
    let thinks = facts.phase.end.result(ResultName::ThinkSeconds).is_some_and(|think| think.value > 0.0);
    !(facts.open_loop || thinks || !facts.phase.header.stages.is_empty())
}

/// Number of operations that did not fail and ended in `slice`, and the longest response time of those; in the drain, of
/// all that ended.
fn answers(facts: &PhaseFacts<'_>, slice: &Slice<Distribution>) -> (u64, u64) {
    facts.ended(slice).fold((0, 0), |(n, max_ns), one| {
        let is_answered = !one.outcome.is_error();
        let longest = one.histogram.counts().last().filter(|_| is_answered || slice.drain).map_or(0, |(ns, _)| *ns);
        (n + if is_answered { one.histogram.len() } else { 0 }, max_ns.max(longest))
    })
}

/// Returns true if an operation was answered after `at_ns`: in the drain.
fn is_answered_after(facts: &PhaseFacts<'_>, at_ns: u64) -> bool {
    facts.phase.slices.iter().any(|slice| slice.end_ns > at_ns && answers(facts, slice).0 > 0)
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}
