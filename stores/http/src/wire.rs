//! One connection to an HTTP/1.1 server as a protocol without I/O.
//!
//! Requests are built from what was put together when the session was opened, and answers are read in place: nothing is
//! allocated for an operation. Answers come in the order of the requests, so several may be in flight.
//!
//! HTTP greets nobody. A session asks for the head of what stands at the URL once, to find out whether the server
//! speaks HTTP and takes us, before it takes operations; connections that follow the first begin with operations.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Answer, Done, Durability, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, Value,
    WireSession, WireState,
};
use plimsoll_endpoint::Asked;

use crate::cookies::Cookies;
use crate::endpoint::Login;
use crate::request::Request;
use crate::response::{self, Framing, Head, Malformed};

/// Operations in flight on one connection at most.
const DEPTH_MAX: u32 = 64;

/// What arrives next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Awaited {
    #[default]
    Head,
    /// So many bytes: of the body, or of the chunk.
    Body(u64),
    ChunkLine,
    Chunk(u64),
    /// The line's end after a chunk.
    ChunkEnd,
    Trailers,
}

/// A connection to an HTTP server.
#[derive(Default)]
pub struct HttpSession {
    login: Arc<Login>,
    /// The durability that writes are promised, where that is one: they are refused.
    promised: Option<Durability>,
    state: WireState,
    /// Why the kinds cannot be asked; told with the first answer, before which an executor does not look.
    refused: Option<StoreError>,
    requests: Vec<Request>,
    queue: VecDeque<(Ticket, u16)>,
    awaited: Awaited,
    /// The server was asked who it is, and answered.
    is_greeted: bool,
    /// Of the answer whose body is arriving.
    status: u16,
    reason: Vec<u8>,
    /// All of its head, where something of that is wanted.
    head: Vec<u8>,
    close: bool,
    retry_after: bool,
    /// The body as far as it arrived, where it is kept.
    body: Vec<u8>,
    /// Bytes of the trailers so far.
    trailer_bytes: usize,
    /// What the server calls itself.
    server: Vec<u8>,
    answer: Answer,
    /// What the client was given; it outlives connections.
    cookies: Cookies,
    scratch: Vec<u8>,
    /// Most bytes that are kept of a body.
    answer_max: usize,
}

