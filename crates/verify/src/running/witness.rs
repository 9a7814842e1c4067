//! The worker's side of a ledger that judges while the phase runs: what is about to be written, what came of it, what
//! was answered, as notes in a ring. It neither waits nor allocates.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket, Value, Version, Workload};

use super::ring::{Header, Note, Pen, Ring, pair};
use crate::log::{ALIEN, NO_STAMP, Watch};
use crate::witness::{Shared, record_number};

/// Keys that are no record's, kept to be shown; of each so many bytes.
const ALIEN_KEYS: usize = 16;
const ALIEN_KEY_BYTES: usize = 64;
/// Answers leave one word in so many to writes: with an answer less, less is known; with a write less, nothing.
const LEFT_TO_WRITES: usize = 4;

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
struct Open {
    sent_ns: u64,
    cycle: u64,
    client: u32,
    id: u32,
    /// Records that a range asks for.
    asked: u32,
    kind: u16,
    watch: Watch,
}

/// Observes one worker. Dropping it says that operations in flight are unknown.
pub(super) struct Watcher {
    workload: Arc<dyn Workload>,
    watches: Arc<[Watch]>,
    shared: Arc<Shared>,
    open: Vec<Option<Open>>,
    pen: Pen,
    aliens: usize,
    /// What is read is what the store holds in the end: no part of it may be left out.
    reads_back: bool,
}

impl Watcher {
    pub fn new(
        workload: Arc<dyn Workload>,
        watches: Arc<[Watch]>,
        shared: Arc<Shared>,
        ring: Arc<Ring>,
        tickets: usize,
        reads_back: bool,
    ) -> Self {
        shared.at_work.fetch_add(1, Ordering::Relaxed);
        let pen = Pen::new(ring);
        Self { workload, watches, shared, open: vec![None; tickets], pen, aliens: 0, reads_back }
    }

