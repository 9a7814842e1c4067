//! The ledger: who wrote what and when, and what was answered, gathered from all workers of a trial.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use plimsoll_core::{Observer, Workload};

use crate::history::History;
use crate::log::{Chunk, ChunkRoom, Event, Part, Row, Watch};
use crate::running::{RING_WORDS, Running};
use crate::witness::{Post, Shared, Witness};

/// Operations to a chunk.
const CHUNK_EVENTS: usize = 8_192;
/// Rows to a chunk.
const CHUNK_ROWS: usize = 32_768;
/// Chunks of one worker. Between two drains it can write down one less than these.
const CHUNKS: usize = 16;

/// The ledger of one trial: it lives through all its phases, from an empty store on, and through those that follow on
/// the same data ([`Ledger::next_trial`]). A store that is emptied again needs a new one.
///
/// Of values under keys that say themselves which write they are of and are never deleted (`kv`), answers are judged by
/// [`Ledger::drain`], while phases run, and what can matter no more is forgotten. Memory: 64 MiB for all workers, at
/// least 128 KiB each, allocated by [`Ledger::observers`]; about 100 bytes a record, 80 MiB for what was written last, 40
/// bytes a write whose outcome nobody saw; nothing for an operation. Limit: an observer has room for 10,000 reads or
/// writes, 1.3 million with few workers, between two drains. Beyond three quarters of that answers are left out and
/// counted ([`History::skipped`]); a write that is left out makes the verdict *incomplete*.
///
/// Of all others the whole history is kept. Memory: 16 MiB a worker, and in the history 64 bytes an operation and 16
/// a row of an answer (10 s of 50,000 operations a second with 200 answers a second of 500 rows: 46 MiB).
/// Limits: 120,000 operations and 490,000 rows a worker between two drains, 2 GiB of history. What is beyond
/// them is counted, and makes the verdict *incomplete*, never silently good.
pub struct Ledger {
    history: History,
    lines: Vec<Line>,
    shared: Arc<Shared>,
    key: usize,
    sees_contents: bool,
    room: ChunkRoom,
    trials: u32,
}

/// One observer, seen from the control thread.
struct Line {
    part: usize,
    full: Receiver<Box<Chunk>>,
    free: SyncSender<Box<Chunk>>,
}

impl Ledger {
    /// A ledger for a trial of `workload` on a store that is empty when it begins. `None` when the workload
    /// has no truth to hold answers against.
    ///
    /// # Panics
    /// When the workload has 2^32 - 1 records or more.
    pub fn new(workload: Arc<dyn Workload>) -> Option<Self> {
        let mut ledger = Self::with_room(workload, ChunkRoom { events: CHUNK_EVENTS, rows: CHUNK_ROWS })?;
        ledger.judge_while_running(RING_WORDS);
        Some(ledger)
    }

    /// Bytes of memory that a ledger of `workload` comes to, about: `workers` drive `operations` operations, some of which
    /// may be scans.
    pub fn bytes(workload: &dyn Workload, workers: u64, operations: u64, scans: bool) -> u64 {
        let records = workload.record_count();
        if workload.truth().is_some_and(plimsoll_core::Truth::sees_contents) {
            let ring = ((64 << 20) / workers.max(1)).clamp(8 * RING_WORDS.0 as u64, 8 * RING_WORDS.1 as u64);
            return ring.next_power_of_two() * workers + records * if scans { 220 } else { 140 } + (80 << 20);
        }
        let events = (records + operations).saturating_mul(80).min(2 << 30);
        events + workers * (CHUNKS * (CHUNK_EVENTS * size_of::<Event>() + CHUNK_ROWS * size_of::<Row>())) as u64
    }

    /// Judges while phases run where that can be done, with rings of so many words, at least and at most.
    pub(crate) fn judge_while_running(&mut self, ring_words: (usize, usize)) {
        let History { workload, watches, running, .. } = &mut self.history;
        if Running::can(&**workload, watches) {
            *running = Some(Running::new(Arc::clone(workload), Arc::clone(watches), ring_words));
        }
    }

    pub(crate) fn with_room(workload: Arc<dyn Workload>, room: ChunkRoom) -> Option<Self> {
        let sees_contents = workload.truth()?.sees_contents();
        assert!(workload.record_count() < u64::from(u32::MAX), "the ledger counts records in 32 bits");
        let collection = workload.layout().collections.first();
        let (key, columns) = (key_position(&*workload), collection.map_or(2, |collection| collection.fields.len()));
        let watches = workload.kinds().iter().map(|kind| Watch::of(kind, columns)).collect();
        let history = History::new(workload, watches);
        Some(Self { history, lines: Vec::new(), shared: Arc::default(), key, sees_contents, room, trials: 0 })
    }

