//! Sessions of this database that wait for locks of others.

use plimsoll_core::lock_waits::LockWait;
use plimsoll_core::{StoreError, Values};
use plimsoll_endpoint::text;

use crate::connection::Connection;

/// Question for waiting sessions: each with its first blocker, the type and relation of the lock, and the blocker's
/// statement. A session that waits for a row waits for the end of a transaction. Usually its lock on the row itself has
/// the relation. While it follows a row from version to version, and for a duplicate key, it has no such lock. Then both
/// sessions have locks of their statements on the table: if they share one table only, the row is one of that.
const QUESTION: &str = "WITH locks AS (SELECT pid, locktype, relation, mode, granted FROM pg_locks \
     WHERE relation IS NOT NULL AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), \
     tables AS (SELECT locks.pid, locks.relation FROM locks JOIN pg_class ON pg_class.oid = locks.relation \
     WHERE locktype = 'relation' AND granted AND mode IN ('RowShareLock', 'RowExclusiveLock') AND relkind = 'r') \
     SELECT waiter.pid, waiter.blocker, waiter.wait_event, coalesce(wanted.relation, \
     CASE waiter.wait_event WHEN 'transactionid' THEN (SELECT CASE count(DISTINCT own.relation) \
     WHEN 1 THEN min(own.relation::regclass::text) END FROM tables AS own \
     JOIN tables AS other ON other.relation = own.relation \
     WHERE own.pid = waiter.pid AND other.pid = waiter.blocker) END, ''), \
     CASE holder.query WHEN '<insufficient privilege>' THEN '' ELSE left(holder.query, 1000) END \
     FROM (SELECT pid, wait_event, (pg_blocking_pids(pid))[1] AS blocker FROM pg_stat_activity \
     WHERE wait_event_type = 'Lock' AND datname = current_database() LIMIT 64) AS waiter \
     LEFT JOIN (SELECT pid, min(relation::regclass::text) AS relation FROM locks \
     WHERE locktype = 'tuple' OR NOT granted GROUP BY pid) AS wanted ON wanted.pid = waiter.pid \
     LEFT JOIN pg_stat_activity AS holder ON holder.pid = waiter.blocker WHERE waiter.blocker IS NOT NULL";

/// Returns the waits of at most 64 sessions.
///
/// # Errors
/// As asking.
pub(crate) fn read(connection: &mut Connection) -> Result<Vec<LockWait>, StoreError> {
    let answer = connection.simple(QUESTION)?;
    let wait = |row: Values<'_>| LockWait {
        waiter: text(row, 0).to_owned(),
        holder: text(row, 1).to_owned(),
        object: object(text(row, 2), text(row, 3)),
        statement: Some(text(row, 4).to_owned()),
    };
    Ok(answer.row_iter().map(wait).collect())
}

/// Returns words for a lock of this type on this relation, which is empty if it is not known.
fn object(kind: &str, relation: &str) -> String {
    match (kind, relation) {
        ("transactionid" | "tuple", "") => "a row".to_owned(),
        ("transactionid" | "tuple", relation) => format!("a row of {relation}"),
        ("relation", relation) if !relation.is_empty() => format!("table {relation}"),
        ("advisory", _) => "an advisory lock".to_owned(),
        (kind, "") => format!("a lock of type {kind}"),
        (kind, relation) => format!("a lock of type {kind} of {relation}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_named_by_their_type_and_relation() {
        let named = [
            (("transactionid", "accounts"), "a row of accounts"),
            (("tuple", ""), "a row"),
            (("relation", "accounts"), "table accounts"),
            (("advisory", ""), "an advisory lock"),
            (("virtualxid", ""), "a lock of type virtualxid"),
            (("extend", "accounts"), "a lock of type extend of accounts"),
        ];
        for ((kind, relation), words) in named {
            assert_eq!(object(kind, relation), words);
        }
    }
}
