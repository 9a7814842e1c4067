//! View of two sides in turn for reports.

use serde::Serialize;

use super::{Chart, ConfigDifference, MetricValue, VerdictState};

/// A comparison as reports show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbView {
    /// The sides in words: A, B.
    pub sides: [String; 2],
    /// Differences in configuration.
    pub differences: Vec<ConfigDifference>,
    /// The result in a sentence.
    pub sentence: String,
    /// True if everything is decided that was to be.
    pub decided: bool,
    /// Smallest difference that matters, in per cent.
    pub difference_percent: f64,
    /// Pairs that were driven.
    pub pairs: u64,
    /// Time they took, in seconds.
    pub seconds: f64,
    /// Metrics of both sides.
    pub metrics: Vec<AbMetricView>,
    /// Processor time of the load generator, in per cent of one processor: A, B.
    pub generator_percent: [Option<f64>; 2],
    /// Results of conditions.
    pub rules: Vec<AbRuleView>,
    /// Further notes.
    pub notes: Vec<String>,
    /// Numbers of every pair.
    pub rows: Vec<AbPairView>,
    /// Ratio by pair with the interval as it was then, one for each number that is to be decided.
    pub charts: Vec<Chart>,
}

impl AbView {
    /// Returns the state by the conditions, or without conditions, by the metrics that were to be decided.
    pub(crate) fn state(&self) -> VerdictState {
        if self.rules.iter().any(|rule| rule.met == Some(true)) {
            VerdictState::Fail
        } else if self.decided {
            VerdictState::Pass
        } else {
            VerdictState::Undecided
        }
    }
}

/// A number of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbMetricView {
    /// Name of the metric.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// True if the metric is one of those that are to be decided.
    pub asked: bool,
    /// True for a percentile without operations that a pause of the machine touched.
    pub undisturbed: bool,
    /// Median of A's turns.
    pub a: MetricValue,
    /// Median of B's turns.
    pub b: MetricValue,
    /// Pairs that have it on both sides.
    pub pairs: u64,
    /// B against A in per cent.
    pub change_percent: Option<f64>,
    /// The interval that holds the change at all times, in per cent.
    pub interval_percent: Option<(f64, f64)>,
    /// Decision on the metric.
    pub decision: Decision,
    /// Number of pairs after which it was decided.
    pub decided_after: Option<u64>,
}

/// Decision on a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// More in B, by the smallest difference that matters or more as far as can be told.
    More,
    /// Less in B, likewise.
    Less,
    /// No difference that matters.
    Same,
    /// Not decided yet.
    Open,
}

/// Result of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbRuleView {
    /// Condition as given.
    pub rule: String,
    /// True if it is met; `null` if undecided.
    pub met: Option<bool>,
    /// Number of pairs after which that was known.
    pub known_after: Option<u64>,
}

/// A pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbPairView {
    /// Number of the pair, from 1.
    pub pair: u32,
    /// Side that was driven first: `A` or `B`.
    pub first: &'static str,
    /// The numbers that are to be decided, in the order of `AbMetric::ALL`: A and B.
    pub values: Vec<[Option<f64>; 2]>,
    /// Reason that the pair does not count, if it does not.
    pub left_out: Option<String>,
}
