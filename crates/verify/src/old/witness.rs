//! The worker's side of the ledger: writes down what goes out and comes back, and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket, Truth, Value, Values, Version, Workload};

use crate::digest::digest;
use crate::old::log::{ALIEN, Chunk, ChunkRoom, Event, NEVER, NO_STAMP, Row, Watch};

/// What a witness and the ledger share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Operations that could not be written down.
    pub overflows: AtomicU64,
    /// Witnesses that have not handed over their last chunk.
    pub at_work: AtomicU64,
}

/// Everything the ledger gives a witness.
pub(crate) struct Post {
    pub workload: Arc<dyn Workload>,
    pub watches: Arc<[Watch]>,
    /// Position of the field that names a record.
    pub key: usize,
    /// Versions vouch for contents.
    pub sees_contents: bool,
    pub phase: u16,
    pub room: ChunkRoom,
    /// Tickets are below this.
    pub tickets: usize,
    pub full: SyncSender<Box<Chunk>>,
    pub free: Receiver<Box<Chunk>>,
    pub shared: Arc<Shared>,
}

/// The chunk that is written to, and the way to the next one.
struct Page {
    chunk: Box<Chunk>,
    room: ChunkRoom,
    full: SyncSender<Box<Chunk>>,
    free: Receiver<Box<Chunk>>,
    /// Rows, pairs of bounds and aliens in the chunks handed over.
    rows_before: u64,
    bounds_before: u32,
    aliens_before: i64,
}

impl Page {
    /// Hands the chunk over and goes on with an empty one; `None` when there is none.
    #[cold]
    fn turn(&mut self) -> Option<()> {
        let empty = self.free.try_recv().ok()?;
        self.rows_before += self.chunk.rows.len() as u64;
        self.bounds_before += (self.chunk.bounds.len() / 2) as u32;
        self.aliens_before += self.chunk.aliens.len() as i64;
        let full = std::mem::replace(&mut self.chunk, empty);
        // There is room for all chunks that exist; if the ledger is gone, nobody wants them.
        let _ = self.full.try_send(full);
        Some(())
    }

    fn push_event(&mut self, event: Event) -> Option<()> {
        if self.chunk.events.len() == self.room.events {
            self.turn()?;
        }
        self.chunk.events.push(event);
        Some(())
    }

    fn push_row(&mut self, row: Row) -> Option<()> {
        if self.chunk.rows.len() == self.room.rows {
            self.turn()?;
        }
        self.chunk.rows.push(row);
        Some(())
    }

    /// Position of these bounds among all of this witness; those of the question before are used again.
    fn bounds(&mut self, low: Value<'_>, high: Value<'_>) -> Option<u32> {
        if self.chunk.last_bounds() != Some((low, high)) {
            if self.chunk.bounds_are_full() {
                self.turn()?;
            }
            self.chunk.bounds.push(low);
            self.chunk.bounds.push(high);
        }
        Some(self.bounds_before + (self.chunk.bounds.len() / 2) as u32 - 1)
    }

    fn row_count(&self) -> u64 {
        self.rows_before + self.chunk.rows.len() as u64
    }
}

/// Observes one worker. Dropping it hands over what it holds, operations in flight as unknown.
pub(crate) struct Witness {
    workload: Arc<dyn Workload>,
    watches: Arc<[Watch]>,
    key: usize,
    sees_contents: bool,
    phase: u16,
    in_flight: Vec<Option<Event>>,
    page: Page,
    shared: Arc<Shared>,
}

impl Witness {
    pub fn new(post: Post) -> Self {
        post.shared.at_work.fetch_add(1, Ordering::Relaxed);
        let page = Page {
            chunk: Box::new(Chunk::new(post.room)),
            room: post.room,
            full: post.full,
            free: post.free,
            rows_before: 0,
            bounds_before: 0,
            aliens_before: 0,
        };
        Self {
            workload: post.workload,
            watches: post.watches,
            key: post.key,
            sees_contents: post.sees_contents,
            phase: post.phase,
            in_flight: vec![None; post.tickets],
            page,
            shared: post.shared,
        }
    }

    fn overflow(&self) {
        self.shared.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes down the records of an insert, or the rows of an answer: where they begin and how many they
    /// are; `None` when there is no room.
    fn rows<'a>(&mut self, rows: impl Iterator<Item = Values<'a>>, digests: bool) -> Option<(u64, u32)> {
        let truth = self.workload.truth()?;
        let start = self.page.row_count();
        let mut count = 0;
        for values in rows {
            let key = values.get(self.key);
            let id = record_number(truth, key);
            let stamp = if id == ALIEN {
                let before = self.page.aliens_before;
                self.page.chunk.keep_alien(key).map_or(NO_STAMP, |position| before + position as i64)
            } else {
                truth.version(values).map_or(NO_STAMP, Version::stamp)
            };
            let digest = if digests && !self.sees_contents { digest(values) } else { 0 };
            self.page.push_row(Row { id, digest, stamp })?;
            count += 1;
        }
        Some((start, count))
    }

