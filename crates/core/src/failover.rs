//! Published formulas of failover.

use serde::{Deserialize, Serialize};

/// Time from the loss of a primary until another node serves in its place, by the formula that the store's makers
/// publish. Clients need time of their own to find that node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailoverTime {
    /// Formula in words, with the values of its time-outs.
    pub formula: String,
    /// Address of the page that publishes it.
    pub source: String,
    /// Least and greatest time in seconds after a kill, which closes the connections of the primary.
    pub killed_s: (f64, f64),
    /// Least and greatest time in seconds after a pause or a cut, which closes no connection.
    pub silent_s: (f64, f64),
    /// True if other nodes serve other parts of the data meanwhile: throughput falls, and answers continue.
    pub is_of_part: bool,
}

impl FailoverTime {
    /// Creates a formula of a store in which one node serves all data. Bounds are in milliseconds.
    pub fn new(formula: String, source: &str, killed_ms: (u32, u32), silent_ms: (u32, u32)) -> Self {
        let seconds = |(least_ms, most_ms): (u32, u32)| (f64::from(least_ms) / 1e3, f64::from(most_ms) / 1e3);
        let (killed_s, silent_s) = (seconds(killed_ms), seconds(silent_ms));
        Self { formula, source: source.to_owned(), killed_s, silent_s, is_of_part: false }
    }
}
