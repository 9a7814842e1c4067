//! A small trial with the ledger on: load, a mixture from many clients, and everything read back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::{
    Access, Call, Durability, KvCall, Mix, OpKind, Outcome, ParamValue, RecordsCall, Sessions, Store, StreamSpec,
    ValueBuf, Workload, WorkloadSpec,
};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_verify::{AnswerVerdict, Ledger, LedgerVerdict, ReadBack};

use crate::ask::{OP_TIMEOUT, Script, ask};
use crate::params::defaults;

/// The phase that reads back key by key.
const READ_BACK: u16 = 2;

/// A trial to be run on an open store.
pub struct Trial {
    /// Workload of the trial. It must have a truth, and operation types that read all records and find some by index,
    /// or one that reads one value by its key.
    pub workload: Arc<dyn Workload>,
    /// Clients of the mixture.
    pub clients: u32,
    /// Operations of each client in the mixture.
    pub ops_per_client: u64,
    /// The mixture.
    pub mix: Mix,
    /// Durability of loading and of the mixture.
    pub durability: Durability,
    /// Records to an insert of the load.
    pub batch: u32,
}

/// Results of a trial.
#[derive(Debug)]
pub struct Outcomes {
    /// Comparison of the answers with the truth, by phase and operation type.
    pub answers: Vec<AnswerVerdict>,
    /// Verdict on acknowledged writes.
    pub ledger: LedgerVerdict,
}

impl Outcomes {
    /// True when the store told the truth throughout.
    pub fn is_right(&self) -> bool {
        self.ledger.is_kept() && self.answers.iter().all(AnswerVerdict::is_right)
    }

    /// Describes the violations, in a few lines.
    pub fn complaints(&self) -> String {
        let wrong = self.answers.iter().filter(|verdict| !verdict.is_right());
        let answers = wrong.map(|verdict| {
            let AnswerVerdict { kind_name, answers, missing, examples, .. } = verdict;
            format!("{kind_name}: {answers} answers, {missing} missing, {} wrong: {examples:?}", verdict.wrong())
        });
        let ledger = format!("{} {:?}", self.ledger.sentence(), self.ledger.examples);
        answers.chain([ledger]).collect::<Vec<_>>().join("\n")
    }
}

impl Trial {
    /// Runs it on a store, which it empties first.
    pub fn run(&self, store: &mut dyn Store) -> Result<Outcomes, String> {
        let mut ledger = Ledger::new(Arc::clone(&self.workload)).ok_or("the workload has no truth")?;
        let clock = Clock::start();
        store.create(self.workload.layout()).map_err(|error| error.to_string())?;
        let load = DriveSpec { limit: Limit::Exhausted, op_timeout: OP_TIMEOUT, ..DriveSpec::default() };
        let sessions = store.sessions(1, self.durability).map_err(|error| error.to_string())?;
        let stream = self.workload.stream(&StreamSpec::Load { batch: self.batch, clients: 1 })?;
        self.phase(0, &clock, &load, sessions, stream, &mut ledger)?;
        store.sync().map_err(|error| error.to_string())?;
        store.settle().map_err(|error| error.to_string())?;
        let mixed = DriveSpec { limit: Limit::Ops(self.ops_per_client), workers: 2, ..load.clone() };
        let sessions = store.sessions(self.clients, self.durability).map_err(|error| error.to_string())?;
        let stream = self.workload.stream(&StreamSpec::Mix { mix: self.mix.clone(), clients: self.clients })?;
        self.phase(1, &clock, &mixed, sessions, stream, &mut ledger)?;
        let by_key = (0..).zip(self.workload.kinds()).find(|(_, kind)| kind.call == Call::Kv(KvCall::Get));
        let found = match by_key {
            Some((kind, _)) => {
                let each = ledger.each_key(kind, 1);
                let sessions = store.sessions(1, self.durability).map_err(|error| error.to_string())?;
                self.phase(READ_BACK, &clock, &load, sessions, each, &mut ledger)?;
                ledger.found(READ_BACK)
            }
            None => self.read_back(store)?,
        };
        Ok(Outcomes { answers: ledger.answers(), ledger: ledger.verdict(&found) })
    }

    fn phase(
        &self,
        number: u16,
        clock: &Clock,
        spec: &DriveSpec,
        sessions: Sessions,
        stream: Box<dyn plimsoll_core::Stream>,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        let workers = spec.worker_count(&sessions);
        let observers = match number {
            READ_BACK => ledger.observers_reading_back(number, workers, sessions.len()),
            _ => ledger.observers(number, workers, sessions.len()),
        };
        let drive = Drive {
            clock,
            spec,
            observers,
            sessions,
            kinds: self.workload.kinds(),
            stream: Arc::from(stream),
            stop: Arc::new(AtomicBool::new(false)),
        };
        drive.run(&mut |_| ledger.drain()).map_err(|error| error.to_string())?;
        ledger.drain();
        Ok(())
    }

    fn read_back(&self, store: &mut dyn Store) -> Result<ReadBack, String> {
        let (all, _) = self.kind(|call| *call == RecordsCall::All)?;
        let by_index = |call: &RecordsCall| matches!(call, RecordsCall::Find { access: Access::Indexed, .. });
        let (query, kind) = self.kind(by_index)?;
        let mut params = ValueBuf::new();
        let stream = self.workload.stream(&StreamSpec::One { kind: kind.name.clone(), clients: 1 })?;
        stream.op(0, 0, &mut params).ok_or("the workload has no query")?;
        let mut found = ReadBack::new(Arc::clone(&self.workload));
        found.expect_index(kind, params.values());
        let mut script = Script::new();
        script.op(all, []).op(query, params.values().iter());
        let replies = ask(store, self.workload.kinds(), self.durability, &script)?;
        if let Some(reply) = replies.iter().find(|reply| reply.outcome != Outcome::Ok) {
            return Err(format!("reading back came to {:?}: {}", reply.outcome, reply.answer.message));
        }
        found.add_records(&replies[0].answer);
        found.add_index_records(&replies[1].answer);
        Ok(found)
    }

    fn kind(&self, wanted: impl Fn(&RecordsCall) -> bool) -> Result<(u16, &OpKind), String> {
        let found = self.workload.kinds().iter().enumerate().find(|(_, kind)| match &kind.call {
            Call::Records { call, .. } => wanted(call),
            _ => false,
        });
        found.map(|(position, kind)| (position as u16, kind)).ok_or_else(|| "the workload lacks a kind".to_owned())
    }
}

/// The workload named `name` with some whole numbers and words set, the others at their defaults.
///
/// # Panics
/// When there is no such workload.
pub fn workload(name: &str, seed: u64, ints: &[(&str, i64)], words: &[(&str, &str)]) -> Arc<dyn Workload> {
    let spec: WorkloadSpec = plimsoll_workload::all()
        .into_iter()
        .find(|spec| spec.name == name)
        .unwrap_or_else(|| panic!("there is no workload `{name}`"));
    let mut params = defaults(spec.params);
    params.0.extend(ints.iter().map(|(name, value)| ((*name).to_owned(), ParamValue::Int(*value))));
    params.0.extend(words.iter().map(|(name, value)| ((*name).to_owned(), ParamValue::Text((*value).to_owned()))));
    Arc::from((spec.make)(seed, &params, &[]).unwrap_or_else(|error| panic!("{name}: {error}")))
}
