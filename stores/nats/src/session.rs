//! Operations over one connection to a server of the cluster.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use plimsoll_core::{ANSWER_BYTES_MAX, Answer, KvCall, Op, OpKind, Outcome, StoreError, StoreErrorKind, Value};
use plimsoll_endpoint::SessionSocket;
use plimsoll_endpoint::equals::{Login, Protocol, ServerAddresses, kv_call};
use plimsoll_endpoint::tls::TlsClient;

use crate::answers::{Found, Refusal, Written, direct, from_leader, written};
use crate::bucket::{stream, subject};
use crate::control::{acceptable, broken, refused, said, silent};
use crate::frames::{Broken, Frame, frame, greet, publish};
use crate::server::Encryption;

/// Longest subject of a key. A line to the server may have 4096 bytes, with room for its other words.
const SUBJECT_BYTES_MAX: usize = 3_500;
/// Least room for a read, in bytes.
const READ_BYTES: usize = 8 << 10;
/// Largest buffer for replies that a session keeps between operations, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// Settings that all sessions of a phase share.
#[derive(Default)]
pub(crate) struct Common {
    pub login: Option<Login>,
    pub encryption: Encryption,
    /// `None` in clear.
    pub tls: Option<TlsClient>,
    /// `None` if the URL names no bucket, and none was made.
    pub bucket: Option<String>,
    /// Any copy of the bucket answers reads, not its leader alone.
    pub any_reads: bool,
    pub place: String,
}

/// Positions of a reply in the session's input.
struct Reply {
    headers: Range<usize>,
    content: Range<usize>,
}

