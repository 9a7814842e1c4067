//! Consequences of a disk fault during a drive: the layers that noticed it, and the damage that none noticed.

use plimsoll_core::waits::CONNECT;
use plimsoll_record::data::{
    About, DID_NOT_START, FaultKind, FaultSpan, INTEGRITY, LedgerCheck, Phase, PhaseKind, PhaseResult, ResultName, Run,
    Trial,
};

use crate::known;
use crate::name;
use crate::view::{DiskFaultView, Noticed};

/// Word for the end of a fault.
const MENDED: &str = "mended";

/// Lists each trial of `run` with a disk fault.
pub fn disk_faults(run: &Run) -> Vec<DiskFaultView> {
    run.trials.iter().filter_map(of_trial).collect()
}

/// Lists the faults in time order, and the times at which they were mended.
fn words(spans: &[&FaultSpan]) -> Vec<String> {
    let begun = spans.iter().map(|span| (span.begun_ns, name::disk_fault(span)));
    let mended = spans.iter().filter_map(|span| Some((span.healed_ns?, MENDED.to_owned())));
    let mut all: Vec<(u64, String)> = begun.chain(mended).collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    // Several may be mended together.
    all.dedup_by(|next, last| next.1 == MENDED && last.1 == MENDED);
    all.into_iter().map(|(_, word)| word).collect()
}

fn of_trial(trial: &Trial) -> Option<DiskFaultView> {
    let is_its = |span: &&FaultSpan| {
        span.kind == FaultKind::Disk && span.trial == trial.header.ordinal && !span.detail.is_skipped
    };
    let spans: Vec<&FaultSpan> = trial.faults.iter().filter(is_its).collect();
    let from_ns = spans.first()?.begun_ns;
    // Operations of a load are others, and its phase was over by then.
    let after: Vec<&Phase> = trial.phases.iter().filter(|phase| phase.end.end_ns >= from_ns).collect();
    let results = after.iter().flat_map(|phase| &phase.end.results);
    let (connects, failed): (Vec<&PhaseResult>, Vec<&PhaseResult>) =
        results.filter(|result| result.name == ResultName::ErrorCode).partition(|result| result.subject == CONNECT);
    let errors: u64 = failed.iter().map(|result| result.value as u64).sum();
    let said = after.iter().flat_map(|phase| &phase.end.remarks).filter(|(about, _)| *about == About::Fault);
    let mut said: Vec<String> = said.map(|(_, text)| text.clone()).collect();
    let answers = trial.answers.iter().filter(|answers| {
        after.iter().any(|phase| phase.header.ordinal == answers.phase && phase.header.kind != PhaseKind::Check)
    });
    let wrong_answers = answers.map(|answers| answers.counts.wrong + answers.counts.missing).sum();
    // A check before the fault says nothing of it.
    let is_after = |ledger: &&LedgerCheck| after.iter().any(|phase| phase.header.ordinal == ledger.phase);
    let ledgers = || trial.ledgers.iter().filter(is_after);
    let ledger = ledgers().next_back();
    let wrong = |wanted: &str| ledger.is_some_and(|ledger| ledger.wrong.get(wanted).is_some_and(|count| *count > 0));
    let damaged = ledger.and_then(|ledger| {
        let others = ledger.wrong.iter().filter(|(name, _)| ![INTEGRITY, DID_NOT_START].contains(&name.as_str()));
        let damaged: u64 = others.map(|(_, count)| count).sum();
        (ledger.complete || damaged > 0).then_some(damaged)
    });
    let counted = after.iter().filter_map(|phase| phase.end.result(ResultName::FileSystemErrors));
    let has_counted = counted.map(|result| result.value).fold(0.0, f64::max) > 0.0;
    let has_ended = wrong(DID_NOT_START);
    said.extend(ledger.filter(|_| has_ended).map(|ledger| ledger.sentence.clone()));
    let noticed = [
        (Noticed::FileSystem, has_counted),
        (Noticed::Store, errors > 0 || !connects.is_empty() || !said.is_empty()),
        (Noticed::Check, wrong(INTEGRITY)),
    ];
    Some(DiskFaultView {
        name: name::trial(&trial.header),
        faults: words(&spans),
        noticed: noticed.into_iter().filter(|(_, has)| *has).map(|(who, _)| who).collect(),
        errors,
        wrong_answers,
        lost: ledgers().max_by_key(|ledger| ledger.lost).and_then(known::lost),
        damaged,
        said,
    })
}
