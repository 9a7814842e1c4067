//! Contents that a plan and a recording share: kinds of phase, goals, figures.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::formula::{Formula, Term};
use crate::quantity::{self, Percentile};

/// A place of a sentence that values of a figure fill: `{load}`, or `{published load}`. Findings fill `{bound of load}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigurePlace<'t> {
    /// Text between the braces.
    pub written: &'t str,
    /// Name of the figure, or of findings.
    pub figure: &'t str,
    /// Byte offset of that name.
    pub at: usize,
    /// The published values are meant, not the measured ones.
    pub is_published: bool,
}

/// Word before the name of a figure whose published values are meant.
const PUBLISHED: &str = "published ";

/// Iterates over the places of a sentence.
pub fn places_in(say: &str) -> impl Iterator<Item = FigurePlace<'_>> {
    say.match_indices('{').filter_map(|(open, _)| {
        let at = open + 1;
        let (written, _) = say.get(at..)?.split_once('}')?;
        Some(match written.strip_prefix(PUBLISHED) {
            Some(figure) => FigurePlace { written, figure, at: at + PUBLISHED.len(), is_published: true },
            None => FigurePlace { written, figure: written, at, is_published: false },
        })
    })
}

/// Findings about a phase that fill a place of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacedFindings {
    /// Locks and resources by which the phase is bound: `{bound of reads}`.
    Bound,
    /// Causes of slow moments, and the moments without one: `{slow moments of reads}`.
    SlowMoments,
}

impl PlacedFindings {
    /// Parses the name of a place. Returns the findings and the name of their phase; `None` if it names no findings.
    pub fn parse(name: &str) -> Option<(Self, &str)> {
        match name.split_once(" of ")? {
            ("bound", phase) => Some((Self::Bound, phase)),
            ("slow moments", phase) => Some((Self::SlowMoments, phase)),
            _ => None,
        }
    }
}

/// A sentence of the answer to a plan's question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerSentence {
    /// The sentence, with places for figures.
    pub say: String,
    /// Condition on figures without which the sentence is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// Comparison of its first figure with the values published for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agree: Option<Agreement>,
    /// Fewest repeats without which the sentence is undecided.
    pub repeats: u32,
}

/// A comparison of a measured value with a published one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Both ratios are above 1, or both below.
    Direction,
    /// The larger of them is at most so many times the smaller.
    Factor(f64),
}

/// A circumstance in which a plan has no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worthless {
    /// The sentence that says so, with places for figures.
    pub say: String,
    /// Condition on figures.
    #[serde(rename = "if")]
    pub condition: String,
}

crate::words! {
    /// Kinds of phase.
    #[derive(Default)]
    pub enum PhaseKind {
        /// Creates the layout and inserts every record once.
        Load = "load",
        /// Executes one operation type a number of times, each timed by itself.
        Ask = "ask",
        /// Drives a mixture of operations.
        #[default]
        Drive = "drive",
        /// Runs the store's own maintenance.
        Settle = "settle",
        /// Makes the store cold.
        Cold = "cold",
        /// Stops and starts the store.
        Restart = "restart",
        /// Cuts and restores the power of the disk.
        Power = "power",
        /// Reads everything back and compares it with the ledger.
        Check = "check",
    }
}

/// The quantity that a goal limits. Times are response times of driven phases. All are upper limits, except for the
/// rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum GoalKind {
    /// Acknowledged writes that are missing.
    Lost,
    /// Answers with a wrong, missing or stale record.
    Wrong,
    /// Stale records in answers.
    Stale,
    /// Share of operations that were rejected or unknown.
    Errors,
    /// Operations whose outcome is unknown.
    Unknown,
    /// Share of operations that failed with one code: an HTTP status, an SQLSTATE.
    Status,
    /// A percentile.
    Percentile(Percentile),
    /// The mean.
    Mean,
    /// Operations per second: a lower limit.
    Rate,
    /// Longest time without any answer.
    Outage,
    /// Longest time from the beginning of a fault until throughput is back.
    Recovery,
}

impl GoalKind {
    /// The goal's word in plans, recordings and reports.
    pub fn name(self) -> String {
        match self {
            GoalKind::Lost => "lost".to_owned(),
            GoalKind::Wrong => "wrong".to_owned(),
            GoalKind::Stale => "stale".to_owned(),
            GoalKind::Errors => "errors".to_owned(),
            GoalKind::Unknown => "unknown".to_owned(),
            GoalKind::Status => "status".to_owned(),
            GoalKind::Percentile(percentile) => percentile.name(),
            GoalKind::Mean => "mean".to_owned(),
            GoalKind::Rate => "rate".to_owned(),
            GoalKind::Outage => "outage".to_owned(),
            GoalKind::Recovery => "recovery".to_owned(),
        }
    }

    /// True if a search for the load line can use it: it is a share of operations.
    pub fn is_searchable(self) -> bool {
        matches!(self, GoalKind::Percentile(_) | GoalKind::Errors)
    }

    /// True if a search through faults can use it, besides.
    pub fn is_of_faults(self) -> bool {
        matches!(self, GoalKind::Outage | GoalKind::Recovery | GoalKind::Unknown)
    }

