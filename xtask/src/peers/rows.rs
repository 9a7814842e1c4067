//! The comparisons. The goals are ours; where the peers' figures come from is said in the journal.

use std::error::Error;
use std::fmt;
use std::process::Command;

use super::servers::Servers;

/// Length of a run.
pub const SECONDS: u64 = 2;

/// Reads the number of units that a client did from what it printed.
pub type Parse = fn(&str) -> Option<f64>;

/// What Plimsoll's client is to do.
#[derive(Debug, Clone)]
pub struct Asks {
    pub store: String,
    pub url: Option<String>,
    pub workload: &'static str,
    pub op: &'static str,
    pub params: Vec<(&'static str, String)>,
    pub clients: u32,
    pub depth: u32,
    /// 0 is a closed loop.
    pub rate_per_s: f64,
    pub coarse: bool,
}

/// What a row is to come to.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// Ours over the peer's, at most.
    Ratio(f64),
    /// Our own figure in microseconds, at most.
    Us(f64),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Ratio(ratio) => write!(f, "≤ {ratio:.2} ×"),
            Goal::Us(us) => write!(f, "≤ {us} µs"),
        }
    }
}

/// One comparison.
pub struct Row {
    pub name: &'static str,
    pub peer: &'static str,
    pub goal: Goal,
    /// `None` where the peer is not installed.
    pub peer_command: fn(&mut Servers) -> Result<Option<Command>, Box<dyn Error>>,
    pub peer_ops: Parse,
    /// Our operations in one of the peer's units.
    pub ops_per_peer_unit: f64,
    pub ours: fn(&mut Servers) -> Result<Asks, Box<dyn Error>>,
}

