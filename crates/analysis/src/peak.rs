//! Peaks of latency: slices of a driven phase whose slowest operations took much longer than in its others.
//!
//! A percentile over a phase hides their times. Each is described by itself, with the actions at its own time. What lies
//! in or next to a stall belongs to the stall.

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::Run;

use crate::meanwhile::meanwhile;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stall;
use crate::stat;
use crate::view::{PeakView, PeaksView};

/// Times the percentile of a phase's median slice from which a slice is a peak, and its least.
const PEAK: f64 = 5.0;
const LEAST_NS: f64 = 1e6;
/// Percentiles of a slice, best first: the first is taken that most slices have.
const PERCENTILES: [&str; 3] = ["p99", "p95", "p90"];
/// Slices without which a median says little.
const SLICES_MIN: usize = 8;
/// Peaks that are described for one phase: the highest.
const NAMED_MAX: usize = 3;

/// A peak: adjacent slices, and the highest percentile of one.
struct Peak {
    start_ns: u64,
    end_ns: u64,
    highest_ns: u64,
    /// True if `highest_ns` is a lower bound, of a slice with too few operations for the percentile.
    is_bound: bool,
}

impl Peak {
    /// Describes the height: `80.0 ms`, or `80.0 ms or more`.
    fn height(&self) -> String {
        format!("{}{}", number::nanoseconds(self.highest_ns), if self.is_bound { " or more" } else { "" })
    }
}

/// Returns the peaks of every driven phase, of those that had any.
pub fn peaks(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<PeaksView> {
    // Of a load that changes, latency changes with it.
    let steady = stall::driven(facts).filter(|facts| facts.phase.header.stages.is_empty());
    steady.filter_map(|facts| of_phase(run, facts)).collect()
}

/// Peaks of a phase in time order, and what they are compared with.
struct Found {
    peaks: Vec<Peak>,
    percentile: &'static str,
    usual_ns: f64,
    limit_ns: f64,
    slice_ns: u64,
}

fn find(run: &Run, facts: &PhaseFacts<'_>) -> Option<Found> {
    let slices: Vec<&Slice<Distribution>> = facts.slice_rates(false).map(|(slice, _)| slice).collect();
    let slice_ns = slices.iter().map(|slice| slice.length_ns()).max()?;
    let times: Vec<_> = slices.iter().map(|slice| facts.waited_in(slice, None)).collect();
    let (percentile, each) = PERCENTILES.iter().find_map(|name| {
        let each: Vec<Option<u64>> = times.iter().map(|times| times.percentile(name).ok()).collect();
        let known = each.iter().flatten().count();
        (known >= SLICES_MIN && known * 2 > each.len()).then_some((*name, each))
    })?;
    let median = |until_ns: u64| {
        let usual = each.iter().zip(&slices).filter(|(_, slice)| slice.end_ns <= until_ns);
        stat::median_of(usual.filter_map(|(ns, _)| *ns).map(|ns| ns as f64))
    };
    // Most slices may be those of a fault.
    let before = facts.first_fault_ns().and_then(median);
    let usual_ns = median(u64::MAX).into_iter().chain(before).reduce(f64::min)?;
    let limit_ns = (PEAK * usual_ns).max(LEAST_NS);
    let mut peaks: Vec<Peak> = Vec::new();
    // Errors may leave too few operations for the percentile, just in the slow slices.
    let heights = each.iter().zip(&times).map(|(ns, times)| match ns {
        Some(ns) => Some((*ns, false)),
        None => times.highest().map(|ns| (ns, true)),
    });
    let high = slices.iter().zip(heights);
    let high = high.filter_map(|(slice, height)| Some((slice, height.filter(|(ns, _)| *ns as f64 >= limit_ns)?)));
    for (slice, height) in high {
        let (start_ns, end_ns) = (slice.start_ns, slice.end_ns);
        match peaks.last_mut().filter(|last| last.end_ns + slice_ns / 2 > start_ns) {
            Some(last) => {
                last.end_ns = end_ns;
                (last.highest_ns, last.is_bound) = height.max((last.highest_ns, last.is_bound));
            }
            None => peaks.push(Peak { start_ns, end_ns, highest_ns: height.0, is_bound: height.1 }),
        }
    }
    let (stalls, near) = (stall::spans(run, facts), slice_ns / 2);
    let is_apart =
        |peak: &Peak| stalls.iter().all(|(start, end)| peak.end_ns + near < *start || peak.start_ns > *end + near);
    peaks.retain(is_apart);
    Some(Found { peaks, percentile, usual_ns, limit_ns, slice_ns })
}

/// Returns the starts, ends and names of a phase's peaks, in nanoseconds: the highest percentile of each.
pub fn spans(run: &Run, facts: &PhaseFacts<'_>) -> Vec<(u64, u64, String)> {
    // Of a load that changes, latency changes with it.
    let Some(found) = find(run, facts).filter(|_| facts.phase.header.stages.is_empty()) else { return Vec::new() };
    let name = |peak: &Peak| format!("{} {}", found.percentile, peak.height());
    found.peaks.iter().map(|peak| (peak.start_ns, peak.end_ns, name(peak))).collect()
}

fn of_phase(run: &Run, facts: &PhaseFacts<'_>) -> Option<PeaksView> {
    let Found { mut peaks, percentile, usual_ns, limit_ns, slice_ns } =
        find(run, facts).filter(|found| !found.peaks.is_empty())?;
    let count = peaks.len();
    peaks.sort_by_key(|peak| std::cmp::Reverse(peak.highest_ns));
    peaks.truncate(NAMED_MAX);
    peaks.sort_by_key(|peak| peak.start_ns);
    let place = name::place(facts);
    let view = |peak: &Peak| {
        let with = meanwhile(run, facts, &[(peak.start_ns, peak.end_ns)], slice_ns);
        PeakView {
            start_s: peak.start_ns as f64 / 1e9,
            end_s: peak.end_ns as f64 / 1e9,
            ns: peak.highest_ns,
            sentence: sentence(&place, percentile, usual_ns, peak, &with),
        }
    };
    let worst: Vec<PeakView> = peaks.iter().map(view).collect();
    let more = (count - worst.len()) as u64;
    let further = (more > 0).then(|| {
        let peaks = number::plural(more, "further peak", "further peaks");
        format!("{place}: {peaks} of {percentile} above {}.", number::nanoseconds(limit_ns as u64))
    });
    let (percentile, usual_ns) = (percentile.to_string(), usual_ns as u64);
    Some(PeaksView { place, percentile, usual_ns, count, worst, further })
}

fn sentence(place: &str, percentile: &str, usual_ns: f64, peak: &Peak, with: &str) -> String {
    let (start_s, end_s) = (peak.start_ns as f64 / 1e9, peak.end_ns as f64 / 1e9);
    let (highest, usual) = (peak.height(), number::nanoseconds(usual_ns as u64));
    format!("{place}: {percentile} rose to {highest} from {start_s:.1} s to {end_s:.1} s (usually {usual}){with}.")
}
