//! Connection to an HTTP/2 server as a protocol without I/O (RFC 9113).
//!
//! Operations in flight are streams of one connection, as many as the server takes. Requests are built from what was
//! put together when the session was opened, and answers are read in place: once warm, nothing is allocated for an operation.
//! The server is told that there is room for all that it sends; what we send keeps to the room that the server has.
//!
//! Answers come in any order, and a ticket is in flight once: steps of requests wait for each other.
//!
//! Sessions begin as those of `wire` do: with operations, unless they ask for the server.

mod arrivals;
mod frame;
pub(crate) mod hpack;
mod huffman;
mod stream;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{
    AnswerTally, CompletionSink, Durability, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, ValueBuf, Values,
    WireSession, WireState,
};
use plimsoll_endpoint::Asked;
use plimsoll_tls::{Tls, Upgrade};

use self::frame::{Frame, WINDOW_FIRST, WINDOW_MAX};
use self::stream::Stream;
use crate::client::Client;
use crate::endpoint::Login;
use crate::request::Request;
use crate::response::Malformed;

/// Operations in flight on one connection at most.
const DEPTH_MAX: u32 = 256;
/// Settings of the server, or their defaults until they arrive.
struct Peer {
    streams_max: u32,
    window_first: i64,
    frame_max: usize,
}

impl Default for Peer {
    fn default() -> Self {
        Self { streams_max: u32::MAX, window_first: WINDOW_FIRST, frame_max: frame::PAYLOAD_BYTES_MAX }
    }
}

/// A connection to an HTTP/2 server.
#[derive(Default)]
pub struct Http2Session {
    client: Client,
    state: WireState,
    peer: Peer,
    /// The server has said something of HTTP/2.
    is_heard: bool,
    streams: Vec<Stream>,
    /// The numbers of `streams`, to be looked for; 0 for none.
    ids: Vec<u32>,
    /// Places of `streams` that are free.
    free: Vec<usize>,
    /// Places of those that wait to be begun.
    waiting: VecDeque<usize>,
    /// Places of those whose requests wait for room.
    blocked: Vec<usize>,
    /// Streams begun and not answered.
    open: u32,
    next_id: u32,
    /// The connection takes no more streams, and ends when those are answered that it has.
    is_ending: bool,
    /// The server has refused to begin with a request, and has answered none since: it has one at a time.
    is_refusing: bool,
    /// Requests that were sent again after a refusal.
    asked_again: u64,
    /// Bytes that the server takes on the connection.
    window: i64,
    /// Bytes whose arrival the server was not told of.
    untold: u64,
    noise: u32,
    /// The stream whose header block goes on, whether its answer ends with that, and the block so far.
    unfinished: Option<(u32, bool)>,
    block: Vec<u8>,
    scratch: Vec<u8>,
}

impl Http2Session {
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

