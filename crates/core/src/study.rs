//! What a plan asks for and a recording keeps: kinds of phase, goals, figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::Percentile;

/// Names of figures in the braces of an answer.
pub fn figures_in(answer: &str) -> impl Iterator<Item = &str> {
    answer.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

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
        /// Takes the power from the disk, and gives it back.
        Power = "power",
        /// Reads everything back and holds it against the ledger.
        Check = "check",
    }
}

/// What a goal limits. Times are response times of driven phases. At most, but for the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum GoalKind {
    /// Acknowledged writes that are not there.
    Lost,
    /// Answers with a wrong, missing or stale record.
    Wrong,
    /// Share of operations that were rejected or unknown.
    Errors,
    /// Share of operations that failed with one code: an HTTP status, an SQLSTATE.
    Status,
    /// A percentile.
    Percentile(Percentile),
    /// The mean.
    Mean,
    /// Operations a second: at least.
    Rate,
}

impl GoalKind {
    /// Its word, as in plans, recordings and reports.
    pub fn name(self) -> String {
        match self {
            GoalKind::Lost => "lost".to_owned(),
            GoalKind::Wrong => "wrong".to_owned(),
            GoalKind::Errors => "errors".to_owned(),
            GoalKind::Status => "status".to_owned(),
            GoalKind::Percentile(percentile) => percentile.name(),
            GoalKind::Mean => "mean".to_owned(),
            GoalKind::Rate => "rate".to_owned(),
        }
    }

    /// Whether a search for the load line can go by it: it is a share of operations.
    pub fn is_searchable(self) -> bool {
        matches!(self, GoalKind::Percentile(_) | GoalKind::Errors)
    }

    /// The one with this word.
    pub fn named(word: &str) -> Option<GoalKind> {
        Some(match word {
            "lost" => GoalKind::Lost,
            "wrong" => GoalKind::Wrong,
            "errors" => GoalKind::Errors,
            "status" => GoalKind::Status,
            "mean" => GoalKind::Mean,
            "rate" => GoalKind::Rate,
            percentile => GoalKind::Percentile(Percentile::named(percentile)?),
        })
    }
}

impl From<GoalKind> for String {
    fn from(kind: GoalKind) -> String {
        kind.name()
    }
}

impl TryFrom<String> for GoalKind {
    type Error = String;

    fn try_from(word: String) -> Result<GoalKind, String> {
        GoalKind::named(&word).ok_or_else(|| format!("there is no goal `{word}`"))
    }
}

/// Something that has to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What is limited.
    pub what: GoalKind,
    /// Of what: an operation type or a step within operations; of `status` the code. All operations together where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The limit, in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
}

impl Goal {
    /// How it is called: `p99.9`, `read.p99`, `status.500`.
    pub fn name(&self) -> String {
        goal_name(self.what, self.of.as_deref())
    }
}

/// Whether a goal of `of` is of the step called `name`, which may be named by its number: `tpcb/2` is
/// `tpcb/2 UPDATE pgbench_accounts`.
pub fn is_of_step(of: &str, name: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Whether operations of the type called `name` are of `of`: of that type, or of that scenario, or of that type in any scenario.
/// Those of a scenario are called `readers/read`.
pub fn is_of_operation(of: &str, name: &str) -> bool {
    name == of || name.split_once('/').is_some_and(|(scenario, type_name)| scenario == of || type_name == of)
}

/// How a goal that limits `what`, of `of`, is called: `p99.9`, `read.p99`, `status.500`.
pub fn goal_name(what: GoalKind, of: Option<&str>) -> String {
    let name = match what {
        GoalKind::Percentile(percentile) => percentile.to_string(),
        other => other.name(),
    };
    match of {
        None => name,
        Some(code) if what == GoalKind::Status => format!("{name}.{code}"),
        Some(of) => format!("{of}.{name}"),
    }
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
