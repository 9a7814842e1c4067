//! Options of `report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll report latest                       writes the page beside the recording
  plimsoll report latest --open                and opens it in the browser
  plimsoll report 20261121-2104 --format text  any unique beginning of an id will do
  plimsoll report /mnt/other/run.sqlite --format json > run.json
  plimsoll report latest --format perfetto -o trace.json    open it at ui.perfetto.dev
  plimsoll report latest --format parquet -o tables
  duckdb -c \"SELECT op, max(max_ns) FROM 'tables/slices.parquet' WHERE NOT warmup GROUP BY op\"";

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Id of a run, a unique beginning of one, `latest`, or the path of a recording.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Format of the report.
    #[arg(long, value_enum, default_value = "html")]
    pub format: Format,
    /// Discard phases in which the generator was late: their numbers are omitted.
    #[arg(long)]
    pub strict: bool,
    /// File for the report; `-` for standard output. For `parquet` a directory [default: for a page and for `parquet`,
    /// beside the recording; for other formats, standard output].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Open the page in the browser.
    #[arg(long)]
    pub open: bool,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Self-contained page.
    Html,
    /// Every section, as `run --full` prints it.
    Text,
    /// For programs.
    Json,
    /// A summary for pull requests.
    Md,
    /// Every slice, comma-separated.
    Csv,
    /// Every slice, as an HdrHistogram interval log.
    Hdr,
    /// A trace for ui.perfetto.dev: phases, faults, pauses and slow moments on a time axis, and counters.
    Perfetto,
    /// A directory of tables for DuckDB, pandas and the like.
    Parquet,
}
