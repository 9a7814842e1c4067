//! Replicas that follow a primary's binary log, by global transaction ids.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Member, Node, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::text;

use crate::server::MariadbRecipe;

/// Between two looks whether a replica follows.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time of a look.
const LOOK_BOUND: Duration = Duration::from_secs(10);

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
    arguments.extend((node.number > 0).then(|| "--read-only=ON".to_owned()));
    arguments
}

/// Makes all nodes but the first follow the first.
pub(crate) fn form(recipe: &MariadbRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let [primary, replicas @ ..] = nodes else { return Ok(()) };
    replicas.iter().try_for_each(|replica| follow(recipe, primary, replica, waits))
}

/// Makes a new node follow the primary, from its first transaction on.
pub(crate) fn follow(recipe: &MariadbRecipe, primary: &Node, replica: &Node, waits: &Waits) -> Result<(), StoreError> {
    let (login, address) = (recipe.login(primary), primary.listens_at(0));
    let mut connection = recipe.open(replica, waits)?;
    // What its own installation has written is no part of the primary's history.
    for statement in [
        "RESET MASTER".to_owned(),
        "SET GLOBAL gtid_slave_pos = ''".to_owned(),
        format!(
            "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{}', MASTER_PASSWORD = '{}', \
             MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
            address.ip(),
            address.port(),
            login.user,
            primary.secret,
        ),
        "START SLAVE".to_owned(),
    ] {
        connection.simple(&statement)?;
    }
    Ok(())
}

/// Waits until every replica has all that the primary had.
pub(crate) fn until_whole(recipe: &MariadbRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    let [primary, replicas @ ..] = nodes else { return Ok(()) };
    let position = recipe.open(primary, &looks)?.value("SELECT @@GLOBAL.gtid_binlog_pos")?;
    replicas.iter().try_for_each(|replica| {
        waits.until(LOOK_INTERVAL, "Read the nodes' logs", || {
            let mut connection = recipe.open(replica, &looks)?;
            let answer = connection.simple("SHOW SLAVE STATUS")?;
            let number = replica.number + 1;
            let Some(row) = answer.row_iter().next() else {
                return Ok(Err(format!("node {number} follows no primary")));
            };
            // Last_IO_Error and Last_SQL_Error, in every version.
            let errors: Vec<&str> = [35, 37].iter().map(|at| text(row, *at)).filter(|word| !word.is_empty()).collect();
            if let Some(error) = errors.iter().find(|error| !error.contains("error reconnecting")) {
                let what = format!("the private MariaDB's node {number} does not follow its primary: {error}");
                return Err(StoreError::new(StoreErrorKind::Broken, what));
            }
            let caught_up = format!("SELECT MASTER_GTID_WAIT('{position}', 0)");
            Ok(match connection.value(&caught_up)?.as_str() {
                "0" => Ok(()),
                _ => Err(format!("node {number} has not caught up")),
            })
        })
    })
}
