//! `cargo xtask peers [ROW …] [--pairs N]`: what an operation costs Plimsoll's client and what it costs the best known
//! client of the same server, side by side.
//!
//! Both are whole processes on their own. Their CPU time, user and system, is what the kernel accounts them with when
//! they end (wait4). Peer and ours take turns in an order drawn by lot, in the same session, on the same server, with
//! the same affinity. A pair is dropped, and counted, when other processes took more than 15 % of the machine during one
//! of its halves. A goal is met when the upper end of the 95 % interval of the paired ratio is at most the goal, missed
//! when the lower end is above it, and open in between. A row whose peer is not installed is not compared, never met.
//!
//! | module | what |
//! |---|---|
//! | `rows` | the comparisons: who asks what of which server, and the goal |
//! | `servers` | the servers, private, and gone with this program |
//! | `client` | Plimsoll's side: a child process that drives an attached server |
//! | `others` | how much of the machine everybody else took |

mod client;
mod others;
mod rows;
mod servers;

use std::error::Error;
use std::fmt::Write as _;
use std::process::Command;

use crate::bench_postgres::{median, median_interval, sorted};
use crate::child_cost::{self, Cost};

pub use client::AS_CLIENT;
use others::Others;
use rows::{Goal, ROWS, Row};
use servers::Servers;

const PAIRS: usize = 10;
/// Pairs that are tried for each that is wanted, before a busy machine is given up on.
const TRIES: usize = 3;
/// Share of the machine that others may take during a run.
const OTHERS_MAX: f64 = 0.15;
const USAGE: &str = "cargo xtask peers [ROW …] [--pairs N]";

/// One run of a client.
#[derive(Debug, Clone)]
struct Run {
    ops: f64,
    cost: Cost,
    /// What it says of its own lag, where it does.
    lag: Option<String>,
}

/// What a row came to.
struct Compared {
    row: &'static Row,
    peers: Vec<Run>,
    ours: Vec<Run>,
    dropped: usize,
}

/// Compares, prints, and keeps a whole run in the journal.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    if arguments.first().is_some_and(|word| word == AS_CLIENT) {
        return client::be(&arguments[1..]);
    }
    let mut pairs = PAIRS;
    let mut wanted: Vec<&String> = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--pairs" => pairs = words.next().ok_or(USAGE)?.parse().map_err(|_| USAGE)?,
            _ if ROWS.iter().any(|row| row.name == word) => wanted.push(word),
            _ => {
                let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
                return Err(format!("there is no row `{word}`; there are: {}\n{USAGE}", names.join(", ")).into());
            }
        }
    }
    let chosen: Vec<&'static Row> =
        ROWS.iter().filter(|row| wanted.is_empty() || wanted.iter().any(|name| *name == row.name)).collect();
    let mut report = head(pairs);
    print!("{report}");
    let mut servers = Servers::default();
    for row in chosen {
        let line = match compare(row, pairs, &mut servers) {
            Ok(Some(compared)) => line(&compared),
            Ok(None) => format!("| {} | {} | not there | | | {} | not compared | |\n", row.name, row.peer, row.goal),
            Err(error) => {
                format!("| {} | {} | failed: {error} | | | {} | not compared | |\n", row.name, row.peer, row.goal)
            }
        };
        print!("{line}");
        report.push_str(&line);
    }
    let _ = writeln!(report, "\nLoad at the end: {}.", load());
    if wanted.is_empty() {
        println!("\nkept in {}", keep(&report)?);
    }
    Ok(())
}

fn head(pairs: usize) -> String {
    format!(
        "# What an operation costs: Plimsoll and its peers, {}\n\nCommit {}; {pairs} pairs a row, {} s a run; load at the start {}; {} processors, {}.\nCPU time (user + system) of the whole client \
         process a unit of work: median (least … most). Ratio: median of the pairs (95 % interval).\n\n| case | peer | peer µs | ours µs | ratio or figure | goal | state | pairs (dropped) |\n|---|---|---|---|---|---|---|---|\n",
        date("%Y-%m-%d %H:%M UTC"),
        output("git", &["rev-parse", "--short", "HEAD"]),
        rows::SECONDS,
        load(),
        std::thread::available_parallelism().map_or(0, usize::from),
        output("uname", &["-sr"]),
    )
}

