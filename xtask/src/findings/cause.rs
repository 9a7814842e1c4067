//! Causes that are planted, the servers that they are planted in, and the names that are right for each.
//!
//! A name is right if the series that a finding names first contains one of the cause's fragments, in lower case. The
//! fragments stand in [`Cause::right`]. They are chosen by the class of resource, before the trials of a proof:
//!
//! | cause | right class |
//! |---|---|
//! | `pause`, `hang` | processes that are stopped or silent; of a hang, locks that the stopped session holds |
//! | `neighbour` | processors of the machine, and waits for them |
//! | `quota` | limit of the server's processors, and waits for them |
//! | `disk`, `throttle` | devices, waits for them, and data that waits to be written; of `throttle`, the limit |
//! | `checkpoint` | cycle of checkpoints, pages and log that they write, and devices |
//! | `lock` | sessions that wait for locks, or hold them without work |
//! | `compaction` | rewrite of the append-only file and its fork, processors, and devices |
//! | `backup` | server's processors, its reads and writes, its cycles, and devices |
//! | `crash` | processes, threads and connections of the server, and silence |
//! | `storm` | connections, processes and threads, and processors |
//! | `command` | slow commands, and processors of server or machine |
//! | `link`, `loss` | TCP, interfaces, and replicas that are behind |
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
    /// The processes that serve two of the sessions are stopped by a signal.
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
    /// The append-only file is rewritten without what was overwritten since.
    Compaction,
    /// A copy of all data is made.
    Backup,
    /// A process that serves a session is killed, after which the server recovers.
    Crash,
    /// Other clients connect as fast as they can.
    Storm,
    /// A client's command takes the only thread of the server.
    Command,
    /// The interfaces of the servers' hosts send 100 kbit/s and drop what does not fit.
    Link,
    /// The interfaces of the servers' hosts drop an eighth of the segments that they send.
    Loss,
    /// The server keeps its clients waiting at a client's request.
    PausedClients,
    /// Another program has begun to write to the file, and holds its lock.
    ForeignWriter,
    /// A trigger of the table sleeps in each transaction.
    Trigger,
}

/// Causes that some series shows.
pub const WATCHED: [Cause; 15] = [
    Cause::Pause,
    Cause::Hang,
    Cause::Neighbour,
    Cause::Quota,
    Cause::Disk,
    Cause::Throttle,
    Cause::Checkpoint,
    Cause::Lock,
    Cause::Compaction,
    Cause::Backup,
    Cause::Crash,
    Cause::Storm,
    Cause::Command,
    Cause::Link,
    Cause::Loss,
];

/// Causes that no series shows.
pub const UNWATCHED: [Cause; 3] = [Cause::PausedClients, Cause::ForeignWriter, Cause::Trigger];

/// Devices, waits for them, and data that waits to be written.
const DEVICES: &[&str] = &[
    "disk ",
    "read time",
    "write time",
    "flush time",
    ": read",
    ": written",
    "waiting for disks",
    "waiting for io",
    "io wait",
    "blocked",
    "writeback",
    "dirty",
    "checkpoint age",
    "waits for a free page",
    "log waits",
    "log buffers full",
];
/// Processors of the machine, and waits for them.
const PROCESSORS: &[&str] = &[
    "the machine's cpu",
    "for a processor",
    "run queue delay",
    "cpu wait",
    "running",
    "preemptions",
    "switches",
    "hypervisor",
];
/// Processes that are stopped or silent.
const STOPPED: &[&str] = &["stopped", "missing readings", "missing answers"];
/// Sessions that wait for locks, or hold them without work. The last two name the object: `waiting for table accounts,
/// held by a session that …`, `waiting for other locks`.
const LOCKS: &[&str] = &[
    "waiting for locks",
    "internal locks",
    "idle in transaction",
    "row lock",
    ", held by ",
    "waiting for other locks",
];
/// Processes, threads and connections of a server.
const OF_SERVER: &[&str] = &["connections", "processes", "threads", "not accepted"];
/// Network and what depends on it.
const NETWORK: &[&str] =
    &["tcp", "retransmits", "timeouts", "unacknowledged", "unread", "drops", "eth0", "lag", "behind"];
