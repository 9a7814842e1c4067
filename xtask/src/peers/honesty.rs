//! `cargo xtask peers --honesty`: what each client says of a server that was stopped for a second.
//!
//! Operations come at 1,000 a second for 10 s, and for one of them the server's processes are stopped (SIGSTOP). A tenth
//! of all operations is due in that second, each waits for its rest: what p95 and p99 must be follows from that alone.
//! A client that starts its clock when it gets round to sending does not see it.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::client;
use super::commands::{self, Asks, Made, go_ycsb_field, json_number};
use super::others;
use super::servers::Servers;
use super::tools::{Tool, Tools};
use crate::child_cost;

const RATE: u32 = 1_000;
const CLIENTS: u32 = 8;
const WINDOW_S: u64 = 10;
const STALL_AT: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(1);
/// wrk2 finds out about itself for 10 s, and forgets what it saw of them.
const WRK2_BEFORE: Duration = Duration::from_secs(10);
/// What may be said below and above what must be, as shares of the stall: as `plimsoll doctor --honesty` has it.
const BELOW: f64 = 0.05;
const ABOVE: f64 = 0.2;

/// p95 and p99 of the response time in milliseconds.
type Said = Option<(f64, f64)>;

/// One client and the server it asks.
struct Probe {
    name: &'static str,
    /// `None` is ours.
    tool: Option<Tool>,
    told: &'static str,
    /// Time before its 10 s begin.
    before: Duration,
    command: fn(&mut Servers, Command, &Path) -> Made,
    said: fn(&str, &Path) -> Said,
}

const fn probe(
    name: &'static str,
    tool: Tool,
    told: &'static str,
    command: fn(&mut Servers, Command, &Path) -> Made,
    said: fn(&str, &Path) -> Said,
) -> Probe {
    Probe { name, tool: Some(tool), told, before: Duration::ZERO, command, said }
}

const fn ours(name: &'static str, told: &'static str, command: fn(&mut Servers, Command, &Path) -> Made) -> Probe {
    Probe { name, tool: None, told, before: Duration::ZERO, command, said: |printed, _| client::times_ms(printed) }
}

static PROBES: &[Probe] = &[
    ours("plimsoll-postgres", "PostgreSQL", |servers, _, _| {
        let asks = commands::select(servers, false, CLIENTS)?;
        asked(asks)
    }),
    ours("plimsoll-redis", "Redis", |servers, _, _| {
        let asks = commands::redis(servers, CLIENTS, 1)?;
        asked(asks)
    }),
    ours("plimsoll-http", "HTTP", |servers, _, _| {
        let asks = commands::http(servers, 0.0, false)?;
        asked(Asks { clients: CLIENTS, ..asks })
    }),
    probe("pgbench", Tool::Pgbench, "-R 1000, from its log of every transaction; PostgreSQL", pgbench, |_, place| {
        pgbench_log(place)
    }),
    probe("sysbench", Tool::Sysbench, "--rate=1000 --histogram; PostgreSQL", sysbench, |printed, _| {
        sysbench_histogram(printed)
    }),
    probe(
        "go-ycsb-postgres",
        Tool::GoYcsb,
        "target=1000; PostgreSQL",
        |servers, command, _| go_ycsb(servers, command, "pg"),
        |printed, _| go_ycsb_said(printed),
    ),
    probe(
        "go-ycsb-redis",
        Tool::GoYcsb,
        "target=1000; Redis",
        |servers, command, _| go_ycsb(servers, command, "redis"),
        |printed, _| go_ycsb_said(printed),
    ),
    probe("memtier", Tool::Memtier, "--rate-limiting, 1000 in all; Redis", memtier, |printed, _| memtier_said(printed)),
    Probe { before: WRK2_BEFORE, ..probe("wrk2", Tool::Wrk2, "-R1000; HTTP", wrk2, |printed, _| wrk2_said(printed)) },
    probe(
        "oha",
        Tool::Oha,
        "-q 1000; HTTP",
        |servers, command, _| oha(servers, command, &[]),
        |printed, _| oha_said(printed),
    ),
    probe(
        "oha-corrected",
        Tool::Oha,
        "-q 1000 --latency-correction; HTTP",
        |servers, command, _| oha(servers, command, &["--latency-correction"]),
        |printed, _| oha_said(printed),
    ),
];

