//! Connection to an HTTP/1.1 server as a protocol without I/O.
//!
//! Requests are built from what was put together when the session was opened, and answers are read in place: nothing is
//! allocated for an operation. Answers come in the order of the requests, so several may be in flight.
//!
//! HTTP has no greeting: sessions begin with operations. One that asks for the server instead sends one request for the
//! URL's path, to find out if the server speaks HTTP and accepts the user, and ends with the head of its answer.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{
    AnswerTally, CompletionSink, Durability, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, WireSession,
    WireState,
};
use plimsoll_endpoint::Asked;

use crate::client::{Arrived, Client, phrase};
use crate::endpoint::Login;
use crate::request::Request;
use crate::response::{self, Framing, Head, Malformed};

/// Operations in flight on one connection at most.
const DEPTH_MAX: u32 = 64;

/// Next part of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Awaited {
    #[default]
    Head,
    /// Bytes that remain: of the body, or of the chunk.
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
    client: Client,
    state: WireState,
    queue: VecDeque<(Ticket, u16)>,
    awaited: Awaited,
    /// Status of the answer whose body is arriving.
    status: u16,
    /// All of its head, where something of that is wanted.
    head: Vec<u8>,
    close: bool,
    retry_after: bool,
    /// The body as far as it arrived, where it is kept.
    body: Vec<u8>,
    /// Length of the body, as far as it was said.
    body_bytes: u64,
    /// Bytes of the trailers so far.
    trailer_bytes: usize,
    scratch: Vec<u8>,
}

impl HttpSession {
    /// A session that asks as `login`. Writes are refused unless `durability` promises nothing.
    pub fn new(login: Arc<Login>, durability: Durability) -> Self {
        Self::of(Client::new(login, durability))
    }

    /// Makes a session that asks the server at `login` who it is.
    pub fn asking(login: Arc<Login>) -> Self {
        Self::of(Client::asking(login))
    }

    /// Makes the session of a client.
    pub(crate) fn of(client: Client) -> Self {
        Self { client, ..Self::default() }
    }

