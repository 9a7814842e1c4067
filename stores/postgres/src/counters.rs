//! Counters of the server's own work: checkpoints, the log, commits, the cache, autovacuum. One question of
//! one round trip, from the views that its version has; another one while sessions wait for locks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use plimsoll_core::lock_waits::LockWaits;
use plimsoll_core::sampler::WAITING_FOR_LOCKS;
use plimsoll_core::{Answer, Dialect, Reading, StoreError};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::lock_waits;

/// First versions that have these views, as `server_version_num`.
const HAS_PG_STAT_WAL: u32 = 140_000;
const HAS_PG_STAT_CHECKPOINTER: u32 = 170_000;
const COUNTS_CHECKPOINTS_DONE: u32 = 180_000;

/// Previous readings, and the query for the next.
#[derive(Default)]
pub(crate) struct Counters {
    columns: Vec<&'static Column>,
    question: String,
    /// Start of the last checkpoint. `checkpoints` counts those that have ended since the first reading.
    checkpoint: String,
    checkpoints: u64,
    /// The server may not be asked where its last checkpoint began.
    without_checkpoint: bool,
    locks: LockWaits,
}

impl Counters {
    /// All counters now.
    pub(crate) fn read(&mut self, connection: &mut Connection) -> Result<Vec<Reading>, StoreError> {
        if self.question.is_empty() {
            let version = connection.value("SHOW server_version_num")?.parse().unwrap_or(0);
            // A role that may not read the server's files may not call it.
            let may = "SELECT has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE')";
            self.without_checkpoint = connection.value(may)? != "t";
            self.ask_for(version);
        }
        let answer = connection.simple(&self.question)?;
        let mut counters = self.counters(&answer);
        self.locks.read(&mut counters, Dialect::Postgres, || lock_waits::read(connection))?;
        Ok(counters)
    }

    /// Puts the question together for a server of this version.
    fn ask_for(&mut self, version: u32) {
        self.columns = COLUMNS.iter().filter(|(from, below, ..)| (*from..*below).contains(&version)).collect();
        let began = if !self.without_checkpoint {
            "(SELECT checkpoint_lsn FROM pg_control_checkpoint())::text"
        } else if version >= COUNTS_CHECKPOINTS_DONE {
            "(SELECT num_done FROM pg_stat_checkpointer)::text"
        } else {
            "''"
        };
        let expressions: Vec<&str> = self.columns.iter().map(|(.., expression)| *expression).collect();
        self.question = format!(
            "SELECT {began}, {} FROM pg_stat_database base, pg_stat_bgwriter writer, {WAITING} waiting{}{} \
             WHERE base.datname = current_database()",
            expressions.join(", "),
            if version >= HAS_PG_STAT_CHECKPOINTER { ", pg_stat_checkpointer checkpointer" } else { "" },
            if version >= HAS_PG_STAT_WAL { ", pg_stat_wal wal" } else { "" },
        );
    }

    fn counters(&mut self, answer: &Answer) -> Vec<Reading> {
        let Some(row) = answer.row_iter().next() else { return Vec::new() };
        let mut counters = Vec::with_capacity(self.columns.len() + 1);
        let began = text(row, 0);
        if !began.is_empty() {
            if !self.checkpoint.is_empty() && self.checkpoint != began {
                self.checkpoints += 1;
            }
            self.checkpoint.clear();
            self.checkpoint.push_str(began);
            // The statistics count a checkpoint when it begins. Version 18 counts those that ended too, but a while after
            // the session that asked for one has its reply. The control file has the start of redo of a checkpoint, and
            // only when it has ended. A checkpoint with nothing to write ends nothing.
            let value = began.parse().unwrap_or(self.checkpoints as f64);
            counters.push(Reading::cycle("", CHECKPOINTS, "", value));
        }
        for ((_, _, name, unit, _), position) in self.columns.iter().zip(1..) {
            let Ok(value) = text(row, position).parse() else { continue };
            counters.push(column(name, unit, value));
        }
        counters
    }
}

/// Replay of the log by the replicas of a private server.
#[derive(Default)]
pub(crate) struct Replay {
    /// Ends of the log at the readings, in bytes, oldest first.
    written: VecDeque<(Instant, f64)>,
}

