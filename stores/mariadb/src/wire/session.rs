//! The session: what is asked, how answers are read, what errors make of it.

use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Address, Answer, CompletionSink, Layout, Op, OpKind, Outcome, StoreError, Ticket, WireSession,
    WireState,
};
use plimsoll_endpoint::Asked;
use plimsoll_endpoint::tls::Tls;

use super::auth::Login;
use super::calls::Transaction;
use super::opening::{AT_PRIMARY, ConnectionPhase};
use super::packet::{
    self, COM_QUIT, Completion, GREETING_BYTES_MAX, HEADER_BYTES, MORE_RESULTS, PACKET_BYTES_MAX, Reader, broken,
    read_length, unexpected,
};
use super::statement::Prepared;
use super::value::{Code, decode_row, decode_text_row};
use crate::sql;

/// Most columns of an answer: both servers have at most 4,096.
const COLUMNS_MAX: usize = 4_096;

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A prepared kind and its statement, by position.
    Statement(usize, usize),
    /// A statement as text, or an empty round trip.
    Simple,
}

/// Part of a reply that the next message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Expect {
    /// Beginning of the reply.
    #[default]
    Answer,
    /// A column's definition; this many are left, and this many there are.
    Column(usize, usize),
    /// End of the definitions, of a server that sends it.
    ColumnsEnd,
    /// A row, or the end of rows.
    Row,
}

/// A connection to MariaDB or MySQL. See the module for what it speaks.
///
/// One operation at a time: the protocol has no pipeline. Errors that leave open whether a statement was done are
/// [`Outcome::Unknown`], as is what is in flight when the connection fails.
#[derive(Default)]
pub struct MySession {
    pub(super) login: Arc<Login>,
    layout: Arc<Layout>,
    /// Statements run once before anything is prepared.
    pub(super) settings: Vec<String>,
    /// Servers that it goes to in turn, whenever a connection is lost; none where it has one.
    turns: Option<(Arc<[Address]>, usize)>,
    /// The server refuses what changes tables.
    pub(super) read_only: bool,
    pub(super) state: WireState,
    pub(super) phase: ConnectionPhase,
    pub(super) kinds: Vec<Prepared>,
    /// The server leaves out definitions of columns that it has sent already, and says so.
    pub(super) caches_definitions: bool,
    /// Definitions and rows end with an EOF_Packet, as before MySQL 5.7.
    pub(super) has_eof: bool,
    /// The number of the next packet.
    pub(super) number: u8,
    /// Lower half of the connection's number in the server's greeting.
    pub(crate) greeted: u32,
    /// TLS, if it was agreed on; `None` while the session reads or writes through it.
    pub(super) tls: Option<Box<Tls>>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) expect: Expect,
    /// Bytes of a skipped row that have not arrived yet, and whether that row continues in the next packet.
    skip_bytes: usize,
    skips_on: bool,
    /// A message of several packets.
    long: Vec<u8>,
    /// Answer in progress: rows and errors, outcome, bytes of rows.
    pub(super) answer: Answer,
    /// Most bytes of rows that are kept of one answer, and of any message.
    pub(super) answer_max: usize,
    pub(super) outcome: Outcome,
    kept_bytes: usize,
    /// Columns of a [`What::Simple`] answer.
    simple_columns: Vec<Code>,
    /// Messages that follow one by one when what was sent before has been done, and how far that has come.
    pub(super) follow: Vec<u8>,
    pub(super) follow_at: usize,
    pub(super) transaction: Transaction,
}

