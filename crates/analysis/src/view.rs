//! The types of a view: what `report` is handed, and the shape of its JSON.
//!
//! Names carry their units. A missing number is `None` (`null` in JSON) and something beside it says why.
//! The shape is versioned by [`FORMAT`]: fields may be added within a version, none is renamed or removed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chart::Mark;
use crate::line::LineView;
use crate::stall::StallsView;
use crate::sweep::SweepView;

/// Version of the view's shape.
pub const FORMAT: u32 = 1;

/// Everything a report shows of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView {
    /// [`FORMAT`].
    pub format: u32,
    /// What was run, when and by what.
    pub run: RunFacts,
    /// The verdict.
    pub verdict: Verdict,
    /// What had to hold, and whether it did.
    pub goals: Vec<GoalView>,
    /// Labels of the stores, in the order of their first trial. Columns of tables by store.
    pub stores: Vec<String>,
    /// The figures to show large: those with a published value that compare like with like (unit `×`).
    pub headlines: Vec<Headline>,
    /// Named figures beside the published ones.
    pub figures: Vec<FigureView>,
    /// The searches for the load line, one for each store; empty for runs that did not search.
    pub lines: Vec<LineView>,
    /// Of searches: that every answer was right and nothing was lost, all rungs together; `null` where it was not so, was
    /// not checked, or nothing was searched.
    pub truth: Option<String>,
    /// Seconds in which a phase did much less than in its others, and what else was so in them.
    pub stalls: Vec<StallsView>,
    /// Sweeps: throughput at every point; empty where nothing but stores was swept.
    pub sweeps: Vec<SweepView>,
    /// The durabilities of phases that write: name of the phase, durability. Equal for all trials unless it says so.
    pub durability: Vec<Named>,
    /// The trials that were begun.
    pub trials: Vec<TrialView>,
    /// Combinations of the sweep that do not exist, each with its reason.
    pub left_out: Vec<String>,
    /// What makes one doubt the result.
    pub warnings: Vec<Warning>,
    /// What happened, in time order.
    pub events: Vec<EventView>,
    /// The machine.
    pub environment: Vec<Named>,
    /// Everything on the time axis, and percentile curves.
    pub plots: Plots,
}

/// A name and a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    /// Name.
    pub name: String,
    /// Text.
    pub value: String,
}

/// What was run, when and by what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunFacts {
    /// The run's id.
    pub id: String,
    /// The plan's name.
    pub plan_name: String,
    /// The plan's title.
    pub title: String,
    /// The plan's question; may be empty.
    pub question: String,
    /// Where the published figures come from; may be empty.
    pub source: String,
    /// Plimsoll's version.
    pub plimsoll_version: String,
    /// Wall time of the start, nanoseconds since 1970.
    pub started_wall_ns: i64,
    /// The same as text, UTC: `2026-11-21 20:41:07 UTC`.
    pub started: String,
    /// Length of the run, up to the last thing that was recorded.
    pub seconds: f64,
    /// `complete`, `interrupted`, `failed` or `killed`.
    pub state: String,
    /// The error of a failed run.
    pub error: Option<String>,
    /// The command line, without credentials.
    pub command_line: Vec<String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Length of a slice.
    pub slice_seconds: f64,
    /// The plan as it was given, TOML.
    pub plan_text: String,
    /// What the recorder itself wrote while the run went on.
    pub recorder_bytes: u64,
}

/// Whether the promises were kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictState {
    /// Everything ran, every goal held, no answer was wrong and nothing was lost.
    Pass,
    /// A goal was missed, an answer was wrong, or an acknowledged write was lost.
    Fail,
    /// Nothing was seen to break, but not everything was seen.
    Incomplete,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Decides the exit code: `fail` is 1.
    pub state: VerdictState,
    /// One sentence.
    pub sentence: String,
    /// What it rests on when it is not `pass`: one sentence each, worst first.
    pub reasons: Vec<String>,
}

/// Whether a goal held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalState {
    /// In every trial it applies to.
    Held,
    /// Not everywhere measured; missed nowhere.
    NotMeasured,
    /// Missed in at least one trial.
    Missed,
}

/// A goal and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GoalView {
    /// `lost`, `wrong`, `errors`, `p50` …
    pub what: String,
    /// What it limits, in words.
    pub text: String,
    /// The limit as text with its relation: `≤ 20 ms`.
    pub wanted: String,
    /// The limit in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
    /// The worst of all trials, in `unit`.
    pub got: Option<f64>,
    /// The same as text.
    pub got_text: String,
    /// Observations behind it, all trials together.
    pub n: u64,
    /// Whether it held.
    pub state: GoalState,
    /// Trial by trial.
    pub trials: Vec<GoalTrial>,
}

