//! Operations that failed by a fault: those that ended in its effect, and those that had begun in it and ended later.

use plimsoll_core::{Measure, Outcome, Slice, TICK_NS};
use plimsoll_record::Distribution;

use super::overlap;
use crate::phase::PhaseFacts;

/// Failed operations of an effect.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failed {
    pub(super) rejected: u64,
    pub(super) unknown: u64,
    /// End of the last that had begun in the effect and ended after it; 0 without one.
    pub(super) until_ns: u64,
}

/// Counts the failed operations of an effect from `from_ns` to `to_ns`. A slice that overlaps it in part is shared out as
/// the failed operations of its ticks are. At `limit_ns` the next fault begins, or observation ends.
///
/// A client whose operation hangs notices a healing only with its time-out. Ticks tell when operations ended, and slices how
/// long they took, so that an operation of a later slice had certainly begun in the effect if it took so long.
pub(super) fn count(facts: &PhaseFacts<'_>, from_ns: u64, to_ns: u64, limit_ns: u64) -> Failed {
    let slices = facts.phase.slices.iter().filter(|slice| overlap((slice.start_ns, slice.end_ns), (from_ns, limit_ns)));
    slices.map(|slice| of_slice(facts, slice, (from_ns, to_ns), limit_ns)).fold(Failed::default(), |sum, one| Failed {
        rejected: sum.rejected + one.rejected,
        unknown: sum.unknown + one.unknown,
        until_ns: sum.until_ns.max(one.until_ns),
    })
}

fn of_slice(
    facts: &PhaseFacts<'_>,
    slice: &Slice<Distribution>,
    (from_ns, to_ns): (u64, u64),
    limit_ns: u64,
) -> Failed {
    let (mut all, mut inside, mut last_ns) = (0, 0, 0);
    for (tick, start_ns) in slice.ticks.iter().zip((slice.start_ns..).step_by(TICK_NS as usize)) {
        let failed = u64::from(tick.failed);
        all += failed;
        inside += if start_ns + TICK_NS > from_ns && start_ns < to_ns { failed } else { 0 };
        last_ns = if failed > 0 { start_ns + TICK_NS } else { last_ns };
    }
    let is_in = overlap((slice.start_ns, slice.end_ns), (from_ns, to_ns));
    // In the slice in which the fault or the next one began, operations of other times would count, too.
    let is_later = all > 0 && slice.start_ns >= from_ns && slice.end_ns > to_ns && slice.end_ns <= limit_ns;
    let count = |outcome: Outcome| {
        let n: u64 = facts.ended(slice).filter(|one| one.outcome == outcome).map(|one| one.histogram.len()).sum();
        let share = match (is_in, all) {
            (false, _) => 0,
            (true, 0) => n,
            (true, _) => (n as f64 * inside as f64 / all as f64).round() as u64,
        };
        let sent = facts.operations(slice).filter(|one| one.outcome == outcome && one.measure == Measure::Service);
        let times = sent.flat_map(|one| one.histogram.counts());
        let begun = times.filter(|(ns, _)| last_ns.saturating_sub(*ns) < to_ns).map(|(_, count)| *count).sum::<u64>();
        let begun = if is_later { begun.min(n) } else { 0 };
        (share.max(begun), begun > share)
    };
    let (rejected, has_late_rejected) = count(Outcome::Rejected);
    let (unknown, has_late_unknown) = count(Outcome::Unknown);
    let until_ns = if has_late_rejected || has_late_unknown { last_ns } else { 0 };
    Failed { rejected, unknown, until_ns }
}
