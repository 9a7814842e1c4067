//! The command line: verbs, their options, and the examples their help shows.

mod ask;
mod compare;
mod cost;
mod doctor;
mod drive;
mod explain;
mod faultfs;
mod files;
mod lab;
mod promise;
mod report;
mod runs;
mod smaller;
mod sync;
mod telling;
mod trace;
mod watch;

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Command, Parser, Subcommand, ValueEnum};

pub use ask::{AskArgs, Question};
pub use compare::{CompareArgs, CompareFormat};
pub use cost::CostArgs;
pub use doctor::DoctorArgs;
pub use drive::{AbArgs, DriveArgs, LineArgs};
pub use explain::{ExplainArgs, SelectionArgs};
pub use faultfs::{FaultfsAction, FaultfsImages, FaultfsMount};
pub use files::FilesArgs;
pub use lab::{LabAction, LabNode, LabUp};
pub use promise::PromiseArgs;
pub use report::{Format, ReportArgs};
pub use runs::{RunsAction, RunsArgs, RunsList};
pub use smaller::SmallerArgs;
pub use sync::SyncArgs;
pub use telling::{OutputArgs, Telling};
pub use trace::TraceArgs;
pub use watch::WatchArgs;

/// Version, commit of a release (others have none), and format of recordings.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("PLIMSOLL_COMMIT").map_or_else(|| "not a release".to_owned(), |of| format!("commit {of}"));
    format!("{} ({commit}, recording format {})", env!("CARGO_PKG_VERSION"), plimsoll_record::schema::FORMAT)
});

/// Returns a command with the help after its options, and after those of its subcommands, in whole paragraphs, which then
/// fill lines of each width.
pub fn with_paragraphs(command: Command) -> Command {
    let command = match command.get_after_help().map(|help| paragraphs(&help.to_string())) {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(with_paragraphs)
}

/// Returns `text` with each paragraph in a single line. Lines that begin with a blank are examples and stay.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let is_prose = |line: &str| line.starts_with(|first: char| !first.is_whitespace());
    let mut continues = false;
    for line in text.lines() {
        let separator = if continues && is_prose(line) { " " } else { "\n" };
        joined += if joined.is_empty() { "" } else { separator };
        joined += line;
        continues = is_prose(line);
    }
    joined
}

/// Finds how much load a data store can safely carry.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version = VERSION.as_str(),
    about,
    max_term_width = 100,
    after_help = "Examples:
  plimsoll run coupons                                the coupon study on sqlite and fjall
  plimsoll run coupons --on sqlite,fjall,postgres     the same, with a private PostgreSQL beside them
  plimsoll run my-plan.toml --on postgres://me@db/shop
  plimsoll report latest                              the page of the newest run

