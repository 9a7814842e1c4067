//! Planned work on a private server during a load: a logical backup, tables written anew, a change of the schema.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_core::{Launch, Node, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::text;
use plimsoll_lab::Program;

use crate::connection::Connection;

/// Work of a server that takes writes.
pub(crate) const WORKS: &[&str] = &["backup", "optimize", "alter"];
/// Work of a replica: tables that it wrote anew or altered by itself would be a change of its own.
pub(crate) const OF_REPLICA: &[&str] = &["backup"];
/// Name of the work that a program does.
pub(crate) const BACKUP: &str = "backup";

const MARIADB_DUMP: Program = Program { name: "mariadb-dump", directories: &[], package: "mariadb-client" };
/// MySQL's program, or MariaDB's by its old name.
const MYSQLDUMP: Program = Program { name: "mysqldump", directories: &[], package: "mariadb-client" };

/// All tables but those of the server itself.
const TABLES: &str = "SELECT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') FROM information_schema.TABLES \
     WHERE TABLE_TYPE = 'BASE TABLE' \
     AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY 1";
/// Column that `alter` adds and drops.
const COLUMN: &str = "plimsoll_added";
/// Columns of the reply to `OPTIMIZE TABLE`: the level of a message, and its text.
const MESSAGE: [usize; 2] = [2, 3];

/// Returns the program that reads all tables in one transaction. The dump is not kept.
///
/// # Errors
/// `Missing`, with the line that installs MariaDB's.
pub(crate) fn backup(node: &Node) -> Result<Launch, StoreError> {
    let program = backup_program()?;
    let socket = format!("--socket={}/socket", node.socket_dir.display());
    let rest = ["--user=root", "--all-databases", "--single-transaction", "--result-file=/dev/null"];
    let arguments = ["--no-defaults", &socket].into_iter().chain(rest);
    Ok(Launch::new(MARIADB_DUMP.name, program, arguments))
}

/// Returns the path of the program that does a backup.
///
/// # Errors
/// `Missing`, with the line that installs MariaDB's.
pub(crate) fn backup_program() -> Result<PathBuf, StoreError> {
    MARIADB_DUMP.find().or_else(|missing| MYSQLDUMP.find().map_err(|_| missing))
}

/// Longest silence of the server while its statement is cancelled.
const CANCEL_BOUND: Duration = Duration::from_secs(5);

/// Writes all tables anew (`optimize`), or adds a column to all and drops it (`alter`), one after the other. `open`
/// connects to the node.
///
/// # Errors
/// As the statements; `Store` if the server reports an error of a table; `Interrupted`.
pub(crate) fn rewrite(
    open: impl Fn(&Waits) -> Result<Connection, StoreError>,
    node: &Node,
    name: &str,
    waits: &Waits,
) -> Result<(), StoreError> {
    let (began, mut connection) = (Instant::now(), open(waits)?);
    let session = connection.value("SELECT CONNECTION_ID()")?;
    let statements = statements(&mut connection, name)?;
    let done = connection.work(|connection| {
        statements.iter().try_for_each(|statement| {
            waits.check_whole(began, &format!("the work `{name}`"))?;
            let answer = connection.simple(statement)?;
            match answer.row_iter().find(|row| text(*row, MESSAGE[0]).eq_ignore_ascii_case("error")) {
                None => Ok(()),
                Some(row) => {
                    let what = format!("node {} did not carry out {statement}", node.number + 1);
                    Err(StoreError::new(StoreErrorKind::Store, what).detail(text(row, MESSAGE[1])))
                }
            }
        })
    });
    if done.is_err() {
        // The server continues a statement whose client has gone. One that has ended itself needs no command.
        let cancel = |mut other: Connection| other.simple(&format!("KILL {session}")).map(drop);
        let _ = open(&Waits::from(CANCEL_BOUND)).and_then(cancel);
    }
    done
}

/// Returns the statements of the work, for all tables.
fn statements(connection: &mut Connection, name: &str) -> Result<Vec<String>, StoreError> {
    let tables = listed(connection, TABLES)?;
    if name == "optimize" {
        return Ok(tables.iter().map(|table| format!("OPTIMIZE TABLE {table}")).collect());
    }
    let without = |table: &String| format!("ALTER TABLE {table} DROP COLUMN {COLUMN}");
    let with = |table: &String| format!("ALTER TABLE {table} ADD COLUMN {COLUMN} INT NOT NULL DEFAULT 0");
    // Work that was cancelled may have left the column. MySQL has no IF NOT EXISTS for it.
    let left = "SELECT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') FROM information_schema.COLUMNS";
    let left = listed(connection, &format!("{left} WHERE COLUMN_NAME = '{COLUMN}'"))?;
    let each = tables.iter().flat_map(|table| [with(table), without(table)]);
    Ok(left.iter().map(without).chain(each).collect())
}

/// Returns the first column of a reply.
fn listed(connection: &mut Connection, query: &str) -> Result<Vec<String>, StoreError> {
    let answer = connection.simple(query)?;
    Ok(answer.row_iter().map(|row| text(row, 0).to_owned()).collect())
}
