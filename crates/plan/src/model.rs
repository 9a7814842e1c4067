//! The result of reading a plan: trials that are ready to run, with goals and figures.

use std::collections::BTreeMap;

use plimsoll_core::catalogue::LAB;
pub use plimsoll_core::pace::{
    Arrivals, Backoff, Breaker, Io, Pace, Rate, Retry, RetryScope, Stage, ThinkTime, WakeMode,
};
pub use plimsoll_core::study::{
    Agreement, AnswerSentence, Figure, Goal, GoalKind, PhaseKind, PublishedValue, RepeatsUntil, Worthless,
};
use plimsoll_core::{CutMoment, Durability, Mix, NodeChoice, Params, Script, ServerDescription, Survivors};
use serde::{Serialize, Serializer};

use crate::timeline::PlannedFault;
use crate::url::without_secrets;

/// A plan, checked and expanded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Name of the study, or of the file without its ending.
    pub name: String,
    /// Short description.
    pub title: String,
    /// The question of the plan; empty if there is none.
    pub question: String,
    /// Sentences of the answer.
    pub answers: Vec<AnswerSentence>,
    /// Circumstances that withhold the answer.
    pub worthless: Vec<Worthless>,
    /// Source of the published figures; empty if there is none.
    pub source: String,
    /// The trials, in the order in which they run.
    pub trials: Vec<PlannedTrial>,
    /// Combinations of the sweep that are impossible, and figures that need points which are not run, each with the
    /// reason.
    pub left_out: Vec<String>,
    /// Sentences for the first lines of progress and report: changes of the plan, and stores that cannot run here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Goals of every trial.
    pub goals: Vec<Goal>,
    /// Named numbers to derive from the results, per store.
    pub figures: Vec<Figure>,
    /// Samplers to read, by name.
    pub samplers: Vec<String>,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// Time-outs for servers.
    pub timeouts: Timeouts,
    /// Number of repeats of each point of the sweep; with `until` the most of them.
    pub repeats: u32,
    /// Condition that ends the repeats of a point early; `None` if all points have all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<RepeatsUntil>,
    /// State of the data at the start of a trial.
    pub start: Start,
    /// Processors that private servers are bound to; empty for no binding.
    pub server_pin: Vec<u32>,
    /// Directory for the data of private stores. `None` for the run's own directory, or for `/var/tmp` if a server's
    /// user cannot enter that.
    pub dir: Option<String>,
    /// Operations may change what an attached store held before.
    pub allow_writes: bool,
    /// Faults may run commands of the plan.
    pub allow_fault: bool,
    /// Most bytes that are kept of one answer; `None` for a limit derived from the workload.
    pub answer_max_bytes: Option<u64>,
    /// Search for the load line of each trial: its drive runs at one rate after the other.
    pub line: Option<LineSearch>,
    /// Seconds that the phases with a fixed duration take, without loads and questions.
    pub timed_s: f64,
}

/// Longest silence of servers in nanoseconds, except in phases with their own time-outs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// While a connection is opened and short requests are answered; and in the middle of any reply.
    pub setup_ns: u64,
    /// During an operation of a load, and while a record is read back.
    pub load_ns: u64,
    /// During a statement or command that creates, fills, maintains or removes something.
    pub work_ns: u64,
}

/// Bounds of a search for the load line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineSearch {
    /// First rate in operations per second; `None` measures the rate of a closed loop.
    pub from_per_s: Option<f64>,
    /// Lowest rate that is tried.
    pub least_per_s: f64,
    /// Highest rate that is tried.
    pub most_per_s: Option<f64>,
    /// Largest distance between the rate that is carried and the one that is not, as a share of the first.
    pub precision: f64,
    /// Time for the whole search, in nanoseconds.
    pub budget_ns: u64,
    /// Warm-up of each load step, in nanoseconds; `None` for one that depends on the load step's length.
    pub warmup_ns: Option<u64>,
    /// Deciding load steps always last a whole cycle of the store's maintenance.
    pub thorough: bool,
}