/// Cause of a failed operation.
enum Failure {
    /// Refusal by the server.
    Refused(Refusal),
    /// Loss of the connection; the outcome of the operation is unknown.
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

#[derive(Default)]
pub(crate) struct NatsSession {
    common: Arc<Common>,
    socket: Option<SessionSocket>,
    /// Bytes that arrived are the first `filled`, of which the first `used` are done with.
    input: Vec<u8>,
    used: usize,
    filled: usize,
    out: Vec<u8>,
    /// Prefix of the subjects of replies to this connection.
    inbox: String,
    /// Number of requests on this connection. A reply's subject ends with the number of its request.
    asked: u64,
    payload_max: usize,
    /// The server has others, of which a former leader may answer.
    is_clustered: bool,
    /// Call of each kind, and whether its answer is kept; `None` pings.
    kinds: Vec<(Option<KvCall>, bool)>,
    /// Subject of the key, and value of a put.
    subject: String,
    value: Vec<u8>,
    bytes_max: usize,
}

impl NatsSession {
    pub fn new(common: &Arc<Common>) -> Self {
        Self { common: Arc::clone(common), bytes_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// Sets the subject to that of `key`.
    fn address_key(&mut self, key: &[u8]) {
        self.subject.clear();
        subject(bucket(&self.common), key, &mut self.subject);
    }

    async fn ping(&mut self) -> Result<bool, Failure> {
        self.out.extend_from_slice(b"PING\r\n");
        self.send().await?;
        self.until_pong().await?;
        Ok(true)
    }

    /// Reads the key. Hands its value to `take`, and returns the revision; `None` if the key has no value.
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

    /// Deletes the key, if it has a value, over the revision that was read: of several deletions one succeeds.
    /// Reads again if another write came in between. In a cluster the outcome is unknown if that write was a deletion,
    /// which may be this one.
    async fn delete(&mut self) -> Result<bool, Failure> {
        let mut is_late = false;
        loop {
            let Some(revision) = self.read(|_| ()).await? else {
                return if is_late && self.is_clustered { Err(Refusal::perhaps_deleted().into()) } else { Ok(false) };
            };
            let headers = format!("KV-Operation: DEL\r\nNats-Expected-Last-Subject-Sequence: {revision}\r\n");
            if self.write(&headers).await? == Written::Yes {
                return Ok(true);
            }
            is_late = true;
        }
    }

    /// Sends a message and waits for the reply.
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

    /// True if a message to this subject is the reply to the last request.
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

    /// Handles a frame that does not reply to a request.
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

    /// Returns the next frame. Its positions are valid until the next call.
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

    /// Makes room for a read.
    fn make_room(&mut self) {
        self.input.copy_within(self.used..self.filled, 0);
        (self.used, self.filled) = (0, self.filled - self.used);
        if self.input.len() - self.filled < READ_BYTES {
            self.input.resize((self.input.len() * 2).max(2 * READ_BYTES), 0);
        }
    }

    /// Waits until more bytes have arrived.
    async fn fill(&mut self) -> Result<(), StoreError> {
        self.make_room();
        let socket = open(self.socket.as_mut())?;
        loop {
            socket.readable().await.map_err(|error| lost(&self.common.place, socket, &error))?;
            match socket.try_read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(said(&self.common.place, "the server closed the connection")),
                Ok(count) => {
                    self.filled += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(lost(&self.common.place, socket, &error)),
            }
        }
    }

    /// Begins TLS.
    async fn encrypt(&mut self, server: &ServerAddresses) -> Result<(), StoreError> {
        let Some(client) = &self.common.tls else { return Ok(()) };
        if self.used < self.filled {
            // What came in clear cannot be what came through TLS.
            return Err(broken(&server.place, Broken::Malformed));
        }
        let tls = client.connect(&server.host, &server.place)?;
        open(self.socket.as_mut())?.encrypt(tls).await
    }

    /// Sends all of `out`.
    async fn send(&mut self) -> Result<(), StoreError> {
        let socket = open(self.socket.as_mut())?;
        socket.send(&self.out).await.map_err(|error| lost(&self.common.place, socket, &error))?;
        self.out.clear();
        Ok(())
    }
}

impl Protocol for NatsSession {
    async fn connect(
        &mut self,
        socket: SessionSocket,
        server: &ServerAddresses,
        kinds: &[OpKind],
    ) -> Result<(), StoreError> {
        self.socket = Some(socket);
        (self.used, self.filled, self.asked) = (0, 0, 0);
        self.out.clear();
        let kinds = kinds.iter().map(|kind| Ok((kv_call(kind, "nats")?, kind.keep_answer)));
        self.kinds = kinds.collect::<Result<_, StoreError>>()?;
        let needs_bucket = self.kinds.iter().any(|(call, _)| call.is_some());
        if needs_bucket && self.common.bucket.is_none() {
            return Err(StoreError::usage("the URL names no bucket")
                .next("write it behind the host: nats://host:4222/bucket; without --no-load one is made"));
        }
        let (place, encryption) = (&server.place, self.common.encryption);
        if encryption == Encryption::First {
            self.encrypt(server).await?;
        }
        let Frame::Info(info) = self.next().await.map_err(|error| silent(error, encryption))? else {
            return Err(broken(place, Broken::Malformed));
        };
        let info = acceptable(place, &self.input[info], encryption)?;
        if encryption == Encryption::Upgrade {
            self.encrypt(server).await?;
        }
        self.payload_max = info.max_payload;
        self.is_clustered = !info.cluster.is_empty();
        self.inbox = info.inbox();
        greet(self.common.login.as_ref(), &self.inbox, &mut self.out);
        self.send().await?;
        self.until_pong().await?;
        if needs_bucket {
            // A reply proves that the bucket has a leader which this server knows. Without one this times out.
            self.address_key(b"");
            match self.read(|_| ()).await {
                Ok(_) => {}
                Err(Failure::Lost(error)) => return Err(error),
                Err(Failure::Refused(refusal)) => return Err(refused(place, &refusal)),
            }
        }
        Ok(())
    }

    fn hang_up(&mut self) {
        self.socket = None;
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(socket) = &self.socket else { return Poll::Pending };
            match socket.poll_read_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {}
            }
            self.make_room();
            let Some(socket) = &mut self.socket else { return Poll::Pending };
            match socket.try_read(&mut self.input[self.filled..]) {
                Ok(0) => return Poll::Ready(()),
                // A PING is answered with the next operation.
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(()),
            }
        }
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    fn take(&mut self, op: &Op<'_>) {
        self.value.clear();
        let call = self.kinds[usize::from(op.kind)].0;
        if !matches!(call, None | Some(KvCall::Scan)) {
            op.params.get(0).with_bytes(|key| self.address_key(key));
        }
        if call == Some(KvCall::Put) {
            op.params.get(1).with_bytes(|value| self.value.extend_from_slice(value));
        }
    }

    async fn ask(&mut self, kind: usize, answer: &mut Answer) -> Result<Outcome, StoreError> {
        let (call, keep) = self.kinds[kind];
        if self.subject.len() > SUBJECT_BYTES_MAX {
            let bytes = self.subject.len();
            let words = format!(
                "the key's subject has {bytes} bytes, and a line to the server has room for {SUBJECT_BYTES_MAX}"
            );
            return Ok(answer.fail(Outcome::Rejected, "key", &words));
        }
        if self.value.len() > self.payload_max {
            let words =
                format!("{} bytes are more than the server's max_payload of {}", self.value.len(), self.payload_max);
            return Ok(answer.fail(Outcome::Rejected, "max_payload", &words));
        }
        let asked = match call {
            None => self.ping().await,
            Some(KvCall::Scan) => {
                return Ok(answer.fail(Outcome::Rejected, "scan", "a bucket's keys have no order"));
            }
            Some(KvCall::Get) => self
                .read(|found| {
                    (answer.rows, answer.columns) = (1, 1);
                    if keep {
                        answer.values.push(Value::Bytes(&found.value));
                    }
                })
                .await
                .map(|found| found.is_some()),
            Some(KvCall::Put) => match self.write("").await {
                Ok(_) => {
                    answer.rows = 1;
                    Ok(true)
                }
                Err(failure) => Err(failure),
            },
            Some(KvCall::Delete) => {
                let deleted = self.delete().await;
                answer.rows = u64::from(matches!(deleted, Ok(true)));
                deleted
            }
        };
        if self.used == self.filled && self.input.len() > KEPT_BYTES {
            (self.used, self.filled, self.input) = (0, 0, Vec::new());
        }
        match asked {
            Ok(true) => Ok(Outcome::Ok),
            Ok(false) => Ok(Outcome::NotFound),
            Err(Failure::Refused(refusal)) => {
                let outcome = if refusal.is_definite() { Outcome::Rejected } else { Outcome::Unknown };
                let outcome = answer.fail(outcome, &refusal.name(), &refusal.description);
                answer.disk_full = refusal.is_of_full_disk();
                Ok(outcome)
            }
            Err(Failure::Lost(error)) => Err(error),
        }
    }
}

fn bucket(common: &Common) -> &str {
    common.bucket.as_deref().unwrap_or_default()
}

fn open(socket: Option<&mut SessionSocket>) -> Result<&mut SessionSocket, StoreError> {
    socket.ok_or_else(|| StoreError::broken("the session is not open"))
}

#[cold]
fn lost(place: &str, socket: &SessionSocket, error: &io::Error) -> StoreError {
    match socket.cause().get() {
        Some(cause) => cause.clone(),
        None => StoreError { kind: StoreErrorKind::Unreachable, ..StoreError::io(place, error) },
    }
}

/// Moves the positions of `frame` by `base` bytes.
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};

