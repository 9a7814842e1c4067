//! One row: peers, floor and ours take turns, and what came of it is a line for each of them but ours.

use std::error::Error;
use std::process::Command;

use plimsoll_analysis::stat::interval::{self, Dice, Interval};
use plimsoll_analysis::stat::median;

use super::client;
use super::commands::{self, Asks};
use super::floor::{self, Floor};
use super::others::{self, Others};
use super::rows::{Goal, Peer, Row};
use super::servers::Servers;
use super::tools::Tools;
use crate::child_cost::{self, Cost};

/// Rounds that are tried for each pair that is wanted, before a busy machine is given up on.
const TRIES: usize = 3;
/// Share of the machine that others may take during a run.
const OTHERS_MAX: f64 = 0.15;
/// Fewest pairs that a verdict is given on.
const PAIRS_MIN: usize = 10;
/// Runs with servers and worker on processors of their own, of which only the lag is looked at.
const APART_RUNS: usize = 5;

/// One run of a client.
#[derive(Debug, Clone)]
pub struct Run {
    /// Operations it did.
    pub ops: f64,
    /// What they cost.
    pub cost: Cost,
    /// What ours says of its lag: p50 and p99 in microseconds.
    pub lag_us: Option<(f64, f64)>,
    /// What a peer says of its own.
    lag_said: Option<String>,
    /// The generator was the limit: as a comparison it is none.
    void: bool,
}

impl Run {
    /// CPU time of the whole process an operation.
    pub fn cpu_us_per_op(&self) -> f64 {
        self.cost.cpu_us() / self.ops
    }
}

/// Who ours is compared with.
enum Other {
    Peer(&'static Peer),
    Floor(Floor),
}

/// One of them in its row.
struct Entry {
    other: Other,
    /// Its run and ours of the same round.
    pairs: Vec<(Run, Run)>,
    dropped: usize,
    /// How many of them because ours was void.
    void: usize,
    /// Why it takes no part.
    absent: Option<String>,
}

impl Entry {
    /// Takes a round's pair, or counts why not. `None` is a run that others took too much of the machine in.
    fn take(&mut self, run: Option<Run>, our: Option<Run>) {
        match (run, our) {
            (Some(run), Some(our)) if !our.void => return self.pairs.push((run, our)),
            (_, Some(our)) if our.void => self.void += 1,
            _ => {}
        }
        self.dropped += 1;
    }

