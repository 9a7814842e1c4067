//! Distribution of repeated times.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time that is told apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// A percentile is given where at least so many samples are above it.
const ABOVE: f64 = 10.0;

/// Times so far.
#[derive(Debug, Clone)]
pub struct Clocked {
    histogram: Histogram<u64>,
    sum_ns: u128,
}

impl Default for Clocked {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        let histogram = histogram.unwrap_or_else(|_| unreachable!("bounds that a histogram can have"));
        Self { histogram, sum_ns: 0 }
    }
}

impl Clocked {
    /// Adds a call.
    pub fn note(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(LONGEST_NS);
        self.histogram.saturating_record(ns.max(1));
        self.sum_ns += u128::from(ns);
    }

    /// Adds all times of `other`.
    pub fn add(&mut self, other: &Clocked) {
        self.histogram += &other.histogram;
        self.sum_ns += other.sum_ns;
    }

    /// Returns the number of times.
    pub fn n(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the summary of the times; `None` if there are none.
    pub fn times(&self) -> Option<FlushTimes> {
        let n = self.n();
        let percentile =
            |share: f64| (n as f64 * (1.0 - share) >= ABOVE - 1e-6).then(|| self.histogram.value_at_quantile(share));
        (n > 0).then(|| FlushTimes {
            n,
            mean_ns: self.sum_ns as f64 / n as f64,
            p50_ns: percentile(0.5),
            p99_ns: percentile(0.99),
            max_ns: self.histogram.max(),
        })
    }
}

/// Summary of times. A percentile with fewer than ten samples above it is undecided: `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlushTimes {
    /// Number of times.
    pub n: u64,
    /// Mean of the times.
    pub mean_ns: f64,
    /// Median; needs 20 times.
    pub p50_ns: Option<u64>,
    /// 99 of 100 are no longer; needs 1,000.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_above_it() {
        let mut seen = Clocked::default();
        assert_eq!(seen.times(), None);
        let mut known = Vec::new();
        for n in 1..=1_000_u64 {
            seen.note(Duration::from_micros(n));
            let times = seen.times().unwrap();
            known.push((times.p50_ns.is_some(), times.p99_ns.is_some()));
        }
        assert_eq!(known.iter().position(|(p50, _)| *p50), Some(19));
        assert_eq!(known.iter().position(|(_, p99)| *p99), Some(999));
        let times = seen.times().unwrap();
        assert_eq!((times.n, times.mean_ns), (1_000, 500_500.0));
        assert!(times.p99_ns.is_some_and(|ns| (989_000..=991_000).contains(&ns)), "{times:?}");
    }
}
