//! The worker's side of the ledger: what is about to be written, what came of it, what was answered, as notes in a ring.
//! It neither waits nor allocates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket, Truth, Value, Values, Version, Workload};

use crate::digest::digest;
use crate::log::{ABSENT, ALIEN, NO_STAMP, Watch};
use crate::ring::{Header, Note, Pen, Ring, SERVER_MAX, pair, value_words};

/// Keys that are no record's, noted to be shown; of each so many words.
const ALIEN_KEYS: usize = 16;
const ALIEN_KEY_WORDS: usize = 9;
/// Answers leave one word in so many to writes: with an answer less, less is known; with a write less, nothing.
const LEFT_TO_WRITES: usize = 4;

/// Counters shared by a witness and the ledger.
#[derive(Debug, Default)]
pub(crate) struct WitnessCounters {
    /// Operations that could not be noted.
    pub overflows: AtomicU64,
    /// Witnesses that have not gone.
    pub at_work: AtomicU64,
}

/// State shared by all witnesses of a ledger.
#[derive(Clone)]
pub(crate) struct Post {
    pub workload: Arc<dyn Workload>,
    pub watches: Arc<[Watch]>,
    pub shared: Arc<WitnessCounters>,
    /// Position of the value that names a record, in a row.
    pub key: usize,
    /// Rows are noted with their digests: versions do not vouch for contents.
    pub has_digests: bool,
}

/// An operation in flight, or room for one: half a line of the cache, since each operation reads and writes one.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    sent_ns: u64,
    cycle: u64,
    client: u32,
    id: u32,
    /// Records that a range asks for.
    asked: u32,
    kind: u16,
    is_in_flight: bool,
    /// Number of the server that answers.
    server: u8,
}

impl Open {
    /// Returns true if this write is of one record that must exist: an answer of none is an answer too.
    fn may_find_none(&self, watch: Watch) -> bool {
        !matches!(watch, Watch::Insert { .. }) && self.id != ALIEN
    }
}

/// Observes one worker. Dropping it says that operations in flight are unknown.
pub(crate) struct Witness {
    post: Post,
    open: Vec<Open>,
    pen: Pen,
    aliens: usize,
    /// True if the rows read are the store's final contents: no part of them may be left out.
    reads_back: bool,
}

impl Witness {
    pub fn new(post: Post, ring: Arc<Ring>, tickets: usize, reads_back: bool) -> Self {
        post.shared.at_work.fetch_add(1, Ordering::Relaxed);
        Self { post, open: vec![Open::default(); tickets], pen: Pen::new(ring), aliens: 0, reads_back }
    }

    #[inline]
    fn watch(&self, kind: u16) -> Watch {
        self.post.watches.get(usize::from(kind)).copied().unwrap_or(Watch::Ignore)
    }

