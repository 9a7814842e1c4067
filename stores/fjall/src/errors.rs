//! fjall's errors in words that a person can act on.

use std::path::Path;

use fjall::{Error, LsmError};
use plimsoll_core::{KvError, StoreError};

/// An error while something was done to the database in `dir`.
pub(crate) fn store_error(dir: &Path, error: &Error) -> StoreError {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => StoreError::io(dir.display(), error),
        Error::Locked => StoreError::broken(format!("{}: the database is open already", dir.display()))
            .next("Close the sessions of the phase before; a database has one process."),
        other => StoreError::broken(format!("{}: fjall reports an error", dir.display())).detail(format!("{other:?}")),
    }
}

/// Returns the error of a database that was closed.
pub(crate) fn is_closed() -> StoreError {
    StoreError::broken("the fjall database is closed because opening it again failed")
}

/// An error of a read or a write. After a failed write fjall refuses all further ones, before it does anything;
/// any other error of a write leaves open what got to the journal.
pub(crate) fn kv_error(error: &Error) -> KvError {
    match error {
        Error::Poisoned | Error::KeyspaceDeleted => KvError::Rejected(
            StoreError::broken("fjall takes no more writes because an earlier one failed").detail(format!("{error:?}")),
        ),
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => KvError::Unknown(StoreError::io("fjall", error)),
        other => KvError::Unknown(StoreError::broken("fjall reports an error").detail(format!("{other:?}"))),
    }
}
