//! One connection that operations go over, to one of the cluster's servers; to the next one when it is lost.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use http::header::HeaderValue;
use plimsoll_core::{
    ANSWER_BYTES_MAX, Address, Answer, AsyncSession, Call, KvCall, Op, OpKind, Outcome, Pending, StoreError,
    StoreErrorKind, Value, ValueType,
};
use tokio::net::TcpStream;

use crate::channel::{Channel, DELETE_RANGE, Failure, Head, PUT, RANGE, STATUS, head};
use crate::control::{Status, refused};
use crate::messages::{Writer, number, pairs};

/// What all sessions of a phase have in common.
pub(crate) struct Common {
    /// Where the cluster's servers listen.
    pub addresses: Vec<SocketAddr>,
    /// Reads ask a member for what it has by itself (`serializable`), and not the cluster.
    pub reads_copy: bool,
    pub token: Option<HeaderValue>,
    /// Begins every key.
    pub prefix: Vec<u8>,
    pub place: String,
}

/// What a kind of operation asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Nothing,
    Get,
    Put,
    Delete,
    Scan,
}

struct Asked {
    what: What,
    keep: bool,
    head: Head,
}

pub(crate) struct EtcdSession {
    common: Arc<Common>,
    /// The server that it is connected to, or will be next.
    at: usize,
    channel: Option<Channel<TcpStream>>,
    asked: Vec<Asked>,
    out: BytesMut,
    bytes_max: usize,
    lost: Option<StoreError>,
}

impl EtcdSession {
    pub fn new(common: &Arc<Common>, number: usize) -> Self {
        Self {
            common: Arc::clone(common),
            at: number,
            channel: None,
            asked: Vec::new(),
            out: BytesMut::new(),
            bytes_max: ANSWER_BYTES_MAX,
            lost: None,
        }
    }

