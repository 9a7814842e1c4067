//! A search for the load line as reports show it.

use plimsoll_core::study::goal_name;
use plimsoll_record::data::{Goal, GoalKind, Purpose};
use serde::{Deserialize, Serialize};

use super::Chart;
use crate::number;

/// A search as reports show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineView {
    /// Label of the store.
    pub store: String,
    /// Result of the search.
    pub result: LineResult,
    /// Notes on rungs that are undecided, or that held all the same: each reason once, with its rungs.
    pub notes: Vec<String>,
    /// The rungs in the order they were driven.
    pub rungs: Vec<RungView>,
    /// Operations that did not fail, over the rates asked for; the median of the rungs at each.
    pub done: Chart,
    /// Response time by percentile, likewise.
    pub latency: Chart,
    /// Times without an answer and until throughput was back after a fault, over the rates asked for: shortest, median and
    /// longest of the load steps at each. Empty without faults.
    pub costs: Vec<Chart>,
}

plimsoll_core::words! {
    /// State of a rung.
    pub enum RungState {
        /// Every goal held.
        Held = "held",
        /// A goal broke, or the store did not keep up.
        Failed = "failed",
        /// A goal broke, where it cannot be told whether that was the store.
        Undecided = "undecided",
        /// A closed loop: there is nothing to break.
        Start = "start",
        /// A goal could not be measured.
        NotMeasured = "not_measured",
    }
}

/// A rung as reports show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RungView {
    /// Rung as it was driven.
    pub rung: Rung,
    /// State of the rung.
    pub state: RungState,
    /// Reason that the rung is undecided or failed.
    pub reason: Option<String>,
    /// Further note: that it held although the generator was late.
    pub note: Option<String>,
    /// Maintenance cycles that ended in it, of all counters.
    pub cycles: f64,
    /// Operations that did not fail, a second.
    pub rate_per_s: f64,
    /// The goals as it saw them.
    pub goals: Vec<GoalSeen>,
    /// p50, p90, p95, p99 and p99.9 of the response time in nanoseconds, where there are enough samples.
    pub percentiles_ns: Vec<Option<u64>>,
    /// Operations that ended.
    pub n: u64,
}

/// A rung: a rate to hold for a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Position in the search, from 0.
    pub ordinal: u32,
    /// Operations a second; `None` is a closed loop.
    pub rate_per_s: Option<f64>,
    /// Purpose of the rung.
    pub purpose: Purpose,
    /// Warm-up, which counts for nothing.
    pub warmup_s: f64,
    /// Time that counts.
    pub seconds: f64,
}

impl Rung {
    /// Returns the time of the load step with its warm-up, in seconds.
    pub(crate) fn total_s(&self) -> f64 {
        self.warmup_s + self.seconds
    }

    /// Returns the rate that is asked for: `1,770/s`, or `closed loop`.
    pub fn asked_words(&self) -> String {
        self.rate_per_s.map_or("closed loop".to_string(), |rate| number::with_unit(rate, "1/s"))
    }
}

/// Ending of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "how", content = "why")]
pub enum Ending {
    /// The line was found.
    Found,
    /// Time was up before the line was shown as precisely as asked.
    TimeUp,
    /// The most load steps of a search were driven before the line was shown as precisely as asked.
    StepsUp,
    /// Every goal held at the highest rate that may be tried.
    NoFailure,
    /// A goal was broken at the lowest rate that may be tried.
    NoPass,
    /// The generator, not the store, was the limit.
    Generator(String),
    /// The store failed or the rungs could not be run.
    Failed(String),
    /// A goal could not be measured in the time there was.
    NotMeasured(String),
    /// Stopped from outside before its end.
    Stopped,
}

/// State of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    /// Found a line, or that every goal holds up to the highest rate.
    Decided,
    /// The observations do not decide; the reason, and a remedy.
    Undecided(String),
    /// Found that no rate keeps the goals, failed, or was ended from outside.
    NoLine,
}

/// Behaviour of the store beyond the load that it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// Refuses the excess and continues with the rest.
    Sheds,
    /// Keeps its rate, and clients wait.
    Queues,
    /// Does less than before.
    Collapses,
    /// Not tried.
    NotSeen,
}

/// Cause of the line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// Description of the cause, to continue a sentence after "because".
    pub text: String,
    /// Name of the resource.
    pub resource: String,
    /// Certainty from 0 to 1. Only for order.
    pub score: f64,
}

/// Requirement of a load step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Requirement {
    /// Goal on a quantity, of one operation type or of all together.
    Goal(GoalKind, Option<String>),
    /// The store keeps up with the rate.
    Carried,
    /// Throughput comes back after a fault.
    Recovers,
}

impl Requirement {
    /// Returns the name: that of a goal (`p99`, `errors`, `outage`, `read.p99`), `carried` or `recovers`.
    pub fn name(&self) -> String {
        match self {
            Requirement::Goal(what, None) => what.name(),
            Requirement::Goal(what, of) => goal_name(*what, of.as_deref()),
            Requirement::Carried => "carried".to_owned(),
            Requirement::Recovers => "recovers".to_owned(),
        }
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> String {
        requirement.name()
    }
}

/// The requirement that broke.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Broken {
    /// Requirement; its name in JSON.
    pub what: Requirement,
    /// The limit in `unit`.
    pub limit: f64,
    /// Median over the rungs at the lowest rate that failed, in `unit`; infinite when nothing was answered.
    pub got: f64,
    /// Unit.
    pub unit: String,
}

