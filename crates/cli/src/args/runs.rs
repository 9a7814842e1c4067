//! Options of `runs`.

use clap::{Args, Subcommand};

/// Options of `runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    /// Action [default: list].
    #[command(subcommand)]
    pub action: Option<RunsAction>,
    /// Options of the list.
    #[command(flatten)]
    pub list: RunsList,
}

/// Options of `runs list`.
#[derive(Debug, Args)]
pub struct RunsList {
    /// List only runs with this tag.
    #[arg(long, value_name = "WORD")]
    pub tag: Option<String>,
    /// Print JSON Lines: an object for each run.
    #[arg(long)]
    pub json: bool,
}

/// Actions of `runs`.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List the recordings, newest first.
    List(RunsList),
    /// Print one run's report as text.
    Show {
        /// Id, unique beginning, `latest`, or path.
        run: String,
    },
    /// Remove recordings and their pages for good.
    #[command(alias = "rm")]
    Remove {
        /// Ids of the runs.
        #[arg(required_unless_present_any = ["failed", "older_than"])]
        runs: Vec<String>,
        /// Runs that failed, were killed, or cannot be read.
        #[arg(long)]
        failed: bool,
        /// Runs that began longer ago: 12h, 30d; with --failed, only those that failed.
        #[arg(long, value_name = "TIME")]
        older_than: Option<String>,
        /// Print which runs they are, and remove nothing.
        #[arg(long)]
        dry_run: bool,
    },
}
