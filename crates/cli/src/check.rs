//! What a trial's ledger says: the check phase, and the answers of all phases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Access, Call, Durability, RecordsCall, StoreErrorKind, Stream, StreamSpec, ValueBuf};
use plimsoll_drive::{DriveSpec, Limit};
use plimsoll_record::data::{AnswerCheck, LedgerCheck, PhaseEnd};
use plimsoll_verify::{Judge, ReadBack};

use crate::error::{CliError, exit};
use crate::phase::{Driven, Keep};
use crate::trial::{TrialRun, push};

/// Longest that reading everything back may take.
const READ_BACK_TIMEOUT: Duration = Duration::from_secs(300);

/// Reads everything back, holds it against the ledger, and asks the store for its own integrity check.
pub fn run(trial: &mut TrialRun<'_, '_>, ordinal: u32, end: &mut PhaseEnd) -> Result<(), CliError> {
    let started = Instant::now();
    if trial.ledger.is_some() {
        let check = read_back(trial, ordinal)?;
        trial.bench.recorder.ledger_check(check)?;
    } else {
        end.remarks
            .push(("ledger".to_owned(), "this workload has no right answers to hold records against".to_owned()));
    }
    match trial.store.check_integrity() {
        Ok(Some(words)) => end.remarks.push(("integrity check of the store".to_owned(), words)),
        Ok(None) => end.remarks.push(("integrity check of the store".to_owned(), "it has none".to_owned())),
        Err(error) if error.kind == StoreErrorKind::Broken => return Err(error.into()),
        Err(error) => end.remarks.push(("integrity check of the store".to_owned(), format!("not possible: {error}"))),
    }
    end.footprint = Some(trial.store.footprint()?);
    push(end, "seconds", "s", started.elapsed().as_secs_f64(), 1);
    Ok(())
}

fn read_back(trial: &mut TrialRun<'_, '_>, ordinal: u32) -> Result<LedgerCheck, CliError> {
    let mut found = ReadBack::new(Arc::clone(&trial.workload));
    let all = kind_with(trial, |call| *call == RecordsCall::All);
    let index = kind_with(trial, |call| matches!(call, RecordsCall::Find { access: Access::Indexed, .. }));
    let Some(all) = all else {
        return Err(CliError::new(exit::USAGE, "this workload has no operation that reads all records"));
    };
    if let Some(index) = &index {
        let mut params = ValueBuf::new();
        if let Some(kind) = index.op(0, 0, &mut params) {
            found.expect_index(&trial.workload.kinds()[usize::from(kind)], params.values());
        }
    }
    found.add_records(&once(trial, ordinal, all)?);
    if let Some(index) = index {
        found.add_index_records(&once(trial, ordinal, index)?);
    }
    let Some(ledger) = &mut trial.ledger else {
        return Err(CliError::new(exit::USAGE, "this workload has no right answers"));
    };
    let verdict = Judge::new(ledger.history()).ledger(&found);
    Ok(LedgerCheck {
        trial: trial.trial.ordinal,
        phase: ordinal,
        acknowledged: verdict.acknowledged,
        rejected: verdict.rejected,
        unknown: verdict.unknown,
        read_back: verdict.read_back,
        lost: verdict.lost,
        lost_window_ns: verdict.lost_window_ns,
        wrong: verdict.wrong(),
        loss_upper_bound: verdict.loss_upper_bound,
        complete: verdict.gap.is_none(),
        sentence: verdict.sentence(),
        examples: verdict.examples,
    })
}

/// The stream of the first kind whose call is wanted.
fn kind_with(trial: &TrialRun<'_, '_>, wanted: impl Fn(&RecordsCall) -> bool) -> Option<Arc<dyn Stream>> {
    let kinds = trial.workload.kinds();
    let kind = kinds.iter().find(|kind| matches!(&kind.call, Call::Records { call, .. } if wanted(call)))?;
    let spec = StreamSpec::One { kind: kind.name.clone(), clients: 1 };
    trial.workload.stream(&spec).ok().map(Arc::from)
}

/// Does the stream's first operation and returns its answer.
fn once(
    trial: &mut TrialRun<'_, '_>,
    ordinal: u32,
    stream: Arc<dyn Stream>,
) -> Result<plimsoll_core::Answer, CliError> {
    let keep = Keep::answer();
    let spec = DriveSpec {
        limit: Limit::Ops(1),
        op_timeout: READ_BACK_TIMEOUT,
        slice: trial.bench.slice,
        ..DriveSpec::default()
    };
    let result = trial.driven(Driven {
        ordinal,
        clients: 1,
        durability: Durability::Durable,
        stream,
        spec,
        measured: false,
        keep: keep.clone(),
    })?;
    if result.ops > 0 {
        trial.must_have_succeeded("reading back", &result)?;
    }
    Ok(keep.taken_answer())
}

impl TrialRun<'_, '_> {
    /// Holds every answer of the trial against the truth and records what came of it.
    pub(crate) fn check_answers(&mut self) -> Result<(), CliError> {
        let Some(ledger) = &mut self.ledger else { return Ok(()) };
        for verdict in Judge::new(ledger.history()).answers() {
            self.bench.recorder.answer_check(AnswerCheck {
                trial: self.trial.ordinal,
                phase: u32::from(verdict.phase),
                op: verdict.kind_name.clone(),
                answers: verdict.answers,
                expected: verdict.expected,
                got: verdict.got,
                missing: verdict.missing,
                wrong: verdict.wrong(),
                examples: verdict.examples.clone(),
            })?;
        }
        Ok(())
    }
}
