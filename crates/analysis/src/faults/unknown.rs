//! Fates of the writes of unknown outcome of a fault, as the trial's ledger found them.

use plimsoll_record::data::UnknownWrites;

use crate::phase::PhaseFacts;
use crate::view::UnknownWritesView;

/// Returns the fates of the writes that were given up in spans whose start `is_its`; `None` without such writes, and if no
/// check could tell.
pub(super) fn writes(facts: &PhaseFacts<'_>, is_its: impl Fn(u64) -> bool) -> Option<UnknownWritesView> {
    // Checks of one trial are about the same writes. The last one has seen most of them.
    let ledger = facts.trial.ledgers.iter().rfind(|ledger| !ledger.unknown_writes.is_empty())?;
    let its = ledger.unknown_writes.iter().filter(|one| is_its(one.at_ns)).copied();
    let sum = its.reduce(|sum, one| UnknownWrites {
        written: sum.written + one.written,
        not_written: sum.not_written + one.not_written,
        not_known: sum.not_known + one.not_known,
        ..sum
    })?;
    Some(UnknownWritesView { written: sum.written, not_written: sum.not_written, not_known: sum.not_known })
}