    #[cold]
    fn overflow(&self) {
        self.shared.overflows.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn skip(&self, kind: u16) {
        if self.reads_back { self.overflow() } else { self.pen.skip(kind) }
    }

    fn begin(&mut self, ticket: u32, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>, watch: Watch) -> Option<Open> {
        let truth = self.workload.truth()?;
        let id = record_number(truth, op.params.get(0));
        let mut open = Open { sent_ns: at_ns, cycle, client, id, asked: 0, kind: op.kind, watch };
        match (watch, op.params.get(1)) {
            (Watch::Put, _) => {
                let stamp = truth.written(op.params).map_or(NO_STAMP, Version::stamp);
                if !self.pen.has_room(4, 0) {
                    return None;
                }
                self.pen.put(header(Note::Sent, Outcome::Ok, op.kind, ticket));
                self.pen.put(at_ns);
                self.pen.put(pair(id, client));
                self.pen.put(stamp as u64);
                self.pen.publish();
                return Some(open);
            }
            (Watch::Range, Value::Int(count)) => open.asked = u32::try_from(count.max(0)).unwrap_or(u32::MAX),
            _ => {}
        }
        self.pen.opened(ticket, at_ns);
        Some(open)
    }

    fn end(&mut self, ticket: u32, open: Open, at_ns: u64, outcome: Outcome, answer: &Answer) {
        if open.watch == Watch::Put {
            if !self.pen.has_room(2, 0) {
                return self.overflow();
            }
            self.pen.put(header(Note::Ended, outcome, open.kind, ticket));
            self.pen.put(at_ns);
            self.pen.publish();
            // A write that found no record is an answer too.
            if outcome == Outcome::NotFound {
                self.value(ticket, open, at_ns, outcome, 0, NO_STAMP);
            }
            return;
        }
        match open.watch {
            Watch::Range if matches!(outcome, Outcome::Ok | Outcome::NotFound) => {
                self.range(ticket, open, at_ns, outcome, answer);
            }
            _ if outcome == Outcome::Ok => {
                let truth = self.workload.truth();
                let version = truth.and_then(|truth| truth.version_under(u64::from(open.id), answer.values.values()));
                let stamp = version.map_or(NO_STAMP, Version::stamp);
                self.value(ticket, open, at_ns, outcome, answer.rows as u32, stamp);
            }
            _ => self.value(ticket, open, at_ns, outcome, 0, NO_STAMP),
        }
        self.pen.closed(ticket);
    }

    #[inline]
    fn value(&mut self, ticket: u32, open: Open, at_ns: u64, outcome: Outcome, rows: u32, stamp: i64) {
        if !self.pen.has_room(7, LEFT_TO_WRITES) {
            return self.skip(open.kind);
        }
        value_note(ticket, &open, at_ns, outcome, rows, stamp).into_iter().for_each(|word| self.pen.put(word));
        self.pen.publish();
    }

    fn range(&mut self, ticket: u32, open: Open, at_ns: u64, outcome: Outcome, answer: &Answer) {
        let rows = if outcome == Outcome::Ok { usize::try_from(answer.rows).unwrap_or(usize::MAX) } else { 0 };
        let words = rows.saturating_mul(2).saturating_add(6 + ALIEN_KEYS * ALIEN_KEY_BYTES / 8);
        if words > 1 << 40 || !self.pen.has_room(words, LEFT_TO_WRITES) {
            return self.skip(open.kind);
        }
        let Some(truth) = self.workload.truth() else { return };
        self.pen.put(header(Note::Range, outcome, open.kind, ticket));
        self.pen.put(open.sent_ns);
        self.pen.put(at_ns);
        self.pen.put(pair(open.id, open.client));
        self.pen.put(open.cycle);
        let place = self.pen.position();
        self.pen.put(0);
        let mut count = 0;
        for values in answer.row_iter().take(rows) {
            let id = record_number(truth, values.get(0));
            let key = match values.get(0) {
                Value::Bytes(key) if id == ALIEN && self.aliens < ALIEN_KEYS => key,
                Value::Text(key) if id == ALIEN && self.aliens < ALIEN_KEYS => key.as_bytes(),
                _ => &[],
            };
            let key = if key.len() <= ALIEN_KEY_BYTES { key } else { &[] };
            self.aliens += usize::from(!key.is_empty());
            let stamp = if id == ALIEN { NO_STAMP } else { truth.version(values).map_or(NO_STAMP, Version::stamp) };
            self.pen.put(pair(id, key.len() as u32));
            self.pen.put(stamp as u64);
            for part in key.chunks(8) {
                self.pen.put(part.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
            }
            count += 1;
        }
        self.pen.set(place, pair(count, open.asked));
        self.pen.publish();
    }
}

fn header(note: Note, outcome: Outcome, kind: u16, ticket: u32) -> u64 {
    Header { note, outcome, kind, ticket }.word()
}

fn value_note(ticket: u32, open: &Open, at_ns: u64, outcome: Outcome, rows: u32, stamp: i64) -> [u64; 7] {
    [
        header(Note::Value, outcome, open.kind, ticket),
        open.sent_ns,
        at_ns,
        pair(open.id, open.client),
        open.cycle,
        pair(rows, 0),
        stamp as u64,
    ]
}

impl Observer for Watcher {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        let watch = self.watches.get(usize::from(op.kind)).copied().unwrap_or(Watch::Ignore);
        if watch == Watch::Ignore {
            return;
        }
        match self.open.get_mut(ticket.0 as usize).map(Option::take) {
            // A ticket given out again before it was finished: its operation stays unknown.
            Some(Some(before)) => self.end(ticket.0, before, at_ns, Outcome::Unknown, &Answer::default()),
            Some(None) => {}
            None => return self.overflow(),
        }
        match self.begin(ticket.0, at_ns, client, cycle, op, watch) {
            Some(open) => self.open[ticket.0 as usize] = Some(open),
            None => self.overflow(),
        }
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        let Some(open) = self.open.get_mut(ticket.0 as usize).and_then(Option::take) else { return };
        self.end(ticket.0, open, at_ns, outcome, answer);
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

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut rest = Vec::new();
        for (ticket, open) in (0u32..).zip(&mut self.open) {
            let Some(open) = open.take() else { continue };
            let at_ns = open.sent_ns;
            match open.watch {
                Watch::Put => rest.extend([header(Note::Ended, Outcome::Unknown, open.kind, ticket), at_ns]),
                _ => rest.extend(value_note(ticket, &open, at_ns, Outcome::Unknown, 0, NO_STAMP)),
            }
        }
        self.pen.close(&rest);
        self.shared.at_work.fetch_sub(1, Ordering::Release);
    }
}
