//! Options of `sync`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use plimsoll_disk::ways::{Flushing, Writing};

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll sync /var/lib/postgresql        about 30 s: ways to write and flush, group commit, the verdict
  plimsoll sync . --size 8KiB --flush fdatasync,o-dsync --for 10s
  plimsoll sync . --all --json > disk.json
  plimsoll sync /dev/sdb --overwrite-device

With a second machine, and a plug that can be pulled:
  other$ plimsoll sync --listen 192.0.2.7:7450 acknowledged
  this$  plimsoll sync /data --report-to 192.0.2.7:7450    now cut the power; then copy the file here
  this$  plimsoll sync /data --verify acknowledged

Exit codes: 0 flushes may be real, or all blocks are there; 1 they cannot be real, or one is lost.";

/// Options of `sync`.
#[derive(Debug, Args)]
pub struct SyncArgs {
    /// Directory or block device; with --listen, file for acknowledgements.
    pub path: PathBuf,
    /// Sizes of a write, separated by commas [default: 4KiB,16KiB,64KiB,256KiB,1MiB; of the numbered blocks: 4KiB].
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    pub size: Vec<String>,
    /// Only these ways of writing.
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(Writing::ALL.map(Writing::name)))]
    pub write: Vec<String>,
    /// Only these ways of flushing; of numbered blocks, the one [default: fdatasync].
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(Flushing::ALL.map(Flushing::name)))]
    pub flush: Vec<String>,
    /// Time for each point [default: 1s]; with --report-to, time of writing blocks [default: 10min].
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub takes: Option<String>,
    /// Every size with every way of writing and flushing, idle and loaded.
    #[arg(long)]
    pub all: bool,
    /// Overwrite the contents of the block device.
    #[arg(long)]
    pub overwrite_device: bool,
    /// Print JSON on standard output instead of tables.
    #[arg(long)]
    pub json: bool,
    /// No progress on stderr.
    #[arg(long, short)]
    pub quiet: bool,
    /// Record in the file PATH which blocks another machine acknowledges, until Ctrl-C.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["report_to", "verify", "all", "overwrite_device"])]
    pub listen: Option<String>,
    /// Write numbered blocks in PATH, flush each, and acknowledge it to the listener, until the power is cut, or Ctrl-C.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["verify", "all", "write", "overwrite_device"])]
    pub report_to: Option<String>,
    /// Verify in PATH every block that is acknowledged in this file of the listener.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "write", "flush", "size", "takes", "overwrite_device"])]
    pub verify: Option<PathBuf>,
}