    /// True if the ledger judges it, for a trial as a whole.
    pub fn is_of_ledger(self) -> bool {
        matches!(self, GoalKind::Lost | GoalKind::Wrong | GoalKind::Stale)
    }

    /// Parses a goal's word.
    pub fn named(word: &str) -> Option<GoalKind> {
        Some(match word {
            "lost" => GoalKind::Lost,
            "wrong" => GoalKind::Wrong,
            "stale" => GoalKind::Stale,
            "errors" => GoalKind::Errors,
            "unknown" => GoalKind::Unknown,
            "status" => GoalKind::Status,
            "mean" => GoalKind::Mean,
            "rate" => GoalKind::Rate,
            "outage" => GoalKind::Outage,
            "recovery" => GoalKind::Recovery,
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
        GoalKind::named(&word).ok_or_else(|| format!("unknown goal `{word}`"))
    }
}

/// A condition on the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Quantity that is limited.
    pub what: GoalKind,
    /// Operation type, or step within operations, that it is limited for; for `status` the code. `None` for all
    /// operations together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The limit, in `unit`.
    pub limit: f64,
    /// `ns`, `%`, `1/s` or empty for counts.
    pub unit: String,
}

impl Goal {
    /// Name of the goal: `p99.9`, `read.p99`, `status.500`.
    pub fn name(&self) -> String {
        goal_name(self.what, self.of.as_deref())
    }
}

/// True if a goal of `of` applies to the step called `name`. A step may be named by its number: `tpcb/2` for `tpcb/2
/// UPDATE pgbench_accounts`.
pub fn is_of_step(of: &str, name: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// True if `of` is the operation type called `name`, its scenario, or that type in any scenario. Types of a scenario
/// have names such as `readers/read`.
pub fn is_of_operation(of: &str, name: &str) -> bool {
    name == of || name.split_once('/').is_some_and(|(scenario, type_name)| scenario == of || type_name == of)
}

/// Name of a goal that limits `what`, for `of`: `p99.9`, `read.p99`, `status.500`.
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

/// Repeats whose number results decide: a point goes on while a time or rate of the answer varies too much there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RepeatsUntil {
    /// Repeats of every point.
    pub least: u32,
    /// Widest interval of a time or rate that ends the repeats of a point, as a share of the value.
    pub width: f64,
}

/// Returns the times and rates of the figures that the answer or its conditions name; of all figures without an answer.
pub fn timed_terms(figures: &[Figure], answers: &[AnswerSentence]) -> Vec<Term> {
    let conditions = answers.iter().filter_map(|answer| Condition::parse(answer.only_if.as_deref()?).ok());
    let conditions: Vec<Condition> = conditions.collect();
    let asked = conditions.iter().flat_map(Condition::figures).map(|(name, _)| name);
    let placed = answers.iter().flat_map(|answer| places_in(&answer.say)).map(|place| place.figure);
    let named: BTreeSet<&str> = asked.chain(placed).collect();
    let is_used = |figure: &&Figure| answers.is_empty() || named.contains(figure.name.as_str());
    let mut terms: Vec<Term> = Vec::new();
    for formula in figures.iter().filter(is_used).filter_map(|figure| Formula::parse(&figure.formula).ok()) {
        for (term, _) in formula.terms() {
            if quantity::is_timed(&term.quantity) && !terms.contains(term) {
                terms.push(term.clone());
            }
        }
    }
    terms
}

/// A named number that is derived from the results of each store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the figure in reports.
    pub name: String,
    /// Unit of its value: `s`, `×`.
    pub unit: String,
    /// Formula over results: `load.seconds[index=keyindex] / load.seconds[index=none]`.
    pub formula: String,
    /// Values published for it.
    pub published: Vec<PublishedValue>,
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedValue {
    /// The value in the figure's unit.
    pub value: f64,
    /// The system that it was measured on.
    pub of: String,
    /// Labels of its point of the sweep; without any, it holds for all points.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_those_of_the_figures_that_the_answer_names() {
        let figure = |name: &str, formula: &str| Figure {
            name: name.to_owned(),
            unit: String::new(),
            formula: formula.to_owned(),
            published: Vec::new(),
        };
        let figures = [
            figure("a", "load.seconds[batch=1] / load.seconds[batch=2]"),
            figure("b", "drive.rate - drive.wrong"),
            figure("c", "check.lost"),
            figure("d", "drive.p99 / load.seconds[batch=1]"),
        ];
        let names = |answers: &[AnswerSentence]| -> Vec<String> {
            timed_terms(&figures, answers).iter().map(Term::to_string).collect()
        };
        let sentence = |say: &str, only_if: Option<&str>| AnswerSentence {
            say: say.to_owned(),
            only_if: only_if.map(str::to_owned),
            agree: None,
            repeats: 1,
        };
        let all = ["load.seconds[batch=1]", "load.seconds[batch=2]", "drive.rate", "drive.p99"];
        assert_eq!(names(&[]), all);
        assert_eq!(names(&[sentence("It lost {c}.", Some("{b} > 1"))]), ["drive.rate"]);
        assert_eq!(names(&[sentence("Once {published a}.", None)]), all[..2]);
        assert!(names(&[sentence("It lost {c}.", None)]).is_empty());
    }
}
