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
    /// Present wait of the work, in the server's words: `Client: ClientWrite`; empty if it reports none.
    #[serde(default)]
    pub waits_for: String,
    /// True for work that no join or start waits for: maintenance, a statement, a copy for another node.
    #[serde(skip)]
    pub is_aside: bool,
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

    /// Sets the present wait of the work.
    #[must_use]
    pub fn waiting_for(self, waits_for: impl Into<String>) -> Self {
        Self { waits_for: waits_for.into(), ..self }
    }

    /// Marks work that no join or start waits for.
    #[must_use]
    pub fn aside(self) -> Self {
        Self { is_aside: true, ..self }
    }

    /// Returns the share that is done, in per cent; `None` if the total is not known.
    pub fn percent(&self) -> Option<f64> {
        let (done, total) = (self.done?, self.total?);
        Some(done.min(total) as f64 / total as f64 * 100.0)
    }

    /// Returns true if the server reports that something is left to do.
    pub fn has_more(&self) -> bool {
        match (self.done, self.total) {
            (Some(done), Some(total)) => done < total,
            _ => self.left > Some(0),
        }
    }

    /// Sets the amount left.
    #[must_use]
    pub fn left(self, left: u64, unit: &str) -> Self {
        Self { left: Some(left), unit: unit.to_owned(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_needs_a_total_and_something_is_left_only_if_an_amount_says_so() {
        let backup = |done, total| Progress::new(0, "base backup").done(done, total, "B");
        assert_eq!((backup(12, Some(25)).percent(), backup(12, Some(25)).has_more()), (Some(48.0), true));
        assert_eq!((backup(26, Some(25)).percent(), backup(26, Some(25)).has_more()), (Some(100.0), false));
        assert_eq!((backup(12, None).percent(), backup(12, None).has_more()), (None, false));
        let behind = |left| Progress::new(0, "catching up").left(left, "B");
        assert_eq!((behind(7).percent(), behind(7).has_more(), behind(0).has_more()), (None, true, false));
        assert!(!Progress::new(0, "start").has_more());
    }
}
