//! Verdict of a trial's ledger: the check phase, and the answers of all phases.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Access, Answer, Call, Durability, KindId, KvCall, RecordsCall, StoreError, StoreErrorKind, Stream, StreamSpec,
    ValueBuf,
};
use plimsoll_drive::{DriveSpec, Limit};
use plimsoll_plan::model::PhaseStep;
use plimsoll_record::data::{
    About, AnswerCheck, AnswerCounts, EventClass, INTEGRITY, LedgerCheck, Level, PhaseEnd, ResultName,
};
use plimsoll_verify::{Ledger, ReadBack, SERVERS_MAX};

use crate::copies;
use crate::drive::{Driven, Listener};
use crate::error::TrialError;
use crate::phase::TrialRun;
use crate::sink::Told;
use crate::tick_spans::TickSpans;

/// Clients that read back key by key.
const READ_BACK_CLIENTS: u32 = 16;
/// Time for which reading back is begun anew if a connection is lost: proxies take a second to notice that a node is dead.
const ASKED_AGAIN_FOR: Duration = Duration::from_secs(5);
/// Pause before reading back is begun anew.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Reads everything back, holds it against the ledger, and asks the store for its own integrity check.
pub fn run(trial: &mut TrialRun<'_, '_>, ordinal: u32, end: &mut PhaseEnd) -> Result<(), TrialError> {
    let started = Instant::now();
    let mut check = None;
    if trial.ledger.is_some() {
        let read = read_back(trial, ordinal, end)
            .and_then(|check| check.map_or(Ok(None), |check| read_copies(trial, ordinal, check, end)));
        check = match read {
            Ok(None) => return Ok(()),
            Ok(check) => check,
            Err(error) if error.is_interrupt() => return Err(error),
            Err(error) => {
                // Of what cannot be read nothing is known; that is said too.
                let found = ReadBack::unreadable(Arc::clone(&trial.workload), &error.line());
                check = verdict(trial, ordinal, |_| found);
                if trial.directed.has_disk_fault {
                    trial.answered(error, end)?;
                } else if !is_damage(&trial.store.check_integrity()) {
                    check.map_or(Ok(()), |check| trial.context.sinks.tell(Told::Ledger(check)))?;
                    return Err(error);
                }
                // Damage is an answer, and is said below.
                check
            }
        };
    } else {
        end.remarks.push((About::Ledger, "there is no ledger to check the records with".to_owned()));
    }
    let integrity = trial.store.check_integrity();
    trial.push_file_system_errors(end);
    let has_ledger = check.is_some();
    if let Some(mut check) = check {
        // Damage is a broken promise like a lost write, not the end of the run.
        if let Err(error) = &integrity
            && is_damage(&integrity)
        {
            check.wrong.insert(INTEGRITY.to_owned(), 1);
            check.examples.insert(0, error.to_string());
            check.sentence = format!("The store's own integrity check failed: {error}. {}", check.sentence);
        }
        // Before any error ends the phase: what was lost stays said.
        trial.context.sinks.tell(Told::Ledger(check))?;
    }
    let is_damaged = is_damage(&integrity);
    let words = match integrity {
        Ok(Some(words)) => words,
        Ok(None) => "it has none".to_owned(),
        Err(error) if error.kind == StoreErrorKind::Corrupt && has_ledger => format!("failed: {error}"),
        Err(error)
            if matches!(error.kind, StoreErrorKind::Corrupt | StoreErrorKind::Broken) || error.is_nobody_there() =>
        {
            return Err(error);
        }
        Err(error) => format!("not possible: {error}"),
    };
    end.remarks.push((About::Integrity, words));
    end.footprint = match trial.store.footprint() {
        Err(_) if is_damaged => None,
        measured => Some(measured?),
    };
    end.push(ResultName::Seconds, started.elapsed().as_secs_f64());
    Ok(())
}

