//! What a plan comes to once it is read: trials, ready to run, and what is wanted of them.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::catalogue::LAB;
use plimsoll_core::fault::Fault;
pub use plimsoll_core::pace::{Arrivals, Io, Pace, Rate, Stage, Think, Wake};
pub use plimsoll_core::study::{Figure, Goal, GoalKind, PhaseKind, Published};
use plimsoll_core::{CutAt, Described, Durability, Mix, Params, PowerNode, Script, Survivors};
use serde::Serialize;

/// A plan, checked and expanded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Name of the study, or of the file without its ending.
    pub name: String,
    /// One line that says what it is about.
    pub title: String,
    /// The question it answers; empty when the plan asks none.
    pub question: String,
    /// The answer, with names of figures in braces; empty when the plan has none.
    pub answer: String,
    /// Where its published figures come from; empty when it has none.
    pub source: String,
    /// The trials, in the order in which they run.
    pub trials: Vec<Trial>,
    /// Combinations that the sweep names and that cannot be, each with the reason.
    pub left_out: Vec<String>,
    /// What every trial has to keep.
    pub goals: Vec<Goal>,
    /// Named numbers that are wanted of the results, per store.
    pub figures: Vec<Figure>,
    /// Samplers to read, by name.
    pub samplers: Vec<String>,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// How long servers may be silent.
    pub timeouts: Timeouts,
    /// How often each point of the sweep is run.
    pub repeats: u32,
    /// What trials start from.
    pub start: Start,
    /// Processors that a server of our own is bound to; none: it runs where the system puts it.
    pub server_pin: Vec<u32>,
    /// The directory in which stores of the run's own keep their data; none: that of the run, or where a server's user cannot
    /// enter that, `/var/tmp`.
    pub dir: Option<String>,
    /// Operations may change what an attached store held before.
    pub allow_writes: bool,
    /// Most bytes that are kept of one answer; `None` leaves it to the workload.
    pub answer_max_bytes: Option<u64>,
    /// The load line of each trial is searched for: its drive is held at one rate after the other.
    pub line: Option<LineSearch>,
    /// Seconds that the phases with a given duration take. Loads and questions come on top.
    pub timed_s: f64,
}

/// How long servers may be silent, in nanoseconds, outside of the phases that say it themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// While they are connected to, greeted and asked what they know at once; and in the middle of an answer.
    pub setup_ns: u64,
    /// Over an operation of a load, and over a record that is read back.
    pub load_ns: u64,
    /// Over a statement or command that makes, fills, tidies or removes something.
    pub work_ns: u64,
}

/// The bounds of a search for the load line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineSearch {
    /// Operations a second to start from; `None` measures what a closed loop reaches.
    pub from_per_s: Option<f64>,
    /// Lowest rate that is tried.
    pub least_per_s: Option<f64>,
    /// Highest rate that is tried.
    pub most_per_s: Option<f64>,
    /// Half of the line's 95 % interval that may stay, as a share of it.
    pub precision: f64,
    /// Time for everything, in nanoseconds.
    pub budget_ns: u64,
    /// Warm-up of each rung, in nanoseconds.
    pub warmup_ns: u64,
    /// What decides lasts through a whole cycle of the store's maintenance in any case.
    pub thorough: bool,
}

/// One point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Position in the plan, from 0.
    pub ordinal: u32,
    /// The store.
    pub store: StoreUse,
    /// Which time this is that the point is run, from 0.
    pub repeat: u32,
    /// What makes it differ from the plan's other trials: `store`, and every swept key, with values as written.
    pub labels: BTreeMap<String, String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// The workload.
    pub workload: WorkloadUse,
    /// What is done, in order.
    pub phases: Vec<PlannedPhase>,
}

impl Trial {
    /// Its driven phases, with their names.
    pub fn drives(&self) -> impl Iterator<Item = (&str, &Drive)> {
        self.phases.iter().filter_map(|phase| match &phase.step {
            Step::Drive(drive) => Some((phase.name.as_str(), drive)),
            _ => None,
        })
    }

