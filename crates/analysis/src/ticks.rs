//! Ticks of a driven phase: operations that ended in each 10 ms, of phases in which the drive counted them.

use plimsoll_core::TICK_NS;

use crate::phase::PhaseFacts;

/// Length of the windows of [`PhaseTicks::rates`].
pub const WINDOW_NS: u64 = 1_000_000_000;

/// A tick on the run's clock. The last one of a slice ends with it.
#[derive(Debug, Clone, Copy)]
pub struct TickAt {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Operations with the outcome ok or not found.
    pub answered: u32,
    /// Other operations.
    pub failed: u32,
    pub is_warmup: bool,
    /// After the planned end of the phase: no operation begins.
    pub is_drain: bool,
}

/// Ticks of a phase, or of a part of it, in time order.
#[derive(Debug)]
pub struct PhaseTicks(Vec<TickAt>);

impl PhaseTicks {
    /// Returns the ticks of a phase; `None` if they were not counted.
    pub fn of(facts: &PhaseFacts<'_>) -> Option<Self> {
        let mut all = Vec::new();
        for slice in &facts.phase.slices {
            let (is_warmup, is_drain) = (facts.is_warmup(slice), slice.drain);
            for (start_ns, tick) in (slice.start_ns..).step_by(TICK_NS as usize).zip(&slice.ticks) {
                let (answered, failed) = (tick.answered, tick.failed);
                all.push(TickAt { start_ns, end_ns: start_ns + TICK_NS, answered, failed, is_warmup, is_drain });
            }
            if let Some(last) = all.last_mut().filter(|_| !slice.ticks.is_empty()) {
                last.end_ns = slice.end_ns.max(last.start_ns);
            }
        }
        (!all.is_empty()).then_some(Self(all))
    }

    /// Returns the ticks for which `is_in` returns true.
    pub fn part(&self, is_in: impl Fn(&TickAt) -> bool) -> Self {
        Self(self.0.iter().filter(|tick| is_in(tick)).copied().collect())
    }

    /// Iterates over the ticks.
    pub fn iter(&self) -> impl Iterator<Item = &TickAt> {
        self.0.iter()
    }

    /// End of the last tick; 0 without ticks.
    pub fn end_ns(&self) -> u64 {
        self.0.last().map_or(0, |tick| tick.end_ns)
    }

    /// End of the last tick before the drain; 0 without ticks.
    pub fn planned_end_ns(&self) -> u64 {
        self.0.iter().rfind(|tick| !tick.is_drain).map_or(0, |tick| tick.end_ns)
    }

    /// Returns the starts and ends of unbroken runs of ticks for which `is_in` returns true.
    pub fn runs(&self, is_in: impl Fn(&TickAt) -> bool) -> Vec<(u64, u64)> {
        let runs = self.0.chunk_by(|a, b| is_in(a) == is_in(b)).filter(|run| run.first().is_some_and(&is_in));
        runs.filter_map(|run| Some((run.first()?.start_ns, run.last()?.end_ns))).collect()
    }

    /// Returns the answers a second in the window that begins with each tick, as far as the ticks fill it.
    pub fn rates(&self) -> Vec<f64> {
        let mut rates = Vec::new();
        let (mut to, mut answered) = (0, 0);
        for first in &self.0 {
            let mut length_ns = self.length_ns(first, to);
            while length_ns < WINDOW_NS {
                let Some(next) = self.0.get(to) else { return rates };
                answered += u64::from(next.answered);
                to += 1;
                length_ns = self.length_ns(first, to);
            }
            rates.push(answered as f64 * 1e9 / length_ns as f64);
            answered -= u64::from(first.answered);
        }
        rates
    }

    /// Returns the most answers by which the window that begins with the tick at `first` falls behind `per_s`, and the time
    /// until then; 0 and the window's start if it never does.
    pub fn behind(&self, first: usize, per_s: f64) -> (f64, u64) {
        let ticks = self.0.get(first..).unwrap_or_default();
        let start_ns = ticks.first().map_or(0, |tick| tick.start_ns);
        let (mut answered, mut most) = (0, (0.0, start_ns));
        for tick in ticks.iter().take_while(|tick| tick.start_ns < start_ns + WINDOW_NS) {
            answered += u64::from(tick.answered);
            let behind = per_s * tick.end_ns.saturating_sub(start_ns) as f64 / 1e9 - answered as f64;
            if behind > most.0 {
                most = (behind, tick.end_ns);
            }
        }
        most
    }

    /// Time from the start of `first` to the end of the tick before the one at `to`.
    fn length_ns(&self, first: &TickAt, to: usize) -> u64 {
        let last = to.checked_sub(1).and_then(|last| self.0.get(last));
        last.map_or(0, |last| last.end_ns.saturating_sub(first.start_ns))
    }
}
