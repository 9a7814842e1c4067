//! Classes of resource that are right for each anomaly, with a reason. The table was written before any answer was
//! seen. The descriptions of DBPA follow its paper and scripts, and those of DBSherlock what was remembered of its paper.
//!
//! Several classes are right if the anomaly itself uses several resources, or if the source and its effect are of two.
//! A class that only follows, such as the fall of throughput, is wrong.

use super::columns::Resource;
use super::columns::Resource::{Disk, Locks, Network, Processor, Rows, Workload};
use crate::Result;

/// An anomaly.
pub struct Expected {
    /// Source of the data.
    pub source: &'static str,
    /// Name in the source.
    pub name: &'static str,
    /// Right classes.
    pub right: &'static [Resource],
    /// Reason.
    pub reason: &'static str,
}

const fn of(source: &'static str, name: &'static str, right: &'static [Resource], reason: &'static str) -> Expected {
    Expected { source, name, right, reason }
}

const DBSHERLOCK: &str = "dbsherlock";
const DBPA: &str = "dbpa";

/// All anomalies.
pub static EXPECTED: [Expected; 17] = [
    of(
        DBSHERLOCK,
        "Poorly Written Query",
        &[Processor, Rows],
        "ambiguous: a join without a good plan reads many rows that are in memory, which takes a processor",
    ),
    of(
        DBSHERLOCK,
        "Poor Physical Design",
        &[Disk, Rows],
        "ambiguous: an unneeded index makes each insert read and change more pages, which are written later",
    ),
    of(DBSHERLOCK, "Workload Spike", &[Workload], "more clients and transactions; all else follows"),
    of(DBSHERLOCK, "I/O Saturation", &[Disk], "other programs write and sync"),
    of(
        DBSHERLOCK,
        "DB Backup",
        &[Disk, Network, Rows],
        "ambiguous: a dump reads all rows, of tables larger than the cache, and sends them to another machine",
    ),
    of(
        DBSHERLOCK,
        "Table Restore",
        &[Disk, Rows],
        "ambiguous: a dump is read back, which inserts rows and writes their pages and log",
    ),
    of(DBSHERLOCK, "CPU Saturation", &[Processor], "other programs use the processors"),
    of(DBSHERLOCK, "Flush Log/Table", &[Disk], "logs and tables are written and closed"),
    of(DBSHERLOCK, "Network Congestion", &[Network], "traffic is delayed by 300 ms"),
    of(DBSHERLOCK, "Network Saturation", &[Network], "the name of the same in compound sets"),
    of(DBSHERLOCK, "Lock Contention", &[Locks], "all transactions are of one district, whose row they lock"),
    of(
        DBPA,
        "concurrent inserts",
        &[Workload, Disk],
        "ambiguous: many more clients insert; the source names the files, which do not grow fast enough",
    ),
    of(
        DBPA,
        "missing indexes",
        &[Processor, Rows],
        "ambiguous: a few clients scan a table of millions of rows, which takes processors",
    ),
    of(DBPA, "heavy workload", &[Workload], "more clients; all else follows"),
    of(
        DBPA,
        "concurrent commits",
        &[Workload, Disk],
        "ambiguous: many more clients commit; the source names waits for the log to be written",
    ),
    of(DBPA, "lock waits", &[Locks], "a session keeps the locks of rows that others write"),
    of(DBPA, "io saturation", &[Disk], "other programs write and sync"),
];

/// Returns the entry of an anomaly.
///
/// # Errors
/// Fails if there is none.
pub fn expected(source: &str, name: &str) -> Result<&'static Expected> {
    let own = |one: &&Expected| one.source == source && one.name == name;
    EXPECTED.iter().find(own).ok_or_else(|| format!("{source} has no anomaly {name}"))
}
