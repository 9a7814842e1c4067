//! Ways of doing the operations of a row, in turn on one server, and the processor time of each.
//!
//! Each way is a process of its own. Its cost is the user and system time that the kernel accounts at its end (wait4).
//! The order of each round is drawn by lot. A round is dropped, and counted, if others took more than 15 % of the machine during one of
//! its runs. In a comparison with a peer it is also dropped if Plimsoll's generator was the limit.

use std::fmt::Write as _;
use std::process::Command;

use plimsoll_analysis::stat::interval::{self, Interval};
use plimsoll_analysis::stat::median;
use plimsoll_core::random::SplitMix;
use plimsoll_drive::{Io, WakeMode};

use crate::Result;
use crate::client::{self, ClientSpec};
use crate::cost::{self, Cost};
use crate::rows::{Parse, Row};
use crate::servers::Servers;

pub const HEAD: &str = "\
| row | way | µs an operation: median (least … most) | ratio (95 % interval) | operations/s | lag p50, p99 µs | waits an operation | runs (dropped) |
|---|---|---|---|---|---|---|---|";
/// Rounds that are tried for each that is wanted.
const TRIES: usize = 3;
/// Share of the machine that others may take during a run.
const OTHERS_MAX: f64 = 0.15;
/// Fewest rounds for a verdict.
const ROUNDS_MIN: usize = 10;

struct Way {
    title: String,
    command: Command,
    ops: Parse,
    /// The servers are on another processor.
    is_apart: bool,
    runs: Vec<Run>,
}

#[derive(Debug, Clone)]
struct Run {
    ops: f64,
    cost: Cost,
    /// p50 and p99 of the scheduling delay, of Plimsoll in an open loop.
    lag_us: Option<(f64, f64)>,
    /// The generator was the limit.
    is_void: bool,
}

impl Run {
    fn us_per_op(&self) -> f64 {
        self.cost.cpu_us / self.ops
    }
}

/// Compares Plimsoll with the row's peer. Returns the lines of the table.
pub fn compare(row: &Row, rounds: usize, servers: &mut Servers) -> Result<String> {
    let mut ways = Vec::new();
    if let Some(peer) = &row.peer {
        let command = (peer.command)(servers)?;
        let title = format!("{}, {}", peer.tool.title(), peer.told);
        ways.push(Way { title, command, ops: peer.ops, is_apart: false, runs: Vec::new() });
    }
    ways.push(way("plimsoll", (row.plimsoll)(servers)?)?);
    let dropped = take_turns(&mut ways, rounds, true, servers)?;
    Ok(lines(row, &ways, dropped, true))
}

/// Compares ways of running Plimsoll with the first of them. Returns the lines of the table.
pub fn in_turn(row: &Row, names: &str, rounds: usize, servers: &mut Servers) -> Result<String> {
    let spec = (row.plimsoll)(servers)?;
    let mut ways = names.split(',').map(|name| way(name, spec.clone())).collect::<Result<Vec<Way>>>()?;
    let dropped = take_turns(&mut ways, rounds, false, servers)?;
    Ok(lines(row, &ways, dropped, false))
}

/// Reads a way of running Plimsoll: `here+io=epoll`.
fn way(name: &str, mut spec: ClientSpec) -> Result<Way> {
    let (mut program, mut is_apart) = (None, false);
    for part in name.split('+') {
        match part.split_once('=') {
            Some(("io", io)) => spec.io = Io::named(io).ok_or_else(|| format!("there is no io `{io}`"))?,
            Some(("wake", wake)) => {
                spec.wake = WakeMode::named(wake).ok_or_else(|| format!("there is no wake `{wake}`"))?
            }
            _ if part == "apart" => (is_apart, spec.pin) = (true, Some(0)),
            _ if part == "here" || part == "plimsoll" => {}
            _ => program = Some(part),
        }
    }
    let mut command = spec.command()?;
    if let Some(program) = program {
        command = again(&command, program);
    }
    Ok(Way { title: name.to_owned(), command, ops: client::ops, is_apart, runs: Vec::new() })
}

fn again(command: &Command, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut again = Command::new(program);
    again.args(command.get_args());
    again
}

/// Runs all ways in turn until each has run `rounds` times. Returns the number of dropped rounds.
fn take_turns(ways: &mut [Way], rounds: usize, drops_void: bool, servers: &Servers) -> Result<usize> {
    let mut dice = SplitMix::new(std::process::id().into());
    let is_bound = ways.iter().any(|way| way.is_apart);
    let last = std::thread::available_parallelism()?.get() - 1;
    if is_bound && last == 0 {
        return Err("there is only one processor".into());
    }
    let once = |way: &Way| -> Result<Run> {
        if is_bound {
            servers.bind(&if way.is_apart { "1".to_owned() } else { format!("0-{last}") })?;
        }
        let (printed, cost) = cost::run(again(&way.command, way.command.get_program()), &servers.pids())?;
        let ops = (way.ops)(&printed).filter(|ops| *ops > 0.0).ok_or_else(|| format!("no operations: {printed}"))?;
        Ok(Run { ops, cost, lag_us: client::lag_us(&printed), is_void: client::is_void(&printed) })
    };
    // The first run of each fills caches and does not count.
    ways.iter().try_for_each(|way| once(way).map(drop))?;
    let (mut done, mut dropped) = (0, 0);
    while done < rounds && done + dropped < rounds * TRIES {
        let mut runs: Vec<(usize, Run)> = Vec::new();
        for at in by_lot(ways.len(), &mut dice) {
            runs.push((at, once(&ways[at])?));
        }
        if runs.iter().any(|(_, run)| is_dropped(run, drops_void)) {
            dropped += 1;
            continue;
        }
        done += 1;
        runs.into_iter().for_each(|(at, run)| ways[at].runs.push(run));
    }
    Ok(dropped)
}

