//! What runs long on a server, and how far it is.

use serde::{Deserialize, Serialize};

/// Something that runs long on a node: a state transfer, a recovery, a vacuum. Of how far it is a server says what it knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of the node that it is about.
    pub node: usize,
    /// What runs: `base backup`, `vacuum of public.t`.
    pub what: String,
    /// Which part of it, in the server's words; empty where it has no parts.
    pub step: String,
    /// How much is done.
    pub done: Option<u64>,
    /// Of how much.
    pub total: Option<u64>,
    /// How much is left, where that is what is known.
    pub left: Option<u64>,
    /// Unit of these: `B`, `s`, `blocks`, `%`.
    pub unit: String,
    /// For how long it has run, in seconds, where the server knows.
    pub for_s: Option<u64>,
}

impl Progress {
    /// `what` of the node with this number, without a word on how far it is.
    pub fn new(node: usize, what: impl Into<String>) -> Self {
        Self { node, what: what.into(), ..Self::default() }
    }

    /// It is in this part of its work.
    #[must_use]
    pub fn step(self, step: impl Into<String>) -> Self {
        Self { step: step.into(), ..self }
    }

    /// So much is done; of `total` where that is known.
    #[must_use]
    pub fn done(self, done: u64, total: Option<u64>, unit: &str) -> Self {
        Self { done: Some(done), total: total.filter(|total| *total > 0), unit: unit.to_owned(), ..self }
    }

    /// It has run for so many seconds, as the server says.
    #[must_use]
    pub fn running_for(self, seconds: u64) -> Self {
        Self { for_s: Some(seconds), ..self }
    }

    /// So much is left.
    #[must_use]
    pub fn left(self, left: u64, unit: &str) -> Self {
        Self { left: Some(left), unit: unit.to_owned(), ..self }
    }
}
