//! Notes of operations and answers: plain data of fixed size, and the meaning of each operation type for the ledger.

use plimsoll_core::{Call, KvCall, OpKind, Outcome, RecordsCall, Version};

/// Value in place of a record's number: no record of the workload.
pub(crate) const ALIEN: u32 = u32::MAX;
/// Value in place of a stamp: the row shows none.
pub(crate) const NO_STAMP: i64 = -1;
/// Value in place of a stamp: the record does not exist. A delete has this value plus the stamp of its operation.
pub(crate) const ABSENT: i64 = i64::MIN;
/// Value in place of a time: never.
pub(crate) const NEVER: u64 = u64::MAX;

/// Largest difference between the clocks of two workers: questions are taken to have begun so much earlier and ended
/// so much later.
pub(crate) const CLOCK_SKEW_NS: u64 = 1_000;

/// True for the stamp of a state in which the record is not there.
#[inline]
pub(crate) fn is_absent(stamp: i64) -> bool {
    stamp < NO_STAMP
}

/// An operation whose answer is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedOperation {
    pub cycle: u64,
    pub sent_ns: u64,
    /// [`NEVER`] when no outcome was seen.
    pub finished_ns: u64,
    pub row_count: u32,
    /// Number of records that a range asks for.
    pub asked: u32,
    pub client: u32,
    /// The record asked for or written, of calls that name one; of a range, the first.
    pub id: u32,
    /// Stamp of the value that was read; [`NO_STAMP`] if there is none.
    pub stamp: i64,
    pub kind: u16,
    pub phase: u16,
    pub outcome: Outcome,
    /// Number of the server that answered.
    pub server: u8,
}

/// A record in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Number of the record, or [`ALIEN`].
    pub id: u32,
    /// Digest of its values; 0 where versions vouch for contents.
    pub digest: u32,
    /// Stamp of the version it claims to be, or [`NO_STAMP`]. Of an alien: position of its key among those kept, or
    /// [`NO_STAMP`] when it was not.
    pub stamp: i64,
}

/// A time between sending a question and having its answer, as wide as clocks make it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Interval {
    pub fn of(event: &LoggedOperation) -> Self {
        Self {
            from_ns: event.sent_ns.saturating_sub(CLOCK_SKEW_NS),
            to_ns: event.finished_ns.saturating_add(CLOCK_SKEW_NS),
        }
    }

    /// Interval after all others.
    pub const END: Interval = Interval { from_ns: NEVER, to_ns: NEVER };
}

/// A write to a record that was not refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    /// Earliest time of the effect.
    pub sent_ns: u64,
    /// Time by which it has happened, and was acknowledged if it was; [`NEVER`] if unknown.
    pub done_ns: u64,
    /// Stamp of the version; that of a delete [`is_absent`], [`ABSENT`] itself is the empty store before the trial.
    pub stamp: i64,
    pub is_acknowledged: bool,
    /// An answer has shown it.
    pub is_seen: bool,
}

impl Effect {
    pub const EMPTY_STORE: Effect =
        Effect { sent_ns: 0, done_ns: 0, stamp: ABSENT, is_acknowledged: false, is_seen: false };

    /// The client that did it, and the number of its operation; those of the load have none.
    pub fn author(&self) -> Option<(u32, u64)> {
        let stamp = if is_absent(self.stamp) { self.stamp - ABSENT } else { self.stamp };
        match Version::from_stamp(stamp) {
            Some(Version::Written { client, cycle }) => Some((client, cycle)),
            _ => None,
        }
    }
}

/// Meaning of an operation type for the ledger.
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
    /// Returns the meaning of `kind`, for records of `columns` fields.
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
