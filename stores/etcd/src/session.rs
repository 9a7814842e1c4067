//! Operations over one connection to a member of the cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use http::header::HeaderValue;
use plimsoll_core::{ANSWER_BYTES_MAX, Answer, KvCall, Op, OpKind, Outcome, StoreError, StoreErrorKind, Value};
use plimsoll_endpoint::equals::{Protocol, kv_call};
use tokio::net::TcpStream;

use crate::channel::{Channel, DELETE_RANGE, Failure, Head, PUT, RANGE, STATUS, head};
use crate::control::{Status, refused};
use crate::messages::{Writer, number, pairs};

/// Settings that all sessions of a phase share.
pub(crate) struct Common {
    /// Reads ask the member alone (`serializable`), not the cluster.
    pub reads_copy: bool,
    pub token: Option<HeaderValue>,
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
    channel: Option<Channel<TcpStream>>,
    asked: Vec<Asked>,
    out: BytesMut,
    bytes_max: usize,
}

impl EtcdSession {
    pub fn new(common: &Arc<Common>) -> Self {
        Self {
            common: Arc::clone(common),
            channel: None,
            asked: Vec::new(),
            out: BytesMut::new(),
            bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// Returns the outcome of an error reply, or the cause of a lost connection.
    #[cold]
    fn fail(&self, failure: Failure, answer: &mut Answer) -> Result<Outcome, StoreError> {
        let place = &self.common.place;
        match failure {
            Failure::Said(code, words) => Ok(answer.fail(outcome(code), name(code), &words)),
            Failure::TooLarge(bytes) => Err(StoreError::answer_too_large(place, Some(bytes as u64), self.bytes_max)),
            failure => Err(refused(place, failure)),
        }
    }
}

impl Protocol for EtcdSession {
    async fn connect(&mut self, address: SocketAddr, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.channel = None;
        let place = format!("etcd://{address}");
        let authority = address.to_string();
        let head =
            |path| head(path, &authority, self.common.token.as_ref()).ok_or_else(|| StoreError::broken("no URI"));
        let asked = kinds.iter().map(|kind| {
            let call = kv_call(kind, "etcd")?;
            let path = match call {
                None => STATUS,
                Some(KvCall::Get | KvCall::Scan) => RANGE,
                Some(KvCall::Put) => PUT,
                Some(KvCall::Delete) => DELETE_RANGE,
            };
            Ok(Asked { call, keep: kind.keep_answer, head: head(path)? })
        });
        let asked = asked.collect::<Result<Vec<_>, StoreError>>()?;
        let unreachable = |error| StoreError {
            kind: StoreErrorKind::Unreachable,
            ..StoreError::io(&place, &error).next("check that etcd runs and listens there")
        };
        let socket = TcpStream::connect(address).await.map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        let mut channel = Channel::open(socket).await.map_err(|failure| refused(&place, failure))?;
        Writer::begin(&mut self.out);
        let status = channel.call(&head(STATUS)?, &mut self.out, self.bytes_max).await;
        let status = Status::read(&status.map_err(|failure| refused(&place, failure))?);
        if status.leader == 0 {
            return Err(StoreError::new(StoreErrorKind::Unreachable, format!("{place} knows of no leader")));
        }
        self.asked = asked;
        self.channel = Some(channel);
        Ok(())
    }

    fn hang_up(&mut self) {
        self.channel = None;
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
        let (asked, Some(channel)) = (&self.asked[kind], &mut self.channel) else {
            return Ok(answer.fail(Outcome::Rejected, "connection", "the session is not open"));
        };
        let response = match channel.call(&asked.head, &mut self.out, self.bytes_max).await {
            Ok(response) => response,
            Err(failure) => return self.fail(failure, answer),
        };
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