/// Load steps at one rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AtRate {
    /// Operations a second.
    pub rate_per_s: f64,
    /// Number of load steps in which every goal held.
    pub held: u64,
    /// Number of load steps in which a goal broke.
    pub failed: u64,
    /// Time that counts of the shortest of them, in seconds.
    pub seconds: f64,
    /// Time that counts of the longest.
    pub seconds_max: f64,
    /// True if the load steps decide whether the rate is carried, and no others contradict them.
    pub decided: bool,
}

/// The load line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineResult {
    /// Ending of the search.
    pub ending: Ending,
    /// State of the search.
    pub state: LineState,
    /// Highest rate that is shown to be carried, in operations a second; `None` if none is.
    pub rate_per_s: Option<f64>,
    /// Load steps at that rate; where no rate is shown to be carried, at the highest below the line.
    pub held: Option<AtRate>,
    /// Load steps at the lowest rate that is shown not to be carried; where none is, at the lowest above the line.
    pub failed: Option<AtRate>,
    /// Load steps between these two rates, together, at the lowest rate of them.
    pub between: Option<AtRate>,
    /// Goal that broke first, and its excess.
    pub broken: Option<Broken>,
    /// Causes of the line, likeliest first; empty when no sampled series explains it.
    pub causes: Vec<Cause>,
    /// Behaviour past the line.
    pub beyond: Beyond,
    /// Rate of the store at the highest rate tried, as a share of the most it did.
    pub beyond_share: Option<f64>,
    /// Maintenance cycles that ended inside the deciding rungs, by counter; `None` where none can be read.
    pub cycles: Option<Vec<(String, f64)>>,
    /// Number of them that ended at the rate that held.
    pub cycles_held: f64,
    /// Duration of a cycle and the setting to change, if none was seen while the goals held and the store reports it.
    pub cycle_words: Option<String>,
    /// Rate that a closed loop reached.
    pub closed_loop_per_s: Option<f64>,
    /// Time that the server's processors worked for an operation next to the line, in seconds; `None` where its processes were
    /// not sampled.
    pub server_cpu_per_op_s: Option<f64>,
    /// Spread of this time in load steps at comparable rates; `None` if too few tell of it.
    pub server_cpu_spread: Option<CpuSpread>,
    /// Sentence, with the next step, on a spread that is wider than the precision.
    pub unequal_words: Option<String>,
    /// Faults of each rung, without their times: `kill primary`.
    pub through: Vec<String>,
    /// Longest times without an answer after a fault of the load steps at `held`, in seconds: shortest, median and longest.
    pub outages: Option<[f64; 3]>,
    /// Times from the faults before these until a client noticed, likewise; `None` if no client did.
    pub noticed: Option<[f64; 3]>,
    /// Operations of these load steps whose outcome is unknown; `None` without faults.
    pub unknown: Option<u64>,
    /// Acknowledged writes that were lost in them; `None` without faults, and if that is not known of all.
    pub lost: Option<u64>,
    /// Time that all rungs took.
    pub took_s: f64,
    /// Number of rungs.
    pub n: u64,
    /// Result in one sentence.
    pub sentence: String,
}

impl LineResult {
    /// Returns the load steps at the rate that is shown to be carried, and at the one that is shown not to be.
    pub fn shown(&self) -> [Option<&AtRate>; 2] {
        [&self.held, &self.failed].map(|one| one.as_ref().filter(|one| one.decided))
    }
}

/// Time that the server's processors worked for an operation, in load steps at comparable rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuSpread {
    /// Second lowest of them, in seconds.
    pub low_s: f64,
    /// Second highest.
    pub high_s: f64,
    /// Lowest rate of these load steps, in operations a second.
    pub from_per_s: f64,
    /// Highest rate.
    pub to_per_s: f64,
    /// Number of these load steps.
    pub n: u64,
}

impl CpuSpread {
    /// Returns the second highest as a factor on the second lowest.
    pub fn ratio(&self) -> f64 {
        self.high_s / self.low_s
    }
}

/// A goal as a rung saw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GoalSeen {
    /// Quantity that is limited.
    pub what: GoalKind,
    /// Operation type; `None` for all together.
    pub of: Option<String>,
    /// The limit in `unit`.
    pub limit: f64,
    /// Unit.
    pub unit: String,
    /// Value that was seen; `None` with too few samples.
    pub value: Option<f64>,
    /// Reason that the value is missing.
    pub missing: Option<String>,
    /// Observations behind it.
    pub n: u64,
}

impl GoalSeen {
    /// Returns `goal` with its value, or the reason that it is missing, of `n` observations.
    pub fn new(goal: &Goal, value: Result<f64, String>, n: u64) -> GoalSeen {
        let Goal { what, of, limit, unit } = goal.clone();
        let missing = value.as_ref().err().cloned();
        GoalSeen { what, of, limit, unit, value: value.ok(), missing, n }
    }

    /// Returns the name: `p99.9`, `read.p99`.
    pub fn name(&self) -> String {
        goal_name(self.what, self.of.as_deref())
    }

    /// Returns the goal in words: `p99 ≤ 20.0 ms`.
    pub fn limit_words(&self) -> String {
        format!("{} ≤ {}", self.name(), number::limit(self.limit, &self.unit))
    }

    /// Returns the value in words, told from the limit; `None` if it was not measured.
    pub fn value_words(&self) -> Option<String> {
        Some(number::beside_limit(self.value?, self.limit, &self.unit))
    }

    /// Returns the used share of the limit: over 1 it is broken. Returns `None` if it was not measured.
    pub fn ratio(&self) -> Option<f64> {
        let value = self.value?;
        Some(match self.limit {
            limit if limit > 0.0 => value / limit,
            _ if value <= 0.0 => 0.5,
            _ => f64::INFINITY,
        })
    }
}
