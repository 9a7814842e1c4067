//! Slow moments of a driven phase: neighbouring slices in which the number of slow operations, the throughput or the
//! errors leave their usual range, or a session has no answer. Pauses of the machine, faults and commands for servers
//! are named as causes at once.

use std::ops::Range;

use plimsoll_core::{Pause, Slice};
use plimsoll_record::Distribution;
use plimsoll_record::data::Run;

use super::raised::{self, Counts, Window};
use super::robust;
use crate::faults;
use crate::latency::{self, Times};
use crate::name;
use crate::phase::PhaseFacts;
use crate::stall;
use crate::stat;
use crate::ticks::PhaseTicks;

/// Ratio to the usual percentile from which operations are slow.
const SLOW_TIMES: f64 = 1.2;
/// Standard deviations of the percentile of a slice from which a percentile is worth a moment, if that is more.
const SLOWER_FAR: f64 = 3.0;
/// Standard deviations from which operations that pauses did not disturb are slow as well.
const REST_FAR: f64 = 2.0;
/// Share of the clients that one session has to be, and ratio of its wait to the usual one, for its hanging to count.
const HUNG_SHARE: f64 = 0.05;
const HUNG_TIMES: f64 = 10.0;
/// Share of the due operations of a slice from which its schedule did not want more.
const DUE: f64 = 0.9;
/// Fewest operations of a usual slice whose throughput says something.
const OPS_MIN: f64 = 50.0;
/// Share of the slices from which slow ones are not outliers.
const SLOW_SHARE_MAX: f64 = 0.4;
/// Slices without which nothing is usual.
pub const SLICES_MIN: usize = 8;
/// Percentiles of a slice, best first: the first is taken that most slices have.
const PERCENTILES: [&str; 3] = ["p99", "p95", "p90"];
/// Share of a slow operation's excess that a pause must be long enough for. The witness sees up to a period less.
const LONG_ENOUGH: f64 = 0.8;
/// Share of the operations of a moment from which pauses that disturbed them are named.
const DISTURBED: f64 = 0.5;
/// Slices after the end of an action in which a moment still begins because of it.
const AFTERMATH: u64 = 2;
/// Shortest silence from whose beginning on an action is too late to be its cause, in nanoseconds.
const SILENT_MIN_NS: u64 = 100_000_000;
/// Slow slices before an action, or a pause, from which the moment began without it.
const LATE: usize = 2;

/// Ratios to the usual values that are worth a moment.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    percentile: f64,
    throughput: f64,
    errors: f64,
}

/// Sizes of moments, the smallest first: larger ones count in phases of which too many slices are slow by smaller ones.
/// Of eight sessions one that hangs takes an eighth of the throughput, less by noise.
const SIZES: [Sizes; 3] = [
    Sizes { percentile: 1.5, throughput: 0.93, errors: 1.5 },
    Sizes { percentile: 2.0, throughput: 0.7, errors: 2.0 },
    Sizes { percentile: 3.0, throughput: 0.5, errors: 3.0 },
];

/// A cause that needs no search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Pauses of the machine.
    Pause,
    /// Faults of the plan and commands for servers, each with its time: the one with which the moment begins, and those
    /// that begin later in it.
    Acts(Vec<String>),
}

/// A slow moment: the first slice, and the slice after its last.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowMoment {
    pub first: usize,
    pub end: usize,
    pub start_ns: u64,
    pub end_ns: u64,
    pub known: Option<Known>,
    /// Share of its operations that pauses of the machine disturbed, if that is most of them.
    pub disturbed: Option<f64>,
}

