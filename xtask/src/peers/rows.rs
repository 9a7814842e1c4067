//! The comparisons. The goals are ours; where the peers' figures come from is said in the journal.

use std::error::Error;
use std::fmt;
use std::process::Command;

use super::commands::{
    self, Asks, Made, fio_ops, go_ycsb, go_ycsb_ops, http, memtier, memtier_ops, oha, oha_ops, oltp, pgbench,
    pgbench_ops, redis, redis_benchmark, redis_benchmark_ops, select, sysbench_mariadb, sysbench_null, sysbench_ops,
    sysbench_postgres, wrk, wrk_ops,
};
use super::servers::Servers;
use super::tools::Tool;

/// Reads the number of units that a client did from what it printed.
pub type Parse = fn(&str) -> Option<f64>;

/// What a row is to come to.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// Ours over the peer's, at most.
    Ratio(f64),
    /// Our own figure in microseconds, at most.
    Us(f64),
    /// Nothing was asked for.
    None,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Ratio(ratio) => write!(f, "≤ {ratio:.2} ×"),
            Goal::Us(us) => write!(f, "≤ {us} µs"),
            Goal::None => write!(f, "for comparison"),
        }
    }
}

/// Another client, and what it is told.
pub struct Peer {
    pub tool: Tool,
    /// What it is told, in short.
    pub told: &'static str,
    pub command: fn(&mut Servers, Command) -> Made,
    pub ops: Parse,
    /// Our operations in one of its units.
    pub ops_per_unit: f64,
}

const fn peer(tool: Tool, told: &'static str, command: fn(&mut Servers, Command) -> Made, ops: Parse) -> Peer {
    Peer { tool, told, command, ops, ops_per_unit: 1.0 }
}

impl Peer {
    /// Whose unit is as much as this many of our operations.
    const fn of(self, ops: f64) -> Peer {
        Peer { ops_per_unit: ops, ..self }
    }
}

/// One comparison.
pub struct Row {
    pub name: &'static str,
    pub goal: Goal,
    /// The first is the best known one: the goal is about it. The others are there for comparison.
    pub peers: &'static [Peer],
    pub ours: fn(&mut Servers) -> Result<Asks, Box<dyn Error>>,
}

