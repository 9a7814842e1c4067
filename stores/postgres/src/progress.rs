//! Long-running work of a PostgreSQL: base backups, replicas that catch up, vacuums, index builds; and the recovery of one that
//! takes no sessions yet.

use std::path::Path;

use plimsoll_core::{Node, Progress, StoreError};
use plimsoll_endpoint::text;

use crate::connection::Connection;

/// A replica that is this far behind catches up; under a load each is a little.
const BEHIND_BYTES: u64 = 1 << 20;
/// Bytes of a segment of the write-ahead log, as PostgreSQL makes them by default.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Base backups by the names that our replicas log in with.
const BACKUPS: &str = "SELECT r.application_name, p.phase, p.backup_streamed, p.backup_total, \
     extract(epoch FROM now() - r.backend_start)::bigint, coalesce(a.wait_event_type || ': ' || a.wait_event, '') \
     FROM pg_stat_progress_basebackup p JOIN pg_stat_replication r USING (pid) JOIN pg_stat_activity a USING (pid)";
/// Log that replicas have not replayed yet.
const REPLICAS: &str = "SELECT application_name, state, \
     pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(replay_lsn, sent_lsn, pg_current_wal_lsn()))::bigint \
     FROM pg_stat_replication WHERE NOT pg_is_in_recovery() AND state <> 'backup'";
/// Work on tables and indexes. What a server's version does not have is left out one by one.
const WORKS: [(&str, &str); 3] = [
    (
        "vacuum of",
        "SELECT p.relid::regclass, p.phase, p.heap_blks_scanned, p.heap_blks_total, \
         extract(epoch FROM now() - a.query_start)::bigint \
         FROM pg_stat_progress_vacuum p JOIN pg_stat_activity a USING (pid)",
    ),
    (
        "index of",
        "SELECT p.relid::regclass, p.phase, CASE WHEN p.tuples_total > 0 THEN p.tuples_done ELSE p.blocks_done END, \
         CASE WHEN p.tuples_total > 0 THEN p.tuples_total ELSE p.blocks_total END, \
         extract(epoch FROM now() - a.query_start)::bigint, \
         CASE WHEN p.tuples_total > 0 THEN 'rows' ELSE 'blocks' END \
         FROM pg_stat_progress_create_index p JOIN pg_stat_activity a USING (pid)",
    ),
    (
        "analyze of",
        "SELECT p.relid::regclass, p.phase, p.sample_blks_scanned, p.sample_blks_total, \
         extract(epoch FROM now() - a.query_start)::bigint \
         FROM pg_stat_progress_analyze p JOIN pg_stat_activity a USING (pid)",
    ),
];

/// Returns the long-running work of `node`.
pub(crate) fn of(connection: &mut Connection, node: &Node) -> Result<Vec<Progress>, StoreError> {
    let mut all = Vec::new();
    let replica = |name: &str| name.strip_prefix("node-")?.parse::<usize>().ok()?.checked_sub(1);
    for row in connection.simple(BACKUPS)?.row_iter() {
        let backup = Progress::new(replica(text(row, 0)).unwrap_or(node.number), "base backup").step(text(row, 1));
        let backup = backup.done(whole(text(row, 2)), Some(whole(text(row, 3))), "B").running_for(whole(text(row, 4)));
        all.push(backup.waiting_for(text(row, 5)));
    }
    for row in connection.simple(REPLICAS)?.row_iter() {
        let (behind, state) = (whole(text(row, 2)), text(row, 1));
        if behind >= BEHIND_BYTES || state != "streaming" {
            let of = replica(text(row, 0)).unwrap_or(node.number);
            all.push(Progress::new(of, "catching up").step(state).left(behind, "B"));
        }
    }
    for (what, query) in WORKS {
        let Ok(answer) = connection.simple(query) else { continue };
        for row in answer.row_iter() {
            let unit = if row.len() > 5 { text(row, 5) } else { "blocks" };
            let work = Progress::new(node.number, format!("{what} {}", text(row, 0))).step(text(row, 1));
            let work = work.done(whole(text(row, 2)), Some(whole(text(row, 3))), unit);
            all.push(work.running_for(whole(text(row, 4))).aside());
        }
    }
    Ok(all)
}

fn whole(number: &str) -> u64 {
    number.parse().unwrap_or(0)
}

/// The recovery of a server that takes no sessions: how far it is stands in the title of its startup process, and up to where
/// it goes is the segment of the log that was written last.
pub(crate) fn recovery(node: &Node, data: &Path) -> Option<Progress> {
    let pid_file = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let postmaster = pid_file.lines().next()?.trim().to_owned();
    let children = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).ok()?;
    let title = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok();
    let at = children.split_whitespace().find_map(|pid| {
        let title = title(pid)?;
        Some(title.split_once("recovering ")?.1.trim_end_matches(['\0', ' ']).to_owned())
    })?;
    let written = std::fs::read_dir(data.join("pg_wal")).ok()?.flatten().filter_map(|entry| {
        let position = segment(entry.file_name().to_str()?)?;
        Some((entry.metadata().ok()?.modified().ok()?, position))
    });
    let progress = Progress::new(node.number, "recovery").step(format!("log segment {at}"));
    // Segments that are kept for later use have names further on, and were written before.
    match (segment(&at), written.max()) {
        // The checkpoint after the last segment takes long on a slow disk, and nothing shows how far it is.
        (Some(at), Some((_, last))) if last > at => Some(progress.left((last - at + 1) * SEGMENT_BYTES, "B")),
        _ => Some(progress),
    }
}

/// The position of a segment by its file's name: 24 hexadecimal digits for timeline, high and low part.
fn segment(name: &str) -> Option<u64> {
    let part = |from: usize| u64::from_str_radix(name.get(from..from + 8)?, 16).ok();
    if name.len() != 24 {
        return None;
    }
    part(0)?;
    Some(part(8)? * ((1 << 32) / SEGMENT_BYTES) + part(16)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_the_log_follow_one_another() {
        assert_eq!(segment("0000000100000000000000FF").unwrap() + 1, segment("000000010000000100000000").unwrap());
        assert_eq!(segment("0000000200000000000000FF"), segment("0000000100000000000000FF"));
        assert_eq!(segment("000000010000000000000001.partial"), None);
        assert_eq!(segment("archive_status"), None);
    }
}
