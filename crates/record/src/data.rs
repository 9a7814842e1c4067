//! A recording as plain data: what the writer is given and the reader gives back.
//!
//! `analysis` works on these types and never opens a file. Times named `_ns` are nanoseconds since the
//! run's start on CLOCK_MONOTONIC unless the name says `wall`.

use std::collections::BTreeMap;

use plimsoll_core::{Footprint, OpKind, Outcome, SeriesSpec, Setting, Slice};
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;

/// What is known when a run starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// `YYYYMMDD-hhmmss-xxxx`.
    pub id: String,
    /// Plimsoll's version.
    pub plimsoll_version: String,
    /// The plan's name.
    pub plan_name: String,
    /// The plan's title.
    pub title: String,
    /// The plan's question.
    pub question: String,
    /// Where its published figures come from.
    pub source: String,
    /// The plan as it was given, TOML.
    pub plan_text: String,
    /// The plan as it was expanded, JSON.
    pub plan_json: String,
    /// The command line, without credentials.
    pub command_line: Vec<String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Length of a slice.
    pub slice_ns: u64,
    /// Wall time of the run's start, nanoseconds since 1970.
    pub started_wall_ns: i64,
    /// The machine: CPU, memory, kernel, clock source, file system, other load …, in display order.
    pub environment: Vec<(String, String)>,
    /// Combinations of the sweep that were left out, each with the reason.
    pub left_out: Vec<String>,
    /// What has to hold.
    pub goals: Vec<GoalSpec>,
    /// Figures that are wanted.
    pub figures: Vec<FigureSpec>,
    /// All series that samplers give. Readings name them by position.
    pub series: Vec<SamplerSeries>,
}

/// A goal, as the plan has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalSpec {
    /// `lost`, `wrong`, `errors`, `p50`, `p90`, `p95`, `p99`, `p999` or `rate`.
    pub what: String,
    /// The limit in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
}

/// A figure, as the plan has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureSpec {
    /// How reports call it.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// Formula over phase results.
    pub formula: String,
    /// Published values.
    pub published: Vec<PublishedSpec>,
}

/// A published value, as the plan has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedSpec {
    /// In the figure's unit.
    pub value: f64,
    /// What it was measured on.
    pub of: String,
    /// Labels of the point of the sweep that it is for; it is for all when there are none.
    pub at: BTreeMap<String, String>,
}

/// One series and the sampler it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerSeries {
    /// The sampler's name.
    pub sampler: String,
    /// What it reads.
    pub spec: SeriesSpec,
}

/// The name under which a store's own counters stand among the samplers' series. Their subject is the store's label.
pub const STORE_COUNTERS: &str = "store";

/// The unit of a counter of [`plimsoll_core::CounterSort::Cycle`]: pieces of put-off work ended since the reading before.
pub const CYCLES: &str = "cycles";

/// A trial when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialHeader {
    /// Position in the plan.
    pub ordinal: u32,
    /// Name of the kind of store.
    pub store: String,
    /// How reports call the store.
    pub store_label: String,
    /// Where it runs, without credentials.
    pub place: String,
    /// Its own version string.
    pub version: String,
    /// Settings that differ from its defaults.
    pub settings: Vec<Setting>,
    /// Name of the workload.
    pub workload: String,
    /// The workload's and the store's parameters, for display.
    pub params: BTreeMap<String, String>,
    /// What makes the trial differ from the plan's others.
    pub labels: BTreeMap<String, String>,
    /// The kinds of operation. Slices name them by position.
    pub kinds: Vec<OpKind>,
    /// Number of records that the load inserts.
    pub record_count: u64,
    /// Bytes of one record's own values, on average.
    pub record_bytes: u64,
    /// Start.
    pub start_ns: u64,
}

/// A phase when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseHeader {
    /// Position of its trial in the plan.
    pub trial: u32,
    /// Position in its trial.
    pub ordinal: u32,
    /// Name in formulas and reports.
    pub name: String,
    /// `load`, `ask`, `drive`, `settle`, `cold`, `restart` or `check`.
    pub kind: String,
    /// `durable`, `buffered`, `at-end`; `None` for phases that write nothing.
    pub durability: Option<String>,
    /// Clients; 0 where none are at work.
    pub clients: u32,
    /// Scheduled operations a second; `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Start.
    pub start_ns: u64,
}

/// A phase when it ends.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseEnd {
    /// End. Of a phase that did not end, read back: the end of its last slice, or its start.
    pub end_ns: u64,
    /// How it ended.
    pub state: PhaseState,
    /// Of an open loop: how late the generator was and why, where that may have moved what was measured.
    pub late: Option<String>,
    /// Its results: name, unit, value. Formulas name them: `load.seconds`.
    pub results: Vec<PhaseResult>,
    /// Operations that were timed one by one (`ask`).
    pub asked: Vec<Asked>,
    /// Bytes the store takes, where it was looked at.
    pub footprint: Option<Footprint>,
    /// What the store itself said: its plan for the query, its integrity check, why it could not be made cold.
    pub remarks: Vec<(String, String)>,
}

/// How a phase ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    /// Not yet: the program died in it.
    #[default]
    Unfinished,
    /// As planned.
    Complete,
    /// Stopped by the user.
    Interrupted,
    /// With this error.
    Failed(String),
    /// Counts for nothing, for this reason: the generator was late, and strictness was asked for.
    Void(String),
}

/// One number that a phase came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// `seconds`, `ops`, `sync_seconds`, `device_bytes` … Only what was seen; rates and percentiles are derived by `analysis`.
    pub name: String,
    /// Unit; empty for counts.
    pub unit: String,
    /// Value.
    pub value: f64,
    /// Number of observations behind it.
    pub n: u64,
}