    /// Observers for the workers of one phase, with all their memory. `phase` is the phase's position in its
    /// trial, and comes back in [`crate::AnswerVerdict::phase`]. Tickets of each worker are below `tickets`.
    ///
    /// The phase's observers have to be dropped before [`Ledger::history`] is asked for.
    pub fn observers(&mut self, phase: u16, workers: usize, tickets: usize) -> Vec<Box<dyn Observer>> {
        self.observers_of(phase, workers, tickets, false)
    }

    /// The same for a phase that reads back what the store holds, key by key: [`crate::ReadBack::of_phase`] makes
    /// something of it. Its answers are not judged as answers.
    pub fn observers_reading_back(&mut self, phase: u16, workers: usize, tickets: usize) -> Vec<Box<dyn Observer>> {
        self.observers_of(phase, workers, tickets, true)
    }

    fn observers_of(&mut self, phase: u16, workers: usize, tickets: usize, reads_back: bool) -> Vec<Box<dyn Observer>> {
        if let Some(running) = &mut self.history.running {
            return running.observers(phase, workers, tickets, reads_back, &self.shared);
        }
        (0..workers).map(|_| self.observer(phase, tickets, reads_back)).collect()
    }

    fn observer(&mut self, phase: u16, tickets: usize, reads_back: bool) -> Box<dyn Observer> {
        let (full_sender, full) = sync_channel(CHUNKS);
        let (free, free_receiver) = sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            free.try_send(Box::new(Chunk::new(self.room))).expect("the channel has room for all chunks");
        }
        self.history.parts.push(Part { reads_back, ..Part::default() });
        self.lines.push(Line { part: self.history.parts.len() - 1, full, free });
        Box::new(Witness::new(Post {
            workload: Arc::clone(&self.history.workload),
            watches: Arc::clone(&self.history.watches),
            key: self.key,
            sees_contents: self.sees_contents,
            phase,
            room: self.room,
            tickets,
            full: full_sender,
            free: free_receiver,
            shared: Arc::clone(&self.shared),
        }))
    }

    /// Takes over what the observers have filled since the last call, and gives them empty chunks. To be
    /// called by the control thread at least once a second while a phase runs.
    pub fn drain(&mut self) {
        let history = &mut self.history;
        if let Some(running) = &mut history.running {
            return running.drain();
        }
        self.lines.retain(|line| {
            loop {
                match line.full.try_recv() {
                    Ok(mut chunk) => {
                        history.take(line.part, &chunk);
                        chunk.clear();
                        // Fails when the observer is gone: then nobody needs the chunk.
                        let _ = line.free.try_send(chunk);
                    }
                    Err(TryRecvError::Empty) => return true,
                    Err(TryRecvError::Disconnected) => return false,
                }
            }
        });
    }

    /// Goes on with the next trial on the same data: what each record can be is kept, and nothing else. `None` where
    /// something was not written down, or where versions do not vouch for contents: a record that is older than what is
    /// kept could not be told from a spoilt one.
    pub fn next_trial(mut self) -> Option<Self> {
        if self.history().gap().is_some() {
            return None;
        }
        self.history.running.as_mut()?.fold();
        self.trials += 1;
        Some(self)
    }

    /// Trials on the same data before this one.
    pub fn trials_before(&self) -> u32 {
        self.trials
    }

    /// Everything up to now. The observers of all phases have to be dropped before, otherwise the history
    /// says that it is incomplete.
    pub fn history(&mut self) -> &History {
        self.history.at_work = self.shared.at_work.load(Ordering::Acquire);
        self.drain();
        self.history.overflows = self.shared.overflows.load(Ordering::Relaxed);
        &self.history
    }
}

