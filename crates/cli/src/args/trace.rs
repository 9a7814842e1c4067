//! Options of `trace`.

use std::ffi::OsString;

use clap::Args;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll trace $(pgrep -o postgres)            a server and all its processes, until Ctrl-C
  plimsoll trace --all --for 10s --threshold 50ms
  plimsoll trace -- sqlite3 test.db < script.sql
  plimsoll trace --all --for 10s --json > fsyncs.jsonl

Prints a line each second, and at the end a histogram by powers of two, percentiles by process, and the slowest calls
with their files. Root counts in the kernel; other users see longer calls of their own processes.";

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Processes by number, with all their descendants.
    #[arg(value_name = "PID", required_unless_present_any = ["all", "command"], conflicts_with_all = ["all", "command"])]
    pub pids: Vec<u32>,
    /// All processes.
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
    /// Command to start and trace until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// List calls that take this long or longer.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub threshold: String,
    /// Duration [default: until Ctrl-C, or until all processes have ended].
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Method of tracing [default: the first that works]: programs in the kernel (bpf), or repeated looks at what threads
    /// wait for (proc).
    #[arg(long, value_name = "WAY", value_parser = ["bpf", "proc"])]
    pub way: Option<String>,
    /// Print JSON Lines: an object each second, and a summary at the end.
    #[arg(long)]
    pub json: bool,
}
