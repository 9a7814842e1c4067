//! Options of `ask`, and its questions.

use clap::{Args, Subcommand};
use serde::Deserialize;

use super::SelectionArgs;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll ask list
  plimsoll ask describe                               of the newest run: trials, phases, settings, goals
  plimsoll ask latest figures                         every number with its name, unit, n and interval
  plimsoll ask latest figures p99 'mixed.rate[op=read]' --json
  plimsoll ask latest series Latency
  plimsoll ask latest findings                        causes of slow moments, with evidence
  plimsoll ask 20261121-2104 compare latest
  plimsoll ask latest explain --from 00:30 --to 00:42 --above 20ms

Answers are JSON. Fields have the names of `plimsoll report --format json`; the book lists them.";

/// End of the help of `mcp`: examples.
pub const MCP_EXAMPLES: &str = "Examples:
  plimsoll mcp                                        as the command of a server in a client's settings:
  {\"mcpServers\": {\"plimsoll\": {\"command\": \"plimsoll\", \"args\": [\"mcp\"]}}}

The tools are the questions of `plimsoll ask`. They read recordings and change nothing. The server ends when its
input ends.";

/// Options of `ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Id of a run, a unique beginning of one, `latest`, or the path of a recording; `list` needs none.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Question.
    #[command(subcommand)]
    pub question: Question,
    /// Print the answer in one line.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Questions about recordings.
#[derive(Debug, Subcommand)]
pub enum Question {
    /// List the runs, newest first, with what came of each.
    List(ListArgs),
    /// Describe the run: verdict, goals, stores, trials with settings and phases, warnings, stalls, peaks.
    Describe,
    /// List every number by its name, with unit, n and interval.
    Figures(NamesArgs),
    /// List the panels of series over time; with names, with their values.
    Series(NamesArgs),
    /// List events: what servers and samplers reported, and actions on them.
    Events,
    /// List findings: causes of slow moments, each with evidence, a next step and a command that tests it.
    Findings,
    /// List faults of the plan, with their effects on clients.
    Faults,
    /// Compare the run with another one: differences of configuration, then each number with its change.
    Compare(OtherArgs),
    /// Compare a time, or the slow operations, with the rest of its phases.
    Explain(SelectionArgs),
}

/// Options of `ask list`.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListArgs {
    /// List only runs with this tag.
    #[arg(long, value_name = "WORD")]
    pub tag: Option<String>,
}

/// Names in a question.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamesArgs {
    /// Names [default: all].
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// Other run of a comparison.
#[derive(Debug, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherArgs {
    /// Run to compare with the first one: id, unique beginning, `latest`, or path.
    pub other: String,
}