    use plimsoll_core::{Call, ValueType};

    use super::*;

    /// Starts a server that describes itself as `info`, and replies to requests with `replies` in turn.
    fn server(info: &'static str, replies: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut answers = listener.accept().unwrap().0;
            let lines = BufReader::new(answers.try_clone().unwrap()).lines();
            answers.write_all(format!("INFO {info}\r\n").as_bytes()).unwrap();
            let mut replies = replies.iter();
            for line in lines.map_while(Result::ok) {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    ["PING"] => answers.write_all(b"PONG\r\n").unwrap(),
                    ["PUB" | "HPUB", _, inbox, ..] => {
                        let body = replies.next().unwrap();
                        answers.write_all(format!("MSG {inbox} 1 {}\r\n{body}\r\n", body.len()).as_bytes()).unwrap();
                    }
                    _ => {}
                }
            }
        });
        address
    }

    /// Deletes a key at such a server. Returns the outcome of a refusal as its name, and true if it is definite.
    fn deleted(info: &'static str, replies: &'static [&'static str]) -> Result<bool, (String, bool)> {
        let address = server(info, replies);
        let common = Common {
            login: None,
            encryption: Encryption::No,
            tls: None,
            bucket: Some("b".to_owned()),
            any_reads: false,
            place: format!("nats://{address}"),
        };
        let mut session = NatsSession::new(&Arc::new(common));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let done = runtime.block_on(async {
            let socket = SessionSocket::clear(tokio::net::TcpStream::connect(address).await.unwrap());
            let kinds = [OpKind::new("delete", Call::Kv(KvCall::Delete), &[ValueType::Bytes])];
            session.connect(socket, &ServerAddresses::only("nats", address), &kinds).await.unwrap();
            session.address_key(b"k");
            session.delete().await
        });
        done.map_err(|failure| match failure {
            Failure::Refused(refusal) => (refusal.name(), refusal.is_definite()),
            Failure::Lost(error) => panic!("{error}"),
        })
    }

    #[test]
    fn a_deletion_that_a_former_leader_refused_and_its_successor_did_is_unknown() {
        const ALONE: &str = r#"{"version":"2.9.10","headers":true,"client_id":1,"max_payload":1048576}"#;
        const CLUSTERED: &str =
            r#"{"version":"2.9.10","headers":true,"client_id":1,"max_payload":1048576,"cluster":"c"}"#;
        const NOTHING: &str = r#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        const VALUE: &str = r#"{"message":{"subject":"$KV.b.k","seq":1,"data":"djE="}}"#;
        const GONE: &str = r#"{"message":{"seq":3,"hdrs":"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg=="}}"#;
        const LATE: &str = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"seq":0}"#;
        const DONE: &str = r#"{"stream":"KV_b","seq":4}"#;
        // The first reply is that to the read of a session's beginning.
        assert_eq!(deleted(CLUSTERED, &[NOTHING, VALUE, LATE, GONE]), Err(("10071".to_owned(), false)));
        assert_eq!(deleted(ALONE, &[NOTHING, VALUE, LATE, GONE]), Ok(false), "another client deleted it");
        assert_eq!(deleted(CLUSTERED, &[NOTHING, GONE]), Ok(false));
        assert_eq!(deleted(CLUSTERED, &[NOTHING, VALUE, LATE, VALUE, DONE]), Ok(true), "written over meanwhile");
    }
}
