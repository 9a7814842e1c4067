//! One connection to Redis as a protocol without I/O.
//!
//! Requests are built from what was put together when the session was opened, and replies are read in place: nothing is
//! allocated for an operation. Replies come in the order of the requests, so any number of operations may be in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Answer, Call, Done, KvCall, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, Value,
    ValueType, WireSession, WireState,
};

use crate::endpoint::Login;
use crate::opening::{Opening, greeted, greeting, not_redis};
use crate::resp::{self, Aggregate, Reply, Token, decimal};

/// Operations in flight on one connection at most. More would only wait in buffers.
const DEPTH_MAX: u32 = 1 << 14;
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// Which version of the protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// What every server understands.
    #[default]
    Resp2,
    /// Redis 6 and later, after HELLO 3.
    Resp3,
}

/// What a kind of operation asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Nothing,
    Get,
    Put,
    Delete,
    /// Says before a key that its slot is being brought here: the answer counts for nothing.
    Asking,
    /// Which nodes have which keys: the answer is a value as it arrived.
    Slots,
    /// What Redis does not speak. Told when it is asked, as a workload has more kinds than a plan may use.
    Refused,
}

/// A kind of operation, ready to be asked.
struct Prepared {
    what: What,
    keep: bool,
    /// Its request up to the length of the key.
    head: Vec<u8>,
    /// The same up to the key, for keys of as many bytes as the first one had: mostly all.
    usual_head: Vec<u8>,
    /// The bytes of those keys.
    usual_bytes: usize,
    /// Its request begins with ASKING, which is answered too.
    asks: bool,
}

impl Prepared {
    fn new(what: What, keep: bool, head: Vec<u8>, asks: bool) -> Self {
        Self { what, keep, head, usual_head: Vec::new(), usual_bytes: usize::MAX, asks }
    }

