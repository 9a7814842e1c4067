//! Two sides in turn: what the pairs of a comparison say, whether that decides it, and what is driven next.
//!
//! A *pair* is one turn of either side, directly one after the other, the first by lot; a turn is a trial of its own in
//! the recording. Of each number the logarithm of the ratio of B to A is taken pair by pair, so that what drifts from
//! pair to pair falls on both. [`next()`] and [`view()`] read the pairs from the recording alone: the same recording gives
//! the same decision, while the comparison runs and in every report afterwards.
//!
//! | module | what |
//! |---|---|
//! | [`evidence`] | the test that may be looked at after every pair, and its interval |
//! | `pairs` | pairs and their numbers, from a recording |
//! | `judge` | what pairs decide, and when it is enough |
//! | `sentence` | the result in words |

pub mod evidence;
mod judge;
mod pairs;
mod sentence;

use plimsoll_core::nearest::nearest;
use plimsoll_core::quantity;
use plimsoll_record::data::Run;
use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::compare::{Cell, ConfigDifference};
use crate::stat::interval::Dice;
use crate::view::VerdictState;

pub use judge::{decided, next, view};

/// The sides: the labels of their stores.
pub const SIDES: [&str; 2] = ["A", "B"];
/// The label of a turn's trial that says of which pair it is: from 1, or [`WARM_UP`].
pub const PAIR: &str = "pair";
/// The pair of each side's first turn, which warms the store up and counts for nothing.
pub const WARM_UP: &str = "warm-up";

/// What is compared, and for how long: kept in the recording's plan as `ab`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbSpec {
    /// What the sides are, in the words of the command line.
    pub sides: [String; 2],
    /// The plan of each side, TOML.
    pub plans: [String; 2],
    /// Numbers that are to be decided; the rate of false alarms is shared among them.
    pub metrics: Vec<AbMetric>,
    /// Smallest difference that matters, as a share.
    pub difference: f64,
    /// Conditions under which the comparison fails.
    pub fail_if: Vec<AbRule>,
    /// Time for all turns, in seconds. What is loaded before them comes on top.
    pub budget_s: f64,
    /// Length of a turn, without its warm-up.
    pub turn_s: f64,
    /// Warm-up of a turn.
    pub warmup_s: f64,
    /// Seed of the lots.
    pub seed: u64,
}

/// Rate of false alarms of all decisions of a comparison together.
pub const ALPHA: f64 = 1.0 - crate::stat::CONFIDENCE;

impl AbSpec {
    /// The comparison in an expanded plan (its field `ab`); `None` when the plan has none.
    pub fn of(run: &Run) -> Option<AbSpec> {
        let plan: serde_json::Value = serde_json::from_str(&run.header.plan_json).ok()?;
        serde_json::from_value(plan.get("ab")?.clone()).ok()
    }

    /// Rate of false alarms of each number that is to be decided.
    pub fn alpha(&self) -> f64 {
        ALPHA / self.metrics.len().max(1) as f64
    }

    /// Seconds that a pair takes at least.
    pub fn pair_s(&self) -> f64 {
        2.0 * (self.turn_s + self.warmup_s)
    }

    /// Fewest pairs that can decide anything.
    pub fn fewest_pairs(&self) -> usize {
        evidence::fewest(self.alpha())
    }

    /// Which side of `pair` is driven first, by lot: 0 for A, 1 for B.
    pub fn first(&self, pair: u32) -> usize {
        Dice::new(self.seed ^ (u64::from(pair) << 32) ^ 0x6162).below(2)
    }
}

/// A number that two sides are compared in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbMetric {
    /// Operations that did not fail, a second.
    Rate,
    /// Median response time.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Share of operations that failed or were never sent, in per cent.
    Errors,
    /// Processor time of the store for an operation, in seconds.
    Cpu,
}

impl AbMetric {
    /// All of them, in the order of tables.
    pub const ALL: [AbMetric; 8] = [
        AbMetric::Rate,
        AbMetric::P50,
        AbMetric::P90,
        AbMetric::P95,
        AbMetric::P99,
        AbMetric::P999,
        AbMetric::Errors,
        AbMetric::Cpu,
    ];

