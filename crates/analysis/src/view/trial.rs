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
    /// Address of the store.
    pub place: String,
    /// Settings that differ from its defaults.
    pub settings: Vec<Setting>,
    /// Name of the workload.
    pub workload: String,
    /// Parameters of workload and store.
    pub params: BTreeMap<String, String>,
    /// Labels that distinguish it from the plan's other trials.
    pub labels: BTreeMap<String, String>,
    /// State at the end of the trial.
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
    /// Size of the data in relation to the memory that can hold them; `None` if unknown.
    pub size: Option<SizeView>,
    /// Bytes that load and settle wrote to the simulated disk of the store, per record; `None` without such a disk.
    pub device_bytes_per_record: Option<f64>,
    /// Bytes written divided by the record's own bytes.
    pub write_amplification: Option<f64>,
    /// Remarks of the store on itself, by phase: its plan for the query, its integrity check …
    pub remarks: Vec<RemarkView>,
    /// Answers against the truth.
    pub answers: Vec<AnswerView>,
    /// Sums over all of them; `None` when no answer was checked.
    pub answers_total: Option<AnswerCounts>,
    /// Comparison of acknowledged writes with the data read back.
    pub ledgers: Vec<LedgerView>,
    /// Phases of the trial.
    pub phases: Vec<PhaseView>,
}

impl TrialView {
    /// Returns the ledger of the check that found most lost, or does not know it, or else of the last. Ledgers of one trial
    /// are about the same writes.
    pub fn most_lost(&self) -> Option<&LedgerView> {
        self.ledgers.iter().max_by_key(|ledger| (ledger.lost.unwrap_or(0), ledger.lost.is_none()))
    }

    /// Returns the ledger of the check that found most records wrong.
    pub fn most_wrong(&self) -> Option<&LedgerView> {
        self.ledgers.iter().max_by_key(|ledger| ledger.wrong_total)
    }
}

/// Bytes that a store's data takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FootprintView {
    /// The phase after which it was taken.
    pub phase: String,
    /// Size of the data.
    #[serde(flatten)]
    pub bytes: Footprint,
}

/// Size of the data in relation to the memory that can hold them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeView {
    /// Description in words: `data 1.20 GiB (scale 80: 8,000,000 records); cache 128 MiB (shared_buffers): 10 % of it
    /// fits; memory 24.0 GiB: all of it fits`.
    pub sentence: String,
    /// Records and indexes, as the store says it.
    pub data_bytes: Option<u64>,
    /// The store's own name of the setting that says how large its cache is, or the memory that it may have.
    pub cache_setting: Option<String>,
    /// The value of that setting in bytes; `None` where there is no cache, or no limit.
    pub cache_bytes: Option<u64>,
    /// Memory for the store on its machine; `None` of a host that is not this one.
    pub memory_bytes: Option<u64>,
    /// True if all data fit the store's own cache.
    pub fits_cache: Option<bool>,
    /// True if all data fit the memory.
    pub fits_memory: Option<bool>,
}

/// Remark of the store in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemarkView {
    /// Name of the phase.
    pub phase: String,
    /// Subject of the remark.
    pub name: String,
    /// Text of the remark.
    pub text: String,
}