/// Processors of server and machine, which a program of the server's own takes.
const OWN_PROGRAM: &[&str] = &["the server's cpu", "the machine's cpu", "processes"];

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
            Cause::Compaction => "compaction",
            Cause::Backup => "backup",
            Cause::Crash => "crash",
            Cause::Storm => "storm",
            Cause::Command => "command",
            Cause::Link => "link",
            Cause::Loss => "loss",
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
            Cause::Compaction | Cause::Command | Cause::PausedClients => &[REDIS],
            Cause::Link | Cause::Loss => &[REPLICAS],
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
            Cause::Checkpoint | Cause::Compaction | Cause::Backup | Cause::Crash => (0.3, 0.5),
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
        match self {
            Cause::Pause => &[STOPPED],
            Cause::Hang => &[STOPPED, LOCKS],
            Cause::Neighbour => &[PROCESSORS],
            Cause::Quota => &[&["throttle", "cpu wait", "for a processor", "run queue delay"]],
            Cause::Disk => &[DEVICES],
            Cause::Throttle => &[DEVICES, &["cgroup"]],
            Cause::Checkpoint => &[DEVICES, &["checkpoint", "full page images", "log written", "blocks written"]],
            Cause::Lock => &[LOCKS],
            Cause::Compaction => &[DEVICES, OWN_PROGRAM, &["rewrite", "longest fork", "longest aof"]],
            Cause::Backup => &[DEVICES, OWN_PROGRAM, &["checkpoint"]],
            Cause::Crash => &[STOPPED, OF_SERVER],
            Cause::Storm => &[OF_SERVER, PROCESSORS, &["the server's cpu"]],
            Cause::Command => {
                &[&["the server's cpu", "the cpu of", "the machine's cpu", "slow commands", "slowest command"]]
            }
            Cause::Link | Cause::Loss => &[NETWORK],
            Cause::PausedClients | Cause::ForeignWriter | Cause::Trigger => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as findings have them, of series of all samplers and stores of the stands.
    const NAMES: [&str; 69] = [
        "the machine's CPU",
        "what the hypervisor took",
        "waiting for disks",
        "tasks: running",
        "tasks: blocked",
        "tasks: switches",
        "memory: used",
        "memory: dirty",
        "memory: writeback",
        "disk vda",
        "vda: read",
        "vda: written",
        "vda: write time",
        "vda: flush time",
        "node 2 eth0: sent",
        "node 2 eth0: drops",
        "tcp: connections",
        "tcp of node 2: retransmits",
        "tcp of node 2: timeouts",
        "waiting for a processor",
        "waiting for io, all tasks at once,",
        "cgroup of node 1: throttled",
        "cgroup of node 1: throttles",
        "cgroup of node 1: written",
        "cgroup of node 1: io wait",
        "the server's CPU",
        "the CPU of node 2",
        "the server's wait for a processor",
        "server of node 2: run queue delay",
        "server: processes",
        "server: threads",
        "server: read",
        "server: written",
        "the number of stopped processes of the server",
        "missing readings of node 2",
        "the generator's wait for a processor",
        "the generator's preemptions",
        "the generator's scheduling delay",
        "the offered load",
        "checkpoint of postgres",
        "postgres: blocks written by checkpoints",
        "postgres: log written",
        "postgres: full page images",
        "postgres: connections",
        "postgres: waiting for locks",
        "postgres: waiting for internal locks",
        "postgres: waiting for io",
        "postgres: waiting for table pgbench_accounts, held by a session that ran BEGIN; LOCK TABLE pgbench_accounts IN \
         ACCESS EXCLUSIVE MODE; SELECT pg_sleep(?); COMMIT",
        "postgres: waiting for other locks",
        "postgres: idle in transaction",
        "postgres-replicas node 2: replay behind",
        "postgres-replicas node 2: lag",
        "mariadb: dirty pages",
        "mariadb: checkpoint age",
        "mariadb: row lock waits",
        "aof rewrite of redis",
        "redis: longest fork",
        "redis: slowest command",
        "redis: slow commands",
        "redis: longest aof fsync",
        "cgroup of node 1: cpu wait",
        "vda: read time",
        "postgres: log buffers full",
        "mariadb: log waits",
        "mariadb: waits for a free page",
        "missing answers of node 2",
        "tcp: not accepted",
        "tcp of node 2: unacknowledged",
        "tcp of node 2: unread",
    ];

    #[test]
    fn names_are_right_by_their_class_and_those_of_unwatched_causes_never() {
        let rights: [(Cause, &[&str]); 8] = [
            (Cause::Pause, &["the number of stopped processes", "missing readings"]),
            (
                Cause::Neighbour,
                &["the machine's CPU", "tasks: running", "waiting for a processor", "wait for a", "delay"],
            ),
            (Cause::Quota, &["throttled", "throttles", "processor", "run queue delay"]),
            (Cause::Throttle, &["cgroup of node 1: written", "cgroup of node 1: io wait", "disk vda", "memory: dirty"]),
            (Cause::Lock, &["held by a session", "waiting for locks", "other locks", "internal", "idle", "row lock"]),
            (Cause::Compaction, &["aof rewrite of redis", "longest fork", "server's CPU", "vda: written"]),
            (Cause::Command, &["the server's CPU", "slowest command"]),
            (Cause::Link, &["tcp of node 2", "eth0", "node 2: lag", "replay behind"]),
        ];
        for (cause, right) in rights {
            for right in right {
                // Of several names with these words all are right, but for the generator's own delay.
                let all = NAMES.iter().filter(|name| name.contains(right) && !name.contains("scheduling"));
                assert!(all.clone().count() > 0, "{right}");
                all.for_each(|name| assert!(cause.is_named_by(name), "{cause:?}: {name}"));
            }
        }
        let lock = "postgres: waiting for table pgbench_accounts, held by a session that ran VACUUM FULL";
        let of_lock: Vec<Cause> = WATCHED.into_iter().filter(|cause| cause.is_named_by(lock)).collect();
        assert_eq!(of_lock, [Cause::Hang, Cause::Lock]);
        for (cause, wrong) in [
            (Cause::Disk, "postgres: waiting for locks"),
            (Cause::Checkpoint, "the machine's CPU"),
            (Cause::Lock, "disk vda"),
            (Cause::Lock, "waiting for a processor"),
            (Cause::Compaction, "redis: slowest command"),
            (Cause::Command, "the server's wait for a processor"),
            (Cause::Loss, "memory: dirty"),
        ] {
            assert!(!cause.is_named_by(wrong), "{cause:?}: {wrong}");
        }
        for cause in UNWATCHED {
            assert!(cause.right().is_empty() && NAMES.iter().all(|name| !cause.is_named_by(name)));
        }
        assert!(WATCHED.iter().all(|cause| !cause.right().is_empty()));
    }

    #[test]
    fn each_fragment_is_in_the_name_of_a_series() {
        for fragment in WATCHED.iter().flat_map(|cause| cause.right()).flat_map(|list| list.iter()) {
            assert!(NAMES.iter().any(|name| name.to_lowercase().contains(fragment)), "{fragment}");
        }
    }

    #[test]
    fn every_cause_has_a_stand_and_a_name_of_its_own() {
        let all: Vec<Cause> = WATCHED.into_iter().chain(UNWATCHED).collect();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|cause| !cause.stands().is_empty()));
    }
}