    /// The pairs, and in brackets those that were dropped.
    fn counts(&self) -> String {
        let void = if self.void > 0 { format!(", {} of them void", self.void) } else { String::new() };
        format!("{} ({}{void})", self.pairs.len(), self.dropped)
    }
}

/// Compares with everybody, or with the floor alone, and returns the row's lines.
pub fn row(row: &'static Row, pairs: usize, only_floor: bool, servers: &mut Servers, tools: &mut Tools) -> String {
    let fresh = |other| Entry { other, pairs: Vec::new(), dropped: 0, void: 0, absent: None };
    let peers = if only_floor { &[] } else { row.peers };
    let mut entries: Vec<Entry> = peers.iter().map(|peer| fresh(Other::Peer(peer))).collect();
    let floor = (row.ours)(servers).and_then(|asks| Floor::new(&asks));
    let no_floor = match floor {
        Ok(Some(floor)) => {
            entries.push(fresh(Other::Floor(floor)));
            None
        }
        Ok(None) => Some("it sends nothing".to_owned()),
        Err(error) => Some(format!("failed: {}", first_line(&error.to_string()))),
    };
    let apart = match rounds(row, &mut entries, pairs, servers, tools) {
        Ok(apart) => apart,
        Err(error) => {
            for entry in entries.iter_mut().filter(|entry| entry.pairs.is_empty()) {
                entry.absent.get_or_insert_with(|| format!("failed: {error}"));
            }
            None
        }
    };
    let lines = entries.iter().map(|entry| {
        let (goal, is_first) = match &entry.other {
            Other::Floor(_) => (Goal::Ratio(floor::GOAL), false),
            Other::Peer(peer) => {
                let is_first = row.peers.first().is_some_and(|first| std::ptr::eq(first, *peer));
                (if is_first { row.goal } else { Goal::None }, is_first)
            }
        };
        line(row.name, entry, goal, tools, apart.as_deref().filter(|_| is_first))
    });
    let no_floor = no_floor.map(|why| format!("| {} | floor | {why} | | | | not compared | |\n", row.name));
    lines.chain(no_floor).collect()
}

/// Runs everybody in turns. Returns the lag with processors apart, in words, where it is an open loop.
fn rounds(
    row: &Row,
    entries: &mut [Entry],
    pairs: usize,
    servers: &mut Servers,
    tools: &mut Tools,
) -> Result<Option<String>, Box<dyn Error>> {
    // The first run of each fills caches and counts for nothing.
    for entry in entries.iter_mut() {
        entry.absent = theirs(row, &entry.other, servers, tools).err().map(|error| first_line(&error.to_string()));
    }
    ours(&(row.ours)(servers)?, servers)?;
    let mut dice = Dice::new(std::process::id().into());
    let enough = |entries: &[Entry]| {
        let there = entries.iter().find(|entry| entry.absent.is_none());
        there.is_none_or(|entry| entry.pairs.len() >= pairs)
    };
    for _ in 0..pairs * TRIES {
        if enough(entries) {
            break;
        }
        // The last is ours.
        let order = by_lot(entries.len() + 1, &mut dice);
        let mut runs: Vec<Option<Run>> = vec![None; entries.len() + 1];
        for at in order {
            runs[at] = match entries.get(at) {
                Some(entry) if entry.absent.is_some() => None,
                Some(entry) => theirs(row, &entry.other, servers, tools)?,
                None => ours(&(row.ours)(servers)?, servers)?,
            };
        }
        let our = runs.pop().flatten();
        for (entry, run) in entries.iter_mut().zip(runs).filter(|(entry, _)| entry.absent.is_none()) {
            entry.take(run, our.clone());
        }
    }
    if entries.iter().all(|entry| matches!(entry.other, Other::Floor(_))) {
        return Ok(None);
    }
    lag_apart(row, servers)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().replace('|', "/")
}

fn theirs(row: &Row, other: &Other, servers: &mut Servers, tools: &mut Tools) -> Result<Option<Run>, Box<dyn Error>> {
    let peer = match other {
        Other::Peer(peer) => peer,
        Other::Floor(floor) => return one(floor.command(&(row.ours)(servers)?)?, servers),
    };
    let command = their_command(peer, servers, tools)?;
    let (printed, cost, share) = run(command, servers)?;
    let ops = (peer.ops)(&printed).filter(|ops| *ops > 0.0).ok_or_else(|| format!("no operations: {printed}"))?;
    let run = Run {
        ops: ops * peer.ops_per_unit,
        cost,
        lag_us: None,
        lag_said: commands::pgbench_lag(&printed),
        void: false,
    };
    Ok((share <= OTHERS_MAX).then_some(run))
}

/// What starts a peer.
pub fn their_command(peer: &Peer, servers: &mut Servers, tools: &mut Tools) -> Result<Command, Box<dyn Error>> {
    let command = tools.command(peer.tool)?;
    (peer.command)(servers, command)
}

fn ours(asks: &Asks, servers: &Servers) -> Result<Option<Run>, Box<dyn Error>> {
    one(client::command(asks)?, servers)
}

/// One run of our client, or of a floor; `None` when others took too much of the machine.
pub fn one(command: Command, servers: &Servers) -> Result<Option<Run>, Box<dyn Error>> {
    let (printed, cost, share) = run(command, servers)?;
    let ops = client::ops(&printed).filter(|ops| *ops > 0.0).ok_or_else(|| format!("no operations: {printed}"))?;
    let void = client::is_void(&printed);
    Ok((share <= OTHERS_MAX).then(|| Run { ops, cost, lag_us: client::lag(&printed), lag_said: None, void }))
}

/// What it printed and cost, and the share of the machine that others took meanwhile.
fn run(command: Command, servers: &Servers) -> Result<(String, Cost, f64), Box<dyn Error>> {
    let pids = servers.pids();
    let others = Others::before(&pids);
    let (printed, cost) = child_cost::run(command)?;
    let share = others.share(&cost, &pids);
    Ok((printed, cost, share))
}

/// The generator's lag when the server has one processor and the worker another. `None` for a closed loop.
fn lag_apart(row: &Row, servers: &mut Servers) -> Result<Option<String>, Box<dyn Error>> {
    let asks = (row.ours)(servers)?;
    if asks.rate_per_s == 0.0 {
        return Ok(None);
    }
    let all = others::processors()?;
    let [worker, server, ..] = all[..] else { return Ok(Some("there is only one processor".to_owned())) };
    servers.bind(&[server])?;
    let asks = Asks { pin: Some(worker as u32), ..asks };
    let mut runs = Vec::new();
    for _ in 0..APART_RUNS * TRIES {
        if runs.len() < APART_RUNS {
            runs.extend(ours(&asks, servers)?);
        }
    }
    servers.bind(&all)?;
    Ok(Some(lag_in_words(runs.iter())))
}

/// The medians of the runs' p50 and p99.
fn lag_in_words<'r>(runs: impl Iterator<Item = &'r Run>) -> String {
    let runs: Vec<&Run> = runs.collect();
    let lags: Vec<(f64, f64)> = runs.iter().filter_map(|run| run.lag_us).collect();
    if lags.is_empty() {
        return "not measured on this busy machine".to_owned();
    }
    let of = |part: fn(&(f64, f64)) -> f64| median(&lags.iter().map(part).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    // Of a run that was too late its lag is just what is asked for.
    let void = runs.iter().filter(|run| run.void).count();
    let void = if void > 0 { format!(", {void} void") } else { String::new() };
    format!("p50 {:.1} µs, p99 {:.1} µs (n = {}{void})", of(|lag| lag.0), of(|lag| lag.1), lags.len())
}

fn line(name: &str, entry: &Entry, goal: Goal, tools: &Tools, apart: Option<&str>) -> String {
    let Entry { other, pairs, absent, .. } = entry;
    let title = match other {
        Other::Peer(peer) => format!("{}, {}", tools.title(peer.tool), peer.told),
        Other::Floor(floor) => floor.title().to_owned(),
    };
    if let Some(reason) = absent {
        return format!("| {name} | {title} | {reason} | | | {goal} | not compared | |\n");
    }
    let theirs: Vec<f64> = pairs.iter().map(|(peer, _)| peer.cpu_us_per_op()).collect();
    let ours: Vec<f64> = pairs.iter().map(|(_, our)| our.cpu_us_per_op()).collect();
    let both: Vec<(f64, f64)> = theirs.iter().copied().zip(ours.iter().copied()).collect();
    let ratio = paired_ratio(&both);
    let (figure, state) = match goal {
        Goal::Us(goal) => {
            let cost = interval::of_median(&ours);
            (in_words(cost, 4, " µs"), judged(cost, goal, pairs.len()))
        }
        Goal::Ratio(goal) => (in_words(ratio, 3, ""), judged(ratio, goal, pairs.len())),
        Goal::None => (in_words(ratio, 3, ""), "–"),
    };
    let lag = lags(pairs, apart).unwrap_or_default();
    let (theirs, ours) = (spread(&theirs), spread(&ours));
    format!("| {name} | {title} | {theirs} | {ours} | {figure}{lag} | {goal} | {state} | {} |\n", entry.counts())
}

/// Lags, where there are any to speak of.
fn lags(pairs: &[(Run, Run)], apart: Option<&str>) -> Option<String> {
    let apart = apart?;
    let said = pairs.iter().rev().find_map(|(peer, _)| peer.lag_said.clone());
    let shared = lag_in_words(pairs.iter().map(|(_, our)| our));
    let peer = said.map_or(String::new(), |said| format!("peer {said} (last run), "));
    Some(format!("; lag: {peer}ours {shared}; ours with processors apart {apart}"))
}

/// The numbers below `count` in an order drawn by lot.
pub fn by_lot(count: usize, dice: &mut Dice) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        order.swap(end, dice.below(end + 1));
    }
    order
}

