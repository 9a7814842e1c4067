//! Consequences of a disk fault during a drive: the layers that noticed it, and the damage that none noticed.

use plimsoll_record::data::{About, DID_NOT_START, Event, EventClass, Level, Phase, PhaseKind, ResultName, Run, Trial};

use crate::known;
use crate::name;
use crate::view::{DiskFaultView, Noticed, PhaseView};

/// Name of a failed integrity check among a ledger's disagreements.
const INTEGRITY: &str = "integrity";
/// Prefix of a fault in the text of its event.
const DISK: &str = "disk: ";

/// Lists each trial of `run` with a disk fault.
pub fn disk_faults(run: &Run) -> Vec<DiskFaultView> {
    run.trials.iter().filter_map(|trial| of_trial(run, trial)).collect()
}

/// Returns true if the disk of `trial` had a fault during `phase`: one from before that nothing had mended, or a new one.
pub(crate) fn is_during(run: &Run, trial: u32, phase: &PhaseView) -> bool {
    let end_s = phase.start_s + phase.seconds.unwrap_or(f64::INFINITY);
    let at_s = |event: &Event| event.from_ns as f64 / 1e9;
    // The end of all faults is no warning.
    let is_fault = |event: &Event| event.level == Level::Warning;
    let events = || run.events.iter().filter(|event| event.class == EventClass::Disk && event.trial == Some(trial));
    events().rfind(|event| at_s(event) < phase.start_s).is_some_and(is_fault)
        || events().any(|event| (phase.start_s..=end_s).contains(&at_s(event)) && is_fault(event))
}

fn of_trial(run: &Run, trial: &Trial) -> Option<DiskFaultView> {
    let is_its = |event: &&Event| event.class == EventClass::Disk && event.trial == Some(trial.header.ordinal);
    let events: Vec<_> = run.events.iter().filter(is_its).collect();
    let from_ns = events.first()?.from_ns;
    // Operations of a load are others, and its phase was over by then.
    let after: Vec<&Phase> = trial.phases.iter().filter(|phase| phase.end.end_ns >= from_ns).collect();
    let errors =
        after.iter().flat_map(|phase| &phase.end.results).filter(|result| result.name == ResultName::ErrorCode);
    let errors = errors.map(|result| result.value as u64).sum();
    let said = after.iter().flat_map(|phase| &phase.end.remarks).filter(|(about, _)| *about == About::Fault);
    let mut said: Vec<String> = said.map(|(_, text)| text.clone()).collect();
    let answers = trial.answers.iter().filter(|answers| {
        after.iter().any(|phase| phase.header.ordinal == answers.phase && phase.header.kind != PhaseKind::Check)
    });
    let wrong_answers = answers.map(|answers| answers.counts.wrong + answers.counts.missing).sum();
    let ledger = trial.ledgers.last();
    let wrong = |wanted: &str| ledger.is_some_and(|ledger| ledger.wrong.get(wanted).is_some_and(|count| *count > 0));
    let damaged = ledger.map_or(0, |ledger| {
        let others = ledger.wrong.iter().filter(|(name, _)| ![INTEGRITY, DID_NOT_START].contains(&name.as_str()));
        others.map(|(_, count)| count).sum()
    });
    let counted = after.iter().filter_map(|phase| phase.end.result(ResultName::FileSystemErrors));
    let has_counted = counted.map(|result| result.value).fold(0.0, f64::max) > 0.0;
    let has_ended = wrong(DID_NOT_START);
    said.extend(ledger.filter(|_| has_ended).map(|ledger| ledger.sentence.clone()));
    let noticed = [
        (Noticed::FileSystem, has_counted),
        (Noticed::Store, errors > 0 || !said.is_empty()),
        (Noticed::Check, wrong(INTEGRITY)),
    ];
    Some(DiskFaultView {
        name: name::trial(&trial.header),
        faults: events.iter().map(|event| event.text.trim_start_matches(DISK).to_owned()).collect(),
        noticed: noticed.into_iter().filter(|(_, has)| *has).map(|(who, _)| who).collect(),
        errors,
        wrong_answers,
        lost: ledger.and_then(known::lost),
        damaged,
        said,
    })
}
