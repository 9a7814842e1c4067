//! The store's own maintenance cycle: how long it is, and which rungs lasted through one.
//!
//! A checkpoint, a flush or a compaction comes now and then, and what it costs is felt only then: a rate that holds for
//! ten seconds between two of them need not hold for an hour. So the rungs that decide are to last through one.

use super::{Rung, RungSummary};

/// Factor on the apparent length of a cycle, so that a late one still ends in the rung.
const MARGIN: f64 = 1.15;
const MARGIN_S: f64 = 1.0;

/// Rungs at this share of a rate and above tell how often cycles come at it: many are brought on by work.
const LIKE: f64 = 0.7;

/// Ratio of the use of a limit with a cycle to the use without one from which the difference is no coincidence.
const APART: f64 = 1.25;

/// Time, warm-up included, in which a cycle ends at `rate`; `None` where nothing tells.
pub(super) fn whole_s(rungs: &[(Rung, RungSummary)], rate: f64) -> Option<f64> {
    let by_settings = rungs.iter().rev().find_map(|(_, seen)| seen.cycle_s);
    let by_work = rungs.iter().rev().find_map(|(_, seen)| seen.cycle_ops).map(|operations| operations / rate);
    let known = [by_settings, by_work, seen_s(rungs, rate, by_work.is_some())].into_iter().flatten();
    let length_s = known.filter(|length_s| length_s.is_finite()).min_by(f64::total_cmp)?;
    Some(length_s * MARGIN + MARGIN_S)
}

/// Time between two cycles as rungs saw them, of the counter that counts the most. Where they come `by_work`, what rungs
/// at other rates saw is taken to this one.
fn seen_s(rungs: &[(Rung, RungSummary)], rate: f64, by_work: bool) -> Option<f64> {
    let like = rungs
        .iter()
        .filter(|(rung, seen)| seen.saw_cycle() && rung.rate_per_s.unwrap_or(seen.rate_per_s) >= LIKE * rate);
    let (mut time_s, mut n) = (0.0, 0.0);
    for (rung, seen) in like {
        // The counters are read from before the warm-up on.
        let pace = if by_work { seen.rate_per_s / rate } else { 1.0 };
        time_s += (rung.warmup_s + seen.seconds) * pace;
        n += seen.cycles.iter().map(|(_, n)| *n).fold(0.0, f64::max);
    }
    (n > 0.0).then(|| time_s / n)
}

/// Returns true if a rung at `rate` lasted through a cycle, or was long enough and saw none.
pub(super) fn covers(rungs: &[(Rung, RungSummary)], rate: f64, whole_s: f64) -> bool {
    rungs.iter().filter(|(rung, _)| rung.rate_per_s == Some(rate)).any(|(rung, seen)| {
        let is_whole = seen.saw_cycle() || rung.warmup_s + rung.seconds > whole_s - 0.2;
        is_whole && seen.worst_ratio(rung).is_some()
    })
}

/// True when goals broke in a rung with a cycle at a rate at which, or above which, they held without, and by more than rungs at
/// one rate differ: then a rung without one says nothing about what the store carries.
pub(super) fn matters(rungs: &[(Rung, RungSummary)]) -> bool {
    let judged: Vec<(f64, f64, bool)> = rungs
        .iter()
        .filter_map(|(rung, seen)| Some((rung.rate_per_s?, seen.worst_ratio(rung)?, seen.saw_cycle())))
        .collect();
    let broke = || judged.iter().filter(|(_, ratio, cycle)| *ratio > 1.0 && *cycle);
    let mut held = judged.iter().filter(|(_, ratio, cycle)| *ratio <= 1.0 && !cycle);
    held.any(|(held_at, held, _)| broke().any(|(at, broke, _)| at <= held_at && *broke > APART * held))
}
