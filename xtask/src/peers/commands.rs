//! How each client is told what to do, and what it prints.

use std::error::Error;
use std::process::Command;

use plimsoll_drive::Io;

use super::client;
use super::servers::{self, Servers};

/// Length of a run.
pub const SECONDS: u64 = 2;
/// Length of a run of a client that compiles itself while it runs.
const JAVA_SECONDS: u64 = 10;
/// What a command is made into, or why it cannot be.
pub type Made = Result<Command, Box<dyn Error>>;

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
    pub seconds: u64,
    /// How our client asks the kernel for its sockets.
    pub io: Io,
    /// The processor that the worker is bound to.
    pub pin: Option<u32>,
    /// Print percentiles of the response time, too.
    pub times: bool,
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            store: String::new(),
            url: None,
            workload: "",
            op: "",
            params: Vec::new(),
            clients: 1,
            depth: 1,
            rate_per_s: 0.0,
            coarse: false,
            seconds: SECONDS,
            io: Io::Auto,
            pin: None,
            times: false,
        }
    }
}

pub fn pgbench(servers: &mut Servers, mut command: Command, tcp: bool, clients: u32, more: &[&str]) -> Made {
    let postgres = servers.postgres()?;
    command.arg("-h").arg(if tcp { "127.0.0.1" } else { &postgres.socket_dir });
    command.args(["-p", &postgres.port.to_string(), "-U", &postgres.user, "-n", "-M", "prepared"]);
    command.args(["-c", &clients.to_string(), "-j", "1", "-T", &SECONDS.to_string()]);
    command.args(more).arg(&postgres.database);
    Ok(command)
}

pub fn pgbench_ops(printed: &str) -> Option<f64> {
    printed.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: ")?.parse().ok())
}

/// What pgbench says of its own lag.
pub fn pgbench_lag(printed: &str) -> Option<String> {
    printed.lines().find_map(|line| line.strip_prefix("rate limit schedule lag: ").map(str::to_owned))
}

pub fn select(servers: &mut Servers, tcp: bool, clients: u32) -> Result<Asks, Box<dyn Error>> {
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
        params: vec![("scale", servers::SCALE.to_string())],
        clients,
        ..Asks::default()
    })
}

/// The script of 16 selects in a pipeline, word for word the one that pgbench is given. An operation is the whole script.
pub fn pipeline_script(servers: &mut Servers, clients: u32) -> Result<Asks, Box<dyn Error>> {
    let script = servers.pipeline_script()?;
    let mut asks = Asks { workload: "script", op: client::SCRIPT, ..select(servers, false, clients)? };
    asks.params.push((client::SCRIPT, script));
    Ok(asks)
}

/// pgbench on that script.
pub fn pgbench_script(servers: &mut Servers, command: Command, clients: u32) -> Made {
    let script = servers.pipeline_script()?;
    // It looks the scale up for its own scripts only.
    pgbench(servers, command, false, clients, &["-s", &servers::SCALE.to_string(), "-f", &script])
}

pub fn sysbench_mariadb(servers: &mut Servers, mut command: Command, script: &str) -> Made {
    let mariadb = servers.mariadb()?;
    command.arg(script).args(mariadb.sysbench_options());
    command.args(["--threads=8", &format!("--time={SECONDS}"), "run"]);
    Ok(command)
}

/// Its own point select, which reads 120 bytes where pgbench's reads a number.
pub fn sysbench_postgres(servers: &mut Servers, mut command: Command, clients: u32, more: &[&str]) -> Made {
    let options = servers.sysbench_on_postgres()?;
    command.arg("oltp_point_select").args(options);
    command.args([&format!("--threads={clients}"), &format!("--time={SECONDS}")]);
    command.args(more).arg("run");
    Ok(command)
}

pub fn sysbench_null(servers: &mut Servers, mut command: Command) -> Made {
    command.arg(servers.sysbench_null()?).args(["--threads=1", &format!("--time={SECONDS}"), "run"]);
    Ok(command)
}