    /// Its name, as formulas and conditions have it.
    pub fn name(self) -> &'static str {
        match self {
            AbMetric::Rate => "rate",
            AbMetric::P50 => "p50",
            AbMetric::P90 => "p90",
            AbMetric::P95 => "p95",
            AbMetric::P99 => "p99",
            AbMetric::P999 => "p999",
            AbMetric::Errors => "errors",
            AbMetric::Cpu => "cpu",
        }
    }

    /// The unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            AbMetric::Rate => "1/s",
            AbMetric::Errors => "%",
            _ => "s",
        }
    }

    /// Whether it is a percentile of response times.
    pub fn is_percentile(self) -> bool {
        matches!(self, AbMetric::P50 | AbMetric::P90 | AbMetric::P95 | AbMetric::P99 | AbMetric::P999)
    }

    /// The number of this name; `p99.9` is another spelling.
    ///
    /// # Errors
    /// What could have been meant.
    pub fn named(name: &str) -> Result<AbMetric, String> {
        let plain = quantity::plain(name);
        AbMetric::ALL.into_iter().find(|metric| metric.name() == plain).ok_or_else(|| {
            let names = AbMetric::ALL.map(AbMetric::name);
            let meant = nearest(name, names).map_or(String::new(), |name| format!("did you mean `{name}`? "));
            format!("{meant}there are {}", names.join(", "))
        })
    }
}

/// A condition under which a comparison fails: a number's change above or below a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbRule {
    /// As it was given.
    pub text: String,
    /// The number.
    pub metric: AbMetric,
    /// Met above the limit; otherwise below.
    pub above: bool,
    /// Change of B against A, in per cent.
    pub percent: f64,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This pair, from 1.
    Pair(u32),
    /// Nothing: it is decided, or the budget is spent.
    Done,
}

/// A comparison as reports show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbView {
    /// The sides in words: A, B.
    pub sides: [String; 2],
    /// What is configured differently.
    pub differences: Vec<ConfigDifference>,
    /// The result in a sentence.
    pub sentence: String,
    /// Whether all that was to be decided is.
    pub decided: bool,
    /// Smallest difference that matters, in per cent.
    pub difference_percent: f64,
    /// Pairs that were driven.
    pub pairs: u64,
    /// Time they took, in seconds.
    pub seconds: f64,
    /// All numbers of both sides.
    pub metrics: Vec<AbMetricView>,
    /// Processor time of the load generator, in per cent of one processor: A, B.
    pub generator_percent: [Option<f64>; 2],
    /// What was asked not to happen.
    pub rules: Vec<AbRuleView>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// Every pair's numbers.
    pub rows: Vec<AbPairView>,
    /// Ratio by pair with the interval as it was then, one for each number that is to be decided.
    pub charts: Vec<Chart>,
}

impl AbView {
    /// What the conditions come to, or where there are none, whether what was to be decided is.
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
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// Whether it is one of those that are to be decided.
    pub asked: bool,
    /// Of a percentile: whether operations that a pause of the machine touched are left out of it.
    pub undisturbed: bool,
    /// Median of A's turns.
    pub a: Cell,
    /// Median of B's turns.
    pub b: Cell,
    /// Pairs that have it on both sides.
    pub pairs: u64,
    /// B against A in per cent.
    pub change_percent: Option<f64>,
    /// The interval that holds the change at all times, in per cent.
    pub interval_percent: Option<(f64, f64)>,
    /// What is decided of it.
    pub decision: Decision,
    /// After how many pairs.
    pub decided_after: Option<u64>,
}

/// What is decided of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// More in B, by the smallest difference that matters or more as far as can be told.
    More,
    /// Less in B, likewise.
    Less,
    /// No difference that matters.
    Same,
    /// Nothing yet.
    Open,
}

/// What came of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbRuleView {
    /// As it was given.
    pub rule: String,
    /// Whether it is met; `null` where that cannot be told.
    pub met: Option<bool>,
    /// After how many pairs that was known.
    pub known_after: Option<u64>,
}

/// A pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbPairView {
    /// Its number, from 1.
    pub pair: u32,
    /// Which side was first: `A` or `B`.
    pub first: &'static str,
    /// The numbers that are to be decided, in the order of [`AbMetric::ALL`]: A and B.
    pub values: Vec<[Option<f64>; 2]>,
    /// Why it does not count, if it does not.
    pub left_out: Option<String>,
}
