//! The ledger: who wrote what and when, and what was answered, gathered from all workers of a trial.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use plimsoll_core::{Observer, Workload};

use crate::old::history::History;
use crate::old::log::{Chunk, ChunkRoom, Event, Part, Row, Watch};
use crate::old::witness::{Post, Shared, Witness};

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
    /// trial, and comes back in [`crate::old::AnswerVerdict::phase`]. Tickets of each worker are below `tickets`.
    ///
    /// The phase's observers have to be dropped before [`Ledger::history`] is asked for.
    pub fn observers(&mut self, phase: u16, workers: usize, tickets: usize) -> Vec<Box<dyn Observer>> {
        self.observers_of(phase, workers, tickets, false)
    }

    /// The same for a phase that reads back what the store holds, key by key: [`crate::old::ReadBack::of_phase`] makes
    /// something of it. Its answers are not judged as answers.
    pub fn observers_reading_back(&mut self, phase: u16, workers: usize, tickets: usize) -> Vec<Box<dyn Observer>> {
        self.observers_of(phase, workers, tickets, true)
    }

    fn observers_of(&mut self, phase: u16, workers: usize, tickets: usize, reads_back: bool) -> Vec<Box<dyn Observer>> {
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
