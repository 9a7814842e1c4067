//! Transactions that wait for locks of others, and sessions that wait for locks of the server, such as metadata locks.

use plimsoll_core::lock_waits::{LockWait, LockWaits};
use plimsoll_core::sampler::WAITING_FOR_LOCKS;
use plimsoll_core::{Dialect, Reading, StoreError, Values};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::sql::Flavor;

/// Question for waiting transactions: each with one that blocks it, the type and table of the lock, and the blocker's
/// statement. Of several blockers those come first that do not wait themselves. InnoDB renews these tables if they have
/// not been read for 0.1 s.
const OF_MARIADB: &str = "SELECT waits.requesting_trx_id, waits.blocking_trx_id, wanted.lock_type, wanted.lock_table, \
     LEFT(holder.trx_query, 1000) FROM information_schema.INNODB_LOCK_WAITS waits \
     JOIN information_schema.INNODB_LOCKS wanted ON wanted.lock_id = waits.requested_lock_id \
     JOIN information_schema.INNODB_TRX holder ON holder.trx_id = waits.blocking_trx_id \
     ORDER BY holder.trx_state = 'LOCK WAIT' LIMIT 256";

/// Question for MySQL 8, which also has the last statement of a session that is between two.
const OF_MYSQL: &str = "SELECT waits.REQUESTING_ENGINE_TRANSACTION_ID, waits.BLOCKING_ENGINE_TRANSACTION_ID, \
     wanted.LOCK_TYPE, CONCAT('`', wanted.OBJECT_SCHEMA, '`.`', wanted.OBJECT_NAME, '`'), \
     LEFT(COALESCE(holder.trx_query, recent.SQL_TEXT), 1000) FROM performance_schema.data_lock_waits waits \
     JOIN performance_schema.data_locks wanted ON wanted.ENGINE_LOCK_ID = waits.REQUESTING_ENGINE_LOCK_ID \
     JOIN information_schema.INNODB_TRX holder ON holder.trx_id = waits.BLOCKING_ENGINE_TRANSACTION_ID \
     LEFT JOIN performance_schema.events_statements_current recent ON recent.THREAD_ID = waits.BLOCKING_THREAD_ID \
     ORDER BY holder.trx_state = 'LOCK WAIT' LIMIT 256";

/// Question for sessions that wait for locks of the server, which InnoDB does not know. Without the privilege PROCESS it
/// lists sessions of the same user only.
const OF_SERVER: &str = "SELECT ID, STATE FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for % lock'";

/// Adds sessions that wait for locks of the server to the number of waits in `counters`, which has those of InnoDB. Then
/// adds the series of `locks`.
///
/// # Errors
/// As asking.
pub(crate) fn add(
    counters: &mut Vec<Reading>,
    locks: &mut LockWaits,
    connection: &mut Connection,
    flavor: Flavor,
) -> Result<(), StoreError> {
    let answer = connection.simple(OF_SERVER)?;
    let wait = |row: Values<'_>| of_server(text(row, 0), text(row, 1));
    let waiting: Vec<LockWait> = answer.row_iter().map(wait).collect();
    if let Some(count) = counters.iter_mut().find(|counter| counter.name == WAITING_FOR_LOCKS) {
        *count = Reading::level(&count.subject, WAITING_FOR_LOCKS, "", count.number() + waiting.len() as f64);
    }
    locks.read(counters, Dialect::Mysql, || Ok([waiting, of_innodb(connection, flavor)?].concat()))
}

/// Returns the wait of a session in this state. The server names neither the holder of the lock nor its object.
fn of_server(session: &str, state: &str) -> LockWait {
    LockWait {
        // Transactions have numbers of their own.
        waiter: format!("session {session}"),
        holder: String::new(),
        object: format!("a {}", state.strip_prefix("Waiting for ").unwrap_or(state)),
        statement: None,
    }
}

/// Returns the waits that InnoDB lists, at most 256.
///
/// # Errors
/// As asking: `Permission` for a user without PROCESS.
fn of_innodb(connection: &mut Connection, flavor: Flavor) -> Result<Vec<LockWait>, StoreError> {
    let question = match flavor {
        Flavor::MariaDb | Flavor::MySqlBefore8 => OF_MARIADB,
        Flavor::MySql => OF_MYSQL,
    };
    let answer = connection.simple(question)?;
    let wait = |row: Values<'_>| LockWait {
        waiter: text(row, 0).to_owned(),
        holder: text(row, 1).to_owned(),
        object: object(text(row, 2), text(row, 3)),
        statement: Some(text(row, 4)).filter(|text| !text.is_empty()).map(str::to_owned),
    };
    Ok(answer.row_iter().map(wait).collect())
}

/// Returns words for a lock of this type on a table, which is given as `` `database`.`table` ``.
fn object(kind: &str, table: &str) -> String {
    let name = table.split("`.`").nth(1).and_then(|name| name.split('`').next()).unwrap_or(table);
    match kind {
        _ if name.is_empty() => "a row".to_owned(),
        "TABLE" => format!("table {name}"),
        _ => format!("a row of {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_the_server_have_no_holder() {
        let wait = of_server("12", "Waiting for table metadata lock");
        let words = (wait.waiter.as_str(), wait.holder.as_str(), wait.object.as_str());
        assert_eq!(words, ("session 12", "", "a table metadata lock"));
    }

    #[test]
    fn locks_are_named_by_their_type_and_table() {
        let named = [
            (("RECORD", "`shop`.`my_orders`"), "a row of my_orders"),
            (("RECORD", "`shop`.`orders` /* Partition `p0` */"), "a row of orders"),
            (("TABLE", "`shop`.`orders`"), "table orders"),
            (("RECORD", ""), "a row"),
        ];
        for ((kind, table), words) in named {
            assert_eq!(object(kind, table), words);
        }
    }
}
