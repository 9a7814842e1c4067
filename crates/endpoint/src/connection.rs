//! A wire session whose calls return when they are done: for the control plane, and for stores that are driven a thread
//! a session. It is the same session that the drive loop runs, over a socket of its own.

use plimsoll_core::{
    Answer, CompletionSink, Op, OpKind, Outcome, StoreError, Ticket, Value, Values, Waits, WireSession, WireState,
};
use plimsoll_tls::{TlsSession, Upgrade};

use crate::channel::Channel;
use crate::link::Connected;

/// Pieces of news without a request, after which a connection is not used again.
const NEWS_MAX: usize = 1_000;

/// A session that can be asked one thing at a time, and be told that its connection is no more.
pub trait Asked: WireSession {
    /// True while something is in flight. Not any more once it has failed.
    fn is_asked(&self) -> bool;

    /// Ends the connection for good: everything in flight is unknown.
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink);
}

/// A session that also takes requests in plain text.
pub trait TextSession: Asked {
    /// Appends statements as plain text. Their values come back as texts.
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>);

    /// Converts a rejection by the server at `place` to an error.
    fn rejected(place: &str, answer: &Answer) -> StoreError;
}

impl<S: Asked, U: Upgrade<S>> Asked for TlsSession<S, U> {
    fn is_asked(&self) -> bool {
        self.inner().is_asked() && !matches!(self.state(), WireState::Failed(_))
    }

    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
        self.inner_mut().fail(error, done);
    }
}

impl<S: TextSession, U: Upgrade<S>> TextSession for TlsSession<S, U> {
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        self.write(false, out, |inner, out| inner.start_text(ticket, text, out));
    }

    fn rejected(place: &str, answer: &Answer) -> StoreError {
        S::rejected(place, answer)
    }
}

/// A value of a row of what [`Connection::simple`] was answered; empty when there is none, or it is null.
pub fn text(row: Values<'_>, column: usize) -> &str {
    match row.get(column) {
        Value::Text(text) => text,
        _ => "",
    }
}

/// A connection whose calls return when they are done.
pub struct Connection<S: Asked> {
    channel: Channel,
    session: S,
}

struct Visit<'a>(&'a mut dyn FnMut(Ticket, Outcome, &Answer));

impl CompletionSink for Visit<'_> {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        (self.0)(ticket, outcome, answer);
    }
}

impl<S: Asked + 'static> Connected for Connection<S> {
    fn is_alive(&mut self) -> bool {
        // A server may send a notice before it closes the connection: both are news, and one turn takes the first.
        for _ in 0..NEWS_MAX {
            if !self.is_ready() || !self.channel.has_news() {
                return self.is_ready();
            }
            self.turn(&mut Visit(&mut |_, _, _| {}));
        }
        false
    }
}

impl<S: Asked> Connection<S> {
    /// A session over a channel; [`Connection::open`] comes next.
    pub fn new(channel: Channel, session: S) -> Self {
        Self { channel, session }
    }

    /// Logs in and prepares `kinds`.
    ///
    /// # Errors
    /// As the channel and the session say.
    pub fn open(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.channel.write(|out| self.session.open(kinds, out));
        self.pump(&mut |_, _, _| {}, |session| *session.state() == WireState::Opening)
    }

    /// The session.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// Sets how long the server may be silent from now on.
    pub fn set_waits(&mut self, waits: Waits) {
        self.channel.set_waits(waits);
    }

    /// Sets if the following requests are long work, during which the server may be silent for [`Waits::work`].
    pub fn set_works(&mut self, works: bool) {
        self.channel.set_works(works);
    }