/// Answers of one kind of operation in one phase against the truth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerView {
    /// Name of the phase.
    pub phase: String,
    /// Name of the kind of operation.
    pub op: String,
    /// Counts of answers, and of the errors in them.
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
    /// Writes of unobserved outcome.
    pub unknown: u64,
    /// Records read back.
    pub read_back: u64,
    /// Records that could not be read.
    pub unread: u64,
    /// Acknowledged writes that are not there; `None` if the store could not be read, so that nothing is known of them.
    pub lost: Option<u64>,
    /// Records that were read before a power cut in a state that was never acknowledged, and is gone.
    pub read_then_lost: u64,
    /// Times of the first and the last acknowledgement of a lost write, on the run's clock.
    pub lost_window_s: Option<(f64, f64)>,
    /// Other disagreements by name.
    pub wrong: BTreeMap<String, u64>,
    /// Sum of `wrong`.
    pub wrong_total: u64,
    /// Upper bound (95 %) of the share of writes lost, if nothing was lost.
    pub loss_upper_bound: Option<f64>,
    /// False if the ledger has a gap, or a part of the store could not be read.
    pub complete: bool,
    /// A few disagreements, in words.
    pub examples: Vec<String>,
    /// Conclusion in one sentence.
    pub sentence: String,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseView {
    /// Position in its trial.
    pub ordinal: u32,
    /// Name in formulas.
    pub name: String,
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// Purpose of a rung of a search for the load line.
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
    /// Duration from start to end; `None` when the program died in it.
    pub seconds: Option<f64>,
    /// State at the end of the phase.
    pub state: EndState,
    /// Reason that the phase failed or is void.
    pub reason: Option<String>,
    /// True if the phase ended because its rate was not carried.
    #[serde(skip)]
    pub is_overloaded: bool,
    /// Delay of the generator and its cause, if it may have changed response times, rates and the number of operations
    /// never sent.
    pub late: Option<String>,
    /// Statement that the phase did far fewer operations than its load requires although it had connections, or that a
    /// closed loop had an outage without a known reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<String>,
    /// Longest time without any answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<OutageView>,
    /// Times from the phase's start at which the first and the last of its lost connections were lost; `None` without
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_connections_s: Option<(f64, f64)>,
    /// Results of the phase as recorded.
    pub results: Vec<ResultView>,
    /// Records that a complete load inserted a second, its sync included.
    pub records_per_s: Option<f64>,
    /// Operations of the phase without warm-up; `None` when none were timed.
    pub ops: Option<OpsView>,
    /// Operations that found nothing, by type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_found: Vec<NotFoundView>,
    /// Operations that were tried again after a deadlock or a serialization failure, by type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<RetriedView>,
    /// Operation types that were asked by `ask`.
    pub asked: Vec<AskedView>,
    /// Latency by kind and outcome; the first row is all kinds together where there are several.
    pub latencies: Vec<LatencyView>,
    /// Stages of the load, if it changes in stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageView>,
    /// Histogram of the response times of all operation types, with at most twelve buckets; empty if nothing was
    /// driven.
    pub histogram: Vec<BucketView>,
    /// Operations answered by each server, if they go to several; otherwise empty.
    pub nodes: Vec<NodeView>,
    /// Times that samplers measured individually, such as the server's fsyncs: as nodes, with the sampler's and
    /// series' name.
    pub sampled: Vec<NodeView>,
    /// Sentence about a node that is slower than all others; `None` without one, or with too few answers.
    pub slowest_node: Option<String>,
    /// Steps within its operations (statements of a transaction), by operation and in their order.
    pub steps: Vec<StepView>,
    /// Scheduling delay of the generator. Open loop only.
    pub lag: Option<LagView>,
    /// Time from the phase's start after which throughput had settled, as found in its slices (MSER-5), whatever the
    /// plan takes for warm-up; `None` in an open loop, with fewer than twenty slices, and where it never settled.
    pub settled_after_s: Option<f64>,
    /// Throughput with the warm-up that was found and left out; `None` where none was left out.
    pub rate_with_warmup_per_s: Option<f64>,
    /// CPU time of the generator's workers over the counted time, in cores; `None` where it cannot be told.
    pub worker_cores: Option<f64>,
    /// Pauses of the machine in the counted time; `None` if they were not observed.
    pub pauses: Option<PausesView>,
}

/// A stage of a load that changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageView {
    /// Load of the stage, in words: a rate or a number of clients, or the ends of a ramp.
    pub load: String,
    /// Planned duration, seconds.
    pub seconds: f64,
    /// Mean scheduled rate, operations a second; `None` in a closed loop.
    pub wanted_per_s: Option<f64>,
    /// Operations that did not fail, a second; `None` where no slice lies in it.
    pub rate_per_s: Option<f64>,
    /// Operations that ended in it; of the last one, those too that were never sent.
    pub count: u64,
    /// Median of how long clients waited; `None` with too few operations.
    pub p50_ns: Option<u64>,
    /// 95th percentile of the stage.
    pub p95_ns: Option<u64>,
    /// 99th percentile of the stage.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Share that was rejected, unknown or never sent, in per cent.
    pub error_percent: f64,
}

/// Operations that one of several servers answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// Label of the store and name of the node: `galera node 2`.
    pub name: String,
    /// Answers that were no errors.
    pub count: u64,
    /// Operations a second.
    pub rate_per_s: f64,
    /// Mean waiting time of clients, nanoseconds.
    pub mean_ns: f64,
    /// Percentiles of that.
    pub percentiles: Vec<PercentileView>,
    /// The longest.
    pub max_ns: u64,
}

