//! What is asked of a store, and what the right answer is.

use crate::error::StoreError;
use crate::layout::Layout;
use crate::op::{Answer, KindId, OpKind, Outcome};
use crate::value::{Value, ValueBuf, Values};

/// Shares of operation kinds, by name. A share is relative to the sum.
pub type Mix = Vec<(String, u32)>;

/// Which stream of operations a phase wants.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamSpec {
    /// The load: every record once, `batch` to an operation, dealt to `clients` in turn.
    Load {
        /// Records to an operation.
        batch: u32,
        /// Clients that share the load.
        clients: u32,
    },
    /// One kind, again and again.
    One {
        /// Its name.
        kind: String,
        /// Clients that ask.
        clients: u32,
    },
    /// A mixture; keys that are written are owned by one client each.
    Mix {
        /// The shares.
        mix: Mix,
        /// Clients that ask.
        clients: u32,
    },
}

impl StreamSpec {
    /// Clients that share the operations.
    pub fn clients(&self) -> u32 {
        match self {
            StreamSpec::Load { clients, .. } | StreamSpec::One { clients, .. } | StreamSpec::Mix { clients, .. } => {
                *clients
            }
        }
    }
}

/// A pure function (seed, client, cycle) -> operation. The seed is inside.
pub trait Stream: Send + Sync {
    /// Writes the parameters of operation `cycle` of `client` into `params`, which is empty on entry, and
    /// returns its kind; `None` when this client has no more. Must not allocate once `params` has grown.
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId>;

    /// How `client` gets through operations of kinds whose call is [`crate::Call::Steps`]; `None` when the stream has
    /// no such kind. Asked for once a client, before the phase begins.
    fn steps(&self, _client: u32) -> Option<Box<dyn Steps>> {
        None
    }
}

/// Every record once, dealt to the clients in turn: operations of `kind` with `batch` records each, which `push` writes
/// by their numbers, from 0.
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

/// What is next within an operation of several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send an operation of this kind with the parameters that were written. With `more` the next step is asked for
    /// at once, without waiting for this one's answer (a pipeline). The session is told [`crate::Op::more`] only when
    /// what follows is sent at once too, so a pipeline may also end with [`Step::Gather`], a sleep or the end. Where a
    /// session takes fewer operations than a pipeline has, the pipeline goes in parts.
    Send {
        /// The step's kind: one whose [`OpKind::step_of`] is the operation's.
        kind: KindId,
        /// Whether the next step follows before the answer.
        more: bool,
    },
    /// The server is to answer what was sent so far, and the pipeline goes on without waiting for that.
    Sync,
    /// Wait for all answers of a pipeline that are still to come; nothing is sent.
    Gather,
    /// Wait this many nanoseconds, whatever is still to be answered. It is part of the operation's time.
    Sleep(u64),
    /// The operation is over, as soon as everything that was sent has its answer.
    End {
        /// The kind it is counted as: its own, or another that says how it went (tried again).
        kind: KindId,
        /// What it came to.
        outcome: Outcome,
    },
}

/// One client's way through operations of several steps on one session: transactions, scripts. What an operation
/// begins with is a pure function of (seed, client, cycle); later steps may depend on answers. It decides itself what
/// follows on an error: a rollback, another try, the end.
///
/// After a lost connection or a timeout no step is asked for any more: the operation is unknown, and
/// [`Steps::begin`] is called for the next one. The same goes for an operation that is still not over when the phase
/// ended as long ago as an answer may take.
pub trait Steps: Send {
    /// Operation `cycle`, of `kind` and with `params`, both as [`Stream::op`] gave them, begins.
    fn begin(&mut self, cycle: u64, kind: KindId, params: Values<'_>);

    /// The step that is next. `params` is empty and takes its parameters. Must not allocate once it has grown.
    fn next(&mut self, params: &mut ValueBuf) -> Step;

    /// The oldest step that had no answer came to `outcome`. Called before the next [`Steps::next`], except for steps
    /// sent with `more`, whose answers come before the first step after the pipeline's end at the latest.
    fn answered(&mut self, outcome: Outcome, answer: &Answer);

    /// Says in `answer`, which is empty, why the operation that has just ended did so as an error, when that was not
    /// a step's answer: a division by zero in a script.
    fn failure(&self, _answer: &mut Answer) {}

    /// What is wrong with the steps themselves, and where, when that is why the operation that has just ended is an
    /// error: whoever wrote them has to mend them, and the phase ends with this error.
    fn mistake(&self) -> Option<StoreError> {
        None
    }
}

/// How a workload finds out how large data are that somebody else has made.
#[derive(Debug, Clone, PartialEq)]
pub struct Extent {
    /// The parameter that says how large the data are.
    pub param: &'static str,
    /// What is counted, one and several: `row of pgbench_branches`, `rows of pgbench_branches`.
    pub of: [&'static str; 2],
    /// The data are of one size only: to ask as if they were smaller would not be the same workload.
    pub exact: bool,
    /// What is asked for it.
    pub kind: OpKind,
    /// The kind asks for the record whose number [`Workload::record_key`] puts into its parameters, and numbers go from
    /// 0 without a gap. Otherwise it answers with the size itself.
    pub by_record: bool,
}

/// A workload with its parameters set.
pub trait Workload: Send + Sync {
    /// What has to exist before; nothing, unless it says so.
    fn layout(&self) -> &Layout {
        static NOTHING: Layout = Layout::NOTHING;
        &NOTHING
    }

