//! The types of a view: what `report` is handed, and the shape of its JSON.
//!
//! Names carry their units. A missing number is `None` (`null` in JSON) and something beside it says why.
//! The shape is versioned by [`FORMAT`]: fields may be added within a version, none is renamed or removed.

use std::collections::BTreeMap;

pub use plimsoll_record::data::{EventClass, FaultKind, GoalKind, Level, PhaseKind, Purpose, ResultName};
use serde::Serialize;

mod ab;
mod answer;
mod compared;
mod condensed;
mod disk_fault;
mod fault;
mod finding;
mod line;
mod plots;
mod promise;
mod selection;
mod summary;
mod sweep;
mod trial;

pub use self::ab::*;
pub use self::answer::*;
pub use self::compared::*;
pub use self::disk_fault::*;
pub use self::fault::*;
pub use self::finding::*;
pub use self::line::*;
pub use self::plots::*;
pub use self::promise::*;
pub use self::selection::*;
pub use self::summary::*;
pub use self::sweep::*;
pub use self::trial::*;

/// Version of the view's shape.
pub const FORMAT: u32 = 1;

/// Contents of a report of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView {
    /// [`FORMAT`].
    pub format: u32,
    /// Answer to the plan's question; `null` for plans without one.
    pub answer: Option<StudyAnswer>,
    /// Results: a line for each driven phase, or for a combination of many.
    pub summary: Vec<SummaryView>,
    /// The verdict.
    pub verdict: Verdict,
    /// Sentences before everything else: changes of the plan, and stores that could not run.
    pub notices: Vec<String>,
    /// Subject of the run, its time and its program.
    pub run: RunFacts,
    /// Goals, and their results.
    pub goals: Vec<GoalView>,
    /// Labels of the stores, in the order of their first trial. Columns of tables by store.
    pub stores: Vec<String>,
    /// The figures to show large: those with a published value that compare like with like (unit `×`).
    pub headlines: Vec<Headline>,
    /// Named figures beside the published ones.
    pub figures: Vec<FigureView>,
    /// The searches for the load line, one for each store; empty for runs that did not search.
    pub lines: Vec<LineView>,
    /// Promises of stores whose disk lost power; empty if no disk did.
    pub promises: Vec<PromiseView>,
    /// Settings with which data was lost or wrong, in no trial that kept everything: `disk_flushes=ignored`. A phrase
    /// for each store if no setting separates all trials; empty if nothing broke, or nothing was kept.
    pub broken_with: Vec<String>,
    /// Consequences of disk faults; empty without any.
    pub disk_faults: Vec<DiskFaultView>,
    /// Faults of the plan and their effects on clients, in time order.
    pub faults: Vec<FaultView>,
    /// Spread of the effects of faults that were repeated.
    pub fault_repeats: Vec<FaultRepeatsView>,
    /// Lost writes of trials with faults, by the time of their acknowledgement; empty if nothing was lost.
    pub fault_losses: Vec<FaultLossView>,
    /// Published formulas of failover, with the failovers beside them; empty without faults of a primary.
    pub formulas: Vec<FormulaView>,
    /// Two sides in turn; `null` for runs that compared none.
    pub ab: Option<AbView>,
    /// Sentence that every answer of searches and comparisons in turn was right and nothing was lost, in all trials;
    /// `null` if that is not so, was not checked, or nothing was searched or compared.
    pub truth: Option<String>,
    /// Causes of slow moments, phase by phase; likeliest first.
    pub findings: Vec<FindingView>,
    /// Seconds in which a phase did much less than in its others, with the actions in them.
    pub stalls: Vec<StallsView>,
    /// Seconds in which operations of a phase took much longer than in its others.
    pub peaks: Vec<PeaksView>,
    /// Sweeps: throughput at every point; empty where nothing but stores was swept.
    pub sweeps: Vec<SweepView>,
    /// The durabilities of phases that write: name of the phase, durability. Equal for all trials unless it says so.
    pub durability: Vec<Named>,
    /// The trials that were begun.
    pub trials: Vec<TrialView>,
    /// Combinations of the sweep that do not exist, each with its reason.
    pub left_out: Vec<String>,
    /// Warnings about the result.
    pub warnings: Vec<Warning>,
    /// Delay of the generator, and the numbers that it may have changed; `null` without one. Such numbers are marked
    /// in their texts and have `late` set.
    pub late: Option<Warning>,
    /// Events, in time order.
    pub events: Vec<EventView>,
    /// The machine.
    pub environment: Vec<Named>,
    /// Plots on the time axis, and percentile curves.
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

