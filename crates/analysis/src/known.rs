//! Numbers of a ledger's check, where they are known: a store that could not be read has lost nothing that is known.

use plimsoll_record::data::{DID_NOT_START, LedgerCheck, Trial};

use crate::number;

/// Returns the check of `trial` that found most lost writes: several are about the same writes, so that one counts.
pub(crate) fn most_lost(trial: &Trial) -> Option<&LedgerCheck> {
    trial.ledgers.iter().max_by_key(|ledger| ledger.lost)
}

/// Returns the acknowledged writes that are missing; `None` if none is known to be, and not everything was read.
pub(crate) fn lost(ledger: &LedgerCheck) -> Option<u64> {
    (ledger.complete || ledger.lost > 0).then_some(ledger.lost)
}

/// Returns the records that are otherwise wrong; `None` if none is known to be, and not everything was read.
pub(crate) fn wrong(ledger: &LedgerCheck) -> Option<u64> {
    let records = ledger.wrong.iter().filter(|(name, _)| *name != DID_NOT_START);
    let wrong = records.map(|(_, count)| count).sum();
    (ledger.complete || wrong > 0).then_some(wrong)
}

/// Returns that a check of `trial` does not know all, and why; `None` if all are complete.
pub(crate) fn not_known(trial: &Trial) -> Option<String> {
    let open = trial.ledgers.iter().rfind(|ledger| !ledger.complete)?;
    let why = open.sentence.trim_end_matches('.');
    let why = if why.is_empty() { String::new() } else { format!(": {}", number::uncapital(why)) };
    // A ledger that could not keep up vouches for none of them.
    let some = if open.unread > 0 && open.read_back > 0 { "some of " } else { "" };
    Some(format!("what became of {some}{} acknowledged writes is not known{why}", number::count(open.acknowledged)))
}
