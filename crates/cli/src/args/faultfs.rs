//! Options of `faultfs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What its help ends with.
pub const EXAMPLES: &str = "Examples:
  plimsoll faultfs mount /var/tmp/lying --size 1GiB --fs ext4    stays until Ctrl-C
  plimsoll faultfs mount /var/tmp/lying --files /srv/data        the same of a directory that is there

then, with a server whose data is in /var/tmp/lying/mount:
  plimsoll faultfs ctl /var/tmp/lying/control help               what it can be told
  plimsoll faultfs ctl /var/tmp/lying/control set ignore-flushes
  plimsoll faultfs ctl /var/tmp/lying/control arm flush 10       cut the power at the tenth flush
  plimsoll faultfs ctl /var/tmp/lying/control wait 60000         wait for that for a minute
  plimsoll faultfs ctl /var/tmp/lying/control files              of a directory: what was not synced, file by file
and, when the server was killed, before it is started again:
  plimsoll faultfs ctl /var/tmp/lying/control power-cycle none   none of what was not flushed is left

Many crashes of one run, from a device that was mounted with --keep-log:
  plimsoll faultfs images /var/tmp/lying --check 'sqlite3 {}/db \"PRAGMA integrity_check\"' --expect ok
  plimsoll faultfs images /var/tmp/lying --at 812 --survivors torn --seed 7 --into /var/tmp

Root is needed. From the cut on the device answers EIO to everything; nothing hangs.";

/// What `faultfs` does.
#[derive(Debug, Subcommand)]
pub enum FaultfsAction {
    /// Make a device with a file system, and mount it, until Ctrl-C; then remove it with all that is on it.
    Mount(FaultfsMount),
    /// Make images of what cuts would have left, spread over a log, and have a command look at each.
    Images(FaultfsImages),
    /// Tell a mounted device something; `help` says what.
    Ctl {
        /// The device's control socket.
        socket: PathBuf,
        /// The command and its words.
        #[arg(required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// Options of `faultfs mount`.
#[derive(Debug, Args)]
pub struct FaultfsMount {
    /// An empty directory, or one that does not exist yet; it is mounted at DIR/mount.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Size of the device.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub size: String,
    /// File system: ext4, xfs or btrfs; or files: what is mounted is a directory, and no device is made [default: ext4, or
    /// with --files that].
    #[arg(long, value_name = "NAME")]
    pub fs: Option<String>,
    /// Of `--fs files`: the directory whose files these are, on the file system of DIR. It stays, as it is when all ends; without it, one is made
    /// in DIR.
    #[arg(long, value_name = "FILES")]
    pub files: Option<PathBuf>,
    /// Where a link to the control socket is to be; without it, there is only DIR/control.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Keep all that is written and flushed, in order, in DIR/log; DIR/base is the image on which that begins.
    #[arg(long)]
    pub keep_log: bool,
}

/// Options of `faultfs images`.
#[derive(Debug, Args)]
pub struct FaultfsImages {
    /// The directory of a device that was mounted with --keep-log; or one with copies of its `log` and `base`.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// A command for the shell; {} is where an image is mounted. It has to end with 0. The environment has PLIMSOLL_CRASH_NS, the
    /// time of the last record before the cut on CLOCK_MONOTONIC: what was acknowledged before has to be there.
    #[arg(long, value_name = "COMMAND", required_unless_present = "into")]
    pub check: Option<String>,
    /// What the last line has to be that the command writes.
    #[arg(long, value_name = "TEXT", requires = "check")]
    pub expect: Option<String>,
    /// How many images.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: u32,
    /// The first moment of a cut, on CLOCK_MONOTONIC.
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub from: u64,
    /// One image, behind so many records of the log.
    #[arg(long, value_name = "RECORDS", conflicts_with_all = ["count", "from"])]
    pub at: Option<usize>,
    /// What is left of writes that were not flushed, in turn: none, all, random (each or not, by lot), torn (the same of each sector).
    #[arg(long, value_name = "WORD,…", default_value = "none,random,torn")]
    pub survivors: String,
    /// Seed of the lots.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many are looked at at a time [default: two a processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Longest that the command may take.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub limit: String,
    /// Keep the images as files in this directory, and look at none.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub into: Option<PathBuf>,
}
