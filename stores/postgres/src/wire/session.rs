//! The session: operations in flight, their answers, and errors.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Address, Answer, CompletionSink, Layout, Op, OpKind, Outcome, StoreError, Ticket, WireSession,
    WireState, tables,
};
use plimsoll_endpoint::Asked;

use super::auth::{Auth, Channel, Login};
use super::failure::leaves_transaction;
use super::given_up::{BackendKey, GivenUp};
use super::joined::{Joined, Joint};
use super::message::{self, GREETING_BYTES_MAX, MESSAGE_BYTES_MAX, SYNC, TERMINATE, broken, stranger, unexpected};
use super::opening::ConnectionPhase;
use super::statement::{Prepared, decode_row, decode_text_row, parse_row_description};
use super::value::{Code, Format};
use crate::sql::Postgres;

/// Operations in flight on one connection at most.
const DEPTH_MAX: u32 = 256;

/// The code of an operation that the server skipped because one before it in its pipeline failed.
pub const PIPELINE_ABORTED: &str = "pipeline aborted";

/// Protocol of statements: pgbench's `-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Parsed once, when a session opens or a script first comes to it; then bound and executed by name.
    #[default]
    Prepared,
    /// Parsed, described, bound and executed each time.
    Extended,
    /// Sends text, with the values inside it.
    Simple,
}

/// Servers at which a session looks for the one that takes writes, as libpq does with `target_session_attrs`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrimarySearch {
    servers: Arc<[Address]>,
    next: usize,
    /// The last connection took writes.
    was_right: bool,
}

impl PrimarySearch {
    /// Starts a search at the position `first` of `servers`, which are empty for a session with one server.
    pub fn new(servers: &Arc<[Address]>, first: usize) -> Self {
        Self { servers: Arc::clone(servers), next: first, was_right: true }
    }

    /// Returns true if there are several servers.
    pub fn are_several(&self) -> bool {
        self.servers.len() > 1
    }

    /// Returns the server of the next connection: the last one, if it took writes, or the one after it.
    fn next(&mut self) -> Option<Address> {
        if !std::mem::take(&mut self.was_right) {
            self.next = (self.next + 1) % self.servers.len().max(1);
        }
        self.servers.get(self.next).cloned()
    }

    /// Notes that the connection takes writes.
    pub fn found(&mut self) {
        self.was_right = true;
    }
}

/// State of a session's transaction by the server's last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Transaction {
    /// No transaction.
    #[default]
    None,
    /// A transaction is open.
    Open,
    /// A transaction is open and has failed: the server takes nothing but its end.
    Failed,
}

impl Transaction {
    /// Parses a ReadyForQuery.
    pub(super) fn of(body: &[u8]) -> Transaction {
        match body {
            b"I" => Transaction::None,
            b"T" => Transaction::Open,
            _ => Transaction::Failed,
        }
    }
}

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) what: What,
    /// Statements that must report completion.
    pub(super) commands: u32,
    /// A Sync follows it. An operation ends with it, and so with ReadyForQuery; without, with its last statement.
    pub(super) synced: bool,
    /// State of an operation that shares its Sync with operations of other clients.
    pub(super) joined: Option<Joined>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A kind, by position.
    Kind(u16),
    /// Statements as plain text, which may leave a transaction open.
    Text,
    /// Settings of the session that are sent again: not an operation.
    Settings,
}

