//! Progress of long-running work on a server.

use serde::{Deserialize, Serialize};

/// Long-running work on a node: a state transfer, a recovery, a vacuum. Servers differ in the details that they
/// report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of the node.
    pub node: usize,
    /// Name of the work: `base backup`, `vacuum of public.t`.
    pub what: String,
    /// Current part of the work, in the server's words; empty if it has no parts.
    pub step: String,
    /// Amount done.
    pub done: Option<u64>,
    /// Total amount.
    pub total: Option<u64>,
    /// Amount left, if the server reports that instead.
    pub left: Option<u64>,
    /// Unit of the amounts: `B`, `s`, `blocks`, `%`.
    pub unit: String,
    /// Running time in seconds, if the server reports it.
    pub for_s: Option<u64>,
}

impl Progress {
    /// Creates the progress of `what` on the node with this number, without any details.
    pub fn new(node: usize, what: impl Into<String>) -> Self {
        Self { node, what: what.into(), ..Self::default() }
    }

    /// Sets the current part of the work.
    #[must_use]
    pub fn step(self, step: impl Into<String>) -> Self {
        Self { step: step.into(), ..self }
    }

    /// Sets the amount done, and the total if it is known.
    #[must_use]
    pub fn done(self, done: u64, total: Option<u64>, unit: &str) -> Self {
        Self { done: Some(done), total: total.filter(|total| *total > 0), unit: unit.to_owned(), ..self }
    }

    /// Sets the running time in seconds, as the server reports it.
    #[must_use]
    pub fn running_for(self, seconds: u64) -> Self {
        Self { for_s: Some(seconds), ..self }
    }

    /// Sets the amount left.
    #[must_use]
    pub fn left(self, left: u64, unit: &str) -> Self {
        Self { left: Some(left), unit: unit.to_owned(), ..self }
    }
}
