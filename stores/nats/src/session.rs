//! One connection that operations go over, to one of the cluster's servers; to the next one when it is lost.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Address, Answer, AsyncSession, Call, KvCall, Op, OpKind, Outcome, Pending, StoreError,
    StoreErrorKind, Value, ValueType,
};
use tokio::net::TcpStream;

use crate::answers::{Found, Refusal, Written, direct, from_leader, written};
use crate::bucket::{stream, subject};
use crate::control::{acceptable, broken, refused, said};
use crate::endpoint::Login;
use crate::frames::{Broken, Frame, frame, greet, publish};

/// Longest subject of a key: a line to the server may have 4096 bytes, and holds it with what else stands there.
const SUBJECT_BYTES_MAX: usize = 3_500;
/// Bytes that are read at a time, at least.
const READ_BYTES: usize = 8 << 10;
/// Bytes for answers that a session keeps when it has nothing to do with them.
const KEPT_BYTES: usize = 64 << 10;

/// What all sessions of a phase have in common.
pub(crate) struct Common {
    /// Where the cluster's servers listen.
    pub addresses: Vec<SocketAddr>,
    pub login: Option<Login>,
    /// The bucket; `None` where nobody has named one, and none was made.
    pub bucket: Option<String>,
    /// Any copy of the bucket answers reads, not its leader alone.
    pub any_reads: bool,
    pub place: String,
}

/// What a kind of operation asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Nothing,
    /// A scan, which is refused when it is asked: a workload may have it and not ask it.
    Refused,
    Get,
    Put,
    Delete,
}

/// What there is of an answer: places in the session's input.
struct Reply {
    headers: Range<usize>,
    content: Range<usize>,
}