/// A goal in one trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GoalTrial {
    /// Label of the trial, with the phase for goals about driven phases.
    pub place: String,
    /// The value in the goal's unit.
    pub got: Option<f64>,
    /// The same as text, or why there is none.
    pub got_text: String,
    /// Observations behind it.
    pub n: u64,
    /// Whether it held here.
    pub state: GoalState,
}

/// A figure that is shown large.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    /// Name of the figure.
    pub name: String,
    /// Label of the store and value as text, where there is one.
    pub values: Vec<Named>,
    /// Published values: what they were measured on and value as text.
    pub published: Vec<Named>,
}

/// A named figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureView {
    /// Its name.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// Formula over phase results.
    pub formula: String,
    /// What was published for all of it.
    pub published: Vec<PublishedView>,
    /// One row for each point of what the formula leaves open of the sweep; one row if it leaves nothing.
    pub rows: Vec<FigureRow>,
}

impl FigureView {
    /// Whether anything was published for it.
    pub fn has_published(&self) -> bool {
        !self.published.is_empty() || self.rows.iter().any(|row| !row.published.is_empty())
    }
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedView {
    /// In the figure's unit.
    pub value: f64,
    /// The same as text.
    pub text: String,
    /// What it was measured on.
    pub of: String,
}

/// A figure at one point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureRow {
    /// Labels that the formula leaves open, without the store.
    pub labels: BTreeMap<String, String>,
    /// What was published for this point.
    pub published: Vec<PublishedView>,
    /// One cell for each of [`RunView::stores`], in their order.
    pub cells: Vec<FigureCell>,
}

/// A figure of one store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureCell {
    /// Label of the store.
    pub store: String,
    /// In the figure's unit.
    pub value: Option<f64>,
    /// The same as text; `–` when there is none.
    pub text: String,
    /// The fewest observations behind any of its terms.
    pub n: u64,
    /// Why there is no value.
    pub missing: Option<String>,
}

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
    pub settings: Vec<SettingView>,
    /// Name of the workload.
    pub workload: String,
    /// Parameters of workload and store.
    pub params: BTreeMap<String, String>,
    /// What makes it differ from the plan's other trials.
    pub labels: BTreeMap<String, String>,
    /// `complete`, `interrupted`, `failed` or `killed`.
    pub state: String,
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
    pub answers_total: Option<AnswerTotals>,
    /// What was acknowledged against what was read back.
    pub ledgers: Vec<LedgerView>,
    /// Its phases.
    pub phases: Vec<PhaseView>,
}

/// A setting that differs from the store's default.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingView {
    /// The store's own name for it.
    pub name: String,
    /// Value here.
    pub value: String,
    /// Default, where the store tells.
    pub default: Option<String>,
    /// Who set it.
    pub source: String,
}

/// Bytes that a store's data takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FootprintView {
    /// The phase after which it was taken.
    pub phase: String,
    /// Records, with indexes where the store cannot tell them apart.
    pub data_bytes: u64,
    /// Secondary indexes, where they can be told apart.
    pub index_bytes: Option<u64>,
    /// Everything on disk, where it can be known.
    pub total_bytes: Option<u64>,
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
    /// Answers that were checked.
    pub answers: u64,
    /// Records that had to be in them.
    pub expected: u64,
    /// Records that were in them.
    pub got: u64,
    /// Records that had to be there and were not.
    pub missing: u64,
    /// Records that had no right to be there.
    pub wrong: u64,
    /// A few of both, in words.
    pub examples: Vec<String>,
}

/// All checked answers of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AnswerTotals {
    /// Answers that were checked.
    pub answers: u64,
    /// Records that had to be in them.
    pub expected: u64,
    /// Records that were in them.
    pub got: u64,
    /// Records that had to be there and were not.
    pub missing: u64,
    /// Records that had no right to be there.
    pub wrong: u64,
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
    /// `load`, `ask`, `drive`, `settle`, `cold`, `restart` or `check`.
    pub kind: String,
    /// Durability of its writes; `None` when it writes nothing.
    pub durability: Option<String>,
    /// Clients; 0 where none are at work.
    pub clients: u32,
    /// Scheduled operations a second; `None` in a closed loop.
    pub scheduled_rate_per_s: Option<f64>,
    /// Start on the run's clock.
    pub start_s: f64,
    /// From start to end; `None` when the program died in it.
    pub seconds: Option<f64>,
    /// `complete`, `interrupted`, `failed`, `void` or `killed`.
    pub state: String,
    /// Why it failed or is void.
    pub reason: Option<String>,
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
}

/// One number that a phase came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultView {
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

