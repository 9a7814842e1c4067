//! A trial and its phases as a report shows them.

use std::collections::BTreeMap;

use plimsoll_core::{Durability, Footprint, Measure, Outcome, Setting};
use plimsoll_record::data::{AnswerCounts, PhaseKind, Purpose, ResultName};
use serde::Serialize;

use super::{BucketView, EndState};

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialView {
    /// Position in the plan.
    pub ordinal: u32,
    /// Store and labels: `sqlite · index=keyindex`.
    pub name: String,
    /// Store and values only, for plots: `sqlite keyindex`.
    pub short_name: String,
    /// Label of the store.
    pub store: String,
    /// Name of the kind of store.
    pub store_kind: String,
    /// The store's own version.
    pub version: String,
    /// Where it runs.
    pub place: String,
    /// Settings that differ from its defaults.
    pub settings: Vec<Setting>,
    /// Name of the workload.
    pub workload: String,
    /// Parameters of workload and store.
    pub params: BTreeMap<String, String>,
    /// What makes it differ from the plan's other trials.
    pub labels: BTreeMap<String, String>,
    /// How it ended.
    pub state: EndState,
    /// Start on the run's clock.
    pub start_s: f64,
    /// End; `None` when the program died in it.
    pub end_s: Option<f64>,
    /// Records that the load inserts.
    pub record_count: u64,
    /// Bytes of one record's own values, on average.
    pub record_bytes: u64,
    /// The last footprint that was taken before the first driven phase.
    pub footprint: Option<FootprintView>,
    /// How large the data are beside what can hold them; `None` where nothing is known.
    pub size: Option<SizeView>,
    /// Bytes that load and settle wrote to the device, per record. The recorder's own are not in it.
    pub device_bytes_per_record: Option<f64>,
    /// The same over the record's own bytes.
    pub write_amplification: Option<f64>,
    /// What the store said of itself, by phase: its plan for the query, its integrity check …
    pub remarks: Vec<RemarkView>,
    /// Answers against the truth.
    pub answers: Vec<AnswerView>,
    /// All of them together; `None` when no answer was checked.
    pub answers_total: Option<AnswerCounts>,
    /// What was acknowledged against what was read back.
    pub ledgers: Vec<LedgerView>,
    /// Its phases.
    pub phases: Vec<PhaseView>,
}

/// Bytes that a store's data takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FootprintView {
    /// The phase after which it was taken.
    pub phase: String,
    /// What it came to.
    #[serde(flatten)]
    pub bytes: Footprint,
}

/// How large the data are beside what can hold them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeView {
    /// All of it in words: `data 1.20 GiB (scale 80: 8,000,000 records); cache 128 MiB (shared_buffers): 10 % of it fits;
    /// memory 24.0 GiB: all of it fits`.
    pub sentence: String,
    /// Records and indexes, as the store says it.
    pub data_bytes: Option<u64>,
    /// The store's own name of the setting that says how large its cache is, or the memory that it may have.
    pub cache_setting: Option<String>,
    /// The value of that setting in bytes; `None` where there is no cache, or no limit.
    pub cache_bytes: Option<u64>,
    /// Memory for the store on its machine; `None` of a host that is not this one.
    pub memory_bytes: Option<u64>,
    /// All data fit the store's own cache.
    pub fits_cache: Option<bool>,
    /// All data fit the memory.
    pub fits_memory: Option<bool>,
}

/// Something the store said in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemarkView {
    /// Name of the phase.
    pub phase: String,
    /// What it is about.
    pub name: String,
    /// Its words.
    pub text: String,
}

/// Answers of one kind of operation in one phase against the truth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerView {
    /// Name of the phase.
    pub phase: String,
    /// Name of the kind of operation.
    pub op: String,
    /// How many, and what was in them.
    #[serde(flatten)]
    pub counts: AnswerCounts,
    /// A few of both, in words.
    pub examples: Vec<String>,
}

