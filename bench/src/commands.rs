//! Command lines of the clients, Plimsoll's included, and the operations that they print.

use std::process::Command;

use crate::Result;
use crate::client::{ClientSpec, SECONDS};
use crate::servers::{Servers, beside_postgres, quietly};
use crate::tools::Tool;

/// Scale of pgbench: two of eight clients seldom meet in one branch.
const SCALE: &str = "10";
/// Database and rows of sysbench's only table.
const SBTEST: &str = "sbtest";
const SBTEST_ROWS: &str = "100000";
/// Table of go-ycsb: one field of 100 bytes.
const GO_YCSB_TABLE: [&str; 4] = ["recordcount=20000", "fieldcount=1", "fieldlength=100", "insertorder=ordered"];

/// Runs pgbench over the Unix socket, with prepared statements.
pub fn pgbench(servers: &mut Servers, seconds: u64, more: &[&str]) -> Result<Command> {
    pgbench_tables(servers)?;
    let (sockets, port) = servers.postgres()?;
    let mut command = Tool::Pgbench.command()?;
    command.args(["-h", &sockets, "-p", &port.to_string(), "-U", "postgres", "-n", "-M", "prepared"]);
    command.args(["-c", "8", "-j", "1", "-T", &seconds.to_string()]).args(more).arg("postgres");
    Ok(command)
}

fn pgbench_tables(servers: &mut Servers) -> Result {
    let (sockets, port) = servers.postgres()?;
    let mut tables = beside_postgres("pgbench")?;
    tables.args(["-h", &sockets, "-p", &port.to_string(), "-U", "postgres", "-i", "-q", "-s", SCALE, "postgres"]);
    servers.once("pgbench -i", || quietly(&mut tables))
}

pub fn pgbench_ops(printed: &str) -> Option<f64> {
    printed.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: ")?.parse().ok())
}

/// Drives pgbench's tables by `workload`, `select` or `tpcb`.
pub fn postgres(servers: &mut Servers, workload: &str) -> Result<ClientSpec> {
    pgbench_tables(servers)?;
    let (sockets, port) = servers.postgres()?;
    let url = format!("postgres://postgres@/postgres?host={sockets}&port={port}");
    Ok(spec("postgres", Some(url), workload, workload, &[("scale", SCALE)], 8))
}

/// Runs sysbench's script on MariaDB.
pub fn sysbench_mariadb(servers: &mut Servers, script: &str) -> Result<Command> {
    let options = sbtest_on_mariadb(servers)?;
    let mut command = Tool::Sysbench.command()?;
    command.arg(script).args(options).args(["--threads=8", &format!("--time={SECONDS}"), "run"]);
    Ok(command)
}

fn sbtest_on_mariadb(servers: &mut Servers) -> Result<Vec<String>> {
    let socket = format!("--mysql-socket={}", servers.mariadb()?);
    let mut options: Vec<String> = vec!["--db-driver=mysql".into(), socket.clone(), "--mysql-user=root".into()];
    options.extend([format!("--mysql-db={SBTEST}"), "--tables=1".into(), format!("--table-size={SBTEST_ROWS}")]);
    let mut database = Command::new("mariadb");
    let socket = socket.replace("--mysql-", "--");
    database.args(["--no-defaults", "-u", "root", &socket, "-e", &format!("CREATE DATABASE {SBTEST}")]);
    servers.once("CREATE DATABASE", || quietly(&mut database))?;
    let mut tables = Tool::Sysbench.command()?;
    tables.arg("oltp_read_write").args(&options).arg("prepare");
    servers.once("sysbench prepare on MariaDB", || quietly(&mut tables))?;
    Ok(options)
}