    #[cold]
    fn overflow(&self) {
        self.post.shared.overflows.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn skip(&self, kind: u16) {
        if self.reads_back { self.overflow() } else { self.pen.skip(kind) }
    }

    /// Ends an operation whose ticket is given out again before it was finished: it stays unknown.
    #[cold]
    fn give_up(&mut self, ticket: Ticket, at_ns: u64) {
        self.finished(ticket, at_ns, Outcome::Unknown, &Answer::default());
    }

    /// Notes a write that is about to go out; false when there is no room for it.
    fn write(&mut self, ticket: u32, open: &mut Open, watch: Watch, op: &Op<'_>) -> bool {
        let Some(truth) = self.post.workload.truth() else { return false };
        let own = || Version::Written { client: open.client, cycle: open.cycle }.stamp();
        let (columns, key) = match watch {
            Watch::Insert { columns } => (columns, self.post.key),
            _ => (op.params.len(), 0),
        };
        let rows = op.params.rows(columns);
        if !self.pen.has_room(4 * rows.len(), 0) {
            return false;
        }
        for row in rows {
            let stamp = match watch {
                Watch::Update => own(),
                Watch::Delete => ABSENT + own(),
                _ => truth.written(row).map_or(NO_STAMP, Version::stamp),
            };
            open.id = named_record(truth, row, key);
            let head = header(Note::Sent, Outcome::Ok, op.kind, ticket);
            self.pen.put_all([head, open.sent_ns, pair(open.id, open.client), stamp as u64]);
        }
        self.pen.publish();
        if open.may_find_none(watch) {
            self.pen.opened(ticket, open.sent_ns);
        }
        true
    }

    /// Notes a question that is about to go out; false when there is no room for it.
    fn question(&mut self, ticket: u32, open: &mut Open, watch: Watch, op: &Op<'_>) -> bool {
        match watch {
            Watch::All => {}
            Watch::Find { .. } => {
                let (first, second) = (op.params.get(0), op.params.get(1));
                if !self.pen.has_room(1 + value_words(first) + value_words(second), LEFT_TO_WRITES) {
                    return false;
                }
                self.pen.put(header(Note::Bounds, Outcome::Ok, op.kind, ticket));
                self.pen.put_value(first);
                self.pen.put_value(second);
                self.pen.publish();
            }
            _ => open.id = self.post.workload.truth().map_or(ALIEN, |truth| named_record(truth, op.params, 0)),
        }
        if watch == Watch::Range
            && let Value::Int(count) = op.params.get(1)
        {
            open.asked = u32::try_from(count.max(0)).unwrap_or(u32::MAX);
        }
        self.pen.opened(ticket, open.sent_ns);
        true
    }

    fn end(&mut self, ticket: u32, open: Open, at_ns: u64, outcome: Outcome, answer: &Answer) {
        let watch = self.watch(open.kind);
        if watch.writes() {
            if !self.pen.has_room(2, 0) {
                return self.overflow();
            }
            self.pen.put_all([header(Note::Ended, outcome, open.kind, ticket), at_ns]);
            self.pen.publish();
            if open.may_find_none(watch) {
                if outcome == Outcome::NotFound {
                    self.value(ticket, &open, at_ns, outcome, 0, NO_STAMP);
                }
                self.pen.closed(ticket);
            }
            return;
        }
        match (watch, outcome) {
            (Watch::Value, Outcome::Ok) => {
                let truth = self.post.workload.truth();
                let version = truth.and_then(|truth| truth.version_under(u64::from(open.id), answer.values.values()));
                let stamp = version.map_or(NO_STAMP, Version::stamp);
                self.value(ticket, &open, at_ns, outcome, answer.rows as u32, stamp);
            }
            (_, Outcome::Ok) => self.rows(ticket, open, at_ns, answer),
            _ => self.value(ticket, &open, at_ns, outcome, 0, NO_STAMP),
        }
        self.pen.closed(ticket);
    }

    #[inline]
    fn value(&mut self, ticket: u32, open: &Open, at_ns: u64, outcome: Outcome, rows: u32, stamp: i64) {
        if !self.pen.has_room(7, LEFT_TO_WRITES) {
            return self.skip(open.kind);
        }
        let took_ns = u32::try_from(at_ns.wrapping_sub(open.sent_ns));
        match took_ns {
            Ok(took_ns) if self.watch(open.kind) == Watch::Value && rows == u32::from(outcome == Outcome::Ok) => {
                let head = answered(Note::Brief, outcome, open, took_ns);
                self.pen.put_all([head, open.sent_ns, pair(open.id, open.client), open.cycle, stamp as u64]);
            }
            _ => self.pen.put_all(value_note(ticket, open, at_ns, outcome, rows, stamp)),
        }
        self.pen.publish();
    }

    fn rows(&mut self, ticket: u32, open: Open, at_ns: u64, answer: &Answer) {
        let rows = answer.row_iter();
        let words = rows.len().saturating_mul(2).saturating_add(6 + ALIEN_KEYS * ALIEN_KEY_WORDS);
        if words > 1 << 40 || !self.pen.has_room(words, LEFT_TO_WRITES) {
            return self.skip(open.kind);
        }
        let Some(truth) = self.post.workload.truth() else { return };
        self.pen.put(answered(Note::Rows, Outcome::Ok, &open, ticket));
        self.pen.put(open.sent_ns);
        self.pen.put(at_ns);
        self.pen.put(pair(open.id, open.client));
        self.pen.put(open.cycle);
        self.pen.put(pair(rows.len() as u32, open.asked));
        for values in rows {
            let key = values.get(self.post.key);
            let id = record_number(truth, key);
            if id != ALIEN {
                self.pen.put(pair(id, if self.post.has_digests { digest(values) } else { 0 }));
                self.pen.put(truth.version(values).map_or(NO_STAMP, Version::stamp) as u64);
                continue;
            }
            let is_kept = self.aliens < ALIEN_KEYS && value_words(key) <= ALIEN_KEY_WORDS;
            self.aliens += usize::from(is_kept);
            self.pen.put(pair(id, u32::from(is_kept)));
            match is_kept {
                true => self.pen.put_value(key),
                false => self.pen.put(NO_STAMP as u64),
            }
        }
        self.pen.publish();
    }
}

/// The number of the record that these values name, whose key is at this position; or [`ALIEN`].
#[inline]
fn named_record(truth: &dyn Truth, values: Values<'_>, key: usize) -> u32 {
    match values.record() {
        Some(id) => u32::try_from(id).unwrap_or(ALIEN),
        None => record_number(truth, values.get(key)),
    }
}

/// The number of the record with `key`, or [`ALIEN`].
pub(crate) fn record_number(truth: &dyn Truth, key: Value<'_>) -> u32 {
    truth.record_id(key).and_then(|id| u32::try_from(id).ok()).unwrap_or(ALIEN)
}

fn header(note: Note, outcome: Outcome, kind: u16, ticket: u32) -> u64 {
    Header { note, outcome, server: 0, kind, ticket }.word()
}

/// Returns the first word of the note of an answer.
fn answered(note: Note, outcome: Outcome, open: &Open, ticket: u32) -> u64 {
    Header { note, outcome, server: open.server, kind: open.kind, ticket }.word()
}

fn value_note(ticket: u32, open: &Open, at_ns: u64, outcome: Outcome, rows: u32, stamp: i64) -> [u64; 7] {
    [
        answered(Note::Value, outcome, open, ticket),
        open.sent_ns,
        at_ns,
        pair(open.id, open.client),
        open.cycle,
        pair(rows, open.asked),
        stamp as u64,
    ]
}

impl Observer for Witness {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        let watch = self.watch(op.kind);
        if watch == Watch::Ignore {
            return;
        }
        let Some(&Open { is_in_flight, server, .. }) = self.open.get(ticket.0 as usize) else { return self.overflow() };
        if is_in_flight {
            self.give_up(ticket, at_ns);
        }
        let (sent_ns, kind) = (at_ns, op.kind);
        let mut open = Open { sent_ns, cycle, client, id: ALIEN, asked: 0, kind, is_in_flight: true, server };
        let is_noted = match watch.writes() {
            true => self.write(ticket.0, &mut open, watch, op),
            false => self.question(ticket.0, &mut open, watch, op),
        };
        match (is_noted, watch.writes()) {
            (true, _) => self.open[ticket.0 as usize] = open,
            (false, true) => self.overflow(),
            (false, false) => self.skip(op.kind),
        }
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        if let Some(open) = self.open.get_mut(ticket.0 as usize).filter(|open| open.is_in_flight) {
            open.is_in_flight = false;
            let open = *open;
            self.end(ticket.0, open, at_ns, outcome, answer);
        }
    }

    fn answered_by(&mut self, ticket: Ticket, server: u32) {
        if let Some(open) = self.open.get_mut(ticket.0 as usize) {
            open.server = u8::try_from(server).unwrap_or(SERVER_MAX).min(SERVER_MAX);
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
        let mut rest = Vec::new();
        for (ticket, open) in (0u32..).zip(&self.open).filter(|(_, open)| open.is_in_flight) {
            let at_ns = open.sent_ns;
            match self.watch(open.kind).writes() {
                true => rest.extend([header(Note::Ended, Outcome::Unknown, open.kind, ticket), at_ns]),
                false => rest.extend(value_note(ticket, open, at_ns, Outcome::Unknown, 0, NO_STAMP)),
            }
        }
        self.pen.close(&rest);
        self.post.shared.at_work.fetch_sub(1, Ordering::Release);
    }
}