/// The store's own check has found damage.
fn is_damage<T>(integrity: &Result<T, StoreError>) -> bool {
    matches!(integrity, Err(error) if error.kind == StoreErrorKind::Corrupt)
}

/// `None` when the user wanted an end meanwhile: half of the records would look like losses.
fn read_back(
    trial: &mut TrialRun<'_, '_>,
    ordinal: u32,
    end: &mut PhaseEnd,
) -> Result<Option<LedgerCheck>, TrialError> {
    let by_key = (0..).zip(trial.workload.kinds()).find(|(_, kind)| kind.call == Call::Kv(KvCall::Get));
    let found = match by_key.map(|(kind, _)| kind) {
        Some(kind) => key_by_key(trial, ordinal, kind, end)?,
        None => all_at_once(trial, ordinal)?,
    };
    if trial.context.is_stopped() {
        return Ok(None);
    }
    Ok(verdict(trial, ordinal, |ledger| found.unwrap_or_else(|| ledger.found(ordinal as u16))))
}

/// Holds what each node has by itself against the ledger, too, where the store has lost power: what clients see may be one node's doing.
/// `None` when the user wanted an end meanwhile.
fn read_copies(
    trial: &mut TrialRun<'_, '_>,
    ordinal: u32,
    mut check: LedgerCheck,
    end: &mut PhaseEnd,
) -> Result<Option<LedgerCheck>, TrialError> {
    if !trial.was_cut {
        return Ok(Some(check));
    }
    let records = trial.workload.record_count();
    // What clients have seen stays said, whatever a node has to say: one that does not catch up is an answer, and no failure of the run.
    let not_known = |check: &mut LedgerCheck, who: &str, error: TrialError| {
        if error.is_interrupt() || error.kind == StoreErrorKind::Recording {
            return Err(error);
        }
        check.complete = false;
        check.unread = check.unread.max(records);
        check.sentence.push_str(&format!(" The data of {who} could not be compared: {}.", error.line()));
        Ok(())
    };
    let copies = match trial.store.copies() {
        Ok(copies) => copies,
        Err(error) => return not_known(&mut check, "each node", error).map(|()| Some(check)),
    };
    let mut whole = Vec::new();
    for node in copies {
        let name = format!("node {}", node + 1);
        trial.store.read_copy(Some(node));
        let read = read_back(trial, ordinal, end);
        trial.store.read_copy(None);
        let copy = match read {
            Ok(Some(copy)) => copy,
            Ok(None) => return Ok(None),
            Err(error) => {
                not_known(&mut check, &name, error)?;
                continue;
            }
        };
        if copies::add(&mut check, &name, copy) {
            whole.push((node + 1).to_string());
        }
    }
    check.sentence.push_str(&copies::whole(&whole));
    Ok(Some(check))
}

/// Returns the ledger's verdict on what was found.
pub(crate) fn verdict(
    trial: &mut TrialRun<'_, '_>,
    ordinal: u32,
    found: impl FnOnce(&Ledger) -> ReadBack,
) -> Option<LedgerCheck> {
    let ledger = trial.ledger.as_mut()?;
    ledger.drain();
    let found = found(ledger);
    let verdict = ledger.verdict(&found);
    let spans = TickSpans::of(trial.context.sinks.fold().trial().map(|(trial, ..)| trial));
    Some(LedgerCheck {
        trial: trial.trial.ordinal,
        phase: ordinal,
        acknowledged: verdict.acknowledged,
        rejected: verdict.rejected,
        unknown: verdict.unknown,
        read_back: verdict.read_back,
        unread: verdict.unread,
        lost: verdict.lost,
        read_then_lost: verdict.read_then_lost,
        lost_window_ns: verdict.lost_window_ns,
        lost_writes: spans.lost_writes(&verdict.lost_writes),
        unknown_writes: spans.unknown_writes(&ledger.unknown_writes(&found)),
        wrong: verdict.wrong(),
        loss_upper_bound: verdict.loss_upper_bound,
        complete: verdict.gap.is_none() && verdict.unread == 0,
        sentence: verdict.sentence(),
        examples: verdict.examples,
    })
}