/// `None` when the peer is not installed.
fn compare(row: &'static Row, pairs: usize, servers: &mut Servers) -> Result<Option<Compared>, Box<dyn Error>> {
    let Some(peer) = (row.peer_command)(servers)? else { return Ok(None) };
    // The first run of each fills caches and counts for nothing.
    once(row, true, servers, Some(peer))?;
    once(row, false, servers, None)?;
    let mut compared = Compared { row, peers: Vec::new(), ours: Vec::new(), dropped: 0 };
    let mut lot = u64::from(std::process::id());
    for _ in 0..pairs * TRIES {
        if compared.ours.len() == pairs {
            break;
        }
        lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let peer_first = lot >> 63 == 0;
        let first = once(row, peer_first, servers, None)?;
        let second = once(row, !peer_first, servers, None)?;
        match (first, second) {
            (Some(first), Some(second)) => {
                let (peer, ours) = if peer_first { (first, second) } else { (second, first) };
                compared.peers.push(peer);
                compared.ours.push(ours);
            }
            _ => compared.dropped += 1,
        }
    }
    Ok(Some(compared))
}

/// One run; `None` when others took too much of the machine meanwhile.
fn once(row: &Row, peer: bool, servers: &mut Servers, command: Option<Command>) -> Result<Option<Run>, Box<dyn Error>> {
    let command = match (command, peer) {
        (Some(command), _) => command,
        (None, true) => (row.peer_command)(servers)?.ok_or("the peer has gone")?,
        (None, false) => client::command(&(row.ours)(servers)?)?,
    };
    let others = Others::before(&servers.pids());
    let (printed, cost) = child_cost::run(command)?;
    let share = others.share(&cost, &servers.pids());
    let (parse, per) = if peer { (row.peer_ops, row.ops_per_peer_unit) } else { (client::ops as rows::Parse, 1.0) };
    let ops = parse(&printed).filter(|ops| *ops > 0.0).ok_or_else(|| format!("no operations: {printed}"))? * per;
    let lag = if peer { rows::lag_of_pgbench(&printed) } else { client::lag(&printed) };
    Ok((share <= OTHERS_MAX).then_some(Run { ops, cost, lag }))
}

fn line(compared: &Compared) -> String {
    let Compared { row, peers, ours, dropped } = compared;
    let cost = |runs: &[Run]| sorted(runs.iter().map(|run| run.cost.cpu_us() / run.ops));
    let shown = |costs: &[f64]| match (costs.first(), costs.last()) {
        (Some(least), Some(most)) => format!("{:.2} ({least:.2} … {most:.2})", median(costs)),
        _ => "–".to_owned(),
    };
    let ratios = sorted(
        peers.iter().zip(ours).map(|(peer, our)| (our.cost.cpu_us() / our.ops) / (peer.cost.cpu_us() / peer.ops)),
    );
    let (low, high) = median_interval(&ratios);
    let (figure, state) = match row.goal {
        Goal::Ratio(goal) => {
            (format!("{:.3} ({low:.3} … {high:.3})", median(&ratios)), judged(low, high, goal, ratios.len()))
        }
        Goal::Us(goal) => {
            let costs = cost(ours);
            let (low, high) = median_interval(&costs);
            (format!("{:.4} µs ({low:.4} … {high:.4})", median(&costs)), judged(low, high, goal, costs.len()))
        }
    };
    let lags = |runs: &[Run]| runs.iter().rev().find_map(|run| run.lag.clone());
    let lag = match (lags(peers), lags(ours)) {
        (peer, Some(ours)) => {
            format!("; lag: peer {}, ours {ours} (last run)", peer.unwrap_or_else(|| "not said".to_owned()))
        }
        _ => String::new(),
    };
    format!(
        "| {} | {} | {} | {} | {figure}{lag} | {} | {state} | {} ({dropped}) |\n",
        row.name,
        row.peer,
        shown(&cost(peers)),
        shown(&cost(ours)),
        row.goal,
        ours.len()
    )
}

fn judged(low: f64, high: f64, goal: f64, n: usize) -> &'static str {
    match n {
        0..10 => "open (too few pairs)",
        _ if high <= goal => "met",
        _ if low > goal => "missed",
        _ => "open",
    }
}

/// Writes the page of a whole run.
fn keep(report: &str) -> Result<String, Box<dyn Error>> {
    let name = format!("{}-peers-{}.md", date("%Y-%m-%d"), date("%H%M"));
    let path = crate::root().join("docs/journal").join(name);
    std::fs::write(&path, report)?;
    Ok(path.display().to_string())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn date(format: &str) -> String {
    output("date", &["-u", &format!("+{format}")])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
