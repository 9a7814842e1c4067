//! Operations over one connection to a member of the cluster.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::HeaderValue;
use plimsoll_core::{ANSWER_BYTES_MAX, Answer, KvCall, Op, OpKind, Outcome, StoreError, StoreErrorKind, Value};
use plimsoll_endpoint::SessionSocket;
use plimsoll_endpoint::equals::{Login, Protocol, ServerAddresses, kv_call};
use plimsoll_endpoint::tls::TlsClient;
use tokio::sync::Mutex;

use crate::channel::{
    AUTHENTICATE, Channel, DELETE_RANGE, Failure, Head, PUT, RANGE, STATUS, agreed, finished, head, origin, set_token,
};
use crate::control::{Status, is_of_full_disk, refused};
use crate::messages::{self, Writer, number, pairs};

/// Settings that all sessions of a phase share.
pub(crate) struct Common {
    /// Reads ask the member alone (`serializable`), not the cluster.
    pub reads_copy: bool,
    /// `None` in clear.
    pub tls: Option<TlsClient>,
    pub login: Option<Login>,
    /// Newest token of the login. Held while one session logs in anew, for all of them: etcd takes long for it.
    pub token: Mutex<Option<HeaderValue>>,
    /// Prefix of every key.
    pub prefix: Vec<u8>,
    pub place: String,
}

struct Asked {
    /// `None` asks for the member's status, which reads no key.
    call: Option<KvCall>,
    keep: bool,
    head: Head,
}

pub(crate) struct EtcdSession {
    common: Arc<Common>,
    channel: Option<Channel<SessionSocket>>,
    /// Scheme, host and port of the member.
    origin: String,
    /// Token in the heads of calls.
    token: Option<HeaderValue>,
    asked_again: u64,
    asked: Vec<Asked>,
    out: BytesMut,
    bytes_max: usize,
}

