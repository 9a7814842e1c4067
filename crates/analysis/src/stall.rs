//! Stalls: seconds in which a driven phase did much less than in its others, and what else was otherwise in them.
//!
//! A mean over a phase hides them. They are looked for in the slices, and held against everything that was sampled: what
//! stands out in the same seconds is named. It is no proof of a cause.

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::{PhaseKind, Run, Sample, SeriesKind};

use crate::line;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::StallsView;

/// Share of a phase's median throughput below which a slice is a stall.
const STALLED: f64 = 0.5;
/// Slices without which a median says little.
const SLICES_MIN: usize = 8;
/// Operations of a usual slice below which a slow one may be chance.
const OPS_MIN: f64 = 50.0;
/// Per cent that a share of time or of a capacity is higher or lower by in a stall, to be named.
const DIFFERS_PERCENT: f64 = 20.0;
/// Factor by which a value without a capacity is higher or lower.
const DIFFERS_TIMES: f64 = 3.0;
/// Orders of magnitude from which a difference is no larger than others.
const ORDERS_MAX: f64 = 5.0;
/// Most deviations that are named for one phase.
const NAMED_MAX: usize = 3;
/// Stalls whose times are said.
const NAMED_STALLS_MAX: usize = 5;
/// Spread of the time between stalls, as a share, up to which they come regularly.
const REGULAR: f64 = 0.25;

/// A stall.
struct Stall {
    start_ns: u64,
    end_ns: u64,
    least_per_s: f64,
}

