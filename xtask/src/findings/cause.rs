//! Causes that are planted, the servers that they are planted in, and the names that are right for each.
//!
//! A name is right if the series that a finding names first contains one of the cause's fragments, in lower case. The
//! fragments stand in [`Cause::right`]. They are chosen by the class of resource, before any trial was run:
//!
//! | cause | right class |
//! |---|---|
//! | `pause`, `hang` | processes that are stopped or silent; of a hang, locks that the stopped session holds |
//! | `neighbour` | processors of the machine, and waits for them |
//! | `quota` | limit of the server's processors, and waits for them |
//! | `disk`, `throttle` | devices, waits for them, and data that waits to be written; of `throttle`, the limit |
//! | `checkpoint` | cycle of checkpoints, pages and log that they write, and devices |
//! | `lock` | sessions that wait for locks, or hold them without work |
//! | `backup` | server's processors, its reads and writes, its cycles, and devices |
//! | `crash` | processes, threads and connections of the server, and silence |
//! | `storm` | connections, processes and threads, and processors |
//! | `command` | processors of server or machine |
//! | `link` | TCP, interfaces, and replicas that are behind |
//! | `paused_clients`, `foreign_writer`, `trigger` | none: nothing watches them, and any name is wrong |

/// A store under a workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Stand {
    /// Name in tables.
    pub name: &'static str,
    /// Arguments of `plimsoll drive`.
    pub drive: &'static [&'static str],
}

const BANK: Stand = Stand {
    name: "postgres tpcb",
    drive: &["tpcb", "--on", "postgres", "--set", "scale=10", "--clients", "16", "--think", "10ms"],
};
const SELECT: Stand = Stand {
    name: "postgres select",
    drive: &["select", "--on", "postgres", "--set", "scale=5", "--clients", "8", "--rate", "5000/s"],
};
const REDIS: Stand = Stand {
    name: "redis kv:a",
    drive: &["kv:a", "--on", "redis", "--clients", "8", "--rate", "5000/s", "--durability", "buffered"],
};
const MARIADB: Stand = Stand {
    name: "mariadb simple-update",
    drive: &["simple-update", "--on", "mariadb", "--set", "scale=5", "--clients", "16", "--think", "10ms"],
};
const SQLITE: Stand = Stand {
    name: "sqlite kv:a",
    drive: &["kv:a", "--on", "sqlite", "--clients", "4", "--rate", "2000/s", "--durability", "buffered"],
};
const REPLICAS: Stand = Stand {
    name: "postgres-replicas select",
    drive: &[
        "select",
        "--on",
        "postgres-replicas",
        "--nodes",
        "2",
        "--set",
        "scale=5",
        "--clients",
        "8",
        "--rate",
        "5000/s",
    ],
};

/// A cause that is planted from outside of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All processes of the server are stopped by a signal.
    Pause,
    /// A process that serves one session is stopped by a signal.
    Hang,
    /// Other programs use all processors.
    Neighbour,
    /// The server's control group has a tenth of a processor.
    Quota,
    /// Other programs write and sync on the device of the server's data.
    Disk,
    /// The server's control group may write 64 KiB a second.
    Throttle,
    /// A session requests a checkpoint.
    Checkpoint,
    /// A session locks a table that all transactions use.
    Lock,
    /// A copy of all data is made; the append-only file is rewritten.
    Backup,
    /// A process that serves a session is killed, after which the server recovers.
    Crash,
    /// Other clients connect as fast as they can.
    Storm,
    /// A client's command takes the only thread of the server.
    Command,
    /// The interfaces of the servers' hosts send 100 kbit/s and drop what does not fit.
    Link,
    /// The server keeps its clients waiting at a client's request.
    PausedClients,
    /// Another program has begun to write to the file, and holds its lock.
    ForeignWriter,
    /// A trigger of the table sleeps in each transaction.
    Trigger,
}

/// Causes that some series shows.
pub const WATCHED: [Cause; 13] = [
    Cause::Pause,
    Cause::Hang,
    Cause::Neighbour,
    Cause::Quota,
    Cause::Disk,
    Cause::Throttle,
    Cause::Checkpoint,
    Cause::Lock,
    Cause::Backup,
    Cause::Crash,
    Cause::Storm,
    Cause::Command,
    Cause::Link,
];

/// Causes that no series shows.
pub const UNWATCHED: [Cause; 3] = [Cause::PausedClients, Cause::ForeignWriter, Cause::Trigger];

const DEVICES: [&str; 9] = [
    "disk ",
    "read time",
    "write time",
    "flush time",
    ": read",
    ": written",
    "writeback",
    "waiting for disks",
    "waiting for io",
];
const PROCESSORS: [&str; 6] =
    ["the machine's cpu", "for a processor", "running", "preemptions", "switches", "hypervisor"];

