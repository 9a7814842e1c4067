//! Stalls: seconds in which a phase did much less than in its others. A mean over a phase hides them.

use plimsoll_core::{Outcome, Slice};
use plimsoll_record::Distribution;
use plimsoll_record::data::{PhaseKind, ResultName, Run};

use crate::meanwhile::meanwhile;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::StallsView;

/// Share of a phase's usual throughput below which a slice is a stall.
const STALLED: f64 = 0.5;
/// Share of it down to which the clients of a load that is only watched may have sent less.
const SENT_LESS: f64 = 0.1;
/// Slices without which a median says little.
const SLICES_MIN: usize = 8;
/// Operations of a usual slice below which a slow one may be chance.
const OPS_MIN: f64 = 50.0;
/// Stalls whose times are said.
const NAMED_STALLS_MAX: usize = 5;
/// Spread of the times between events, as a share, up to which they come regularly, and times that this needs.
const REGULAR: f64 = 0.1;
const GAPS_MIN: usize = 4;

/// A stall.
struct Stall {
    start_ns: u64,
    end_ns: u64,
    least_per_s: f64,
}

/// Stalls of a phase, its mean and usual throughput, and the length of a slice.
struct Course {
    stalls: Vec<Stall>,
    mean_per_s: f64,
    usual_per_s: f64,
    slice_ns: u64,
}

/// Returns the driven phases. Load steps of a search have their own judgement.
pub fn driven<'f, 'a>(facts: &'f [Vec<PhaseFacts<'a>>]) -> impl Iterator<Item = &'f PhaseFacts<'a>> {
    facts.iter().flatten().filter(|facts| {
        let header = &facts.phase.header;
        header.kind == PhaseKind::Drive && header.rung.is_none()
    })
}