    /// Returns the client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A place for a request. It stands in none of the lists.
    fn place(&mut self, op: Option<(Ticket, u16)>) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.streams.push(Stream::default());
            self.ids.push(0);
            self.streams.len() - 1
        });
        self.streams[at].begin(op, self.peer.window_first);
        at
    }

    /// Writes a request and sends it, as far as that can be.
    #[inline]
    fn ask(&mut self, request: Option<u16>, op: Option<(Ticket, u16)>, params: Values<'_>, out: &mut Vec<u8>) {
        let at = self.place(op);
        let (client, stream) = (&self.client, &mut self.streams[at]);
        match request {
            Some(kind) => {
                let request = &client.requests[usize::from(kind)];
                request.write(params, &client.cookies, &mut stream.request, &mut stream.block);
            }
            None => {
                let opening = Request::opening(&client.login);
                opening.write(params, &client.cookies, &mut stream.request, &mut stream.block);
            }
        }
        if !self.waiting.is_empty() || !self.begin(at, out) {
            self.waiting.push_back(at);
        }
    }

    /// Begins a stream, if that can be now.
    #[inline]
    fn begin(&mut self, at: usize, out: &mut Vec<u8>) -> bool {
        if self.is_ending || self.open >= self.peer.streams_max || self.is_refusing && self.open > 0 {
            return false;
        }
        let stream = &mut self.streams[at];
        self.asked_again += u64::from(stream.refusals > 0);
        stream.id = self.next_id;
        self.ids[at] = self.next_id;
        stream.window = self.peer.window_first;
        self.next_id += 2;
        self.is_ending = i64::from(self.next_id) > WINDOW_MAX;
        self.open += 1;
        frame::headers(out, stream.id, &stream.block, stream.request.is_empty(), self.peer.frame_max);
        if !self.send(at, out) {
            self.blocked.push(at);
        }
        true
    }

    /// Sends of a request's body what the server takes. True when that was the rest.
    #[inline]
    fn send(&mut self, at: usize, out: &mut Vec<u8>) -> bool {
        let stream = &mut self.streams[at];
        while stream.sent < stream.request.len() {
            let room = usize::try_from(self.window.min(stream.window)).unwrap_or(0);
            let rest = &stream.request[stream.sent..];
            let piece = &rest[..rest.len().min(room).min(self.peer.frame_max)];
            if piece.is_empty() {
                return false;
            }
            let flags = if piece.len() == rest.len() { frame::END_STREAM } else { 0 };
            frame::write(out, frame::DATA, flags, stream.id, piece);
            stream.sent += piece.len();
            self.window -= piece.len() as i64;
            stream.window -= piece.len() as i64;
        }
        true
    }

    /// Sends what has waited.
    fn go_on(&mut self, out: &mut Vec<u8>) {
        let mut index = 0;
        while self.window > 0 && index < self.blocked.len() {
            match self.send(self.blocked[index], out) {
                true => drop(self.blocked.remove(index)),
                false => index += 1,
            }
        }
        while let Some(at) = self.waiting.front().copied().filter(|_| !self.is_over()) {
            if !self.begin(at, out) {
                break;
            }
            self.waiting.pop_front();
        }
    }

    /// The place of stream `id`; `None` when it is over.
    #[inline]
    fn find(&self, id: u32) -> Result<Option<usize>, Malformed> {
        if id.is_multiple_of(2) || id >= self.next_id {
            return Err(Malformed("a frame of a stream that was never opened"));
        }
        Ok(self.ids.iter().position(|known| *known == id))
    }

    /// The stream at `at` is over: its place is free, and nothing more of it is sent.
    fn leave(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if stream.id != 0 {
            self.open -= 1;
            (stream.id, self.ids[at]) = (0, 0);
        }
        if stream.sent < stream.request.len() {
            self.blocked.retain(|blocked| *blocked != at);
        }
        self.free.push(at);
    }

    /// A stream has ended without an answer.
    #[cold]
    fn drop_stream(&mut self, at: usize, outcome: Outcome, code: &str, what: &str, done: &mut dyn CompletionSink) {
        let words = format!("{} {what}", self.client.login.place);
        match self.streams[at].op {
            Some((ticket, _)) => self.client.give_up([ticket].into_iter(), outcome, code, &words, done),
            None => self.state = WireState::Failed(StoreError::broken(words).next("See in the server's log why.")),
        }
        self.leave(at);
    }

    /// The server has refused to begin a stream (RFC 9113, 8.7): its request waits to be sent again, on this connection or
    /// the next, until another one is answered, or none is in flight.
    #[cold]
    fn wait_again(&mut self, at: usize) {
        self.open -= 1;
        self.is_refusing = true;
        self.ids[at] = 0;
        self.blocked.retain(|blocked| *blocked != at);
        let stream = &mut self.streams[at];
        stream.refusals += 1;
        stream.begin_again();
        self.waiting.push_front(at);
    }

    /// The server has not begun a stream, and ends the connection: the request is sent again on the next one, or was
    /// rejected.
    #[cold]
    fn not_begun(&mut self, at: usize, what: &str, done: &mut dyn CompletionSink) {
        match self.streams[at].op {
            Some((ticket, _)) if done.not_begun(ticket) => self.leave(at),
            _ => self.drop_stream(at, Outcome::Rejected, "closed", what, done),
        }
    }

    #[cold]
    fn no_http(&self, Malformed(what): Malformed) -> StoreError {
        self.client.broken("did not answer with HTTP/2").detail(what).next("Check scheme, host and port.")
    }

    /// Returns the error for a server whose first bytes are not HTTP/2.
    #[cold]
    fn stranger(&self, bytes: &[u8]) -> StoreError {
        if bytes.starts_with(b"HTTP/") {
            return self.client.other_version();
        }
        self.no_http(Malformed("")).detail(format!("it began with `{}`", bytes[..bytes.len().min(40)].escape_ascii()))
    }

    fn is_over(&self) -> bool {
        matches!(self.state, WireState::Failed(_) | WireState::Ended)
    }

    /// Clears a connection that takes no more requests.
    #[cold]
    fn end(&mut self, done: &mut dyn CompletionSink) {
        while let Some(at) = self.waiting.pop_front() {
            self.not_begun(at, "closed the connection before the request was sent", done);
        }
        if !self.is_over() {
            self.state = WireState::Ended;
        }
    }
}

