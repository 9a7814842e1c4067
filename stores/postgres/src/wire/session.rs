//! The session: greeting, authentication, preparation, operations in flight, errors.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{
    Answer, Done, Layout, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, WireSession, WireState,
};

use super::auth::{Auth, Login, refusal};
use super::message::{
    self, GREETING_BYTES_MAX, MESSAGE_BYTES_MAX, SYNC, ServerError, TERMINATE, broken, cstr, frame, unexpected,
};
use super::statement::{Prepared, decode_row, parse_row_description};
use super::value::Code;
use crate::sql;

/// Operations in flight on one connection at most. Each ends with a Sync of its own.
const DEPTH_MAX: u32 = 64;

/// What the session waits for.
enum Phase {
    /// [`WireSession::open`].
    Closed,
    /// The server's greeting.
    Greeting(Auth),
    /// The same, to fail with this: kinds that cannot be put into SQL. An executor looks at the state when
    /// bytes arrive, so it must not fail before.
    Refused(StoreError),
    /// The answer to the settings of the session.
    Settings,
    /// The answers to Parse and Describe of the statement at this position, counted through all kinds.
    Preparing(usize),
    /// Operations.
    Ready,
}

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    ticket: Ticket,
    what: What,
    /// Statements that must report completion.
    commands: u32,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// A prepared kind, by position.
    Kind(usize),
    /// Statements as plain text, which may leave a transaction open.
    Simple,
}

/// A connection to PostgreSQL. See the module for what it speaks.
///
/// An operation is done when ReadyForQuery says so, not when its command completes: what is done in an
/// implicit transaction is committed in between. Errors that leave a commit open are
/// [`Outcome::Unknown`]. When the connection fails, everything in flight is pushed as unknown.
pub struct PgSession {
    login: Arc<Login>,
    layout: Arc<Layout>,
    /// `SET` statements sent once before anything is prepared.
    settings: String,
    state: WireState,
    phase: Phase,
    kinds: Vec<Prepared>,
    queue: VecDeque<InFlight>,
    /// Bytes of a row nobody wants that have not arrived yet.
    skip_bytes: usize,
    /// Of the operation that is being answered: its rows and errors, outcome and completed statements.
    answer: Answer,
    outcome: Outcome,
    completed: u32,
    /// Column types of a [`What::Simple`] answer.
    simple_columns: Vec<Code>,
}

impl PgSession {
    /// A session that logs in as `login`, runs `settings` (one or more statements, or empty) and prepares
    /// kinds over the tables of `layout`.
    pub fn new(login: Arc<Login>, layout: Arc<Layout>, settings: impl Into<String>) -> Self {
        Self {
            login,
            layout,
            settings: settings.into(),
            state: WireState::Opening,
            phase: Phase::Closed,
            kinds: Vec::new(),
            queue: VecDeque::with_capacity(DEPTH_MAX as usize),
            skip_bytes: 0,
            answer: Answer::default(),
            outcome: Outcome::Ok,
            completed: 0,
            simple_columns: Vec::new(),
        }
    }

    /// Appends statements as plain text. Their values come back as text, all rows of all statements in one
    /// answer.
    pub(crate) fn start_simple(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        frame(out, b'Q', |out| cstr(out, text));
        self.queue.push_back(InFlight { ticket, what: What::Simple, commands: 0 });
    }

