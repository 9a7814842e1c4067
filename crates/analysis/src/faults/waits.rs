//! Times without an answer of each of several: clients, or parts of the keys.

use plimsoll_core::AFFECTED_NS;

use crate::stat;
use crate::view::FaultSilenceView;

/// Time without an answer, on the run's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// True if the wait had not ended when observation ended.
    pub(super) is_open: bool,
}

impl Wait {
    pub(super) fn length_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// Returns the part since `begun_ns`, if it has one.
    pub(super) fn since(self, begun_ns: u64) -> Option<Wait> {
        (self.to_ns > begun_ns).then(|| Wait { from_ns: self.from_ns.max(begun_ns), ..self })
    }
}

/// Waits for answers in a phase.
pub(super) struct Waits {
    /// Longest wait of any before the first fault, and at least [`AFFECTED_NS`].
    usual_ns: u64,
    /// Waits of each.
    each: Vec<Vec<Wait>>,
    /// Number of all: those that never waited may be missing in `each`.
    of: u64,
    /// Planned end of the phase.
    planned_end_ns: u64,
}

impl Waits {
    /// Makes the waits of a phase; `usual_ns` is the longest before the first fault.
    pub(super) fn new(usual_ns: u64, each: Vec<Vec<Wait>>, of: u64, planned_end_ns: u64) -> Self {
        Self { usual_ns: usual_ns.max(AFFECTED_NS), each, of, planned_end_ns }
    }

    /// Returns the number of those that were silent from `begun_ns` in waits that began before `effect_end_ns`, with the
    /// longest times. A wait that is unusual only after `limit_ns` is none. Of a wait that had begun before, the rest counts.
    pub(super) fn silent(&self, begun_ns: u64, effect_end_ns: u64, limit_ns: u64) -> FaultSilenceView {
        let limit_ns = limit_ns.min(self.planned_end_ns);
        let is_its = |wait: &Wait| {
            let unusual_ns = wait.to_ns.min(limit_ns).saturating_sub(wait.from_ns);
            wait.from_ns < effect_end_ns && unusual_ns > self.usual_ns
        };
        let longest = |waits: &Vec<Wait>| {
            let its = waits.iter().filter_map(|wait| wait.since(begun_ns)).filter(is_its);
            its.max_by_key(|wait| (wait.length_ns(), wait.is_open))
        };
        let silent: Vec<Wait> = self.each.iter().filter_map(longest).collect();
        let seconds = |wait: &Wait| wait.length_ns() as f64 / 1e9;
        let most = silent.iter().max_by_key(|wait| (wait.length_ns(), wait.is_open));
        FaultSilenceView {
            silent: silent.len() as u64,
            of: self.of,
            median_s: stat::median_of(silent.iter().map(seconds)).unwrap_or(0.0),
            longest_s: most.map_or(0.0, seconds),
            longest_open: most.is_some_and(|wait| wait.is_open),
        }
    }
}
