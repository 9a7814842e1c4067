//! Distribution of the times of calls: counts in buckets, 64 to each doubling, as in the kernel's programs.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Buckets to a doubling are 2 to the power of this.
pub(crate) const FINE: u32 = 6;

/// The bucket of `ns`. Below 128 ns each nanosecond has its own.
pub(crate) fn bucket_of(ns: u64) -> u16 {
    match ns.checked_ilog2() {
        Some(log) if log > FINE => (((log - FINE) << FINE) as u64 + (ns >> (log - FINE))) as u16,
        _ => ns as u16,
    }
}

/// The least time of a bucket.
pub(crate) fn least_of(bucket: u16) -> u64 {
    let (bucket, whole) = (u64::from(bucket), 1 << FINE);
    match bucket >> FINE {
        0 | 1 => bucket,
        block => (whole + bucket % whole) << (block - 1),
    }
}

fn middle_of(bucket: u16) -> u64 {
    let least = least_of(bucket);
    least + (least_of(bucket + 1) - least) / 2
}

/// A distribution of times. Exact below 128 ns, and to 1.6 % above.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times {
    counts: BTreeMap<u16, u64>,
}

impl Times {
    /// Adds one of `ns`.
    pub fn record(&mut self, ns: u64) {
        self.add(bucket_of(ns), 1);
    }

    pub(crate) fn add(&mut self, bucket: u16, count: u64) {
        *self.counts.entry(bucket).or_default() += count;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Times) {
        other.counts.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
    }

    /// Returns the times that were added since `before`.
    pub(crate) fn since(&self, before: &Times) -> Times {
        let left = |(bucket, count): (&u16, &u64)| {
            let more = count.saturating_sub(before.counts.get(bucket).copied().unwrap_or(0));
            (more > 0).then_some((*bucket, more))
        };
        Times { counts: self.counts.iter().filter_map(left).collect() }
    }

    /// Returns the number of times.
    pub fn len(&self) -> u64 {
        self.counts.values().sum()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Times in the middle of their buckets, in nanoseconds, in ascending order, and how often each was.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(bucket, count)| (middle_of(*bucket), *count))
    }

    /// Counts by powers of two: the least time in nanoseconds, which its bucket doubles; empty buckets between others too.
    pub fn powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut powers: BTreeMap<u32, u64> = BTreeMap::new();
        for (bucket, count) in &self.counts {
            *powers.entry(least_of(*bucket).checked_ilog2().unwrap_or(0)).or_default() += count;
        }
        let (Some(first), Some(last)) = (powers.keys().min(), powers.keys().max()) else { return Vec::new() };
        (*first..=*last).map(|log| (1 << log, powers.get(&log).copied().unwrap_or(0))).collect()
    }

    /// The time that `share` (0 to 1) of all do not pass, in nanoseconds, as the middle of its bucket; `None` without any.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        self.bucket(share).map(middle_of)
    }

    /// Returns the quantile as the least value of its bucket, which is exact for sizes that are round numbers.
    pub fn least(&self, share: f64) -> Option<u64> {
        self.bucket(share).map(least_of)
    }

    fn bucket(&self, share: f64) -> Option<u16> {
        let wanted = ((self.len() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.counts.iter().find_map(|(bucket, count)| {
            seen += count;
            (seen >= wanted).then_some(*bucket)
        })
    }

    /// Returns the sum, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.counts().map(|(ns, count)| ns * count).sum()
    }

    /// Converts the times to an HdrHistogram of nanoseconds from 1 ns to 1 h with 3 digits, the format of recordings.
    pub fn hdr(&self) -> Histogram<u64> {
        let mut all = Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
            .unwrap_or_else(|_| unreachable!("bounds that a histogram can have"));
        self.counts().for_each(|(ns, count)| all.saturating_record_n(ns, count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_it_says_and_no_more_than_a_64th_above() {
        for ns in (0..5_000).chain([65_535, 65_536, 1 << 33, (1 << 33) - 1, 3_600_000_000_000, u64::MAX >> 1]) {
            let bucket = bucket_of(ns);
            let (least, next) = (least_of(bucket), least_of(bucket + 1));
            assert!(least <= ns && ns < next, "{ns} in {bucket}: {least} to {next}");
            assert!((next - least) * 64 <= ns.max(64), "{ns}: {least} to {next}");
        }
    }

    #[test]
    fn powers_quantiles_and_differences_are_those_of_what_was_recorded() {
        let mut times = Times::default();
        assert_eq!((times.quantile(0.5), times.powers_of_two()), (None, vec![]));
        (0..90).for_each(|_| times.record(1_000));
        let before = times.clone();
        (0..10).for_each(|_| times.record(5_000));
        assert_eq!(times.powers_of_two(), [(512, 90), (1_024, 0), (2_048, 0), (4_096, 10)]);
        assert!(times.quantile(0.9).is_some_and(|ns| ns.abs_diff(1_000) < 16), "{times:?}");
        assert!(times.quantile(0.99).is_some_and(|ns| ns.abs_diff(5_000) < 80), "{times:?}");
        let new = times.since(&before);
        assert_eq!((new.len(), new.powers_of_two()), (10, vec![(4_096, 10)]));
        assert_eq!(times.hdr().len(), 100);
    }
}
