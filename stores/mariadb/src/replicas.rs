//! Replicas that follow a primary's binary log, by global transaction ids.
//!
//! Every node has all transactions in its own binary log, from the first on. So a replica can take over, and a former
//! primary with transactions that no replica received is emptied, and gets everything anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Member, Node, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::server::MariadbRecipe;
use crate::sql::{literal, quoted};

/// Between two looks whether a replica follows.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time of a look.
const LOOK_BOUND: Duration = Duration::from_secs(10);
/// Longest time in which a replica applies all that it has received, before it is promoted.
const APPLY_BOUND: Duration = Duration::from_secs(30);
/// Longest time until a replica that runs during a promotion follows the new primary.
pub(crate) const FOLLOW_BOUND: Duration = Duration::from_secs(10);
/// Columns of `SHOW SLAVE STATUS`, in every version: number and text of the last errors of its two threads. The first
/// receives the primary's log, the second applies it.
const ERRORS: [[usize; 2]; 2] = [[34, 35], [36, 37]];
/// Column of `SHOW SLAVE STATUS` with the state of the thread that receives the log, and its value while that connects.
/// The server tries again by itself then.
const CONNECTING: (usize, &str) = (10, "Connecting");
/// Errors of receiving: the primary's log lacks the replica's last transaction, or those after it
/// (`ER_MASTER_FATAL_ERROR_READING_BINLOG`).
const RECEIVING_DIVERGED: &[&str] = &["1236"];
/// Errors of applying. A database, table, column, index, row or account exists already, or is missing. Transactions are
/// out of order (`ER_GTID_STRICT_OUT_OF_ORDER`).
const APPLYING_DIVERGED: &[&str] = &[
    "1007", "1008", "1032", "1049", "1050", "1051", "1054", "1060", "1061", "1062", "1091", "1146", "1396", "1451",
    "1452", "1950",
];
/// Column of `SHOW SLAVE STATUS` with the primary's log that is read; empty until the primary has sent something.
const PRIMARY_LOG: usize = 5;
/// Column of `SHOW SLAVE STATUS` with the last transaction that a replica has received.
const RECEIVED: usize = 43;
/// Difference between a server's number and the one that it has while it reads its own transactions.
const OTHER_NUMBERS: usize = 1_000;
/// Accounts of the server itself, and of sessions, which is created only if it is missing.
const OWN_ACCOUNTS: &str = "'root', 'mysql', 'mariadb.sys', 'PUBLIC', 'plimsoll'";
/// Databases of the server itself.
const OWN_DATABASES: &str = "'mysql', 'sys', 'information_schema', 'performance_schema'";

/// Returns the arguments of a node. The binary log is synced at each commit: without that a primary that was killed with its
/// machine would have commits which it had given to replicas, and not kept.
pub(crate) fn arguments(node: Member<'_>) -> Vec<String> {
    let mut arguments = vec![
        format!("--server-id={}", node.number + 1),
        "--log-bin=binlog".to_owned(),
        "--binlog-format=ROW".to_owned(),
        "--sync-binlog=1".to_owned(),
        "--log-slave-updates=ON".to_owned(),
        "--gtid-strict-mode=ON".to_owned(),
    ];
    arguments.extend((node.number != node.primary).then(|| "--read-only=ON".to_owned()));
    arguments
}

/// Makes all nodes but the first follow the first.
pub(crate) fn form(recipe: &MariadbRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let [primary, replicas @ ..] = nodes else { return Ok(()) };
    replicas.iter().try_for_each(|replica| follow(recipe, primary, replica, waits))
}

/// Makes a new node follow the primary, from its first transaction on.
pub(crate) fn follow(recipe: &MariadbRecipe, primary: &Node, replica: &Node, waits: &Waits) -> Result<(), StoreError> {
    let mut connection = recipe.open(replica, waits)?;
    // What its own installation has written is no part of the primary's history.
    connection.simple("RESET MASTER")?;
    read_from(recipe, primary, &mut connection, "")
}

/// Makes a replica read the primary's binary log after the transactions `position`.
fn read_from(
    recipe: &MariadbRecipe,
    primary: &Node,
    replica: &mut Connection,
    position: &str,
) -> Result<(), StoreError> {
    let (login, address) = (recipe.login(primary), primary.listens_at(0));
    replica.simple(&format!("SET GLOBAL gtid_slave_pos = '{position}'"))?;
    replica.simple(&format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{}', MASTER_PASSWORD = '{}', \
         MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        address.ip(),
        address.port(),
        login.user,
        primary.secret,
    ))?;
    replica.simple("START SLAVE").map(drop)
}

