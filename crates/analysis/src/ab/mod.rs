//! Comparison of two sides in turn: the pairs' evidence, the decision, and the next drive.
//!
//! A *pair* is one turn of either side, directly one after the other, the first by lot; a turn is a trial of its own in
//! the recording. Of each number the logarithm of the ratio of B to A is taken pair by pair, so that what drifts from
//! pair to pair falls on both. [`AbFold`] takes turn after turn, as they are driven or from a recording: the same turns give
//! the same decision, while the comparison runs and in every report afterwards.
//!
//! | module | what |
//! |---|---|
//! | [`evidence`] | the test that may be looked at after every pair, and its interval |
//! | `pairs` | pairs and their numbers, turn after turn |
//! | `judge` | what pairs decide, and when it is enough |
//! | `sentence` | the result in words |

pub mod evidence;
mod judge;
mod pairs;
mod sentence;

pub use plimsoll_record::data::{AbMetric, AbRule, AbSpec};

use plimsoll_core::random::SplitMix;

use crate::view::{AbMetricView, AbPairView, AbRuleView, AbView, Decision};

pub use judge::{decided, view};
pub use pairs::AbFold;

/// The sides: the labels of their stores.
pub const SIDES: [&str; 2] = ["A", "B"];
/// The label of a turn's trial that says of which pair it is: from 1, or [`WARM_UP`].
pub const PAIR: &str = "pair";
/// The pair of each side's first turn, which warms the store up and counts for nothing.
pub const WARM_UP: &str = "warm-up";

/// Rate of false alarms of all decisions of a comparison together.
pub const ALPHA: f64 = 1.0 - crate::stat::CONFIDENCE;

/// Rate of false alarms of each number that is to be decided.
pub fn alpha(spec: &AbSpec) -> f64 {
    ALPHA / spec.metrics.len().max(1) as f64
}

/// Fewest pairs that can decide anything.
pub fn fewest_pairs(spec: &AbSpec) -> usize {
    evidence::fewest(alpha(spec))
}

/// Returns the side of `pair` that is driven first, by lot: 0 for A, 1 for B.
pub fn first_side(spec: &AbSpec, pair: u32) -> usize {
    SplitMix::new(spec.seed ^ (u64::from(pair) << 32) ^ 0x6162).below(2)
}

/// Next action of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Drives this pair, numbered from 1.
    Pair(u32),
    /// Ends: the difference is decided, or the budget is spent.
    Done,
}
