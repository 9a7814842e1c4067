//! Options of `files`.

use clap::Args;

/// What its help ends with.
pub const EXAMPLES: &str = "Examples:
  plimsoll files $(pgrep -o mariadbd)            by its system calls, with bytes and sizes of requests; needs root
  plimsoll files /var/lib/mysql --for 30s        by events of a directory and all below it, whoever causes them
  plimsoll files /var/lib/mysql --json";

/// Options of `files`.
#[derive(Debug, Args)]
pub struct FilesArgs {
    /// A process by number, with all its descendants; or a directory, with all below it.
    #[arg(value_name = "PID|DIRECTORY")]
    pub what: String,
    /// How long; Ctrl-C ends it before that.
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    pub duration: String,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
}
