//! The session: what is asked, how answers are read, what errors make of it.

use std::sync::Arc;

use plimsoll_core::tables::Shape;
use plimsoll_core::{
    ANSWER_BYTES_MAX, Answer, Done, Layout, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, Value, Values,
    WireSession, WireState,
};

use super::auth::Login;
use super::opening::ConnectionPhase;
use super::packet::{
    self, COM_PING, COM_QUERY, COM_QUIT, Completion, GREETING_BYTES_MAX, HEADER_BYTES, MORE_RESULTS, PACKET_BYTES_MAX,
    Reader, ServerError, broken, unexpected,
};
use super::statement::Prepared;
use super::value::{Code, decode_row, decode_text_row, digits};
use crate::sql;
use plimsoll_endpoint::tls::Tls;

/// Most columns of an answer: both servers have at most 4,096.
const COLUMNS_MAX: usize = 4_096;

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    ticket: Ticket,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// A prepared kind and its statement, by position.
    Statement(usize, usize),
    /// A statement as text, or an empty round trip.
    Simple,
}

/// What the next message of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// Its beginning.
    Answer,
    /// A column's definition; this many are left, and this many there are.
    Column(usize, usize),
    /// What ends the definitions, of a server that says so.
    ColumnsEnd,
    /// A row, or the end of rows.
    Row,
}

/// A transaction that the session itself began, for an insert of several statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    None,
    Own,
    RollingBack,
}

/// A connection to MariaDB or MySQL. See the module for what it speaks.
///
/// One operation at a time: the protocol has no pipeline. Errors that leave open whether a statement was done are
/// [`Outcome::Unknown`], as is what is in flight when the connection fails.
pub struct MySession {
    pub(super) login: Arc<Login>,
    layout: Arc<Layout>,
    /// Statements run once before anything is prepared.
    pub(super) settings: Vec<String>,
    pub(super) state: WireState,
    pub(super) phase: ConnectionPhase,
    pub(super) kinds: Vec<Prepared>,
    /// The server leaves out definitions of columns that it has sent already, and says so.
    pub(super) caches_definitions: bool,
    /// Definitions and rows end with an EOF_Packet, as before MySQL 5.7.
    pub(super) has_eof: bool,
    /// The number of the next packet.
    pub(super) number: u8,
    /// Once it was agreed on. Then `arrived` is what it has decrypted and nobody has used, and `written` what is still
    /// to be encrypted, empty between two calls.
    pub(super) tls: Option<Tls>,
    arrived: Vec<u8>,
    pub(super) written: Vec<u8>,
    in_flight: Option<InFlight>,
    expect: Expect,
    /// Bytes of a row nobody wants that have not arrived yet, and whether that row goes on in the next packet.
    skip_bytes: usize,
    skips_on: bool,
    /// A message of several packets.
    long: Vec<u8>,
    /// Of the operation that is being answered: rows and errors, outcome, bytes of rows.
    answer: Answer,
    /// Most bytes of rows that are kept of one answer, and of any message.
    answer_max: usize,
    outcome: Outcome,
    kept_bytes: usize,
    /// Columns of a [`What::Simple`] answer.
    simple_columns: Vec<Code>,
    /// Messages that follow one by one when what was sent before has been done, and how far that has come.
    follow: Vec<u8>,
    follow_at: usize,
    transaction: Transaction,
}

impl MySession {
    /// A session that logs in as `login`, runs each of `settings` and prepares kinds over the tables of `layout`.
    pub fn new(login: Arc<Login>, layout: Arc<Layout>, settings: Vec<String>) -> Self {
        Self {
            login,
            layout,
            settings,
            state: WireState::Opening,
            phase: ConnectionPhase::Closed,
            kinds: Vec::new(),
            caches_definitions: false,
            has_eof: false,
            number: 0,
            tls: None,
            arrived: Vec::new(),
            written: Vec::new(),
            in_flight: None,
            expect: Expect::Answer,
            skip_bytes: 0,
            skips_on: false,
            long: Vec::new(),
            answer: Answer::default(),
            answer_max: ANSWER_BYTES_MAX,
            outcome: Outcome::Ok,
            kept_bytes: 0,
            simple_columns: Vec::new(),
            follow: Vec::new(),
            follow_at: 0,
            transaction: Transaction::None,
        }
    }

