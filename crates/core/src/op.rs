//! Operations: the requests of a client, and their outcomes.

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

/// Identifier of one operation in flight. The drive loop assigns it; a session only hands it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// An operation type, prepared once per session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpKind {
    /// Short name as shown in reports: `read`, `query`.
    pub name: String,
    /// The request to the store.
    pub call: Call,
    /// Types of the parameters, in order. For [`RecordsCall::Insert`]: of one record, repeated for each.
    pub params: Vec<ValueType>,
    /// Keep the values of the answer. If false, a session may discard them unread.
    pub keep_answer: bool,
    /// The operation type that this one is a step of. A step is timed like an operation, but is not counted as one.
    #[serde(default)]
    pub step_of: Option<KindId>,
}

/// The request of an operation type, by interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// No operation: measures the generator itself. Every store accepts it; only the null store can time it.
    Nothing,
    /// The `records` interface, on the collection at this position of the layout.
    Records {
        /// Position in [`crate::Layout::collections`].
        collection: u16,
        /// The operation on it.
        call: RecordsCall,
    },
    /// The `sql` interface: one statement with `$1`, `$2` … as parameters.
    Sql(String),
    /// The `sql` interface: a statement that must find a row. If it returns or changes none, the outcome is
    /// [`Outcome::NotFound`].
    SqlRow(String),
    /// The `sql` interface: one statement whose text is the only parameter, with its values written into it. For
    /// statements that cannot take parameters.
    SqlText,
    /// The `commands` interface: the words of one command in the store's own language. An answer of several values
    /// has one row per value; an empty answer is one row with a null.
    Command(Vec<Vec<Part>>),
    /// The `kv` interface.
    Kv(KvCall),
    /// The `http` interface: one request.
    Http(HttpCall),
    /// The `ldap` interface: one operation on a directory.
    Ldap(LdapCall),
    /// Several steps, each of its own operation type, on one session: see [`crate::Steps`]. Never sent itself.
    Steps,
}

/// An operation on a key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvCall {
    /// Params: the key. Answer: one row of one value, or [`Outcome::NotFound`].
    Get,
    /// Writes the value, and creates the key if it does not exist. Params: key, value.
    Put,
    /// Params: the key. Deleting a key that does not exist is [`Outcome::NotFound`].
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
    /// Params: the key. Deleting a record that does not exist is [`Outcome::NotFound`].
    Delete,
    /// All records with `low <= field < high`; a null bound is open; null fields never match.
    /// Params: low, high. Answer: the whole records, in any order.
    Find {
        /// Position of the field that is compared.
        field: u16,
        /// Access path that the store is to use.
        access: Access,
    },
    /// All records. Answer: the whole records, in any order.
    All,
}

/// The access path of a [`RecordsCall::Find`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read every record and compare.
    Scan,
    /// The best way that the layout's [`crate::IndexMode`] offers.
    Indexed,
}

impl OpKind {
    /// Creates an operation type that is not a step and whose answers are not kept.
    pub fn new(name: impl Into<String>, call: Call, params: &[ValueType]) -> Self {
        Self { name: name.into(), call, params: params.to_vec(), keep_answer: false, step_of: None }
    }

    /// Returns this operation type with its answers kept.
    #[must_use]
    pub fn kept(self) -> Self {
        Self { keep_answer: true, ..self }
    }

    /// The interface that a store must speak for this operation type; `None` if any will do.
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

    /// The error of a store that does not speak the operation type's interface.
    pub fn refused(&self, store: &str) -> StoreError {
        // An operation type without an interface is never refused.
        let interface = self.interface().unwrap_or(Interface::Kv);
        interface.refused(store, &format!("`{}`", self.name))
    }

    /// True unless it is certain that the operation changes no data in the store. Steps are judged one by one. A
    /// statement whose text is only known when it is sent counts as a write.
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

    /// True if it is certain that the operation done twice leaves the data that it leaves if done once. A statement or
    /// command that writes may count or append, so it is not.
    pub fn is_idempotent(&self) -> bool {
        match &self.call {
            Call::Kv(_) => true,
            Call::Records { call, .. } => !matches!(call, RecordsCall::Insert),
            // RFC 9110, section 9.2.2.
            Call::Http(call) => matches!(call.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE"),
            Call::Steps => false,
            _ => !self.writes(),
        }
    }
}

/// An operation: its type and parameters, borrowed from the worker's buffer.
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    /// The operation type.
    pub kind: KindId,
    /// The parameters.
    pub params: Values<'a>,
    /// Another operation follows immediately on the session, whatever the outcome of this one, or
    /// [`crate::WireSession::flush`] does. A session may therefore omit the request for an immediate reply
    /// (PostgreSQL's Sync). Steps follow each other within one operation of a client. Other operations belong to
    /// independent clients, so the outcome of one must not depend on its neighbours.
    pub more: bool,
}

impl<'a> Op<'a> {
    /// Creates an operation after which the client waits for the answer.
    pub fn new(kind: KindId, params: Values<'a>) -> Self {
        Self { kind, params, more: false }
    }
}

crate::words! {
    /// The outcome of an operation.
    #[derive(Default)]
    pub enum Outcome {
        /// Done, and acknowledged.
        Ok = "ok",
        /// Done; there was no such record.
        NotFound = "not_found",
        /// The store refused it: it has certainly not happened.
        Rejected = "rejected",
        /// No answer, or an inconclusive one: it may have happened, and may still happen.
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

/// The store's answer: rows of values, or the reason for a failure. Reused from operation to operation.
#[derive(Debug, Default, Clone)]
pub struct Answer {
    /// Values, row after row. Empty when the kind's `keep_answer` is false.
    pub values: ValueBuf,
    /// Values per row.
    pub columns: usize,
    /// Number of rows, including rows whose values were not kept.
    pub rows: u64,
    /// The store's own error code (SQLSTATE, errno name); empty on success.
    pub code: String,
    /// The store's own message; empty on success.
    pub message: String,
    /// The operation failed because of a concurrent one, and a retry may succeed: a deadlock, a serialization
    /// failure, a lock wait that took too long.
    pub gave_way: bool,
    /// The operation failed because a disk of the store is full.
    pub disk_full: bool,
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
        self.disk_full = false;
    }

    /// The kept rows.
    pub fn row_iter(&self) -> impl ExactSizeIterator<Item = Values<'_>> {
        self.values.values().rows(self.columns)
    }

    /// Replaces the answer by the reason for a failure; returns `outcome` for the caller to pass on.
    pub fn fail(&mut self, outcome: Outcome, code: &str, message: &str) -> Outcome {
        self.clear();
        self.code.push_str(code);
        self.message.push_str(message);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operations_that_may_happen_twice_without_a_trace_are_idempotent() {
        let is_idempotent = |call| OpKind::new("ask", call, &[]).is_idempotent();
        let record = |call| Call::Records { collection: 0, call };
        assert!(is_idempotent(Call::Kv(KvCall::Put)) && is_idempotent(Call::Kv(KvCall::Get)));
        assert!(is_idempotent(record(RecordsCall::Update { fields: vec![1] })) && is_idempotent(Call::Nothing));
        assert!(!is_idempotent(record(RecordsCall::Insert)) && !is_idempotent(Call::Steps));
        assert!(is_idempotent(Call::Sql("SELECT 1".to_owned())));
        assert!(!is_idempotent(Call::Sql("UPDATE t SET n = n + 1".to_owned())) && !is_idempotent(Call::SqlText));
    }
}