Exit codes: 0 all goals held · 1 a goal missed or not measured, or a promise broken · 2 bad usage or plan ·
3 store unreachable · 4 credentials refused · 5 something is not installed · 6 address taken ·
7 disk full · 8 no permission, or a path that cannot be written · 9 the store or its server failed ·
10 no such run or not readable · 11 undecided: cannot be told from what was seen ·
12 no more memory, threads or file descriptors · 101 a bug in Plimsoll · 130 interrupted"
)]
pub struct Cli {
    /// Verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a study or a plan file, keep a recording, and report the result.
    #[command(after_help = "Examples:
  plimsoll run coupons
  plimsoll run coupons --on fjall
  plimsoll run coupons --on postgres://bench@localhost/test --password-file ~/.bench-password
  plimsoll run my-plan.toml --seed 7
  plimsoll run pgbench --clients 16 --set ops=100 --set scale=1
  plimsoll run clusters --stores galera --nodes 2,4
  plimsoll run coupons --quick                        takes seconds, to see whether everything works
  plimsoll run --resume latest                        continues a run that was killed or stopped

--set, --clients, --nodes and --stores make a plan smaller; `plimsoll check` takes them too, and --print shows the plan.
Stores of the plan whose programs are missing here are left out; those named by --on or --stores are not.

A password is taken from PGPASSWORD, PGPASSFILE or ~/.pgpass, a service file, or --password-file.")]
    Run(Box<RunArgs>),
    /// Drive one workload, or scripts, on a store: a plan made from options.
    #[command(after_help = "Examples:
  plimsoll drive tpcb --on postgres --set scale=10 --clients 8 --for 60s
  plimsoll drive select --on postgres://me@db/shop --rate 5000/s --arrivals poisson --goal p99=5ms
  plimsoll drive oltp_read_write --on mariadb --clients 8,16,32 --repeats 3
  plimsoll drive -f transfer.sql@9 -f report.sql@1 --on postgres --clients 16
  plimsoll drive kv:b --on redis --clients 32 --depth 16 --for 10min --listen
  plimsoll drive kv:b --on redis --for 10min --live --open

Values between commas are swept: each combination is a trial. `--print-plan` shows the resulting plan.")]
    Drive(Box<DriveArgs>),
    /// Find the load line: the highest rate at which every goal holds, and what limits the store there.
    #[command(after_help = "Examples:
  plimsoll line tpcb --on postgres --clients 16 --goal p99=20ms
  plimsoll line oltp_read_write --on mariadb --clients 32 --goal p99=50ms --goal errors=0.1%
  plimsoll line tpcb --on postgres --clients 16 --thorough
  plimsoll line my-plan.toml

The search climbs from rate to rate, bisects, and repeats the rate that holds and the one that does not until both are
decided, at most 10 % apart (--precision). Without a goal: p99=20ms and errors=0.1%.

Exit codes: 0 both found, or all goals held at the highest; 1 no rate keeps them, or the search failed; 11 undecided.")]
    Line(Box<LineArgs>),
    /// Cut the power of stores while they are driven, and report which acknowledged writes they kept.
    #[command(after_help = promise::EXAMPLES)]
    Promise(Box<PromiseArgs>),
    /// Compare two sides in turn, pair by pair, until the difference is decided or the time is up.
    #[command(after_help = "Examples:
  plimsoll ab kv --on redis --mix read=1,update=1 --a durability=durable --b durability=buffered
  plimsoll ab tpcb --on postgres --clients 8 --b 'postgres.settings=wal_compression=on' --metric rate --metric p99
  plimsoll ab kv --mix read=9,update=1 --clients 16 --a redis --b valkey://other:6379 --rate 20000/s
  plimsoll ab select --on postgres --b postgres.protocol=extended --metric cpu --difference 1%
  plimsoll ab before.toml after.toml --fail-if 'rate < -3%'
  plimsoll ab my-plan.toml --a postgres://db15/bench --b postgres://db16/bench --budget 10min

Values of --a and --b replace those for both sides: NAME=VALUE is a setting as in --set, or an option of the drive
(clients, depth, workers, rate, arrivals, wake, io, durability, op_timeout, mix); anything else is a store, a URL
or a plan file.

Exit codes: 0 decided, and with --fail-if none is met; 1 a --fail-if is met; 11 undecided.")]
    Ab(Box<AbArgs>),
    /// Make a workload from the statements of a running database: a plan, with values for its parameters.
    #[command(after_help = "Examples:
  plimsoll capture --from postgres://me@db/shop
  plimsoll capture --from mariadb://me@db/shop --output shop.toml --top 50
  plimsoll capture --from postgres://me@db/shop --log postgresql.log
  plimsoll run captured.toml

Statements and their frequencies are read from pg_stat_statements, from the statement digests of MariaDB's and MySQL's
performance_schema, or from a server's log. Without --allow-writes nothing is written to the database.")]
    Capture(CaptureArgs),
    /// Read a plan and print what would run and for how long, or what `run` would refuse; run nothing.
    #[command(after_help = "Examples:
  plimsoll check my-plan.toml
  plimsoll check coupons --on sqlite,postgres
  plimsoll check pgbench --clients 16 --set ops=100
  plimsoll check pgbench --quick --print > small.toml")]
    Check(Box<CheckArgs>),
    /// Make the report of a run from its recording.
    #[command(after_help = report::EXAMPLES)]
    Report(ReportArgs),
    /// Compare two runs: differences of configuration, then every number with its change, and whether the change exceeds
    /// the noise.
    #[command(after_help = compare::EXAMPLES)]
    Compare(CompareArgs),
    /// Compare a time, or the slow operations, of a run with the rest of its phases: which shares and series differ.
    #[command(after_help = explain::EXAMPLES)]
    Explain(ExplainArgs),
    /// Answer a question about a recording for a program: JSON with stable names.
    #[command(after_help = ask::EXAMPLES)]
    Ask(AskArgs),
    /// Answer the same questions as a server of the Model Context Protocol, on standard input and output.
    #[command(after_help = ask::MCP_EXAMPLES)]
    Mcp,
    /// List, show or remove recordings.
    #[command(after_help = "Examples:
  plimsoll runs
  plimsoll runs --tag nightly
  plimsoll runs --json | jq -r 'select(.verdict == \"fail\") | .id'
  plimsoll runs show latest
  plimsoll runs remove 20261121-210455-9f3a
  plimsoll runs remove --failed
  plimsoll runs remove --older-than 30d --dry-run")]
    Runs(RunsArgs),
    /// Make, inspect and end clusters of servers on hosts of their own.
    #[command(after_help = "Examples:
  plimsoll lab up galera --nodes 3                 stays until Ctrl-C, or until `lab down`
  plimsoll lab up postgres-replicas --keep         stays after the command has ended
  plimsoll lab status
  plimsoll drive oltp_read_write --on lab:galera --clients 16
  plimsoll lab exec galera 2 -- ss -tn             what runs on the host of node 2
  plimsoll lab kill galera 2
  plimsoll lab down

Hosts are network namespaces on a bridge with no way out; addresses are 10.77.0.1 and so on. NAME is optional if
only one lab stands. A node that fails is started again, after a delay, unless --restart forbids it.")]
    Lab {
        /// Action of `lab`.
        #[command(subcommand)]
        action: LabAction,
    },
    /// Mount a disk that loses power, ignores flushes, fails or tears writes on command.
    #[command(subcommand, after_help = faultfs::EXAMPLES)]
    Faultfs(FaultfsAction),
    /// Calculate what servers for a working set cost, bought and rented.
    #[command(after_help = cost::EXAMPLES)]
    Cost(CostArgs),
    /// List what a plan may name: stores, workloads, studies, samplers.
    List {
        /// Only these.
        #[arg(value_enum)]
        what: Option<Listed>,
    },
    /// Print completions for a shell.
    #[command(after_help = "Examples:
  plimsoll completions bash > /etc/bash_completion.d/plimsoll
  plimsoll completions zsh > \"${fpath[1]}/_plimsoll\"
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish")]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    #[command(after_help = "Examples:\n  plimsoll man ~/.local/share/man/man1")]
    Man {
        /// Directory for the pages; created if missing.
        directory: PathBuf,
    },
    /// Print the JSON Schema of plans, for editors.
    #[command(after_help = "Examples:
  plimsoll schema > plan.schema.json     and as the plan's first line: #:schema ./plan.schema.json")]
    Schema,
    /// Report what on this machine would spoil a measurement or is missing.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Trace the calls that make the kernel write data to a device (fsync and the like): processes, times and files.
    #[command(after_help = trace::EXAMPLES)]
    Trace(TraceArgs),
    /// Watch the use of files: opened, read, written, synced, closed, deleted.
    #[command(after_help = files::EXAMPLES)]
    Files(FilesArgs),
    /// Watch what runs already: operations from logs, processes, control groups, servers; nothing is driven.
    #[command(after_help = watch::EXAMPLES)]
    Watch(Box<WatchArgs>),
    /// Measure the cost of write + flush on a directory or device, and judge whether its flushes can be real.
    #[command(after_help = sync::EXAMPLES)]
    Sync(SyncArgs),
}