/// Call of a session.
#[derive(Debug, Clone, Copy)]
enum Called {
    /// Call of an operation type.
    Kind(usize),
    Path(&'static str),
}

#[cold]
fn not_open() -> Failure {
    Failure::Lost("the session is not open".to_owned())
}

impl EtcdSession {
    pub fn new(common: &Arc<Common>) -> Self {
        Self {
            common: Arc::clone(common),
            channel: None,
            origin: String::new(),
            token: None,
            asked_again: 0,
            asked: Vec::new(),
            out: BytesMut::new(),
            bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// Calls the member. If the token is not valid any more, nothing was done: logs in anew, and calls again.
    async fn call(&mut self, path: Called, message: Bytes) -> Result<Bytes, Failure> {
        let again = self.common.login.is_some().then(|| message.clone());
        match (self.send(path, message).await, again) {
            (Err(failure), Some(message)) if failure.is_of_token() => {
                self.log_in().await?;
                self.asked_again += 1;
                self.send(path, message).await
            }
            (called, _) => called,
        }
    }

    async fn send(&mut self, called: Called, message: Bytes) -> Result<Bytes, Failure> {
        let Some(channel) = &mut self.channel else { return Err(not_open()) };
        match called {
            Called::Kind(kind) => channel.call(&self.asked[kind].head, message, self.bytes_max).await,
            Called::Path(path) => {
                let head = head(path, &self.origin, self.token.as_ref()).ok_or_else(not_open)?;
                channel.call(&head, message, self.bytes_max).await
            }
        }
    }

    /// Gets a new token, unless another session has got one since this one got its own.
    #[cold]
    async fn log_in(&mut self) -> Result<(), Failure> {
        let common = Arc::clone(&self.common);
        let mut newest = common.token.lock().await;
        if let Some(login) = common.login.as_ref().filter(|_| *newest == self.token) {
            let mut out = BytesMut::new();
            messages::login(login, &mut Writer::begin(&mut out));
            self.token = None;
            let answer = self.send(Called::Path(AUTHENTICATE), finished(&mut out)).await?;
            *newest = messages::token(&answer);
        }
        self.token = newest.clone();
        for asked in &mut self.asked {
            set_token(&mut asked.head, self.token.as_ref());
        }
        Ok(())
    }

    /// Returns the outcome of an error reply, or the cause of a lost connection.
    #[cold]
    fn fail(&self, failure: Failure, answer: &mut Answer) -> Result<Outcome, StoreError> {
        let place = &self.common.place;
        match self.explained(failure) {
            Failure::Said(code, words) => {
                let outcome = answer.fail(outcome(code), name(code), &words);
                answer.disk_full = is_of_full_disk(code, &words);
                Ok(outcome)
            }
            Failure::TooLarge(bytes) => Err(StoreError::answer_too_large(place, Some(bytes as u64), self.bytes_max)),
            failure => Err(refused(place, failure)),
        }
    }

    #[cold]
    fn explained(&self, failure: Failure) -> Failure {
        match &self.channel {
            Some(channel) => channel.explained(failure),
            None => failure,
        }
    }
}

impl Protocol for EtcdSession {
    async fn connect(
        &mut self,
        mut socket: SessionSocket,
        server: &ServerAddresses,
        kinds: &[OpKind],
    ) -> Result<(), StoreError> {
        self.channel = None;
        let place = &server.place;
        let tls = self.common.tls.as_ref();
        self.origin = origin(tls.is_some(), server.host_and_port());
        if let Some(tls) = tls {
            socket.encrypt(tls.connect(&server.host, place)?).await?;
            agreed(socket.protocol(), place)?;
        }
        self.token = self.common.token.lock().await.clone();
        let (origin, token) = (&self.origin, self.token.as_ref());
        let asked = kinds.iter().map(|kind| {
            let call = kv_call(kind, "etcd")?;
            let path = match call {
                None => STATUS,
                Some(KvCall::Get | KvCall::Scan) => RANGE,
                Some(KvCall::Put) => PUT,
                Some(KvCall::Delete) => DELETE_RANGE,
            };
            let head = head(path, origin, token).ok_or_else(|| StoreError::broken("no URI"))?;
            Ok(Asked { call, keep: kind.keep_answer, head })
        });
        self.asked = asked.collect::<Result<Vec<_>, StoreError>>()?;
        let cause = socket.cause().clone();
        self.channel = Some(Channel::open(socket, cause).await.map_err(|failure| refused(place, failure))?);
        Writer::begin(&mut self.out);
        let message = finished(&mut self.out);
        let status = self.call(Called::Path(STATUS), message).await;
        let status = Status::read(&status.map_err(|failure| refused(place, self.explained(failure)))?);
        if status.leader == 0 {
            return Err(StoreError::new(StoreErrorKind::Unreachable, format!("{place} knows of no leader")));
        }
        Ok(())
    }

    fn hang_up(&mut self) {
        self.channel = None;
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let has_ended = self.channel.as_mut().is_some_and(|channel| !channel.is_alive(context));
        if has_ended { Poll::Ready(()) } else { Poll::Pending }
    }

    fn asked_again(&self) -> u64 {
        self.asked_again
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    fn take(&mut self, op: &Op<'_>) {
        let (params, prefix, reads_copy) = (op.params, &self.common.prefix[..], self.common.reads_copy);
        let mut message = Writer::begin(&mut self.out);
        let mut bytes = |field: u64, value: Value<'_>, prefix: &[u8]| {
            value.with_bytes(|bytes| {
                message.bytes(field, prefix, bytes);
            });
        };
        match self.asked[usize::from(op.kind)].call {
            None => {}
            Some(KvCall::Delete) => bytes(1, params.get(0), prefix),
            Some(KvCall::Get) => {
                bytes(1, params.get(0), prefix);
                if reads_copy {
                    // RangeRequest.serializable.
                    message.number(7, 1);
                }
            }
            Some(KvCall::Put) => {
                bytes(1, params.get(0), prefix);
                bytes(2, params.get(1), &[]);
            }
            Some(KvCall::Scan) => {
                // A range begins with a key; the first possible key is a zero byte.
                match params.get(0) {
                    Value::Bytes([]) if prefix.is_empty() => bytes(1, Value::Bytes(&[0]), prefix),
                    from => bytes(1, from, prefix),
                }
                message.bytes(2, &end_of(prefix), &[]);
                // For etcd a limit of 0 is no limit. The request asks for the count alone instead.
                match params.get(1) {
                    Value::Int(count @ 1..) => message.number(3, count.unsigned_abs()),
                    _ => message.number(9, 1),
                };
            }
        }
    }

    async fn ask(&mut self, kind: usize, answer: &mut Answer) -> Result<Outcome, StoreError> {
        let message = finished(&mut self.out);
        let response = match self.call(Called::Kind(kind), message).await {
            Ok(response) => response,
            Err(failure) => return self.fail(failure, answer),
        };
        let asked = &self.asked[kind];
        let prefix = self.common.prefix.len();
        let read = match asked.call {
            None => Some(()),
            Some(KvCall::Put) => {
                answer.rows = 1;
                Some(())
            }
            Some(KvCall::Delete) => {
                answer.rows = number(&response, 2);
                Some(())
            }
            Some(KvCall::Get) => pairs(&response, |_, value| {
                (answer.rows, answer.columns) = (1, 1);
                if asked.keep {
                    answer.values.push(Value::Bytes(value));
                }
            }),
            Some(KvCall::Scan) => pairs(&response, |key, value| {
                answer.columns = 2;
                answer.rows += 1;
                if asked.keep {
                    answer.values.push(Value::Bytes(key.get(prefix..).unwrap_or_default()));
                    answer.values.push(Value::Bytes(value));
                }
            }),
        };
        match (read, asked.call) {
            (None, _) => self.fail(Failure::Lost("its answer is no message of etcd's".to_owned()), answer),
            (Some(()), Some(KvCall::Get | KvCall::Delete)) if answer.rows == 0 => Ok(Outcome::NotFound),
            (Some(()), _) => Ok(Outcome::Ok),
        }
    }
}

/// Returns the end of the range of keys that begin with `prefix`; the end of all keys if it is empty.
pub(crate) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    match end.last_mut() {
        // A prefix ends with a colon.
        Some(last) => *last = last.saturating_add(1),
        None => end.push(0),
    }
    end
}

/// Returns the outcome of an operation with this code of gRPC. etcd also answers `Unavailable` if it has proposed a write
/// and did not see it applied in time.
fn outcome(code: u32) -> Outcome {
    match code {
        3 | 5 | 6 | 7 | 8 | 9 | 11 | 12 | 16 => Outcome::Rejected,
        _ => Outcome::Unknown,
    }
}

/// Returns the name of a code of gRPC.
fn name(code: u32) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied().unwrap_or("UNKNOWN")
}
