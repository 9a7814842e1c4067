//! Options of `trace`.

use std::ffi::OsString;

use clap::Args;

/// What its help ends with.
pub const EXAMPLES: &str = "Examples:
  plimsoll trace $(pgrep -o postgres)            a server and all its processes, until Ctrl-C
  plimsoll trace --all --for 10s --threshold 50ms
  plimsoll trace -- sqlite3 test.db < script.sql
  plimsoll trace --all --for 10s --json > fsyncs.jsonl

A line a second, and at the end: a histogram by powers of two, percentiles by process, and the slowest calls with their
files. Root can have the kernel count; others see their own processes' longer calls.";

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Processes by number, with all their descendants.
    #[arg(value_name = "PID", required_unless_present_any = ["all", "command"], conflicts_with_all = ["all", "command"])]
    pub pids: Vec<u32>,
    /// All processes.
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
    /// A command, which is started and traced until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Calls that take this long or longer are listed.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub threshold: String,
    /// How long [default: until Ctrl-C, or until all of them have ended].
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<String>,
    /// How it is traced [default: the first that works]: by programs in the kernel (bpf), by records of it (perf), or by looking
    /// again and again what threads wait for (proc).
    #[arg(long, value_name = "WAY", value_parser = ["bpf", "perf", "proc"])]
    pub way: Option<String>,
    /// JSON Lines: an object a second, and one with everything at the end.
    #[arg(long)]
    pub json: bool,
}