    /// Returns the name that the server reports, once it was asked; empty without one.
    pub fn server(&self) -> &str {
        &self.client.greeting.server
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Handles a connection that the server closes gracefully. By RFC 9112, 9.6 it processes no request after the
    /// answer that announces this, but that cannot be observed: requests that only read are sent again.
    #[cold]
    fn end(&mut self, done: &mut dyn CompletionSink) {
        let client = &self.client;
        let writes = |kind: u16| client.asked(Some(kind)).is_none_or(|request| request.writes);
        self.queue.retain(|(ticket, kind)| writes(*kind) || !done.not_begun(*ticket));
        if !self.queue.is_empty() {
            let what =
                format!("{} closed the connection behind the answer to an earlier request", self.client.login.place);
            self.give_up("closed", &what, done);
        }
        self.state = WireState::Ended;
    }

    #[cold]
    fn give_up(&mut self, code: &str, words: &str, done: &mut dyn CompletionSink) {
        let tickets = self.queue.drain(..).map(|(ticket, _)| ticket);
        self.client.give_up(tickets, Outcome::Unknown, code, words, done);
    }

    #[cold]
    fn no_http(&self, bytes: &[u8], Malformed(what): Malformed) -> StoreError {
        // SETTINGS, on no stream: how a server of HTTP/2 begins.
        if bytes.get(3) == Some(&4) && bytes.get(5..9) == Some(&[0; 4]) {
            return self.client.other_version();
        }
        // Behind the first line of an answer there may be cookies.
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let begin = &line[..line.len().min(64)];
        self.client
            .broken("sent a reply that is not HTTP/1.1")
            .detail(format!("{what}: `{}`", begin.escape_ascii()))
            .next("Check scheme, host and port.")
    }

    /// The kind whose answer is arriving; `None` for the opening.
    #[inline]
    fn kind(&self) -> Option<u16> {
        self.queue.front().map(|(_, kind)| *kind)
    }

    /// Keeps of a head what others look at later: cookies, fields that are wanted.
    #[inline]
    fn note(&mut self, head: &Head<'_>, bytes: &[u8]) {
        let (wants_head, wants_cookies) = self
            .client
            .asked(self.kind())
            .map_or((false, false), |request| (!request.take.is_empty(), request.cookies));
        if wants_head {
            self.head.clear();
            self.head.extend_from_slice(bytes);
        }
        if head.set_cookie && wants_cookies {
            let given = response::fields(bytes).filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
            given.for_each(|(_, value)| self.client.cookies.take(value));
        }
    }

    /// A head has arrived, of these `bytes`; `rest` is what stands behind it. Returns how much of that was used.
    #[inline]
    fn take_head(
        &mut self,
        head: Head<'_>,
        bytes: &[u8],
        rest: &[u8],
        done: &mut dyn CompletionSink,
    ) -> Result<usize, StoreError> {
        if head.status < 200 {
            // An answer before the answer. No protocol to switch to was asked for.
            return match head.status {
                101 => Err(self.client.broken("switches to another protocol, unasked")),
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
        let is_head = !is_ready || self.client.asked(self.kind()).is_some_and(|request| request.is_head);
        if !is_ready {
            self.client.greeting.server = String::from_utf8_lossy(head.server).into_owned();
            self.client.greeting.depth_max = DEPTH_MAX;
        }
        self.note(&head, bytes);
        self.body_bytes = 0;
        if is_head || matches!(head.status, 204 | 304) {
            return self.finish(&[], done).map(|()| 0);
        }
        match head.framing {
            Framing::Length(length) => {
                if self.client.keeps(self.kind(), self.status) && length > self.client.answer_max as u64 {
                    return Err(self.client.too_large(Some(length)));
                }
                self.body_bytes = length;
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
                let error = self.client.broken("does not say how long its answer is, but ends it with the connection");
                return Err(error.next("Plimsoll needs Content-Length or chunks, as HTTP/1.1 servers send them."));
            }
        }
        Ok(0)
    }

    #[cold]
    fn unasked(&self, head: Head<'_>) -> StoreError {
        // As servers do that grow tired of an idle connection: 408.
        let what = format!("{} ended the connection, unasked", self.client.login.place);
        let words = phrase(head.status);
        StoreError::new(StoreErrorKind::Unreachable, what).detail(format!("{} {words}", head.status))
    }

    /// An answer is complete; `body` is all of it where it arrived in one piece.
    #[inline]
    fn finish(&mut self, body: &[u8], done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        self.awaited = Awaited::Head;
        let body = if body.is_empty() { &self.body } else { body };
        let (status, retry_after, body_bytes) = (self.status, self.retry_after, self.body_bytes);
        let arrived = Arrived { status, retry_after, head: &self.head, body, body_bytes };
        if !matches!(self.state, WireState::Ready) {
            self.client.opened(&arrived)?;
            // The body is not waited for.
            self.state = WireState::Ended;
            return Ok(());
        }
        if let Some((ticket, kind)) = self.queue.pop_front() {
            self.client.answered(ticket, kind, &arrived, done);
            self.body.clear();
        }
        if self.close {
            self.end(done);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        matches!(self.state, WireState::Failed(_) | WireState::Ended)
    }

    /// A piece of a body that takes more than one; says how much of it was used.
    fn take_piece(&mut self, left: u64, bytes: &[u8]) -> Result<usize, StoreError> {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if self.client.keeps(self.kind(), self.status) {
            if self.body.len() + taken > self.client.answer_max {
                return Err(self.client.too_large(None));
            }
            self.body.extend_from_slice(&bytes[..taken]);
        }
        Ok(taken)
    }

    /// Takes what stands at the beginning of `bytes`, which are some; 0 when more is needed.
    #[inline]
    fn step(&mut self, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<usize, StoreError> {
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
                self.body_bytes = self.body_bytes.saturating_add(length);
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
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
        self.give_up("connection", &error.to_string(), done);
        self.state = WireState::Failed(error);
    }
}

impl WireSession for HttpSession {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.queue.clear();
        self.body.clear();
        self.awaited = Awaited::Head;
        self.state = match self.client.open(kinds) {
            Ok(true) => WireState::Opening,
            Ok(false) => WireState::Ready,
            Err(error) => WireState::Failed(error),
        };
        if self.state != WireState::Opening {
            return;
        }
        let nothing = plimsoll_core::ValueBuf::new();
        Request::opening(&self.client.login).write(nothing.values(), &self.client.cookies, &mut self.scratch, out);
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.client.answer_max = bytes_max;
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        self.scratch.clear();
        self.client.started(ticket, op);
        self.client.requests[usize::from(op.kind)].write(op.params, &self.client.cookies, &mut self.scratch, out);
        out.extend_from_slice(&self.scratch);
        self.queue.push_back((ticket, op.kind));
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
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

    fn tally(&self) -> Option<Cow<'_, AnswerTally>> {
        Some(Cow::Borrowed(&self.client.tally))
    }

    fn close(&mut self, _: &mut Vec<u8>) {
        // HTTP has no good-bye: the connection ends.
    }
}