    /// Appends a statement as text. Its values come back as texts.
    pub(crate) fn start_simple(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        let mut plain = std::mem::take(&mut self.written);
        let number = packet::command(&mut plain, COM_QUERY, text.as_bytes());
        self.asked(ticket, What::Simple, number);
        self.written = plain;
        self.send_written(out);
    }

    /// Appends what was written, encrypted if that was agreed on.
    fn send_written(&mut self, out: &mut Vec<u8>) {
        match &mut self.tls {
            Some(tls) if !self.written.is_empty() => tls.send(&self.written, out),
            Some(_) => {}
            None => out.extend_from_slice(&self.written),
        }
        self.written.clear();
    }

    /// True while an operation is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    #[inline]
    fn asked(&mut self, ticket: Ticket, what: What, number: u8) {
        self.in_flight = Some(InFlight { ticket, what });
        self.expect = Expect::Answer;
        self.number = number;
    }

    /// Appends what inserts records, `width` parameters each. Where no single statement takes them all, that is a
    /// transaction whose statements go one by one: a statement must not be done after one before it was not.
    fn start_records(&mut self, ticket: Ticket, kind: usize, width: usize, params: Values<'_>, out: &mut Vec<u8>) {
        let statements = &self.kinds[kind].statements;
        let records = params.len().div_ceil(width.max(1));
        let parameters = records * width;
        if records == 0 {
            let number = packet::command(out, COM_PING, &[]);
            return self.asked(ticket, What::Simple, number);
        }
        if let Some(position) = statements.iter().position(|statement| statement.text.parameters.len() == parameters) {
            let number = statements[position].execute(params, out);
            return self.asked(ticket, What::Statement(kind, position), number);
        }
        self.follow.clear();
        self.follow_at = 0;
        let mut at = 0;
        while at < parameters {
            // The first one takes a single record, so that there always is one.
            let fits = |position: &usize| statements[*position].text.parameters.len() <= parameters - at;
            let position = (0..statements.len()).rev().find(fits).unwrap_or(0);
            let size = statements[position].text.parameters.len().max(width);
            statements[position].execute(params.slice(at..at + size), &mut self.follow);
            at += size;
        }
        packet::command(&mut self.follow, COM_QUERY, b"COMMIT");
        let number = packet::command(out, COM_QUERY, b"START TRANSACTION");
        self.transaction = Transaction::Own;
        self.asked(ticket, What::Statement(kind, 0), number);
    }

    /// Appends a statement that comes as a parameter. What is no text is an empty statement, which the server refuses.
    fn start_text(&mut self, ticket: Ticket, kind: usize, params: Values<'_>, out: &mut Vec<u8>) {
        let text = match params.get(0) {
            Value::Text(text) => text.as_bytes(),
            _ => &[],
        };
        let number = packet::command(out, COM_QUERY, text);
        self.asked(ticket, What::Statement(kind, 0), number);
    }

    /// Appends the next of the messages that follow; false when there is none.
    fn go_on(&mut self, out: &mut Vec<u8>) -> bool {
        let mut packets = 0_u8;
        while let Some((head, _)) = self.follow.get(self.follow_at..).and_then(|rest| rest.split_first_chunk()) {
            let (length, _) = packet::header(*head);
            let end = self.follow_at + HEADER_BYTES + length;
            out.extend_from_slice(&self.follow[self.follow_at..end]);
            self.follow_at = end;
            packets = packets.wrapping_add(1);
            if length < PACKET_BYTES_MAX {
                self.number = packets;
                self.expect = Expect::Answer;
                return true;
            }
        }
        false
    }

