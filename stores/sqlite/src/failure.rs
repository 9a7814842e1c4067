//! SQLite's errors as outcomes of operations and as errors for people.

use plimsoll_core::{Answer, KvError, OpKind, Outcome, StoreError, StoreErrorKind, waits};
use rusqlite::ErrorCode;

/// Returns the error of a store for an error of SQLite that happened at `what`.
pub(crate) fn store_error(what: &str, error: &rusqlite::Error) -> StoreError {
    let (kind, next) = match error.sqlite_error_code() {
        _ if is_at_limit(error) => (StoreErrorKind::DiskFull, "Raise the limit on the size of files (ulimit -f)."),
        Some(ErrorCode::DiskFull) => {
            (StoreErrorKind::DiskFull, "Free some space, or put the run directory on a larger file system.")
        }
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            (StoreErrorKind::Permission, "Check that the run directory is there and that you may write to it.")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (StoreErrorKind::Corrupt, "Look at the kernel's log for errors of the disk under the run directory.")
        }
        Some(ErrorCode::SystemIoFailure) => {
            (StoreErrorKind::Broken, "Look at the kernel's log for errors of the disk under the run directory.")
        }
        Some(ErrorCode::OperationInterrupted) => return waits::interrupted().detail(format!("sqlite: {what}")),
        _ => return StoreError::new(StoreErrorKind::Store, format!("sqlite: {what}")).detail(words(error)),
    };
    StoreError::new(kind, format!("sqlite: {what}")).detail(words(error)).next(next)
}

/// Reports whether a limit on the size of files may have refused a write. SQLite calls that an I/O error, without its
/// cause.
fn is_at_limit(error: &rusqlite::Error) -> bool {
    use rustix::process::{Resource, getrlimit};
    let refused = |failure: &rusqlite::ffi::Error| failure.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE;
    error.sqlite_error().is_some_and(refused) && getrlimit(Resource::Fsize).current.is_some()
}

/// Converts the error of preparing the statement `sql` of `kind`: SQLite's plain error means that the statement is
/// wrong.
pub(crate) fn not_prepared(kind: &OpKind, sql: &str, error: &rusqlite::Error) -> StoreError {
    if error.sqlite_error_code() != Some(ErrorCode::Unknown) {
        return store_error(&format!("cannot prepare `{}`", kind.name), error);
    }
    StoreError::usage(format!("sqlite does not take the statement: {sql}")).detail(words(error))
}

/// Returns the outcome of an operation that ended with `error` and was rolled back: rejected if it has certainly not
/// happened. After an I/O error it may have: a commit whose sync failed may still be found after a crash. The outcome
/// of an interrupted operation is never looked at.
pub(crate) fn outcome(error: &rusqlite::Error) -> Outcome {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::OperationInterrupted,
        ) => Outcome::Unknown,
        _ => Outcome::Rejected,
    }
}

/// Puts `error` into `answer`.
#[cold]
pub(crate) fn fail(answer: &mut Answer, error: &rusqlite::Error) -> Outcome {
    answer.clear();
    let outcome = answer.fail(outcome(error), &code(error), &words(error));
    answer.gave_way = matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked));
    answer.disk_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull) || is_at_limit(error);
    outcome
}

/// `error` as a key-value call's.
#[cold]
pub(crate) fn kv_error(what: &str, error: &rusqlite::Error) -> KvError {
    match outcome(error) {
        Outcome::Unknown => KvError::Unknown(store_error(what, error)),
        _ => KvError::Rejected(store_error(what, error)),
    }
}