/// Subject of a run, its time and its program.
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
    /// First line of [`RunView::answer`]; empty if the plan has no answer.
    pub answer: String,
    /// Source of the published figures; may be empty.
    pub source: String,
    /// Plimsoll's version.
    pub plimsoll_version: String,
    /// Wall time of the start, nanoseconds since 1970.
    pub started_wall_ns: i64,
    /// Start as text, UTC: `2026-11-21 20:41:07 UTC`.
    pub started: String,
    /// Length of the run, up to the last thing that was recorded.
    pub seconds: f64,
    /// State at the end of the run.
    pub state: EndState,
    /// The error of a failed run.
    pub error: Option<String>,
    /// The command line, without credentials.
    pub command_line: Vec<String>,
    /// The user's word for it; empty without one.
    pub tag: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Length of a slice.
    pub slice_seconds: f64,
    /// The plan as it was given, TOML.
    pub plan_text: String,
    /// Bytes that the recorder itself wrote during the run.
    pub recorder_bytes: u64,
}

plimsoll_core::words! {
    /// State at the end of a run, a trial or a phase.
    pub enum EndState {
        /// Ended as planned.
        Complete = "complete",
        /// The user wanted an end.
        Interrupted = "interrupted",
        /// Ended with an error.
        Failed = "failed",
        /// The trial or phase is void. A run is never void.
        Void = "void",
        /// The program died in it.
        Killed = "killed",
        /// Not ended yet: the program still runs.
        Running = "running",
    }
}

/// State of the promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictState {
    /// All trials ran, every goal held, no answer was wrong and no write was lost.
    Pass,
    /// All trials ran. No goal was set, and no answer or write was checked, except in trials that set out to break
    /// promises.
    Measured,
    /// A goal was missed, an answer was wrong, or an acknowledged write was lost.
    Fail,
    /// No violation was seen, but not everything was seen.
    Incomplete,
    /// No violation was seen and everything was seen, but the result is not conclusive.
    Undecided,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Decides the exit code: `pass` and `measured` are 0, `undecided` is 11, the others are 1.
    pub state: VerdictState,
    /// Verdict in one sentence.
    pub sentence: String,
    /// Reasons when it is neither `pass` nor `measured`: one sentence each, worst first.
    pub reasons: Vec<String>,
}

/// State of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalState {
    /// Held in every trial it applies to.
    Held,
    /// Missed somewhere, where it cannot be told whether it was the store that missed it, or about a store that could
    /// not be read, or a fault that was not observed; missed nowhere else.
    Undecided,
    /// Not measured in every trial; missed in none.
    NotMeasured,
    /// Missed in at least one trial.
    Missed,
}

/// A goal and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GoalView {
    /// Quantity that the goal limits.
    pub what: GoalKind,
    /// Operation type or step, of `status` the code; `None` for all together.
    pub of: Option<String>,
    /// Quantity that the goal limits, in words.
    pub text: String,
    /// The limit as text with its relation: `≤ 20 ms`.
    pub wanted: String,
    /// The limit in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
    /// The worst of all trials, in `unit`.
    pub got: Option<f64>,
    /// Value as text.
    pub got_text: String,
    /// Observations behind it, all trials together.
    pub n: u64,
    /// State of the goal.
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
    /// Value as text, or the reason that there is none.
    pub got_text: String,
    /// Reason that the goal is undecided, or the value in doubt: the delay of the generator, or a fault that was not
    /// observed.
    pub late: Option<String>,
    /// Observations behind it.
    pub n: u64,
    /// State of the goal in this trial.
    pub state: GoalState,
}

