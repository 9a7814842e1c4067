//! Planned work on a private server during a load, by a child of the server: a snapshot, a new append-only file.

use std::time::Duration;

use plimsoll_core::{StoreError, StoreErrorKind};

use crate::control::Control;
use crate::facts::Info;
use crate::reshard::RESHARD;

/// Work of a server that has keys.
pub(crate) const WORKS: &[&str] = &["save", "rewrite"];
/// Work of a cluster's master.
pub(crate) const OF_MASTER: &[&str] = &["save", "rewrite", RESHARD];
/// Interval of looks whether the child has ended, long enough to disturb no load.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Starts a snapshot (`save`) or a rewrite of the append-only file (`rewrite`), and waits until it has ended.
///
/// # Errors
/// `Store` if the server refuses, or the child failed; `Interrupted`.
pub(crate) fn run(control: &mut Control, name: &str) -> Result<(), StoreError> {
    let (command, ended) = match name {
        "save" => ("BGSAVE", "rdb_last_bgsave_status"),
        _ => ("BGREWRITEAOF", "aof_last_bgrewrite_status"),
    };
    // A child of the server's own, which rewrites a file that has grown, comes first: there is one at a time.
    without_child(control, "another snapshot or rewrite has not ended")?;
    control.command(&[command.as_bytes()])?;
    let info = without_child(control, &format!("the work `{name}` has not ended"))?;
    match info.text(ended) {
        "ok" => Ok(()),
        status => {
            let what = format!("the work `{name}` failed: its status is {status}");
            Err(StoreError::new(StoreErrorKind::Store, what).next("Read the server's log"))
        }
    }
}

/// Waits until the server has no child, and returns its facts. An error has the words `what`.
fn without_child(control: &mut Control, what: &str) -> Result<Info, StoreError> {
    const RUNS: [&str; 3] = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
    control.waits().clone().until(LOOK_INTERVAL, "Read the server's log", || {
        let info = Info::read(control)?;
        let is_running = RUNS.iter().any(|field| info.number(field) > 0);
        Ok(if is_running { Err(what.to_owned()) } else { Ok(info) })
    })
}
