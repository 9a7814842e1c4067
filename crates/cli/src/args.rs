//! The command line: verbs, their options, and the examples their help shows.

mod cost;
mod faultfs;
mod files;
mod promise;
mod smaller;
mod sync;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use cost::CostArgs;
pub use faultfs::{FaultfsAction, FaultfsImages, FaultfsMount};
pub use files::FilesArgs;
pub use promise::PromiseArgs;
pub use smaller::SmallerArgs;
pub use sync::SyncArgs;
pub use trace::TraceArgs;

use crate::options::Given;

/// Version, commit of a release (others have none), and format of recordings.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("PLIMSOLL_COMMIT").map_or_else(|| "not a release".to_owned(), |of| format!("commit {of}"));
    format!("{} ({commit}, recording format {})", env!("CARGO_PKG_VERSION"), plimsoll_record::schema::FORMAT)
});

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
    #[command(after_help = "Examples:
  plimsoll report latest                       writes the page beside the recording
  plimsoll report 20261121-2104 --format text  any unique beginning of an id will do
  plimsoll report /mnt/other/run.sqlite --format json > run.json")]
    Report(ReportArgs),
    /// Compare two runs: differences of configuration, then every number with its change, and whether the change exceeds
    /// the noise.
    #[command(after_help = "Examples:
  plimsoll compare 20261121-2104 latest
  plimsoll compare base.sqlite new.sqlite --fail-if 'p99 > +5%' --fail-if 'rate < -3%' --junit compare.xml
  plimsoll compare base.sqlite latest --format md >> $GITHUB_STEP_SUMMARY")]
    Compare(CompareArgs),
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
    #[command(after_help = "Examples:
  plimsoll doctor
  plimsoll doctor --calibrate              measures the generator's ceiling and this machine's noise floor
  plimsoll doctor --honesty postgres       stops a private server for a second: is the pause fully visible?
  plimsoll doctor --for galera --install   installs what a cluster lacks here
  plimsoll doctor --for clusters           what a study or plan file lacks here
  plimsoll doctor --holds 5432             which process listens there")]
    Doctor(DoctorArgs),
    /// Trace the calls that make the kernel write data to a device (fsync and the like): processes, times and files.
    #[command(after_help = trace::EXAMPLES)]
    Trace(TraceArgs),
    /// Watch the use of files: opened, read, written, synced, closed, deleted.
    #[command(after_help = files::EXAMPLES)]
    Files(FilesArgs),
    /// Measure the cost of write + flush on a directory or device, and judge whether its flushes can be real.
    #[command(after_help = sync::EXAMPLES)]
    Sync(SyncArgs),
}

/// Actions of `lab`.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Make a lab: servers of a store, each on a host of its own if the store has a use for hosts.
    Up(LabUp),
    /// Show the labs that stand: hosts, addresses, roles, states.
    Status {
        /// Only this one.
        name: Option<String>,
        /// Print a JSON object for each lab, one per line.
        #[arg(long)]
        json: bool,
    },
    /// Add a node to the cluster.
    Add {
        /// The lab.
        name: Option<String>,
    },
    /// Stop a node permanently and remove it from its cluster.
    #[command(mut_arg("at", |at| at.help("The lab, and the number of exactly one node")))]
    Remove(LabNode),
    /// Print the log of a node's server.
    Logs {
        /// The lab and the node.
        #[command(flatten)]
        of: LabNode,
        /// Number of lines, from the end.
        #[arg(long, short = 'n', value_name = "LINES")]
        lines: Option<usize>,
        /// Follow the log until Ctrl-C.
        #[arg(long, short)]
        follow: bool,
    },
    /// Open a shell on a node's host, or on the host that sends operations.
    Shell {
        /// The lab; without it, a node's number may come first.
        name: Option<String>,
        /// The node's number, or `load`.
        node: Option<String>,
    },
    /// Run a command on a node's host, or on the host that sends operations.
    Exec {
        /// The lab and the node's number, or `load`.
        #[arg(num_args = 0..=2)]
        at: Vec<String>,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Stop nodes gracefully; they stay stopped.
    Stop(LabNode),
    /// Start nodes that were stopped or killed.
    #[command(mut_arg("at", |at| at.help("The lab, and numbers of nodes; without a number every stopped node")))]
    Start(LabNode),
    /// Stop nodes gracefully and start them again.
    Restart(LabNode),
    /// Tell nodes to read their settings again, if their servers can.
    Reload(LabNode),
    /// Kill nodes, as a crash would; they stay stopped.
    Kill(LabNode),
    /// Pause the processes of nodes.
    Pause(LabNode),
    /// Stop the busiest thread or process that serves a client, on each node; the others continue to serve.
    Hang(LabNode),
    /// Resume nodes that are paused, or of which a thread hangs.
    Resume(LabNode),
    /// Reset the TCP connections to nodes.
    Reset(LabNode),
    /// Make a replica the primary; the others follow it, and a former primary rejoins when it is started.
    Promote(LabNode),
    /// Delay, drop, damage or limit packets between a node's host and all others; without options, show the links.
    Link {
        /// The lab and the node.
        #[command(flatten)]
        of: LabNode,
        /// Delay in one direction; adds twice this to a round trip.
        #[arg(long, value_name = "TIME")]
        delay: Option<String>,
        /// Largest random deviation from the delay.
        #[arg(long, value_name = "TIME", requires = "delay")]
        jitter: Option<String>,
        /// Share of packets that are lost.
        #[arg(long, value_name = "SHARE")]
        loss: Option<String>,
        /// Share of packets that arrive twice.
        #[arg(long, value_name = "SHARE")]
        duplicate: Option<String>,
        /// Share of packets that arrive without the delay, before earlier ones.
        #[arg(long, value_name = "SHARE", requires = "delay")]
        reorder: Option<String>,
        /// Share of packets of which one bit is flipped.
        #[arg(long, value_name = "SHARE")]
        corrupt: Option<String>,
        /// Further delay of packets that end a TCP connection (FIN).
        #[arg(long, value_name = "TIME")]
        close: Option<String>,
        /// Most bits a second: 50Mbit, 1Gbit.
        #[arg(long, value_name = "BITS")]
        rate: Option<String>,
        /// Make the link plain: remove all its properties.
        #[arg(
            long,
            conflicts_with_all = ["delay", "jitter", "loss", "duplicate", "reorder", "corrupt", "close", "rate"]
        )]
        plain: bool,
    },
    /// Change limits of nodes while they run: processors, memory, reads and writes.
    #[command(after_help = "\