    /// Appends the request up to the end of the key.
    #[inline]
    fn write_key(&mut self, prefix: &[u8], key: Value<'_>, out: &mut Vec<u8>) {
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

/// A connection to Redis or Valkey.
pub struct RedisSession {
    login: Arc<Login>,
    protocol: Protocol,
    /// Begins every key.
    prefix: Vec<u8>,
    /// Kinds of a cluster's node are prepared too, see [`RedisSession::in_cluster`].
    in_cluster: bool,
    state: WireState,
    opening: VecDeque<Opening>,
    /// Why the kinds cannot be asked; told with the first answer, before which an executor does not look.
    refused: Option<StoreError>,
    kinds: Vec<Prepared>,
    queue: VecDeque<(Ticket, u16)>,
    /// Bytes of a value nobody wants that have not arrived yet; with the last of them its operation is done.
    skip_bytes: usize,
    answer: Answer,
    /// Most bytes of a reply that is kept.
    answer_max: usize,
}

impl RedisSession {
    /// A session that logs in as `login` and puts `prefix` before every key.
    pub fn new(login: Arc<Login>, protocol: Protocol, prefix: impl Into<Vec<u8>>) -> Self {
        Self {
            login,
            protocol,
            prefix: prefix.into(),
            in_cluster: false,
            state: WireState::Opening,
            opening: VecDeque::new(),
            refused: None,
            kinds: Vec::new(),
            queue: VecDeque::new(),
            skip_bytes: 0,
            answer: Answer::default(),
            answer_max: ANSWER_BYTES_MAX,
        }
    }

    /// As the part of a session over all nodes of a cluster. Of `n` kinds, the kinds from `n` on are the same, asked as
    /// ASK says; kind `2 n` asks for CLUSTER SLOTS, whose answer is one value, of the bytes that arrived.
    #[must_use]
    pub(crate) fn in_cluster(mut self) -> Self {
        self.in_cluster = true;
        self
    }

    /// Ends the connection for good: everything in flight is unknown.
    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn Done) {
        self.answer.fail(Outcome::Unknown, "connection", &error.to_string());
        while let Some((ticket, kind)) = self.queue.pop_front() {
            if self.kinds.get(usize::from(kind)).is_none_or(|kind| kind.what != What::Asking) {
                done.push(ticket, Outcome::Unknown, &self.answer);
            }
        }
        self.answer.clear();
        self.state = WireState::Failed(error);
    }

    #[cold]
    fn too_large(&self, bytes: usize) -> StoreError {
        StoreError::answer_too_large(&self.login.place, Some(bytes as u64), self.answer_max)
    }

    fn broken(&self, what: &str) -> StoreError {
        StoreError::broken(format!("{} {what}", self.login.place))
    }

    #[inline]
    fn take(&mut self, reply: Reply<'_>, done: &mut dyn Done) -> Result<(), StoreError> {
        if !matches!(self.state, WireState::Ready) {
            return self.take_opening(reply);
        }
        let Some((ticket, kind)) = self.queue.pop_front() else { return Err(self.unasked(reply)) };
        let Prepared { what, keep, .. } = self.kinds[usize::from(kind)];
        match (what, reply) {
            (What::Get, Reply::Bulk(value)) => {
                self.answer.rows = 1;
                self.answer.columns = 1;
                if keep {
                    if value.len() > self.answer_max {
                        self.queue.push_front((ticket, kind));
                        return Err(self.too_large(value.len()));
                    }
                    self.answer.values.push(Value::Bytes(value));
                }
                done.push(ticket, Outcome::Ok, &self.answer);
                self.answer.clear();
            }
            (What::Put | What::Nothing, Reply::Simple(_)) => done.push(ticket, Outcome::Ok, &self.answer),
            (What::Get, Reply::Null) | (What::Delete, Reply::Int(0)) => {
                done.push(ticket, Outcome::NotFound, &self.answer);
            }
            (What::Delete, Reply::Int(_)) => done.push(ticket, Outcome::Ok, &self.answer),
            (What::Refused, Reply::Simple(_)) => {
                let words = "Redis keeps no keys in order and cannot read the next ones; nothing was asked";
                let outcome = self.answer.fail(Outcome::Rejected, "UNSUPPORTED", words);
                done.push(ticket, outcome, &self.answer);
                self.answer.clear();
            }
            // What it says no to, it says to the key that follows too.
            (What::Asking, Reply::Simple(_) | Reply::Error(_)) => {}
            (_, Reply::Error(words)) => self.reject(ticket, words, done),
            (_, reply) => {
                self.queue.push_front((ticket, kind));
                return Err(self.broken("answered an operation with what is no answer to it").detail(brief(reply)));
            }
        }
        Ok(())
    }

    /// An error answers its operation, which has not been done: Redis refuses before it changes anything.
    #[cold]
    fn reject(&mut self, ticket: Ticket, words: &[u8], done: &mut dyn Done) {
        let code = words.split(|byte| *byte == b' ').next().unwrap_or_default();
        let (code, words) = (String::from_utf8_lossy(code), String::from_utf8_lossy(words));
        let outcome = self.answer.fail(Outcome::Rejected, &code, &words);
        if !self.in_cluster
            && let "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" | "TRYAGAIN" = &*code
        {
            self.answer.message.push_str(
                ": this server has become a node of a cluster since it was attached. Attach to it again, and all nodes are driven.",
            );
        }
        done.push(ticket, outcome, &self.answer);
        self.answer.clear();
    }

    #[cold]
    fn unasked(&self, reply: Reply<'_>) -> StoreError {
        match reply {
            Reply::Error(words) => {
                StoreError::new(StoreErrorKind::Unreachable, format!("{} ended the connection", self.login.place))
                    .detail(String::from_utf8_lossy(words).into_owned())
            }
            reply => self.broken("answered what nobody asked").detail(brief(reply)),
        }
    }

    #[cold]
    fn take_opening(&mut self, reply: Reply<'_>) -> Result<(), StoreError> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let Some(asked) = self.opening.pop_front() else { return Err(self.unasked(reply)) };
        if let Reply::Error(words) = reply {
            greeted(asked, words, &self.login)?;
        }
        if self.opening.is_empty() {
            self.state = WireState::Ready;
        }
        Ok(())
    }
}

fn brief(reply: Reply<'_>) -> String {
    match reply {
        Reply::Bulk(bytes) => format!("a string of {} bytes", bytes.len()),
        Reply::Simple(line) | Reply::Error(line) => line.escape_ascii().take(100).map(char::from).collect(),
        Reply::Null => "null".to_owned(),
        Reply::Int(number) => number.to_string(),
    }
}

fn prepared(kind: &OpKind) -> Result<Prepared, StoreError> {
    let bad = |what: &str| StoreError::usage(format!("operation `{}`: {what}", kind.name));
    let (what, head, params) = match &kind.call {
        Call::Nothing | Call::Steps => (What::Nothing, PING, 0),
        Call::Kv(KvCall::Get) => (What::Get, &b"*2\r\n$3\r\nGET\r\n$"[..], 1),
        Call::Kv(KvCall::Put) => (What::Put, &b"*3\r\n$3\r\nSET\r\n$"[..], 2),
        Call::Kv(KvCall::Delete) => (What::Delete, &b"*2\r\n$3\r\nDEL\r\n$"[..], 1),
        Call::Kv(KvCall::Scan) => (What::Refused, PING, 0),
        _ => return Err(kind.refused("Redis")),
    };
    let as_bytes = |value_type: &ValueType| matches!(value_type, ValueType::Bytes | ValueType::Text | ValueType::Int);
    if params > 0 && (kind.params.len() != params || !kind.params.iter().all(as_bytes)) {
        return Err(bad("its parameters are not bytes, texts or integers, one for the key and one for a value"));
    }
    Ok(Prepared::new(what, kind.keep_answer, head.to_vec(), false))
}

/// Appends `prefix` and a value's bytes as the rest of a string whose `$` is there.
#[inline]
fn string(out: &mut Vec<u8>, prefix: &[u8], value: Value<'_>) {
    let bytes = match value {
        Value::Bytes(bytes) => bytes,
        Value::Text(text) => text.as_bytes(),
        Value::Int(number) => return number_string(out, prefix, number),
        // Kinds have no parameters of other types, and null is nothing.
        _ => &[],
    };
    decimal(out, (prefix.len() + bytes.len()) as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(prefix);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// The same for an integer, as its decimal digits.
fn number_string(out: &mut Vec<u8>, prefix: &[u8], number: i64) {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    decimal(out, (prefix.len() + digits + usize::from(number < 0)) as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(prefix);
    if number < 0 {
        out.push(b'-');
    }
    decimal(out, number.unsigned_abs());
    out.extend_from_slice(b"\r\n");
}

impl WireSession for RedisSession {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.queue.clear();
        self.answer.clear();
        self.skip_bytes = 0;
        self.refused = None;
        self.kinds.clear();
        for kind in kinds {
            match prepared(kind) {
                Ok(kind) => self.kinds.push(kind),
                Err(error) => self.refused = Some(error),
            }
        }
        if self.in_cluster {
            self.prepare_for_cluster();
        }
        self.state = WireState::Opening;
        self.opening = greeting(&self.login, self.protocol, out);
        // Whether it takes operations at all: a server that loads its data answers what came before.
        out.extend_from_slice(PING);
        self.opening.push_back(Opening::Liked);
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.answer_max = bytes_max;
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let last = self.kinds.len() as u16 - 1;
        let kind = &mut self.kinds[usize::from(op.kind)];
        if kind.asks {
            // What takes its answer is the last kind of all: see `prepare_for_cluster`.
            self.queue.push_back((ticket, last));
        }
        match kind.what {
            What::Get | What::Delete => kind.write_key(&self.prefix, op.params.get(0), out),
            What::Put => {
                kind.write_key(&self.prefix, op.params.get(0), out);
                out.push(b'$');
                string(out, &[], op.params.get(1));
            }
            What::Nothing | What::Refused | What::Asking | What::Slots => out.extend_from_slice(&kind.head),
        }
        self.queue.push_back((ticket, op.kind));
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let mut at = 0;
        if self.skip_bytes > 0 {
            at = self.skip_bytes.min(bytes.len());
            self.skip_bytes -= at;
            if self.skip_bytes > 0 {
                return at;
            }
            if let Err(error) = self.take(Reply::Bulk(&[]), done) {
                self.fail(error, done);
                return bytes.len();
            }
        }
        while at < bytes.len() {
            let rest = &bytes[at..];
            let taken = match resp::token(rest) {
                Token::Reply(reply, used) => {
                    at += used;
                    self.take(reply, done)
                }
                Token::PartialBulk(length) if self.discards() => {
                    self.skip_bytes = length - rest.len();
                    return bytes.len();
                }
                Token::PartialBulk(length) if length > self.answer_max => Err(self.too_large(length)),
                Token::Partial | Token::PartialBulk(_) => return at,
                Token::Aggregate(aggregate, elements, used) => match (aggregate, resp::whole(rest)) {
                    (Aggregate::Attributes, Ok(Some(_))) => {
                        // They stand before the reply they belong to, which `whole` has measured with them.
                        at += used + elements_bytes(&rest[used..], elements);
                        Ok(())
                    }
                    (Aggregate::Push, Ok(Some(used))) => {
                        at += used;
                        Ok(())
                    }
                    // HELLO's answer. No operation has an aggregate for one.
                    (_, Ok(Some(used))) if !matches!(self.state, WireState::Ready) => {
                        at += used;
                        self.take_opening(Reply::Null)
                    }
                    (Aggregate::List, Ok(Some(used))) if self.asks_slots() => {
                        at += used;
                        self.take_slots(&rest[..used], done);
                        Ok(())
                    }
                    (_, Ok(Some(_))) => Err(self.broken("answered an operation with an array, which is none")),
                    // Its elements have to be there as a whole, and only they say how long they are.
                    (_, Ok(None)) if rest.len() > self.answer_max => {
                        Err(StoreError::answer_too_large(&self.login.place, None, self.answer_max))
                    }
                    (_, Ok(None)) => return at,
                    (_, Err(resp::Malformed)) => Err(not_redis(rest, &self.login.place)),
                },
                Token::Malformed => Err(not_redis(rest, &self.login.place)),
            };
            if let Err(error) = taken {
                self.fail(error, done);
                return bytes.len();
            }
        }
        at
    }

    fn close(&mut self, _: &mut Vec<u8>) {
        // A server that sees the connection closed needs no word; QUIT is on its way out.
    }
}

/// The bytes of the first `elements` replies of `bytes`, which are all there.
fn elements_bytes(bytes: &[u8], elements: usize) -> usize {
    (0..elements).fold(0, |at, _| at + resp::whole(&bytes[at..]).ok().flatten().unwrap_or_default())
}

impl RedisSession {
    /// True when the value that is arriving is not wanted: it need not be buffered whole.
    fn discards(&self) -> bool {
        let front = self.queue.front().filter(|_| matches!(self.state, WireState::Ready));
        front.is_some_and(|(_, kind)| {
            let kind = &self.kinds[usize::from(*kind)];
            kind.what == What::Get && !kind.keep
        })
    }

    /// Appends the kinds of a cluster's node: see [`RedisSession::in_cluster`]; what answers ASKING is the last.
    fn prepare_for_cluster(&mut self) {
        const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
        let own = |what, head: &[u8]| Prepared::new(what, true, head.to_vec(), false);
        for index in 0..self.kinds.len() {
            let Prepared { what, keep, ref head, .. } = self.kinds[index];
            self.kinds.push(Prepared::new(what, keep, [ASKING, head].concat(), true));
        }
        self.kinds.push(own(What::Slots, b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"));
        self.kinds.push(own(What::Asking, ASKING));
    }

    fn asks_slots(&self) -> bool {
        let front = self.queue.front().filter(|_| matches!(self.state, WireState::Ready));
        front.is_some_and(|(_, kind)| self.kinds[usize::from(*kind)].what == What::Slots)
    }

    #[cold]
    fn take_slots(&mut self, bytes: &[u8], done: &mut dyn Done) {
        let Some((ticket, _)) = self.queue.pop_front() else { return };
        self.answer.values.push(Value::Bytes(bytes));
        (self.answer.rows, self.answer.columns) = (1, 1);
        done.push(ticket, Outcome::Ok, &self.answer);
        self.answer.clear();
    }
}
