//! Options of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll compare 20261121-2104 latest
  plimsoll compare base.sqlite new.sqlite --fail-if 'p99 > +5%' --fail-if 'rate < -3%' --junit compare.xml
  plimsoll compare base.sqlite latest --format md >> $GITHUB_STEP_SUMMARY";

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Base run: id, unique beginning of one, `latest`, or the path of a recording.
    pub a: String,
    /// Run to compare with the base run.
    #[arg(default_value = "latest")]
    pub b: String,
    /// Fail (exit code 1) if this is met: 'p99 > +5%', 'mixed.rate < -3%', 'p99[op=read] > 20ms'. Several may be
    /// given.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// Noise floor: smaller changes count as none [default: the floor in the recordings].
    #[arg(long, value_name = "PER CENT")]
    pub noise_floor: Option<String>,
    /// Discard phases in which the generator was late: their numbers are omitted.
    #[arg(long)]
    pub strict: bool,
    /// Format of the comparison.
    #[arg(long, value_enum, default_value = "text")]
    pub format: CompareFormat,
    /// File for the comparison [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File for the results of the conditions as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Forms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Aligned columns.
    Text,
    /// For programs.
    Json,
    /// For pull requests.
    Md,
}
