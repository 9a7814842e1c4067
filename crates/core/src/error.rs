//! Errors of a store or of a run, in a form that a person can act on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Removal;
use crate::shown::lines;

/// An error of a store or of a run: what happened, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct StoreError {
    /// Class of the error; decides the program's exit code.
    pub kind: StoreErrorKind,
    /// Description, in one sentence without a full stop. Never contains a credential.
    pub what: String,
    /// The server's own message, if there is one.
    pub detail: Option<String>,
    /// Advice, as an imperative sentence.
    pub next: Option<String>,
}

/// Words of the C library for a full disk (ENOSPC), which servers quote in errors that have no code for it.
pub const NO_SPACE: &str = "No space left on device";

crate::words! {
    /// Classes of errors.
    pub enum StoreErrorKind {
        /// A parameter, URL or combination that this store does not support.
        Usage = "USAGE",
        /// The server does not respond.
        Unreachable = "UNREACHABLE",
        /// The server does not accept these credentials.
        Authentication = "AUTHENTICATION",
        /// The server's program or a part of it is not installed.
        Missing = "MISSING",
        /// The address or port is in use.
        AddressTaken = "ADDRESS_TAKEN",
        /// No space left on a device.
        DiskFull = "DISK_FULL",
        /// Memory, threads or file descriptors of this machine, or of a limit on this process, are exhausted.
        Exhausted = "EXHAUSTED",
        /// The operating system or the server does not permit it.
        Permission = "PERMISSION",
        /// The data is damaged or inconsistent: the store's integrity check failed.
        Corrupt = "CORRUPT",
        /// The store malfunctioned: a crash, a corrupt file, a malformed reply.
        Broken = "BROKEN",
        /// The user stopped the wait.
        Interrupted = "stopped",
        /// Any other error that the store reported.
        Store = "STORE",
        /// The recording cannot be written or read.
        Recording = "RECORDING",
        /// A mistake in the text of a plan: the description is a drawing of the positions.
        Plan = "PLAN",
    }
}

impl StoreError {
    /// Creates an error of `kind`.
    pub fn new(kind: StoreErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), detail: None, next: None }
    }

    /// Creates an error of kind [`StoreErrorKind::Usage`].
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Usage, what)
    }

    /// Creates an error of kind [`StoreErrorKind::Broken`].
    pub fn broken(what: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Broken, what)
    }

    /// Adds the server's own message.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Adds advice, if there is none.
    #[must_use]
    pub fn or_next(self, next: impl Into<String>) -> Self {
        let next = self.next.unwrap_or_else(|| next.into());
        Self { next: Some(next), ..self }
    }

    /// Returns the error that `what`, which a run made, could not be removed because of this error.
    ///
    /// `removal` is the command that removes it from an attached server; `None` for a private server.
    #[must_use]
    pub fn leaves(self, what: impl fmt::Display, removal: Option<Removal>) -> Self {
        let error = Self::new(self.kind, format!("{what} could not be removed")).detail(self.to_string());
        Self { next: removal.map(|removal| removal.to_string()), ..error }
    }

    /// True if further requests would not be answered either: the server is unreachable, or the user stopped the
    /// wait.
    pub fn is_nobody_there(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unreachable | StoreErrorKind::Interrupted)
    }

    /// True if the answer is not needed any more: the user stopped the wait.
    pub fn is_interrupt(&self) -> bool {
        self.kind == StoreErrorKind::Interrupted
    }

    /// The description and the first line of the detail, on one line.
    pub fn line(&self) -> String {
        let what = lines(&self.what);
        match self.detail.as_deref().and_then(|detail| detail.lines().next()) {
            Some(detail) => format!("{what} ({})", lines(detail)),
            None => what,
        }
    }

    /// The server's own words, without its place.
    pub fn said(&self) -> &str {
        self.what.split_once(" says: ").map_or(&self.what, |(_, words)| words)
    }

    /// The error of a reply with this many bytes, as far as known, from the server at `place`, when at most `most`
    /// are kept.
    pub fn answer_too_large(place: &str, bytes: Option<u64>, most: usize) -> Self {
        let how_many = bytes.map_or("more bytes".to_owned(), |bytes| format!("{bytes} bytes"));
        Self::new(
            StoreErrorKind::Usage,
            format!("{place} answers with {how_many}, and at most {most} are kept of an answer (--answer-max)"),
        )
        .next("ask for less at a time, or raise answer_max in the plan (--answer-max)")
    }

    /// Converts an error of the operating system at `place`, classified by its number.
    pub fn io(place: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        // ENOMEM, ENFILE, EMFILE, which have no `ErrorKind`.
        if let Some(number @ (12 | 23 | 24)) = error.raw_os_error() {
            let next = match number {
                12 => "use fewer clients, or free memory",
                _ => "use fewer clients, or raise the limit: ulimit -n, or LimitNOFILE= of a systemd unit",
            };
            return Self::new(StoreErrorKind::Exhausted, format!("{place}: {error}")).next(next);
        }
        let kind = match error.kind() {
            K::PermissionDenied | K::ReadOnlyFilesystem => StoreErrorKind::Permission,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => StoreErrorKind::DiskFull,
            K::AddrInUse => StoreErrorKind::AddressTaken,
            K::ConnectionRefused | K::ConnectionReset | K::ConnectionAborted => StoreErrorKind::Unreachable,
            K::TimedOut | K::HostUnreachable | K::NetworkUnreachable => StoreErrorKind::Unreachable,
            _ => StoreErrorKind::Broken,
        };
        Self::new(kind, format!("{place}: {error}"))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}