pub static ROWS: &[Row] = &[
    Row {
        name: "pg-select-unix-8",
        goal: Goal::Ratio(0.70),
        peers: &[
            peer(
                Tool::Pgbench,
                "-S -M prepared",
                |servers, command| pgbench(servers, command, false, 8, &["-S"]),
                pgbench_ops,
            ),
            peer(
                Tool::Sysbench,
                "oltp_point_select",
                |servers, command| sysbench_postgres(servers, command, 8, &[]),
                sysbench_ops,
            ),
        ],
        ours: |servers| select(servers, false, 8),
    },
    Row {
        name: "pg-select-unix-32",
        goal: Goal::Ratio(0.70),
        peers: &[
            peer(
                Tool::Pgbench,
                "-S -M prepared",
                |servers, command| pgbench(servers, command, false, 32, &["-S"]),
                pgbench_ops,
            ),
            peer(
                Tool::Sysbench,
                "oltp_point_select",
                |servers, command| sysbench_postgres(servers, command, 32, &[]),
                sysbench_ops,
            ),
        ],
        ours: |servers| select(servers, false, 32),
    },
    Row {
        name: "pg-select-tcp-8",
        goal: Goal::Ratio(0.70),
        peers: &[
            peer(
                Tool::Pgbench,
                "-S -M prepared",
                |servers, command| pgbench(servers, command, true, 8, &["-S"]),
                pgbench_ops,
            ),
            peer(
                Tool::Sysbench,
                "oltp_point_select",
                |servers, command| sysbench_postgres(servers, command, 8, &["--pgsql-host=127.0.0.1"]),
                sysbench_ops,
            ),
            peer(Tool::GoYcsb, "reads", |servers, command| go_ycsb(servers, command, "pg", 8, 0), go_ycsb_ops),
        ],
        ours: |servers| select(servers, true, 8),
    },
    Row {
        name: "pg-select-tcp-32",
        goal: Goal::Ratio(0.70),
        peers: &[
            peer(
                Tool::Pgbench,
                "-S -M prepared",
                |servers, command| pgbench(servers, command, true, 32, &["-S"]),
                pgbench_ops,
            ),
            peer(
                Tool::Sysbench,
                "oltp_point_select",
                |servers, command| sysbench_postgres(servers, command, 32, &["--pgsql-host=127.0.0.1"]),
                sysbench_ops,
            ),
            peer(Tool::GoYcsb, "reads", |servers, command| go_ycsb(servers, command, "pg", 32, 0), go_ycsb_ops),
        ],
        ours: |servers| select(servers, true, 32),
    },
    Row {
        name: "pg-pipeline-16",
        goal: Goal::Ratio(0.70),
        peers: &[peer(
            Tool::Pgbench,
            "16 selects in \\startpipeline",
            |servers, command| commands::pgbench_script(servers, command, 8),
            pgbench_ops,
        )
        .of(16.0)],
        ours: |servers| Ok(Asks { depth: 16, ..select(servers, false, 8)? }),
    },
    Row {
        name: "pg-script-pipeline-16",
        goal: Goal::None,
        peers: &[peer(
            Tool::Pgbench,
            "the same script of 16 selects in \\startpipeline",
            |servers, command| commands::pgbench_script(servers, command, 8),
            pgbench_ops,
        )],
        ours: |servers| commands::pipeline_script(servers, 8),
    },
    Row {
        name: "pg-tpcb-8",
        goal: Goal::Ratio(0.70),
        peers: &[peer(
            Tool::Pgbench,
            "-M prepared",
            |servers, command| pgbench(servers, command, false, 8, &[]),
            pgbench_ops,
        )],
        ours: |servers| Ok(Asks { workload: "tpcb", op: "tpcb", ..select(servers, false, 8)? }),
    },
    Row {
        name: "pg-open-5000",
        goal: Goal::Ratio(0.75),
        peers: &[
            peer(
                Tool::Pgbench,
                "-R 5000 -S -M prepared",
                |servers, command| pgbench(servers, command, false, 8, &["-S", "-R", "5000"]),
                pgbench_ops,
            ),
            peer(
                Tool::Sysbench,
                "--rate=5000 oltp_point_select",
                |servers, command| sysbench_postgres(servers, command, 8, &["--rate=5000"]),
                sysbench_ops,
            ),
            peer(
                Tool::GoYcsb,
                "target=5000, over TCP",
                |servers, command| go_ycsb(servers, command, "pg", 8, 5_000),
                go_ycsb_ops,
            ),
        ],
        ours: |servers| Ok(Asks { rate_per_s: 5_000.0, ..select(servers, false, 8)? }),
    },
    Row {
        name: "pg-open-20000",
        goal: Goal::Ratio(0.90),
        peers: &[
            peer(
                Tool::Pgbench,
                "-R 20000 -S -M prepared",
                |servers, command| pgbench(servers, command, false, 8, &["-S", "-R", "20000"]),
                pgbench_ops,
            ),
            peer(
                Tool::Sysbench,
                "--rate=20000 oltp_point_select",
                |servers, command| sysbench_postgres(servers, command, 8, &["--rate=20000"]),
                sysbench_ops,
            ),
            peer(
                Tool::GoYcsb,
                "target=20000, over TCP",
                |servers, command| go_ycsb(servers, command, "pg", 8, 20_000),
                go_ycsb_ops,
            ),
        ],
        ours: |servers| Ok(Asks { rate_per_s: 20_000.0, ..select(servers, false, 8)? }),
    },
    Row {
        name: "mariadb-point-select-8",
        goal: Goal::Ratio(0.75),
        peers: &[peer(
            Tool::Sysbench,
            "oltp_point_select",
            |servers, command| sysbench_mariadb(servers, command, "oltp_point_select"),
            sysbench_ops,
        )],
        ours: |servers| oltp(servers, "point_select"),
    },
    Row {
        name: "mariadb-read-write-8",
        goal: Goal::Ratio(0.50),
        peers: &[peer(
            Tool::Sysbench,
            "oltp_read_write",
            |servers, command| sysbench_mariadb(servers, command, "oltp_read_write"),
            sysbench_ops,
        )],
        ours: |servers| oltp(servers, "read_write"),
    },
    Row {
        name: "redis-get-32",
        goal: Goal::Ratio(0.65),
        peers: &[
            peer(Tool::Memtier, "32 connections", |servers, command| memtier(servers, command, 32, &[]), memtier_ops),
            peer(
                Tool::RedisBenchmark,
                "-t get -c 32",
                |servers, command| redis_benchmark(servers, command, 1, "200000"),
                redis_benchmark_ops,
            ),
            peer(Tool::GoYcsb, "reads", |servers, command| go_ycsb(servers, command, "redis", 32, 0), go_ycsb_ops),
        ],
        ours: |servers| redis(servers, 32, 1),
    },
    Row {
        name: "redis-get-32-pipeline-16",
        goal: Goal::Ratio(0.55),
        peers: &[
            peer(
                Tool::RedisBenchmark,
                "-t get -c 32 -P 16",
                |servers, command| redis_benchmark(servers, command, 16, "3000000"),
                redis_benchmark_ops,
            ),
            peer(
                Tool::Memtier,
                "--pipeline=16",
                |servers, command| memtier(servers, command, 32, &["--pipeline=16"]),
                memtier_ops,
            ),
        ],
        ours: |servers| redis(servers, 32, 16),
    },
    Row {
        name: "redis-open-5000",
        goal: Goal::None,
        peers: &[
            peer(
                Tool::Memtier,
                "--rate-limiting, 5000 in all",
                |servers, command| memtier(servers, command, 8, &["--rate-limiting=625"]),
                memtier_ops,
            ),
            peer(
                Tool::GoYcsb,
                "target=5000",
                |servers, command| go_ycsb(servers, command, "redis", 8, 5_000),
                go_ycsb_ops,
            ),
        ],
        ours: |servers| Ok(Asks { rate_per_s: 5_000.0, ..redis(servers, 8, 1)? }),
    },
    Row {
        name: "http-get-32",
        goal: Goal::Ratio(0.75),
        peers: &[
            peer(Tool::Wrk, "-t1 -c32", |servers, command| wrk(servers, command, &[]), wrk_ops),
            peer(Tool::Oha, "-c 32", |servers, command| oha(servers, command, 32, commands::SECONDS, &[]), oha_ops),
        ],
        ours: |servers| http(servers, 0.0, false),
    },
    Row {
        name: "http-open-20000",
        goal: Goal::Ratio(1.2),
        peers: &[
            peer(Tool::Wrk2, "-t1 -c32 -R20000", |servers, command| wrk(servers, command, &["-R20000"]), wrk_ops),
            peer(
                Tool::Oha,
                "-c 32 -q 20000 --latency-correction",
                |servers, command| {
                    oha(servers, command, 32, commands::SECONDS, &["-q", "20000", "--latency-correction"])
                },
                oha_ops,
            ),
        ],
        ours: |servers| http(servers, 20_000.0, false),
    },
    Row {
        name: "http-open-20000-coarse",
        goal: Goal::Ratio(1.0),
        peers: &[peer(Tool::Wrk2, "-t1 -c32 -R20000", |servers, command| wrk(servers, command, &["-R20000"]), wrk_ops)],
        ours: |servers| http(servers, 20_000.0, true),
    },
    Row {
        name: "ldap-search-8",
        goal: Goal::Ratio(0.30),
        peers: &[peer(
            Tool::Searchrate,
            "base searches by 8 threads in runs of 10 s",
            |servers, command| commands::searchrate(servers, command, 8),
            commands::searchrate_ops,
        )],
        ours: |servers| commands::ldap(servers, 8),
    },
    Row {
        name: "null",
        goal: Goal::Us(0.03),
        peers: &[
            peer(Tool::Fio, "--ioengine=null", |_, command| Ok(commands::fio(command)), fio_ops),
            peer(Tool::Sysbench, "an event that does nothing", sysbench_null, sysbench_ops),
            peer(
                Tool::GoYcsb,
                "binding basic, 1 thread",
                |servers, command| go_ycsb(servers, command, "basic", 1, 0),
                go_ycsb_ops,
            ),
        ],
        ours: |_| Ok(Asks { store: "null".to_owned(), workload: "nothing", op: "nothing", ..Asks::default() }),
    },
];