/// Runs sysbench's point select on PostgreSQL.
pub fn sysbench_postgres(servers: &mut Servers, more: &[&str]) -> Result<Command> {
    let (sockets, port) = servers.postgres()?;
    let mut options: Vec<String> =
        ["--db-driver=pgsql", "--pgsql-user=postgres", "--pgsql-db=postgres"].map(str::to_owned).to_vec();
    options.extend([format!("--pgsql-host={sockets}"), format!("--pgsql-port={port}")]);
    options.extend(["--tables=1".into(), format!("--table-size={SBTEST_ROWS}")]);
    let mut tables = Tool::Sysbench.command()?;
    tables.arg("oltp_point_select").args(&options).arg("prepare");
    servers.once("sysbench prepare on PostgreSQL", || quietly(&mut tables))?;
    let mut command = Tool::Sysbench.command()?;
    command.arg("oltp_point_select").args(options).arg("--threads=8").args(more).arg("run");
    Ok(command)
}

/// Reads `    total number of events:              123456`.
pub fn sysbench_ops(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.trim_start().strip_prefix("total number of events:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Drives sysbench's table on MariaDB.
pub fn mariadb(servers: &mut Servers, op: &str) -> Result<ClientSpec> {
    sbtest_on_mariadb(servers)?;
    let url = format!("mariadb://root@/{SBTEST}?socket={}", servers.mariadb()?);
    Ok(spec("mariadb", Some(url), "oltp", op, &[("tables", "1"), ("table_size", SBTEST_ROWS)], 8))
}

/// Reads of go-ycsb at a rate, over TCP: its bindings know no other way.
pub fn go_ycsb(servers: &mut Servers, binding: &str, seconds: u64, rate_per_s: u32) -> Result<Command> {
    let server = match binding {
        "pg" => go_ycsb_on_postgres(servers)?,
        _ => go_ycsb_on_redis(servers)?,
    };
    let mut command = Tool::GoYcsb.command()?;
    command.args(["run", binding, &seconds.to_string()]).args(GO_YCSB_TABLE).args(server);
    command.args(["readproportion=1", "updateproportion=0", "requestdistribution=uniform", "silence=true"]);
    command.args(["operationcount=1000000000", "measurement.interval=3600", "threadcount=8"]);
    command.arg(format!("target={rate_per_s}"));
    Ok(command)
}

fn go_ycsb_on_postgres(servers: &mut Servers) -> Result<Vec<String>> {
    let (sockets, port) = servers.postgres()?;
    let sql = "CREATE TABLE usertable (ycsb_key varchar(64) PRIMARY KEY, field0 varchar(100)); INSERT INTO usertable \
               SELECT 'user' || n, repeat('x', 100) FROM generate_series(0, 19999) n; ANALYZE usertable";
    let mut psql = beside_postgres("psql")?;
    psql.args(["-X", "-q", "-h", &sockets, "-p", &port.to_string(), "-U", "postgres", "-c", sql, "postgres"]);
    servers.once("go-ycsb's table on PostgreSQL", || quietly(&mut psql))?;
    Ok(vec!["pg.host=127.0.0.1".into(), format!("pg.port={port}"), "pg.user=postgres".into(), "pg.db=postgres".into()])
}

fn go_ycsb_on_redis(servers: &mut Servers) -> Result<Vec<String>> {
    let server = vec![format!("redis.addr=127.0.0.1:{}", servers.redis()?), "redis.datatype=string".to_owned()];
    let mut load = Tool::GoYcsb.command()?;
    load.args(["load", "redis", "0"]).args(GO_YCSB_TABLE).args(&server).arg("threadcount=8");
    servers.once("go-ycsb load on Redis", || quietly(&mut load))?;
    Ok(server)
}

/// Runs redis-benchmark's GET by 32 clients with pipelines of 16.
pub fn redis_benchmark(servers: &mut Servers) -> Result<Command> {
    let port = servers.redis()?.to_string();
    let shape = ["-p", &port, "-r", "100000", "-d", "100"];
    let mut fill = Tool::RedisBenchmark.command()?;
    fill.args(shape).args(["-t", "set", "-n", "300000", "-P", "50", "-q"]);
    servers.once("redis-benchmark -t set", || quietly(&mut fill))?;
    let mut command = Tool::RedisBenchmark.command()?;
    command.args(shape).args(["-t", "get", "-n", "3000000", "-c", "32", "-P", "16"]);
    Ok(command)
}

/// Reads `  200000 requests completed in 3.21 seconds`.
pub fn redis_benchmark_ops(printed: &str) -> Option<f64> {
    first_number(printed.lines().find(|line| line.contains("requests completed in"))?)
}

/// Runs memtier_benchmark's GET. Without an option its connections share one seed, and ask for equal keys at once.
pub fn memtier(servers: &mut Servers, more: &[&str]) -> Result<Command> {
    let mut command = Tool::Memtier.command()?;
    command.args(["-p", &servers.redis()?.to_string(), "-t", "1", "--clients=8", "--ratio=0:1"]);
    command.args(["--key-maximum=100000", "--distinct-client-seed", "--hide-histogram"]).args(more);
    Ok(command)
}

/// Drives reads of values of 100 bytes, as redis-benchmark's.
pub fn redis(servers: &mut Servers, clients: u32) -> Result<ClientSpec> {
    let url = format!("redis://127.0.0.1:{}/", servers.redis()?);
    let values = [("records", "100000"), ("field_count", "1"), ("field_length", "100"), ("distribution", "uniform")];
    let spec = spec("redis", Some(url), "kv", "read", &values, clients);
    servers.once("load of kv", || spec.load())?;
    Ok(spec)
}

/// Runs wrk or wrk2.
pub fn wrk(servers: &mut Servers, tool: Tool, more: &[&str]) -> Result<Command> {
    let mut command = tool.command()?;
    command.arg("-t1").args(more).arg(format!("http://127.0.0.1:{}/", servers.nginx()?));
    Ok(command)
}

/// Reads `  123456 requests in 3.00s, 100.00MB read`.
pub fn wrk_ops(printed: &str) -> Option<f64> {
    first_number(printed.lines().find(|line| line.contains(" requests in "))?)
}

/// Runs oha.
pub fn oha(servers: &mut Servers, more: &[&str]) -> Result<Command> {
    let mut command = Tool::Oha.command()?;
    command.args(["--no-tui", "--output-format", "json"]).args(more);
    command.arg(format!("http://127.0.0.1:{}/", servers.nginx()?));
    Ok(command)
}

/// Drives GET of nginx's only page.
pub fn http(servers: &mut Servers, clients: u32) -> Result<ClientSpec> {
    let url = format!("http://127.0.0.1:{}", servers.nginx()?);
    Ok(spec("http", Some(url), "http", "get", &[("paths", "/")], clients))
}

/// Drives operations that do nothing.
pub fn null() -> ClientSpec {
    spec("null", None, "nothing", "nothing", &[], 1)
}

fn spec(
    store: &str,
    url: Option<String>,
    workload: &str,
    op: &str,
    params: &[(&str, &str)],
    clients: u32,
) -> ClientSpec {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (store, workload, op) = (store.to_owned(), workload.to_owned(), op.to_owned());
    ClientSpec { store, url, workload, op, params, clients, seconds: SECONDS, ..ClientSpec::default() }
}

fn first_number(line: &str) -> Option<f64> {
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_from_the_output_of_each_client() {
        assert_eq!(pgbench_ops("x\nnumber of transactions actually processed: 1200\n"), Some(1200.0));
        let sysbench = "General statistics:\n    total number of events:              84210\n";
        assert_eq!(sysbench_ops(sysbench), Some(84210.0));
        let redis = "====== GET ======\n  200000 requests completed in 3.21 seconds\n  32 parallel clients\n";
        assert_eq!(redis_benchmark_ops(redis), Some(200_000.0));
        assert_eq!(wrk_ops("Running 2s test\n  123456 requests in 2.00s, 100.00MB read\n"), Some(123_456.0));
        assert_eq!(wrk_ops("Running 2s test\n"), None);
    }
}