/// The latencies of one kind and outcome in one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyView {
    /// Name of the kind, or `all`.
    pub op: String,
    /// `ok`, `not_found`, `rejected`, `unknown`, `unfinished`; `all` for all kinds together.
    pub outcome: String,
    /// `response` or `service`.
    pub measure: String,
    /// Samples.
    pub count: u64,
    /// Samples a second of counted time.
    pub rate_per_s: f64,
    /// Mean.
    pub mean_ns: f64,
    /// p50, p90, p99 and p99.9.
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
    /// Of them, rejected or unknown. Their times are in `mean_ns` and the share, not in the percentiles.
    pub errors: u64,
    /// Mean.
    pub mean_ns: f64,
    /// p50, p90, p99 and p99.9 of those that were answered.
    pub percentiles: Vec<PercentileView>,
    /// Longest, to three digits.
    pub max_ns: u64,
    /// Its share of the operations' own time, in per cent; what is missing to 100 was spent between the steps.
    /// `None` when no such operation ended.
    pub share_percent: Option<f64>,
}

/// A percentile, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PercentileView {
    /// `p50`, `p90`, `p99`, `p999`.
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

/// Something that makes one doubt the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warning {
    /// What was seen, with its numbers.
    pub text: String,
    /// What to do about it.
    pub next: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventView {
    /// When, on the run's clock.
    pub at_s: f64,
    /// Name of the trial, if any.
    pub trial: Option<String>,
    /// `info`, `warning` or `error`.
    pub level: String,
    /// Short class.
    pub kind: String,
    /// What happened.
    pub text: String,
}

/// Everything on the time axis, and the percentile curves. Times are seconds on the run's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plots {
    /// End of the axis; it starts at 0.
    pub end_s: f64,
    /// The phases, in time order.
    pub bands: Vec<Band>,
    /// Names of kinds of operation, with `all` first; by position in the lists below.
    pub ops: Vec<String>,
    /// Operations a second, by kind, in phases that drive.
    pub throughput: Panel,
    /// Records a second, in phases that load; drawn apart, as a load may be ten times as fast as what follows.
    pub loading: Panel,
    /// One panel for each of `ops`: p50, p90, p99 and maximum of each slice, in seconds.
    pub latency: Vec<Panel>,
    /// One heat map for each of `ops`.
    pub heat: Vec<HeatMap>,
    /// Percentile curves: one for each driven phase, and of it for each kind.
    pub curves: Vec<Curve>,
    /// What stores count of their own work, but for their cycles.
    pub store: Vec<Panel>,
    /// When a store's own maintenance cycle ended: a checkpoint, a flush.
    pub cycles: Vec<Mark>,
    /// What the samplers read.
    pub host: Vec<Panel>,
    /// What the samplers read that was zero all the time and so is not in `host`: all of a subject, or some series.
    pub host_zero: Vec<String>,
}

/// A phase on the time axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    /// Start.
    pub start_s: f64,
    /// End.
    pub end_s: f64,
    /// Position of the trial in [`RunView::trials`].
    pub trial: usize,
    /// Short name of the trial.
    pub trial_name: String,
    /// Name of the phase.
    pub phase: String,
    /// Kind of the phase.
    pub kind: String,
    /// End of its warm-up, where it had one.
    pub warmup_end_s: Option<f64>,
}

/// Lines over one time axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// What it shows.
    pub name: String,
    /// Unit of all its lines.
    pub unit: String,
    /// Where the lines came from: a sampler's name, or `drive`.
    pub source: String,
    /// True when a line stands for a span (a slice): from its time to the next one's.
    pub steps: bool,
    /// True for the panels that are looked at first.
    pub primary: bool,
    /// Times.
    pub t_s: Vec<f64>,
    /// Lines; each has a value or `null` for each time.
    pub lines: Vec<Line>,
}

/// One line of a panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Name.
    pub name: String,
    /// Values in the panel's unit; `None` where there is none, or too few samples.
    pub values: Vec<Option<f64>>,
}

/// How many operations ended in which slice after how long. Sparse.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMap {
    /// Lower edges of the rows in seconds, ascending, and the upper edge of the last.
    pub edges_s: Vec<f64>,
    /// Start and end of the columns (slices).
    pub columns_s: Vec<(f64, f64)>,
    /// Column, row and count of the cells that are not empty.
    pub cells: Vec<(u32, u32, u64)>,
    /// Largest count of a cell.
    pub count_max: u64,
}

/// A percentile curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Short name of the trial.
    pub trial_name: String,
    /// Name of the phase.
    pub phase: String,
    /// Position in [`Plots::ops`].
    pub op: usize,
    /// Samples behind it.
    pub n: u64,
    /// Share of operations slower, as −log₁₀: 2 is p99. Ascending; ends where fewer than ten samples are above.
    pub nines: Vec<f64>,
    /// Latency in seconds.
    pub seconds: Vec<f64>,
}
