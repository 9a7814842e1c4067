//! Planned work on a private server during a load: a vacuum, a new build of all indexes, a base backup.

use plimsoll_core::StoreError;
use plimsoll_endpoint::text;

use crate::connection::Connection;

/// Work of a server that takes writes.
pub(crate) const WORKS: &[&str] = &["vacuum", "reindex", "backup"];
/// Work of a replica, which changes nothing by itself.
pub(crate) const OF_REPLICA: &[&str] = &["backup"];
/// Name of the work that a program does.
pub(crate) const BACKUP: &str = "backup";

/// All tables but those of the server itself.
const TABLES: &str = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
     WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname <> 'information_schema' ORDER BY 1";

/// Writes all tables anew (`vacuum`), or their indexes (`reindex`), one after the other.
///
/// # Errors
/// As the statements; `Interrupted`.
pub(crate) fn rewrite(connection: &mut Connection, name: &str) -> Result<(), StoreError> {
    let statement = if name == "vacuum" { "VACUUM (FULL)" } else { "REINDEX TABLE" };
    let answer = connection.simple(TABLES)?;
    let statements: Vec<String> = answer.row_iter().map(|row| format!("{statement} {}", text(row, 0))).collect();
    connection.work(|connection| statements.iter().try_for_each(|statement| connection.simple(statement).map(drop)))
}