/// The ledger's verdict of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerView {
    /// Name of the phase.
    pub phase: String,
    /// Writes that were acknowledged, the load's included.
    pub acknowledged: u64,
    /// Writes that the store refused.
    pub rejected: u64,
    /// Writes whose outcome nobody saw.
    pub unknown: u64,
    /// Records read back.
    pub read_back: u64,
    /// Acknowledged writes that are not there.
    pub lost: u64,
    /// When the lost ones were acknowledged: first and last, on the run's clock.
    pub lost_window_s: Option<(f64, f64)>,
    /// Other disagreements by name.
    pub wrong: BTreeMap<String, u64>,
    /// Sum of `wrong`.
    pub wrong_total: u64,
    /// With nothing lost: the 95 % upper bound of the share of writes lost.
    pub loss_upper_bound: Option<f64>,
    /// False when the ledger cannot vouch for anything.
    pub complete: bool,
    /// A few disagreements, in words.
    pub examples: Vec<String>,
    /// One sentence.
    pub sentence: String,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseView {
    /// Position in its trial.
    pub ordinal: u32,
    /// Name in formulas.
    pub name: String,
    /// What it does.
    pub kind: PhaseKind,
    /// Of a rung of a search for the load line: what it is for.
    pub rung: Option<Purpose>,
    /// Durability of its writes; `None` when it writes nothing.
    pub durability: Option<Durability>,
    /// Clients; 0 where none are at work.
    pub clients: u32,
    /// Scheduled operations a second; `None` in a closed loop.
    pub scheduled_rate_per_s: Option<f64>,
    /// True when operations were due by a schedule, at a constant rate or another: there are response and service times.
    pub open_loop: bool,
    /// Start on the run's clock.
    pub start_s: f64,
    /// From start to end; `None` when the program died in it.
    pub seconds: Option<f64>,
    /// How it ended.
    pub state: EndState,
    /// Why it failed or is void.
    pub reason: Option<String>,
    /// It ended because its rate was not carried.
    #[serde(skip)]
    pub is_overloaded: bool,
    /// How late the generator was and why, where that may have moved response times, rates and what was never sent.
    pub late: Option<String>,
    /// Its results as recorded.
    pub results: Vec<ResultView>,
    /// Records that a complete load inserted a second, its sync included.
    pub records_per_s: Option<f64>,
    /// Its operations without warm-up; `None` when none were timed.
    pub ops: Option<OpsView>,
    /// For `ask`: each kind asked.
    pub asked: Vec<AskedView>,
    /// Latency by kind and outcome; the first row is all kinds together where there are several.
    pub latencies: Vec<LatencyView>,
    /// Where its load changes in stages: each one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageView>,
    /// How long operations of all kinds took, as a histogram of at most twelve buckets; empty where nothing was driven.
    pub histogram: Vec<BucketView>,
    /// What each server answered, where operations go to several; otherwise empty.
    pub nodes: Vec<NodeView>,
    /// What samplers timed one by one, such as the server's fsyncs: as nodes, with the sampler's and series' name.
    pub sampled: Vec<NodeView>,
    /// Which of the nodes is slower than all others, in one sentence; `None` where none is, or too little was answered to tell.
    pub slowest_node: Option<String>,
    /// Steps within its operations (statements of a transaction), by operation and in their order.
    pub steps: Vec<StepView>,
    /// How late the generator was. Open loop only.
    pub lag: Option<LagView>,
    /// Time from the phase's start after which throughput had settled, as found in its slices (MSER-5), whatever the
    /// plan takes for warm-up; `None` in an open loop, with fewer than twenty slices, and where it never settled.
    pub settled_after_s: Option<f64>,
    /// Throughput with the warm-up that was found and left out; `None` where none was left out.
    pub rate_with_warmup_per_s: Option<f64>,
    /// CPU time of the generator's workers over the counted time, in cores; `None` where it cannot be told.
    pub worker_cores: Option<f64>,
    /// What was seen of the machine's own pauses in the counted time; `None` where nobody watched for them.
    pub pauses: Option<PausesView>,
}

/// A stage of a load that changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageView {
    /// What it asked for, in words: a rate or a number of clients, or from where to where.
    pub load: String,
    /// How long it was planned to last.
    pub seconds: f64,
    /// Mean scheduled rate, operations a second; `None` in a closed loop.
    pub wanted_per_s: Option<f64>,
    /// Operations that did not fail, a second; `None` where no slice lies in it.
    pub rate_per_s: Option<f64>,
    /// Operations that ended in it; of the last one, those too that were never sent.
    pub count: u64,
    /// Median of how long clients waited; `None` with too few operations.
    pub p50_ns: Option<u64>,
    /// Its 95th percentile.
    pub p95_ns: Option<u64>,
    /// Its 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Share that was rejected, unknown or never sent, in per cent.
    pub error_percent: f64,
}

/// What one of several servers answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// Its store's label and its own name: `galera node 2`.
    pub name: String,
    /// Answers that were no errors.
    pub count: u64,
    /// The same a second.
    pub rate_per_s: f64,
    /// How long clients waited, on average.
    pub mean_ns: f64,
    /// Percentiles of that.
    pub percentiles: Vec<PercentileView>,
    /// The longest.
    pub max_ns: u64,
}