impl HttpSession {
    /// A session that asks as `login`. Writes are refused unless `durability` promises nothing.
    pub fn new(login: Arc<Login>, durability: Durability) -> Self {
        let promised = Some(durability).filter(|one| !matches!(one, Durability::AtEnd | Durability::AsConfigured));
        Self { login, promised, answer_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// What the server calls itself, once the session is ready; empty when it does not say.
    pub fn server(&self) -> String {
        String::from_utf8_lossy(&self.server).into_owned()
    }

    /// What the server answered the first question, where that was an error: `404 Not Found`.
    pub(crate) fn first_error(&self) -> Option<String> {
        (self.status >= 400).then(|| format!("{} {}", self.status, String::from_utf8_lossy(&self.reason)))
    }

    /// The server closes the connection in good order. It does nothing that was asked behind the answer that says so
    /// (RFC 9112, 9.6), but nobody saw that.
    #[cold]
    fn end(&mut self, done: &mut dyn Done) {
        if !self.queue.is_empty() {
            let what = format!("{} closed the connection behind the answer to an earlier request", self.login.place);
            self.give_up("closed", &what, done);
        }
        self.state = WireState::Ended;
    }

    fn give_up(&mut self, code: &str, words: &str, done: &mut dyn Done) {
        while let Some((ticket, _)) = self.queue.pop_front() {
            let outcome = self.answer.fail(Outcome::Unknown, code, words);
            done.push(ticket, outcome, &self.answer);
        }
        self.answer.clear();
    }

    fn broken(&self, what: &str) -> StoreError {
        StoreError::broken(format!("{} {what}", self.login.place))
    }

    #[cold]
    fn no_http(&self, bytes: &[u8], Malformed(what): Malformed) -> StoreError {
        // Behind the first line of an answer there may be cookies.
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let begin = &line[..line.len().min(64)];
        self.broken("answered what is no HTTP/1.1")
            .detail(format!("{what}: `{}`", begin.escape_ascii()))
            .next("Check scheme, host and port.")
    }

    /// The request whose answer is arriving; `None` for the opening's.
    fn asked(&self) -> Option<&Request> {
        self.queue.front().and_then(|(_, kind)| self.requests.get(usize::from(*kind)))
    }

    fn keeps(&self) -> bool {
        self.asked().is_some_and(|request| request.needs_body() && request.expects(self.status))
    }

    /// Keeps of a head what others look at later: cookies, fields that are wanted.
    #[inline]
    fn note(&mut self, head: &Head<'_>, bytes: &[u8]) {
        let (wants_head, wants_cookies) =
            self.asked().map_or((false, false), |request| (!request.take.is_empty(), request.cookies));
        if wants_head {
            self.head.clear();
            self.head.extend_from_slice(bytes);
        }
        if head.set_cookie && wants_cookies {
            let given = response::fields(bytes).filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
            given.for_each(|(_, value)| self.cookies.take(value));
        }
    }

    /// A head has arrived, of these `bytes`; `rest` is what stands behind it. Returns how much of that was used.
    #[inline]
    fn take_head(
        &mut self,
        head: Head<'_>,
        bytes: &[u8],
        rest: &[u8],
        done: &mut dyn Done,
    ) -> Result<usize, StoreError> {
        if head.status < 200 {
            // An answer before the answer. No protocol to switch to was asked for.
            return match head.status {
                101 => Err(self.broken("switches to another protocol, unasked")),
                _ => Ok(0),
            };
        }
        let is_ready = matches!(self.state, WireState::Ready);
        if is_ready && self.queue.is_empty() {
            return Err(self.unasked(head));
        }
        self.status = head.status;
        self.close = head.close;
        self.retry_after = head.retry_after;
        let is_head = !is_ready || self.asked().is_some_and(|request| request.is_head);
        if !is_ready {
            self.server.clear();
            self.server.extend_from_slice(head.server);
        }
        if head.status >= 400 || self.asked().is_some_and(|request| !request.expects(head.status)) {
            self.reason.clear();
            self.reason.extend_from_slice(head.reason);
        }
        self.note(&head, bytes);
        if is_head || matches!(head.status, 204 | 304) {
            return self.finish(&[], done).map(|()| 0);
        }
        match head.framing {
            Framing::Length(length) => {
                if self.keeps() && length > self.answer_max as u64 {
                    return Err(self.too_large(Some(length)));
                }
                if let Some(body) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
                    return self.finish(body, done).map(|()| body.len());
                }
                self.body.clear();
                self.awaited = Awaited::Body(length);
            }
            Framing::Chunked => {
                self.body.clear();
                self.trailer_bytes = 0;
                self.awaited = Awaited::ChunkLine;
            }
            Framing::Unsaid => {
                let error = self.broken("does not say how long its answer is, but ends it with the connection");
                return Err(error.next("Plimsoll needs Content-Length or chunks, as HTTP/1.1 servers send them."));
            }
        }
        Ok(0)
    }

    #[cold]
    fn too_large(&self, bytes: Option<u64>) -> StoreError {
        StoreError::answer_too_large(&self.login.place, bytes, self.answer_max)
    }

    #[cold]
    fn unasked(&self, head: Head<'_>) -> StoreError {
        // As servers do that grow tired of an idle connection: 408.
        let what = format!("{} ended the connection, unasked", self.login.place);
        let words = String::from_utf8_lossy(head.reason);
        StoreError::new(StoreErrorKind::Unreachable, what).detail(format!("{} {words}", head.status))
    }

    /// An answer is complete; `body` is all of it where it arrived in one piece.
    #[inline]
    fn finish(&mut self, body: &[u8], done: &mut dyn Done) -> Result<(), StoreError> {
        self.awaited = Awaited::Head;
        if !matches!(self.state, WireState::Ready) {
            self.opened()?;
        } else if let Some((ticket, kind)) = self.queue.pop_front() {
            let request = &self.requests[usize::from(kind)];
            let is_expected = request.expects(self.status);
            let kept = std::mem::take(&mut self.body);
            let body = if body.is_empty() { &kept } else { body };
            if !is_expected {
                self.unexpected(ticket, kind, done);
            } else if let Err(what) = self.checked(kind, body) {
                self.wrong(ticket, kind, &what, done);
            } else {
                done.push(ticket, Outcome::Ok, &self.answer);
                self.answer.clear();
            }
            self.body = kept;
            self.body.clear();
        }
        if self.close {
            self.end(done);
        }
        Ok(())
    }

    /// Puts what is wanted of an answer into it; or says what is wrong with that.
    #[inline]
    fn checked(&mut self, kind: u16, body: &[u8]) -> Result<(), String> {
        let request = &self.requests[usize::from(kind)];
        self.answer.rows = 1;
        self.answer.columns = 2;
        if request.keep {
            self.answer.values.push(Value::Int(i64::from(self.status)));
            self.answer.values.push(Value::Bytes(body));
        }
        if let Some(text) = &request.contains
            && memchr::memmem::find(body, text.as_bytes()).is_none()
        {
            return Err(format!("the body does not contain `{text}`"));
        }
        if !request.take.is_empty() {
            self.answer.columns = request.take.len();
            request.take.push(self.status, &self.head, body, &mut self.answer.values)?;
        }
        Ok(())
    }

    /// What becomes of a write that was answered by an error. One of the server's own, a 5xx, may have come upon it
    /// in the middle; but a method or version it does not know it has not begun with (501, 505: RFC 9110, 15.6), nor
    /// what it asks to be sent again later (503 with Retry-After). What was answered otherwise than expected has been
    /// done perhaps.
    fn refused_write(&self) -> Outcome {
        match self.status {
            501 | 505 => Outcome::Rejected,
            503 if self.retry_after => Outcome::Rejected,
            500.. => Outcome::Unknown,
            400.. => Outcome::Rejected,
            _ => Outcome::Unknown,
        }
    }

    /// An answer with a status that it should not have.
    #[cold]
    fn unexpected(&mut self, ticket: Ticket, kind: u16, done: &mut dyn Done) {
        let request = &self.requests[usize::from(kind)];
        let outcome = if request.writes { self.refused_write() } else { Outcome::Rejected };
        // Writing to a string cannot fail.
        let _ = write!(self.answer.code, "{}", self.status);
        self.answer.message.push_str(&String::from_utf8_lossy(&self.reason));
        if self.status < 400 {
            let _ = write!(self.answer.message, ", where {} was expected", request.expected());
        }
        done.push(ticket, outcome, &self.answer);
        self.answer.clear();
    }

    /// An answer with the right status and without what it should hold. What was written has been.
    #[cold]
    fn wrong(&mut self, ticket: Ticket, kind: u16, what: &str, done: &mut dyn Done) {
        let writes = self.requests[usize::from(kind)].writes;
        let outcome = if writes { Outcome::Unknown } else { Outcome::Rejected };
        self.answer.fail(outcome, "content", what);
        done.push(ticket, outcome, &self.answer);
        self.answer.clear();
    }

    /// What was asked first has been answered.
    #[cold]
    fn opened(&mut self) -> Result<(), StoreError> {
        use StoreErrorKind as K;
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let place = &self.login.place;
        let words = format!("{} {}", self.status, String::from_utf8_lossy(&self.reason));
        let error = |kind, what: String, next: &str| Err(StoreError::new(kind, what).detail(words.clone()).next(next));
        match self.status {
            401 if self.login.user.is_some() => error(
                K::Authentication,
                format!("{place} does not accept this user with this password"),
                "Check the user in the URL, and the password there or in the file given with --password-file.",
            ),
            // Those of the workload say themselves who asks, or find out first.
            401 if self.requests.is_empty() || self.requests.iter().any(|request| request.has_login) => {
                self.begin();
                Ok(())
            }
            401 => error(
                K::Authentication,
                format!("{place} asks for a user and a password"),
                "Write the user into the URL, and use --password-file.",
            ),
            400 | 407 | 421 | 426 | 505 => error(
                K::Usage,
                format!("{place} does not take a plain request of HTTP/1.1"),
                "Check scheme, host and port: it may want https, or be a proxy.",
            ),
            _ => {
                self.begin();
                Ok(())
            }
        }
    }

    fn begin(&mut self) {
        self.is_greeted = true;
        self.state = WireState::Ready;
    }

    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        for kind in kinds {
            let request = Request::new(kind, &self.login)?;
            if let Some(durability) = self.promised.filter(|_| request.writes) {
                let name = durability.name();
                let what = format!("operation `{}` writes, and HTTP does not say that a write is {name}", kind.name);
                return Err(StoreError::usage(what).next("Ask for durability as-configured."));
            }
            self.requests.push(request);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        matches!(self.state, WireState::Failed(_) | WireState::Ended)
    }

    /// A piece of a body that takes more than one; says how much of it was used.
    fn take_piece(&mut self, left: u64, bytes: &[u8]) -> Result<usize, StoreError> {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if self.keeps() {
            if self.body.len() + taken > self.answer_max {
                return Err(self.too_large(None));
            }
            self.body.extend_from_slice(&bytes[..taken]);
        }
        Ok(taken)
    }

    /// Takes what stands at the beginning of `bytes`, which are some; 0 when more is needed.
    #[inline]
    fn step(&mut self, bytes: &[u8], done: &mut dyn Done) -> Result<usize, StoreError> {
        match self.awaited {
            Awaited::Head => {
                let head = response::head(bytes).map_err(|malformed| self.no_http(bytes, malformed))?;
                let Some((head, used)) = head else { return Ok(0) };
                Ok(used + self.take_head(head, &bytes[..used], &bytes[used..], done)?)
            }
            Awaited::Body(left) => {
                let taken = self.take_piece(left, bytes)?;
                self.awaited = Awaited::Body(left - taken as u64);
                if taken as u64 == left {
                    self.finish(&[], done)?;
                }
                Ok(taken)
            }
            Awaited::ChunkLine => {
                let line = response::chunk(bytes).map_err(|malformed| self.no_http(bytes, malformed))?;
                let Some((length, used)) = line else { return Ok(0) };
                self.awaited = if length == 0 { Awaited::Trailers } else { Awaited::Chunk(length) };
                Ok(used)
            }
            Awaited::Chunk(left) => {
                let taken = self.take_piece(left, bytes)?;
                self.awaited =
                    if taken as u64 == left { Awaited::ChunkEnd } else { Awaited::Chunk(left - taken as u64) };
                Ok(taken)
            }
            Awaited::ChunkEnd => {
                let used = match bytes {
                    [b'\n', ..] => 1,
                    [b'\r', b'\n', ..] => 2,
                    [b'\r'] => return Ok(0),
                    _ => return Err(self.no_http(bytes, Malformed("a chunk longer than it says"))),
                };
                self.awaited = Awaited::ChunkLine;
                Ok(used)
            }
            Awaited::Trailers => {
                let line = response::trailer(bytes).map_err(|malformed| self.no_http(bytes, malformed))?;
                let Some((is_last, used)) = line else { return Ok(0) };
                self.trailer_bytes += used;
                if is_last {
                    self.finish(&[], done)?;
                } else if self.trailer_bytes > response::HEAD_BYTES_MAX {
                    return Err(self.no_http(bytes, Malformed("more than 32 KiB of fields after the last chunk")));
                }
                Ok(used)
            }
        }
    }
}

impl Asked for HttpSession {
    fn is_asked(&self) -> bool {
        !self.queue.is_empty()
    }

    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn Done) {
        self.give_up("connection", &error.to_string(), done);
        self.state = WireState::Failed(error);
    }
}

impl WireSession for HttpSession {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.queue.clear();
        self.answer.clear();
        self.body.clear();
        self.awaited = Awaited::Head;
        self.requests.clear();
        self.refused = self.prepare(kinds).err();
        if self.is_greeted {
            // The kinds are those of the first connection, which has taken them.
            self.state = WireState::Ready;
            return;
        }
        self.state = WireState::Opening;
        let nothing = plimsoll_core::ValueBuf::new();
        Request::opening(&self.login).write(nothing.values(), &self.cookies, &mut self.scratch, out);
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
        self.requests[usize::from(op.kind)].write(op.params, &self.cookies, &mut self.scratch, out);
        self.queue.push_back((ticket, op.kind));
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let mut at = 0;
        while at < bytes.len() && !self.is_over() {
            match self.step(&bytes[at..], done) {
                Ok(0) => return at,
                Ok(used) => at += used,
                Err(error) => self.fail(error, done),
            }
        }
        if self.is_over() { bytes.len() } else { at }
    }

    fn close(&mut self, _: &mut Vec<u8>) {
        // HTTP has no good-bye: the connection ends.
    }
}