/// SQLite's own words, without the statement; it does not know who interrupted it.
fn words(error: &rusqlite::Error) -> String {
    match error {
        _ if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => waits::interrupted().to_string(),
        _ if is_at_limit(error) => "a file came to the largest size that it may have (ulimit -f)".to_owned(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqliteFailure(failure, None) => failure.to_string(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// The name of SQLite's extended result code, as in its documentation.
fn code(error: &rusqlite::Error) -> String {
    use rusqlite::ffi;
    let Some(failure) = error.sqlite_error() else {
        return "REFUSED".to_owned();
    };
    let name = match failure.extended_code {
        _ if is_at_limit(error) => "SQLITE_FULL",
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY => "SQLITE_CONSTRAINT_PRIMARYKEY",
        ffi::SQLITE_CONSTRAINT_UNIQUE => "SQLITE_CONSTRAINT_UNIQUE",
        ffi::SQLITE_CONSTRAINT_ROWID => "SQLITE_CONSTRAINT_ROWID",
        ffi::SQLITE_CONSTRAINT_NOTNULL => "SQLITE_CONSTRAINT_NOTNULL",
        ffi::SQLITE_CONSTRAINT_CHECK => "SQLITE_CONSTRAINT_CHECK",
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => "SQLITE_CONSTRAINT_FOREIGNKEY",
        ffi::SQLITE_CONSTRAINT_DATATYPE => "SQLITE_CONSTRAINT_DATATYPE",
        ffi::SQLITE_BUSY_SNAPSHOT => "SQLITE_BUSY_SNAPSHOT",
        ffi::SQLITE_IOERR_FSYNC => "SQLITE_IOERR_FSYNC",
        ffi::SQLITE_IOERR_WRITE => "SQLITE_IOERR_WRITE",
        ffi::SQLITE_IOERR_READ => "SQLITE_IOERR_READ",
        extended => match extended & 0xff {
            ffi::SQLITE_BUSY => "SQLITE_BUSY",
            ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
            ffi::SQLITE_FULL => "SQLITE_FULL",
            ffi::SQLITE_IOERR => "SQLITE_IOERR",
            ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
            ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
            ffi::SQLITE_READONLY => "SQLITE_READONLY",
            ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
            ffi::SQLITE_NOMEM => "SQLITE_NOMEM",
            ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
            ffi::SQLITE_MISMATCH => "SQLITE_MISMATCH",
            ffi::SQLITE_INTERRUPT => waits::STOPPED,
            ffi::SQLITE_RANGE => "SQLITE_RANGE",
            ffi::SQLITE_ERROR => "SQLITE_ERROR",
            _ => return format!("SQLITE_{extended}"),
        },
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_full_database_is_a_full_disk() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA max_page_count = 3; CREATE TABLE t (v BLOB)").unwrap();
        let error = connection.execute("INSERT INTO t VALUES (zeroblob(100000))", []).unwrap_err();
        assert_eq!(code(&error), "SQLITE_FULL");
        assert_eq!(outcome(&error), Outcome::Rejected);
        assert_eq!(store_error("insert", &error).kind, StoreErrorKind::DiskFull);
        let mut answer = Answer::default();
        assert_eq!((fail(&mut answer, &error), answer.disk_full), (Outcome::Rejected, true));
    }

    #[test]
    fn a_database_that_another_writes_to_makes_an_operation_give_way() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Connection::open(dir.path().join("x")).unwrap();
        let (first, second) = (open(), open());
        first.execute_batch("BEGIN IMMEDIATE").unwrap();
        second.busy_timeout(std::time::Duration::ZERO).unwrap();
        let (mut answer, error) = (Answer::default(), second.execute_batch("BEGIN IMMEDIATE").unwrap_err());
        assert_eq!((fail(&mut answer, &error), answer.code.as_str()), (Outcome::Rejected, "SQLITE_BUSY"));
        assert!(answer.gave_way);
        let error = second.execute_batch("nonsense").unwrap_err();
        assert_eq!((fail(&mut answer, &error), answer.gave_way), (Outcome::Rejected, false));
    }

    #[test]
    fn a_damaged_database_is_corrupt_and_leaves_open_what_happened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, [7; 4096]).unwrap();
        let error = Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (v)").unwrap_err();
        assert_eq!((code(&error).as_str(), outcome(&error)), ("SQLITE_NOTADB", Outcome::Unknown));
        assert_eq!(store_error("open", &error).kind, StoreErrorKind::Corrupt);
    }
}
