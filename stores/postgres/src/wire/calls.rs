//! A session that is asked call by call: in plain text, or several kinds as one operation.

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, StoreError, StoreErrorKind, Ticket, WireState};
use plimsoll_endpoint::{Asked, TextSession};

use super::message::{SYNC, cstr, frame};
use super::opening::ConnectionPhase;
use super::session::{InFlight, PgSession, What};

impl Asked for PgSession {
    fn is_asked(&self) -> bool {
        !self.queue.is_empty()
    }

    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
        self.phase = ConnectionPhase::Closed;
        while let Some(op) = self.queue.pop_front() {
            if matches!(op.what, What::Settings) {
                continue;
            }
            if self.answer.code.is_empty() && self.answer.message.is_empty() {
                self.answer.fail(Outcome::Unknown, "", &error.to_string());
            }
            done.push(op.ticket, Outcome::Unknown, &self.answer);
        }
        self.state = WireState::Failed(error);
    }
}

impl TextSession for PgSession {
    /// All rows of all statements come in one answer.
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        frame(out, b'Q', |out| cstr(out, text));
        self.queue.push_back(InFlight { ticket, what: What::Text, commands: 0, synced: true, joined: None });
    }

    /// Classed by SQLSTATE.
    fn rejected(place: &str, answer: &Answer) -> StoreError {
        let kind = match answer.code.as_str() {
            "42501" => StoreErrorKind::Permission,
            "53100" => StoreErrorKind::DiskFull,
            code if code.starts_with("57P0") || code.starts_with("08") => StoreErrorKind::Unreachable,
            code if code.starts_with("XX") || code.starts_with("58") => StoreErrorKind::Broken,
            _ => StoreErrorKind::Store,
        };
        StoreError::new(kind, format!("{place} says: {}", answer.message)).detail(answer.code.clone())
    }
}

impl PgSession {
    /// Appends operations of several kinds as one: all in one transaction, their rows in one answer. Kinds
    /// that return rows must not be mixed with kinds of other columns; the last one decides how they are read.
    /// Not with [`super::Protocol::Simple`].
    pub(crate) fn start_together<'a>(&mut self, ticket: Ticket, ops: impl Iterator<Item = Op<'a>>, out: &mut Vec<u8>) {
        let mut commands = 0;
        let mut kind = 0;
        for op in ops {
            kind = op.kind;
            commands += self.kinds[usize::from(kind)].execute(op.params, out);
        }
        out.extend_from_slice(&SYNC);
        self.queue.push_back(InFlight { ticket, what: What::Kind(kind), commands, synced: true, joined: None });
    }
}