/// What was seen of the machine's own pauses, of 1 ms and more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PausesView {
    /// Share of the time in which a processor stood still, in per cent.
    pub paused_percent: f64,
    /// The same, of pauses of some length or longer.
    pub above: Vec<PausesAbove>,
    /// The longest.
    pub longest_ns: u64,
    /// How many.
    pub count: u64,
    /// Whether shares and count are lower bounds because there were more pauses in a slice than are kept of one.
    pub at_least: bool,
    /// Seconds of the counted time that were in no pause and no pause's aftermath.
    pub undisturbed_s: f64,
    /// Operations that were disturbed.
    pub disturbed_ops: u64,
    /// How late the witness woke up.
    pub lateness: Vec<PercentileView>,
    /// How often it did, on all processors.
    pub wake_ups: u64,
    /// CPU time of the witness, in per cent of one processor; `None` where it was not measured.
    pub witness_percent: Option<f64>,
    /// All of it in words, without a full stop.
    pub sentence: String,
}

/// Share of the time in pauses of a length or longer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PausesAbove {
    /// The length in milliseconds.
    pub ms: u64,
    /// The share in per cent.
    pub percent: f64,
}

/// One number that a phase came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultView {
    /// What it is.
    #[serde(skip)]
    pub what: ResultName,
    /// Name in formulas.
    pub name: String,
    /// Unit; empty for counts.
    pub unit: String,
    /// Value.
    pub value: f64,
    /// The same as text.
    pub text: String,
    /// Observations behind it.
    pub n: u64,
}

/// Counts of a phase's operations, without warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpsView {
    /// Length of the counted time.
    pub seconds: f64,
    /// Operations that ended.
    pub count: u64,
    /// Of them, rejected.
    pub rejected: u64,
    /// Of them, unknown.
    pub unknown: u64,
    /// Due and never sent when the phase ended; not in `count`.
    pub unfinished: u64,
    /// Operations that did not fail, a second.
    pub rate_per_s: f64,
    /// Share that was rejected, unknown or unfinished, in per cent.
    pub error_percent: f64,
}

/// Operations that were timed one by one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedView {
    /// Name of the kind.
    pub op: String,
    /// How many.
    pub n: u64,
    /// Of them, rejected or unknown; not in the times.
    pub errors: u64,
    /// Median time; `None` when none was answered.
    pub median_s: Option<f64>,
    /// Shortest.
    pub min_s: Option<f64>,
    /// Longest.
    pub max_s: Option<f64>,
    /// Rows in an answer; the median.
    pub rows: u64,
}

/// The operations that a row is of; in JSON `all`, or the name of their kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOp {
    /// All kinds together.
    All,
    /// One kind.
    #[serde(untagged)]
    Kind(String),
}

/// What the operations of a row came to; in JSON a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOutcome {
    /// Anything but refused.
    All,
    /// They were due and never sent.
    Unfinished,
    /// This.
    #[serde(untagged)]
    Of(Outcome),
}

/// The latencies of one kind and outcome in one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyView {
    /// Which operations.
    pub op: RowOp,
    /// What they came to.
    pub outcome: RowOutcome,
    /// Which time it is.
    pub measure: Measure,
    /// Samples.
    pub count: u64,
    /// Samples a second of counted time.
    pub rate_per_s: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// p50, p90, p95, p99 and p99.9.
    pub percentiles: Vec<PercentileView>,
    /// Longest, to three digits.
    pub max_ns: u64,
    /// A late generator may have moved these times, and the rate.
    pub late: bool,
    /// Without what pauses of the machine disturbed; `None` where nobody watched for them, and for a measure that is not
    /// how long clients waited.
    pub undisturbed: Option<UndisturbedView>,
}

/// Latencies without what pauses of the machine disturbed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UndisturbedView {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// p50, p90, p95, p99 and p99.9.
    pub percentiles: Vec<PercentileView>,
    /// Longest, to three digits.
    pub max_ns: u64,
}

/// A step within operations of one kind: a statement of a transaction. It is timed like an operation and counts as
/// none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    /// Name of the kind of operation that it is part of.
    pub op: String,
    /// Its own name.
    pub name: String,
    /// How often it was asked, of all operations of that kind, retried ones included.
    pub count: u64,
    /// Of them, rejected or unknown. Their times are in `mean_ns`, `stddev_ns` and the share, not in the percentiles.
    pub errors: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// p50, p90, p95, p99 and p99.9 of those that were answered.
    pub percentiles: Vec<PercentileView>,
    /// Longest, to three digits.
    pub max_ns: u64,
    /// Its share of the operations' own time, in per cent; what is missing to 100 was spent between the steps.
    /// `null` where the operation's steps overlapped, as those of a pipeline do: they have no share of their own.
    /// `None` when no such operation ended.
    pub share_percent: Option<f64>,
}

/// A percentile, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PercentileView {
    /// `p50`, `p90`, `p95`, `p99`, `p999`.
    pub name: String,
    /// Value; `None` with fewer than ten samples above it.
    pub ns: Option<u64>,
    /// `needs 1,000 samples, has 230`.
    pub missing: Option<String>,
}

/// How late the generator itself was: the worst of the counted slices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LagView {
    /// Median of the slices' medians.
    pub p50_ns: u64,
    /// Largest 99th percentile of any slice.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}
