//! The command line: verbs, their options, and the examples their help shows.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Finds how much a data store can safely carry.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version,
    about,
    max_term_width = 100,
    after_help = "Examples:
  plimsoll run coupons                                the coupon study on sqlite and fjall
  plimsoll run coupons --on sqlite,fjall,postgres     the same, with a private PostgreSQL beside them
  plimsoll run my-plan.toml --on postgres://me@db/shop
  plimsoll report latest                              the page of the newest run

Exit codes: 0 all goals held · 1 a goal missed or not measured, or a promise broken · 2 bad usage or plan ·
3 store unreachable · 4 credentials refused · 5 something is not installed · 6 address taken ·
7 disk full · 8 no permission · 9 the store or its server failed · 10 no such run or not readable ·
130 interrupted"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a study or a plan file, keep a recording, and say what came of it.
    #[command(after_help = "Examples:
  plimsoll run coupons
  plimsoll run coupons --on fjall
  plimsoll run coupons --on postgres://bench@localhost/test --password-file ~/.bench-password
  plimsoll run my-plan.toml --seed 7

A password is taken from PGPASSWORD, PGPASSFILE or ~/.pgpass, a service file, or --password-file.")]
    Run(RunArgs),
    /// Read a plan and say what would run and for how long; run nothing.
    #[command(after_help = "Examples:
  plimsoll check my-plan.toml
  plimsoll check coupons --on sqlite,postgres")]
    Check(PlanArgs),
    /// Make the report of a run again, from its recording alone.
    #[command(after_help = "Examples:
  plimsoll report latest                       writes the page beside the recording
  plimsoll report 20261121-2104 --format text  any unique beginning of an id will do
  plimsoll report /mnt/other/run.sqlite --format json > run.json")]
    Report(ReportArgs),
    /// List, show or remove recordings.
    #[command(after_help = "Examples:
  plimsoll runs
  plimsoll runs show latest
  plimsoll runs remove 20261121-210455-9f3a")]
    Runs(RunsArgs),
    /// List what a plan may name: stores, workloads, studies, samplers.
    List {
        /// Only these.
        #[arg(value_enum)]
        what: Option<Listed>,
    },
    /// Say what on this machine would spoil a measurement or is missing.
    Doctor,
}

/// A plan and what is replaced in it.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// A built-in study (see `plimsoll list studies`) or a plan file.
    #[arg(value_name = "STUDY|FILE")]
    pub plan: String,
    /// Replaces the plan's stores: names or URLs, separated by commas.
    #[arg(long, value_name = "STORE,…", value_delimiter = ',')]
    pub on: Vec<String>,
    /// Replaces the plan's seed.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The plan.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// File whose first line is the password for attached stores.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// No progress on stderr.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Id of a run, a unique beginning of one, `latest`, or the path of a recording.
    pub run: String,
    /// What to make.
    #[arg(long, value_enum, default_value = "html")]
    pub format: Format,
    /// Where to write it; `-` for standard output. A page goes beside the recording by default, text and
    /// JSON to standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One self-contained page.
    Html,
    /// As `run` prints it.
    Text,
    /// For programs.
    Json,
}

/// Options of `runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// What to do; lists when left out.
    #[command(subcommand)]
    pub action: Option<RunsAction>,
}

/// What `runs` does.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List the recordings, newest first.
    List,
    /// Print one run's report as text.
    Show {
        /// Id, unique beginning, `latest`, or path.
        run: String,
    },
    /// Remove recordings and their pages for good.
    Remove {
        /// Ids or unique beginnings.
        #[arg(required = true)]
        runs: Vec<String>,
    },
}

/// What `list` can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Stores and what they can do.
    Stores,
    /// Workloads, their kinds of operation and parameters.
    Workloads,
    /// Built-in plans.
    Studies,
    /// Samplers.
    Samplers,
}
