//! Options of `explain`.

use clap::Args;
use serde::Deserialize;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll explain latest --from 00:30 --to 00:42 --above 20ms
  plimsoll explain latest --above 20ms                the slow operations of the whole run
  plimsoll explain latest --from 31s --to 32s --phase mixed
  plimsoll explain 20261121-2104 --trial 2 --from 01:10:00 --json

Times are on the run's clock, which the page's plots show: from the start of the run, not of a phase. Slices (a second,
by default) belong to the selection as a whole; --above selects operations within them. The rest is everything else in
the same phases. Differences are ranked by their effect; they prove no cause.";

/// Options of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Id of a run, a unique beginning of one, `latest`, or the path of a recording.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Part of the run to explain.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Part of a run, as it is typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelectionArgs {
    /// Beginning on the run's clock: MM:SS, HH:MM:SS, or with a unit (30s, 1.5min) [default: the start of the run].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End on the run's clock, likewise [default: the end of the run].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Select only operations that took longer: 20ms [default: all operations].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub above: Option<String>,
    /// Trial by its position in the plan, from 0, as in JSON (`trials[].ordinal`) [default: all trials].
    #[arg(long, value_name = "N")]
    pub trial: Option<u32>,
    /// Phase by its name [default: all driven phases].
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
}
