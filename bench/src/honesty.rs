//! `peers --honesty`: percentiles that each client prints of a server that was stopped for a second.
//!
//! Operations are due at 1,000 a second for 10 s. For one of these seconds the server's processes are stopped (SIGSTOP). A tenth of
//! all operations is due in that second, and each waits for its rest: p95 and p99 follow from that alone.
//! A client that starts its clock at the send does not see it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::client::{self, ClientSpec};
use crate::commands::{self, go_ycsb, memtier, oha, pgbench, sysbench_postgres, wrk};
use crate::cost;
use crate::servers::Servers;
use crate::tools::Tool;

const RATE_PER_S: u32 = 1_000;
const CLIENTS: u32 = 8;
const WINDOW_S: u64 = 10;
const STALL_AT: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(1);
/// wrk2 calibrates itself for 10 s and forgets their times.
const WRK2_BEFORE: Duration = Duration::from_secs(10);
/// Tolerance below and above the expected times, as shares of the stall: as in `plimsoll doctor --honesty`.
const BELOW: f64 = 0.05;
const ABOVE: f64 = 0.2;

/// p95 and p99 of the response time in milliseconds.
type Percentiles = Option<(f64, f64)>;

/// A client and its server.
struct Probe {
    name: &'static str,
    /// `None` for Plimsoll.
    tool: Option<Tool>,
    told: &'static str,
    /// Makes the command, which may write into the directory.
    command: fn(&mut Servers, &Path) -> Result<Command>,
    /// Reads the percentiles from its output, or from the directory.
    percentiles: fn(&str, &Path) -> Percentiles,
}

const fn probe(
    name: &'static str,
    tool: Option<Tool>,
    told: &'static str,
    command: fn(&mut Servers, &Path) -> Result<Command>,
    percentiles: fn(&str, &Path) -> Percentiles,
) -> Probe {
    Probe { name, tool, told, command, percentiles }
}

static PROBES: &[Probe] = &[
    probe(
        "plimsoll-postgres",
        None,
        "PostgreSQL",
        |servers, _| plimsoll(commands::postgres(servers, "select")?),
        |printed, _| client::times_ms(printed),
    ),
    probe(
        "plimsoll-redis",
        None,
        "Redis",
        |servers, _| plimsoll(commands::redis(servers, CLIENTS)?),
        |printed, _| client::times_ms(printed),
    ),
    probe(
        "plimsoll-http",
        None,
        "HTTP",
        |servers, _| plimsoll(commands::http(servers, CLIENTS)?),
        |printed, _| client::times_ms(printed),
    ),
    probe(
        "pgbench",
        Some(Tool::Pgbench),
        "-R 1000, from its log of every transaction; PostgreSQL",
        |servers, place| {
            let prefix = format!("--log-prefix={}", place.join("log").display());
            pgbench(servers, WINDOW_S, &["-S", "-R", "1000", "-l", &prefix])
        },
        |_, place| pgbench_log(place),
    ),
    probe(
        "sysbench",
        Some(Tool::Sysbench),
        "--rate=1000 --histogram; PostgreSQL",
        |servers, _| sysbench_postgres(servers, &["--rate=1000", "--time=10", "--histogram=on"]),
        |printed, _| sysbench_histogram(printed),
    ),
    probe(
        "wrk2",
        Some(Tool::Wrk2),
        "-R1000; HTTP",
        |servers, _| wrk(servers, Tool::Wrk2, &["-R1000", "-c8", "-d20s", "--latency"]),
        |printed, _| wrk2_percentiles(printed),
    ),
    probe(
        "oha-corrected",
        Some(Tool::Oha),
        "-q 1000 --latency-correction; HTTP",
        |servers, _| oha(servers, &["-c", "8", "-z", "10s", "-q", "1000", "--latency-correction"]),
        |printed, _| oha_percentiles(printed),
    ),
    probe(
        "oha",
        Some(Tool::Oha),
        "-q 1000; HTTP",
        |servers, _| oha(servers, &["-c", "8", "-z", "10s", "-q", "1000"]),
        |printed, _| oha_percentiles(printed),
    ),
    probe(
        "memtier",
        Some(Tool::Memtier),
        "--rate-limiting, 1000 in all; Redis",
        |servers, _| memtier(servers, &["--rate-limiting=125", "--test-time=10", "--print-percentiles=95,99"]),
        |printed, _| memtier_percentiles(printed),
    ),
    probe(
        "go-ycsb-postgres",
        Some(Tool::GoYcsb),
        "target=1000; PostgreSQL",
        |servers, _| go_ycsb(servers, "pg", WINDOW_S, RATE_PER_S),
        |printed, _| go_ycsb_percentiles(printed),
    ),
    probe(
        "go-ycsb-redis",
        Some(Tool::GoYcsb),
        "target=1000; Redis",
        |servers, _| go_ycsb(servers, "redis", WINDOW_S, RATE_PER_S),
        |printed, _| go_ycsb_percentiles(printed),
    ),
];