/// Reads what may be there, one key after the other: the ledger itself looks on.
fn key_by_key(
    trial: &mut TrialRun<'_, '_>,
    ordinal: u32,
    kind: KindId,
    end: &mut PhaseEnd,
) -> Result<Option<ReadBack>, TrialError> {
    let Some(ledger) = &mut trial.ledger else { return Ok(None) };
    let stream: Arc<dyn Stream> = ledger.each_key(kind, READ_BACK_CLIENTS).into();
    let op_timeout = Duration::from_nanos(trial.context.plan.timeouts.load_ns);
    let spec =
        DriveSpec { limit: Limit::Exhausted, op_timeout, ends_on_loss: !trial.directed.has_disk_fault, ..trial.spec() };
    // A server that has changed meanwhile may not make such sessions any more: what it holds is to be known all the same.
    let durability = last_durability(trial);
    let durability = match trial.reached(|trial| trial.store.sessions(1, durability)) {
        Ok(_) => durability,
        Err(error) if error.is_nobody_there() => return Err(error),
        Err(_) => Durability::AtEnd,
    };
    let asked = Instant::now();
    let result = loop {
        let driven = Driven::measured(ordinal, READ_BACK_CLIENTS, durability, &stream, spec.clone());
        let result = trial.driven(Driven { measured: false, reads_back: true, ..driven });
        // A damaged disk's answers are told below, whatever they are.
        if trial.directed.has_disk_fault || trial.context.is_stopped() {
            break result?;
        }
        let answered = result.and_then(|result| trial.must_have_succeeded("reading back", &result).map(|()| result));
        match answered {
            // The cluster answered just now, so this was one node of it, or a proxy that led there.
            Err(error) if error.kind == StoreErrorKind::Unreachable && asked.elapsed() < ASKED_AGAIN_FOR => {
                std::thread::sleep(ASKED_AGAIN_AFTER);
            }
            answered => break answered?,
        }
    };
    if trial.directed.has_disk_fault {
        // Of what a damaged disk does not give nothing is known; the store says so, which is an answer.
        trial.tell_errors(end, &result);
        end.push(ResultName::Unreadable, result.errors.iter().map(|error| error.count).sum::<u64>() as f64);
    }
    Ok(None)
}

/// Returns the durability of the trial's last writes: the store can open a session with it.
fn last_durability(trial: &TrialRun<'_, '_>) -> Durability {
    let of = |step: &PhaseStep| match step {
        PhaseStep::Load { durability, .. } => Some(*durability),
        PhaseStep::Drive(drive) => Some(drive.durability),
        _ => None,
    };
    trial.trial.phases.iter().rev().find_map(|phase| of(&phase.step)).unwrap_or(Durability::Durable)
}

/// Reads all records by one operation, and by the store's index where there is one.
fn all_at_once(trial: &mut TrialRun<'_, '_>, ordinal: u32) -> Result<Option<ReadBack>, TrialError> {
    let mut found = ReadBack::new(Arc::clone(&trial.workload));
    let all = kind_with(trial, |call| *call == RecordsCall::All);
    let index = kind_with(trial, |call| matches!(call, RecordsCall::Find { access: Access::Indexed, .. }));
    let Some(all) = all else {
        return Err(TrialError::usage("this workload has no operation that reads all records")
            .next("leave the phase with do = \"check\" out, or use another workload: plimsoll list workloads"));
    };
    if let Some(index) = &index {
        let mut params = ValueBuf::new();
        if let Some(kind) = index.op(0, 0, &mut params) {
            found.expect_index(&trial.workload.kinds()[usize::from(kind)], params.values());
        }
    }
    found.add_records(&once(trial, ordinal, &all)?);
    if let Some(index) = index {
        found.add_index_records(&once(trial, ordinal, &index)?);
    }
    Ok(Some(found))
}