impl Asked for Http2Session {
    fn is_asked(&self) -> bool {
        self.free.len() < self.streams.len()
    }

    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
        let (mut sent, mut waiting) = (Vec::new(), Vec::new());
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let is_free = self.free.contains(&at);
            if let Some((ticket, _)) = stream.op.take().filter(|_| !is_free) {
                let list = if stream.id == 0 { &mut waiting } else { &mut sent };
                list.push(ticket);
            }
        }
        self.client.give_up(sent.into_iter(), Outcome::Unknown, "connection", &error.to_string(), done);
        // Those that were not sent have certainly not happened.
        self.client.give_up(waiting.into_iter(), Outcome::Rejected, "closed", &error.to_string(), done);
        self.forget();
        let is_stranger = !self.is_heard && error.kind == StoreErrorKind::Unreachable && !self.client.login.is_tls;
        self.state = WireState::Failed(match is_stranger {
            true => error.next("It may not speak HTTP/2: leave out http_version=2, or switch it on in the server."),
            false => error,
        });
    }
}

impl Http2Session {
    /// Forgets all streams.
    fn forget(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.id = 0);
        self.ids.fill(0);
        self.free.clear();
        self.free.extend((0..self.streams.len()).rev());
        self.waiting.clear();
        self.blocked.clear();
        self.open = 0;
    }
}

impl WireSession for Http2Session {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.forget();
        self.peer = Peer::default();
        (self.is_heard, self.is_ending, self.is_refusing, self.unfinished) = (false, false, false, None);
        (self.next_id, self.window, self.untold, self.noise) = (1, WINDOW_FIRST, 0, 0);
        self.block.clear();
        self.state = match self.client.open(kinds) {
            Ok(true) => WireState::Opening,
            Ok(false) => WireState::Ready,
            Err(error) => WireState::Failed(error),
        };
        if self.is_over() {
            return;
        }
        frame::preface(out);
        if self.state == WireState::Opening {
            self.ask(None, None, ValueBuf::new().values(), out);
        }
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.client.answer_max = bytes_max;
    }

    fn depth_max(&self) -> u32 {
        match self.client.greeting.depth_max {
            0 => DEPTH_MAX,
            known => known,
        }
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        self.client.started(ticket, op);
        self.ask(Some(op.kind), Some((ticket, op.kind)), op.params, out);
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let mut at = 0;
        while !self.is_over() {
            let rest = &bytes[at..];
            let frame = match Frame::first(rest) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(malformed) => {
                    let error = if self.is_heard { self.no_http(malformed) } else { self.stranger(rest) };
                    self.fail(error, done);
                    break;
                }
            };
            at += frame::HEADER_BYTES + frame.payload.len();
            let taken = match self.is_heard || frame.kind == frame::SETTINGS && !frame.has(frame::ACK) {
                true => {
                    self.is_heard = true;
                    self.take(&frame, out, done)
                }
                false => Err(self.stranger(rest)),
            };
            if let Err(error) = taken {
                self.fail(error, done);
            } else if self.is_ending && self.open == 0 {
                self.end(done);
            } else if !self.waiting.is_empty() {
                self.go_on(out);
            }
        }
        if self.is_over() { bytes.len() } else { at }
    }

    fn asked_again(&self) -> u64 {
        self.asked_again
    }

    fn tally(&self) -> Option<Cow<'_, AnswerTally>> {
        Some(Cow::Borrowed(&self.client.tally))
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if !self.is_over() {
            frame::write(out, frame::GOAWAY, 0, 0, &[0; 8]);
        }
    }
}

/// HTTP/2 is agreed on with TLS (ALPN, RFC 7301).
#[derive(Debug)]
pub struct Agreed;

impl Upgrade<Http2Session> for Agreed {
    fn agreed(&self, inner: &mut Http2Session, tls: &Tls) {
        if tls.protocol() != Some(b"h2") {
            inner.state = WireState::Failed(inner.client.other_version());
        }
    }
}