/// Makes a replica the primary, after it has applied all that it has received.
///
/// # Errors
/// `Broken` if it does not apply that in time.
pub(crate) fn promote(recipe: &MariadbRecipe, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND).with_work(APPLY_BOUND);
    let mut connection = recipe.open(&to, &looks)?;
    connection.simple("STOP SLAVE IO_THREAD")?;
    let status = connection.simple("SHOW SLAVE STATUS")?;
    let received = status.row_iter().next().map(|row| text(row, RECEIVED).to_owned()).unwrap_or_default();
    if !received.is_empty() {
        let began = Instant::now();
        while !has_applied(&mut connection, &received)? {
            let bound = looks.work();
            if began.elapsed() > bound {
                return Err(not_applied(to.number + 1, bound));
            }
            looks.pause(LOOK_INTERVAL)?;
        }
    }
    for statement in ["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF"] {
        connection.simple(statement)?;
    }
    Ok(())
}

/// Returns the error for a replica that lags too far to be promoted.
fn not_applied(number: usize, bound: Duration) -> StoreError {
    let bound_s = bound.as_secs_f64();
    let what = format!("node {number} did not apply the received transactions within {bound_s} s and is not promoted");
    StoreError::broken(what).next("promote another replica, or promote when this one lags less: plimsoll lab status")
}

/// Makes a running replica, or a former primary, follow another primary.
///
/// # Errors
/// `Broken` if it has transactions that the primary lacks, or does not catch up in time.
pub(crate) fn turn(recipe: &MariadbRecipe, primary: &Node, replica: &Node, waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    let mut connection = recipe.open(replica, &looks)?;
    connection.simple("STOP SLAVE")?;
    let own = connection.value("SELECT @@GLOBAL.gtid_binlog_pos")?;
    read_from(recipe, primary, &mut connection, &own)?;
    let position = recipe.open(primary, &looks)?.value("SELECT @@GLOBAL.gtid_binlog_pos")?;
    until_caught_up(recipe, replica, &position, &looks)
}

/// Makes a former primary, or a replica that did not run during a promotion, follow the present primary. If the server
/// reports that it has diverged, its data are deleted and read anew from the primary's binary log.
///
/// # Errors
/// `Broken` if it does not follow for another reason; its data are kept then.
pub(crate) fn rejoin(recipe: &MariadbRecipe, primary: &Node, node: &Node, waits: &Waits) -> Result<(), StoreError> {
    let Err(error) = turn(recipe, primary, node, waits) else { return Ok(()) };
    if error.kind != StoreErrorKind::Broken {
        return Err(error);
    }
    let mut connection = recipe.open(node, waits)?;
    let status = connection.simple("SHOW SLAVE STATUS")?;
    let errors = status.row_iter().next().map(|row| ERRORS.map(|[number, _]| text(row, number).to_owned()));
    if !errors.is_some_and(|[receiving, applying]| has_diverged(&receiving, &applying)) {
        return Err(error.or_next("remove the cause, and start the node again: its data are kept"));
    }
    connection.simple("STOP SLAVE")?;
    // No other node is to delete them.
    connection.simple("SET SESSION sql_log_bin = 0")?;
    let answer = connection.simple(&format!(
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ({OWN_DATABASES})"
    ))?;
    let databases: Vec<String> = answer.row_iter().map(|row| quoted(text(row, 0))).collect();
    // Those that the primary's log creates again.
    let accounts =
        connection.simple(&format!("SELECT user, host FROM mysql.global_priv WHERE user NOT IN ({OWN_ACCOUNTS})"))?;
    let accounts = accounts.row_iter().map(|row| format!("{}@{}", literal(text(row, 0)), literal(text(row, 1))));
    let accounts: Vec<String> = accounts.collect();
    connection.work(|connection| {
        accounts.iter().try_for_each(|name| connection.simple(&format!("DROP USER {name}")).map(drop))?;
        databases.iter().try_for_each(|name| connection.simple(&format!("DROP DATABASE {name}")).map(drop))
    })?;
    // A server skips transactions that have its own number, and some of these it wrote itself as the primary.
    let number = node.number + 1;
    connection.simple(&format!("SET GLOBAL server_id = {}", number + OTHER_NUMBERS))?;
    follow(recipe, primary, node, waits)?;
    let looks = waits.with_answer(LOOK_BOUND);
    let position = recipe.open(primary, &looks)?.value("SELECT @@GLOBAL.gtid_binlog_pos")?;
    until_caught_up(recipe, node, &position, &looks)?;
    connection.simple(&format!("SET GLOBAL server_id = {number}")).map(drop)
}

