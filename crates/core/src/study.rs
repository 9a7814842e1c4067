//! What a plan asks for and a recording keeps: kinds of phase, goals, figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

crate::words! {
    /// What a phase does.
    pub enum PhaseKind {
        /// Makes the layout and inserts every record once.
        Load = "load",
        /// Asks one kind of operation a number of times, each timed by itself.
        Ask = "ask",
        /// Drives a mixture of operations.
        Drive = "drive",
        /// The store's own tidying.
        Settle = "settle",
        /// Makes the store cold.
        Cold = "cold",
        /// Stops and starts it.
        Restart = "restart",
        /// Reads everything back and holds it against the ledger.
        Check = "check",
    }
}

crate::words! {
    /// What a goal limits. Latencies are response times of driven phases, all kinds of operation together.
    pub enum GoalKind {
        /// Acknowledged writes that are not there: at most.
        Lost = "lost",
        /// Answers with a wrong, missing or stale record: at most.
        Wrong = "wrong",
        /// Share of operations that were rejected or unknown: at most.
        Errors = "errors",
        /// Median: at most.
        P50 = "p50",
        /// 90th percentile: at most.
        P90 = "p90",
        /// 95th percentile: at most.
        P95 = "p95",
        /// 99th percentile: at most.
        P99 = "p99",
        /// 99.9th percentile: at most.
        P999 = "p999",
        /// Operations a second: at least.
        Rate = "rate",
    }
}

/// Something that has to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What is limited.
    pub what: GoalKind,
    /// The limit, in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
}

/// A named number that is wanted of the results of each store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// How reports call it.
    pub name: String,
    /// Unit of its value: `s`, `×`.
    pub unit: String,
    /// How it is calculated from results: `load.seconds[index=keyindex] / load.seconds[index=none]`.
    pub formula: String,
    /// Values published for it.
    pub published: Vec<Published>,
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The value in the figure's unit.
    pub value: f64,
    /// What it was measured on.
    pub of: String,
    /// Labels of the point of the sweep that it is for; it is for all when there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
}