/// A connection to PostgreSQL. See the module for what it speaks.
///
/// An operation is done when ReadyForQuery says so, not when its command completes: what is done in an
/// implicit transaction is committed in between. One that was started with [`Op::more`] has no Sync of its own. It is
/// done when its command completes, and holds only if those that follow up to the Sync do: an error rolls
/// back all of them, and the server skips what comes after it ([`PIPELINE_ABORTED`]).
///
/// Reads of clients that know nothing of each other may share a Sync too: see `Joint`.
///
/// Errors that leave a commit open are [`Outcome::Unknown`]. When the connection fails, everything in flight is pushed
/// as unknown.
#[derive(Default)]
pub struct PgSession {
    pub(super) login: Arc<Login>,
    layout: Arc<Layout>,
    /// `SET` statements sent once before anything is prepared.
    pub(super) settings: String,
    /// Protocol of statements.
    pub(crate) protocol: Protocol,
    /// Some kinds are parsed when they are executed.
    pub(super) parses_again: bool,
    /// An operation has reset the settings of the session: they are to be sent again after its Sync.
    pub(super) must_set: bool,
    pub(super) state: WireState,
    pub(super) phase: ConnectionPhase,
    /// TLS under the session: known before the server's first message is fed.
    pub(super) channel: Channel,
    pub(super) kinds: Vec<Prepared>,
    /// Key that cancels an operation on this connection.
    pub(crate) key: Option<BackendKey>,
    /// List of operations in flight when a connection was given up, to be cancelled.
    pub(crate) given_up: Option<Arc<GivenUp>>,
    pub(crate) turns: PrimarySearch,
    pub(super) queue: VecDeque<InFlight>,
    /// Operations that share a Sync.
    pub(super) joint: Joint,
    pub(super) transaction: Transaction,
    /// An operation of this pipeline has failed; the server skips the others up to the Sync.
    pub(super) skipping: bool,
    /// Bytes of a skipped row that have not arrived yet.
    skip_bytes: usize,
    /// Answer in progress: its rows and errors, outcome and completed statements.
    pub(super) answer: Answer,
    answer_bytes: usize,
    /// Most bytes of rows that are kept of one answer, as the server sends them, and of any message.
    pub(super) answer_max: usize,
    pub(super) outcome: Outcome,
    pub(super) completed: u32,
    /// Column types of an answer in plain text.
    text_columns: Vec<Code>,
}

