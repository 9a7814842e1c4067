//! Errors that stop a run, with a remedy for each.

use std::fmt;

pub use plimsoll_core::StoreError as TrialError;
use plimsoll_core::StoreErrorKind;

/// An operating system's error at `place`. A path that leads nowhere is the user's own.
pub fn io_error(place: impl fmt::Display, error: &std::io::Error) -> TrialError {
    use std::io::ErrorKind as K;
    // A ring of symbolic links, for which there is no kind.
    let is_ring = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    match error.kind() {
        _ if is_ring => TrialError::usage(format!("{place}: {error}")),
        K::NotFound | K::NotADirectory | K::IsADirectory => TrialError::usage(format!("{place}: {error}")),
        _ => TrialError::io(place, error),
    }
}

/// An operating system's error where `place` was to be written: whatever else it is about, it cannot be written.
pub fn write_error(place: impl fmt::Display, error: &std::io::Error) -> TrialError {
    let failed = TrialError::io(place, error);
    let kind = match failed.kind {
        kind @ (StoreErrorKind::DiskFull | StoreErrorKind::Exhausted) => kind,
        _ => StoreErrorKind::Permission,
    };
    TrialError { kind, ..failed }
}
