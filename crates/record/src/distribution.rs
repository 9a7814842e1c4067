//! A histogram without its empty places.

use hdrhistogram::Histogram;
use plimsoll_core::{Disturbance, Slice, SliceHistogram};

/// A histogram as values and counts. A dense one takes 264 KiB whatever is in it; there are thousands in a
/// recording, and most of them have a few hundred values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distribution {
    counts: Vec<(u64, u64)>,
}

impl Distribution {
    /// Values, in ascending order, and how often each was seen (never 0). A value stands for its bucket's
    /// whole range and is its middle.
    pub fn counts(&self) -> &[(u64, u64)] {
        &self.counts
    }

    /// Number of observations.
    pub fn len(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// True when nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds all observations to `histogram`, which must span 1 ns to 1 h or more; what lies beyond its top
    /// is counted there. With equal bounds and digits each lands in the bucket that it came from.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for &(value, count) in &self.counts {
            histogram.saturating_record_n(value, count);
        }
    }

    /// Returns a dense histogram from 1 ns to 1 h with 3 digits.
    pub(crate) fn dense(&self) -> Histogram<u64> {
        // These bounds are the type's own.
        let mut dense = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!());
        self.add_to(&mut dense);
        dense
    }
}

impl From<&Histogram<u64>> for Distribution {
    fn from(histogram: &Histogram<u64>) -> Self {
        let counts = histogram
            .iter_recorded()
            .map(|step| (histogram.median_equivalent(step.value_iterated_to()), step.count_at_value()))
            .collect();
        Self { counts }
    }
}

/// A slice as it is read back.
pub fn packed(slice: &Slice) -> Slice<Distribution> {
    let each = |all: &[SliceHistogram]| {
        let pack = |one: &SliceHistogram| SliceHistogram {
            kind: one.kind,
            outcome: one.outcome,
            measure: one.measure,
            histogram: Distribution::from(&one.histogram),
        };
        all.iter().map(pack).collect()
    };
    Slice {
        ordinal: slice.ordinal,
        preview: slice.preview,
        warmup: slice.warmup,
        drain: slice.drain,
        start_ns: slice.start_ns,
        end_ns: slice.end_ns,
        wall_ns: slice.wall_ns,
        histograms: each(&slice.histograms),
        unfinished: slice.unfinished.as_ref().map(Distribution::from),
        due_unsent: slice.due_unsent,
        in_flight: slice.in_flight,
        oldest_age_ns: slice.oldest_age_ns,
        lag_p50_ns: slice.lag_p50_ns,
        lag_p99_ns: slice.lag_p99_ns,
        lag_max_ns: slice.lag_max_ns,
        worker_cpu_ns: slice.worker_cpu_ns,
        voluntary_switches: slice.voluntary_switches,
        involuntary_switches: slice.involuntary_switches,
        watched: slice.watched.as_ref().map(|watched| Disturbance {
            disturbed_ns: watched.disturbed_ns,
            pauses: watched.pauses.clone(),
            // It is a reading of its own.
            lateness: None,
            disturbed: each(&watched.disturbed),
        }),
        // They are readings of their own, too.
        servers: Vec::new(),
        ticks: slice.ticks.clone(),
        affected: slice.affected.clone(),
        silences: slice.silences.clone(),
        server_ticks: slice.server_ticks.clone(),
        key_parts: slice.key_parts.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(digits: u8) -> Histogram<u64> {
        Histogram::new_with_bounds(1, 3_600_000_000_000, digits).unwrap()
    }

    #[test]
    fn each_observation_goes_back_to_the_bucket_it_came_from() {
        for digits in [2, 3] {
            let mut histogram = dense(digits);
            for step in 0..4_000u64 {
                histogram.record_n(1 + step * step * 225_000, 1 + step % 7).unwrap();
            }
            histogram.record(3_600_000_000_000).unwrap();
            let packed = Distribution::from(&histogram);
            assert_eq!(packed.len(), histogram.len());
            let mut again = dense(digits);
            packed.add_to(&mut again);
            assert_eq!(again, histogram);
            assert_eq!(again.max(), histogram.max());
            assert!((again.mean() - histogram.mean()).abs() < 1.0);
        }
        assert!(Distribution::from(&dense(3)).is_empty());
    }

    #[test]
    fn values_ascend_and_lie_inside_their_buckets() {
        let mut histogram = dense(3);
        for value in [1, 2, 1_000, 123_456_789, 3_599_999_999_999] {
            histogram.record(value).unwrap();
        }
        let packed = Distribution::from(&histogram);
        let values: Vec<u64> = packed.counts().iter().map(|&(value, _)| value).collect();
        assert_eq!(values.len(), 5);
        assert!(values.is_sorted());
        for (value, original) in values.iter().zip([1u64, 2, 1_000, 123_456_789, 3_599_999_999_999]) {
            assert!(value.abs_diff(original) * 1_000 <= original, "{value} is not within 0.1 % of {original}");
        }
    }
}
