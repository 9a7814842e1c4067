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

Root is needed. From the cut on the device answers EIO to everything; nothing hangs.";

/// What `faultfs` does.
#[derive(Debug, Subcommand)]
pub enum FaultfsAction {
    /// Make a device with a file system, and mount it, until Ctrl-C; then remove it with all that is on it.
    Mount(FaultfsMount),
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