Examples:
  plimsoll lab up redis --set cpus=2 --set memory=4GiB --keep
  plimsoll lab limit redis 1 cpus=0.5 memory=1GiB
  plimsoll lab limit redis 1 cpus=none

Limits: cpus, cpuset, memory, read_bps, write_bps, read_iops, write_iops. The lab must have been made with a value of the
same limit. Without a number the limits are those of all nodes.")]
    Limit {
        /// The lab, numbers of nodes, and limits: cpus=0.5, memory=1GiB; cpus=none removes the limit.
        #[arg(value_name = "NAME] [NODE] [LIMIT=VALUE", num_args = 0..)]
        at: Vec<String>,
    },
    /// Make the wall clock of nodes' programs wrong, or true again.
    #[command(
        after_help = "Examples:\n  plimsoll lab clock etcd 2 by=-5s drift=50ppm\n  plimsoll lab clock etcd true\n  plimsoll lab clock etcd"
    )]
    Clock {
        /// The lab, numbers of nodes, and an offset (by=5s), a drift (drift=500ppm), `true` for the true clock, or nothing to show clocks.
        #[arg(value_name = "NAME] [NODE] [ERROR", num_args = 0..)]
        at: Vec<String>,
    },
    /// Make nodes reachable at ports of this machine's loopback interface, until Ctrl-C.
    Publish {
        /// The lab and the node.
        #[command(flatten)]
        of: LabNode,
        /// Port for the first node; further nodes get the following ports [default: free ports].
        #[arg(long)]
        port: Option<u16>,
    },
    /// End a lab and remove all its files and hosts.
    Down {
        /// The lab.
        name: Option<String>,
        /// All labs.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
}

/// A lab and some of its nodes.
#[derive(Debug, Args)]
pub struct LabNode {
    /// The lab, and numbers of nodes; without a number all nodes.
    #[arg(value_name = "NAME] [NODE", num_args = 0..)]
    pub at: Vec<String>,
}