    /// Appends operations of several kinds as one: all in one transaction, their rows in one answer. Kinds
    /// that return rows must not be mixed with kinds of other columns; the last one decides how they are read.
    pub(crate) fn start_together<'a>(&mut self, ticket: Ticket, ops: impl Iterator<Item = Op<'a>>, out: &mut Vec<u8>) {
        let mut commands = 0;
        let mut kind = 0;
        for op in ops {
            kind = usize::from(op.kind);
            commands += self.kinds[kind].execute(op.params, out);
        }
        out.extend_from_slice(&SYNC);
        self.queue.push_back(InFlight { ticket, what: What::Kind(kind), commands });
    }

    /// True while an operation is in flight.
    pub(crate) fn is_asked(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Ends the connection for good: everything in flight is unknown.
    #[cold]
    pub(crate) fn fail(&mut self, error: StoreError, done: &mut dyn Done) {
        self.phase = Phase::Closed;
        while let Some(op) = self.queue.pop_front() {
            if self.answer.code.is_empty() && self.answer.message.is_empty() {
                self.answer.message.push_str(&error.to_string());
            }
            self.answer.values.clear();
            self.answer.rows = 0;
            done.push(op.ticket, Outcome::Unknown, &self.answer);
        }
        self.state = WireState::Failed(error);
    }

    /// One message. An error ends the connection.
    #[inline]
    fn take(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> Result<(), StoreError> {
        match self.phase {
            Phase::Ready => self.take_answer(tag, body, done),
            _ => self.take_opening(tag, body, out),
        }
    }

    #[inline]
    fn take_answer(&mut self, tag: u8, body: &[u8], done: &mut dyn Done) -> Result<(), StoreError> {
        // Notices, settings that changed and notifications may come at any time.
        if matches!(tag, b'N' | b'S' | b'A') {
            return Ok(());
        }
        let Some(&current) = self.queue.front() else {
            return Err(match tag {
                b'E' => self.ended(body),
                _ => unexpected(tag, "while nothing was asked"),
            });
        };
        match tag {
            b'2' => Ok(()),
            b'D' => self.take_row(current, body),
            b'C' => {
                self.completed += 1;
                if let What::Kind(kind) = current.what
                    && self.kinds[kind].empty_is_not_found
                    && body.ends_with(b" 0\0")
                {
                    self.outcome = Outcome::NotFound;
                }
                Ok(())
            }
            b'Z' => self.take_ready(current, body, done),
            b'E' => self.take_error(body),
            b'I' => {
                self.completed += 1;
                Ok(())
            }
            b'T' if matches!(current.what, What::Simple) => {
                self.simple_columns.clear();
                if !parse_row_description(body, &mut self.simple_columns) {
                    return Err(unexpected(tag, "in an answer"));
                }
                // A simple query's values are text whatever their type.
                self.simple_columns.fill(Code::Other);
                Ok(())
            }
            b'G' | b'H' | b'W' => Err(StoreError::new(
                StoreErrorKind::Usage,
                format!("{} begins a COPY, which Plimsoll does not speak", self.describe(current)),
            )),
            _ => Err(unexpected(tag, "in an answer")),
        }
    }

    #[inline]
    fn take_row(&mut self, current: InFlight, body: &[u8]) -> Result<(), StoreError> {
        self.answer.rows += 1;
        let columns = match current.what {
            What::Kind(kind) if !self.kinds[kind].keep_answer => return Ok(()),
            What::Kind(kind) => self.kinds[kind].columns(),
            What::Simple => &self.simple_columns,
        };
        self.answer.columns = columns.len();
        if decode_row(body, columns, &mut self.answer.values) {
            Ok(())
        } else {
            Err(broken(format!("the server answered {} with a row that is not of its columns", self.describe(current))))
        }
    }

    #[inline]
    fn take_ready(&mut self, current: InFlight, body: &[u8], done: &mut dyn Done) -> Result<(), StoreError> {
        if let What::Kind(_) = current.what {
            if body != b"I" {
                return Err(StoreError::new(
                    StoreErrorKind::Usage,
                    format!("{} leaves a transaction open", self.describe(current)),
                )
                .next("Use statements that are a transaction each."));
            }
            if self.completed != current.commands && !self.outcome.is_error() {
                return Err(broken(format!(
                    "the server completed {} of {} statements of {} and reported no error",
                    self.completed,
                    current.commands,
                    self.describe(current)
                )));
            }
        }
        self.queue.pop_front();
        done.push(current.ticket, self.outcome, &self.answer);
        self.reset_answer();
        Ok(())
    }

    #[inline]
    fn reset_answer(&mut self) {
        self.answer.clear();
        self.outcome = Outcome::Ok;
        self.completed = 0;
    }

    #[cold]
    fn take_error(&mut self, body: &[u8]) -> Result<(), StoreError> {
        let error = ServerError::parse(body).ok_or_else(|| unexpected(b'E', "in an answer"))?;
        let outcome = if error.leaves_open() { Outcome::Unknown } else { Outcome::Rejected };
        self.answer.values.clear();
        self.answer.columns = 0;
        self.answer.rows = 0;
        let code = String::from_utf8_lossy(error.code);
        self.outcome = self.answer.fail(outcome, &code, &String::from_utf8_lossy(error.message));
        if error.ends_connection() { Err(self.ended(body)) } else { Ok(()) }
    }

    /// What a FATAL error, or any while nothing was asked, makes of the connection.
    #[cold]
    fn ended(&self, body: &[u8]) -> StoreError {
        let place = &self.login.place;
        match ServerError::parse(body) {
            Some(error) => StoreError::new(StoreErrorKind::Unreachable, format!("{place} ended the connection"))
                .detail(error.code_and_words()),
            None => unexpected(b'E', "while nothing was asked"),
        }
    }

    fn describe(&self, current: InFlight) -> String {
        match current.what {
            What::Kind(kind) => format!("operation `{}`", self.kinds[kind].name),
            What::Simple => "a plain statement".to_owned(),
        }
    }

    #[cold]
    fn take_opening(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        if matches!(tag, b'N' | b'S' | b'A') {
            return Ok(());
        }
        match &mut self.phase {
            Phase::Greeting(auth) => match tag {
                b'R' => auth.request(body, &self.login, out),
                b'E' => Err(match ServerError::parse(body) {
                    Some(error) => refusal(&error, &self.login),
                    None => broken(format!("{} answered what no PostgreSQL server answers", self.login.place))
                        .detail(String::from_utf8_lossy(body).trim_end_matches('\0').to_owned()),
                }),
                // The key that would cancel a query, and the offer of an older minor version: not needed.
                b'K' | b'v' if matches!(auth, Auth::Done) => Ok(()),
                b'Z' if matches!(auth, Auth::Done) => {
                    self.send_settings(out);
                    Ok(())
                }
                _ => Err(unexpected(tag, "during authentication")),
            },
            Phase::Refused(error) => Err(error.clone()),
            Phase::Settings => match tag {
                b'C' | b'I' => Ok(()),
                b'Z' => {
                    self.phase = Phase::Preparing(0);
                    Ok(())
                }
                b'E' => Err(self.not_prepared(body, &self.settings)),
                _ => Err(unexpected(tag, "while the session was set up")),
            },
            Phase::Preparing(next) => {
                let position = *next;
                let statement = self.kinds.iter_mut().flat_map(|kind| &mut kind.statements).nth(position);
                let taken = match (tag, statement) {
                    (b'1', Some(_)) => true,
                    (b't', Some(statement)) => statement.describe_params(body),
                    (b'T', Some(statement)) => {
                        *next += 1;
                        statement.describe_columns(body)
                    }
                    (b'n', Some(statement)) => {
                        *next += 1;
                        statement.describe_columns(&[])
                    }
                    (b'E', Some(statement)) => {
                        let text = statement.text.clone();
                        return Err(self.not_prepared(body, &text));
                    }
                    (b'Z', None) => return self.become_ready(),
                    _ => false,
                };
                if taken { Ok(()) } else { Err(unexpected(tag, "while statements were prepared")) }
            }
            Phase::Closed | Phase::Ready => Err(unexpected(tag, "before the connection was opened")),
        }
    }

    /// Sends the settings and all statements at once: two round trips from login to the first operation.
    fn send_settings(&mut self, out: &mut Vec<u8>) {
        self.phase = Phase::Settings;
        frame(out, b'Q', |out| cstr(out, &self.settings));
        for statement in self.kinds.iter().flat_map(|kind| &kind.statements) {
            message::parse_and_describe(out, &statement.name, &statement.text);
        }
        out.extend_from_slice(&SYNC);
    }

    fn become_ready(&mut self) -> Result<(), StoreError> {
        for kind in &self.kinds {
            kind.check()?;
        }
        self.phase = Phase::Ready;
        self.state = WireState::Ready;
        Ok(())
    }

    fn not_prepared(&self, body: &[u8], text: &str) -> StoreError {
        let Some(error) = ServerError::parse(body) else { return unexpected(b'E', "while statements were prepared") };
        let kind = match error.code {
            b"42501" => StoreErrorKind::Permission,
            _ if error.ends_connection() => StoreErrorKind::Unreachable,
            // Classes 42 (syntax, unknown names) and 22 (bad values): the statement is wrong.
            code if code.starts_with(b"42") || code.starts_with(b"22") => StoreErrorKind::Usage,
            _ => StoreErrorKind::Store,
        };
        StoreError::new(kind, format!("{} does not take the statement: {text}", self.login.place))
            .detail(error.code_and_words())
    }

    /// What to do with a message of which only a part has arrived: its length, if it is plausible.
    #[cold]
    fn implausible(&self, header: &[u8]) -> StoreError {
        broken(format!("{} answered what no PostgreSQL server answers", self.login.place))
            .detail(format!("it began with `{}`", header.escape_ascii()))
    }
}

impl WireSession for PgSession {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.queue.clear();
        self.reset_answer();
        self.skip_bytes = 0;
        self.kinds.clear();
        let mut refused = None;
        for (position, kind) in kinds.iter().enumerate() {
            match sql::compile(kind, &self.layout) {
                Ok(compiled) => self.kinds.push(Prepared::new(position, kind, compiled)),
                Err(error) => refused = Some(error),
            }
        }
        self.phase = refused.map_or(Phase::Greeting(Auth::Asked), Phase::Refused);
        self.state = WireState::Opening;
        let login = &*self.login;
        let mut parameters = vec![
            ("user", login.user.as_str()),
            ("database", &login.database),
            ("application_name", &login.application_name),
            ("client_encoding", "UTF8"),
        ];
        if let Some(options) = &login.options {
            parameters.push(("options", options));
        }
        message::startup(out, &parameters);
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let kind = usize::from(op.kind);
        let commands = self.kinds[kind].execute(op.params, out);
        out.extend_from_slice(&SYNC);
        self.queue.push_back(InFlight { ticket, what: What::Kind(kind), commands });
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let mut at = self.skip_bytes.min(bytes.len());
        self.skip_bytes -= at;
        while let Some((header, rest)) = bytes[at..].split_first_chunk::<5>() {
            let [tag, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            let length_max = if matches!(self.phase, Phase::Greeting(_) | Phase::Refused(_)) {
                GREETING_BYTES_MAX
            } else {
                MESSAGE_BYTES_MAX
            };
            let Some(body_length) = length.checked_sub(4).filter(|_| length <= length_max) else {
                let error = self.implausible(&bytes[at..bytes.len().min(at + 64)]);
                self.fail(error, done);
                return bytes.len();
            };
            let Some(body) = rest.get(..body_length) else {
                if tag == b'D' && self.discards_rows() {
                    self.answer.rows += 1;
                    self.skip_bytes = body_length - rest.len();
                    return bytes.len();
                }
                return at;
            };
            at += 5 + body_length;
            if let Err(error) = self.take(tag, body, out, done) {
                self.fail(error, done);
                return bytes.len();
            }
        }
        at
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.phase, Phase::Closed) {
            out.extend_from_slice(&TERMINATE);
        }
        self.phase = Phase::Closed;
    }
}

impl PgSession {
    /// True when the operation being answered keeps no rows: they need not be buffered whole.
    fn discards_rows(&self) -> bool {
        match (&self.phase, self.queue.front()) {
            (Phase::Ready, Some(InFlight { what: What::Kind(kind), .. })) => !self.kinds[*kind].keep_answer,
            _ => false,
        }
    }
}
