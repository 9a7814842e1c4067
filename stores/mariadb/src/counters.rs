//! Counters of the server's own work, and the length of its cycle.

use std::time::Instant;

use plimsoll_core::sampler::WAITING_FOR_LOCKS;
use plimsoll_core::{Cycle, Reading, SeriesKind, StoreError, StoreErrorKind};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::progress::SECONDS_BEHIND;
use crate::sql::Flavor;

/// Constructor of a reading from a value.
type Make = fn(&str, &str, &str, f64) -> Reading;

/// Status variables that are worth plotting: MariaDB's name, MySQL's where it is another, ours, unit, and what they are.
const COUNTERS: [(&str, &str, &str, &str, Make); 22] = {
    const LEVEL: Make = Reading::level;
    const TOTAL: Make = Reading::total;
    const MILLISECONDS: Make = |node, name, unit, ms| Reading::total(node, name, unit, ms / 1e3);
    [
        ("Innodb_buffer_pool_pages_dirty", "", "dirty_pages", "", LEVEL),
        ("Innodb_buffer_pool_pages_flushed", "", "flushed_pages", "", TOTAL),
        ("Innodb_buffer_pool_reads", "", "buffer_pool_misses", "", TOTAL),
        ("Innodb_buffer_pool_wait_free", "", "waits_for_a_free_page", "", TOTAL),
        ("Innodb_checkpoint_age", "", "checkpoint_age", "B", LEVEL),
        ("Innodb_os_log_written", "", "log_written", "B", TOTAL),
        ("Innodb_log_waits", "", "log_waits", "", TOTAL),
        ("Innodb_data_fsyncs", "", "fsyncs", "", TOTAL),
        ("Innodb_history_list_length", "", "history_length", "", LEVEL),
        ("Innodb_row_lock_waits", "", "row_lock_waits", "", TOTAL),
        ("Innodb_row_lock_current_waits", "", WAITING_FOR_LOCKS, "", LEVEL),
        ("Innodb_row_lock_time", "", "row_lock_time", "s", MILLISECONDS),
        ("Innodb_deadlocks", "", "deadlocks", "", TOTAL),
        ("Handler_read_key", "", "rows_read_by_key", "", TOTAL),
        ("Handler_write", "", "rows_inserted", "", TOTAL),
        ("Handler_update", "", "rows_updated", "", TOTAL),
        ("Handler_delete", "", "rows_deleted", "", TOTAL),
        // Of a node of Galera: commits of other nodes that it has still to apply, the time that it made them wait for that,
        // and transactions that gave way.
        ("wsrep_local_recv_queue", "", "receive_queue", "", LEVEL),
        ("wsrep_flow_control_sent", "", "flow_control_sent", "", TOTAL),
        ("wsrep_local_cert_failures", "", "certification_failures", "", TOTAL),
        ("wsrep_local_bf_aborts", "", "aborted_by_other_nodes", "", TOTAL),
        ("Innodb_lsn_last_checkpoint", "Innodb_redo_log_checkpoint_lsn", "checkpoint_rounds", "", Reading::cycle),
    ]
};

/// Counters of the server's own work under the name `node`, which is empty for a single server. `log_bytes` is the
/// size of its redo log, 0 where that is not known.
///
/// InnoDB writes a checkpoint every second or so, each over a few pages. What it puts off under load is the writing of
/// dirty pages, and what bounds that is the redo log, which is written round and round: a page must be on disk before
/// the record of its change is written over. So the cycle is one round of checkpoints through the log: when it is
/// over, everything that was dirty at its beginning has been written.
pub(crate) fn read(connection: &mut Connection, log_bytes: u64, node: &str) -> Result<Vec<Reading>, StoreError> {
    let names = COUNTERS.iter().flat_map(|(mariadb, mysql, ..)| [*mariadb, *mysql]).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    let answer = connection.simple(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names.join(", ")))?;
    let mut counters = Vec::with_capacity(COUNTERS.len());
    for (mariadb, mysql, name, unit, make) in COUNTERS {
        let row = answer.row_iter().find(|row| {
            let found = text(*row, 0);
            found.eq_ignore_ascii_case(mariadb) || found.eq_ignore_ascii_case(mysql)
        });
        let Some(Ok(value)) = row.map(|row| text(row, 1).parse::<u64>()) else { continue };
        let reading = make(node, name, unit, value as f64);
        match value.checked_div(log_bytes) {
            _ if reading.kind() != SeriesKind::Cycle => counters.push(reading),
            Some(rounds) => counters.push(make(node, name, unit, rounds as f64)),
            None => {}
        }
    }
    Ok(counters)
}

