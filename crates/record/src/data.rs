//! A recording as plain data: what the writer is given and the reader gives back.
//!
//! `analysis` works on these types and never opens a file. Times named `_ns` are nanoseconds since the
//! run's start on CLOCK_MONOTONIC unless the name says `wall`.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::pace::Stage;
pub use plimsoll_core::study::{
    Agreement, AnswerSentence, Figure, Goal, GoalKind, PhaseKind, PublishedValue, RepeatsUntil, Worthless,
};
use plimsoll_core::{Durability, FailoverTime, OpKind, Setting, Slice};
pub use plimsoll_core::{Series, SeriesKind};
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
pub use crate::fault::{FaultDetail, FaultKind, FaultSpan};
pub use crate::operations::{Operation, Operations};
pub use crate::outline::{AbMetric, AbRule, AbSpec, Cell, LineSpec, Outline, Purpose};
pub use crate::phase_end::{About, Asked, PhaseEnd, PhaseResult, PhaseState, ResultName};

/// Facts known at the start of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Sentences of the plan's answer.
    #[serde(default)]
    pub answers: Vec<AnswerSentence>,
    /// Circumstances that withhold the answer.
    #[serde(default)]
    pub worthless: Vec<Worthless>,
    /// Source of its published figures.
    pub source: String,
    /// The plan as it was given, TOML.
    pub plan_text: String,
    /// The plan as it was expanded, JSON: for people, nothing is derived from it.
    #[serde(skip)]
    pub plan_json: String,
    /// Outline of the plan's trials.
    pub outline: Outline,
    /// The command line, without credentials.
    pub command_line: Vec<String>,
    /// The user's word for it; empty without one.
    #[serde(default)]
    pub tag: String,
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
    /// Sentences for the first lines of reports: changes of the plan, and stores that could not run.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Goals of the plan.
    pub goals: Vec<Goal>,
    /// Figures that are wanted.
    pub figures: Vec<Figure>,
}

/// A trial when it starts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialHeader {
    /// Position in the plan.
    pub ordinal: u32,
    /// Name of the kind of store.
    pub store: String,
    /// Name of the store in reports.
    pub store_label: String,
    /// Address of the store, without credentials.
    pub place: String,
    /// Version that the store reports.
    pub version: String,
    /// Settings that differ from its defaults.
    pub settings: Vec<Setting>,
    /// Published formula of failover, with the time-outs of the servers; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_time: Option<FailoverTime>,
    /// Settings that make maintenance cycles rarer, by the counter of the cycles: `postgres.checkpoint_timeout=3600s`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rarer_cycles: BTreeMap<String, String>,
    /// The store is private, and a drive's writes may be `buffered` instead of `durable`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_buffer: bool,
    /// Name of the workload.
    pub workload: String,
    /// The workload's and the store's parameters, for display.
    pub params: BTreeMap<String, String>,
    /// Labels that distinguish the trial from the plan's others.
    pub labels: BTreeMap<String, String>,
    /// The plan sets out to break promises in it: a loss is a result and no failure.
    #[serde(default)]
    pub breaks: bool,
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseHeader {
    /// Position of its trial in the plan.
    pub trial: u32,
    /// Position in its trial.
    pub ordinal: u32,
    /// Name in formulas and reports.
    pub name: String,
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// Purpose of a rung of a search for the load line.
    pub rung: Option<Purpose>,
    /// Failures that an acknowledged write survives; `None` for phases that write nothing.
    pub durability: Option<Durability>,
    /// Clients; 0 where none are at work.
    pub clients: u32,
    /// Threads that drive wire sessions; 0 where nothing is driven.
    pub workers: u32,
    /// Scheduled operations a second; `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// The stages of a load that changes: of a rate, or of clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Time-out of an operation; `None` where nothing is driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_timeout_ns: Option<u64>,
    /// Time-out for opening a connection again; `None` where nothing is driven, and in earlier recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ns: Option<u64>,
    /// The plan leaves it to be found in the slices what counts for nothing at the start.
    pub finds_warmup: bool,
    /// Start.
    pub start_ns: u64,
}

/// Names of disagreements of a [`LedgerCheck`] that others than the ledger have to know: the store did not start again.
pub const DID_NOT_START: &str = "did_not_start";
/// Records that show what had been overwritten or deleted, and had been seen to be.
pub const RESURRECTED: &str = "resurrected";
/// Failure of the store's own integrity check.
pub const INTEGRITY: &str = "integrity";