impl Replay {
    /// Returns the bytes of log that each replica has not replayed, and the time since the first reading that found
    /// such log. PostgreSQL's own `replay_lag` does not grow if a replica stops answering.
    ///
    /// # Errors
    /// As asking.
    pub fn read(&mut self, connection: &mut Connection) -> Result<Vec<Reading>, StoreError> {
        // A replica is called node-2, as its part of the connection to the primary says. One that is only being copied
        // has the same name, and replays nothing. A standby cannot be asked for the end of the log, and returns no row.
        let answer = connection.simple(
            "SELECT replace(application_name, '-', ' '), lsn - replay_lsn, lsn - '0/0' \
             FROM (SELECT pg_current_wal_lsn() AS lsn WHERE NOT pg_is_in_recovery()) AS written \
             LEFT JOIN pg_stat_replication ON replay_lsn IS NOT NULL ORDER BY 1",
        )?;
        let now = Instant::now();
        let mut all = Vec::new();
        for row in answer.row_iter() {
            let Ok(end) = text(row, 2).parse::<f64>() else { continue };
            self.wrote(now, end);
            let Ok(bytes) = text(row, 1).parse::<f64>() else { continue };
            all.extend(behind(text(row, 0), bytes, self.lag(now, end - bytes)));
        }
        Ok(all)
    }

    /// Notes the end of the log at a reading.
    fn wrote(&mut self, now: Instant, end: f64) {
        // A new primary may have less log than the former one.
        while self.written.back().is_some_and(|(at, known)| *known > end || *at == now) {
            self.written.pop_back();
        }
        self.written.push_back((now, end));
        if self.written.len() > READINGS_MAX {
            self.written.pop_front();
        }
    }

    /// Returns the time since the first reading at which the log was longer than `replayed`.
    fn lag(&self, now: Instant, replayed: f64) -> Duration {
        let first = self.written.iter().find(|(_, end)| *end > replayed);
        first.map_or(Duration::ZERO, |(at, _)| now.saturating_duration_since(*at))
    }
}

/// Returns the readings of a replica.
fn behind(node: &str, bytes: f64, lag: Duration) -> [Reading; 2] {
    [Reading::level(node, "replay_behind", "B", bytes), Reading::level(node, "lag", "s", lag.as_secs_f64())]
}

/// Returns the reading of a column.
fn column(name: &str, unit: &str, value: f64) -> Reading {
    let make = if LEVELS.contains(&name) { Reading::level } else { Reading::total };
    make("", name, unit, value)
}

/// Returns an example of each counter of servers, of which some may be replicas. Those of each replica have a subject.
pub(crate) fn examples(has_replicas: bool) -> Vec<Reading> {
    let mut all = vec![Reading::cycle("", CHECKPOINTS, "", 0.0)];
    for (_, _, name, unit, _) in &COLUMNS {
        // Versions ask for some in different ways.
        if all.iter().all(|known| known.name != *name) {
            all.push(column(name, unit, 0.0));
        }
    }
    if has_replicas {
        all.extend(behind("node 2", 0.0, Duration::ZERO));
    }
    all
}

