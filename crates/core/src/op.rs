//! Operations: what a client asks of a store, and what came of it.

use serde::{Deserialize, Serialize};

use crate::command::{self, Part};
use crate::error::StoreError;
use crate::http::HttpCall;
use crate::ldap::LdapCall;
use crate::sql;
use crate::store::Interface;
use crate::value::{ValueBuf, ValueType, Values};

/// The position of an [`OpKind`] in its workload's list.
pub type KindId = u16;

/// Names one operation in flight. Given out by the drive loop; a session only hands it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// A kind of operation, prepared once per session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpKind {
    /// Short name as shown in reports: `read`, `query`.
    pub name: String,
    /// What the store is asked.
    pub call: Call,
    /// Types of the parameters, in order. For [`RecordsCall::Insert`]: of one record, repeated for each.
    pub params: Vec<ValueType>,
    /// Whether the answer's values are wanted. When false a session may throw them away unread.
    pub keep_answer: bool,
    /// The kind that this one is a step of. A step is timed like an operation and counts as none.
    #[serde(default)]
    pub step_of: Option<KindId>,
}

/// What the store is asked, by the interface it is asked through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// Nothing: measures the generator itself. Every store accepts it; only the null store can time it.
    Nothing,
    /// The `records` interface, on the collection at this position of the layout.
    Records {
        /// Position in [`crate::Layout::collections`].
        collection: u16,
        /// What to do with it.
        call: RecordsCall,
    },
    /// The `sql` interface: one statement with `$1`, `$2` … as parameters.
    Sql(String),
    /// The same of a row or more that have to be there: no row answered or touched is [`Outcome::NotFound`].
    SqlRow(String),
    /// The `sql` interface: one statement whose text is the only parameter, sent as it is: what no parameter may stand
    /// in, with its values written into it.
    SqlText,
    /// The `commands` interface: the words of one command in the store's own language. An answer of several values is as many
    /// rows of one; nothing is a row too, a null.
    Command(Vec<Vec<Part>>),
    /// The `kv` interface.
    Kv(KvCall),
    /// The `http` interface: one request.
    Http(HttpCall),
    /// The `ldap` interface: one operation on a directory.
    Ldap(LdapCall),
    /// Several steps, each of a kind of its own, on one session: see [`crate::Steps`]. Never sent itself.
    Steps,
}

/// An operation on bytes under bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvCall {
    /// Params: the key. Answer: one row of one value, or [`Outcome::NotFound`].
    Get,
    /// Writes the value, whether the key is there or not. Params: key, value.
    Put,
    /// Params: the key. Deleting what is not there is [`Outcome::NotFound`].
    Delete,
    /// The next keys in byte order. Params: the first key, and how many (an integer). Answer: rows of key and
    /// value.
    Scan,
}

/// An operation on records. A record is a row of values in the order of its collection's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordsCall {
    /// Inserts one record or several, all or none of them. Params: the records' values, one after the other.
    Insert,
    /// Params: the key. Answer: the record as one row, or [`Outcome::NotFound`].
    Get,
    /// Sets some fields of one record. Params: the key, then the new values in the order of `fields`.
    Update {
        /// Positions of the fields that are set.
        fields: Vec<u16>,
    },
    /// Params: the key. Deleting what is not there is [`Outcome::NotFound`].
    Delete,
    /// All records with `low <= field < high`; a null bound is open; null fields never match.
    /// Params: low, high. Answer: the whole records, in any order.
    Find {
        /// Position of the field asked for.
        field: u16,
        /// How the store is to find them.
        access: Access,
    },
    /// All records. Answer: the whole records, in any order.
    All,
}

/// The way to the records of a [`RecordsCall::Find`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read every record and compare.
    Scan,
    /// The best way that the layout's [`crate::IndexMode`] offers.
    Indexed,
}

impl OpKind {
    /// A kind of operation of its own, whose answers nobody wants.
    pub fn new(name: impl Into<String>, call: Call, params: &[ValueType]) -> Self {
        Self { name: name.into(), call, params: params.to_vec(), keep_answer: false, step_of: None }
    }

    /// The same with answers that are wanted.
    #[must_use]
    pub fn kept(self) -> Self {
        Self { keep_answer: true, ..self }
    }

