//! Options of `faultfs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll faultfs mount /var/tmp/lying --size 1GiB --fs ext4    stays until Ctrl-C
  plimsoll faultfs mount /var/tmp/lying --files /srv/data        an existing directory instead of a device

then, with a server whose data is in /var/tmp/lying/mount:
  plimsoll faultfs ctl /var/tmp/lying/control help               list of commands
  plimsoll faultfs ctl /var/tmp/lying/control set ignore-flushes
  plimsoll faultfs ctl /var/tmp/lying/control arm flush 10       cut the power at the tenth flush
  plimsoll faultfs ctl /var/tmp/lying/control wait 60000         wait up to a minute for the cut
  plimsoll faultfs ctl /var/tmp/lying/control files              unsynced data of a directory, file by file
and, after the server was killed, before it is started again:
  plimsoll faultfs ctl /var/tmp/lying/control power-cycle none   nothing unflushed remains

Many crashes of a single run, from a device that was mounted with --keep-log:
  plimsoll faultfs images /var/tmp/lying --check 'sqlite3 {}/db \"PRAGMA integrity_check\"' --expect ok
  plimsoll faultfs images /var/tmp/lying --at 812 --survivors torn --seed 7 --into /var/tmp

Root is needed. After the cut the device answers EIO to every request; nothing hangs.";

/// Actions of `faultfs`.
#[derive(Debug, Subcommand)]
pub enum FaultfsAction {
    /// Make a device with a file system, and mount it until Ctrl-C; then remove the device and its contents.
    Mount(FaultfsMount),
    /// Make images that cuts would have left, spread over a log, and run a command on each.
    Images(FaultfsImages),
    /// Send a command to a mounted device; `help` lists the commands.
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
    /// File system: ext4, xfs, btrfs or btrfs-nodatacow; or files: a directory is mounted, and no device is made [default: ext4; with --files,
    /// files].
    #[arg(long, value_name = "NAME")]
    pub fs: Option<String>,
    /// Directory for `--fs files`, on the file system of DIR; it remains at the end [default: a new directory in DIR].
    #[arg(long, value_name = "FILES")]
    pub files: Option<PathBuf>,
    /// Path of a link to the control socket, beside DIR/control.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Keep all writes and flushes, in order, in DIR/log; DIR/base is the image before the first of them.
    #[arg(long)]
    pub keep_log: bool,
}

/// Options of `faultfs images`.
#[derive(Debug, Args)]
pub struct FaultfsImages {
    /// Directory of a device that was mounted with --keep-log, or with copies of its `log` and `base`.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Command for the shell, in which {} is the mount point of an image; exit code 0 passes. PLIMSOLL_CRASH_NS in the
    /// environment is the time of the last record before the cut, on CLOCK_MONOTONIC: writes acknowledged earlier must be there.
    #[arg(long, value_name = "COMMAND", required_unless_present = "into")]
    pub check: Option<String>,
    /// Text that the last line of the command's output must equal.
    #[arg(long, value_name = "TEXT", requires = "check")]
    pub expect: Option<String>,
    /// Number of images.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: u32,
    /// Earliest moment of a cut, on CLOCK_MONOTONIC.
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub from: u64,
    /// Make a single image, after this many records of the log.
    #[arg(long, value_name = "RECORDS", conflicts_with_all = ["count", "from"])]
    pub at: Option<usize>,
    /// Outcome of writes that were not flushed, in turn: none, all, random (each or not, by lot), torn (the same, sector by sector).
    #[arg(long, value_name = "WORD,…", default_value = "none,random,torn")]
    pub survivors: String,
    /// Seed of the lots.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of images checked at the same time [default: two a processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub limit: String,
    /// Keep the images as files in this directory, and check none.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub into: Option<PathBuf>,
}
