//! Counters of the server's own work: checkpoints, the log, commits, the cache, autovacuum. One question of
//! one round trip, from the views that its version has.

use plimsoll_core::{Answer, Reading, StoreError};
use plimsoll_endpoint::text;

use crate::connection::Connection;

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
        Ok(self.counters(&answer))
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
            "SELECT {began}, {} FROM pg_stat_database base, pg_stat_bgwriter writer{}{} \
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
            counters.push(Reading::cycle("", "checkpoints", "", value));
        }
        for ((_, _, name, unit, _), position) in self.columns.iter().zip(1..) {
            let Ok(value) = text(row, position).parse() else { continue };
            let make = if *name == CONNECTIONS { Reading::level } else { Reading::total };
            counters.push(make("", name, unit, value));
        }
        counters
    }
}

/// Returns how far each replica of a private server is behind: bytes of log that it has not replayed.
///
/// # Errors
/// As asking.
pub(crate) fn of_replicas(connection: &mut Connection) -> Result<Vec<Reading>, StoreError> {
    // A replica is called node-2, as its part of the connection to the primary says. One that is only being copied has the
    // same name, and replays nothing.
    let answer = connection.simple(
        "SELECT replace(application_name, '-', ' '), pg_current_wal_lsn() - replay_lsn \
         FROM pg_stat_replication WHERE replay_lsn IS NOT NULL ORDER BY 1",
    )?;
    let reading = |row| Some(Reading::level(text(row, 0), "replay_behind", "B", text(row, 1).parse().ok()?));
    Ok(answer.row_iter().filter_map(reading).collect())
}

/// The first version that has it and the first that has it no more, our name and unit, and how it is asked for.
type Column = (u32, u32, &'static str, &'static str, &'static str);

/// No version.
const NONE: u32 = u32::MAX;
/// Name of the only column that does not only grow.
const CONNECTIONS: &str = "connections";

/// Counters of servers.
const COLUMNS: [Column; 21] = [
    (0, NONE, "commits", "", "base.xact_commit"),
    (0, NONE, "rollbacks", "", "base.xact_rollback"),
    (0, NONE, "deadlocks", "", "base.deadlocks"),
    (0, NONE, "blocks_read", "", "base.blks_read"),
    (0, NONE, "blocks_hit", "", "base.blks_hit"),
    (0, NONE, "temporary_files", "B", "base.temp_bytes"),
    (0, NONE, CONNECTIONS, "", "base.numbackends"),
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
