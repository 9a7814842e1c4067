//! Asks an open store a list of questions, through the drive loop as a phase does, and keeps the answers.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::sampler::WAITING_FOR;
use plimsoll_core::{
    Answer, Durability, KindId, Observer, Op, OpKind, Outcome, Probe, Reading, Store, Stream, Ticket, Value, ValueBuf,
    read_probes,
};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};

/// Time limit of an operation.
pub(crate) const OP_TIMEOUT: Duration = Duration::from_secs(30);

/// Reply to an operation.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// The answer, as the session gave it.
    pub answer: Answer,
}

/// Reads the counters of `store` through probes of their own.
///
/// # Panics
/// When it counts nothing, or cannot be asked.
pub fn counters(store: &mut dyn Store) -> Vec<Reading> {
    let read = read_probes(&mut store.probes()).expect("its counters are read");
    assert!(!read.is_empty(), "the store has no counters");
    read
}

/// Waits until a series of sessions that wait for a lock, whose name ends with `end`, has the level `count`. Returns its
/// name.
///
/// # Panics
/// Panics if the counters cannot be read, or no such series has that level within `bound`.
pub fn until_waiting(probe: &mut Probe, end: &str, count: f64, bound: Duration) -> String {
    let (began, mut found) = (Instant::now(), Vec::new());
    while began.elapsed() < bound {
        let waits = probe().expect("counters").into_iter().filter(|one| one.name.starts_with(WAITING_FOR));
        found = waits.map(|one| (one.name.clone(), one.number())).collect();
        if let Some((name, _)) = found.iter().find(|(name, number)| name.ends_with(end) && *number == count) {
            return name.clone();
        }
        // A server may renew its lists only if they have not been read for 0.1 s.
        std::thread::sleep(Duration::from_millis(120));
    }
    panic!("not {count} {end} within {bound:?}: {found:?}");
}

/// Operations to be asked one after the other.
#[derive(Debug, Default, Clone)]
pub struct Script {
    ops: Vec<(KindId, ValueBuf)>,
}

impl Script {
    /// Makes an empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation.
    pub fn op<'a>(&mut self, kind: KindId, params: impl IntoIterator<Item = Value<'a>>) -> &mut Self {
        let mut buf = ValueBuf::new();
        params.into_iter().for_each(|value| buf.push(value));
        self.ops.push((kind, buf));
        self
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

impl Stream for Script {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let (kind, values) = self.ops.get(usize::try_from(cycle).ok()?).filter(|_| client == 0)?;
        params.extend(values.values());
        Some(*kind)
    }
}

/// Keeps every answer.
struct Keeper(Arc<Mutex<Vec<Reply>>>);

impl Observer for Keeper {
    fn sent(&mut self, _ticket: Ticket, _at_ns: u64, _client: u32, _cycle: u64, _op: &Op<'_>) {}

    fn finished(&mut self, _ticket: Ticket, _at_ns: u64, outcome: Outcome, answer: &Answer) {
        let mut replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        replies.push(Reply { outcome, answer: answer.clone() });
    }
}

/// Asks all of `script` in one session, one after the other: as many replies as there are operations, or what
/// stopped it.
pub fn ask(
    store: &mut dyn Store,
    kinds: &[OpKind],
    durability: Durability,
    script: &Script,
) -> Result<Vec<Reply>, String> {
    if script.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = store.sessions(1, durability).map_err(|error| error.to_string())?;
    let replies = Arc::new(Mutex::new(Vec::with_capacity(script.len())));
    let spec = DriveSpec { limit: Limit::Exhausted, op_timeout: OP_TIMEOUT, ..DriveSpec::default() };
    let drive = Drive {
        clock: &Clock::start(),
        spec: &spec,
        sessions,
        kinds,
        stream: Arc::new(script.clone()),
        observers: vec![Box::new(Keeper(Arc::clone(&replies)))],
        stop: Arc::new(AtomicBool::new(false)),
    };
    let result = drive.run(&mut |_| {}).map_err(|error| error.to_string())?;
    let replies = std::mem::take(&mut *replies.lock().unwrap_or_else(PoisonError::into_inner));
    if replies.len() != script.len() {
        return Err(format!("{} of {} operations were answered ({:?})", replies.len(), script.len(), result.stop));
    }
    Ok(replies)
}