    /// Whether it has a load.
    pub fn loads(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.step, Step::Load { .. }))
    }

    /// Whether it works on what somebody else has made: in a store that it attaches to, as it is.
    pub fn takes_as_is(&self, start: Start) -> bool {
        !self.store.is_private() && start == Start::AsIs && !self.loads()
    }

    /// Whether `other` works on the same data: the same store, workload and seed.
    pub fn has_same_data(&self, other: &Trial) -> bool {
        self.store == other.store && self.workload == other.workload && self.seed == other.seed
    }
}

/// A store as a plan uses it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreUse {
    /// Name of the kind of store.
    pub kind: String,
    /// How reports call it: the kind's name, or the URL's host for attached ones.
    pub label: String,
    /// The URL of a running one, without password, or `lab:NAME`; `None` for one of our own.
    pub url: Option<String>,
    /// Its parameters, defaults filled in.
    pub params: Params,
    /// How its server is made, where the plan describes that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Described>,
}

impl StoreUse {
    /// The lab that it is in.
    pub fn lab(&self) -> Option<&str> {
        self.url.as_deref()?.strip_prefix(LAB)
    }

    /// Its servers are our own: nobody else has data there.
    pub fn is_ours(&self) -> bool {
        self.is_private() || self.lab().is_some()
    }

    /// Its servers are started for the run, and end with it.
    pub fn is_private(&self) -> bool {
        self.url.is_none() || self.server.is_some()
    }
}

/// A workload as a plan uses it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadUse {
    /// Its name.
    pub name: String,
    /// Its parameters, defaults filled in.
    pub params: Params,
    /// The user's own scripts, for a workload that takes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<Script>,
    /// Names of the parameters that the plan gives a value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
}

/// One step of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedPhase {
    /// Name in formulas and reports; unique in its trial.
    pub name: String,
    /// What is done.
    pub step: Step,
    /// Nobody said how durable its writes are to be. Where a server of somebody else's keeps less than the default promises,
    /// its settings are taken as they are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub durability_is_default: bool,
}

/// What a phase does.
// A plan has few of them.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// Makes the layout, inserts every record once, and syncs where the durability is `at-end`.
    Load {
        /// Records to an operation.
        batch: u32,
        /// Clients that share the load.
        clients: u32,
        /// What an acknowledged insert survives.
        durability: Durability,
    },
    /// Asks one kind of operation a number of times, one client, each timed by itself.
    Ask {
        /// Name of the kind.
        op: String,
        /// How often.
        count: u32,
        /// Longest an operation may take, in nanoseconds.
        op_timeout_ns: u64,
    },
    /// Drives a mixture of operations for a time or a number of operations.
    Drive(Drive),
    /// The store's own tidying.
    Settle,
    /// Makes the store cold.
    Cold,
    /// Stops and starts it.
    Restart,
    /// The disk loses power where it has not done so already, and has it again: servers are killed, and started on what is
    /// left.
    Power {
        /// What is left of writes that were not flushed; those that go by lot have no seed yet.
        survivors: Survivors,
    },
    /// Reads everything back and holds it against the ledger; runs the store's own integrity check.
    Check,
}

impl Step {
    /// Which kind of phase that is.
    pub fn kind(&self) -> PhaseKind {
        match self {
            Step::Load { .. } => PhaseKind::Load,
            Step::Ask { .. } => PhaseKind::Ask,
            Step::Drive(_) => PhaseKind::Drive,
            Step::Settle => PhaseKind::Settle,
            Step::Cold => PhaseKind::Cold,
            Step::Restart => PhaseKind::Restart,
            Step::Power { .. } => PhaseKind::Power,
            Step::Check => PhaseKind::Check,
        }
    }
}