    async fn connect(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.lost = None;
        self.channel = None;
        let address = self.common.addresses[self.at % self.common.addresses.len()];
        // Where this comes to nothing, another server is next.
        self.at += 1;
        let place = format!("etcd://{address}");
        let authority = address.to_string();
        let head =
            |path| head(path, &authority, self.common.token.as_ref()).ok_or_else(|| StoreError::broken("no URI"));
        let asked = kinds.iter().map(|kind| {
            let what = what(kind)?;
            let path = match what {
                What::Nothing => STATUS,
                What::Get | What::Scan => RANGE,
                What::Put => PUT,
                What::Delete => DELETE_RANGE,
            };
            Ok(Asked { what, keep: kind.keep_answer, head: head(path)? })
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
        self.at -= 1;
        Ok(())
    }

    /// Writes what `op` asks.
    fn write(&mut self, op: &Op<'_>) {
        let (params, prefix, reads_copy) = (op.params, &self.common.prefix[..], self.common.reads_copy);
        let mut message = Writer::begin(&mut self.out);
        let mut bytes = |field: u64, value: Value<'_>, prefix: &[u8]| {
            value.with_bytes(|bytes| {
                message.bytes(field, prefix, bytes);
            });
        };
        match self.asked[usize::from(op.kind)].what {
            What::Nothing => {}
            What::Delete => bytes(1, params.get(0), prefix),
            What::Get => {
                bytes(1, params.get(0), prefix);
                if reads_copy {
                    // RangeRequest.serializable.
                    message.number(7, 1);
                }
            }
            What::Put => {
                bytes(1, params.get(0), prefix);
                bytes(2, params.get(1), &[]);
            }
            What::Scan => {
                // A range begins with a key, and the first one that can be is a zero byte.
                match params.get(0) {
                    Value::Bytes([]) if prefix.is_empty() => bytes(1, Value::Bytes(&[0]), prefix),
                    from => bytes(1, from, prefix),
                }
                message.bytes(2, &end_of(prefix), &[]);
                // etcd takes a limit of 0 for none: it is asked how many there are instead, and for none of them.
                match params.get(1) {
                    Value::Int(count @ 1..) => message.number(3, count.unsigned_abs()),
                    _ => message.number(9, 1),
                };
            }
        }
    }

    async fn ask(&mut self, kind: usize, answer: &mut Answer) -> Outcome {
        let (asked, Some(channel)) = (&self.asked[kind], &mut self.channel) else {
            return answer.fail(Outcome::Rejected, "connection", "the session is not open");
        };
        let response = match channel.call(&asked.head, &mut self.out, self.bytes_max).await {
            Ok(response) => response,
            Err(failure) => return self.fail(failure, answer),
        };
        let prefix = self.common.prefix.len();
        let read = match asked.what {
            What::Nothing => Some(()),
            What::Put => {
                answer.rows = 1;
                Some(())
            }
            What::Delete => {
                answer.rows = number(&response, 2);
                Some(())
            }
            What::Get => pairs(&response, |_, value| {
                (answer.rows, answer.columns) = (1, 1);
                if asked.keep {
                    answer.values.push(Value::Bytes(value));
                }
            }),
            What::Scan => pairs(&response, |key, value| {
                answer.columns = 2;
                answer.rows += 1;
                if asked.keep {
                    answer.values.push(Value::Bytes(key.get(prefix..).unwrap_or_default()));
                    answer.values.push(Value::Bytes(value));
                }
            }),
        };
        match (read, asked.what) {
            (None, _) => self.fail(Failure::Lost("its answer is no message of etcd's".to_owned()), answer),
            (Some(()), What::Get | What::Delete) if answer.rows == 0 => Outcome::NotFound,
            (Some(()), _) => Outcome::Ok,
        }
    }

    /// What an operation came to that was not answered as it should be.
    #[cold]
    fn fail(&mut self, failure: Failure, answer: &mut Answer) -> Outcome {
        if let Failure::Said(code, words) = &failure {
            return answer.fail(outcome(*code), name(*code), words);
        }
        let error = match failure {
            Failure::TooLarge(bytes) => {
                StoreError::answer_too_large(&self.common.place, Some(bytes as u64), self.bytes_max)
            }
            failure => refused(&self.common.place, failure),
        };
        answer.fail(Outcome::Unknown, "connection", &error.to_string());
        self.lost = Some(error);
        self.channel = None;
        // Another server may be there.
        self.at += 1;
        Outcome::Unknown
    }
}

impl AsyncSession for EtcdSession {
    fn open<'a>(&'a mut self, kinds: &'a [OpKind]) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(self.connect(kinds))
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    fn execute<'a>(&'a mut self, op: &Op<'_>, answer: &'a mut Answer) -> Pending<'a, Outcome> {
        self.write(op);
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

/// What `kind` asks.
fn what(kind: &OpKind) -> Result<What, StoreError> {
    let (what, params) = match &kind.call {
        Call::Nothing | Call::Steps => return Ok(What::Nothing),
        Call::Kv(KvCall::Get) => (What::Get, 1),
        Call::Kv(KvCall::Put) => (What::Put, 2),
        Call::Kv(KvCall::Delete) => (What::Delete, 1),
        Call::Kv(KvCall::Scan) => (What::Scan, 2),
        _ => return Err(kind.refused("etcd")),
    };
    if kind.params.len() != params || !kind.params.iter().all(ValueType::has_bytes) {
        let what = "its parameters are not bytes, texts or integers, one for the key and one for what follows it";
        return Err(StoreError::usage(format!("operation `{}`: {what}", kind.name)));
    }
    Ok(what)
}

/// The end of the keys that begin with `prefix`: all of them where there is none.
pub(crate) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    match end.last_mut() {
        // A prefix ends with a colon.
        Some(last) => *last = last.saturating_add(1),
        None => end.push(0),
    }
    end
}

/// What an error of this code says of the operation. etcd says Unavailable also of what it has proposed and did not see
/// applied in time.
fn outcome(code: u32) -> Outcome {
    match code {
        3 | 5 | 6 | 7 | 8 | 9 | 11 | 12 | 16 => Outcome::Rejected,
        _ => Outcome::Unknown,
    }
}

/// The name of a code of gRPC.
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
