//! `cargo xtask peers --in-turn WAY,WAY ROW`: what an operation of ours costs when it is done one way and another, in
//! turn, on the same server. The first way is what the others are compared with.

use std::error::Error;
use std::process::Command;

use plimsoll_analysis::stat::interval::Dice;
use plimsoll_analysis::stat::median;
use plimsoll_drive::Io;

use super::client;
use super::commands::{Asks, SECONDS};
use super::compare::{self, Run};
use super::rows::Row;
use super::servers::Servers;

/// Rounds that are tried for each that is wanted.
const TRIES: usize = 2;

/// One way of doing it.
struct Way {
    name: String,
    io: Io,
    /// Another build of this program.
    build: Option<String>,
    runs: Vec<Run>,
}

impl Way {
    fn new(name: &str) -> Result<Way, Box<dyn Error>> {
        let mut way = Way { name: name.to_owned(), io: Io::Auto, build: None, runs: Vec::new() };
        for part in name.split('+') {
            match part.strip_prefix("io=") {
                Some(io) => way.io = super::client::io_named(io)?,
                None if part == "here" => {}
                None => way.build = Some(part.to_owned()),
            }
        }
        Ok(way)
    }

    fn command(&self, asks: &Asks) -> Result<Command, Box<dyn Error>> {
        let command = client::command(&Asks { io: self.io, ..asks.clone() })?;
        let mut same = match &self.build {
            None => Command::new(command.get_program()),
            Some(build) => Command::new(build),
        };
        same.args(command.get_args());
        Ok(same)
    }
}

/// Runs all ways in an order drawn by lot, and prints a line for each.
pub fn run(row: &Row, ways: &str, rounds: usize, servers: &mut Servers) -> Result<(), Box<dyn Error>> {
    let mut ways = ways.split(',').map(Way::new).collect::<Result<Vec<Way>, _>>()?;
    let [first, _, ..] = &ways[..] else {
        return Err("--in-turn compares two ways at least: io=io_uring,io=epoll".into());
    };
    let asks = (row.ours)(servers)?;
    let mut dice = Dice::new(std::process::id().into());
    // To warm up.
    compare::one(first.command(&asks)?, servers)?;
    for _ in 0..rounds * TRIES {
        if ways.iter().all(|way| way.runs.len() >= rounds) {
            break;
        }
        let mut runs: Vec<Option<Run>> = vec![None; ways.len()];
        for at in compare::by_lot(ways.len(), &mut dice) {
            runs[at] = compare::one(ways[at].command(&asks)?, servers)?;
        }
        // A round counts as a whole or not at all.
        if runs.iter().all(Option::is_some) {
            ways.iter_mut().zip(runs).for_each(|(way, run)| way.runs.extend(run));
        }
    }
    let first: Vec<f64> = ways.first().map(|way| way.runs.iter().map(Run::cpu_us_per_op).collect()).unwrap_or_default();
    println!("## {} ({}), load {}\n", row.name, super::BUILT_OF, super::load());
    println!(
        "| way | µs an operation | ratio to the first | operations/s | lag p50, p99 µs | waits an operation | n |\n|---|---|---|---|---|---|---|"
    );
    for way in &ways {
        let costs: Vec<f64> = way.runs.iter().map(Run::cpu_us_per_op).collect();
        let both: Vec<(f64, f64)> = first.iter().copied().zip(costs.iter().copied()).collect();
        let of = |figure: fn(&Run) -> f64| median(&way.runs.iter().map(figure).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        // A closed loop has none.
        let lag = match way.runs.iter().any(|run| run.lag_us.is_some()) {
            false => "–".to_owned(),
            true => {
                let lag = |which: fn(&Run) -> f64| format!("{:.1}", of(which));
                let p50 = lag(|run| run.lag_us.map_or(f64::NAN, |lag| lag.0));
                format!("{p50}, {}", lag(|run| run.lag_us.map_or(f64::NAN, |lag| lag.1)))
            }
        };
        println!(
            "| {} | {} | {} | {:.0} | {lag} | {:.2} | {} |",
            way.name,
            compare::spread(&costs),
            compare::in_words(compare::paired_ratio(&both), 3, ""),
            of(|run| run.ops / SECONDS as f64),
            of(|run| run.cost.waits as f64 / run.ops),
            way.runs.len(),
        );
    }
    println!();
    Ok(())
}
