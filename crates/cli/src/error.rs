//! Texts and exit codes of expected errors: what happened, where, and what to do next. A bug panics.

use std::fmt::Write;

use plimsoll_core::{StoreErrorKind, shown};
use plimsoll_trial::TrialError;

/// Exit codes, as documented in `--help` and the book.
pub mod exit {
    /// All goals held.
    pub const OK: u8 = 0;
    /// A goal was missed or could not be measured, or a promise was broken.
    pub const GOAL_MISSED: u8 = 1;
    /// Bad usage or plan.
    pub const USAGE: u8 = 2;
    /// No answer from the store.
    pub const UNREACHABLE: u8 = 3;
    /// The server does not accept the credentials.
    pub const AUTHENTICATION: u8 = 4;
    /// A program or package is not installed.
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
    /// The observations do not decide the question.
    pub const UNDECIDED: u8 = 11;
    /// No more memory, threads or file descriptors.
    pub const EXHAUSTED: u8 = 12;
    /// Stopped by the user.
    pub const INTERRUPTED: u8 = 130;
}

/// The exit code of an error of this kind.
pub fn code(kind: StoreErrorKind) -> u8 {
    match kind {
        StoreErrorKind::Recording => exit::RECORDING,
        StoreErrorKind::Plan | StoreErrorKind::Usage => exit::USAGE,
        StoreErrorKind::Unreachable => exit::UNREACHABLE,
        StoreErrorKind::Authentication => exit::AUTHENTICATION,
        StoreErrorKind::Missing => exit::MISSING,
        StoreErrorKind::AddressTaken => exit::ADDRESS_TAKEN,
        StoreErrorKind::DiskFull => exit::DISK_FULL,
        StoreErrorKind::Permission => exit::PERMISSION,
        StoreErrorKind::Interrupted => exit::INTERRUPTED,
        StoreErrorKind::Exhausted => exit::EXHAUSTED,
        StoreErrorKind::Corrupt | StoreErrorKind::Broken | StoreErrorKind::Store => exit::STORE,
    }
}

/// Returns the error as the user reads it: what happened, words of another program about it, what to do next.
pub fn text(error: &TrialError) -> String {
    if error.kind == StoreErrorKind::Plan {
        return error.what.trim_end().to_owned();
    }
    let mut text = format!("error: {}", shown::lines(&error.what));
    if let Some(detail) = error.detail.as_deref().filter(|detail| !detail.is_empty()) {
        let _ = write!(text, "\n  {}", shown::lines(detail).replace('\n', "\n  "));
    }
    if let Some(next) = &error.next {
        let _ = write!(text, "\n  → {}", shown::lines(next));
    }
    text
}
