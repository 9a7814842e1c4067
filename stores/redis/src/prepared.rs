//! Kinds of operation, ready to be asked: what does not change of their requests is put together once.

use plimsoll_core::command::only_reads;
use plimsoll_core::{Call, KvCall, OpKind, StoreError, Value, ValueType};

use crate::command::Command;
use crate::resp::decimal;

/// A request that asks for nothing.
pub(crate) const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Request of an operation type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Nothing,
    Get,
    Put,
    Delete,
    /// Request before a key whose slot is being moved here: the answer counts for nothing.
    Asking,
    /// A command of the user's own, whose answer may be any.
    Command,
    /// A command of the user's own that only reads: a null reply means that there is nothing.
    Read,
    /// EXEC, whose null reply means that a watched key has changed.
    Exec,
    /// Request for the nodes of keys: the answer is a value as it arrived.
    Slots,
    /// Request that Redis does not support. Refused only when it is asked, as a workload has more types than a plan may use.
    Refused,
}

impl What {
    pub(crate) fn is_own(self) -> bool {
        matches!(self, What::Command | What::Read | What::Exec)
    }

    /// Reports whether the reply may be a long string.
    pub(crate) fn may_be_long(self) -> bool {
        self == What::Get || self.is_own()
    }
}

/// A kind of operation, ready to be asked.
pub(crate) struct Prepared {
    pub(crate) what: What,
    pub(crate) keep: bool,
    /// Request up to the length of the key.
    pub(crate) head: Vec<u8>,
    /// Request up to the key, for keys with the length of the first: mostly all.
    usual_head: Vec<u8>,
    /// The bytes of those keys.
    usual_bytes: usize,
    /// True if the request begins with ASKING, which has a reply of its own.
    pub(crate) asks: bool,
    /// The whole request, of a command of the user's own.
    pub(crate) command: Command,
}

impl Prepared {
    pub(crate) fn new(what: What, keep: bool, head: Vec<u8>, asks: bool) -> Self {
        Self { what, keep, head, usual_head: Vec::new(), usual_bytes: usize::MAX, asks, command: Command::default() }
    }

    /// Appends the request up to the end of the key.
    #[inline]
    pub(crate) fn write_key(&mut self, prefix: &[u8], key: Value<'_>, out: &mut Vec<u8>) {
        match key {
            Value::Bytes(key) if key.len() == self.usual_bytes => {
                out.reserve(self.usual_head.len() + key.len() + 2);
                out.extend_from_slice(&self.usual_head);
                out.extend_from_slice(key);
                out.extend_from_slice(b"\r\n");
            }
            key => {
                out.extend_from_slice(&self.head);
                string(out, prefix, key);
                if let (Value::Bytes(key), usize::MAX) = (key, self.usual_bytes) {
                    self.remember(prefix, key.len());
                }
            }
        }
    }

    #[cold]
    fn remember(&mut self, prefix: &[u8], key_bytes: usize) {
        self.usual_bytes = key_bytes;
        self.usual_head.extend_from_slice(&self.head);
        decimal(&mut self.usual_head, (prefix.len() + key_bytes) as u64);
        self.usual_head.extend_from_slice(b"\r\n");
        self.usual_head.extend_from_slice(prefix);
    }
}

/// `kind`, ready to be asked.
///
/// # Errors
/// `Usage`: it is none for Redis.
pub(crate) fn prepared(kind: &OpKind) -> Result<Prepared, StoreError> {
    let bad = |what: &str| StoreError::usage(format!("operation `{}`: {what}", kind.name));
    let (what, head, params) = match &kind.call {
        Call::Nothing | Call::Steps => (What::Nothing, PING, 0),
        Call::Kv(KvCall::Get) => (What::Get, &b"*2\r\n$3\r\nGET\r\n$"[..], 1),
        Call::Kv(KvCall::Put) => (What::Put, &b"*3\r\n$3\r\nSET\r\n$"[..], 2),
        Call::Kv(KvCall::Delete) => (What::Delete, &b"*2\r\n$3\r\nDEL\r\n$"[..], 1),
        Call::Kv(KvCall::Scan) => (What::Refused, PING, 0),
        Call::Command(words) => {
            let command = Command::new(&kind.name, words)?;
            let what = match command.name() {
                "EXEC" => What::Exec,
                // The null of a script is what its author makes of it.
                name if only_reads(name) && !name.ends_with("_RO") => What::Read,
                _ => What::Command,
            };
            return Ok(Prepared { command, ..Prepared::new(what, kind.keep_answer, Vec::new(), false) });
        }
        _ => return Err(kind.refused("Redis")),
    };
    if params > 0 && (kind.params.len() != params || !kind.params.iter().all(ValueType::has_bytes)) {
        return Err(bad("its parameters are not bytes, texts or integers, one for the key and one for a value"));
    }
    Ok(Prepared::new(what, kind.keep_answer, head.to_vec(), false))
}

/// Appends `prefix` and a value's bytes as the rest of a string whose `$` is there.
#[inline]
pub(crate) fn string(out: &mut Vec<u8>, prefix: &[u8], value: Value<'_>) {
    // Kinds have no parameters without bytes, and null is nothing.
    value.with_bytes(|bytes| {
        decimal(out, (prefix.len() + bytes.len()) as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(prefix);
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    });
}