plimsoll_core::words! {
    /// Severity of an event.
    pub enum Level {
        /// Information.
        Info = "info",
        /// The event may have affected measurements.
        Warning = "warning",
        /// A part of the run failed.
        Error = "error",
    }
}

plimsoll_core::words! {
    /// Subject of an event.
    pub enum EventClass {
        /// The store, or where it stands.
        Store = "store",
        /// The load generator.
        Drive = "drive",
        /// An error that operations ended with.
        ErrorCode = "error-code",
        /// Failure to read a sampler.
        Sampler = "sampler",
        /// The witness of the machine's pauses.
        Witness = "witness",
        /// Limitation of the ledger.
        Ledger = "ledger",
        /// Action on the store's servers by their lab itself, or by the plan.
        Servers = "servers",
        /// Command for the lab of the store's servers.
        Command = "command",
    }
}

impl EventClass {
    /// Returns true for actions on the store's servers.
    pub fn is_action(self) -> bool {
        matches!(self, EventClass::Servers | EventClass::Command)
    }

    /// Returns the class of an event that was recorded with this class and text: earlier versions gave commands for labs
    /// that of other actions on servers.
    pub(crate) fn of_recorded(self, text: &str) -> Self {
        let is_command = self == EventClass::Servers && text.starts_with("lab ");
        if is_command { EventClass::Command } else { self }
    }
}

/// Mark on the time axis: a point, or a span of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Time of the event, or of its beginning.
    pub from_ns: u64,
    /// End of the event; equal to `from_ns` for a point.
    pub until_ns: u64,
    /// The trial it belongs to, if any.
    pub trial: Option<u32>,
    /// Severity of the event.
    pub level: Level,
    /// Subject of the event.
    pub class: EventClass,
    /// Subject within the class: a store, a sampler, an error's code; may be empty.
    pub subject: String,
    /// Description of the event, in plain words.
    pub text: String,
}

/// Answers, and the records in them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct AnswerCounts {
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
    /// Records among the wrong ones that were stale; 0 in earlier recordings.
    #[serde(default)]
    pub stale_records: u64,
}

/// Comparison of a phase's answers with the truth.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AnswerCheck {
    /// Position of the trial in the plan.
    pub trial: u32,
    /// Position of the phase in the trial.
    pub phase: u32,
    /// Name of the kind of operation.
    pub op: String,
    /// Counts of answers, and of the errors in them.
    #[serde(flatten)]
    pub counts: AnswerCounts,
    /// A few of both, in plain words.
    pub examples: Vec<String>,
    /// Stale records by time and server; not in earlier recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<StaleReads>,
    /// Further copies of records within one answer, by time; not in earlier recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<DuplicateReads>,
}

/// Further copies of records within one answer, in answers that came within one span, as [`UnknownWrites`] have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DuplicateReads {
    /// Start of the span on the run's clock.
    pub at_ns: u64,
    /// Number of copies.
    pub records: u64,
}

/// Stale records in the answers of a server that came within one span, as [`UnknownWrites`] have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StaleReads {
    /// Start of the span on the run's clock.
    pub at_ns: u64,
    /// Name of the server; empty if operations went to one, or too many to tell them apart.
    pub server: String,
    /// Number of records.
    pub records: u64,
}

/// Result of the ledger after everything was read back.
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
    /// Writes whose outcome is unknown.
    pub unknown: u64,
    /// Records read back.
    pub read_back: u64,
    /// Records that could not be read, so that nothing is known of their writes; not in earlier recordings.
    #[serde(default)]
    pub unread: u64,
    /// Acknowledged writes that are not there, of the records that were read.
    pub lost: u64,
    /// Records that were read before a power cut in a state that was never acknowledged, and is gone; not in earlier
    /// recordings.
    #[serde(default)]
    pub read_then_lost: u64,
    /// Times of the first and the last acknowledgement of a lost write.
    pub lost_window_ns: Option<(u64, u64)>,
    /// Lost writes by the time of their acknowledgement, in its order, without those whose time is not known; not in
    /// earlier recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_writes: Vec<LostWrites>,
    /// Fates of the writes of unknown outcome, in the order of the times at which they were given up; not in earlier
    /// recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_writes: Vec<UnknownWrites>,
    /// Every other disagreement, by its name: `duplicated`, `resurrected`, `alien`, `wrong_content`, `index_disagrees`.
    pub wrong: BTreeMap<String, u64>,
    /// Upper bound (95 %) of the share of writes lost, if nothing was lost (3 / n).
    pub loss_upper_bound: Option<f64>,
    /// False if the ledger could not keep up, or some records could not be read: it does not vouch for all.
    pub complete: bool,
    /// A few disagreements, in plain words.
    pub examples: Vec<String>,
    /// Conclusion in one sentence.
    pub sentence: String,
}

