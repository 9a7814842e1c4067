//! The operations for a store, and their correct answers.

use crate::error::StoreError;
use crate::layout::Layout;
use crate::op::{Answer, KindId, OpKind, Outcome};
use crate::value::{Value, ValueBuf, Values};

/// Shares of operation types, by name, relative to their sum.
pub type Mix = Vec<(String, u32)>;

/// A stream of operations that a phase requests.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamSpec {
    /// The load: every record once, `batch` records per operation, dealt to `clients` in turn.
    Load {
        /// Records per operation.
        batch: u32,
        /// Clients that share the load.
        clients: u32,
    },
    /// A single operation type, repeatedly.
    One {
        /// Name of the operation type.
        kind: String,
        /// Number of clients.
        clients: u32,
    },
    /// A mixture. Each key that is written belongs to one client.
    Mix {
        /// The shares.
        mix: Mix,
        /// Number of clients.
        clients: u32,
    },
}

impl StreamSpec {
    /// Number of clients that share the operations.
    pub fn clients(&self) -> u32 {
        match self {
            StreamSpec::Load { clients, .. } | StreamSpec::One { clients, .. } | StreamSpec::Mix { clients, .. } => {
                *clients
            }
        }
    }
}

/// A pure function (seed, client, cycle) → operation. The seed is part of the stream.
pub trait Stream: Send + Sync {
    /// Writes the parameters of operation `cycle` of `client` into `params`, which is empty on entry, and returns its
    /// type; `None` when this client has no more. Must not allocate once `params` has grown.
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId>;

    /// Returns the state machine with which `client` executes operations whose call is [`crate::Call::Steps`]; `None`
    /// if the stream has no such operation type. Called once for each client, before the phase begins.
    fn steps(&self, _client: u32) -> Option<Box<dyn Steps>> {
        None
    }
}

/// Returns a stream of every record once, dealt to the clients in turn: operations of `kind` with `batch` records
/// each. `push` writes a record by its number, from 0.
pub fn in_turn(
    kind: KindId,
    records: u64,
    batch: u32,
    clients: u32,
    push: impl Fn(u64, &mut ValueBuf) + Send + Sync + 'static,
) -> Box<dyn Stream> {
    Box::new(InTurn { kind, records, batch: u64::from(batch).max(1), clients: u64::from(clients).max(1), push })
}

struct InTurn<F> {
    kind: KindId,
    records: u64,
    batch: u64,
    clients: u64,
    push: F,
}

impl<F: Fn(u64, &mut ValueBuf) + Send + Sync> Stream for InTurn<F> {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let first = (cycle * self.clients + u64::from(client)) * self.batch;
        let end = (first + self.batch).min(self.records);
        (first..end).for_each(|id| (self.push)(id, params));
        (first < end).then_some(self.kind)
    }
}

/// The next action within an operation of several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send an operation of this type with the parameters that were written. With `more`, the next step is requested
    /// immediately, without waiting for this one's answer (a pipeline). The session sees [`crate::Op::more`] only if
    /// another step is sent immediately too, so a pipeline may also end with [`Step::Gather`], a sleep or the end. A
    /// pipeline that is longer than the session's depth is sent in parts.
    Send {
        /// Operation type of the step: one whose [`OpKind::step_of`] is the operation's.
        kind: KindId,
        /// True if the next step follows before the answer.
        more: bool,
    },
    /// Ask the server to answer the steps sent so far; the pipeline continues without waiting for that.
    Sync,
    /// Wait for all outstanding answers of a pipeline; nothing is sent.
    Gather,
    /// Wait this many nanoseconds, whatever is outstanding. The wait is part of the operation's time.
    Sleep(u64),
    /// End the operation as soon as every step that was sent has its answer.
    End {
        /// Operation type to count it as: its own, or another that tells how it went (tried again).
        kind: KindId,
        /// Outcome of the operation.
        outcome: Outcome,
    },
}

/// State machine of one client's operations of several steps on one session: transactions, scripts. The first step is
/// a pure function of (seed, client, cycle); later steps may depend on answers. The state machine decides what
/// follows an error: a rollback, another try, the end.
///
/// After a lost connection or a time-out, no further step is requested: the operation is unknown, and
/// [`Steps::begin`] is called for the next one. The same holds for an operation that is still running when the
/// longest time for an answer has passed since the end of the phase.
pub trait Steps: Send {
    /// Begins operation `cycle`, of `kind` and with `params`, both as returned by [`Stream::op`].
    fn begin(&mut self, cycle: u64, kind: KindId, params: Values<'_>);

    /// Returns the next step and writes its parameters into `params`, which is empty on entry. Must not allocate once
    /// `params` has grown.
    fn next(&mut self, params: &mut ValueBuf) -> Step;

    /// Receives the outcome of the oldest unanswered step. Called before the next [`Steps::next`], except for steps
    /// sent with `more`, whose answers arrive before the first step after the pipeline's end at the latest.
    fn answered(&mut self, outcome: Outcome, answer: &Answer);

    /// Writes into `answer`, which is empty, the reason why the operation that has just ended failed, if no step's
    /// answer is that reason: a division by zero in a script.
    fn failure(&self, _answer: &mut Answer) {}

    /// Returns the mistake in the user's steps, with its location, that made the operation that has just ended fail.
    /// The phase ends with this error.
    fn mistake(&self) -> Option<StoreError> {
        None
    }
}

/// A query for the size of data that the workload did not load itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Extent {
    /// Parameter of the workload that gives the size of the data.
    pub param: &'static str,
    /// Name of the counted things, singular and plural: `row of pgbench_branches`, `rows of pgbench_branches`.
    pub of: [&'static str; 2],
    /// The data must have exactly this size, because operations on a part of it would be another workload.
    pub exact: bool,
    /// Operation type of the query.
    pub kind: OpKind,
    /// The query reads the record whose number [`Workload::record_key`] puts into its parameters, and numbers start
    /// at 0 without gaps. Otherwise the query returns the size itself.
    pub by_record: bool,
}

/// A workload with its parameters set.
pub trait Workload: Send + Sync {
    /// Objects that must exist in the store before; none by default.
    fn layout(&self) -> &Layout {
        static NOTHING: Layout = Layout::NOTHING;
        &NOTHING
    }