impl Cause {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Pause => "pause",
            Cause::Hang => "hang",
            Cause::Neighbour => "neighbour",
            Cause::Quota => "quota",
            Cause::Disk => "disk",
            Cause::Throttle => "throttle",
            Cause::Checkpoint => "checkpoint",
            Cause::Lock => "lock",
            Cause::Backup => "backup",
            Cause::Crash => "crash",
            Cause::Storm => "storm",
            Cause::Command => "command",
            Cause::Link => "link",
            Cause::PausedClients => "paused_clients",
            Cause::ForeignWriter => "foreign_writer",
            Cause::Trigger => "trigger",
        }
    }

    /// Returns the stands on which the cause can be planted.
    pub fn stands(self) -> &'static [Stand] {
        match self {
            Cause::Pause => &[BANK, SELECT, REDIS, MARIADB],
            Cause::Hang => &[SELECT],
            Cause::Neighbour => &[BANK, SELECT, REDIS, MARIADB, SQLITE],
            Cause::Quota => &[BANK, SELECT, REDIS, MARIADB],
            Cause::Disk | Cause::Throttle => &[BANK, MARIADB],
            Cause::Checkpoint => &[BANK],
            Cause::Lock | Cause::Backup | Cause::Crash | Cause::Storm => &[BANK, SELECT],
            Cause::Command | Cause::PausedClients => &[REDIS],
            Cause::Link => &[REPLICAS],
            Cause::ForeignWriter => &[SQLITE],
            Cause::Trigger => &[BANK],
        }
    }

    /// Returns further arguments of `plimsoll drive` without which the cause cannot be planted: limits that the
    /// load does not reach, so that the server has a control group. `STORE` stands for the store's name.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Cause::Quota => &["--set", "STORE.cpus=1"],
            Cause::Throttle => &["--set", "STORE.write_bps=4GiB"],
            _ => &[],
        }
    }

    /// Returns the shortest and the longest episode, in seconds.
    pub fn length_s(self) -> (f64, f64) {
        match self {
            // These last as long as their work does.
            Cause::Checkpoint | Cause::Backup | Cause::Crash => (0.3, 0.5),
            Cause::Storm => (1.0, 1.2),
            _ => (0.4, 1.2),
        }
    }

    /// Returns true if the name of a series is of the right class.
    pub fn is_named_by(self, series: &str) -> bool {
        let series = series.to_lowercase();
        self.right().iter().flat_map(|list| list.iter()).any(|fragment| series.contains(fragment))
    }

    /// Returns lists of fragments of names that are right; empty if every name is wrong.
    pub fn right(self) -> &'static [&'static [&'static str]] {
        const STOPPED: &[&str] = &["stopped", "missing readings", "missing answers"];
        const LOCKS: &[&str] = &["waiting for locks", "internal locks", "idle in transaction", "row lock"];
        const OF_SERVER: &[&str] = &["connections", "processes", "threads", "not accepted"];
        match self {
            Cause::Pause => &[STOPPED],
            Cause::Hang => &[STOPPED, LOCKS],
            Cause::Neighbour => &[&PROCESSORS],
            Cause::Quota => &[&["throttle", "cpu wait", "for a processor"]],
            Cause::Disk => &[&DEVICES, &["blocked", "dirty", "io wait"]],
            Cause::Throttle => &[&DEVICES, &["blocked", "dirty", "io wait", "cgroup"]],
            Cause::Checkpoint => {
                &[&DEVICES, &["checkpoint", "full page images", "log written", "blocks written", "waiting for io"]]
            }
            Cause::Lock => &[LOCKS],
            Cause::Backup => &[
                &DEVICES,
                &["checkpoint", "rewrite", "rdb save", "the server's cpu", "the machine's cpu", "processes"],
            ],
            Cause::Crash => &[STOPPED, OF_SERVER],
            Cause::Storm => &[OF_SERVER, &PROCESSORS, &["the server's cpu"]],
            Cause::Command => &[&["the server's cpu", "the cpu of", "the machine's cpu"]],
            Cause::Link => {
                &[&["tcp", "retransmits", "timeouts", "unacknowledged", "unread", "drops", "eth0", "lag", "behind"]]
            }
            Cause::PausedClients | Cause::ForeignWriter | Cause::Trigger => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_right_by_their_class_and_those_of_unwatched_causes_never() {
        for (cause, right, wrong) in [
            (Cause::Neighbour, "waiting for a processor", "disk vda"),
            (Cause::Quota, "cgroup of node 1: throttled", "tcp: retransmits"),
            (Cause::Disk, "vda: write time", "postgres: waiting for locks"),
            (Cause::Checkpoint, "checkpoint of postgres", "the machine's CPU"),
            (Cause::Lock, "postgres: waiting for locks", "disk vda"),
            (Cause::Command, "the server's CPU", "the server's wait for a processor"),
            (Cause::Link, "tcp of node 1: retransmits", "memory: dirty"),
        ] {
            assert!(cause.is_named_by(right) && !cause.is_named_by(wrong), "{cause:?}");
        }
        for cause in UNWATCHED {
            assert!(cause.right().is_empty() && !cause.is_named_by("the server's CPU"));
        }
        assert!(WATCHED.iter().all(|cause| !cause.right().is_empty()));
    }

    #[test]
    fn every_cause_has_a_stand_and_a_name_of_its_own() {
        let all: Vec<Cause> = WATCHED.into_iter().chain(UNWATCHED).collect();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|cause| !cause.stands().is_empty()));
    }
}
