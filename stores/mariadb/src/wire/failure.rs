//! Effects of errors and of malformed replies on the operation and the connection.

use std::fmt::Write as _;

use plimsoll_core::tables::Shape;
use plimsoll_core::{CompletionSink, NO_SPACE, Outcome, StoreError, StoreErrorKind};

use super::calls::Transaction;
use super::opening::kind_of_number;
use super::packet::{self, COM_QUERY, NOT_PREPARED, ServerError, broken, unexpected};
use super::session::{Expect, InFlight, MySession, What};

impl MySession {
    #[cold]
    pub(super) fn take_error(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let error = ServerError::parse(payload).ok_or_else(|| unexpected(payload, "in an answer"))?;
        if self.transaction == Transaction::RollingBack {
            return Err(broken(format!("{} would not roll back", self.login.place)).detail(error.number_and_words()));
        }
        let outcome = if error.leaves_open() { Outcome::Unknown } else { Outcome::Rejected };
        self.outcome = self.answer.fail(outcome, "", &error.words());
        // Writing to a string cannot fail.
        let _ = write!(self.answer.code, "{}", error.number);
        // A deadlock, or a lock that was waited for too long.
        self.answer.gave_way = matches!(error.number, 1213 | 1205);
        // Errors of a storage engine have its own words only.
        self.answer.disk_full = kind_of_number(error.number, error.state) == StoreErrorKind::DiskFull
            || self.answer.message.contains(NO_SPACE);
        if error.number == NOT_PREPARED && self.is_put_off(done) {
            self.in_flight = None;
            self.reset_answer();
            return Ok(());
        }
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

    /// Returns true if the operation in flight, which the server has refused to begin, will be sent again. An error within
    /// a procedure may follow work that was done, so it is not. The answer has the refusal.
    #[cold]
    fn is_put_off(&self, done: &mut dyn CompletionSink) -> bool {
        let Some(InFlight { ticket, what: What::Statement(kind, position) }) = self.in_flight else { return false };
        let prepared = &self.kinds[kind];
        self.transaction == Transaction::None
            && prepared.shape != Shape::Text
            && !plimsoll_core::sql::runs_others(&prepared.statements[position].text.sql)
            && done.put_off(ticket, &self.answer)
    }

    /// Returns the error of a connection that an error ended, or that had one outside of operations.
    #[cold]
    pub(super) fn ended(&self, payload: &[u8]) -> StoreError {
        let place = &self.login.place;
        match ServerError::parse(payload) {
            Some(error) => StoreError::new(StoreErrorKind::Unreachable, format!("{place} ended the connection"))
                .detail(error.number_and_words()),
            None => unexpected(payload, "while nothing was asked"),
        }
    }

    #[cold]
    pub(super) fn too_large(&self, bytes: usize) -> StoreError {
        StoreError::answer_too_large(&self.login.place, Some(bytes as u64), self.answer_max)
    }

    /// Returns the error for bytes that are not this protocol.
    #[cold]
    pub(super) fn implausible(&self, bytes: &[u8]) -> StoreError {
        broken(format!("{} sent a reply that no MariaDB or MySQL server sends", self.login.place))
            .detail(format!("it began with `{}`", bytes[..bytes.len().min(64)].escape_ascii()))
    }
}