    /// Ends the connection for good: what is in flight is unknown.
    #[cold]
    pub(crate) fn end(&mut self, error: StoreError, done: &mut dyn Done) {
        self.phase = ConnectionPhase::Closed;
        if let Some(in_flight) = self.in_flight.take() {
            if self.answer.code.is_empty() && self.answer.message.is_empty() {
                self.answer.message.push_str(&error.to_string());
            }
            self.answer.values.clear();
            self.answer.rows = 0;
            done.push(in_flight.ticket, Outcome::Unknown, &self.answer);
        }
        self.state = WireState::Failed(error);
    }

    /// One message. An error ends the connection.
    #[inline]
    fn take(&mut self, payload: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> Result<(), StoreError> {
        match self.phase {
            ConnectionPhase::Ready => self.take_answer(payload, out, done),
            _ => self.take_opening(payload, out),
        }
    }

    #[inline]
    fn take_answer(&mut self, payload: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> Result<(), StoreError> {
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
            (Expect::Answer, Some(0xfb)) => Err(StoreError::new(
                StoreErrorKind::Usage,
                format!("{} wants a file of this machine (LOCAL), which is not sent", self.describe(current)),
            )),
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
        let count = reader.length_encoded().and_then(|count| usize::try_from(count).ok());
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
        let known = match current.what {
            What::Statement(kind, statement) => &mut self.kinds[kind].statements[statement].columns,
            What::Simple => {
                // All are texts, whatever the server calls them.
                self.simple_columns.clear();
                self.simple_columns.resize(count, Code::Text);
                return self.expect_columns(count, follow);
            }
        };
        if follow == 0 && known.len() != count {
            return Err(unexpected(payload, "in place of the definitions of columns"));
        }
        known.resize(count, Code::Null);
        self.expect_columns(count, follow)
    }

    #[inline]
    fn expect_columns(&mut self, count: usize, follow: u8) -> Result<(), StoreError> {
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
                if statement.is_plain() {
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
        done: &mut dyn Done,
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
    fn finish(&mut self, current: InFlight, done: &mut dyn Done) {
        self.in_flight = None;
        done.push(current.ticket, self.outcome, &self.answer);
        self.reset_answer();
    }

    #[inline]
    fn reset_answer(&mut self) {
        self.answer.clear();
        self.outcome = Outcome::Ok;
        self.kept_bytes = 0;
    }

    #[cold]
    fn take_error(&mut self, payload: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> Result<(), StoreError> {
        let error = ServerError::parse(payload).ok_or_else(|| unexpected(payload, "in an answer"))?;
        if self.transaction == Transaction::RollingBack {
            return Err(broken(format!("{} would not roll back", self.login.place)).detail(error.number_and_words()));
        }
        self.answer.values.clear();
        self.answer.columns = 0;
        self.answer.rows = 0;
        let outcome = if error.leaves_open() { Outcome::Unknown } else { Outcome::Rejected };
        let (code, length) = digits(error.number);
        let code = std::str::from_utf8(&code[..length]).unwrap_or_default();
        self.outcome = self.answer.fail(outcome, code, &error.words());
        // A deadlock, or a lock that was waited for too long.
        self.answer.gave_way = matches!(error.number, 1213 | 1205);
        if error.ends_connection() {
            return Err(self.ended(payload));
        }
        if self.transaction == Transaction::Own {
            self.transaction = Transaction::RollingBack;
            self.number = packet::command(out, COM_QUERY, b"ROLLBACK");
            self.expect = Expect::Answer;
        } else if let Some(current) = self.in_flight {
            self.finish(current, done);
        }
        Ok(())
    }

    /// What an error makes of the connection that ends it, or comes while nothing was asked.
    #[cold]
    fn ended(&self, payload: &[u8]) -> StoreError {
        let place = &self.login.place;
        match ServerError::parse(payload) {
            Some(error) => StoreError::new(StoreErrorKind::Unreachable, format!("{place} ended the connection"))
                .detail(error.number_and_words()),
            None => unexpected(payload, "while nothing was asked"),
        }
    }

    #[cold]
    fn too_large(&self, bytes: usize) -> StoreError {
        StoreError::answer_too_large(&self.login.place, Some(bytes as u64), self.answer_max)
    }

    fn describe(&self, current: InFlight) -> String {
        match current.what {
            What::Statement(kind, _) => format!("operation `{}`", self.kinds[kind].name),
            What::Simple => "a plain statement".to_owned(),
        }
    }

    /// What arrived does not look like this protocol.
    #[cold]
    fn implausible(&self, bytes: &[u8]) -> StoreError {
        broken(format!("{} answered what no MariaDB or MySQL server answers", self.login.place))
            .detail(format!("it began with `{}`", bytes[..bytes.len().min(64)].escape_ascii()))
    }

    /// True when the operation being answered keeps no rows: they need not be buffered whole.
    #[inline]
    fn discards_rows(&self) -> bool {
        match (&self.phase, self.in_flight, self.expect) {
            (ConnectionPhase::Ready, Some(InFlight { what: What::Statement(kind, position), .. }), Expect::Row) => {
                let kind = &self.kinds[kind];
                !kind.keep_answer && !kind.statements[position].is_plain()
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

    /// Takes what arrived encrypted, all of it.
    fn take_encrypted(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> Result<(), StoreError> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let decrypted = tls.feed(bytes, &mut self.arrived, out);
        let arrived = std::mem::take(&mut self.arrived);
        let mut written = std::mem::take(&mut self.written);
        let taken = self.take_all(&arrived, &mut written, done);
        self.written = written;
        self.arrived = arrived;
        // What was said before it broke is heard first.
        self.arrived.drain(..taken?);
        self.send_written(out);
        decrypted
    }

    /// Takes what arrived up to the first message of which some is missing; returns the number of bytes taken.
    #[inline]
    fn take_all(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> Result<usize, StoreError> {
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
            if self.tls.is_some() != encrypted {
                // What came in clear behind the greeting is not the server's: it waits for us now.
                if at < bytes.len() {
                    return Err(self.implausible(&bytes[at..]));
                }
                self.send_written(out);
            }
        }
        Ok(at)
    }
}

impl WireSession for MySession {
    fn open(&mut self, kinds: &[OpKind], _: &mut Vec<u8>) {
        self.in_flight = None;
        self.reset_answer();
        self.skip_bytes = 0;
        self.skips_on = false;
        self.number = 0;
        self.tls = None;
        self.arrived.clear();
        self.written.clear();
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
        if self.tls.is_none() {
            return self.start_plain(ticket, op, out);
        }
        let mut written = std::mem::take(&mut self.written);
        self.start_plain(ticket, op, &mut written);
        self.written = written;
        self.send_written(out);
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let taken = match self.tls {
            None => self.take_all(bytes, out, done),
            Some(_) => self.take_encrypted(bytes, out, done).map(|()| bytes.len()),
        };
        match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.end(error, done);
                bytes.len()
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.phase, ConnectionPhase::Ready) {
            packet::command(&mut self.written, COM_QUIT, &[]);
            self.send_written(out);
        }
        if let Some(tls) = &mut self.tls {
            tls.close(out);
        }
        self.phase = ConnectionPhase::Closed;
    }
}

impl MySession {
    /// Appends what starts an operation, before it is encrypted.
    #[inline]
    fn start_plain(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let kind = usize::from(op.kind);
        let prepared = &self.kinds[kind];
        let (position, params) = match prepared.shape {
            Shape::One => (0, op.params),
            Shape::Bounds => prepared.shape.statement(op.params),
            Shape::Repeated(width) => return self.start_records(ticket, kind, width, op.params, out),
            Shape::Text => return self.start_text(ticket, kind, op.params, out),
            Shape::Nothing => {
                let number = packet::command(out, COM_PING, &[]);
                return self.asked(ticket, What::Simple, number);
            }
        };
        let number = prepared.statements[position].execute(params, out);
        self.asked(ticket, What::Statement(kind, position), number);
    }
}
