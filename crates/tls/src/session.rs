//! TLS around a session of any protocol: from the first byte on, or when the server has said yes to it.

use std::borrow::Cow;

use plimsoll_core::{Address, AnswerTally, CompletionSink, Op, OpKind, StoreError, Ticket, WireSession, WireState};

use crate::client::TlsClient;
use crate::connection::Tls;

/// Beginning of TLS on a connection: with the first byte, unless a protocol overrides it.
pub trait Upgrade<S>: Send {
    /// Returns the request for TLS, sent in clear.
    fn question(&self) -> Option<Vec<u8>> {
        None
    }

    /// Parses the server's answer to it, the first of `bytes`. `place` names it in messages.
    ///
    /// # Errors
    /// Why there is no TLS.
    fn answered(&self, _bytes: &[u8], _place: &str) -> Result<Answered, StoreError> {
        Ok(Answered::Yes)
    }

    /// Handles the end of the handshake. `inner` has received nothing yet.
    fn agreed(&self, _inner: &mut S, _tls: &Tls) {}
}

/// Answer of a server to the request for TLS.
#[derive(Debug)]
pub enum Answered {
    /// Too few bytes to decide.
    Nothing,
    /// TLS begins. The server waits for the client's greeting: bytes in clear after its answer are invalid.
    Yes,
    /// The session goes on in clear, behind so many bytes.
    No(usize),
    /// The peer does not speak this protocol, with TLS or without.
    Stranger(StoreError),
}

/// TLS begins with the first byte.
#[derive(Debug)]
pub struct AtOnce;

impl<S> Upgrade<S> for AtOnce {}

enum State {
    /// Bytes go through as they are.
    Clear,
    /// The server has been asked; what the session has written waits.
    Asked(Vec<u8>),
    Encrypted(Box<Tls>),
    /// No connection; true if the cause is TLS.
    Failed(WireState, bool),
}

/// A wire session whose bytes are encrypted, or may be.
pub struct TlsSession<S, U = AtOnce> {
    inner: S,
    /// `None` where nothing is to be encrypted.
    client: Option<TlsClient>,
    host: String,
    place: String,
    upgrade: U,
    state: State,
}

impl<S: WireSession> TlsSession<S> {
    /// Wraps `inner` in TLS for connections to `host`; `place` names the server in messages.
    ///
    /// # Errors
    /// As [`TlsClient::connect`].
    pub fn new(inner: S, client: TlsClient, host: &str, place: &str) -> Result<Self, StoreError> {
        Self::upgraded(inner, Some(client), host, place, AtOnce)
    }
}

impl<S: WireSession, U: Upgrade<S>> TlsSession<S, U> {
    /// Wraps a session in which TLS begins as `upgrade` says; without a `client` nothing is encrypted.
    ///
    /// # Errors
    /// As [`TlsClient::connect`].
    pub fn upgraded(
        inner: S,
        client: Option<TlsClient>,
        host: &str,
        place: &str,
        upgrade: U,
    ) -> Result<Self, StoreError> {
        if let Some(client) = &client {
            client.connect(host, place)?;
        }
        Ok(Self { inner, client, host: host.to_owned(), place: place.to_owned(), upgrade, state: State::Clear })
    }

    /// The session inside.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner session, read-only.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Version and cipher suite, where there are any.
    pub fn agreed(&self) -> Option<String> {
        if let State::Encrypted(tls) = &self.state { tls.agreed() } else { None }
    }

    /// True when the connection failed on TLS, and not on what is inside it.
    pub fn failed_on_tls(&self) -> bool {
        matches!(self.state, State::Failed(_, true))
    }

