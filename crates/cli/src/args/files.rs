//! Options of `files`.

use clap::Args;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll files $(pgrep -o mariadbd)            system calls, with bytes and sizes of requests; needs root
  plimsoll files /var/lib/mysql --for 30s        events in a directory and all below it, from any process
  plimsoll files /var/lib/mysql --json";

/// Options of `files`.
#[derive(Debug, Args)]
pub struct FilesArgs {
    /// A process by number, with all its descendants; or a directory, with all below it.
    #[arg(value_name = "PID|DIRECTORY")]
    pub what: String,
    /// Duration; Ctrl-C ends it earlier.
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, default_value = "10s")]
    pub duration: String,
    /// Print a JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}