impl MySession {
    /// A session that logs in as `login`, runs each of `settings` and prepares kinds over the tables of `layout`.
    pub fn new(login: Arc<Login>, layout: Arc<Layout>, settings: Vec<String>) -> Self {
        Self { login, layout, settings, answer_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// Makes the server refuse statements that change tables.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Makes a session over the servers at these addresses. The one at `first` is asked first, and the next when it is lost.
    #[must_use]
    pub fn in_turn(self, servers: Arc<[Address]>, first: usize) -> Self {
        Self { turns: Some((servers, first)), ..self }
    }

    /// Makes a session that opens only at a server that takes writes.
    #[must_use]
    pub fn at_primary(mut self) -> Self {
        self.settings.push(AT_PRIMARY.to_owned());
        self
    }

    /// Calls `write` for the session, with encryption if that was agreed on.
    #[inline]
    pub(super) fn write(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let Some(mut tls) = self.tls.take() else { return write(self, out) };
        write(self, &mut tls.written);
        tls.encrypt(out);
        self.tls = Some(tls);
    }

    #[inline]
    pub(super) fn asked(&mut self, ticket: Ticket, what: What, number: u8) {
        self.in_flight = Some(InFlight { ticket, what });
        self.expect = Expect::Answer;
        self.number = number;
    }

    /// Handles a message. An error ends the connection.
    #[inline]
    fn take(&mut self, payload: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        match self.phase {
            ConnectionPhase::Ready => self.take_answer(payload, out, done),
            _ => self.take_opening(payload, out),
        }
    }

    #[inline]
    fn take_answer(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let Some(current) = self.in_flight else {
            return Err(match payload.first() {
                Some(0xff) => self.ended(payload),
                _ => unexpected(payload, "while nothing was asked"),
            });
        };
        let first = payload.first().copied();
        match (self.expect, first) {
            (_, Some(0xff)) => self.take_error(payload, out, done),
            (Expect::Row, Some(0xfe)) if payload.len() < PACKET_BYTES_MAX => self.complete(payload, current, out, done),
            (Expect::Row, Some(_)) => self.take_row(current, payload),
            (Expect::Answer, Some(0x00)) => self.complete(payload, current, out, done),
            (Expect::Answer, Some(0xfb)) => Err(StoreError::usage(format!(
                "{} wants a file of this machine (LOCAL), which is not sent",
                self.describe(current)
            ))),
            (Expect::Answer, Some(1..=0xfd)) => self.take_column_count(current, payload),
            (Expect::Column(left, all), Some(_)) => self.take_column(current, payload, left, all),
            (Expect::ColumnsEnd, Some(0xfe)) => {
                self.expect = Expect::Row;
                Ok(())
            }
            _ => Err(unexpected(payload, "in an answer")),
        }
    }

    #[inline]
    fn take_column_count(&mut self, current: InFlight, payload: &[u8]) -> Result<(), StoreError> {
        let mut reader = Reader(payload);
        let count = read_length(&mut reader).and_then(|count| usize::try_from(count).ok());
        let follow = if self.caches_definitions { reader.u8() } else { Some(1) };
        let (Some(count), Some(follow), []) = (count, follow, reader.0) else {
            return Err(unexpected(payload, "at an answer's beginning"));
        };
        if count > COLUMNS_MAX {
            return Err(unexpected(payload, "at an answer's beginning"));
        }
        // Another answer to the same command: the last one counts.
        self.answer.values.clear();
        self.answer.columns = count;
        match current.what {
            What::Statement(kind, statement) => {
                let known = &mut self.kinds[kind].statements[statement].columns;
                if follow == 0 && known.len() != count {
                    return Err(unexpected(payload, "in place of the definitions of columns"));
                }
                known.resize(count, Code::Null);
            }
            What::Simple => {
                // All are texts, whatever the server calls them.
                self.simple_columns.clear();
                self.simple_columns.resize(count, Code::Text);
            }
        }
        self.expect = if follow == 0 { Expect::Row } else { Expect::Column(count, count) };
        Ok(())
    }

    #[inline]
    fn take_column(&mut self, current: InFlight, payload: &[u8], left: usize, all: usize) -> Result<(), StoreError> {
        let Some(code) = Code::of_definition(payload) else {
            return Err(unexpected(payload, "in place of a column's definition"));
        };
        if let What::Statement(kind, statement) = current.what
            && let Some(known) = self.kinds[kind].statements[statement].columns.get_mut(all - left)
        {
            *known = code;
        }
        self.expect = match left {
            0 | 1 if self.has_eof => Expect::ColumnsEnd,
            0 | 1 => Expect::Row,
            _ => Expect::Column(left - 1, all),
        };
        Ok(())
    }

    #[inline]
    fn take_row(&mut self, current: InFlight, payload: &[u8]) -> Result<(), StoreError> {
        self.answer.rows += 1;
        let is_row = match current.what {
            What::Statement(kind, _) if !self.kinds[kind].keep_answer => return Ok(()),
            _ if self.kept_bytes + payload.len() > self.answer_max => {
                let error = self.too_large(self.kept_bytes + payload.len());
                return Err(error.detail(self.describe(current)));
            }
            What::Statement(kind, position) => {
                let statement = &self.kinds[kind].statements[position];
                if statement.plain {
                    decode_text_row(payload, &statement.columns, &mut self.answer.values)
                } else {
                    decode_row(payload, &statement.columns, &mut self.answer.values)
                }
            }
            What::Simple => decode_text_row(payload, &self.simple_columns, &mut self.answer.values),
        };
        self.kept_bytes += payload.len();
        if is_row {
            Ok(())
        } else {
            Err(broken(format!("the server answered {} with a row that is not of its columns", self.describe(current))))
        }
    }

    /// A statement is done: the next one, or the operation is.
    #[inline]
    fn complete(
        &mut self,
        payload: &[u8],
        current: InFlight,
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let is_eof = self.has_eof && self.expect == Expect::Row;
        let completion = if is_eof { Completion::parse_eof(payload) } else { Completion::parse(payload) };
        let Some(completion) = completion else {
            return Err(unexpected(payload, "at an answer's end"));
        };
        if completion.status & MORE_RESULTS != 0 {
            self.expect = Expect::Answer;
            return Ok(());
        }
        if self.transaction == Transaction::Own {
            if self.go_on(out) {
                return Ok(());
            }
            self.transaction = Transaction::None;
        } else if self.transaction == Transaction::RollingBack {
            self.transaction = Transaction::None;
        } else if let What::Statement(kind, _) = current.what
            && self.kinds[kind].empty_is_not_found
            && completion.affected_rows == 0
            && self.answer.rows == 0
        {
            self.outcome = Outcome::NotFound;
        }
        self.finish(current, done);
        Ok(())
    }

    #[inline]
    pub(super) fn finish(&mut self, current: InFlight, done: &mut dyn CompletionSink) {
        self.in_flight = None;
        done.push(current.ticket, self.outcome, &self.answer);
        self.reset_answer();
    }

    #[inline]
    pub(super) fn reset_answer(&mut self) {
        self.answer.clear();
        self.outcome = Outcome::Ok;
        self.kept_bytes = 0;
    }

    fn describe(&self, current: InFlight) -> String {
        match current.what {
            What::Statement(kind, _) => format!("operation `{}`", self.kinds[kind].name),
            What::Simple => "a plain statement".to_owned(),
        }
    }

    /// True when the operation being answered keeps no rows: they need not be buffered whole.
    #[inline]
    fn discards_rows(&self) -> bool {
        match (&self.phase, self.in_flight, self.expect) {
            (ConnectionPhase::Ready, Some(InFlight { what: What::Statement(kind, position), .. }), Expect::Row) => {
                let kind = &self.kinds[kind];
                !kind.keep_answer && !kind.statements[position].plain
            }
            _ => false,
        }
    }

    /// Puts a message of several packets together. Returns its length with all headers; `None` when some of it has not
    /// arrived.
    #[cold]
    fn assemble(&mut self, bytes: &[u8]) -> Result<Option<usize>, StoreError> {
        self.long.clear();
        let (mut at, mut number) = (0, self.number);
        while let Some((head, rest)) = bytes[at..].split_first_chunk() {
            let (length, found) = packet::header(*head);
            if found != number {
                return Err(self.implausible(&bytes[at..]));
            }
            let answer_bytes = self.kept_bytes + self.long.len() + length;
            if answer_bytes > self.answer_max {
                return Err(self.too_large(answer_bytes));
            }
            let Some(payload) = rest.get(..length) else { return Ok(None) };
            self.long.extend_from_slice(payload);
            at += HEADER_BYTES + length;
            number = number.wrapping_add(1);
            if length < PACKET_BYTES_MAX {
                self.number = number;
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Takes what arrived up to the first message of which some is missing; returns the number of bytes taken.
    #[inline]
    fn take_all(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<usize, StoreError> {
        let mut at = self.skip_bytes.min(bytes.len());
        self.skip_bytes -= at;
        while let Some((head, rest)) = bytes[at..].split_first_chunk() {
            let (length, number) = packet::header(*head);
            let greets = matches!(
                self.phase,
                ConnectionPhase::Greeting | ConnectionPhase::Authenticating(_) | ConnectionPhase::Refused(_)
            );
            if number != self.number || (greets && length > GREETING_BYTES_MAX) {
                return Err(self.implausible(&bytes[at..]));
            }
            let is_row = rest.first() == Some(&0) && self.discards_rows();
            if self.skips_on || (is_row && (rest.len() < length || length == PACKET_BYTES_MAX)) {
                self.answer.rows += u64::from(!self.skips_on);
                self.skips_on = length == PACKET_BYTES_MAX;
                self.number = number.wrapping_add(1);
                let there = length.min(rest.len());
                self.skip_bytes = length - there;
                at += HEADER_BYTES + there;
                continue;
            }
            if length == PACKET_BYTES_MAX {
                let Some(taken) = self.assemble(&bytes[at..])? else { return Ok(at) };
                at += taken;
                let long = std::mem::take(&mut self.long);
                let result = self.take(&long, out, done);
                self.long = long;
                result?;
                continue;
            }
            let Some(payload) = rest.get(..length) else {
                let answer_bytes = self.kept_bytes + length;
                return if answer_bytes > self.answer_max { Err(self.too_large(answer_bytes)) } else { Ok(at) };
            };
            at += HEADER_BYTES + length;
            self.number = number.wrapping_add(1);
            let encrypted = self.tls.is_some();
            self.take(payload, out, done)?;
            // What came in clear behind the greeting is not the server's: it waits for us now.
            if self.tls.is_some() != encrypted && at < bytes.len() {
                return Err(self.implausible(&bytes[at..]));
            }
        }
        Ok(at)
    }
}

impl WireSession for MySession {
    fn moves(&self) -> bool {
        self.turns.is_some()
    }

    fn next_address(&mut self) -> Option<Address> {
        let (servers, next) = self.turns.as_mut()?;
        *next += 1;
        servers.get((*next - 1) % servers.len()).cloned()
    }

    fn open(&mut self, kinds: &[OpKind], _: &mut Vec<u8>) {
        self.in_flight = None;
        self.reset_answer();
        self.skip_bytes = 0;
        self.skips_on = false;
        self.number = 0;
        self.tls = None;
        self.transaction = Transaction::None;
        self.kinds.clear();
        let mut refused = None;
        for kind in kinds {
            match sql::compile(kind, &self.layout) {
                Ok(compiled) => self.kinds.push(Prepared::new(kind, compiled)),
                Err(error) => refused = Some(error),
            }
        }
        // An executor looks at the state when bytes arrive, so it must not fail before.
        self.phase = refused.map_or(ConnectionPhase::Greeting, ConnectionPhase::Refused);
        self.state = WireState::Opening;
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.answer_max = bytes_max;
    }

    fn depth_max(&self) -> u32 {
        1
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        self.write(out, |session, out| session.start_plain(ticket, op, out));
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let taken = match self.tls.take() {
            None => self.take_all(bytes, out, done),
            Some(mut tls) => {
                let (decrypted, mut taken) = (tls.decrypt(bytes, out), Ok(0));
                tls.hand_over(out, |arrived, written| {
                    taken = self.take_all(arrived, written, done);
                    taken.as_ref().copied().unwrap_or(0)
                });
                self.tls = Some(tls);
                // What was said before it broke is heard first.
                taken.and(decrypted).map(|()| bytes.len())
            }
        };
        match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.fail(error, done);
                bytes.len()
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.phase, ConnectionPhase::Ready) {
            self.write(out, |_, out| {
                packet::command(out, COM_QUIT, &[]);
            });
        }
        if let Some(tls) = &mut self.tls {
            tls.close(out);
        }
        self.phase = ConnectionPhase::Closed;
    }
}