/// A point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedTrial {
    /// Position in the plan, from 0.
    pub ordinal: u32,
    /// The store.
    pub store: StoreUse,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Labels that distinguish the trial: `store`, and every swept key, with values as written.
    pub labels: BTreeMap<String, String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// The workload.
    pub workload: WorkloadUse,
    /// Sets out to break promises: a loss is a result and no failure.
    pub breaks: bool,
    /// The phases, in order.
    pub phases: Vec<PlannedPhase>,
}

impl PlannedTrial {
    /// Iterates over the driven phases, with their names.
    pub fn drives(&self) -> impl Iterator<Item = (&str, &Drive)> {
        self.phases.iter().filter_map(|phase| match &phase.step {
            PhaseStep::Drive(drive) => Some((phase.name.as_str(), drive)),
            _ => None,
        })
    }

    /// True if the trial has a load.
    pub fn loads(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.step, PhaseStep::Load { .. }))
    }

    /// True if the trial uses existing data of an attached store, without changes.
    pub fn takes_as_is(&self, start: Start) -> bool {
        !self.store.is_private() && start == Start::AsIs && !self.loads()
    }

    /// True if `other` works on the same data: the same store, workload and seed.
    pub fn has_same_data(&self, other: &PlannedTrial) -> bool {
        self.store == other.store && self.workload == other.workload && self.seed == other.seed
    }
}

fn shown_url<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(without_secrets).serialize(serializer)
}

/// A store as a plan uses it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreUse {
    /// Name of the kind of store.
    pub kind: String,
    /// Name in reports: the kind's name, or the URL's host for attached stores.
    pub label: String,
    /// URL of an attached store, without password, or `lab:NAME`; `None` for a private store. Recordings have no secret of it.
    #[serde(serialize_with = "shown_url")]
    pub url: Option<String>,
    /// The parameters, defaults filled in.
    pub params: Params,
    /// The plan's description of the server, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerDescription>,
}

impl StoreUse {
    /// Name of the lab, for a store in a lab.
    pub fn lab(&self) -> Option<&str> {
        self.url.as_deref()?.strip_prefix(LAB)
    }

    /// True if Plimsoll started its servers, for the run or for a lab, so that they hold no other data.
    pub fn is_ours(&self) -> bool {
        self.is_private() || self.lab().is_some()
    }

    /// True if its servers are started for the run, and end with it.
    pub fn is_private(&self) -> bool {
        self.url.is_none() || self.server.is_some()
    }
}

/// A workload as a plan uses it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadUse {
    /// Name of the workload.
    pub name: String,
    /// The parameters, defaults filled in.
    pub params: Params,
    /// The user's scripts, for a workload that takes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<Script>,
    /// Names of the parameters that the plan sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
}

/// A phase of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedPhase {
    /// Name in formulas and reports; unique in its trial.
    pub name: String,
    /// The phase's work.
    pub step: PhaseStep,
    /// `durability` was not set. If an attached server provides less than the default, the phase uses the server's
    /// settings unchanged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub durability_is_default: bool,
}

/// The work of a phase.
// A plan has few of them.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum PhaseStep {
    /// Creates the layout, inserts every record once, and syncs if the durability is `at-end`.
    Load {
        /// Records per operation.
        batch: u32,
        /// Clients that share the load.
        clients: u32,
        /// Durability of the inserts.
        durability: Durability,
    },
    /// Executes one operation type a number of times with one client, each timed by itself.
    Ask {
        /// Name of the operation type.
        op: String,
        /// Number of executions.
        count: u32,
        /// Longest time of an operation, in nanoseconds.
        op_timeout_ns: u64,
    },
    /// Drives a mixture of operations for a time or a number of operations.
    Drive(Drive),
    /// Runs the store's own maintenance.
    Settle,
    /// Makes the store cold.
    Cold,
    /// Stops and starts the store.
    Restart,
    /// Cuts the power of the disk, unless it has lost power already, and restores it: servers are killed, and started
    /// with the surviving data.
    Power {
        /// Un-flushed writes that survive; random ones have no seed yet.
        survivors: Survivors,
    },
    /// Reads everything back and compares it with the ledger; runs the store's own integrity check.
    Check,
}