/// The stalls of every phase that drove, of those that had any.
pub fn stalls(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<StallsView> {
    let driven = facts.iter().flatten().filter(|facts| {
        let header = &facts.phase.header;
        header.kind == PhaseKind::Drive && header.rung.is_none()
    });
    driven.filter_map(|facts| of_phase(run, facts)).collect()
}

fn of_phase(run: &Run, facts: &PhaseFacts<'_>) -> Option<StallsView> {
    let longest = facts.phase.slices.iter().map(|slice| slice.end_ns.saturating_sub(slice.start_ns)).max()?;
    let slices: Vec<(&Slice<Distribution>, f64)> = facts.slice_rates(false).collect();
    let rates: Vec<f64> = slices.iter().map(|(_, rate)| *rate).collect();
    let is_many = |usual: &f64| slices.len() >= SLICES_MIN && usual * longest as f64 / 1e9 >= OPS_MIN;
    let usual = stat::median(&rates).filter(is_many)?;
    let mut stalls: Vec<Stall> = Vec::new();
    for (slice, rate) in &slices {
        // A schedule may have wanted no more in that second.
        if *rate >= STALLED * usual || (facts.open_loop && *rate >= STALLED * due_per_s(facts, slice)) {
            continue;
        }
        match stalls.last_mut().filter(|last| last.end_ns + longest / 2 > slice.start_ns) {
            Some(last) => {
                last.end_ns = slice.end_ns;
                last.least_per_s = last.least_per_s.min(*rate);
            }
            None => stalls.push(Stall { start_ns: slice.start_ns, end_ns: slice.end_ns, least_per_s: *rate }),
        }
    }
    if stalls.is_empty() {
        return None;
    }
    let place = name::place(facts);
    let with = what_else(run, facts, &stalls, longest);
    let mean = stat::mean(&rates);
    Some(StallsView {
        sentence: sentence(&place, &stalls, mean, usual, &with),
        place,
        spans_s: stalls.iter().map(|stall| (stall.start_ns as f64 / 1e9, stall.end_ns as f64 / 1e9)).collect(),
        mean_per_s: mean,
        usual_per_s: usual,
    })
}

/// Operations that became due in a slice of an open loop, a second: those that ended, and by how many more are pending.
fn due_per_s(facts: &PhaseFacts<'_>, slice: &Slice<Distribution>) -> f64 {
    let pending = |slice: &Slice<Distribution>| (slice.due_unsent + slice.in_flight) as f64;
    let before = slice.ordinal.checked_sub(1).and_then(|before| facts.phase.slices.get(before as usize));
    let ended: u64 = facts.ended(slice).map(|one| one.histogram.len()).sum();
    let due = ended as f64 + pending(slice) - before.map_or(0.0, pending);
    due * 1e9 / slice.end_ns.saturating_sub(slice.start_ns).max(1) as f64
}

fn sentence(place: &str, stalls: &[Stall], mean: f64, usual: f64, with: &[String]) -> String {
    let seconds = |stall: &Stall| (stall.end_ns - stall.start_ns) as f64 / 1e9;
    let longest = stalls.iter().map(seconds).fold(0.0, f64::max);
    let least = stalls.iter().map(|stall| stall.least_per_s).fold(f64::INFINITY, f64::min);
    let starts: Vec<f64> = stalls.iter().map(|stall| stall.start_ns as f64 / 1e9).collect();
    let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let regular = stat::median(&gaps)
        .filter(|gap| gaps.len() >= 2 && gaps.iter().all(|one| (one / gap - 1.0).abs() <= REGULAR))
        .map_or(String::new(), |gap| format!(", one every {}", number::seconds(gap)));
    let (least, usual) = (number::with_unit(least, "1/s"), number::with_unit(usual, "1/s"));
    let which = match stalls {
        [one] => format!(
            "it stalled for {} at {:.0} s: throughput fell from its usual {usual} to {least}",
            number::seconds(seconds(one)),
            one.start_ns as f64 / 1e9
        ),
        _ => format!(
            "it stalled {} times{regular} (at {} s{}), for up to {}: throughput fell from its usual {usual} to {least} \
             at worst",
            number::count(stalls.len() as u64),
            starts.iter().take(NAMED_STALLS_MAX).map(|at| format!("{at:.0}")).collect::<Vec<_>>().join(", "),
            if starts.len() > NAMED_STALLS_MAX { ", …" } else { "" },
            number::seconds(longest)
        ),
    };
    let with = match with {
        [] => "no sampled series changed in these seconds".to_string(),
        with => format!("at the same time: {}", number::list(with)),
    };
    format!("{place}: {which}, which the mean of {} hides; {with}.", number::with_unit(mean, "1/s"))
}

/// Lists the series that differed between the stalls and the rest of the phase, largest difference first.
fn what_else(run: &Run, facts: &PhaseFacts<'_>, stalls: &[Stall], slice_ns: u64) -> Vec<String> {
    let (from, to) = (facts.phase.header.start_ns, facts.phase.end.end_ns);
    let samples: Vec<&Sample> =
        run.samples.iter().filter(|sample| sample.at_ns > from && sample.at_ns <= to + slice_ns).collect();
    // A sample is of the time before it.
    let in_stall =
        |at_ns: u64| stalls.iter().any(|stall| at_ns > stall.start_ns && at_ns <= stall.end_ns + slice_ns / 2);
    let mut found: Vec<(f64, String)> = Vec::new();
    for (position, series) in run.series.iter().enumerate() {
        let values = |wanted: bool| -> Vec<f64> {
            let those = samples.iter().filter(|sample| in_stall(sample.at_ns) == wanted);
            those.filter_map(|sample| sample.value(position)).collect()
        };
        let (inside, outside) = (values(true), values(false));
        if inside.is_empty() {
            continue;
        }
        if series.kind == SeriesKind::Cycle {
            let with = stalls
                .iter()
                .filter(|stall| {
                    let near = |sample: &&&Sample| {
                        sample.at_ns + slice_ns > stall.start_ns && sample.at_ns <= stall.end_ns + slice_ns
                    };
                    samples.iter().filter(near).any(|sample| sample.value(position).is_some_and(|n| n > 0.0))
                })
                .count();
            if with > 0 {
                let one = number::singular(&series.name);
                let in_n = if stalls.len() == 1 { String::new() } else { format!(" (in {with} of {})", stalls.len()) };
                let share = with as f64 / stalls.len() as f64;
                found.push((2.0 * share, format!("a {one} of {} ended{in_n}", series.subject)));
            }
            continue;
        }
        let Some(what) = line::waits_for(series) else { continue };
        let (now, usual) = (stat::mean(&inside), stat::median(&outside).unwrap_or(0.0));
        let shown = |value: f64| number::with_unit(value, &series.unit);
        let (stands_out, by) = match series.unit.as_str() {
            "%" => ((now - usual).abs() > DIFFERS_PERCENT, (now - usual) / 100.0),
            _ => {
                let differs = now > DIFFERS_TIMES * usual || DIFFERS_TIMES * now < usual;
                (usual > 0.0 && differs, 0.1 * (now / usual).log10().clamp(-ORDERS_MAX, ORDERS_MAX))
            }
        };
        if stands_out {
            found.push((by, format!("{what} was {} (usually {})", shown(now), shown(usual))));
        }
    }
    found.extend(errors(facts, stalls));
    // What fell comes last: with fewer operations most does.
    let (more, mut less): (Vec<_>, Vec<_>) = found.into_iter().partition(|(by, _)| *by >= 0.0);
    let mut found = more;
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    less.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.extend(less);
    found.into_iter().take(NAMED_MAX).map(|(_, text)| text).collect()
}

/// Describes errors, if there were more of them a second in the stalls than in the rest of the phase.
fn errors(facts: &PhaseFacts<'_>, stalls: &[Stall]) -> Option<(f64, String)> {
    let is_in = |slice: &&Slice<Distribution>| {
        stalls.iter().any(|stall| slice.start_ns >= stall.start_ns && slice.end_ns <= stall.end_ns)
    };
    let (inside, outside): (Vec<_>, Vec<_>) = facts.counted().partition(is_in);
    let count = |slices: &[&Slice<Distribution>]| -> u64 {
        let ended = slices.iter().flat_map(|slice| facts.ended(slice));
        ended.filter(|one| one.outcome.is_error()).map(|one| one.histogram.len()).sum()
    };
    let per_slice = |slices: &[&Slice<Distribution>]| count(slices) as f64 / slices.len().max(1) as f64;
    let (now, usual) = (per_slice(&inside), per_slice(&outside));
    let usually = if usual == 0.0 { " (otherwise none)" } else { "" };
    let what = || format!("{} failed{usually}", number::plural(count(&inside), "operation", "operations"));
    (now > DIFFERS_TIMES * usual).then(|| (ORDERS_MAX, what()))
}
