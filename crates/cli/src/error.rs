//! Errors that a user can expect, their text and their exit codes.
//!
//! An expected error says what happened, where, and what to do next. A bug panics.

use std::fmt;
use std::process::ExitCode;

use plimsoll_core::{StoreErrorKind, shown};
use plimsoll_trial::{ErrorKind, TrialError};

/// Exit codes, as documented in `--help` and the book.
pub mod exit {
    /// All goals held.
    pub const OK: u8 = 0;
    /// A goal was missed or could not be measured, or a promise was broken.
    pub const GOAL_MISSED: u8 = 1;
    /// Bad usage or plan.
    pub const USAGE: u8 = 2;
    /// Nobody answers.
    pub const UNREACHABLE: u8 = 3;
    /// The server does not accept the credentials.
    pub const AUTHENTICATION: u8 = 4;
    /// Something is not installed.
    pub const MISSING: u8 = 5;
    /// Address or port in use.
    pub const ADDRESS_TAKEN: u8 = 6;
    /// No space left.
    pub const DISK_FULL: u8 = 7;
    /// Not permitted.
    pub const PERMISSION: u8 = 8;
    /// The store or its server failed.
    pub const STORE: u8 = 9;
    /// No such run, or not readable.
    pub const RECORDING: u8 = 10;
    /// What was asked cannot be told from what was seen.
    pub const UNDECIDED: u8 = 11;
    /// No more memory, threads or file descriptors.
    pub const EXHAUSTED: u8 = 12;
    /// Stopped by the user.
    pub const INTERRUPTED: u8 = 130;
}

/// An expected error.
#[derive(Debug)]
pub struct CliError {
    /// Exit code.
    pub code: u8,
    /// What happened and where.
    pub what: String,
    /// Somebody else's words about it.
    pub detail: Option<String>,
    /// What to do next.
    pub next: Option<String>,
    /// True when `what` is a drawing that says everything.
    drawn: bool,
}

impl CliError {
    /// An error with this exit code that says `what`.
    pub fn new(code: u8, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), detail: None, next: None, drawn: false }
    }

    /// Something that was asked for as it cannot be.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(exit::USAGE, what)
    }

    /// An error that has been drawn with its place already.
    pub fn drawn(code: u8, text: String) -> Self {
        Self { drawn: true, ..Self::new(code, text) }
    }

    /// Adds somebody else's words.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// An operating system's error at `place`. A path that leads nowhere is the user's own.
    pub fn io(place: impl fmt::Display, error: &std::io::Error) -> Self {
        TrialError::io(place, error).into()
    }

    /// The exit code as the process wants it.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.drawn {
            return f.write_str(self.what.trim_end());
        }
        write!(f, "error: {}", shown::lines(&self.what))?;
        if let Some(detail) = &self.detail {
            for line in shown::lines(detail).lines() {
                write!(f, "\n  {line}")?;
            }
        }
        if let Some(next) = &self.next {
            write!(f, "\n  → {}", shown::lines(next))?;
        }
        Ok(())
    }
}

impl<E: Into<TrialError>> From<E> for CliError {
    fn from(error: E) -> Self {
        let TrialError { kind, what, detail, next } = error.into();
        let code = match kind {
            ErrorKind::Recording => exit::RECORDING,
            ErrorKind::Store(StoreErrorKind::Usage) => exit::USAGE,
            ErrorKind::Store(StoreErrorKind::Unreachable) => exit::UNREACHABLE,
            ErrorKind::Store(StoreErrorKind::Authentication) => exit::AUTHENTICATION,
            ErrorKind::Store(StoreErrorKind::Missing) => exit::MISSING,
            ErrorKind::Store(StoreErrorKind::AddressTaken) => exit::ADDRESS_TAKEN,
            ErrorKind::Store(StoreErrorKind::DiskFull) => exit::DISK_FULL,
            ErrorKind::Store(StoreErrorKind::Permission) => exit::PERMISSION,
            ErrorKind::Store(StoreErrorKind::Interrupted) => exit::INTERRUPTED,
            ErrorKind::Store(StoreErrorKind::Exhausted) => exit::EXHAUSTED,
            ErrorKind::Store(StoreErrorKind::Corrupt | StoreErrorKind::Broken | StoreErrorKind::Store) => exit::STORE,
        };
        Self { code, what, detail, next, drawn: false }
    }
}