/// The stream of the first kind whose call is wanted.
fn kind_with(trial: &TrialRun<'_, '_>, wanted: impl Fn(&RecordsCall) -> bool) -> Option<Arc<dyn Stream>> {
    let kinds = trial.workload.kinds();
    let kind = kinds.iter().find(|kind| matches!(&kind.call, Call::Records { call, .. } if wanted(call)))?;
    let spec = StreamSpec::One { kind: kind.name.clone(), clients: 1 };
    trial.workload.stream(&spec).ok().map(Arc::from)
}

/// Runs the stream's first operation and returns its answer.
fn once(trial: &mut TrialRun<'_, '_>, ordinal: u32, stream: &Arc<dyn Stream>) -> Result<Answer, TrialError> {
    let (tell, heard) = channel();
    let listen = move |_, answer: &Answer| drop(tell.send(answer.clone()));
    let op_timeout = Duration::from_nanos(trial.context.plan.timeouts.work_ns);
    let spec = DriveSpec { limit: Limit::Ops(1), op_timeout, ends_on_loss: true, ..trial.spec() };
    let driven = Driven::measured(ordinal, 1, Durability::AsConfigured, stream, spec);
    let result = trial.driven(Driven { measured: false, listen: Some(Listener(Box::new(listen))), ..driven })?;
    if !trial.context.is_stopped() {
        trial.must_have_succeeded("reading back", &result)?;
        if result.ops == 0 {
            return Err(TrialError::new(StoreErrorKind::Store, "reading back: the store returned nothing"));
        }
    }
    Ok(heard.try_iter().last().unwrap_or_default())
}

impl TrialRun<'_, '_> {
    /// Records what every answer of the trial was worth.
    pub(crate) fn check_answers(&mut self) -> Result<(), TrialError> {
        let Some(ledger) = self.ledger.as_mut() else { return Ok(()) };
        ledger.drain();
        let (sinks, trial) = (self.context.sinks, self.trial.ordinal);
        if let Some(gap) = ledger.gap() {
            let text = format!("answers were not checked: {gap}");
            sinks.event(Some(trial), Level::Warning, EventClass::Ledger, "", text)?;
        }
        if ledger.skipped() > 0 {
            let text = format!(
                "{} answers came faster than the ledger could judge them and were not checked; every \
                 acknowledged write was looked for all the same",
                ledger.skipped()
            );
            sinks.event(Some(trial), Level::Warning, EventClass::Ledger, "", text)?;
        }
        if ledger.unknown_beyond() > 0 {
            let text = format!(
                "{} writes of unknown outcome came after the first million of the trial and count as `not known`: a \
                 shorter outage leaves fewer",
                ledger.unknown_beyond()
            );
            sinks.event(Some(trial), Level::Warning, EventClass::Ledger, "", text)?;
        }
        let spans = TickSpans::of(sinks.fold().trial().map(|(trial, ..)| trial));
        for verdict in ledger.answers() {
            let names = self.servers.get(&u32::from(verdict.phase));
            let name = |server: u32| {
                let is_known = |names: &&Vec<String>| names.len() <= usize::from(SERVERS_MAX);
                names.filter(is_known).and_then(|names| names.get(server as usize)).cloned().unwrap_or_default()
            };
            let stale = spans.stale_reads(&ledger.stale_reads(verdict.phase, verdict.kind), name);
            let duplicates = spans.duplicates(&ledger.duplicates(verdict.phase, verdict.kind));
            sinks.tell(Told::Answers(AnswerCheck {
                trial,
                phase: u32::from(verdict.phase),
                counts: AnswerCounts {
                    answers: verdict.answers,
                    expected: verdict.expected,
                    got: verdict.got,
                    missing: verdict.missing,
                    wrong: verdict.wrong(),
                    stale_records: verdict.stale,
                },
                op: verdict.kind_name,
                examples: verdict.examples,
                stale,
                duplicates,
            }))?;
        }
        Ok(())
    }
}
