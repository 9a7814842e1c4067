//! Options of progress and output.

use std::path::PathBuf;

use clap::Args;

/// Progress, output, tag and displays of a run.
#[derive(Debug, Clone, Default, Args)]
pub struct Telling {
    /// Progress, output and tag.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Show goals, throughput, response times and errors in the whole terminal while the run goes on; `q` leaves the
    /// display. Without a terminal: progress lines.
    #[arg(long, conflicts_with_all = ["quiet", "json"])]
    pub live: bool,
    /// Serve the newest figures over HTTP: a page, /metrics, JSON, XML [without an address: 127.0.0.1:8417].
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = crate::listen::DEFAULT_ADDRESS)]
    pub listen: Option<String>,
    /// Serial line of a small display, which shows each slice: /dev/ttyACM0.
    #[arg(long, value_name = "DEVICE")]
    pub gadget: Option<PathBuf>,
}

/// Progress and output of a run, and the run's tag.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// No progress on stderr.
    #[arg(long, short)]
    pub quiet: bool,
    /// Interval of progress lines [default: 10s; in a terminal, a line that is rewritten].
    #[arg(long, value_name = "TIME")]
    pub progress: Option<String>,
    /// Open the page of the report in the browser at the end.
    #[arg(long)]
    pub open: bool,
    /// Print every section of the report, and not just the 40 lines that say most.
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print JSON Lines on standard output instead of the report: an object for each slice, and the report as the last.
    #[arg(long)]
    pub json: bool,
    /// Tag of the run, a word that `plimsoll runs` shows and finds.
    #[arg(long, value_name = "WORD")]
    pub tag: Option<String>,
}