/// A driven phase with its slow moments.
pub struct SlowPhase<'f, 'a> {
    pub facts: &'f PhaseFacts<'a>,
    /// Slices that are compared, with their throughput.
    pub slices: Vec<(&'a Slice<Distribution>, f64)>,
    /// Length of the longest.
    pub slice_ns: u64,
    /// Percentile that most slices have, and its value in each in nanoseconds, at least 1; `None` if most have too few
    /// operations, or the load changes, and latency with it.
    pub percentile: Option<(&'static str, Vec<Option<f64>>)>,
    /// Slow moments in time order; of a phase that is slow in too many slices, only outages by faults.
    pub moments: Vec<SlowMoment>,
    /// True if the phase is slow in too many slices.
    pub is_mostly_slow: bool,
}

/// State of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Usual,
    Slow,
    /// Slow, and usual without operations that a pause of the machine disturbed.
    Paused,
}

impl<'f, 'a> SlowPhase<'f, 'a> {
    /// Returns the phase; `None` with too few slices to compare.
    pub fn of(run: &Run, facts: &'f PhaseFacts<'a>) -> Option<Self> {
        let slices: Vec<(&'a Slice<Distribution>, f64)> = facts.slice_rates(false).collect();
        let slice_ns = slices.iter().map(|(slice, _)| slice.length_ns()).max()?;
        if slices.len() < SLICES_MIN {
            return None;
        }
        let is_steady = facts.phase.header.stages.is_empty();
        let times: Vec<Times> = slices.iter().map(|(slice, _)| facts.waited_in(slice, None)).collect();
        let percentile = if is_steady { slice_percentiles(&times) } else { None };
        let mut phase = SlowPhase { facts, slices, slice_ns, percentile, moments: Vec::new(), is_mostly_slow: false };
        (phase.moments, phase.is_mostly_slow) = phase.find(run, &times, is_steady);
        Some(phase)
    }

    /// Returns the slow moments, and true if too many slices are slow.
    fn find(&self, run: &Run, times: &[Times], is_steady: bool) -> (Vec<SlowMoment>, bool) {
        let (facts, slices) = (self.facts, &self.slices);
        let is_mostly = |states: &[State]| {
            let slow = states.iter().filter(|state| **state != State::Usual).count();
            slow as f64 > SLOW_SHARE_MAX * slices.len() as f64
        };
        let states = SIZES.into_iter().map(|sizes| self.states(times, is_steady, sizes)).find(|one| !is_mostly(one));
        let (mut moments, is_mostly_slow) = (Vec::new(), states.is_none());
        let mut states = states.unwrap_or_else(|| vec![State::Usual; slices.len()]);
        by_outages(facts, slices, &mut states);
        let acts = Acts::of(run, facts);
        let mut first = 0;
        for same in states.chunk_by(|a, b| (*a == State::Usual) == (*b == State::Usual)) {
            let end = first + same.len();
            if same[0] != State::Usual {
                moments.extend(self.parts(&acts, first, same));
            }
            first = end;
        }
        (moments, is_mostly_slow)
    }

    /// Returns a moment with these states from slice `first` on, in parts if another known cause begins in it.
    fn parts(&self, acts: &Acts, first: usize, states: &[State]) -> Vec<SlowMoment> {
        let moment = &self.slices[first..first + states.len()];
        let (act, pause) = (later_act(acts, moment, self.slice_ns), later_pause(moment, states));
        let mut starts: Vec<usize> = std::iter::once(0).chain(act).chain(pause).collect();
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([moment.len()]);
        let part = |(from, end): (usize, usize)| {
            let slices = &moment[from..end];
            let acts = acts_of(acts, slices, self.slice_ns);
            let in_act = (!acts.is_empty()).then_some(Known::Acts(acts));
            let is_paused = states[from..end].iter().all(|state| *state == State::Paused);
            let in_pause = is_paused.then_some(Known::Pause);
            // The effect of an earlier action may go on meanwhile.
            let known = if pause == Some(from) { in_pause.or(in_act) } else { in_act.or(in_pause) };
            let disturbed = share_disturbed(self.facts, slices).filter(|share| *share >= DISTURBED);
            let (start_ns, end_ns) = (slices[0].0.start_ns, slices[slices.len() - 1].0.end_ns);
            SlowMoment { first: first + from, end: first + end, start_ns, end_ns, known, disturbed }
        };
        starts.iter().copied().zip(ends).map(part).collect()
    }

    /// Returns the state of each slice, without regard to faults.
    fn states(&self, times: &[Times], is_steady: bool, sizes: Sizes) -> Vec<State> {
        let (facts, slices) = (self.facts, &self.slices);
        let mut states = vec![State::Usual; slices.len()];
        if let Some((name, values)) = &self.percentile {
            by_latency(facts, slices, times, (*name, values.as_slice(), sizes.percentile), &mut states);
        }
        // With fewer clients throughput falls.
        if facts.open_loop || is_steady {
            by_throughput(facts, slices, sizes.throughput, &mut states);
        }
        by_hangs(facts, slices, &mut states);
        by_errors(facts, slices, sizes.errors, &mut states);
        states
    }
}

/// Returns beginning, end and name of the faults of a phase, until clients no longer notice them, and of the commands
/// for its servers, in time order.
pub fn acts(run: &Run, facts: &PhaseFacts<'_>) -> Vec<(u64, u64, String)> {
    let faults = faults::of_phase(facts).into_iter();
    let faults = faults.map(|fault| (fault.effect_ns.0, fault.effect_ns.1, name::at(&fault.name, fault.at_s)));
    let trial = Some(facts.trial.header.ordinal);
    let events = run.events.iter().filter(|event| event.class.is_action() && event.trial == trial);
    let commands =
        events.map(|event| (event.from_ns, event.until_ns, name::at(&event.text, event.from_ns as f64 / 1e9)));
    let mut acts: Vec<(u64, u64, String)> = faults.chain(commands).collect();
    acts.sort_by_key(|(from_ns, ..)| *from_ns);
    acts
}

/// Actions of a phase, and the times in which nothing was answered.
struct Acts {
    /// Beginning, end and name, in time order.
    all: Vec<(u64, u64, String)>,
    silences: Vec<(u64, u64)>,
    /// Longest silence that is no effect.
    usual_ns: u64,
}

impl Acts {
    fn of(run: &Run, facts: &PhaseFacts<'_>) -> Self {
        let all = acts(run, facts);
        let silences = PhaseTicks::of(facts).map_or_else(Vec::new, |ticks| ticks.runs(|tick| tick.answered == 0));
        let first_ns = all.first().map_or(u64::MAX, |(from_ns, ..)| *from_ns);
        let before = silences.iter().filter(|(_, until_ns)| *until_ns <= first_ns);
        let usual_ns = before.map(|(from_ns, until_ns)| until_ns - from_ns).max().unwrap_or(0).max(SILENT_MIN_NS);
        Self { all, silences, usual_ns }
    }