/// A figure that is shown large.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    /// Name of the figure.
    pub name: String,
    /// Dividend and divisor of a ratio in words, and which of them is better above 1; `None` for other formulas.
    pub direction: Option<String>,
    /// Label of the store and value as text, where there is one.
    pub values: Vec<Named>,
    /// Published values: what they were measured on and value as text.
    pub published: Vec<Named>,
}

/// A named figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureView {
    /// Name of the figure.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// Dividend and divisor of a ratio in words, and which of them is better above 1; `None` for other formulas.
    pub direction: Option<String>,
    /// Formula over phase results.
    pub formula: String,
    /// Published values for the whole figure.
    pub published: Vec<PublishedView>,
    /// Rows, one for each point of the sweep's dimensions that the formula leaves open; one row if it leaves none.
    pub rows: Vec<FigureRow>,
}

impl FigureView {
    /// Returns true if any published value exists.
    pub fn has_published(&self) -> bool {
        !self.published.is_empty() || self.rows.iter().any(|row| !row.published.is_empty())
    }
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedView {
    /// Value in the figure's unit.
    pub value: f64,
    /// Value as text.
    pub text: String,
    /// System that it was measured on.
    pub of: String,
}

/// A figure at one point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureRow {
    /// Labels that the formula leaves open, without the store.
    pub labels: BTreeMap<String, String>,
    /// Published values for this point.
    pub published: Vec<PublishedView>,
    /// Cells, one for each of [`RunView::stores`], in their order.
    pub cells: Vec<FigureCell>,
}

/// A figure of one store.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FigureCell {
    /// Label of the store.
    pub store: String,
    /// Value in the figure's unit.
    pub value: Option<f64>,
    /// Value as text; `–` when there is none.
    pub text: String,
    /// A late generator may have moved it.
    pub late: bool,
    /// The value is a lower bound: the outage that it is had not ended when observation ended.
    pub open: bool,
    /// True if it is calculated from an outage that had not ended.
    #[serde(skip)]
    pub is_of_open: bool,
    /// The fewest observations behind any of its terms.
    pub n: u64,
    /// The fewest repeats of any of its terms.
    pub repeats: u64,
    /// Interval (95 %) of the value, by its repeats or samples, or their range if there are fewer than six; `null` for
    /// one measurement and for counts that agree.
    pub interval: Option<(f64, f64)>,
    /// Values that it may have in truth: the interval, or of one measurement some per cent around it. Their end is
    /// infinite if an outage had not ended.
    #[serde(skip)]
    pub bounds: Option<(f64, f64)>,
    /// Measurement by itself that may be noise: `one load of 412 ms`.
    pub doubt: Option<String>,
    /// Reason that the value is missing.
    pub missing: Option<String>,
    /// True if that is a trial that was not run.
    #[serde(skip)]
    pub is_not_run: bool,
}

/// Circumstance that makes the result less certain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warning {
    /// Observation, with its numbers.
    pub text: String,
    /// Next step for the user.
    pub next: String,
}

/// Event of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventView {
    /// Time of the event, on the run's clock.
    pub at_s: f64,
    /// End of the event; equal to `at_s` for a point.
    pub until_s: f64,
    /// Name of the trial, if any.
    pub trial: Option<String>,
    /// Severity of the event.
    pub level: Level,
    /// Subject of the event.
    pub kind: EventClass,
    /// Subject within the class; may be empty.
    pub subject: String,
    /// Description of the event.
    pub text: String,
}