/// Options of `lab up`.
#[derive(Debug, Args)]
pub struct LabUp {
    /// The store: galera, mariadb-replicas, postgres-replicas, redis-cluster, redis-sentinel, or any other that can be
    /// started here (see `plimsoll list stores`); or a plan (FILE.toml), for the plan's store.
    #[arg(value_name = "STORE")]
    pub store: String,
    /// Number of nodes, as nodes=N in --set.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// A parameter of the store (`buffer_pool=1GiB`).
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Name of the lab [default: name of the store].
    #[arg(long)]
    pub name: Option<String>,
    /// Keep the lab after the command has ended, until `lab down`.
    #[arg(long)]
    pub keep: bool,
    /// Condition for starting a node again that has ended by itself: never, on-failure, always.
    #[arg(long, value_name = "WHEN", default_value = "on-failure")]
    pub restart: String,
    /// Directory for the servers' data [default: /var/tmp].
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Marks the process that holds the lab.
    #[arg(long, hide = true)]
    pub held: bool,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Measure the generator's ceiling and this machine's noise floor, and keep them for later runs.
    #[arg(long)]
    pub calibrate: bool,
    /// Stop a private server for a second under load, and compare measured with expected response times.
    #[arg(long, value_name = "STORE")]
    pub honesty: Option<String>,
    /// Show what a store, cluster, study or plan file lacks on this machine: galera, postgres, coupons; `all` for every
    /// store and cluster.
    #[arg(long = "for", value_name = "STORE|STUDY|FILE")]
    pub store: Option<String>,
    /// Install the packages that are missing, by apt-get.
    #[arg(long, requires = "store")]
    pub install: bool,
    /// Print a line of JSON for each store that lacks something: for, missing, packages, next.
    #[arg(long, requires = "store")]
    pub json: bool,
    /// Name the process that holds a port, a device or a directory: 5432, /dev/sdb, /var/lib/mysql.
    #[arg(long, value_name = "PORT or PATH", conflicts_with_all = ["calibrate", "honesty", "store"])]
    pub holds: Option<String>,
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

/// Progress and output of a run, and the run's tag.
#[derive(Debug, Clone, Default, Args)]
pub struct Telling {
    /// No progress on stderr.
    #[arg(long, short)]
    pub quiet: bool,
    /// Interval of progress lines [default: 10s; in a terminal, a line that is rewritten].
    #[arg(long, value_name = "TIME")]
    pub progress: Option<String>,
    /// Print every section of the report, and not just the 40 lines that say most.
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print JSON Lines on standard output instead of the report: an object for each slice, and the report as the last.
    #[arg(long)]
    pub json: bool,
    /// Tag of the run, a word that `plimsoll runs` shows and finds.
    #[arg(long, value_name = "WORD")]
    pub tag: Option<String>,
    /// Serve the newest figures over HTTP: a page, /metrics, JSON, XML [without an address: 127.0.0.1:8417].
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = crate::listen::DEFAULT_ADDRESS)]
    pub listen: Option<String>,
}

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
    if refused.contains(&option.get_id().as_str()) { option.hide(true) } else { option }
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

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Id of a run, a unique beginning of one, `latest`, or the path of a recording.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Format of the report.
    #[arg(long, value_enum, default_value = "html")]
    pub format: Format,
    /// Discard phases in which the generator was late: their numbers are omitted.
    #[arg(long)]
    pub strict: bool,
    /// File for the report; `-` for standard output [default: for a page, a file beside the recording; for other formats,
    /// standard output].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Self-contained page.
    Html,
    /// Every section, as `run --full` prints it.
    Text,
    /// For programs.
    Json,
    /// A summary for pull requests.
    Md,
    /// Every slice, comma-separated.
    Csv,
    /// Every slice, as an HdrHistogram interval log.
    Hdr,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Base run: id, unique beginning of one, `latest`, or the path of a recording.
    pub a: String,
    /// Run to compare with the base run.
    #[arg(default_value = "latest")]
    pub b: String,
    /// Fail (exit code 1) if this is met: 'p99 > +5%', 'mixed.rate < -3%', 'p99[op=read] > 20ms'. Several may be
    /// given.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// Noise floor: smaller changes count as none [default: the floor in the recordings].
    #[arg(long, value_name = "PER CENT")]
    pub noise_floor: Option<String>,
    /// Discard phases in which the generator was late: their numbers are omitted.
    #[arg(long)]
    pub strict: bool,
    /// Format of the comparison.
    #[arg(long, value_enum, default_value = "text")]
    pub format: CompareFormat,
    /// File for the comparison [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File for the results of the conditions as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Forms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Aligned columns.
    Text,
    /// For programs.
    Json,
    /// For pull requests.
    Md,
}

/// Options of `runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    /// Action [default: list].
    #[command(subcommand)]
    pub action: Option<RunsAction>,
    /// Options of the list.
    #[command(flatten)]
    pub list: RunsList,
}

/// Options of `runs list`.
#[derive(Debug, Args)]
pub struct RunsList {
    /// List only runs with this tag.
    #[arg(long, value_name = "WORD")]
    pub tag: Option<String>,
    /// Print JSON Lines: an object for each run.
    #[arg(long)]
    pub json: bool,
}

/// Actions of `runs`.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List the recordings, newest first.
    List(RunsList),
    /// Print one run's report as text.
    Show {
        /// Id, unique beginning, `latest`, or path.
        run: String,
    },
    /// Remove recordings and their pages for good.
    #[command(alias = "rm")]
    Remove {
        /// Ids of the runs.
        #[arg(required_unless_present_any = ["failed", "older_than"])]
        runs: Vec<String>,
        /// Runs that failed, were killed, or cannot be read.
        #[arg(long)]
        failed: bool,
        /// Runs that began longer ago: 12h, 30d; with --failed, only those that failed.
        #[arg(long, value_name = "TIME")]
        older_than: Option<String>,
        /// Print which runs they are, and remove nothing.
        #[arg(long)]
        dry_run: bool,
    },
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
