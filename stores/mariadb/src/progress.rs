//! Long-running work of a MariaDB: the state transfer of a node that joins, the backlog of a node or replica,
//! statements that report their progress.

use std::path::Path;

use plimsoll_core::{Member, Node, Progress, StoreError};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::galera;
use crate::server::Topology;

/// Statements that report their progress: stages, and the share of the stage they are in.
const STATEMENTS: &str = "SELECT id, state, stage, max_stage, progress, floor(time_ms / 1000) \
     FROM information_schema.processlist WHERE max_stage > 0";
/// Columns of `SHOW SLAVE STATUS`, in every version: the state of the replica, and its delay.
const SLAVE_STATE: usize = 0;
pub(crate) const SECONDS_BEHIND: usize = 32;
/// File that each node makes for itself at once, and receives from no other node.
const OWN_CACHE: &str = "galera.cache";

/// Returns the long-running work of `node`.
pub(crate) fn of(connection: &mut Connection, node: &Node, topology: Topology) -> Result<Vec<Progress>, StoreError> {
    let mut all = Vec::new();
    match topology {
        Topology::Alone => {}
        Topology::Galera => {
            let state = galera::status(connection, "wsrep_local_state_comment")?;
            if state != "Synced" {
                let waiting = whole(&galera::status(connection, "wsrep_local_recv_queue")?);
                let is_donor = state.starts_with("Donor");
                let what = if is_donor { "state transfer to another node" } else { "catching up" };
                let progress = Progress::new(node.number, what).step(state).left(waiting, "write sets");
                all.push(if is_donor { progress.aside() } else { progress });
            }
        }
        Topology::Replicas => {
            let answer = connection.simple("SHOW SLAVE STATUS")?;
            for row in answer.row_iter() {
                let behind = whole(text(row, SECONDS_BEHIND));
                if behind > 0 {
                    let progress = Progress::new(node.number, "catching up").step(text(row, SLAVE_STATE));
                    all.push(progress.left(behind, "s"));
                }
            }
        }
    }
    // MySQL has no such columns.
    let Ok(answer) = connection.simple(STATEMENTS) else { return Ok(all) };
    for row in answer.row_iter() {
        let step = format!("stage {} of {}: {}", text(row, 2), text(row, 3), text(row, 1));
        let progress = Progress::new(node.number, format!("statement of session {}", text(row, 0))).step(step);
        let share = text(row, 4).parse::<f64>().unwrap_or(0.0);
        all.push(progress.done(share as u64, Some(100), "%").running_for(whole(text(row, 5))).aside());
    }
    Ok(all)
}

/// The state transfer of a node that takes no sessions: how much of what another one has it has on its disk. `None` where
/// another one has less: the node was a part of the cluster before.
pub(crate) fn state_transfer(node: Member<'_>) -> Option<Progress> {
    let size = |node: &Node| bytes_in(&node.data_dir.join("db"));
    let others = node.nodes.iter().filter(|other| other.number != node.number);
    let total = others.map(|other| size(other)).max()?;
    let done = size(&node);
    (done < total).then(|| Progress::new(node.number, "state transfer").done(done, Some(total), "B"))
}

/// Bytes of the files below `directory` that a node gives to another.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter(|entry| entry.file_name() != OWN_CACHE).map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn whole(number: &str) -> u64 {
    number.parse().unwrap_or(0)
}
