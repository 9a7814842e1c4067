//! Planned work on a private server during a load: a vacuum, a new build of all indexes, a change of the schema, a base
//! backup.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, Waits};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::reach::Endpoint;

/// Work of a server that takes writes.
pub(crate) const WORKS: &[&str] = &["vacuum", "reindex", "alter", "backup"];
/// Work of a replica, which changes nothing by itself.
pub(crate) const OF_REPLICA: &[&str] = &["backup"];
/// Name of the work that a program does.
pub(crate) const BACKUP: &str = "backup";

/// All tables but those of the server itself.
const TABLES: &str = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
     WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname <> 'information_schema'";
/// Condition on tables that may have other columns than those of a parent.
const NO_PARENT: &str = "format('%I.%I', schemaname, tablename)::regclass NOT IN (SELECT inhrelid FROM pg_inherits)";
/// Column that `alter` adds and drops.
const COLUMN: &str = "plimsoll_added";

/// Longest silence of the server while its statement is cancelled.
const CANCEL_BOUND: Duration = Duration::from_secs(5);

/// Writes all tables anew (`vacuum`), or their indexes (`reindex`), or adds a column to all tables and drops it
/// (`alter`), one after the other.
///
/// # Errors
/// As the statements; `Interrupted`.
pub(crate) fn rewrite(endpoint: &Endpoint, name: &str, waits: &Waits) -> Result<(), StoreError> {
    let (began, mut connection) = (Instant::now(), endpoint.open(Arc::default(), "", &[], waits)?);
    let process = connection.value("SELECT pg_backend_pid()")?;
    let statements = statements(&mut connection, name)?;
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

/// Returns the statements of the work, for all tables.
fn statements(connection: &mut Connection, name: &str) -> Result<Vec<String>, StoreError> {
    let tables = match name {
        "alter" => format!("{TABLES} AND {NO_PARENT} ORDER BY 1"),
        _ => format!("{TABLES} ORDER BY 1"),
    };
    let answer = connection.simple(&tables)?;
    let of_table = |table: &str| match name {
        "vacuum" => vec![format!("VACUUM (FULL) {table}")],
        "reindex" => vec![format!("REINDEX TABLE {table}")],
        // Work that was cancelled may have left the column.
        _ => vec![
            format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {COLUMN} integer NOT NULL DEFAULT 0"),
            format!("ALTER TABLE {table} DROP COLUMN {COLUMN}"),
        ],
    };
    Ok(answer.row_iter().flat_map(|row| of_table(text(row, 0))).collect())
}
