//! What the server counts of its own work: checkpoints, the log, commits, the cache, autovacuum. One question of
//! one round trip, from the views that its version has.

use plimsoll_core::{Answer, Reading, StoreError, Value};

use crate::connection::Connection;

/// First versions that have these views, as `server_version_num`.
const HAS_PG_STAT_WAL: u32 = 140_000;
const HAS_PG_STAT_CHECKPOINTER: u32 = 170_000;
const COUNTS_CHECKPOINTS_DONE: u32 = 180_000;

/// A column of the question.
struct Column {
    name: &'static str,
    unit: &'static str,
    make: fn(&str, &str, &str, f64) -> Reading,
    expression: &'static str,
}

const fn total(name: &'static str, unit: &'static str, expression: &'static str) -> Column {
    Column { name, unit, make: Reading::total, expression }
}

/// What has been read before, and how to ask.
#[derive(Default)]
pub(crate) struct Counters {
    columns: Vec<Column>,
    question: String,
    /// Where the last checkpoint began, and how many have ended since the first reading.
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
            // The answer is one that whoever may not look at the server's files is refused.
            let may = "SELECT has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE')";
            self.without_checkpoint = connection.value(may)? != "t";
            self.ask_for(version);
        }
        let answer = connection.simple(&self.question)?;
        Ok(self.counters(&answer))
    }

    /// Puts the question together for a server of this version.
    fn ask_for(&mut self, version: u32) {
        self.columns = columns(version);
        let began = if !self.without_checkpoint {
            "(SELECT checkpoint_lsn FROM pg_control_checkpoint())::text"
        } else if version >= COUNTS_CHECKPOINTS_DONE {
            "(SELECT num_done FROM pg_stat_checkpointer)::text"
        } else {
            "''"
        };
        let expressions: Vec<&str> = self.columns.iter().map(|column| column.expression).collect();
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
        let text = |position| match row.get(position) {
            Value::Text(text) => text,
            _ => "",
        };
        let mut counters = Vec::with_capacity(self.columns.len() + 1);
        let began = text(0);
        if !began.is_empty() {
            if !self.checkpoint.is_empty() && self.checkpoint != began {
                self.checkpoints += 1;
            }
            self.checkpoint.clear();
            self.checkpoint.push_str(began);
            // The statistics count a checkpoint when it begins. Version 18 counts those that ended too, but says so a
            // while after whoever asked for one has been told that it is done. The control file tells one that
            // has ended: it says where its redo begins, and only then. One that had nothing to write ends nothing.
            let value = began.parse().unwrap_or(self.checkpoints as f64);
            counters.push(Reading::cycle("", "checkpoints", "", value));
        }
        for (column, position) in self.columns.iter().zip(1..) {
            let Ok(value) = text(position).parse() else { continue };
            counters.push((column.make)("", column.name, column.unit, value));
        }
        counters
    }
}

/// What a server of this version counts.
fn columns(version: u32) -> Vec<Column> {
    let mut columns = vec![
        total("commits", "", "base.xact_commit"),
        total("rollbacks", "", "base.xact_rollback"),
        total("deadlocks", "", "base.deadlocks"),
        total("blocks_read", "", "base.blks_read"),
        total("blocks_hit", "", "base.blks_hit"),
        total("temporary_files", "B", "base.temp_bytes"),
        Column { name: "connections", unit: "", make: Reading::level, expression: "base.numbackends" },
        total("blocks_written_by_writer", "", "writer.buffers_clean"),
        total("log_written", "B", LOG_WRITTEN),
        total(
            "autovacuums",
            "",
            "(SELECT coalesce(sum(pg_stat_get_autovacuum_count(oid)), 0) FROM pg_class \
             WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r')",
        ),
        total(
            "autoanalyzes",
            "",
            "(SELECT coalesce(sum(pg_stat_get_autoanalyze_count(oid)), 0) FROM pg_class \
             WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r')",
        ),
    ];
    if version >= HAS_PG_STAT_WAL {
        columns.push(total("full_page_images", "", "wal.wal_fpi"));
        columns.push(total("log_buffers_full", "", "wal.wal_buffers_full"));
    }
    if version >= HAS_PG_STAT_CHECKPOINTER {
        columns.push(total("checkpoints_begun", "", "checkpointer.num_timed + checkpointer.num_requested"));
        columns.push(total("checkpoints_begun_by_log", "", "checkpointer.num_requested"));
        columns.push(total("blocks_written_by_checkpoints", "", "checkpointer.buffers_written"));
    } else {
        columns.push(total("checkpoints_begun", "", "writer.checkpoints_timed + writer.checkpoints_req"));
        columns.push(total("checkpoints_begun_by_log", "", "writer.checkpoints_req"));
        columns.push(total("blocks_written_by_checkpoints", "", "writer.buffers_checkpoint"));
    }
    if version < HAS_PG_STAT_CHECKPOINTER {
        columns.push(total("blocks_written_by_sessions", "", "writer.buffers_backend"));
    } else {
        columns.push(total(
            "blocks_written_by_sessions",
            "",
            "(SELECT coalesce(sum(writes), 0) FROM pg_stat_io WHERE backend_type = 'client backend' \
             AND object = 'relation')",
        ));
    }
    columns
}

/// Bytes of log since the server was made; of a standby what it has replayed.
const LOG_WRITTEN: &str = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() - '0/0' \
                           ELSE pg_current_wal_insert_lsn() - '0/0' END";
