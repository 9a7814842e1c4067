//! Errors that stop a run, with a remedy for each.

use std::fmt;

use plimsoll_core::{StoreError, StoreErrorKind, shown};
use plimsoll_record::RecordError;

/// An error of a run: what happened, where, and the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialError {
    /// Class of the error.
    pub kind: ErrorKind,
    /// Description of the event and its place.
    pub what: String,
    /// Message of another program about it.
    pub detail: Option<String>,
    /// Next step for the user.
    pub next: Option<String>,
}

/// Classes of trouble with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Error of a store, of this machine, or of a request to them.
    Store(StoreErrorKind),
    /// Error of the recording.
    Recording,
    /// Error in the text of a plan: `what` is a drawing of the positions.
    Plan,
}

impl TrialError {
    /// An error of `kind` that says `what`.
    pub fn new(kind: StoreErrorKind, what: impl Into<String>) -> Self {
        StoreError::new(kind, what).into()
    }

    /// Makes an error for a request that cannot be fulfilled.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Usage, what)
    }

    /// An operating system's error at `place`. A path that leads nowhere is the user's own.
    pub fn io(place: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        // A ring of symbolic links, for which there is no kind.
        let is_ring = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        match error.kind() {
            _ if is_ring => Self::usage(format!("{place}: {error}")),
            K::NotFound | K::NotADirectory | K::IsADirectory => Self::usage(format!("{place}: {error}")),
            _ => StoreError::io(place, error).into(),
        }
    }

    /// An operating system's error where `place` was to be written: whatever else it is about, it cannot be written.
    pub fn writing(place: impl fmt::Display, error: &std::io::Error) -> Self {
        let mut failed: Self = StoreError::io(place, error).into();
        if !matches!(failed.kind, ErrorKind::Store(StoreErrorKind::DiskFull | StoreErrorKind::Exhausted)) {
            failed.kind = ErrorKind::Store(StoreErrorKind::Permission);
        }
        failed
    }

    /// Adds the message of another program.
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

    /// Returns true if the answer is not needed any more: the user wanted an end.
    pub fn is_interrupt(&self) -> bool {
        self.kind == ErrorKind::Store(StoreErrorKind::Interrupted)
    }
}

/// Formats the description and the first line of the detail, on one line.
impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown::lines(&self.what))?;
        match self.detail.as_deref().and_then(|detail| detail.lines().next()) {
            Some(detail) => write!(f, " ({})", shown::lines(detail)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TrialError {}

impl From<StoreError> for TrialError {
    fn from(error: StoreError) -> Self {
        let StoreError { kind, what, detail, next } = error;
        Self { kind: ErrorKind::Store(kind), what, detail, next }
    }
}

impl From<RecordError> for TrialError {
    fn from(error: RecordError) -> Self {
        let kind = match error {
            RecordError::DiskFull(_) | RecordError::FileLimit(_) => ErrorKind::Store(StoreErrorKind::DiskFull),
            RecordError::Permission { .. } | RecordError::Write { .. } => ErrorKind::Store(StoreErrorKind::Permission),
            RecordError::NoPlace => ErrorKind::Store(StoreErrorKind::Usage),
            _ => ErrorKind::Recording,
        };
        Self { kind, what: error.to_string(), detail: None, next: None }
    }
}