impl PhaseStep {
    /// The kind of phase.
    pub fn kind(&self) -> PhaseKind {
        match self {
            PhaseStep::Load { .. } => PhaseKind::Load,
            PhaseStep::Ask { .. } => PhaseKind::Ask,
            PhaseStep::Drive(_) => PhaseKind::Drive,
            PhaseStep::Settle => PhaseKind::Settle,
            PhaseStep::Cold => PhaseKind::Cold,
            PhaseStep::Restart => PhaseKind::Restart,
            PhaseStep::Power { .. } => PhaseKind::Power,
            PhaseStep::Check => PhaseKind::Check,
        }
    }
}

/// A phase under load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drive {
    /// Number of clients, one session each.
    pub clients: u32,
    /// Operations in flight of each client, in one session (a pipeline).
    pub depth: u32,
    /// Worker threads that drive wire sessions.
    pub workers: u32,
    /// Hosts that the clients are spread over, by their workers in turn; `None` for the load host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_hosts: Option<u32>,
    /// Open loop: age of a due operation in nanoseconds at which the store does not carry the rate.
    pub backlog_ns: u64,
    /// Precision of the wake-up for a due operation.
    pub wake: WakeMode,
    /// Method of driving the sockets of wire sessions.
    pub io: Io,
    /// Processors that workers are pinned to, one after the other; empty for no pinning.
    pub pin: Vec<u32>,
    /// Shares of the operation types.
    pub mix: Mix,
    /// Closed or open loop.
    pub pace: Pace,
    /// Closed loop: think time after an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTime>,
    /// Closed loop: number of clients over time; empty for a constant number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Operations after which a client closes its connection and opens another; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect: Option<u32>,
    /// Time-out for a connection that is opened again, in nanoseconds; `None` for the plan's `setup_timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ns: Option<u64>,
    /// Wait before a lost connection is opened again; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Repetition of failed operations; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Circuit breaker of each client; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
    /// Warm-up in nanoseconds, which counts for nothing; in addition to `limit`.
    pub warmup_ns: u64,
    /// The warm-up is found from the slices, within `limit`.
    pub warmup_is_found: bool,
    /// Clients with operations and a pace of their own, starting with the lowest client numbers; `mix`, `pace`,
    /// `clients` and `workers` cover all together. Empty if all clients do the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
    /// Faults of the store's servers and disk during the drive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlannedFault>,
    /// End of the phase.
    pub limit: DriveLimit,
    /// Longest measured time until `limit` nanoseconds passed without a pause of the machine; `None` ends the phase
    /// after `limit`, regardless of pauses. Set for load steps of a search; no key of a plan sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undisturbed_within_ns: Option<u64>,
    /// Durability of the writes.
    pub durability: Durability,
    /// Longest time of an operation, in nanoseconds.
    pub op_timeout_ns: u64,
    /// Most operations that are recorded one by one, the first ones after the warm-up; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_operations: Option<u32>,
    /// Moment at which the disk loses power, which ends the phase; counted from the phase's beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cut: Option<CutMoment>,
    /// Nodes of a cluster that lose power then.
    #[serde(skip_serializing_if = "NodeChoice::is_all")]
    pub power_node: NodeChoice,
}

/// Clients of a drive that do the same, beside others with other operations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// Prefix of the names of its operation types: `readers/read`.
    pub name: String,
    /// Number of clients.
    pub clients: u32,
    /// Worker threads for its wire sessions.
    pub workers: u32,
    /// Shares of the operation types.
    pub mix: Mix,
    /// Closed or open loop.
    pub pace: Pace,
    /// Closed loop: think time after an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTime>,
}

impl Drive {
    /// The stages of the load, of rates or of clients, whose lengths sum up to the phase's; empty for a load without
    /// stages.
    pub fn all_stages(&self) -> &[Stage] {
        match self.pace.rate() {
            Some(Rate::Stages(stages)) => stages,
            _ => &self.stages,
        }
    }
}

plimsoll_core::words! {
    /// State of the data at the start of a trial.
    pub enum Start {
        /// Loaded again.
        Fresh = "fresh",
        /// As the previous trial left it, after the store's own maintenance.
        Settled = "settled",
        /// As the previous trial left it.
        AsIs = "as-is",
    }
}

/// End of a driven phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveLimit {
    /// After this many nanoseconds.
    DurationNs(u64),
    /// After this many operations of every client.
    OpsPerClient(u64),
}