impl PgSession {
    /// A session that logs in as `login`, runs `settings` (one or more statements, or empty) and prepares
    /// kinds over the tables of `layout`.
    pub fn new(login: Arc<Login>, layout: Arc<Layout>, settings: impl Into<String>) -> Self {
        Self { login, layout, settings: settings.into(), answer_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// Handles a message. An error ends the connection.
    #[inline]
    fn take(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        match self.phase {
            ConnectionPhase::Ready => self.take_answer(tag, body, out, done),
            _ => self.take_opening(tag, body, out),
        }
    }

    #[inline]
    fn take_answer(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        // Notices, settings that changed and notifications may come at any time.
        if matches!(tag, b'N' | b'S' | b'A') {
            return Ok(());
        }
        let Some(&current) = self.queue.get(self.joint.position()) else {
            return Err(match tag {
                b'E' => self.ended(body),
                _ => unexpected(tag, "while nothing was asked"),
            });
        };
        match tag {
            b'2' => Ok(()),
            b'D' => self.take_row(current, body),
            b'C' => {
                if let What::Kind(kind) = current.what
                    && self.kinds[usize::from(kind)].empty_is_not_found
                    && body.ends_with(b" 0\0")
                {
                    self.outcome = Outcome::NotFound;
                }
                self.take_completion(current, done)
            }
            b'Z' if current.joined.is_some() => self.take_ready_of_joined(body, out, done),
            b'Z' => self.take_ready(current, body, done),
            b'E' if current.joined.is_some() => self.take_error_of_joined(current, body),
            b'E' => self.take_error(current, body, done),
            b'I' => self.take_completion(current, done),
            b'T' => self.take_columns(current, body),
            // Parsed again, or for the first time.
            b'1' if self.parses_again => {
                if let What::Kind(kind) = current.what
                    && self.kinds[usize::from(kind)].must_prepare
                {
                    self.note_parsed(kind);
                }
                Ok(())
            }
            b'3' | b'n' if self.parses_again => Ok(()),
            b'G' | b'H' | b'W' => Err(StoreError::usage(format!(
                "{} begins a COPY, which Plimsoll does not speak",
                self.describe(current)
            ))),
            _ => Err(unexpected(tag, "in an answer")),
        }
    }

    #[inline]
    fn take_row(&mut self, current: InFlight, body: &[u8]) -> Result<(), StoreError> {
        self.answer.rows += 1;
        let (columns, is_text) = match current.what {
            What::Kind(kind) => {
                let kind = &self.kinds[usize::from(kind)];
                if !kind.keep_answer {
                    return Ok(());
                }
                if kind.format == Format::Binary { (kind.columns(), false) } else { (&*self.text_columns, true) }
            }
            What::Text | What::Settings => (&*self.text_columns, true),
        };
        self.answer_bytes += body.len();
        if self.answer_bytes > self.answer_max {
            return Err(self.too_large(Some(current), self.answer_bytes));
        }
        self.answer.columns = columns.len();
        let values = &mut self.answer.values;
        let taken = if is_text { decode_text_row(body, columns, values) } else { decode_row(body, columns, values) };
        if taken {
            Ok(())
        } else {
            Err(broken(format!("the server answered {} with a row that is not of its columns", self.describe(current))))
        }
    }

    #[cold]
    fn take_columns(&mut self, current: InFlight, body: &[u8]) -> Result<(), StoreError> {
        match current.what {
            What::Kind(kind) if self.kinds[usize::from(kind)].format == Format::Binary => {
                // Described again as it was when the session opened.
                return if self.parses_again { Ok(()) } else { Err(unexpected(b'T', "in an answer")) };
            }
            What::Kind(_) | What::Text | What::Settings => {}
        }
        self.text_columns.clear();
        if !parse_row_description(body, &mut self.text_columns) {
            return Err(unexpected(b'T', "in an answer"));
        }
        if matches!(current.what, What::Text) {
            self.text_columns.fill(Code::Other);
        }
        Ok(())
    }

    /// A statement has completed. The last one of an operation without a Sync is its end.
    #[inline]
    fn take_completion(&mut self, current: InFlight, done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        self.completed += 1;
        if self.completed == current.commands {
            if current.joined.is_some() {
                return self.hold(current);
            }
            if !current.synced {
                self.finish(current, done);
            }
        }
        Ok(())
    }

    #[inline]
    fn take_ready(&mut self, current: InFlight, body: &[u8], done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        self.transaction = Transaction::of(body);
        let mut current = current;
        if self.skipping {
            self.finish_skipped(done);
            let Some(&synced) = self.queue.front() else { return Err(unexpected(b'Z', "while nothing was asked")) };
            current = synced;
        }
        if let What::Kind(kind) = current.what {
            let kind = &self.kinds[usize::from(kind)];
            if self.transaction != Transaction::None && !kind.is_step {
                return Err(leaves_transaction(&self.describe(current)));
            }
            let expected = if kind.counts_commands { current.commands } else { self.completed };
            if (self.completed != expected || !current.synced) && !self.outcome.is_error() {
                return Err(broken(format!(
                    "the server completed {} of {} statements of {} and reported no error",
                    self.completed,
                    current.commands,
                    self.describe(current)
                )));
            }
        }
        self.finish(current, done);
        Ok(())
    }

    #[inline]
    pub(super) fn finish(&mut self, current: InFlight, done: &mut dyn CompletionSink) {
        self.queue.pop_front();
        if !matches!(current.what, What::Settings) {
            done.push(current.ticket, self.outcome, &self.answer);
        }
        self.reset_answer();
    }

    #[inline]
    pub(super) fn reset_answer(&mut self) {
        self.answer.clear();
        self.answer_bytes = 0;
        self.outcome = Outcome::Ok;
        self.completed = 0;
    }

    pub(super) fn describe(&self, current: InFlight) -> String {
        match current.what {
            What::Kind(kind) => format!("operation `{}`", self.kinds[usize::from(kind)].name),
            What::Text => "a plain statement".to_owned(),
            What::Settings => "the settings of the session".to_owned(),
        }
    }

    /// True when the operation being answered keeps no rows: they need not be buffered whole.
    fn discards_rows(&self) -> bool {
        match (&self.phase, self.queue.get(self.joint.position())) {
            (ConnectionPhase::Ready, Some(InFlight { what: What::Kind(kind), .. })) => {
                !self.kinds[usize::from(*kind)].keep_answer
            }
            _ => false,
        }
    }

    /// Forgets the connection before this one. What it had in flight may still be at work on the server.
    fn forget(&mut self) {
        if let (Some(key), Some(given_up), false) = (self.key.take(), &self.given_up, self.queue.is_empty()) {
            given_up.note(key);
        }
        self.key = None;
        self.queue.clear();
        self.joint.clear();
        self.transaction = Transaction::None;
        self.skipping = false;
        self.skip_bytes = 0;
        self.must_set = false;
        self.reset_answer();
        self.kinds.clear();
    }
}

impl WireSession for PgSession {
    fn moves(&self) -> bool {
        self.turns.are_several()
    }

    fn next_address(&mut self) -> Option<Address> {
        self.turns.next()
    }

    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.forget();
        self.channel = Channel::Plain;
        let mut refused = None;
        for (position, kind) in kinds.iter().enumerate() {
            match tables::compile::<Postgres>(kind, &self.layout) {
                Ok(compiled) => self.kinds.push(Prepared::new(position, kind, compiled, self.protocol)),
                Err(error) => refused = Some(error),
            }
        }
        if self.kinds.iter().any(Prepared::changes_names) {
            self.kinds.iter_mut().for_each(Prepared::prepare_late);
        }
        let given = self.kinds.iter().any(|kind| kind.format == Format::Text);
        self.parses_again = given || self.protocol != Protocol::Prepared;
        self.phase = refused.map_or(ConnectionPhase::Greeting(Auth::Asked), ConnectionPhase::Refused);
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

    fn limit_answers(&mut self, bytes_max: usize) {
        self.answer_max = bytes_max;
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let kind = &self.kinds[usize::from(op.kind)];
        if kind.joins && (op.more || self.joint.is_open()) {
            return self.start_joined(ticket, op, out);
        }
        if self.joint.is_open() {
            self.end_joint(out);
        }
        let kind = &self.kinds[usize::from(op.kind)];
        let commands = kind.execute(op.params, out);
        let (drops_statements, resets_settings) = (kind.drops_statements, kind.resets_settings);
        // Text is answered at once whatever follows, and what sends no statement has nothing else to be answered.
        let mut synced = true;
        if self.protocol != Protocol::Simple {
            // Only the steps of one operation may stand or fall together.
            synced = !(op.more && kind.is_step) || commands == 0;
            if synced {
                out.extend_from_slice(&SYNC);
            }
        }
        self.queue.push_back(InFlight { ticket, what: What::Kind(op.kind), commands, synced, joined: None });
        if drops_statements {
            self.prepare_again();
        }
        self.must_set |= resets_settings;
        if self.must_set && synced {
            self.set_again(out);
        }
    }

    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.joint.is_open() {
            self.end_joint(out);
        }
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let mut at = self.skip_bytes.min(bytes.len());
        self.skip_bytes -= at;
        while let Some((header, rest)) = bytes[at..].split_first_chunk::<5>() {
            let [tag, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            let length_max = if matches!(self.phase, ConnectionPhase::Greeting(_) | ConnectionPhase::Refused(_)) {
                GREETING_BYTES_MAX
            } else {
                MESSAGE_BYTES_MAX
            };
            let Some(body_length) = length.checked_sub(4).filter(|_| length <= length_max) else {
                let error = stranger(&self.login.place, &bytes[at..]);
                self.fail(error, done);
                return bytes.len();
            };
            let Some(body) = rest.get(..body_length) else {
                if tag == b'D' && self.discards_rows() {
                    self.answer.rows += 1;
                    self.skip_bytes = body_length - rest.len();
                    return bytes.len();
                }
                let answer_bytes = self.answer_bytes + body_length;
                if answer_bytes > self.answer_max {
                    let error = self.too_large(None, answer_bytes);
                    self.fail(error, done);
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
        if !matches!(self.phase, ConnectionPhase::Closed) {
            out.extend_from_slice(&TERMINATE);
        }
        self.phase = ConnectionPhase::Closed;
    }
}