fn plimsoll(spec: ClientSpec) -> Result<Command> {
    ClientSpec { rate_per_s: f64::from(RATE_PER_S), seconds: WINDOW_S, has_times: true, ..spec }.command()
}

/// Runs all clients, or those with these names, and prints measured beside expected percentiles.
pub fn run(names: &[&str], servers: &mut Servers) -> Result {
    let probes = crate::chosen(PROBES, |probe| probe.name, names)?;
    println!(
        "{RATE_PER_S} operations a second for {WINDOW_S} s by {CLIENTS} clients; the server is stopped for {STALL:?} after \
         {STALL_AT:?}.\n"
    );
    println!(
        "| client | told | p95 ms (must be {:.0}) | p99 ms (must be {:.0}) | |\n|---|---|---|---|---|",
        expected_ms(0.95),
        expected_ms(0.99)
    );
    for probe in probes {
        let measured = once(probe, servers);
        let title = probe.tool.map_or("**plimsoll**".to_owned(), Tool::title);
        match measured {
            Ok((p95, p99)) => println!("| {title} | {} | {p95:.1} | {p99:.1} | {} |", probe.told, verdict(p95, p99)),
            Err(error) => println!("| {title} | {} | | | not run: {} |", probe.told, crate::one_line(&*error)),
        }
    }
    Ok(())
}

/// Percentile that follows from the stall: a share of `STALL / WINDOW_S` waits between nothing and all of it.
fn expected_ms(percentile: f64) -> f64 {
    let hit = STALL.as_secs_f64() / WINDOW_S as f64;
    (percentile - (1.0 - hit)) / hit * STALL.as_secs_f64() * 1e3
}

fn verdict(p95: f64, p99: f64) -> String {
    let stall_ms = STALL.as_secs_f64() * 1e3;
    for (measured, expected) in [(p95, expected_ms(0.95)), (p99, expected_ms(0.99))] {
        if measured < expected - BELOW * stall_ms {
            return format!("p99 {:.0} times too low", expected_ms(0.99) / p99);
        }
        if measured > expected + ABOVE * stall_ms {
            return "sees more than there was".to_owned();
        }
    }
    "sees it".to_owned()
}

fn once(probe: &Probe, servers: &mut Servers) -> Result<(f64, f64)> {
    let place = tempfile::tempdir()?;
    let command = (probe.command)(servers, place.path())?;
    let before = if probe.tool == Some(Tool::Wrk2) { WRK2_BEFORE } else { Duration::ZERO };
    let printed = std::thread::scope(|scope| -> Result<String> {
        let client = scope.spawn(|| cost::run(command, &[]).map_err(|error| error.to_string()));
        std::thread::sleep(before + STALL_AT);
        let stopped = servers.pause(true);
        std::thread::sleep(STALL);
        servers.pause(false)?;
        stopped?;
        let (printed, _) = client.join().map_err(|_| "the thread that waits for the client panicked")??;
        Ok(printed)
    })?;
    (probe.percentiles)(&printed, place.path()).ok_or_else(|| format!("no percentiles in: {printed}").into())
}

/// Number, from 1, of the value that a share of `n` values does not exceed.
fn nearest_rank(n: u64, share: f64) -> u64 {
    ((n as f64 * share).ceil() as u64).clamp(1, n.max(1))
}

/// Reads a line for each transaction: client, number, and the time since it was due, in microseconds.
fn pgbench_log(place: &Path) -> Percentiles {
    let mut times_ms: Vec<f64> = Vec::new();
    for file in place.read_dir().ok()?.flatten() {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let of = |line: &str| Some(line.split(' ').nth(2)?.parse::<f64>().ok()? / 1e3);
        times_ms.extend(text.lines().filter_map(of));
    }
    times_ms.sort_by(f64::total_cmp);
    let at = |share| times_ms.get(nearest_rank(times_ms.len() as u64, share) as usize - 1).copied();
    Some((at(0.95)?, at(0.99)?))
}

