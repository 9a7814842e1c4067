//! Times around faults, in which samplers make fine readings besides those of slices.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after a fault, and after its healing, with fine readings.
const AFTER: Duration = Duration::from_secs(3);
/// Longest time of a phase with fine readings: with a fault every few seconds a recording would become large.
const LONGEST: Duration = Duration::from_secs(60);

/// Times with fine readings. The default has none.
#[derive(Debug, Default)]
pub struct FineTimes {
    /// True if the run has faults.
    may_come: bool,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// End of the time with fine readings, on the run's clock.
    until_ns: u64,
    /// Length of such times in the phase.
    spent_ns: u64,
}

impl FineTimes {
    /// Makes the times of a run that has faults or not.
    pub(crate) fn new(has_faults: bool) -> Self {
        Self { may_come: has_faults, ..Self::default() }
    }

    /// Returns true if there may be fine readings.
    pub(crate) fn may_come(&self) -> bool {
        self.may_come
    }

    /// Begins a phase.
    pub(crate) fn begin_phase(&self) {
        self.now().spent_ns = 0;
    }

    /// Begins a time with fine readings at `now_ns`, or continues it.
    pub(crate) fn begin(&self, now_ns: u64) {
        let mut now = self.now();
        let until_ns = now_ns + AFTER.as_nanos() as u64;
        let more_ns = until_ns.saturating_sub(now.until_ns.max(now_ns));
        if now.spent_ns + more_ns <= LONGEST.as_nanos() as u64 {
            now.spent_ns += more_ns;
            now.until_ns = until_ns;
        }
    }

    /// Returns true if `now_ns` is in such a time.
    pub(crate) fn contains(&self, now_ns: u64) -> bool {
        now_ns < self.now().until_ns
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_fault_has_three_seconds_and_those_of_a_phase_a_minute_together() {
        let times = FineTimes::new(true);
        assert!(!times.contains(0));
        times.begin(10 * SECOND_NS);
        times.begin(11 * SECOND_NS);
        let is_in = |second: u64| times.contains(second * SECOND_NS);
        assert_eq!([13, 14].map(is_in), [true, false], "both are one time of 4 s");
        for at in 1..=18 {
            times.begin((100 + 10 * at) * SECOND_NS);
        }
        assert!(is_in(282), "58 s together");
        times.begin(300 * SECOND_NS);
        assert!(!is_in(300), "61 s together");
        times.begin_phase();
        times.begin(300 * SECOND_NS);
        assert!(is_in(302));
    }
}
