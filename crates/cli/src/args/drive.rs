//! Options of `drive`, and of the verbs that repeat it: `line` and `ab`.

use std::path::PathBuf;

use clap::Args;

use super::Telling;
use crate::options::Given;

/// Options of `ab`. Those of `drive` that it always refuses are not listed.
#[derive(Debug, Args)]
#[command(mut_args(|option| hidden(option, &["goal", "for", "ops", "repeats"])))]
pub struct AbArgs {
    /// Load on both sides. The workload may be a plan file with one `drive` phase.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// Plan file of side B, after that of side A.
    #[arg(value_name = "PLAN-B")]
    pub other: Option<String>,
    /// Side A: a setting, a store, a URL or a plan file; several may be given.
    #[arg(long, value_name = "WHAT")]
    pub a: Vec<String>,
    /// Side B, likewise.
    #[arg(long, value_name = "WHAT")]
    pub b: Vec<String>,
    /// Metric to decide: rate, mean, stddev, p50, p90, p95, p99, p99.9, errors or cpu (processor time of the store for an
    /// operation); several may be given [default: rate; p99 in an open loop].
    #[arg(long, value_name = "NUMBER")]
    pub metric: Vec<String>,
    /// Smallest difference that matters [default: 3%].
    #[arg(long, value_name = "SHARE")]
    pub difference: Option<String>,
    /// Time for all turns [default: 5min].
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Length of a turn, after its warm-up (--warmup, 1s) [default: 5s].
    #[arg(long, value_name = "TIME")]
    pub turn: Option<String>,
    /// Fail (exit code 1) if this is decided: 'rate < -3%', 'p99 > +5%'. Several may be given; turns continue until each
    /// is decided.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// Permit equal sides, to test how often a difference is reported without one.
    #[arg(long)]
    pub same: bool,
}

/// Options of `drive`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("for", |option| option.conflicts_with("ops").help("Duration, instead of --ops [default: 30s]")))]
pub struct DriveArgs {
    /// The workload (see `plimsoll list workloads`).
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// A script in pgbench's language; with several, @WEIGHT is its share.
    #[arg(long, short = 'f', value_name = "FILE[@WEIGHT]")]
    pub file: Vec<String>,
    /// A CSV file whose columns are variables of scripts and requests; @in-order takes its rows one after the other.
    #[arg(long, value_name = "FILE[@in-order]")]
    pub csv: Vec<String>,
    /// Stores to run on: names or URLs, separated by commas.
    #[arg(long, value_name = "STORE,…", value_delimiter = ',')]
    pub on: Vec<String>,
    /// Number of servers of a private store, as NAME.nodes=N in --set.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// A parameter of the workload, or of a store (`postgres.shared_buffers=1GiB`).
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Keys of the plan and of its drive.
    #[command(flatten)]
    pub plan: Given<false>,
    /// Goal: p99=20ms, mean=5ms, read.p99.9=50ms, errors=0.1%, status.500=0%, rate=1000/s, outage=5s, lost=0.
    #[arg(long, value_name = "NAME=LIMIT")]
    pub goal: Vec<String>,
    /// Use existing tables: create and load none.
    #[arg(long)]
    pub no_load: bool,
    /// Seed of all randomness.
    #[arg(long)]
    pub seed: Option<u64>,
    /// File whose first line is the password for attached stores.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Print the resulting plan, and run nothing.
    #[arg(long)]
    pub print_plan: bool,
    /// Discard phases in which the generator was late: their numbers are omitted, and the exit code is 1.
    #[arg(long)]
    pub strict: bool,
    /// Progress, output and tag.
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `line`. Those of `drive` that it always refuses are not listed.
#[derive(Debug, Args)]
#[command(mut_args(|option| hidden(option, &["rate", "stages", "think", "scenario", "for", "ops", "repeats"])))]
#[command(mut_arg("thorough", |option| option.conflicts_with("budget")))]
#[command(mut_arg("budget", |option| option.help("Time for the whole search [default: 5min; with --thorough 30min]")))]
#[command(mut_arg("goal", |option| option.help("Goal of each load step: p99=20ms, read.p99.9=50ms, errors=0.1%; of all \
    load steps: lost=0, wrong=0 [default: p99=20ms and errors=0.1%]")))]
pub struct LineArgs {
    /// Load. The workload may be a plan file with one `drive` phase.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// Bounds of the search.
    #[command(flatten)]
    pub line: Given<true>,
}

/// Hides `option` if it is one of `refused`.
fn hidden(option: clap::Arg, refused: &[&str]) -> clap::Arg {
    let is_refused = refused.contains(&option.get_id().as_str());
    if is_refused { option.hide(true) } else { option }
}