/// Returns true if the last errors of a node's threads, by their numbers, mean that it has diverged: it has other data
/// than the primary, or needs transactions from before the primary's log.
fn has_diverged(receiving: &str, applying: &str) -> bool {
    RECEIVING_DIVERGED.contains(&receiving) || APPLYING_DIVERGED.contains(&applying)
}

/// Returns true if a replica has applied the transactions up to `position`.
fn has_applied(connection: &mut Connection, position: &str) -> Result<bool, StoreError> {
    Ok(connection.value(&format!("SELECT MASTER_GTID_WAIT('{position}', 0)"))? == "0")
}

/// Returns the first of `nodes` that takes writes.
///
/// # Errors
/// `Unreachable` if none does; as the question.
fn primary_of<'n>(recipe: &MariadbRecipe, nodes: &'n [Arc<Node>], looks: &Waits) -> Result<&'n Node, StoreError> {
    for node in nodes {
        if recipe.open(node, looks)?.value("SELECT @@GLOBAL.read_only")? == "0" {
            return Ok(node);
        }
    }
    Err(no_primary())
}

/// Returns the error for servers of which none takes writes.
pub(crate) fn no_primary() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "no node of the private MariaDB takes writes")
        .next("start the primary, or promote a replica: promote replica, plimsoll lab promote")
}

/// Waits until every replica has all that the primary had. Returns the number of the primary.
pub(crate) fn until_whole(recipe: &MariadbRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<usize, StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    let primary = primary_of(recipe, nodes, &looks)?;
    let position = recipe.open(primary, &looks)?.value("SELECT @@GLOBAL.gtid_binlog_pos")?;
    let mut replicas = nodes.iter().filter(|node| node.number != primary.number);
    replicas.try_for_each(|replica| until_caught_up(recipe, replica, &position, &looks))?;
    Ok(primary.number)
}

/// Waits until a replica has the transactions up to `position`.
fn until_caught_up(recipe: &MariadbRecipe, replica: &Node, position: &str, looks: &Waits) -> Result<(), StoreError> {
    looks.until(LOOK_INTERVAL, "Read the nodes' logs", || {
        let mut connection = recipe.open(replica, looks)?;
        let answer = connection.simple("SHOW SLAVE STATUS")?;
        let number = replica.number + 1;
        let Some(row) = answer.row_iter().next() else {
            return Ok(Err(format!("node {number} follows no primary")));
        };
        let [receiving, applying] = ERRORS.map(|[_, error]| text(row, error));
        let is_connecting = text(row, CONNECTING.0) == CONNECTING.1;
        let fatal = [receiving, applying].into_iter().skip(usize::from(is_connecting)).find(|error| !error.is_empty());
        if let Some(error) = fatal {
            let what = format!("the private MariaDB's node {number} does not follow its primary: {error}");
            return Err(StoreError::new(StoreErrorKind::Broken, what));
        }
        // A primary that lacks the replica's last transaction refuses it before this: the wait compares numbers only.
        let is_read = !text(row, PRIMARY_LOG).is_empty();
        let is_there = is_read && has_applied(&mut connection, position)?;
        Ok(match receiving {
            _ if is_there => Ok(()),
            "" => Err(format!("node {number} has not caught up")),
            error => Err(format!("node {number} does not follow its primary ({error})")),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_other_data_mean_that_a_node_has_diverged() {
        for (receiving, applying) in [("1236", "0"), ("0", "1062"), ("0", "1032"), ("0", "1950")] {
            assert!(has_diverged(receiving, applying), "{receiving} {applying}");
        }
        // None, a refused login, a lost primary, equal numbers of servers, a full disk, a deadlock.
        let others = [("0", "0"), ("1045", "0"), ("2003", "0"), ("1593", "0"), ("0", "1021"), ("0", "1213")];
        for (receiving, applying) in others {
            assert!(!has_diverged(receiving, applying), "{receiving} {applying}");
        }
    }
}