/// A phase under load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drive {
    /// Number of clients, one session each.
    pub clients: u32,
    /// Operations that each client has under way at once, in one session (a pipeline).
    pub depth: u32,
    /// Worker threads that drive wire sessions.
    pub workers: u32,
    /// Open loop: how long an operation may have been due before the store is said not to carry the rate, in
    /// nanoseconds.
    pub backlog_ns: u64,
    /// How exactly workers wake up for what is due.
    pub wake: Wake,
    /// How wire sessions' sockets are driven.
    pub io: Io,
    /// Processors that workers are pinned to, one after the other; none are when it is empty.
    pub pin: Vec<u32>,
    /// Shares of the kinds of operation.
    pub mix: Mix,
    /// Closed or open loop.
    pub pace: Pace,
    /// Closed loop: how long clients wait after an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Closed loop: clients over time; none: all of them all the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Operations after which a client's connection is closed and another begun; none: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect: Option<u32>,
    /// Time at the start that counts for nothing, in nanoseconds; on top of `limit`.
    pub warmup_ns: u64,
    /// What counts for nothing at the start is found in the slices, within `limit`.
    pub warmup_is_found: bool,
    /// Clients with operations and a pace of their own, those of the lowest numbers first; `mix`, `pace`, `clients` and
    /// `workers` are of all together. None: all clients do the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
    /// What is done to the store's own servers and disk meanwhile, in the order of their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// When it ends.
    pub limit: Limit,
    /// Longest time that may count until there were `limit` nanoseconds in which no pause of the machine disturbed it; none: it
    /// ends after `limit`, whatever the machine did. Rungs of a search have it, and no key of a plan sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undisturbed_within_ns: Option<u64>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Longest an operation may take, in nanoseconds.
    pub op_timeout_ns: u64,
    /// When the disk loses power, which ends the phase; counted from its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cut: Option<CutAt>,
    /// Whose power goes then, of the nodes of a cluster.
    #[serde(skip_serializing_if = "PowerNode::is_all")]
    pub power_node: PowerNode,
}

/// Something that is done to servers of our own, or to their disk, while they are driven.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Action {
    /// When it begins, in nanoseconds from the start of the phase.
    pub at_ns: u64,
    /// What.
    pub what: ActionKind,
}

/// What can be done to servers, and to their disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// One more node joins.
    Add,
    /// The disk does something wrong from then on.
    Fault(Fault),
    /// Nothing is wrong with the disk any more.
    Mend,
}

impl ActionKind {
    /// Whether it is done to the disk.
    pub fn is_of_disk(self) -> bool {
        self != Self::Add
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add => f.write_str("add"),
            Self::Fault(fault) => write!(f, "fault {fault}"),
            Self::Mend => f.write_str("mend"),
        }
    }
}

/// Clients of a drive that do the same, beside others that do something else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// Stands before the names of its operation types: `readers/read`.
    pub name: String,
    /// Number of its clients.
    pub clients: u32,
    /// Worker threads of its own, for wire sessions.
    pub workers: u32,
    /// Shares of the kinds of operation.
    pub mix: Mix,
    /// Closed or open loop.
    pub pace: Pace,
    /// Closed loop: how long its clients wait after an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
}

impl Drive {
    /// The stages of its load, of a rate or of clients, which say how long it takes; none where it does not change in stages.
    pub fn all_stages(&self) -> &[Stage] {
        match self.pace.rate() {
            Some(Rate::Stages(stages)) => stages,
            _ => &self.stages,
        }
    }
}

plimsoll_core::words! {
    /// What a trial starts from.
    pub enum Start {
        /// The store loaded again.
        Fresh = "fresh",
        /// What the trial before has left, after the store's own tidying.
        Settled = "settled",
        /// What the trial before has left.
        AsIs = "as-is",
    }
}

/// When a driven phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// After this many nanoseconds.
    DurationNs(u64),
    /// After this many operations of every client.
    OpsPerClient(u64),
}