pub static ROWS: &[Row] = &[
    Row {
        name: "pg-select-unix-8",
        peer: "pgbench -S -M prepared",
        goal: Goal::Ratio(0.70),
        peer_command: |servers| pgbench(servers, false, 8, &["-S"]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| select(servers, false, 8, 1, 0.0),
    },
    Row {
        name: "pg-select-unix-32",
        peer: "pgbench -S -M prepared",
        goal: Goal::Ratio(0.70),
        peer_command: |servers| pgbench(servers, false, 32, &["-S"]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| select(servers, false, 32, 1, 0.0),
    },
    Row {
        name: "pg-select-tcp-8",
        peer: "pgbench -S -M prepared",
        goal: Goal::Ratio(0.70),
        peer_command: |servers| pgbench(servers, true, 8, &["-S"]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| select(servers, true, 8, 1, 0.0),
    },
    Row {
        name: "pg-select-tcp-32",
        peer: "pgbench -S -M prepared",
        goal: Goal::Ratio(0.70),
        peer_command: |servers| pgbench(servers, true, 32, &["-S"]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| select(servers, true, 32, 1, 0.0),
    },
    Row {
        name: "pg-pipeline-16",
        peer: "pgbench, 16 selects in \\startpipeline",
        goal: Goal::Ratio(0.70),
        peer_command: |servers| {
            let script = servers.pipeline_script()?;
            // pgbench looks the scale up for its own scripts only.
            pgbench(servers, false, 8, &["-s", &super::servers::SCALE.to_string(), "-f", &script])
        },
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 16.0,
        ours: |servers| select(servers, false, 8, 16, 0.0),
    },
    Row {
        name: "pg-tpcb-8",
        peer: "pgbench -M prepared",
        goal: Goal::Ratio(0.70),
        peer_command: |servers| pgbench(servers, false, 8, &[]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| Ok(Asks { workload: "tpcb", op: "tpcb", ..select(servers, false, 8, 1, 0.0)? }),
    },
    Row {
        name: "pg-open-5000",
        peer: "pgbench -R 5000 -S",
        goal: Goal::Ratio(0.75),
        peer_command: |servers| pgbench(servers, false, 8, &["-S", "-R", "5000"]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| select(servers, false, 8, 1, 5_000.0),
    },
    Row {
        name: "pg-open-20000",
        peer: "pgbench -R 20000 -S",
        goal: Goal::Ratio(0.90),
        peer_command: |servers| pgbench(servers, false, 8, &["-S", "-R", "20000"]),
        peer_ops: pgbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| select(servers, false, 8, 1, 20_000.0),
    },
    Row {
        name: "mariadb-point-select-8",
        peer: "sysbench oltp_point_select",
        goal: Goal::Ratio(0.75),
        peer_command: |servers| sysbench(servers, "oltp_point_select"),
        peer_ops: sysbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| oltp(servers, "point_select"),
    },
    Row {
        name: "mariadb-read-write-8",
        peer: "sysbench oltp_read_write",
        goal: Goal::Ratio(0.50),
        peer_command: |servers| sysbench(servers, "oltp_read_write"),
        peer_ops: sysbench_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| oltp(servers, "read_write"),
    },
    Row {
        name: "redis-get-32",
        peer: "memtier_benchmark",
        goal: Goal::Ratio(0.65),
        peer_command: |servers| memtier(servers, 1),
        peer_ops: memtier_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| redis(servers, 32, 1),
    },
    Row {
        name: "redis-get-32-weak",
        peer: "redis-benchmark -t get -c 32",
        goal: Goal::Ratio(0.65),
        peer_command: |servers| redis_benchmark(servers, 1, "200000"),
        peer_ops: redis_benchmark_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| redis(servers, 32, 1),
    },
    Row {
        name: "redis-get-32-pipeline-16",
        peer: "redis-benchmark -t get -c 32 -P 16",
        goal: Goal::Ratio(0.55),
        peer_command: |servers| redis_benchmark(servers, 16, "3000000"),
        peer_ops: redis_benchmark_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| redis(servers, 32, 16),
    },
    Row {
        name: "http-get-32",
        peer: "wrk -t1 -c32",
        goal: Goal::Ratio(0.75),
        peer_command: |servers| wrk(servers, "wrk", &[]),
        peer_ops: wrk_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| http(servers, 0.0, false),
    },
    Row {
        name: "http-open-20000",
        peer: "wrk2 -t1 -c32 -R20000",
        goal: Goal::Ratio(1.2),
        peer_command: |servers| wrk(servers, "wrk2", &["-R20000"]),
        peer_ops: wrk_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| http(servers, 20_000.0, false),
    },
    Row {
        name: "http-open-20000-coarse",
        peer: "wrk2 -t1 -c32 -R20000",
        goal: Goal::Ratio(1.0),
        peer_command: |servers| wrk(servers, "wrk2", &["-R20000"]),
        peer_ops: wrk_ops,
        ops_per_peer_unit: 1.0,
        ours: |servers| http(servers, 20_000.0, true),
    },
    Row {
        name: "null",
        peer: "fio --ioengine=null",
        goal: Goal::Us(0.03),
        peer_command: |_| Ok(fio()),
        peer_ops: fio_ops,
        ops_per_peer_unit: 1.0,
        ours: |_| {
            Ok(Asks {
                store: "null".to_owned(),
                url: None,
                workload: "nothing",
                op: "nothing",
                params: Vec::new(),
                clients: 1,
                depth: 1,
                rate_per_s: 0.0,
                coarse: false,
            })
        },
    },
];

/// A program on the PATH.
fn on_path(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file()).map(Command::new)
}

fn pgbench(servers: &mut Servers, tcp: bool, clients: u32, more: &[&str]) -> Result<Option<Command>, Box<dyn Error>> {
    let postgres = servers.postgres()?;
    let mut command = Command::new(&postgres.pgbench);
    command.arg("-h").arg(if tcp { "127.0.0.1" } else { &postgres.socket_dir });
    command.args(["-p", &postgres.port.to_string(), "-U", &postgres.user, "-n", "-M", "prepared"]);
    command.args(["-c", &clients.to_string(), "-j", "1", "-T", &SECONDS.to_string()]);
    command.args(more).arg(&postgres.database);
    Ok(Some(command))
}

fn pgbench_ops(printed: &str) -> Option<f64> {
    printed.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: ")?.parse().ok())
}

/// What pgbench says of its own lag.
pub fn lag_of_pgbench(printed: &str) -> Option<String> {
    printed.lines().find_map(|line| line.strip_prefix("rate limit schedule lag: ").map(str::to_owned))
}

fn select(servers: &mut Servers, tcp: bool, clients: u32, depth: u32, rate: f64) -> Result<Asks, Box<dyn Error>> {
    let postgres = servers.postgres()?;
    let (user, database, port) = (&postgres.user, &postgres.database, postgres.port);
    let url = match tcp {
        true => format!("postgres://{user}@127.0.0.1:{port}/{database}"),
        false => format!("postgres://{user}@/{database}?host={}&port={port}", postgres.socket_dir),
    };
    Ok(Asks {
        store: "postgres".to_owned(),
        url: Some(url),
        workload: "select",
        op: "select",
        params: vec![("scale", super::servers::SCALE.to_string())],
        clients,
        depth,
        rate_per_s: rate,
        coarse: false,
    })
}

fn sysbench(servers: &mut Servers, script: &str) -> Result<Option<Command>, Box<dyn Error>> {
    let Some(mut command) = on_path("sysbench") else { return Ok(None) };
    let mariadb = servers.mariadb()?;
    command.arg(script).args(mariadb.sysbench_options());
    command.args(["--threads=8", &format!("--time={SECONDS}"), "run"]);
    Ok(Some(command))
}

/// `    transactions:                        123456 (41151.12 per sec.)`
fn sysbench_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.trim_start().strip_prefix("transactions:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn oltp(servers: &mut Servers, op: &'static str) -> Result<Asks, Box<dyn Error>> {
    let mariadb = servers.mariadb()?;
    let params = vec![("tables", "1".to_owned()), ("table_size", super::servers::SBTEST_ROWS.to_string())];
    Ok(Asks {
        store: "mariadb".to_owned(),
        url: Some(format!("mariadb://root@/{}?socket={}", super::servers::SBTEST, mariadb.socket)),
        workload: "oltp",
        op,
        params,
        clients: 8,
        depth: 1,
        rate_per_s: 0.0,
        coarse: false,
    })
}

fn redis_benchmark(servers: &mut Servers, pipeline: u32, requests: &str) -> Result<Option<Command>, Box<dyn Error>> {
    let Some(mut command) = on_path("redis-benchmark") else { return Ok(None) };
    let port = servers.redis()?.port;
    command.args(["-p", &port.to_string(), "-t", "get", "-c", "32", "-n", requests, "-r", "100000"]);
    command.args(["-d", "100", "-P", &pipeline.to_string()]);
    Ok(Some(command))
}

/// `  200000 requests completed in 3.21 seconds`
fn redis_benchmark_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains("requests completed in"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn memtier(servers: &mut Servers, pipeline: u32) -> Result<Option<Command>, Box<dyn Error>> {
    let Some(mut command) = on_path("memtier_benchmark") else { return Ok(None) };
    let port = servers.redis()?.port;
    command.args(["-p", &port.to_string(), "-t", "1", "-c", "32", "--ratio=0:1", "--key-maximum=100000"]);
    command.args(["--distinct-client-seed", "--hide-histogram"]);
    command.args([&format!("--test-time={SECONDS}"), &format!("--pipeline={pipeline}")]);
    Ok(Some(command))
}

/// `Totals      123456.78   …`: operations a second.
fn memtier_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("Totals"))?;
    let rate: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(rate * SECONDS as f64)
}

fn redis(servers: &mut Servers, clients: u32, depth: u32) -> Result<Asks, Box<dyn Error>> {
    let port = servers.redis()?.port;
    Ok(Asks {
        store: "redis".to_owned(),
        url: Some(format!("redis://127.0.0.1:{port}/")),
        workload: "kv",
        op: "read",
        params: super::servers::kv_params(),
        clients,
        depth,
        rate_per_s: 0.0,
        coarse: false,
    })
}

fn wrk(servers: &mut Servers, program: &str, more: &[&str]) -> Result<Option<Command>, Box<dyn Error>> {
    let (Some(mut command), Some(nginx)) = (on_path(program), servers.nginx()?) else { return Ok(None) };
    command.args(["-t1", "-c32", &format!("-d{SECONDS}s")]).args(more).arg(format!("http://127.0.0.1:{}/", nginx.port));
    Ok(Some(command))
}

/// `  123456 requests in 3.00s, 100.00MB read`
fn wrk_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains(" requests in "))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn http(servers: &mut Servers, rate_per_s: f64, coarse: bool) -> Result<Asks, Box<dyn Error>> {
    let nginx = servers.nginx()?.ok_or("nginx is not installed")?;
    Ok(Asks {
        store: "http".to_owned(),
        url: Some(format!("http://127.0.0.1:{}", nginx.port)),
        workload: "http",
        op: "get",
        params: vec![("paths", "/".to_owned())],
        clients: 32,
        depth: 1,
        rate_per_s,
        coarse,
    })
}

fn fio() -> Option<Command> {
    let mut command = on_path("fio")?;
    command.args(["--name=null", "--ioengine=null", "--rw=randread", "--bs=4k", "--size=64g", "--time_based"]);
    command.args([&format!("--runtime={SECONDS}"), "--output-format=json"]);
    Some(command)
}

fn fio_ops(printed: &str) -> Option<f64> {
    let counts = printed.split("\"total_ios\" : ").skip(1);
    counts.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).find(|n: &f64| *n > 0.0)
}