/// Fates of writes of unknown outcome that were given up within one span, as the check found them. A span is one or more
/// ticks of one phase: it begins and ends where a fault begins or ends, or sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnknownWrites {
    /// Start of the span on the run's clock: a multiple of the tick's length, 10 ms.
    pub at_ns: u64,
    /// Writes that an answer or the records read back have shown.
    pub written: u64,
    /// Writes that had not happened when the records were read.
    pub not_written: u64,
    /// Writes of which neither is known: overwritten, repeated, of a record that could not be read, or after the first
    /// million of the trial.
    pub not_known: u64,
}

/// Lost writes that were acknowledged within one span, as [`UnknownWrites`] have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LostWrites {
    /// Start of the span on the run's clock.
    pub at_ns: u64,
    /// Number of writes, counted by record.
    pub writes: u64,
}

/// State at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not ended: the program died.
    #[default]
    Unfinished,
    /// Not ended: the program still writes the recording, which never contains this state.
    Running,
    /// Ended as planned.
    Complete,
    /// Stopped by the user.
    Interrupted,
    /// Ended with this error.
    Failed(String),
}

/// A run when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    /// State at the end.
    pub(crate) state: RunState,
    /// Time of the end.
    pub(crate) end_ns: u64,
}

/// Values of one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Time of the reading.
    pub at_ns: u64,
    /// Series (position in [`Run::series`]) and value.
    pub values: Vec<(u32, f64)>,
    /// Series and how long each of what happened took.
    pub distributions: Vec<(u32, Distribution)>,
}

impl Sample {
    /// The value of the series at this position.
    pub fn value(&self, series: usize) -> Option<f64> {
        self.values.iter().find(|(position, _)| *position as usize == series).map(|(_, value)| *value)
    }
}

/// A phase, read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Phase {
    /// Header, written at the start.
    pub header: PhaseHeader,
    /// End of the phase.
    pub end: PhaseEnd,
    /// Slices of the phase, with packed histograms: an hour of dense ones would be gigabytes.
    pub slices: Vec<Slice<Distribution>>,
    /// Operations one by one, if they were kept (`keep_operations`).
    pub operations: Option<Operations>,
}

/// A trial, read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trial {
    /// Header, written at the start.
    pub header: TrialHeader,
    /// End; `None` when the program died in it.
    pub end_ns: Option<u64>,
    /// Phases of the trial.
    pub phases: Vec<Phase>,
    /// Answers of the trial, compared with the truth.
    pub answers: Vec<AnswerCheck>,
    /// Ledger of the trial; one entry for each `check` phase.
    pub ledgers: Vec<LedgerCheck>,
    /// Faults of the trial, in the order in which they began.
    pub faults: Vec<FaultSpan>,
}

/// A whole run, read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// Header, written at the start.
    pub header: RunHeader,
    /// State at the end of the run.
    pub state: RunState,
    /// Time of the end; `None` when the program died.
    pub end_ns: Option<u64>,
    /// Trials of the run.
    pub trials: Vec<Trial>,
    /// All series of which something was read. Samples name them by position.
    pub series: Vec<Series>,
    /// Samples, in time order.
    pub samples: Vec<Sample>,
    /// Fine readings, in time order: around faults, of some of the series, besides `samples`. Each value covers the time
    /// since the fine reading before. They have no distributions.
    pub fine_samples: Vec<Sample>,
    /// Events, in time order.
    pub events: Vec<Event>,
    /// Bytes written by the recorder itself, to distinguish them from the store's own.
    pub recorder_bytes: u64,
}

impl Run {
    /// Iterates over the faults of all trials.
    pub fn faults(&self) -> impl Iterator<Item = &FaultSpan> {
        self.trials.iter().flat_map(|trial| &trial.faults)
    }

    /// Labels of the stores, in the order of their first trial.
    pub fn stores(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let labels = self.trials.iter().map(|trial| &trial.header.store_label);
        labels.filter(|label| known.insert(*label)).cloned().collect()
    }
}
