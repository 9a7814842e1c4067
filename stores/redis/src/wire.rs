//! Connection to Redis as a protocol without I/O.
//!
//! Requests are built from what was put together when the session was opened, and replies are read in place: nothing is
//! allocated for an operation. Replies come in the order of the requests, so any number of operations may be in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Address, Answer, CompletionSink, NO_SPACE, Op, OpKind, Outcome, StoreError, StoreErrorKind,
    Ticket, Value, WireSession, WireState,
};

use crate::command;
use crate::endpoint::Login;
use crate::opening::{Opening, greeted, greeting, not_redis};
use crate::prepared::{PING, Prepared, What, prepared, string};
use crate::reply;
use crate::resp::{self, Aggregate, Reply, Token};
use crate::watched::Whereabouts;

/// Operations in flight on one connection at most. More would only wait in buffers.
const DEPTH_MAX: u32 = 1 << 14;
/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// RESP2, which every server supports.
    #[default]
    Resp2,
    /// Redis 6 and later, after HELLO 3.
    Resp3,
}

/// A connection to Redis or Valkey.
#[derive(Default)]
pub struct RedisSession {
    login: Arc<Login>,
    protocol: Protocol,
    /// Begins every key.
    prefix: Vec<u8>,
    /// Address of the server, which may become another server.
    pub(crate) whereabouts: Option<Arc<Whereabouts>>,
    /// True for the part of a session over all nodes of a cluster. Of `n` kinds, the kinds from `n` on are the same, asked as
    /// ASK says; kind `2 n` asks for CLUSTER SLOTS, whose answer is one value, of the bytes that arrived.
    pub(crate) in_cluster: bool,
    state: WireState,
    opening: VecDeque<Opening>,
    /// Error that refuses the operation types; returned with the first answer, before which an executor does not look.
    refused: Option<StoreError>,
    kinds: Vec<Prepared>,
    queue: VecDeque<(Ticket, u16)>,
    /// A word of a command, put together.
    word: Vec<u8>,
    /// Bytes of a skipped value that have not arrived yet; with the last of them its operation is done.
    skip_bytes: usize,
    answer: Answer,
    /// Most bytes of a reply that is kept.
    answer_max: usize,
}

