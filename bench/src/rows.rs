//! Comparisons, each with the best known client of its server.

use std::process::Command;

use crate::Result;
use crate::client::{ClientSpec, SECONDS};
use crate::commands::{
    http, mariadb, null, pgbench, pgbench_ops, postgres, redis, redis_benchmark, redis_benchmark_ops, sysbench_mariadb,
    sysbench_ops, wrk, wrk_ops,
};
use crate::servers::Servers;
use crate::tools::Tool;

/// Reads the number of operations from the output of a client.
pub type Parse = fn(&str) -> Option<f64>;

/// Another client, with its options.
pub struct Peer {
    pub tool: Tool,
    /// Options, in short.
    pub told: &'static str,
    pub command: fn(&mut Servers) -> Result<Command>,
    pub ops: Parse,
}

/// A comparison.
pub struct Row {
    pub name: &'static str,
    /// Largest ratio of Plimsoll's processor time to the peer's; without a peer, largest time of an operation in µs.
    pub goal: f64,
    pub peer: Option<Peer>,
    pub plimsoll: fn(&mut Servers) -> Result<ClientSpec>,
}

const fn row(name: &'static str, goal: f64, peer: Peer, plimsoll: fn(&mut Servers) -> Result<ClientSpec>) -> Row {
    Row { name, goal, peer: Some(peer), plimsoll }
}

const fn peer(tool: Tool, told: &'static str, ops: Parse, command: fn(&mut Servers) -> Result<Command>) -> Peer {
    Peer { tool, told, command, ops }
}

pub static ROWS: &[Row] = &[
    row(
        "pg-select-unix-8",
        0.70,
        peer(Tool::Pgbench, "-S -M prepared", pgbench_ops, |servers| pgbench(servers, SECONDS, &["-S"])),
        |servers| postgres(servers, "select"),
    ),
    row(
        "pg-tpcb-8",
        0.70,
        peer(Tool::Pgbench, "-M prepared", pgbench_ops, |servers| pgbench(servers, SECONDS, &[])),
        |servers| postgres(servers, "tpcb"),
    ),
    row(
        "pg-open-5000",
        0.75,
        peer(Tool::Pgbench, "-S -M prepared -R 5000", pgbench_ops, |servers| {
            pgbench(servers, SECONDS, &["-S", "-R", "5000"])
        }),
        |servers| Ok(ClientSpec { rate_per_s: 5_000.0, ..postgres(servers, "select")? }),
    ),
    row(
        "mariadb-point-select-8",
        0.75,
        peer(Tool::Sysbench, "oltp_point_select", sysbench_ops, |servers| {
            sysbench_mariadb(servers, "oltp_point_select")
        }),
        |servers| mariadb(servers, "point_select"),
    ),
    row(
        "mariadb-read-write-8",
        0.50,
        peer(Tool::Sysbench, "oltp_read_write", sysbench_ops, |servers| sysbench_mariadb(servers, "oltp_read_write")),
        |servers| mariadb(servers, "read_write"),
    ),
    row(
        "redis-get-32-pipeline-16",
        0.55,
        peer(Tool::RedisBenchmark, "-t get -c 32 -P 16", redis_benchmark_ops, redis_benchmark),
        |servers| Ok(ClientSpec { depth: 16, ..redis(servers, 32)? }),
    ),
    row(
        "http-get-32",
        0.75,
        peer(Tool::Wrk, "-t1 -c32", wrk_ops, |servers| wrk(servers, Tool::Wrk, &["-c32", "-d2s"])),
        |servers| http(servers, 32),
    ),
    Row { name: "null", goal: 0.03, peer: None, plimsoll: |_| Ok(null()) },
];