/// Pauses of the machine, of 1 ms and more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PausesView {
    /// Share of the time in which a processor stood still, in per cent.
    pub paused_percent: f64,
    /// Pauses of some length or longer.
    pub above: Vec<PausesAbove>,
    /// The longest.
    pub longest_ns: u64,
    /// Number of pauses.
    pub count: u64,
    /// True if shares and count are lower bounds because a slice had more pauses than are kept.
    pub at_least: bool,
    /// Seconds of the counted time that were in no pause and no pause's aftermath.
    pub undisturbed_s: f64,
    /// Operations that were disturbed.
    pub disturbed_ops: u64,
    /// Delay of the witness's wake-ups.
    pub lateness: Vec<PercentileView>,
    /// Number of the witness's wake-ups, on all processors.
    pub wake_ups: u64,
    /// CPU time of the witness, in per cent of one processor; `None` where it was not measured.
    pub witness_percent: Option<f64>,
    /// Description in words, without a full stop.
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

/// A result of a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultView {
    /// Name of the result.
    #[serde(skip)]
    pub what: ResultName,
    /// Name in formulas.
    pub name: String,
    /// Unit; empty for counts.
    pub unit: String,
    /// Value.
    pub value: f64,
    /// Value as text.
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
    /// Number of rejected ones among them.
    pub rejected: u64,
    /// Number of unknown ones among them.
    pub unknown: u64,
    /// Due and never sent when the phase ended; not in `count`.
    pub unfinished: u64,
    /// Operations that did not fail, a second.
    pub rate_per_s: f64,
    /// Share that was rejected, unknown or unfinished, in per cent; without what an interrupt left unsent or unanswered.
    pub error_percent: f64,
}

/// Time in which no operation was answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutageView {
    /// Start on the run's clock.
    pub at_s: f64,
    /// Length in seconds: exact to 10 ms in phases with faults; else to two slices at worst, to the longest response
    /// time if that lies within.
    pub seconds: f64,
    /// The outage had not ended when observation ended: it was longer.
    pub open: bool,
    /// Actions on servers and disks, and faults, that began in it or shortly before it; they need not be its cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Phase, and its trial if that is another one, if the outage stands beside the result of another phase; otherwise
    /// empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
}

/// Operations of a type that found nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotFoundView {
    /// Name of the type.
    pub op: String,
    /// Number of operations that found nothing.
    pub count: u64,
    /// Number of operations of the type that ended.
    pub n: u64,
    /// Share that found nothing, in per cent.
    pub percent: f64,
}

/// Operations of a type that were tried again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetriedView {
    /// Name of the type.
    pub op: String,
    /// Number of operations that succeeded after all.
    pub succeeded: u64,
    /// Number of operations whose last try failed, too.
    pub failed: u64,
}

/// Operations that were timed one by one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedView {
    /// Name of the kind.
    pub op: String,
    /// Number of operations.
    pub n: u64,
    /// Number of rejected or unknown ones among them; not in the times.
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
    /// A single operation type.
    #[serde(untagged)]
    Kind(String),
}

/// Outcome of the operations of a row; in JSON a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOutcome {
    /// Anything but refused.
    All,
    /// Operations that were due and never sent.
    Unfinished,
    /// Operations of this outcome.
    #[serde(untagged)]
    Of(Outcome),
}

/// The latencies of one kind and outcome in one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyView {
    /// Operations of the row.
    pub op: RowOp,
    /// Outcome of the operations.
    pub outcome: RowOutcome,
    /// Measure of the times.
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
    /// Times without operations disturbed by pauses of the machine; `None` if pauses were not observed, and for a
    /// measure other than clients' waiting.
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
    /// Name of the step.
    pub name: String,
    /// Number of times that it was asked, of all operations of that type, retried ones included.
    pub count: u64,
    /// Number of rejected or unknown ones among them. Their times are in `mean_ns`, `stddev_ns` and the share, not in
    /// the percentiles.
    pub errors: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// p50, p90, p95, p99 and p99.9 of those that were answered.
    pub percentiles: Vec<PercentileView>,
    /// Longest, to three digits.
    pub max_ns: u64,
    /// Share of the operations' own time, in per cent; the rest to 100 was spent between the steps. `null` where the
    /// operation's steps overlapped, as those of a pipeline do: they have no share of their own. `None` when no such
    /// operation ended.
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

/// Scheduling delay of the generator itself: the worst of the counted slices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LagView {
    /// Median of the slices' medians.
    pub p50_ns: u64,
    /// Largest 99th percentile of any slice.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}