    /// All operation types, by position.
    fn kinds(&self) -> &[OpKind];

    /// Returns the stream for a phase, or a sentence with the reason why there is none.
    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String>;

    /// Location of the user's text for an operation type: `transfer.sql:3`. `None` if the type is the workload's own.
    fn place(&self, _kind: KindId) -> Option<String> {
        None
    }

    /// Query for the size of existing data; `None` if the size does not matter to the workload.
    fn extent(&self) -> Option<Extent> {
        None
    }

    /// Appends the parameters with which the operation type of [`Workload::extent`] reads record `id`.
    fn record_key(&self, _id: u64, _params: &mut ValueBuf) {}

    /// The correct answers; `None` if this workload has none.
    fn truth(&self) -> Option<&dyn Truth> {
        None
    }

    /// Number of records that the load inserts.
    fn record_count(&self) -> u64 {
        0
    }

    /// Average bytes of one record's own values, for figures such as write amplification.
    fn record_bytes(&self) -> u64 {
        0
    }
}

/// The write that a record's content comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// The load.
    Loaded,
    /// An update by operation `cycle` of `client`.
    Written {
        /// The client that owns the record.
        client: u32,
        /// Number of that client's operation.
        cycle: u64,
    },
}

impl Version {
    /// Encodes the version as one number for a record's stamp field: 0 for loaded; client in the upper 24 bits, cycle
    /// + 1 below.
    pub fn stamp(self) -> i64 {
        match self {
            Version::Loaded => 0,
            Version::Written { client, cycle } => (i64::from(client) << 40) | (cycle as i64 + 1),
        }
    }

    /// Decodes a stamp; `None` for numbers that are not a stamp.
    pub fn from_stamp(stamp: i64) -> Option<Version> {
        match stamp {
            0 => Some(Version::Loaded),
            stamp if stamp > 0 && stamp & 0xff_ffff_ffff != 0 => {
                Some(Version::Written { client: (stamp >> 40) as u32, cycle: (stamp & 0xff_ffff_ffff) as u64 - 1 })
            }
            _ => None,
        }
    }
}

/// Expected records of a workload: contents as a pure function of record and version.
///
/// A record is a row: the fields of the layout's collection, or a key and its value if there is none.
pub trait Truth: Send + Sync {
    /// The number of the record with this key: below `record_count` for records of the load, above it for later
    /// inserts; `None` for keys that no record has.
    fn record_id(&self, key: Value<'_>) -> Option<u64>;

    /// Appends the key of record `id`, and nothing else. The default is right for rows that begin with their key.
    fn key(&self, id: u64, key: &mut ValueBuf) {
        let mut row = ValueBuf::new();
        self.row(id, Version::Loaded, &mut row);
        key.push(row.values().get(0));
    }

    /// The version that a record read from the store claims to be; `None` if it is not valid.
    fn version(&self, row: Values<'_>) -> Option<Version>;

    /// The version of a row that is about to be written, and that therefore cannot be damaged.
    fn written(&self, row: Values<'_>) -> Option<Version> {
        self.version(row)
    }

    /// The version of values that were read under the key of record `id`, without the key; `None` if reads return
    /// whole records.
    fn version_under(&self, _id: u64, _values: Values<'_>) -> Option<Version> {
        None
    }

    /// True if versions are only reported for rows in which every byte is right for that version, so that callers
    /// need not compare the contents.
    fn sees_contents(&self) -> bool {
        false
    }

    /// Appends the values of version `version` of record `id`, in the order of its fields.
    fn row(&self, id: u64, version: Version, row: &mut ValueBuf);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_gives_its_version_back() {
        for version in [
            Version::Loaded,
            Version::Written { client: 0, cycle: 0 },
            Version::Written { client: 7, cycle: 12_345_678_901 },
            Version::Written { client: (1 << 23) - 1, cycle: (1 << 40) - 2 },
        ] {
            assert_eq!(Version::from_stamp(version.stamp()), Some(version));
        }
        assert_eq!(Version::from_stamp(-1), None);
        assert_eq!(Version::from_stamp(1 << 40), None);
    }
}
