//! Effects of errors and of malformed replies on operations and the connection.

use plimsoll_core::{CompletionSink, Outcome, StoreError, StoreErrorKind};

use super::message::{ServerError, unexpected};
use super::session::{InFlight, PIPELINE_ABORTED, PgSession};

/// Code of an error on a prepared statement that does not exist.
const UNKNOWN_STATEMENT: &[u8] = b"26000";
/// Code of an error of a full disk (`disk_full`).
const DISK_FULL: &[u8] = b"53100";

impl PgSession {
    #[cold]
    pub(super) fn take_error(
        &mut self,
        current: InFlight,
        body: &[u8],
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        self.note_error(body)?;
        self.skipping = true;
        if !current.synced {
            self.finish(current, done);
        }
        Ok(())
    }

    /// Notes the error of the operation that is being answered.
    #[cold]
    pub(super) fn note_error(&mut self, body: &[u8]) -> Result<(), StoreError> {
        let error = ServerError::parse(body).ok_or_else(|| unexpected(b'E', "in an answer"))?;
        let outcome = if error.leaves_open() { Outcome::Unknown } else { Outcome::Rejected };
        let code = String::from_utf8_lossy(error.code);
        if error.code == UNKNOWN_STATEMENT {
            // Others were dropped with it, by statements inside of an operation.
            self.prepare_again();
        }
        self.outcome = self.answer.fail(outcome, &code, &String::from_utf8_lossy(error.message));
        self.answer.gave_way = error.gave_way();
        self.answer.disk_full = error.code == DISK_FULL;
        if error.ends_connection() { Err(self.ended(body)) } else { Ok(()) }
    }

    /// Returns the error of a connection that ended with a FATAL error, or with any error outside of operations.
    #[cold]
    pub(super) fn ended(&self, body: &[u8]) -> StoreError {
        let place = &self.login.place;
        match ServerError::parse(body) {
            Some(error) => StoreError::new(StoreErrorKind::Unreachable, format!("{place} ended the connection"))
                .detail(error.code_and_words()),
            None => unexpected(b'E', "while nothing was asked"),
        }
    }

    /// The Sync after an error has come: what was between them was skipped, and has not happened.
    #[cold]
    pub(super) fn finish_skipped(&mut self, done: &mut dyn CompletionSink) {
        self.skipping = false;
        while let Some(&current) = self.queue.front() {
            if !self.outcome.is_error() {
                let words = "an operation before it in its pipeline failed, so the server skipped it";
                self.outcome = self.answer.fail(Outcome::Rejected, PIPELINE_ABORTED, words);
            }
            if current.synced {
                return;
            }
            self.finish(current, done);
        }
    }

    #[cold]
    pub(super) fn too_large(&self, current: Option<InFlight>, bytes: usize) -> StoreError {
        let error = StoreError::answer_too_large(&self.login.place, Some(bytes as u64), self.answer_max);
        match current {
            Some(current) => error.detail(self.describe(current)),
            None => error,
        }
    }
}

#[cold]
pub(super) fn leaves_transaction(name: &str) -> StoreError {
    StoreError::usage(format!("{name} leaves a transaction open")).next("Use statements that are a transaction each.")
}