/// Position of the value that names a record, in a row.
pub(crate) fn key_position(workload: &dyn Workload) -> usize {
    workload.layout().collections.first().map_or(0, |collection| usize::from(collection.key))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Answer, Op, Outcome, ParamType, ParamValue, Params, Stream, StreamSpec, Ticket, ValueBuf};

    use super::*;
    use crate::{Judge, ReadBack};

    fn coupons(records: i64) -> Arc<dyn Workload> {
        let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "coupons").unwrap();
        let mut params = Params::default();
        for param in spec.params {
            let value = match param.param_type {
                ParamType::Int { .. } => ParamValue::Int(param.default.parse().unwrap()),
                _ => ParamValue::Text(param.default.into()),
            };
            params.0.insert(param.name.into(), value);
        }
        params.0.insert("records".into(), ParamValue::Int(records));
        Arc::from((spec.make)(11, &params, &[]).expect("coupons take these parameters"))
    }

    fn load(workload: &dyn Workload) -> Box<dyn Stream> {
        workload.stream(&StreamSpec::Load { batch: 10, clients: 1 }).unwrap()
    }

    /// Sends and finishes all of `stream`; the store holds everything.
    fn run(observer: &mut dyn Observer, stream: &dyn Stream, outcome: impl Fn(u64) -> Option<Outcome>) {
        let mut params = ValueBuf::new();
        for cycle in 0.. {
            params.clear();
            let Some(kind) = stream.op(0, cycle, &mut params) else { break };
            let op = Op::new(kind, params.values());
            observer.sent(Ticket(0), cycle * 10_000, 0, cycle, &op);
            if let Some(outcome) = outcome(cycle) {
                observer.finished(Ticket(0), cycle * 10_000 + 5_000, outcome, &Answer::default());
            }
        }
    }

    fn everything(workload: &Arc<dyn Workload>) -> ReadBack {
        let mut all = Answer { columns: 8, ..Answer::default() };
        for id in 0..workload.record_count() {
            workload.truth().unwrap().row(id, plimsoll_core::Version::Loaded, &mut all.values);
        }
        let mut found = ReadBack::new(workload.clone());
        found.add_records(&all);
        found
    }

    #[test]
    fn what_was_loaded_and_is_there_is_borne_out() {
        let workload = coupons(1_000);
        let mut ledger = Ledger::new(workload.clone()).unwrap();
        let mut observers = ledger.observers(0, 1, 1);
        run(&mut *observers[0], &*load(&*workload), |_| Some(Outcome::Ok));
        drop(observers);
        let verdict = Judge::new(ledger.history()).ledger(&everything(&workload));
        assert_eq!((verdict.acknowledged, verdict.borne_out, verdict.read_back), (1_000, 1_000, 1_000));
        assert_eq!(verdict.loss_upper_bound, Some(0.003));
        assert!(verdict.is_kept());
        assert_eq!(
            verdict.sentence(),
            "All 1,000 acknowledged writes are there (95 % sure: fewer than 1 in 333 lost)."
        );
    }

    #[test]
    fn an_operation_that_was_never_finished_is_unknown() {
        let workload = coupons(100);
        let mut ledger = Ledger::new(workload.clone()).unwrap();
        let mut observers = ledger.observers(0, 1, 1);
        run(&mut *observers[0], &*load(&*workload), |cycle| (cycle != 3 && cycle != 9).then_some(Outcome::Ok));
        drop(observers);
        let verdict = Judge::new(ledger.history()).ledger(&everything(&workload));
        assert_eq!((verdict.acknowledged, verdict.unknown), (80, 20));
        assert!(verdict.is_kept(), "{verdict:#?}");
        let verdict = Judge::new(ledger.history()).ledger(&ReadBack::new(workload));
        assert_eq!(verdict.lost, 80);
    }

    #[test]
    fn a_ledger_that_is_not_drained_says_that_it_is_incomplete() {
        let workload = coupons(10_000);
        let mut ledger = Ledger::with_room(workload.clone(), ChunkRoom { events: 8, rows: 100 }).unwrap();
        let mut observers = ledger.observers(0, 1, 1);
        run(&mut *observers[0], &*load(&*workload), |_| Some(Outcome::Ok));
        drop(observers);
        let verdict = Judge::new(ledger.history()).ledger(&everything(&workload));
        assert!(!verdict.is_kept() && verdict.sentence().contains("incomplete"), "{}", verdict.sentence());
        assert_eq!(verdict.loss_upper_bound, None);
    }

    #[test]
    fn a_ledger_that_is_drained_keeps_everything_in_little_room() {
        let workload = coupons(10_000);
        let mut ledger = Ledger::with_room(workload.clone(), ChunkRoom { events: 8, rows: 100 }).unwrap();
        let mut observers = ledger.observers(0, 1, 1);
        let stream = load(&*workload);
        let mut params = ValueBuf::new();
        for cycle in 0..1_000 {
            params.clear();
            let kind = stream.op(0, cycle, &mut params).unwrap();
            observers[0].sent(Ticket(0), cycle, 0, cycle, &Op::new(kind, params.values()));
            observers[0].finished(Ticket(0), cycle, Outcome::Ok, &Answer::default());
            if cycle % 7 == 0 {
                ledger.drain();
            }
        }
        drop(observers);
        let verdict = Judge::new(ledger.history()).ledger(&everything(&workload));
        assert!(verdict.is_kept(), "{verdict:#?}");
        assert_eq!(verdict.acknowledged, 10_000);
    }

    #[test]
    fn workers_still_at_work_make_the_ledger_incomplete() {
        let workload = coupons(10);
        let mut ledger = Ledger::new(workload.clone()).unwrap();
        let observers = ledger.observers(0, 2, 1);
        assert!(ledger.history().gap().unwrap().contains("2 workers"));
        drop(observers);
        assert_eq!(ledger.history().gap(), None);
    }

    #[test]
    fn a_ticket_out_of_range_makes_the_ledger_incomplete() {
        let workload = coupons(10);
        let mut ledger = Ledger::new(workload.clone()).unwrap();
        let mut observers = ledger.observers(0, 1, 4);
        let mut params = ValueBuf::new();
        let kind = load(&*workload).op(0, 0, &mut params).unwrap();
        observers[0].sent(Ticket(4), 0, 0, 0, &Op::new(kind, params.values()));
        drop(observers);
        assert!(ledger.history().gap().is_some());
    }
}