/// A plan and its replacements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct PlanArgs {
    /// A built-in study (see `plimsoll list studies`) or a plan file.
    #[arg(value_name = "STUDY|FILE", required = true)]
    pub plan: Option<String>,
    /// Replace the plan's stores: names or URLs, separated by commas.
    #[arg(long, value_name = "STORE,…", value_delimiter = ',')]
    pub on: Vec<String>,
    /// Replace the plan's seed.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// A plan, and what it may do here: options of `check`, and of `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct PlannedArgs {
    /// The plan.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Changes that make it smaller.
    #[command(flatten)]
    pub smaller: SmallerArgs,
    /// Permit operations to change existing data of an attached store.
    #[arg(long)]
    pub allow_writes: bool,
    /// Permit faults to run the plan's commands on this machine, and to disturb attached servers.
    #[arg(long)]
    pub allow_fault: bool,
    /// Directory for the data of stores that are started here [default: as the plan says, or beside the recording].
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<String>,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The plan, and what it may do.
    #[command(flatten)]
    pub planned: PlannedArgs,
    /// Print the plan as it would run, and nothing else.
    #[arg(long)]
    pub print: bool,
}

/// Options of `run`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("plan", |plan| plan.required(false).required_unless_present("resume")))]
pub struct RunArgs {
    /// The plan, and what it may do.
    #[command(flatten)]
    pub planned: PlannedArgs,
    /// Continue a run that was killed or stopped: its name, or `latest`. Completed trials stay. Without a plan, the run's
    /// own options apply.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// File whose first line is the password for attached stores.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Discard phases in which the generator was late: their numbers are omitted, and the exit code is 1.
    #[arg(long)]
    pub strict: bool,
    /// Progress, output and tag.
    #[command(flatten)]
    pub telling: Telling,
}

/// Options of `capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// URL of the production database, or of a copy with its data.
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// Log of the server to read statements from: PostgreSQL's (text, CSV or JSON), MariaDB's or MySQL's slow or general log.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Plan to write. Values go to CSV files in a folder beside the plan.
    #[arg(long, short, value_name = "FILE", default_value = "captured.toml")]
    pub output: PathBuf,
    /// Largest number of statements: the most frequent ones.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub top: u32,
    /// Rows of values for each statement.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub values: u32,
    /// Include statements that may change data: each is executed once and rolled back. Drive them against a copy.
    #[arg(long)]
    pub allow_writes: bool,
    /// No progress on stderr.
    #[arg(long, short)]
    pub quiet: bool,
    /// File whose first line is the password.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// Subjects of `list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Stores and what they can do.
    #[value(alias = "store")]
    Stores,
    /// Workloads, their operation types and parameters.
    #[value(alias = "workload")]
    Workloads,
    /// Built-in plans.
    #[value(alias = "study")]
    Studies,
    /// Samplers.
    #[value(alias = "sampler")]
    Samplers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_joined_and_examples_stay() {
        let text = "Examples:\n  plimsoll run coupons\n  plimsoll runs\n\nTwo lines\nof a paragraph.\n\nAnother.";
        let joined = "Examples:\n  plimsoll run coupons\n  plimsoll runs\n\nTwo lines of a paragraph.\n\nAnother.";
        assert_eq!(paragraphs(text), joined);
    }
}