/// Asks them all, or those of `names`, and prints what each says beside what must be.
pub fn run(names: &[String], servers: &mut Servers, tools: &mut Tools) -> Result<(), Box<dyn Error>> {
    if let Some(name) = names.iter().find(|name| !PROBES.iter().any(|probe| probe.name == *name)) {
        let known: Vec<&str> = PROBES.iter().map(|probe| probe.name).collect();
        return Err(format!("there is no client `{name}`; there are: {}", known.join(", ")).into());
    }
    println!(
        "{RATE} operations a second for {WINDOW_S} s by {CLIENTS} clients; the server is stopped for {STALL:?} after {STALL_AT:?}.\n"
    );
    println!(
        "| client | told | p95 ms (must be {:.0}) | p99 ms (must be {:.0}) | |",
        expected_ms(0.95),
        expected_ms(0.99)
    );
    println!("|---|---|---|---|---|");
    for probe in PROBES.iter().filter(|probe| names.is_empty() || names.iter().any(|name| name == probe.name)) {
        let said = once(probe, servers, tools);
        let title = probe.tool.map_or("**plimsoll**".to_owned(), |tool| tools.title(tool));
        match said {
            Ok((p95, p99)) => println!("| {title} | {} | {p95:.1} | {p99:.1} | {} |", probe.told, judged(p95, p99)),
            Err(error) => println!("| {title} | {} | | | not asked: {} |", probe.told, one_line(&error.to_string())),
        }
    }
    Ok(())
}

/// The percentile that the stall alone makes: a share of `STALL / WINDOW` waits between nothing and all of it.
fn expected_ms(percentile: f64) -> f64 {
    let hit = STALL.as_secs_f64() / WINDOW_S as f64;
    (percentile - (1.0 - hit)) / hit * STALL.as_secs_f64() * 1e3
}

fn judged(p95: f64, p99: f64) -> String {
    let stall_ms = STALL.as_secs_f64() * 1e3;
    for (said, percentile) in [(p95, 0.95), (p99, 0.99)] {
        let must = expected_ms(percentile);
        if said < must - BELOW * stall_ms {
            return format!("does not see it: p99 {:.0} times too low", expected_ms(0.99) / p99);
        }
        if said > must + ABOVE * stall_ms {
            return "sees more than there was".to_owned();
        }
    }
    "sees it".to_owned()
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().replace('|', "/")
}

fn once(probe: &Probe, servers: &mut Servers, tools: &mut Tools) -> Result<(f64, f64), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let command = match probe.tool {
        Some(tool) => tools.command(tool)?,
        None => Command::new("plimsoll"),
    };
    let command = (probe.command)(servers, command, place.path())?;
    let pids = servers.pids();
    let (printed, _) = std::thread::scope(|scope| {
        let client = scope.spawn(|| child_cost::run(command).map_err(|error| error.to_string()));
        std::thread::sleep(probe.before + STALL_AT);
        let stalled = stall(&pids);
        let done = client.join().map_err(|_| "the thread that waits for the client panicked".to_owned())?;
        stalled.map_err(|error| error.to_string())?;
        done
    })?;
    (probe.said)(&printed, place.path()).ok_or_else(|| format!("no percentiles in: {printed}").into())
}

/// Stops the servers, and lets them go on, whatever happened.
fn stall(roots: &[u32]) -> rustix::io::Result<()> {
    let all = |signal| {
        // A root first: it starts nobody while it stands.
        let roots = roots.iter().copied();
        roots
            .clone()
            .chain(others::tree(&roots.collect::<Vec<_>>()))
            .filter_map(|pid| Pid::from_raw(pid as i32))
            .try_for_each(|pid| match kill_process(pid, signal) {
                Err(rustix::io::Errno::SRCH) => Ok(()),
                done => done,
            })
    };
    let stopped = all(Signal::STOP);
    std::thread::sleep(STALL);
    all(Signal::CONT)?;
    stopped
}

/// The number of the value, from 1, that a share of `n` values does not pass. `None` of none.
fn nearest_rank(n: u64, share: f64) -> Option<u64> {
    (n > 0).then(|| ((n as f64 * share).ceil() as u64).clamp(1, n))
}

fn asked(asks: Asks) -> Made {
    client::command(&Asks { rate_per_s: f64::from(RATE), seconds: WINDOW_S, times: true, ..asks })
}

fn pgbench(servers: &mut Servers, command: Command, place: &Path) -> Made {
    let (rate, window) = (RATE.to_string(), WINDOW_S.to_string());
    let prefix = format!("--log-prefix={}", place.join("log").display());
    commands::pgbench(servers, command, false, CLIENTS, &["-S", "-R", &rate, "-T", &window, "-l", &prefix])
}

/// Client, number, and the time from when it was due, in microseconds.
fn pgbench_log(place: &Path) -> Said {
    let mut times_ms: Vec<f64> = Vec::new();
    for file in place.read_dir().ok()?.flatten() {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let of = |line: &str| Some(line.split(' ').nth(2)?.parse::<f64>().ok()? / 1e3);
        times_ms.extend(text.lines().filter_map(of));
    }
    times_ms.sort_by(f64::total_cmp);
    let at = |share| times_ms.get(nearest_rank(times_ms.len() as u64, share)? as usize - 1).copied();
    Some((at(0.95)?, at(0.99)?))
}

