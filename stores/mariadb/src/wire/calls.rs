//! Bytes of an operation: a statement or several, or a text; and a session that is asked call by call.

use plimsoll_core::tables::Shape;
use plimsoll_core::{
    Answer, CompletionSink, Op, Outcome, StoreError, StoreErrorKind, Ticket, Value, Values, WireState,
};
use plimsoll_endpoint::{Asked, TextSession};

use super::opening::{ConnectionPhase, kind_of_number};
use super::packet::{self, COM_PING, COM_QUERY, HEADER_BYTES, PACKET_BYTES_MAX};
use super::session::{Expect, MySession, What};

/// A transaction that the session itself began, for an insert of several statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Transaction {
    #[default]
    None,
    Own,
    RollingBack,
}

impl Asked for MySession {
    fn is_asked(&self) -> bool {
        self.in_flight.is_some()
    }

    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
        self.phase = ConnectionPhase::Closed;
        if let Some(in_flight) = self.in_flight.take() {
            if self.answer.code.is_empty() && self.answer.message.is_empty() {
                self.answer.fail(Outcome::Unknown, "", &error.to_string());
            }
            done.push(in_flight.ticket, Outcome::Unknown, &self.answer);
        }
        self.state = WireState::Failed(error);
    }
}

impl TextSession for MySession {
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        self.write(out, |session, out| session.command(ticket, What::Simple, COM_QUERY, text.as_bytes(), out));
    }

    /// Classed by its number.
    fn rejected(place: &str, answer: &Answer) -> StoreError {
        let state = answer.message.get(..5).filter(|_| answer.message.get(5..7) == Some(": ")).unwrap_or_default();
        let kind = match kind_of_number(answer.code.parse().unwrap_or(0), state.as_bytes()) {
            // Statements here are ours: that one is wrong is no mistake of the user's.
            StoreErrorKind::Usage => StoreErrorKind::Store,
            kind => kind,
        };
        StoreError::new(kind, format!("{place} says: {}", answer.message)).detail(answer.code.clone())
    }
}

impl MySession {
    /// Appends what starts an operation, before it is encrypted.
    #[inline]
    pub(super) fn start_plain(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let kind = usize::from(op.kind);
        let prepared = &self.kinds[kind];
        let (position, params) = match prepared.shape {
            Shape::One => (0, op.params),
            Shape::Bounds => prepared.shape.statement(op.params),
            Shape::Repeated(width) => return self.start_records(ticket, kind, width, op.params, out),
            Shape::Text => {
                // A value of another type is an empty statement, which the server refuses.
                let text = if let Value::Text(text) = op.params.get(0) { text.as_bytes() } else { &[] };
                return self.command(ticket, What::Statement(kind, 0), COM_QUERY, text, out);
            }
            Shape::Nothing => return self.command(ticket, What::Simple, COM_PING, &[], out),
        };
        let number = prepared.statements[position].execute(params, out);
        self.asked(ticket, What::Statement(kind, position), number);
    }

    fn command(&mut self, ticket: Ticket, what: What, command: u8, argument: &[u8], out: &mut Vec<u8>) {
        let number = packet::command(out, command, argument);
        self.asked(ticket, what, number);
    }

    /// Appends what inserts records, `width` parameters each. Where no single statement takes them all, that is a
    /// transaction whose statements go one by one: a statement must not be done after one before it was not.
    fn start_records(&mut self, ticket: Ticket, kind: usize, width: usize, params: Values<'_>, out: &mut Vec<u8>) {
        let statements = &self.kinds[kind].statements;
        let parameters = params.len().div_ceil(width.max(1)) * width;
        if parameters == 0 {
            return self.command(ticket, What::Simple, COM_PING, &[], out);
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
        self.transaction = Transaction::Own;
        self.command(ticket, What::Statement(kind, 0), COM_QUERY, b"START TRANSACTION", out);
    }

    /// Appends the next of the messages that follow; false when there is none.
    pub(super) fn go_on(&mut self, out: &mut Vec<u8>) -> bool {
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
}