/// Returns the delay of the replica `node` in whole seconds, as it reports it. `None` for a server that follows no
/// primary, or has no connection to it.
pub(crate) fn lag(connection: &mut Connection, node: &str) -> Result<Option<Reading>, StoreError> {
    let answer = connection.simple("SHOW SLAVE STATUS")?;
    let seconds = answer.row_iter().next().and_then(|row| text(row, SECONDS_BEHIND).parse().ok());
    Ok(seconds.map(|seconds| lag_of(node, seconds)))
}

fn lag_of(node: &str, seconds: f64) -> Reading {
    Reading::level(node, "lag", "s", seconds)
}

/// Returns an example of each counter of servers, of which some may be replicas.
pub(crate) fn examples(has_replicas: bool) -> Vec<Reading> {
    let counters = COUNTERS.iter().map(|(_, _, name, unit, make)| make("", name, unit, 0.0));
    counters.chain(has_replicas.then(|| lag_of("", 0.0))).collect()
}

/// The redo log, and how much of it had been written when sessions were opened.
pub(crate) struct RedoLog {
    flavor: Flavor,
    /// Size of the log; 0 if unknown.
    bytes: u64,
    begun: Instant,
    written_before: u64,
}

impl RedoLog {
    /// Looks how large it is and where it stands.
    pub fn begin(connection: &mut Connection, flavor: Flavor) -> Result<Self, StoreError> {
        let bytes = log_bytes(connection, flavor)?;
        let written_before = written(connection)?.0;
        Ok(Self { flavor, bytes, begun: Instant::now(), written_before })
    }

    /// Time of a round of checkpoints through the log, at the pace since the first look. They may lag behind what is
    /// written by as much as the server allows, so that much comes on top.
    pub fn cycle(&self, connection: &mut Connection) -> Result<Option<Cycle>, StoreError> {
        let (now, age_max) = written(connection)?;
        let pace = now.saturating_sub(self.written_before) as f64 / self.begun.elapsed().as_secs_f64();
        if self.bytes == 0 || pace <= 0.0 {
            return Ok(None);
        }
        let until = self.bytes + age_max.unwrap_or(self.bytes).min(self.bytes);
        let seconds = until as f64 / pace;
        let (setting, shorter) = match self.flavor {
            Flavor::MySql => ("innodb_redo_log_capacity", ""),
            _ => ("innodb_log_file_size", " (log_file)"),
        };
        let mib = |bytes: u64| bytes >> 20;
        Ok(Some(Cycle {
            seconds,
            by_work: true,
            words: format!(
                "The redo log has {} MiB ({setting}): checkpoints have gone once round it when up to {} MiB were written, \
                 {seconds:.0} s at this pace. A smaller log{shorter} brings a round into shorter load steps",
                mib(self.bytes),
                mib(until)
            ),
        }))
    }
}

/// Bytes of log since the server was started, and how far its checkpoints may lag behind, where it says that.
fn written(connection: &mut Connection) -> Result<(u64, Option<u64>), StoreError> {
    let names = ["Innodb_os_log_written", "Innodb_checkpoint_max_age"];
    let asked = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ('{}', '{}')", names[0], names[1]);
    let answer = connection.simple(&asked)?;
    let value = |name: &str| {
        let row = answer.row_iter().find(|row| text(*row, 0).eq_ignore_ascii_case(name))?;
        text(row, 1).parse().ok()
    };
    Ok((value(names[0]).unwrap_or(0), value(names[1])))
}

/// Bytes of the redo log; 0 where the server does not tell.
pub(crate) fn log_bytes(connection: &mut Connection, flavor: Flavor) -> Result<u64, StoreError> {
    let query = match flavor {
        Flavor::MariaDb => "SELECT @@GLOBAL.innodb_log_file_size",
        Flavor::MySqlBefore8 => "SELECT @@GLOBAL.innodb_log_file_size * @@GLOBAL.innodb_log_files_in_group",
        Flavor::MySql => {
            "SELECT VARIABLE_VALUE FROM performance_schema.global_variables \
             WHERE VARIABLE_NAME = 'innodb_redo_log_capacity'"
        }
    };
    match connection.value(query) {
        Ok(value) => Ok(value.parse().unwrap_or(0)),
        Err(error) if matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Store) => Ok(0),
        Err(error) => Err(error),
    }
}