    /// The interface a store must speak for this kind; `None` when any will do.
    pub fn interface(&self) -> Option<Interface> {
        match self.call {
            Call::Nothing | Call::Steps => None,
            Call::Records { .. } => Some(Interface::Records),
            Call::Sql(_) | Call::SqlRow(_) | Call::SqlText => Some(Interface::Sql),
            Call::Command(_) => Some(Interface::Commands),
            Call::Kv(KvCall::Scan) => Some(Interface::KvScan),
            Call::Kv(_) => Some(Interface::Kv),
            Call::Http(_) => Some(Interface::Http),
            Call::Ldap(_) => Some(Interface::Ldap),
        }
    }

    /// The refusal of a store that does not speak its interface.
    pub fn refused(&self, store: &str) -> StoreError {
        // What needs none is refused by none.
        let interface = self.interface().unwrap_or(Interface::Kv);
        interface.refused(store, &format!("`{}`", self.name))
    }

    /// True unless it is certain that the operation changes nothing of what the store holds. Steps are looked at one by
    /// one, and a statement whose text is only made when it is sent may be any.
    pub fn writes(&self) -> bool {
        match &self.call {
            Call::Nothing | Call::Steps => false,
            Call::Sql(text) | Call::SqlRow(text) => !sql::only_reads(text, None),
            Call::SqlText => true,
            Call::Command(words) => !command::only_reads(&command::name(words)),
            Call::Kv(call) => matches!(call, KvCall::Put | KvCall::Delete),
            Call::Ldap(call) => call.writes(),
            Call::Http(call) => !matches!(call.method.as_str(), "GET" | "HEAD" | "OPTIONS"),
            Call::Records { call, .. } => {
                matches!(call, RecordsCall::Insert | RecordsCall::Update { .. } | RecordsCall::Delete)
            }
        }
    }
}

/// One operation: a kind and its parameters, borrowed from the worker's buffer.
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    /// Which kind.
    pub kind: KindId,
    /// Its parameters.
    pub params: Values<'a>,
    /// Another operation follows at once on the session, whatever this one comes to, or
    /// [`crate::WireSession::flush`]: a session may leave out what asks the server to answer now (PostgreSQL's Sync).
    /// Steps follow on each other within one operation of a client; other operations are of clients that know nothing
    /// of each other, and what becomes of one must not depend on its neighbours.
    pub more: bool,
}

impl<'a> Op<'a> {
    /// An operation after which the client waits for the answer.
    pub fn new(kind: KindId, params: Values<'a>) -> Self {
        Self { kind, params, more: false }
    }
}

crate::words! {
    /// What an operation came to.
    #[derive(Default)]
    pub enum Outcome {
        /// Done, and acknowledged.
        Ok = "ok",
        /// Done; there was no such record.
        NotFound = "not_found",
        /// The store said no: it has certainly not happened.
        Rejected = "rejected",
        /// No answer, or one that leaves it open: it may have happened, and may still happen.
        #[default]
        Unknown = "unknown",
    }
}

impl Outcome {
    /// True for the outcomes that count as errors against a goal.
    pub fn is_error(self) -> bool {
        matches!(self, Outcome::Rejected | Outcome::Unknown)
    }
}

/// What a store answered: rows of values, or why it would not. Reused from operation to operation.
#[derive(Debug, Default, Clone)]
pub struct Answer {
    /// Values, row after row. Empty when the kind's `keep_answer` is false.
    pub values: ValueBuf,
    /// Values per row.
    pub columns: usize,
    /// Number of rows, also when the values were not kept.
    pub rows: u64,
    /// The store's own error code (SQLSTATE, errno name); empty when all went well.
    pub code: String,
    /// The store's own words; empty when all went well.
    pub message: String,
    /// The store would not because it gave way to another operation, and the same may work now: a deadlock, a conflict of
    /// transactions, a lock that others kept for too long.
    pub gave_way: bool,
}

impl Answer {
    /// Empties the answer and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.columns = 0;
        self.rows = 0;
        self.code.clear();
        self.message.clear();
        self.gave_way = false;
    }

    /// The kept rows.
    pub fn row_iter(&self) -> impl ExactSizeIterator<Item = Values<'_>> {
        self.values.values().rows(self.columns)
    }

    /// Says why the store would not, and nothing else; returns `outcome` for the caller to pass on.
    pub fn fail(&mut self, outcome: Outcome, code: &str, message: &str) -> Outcome {
        self.clear();
        self.code.push_str(code);
        self.message.push_str(message);
        outcome
    }
}