/// The median of the ratios `b / a` of pairs that were measured together, with its interval. Pairs with a zero are left
/// out.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Interval> {
    let ratios: Vec<f64> = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| b / a).collect();
    interval::of_median(&ratios)
}

/// Median, least and most.
pub fn spread(costs: &[f64]) -> String {
    let Some(middle) = median(costs) else { return "–".to_owned() };
    let (least, most) = costs.iter().fold((f64::MAX, f64::MIN), |(low, high), cost| (low.min(*cost), high.max(*cost)));
    let places = if middle < 0.1 { 4 } else { 2 };
    format!("{middle:.places$} ({least:.places$} … {most:.places$})")
}

/// A value and its interval.
pub fn in_words(interval: Option<Interval>, places: usize, unit: &str) -> String {
    interval.map_or("too few pairs for an interval".to_owned(), |Interval { value, low, high, .. }| {
        format!("{value:.places$}{unit} ({low:.places$} … {high:.places$})")
    })
}

fn judged(interval: Option<Interval>, goal: f64, pairs: usize) -> &'static str {
    match interval {
        Some(interval) if pairs >= PAIRS_MIN => match interval {
            Interval { high, .. } if high <= goal => "met",
            Interval { low, .. } if low > goal => "missed",
            _ => "open",
        },
        _ => "open (too few pairs)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::rows::ROWS;

    #[test]
    fn a_ratio_is_of_pairs() {
        let pairs: Vec<_> = (1..=9).map(|drift| (100.0 * f64::from(drift), 70.0 * f64::from(drift))).collect();
        let ratio = paired_ratio(&pairs).unwrap();
        assert!((ratio.low - 0.7).abs() < 1e-12 && (ratio.high - 0.7).abs() < 1e-12, "{ratio:?}");
    }

    #[test]
    fn a_pair_whose_half_of_ours_is_void_is_dropped_and_counted() {
        let cost = Cost { user_us: 1.0, system_us: 1.0, waits: 0 };
        let run = |void| Some(Run { ops: 1.0, cost, lag_us: None, lag_said: None, void });
        let mut entry =
            Entry { other: Other::Peer(&ROWS[0].peers[0]), pairs: Vec::new(), dropped: 0, void: 0, absent: None };
        entry.take(run(false), run(false));
        entry.take(None, run(false));
        entry.take(run(false), None);
        assert_eq!(entry.counts(), "1 (2)");
        entry.take(run(false), run(client::is_void("ops: 7\nvoid: the generator was the limit\n")));
        entry.take(run(false), run(client::is_void("ops: 7\nlag: 1 2\n")));
        assert_eq!(entry.counts(), "2 (3, 1 of them void)");
    }
}
