//! Work that is owed to clients after a fault: operations of an open loop that are due and not sent.

use plimsoll_core::Slice;
use plimsoll_record::Distribution;

use crate::number;
use crate::phase::PhaseFacts;
use crate::view::BacklogView;

/// Shortest time whose scheduled operations are a backlog, in seconds.
const BACKLOG_MIN_S: f64 = 0.1;

/// Returns the backlog that began in the effect of a fault, before `limit_ns`; `None` if it was not larger than before
/// the first fault of the phase, at `first_ns`. A later one has another cause.
pub(super) fn after(
    facts: &PhaseFacts<'_>,
    (begun_ns, until_ns): (u64, u64),
    first_ns: u64,
    limit_ns: u64,
) -> Option<BacklogView> {
    let slices = || facts.phase.slices.iter().filter(|slice| !slice.drain);
    let before = slices().filter(|slice| !facts.is_warmup(slice) && slice.end_ns <= first_ns);
    let usual = before.map(|slice| slice.due_unsent).max().unwrap_or(0);
    let least = (facts.phase.header.rate_per_s.unwrap_or(0.0) * BACKLOG_MIN_S) as u64;
    let is_owed = |slice: &Slice<Distribution>| slice.due_unsent > usual.max(least);
    let after: Vec<_> = slices().filter(|slice| slice.end_ns > begun_ns && slice.end_ns <= limit_ns).collect();
    let begins = |slice: &&Slice<Distribution>| slice.start_ns < until_ns && is_owed(slice);
    let last_begun = after.iter().rposition(begins)?;
    let last = last_begun + after[last_begun + 1..].iter().take_while(|slice| is_owed(slice)).count();
    let since_s = |slice: &&Slice<Distribution>| slice.end_ns.saturating_sub(begun_ns) as f64 / 1e9;
    // A phase that is cut short drops its backlog.
    let is_sent = |next: &&&Slice<Distribution>| {
        let ended: u64 = facts.ended(next).map(|one| one.histogram.len()).sum();
        after[last].due_unsent.saturating_sub(next.due_unsent) <= ended + next.in_flight
    };
    Some(BacklogView {
        most: after[..=last].iter().map(|slice| slice.due_unsent).max()?,
        gone_s: after.get(last + 1).filter(is_sent).map(since_s),
        observed_s: after.last().map(since_s)?,
    })
}

/// Returns `backlog of up to 4,210 operations, worked off after 7.00 s`.
pub(super) fn words(backlog: BacklogView) -> String {
    let most = number::plural(backlog.most, "operation", "operations");
    match backlog.gone_s {
        Some(gone_s) => format!("backlog of up to {most}, worked off after {}", number::seconds(gone_s)),
        None => format!("backlog of up to {most}, not worked off within {}", number::seconds(backlog.observed_s)),
    }
}