    /// All kinds of operation, by position.
    fn kinds(&self) -> &[OpKind];

    /// The stream a phase asks for, or a sentence that says why there is none.
    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String>;

    /// Where somebody wrote down what `kind` asks: `transfer.sql:3`. `None` when it is the workload's own.
    fn place(&self, _kind: KindId) -> Option<String> {
        None
    }

    /// How it finds out how large data are that it has not loaded itself; `None` where that does not matter to it.
    fn extent(&self) -> Option<Extent> {
        None
    }

    /// Appends the parameters with which the kind of [`Workload::extent`] asks for record `id`.
    fn record_key(&self, _id: u64, _params: &mut ValueBuf) {}

    /// The right answers; `None` when this workload has none.
    fn truth(&self) -> Option<&dyn Truth> {
        None
    }

    /// Number of records that the load inserts.
    fn record_count(&self) -> u64 {
        0
    }

    /// Bytes of one record's own values, on average, for figures such as write amplification.
    fn record_bytes(&self) -> u64 {
        0
    }
}

/// Which write a record's content is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// The load.
    Loaded,
    /// An update by operation `cycle` of `client`.
    Written {
        /// The client that owns the record.
        client: u32,
        /// Its operation.
        cycle: u64,
    },
}

impl Version {
    /// As one number for a record's stamp field: 0 for loaded; client in the upper 24 bits, cycle + 1 below.
    pub fn stamp(self) -> i64 {
        match self {
            Version::Loaded => 0,
            Version::Written { client, cycle } => (i64::from(client) << 40) | (cycle as i64 + 1),
        }
    }

    /// The version of a stamp; `None` for numbers that are no stamp.
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

/// What records a workload's store must hold: contents as a pure function of record and version.
///
/// A record is a row: the fields of the layout's collection, or a key and its value where there is none.
pub trait Truth: Send + Sync {
    /// The number of the record with this key: `0 .. record_count` for what the load wrote, and above for what is
    /// inserted afterwards; `None` for keys that no record has.
    fn record_id(&self, key: Value<'_>) -> Option<u64>;

    /// Appends the key of record `id`, and nothing else. As it stands, for rows that begin with their key.
    fn key(&self, id: u64, key: &mut ValueBuf) {
        let mut row = ValueBuf::new();
        self.row(id, Version::Loaded, &mut row);
        key.push(row.values().get(0));
    }

    /// Which version a record read from the store claims to be; `None` when it is none.
    fn version(&self, row: Values<'_>) -> Option<Version>;

    /// The same of a row that is about to be written, which nobody has had a chance to spoil.
    fn written(&self, row: Values<'_>) -> Option<Version> {
        self.version(row)
    }

    /// The same of what was read under the key of record `id`, without the key; `None` where reads give whole records.
    fn version_under(&self, _id: u64, _values: Values<'_>) -> Option<Version> {
        None
    }

    /// True when versions are told only of rows of which every byte is as that version made it: nobody else needs to
    /// look at their contents.
    fn sees_contents(&self) -> bool {
        false
    }

    /// Appends the values that version `version` of record `id` has, in the order of its fields.
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
