//! Options of `promise`.

use clap::Args;

use crate::args::Telling;
use crate::verbs::promise::{CLIENTS, DISK, DISK_SIZE, LENGTH};

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll promise sqlite
  plimsoll promise postgres --set 'postgres.settings=fsync=off'
  plimsoll promise postgres,mariadb --disk ext4,xfs --survivors none,random,torn --cuts 10
  plimsoll promise sqlite --set sqlite.journal_mode=delete,wal --set sqlite.synchronous=normal,full
  plimsoll promise redis --lying
  plimsoll promise postgres-replicas,redis-sentinel --nodes all,primary,2
  plimsoll promise --all --jobs 4
  plimsoll promise --resume latest

Each store runs on a simulated disk with a real file system, which loses unflushed data. Exit codes: 0 everything was
kept; 1 data were lost or damaged, or a store did not start again; 11 nothing was at risk, or no data page
where a setting protects these, so that nothing is proved.";

/// Options of `promise`.
#[derive(Debug, Clone, Args)]
pub struct PromiseArgs {
    /// Stores: names, separated by commas.
    #[arg(value_name = "STORE,…", value_delimiter = ',', conflicts_with = "all")]
    pub stores: Vec<String>,
    /// Every store that keeps data and whose programs are installed here.
    #[arg(long)]
    pub all: bool,
    /// File systems of the disk: ext4, xfs, btrfs, btrfs-nodatacow; or files, which reports unsynced data by file.
    #[arg(long, value_name = "NAME,…", default_value = DISK)]
    pub disk: String,
    /// Size of the disk; in a cluster, of each machine's disk.
    #[arg(long, value_name = "SIZE", default_value = DISK_SIZE)]
    pub disk_size: String,
    /// Nodes of a cluster whose power is cut: all, primary (the one that takes writes), replica, or a node's number.
    #[arg(long, value_name = "NODE,…", default_value = "all")]
    pub nodes: String,
    /// Also try a disk that acknowledges flushes and does not perform them: no store can prevent losses on it.
    #[arg(long)]
    pub lying: bool,
    /// Outcome of writes that were not flushed: none, all, random (each or not, by lot), torn (the same, sector by sector)
    /// [default: none,torn].
    #[arg(long, value_name = "WORD,…")]
    pub survivors: Option<String>,
    /// Durability of writes: durable, buffered, at-end, as-configured [default: as-configured if a store's settings are given;
    /// else the first three, if the store has them].
    #[arg(long, value_name = "WORD,…")]
    pub durability: Option<String>,
    /// Number of power cuts, each at another moment.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub cuts: u32,
    /// Number of times that each moment is tried, until the promise breaks; with --all-cuts, all of them: no run has the
    /// same writes at the same moment.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
    /// Make all cuts even if a promise is already broken.
    #[arg(long)]
    pub all_cuts: bool,
    /// Number of cuts made at the same time, each of a store of its own [default: by processors and free memory].
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Resume a run that was killed or stopped: its name, or `latest`. Completed cells are not repeated. Without stores, the
    /// run's own options apply.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Moments of the cuts: before this flush or write of the disk, counted from the beginning of the drive.
    #[arg(long, value_name = "flush N|write N,…", conflicts_with = "cuts")]
    pub cut: Option<String>,
    /// Longest time that a store is driven; the power is cut then at the latest.
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, default_value = LENGTH)]
    pub length: String,
    /// Workload until the cut [default: kv or coupons, the first that the store supports].
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Shares of the workload's operation types [default: four times as many updates as inserts or reads].
    #[arg(long, value_name = "TYPE=SHARE,…")]
    pub mix: Option<String>,
    /// Clients, one session each.
    #[arg(long, short = 'c', value_name = "N", default_value_t = CLIENTS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// A parameter of the workload, or of a store (`postgres.settings=fsync=off`); values between commas are swept.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Seed of all randomness.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print the resulting plan, and run nothing.
    #[arg(long)]
    pub print_plan: bool,
    /// Progress, output and tag.
    #[command(flatten)]
    pub telling: Telling,
}