fn sysbench(servers: &mut Servers, command: Command, _: &Path) -> Made {
    let (rate, window) = (format!("--rate={RATE}"), format!("--time={WINDOW_S}"));
    commands::sysbench_postgres(servers, command, CLIENTS, &[&rate, &window, "--histogram=on"])
}

/// `       0.284 |******************  1234`: milliseconds, and how many.
fn sysbench_histogram(printed: &str) -> Said {
    let bucket = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        Some((value.trim().parse::<f64>().ok()?, rest.split_ascii_whitespace().last()?.parse::<u64>().ok()?))
    };
    let buckets: Vec<(f64, u64)> = printed.lines().filter_map(bucket).collect();
    let n: u64 = buckets.iter().map(|(_, count)| count).sum();
    let at = |share| {
        let rank = nearest_rank(n, share)?;
        let mut below = 0;
        buckets.iter().find(|(_, count)| {
            below += count;
            below >= rank
        })
    };
    Some((at(0.95)?.0, at(0.99)?.0))
}

fn go_ycsb(servers: &mut Servers, command: Command, binding: &str) -> Made {
    let made = commands::go_ycsb(servers, command, binding, CLIENTS, RATE)?;
    // The third of its words is how long.
    let mut longer = Command::new(made.get_program());
    let window = WINDOW_S.to_string();
    longer.args(made.get_args().enumerate().map(|(at, word)| if at == 2 { window.as_ref() } else { word }));
    Ok(longer)
}

fn go_ycsb_said(printed: &str) -> Said {
    Some((go_ycsb_field(printed, "95th(us): ")? / 1e3, go_ycsb_field(printed, "99th(us): ")? / 1e3))
}

fn memtier(servers: &mut Servers, command: Command, _: &Path) -> Made {
    let each = format!("--rate-limiting={}", RATE / CLIENTS);
    let window = format!("--test-time={WINDOW_S}");
    commands::memtier(servers, command, CLIENTS, &[&each, &window, "--print-percentiles=95,99"])
}

/// `Totals … p95 p99 KB/sec`
fn memtier_said(printed: &str) -> Said {
    let line = printed.lines().find_map(|line| line.strip_prefix("Totals"))?;
    let fields: Vec<f64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [.., p95, p99, _] = fields[..] else { return None };
    Some((p95, p99))
}

fn wrk2(servers: &mut Servers, command: Command, _: &Path) -> Made {
    let (rate, length) = (format!("-R{RATE}"), format!("-d{}s", WRK2_BEFORE.as_secs() + WINDOW_S));
    commands::wrk(servers, command, &[&rate, &length, &format!("-c{CLIENTS}"), "--latency"])
}

/// Its spectrum: value in milliseconds, share, count.
fn wrk2_said(printed: &str) -> Said {
    let rows = printed.lines().filter_map(|line| {
        let fields: Vec<f64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
        (fields.len() >= 3).then(|| (fields[0], fields[1]))
    });
    let at = |share: f64| rows.clone().find(|row| row.1 >= share).map(|row| row.0);
    Some((at(0.95)?, at(0.99)?))
}

fn oha(servers: &mut Servers, command: Command, more: &[&str]) -> Made {
    let rate = RATE.to_string();
    let mut told = vec!["-q", &rate];
    told.extend(more);
    commands::oha(servers, command, CLIENTS, WINDOW_S, &told)
}

/// In seconds.
fn oha_said(printed: &str) -> Said {
    let json = printed.split_once("\"latencyPercentiles\"")?.1;
    Some((json_number(json, "p95")? * 1e3, json_number(json, "p99")? * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_follows_from_the_stall() {
        assert!((expected_ms(0.95) - 500.0).abs() < 1e-6 && (expected_ms(0.99) - 900.0).abs() < 1e-6);
        assert_eq!(judged(517.0, 904.0), "sees it");
        assert_eq!(judged(0.4, 1.0), "does not see it: p99 900 times too low");
        assert_eq!(judged(510.0, 1_400.0), "sees more than there was");
    }

    #[test]
    fn percentiles_are_read_as_each_client_prints_them() {
        let histogram = "  0.100 |****  900\n  500.000 |*  60\n  901.200 |*   40\n";
        assert_eq!(sysbench_histogram(histogram), Some((500.0, 901.2)));
        let memtier = "Totals  1000.1  1000.1  0.00  48.2  503.8  905.2  140.3\n";
        assert_eq!(memtier_said(memtier), Some((503.8, 905.2)));
        let wrk2 =
            "   0.7  0.500000  4000  2.00\n  501.2  0.950000 9500 20.00\n  903.1 0.990625 9910 106.67\n#[Mean = 1]\n";
        assert_eq!(wrk2_said(wrk2), Some((501.2, 903.1)));
    }
}