    /// Runs long work.
    ///
    /// # Errors
    /// As `run` says.
    pub fn work<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.set_works(true);
        let done = run(self);
        self.set_works(false);
        done
    }

    /// True when it can take an operation.
    pub fn is_ready(&self) -> bool {
        *self.session.state() == WireState::Ready
    }

    /// Starts operations and calls `visit` with the outcome and answer of each.
    ///
    /// # Errors
    /// When the connection failed; `visit` was then called with [`Outcome::Unknown`].
    pub fn run(
        &mut self,
        start: impl FnOnce(&mut S, &mut Vec<u8>),
        visit: &mut dyn FnMut(Ticket, Outcome, &Answer),
    ) -> Result<(), StoreError> {
        if let WireState::Failed(error) = self.session.state() {
            return Err(error.clone());
        }
        self.channel.write(|out| start(&mut self.session, out));
        self.pump(visit, S::is_asked)
    }

    /// Sends, receives and feeds for as long as `wanting` says so.
    fn pump(
        &mut self,
        visit: &mut dyn FnMut(Ticket, Outcome, &Answer),
        wanting: impl Fn(&S) -> bool,
    ) -> Result<(), StoreError> {
        let mut done = Visit(visit);
        while wanting(&self.session) {
            self.turn(&mut done);
        }
        match self.session.state() {
            WireState::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn turn(&mut self, done: &mut Visit<'_>) {
        let session = &mut self.session;
        if let Err(error) = self.channel.turn(&mut |bytes, out| session.feed(bytes, out, done)) {
            session.fail(error, done);
        }
    }
}

impl<S: TextSession> Connection<S> {
    /// Runs statements as plain text; their values come back as text.
    ///
    /// # Errors
    /// As [`Connection::run`], and what the server rejects.
    pub fn simple(&mut self, text: &str) -> Result<Answer, StoreError> {
        self.answer(|session, out| session.start_text(Ticket(0), text, out))
    }

    /// Runs one prepared operation.
    ///
    /// # Errors
    /// As [`Connection::simple`].
    pub fn ask(&mut self, op: &Op<'_>) -> Result<Answer, StoreError> {
        self.answer(|session, out| session.start(Ticket(0), op, out))
    }

    fn answer(&mut self, start: impl FnOnce(&mut S, &mut Vec<u8>)) -> Result<Answer, StoreError> {
        let mut result = (Outcome::Unknown, Answer::default());
        self.run(start, &mut |_, outcome, answer| result = (outcome, answer.clone()))?;
        match result {
            (Outcome::Ok | Outcome::NotFound, answer) => Ok(answer),
            (_, answer) => Err(S::rejected(self.channel.place(), &answer)),
        }
    }

    /// Runs the statements of a layout, one after the other.
    ///
    /// # Errors
    /// As [`Connection::simple`], with the statement that failed.
    pub fn layout_statements<'s>(&mut self, mut statements: impl Iterator<Item = &'s str>) -> Result<(), StoreError> {
        statements.try_for_each(|statement| match self.simple(statement) {
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError {
                what: format!("the layout's statement failed: {statement}"),
                detail: Some(error.to_string()),
                ..error
            }),
        })
    }

    /// The first value of the first row of [`Connection::simple`]; empty when there is none, or it is null.
    ///
    /// # Errors
    /// As [`Connection::simple`].
    pub fn value(&mut self, asked: &str) -> Result<String, StoreError> {
        let answer = self.simple(asked)?;
        Ok(text(answer.values.values(), 0).to_owned())
    }
}

impl<S: Asked> Drop for Connection<S> {
    fn drop(&mut self) {
        // Polite, not necessary: a server that does not hear it sees the socket close.
        self.channel.write(|out| self.session.close(out));
        self.channel.send_what_can_be();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use plimsoll_core::Address;

    use super::*;

    /// Session that takes all bytes for notices.
    struct Notices(WireState);

    impl WireSession for Notices {
        fn open(&mut self, _: &[OpKind], _: &mut Vec<u8>) {}

        fn state(&self) -> &WireState {
            &self.0
        }

        fn limit_answers(&mut self, _: usize) {}

        fn depth_max(&self) -> u32 {
            1
        }

        fn start(&mut self, _: Ticket, _: &Op<'_>, _: &mut Vec<u8>) {}

        fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, _: &mut dyn CompletionSink) -> usize {
            bytes.len()
        }

        fn close(&mut self, _: &mut Vec<u8>) {}
    }

    impl Asked for Notices {
        fn is_asked(&self) -> bool {
            false
        }

        fn fail(&mut self, error: StoreError, _: &mut dyn CompletionSink) {
            self.0 = WireState::Failed(error);
        }
    }

    #[test]
    fn a_connection_that_was_closed_after_a_notice_is_not_alive() {
        // Of a Unix socket, the end arrives before the call that makes it returns.
        let path = std::env::temp_dir().join(format!("plimsoll-notices-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let connected = Channel::connect(&Address::Unix(path.clone()), "store://there", Waits::default());
        std::fs::remove_file(&path).unwrap();
        let (channel, (mut peer, _)) = (connected.unwrap(), listener.accept().unwrap());
        let mut connection = Connection::new(channel, Notices(WireState::Ready));
        peer.write_all(b"a notice").unwrap();
        assert!(connection.is_alive(), "a notice by itself ends nothing");
        peer.write_all(b"terminating connection due to immediate shutdown command").unwrap();
        drop(peer);
        assert!(!connection.is_alive());
    }
}