/// Reads buckets `       0.284 |******************  1234`: milliseconds, and count.
fn sysbench_histogram(printed: &str) -> Percentiles {
    let bucket = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        Some((value.trim().parse::<f64>().ok()?, rest.split_ascii_whitespace().last()?.parse::<u64>().ok()?))
    };
    let buckets: Vec<(f64, u64)> = printed.lines().filter_map(bucket).collect();
    let n: u64 = buckets.iter().map(|(_, count)| count).sum();
    let at = |share| {
        let (rank, mut below) = (nearest_rank(n, share), 0);
        let reached = buckets.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        reached.map(|(value, _)| *value)
    };
    Some((at(0.95)?, at(0.99)?))
}

/// Reads `READ   - Takes(s): 2.0, Count: 12345, …, 95th(us): 120, 99th(us): 310`, the last such line.
fn go_ycsb_percentiles(printed: &str) -> Percentiles {
    let line = printed.lines().rev().find(|line| line.starts_with("READ "))?;
    let ms = |field: &str| Some(line.split_once(field)?.1.split(',').next()?.trim().parse::<f64>().ok()? / 1e3);
    Some((ms("95th(us): ")?, ms("99th(us): ")?))
}

/// Reads `Totals … p95 p99 KB/sec`.
fn memtier_percentiles(printed: &str) -> Percentiles {
    let line = printed.lines().find_map(|line| line.strip_prefix("Totals"))?;
    let fields: Vec<f64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [.., p95, p99, _] = fields[..] else { return None };
    Some((p95, p99))
}

/// Reads the spectrum: value in milliseconds, share, count.
fn wrk2_percentiles(printed: &str) -> Percentiles {
    let rows = printed.lines().filter_map(|line| {
        let fields: Vec<f64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
        (fields.len() >= 3).then(|| (fields[0], fields[1]))
    });
    let at = |share: f64| rows.clone().find(|row| row.1 >= share).map(|row| row.0);
    Some((at(0.95)?, at(0.99)?))
}

fn oha_percentiles(printed: &str) -> Percentiles {
    let report: serde_json::Value = serde_json::from_str(printed).ok()?;
    let ms = |name: &str| Some(report.get("latencyPercentiles")?.get(name)?.as_f64()? * 1e3);
    Some((ms("p95")?, ms("p99")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_percentiles_follow_from_the_stall() {
        assert!((expected_ms(0.95) - 500.0).abs() < 1e-6 && (expected_ms(0.99) - 900.0).abs() < 1e-6);
        assert_eq!(verdict(517.0, 904.0), "sees it");
        assert_eq!(verdict(0.4, 1.0), "p99 900 times too low");
        assert_eq!(verdict(510.0, 1_400.0), "sees more than there was");
    }

    #[test]
    fn percentiles_are_read_as_each_client_prints_them() {
        let histogram = "  0.100 |****  900\n  500.000 |*  60\n  901.200 |*   40\n";
        assert_eq!(sysbench_histogram(histogram), Some((500.0, 901.2)));
        assert_eq!(sysbench_histogram("no buckets"), None);
        let memtier = "Totals  1000.1  1000.1  0.00  48.2  503.8  905.2  140.3\n";
        assert_eq!(memtier_percentiles(memtier), Some((503.8, 905.2)));
        let wrk2 =
            "   0.7  0.500000  4000  2.00\n  501.2  0.950000 9500 20.00\n  903.1 0.990625 9910 106.67\n#[Mean = 1]\n";
        assert_eq!(wrk2_percentiles(wrk2), Some((501.2, 903.1)));
        let go_ycsb = "READ   - Takes(s): 2.0, Count: 1234, OPS: 617.1, Avg(us): 81, 95th(us): 120, 99th(us): 310\n";
        assert_eq!(go_ycsb_percentiles(go_ycsb), Some((0.12, 0.31)));
        let oha =
            "{\"latencyPercentiles\": {\"p95\": 0.5, \"p99\": 0.75}, \"statusCodeDistribution\": {\"200\": 20001}}";
        assert_eq!(oha_percentiles(oha), Some((500.0, 750.0)));
        assert_eq!(oha_percentiles("{}"), None);
    }

    #[test]
    fn percentiles_are_read_from_every_file_of_pgbench_s_log() {
        let place = tempfile::tempdir().unwrap();
        let lines = |times: std::ops::RangeInclusive<u32>| -> String {
            times.map(|ms| format!("0 {ms} {} 0 1790000000 1\n", ms * 1000)).collect()
        };
        std::fs::write(place.path().join("log.1"), lines(51..=100)).unwrap();
        std::fs::write(place.path().join("log.2"), lines(1..=50)).unwrap();
        assert_eq!(pgbench_log(place.path()), Some((95.0, 99.0)));
    }
}
