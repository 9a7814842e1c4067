//! Errors of the operating system, in a form that a person can act on.

use std::fmt;
use std::io::{self, ErrorKind as K};

use plimsoll_core::{StoreError, StoreErrorKind};

/// Converts `error` at `place` to an error for the user. A path that does not exist is a mistake of the user.
pub fn failed(place: impl fmt::Display, error: &io::Error) -> StoreError {
    let classed = StoreError::io(&place, error);
    match error.kind() {
        K::NotFound | K::NotADirectory | K::IsADirectory => StoreError::usage(format!("{place}: {error}")),
        K::PermissionDenied => classed.next("name a directory that this user can write, or run as another user"),
        K::ReadOnlyFilesystem => classed.next("name a directory on a file system that is mounted read-write"),
        K::StorageFull | K::QuotaExceeded => classed.next("free some space there, or name another directory"),
        K::ResourceBusy => StoreError::new(StoreErrorKind::Usage, format!("{place} is in use: {error}"))
            .next("plimsoll doctor --holds says by whom"),
        _ => classed,
    }
}

/// Converts the error of a result, as [`failed`].
pub fn at<T>(place: impl fmt::Display, result: io::Result<T>) -> Result<T, StoreError> {
    result.map_err(|error| failed(place, &error))
}
