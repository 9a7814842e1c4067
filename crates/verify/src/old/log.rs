//! What is kept of operations and answers: plain structs of fixed size, in chunks that change hands.

use plimsoll_core::{Call, KvCall, OpKind, Outcome, RecordsCall, Value, ValueBuf, Values};

/// In place of a record's number: no record of the workload.
pub(crate) const ALIEN: u32 = u32::MAX;
/// In place of a stamp: the row shows none.
pub(crate) const NO_STAMP: i64 = -1;
/// In place of a stamp: the record is not there.
pub(crate) const ABSENT: i64 = i64::MIN;
/// In place of a time: never.
pub(crate) const NEVER: u64 = u64::MAX;

/// One operation that writes, or whose answer is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub cycle: u64,
    pub sent_ns: u64,
    /// [`NEVER`] when no outcome was seen.
    pub finished_ns: u64,
    /// Position of its first row among its observer's rows.
    pub row_start: u64,
    pub row_count: u32,
    /// Position of its bounds among its observer's bounds; of a range, how many records it asks for.
    pub bounds: u32,
    pub client: u32,
    /// The record asked for or written, of calls that name one; of a range, the first.
    pub id: u32,
    /// Of one value: the stamp of what is written, or of what was read; [`NO_STAMP`] where it is none.
    pub stamp: i64,
    pub kind: u16,
    pub phase: u16,
    pub outcome: Outcome,
}

/// One record in an answer, or in an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Number of the record, or [`ALIEN`].
    pub id: u32,
    pub digest: u32,
    /// Stamp of the version it claims to be, or [`NO_STAMP`]. Of an alien: position of its key among its
    /// observer's aliens, or [`NO_STAMP`] when that was not kept.
    pub stamp: i64,
}

/// What a kind means to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Neither writes records nor is its answer kept.
    Ignore,
    /// Writes whole records of so many values.
    Insert {
        columns: usize,
    },
    Update,
    Delete,
    Get,
    Find {
        field: u16,
    },
    All,
    /// Writes one value under a key.
    Put,
    /// Reads one.
    Value,
    /// Reads keys and values in the order of keys.
    Range,
}

impl Watch {
    /// How to watch `kind`, of records of `columns` fields.
    pub fn of(kind: &OpKind, columns: usize) -> Self {
        let call = match &kind.call {
            Call::Records { call, .. } => call,
            Call::Kv(KvCall::Put) => return Watch::Put,
            Call::Kv(KvCall::Delete) => return Watch::Delete,
            Call::Kv(KvCall::Get) if kind.keep_answer => return Watch::Value,
            Call::Kv(KvCall::Scan) if kind.keep_answer => return Watch::Range,
            _ => return Watch::Ignore,
        };
        match call {
            RecordsCall::Insert => Watch::Insert { columns },
            RecordsCall::Update { .. } => Watch::Update,
            RecordsCall::Delete => Watch::Delete,
            _ if !kind.keep_answer => Watch::Ignore,
            RecordsCall::Get => Watch::Get,
            RecordsCall::Find { field, .. } => Watch::Find { field: *field },
            RecordsCall::All => Watch::All,
        }
    }

    /// True for kinds that change records.
    pub fn writes(self) -> bool {
        matches!(self, Watch::Insert { .. } | Watch::Update | Watch::Delete | Watch::Put)
    }
}

/// A piece of an observer's log. Allocated once, and used again after it has been emptied.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub events: Vec<Event>,
    pub rows: Vec<Row>,
    /// Lower and upper bounds of questions, by turns.
    pub bounds: ValueBuf,
    /// Keys that are no record's, as far as there is room.
    pub aliens: ValueBuf,
}

/// Room of one chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkRoom {
    pub events: usize,
    pub rows: usize,
}

const BOUND_PAIRS: usize = 256;
const ALIEN_KEYS: usize = 16;
const ALIEN_KEY_BYTES: usize = 64;

impl Chunk {
    pub fn new(room: ChunkRoom) -> Self {
        Self {
            events: Vec::with_capacity(room.events),
            rows: Vec::with_capacity(room.rows),
            bounds: ValueBuf::with_capacity(2 * BOUND_PAIRS, 4096),
            aliens: ValueBuf::with_capacity(ALIEN_KEYS, ALIEN_KEYS * ALIEN_KEY_BYTES),
        }
    }

    pub fn clear(&mut self) {
        self.events.clear();
        self.rows.clear();
        self.bounds.clear();
        self.aliens.clear();
    }

    /// The pair of bounds pushed last.
    pub fn last_bounds(&self) -> Option<(Value<'_>, Value<'_>)> {
        let pair = self.bounds.len().checked_sub(2)?;
        Some((self.bounds.values().get(pair), self.bounds.values().get(pair + 1)))
    }

    pub fn bounds_are_full(&self) -> bool {
        self.bounds.len() >= 2 * BOUND_PAIRS
    }

    /// Keeps the key of an alien if there is room; returns its position in this chunk.
    pub fn keep_alien(&mut self, key: Value<'_>) -> Option<usize> {
        // Most keys of bytes are texts.
        let key = match key {
            Value::Bytes(bytes) => str::from_utf8(bytes).map_or(key, Value::Text),
            _ => key,
        };
        let fits = match key {
            Value::Text(text) => text.len() <= ALIEN_KEY_BYTES,
            Value::Bytes(_) => false,
            _ => true,
        };
        (fits && self.aliens.len() < ALIEN_KEYS).then(|| {
            self.aliens.push(key);
            self.aliens.len() - 1
        })
    }
}

/// All that one observer has logged.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub events: Vec<Event>,
    pub rows: Vec<Row>,
    pub bounds: ValueBuf,
    pub aliens: ValueBuf,
    /// It has read back what the store holds: nobody's question, and no answer to be judged.
    pub reads_back: bool,
}

impl Part {
    /// Takes over what `chunk` holds.
    pub fn take(&mut self, chunk: &Chunk) {
        self.events.extend_from_slice(&chunk.events);
        self.rows.extend_from_slice(&chunk.rows);
        self.bounds.extend(chunk.bounds.values());
        self.aliens.extend(chunk.aliens.values());
    }

    /// Bytes that the part takes, texts of bounds aside.
    pub fn bytes(&self) -> usize {
        self.events.len() * size_of::<Event>() + self.rows.len() * size_of::<Row>()
    }

    /// The rows of an event; those that are not kept any more are missing at its end.
    pub fn rows_of(&self, event: &Event) -> &[Row] {
        let start = usize::try_from(event.row_start).unwrap_or(usize::MAX).min(self.rows.len());
        let end = start.saturating_add(event.row_count as usize).min(self.rows.len());
        &self.rows[start..end]
    }

    /// What an event that is about one value shows, as a row.
    pub fn value_of(event: &Event) -> Option<Row> {
        (event.row_count > 0).then_some(Row { id: event.id, digest: 0, stamp: event.stamp })
    }

    /// The bounds of a question.
    pub fn bounds_of(&self, event: &Event) -> (Value<'_>, Value<'_>) {
        let pair: Values<'_> = self.bounds.values();
        (pair.get(2 * event.bounds as usize), pair.get(2 * event.bounds as usize + 1))
    }
}
