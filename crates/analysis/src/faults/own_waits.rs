//! Waits of clients for a silent server, which hide when the store was back.

use plimsoll_record::data::{FaultKind, FaultSpan};

use super::{AFTER_TIMEOUT_S, is_op_timeout};
use crate::phase::PhaseFacts;
use crate::view::{FailoverView, FormulaState};

/// Waits that may have made an outage longer than the store did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientWaits {
    /// No wait is known.
    No,
    /// Waits for answers, until the time-out of operations.
    ForAnswers,
    /// Waits for a connection to the silent server, until the fault was healed or observation ended.
    ToConnect,
}

impl ClientWaits {
    /// Returns the waits in the outage of a fault. At `limit_ns` the next one begins, or observation ends. A server that is
    /// killed refuses connections at once; a paused or unreachable one does not answer.
    pub(super) fn of(facts: &PhaseFacts<'_>, span: &FaultSpan, limit_ns: u64, outage: Option<(u64, u64)>) -> Self {
        // While a single server, or all, are silent, no other one can be back.
        let is_silent = matches!(span.kind, FaultKind::Pause | FaultKind::Cut | FaultKind::Hang | FaultKind::Link)
            && span.subject.starts_with("node");
        let header = &facts.phase.header;
        let (Some((from, to)), Some(op_ns)) = (outage.filter(|_| is_silent), header.op_timeout_ns) else {
            return ClientWaits::No;
        };
        let outage_s = (to - from) as f64 / 1e9;
        let healing_ns = span.healing_ns.map_or(limit_ns, |healing_ns| healing_ns.min(limit_ns));
        let is_to_healing = from < healing_ns && to >= healing_ns;
        // Connections are opened again once the first operations were given up.
        let connected_ns = header.connect_timeout_ns.map(|connect_ns| from.saturating_add(op_ns + connect_ns));
        if is_op_timeout(facts, outage_s) || (is_to_healing && outage_s < op_ns as f64 / 1e9 + AFTER_TIMEOUT_S) {
            ClientWaits::ForAnswers
        } else if is_to_healing && connected_ns.is_some_and(|connected_ns| connected_ns >= healing_ns) {
            ClientWaits::ToConnect
        } else {
            ClientWaits::No
        }
    }

    /// Returns a failover that is not said to be slower than its formula if clients may have waited for themselves.
    pub(super) fn judged(self, failover: FailoverView) -> FailoverView {
        match failover.state {
            FormulaState::More if self != ClientWaits::No => {
                FailoverView { state: FormulaState::NotDecided, ..failover }
            }
            _ => failover,
        }
    }
}