/// One operation of an `ask` phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Position of its kind.
    pub kind: u16,
    /// Sent.
    pub start_ns: u64,
    /// Answered.
    pub end_ns: u64,
    /// What it came to.
    pub outcome: Outcome,
    /// Rows in the answer.
    pub rows: u64,
}

/// Something worth a line on the time axis: a phase, a lost connection, a server's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// The trial it belongs to, if any.
    pub trial: Option<u32>,
    /// `info`, `warning` or `error`.
    pub level: String,
    /// Short class: `store`, `drive`, `sampler`, `recorder`, `fault`, `error-code`.
    pub kind: String,
    /// What happened, in plain words.
    pub text: String,
}

/// How the answers of a phase compare with the truth.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AnswerCheck {
    /// Position of the trial in the plan.
    pub trial: u32,
    /// Position of the phase in the trial.
    pub phase: u32,
    /// Name of the kind of operation.
    pub op: String,
    /// Answers that were held against the truth.
    pub answers: u64,
    /// Records that had to be in them.
    pub expected: u64,
    /// Records that were in them.
    pub got: u64,
    /// Records that had to be there and were not.
    pub missing: u64,
    /// Records that had no right to be there: wrong match, wrong content, stale, or never written.
    pub wrong: u64,
    /// A few of both, in plain words.
    pub examples: Vec<String>,
}

/// What the ledger says when everything was read back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LedgerCheck {
    /// Position of the trial in the plan.
    pub trial: u32,
    /// Position of the phase in the trial.
    pub phase: u32,
    /// Writes that were acknowledged, the load's records included.
    pub acknowledged: u64,
    /// Writes that the store refused.
    pub rejected: u64,
    /// Writes whose outcome nobody saw.
    pub unknown: u64,
    /// Records read back.
    pub read_back: u64,
    /// Acknowledged writes that are not there.
    pub lost: u64,
    /// When the lost ones were acknowledged: first and last.
    pub lost_window_ns: Option<(u64, u64)>,
    /// Every other disagreement, by its name: `duplicated`, `resurrected`, `alien`, `wrong_content`, `index_disagrees`.
    pub wrong: BTreeMap<String, u64>,
    /// With nothing lost: the 95 % upper bound of the share of writes lost (3 / n).
    pub loss_upper_bound: Option<f64>,
    /// False when the ledger could not keep up and so cannot vouch for anything.
    pub complete: bool,
    /// A few disagreements, in plain words.
    pub examples: Vec<String>,
    /// One sentence.
    pub sentence: String,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not yet: the program died.
    #[default]
    Unfinished,
    /// As planned.
    Complete,
    /// Stopped by the user.
    Interrupted,
    /// With this error.
    Failed(String),
}

/// Values of one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// When.
    pub at_ns: u64,
    /// Series (position in [`RunHeader::series`]) and value.
    pub values: Vec<(u32, f64)>,
}

/// A phase, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// As it started.
    pub header: PhaseHeader,
    /// As it ended.
    pub end: PhaseEnd,
    /// Its slices, with packed histograms: an hour of dense ones would be gigabytes.
    pub slices: Vec<Slice<Distribution>>,
}

/// A trial, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// As it started.
    pub header: TrialHeader,
    /// End; `None` when the program died in it.
    pub end_ns: Option<u64>,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// Its answers against the truth.
    pub answers: Vec<AnswerCheck>,
    /// Its ledger; one entry for each `check` phase.
    pub ledgers: Vec<LedgerCheck>,
}

/// A whole run, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// As it started.
    pub header: RunHeader,
    /// How it ended.
    pub state: RunState,
    /// When; `None` when the program died.
    pub end_ns: Option<u64>,
    /// Its trials.
    pub trials: Vec<Trial>,
    /// What the samplers read, in time order.
    pub samples: Vec<Sample>,
    /// Everything worth a line, in time order.
    pub events: Vec<Event>,
    /// What the recorder itself wrote, in bytes, so that it can be told from the store's own.
    pub recorder_bytes: u64,
}

/// One of a store's own counters during one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterLine<'a> {
    /// What it is called, and its unit: [`CYCLES`] for what a store puts off under load, `/s` for what only grows.
    pub spec: &'a SeriesSpec,
    /// When it was read, and its value over the time since the reading before; of levels, how it stood then.
    pub values: Vec<(u64, f64)>,
}

impl Run {
    /// What the store of `trial` counted of its own work while operations ran, in the order in which it names them.
    pub fn counters(&self, trial: &Trial) -> Vec<CounterLine<'_>> {
        let header = &trial.header;
        let end_ns = trial.end_ns.or(self.end_ns).unwrap_or(u64::MAX);
        let ours =
            |series: &&SamplerSeries| series.sampler == STORE_COUNTERS && series.spec.subject == header.store_label;
        let mut lines: BTreeMap<u32, CounterLine<'_>> = (0..)
            .zip(&self.header.series)
            .filter(|(_, series)| ours(series))
            .map(|(position, series)| (position, CounterLine { spec: &series.spec, values: Vec::new() }))
            .collect();
        let from = self.samples.partition_point(|sample| sample.at_ns < header.start_ns);
        for sample in self.samples.iter().skip(from).take_while(|sample| sample.at_ns <= end_ns) {
            for (series, value) in &sample.values {
                if let Some(line) = lines.get_mut(series) {
                    line.values.push((sample.at_ns, *value));
                }
            }
        }
        lines.into_values().filter(|line| !line.values.is_empty()).collect()
    }
}