/// `    transactions:                        123456 (41151.12 per sec.)`; of a script without database only
/// `    total number of events:              123456`.
pub fn sysbench_ops(printed: &str) -> Option<f64> {
    let mut lines = printed.lines().map(str::trim_start);
    let line = lines.find_map(|line| line.strip_prefix("total number of events:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

pub fn oltp(servers: &mut Servers, op: &'static str) -> Result<Asks, Box<dyn Error>> {
    let mariadb = servers.mariadb()?;
    Ok(Asks {
        store: "mariadb".to_owned(),
        url: Some(format!("mariadb://root@/{}?socket={}", servers::SBTEST, mariadb.socket)),
        workload: "oltp",
        op,
        params: vec![("tables", "1".to_owned()), ("table_size", servers::SBTEST_ROWS.to_string())],
        clients: 8,
        ..Asks::default()
    })
}

/// `rate` 0 is a closed loop. Only over TCP: its binding knows no other way.
pub fn go_ycsb(servers: &mut Servers, mut command: Command, binding: &str, clients: u32, rate: u32) -> Made {
    let more = match binding {
        "pg" => servers.go_ycsb_on_postgres()?,
        "redis" => servers.go_ycsb_on_redis(&command)?,
        _ => vec!["basic.verbose=false".to_owned()],
    };
    command.args(["run", binding, &SECONDS.to_string()]).args(servers::GO_YCSB_SHAPE).args(more);
    command.args(["readproportion=1", "updateproportion=0", "requestdistribution=uniform", "silence=true"]);
    command.args(["operationcount=1000000000", "measurement.interval=3600"]).arg(format!("threadcount={clients}"));
    if rate > 0 {
        command.arg(format!("target={rate}"));
    }
    Ok(command)
}

/// `READ   - Takes(s): 2.0, Count: 12345, OPS: …`
pub fn go_ycsb_ops(printed: &str) -> Option<f64> {
    go_ycsb_field(printed, "Count: ")
}

/// The number behind `field` in the last line about reads.
pub fn go_ycsb_field(printed: &str, field: &str) -> Option<f64> {
    let line = printed.lines().rev().find(|line| line.starts_with("READ "))?;
    line.split_once(field)?.1.split(',').next()?.trim().parse().ok()
}

pub fn redis_benchmark(servers: &mut Servers, mut command: Command, pipeline: u32, requests: &str) -> Made {
    let port = servers.redis()?.port;
    command.args(["-p", &port.to_string(), "-t", "get", "-c", "32", "-n", requests, "-r", "100000"]);
    command.args(["-d", "100", "-P", &pipeline.to_string()]);
    Ok(command)
}

/// `  200000 requests completed in 3.21 seconds`
pub fn redis_benchmark_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains("requests completed in"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Its connections share one seed unless they are told not to, and then all ask for the same keys at the same time.
pub fn memtier(servers: &mut Servers, mut command: Command, clients: u32, more: &[&str]) -> Made {
    let port = servers.redis()?.port;
    command.args(["-p", &port.to_string(), "-t", "1", &format!("--clients={clients}"), "--ratio=0:1"]);
    command.args(["--key-maximum=100000", "--distinct-client-seed", "--hide-histogram"]);
    command.arg(format!("--test-time={SECONDS}")).args(more);
    Ok(command)
}

/// `Totals      123456.78   …`: operations a second.
pub fn memtier_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("Totals"))?;
    let rate: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(rate * SECONDS as f64)
}

pub fn redis(servers: &mut Servers, clients: u32, depth: u32) -> Result<Asks, Box<dyn Error>> {
    let port = servers.redis()?.port;
    Ok(Asks {
        store: "redis".to_owned(),
        url: Some(format!("redis://127.0.0.1:{port}/")),
        workload: "kv",
        op: "read",
        params: servers::kv_params(),
        clients,
        depth,
        ..Asks::default()
    })
}

/// wrk and wrk2.
pub fn wrk(servers: &mut Servers, mut command: Command, more: &[&str]) -> Made {
    let nginx = servers.nginx()?;
    command.args(["-t1", "-c32", &format!("-d{SECONDS}s")]).args(more).arg(format!("http://127.0.0.1:{}/", nginx.port));
    Ok(command)
}

/// `  123456 requests in 3.00s, 100.00MB read`
pub fn wrk_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains(" requests in "))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// It takes no option twice, so that how long stands apart.
pub fn oha(servers: &mut Servers, mut command: Command, clients: u32, seconds: u64, more: &[&str]) -> Made {
    let nginx = servers.nginx()?;
    command.args(["--no-tui", "--output-format", "json", "-c", &clients.to_string(), "-z", &format!("{seconds}s")]);
    command.args(more).arg(format!("http://127.0.0.1:{}/", nginx.port));
    Ok(command)
}

/// The number of answers with status 200.
pub fn oha_ops(printed: &str) -> Option<f64> {
    json_number(printed.split_once("\"statusCodeDistribution\"")?.1, "200")
}

/// The number that the first member called `name` has.
pub fn json_number(json: &str, name: &str) -> Option<f64> {
    let rest = json.split_once(&format!("\"{name}\""))?.1.trim_start().strip_prefix(':')?.trim_start();
    let end = rest.find([',', '}', '\n'])?;
    rest.get(..end)?.trim().parse().ok()
}

pub fn http(servers: &mut Servers, rate_per_s: f64, coarse: bool) -> Result<Asks, Box<dyn Error>> {
    let nginx = servers.nginx()?;
    Ok(Asks {
        store: "http".to_owned(),
        url: Some(format!("http://127.0.0.1:{}", nginx.port)),
        workload: "http",
        op: "get",
        params: vec![("paths", "/".to_owned())],
        clients: 32,
        rate_per_s,
        coarse,
        ..Asks::default()
    })
}

/// Runs longer than the others, as it compiles itself for the first seconds.
pub fn searchrate(servers: &mut Servers, mut command: Command, clients: u32) -> Made {
    let slapd = servers.slapd()?;
    let base = format!("uid=user.[0-{}],ou=People,{}", servers::LDAP_ENTRIES - 1, servers::LDAP_BASE);
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &slapd.port.to_string(),
        "-b",
        &base,
        "-s",
        "base",
        "-f",
        "(objectClass=*)",
    ]);
    command.args(["-t", &clients.to_string(), "-i", "1", "-I", &JAVA_SECONDS.to_string(), "--csv"]);
    Ok(command)
}