    /// Calls `write` for the session, and sends its output unless more follows immediately.
    #[inline]
    pub fn write(&mut self, more: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut S, &mut Vec<u8>)) {
        match &mut self.state {
            State::Clear => write(&mut self.inner, out),
            State::Asked(written) => write(&mut self.inner, written),
            State::Encrypted(tls) => {
                write(&mut self.inner, &mut tls.written);
                // What follows at once goes into one record with it.
                if !more {
                    tls.encrypt(out);
                }
            }
            State::Failed(..) => {}
        }
    }

    fn begin(&mut self, written: Vec<u8>, out: &mut Vec<u8>) {
        let Some(client) = &self.client else { return };
        self.state = match client.connect(&self.host, &self.place) {
            Ok(tls) => State::Encrypted(Box::new(tls.begin(written, out))),
            Err(error) => State::Failed(WireState::Failed(error), true),
        };
    }

    /// Takes the server's answer to the question for TLS.
    #[cold]
    fn take_answer(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let State::Asked(written) = &mut self.state else { return bytes.len() };
        let written = std::mem::take(written);
        match self.upgrade.answered(bytes, &self.place) {
            Ok(Answered::Nothing) => {
                self.state = State::Asked(written);
                return 0;
            }
            Ok(Answered::Yes) => self.begin(written, out),
            Ok(Answered::No(used)) => {
                out.extend_from_slice(&written);
                self.state = State::Clear;
                let rest = &bytes[used..];
                return used + if rest.is_empty() { 0 } else { self.inner.feed(rest, out, done) };
            }
            Ok(Answered::Stranger(error)) => self.state = State::Failed(WireState::Failed(error), false),
            Err(error) => self.state = State::Failed(WireState::Failed(error), true),
        }
        bytes.len()
    }
}

impl<S: WireSession, U: Upgrade<S>> WireSession for TlsSession<S, U> {
    fn moves(&self) -> bool {
        self.inner.moves()
    }

    fn next_address(&mut self) -> Option<Address> {
        self.inner.next_address()
    }

    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        let mut written = Vec::new();
        self.inner.open(kinds, &mut written);
        self.state = State::Clear;
        match self.upgrade.question().filter(|_| self.client.is_some()) {
            Some(question) => {
                out.extend_from_slice(&question);
                self.state = State::Asked(written);
            }
            None if self.client.is_some() => self.begin(written, out),
            None => out.extend_from_slice(&written),
        }
    }

    fn state(&self) -> &WireState {
        // A protocol without a greeting is ready before the handshake is done, and the connection is not.
        let is_early = match &self.state {
            State::Failed(failed, _) => return failed,
            State::Clear => false,
            State::Asked(_) => true,
            State::Encrypted(tls) => tls.is_handshaking(),
        };
        match self.inner.state() {
            WireState::Ready if is_early => &WireState::Opening,
            state => state,
        }
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.inner.limit_answers(bytes_max);
    }

    fn depth_max(&self) -> u32 {
        self.inner.depth_max()
    }

    fn asked_again(&self) -> u64 {
        self.inner.asked_again()
    }

    fn tally(&self) -> Option<Cow<'_, AnswerTally>> {
        self.inner.tally()
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        self.write(op.more, out, |inner, out| inner.start(ticket, op, out));
    }

    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        self.write(false, out, |inner, out| inner.flush(out));
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let tls = match &mut self.state {
            State::Encrypted(tls) => tls,
            State::Clear => return self.inner.feed(bytes, out, done),
            State::Asked(_) => return self.take_answer(bytes, out, done),
            State::Failed(..) => return bytes.len(),
        };
        let was_handshaking = tls.is_handshaking();
        let result = tls.decrypt(bytes, out);
        if was_handshaking && !tls.is_handshaking() {
            self.upgrade.agreed(&mut self.inner, tls);
        }
        tls.hand_over(out, |arrived, written| self.inner.feed(arrived, written, done));
        // What was said before it is heard first.
        if let Err(error) = result
            && !matches!(self.inner.state(), WireState::Failed(_))
        {
            self.state = State::Failed(WireState::Failed(error), true);
        }
        bytes.len()
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.state, State::Asked(_)) {
            self.write(false, out, |inner, out| inner.close(out));
        }
        if let State::Encrypted(tls) = &mut self.state {
            tls.close(out);
        }
    }
}