/// The stalls of every phase that drove, of those that had any.
pub fn stalls(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<StallsView> {
    driven(facts).filter_map(|facts| of_phase(run, facts)).collect()
}

/// Returns the starts and ends of a phase's stalls, in nanoseconds.
pub fn spans(run: &Run, facts: &PhaseFacts<'_>) -> Vec<(u64, u64)> {
    let stalls = course(run, facts).map_or(Vec::new(), |course| course.stalls);
    stalls.iter().map(|stall| (stall.start_ns, stall.end_ns)).collect()
}

fn course(run: &Run, facts: &PhaseFacts<'_>) -> Option<Course> {
    // Fewer clients do less.
    if !facts.open_loop && !facts.phase.header.stages.is_empty() {
        return None;
    }
    let longest = facts.phase.slices.iter().map(|slice| slice.length_ns()).max()?;
    let slices: Vec<(&Slice<Distribution>, f64)> = facts.slice_rates(false).collect();
    let rates: Vec<f64> = slices.iter().map(|(_, rate)| *rate).collect();
    let is_many = |usual: &f64| slices.len() >= SLICES_MIN && usual * longest as f64 / 1e9 >= OPS_MIN;
    let watched = run.header.outline.watched;
    // A stall may fill most of a phase: slices without an answer and those after a fault are then the median ones. The
    // clients of a load that is only watched may have been absent.
    let median = |until_ns: u64| {
        let usual = slices.iter().filter(|(slice, rate)| slice.end_ns <= until_ns && (watched || *rate > 0.0));
        stat::median_of(usual.map(|(_, rate)| *rate))
    };
    let before = facts.first_fault_ns().and_then(median);
    let usual = median(u64::MAX).into_iter().chain(before).reduce(f64::max).filter(is_many)?;
    // A schedule, or the clients of a load that is only watched, may have wanted no more in that second.
    let wanted = |slice: &Slice<Distribution>| match (watched, facts.open_loop) {
        (true, _) => due_per_s(facts, slice).max(SENT_LESS / STALLED * usual),
        (false, true) => due_per_s(facts, slice),
        (false, false) => usual,
    };
    let mut stalls: Vec<Stall> = Vec::new();
    for &(slice, rate) in &slices {
        if rate >= STALLED * usual.min(wanted(slice)) {
            continue;
        }
        match stalls.last_mut().filter(|last| last.end_ns + longest / 2 > slice.start_ns) {
            Some(last) => {
                last.end_ns = slice.end_ns;
                last.least_per_s = last.least_per_s.min(rate);
            }
            None => stalls.push(Stall { start_ns: slice.start_ns, end_ns: slice.end_ns, least_per_s: rate }),
        }
    }
    Some(Course { stalls, mean_per_s: stat::mean(&rates), usual_per_s: usual, slice_ns: longest })
}

fn of_phase(run: &Run, facts: &PhaseFacts<'_>) -> Option<StallsView> {
    let Course { stalls, mean_per_s, usual_per_s, slice_ns } =
        course(run, facts).filter(|course| !course.stalls.is_empty())?;
    let place = name::place(facts);
    let spans: Vec<(u64, u64)> = stalls.iter().map(|stall| (stall.start_ns, stall.end_ns)).collect();
    let with = meanwhile(run, facts, &spans, slice_ns);
    let stalled = if run.header.outline.watched { "it stalled, or its clients paused," } else { "it stalled" };
    Some(StallsView {
        sentence: sentence(&place, stalled, &stalls, (mean_per_s, usual_per_s), &with),
        place,
        spans_s: spans.iter().map(|(start, end)| (*start as f64 / 1e9, *end as f64 / 1e9)).collect(),
        mean_per_s,
        usual_per_s,
    })
}

/// Returns the rate at which operations of an open loop became due in a slice. They are those that ended, and the
/// increase of those that are pending. Of the failed tries the same share was sent again as in the whole phase.
pub fn due_per_s(facts: &PhaseFacts<'_>, slice: &Slice<Distribution>) -> f64 {
    let pending = |slice: &Slice<Distribution>| (slice.due_unsent + slice.in_flight) as f64;
    let before = slice.ordinal.checked_sub(1).and_then(|before| facts.phase.slices.get(before as usize));
    let [retries, given_up] = [ResultName::Retries, ResultName::GivenUp]
        .map(|name| facts.phase.end.result(name).map_or(0.0, |one| one.value));
    let again = if retries > 0.0 { retries / (retries + given_up) } else { 0.0 };
    let weight = |outcome: Outcome| if outcome.is_error() { 1.0 - again } else { 1.0 };
    let ended: f64 = facts.ended(slice).map(|one| one.histogram.len() as f64 * weight(one.outcome)).sum();
    let due = ended + pending(slice) - before.map_or(0.0, pending);
    due * 1e9 / slice.length_ns().max(1) as f64
}

/// Returns the shortest and longest time between events that begin at these seconds, as `3.00 s to 3.20 s`; `None`
/// unless they come regularly.
pub fn interval(starts_s: &[f64]) -> Option<String> {
    let gaps: Vec<f64> = starts_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = stat::median(&gaps).filter(|_| gaps.len() >= GAPS_MIN)?;
    let is_regular = gaps.iter().all(|gap| (gap / middle - 1.0).abs() <= REGULAR);
    let [least, most] = [f64::min, f64::max].map(|of| number::seconds(gaps.iter().copied().fold(middle, of)));
    is_regular.then(|| if least == most { least } else { format!("{least} to {most}") })
}

fn sentence(place: &str, stalled: &str, stalls: &[Stall], (mean, usual): (f64, f64), with: &str) -> String {
    let seconds = |stall: &Stall| (stall.end_ns - stall.start_ns) as f64 / 1e9;
    let longest = stalls.iter().map(seconds).fold(0.0, f64::max);
    let least = stalls.iter().map(|stall| stall.least_per_s).fold(f64::INFINITY, f64::min);
    let starts: Vec<f64> = stalls.iter().map(|stall| stall.start_ns as f64 / 1e9).collect();
    let regular = interval(&starts).map_or(String::new(), |interval| format!(", one every {interval}"));
    let (least, usual) = (number::with_unit(least, "1/s"), number::with_unit(usual, "1/s"));
    let which = match stalls {
        [one] => format!(
            "{stalled} for {} at {:.0} s: throughput fell from its usual {usual} to {least}",
            number::seconds(seconds(one)),
            one.start_ns as f64 / 1e9
        ),
        _ => format!(
            "{stalled} {} times{regular} (at {} s{}), for up to {}: throughput fell from its usual {usual} to {least} \
             at worst",
            number::count(stalls.len() as u64),
            starts.iter().take(NAMED_STALLS_MAX).map(|at| format!("{at:.0}")).collect::<Vec<_>>().join(", "),
            if starts.len() > NAMED_STALLS_MAX { ", …" } else { "" },
            number::seconds(longest)
        ),
    };
    format!("{place}: {which}, which the mean of {} hides{with}.", number::with_unit(mean, "1/s"))
}