/// Why an operation came to nothing.
enum Failure {
    /// The server said so.
    Refused(Refusal),
    /// The connection is of no more use; nobody knows what became of the operation.
    Lost(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Lost(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

pub(crate) struct NatsSession {
    common: Arc<Common>,
    /// The server that it is connected to, or will be next.
    at: usize,
    socket: Option<TcpStream>,
    /// What arrived; of it, what has been used, and how much of it there is.
    input: Vec<u8>,
    used: usize,
    filled: usize,
    out: Vec<u8>,
    /// Begins the subjects of answers to this connection.
    inbox: String,
    /// Questions asked over it; each is answered to its number.
    asked: u64,
    payload_max: usize,
    kinds: Vec<(What, bool)>,
    /// The subject of the key that is asked for, and what a put writes.
    subject: String,
    value: Vec<u8>,
    bytes_max: usize,
    lost: Option<StoreError>,
}

impl NatsSession {
    pub fn new(common: &Arc<Common>, number: usize) -> Self {
        Self {
            common: Arc::clone(common),
            at: number,
            socket: None,
            input: Vec::new(),
            used: 0,
            filled: 0,
            out: Vec::new(),
            inbox: String::new(),
            asked: 0,
            payload_max: 0,
            kinds: Vec::new(),
            subject: String::new(),
            value: Vec::new(),
            bytes_max: ANSWER_BYTES_MAX,
            lost: None,
        }
    }

    async fn connect(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.lost = None;
        self.socket = None;
        (self.used, self.filled, self.asked) = (0, 0, 0);
        self.out.clear();
        self.kinds = kinds.iter().map(|kind| Ok((what(kind)?, kind.keep_answer))).collect::<Result<_, StoreError>>()?;
        let needs_bucket = self.kinds.iter().any(|(what, _)| *what != What::Nothing);
        if needs_bucket && self.common.bucket.is_none() {
            return Err(StoreError::usage("the URL names no bucket")
                .next("write it behind the host: nats://host:4222/bucket; without --no-load one is made"));
        }
        let address = self.common.addresses[self.at % self.common.addresses.len()];
        // Where this comes to nothing, another server is next.
        self.at += 1;
        let place = format!("nats://{address}");
        let unreachable = |error| StoreError {
            kind: StoreErrorKind::Unreachable,
            ..StoreError::io(&place, &error).next("check that nats-server runs and listens there")
        };
        let socket = TcpStream::connect(address).await.map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        self.socket = Some(socket);
        let Frame::Info(info) = self.next().await? else {
            return Err(broken(&place, Broken::Malformed));
        };
        let info = acceptable(&place, &self.input[info])?;
        self.payload_max = info.max_payload;
        self.inbox = info.inbox();
        greet(self.common.login.as_ref(), &self.inbox, &mut self.out);
        self.send().await?;
        self.until_pong().await?;
        if needs_bucket {
            // Its bucket has a leader that it knows of: otherwise nobody answers, and the time for this runs out.
            self.address_key(b"");
            match self.read(|_| ()).await {
                Ok(_) => {}
                Err(Failure::Lost(error)) => return Err(error),
                Err(Failure::Refused(refusal)) => return Err(refused(&place, &refusal)),
            }
        }
        self.at -= 1;
        Ok(())
    }

    /// Sets the subject to that of `key`.
    fn address_key(&mut self, key: &[u8]) {
        self.subject.clear();
        subject(bucket(&self.common), key, &mut self.subject);
    }

    /// Takes of `op` what it asks.
    fn take(&mut self, op: &Op<'_>) {
        self.value.clear();
        let what = self.kinds[usize::from(op.kind)].0;
        if !matches!(what, What::Nothing | What::Refused) {
            op.params.get(0).with_bytes(|key| self.address_key(key));
        }
        if what == What::Put {
            op.params.get(1).with_bytes(|value| self.value.extend_from_slice(value));
        }
    }

    async fn ask(&mut self, kind: usize, answer: &mut Answer) -> Outcome {
        let (what, keep) = self.kinds[kind];
        if self.subject.len() > SUBJECT_BYTES_MAX {
            let bytes = self.subject.len();
            let words = format!(
                "the key's subject has {bytes} bytes, and a line to the server has room for {SUBJECT_BYTES_MAX}"
            );
            return answer.fail(Outcome::Rejected, "key", &words);
        }
        if self.value.len() > self.payload_max {
            let words =
                format!("{} bytes are more than the server's max_payload of {}", self.value.len(), self.payload_max);
            return answer.fail(Outcome::Rejected, "max_payload", &words);
        }
        let asked = match what {
            What::Nothing => self.ping().await,
            What::Refused => return answer.fail(Outcome::Rejected, "scan", "a bucket's keys have no order"),
            What::Get => self
                .read(|found| {
                    (answer.rows, answer.columns) = (1, 1);
                    if keep {
                        answer.values.push(Value::Bytes(&found.value));
                    }
                })
                .await
                .map(|found| found.is_some()),
            What::Put => match self.write("").await {
                Ok(_) => {
                    answer.rows = 1;
                    Ok(true)
                }
                Err(failure) => Err(failure),
            },
            What::Delete => {
                let deleted = self.delete().await;
                answer.rows = u64::from(matches!(deleted, Ok(true)));
                deleted
            }
        };
        if self.used == self.filled && self.input.len() > KEPT_BYTES {
            (self.used, self.filled, self.input) = (0, 0, Vec::new());
        }
        match asked {
            Ok(true) => Outcome::Ok,
            Ok(false) => Outcome::NotFound,
            Err(Failure::Refused(refusal)) => {
                let outcome = if refusal.is_definite() { Outcome::Rejected } else { Outcome::Unknown };
                answer.fail(outcome, &refusal.name(), &refusal.description)
            }
            Err(Failure::Lost(error)) => {
                answer.fail(Outcome::Unknown, "connection", &error.to_string());
                self.lost = Some(error);
                self.socket = None;
                // Another server may be there.
                self.at += 1;
                Outcome::Unknown
            }
        }
    }

    async fn ping(&mut self) -> Result<bool, Failure> {
        self.out.extend_from_slice(b"PING\r\n");
        self.send().await?;
        self.until_pong().await?;
        Ok(true)
    }

    /// Asks for the key; hands what it has to `take`, and says which revision that is.
    async fn read(&mut self, take: impl FnOnce(&Found<'_>)) -> Result<Option<u64>, Failure> {
        let name = stream(bucket(&self.common));
        let reply = if self.common.any_reads {
            let asks = format!("$JS.API.DIRECT.GET.{name}.{}", self.subject);
            self.request(&asks, "", b"").await?
        } else {
            let body = format!(r#"{{"last_by_subj":"{}"}}"#, self.subject);
            self.request(&format!("$JS.API.STREAM.MSG.GET.{name}"), "", body.as_bytes()).await?
        };
        let (headers, content) = (&self.input[reply.headers], &self.input[reply.content]);
        let found = if self.common.any_reads { direct(headers, content) } else { from_leader(headers, content) }?;
        if let Some(found) = &found {
            take(found);
        }
        Ok(found.map(|found| found.revision))
    }

    /// Writes the value to the key.
    async fn write(&mut self, headers: &str) -> Result<Written, Failure> {
        let (subject, value) = (std::mem::take(&mut self.subject), std::mem::take(&mut self.value));
        let reply = self.request(&subject, headers, &value).await;
        (self.subject, self.value) = (subject, value);
        let reply = reply?;
        Ok(written(&self.input[reply.headers], &self.input[reply.content])?)
    }

    /// Writes that the key is deleted, if it is there, and only over what was read: so one of several deletions has found
    /// something. Where another write came in between, it is read again.
    async fn delete(&mut self) -> Result<bool, Failure> {
        loop {
            let Some(revision) = self.read(|_| ()).await? else { return Ok(false) };
            let headers = format!("KV-Operation: DEL\r\nNats-Expected-Last-Subject-Sequence: {revision}\r\n");
            if self.write(&headers).await? == Written::Yes {
                return Ok(true);
            }
        }
    }

    /// Sends a message and waits for its answer.
    async fn request(&mut self, to: &str, headers: &str, content: &[u8]) -> Result<Reply, StoreError> {
        self.asked += 1;
        publish(to, (&self.inbox, self.asked), headers, content, &mut self.out);
        self.send().await?;
        loop {
            match self.next().await? {
                Frame::Message { subject, headers, content } if self.is_answer(&subject) => {
                    return Ok(Reply { headers, content });
                }
                frame => self.heed(frame).await?,
            }
        }
    }

    /// Whether the message to this subject is the answer to the last question.
    fn is_answer(&self, subject: &Range<usize>) -> bool {
        let digits =
            self.input[subject.clone()].strip_prefix(self.inbox.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()) == Some(self.asked)
    }

    async fn until_pong(&mut self) -> Result<(), StoreError> {
        loop {
            match self.next().await? {
                Frame::Pong => return Ok(()),
                frame => self.heed(frame).await?,
            }
        }
    }

    /// Does what a frame wants that is no answer.
    async fn heed(&mut self, frame: Frame) -> Result<(), StoreError> {
        match frame {
            Frame::Ping => {
                self.out.extend_from_slice(b"PONG\r\n");
                self.send().await
            }
            Frame::Error(words) => Err(said(&self.common.place, &words)),
            _ => Ok(()),
        }
    }

    /// What the server says next. Its places are of the input as it is until this is called again.
    async fn next(&mut self) -> Result<Frame, StoreError> {
        loop {
            let found = frame(&self.input[self.used..self.filled], self.bytes_max);
            let found = found.map_err(|error| match error {
                Broken::TooLarge(bytes) => {
                    StoreError::answer_too_large(&self.common.place, Some(bytes as u64), self.bytes_max)
                }
                error => broken(&self.common.place, error),
            })?;
            if let Some((frame, used)) = found {
                let base = self.used;
                self.used += used;
                return Ok(moved(frame, base));
            }
            self.fill().await?;
        }
    }

    /// Waits until more has arrived.
    async fn fill(&mut self) -> Result<(), StoreError> {
        self.input.copy_within(self.used..self.filled, 0);
        (self.used, self.filled) = (0, self.filled - self.used);
        if self.input.len() - self.filled < READ_BYTES {
            self.input.resize((self.input.len() * 2).max(2 * READ_BYTES), 0);
        }
        let socket = open(self.socket.as_ref())?;
        loop {
            socket.readable().await.map_err(|error| lost(&self.common.place, &error))?;
            match socket.try_read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(said(&self.common.place, "the server closed the connection")),
                Ok(count) => {
                    self.filled += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(lost(&self.common.place, &error)),
            }
        }
    }

    /// Sends what is to be sent.
    async fn send(&mut self) -> Result<(), StoreError> {
        let socket = open(self.socket.as_ref())?;
        let mut sent = 0;
        while sent < self.out.len() {
            match socket.try_write(&self.out[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable().await.map_err(|error| lost(&self.common.place, &error))?;
                }
                Err(error) => return Err(lost(&self.common.place, &error)),
            }
        }
        self.out.clear();
        Ok(())
    }
}

impl AsyncSession for NatsSession {
    fn open<'a>(&'a mut self, kinds: &'a [OpKind]) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(self.connect(kinds))
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    fn execute<'a>(&'a mut self, op: &Op<'_>, answer: &'a mut Answer) -> Pending<'a, Outcome> {
        self.take(op);
        Box::pin(self.ask(usize::from(op.kind), answer))
    }

    fn place(&self) -> &str {
        &self.common.place
    }

    fn address(&self) -> Option<Address> {
        let address = self.common.addresses[self.at % self.common.addresses.len()];
        Some(Address::Tcp(address.ip().to_string(), address.port()))
    }

    fn lost(&self) -> Option<StoreError> {
        self.lost.clone()
    }
}

fn bucket(common: &Common) -> &str {
    common.bucket.as_deref().unwrap_or_default()
}

fn open(socket: Option<&TcpStream>) -> Result<&TcpStream, StoreError> {
    socket.ok_or_else(|| StoreError::broken("the session is not open"))
}

#[cold]
fn lost(place: &str, error: &io::Error) -> StoreError {
    StoreError { kind: StoreErrorKind::Unreachable, ..StoreError::io(place, error) }
}

/// The frame, its places `base` bytes further on.
fn moved(frame: Frame, base: usize) -> Frame {
    let on = |range: Range<usize>| range.start + base..range.end + base;
    match frame {
        Frame::Info(info) => Frame::Info(on(info)),
        Frame::Message { subject, headers, content } => {
            Frame::Message { subject: on(subject), headers: on(headers), content: on(content) }
        }
        frame => frame,
    }
}

/// What `kind` asks.
fn what(kind: &OpKind) -> Result<What, StoreError> {
    let (what, params) = match &kind.call {
        Call::Nothing | Call::Steps => return Ok(What::Nothing),
        Call::Kv(KvCall::Scan) => return Ok(What::Refused),
        Call::Kv(KvCall::Get) => (What::Get, 1),
        Call::Kv(KvCall::Put) => (What::Put, 2),
        Call::Kv(KvCall::Delete) => (What::Delete, 1),
        _ => return Err(kind.refused("nats")),
    };
    if kind.params.len() != params || !kind.params.iter().all(ValueType::has_bytes) {
        let what = "its parameters are not bytes, texts or integers, one for the key and one for what follows it";
        return Err(StoreError::usage(format!("operation `{}`: {what}", kind.name)));
    }
    Ok(what)
}
