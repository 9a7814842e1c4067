//! Fates of the writes of unknown outcome of a fault, as the trial's ledger found them.

use plimsoll_core::TICK_NS;
use plimsoll_record::data::UnknownWrites;

use crate::phase::PhaseFacts;
use crate::view::UnknownWritesView;

/// Returns the fates of the writes that were given up from `from_ns` to `until_ns`, and before the next fault began at
/// `next_ns`; `None` without such writes, and if no check could tell.
pub(super) fn writes(
    facts: &PhaseFacts<'_>,
    from_ns: u64,
    until_ns: u64,
    next_ns: Option<u64>,
) -> Option<UnknownWritesView> {
    // Checks of one trial are about the same writes. The last one has seen most of them.
    let ledger = facts.trial.ledgers.iter().rfind(|ledger| !ledger.unknown_writes.is_empty())?;
    let tick = |at_ns: u64| at_ns / TICK_NS;
    let is_its = |one: &&UnknownWrites| {
        let is_before_next = next_ns.is_none_or(|next_ns| tick(one.at_ns) < tick(next_ns));
        tick(one.at_ns) >= tick(from_ns) && one.at_ns < until_ns.max(from_ns + 1) && is_before_next
    };
    let its = ledger.unknown_writes.iter().filter(is_its).copied();
    let sum = its.reduce(|sum, one| UnknownWrites {
        written: sum.written + one.written,
        not_written: sum.not_written + one.not_written,
        not_known: sum.not_known + one.not_known,
        ..sum
    })?;
    Some(UnknownWritesView { written: sum.written, not_written: sum.not_written, not_known: sum.not_known })
}