impl RedisSession {
    /// A session that logs in as `login` and puts `prefix` before every key.
    pub fn new(login: Arc<Login>, protocol: Protocol, prefix: impl Into<Vec<u8>>) -> Self {
        Self { login, protocol, prefix: prefix.into(), answer_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// Ends the connection for good: everything in flight is unknown.
    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
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
    fn take(&mut self, reply: Reply<'_>, done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        if !matches!(self.state, WireState::Ready) {
            return self.take_opening(reply);
        }
        let Some((ticket, kind)) = self.queue.pop_front() else { return Err(self.unasked(reply)) };
        let Prepared { what, keep, .. } = self.kinds[usize::from(kind)];
        match (what, reply) {
            (What::Get | What::Slots, Reply::Bulk(value)) => {
                self.answer.rows = 1;
                self.answer.columns = 1;
                if keep {
                    if value.len() > self.answer_max && what == What::Get {
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
            (_, Reply::Error(words)) if self.is_put_off(ticket, kind, words, done) => {}
            (_, Reply::Error(words)) => {
                self.reject(ticket, words, done);
                return self.must_take_writes(words);
            }
            (What::Exec, Reply::Null) => {
                let words = "a key that is watched has changed: nothing was done";
                let outcome = self.answer.fail(Outcome::Rejected, "WATCH", words);
                self.answer.gave_way = true;
                done.push(ticket, outcome, &self.answer);
                self.answer.clear();
            }
            (What::Command | What::Read | What::Exec, reply) => {
                self.add_row(reply, keep);
                let is_nothing = what == What::Read && matches!(reply, Reply::Null);
                done.push(ticket, if is_nothing { Outcome::NotFound } else { Outcome::Ok }, &self.answer);
                self.answer.clear();
            }
            (_, reply) => {
                self.queue.push_front((ticket, kind));
                return Err(self.broken("answered an operation with a reply of another form").detail(brief(reply)));
            }
        }
        Ok(())
    }

    /// Takes an answer that is made of others: each of them that is not is a row. An error among them is the operation's.
    fn take_all(&mut self, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        let Some((ticket, kind)) = self.queue.pop_front() else { return Ok(()) };
        let keep = self.kinds[usize::from(kind)].keep;
        let mut at = 0;
        let mut error = None;
        loop {
            match resp::token(&bytes[at..]) {
                Token::Reply(reply, used) => {
                    at += used;
                    match reply {
                        Reply::Error(words) => error = error.or(Some(words)),
                        reply => self.add_row(reply, keep),
                    }
                }
                Token::Aggregate(_, _, used) => at += used,
                _ => break,
            }
        }
        match error {
            Some(words) => self.reject(ticket, words, done),
            None => done.push(ticket, Outcome::Ok, &self.answer),
        }
        self.answer.clear();
        Ok(())
    }

    /// Adds what a command answered, or a part of it.
    #[inline]
    fn add_row(&mut self, reply: Reply<'_>, keep: bool) {
        self.answer.rows += 1;
        if !keep {
            return;
        }
        self.answer.columns = 1;
        self.answer.values.push(match reply {
            Reply::Null => Value::Null,
            Reply::Int(number) => Value::Int(number),
            Reply::Bulk(bytes) | Reply::Simple(bytes) | Reply::Error(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Text(text),
                Err(_) => Value::Bytes(bytes),
            },
        });
    }

    /// Holds the commands of the user's own against what the server knows of them.
    #[cold]
    fn know(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.opening.pop_front();
        let Some(known) = reply::node(bytes) else { return Ok(()) };
        let own = self.kinds.iter().filter(|kind| kind.what.is_own());
        own.zip(known.list()).try_for_each(|(kind, known)| kind.command.must_be(known, &self.login.place))
    }

    /// Returns true if the server has refused to begin a command, for as long as it loads its data, lacks its master or
    /// runs a script, and the command will be sent again. The errors of scripts may follow work that was done.
    #[cold]
    fn is_put_off(&mut self, ticket: Ticket, kind: u16, words: &[u8], done: &mut dyn CompletionSink) -> bool {
        let Prepared { what, command, .. } = &self.kinds[usize::from(kind)];
        let is_script = command.name().starts_with("EVAL") || command.name().starts_with("FCALL");
        let code = words.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_for_now = matches!(code, b"LOADING" | b"MASTERDOWN" | b"BUSY")
            && matches!(what, What::Get | What::Put | What::Delete | What::Command | What::Read)
            && !is_script;
        if !is_for_now {
            return false;
        }
        self.answer.fail(Outcome::Rejected, &String::from_utf8_lossy(code), &String::from_utf8_lossy(words));
        let waits = done.put_off(ticket, &self.answer);
        self.answer.clear();
        waits
    }

    /// An error answers its operation, which has not been done: Redis refuses before it changes anything.
    #[cold]
    fn reject(&mut self, ticket: Ticket, words: &[u8], done: &mut dyn CompletionSink) {
        let code = words.split(|byte| *byte == b' ').next().unwrap_or_default();
        let (code, words) = (String::from_utf8_lossy(code), String::from_utf8_lossy(words));
        let outcome = self.answer.fail(Outcome::Rejected, &code, &words);
        self.answer.disk_full = words.contains(NO_SPACE);
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

    /// Fails if a server that Sentinels watch takes no writes: another one is the master now, and another connection
    /// leads to it.
    #[cold]
    fn must_take_writes(&self, words: &[u8]) -> Result<(), StoreError> {
        if self.whereabouts.is_none() || !words.starts_with(b"READONLY ") {
            return Ok(());
        }
        let what = format!("{} is no master any more", self.login.place);
        Err(StoreError::new(StoreErrorKind::Unreachable, what).detail(String::from_utf8_lossy(words)))
    }

    #[cold]
    fn unasked(&self, reply: Reply<'_>) -> StoreError {
        match reply {
            Reply::Error(words) => {
                StoreError::new(StoreErrorKind::Unreachable, format!("{} ended the connection", self.login.place))
                    .detail(String::from_utf8_lossy(words).into_owned())
            }
            reply => self.broken("sent a reply without a request").detail(brief(reply)),
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

impl WireSession for RedisSession {
    fn moves(&self) -> bool {
        self.whereabouts.is_some()
    }

    fn next_address(&mut self) -> Option<Address> {
        self.whereabouts.as_ref().map(|whereabouts| whereabouts.get())
    }

    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.queue.clear();
        self.answer.clear();
        self.skip_bytes = 0;
        (self.kinds, self.refused) = match kinds.iter().map(prepared).collect::<Result<_, _>>() {
            Ok(kinds) => (kinds, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        if self.in_cluster {
            let any_own = self.kinds.iter().any(|kind| kind.what.is_own());
            self.refused = self.refused.take().or_else(|| any_own.then(command::not_in_cluster));
            self.prepare_for_cluster();
        }
        self.state = WireState::Opening;
        self.opening = greeting(&self.login, self.protocol, out);
        let own: Vec<&[u8]> = self.kinds.iter().map(|kind| kind.command.name().as_bytes()).collect();
        let own: Vec<&[u8]> = own.into_iter().filter(|name| !name.is_empty()).collect();
        if !own.is_empty() {
            resp::command(out, &[&[&b"COMMAND"[..], b"INFO"], &own[..]].concat());
            self.opening.push_back(Opening::Commands);
        }
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
            What::Command | What::Read | What::Exec => kind.command.write(op.params, &mut self.word, out),
            What::Nothing | What::Refused | What::Asking | What::Slots => out.extend_from_slice(&kind.head),
        }
        self.queue.push_back((ticket, op.kind));
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
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
                // Of a value that is not wanted nothing needs to be kept.
                Token::PartialBulk(length) if self.answered(What::may_be_long).is_some_and(|kind| !kind.keep) => {
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
                        match self.opening.front() {
                            Some(Opening::Commands) if self.refused.is_none() => self.know(&rest[..used]),
                            _ => self.take_opening(Reply::Null),
                        }
                    }
                    (_, Ok(Some(used))) if self.answered(What::is_own).is_some() => {
                        at += used;
                        self.take_all(&rest[..used], done)
                    }
                    (Aggregate::List, Ok(Some(used))) if self.answered(|what| what == What::Slots).is_some() => {
                        at += used;
                        self.take(Reply::Bulk(&rest[..used]), done)
                    }
                    (_, Ok(Some(_))) => Err(self.broken("answered an operation with an unexpected array")),
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
    /// The kind whose answer is arriving, where it asks what is wanted.
    fn answered(&self, is_wanted: impl Fn(What) -> bool) -> Option<&Prepared> {
        let (_, kind) = self.queue.front().filter(|_| matches!(self.state, WireState::Ready))?;
        self.kinds.get(usize::from(*kind)).filter(|kind| is_wanted(kind.what))
    }

    /// Appends the kinds of a cluster's node: see `in_cluster`; what answers ASKING is the last.
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
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Call, KvCall, ValueType};
    use plimsoll_testkit::pieces::{self, PuttingOff};

    use super::*;

    /// Notes if the newest operation found the disk full.
    struct FullDisk(bool);

    impl CompletionSink for FullDisk {
        fn push(&mut self, _: Ticket, _: Outcome, answer: &Answer) {
            self.0 = answer.disk_full;
        }
    }

    #[test]
    fn a_server_that_cannot_write_to_its_full_disk_says_so_in_words() {
        let mut session = RedisSession::new(Arc::default(), Protocol::Resp2, "");
        let put = OpKind::new("put", Call::Kv(KvCall::Put), &[ValueType::Bytes, ValueType::Bytes]);
        session.open(&[put], &mut Vec::new());
        let mut seen = FullDisk(false);
        session.feed(b"+OK\r\n+PONG\r\n", &mut Vec::new(), &mut seen);
        for (refused, disk_full) in [
            (&b"-MISCONF Errors writing to the AOF file: No space left on device\r\n"[..], true),
            (&b"-MISCONF Errors writing to the AOF file: Input/output error\r\n"[..], false),
        ] {
            pieces::start(&mut session, &[0], &[Value::Bytes(b"k"), Value::Bytes(b"v")]);
            session.feed(refused, &mut Vec::new(), &mut seen);
            assert_eq!(seen.0, disk_full);
        }
    }

    #[test]
    fn a_master_that_takes_no_writes_any_more_is_left_by_sessions_that_follow_the_master() {
        for follows in [false, true] {
            let mut session = RedisSession::new(Arc::default(), Protocol::Resp2, "");
            let master = Address::Tcp("127.0.0.1".to_owned(), 6379);
            session.whereabouts = follows.then(|| Arc::new(Whereabouts::new(master)));
            let put = OpKind::new("put", Call::Kv(KvCall::Put), &[ValueType::Bytes, ValueType::Bytes]);
            session.open(&[put], &mut Vec::new());
            let mut seen = PuttingOff::default();
            session.feed(b"+OK\r\n+PONG\r\n", &mut Vec::new(), &mut seen);
            pieces::start(&mut session, &[0], &[Value::Bytes(b"k"), Value::Bytes(b"v")]);
            let refused = b"-READONLY You can't write against a read only replica.\r\n";
            assert_eq!(session.feed(refused, &mut Vec::new(), &mut seen), refused.len());
            assert_eq!(seen.finished, [(0, Outcome::Rejected)]);
            assert_eq!(matches!(session.state(), WireState::Failed(_)), follows);
        }
    }
}
