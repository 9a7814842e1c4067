//! Planned work on a private server during a load: a vacuum, a new build of all indexes, a base backup.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, Waits};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::reach::Endpoint;

/// Work of a server that takes writes.
pub(crate) const WORKS: &[&str] = &["vacuum", "reindex", "backup"];
/// Work of a replica, which changes nothing by itself.
pub(crate) const OF_REPLICA: &[&str] = &["backup"];
/// Name of the work that a program does.
pub(crate) const BACKUP: &str = "backup";

/// All tables but those of the server itself.
const TABLES: &str = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
     WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname <> 'information_schema' ORDER BY 1";

/// Longest silence of the server while its statement is cancelled.
const CANCEL_BOUND: Duration = Duration::from_secs(5);

/// Writes all tables anew (`vacuum`), or their indexes (`reindex`), one after the other.
///
/// # Errors
/// As the statements; `Interrupted`.
pub(crate) fn rewrite(endpoint: &Endpoint, name: &str, waits: &Waits) -> Result<(), StoreError> {
    let (began, mut connection) = (Instant::now(), endpoint.open(Arc::default(), "", &[], waits)?);
    let process = connection.value("SELECT pg_backend_pid()")?;
    let statement = if name == "vacuum" { "VACUUM (FULL)" } else { "REINDEX TABLE" };
    let answer = connection.simple(TABLES)?;
    let statements: Vec<String> = answer.row_iter().map(|row| format!("{statement} {}", text(row, 0))).collect();
    let done = connection.work(|connection| {
        statements.iter().try_for_each(|statement| {
            waits.check_whole(began, &format!("the work `{name}`"))?;
            connection.simple(statement).map(drop)
        })
    });
    if done.is_err() {
        // The server continues a statement whose client has gone. One that has ended itself needs no command.
        let cancel = |mut other: Connection| other.value(&format!("SELECT pg_terminate_backend({process})"));
        let _ = endpoint.open(Arc::default(), "", &[], CANCEL_BOUND).and_then(cancel);
    }
    done
}
