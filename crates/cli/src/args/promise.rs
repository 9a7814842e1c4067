//! Options of `promise`.

use clap::Args;

use crate::args::Telling;
use crate::verbs::promise::{CLIENTS, DISK, DISK_SIZE, LENGTH};

/// What its help ends with.
pub const EXAMPLES: &str = "Examples:
  plimsoll promise sqlite
  plimsoll promise postgres --set 'postgres.settings=fsync=off'
  plimsoll promise postgres,mariadb --disk ext4,xfs --survivors none,random,torn --cuts 10
  plimsoll promise sqlite --set sqlite.journal_mode=delete,wal --set sqlite.synchronous=normal,full
  plimsoll promise redis --lying
  plimsoll promise postgres-replicas,redis-sentinel --nodes all,primary,2
  plimsoll promise --all --jobs 4
  plimsoll promise --resume last

Each store runs on a disk of Plimsoll's own, with a real file system, that loses what was not flushed. Exit codes: 0 everything
was kept; 1 something was lost, damaged, or did not start again; 11 nothing was at risk, so that nothing is proved.";

/// Options of `promise`.
#[derive(Debug, Clone, Args)]
pub struct PromiseArgs {
    /// Stores: names, separated by commas.
    #[arg(value_name = "STORE,…", value_delimiter = ',', conflicts_with = "all")]
    pub stores: Vec<String>,
    /// Every store that keeps data and whose programs are installed here.
    #[arg(long)]
    pub all: bool,
    /// File systems of the disk: ext4, xfs, btrfs; or files, of which it is told what was not synced.
    #[arg(long, value_name = "NAME,…", default_value = DISK)]
    pub disk: String,
    /// Size of the disk; of a cluster each machine has one.
    #[arg(long, value_name = "SIZE", default_value = DISK_SIZE)]
    pub disk_size: String,
    /// Whose power goes, of the nodes of a cluster: all, primary (the one that takes all writes), or a node's number.
    #[arg(long, value_name = "NODE,…", default_value = "all")]
    pub nodes: String,
    /// Tries a disk, too, that says that flushes are done and does nothing: no store can prevent losses on it.
    #[arg(long)]
    pub lying: bool,
    /// What is left of writes that were not flushed: none, all, random (each or not, by lot), torn (the same of each sector)
    /// [default: none,torn].
    #[arg(long, value_name = "WORD,…")]
    pub survivors: Option<String>,
    /// How durable writes are to be: durable, buffered, at-end, as-configured [default: as-configured where a store's settings
    /// are given; else the first three, as far as a store has them].
    #[arg(long, value_name = "WORD,…")]
    pub durability: Option<String>,
    /// How often the power goes, each time at another moment.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub cuts: u32,
    /// Cuts the power as often, too, where a promise was seen to be broken already.
    #[arg(long)]
    pub all_cuts: bool,
    /// How many cuts are made at once, each of a store of its own [default: by processors and free memory].
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Goes on with a run that was killed or stopped: its name, or `last`. What it has is not tried again. Without stores, its
    /// own options are taken.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// The moments themselves: before this flush or write of the disk, counted from the beginning of the drive.
    #[arg(long, value_name = "flush N|write N,…", conflicts_with = "cuts")]
    pub cut: Option<String>,
    /// Longest that a store is driven: the power goes then at the latest.
    #[arg(long = "for", value_name = "TIME", default_value = LENGTH)]
    pub length: String,
    /// What is asked meanwhile [default: kv or coupons, the first that a store speaks].
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Shares of its operation types [default: four times as many that change as that add or read].
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
    /// Print the plan that the options come to, and run nothing.
    #[arg(long)]
    pub print_plan: bool,
    /// What is told of it, and what it is called.
    #[command(flatten)]
    pub telling: Telling,
}
