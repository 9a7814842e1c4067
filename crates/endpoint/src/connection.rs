//! A wire session whose calls return when they are done: for the control plane, and for stores that are driven a thread
//! a session. It is the same session that the drive loop runs, over a socket of its own.

use plimsoll_core::{
    Answer, Done, Op, OpKind, Outcome, StoreError, Ticket, Value, Values, Waits, WireSession, WireState,
};

use crate::channel::Channel;

/// A session that can also be asked in plain text, one thing at a time, and be told that its connection is no more.
pub trait TextSession: WireSession {
    /// Appends statements as plain text. Their values come back as texts.
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>);

    /// True while something is in flight.
    fn is_asked(&self) -> bool;

    /// Ends the connection for good: everything in flight is unknown.
    fn fail(&mut self, error: StoreError, done: &mut dyn Done);

    /// What the server at `place` said no to, as an error.
    fn rejected(place: &str, answer: &Answer) -> StoreError;
}

/// A value of a row of what [`Connection::simple`] was answered; empty when there is none, or it is null.
pub fn text(row: Values<'_>, column: usize) -> &str {
    match row.get(column) {
        Value::Text(text) => text,
        _ => "",
    }
}

/// A connection whose calls return when they are done.
pub struct Connection<S: TextSession> {
    channel: Channel,
    session: S,
}

struct Visit<'a>(&'a mut dyn FnMut(Outcome, &Answer));

impl Done for Visit<'_> {
    fn push(&mut self, _: Ticket, outcome: Outcome, answer: &Answer) {
        (self.0)(outcome, answer);
    }
}

impl<S: TextSession> Connection<S> {
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
        self.pump(&mut |_, _| {}, |session| *session.state() == WireState::Opening)
    }

    /// The session.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// Sets how long the server may be silent from now on.
    pub fn set_waits(&mut self, waits: Waits) {
        self.channel.set_waits(waits);
    }

    /// Says whether what is asked from now on is long work, over which it may be silent for [`Waits::work`].
    pub fn set_works(&mut self, works: bool) {
        self.channel.set_works(works);
    }

    /// True when it can take an operation.
    pub fn is_ready(&self) -> bool {
        *self.session.state() == WireState::Ready
    }

    /// True when it can take an operation and the server has not ended it since it was last used.
    pub fn is_still_ready(&mut self) -> bool {
        if self.channel.has_news() {
            self.turn(&mut Visit(&mut |_, _| {}));
        }
        self.is_ready()
    }

    /// Starts one operation and calls `visit` with its outcome and answer.
    ///
    /// # Errors
    /// When the connection failed; `visit` was then called with [`Outcome::Unknown`].
    pub fn run(
        &mut self,
        start: impl FnOnce(&mut S, &mut Vec<u8>),
        visit: &mut dyn FnMut(Outcome, &Answer),
    ) -> Result<(), StoreError> {
        if let WireState::Failed(error) = self.session.state() {
            return Err(error.clone());
        }
        self.channel.write(|out| start(&mut self.session, out));
        self.pump(visit, S::is_asked)
    }

    /// Runs one prepared operation.
    ///
    /// # Errors
    /// As [`Connection::run`].
    pub fn execute(&mut self, op: &Op<'_>, visit: &mut dyn FnMut(Outcome, &Answer)) -> Result<(), StoreError> {
        self.run(|session, out| session.start(Ticket(0), op, out), visit)
    }

    /// Runs statements as plain text; their values come back as text.
    ///
    /// # Errors
    /// As [`Connection::run`], and what the server rejects.
    pub fn simple(&mut self, text: &str) -> Result<Answer, StoreError> {
        let mut result = (Outcome::Unknown, Answer::default());
        self.run(|session, out| session.start_text(Ticket(0), text, out), &mut |outcome, answer| {
            result = (outcome, answer.clone())
        })?;
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

    /// Sends, receives and feeds for as long as `wanting` says so.
    fn pump(
        &mut self,
        visit: &mut dyn FnMut(Outcome, &Answer),
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

impl<S: TextSession> Drop for Connection<S> {
    fn drop(&mut self) {
        // Polite, not necessary: a server that does not hear it sees the socket close.
        self.channel.write(|out| self.session.close(out));
        self.channel.send_what_can_be();
    }
}