    fn begin(&mut self, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>, watch: Watch) -> Option<Event> {
        let mut event = Event {
            cycle,
            sent_ns: at_ns,
            finished_ns: NEVER,
            row_start: 0,
            row_count: 0,
            bounds: 0,
            client,
            id: ALIEN,
            stamp: NO_STAMP,
            kind: op.kind,
            phase: self.phase,
            outcome: Outcome::Unknown,
        };
        match watch {
            Watch::Insert { columns } => {
                (event.row_start, event.row_count) = self.rows(op.params.rows(columns), false)?;
            }
            Watch::Update | Watch::Delete | Watch::Get | Watch::Value => {
                event.id = record_number(self.workload.truth()?, op.params.get(0));
            }
            Watch::Put => {
                let truth = self.workload.truth()?;
                event.id = record_number(truth, op.params.get(0));
                event.stamp = truth.written(op.params).map_or(NO_STAMP, Version::stamp);
            }
            Watch::Range => {
                event.id = record_number(self.workload.truth()?, op.params.get(0));
                event.bounds = match op.params.get(1) {
                    Value::Int(count) => u32::try_from(count.max(0)).unwrap_or(u32::MAX),
                    _ => 0,
                };
            }
            Watch::Find { .. } => event.bounds = self.page.bounds(op.params.get(0), op.params.get(1))?,
            Watch::All | Watch::Ignore => {}
        }
        Some(event)
    }

    fn end(&mut self, mut event: Event, at_ns: u64, outcome: Outcome, answer: &Answer) -> Option<()> {
        event.outcome = outcome;
        event.finished_ns = if outcome == Outcome::Unknown { NEVER } else { at_ns };
        let watch = self.watches[usize::from(event.kind)];
        if outcome == Outcome::Ok && watch == Watch::Value {
            // One value in most answers there are: it needs no row of its own.
            let version = self.workload.truth()?.version_under(u64::from(event.id), answer.values.values());
            event.stamp = version.map_or(NO_STAMP, Version::stamp);
            event.row_count = answer.rows as u32;
        } else if outcome == Outcome::Ok && !watch.writes() {
            (event.row_start, event.row_count) = self.rows(answer.row_iter(), true)?;
        }
        self.page.push_event(event)
    }
}

/// The number of the record with `key`, or [`ALIEN`].
pub(crate) fn record_number(truth: &dyn Truth, key: Value<'_>) -> u32 {
    truth.record_id(key).and_then(|id| u32::try_from(id).ok()).unwrap_or(ALIEN)
}

impl Observer for Witness {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        let watch = self.watches.get(usize::from(op.kind)).copied().unwrap_or(Watch::Ignore);
        if watch == Watch::Ignore {
            return;
        }
        let event = self.begin(at_ns, client, cycle, op, watch);
        match self.in_flight.get_mut(ticket.0 as usize) {
            Some(slot) if event.is_some() => {
                // A ticket given out again before it was finished: its operation stays unknown.
                let before = std::mem::replace(slot, event);
                if before.is_some_and(|before| self.page.push_event(before).is_none()) {
                    self.overflow();
                }
            }
            _ => self.overflow(),
        }
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        let Some(event) = self.in_flight.get_mut(ticket.0 as usize).and_then(Option::take) else { return };
        if self.end(event, at_ns, outcome, answer).is_none() {
            self.overflow();
        }
    }

    // What reads and writes are the steps; the operation around them is ignored, so its ticket is free for them. A step
    // without an answer when its operation is given up comes to what that does: unknown.
    fn step_sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        self.sent(ticket, at_ns, client, cycle, op);
    }

    fn step_finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        self.finished(ticket, at_ns, outcome, answer);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Not on the hot path any more: the chunk may grow.
        self.page.chunk.events.extend(self.in_flight.iter_mut().filter_map(Option::take));
        let nothing = Box::new(Chunk::new(ChunkRoom { events: 0, rows: 0 }));
        let last = std::mem::replace(&mut self.page.chunk, nothing);
        let _ = self.page.full.try_send(last);
        self.shared.at_work.fetch_sub(1, Ordering::Release);
    }
}