fn is_dropped(run: &Run, drops_void: bool) -> bool {
    run.cost.others_share > OTHERS_MAX || (drops_void && run.is_void)
}

/// The numbers below `count` in an order drawn by lot.
fn by_lot(count: usize, dice: &mut SplitMix) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        order.swap(end, dice.below(end + 1));
    }
    order
}

fn lines(row: &Row, ways: &[Way], dropped: usize, has_goal: bool) -> String {
    let costs = |way: &Way| -> Vec<f64> { way.runs.iter().map(Run::us_per_op).collect() };
    let first = ways.first().map(costs).unwrap_or_default();
    let mut text = String::new();
    for (number, way) in ways.iter().enumerate() {
        let own = costs(way);
        let figure = match ways.len() {
            1 => interval::of_median(&own),
            _ => interval::of_median(&own.iter().zip(&first).map(|(own, first)| own / first).collect::<Vec<_>>()),
        };
        let mut ratio = if number == 0 && ways.len() > 1 { "1".to_owned() } else { in_words(figure) };
        if has_goal && number + 1 == ways.len() {
            let _ = write!(ratio, "; goal {}: {}", row.goal, verdict(figure, row.goal, own.len()));
        }
        let middle =
            |of: &dyn Fn(&Run) -> f64| median(&way.runs.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let lag = |of: fn((f64, f64)) -> f64| middle(&|run| run.lag_us.map_or(f64::NAN, of));
        let is_open = way.runs.iter().any(|run| run.lag_us.is_some());
        let lag = if is_open { format!("{:.1}, {:.1}", lag(|lag| lag.0), lag(|lag| lag.1)) } else { "–".to_owned() };
        let void = way.runs.iter().filter(|run| run.is_void).count();
        let void = if void > 0 { format!(", {void} void") } else { String::new() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {ratio} | {:.0} | {lag} | {:.2} | {} ({dropped}{void}) |",
            row.name,
            way.title,
            spread(&own),
            middle(&|run| run.ops / client::SECONDS as f64),
            middle(&|run| run.cost.waits as f64 / run.ops),
            own.len(),
        );
    }
    text
}

/// Median, least and most.
pub fn spread(costs: &[f64]) -> String {
    let Some(middle) = median(costs) else { return "–".to_owned() };
    let (least, most) = costs.iter().fold((f64::MAX, f64::MIN), |(low, high), cost| (low.min(*cost), high.max(*cost)));
    let places = if middle < 0.1 { 4 } else { 2 };
    format!("{middle:.places$} ({least:.places$} … {most:.places$})")
}

fn in_words(interval: Option<Interval>) -> String {
    let Some(Interval { value, low, high, .. }) = interval else { return "too few for an interval".to_owned() };
    let places = if value < 0.1 { 4 } else { 3 };
    format!("{value:.places$} ({low:.places$} … {high:.places$})")
}

fn verdict(interval: Option<Interval>, goal: f64, rounds: usize) -> &'static str {
    match interval {
        Some(interval) if rounds >= ROUNDS_MIN && interval.high <= goal => "met",
        Some(interval) if rounds >= ROUNDS_MIN && interval.low > goal => "missed",
        Some(_) if rounds >= ROUNDS_MIN => "open",
        _ => "open (too few rounds)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    fn run(us: f64, others_share: f64, is_void: bool) -> Run {
        Run { ops: 1.0, cost: Cost { cpu_us: us, waits: 0, others_share }, lag_us: None, is_void }
    }

    #[test]
    fn a_ratio_is_of_runs_of_one_round_and_decides_about_the_goal() {
        let ways = [1.0, 0.6].map(|factor| Way {
            title: factor.to_string(),
            command: Command::new("true"),
            ops: client::ops,
            is_apart: false,
            runs: (1..=10).map(|drift| run(100.0 * factor * f64::from(drift), 0.0, false)).collect(),
        });
        let text = lines(&ROWS[0], &ways, 3, true);
        assert!(text.contains("| 0.600 (0.600 … 0.600); goal 0.7: met |") && text.ends_with("| 10 (3) |\n"), "{text}");
        assert_eq!(verdict(interval::of_median(&[0.8; 10]), 0.7, 10), "missed");
        assert_eq!(verdict(interval::of_median(&[0.6; 9]), 0.7, 9), "open (too few rounds)");
    }

    #[test]
    fn rounds_are_dropped_on_a_busy_machine_and_in_comparisons_with_a_late_generator() {
        assert!(!is_dropped(&run(1.0, 0.1, false), true));
        assert!(is_dropped(&run(1.0, 0.2, false), false));
        assert!(is_dropped(&run(1.0, 0.0, client::is_void("ops: 7\nvoid: the generator was the limit\n")), true));
        assert!(!is_dropped(&run(1.0, 0.0, client::is_void("ops: 7\nlag: 1 2\n")), true));
        assert!(!is_dropped(&run(1.0, 0.0, true), false), "lateness is what ways of waking up differ in");
    }
}
