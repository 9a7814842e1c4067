//! Planned work on a private server during a load: a logical backup, tables written anew.

use std::time::{Duration, Instant};

use plimsoll_core::{Launch, Node, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::text;
use plimsoll_lab::Program;

use crate::connection::Connection;

/// Work of a server that takes writes.
pub(crate) const WORKS: &[&str] = &["backup", "optimize"];
/// Work of a replica: tables that it wrote anew by itself would be a change of its own.
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
/// Columns of the reply to `OPTIMIZE TABLE`: the level of a message, and its text.
const MESSAGE: [usize; 2] = [2, 3];

/// Returns the program that reads all tables in one transaction. The dump is not kept.
///
/// # Errors
/// `Missing`, with the line that installs MariaDB's.
pub(crate) fn backup(node: &Node) -> Result<Launch, StoreError> {
    let program = MARIADB_DUMP.find().or_else(|missing| MYSQLDUMP.find().map_err(|_| missing))?;
    let socket = format!("--socket={}/socket", node.socket_dir.display());
    let rest = ["--user=root", "--all-databases", "--single-transaction", "--result-file=/dev/null"];
    let arguments = ["--no-defaults", &socket].into_iter().chain(rest);
    Ok(Launch::new(MARIADB_DUMP.name, program, arguments))
}

/// Longest silence of the server while its statement is cancelled.
const CANCEL_BOUND: Duration = Duration::from_secs(5);

/// Writes all tables anew, one after the other. `open` connects to the node.
///
/// # Errors
/// As the statements; `Store` if the server reports an error of a table; `Interrupted`.
pub(crate) fn optimize(
    open: impl Fn(&Waits) -> Result<Connection, StoreError>,
    node: &Node,
    waits: &Waits,
) -> Result<(), StoreError> {
    let (began, mut connection) = (Instant::now(), open(waits)?);
    let session = connection.value("SELECT CONNECTION_ID()")?;
    let answer = connection.simple(TABLES)?;
    let tables: Vec<String> = answer.row_iter().map(|row| text(row, 0).to_owned()).collect();
    let done = connection.work(|connection| {
        tables.iter().try_for_each(|table| {
            waits.check_whole(began, "the work `optimize`")?;
            let answer = connection.simple(&format!("OPTIMIZE TABLE {table}"))?;
            match answer.row_iter().find(|row| text(*row, MESSAGE[0]).eq_ignore_ascii_case("error")) {
                None => Ok(()),
                Some(row) => {
                    let what = format!("node {} did not optimize {table}", node.number + 1);
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
