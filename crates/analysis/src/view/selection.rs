//! View of a part of a run beside the rest of its phases, and of quantities by their names.

use serde::Serialize;

/// A selection and its differences from the rest of the same phases. Times are on the run's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelectionView {
    /// [`crate::selection::FORMAT`].
    pub format: u32,
    /// The run's id.
    pub run: String,
    /// Comparison in one sentence: faults, actions and pauses first, then the largest difference.
    pub sentence: String,
    /// Beginning of the first selected slice.
    pub from_s: f64,
    /// End of the last selected slice.
    pub to_s: f64,
    /// Time that selected operations took longer than; `null` without such a limit.
    pub above_ns: Option<u64>,
    /// Trials and phases of the selected operations.
    pub places: Vec<String>,
    /// Selected operations.
    pub selected: u64,
    /// Other operations of these phases.
    pub others: u64,
    /// Seconds of the slices with selected operations.
    pub selected_seconds: f64,
    /// Seconds of the other slices.
    pub other_seconds: f64,
    /// Faults of the plan and actions on servers in these slices or in the slice before, each with its time.
    pub acts: Vec<String>,
    /// Entries of `acts` that began before these slices.
    pub acts_before: Vec<String>,
    /// Pauses of the machine in these slices; `null` if they were not observed.
    pub pauses: Option<SelectedPausesView>,
    /// Differences: large ones first, of these those that chance seldom makes, then by their effect.
    pub differences: Vec<DifferenceView>,
}

/// Pauses of the machine in the selected slices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelectedPausesView {
    /// Number of pauses.
    pub count: u64,
    /// Longest pause.
    pub longest_ns: u64,
    /// Selected operations that a pause disturbed.
    pub disturbed: u64,
    /// Share of the selected operations that a pause disturbed, in per cent.
    pub disturbed_percent: f64,
    /// Share of the others, in per cent.
    pub others_disturbed_percent: f64,
    /// Both in words, without a full stop.
    pub sentence: String,
}

plimsoll_core::words! {
    /// Subject of a difference.
    pub enum DifferenceOf {
        /// Share of operations: of a trial and phase, if there are several.
        Place = "phase",
        /// Share of operations: of an operation type.
        OperationType = "operation type",
        /// Share of operations: of a scenario.
        Scenario = "scenario",
        /// Share of operations: with an outcome.
        Outcome = "outcome",
        /// Share of answers: of a server.
        Server = "server",
        /// Median of the times of an operation type; only without a limit of time.
        Latency = "latency",
        /// Median of the times of a step within operations.
        Step = "step",
        /// Mean rate of the slices, and medians of operations in flight, operations that were due, and the generator's
        /// delay.
        Load = "load",
        /// Median of a sampled series; of counters and of a store's cycles, the mean.
        Series = "series",
    }
}

/// A share, a time or a series inside and outside of a selection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifferenceView {
    /// Subject of the difference.
    pub of: DifferenceOf,
    /// Name of the operation type, server, series and so on.
    pub name: String,
    /// Unit of both values; `%` for shares.
    pub unit: String,
    /// Value inside of the selection.
    pub inside: f64,
    /// Value outside.
    pub outside: f64,
    /// Inside divided by outside; `null` if the value outside is 0.
    pub ratio: Option<f64>,
    /// Observations inside: operations, times or samples.
    pub n_inside: u64,
    /// Observations outside.
    pub n_outside: u64,
    /// Effect from -1 to 1. For shares, the difference of both; for others, the probability that a value inside is
    /// larger than one outside, minus the probability that it is smaller (Cliff's delta).
    pub effect: f64,
    /// True if independent observations would differ so much by chance in less than 1 of 300 cases.
    pub clear: bool,
    /// Difference in words, without a full stop.
    pub text: String,
}

/// A quantity of a phase, or a figure of the plan, by its name in formulas and conditions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuantityView {
    /// Name: `mixed.p99`, `mixed.p99[op=read]`, or that of a figure.
    pub name: String,
    /// Name of the trials, without the number of a repeat: store and labels.
    pub trial: String,
    /// Name of the phase; empty for figures of the plan.
    pub phase: String,
    /// Name of the quantity: `p99`; of figures, that of the figure.
    pub quantity: String,
    /// Operation type; `null` for all together.
    pub op: Option<String>,
    /// Unit; empty for counts.
    pub unit: String,
    /// Value in `unit`, the median of repeats; `null` if there is none.
    pub value: Option<f64>,
    /// Value as text, or the reason that there is none.
    pub text: String,
    /// Observations behind it, of all repeats.
    pub n: u64,
    /// Repeats behind it.
    pub repeats: u64,
    /// Interval (95 %) of the value by its repeats; `null` with fewer than six. Of figures of the plan, also their own.
    pub interval: Option<(f64, f64)>,
    /// A late generator may have moved it.
    pub late: bool,
    /// The value is a lower bound: the outage that it is had not ended when observation ended.
    pub open: bool,
}
