//! View of a comparison of two runs for reports.

use serde::Serialize;

use super::EndState;
use crate::{number, stat};

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`crate::compare::FORMAT`].
    pub format: u32,
    /// The run that is compared with.
    pub a: Side,
    /// The run that is compared.
    pub b: Side,
    /// Changes smaller than this are not called any.
    pub noise_floor: NoiseFloor,
    /// Differences in configuration, environment and version.
    pub differences: Vec<ConfigDifference>,
    /// The numbers, by trial and phase.
    pub groups: Vec<Group>,
    /// Sentences on two searches, one for each store: the load line of B is higher or lower, or that is undecided.
    pub lines: Vec<String>,
    /// Trials and phases of one run that the other does not have, and trials that were asked something else.
    pub unmatched: Vec<String>,
    /// Results of conditions.
    pub rules: Vec<RuleResult>,
}

impl Comparison {
    /// True when a condition was met under which it is to fail.
    pub fn failed(&self) -> bool {
        self.rules.iter().any(|rule| !rule.failures.is_empty())
    }

    /// True when it cannot be told whether a condition was met under which it is to fail.
    pub fn undecided(&self) -> bool {
        self.rules.iter().any(|rule| !rule.undecided.is_empty())
    }

    /// `~` for what is not significant, `better`, `worse`, `differs` where neither is better, `?` where nothing tells (seen
    /// once, with too wide an interval, of an outage that had not ended, or with a late generator), or `missing`.
    pub fn mark(metric: &Metric) -> &'static str {
        let (Some(a), Some(b)) = (metric.a.value, metric.b.value) else { return "missing" };
        if metric.is_open() || metric.a.late || metric.b.late {
            return "?";
        }
        match (metric.significant, metric.change_percent) {
            (significant, _) if a == b && significant != Some(true) && metric.interval_percent.is_none() => "~",
            (None, _) | (_, None) => "?",
            (Some(false), _) => "~",
            (Some(true), Some(change)) => match metric.lower_is_better {
                None => "differs",
                Some(lower) if lower == (change < 0.0) => "better",
                Some(_) => "worse",
            },
        }
    }
}

/// A run of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The run's id.
    pub id: String,
    /// Title of the run.
    pub title: String,
    /// Start of the run, as text.
    pub started: String,
    /// State at the end of the run.
    pub state: EndState,
}

/// Difference between the configurations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ConfigDifference {
    /// `plan`, `environment`, or the name of a trial.
    pub place: String,
    /// Name of the item.
    pub name: String,
    /// Value in A; empty if it does not exist there.
    pub a: String,
    /// Value in B.
    pub b: String,
}

/// The numbers of one phase (or of the trial as a whole).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Name of the trial, with both names where they differ.
    pub trial: String,
    /// Name of the phase; `space` for the footprint, `figures` for named figures.
    pub phase: String,
    /// Sentence about rates that were given or watched, and so say nothing of the store; `None` if neither was.
    pub given: Option<String>,
    /// Metrics of the group.
    pub metrics: Vec<Metric>,
}

/// A number in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// `rate`, `p99`, `errors`, `seconds` … or a figure's name.
    pub name: String,
    /// Kind of operation; `all` for all together, empty where it has none.
    pub op: String,
    /// Unit.
    pub unit: String,
    /// Value in A.
    pub a: MetricValue,
    /// Value in B.
    pub b: MetricValue,
    /// B against A in per cent; `None` where A is zero or one is missing.
    pub change_percent: Option<f64>,
    /// 95 % interval of the change; `None` where too little was observed for one.
    pub interval_percent: Option<(f64, f64)>,
    /// Method of the interval.
    pub method: &'static str,
    /// True if the change is more than noise; `None` if undecided: for a number that was seen once, and if the
    /// interval holds zero and differences that matter.
    pub significant: Option<bool>,
    /// True where less is better; `None` where neither is, as of the rate of a watched load.
    pub lower_is_better: Option<bool>,
}

impl Metric {
    /// Returns true if a value is an outage that had not ended, or is calculated from one: the change is not known.
    pub fn is_open(&self) -> bool {
        [&self.a, &self.b].iter().any(|one| one.open || one.is_of_open)
    }
}

/// A number of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricValue {
    /// Value in the metric's unit.
    pub value: Option<f64>,
    /// Value as text, or the reason that there is none.
    pub text: String,
    /// A late generator may have moved it.
    pub late: bool,
    /// The value is a lower bound: the outage that it is had not ended when observation ended.
    pub open: bool,
    /// True if it is calculated from an outage that had not ended.
    #[serde(skip)]
    pub is_of_open: bool,
    /// Observations behind it.
    pub n: u64,
    /// Repeats of the trial behind it.
    pub repeats: u64,
}

impl MetricValue {
    /// The median of repeats' `values`, with `n` observations behind them, and whether a late generator may have moved it;
    /// `missing` says why there is none.
    pub(crate) fn median(values: &[f64], unit: &str, missing: Option<&String>, n: u64, late: bool) -> MetricValue {
        let value = stat::median(values);
        let none = || missing.map_or("–", String::as_str).to_string();
        let text = value.map_or_else(none, |value| number::marked(number::with_unit(value, unit), late));
        MetricValue { value, text, late, open: false, is_of_open: false, n, repeats: values.len() as u64 }
    }
}

/// Result of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleResult {
    /// Condition as given.
    pub rule: String,
    /// Numbers that it is about.
    pub checked: u64,
    /// Sentences, one for each number that meets it.
    pub failures: Vec<String>,
    /// Sentences, one for each number of which it cannot be told whether it meets it.
    pub undecided: Vec<String>,
}

impl RuleResult {
    /// Returns the result in a word: `ok`, `failed` or `undecided`.
    pub fn word(&self) -> &'static str {
        match (self.failures.is_empty(), self.undecided.is_empty()) {
            (false, _) => "failed",
            (true, false) => "undecided",
            (true, true) => "ok",
        }
    }
}

/// Difference between equal runs on this machine, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct NoiseFloor {
    /// Operations a second, and everything that is neither of the following.
    pub throughput_percent: f64,
    /// Median, 90th and 95th percentile.
    pub p50_percent: f64,
    /// 99th percentile and above.
    pub p99_percent: f64,
}