/// The first version that has it and the first that has it no more, our name and unit, and how it is asked for.
type Column = (u32, u32, &'static str, &'static str, &'static str);

/// No version.
const NONE: u32 = u32::MAX;
/// Name of the cycle.
const CHECKPOINTS: &str = "checkpoints";
/// Maximum of kept readings of the log's end: an hour of seconds.
const READINGS_MAX: usize = 3_600;
/// Names of the columns that do not only grow.
const LEVELS: [&str; 5] = [CONNECTIONS, WAITING_FOR_LOCKS, WAITING_FOR_INTERNAL_LOCKS, WAITING_FOR_IO, IDLE];
const CONNECTIONS: &str = "connections";
/// Sessions that wait for a structure in shared memory; for a file. Those that wait for another's transaction are
/// [`WAITING_FOR_LOCKS`].
const WAITING_FOR_INTERNAL_LOCKS: &str = "waiting_for_internal_locks";
const WAITING_FOR_IO: &str = "waiting_for_io";
/// Sessions whose client is silent inside a transaction, which keeps its locks.
const IDLE: &str = "idle_in_transaction";

/// Sessions of this database by the class of event that they wait for. A role without `pg_read_all_stats` sees its own.
const WAITING: &str = "(SELECT count(*) FILTER (WHERE wait_event_type = 'Lock') AS locks, \
                       count(*) FILTER (WHERE wait_event_type LIKE 'LWLock%') AS internal_locks, \
                       count(*) FILTER (WHERE wait_event_type = 'IO') AS io, \
                       count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle \
                       FROM pg_stat_activity WHERE datname = current_database())";

/// Counters of servers.
const COLUMNS: [Column; 25] = [
    (0, NONE, "commits", "", "base.xact_commit"),
    (0, NONE, "rollbacks", "", "base.xact_rollback"),
    (0, NONE, "deadlocks", "", "base.deadlocks"),
    (0, NONE, "blocks_read", "", "base.blks_read"),
    (0, NONE, "blocks_hit", "", "base.blks_hit"),
    (0, NONE, "temporary_files", "B", "base.temp_bytes"),
    (0, NONE, CONNECTIONS, "", "base.numbackends"),
    (0, NONE, WAITING_FOR_LOCKS, "", "waiting.locks"),
    (0, NONE, WAITING_FOR_INTERNAL_LOCKS, "", "waiting.internal_locks"),
    (0, NONE, WAITING_FOR_IO, "", "waiting.io"),
    (0, NONE, IDLE, "", "waiting.idle"),
    (0, NONE, "blocks_written_by_writer", "", "writer.buffers_clean"),
    (0, NONE, "log_written", "B", LOG_WRITTEN),
    (0, NONE, "autovacuums", "", AUTOVACUUMS),
    (0, NONE, "autoanalyzes", "", AUTOANALYZES),
    (HAS_PG_STAT_WAL, NONE, "full_page_images", "", "wal.wal_fpi"),
    (HAS_PG_STAT_WAL, NONE, "log_buffers_full", "", "wal.wal_buffers_full"),
    (HAS_PG_STAT_CHECKPOINTER, NONE, "checkpoints_begun", "", "checkpointer.num_timed + checkpointer.num_requested"),
    (HAS_PG_STAT_CHECKPOINTER, NONE, "checkpoints_begun_by_log", "", "checkpointer.num_requested"),
    (HAS_PG_STAT_CHECKPOINTER, NONE, "blocks_written_by_checkpoints", "", "checkpointer.buffers_written"),
    (HAS_PG_STAT_CHECKPOINTER, NONE, "blocks_written_by_sessions", "", WRITTEN_BY_SESSIONS),
    (0, HAS_PG_STAT_CHECKPOINTER, "checkpoints_begun", "", "writer.checkpoints_timed + writer.checkpoints_req"),
    (0, HAS_PG_STAT_CHECKPOINTER, "checkpoints_begun_by_log", "", "writer.checkpoints_req"),
    (0, HAS_PG_STAT_CHECKPOINTER, "blocks_written_by_checkpoints", "", "writer.buffers_checkpoint"),
    (0, HAS_PG_STAT_CHECKPOINTER, "blocks_written_by_sessions", "", "writer.buffers_backend"),
];

/// Bytes of log since the server was made; of a standby what it has replayed.
const LOG_WRITTEN: &str = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() - '0/0' \
                           ELSE pg_current_wal_insert_lsn() - '0/0' END";
const AUTOVACUUMS: &str = "(SELECT coalesce(sum(pg_stat_get_autovacuum_count(oid)), 0) FROM pg_class \
                           WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r')";
const AUTOANALYZES: &str = "(SELECT coalesce(sum(pg_stat_get_autoanalyze_count(oid)), 0) FROM pg_class \
                            WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r')";
const WRITTEN_BY_SESSIONS: &str = "(SELECT coalesce(sum(writes), 0) FROM pg_stat_io \
                                   WHERE backend_type = 'client backend' AND object = 'relation')";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_lags_since_the_first_reading_with_log_that_it_has_not_replayed() {
        let (start, mut replay) = (Instant::now(), Replay::default());
        let at = |second: u64| start + Duration::from_secs(second);
        for (second, end) in [(0, 100.0), (1, 200.0), (2, 200.0), (3, 300.0)] {
            replay.wrote(at(second), end);
        }
        let lag = |replay: &Replay, replayed| replay.lag(at(3), replayed).as_secs();
        assert_eq!(
            [300.0, 250.0, 200.0, 150.0, 100.0, 50.0].map(|replayed| lag(&replay, replayed)),
            [0, 0, 0, 2, 2, 3]
        );
        replay.wrote(at(3), 180.0);
        assert_eq!([180.0, 150.0, 50.0].map(|replayed| lag(&replay, replayed)), [0, 0, 3], "the log of a new primary");
    }
}