/// The last line's `Overall Searches/Sec`, the last but one of its fields.
pub fn searchrate_ops(printed: &str) -> Option<f64> {
    let fields: Vec<f64> = printed.lines().last()?.split(',').filter_map(|field| field.trim().parse().ok()).collect();
    let [.., rate, _] = fields[..] else { return None };
    Some(rate * JAVA_SECONDS as f64)
}

pub fn ldap(servers: &mut Servers, clients: u32) -> Result<Asks, Box<dyn Error>> {
    let slapd = servers.slapd()?;
    Ok(Asks {
        store: "ldap".to_owned(),
        url: Some(format!("ldap://127.0.0.1:{}/{}", slapd.port, servers::LDAP_BASE)),
        workload: "ldap",
        op: "search",
        params: vec![("entries", servers::LDAP_ENTRIES.to_string())],
        clients,
        ..Asks::default()
    })
}

pub fn fio(mut command: Command) -> Command {
    command.args(["--name=null", "--ioengine=null", "--rw=randread", "--bs=4k", "--size=64g", "--time_based"]);
    command.args([&format!("--runtime={SECONDS}"), "--output-format=json"]);
    command
}

pub fn fio_ops(printed: &str) -> Option<f64> {
    let counts = printed.split("\"total_ios\" : ").skip(1);
    counts.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).find(|n: &f64| *n > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_each_prints() {
        assert_eq!(pgbench_ops("x\nnumber of transactions actually processed: 1200\n"), Some(1200.0));
        assert_eq!(
            sysbench_ops("General statistics:\n    total number of events:              84210\n"),
            Some(84210.0)
        );
        let read = "READ   - Takes(s): 2.0, Count: 1234, OPS: 617.1, Avg(us): 81, 95th(us): 120, 99th(us): 310\n";
        assert_eq!((go_ycsb_ops(read), go_ycsb_field(read, "99th(us): ")), (Some(1234.0), Some(310.0)));
        let json = "{\"latencyPercentiles\": {\n \"p50\": 0.0001, \"p99\": 0.0007 },\n \"statusCodeDistribution\": {\n \"200\": 20001\n }}";
        assert_eq!((oha_ops(json), json_number(json, "p99")), (Some(20001.0), Some(0.0007)));
        assert_eq!(json_number(json, "p95"), None);
        let csv = "Recent Searches/Sec,Recent Avg Dur ms\n10862.493,0.735,1.000,0.000,7961.066,0.999\n";
        assert_eq!(searchrate_ops(csv), Some(79_610.66));
    }
}