    /// Returns false for a time in an unusual silence: an effect does not come before its cause.
    fn may_begin(&self, at_ns: u64) -> bool {
        let is_in = |(from_ns, until_ns): &(u64, u64)| from_ns + self.usual_ns < at_ns && at_ns < *until_ns;
        !self.silences.iter().any(is_in)
    }
}

/// Returns the names of the actions in whose effect a moment of these slices lies. It begins with the first that began
/// in its first slice, or shortly before; otherwise with the last of those before, or the first in its second slice.
/// The effect of an earlier one may go on meanwhile. Those that begin later, before the last slice, have a part in the
/// moment as well.
fn acts_of(acts: &Acts, moment: &[(&Slice<Distribution>, f64)], slice_ns: u64) -> Vec<String> {
    let [(first, _), ..] = moment else { return Vec::new() };
    let (last, _) = moment[moment.len() - 1];
    let (start_ns, end_ns) = (first.start_ns, last.end_ns);
    let is_near = |(from_ns, until_ns, _): &&(u64, u64, String)| {
        start_ns <= until_ns.saturating_add(AFTERMATH * slice_ns) && end_ns > *from_ns
    };
    let near: Vec<&(u64, u64, String)> = acts.all.iter().filter(is_near).collect();
    // An action late in a slice slows the next one.
    let since_ns = start_ns.saturating_sub(slice_ns / 2);
    let may_begin = |from_ns: u64, until_ns: u64| from_ns < until_ns && acts.may_begin(from_ns);
    let begun = near.iter().position(|(from_ns, ..)| *from_ns >= since_ns && may_begin(*from_ns, first.end_ns));
    let before = || near.iter().rposition(|(from_ns, ..)| *from_ns < since_ns);
    let second_ns = moment.get(LATE - 1).map_or(end_ns, |(slice, _)| slice.end_ns);
    let in_second = || near.iter().position(|(from_ns, ..)| may_begin(*from_ns, second_ns));
    let Some(begins_with) = begun.or_else(before).or_else(in_second) else { return Vec::new() };
    let is_part = |at: usize| at == begins_with || (at > begins_with && near[at].0 < last.start_ns);
    near.iter().enumerate().filter(|(at, _)| is_part(*at)).map(|(_, (.., name))| name.clone()).collect()
}

/// Returns the slice of a moment in which an action begins, if the moment began for another reason: without an action.
fn later_act(acts: &Acts, moment: &[(&Slice<Distribution>, f64)], slice_ns: u64) -> Option<usize> {
    let [.., (last, _)] = moment else { return None };
    let (since_ns, until_ns) = (moment.get(LATE)?.0.start_ns, last.start_ns);
    if !acts_of(acts, &moment[..LATE], slice_ns).is_empty() {
        return None;
    }
    let is_cause = |from_ns: u64| (since_ns..until_ns).contains(&from_ns) && acts.may_begin(from_ns);
    let (from_ns, ..) = acts.all.iter().find(|(from_ns, ..)| is_cause(*from_ns))?;
    moment.iter().position(|(slice, _)| slice.end_ns > *from_ns)
}

/// Returns the slice of a moment from which on it is slow by pauses alone, if these begin there.
fn later_pause(moment: &[(&Slice<Distribution>, f64)], states: &[State]) -> Option<usize> {
    let at = states.iter().rposition(|state| *state != State::Paused)? + 1;
    let paused = moment.get(at..).filter(|_| at >= LATE)?;
    let pauses = paused.iter().filter_map(|(slice, _)| slice.watched.as_ref()).flat_map(|watched| &watched.pauses);
    let since_ns = pauses.map(|pause| pause.start_ns).min()?;
    (since_ns >= paused.first()?.0.start_ns).then_some(at)
}

/// Marks the slice at `at` as slow, or as paused if it is not slow for another reason.
fn mark(states: &mut [State], at: usize, is_pause: bool) {
    states[at] = match (states[at], is_pause) {
        (State::Slow, _) | (_, false) => State::Slow,
        (_, true) => State::Paused,
    };
}

/// Share of the slice that lies in pauses of the machine and their aftermath; 0 if they were not observed.
fn disturbed(slice: &Slice<Distribution>) -> f64 {
    let disturbed_ns = slice.watched.as_ref().map_or(0, |watched| watched.disturbed_ns);
    disturbed_ns as f64 / slice.length_ns().max(1) as f64
}

/// Returns the share of the operations of these slices that pauses disturbed; `None` if they were not observed.
fn share_disturbed(facts: &PhaseFacts<'_>, slices: &[(&Slice<Distribution>, f64)]) -> Option<f64> {
    let (mut all, mut rest) = (0, 0);
    for (slice, _) in slices {
        all += facts.waited_in(slice, None).len();
        rest += facts.judged_slice(slice, None)?.len();
    }
    (all > 0).then(|| 1.0 - rest as f64 / all as f64)
}

/// Returns the length of the longest time in the slice at `at` that pauses and their aftermaths hold without a gap. An
/// operation that they delay is delayed no longer.
fn longest_ns(slices: &[(&Slice<Distribution>, f64)], at: usize) -> u64 {
    // A pause belongs to the slice in which it ended: its beginning, and its aftermath, may lie in another.
    let near = &slices[at.saturating_sub(1)..slices.len().min(at + 2)];
    let pauses = near.iter().filter_map(|(slice, _)| slice.watched.as_ref()).flat_map(|watched| &watched.pauses);
    let mut spans: Vec<(u64, u64)> = pauses.map(|pause| (pause.start_ns, Pause::until_ns(pause))).collect();
    spans.sort_unstable();
    let mut whole: Vec<(u64, u64)> = Vec::new();
    for (from_ns, until_ns) in spans {
        match whole.last_mut().filter(|(_, end_ns)| *end_ns >= from_ns) {
            Some((_, end_ns)) => *end_ns = until_ns.max(*end_ns),
            None => whole.push((from_ns, until_ns)),
        }
    }
    let slice = slices[at].0;
    let inside = whole.iter().filter(|(from_ns, until_ns)| *from_ns < slice.end_ns && *until_ns > slice.start_ns);
    inside.map(|(from_ns, until_ns)| until_ns - from_ns).max().unwrap_or(0)
}

/// Returns the percentile that most slices have, and its value in each slice in nanoseconds, at least 1.
fn slice_percentiles(times: &[Times]) -> Option<(&'static str, Vec<Option<f64>>)> {
    PERCENTILES.iter().find_map(|percentile| {
        let values = times.iter().map(|times| times.percentile(percentile).ok().map(|ns| ns.max(1) as f64));
        let values: Vec<Option<f64>> = values.collect();
        let known = values.iter().flatten().count();
        (known >= SLICES_MIN && known * 2 > values.len()).then_some((*percentile, values))
    })
}

fn by_latency(
    facts: &PhaseFacts<'_>,
    slices: &[(&Slice<Distribution>, f64)],
    times: &[Times],
    (percentile, values, size): (&str, &[Option<f64>], f64),
    states: &mut [State],
) {
    let usual = robust::usual(values);
    let each = |of: &dyn Fn(&Times, f64) -> u64| -> Vec<f64> {
        times.iter().zip(&usual).map(|(times, usual)| of(times, *usual) as f64).collect()
    };
    let slow = each(&|times, usual| times.above(SLOW_TIMES * usual));
    let faster =
        values.iter().zip(&usual).filter_map(|(ns, usual)| Some(((*ns)? / usual).ln()).filter(|log| *log < 0.0));
    let slower_times = (SLOWER_FAR * robust::spread(&faster.collect::<Vec<f64>>())).exp().max(size);
    let slower = each(&|times, usual| times.above(slower_times * usual));
    let ops = each(&|times, _| times.len());
    // The percentile of all operations of a window is this much slower if so many of them are.
    let per = latency::PERCENTILES.iter().find(|(name, _)| *name == percentile).map_or(1.0, |(_, per)| *per as f64);
    let is_large = |at: &Range<usize>, _| sum(&slower, at) * per > sum(&ops, at);
    for Window { slices: at, usual: expected, spread, .. } in
        (Counts { seen: &slow, of: &ops, sign: 1.0 }).windows(is_large)
    {
        let rest = at.clone().try_fold((0.0, 0.0), |(slow, len), one| {
            let times = facts.judged_slice(slices[one].0, None)?;
            Some((slow + times.above(SLOW_TIMES * usual[one]) as f64, len + times.len() as f64))
        });
        let is_rest_usual = rest
            .is_some_and(|(slow, len)| raised::distance(slow, expected * len / sum(&ops, &at)) <= REST_FAR * spread);
        let excess_ns = |one: usize| values[one].unwrap_or(times[one].max_ns() as f64) - usual[one];
        let excess_ns = at.clone().map(excess_ns).fold(0.0, f64::max);
        let longest_ns = at.clone().map(|one| longest_ns(slices, one)).max().unwrap_or(0);
        let is_pause = is_rest_usual && longest_ns as f64 >= LONG_ENOUGH * excess_ns;
        at.for_each(|one| mark(states, one, is_pause));
    }
}

/// Returns the sum of the values of these slices.
fn sum(values: &[f64], slices: &Range<usize>) -> f64 {
    values[slices.clone()].iter().sum()
}

/// Returns the lengths of the slices in seconds.
fn seconds(slices: &[(&Slice<Distribution>, f64)]) -> Vec<f64> {
    slices.iter().map(|(slice, _)| slice.length_ns() as f64 / 1e9).collect()
}

fn by_throughput(facts: &PhaseFacts<'_>, slices: &[(&Slice<Distribution>, f64)], size: f64, states: &mut [State]) {
    let seconds = seconds(slices);
    let done: Vec<f64> = slices.iter().zip(&seconds).map(|((_, rate), seconds)| rate * seconds).collect();
    let due = slices.iter().zip(&seconds).map(|((slice, _), seconds)| match facts.open_loop {
        true => DUE * stall::due_per_s(facts, slice) * seconds,
        false => f64::INFINITY,
    });
    let due: Vec<f64> = due.collect();
    let is_large = |at: &Range<usize>, usual: f64| {
        let done = sum(&done, at);
        usual >= OPS_MIN && done < size * usual && done < sum(&due, at)
    };
    for Window { slices: at, usual, .. } in (Counts { seen: &done, of: &seconds, sign: -1.0 }).windows(is_large) {
        let paused_s: f64 = at.clone().map(|one| disturbed(slices[one].0) * seconds[one]).sum();
        let is_pause = paused_s >= sum(&seconds, &at) * (1.0 - sum(&done, &at) / (size * usual));
        at.for_each(|one| mark(states, one, is_pause));
    }
}

/// Marks the slices in which an operation waited from their beginning to their end. Of few clients each is a share of
/// the load, which the noise of throughput may hide.
fn by_hangs(facts: &PhaseFacts<'_>, slices: &[(&Slice<Distribution>, f64)], states: &mut [State]) {
    if f64::from(facts.phase.header.clients) * HUNG_SHARE > 1.0 {
        return;
    }
    let ages: Vec<f64> = slices.iter().map(|(slice, _)| slice.oldest_age_ns as f64).collect();
    let usual = stat::median(&ages).unwrap_or(0.0);
    for (at, (slice, _)) in slices.iter().enumerate() {
        if ages[at] >= slice.length_ns() as f64 && ages[at] >= HUNG_TIMES * usual {
            mark(states, at, longest_ns(slices, at) as f64 >= LONG_ENOUGH * ages[at]);
        }
    }
}

/// Marks the slices of which the outage by a fault takes the greater part, and the one that has the most of it.
fn by_outages(facts: &PhaseFacts<'_>, slices: &[(&Slice<Distribution>, f64)], states: &mut [State]) {
    for fault in faults::of_phase(facts) {
        let outage = fault.outage_at_s.zip(fault.outage_s);
        let Some((from_ns, length_ns)) = outage.map(|(at, length)| ((at * 1e9) as u64, (length * 1e9) as u64)) else {
            continue;
        };
        let until_ns = from_ns.saturating_add(length_ns);
        let inside =
            |slice: &Slice<Distribution>| until_ns.min(slice.end_ns).saturating_sub(from_ns.max(slice.start_ns));
        let most_ns = slices.iter().map(|(slice, _)| inside(slice)).max().filter(|most_ns| *most_ns > 0);
        for (at, (slice, _)) in slices.iter().enumerate() {
            let inside_ns = inside(slice);
            if Some(inside_ns) == most_ns || inside_ns * 2 > slice.length_ns() {
                mark(states, at, false);
            }
        }
    }
}

fn by_errors(facts: &PhaseFacts<'_>, slices: &[(&Slice<Distribution>, f64)], size: f64, states: &mut [State]) {
    let errors = |slice: &Slice<Distribution>| -> u64 {
        facts.ended(slice).filter(|one| one.outcome.is_error()).map(|one| one.histogram.len()).sum()
    };
    let counts: Vec<f64> = slices.iter().map(|(slice, _)| errors(slice) as f64).collect();
    let seconds = seconds(slices);
    let is_large = |at: &Range<usize>, usual: f64| sum(&counts, at) >= size * usual;
    for Window { slices: at, .. } in (Counts { seen: &counts, of: &seconds, sign: 1.0 }).windows(is_large) {
        at.for_each(|one| mark(states, one, false));
    }
}
