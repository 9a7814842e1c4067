//! Response times of operations: merged distributions, percentiles that have enough samples, percentile curves.

use plimsoll_core::quantity::Percentile;

use crate::number;
use crate::view::{BucketView, PercentileView};

/// Samples that must lie above a percentile for it to be given.
pub const SAMPLES_ABOVE: u64 = 10;

/// The percentiles that comparisons have, by the name that formulas and goals use, as samples per one above.
pub const PERCENTILES: [(&str, u64); 5] = [("p50", 2), ("p90", 10), ("p95", 20), ("p99", 100), ("p999", 1000)];

/// Percentiles that tables and charts show.
pub const SHOWN: [&str; 5] = ["p50", "p90", "p95", "p99", "p999"];

/// Returns the name of a percentile as it is written: `p99.9`; other names as they are.
pub fn written(name: &str) -> String {
    Percentile::named(name).map_or_else(|| name.to_string(), |percentile| percentile.to_string())
}

/// Most buckets of a histogram that people read.
const BUCKETS_MAX: usize = 12;

/// Bounds within a decade, as their first two digits; the finest first.
const STEPS: [&[u64]; 5] =
    [&[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82], &[10, 15, 20, 30, 50, 70], &[10, 20, 50], &[10, 30], &[10]];

/// Bounds of `steps` from the last up to `low_ns` to the first above `high_ns`.
fn bounds(steps: &[u64], low_ns: u64, high_ns: u64) -> Vec<u64> {
    let all = (0..12).flat_map(|decade| steps.iter().map(move |step| step * 10u64.pow(decade)));
    let all: Vec<u64> = all.collect();
    let from = all.partition_point(|bound| *bound <= low_ns).saturating_sub(1);
    let to = all.partition_point(|bound| *bound <= high_ns);
    all.get(from..=to).unwrap_or_default().to_vec()
}

/// Times in nanoseconds and how often each was seen. A time is the middle of the bucket that it was counted in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Ascending, each time once.
    counts: Vec<(u64, u64)>,
    n: u64,
}

impl Times {
    /// Takes a part away, of which each time is one of these.
    pub fn subtract(&mut self, part: &[(u64, u64)]) {
        for (ns, count) in part {
            if let Ok(at) = self.counts.binary_search_by_key(ns, |(ns, _)| *ns) {
                let taken = self.counts[at].1.min(*count);
                self.counts[at].1 -= taken;
                self.n -= taken;
            }
        }
        self.counts.retain(|(_, count)| *count > 0);
    }

    /// Adds times in ascending order, and how often each was seen.
    pub fn add(&mut self, others: &[(u64, u64)]) {
        self.n += others.iter().map(|(_, count)| count).sum::<u64>();
        let is_first = self.counts.is_empty();
        self.counts.extend_from_slice(others);
        if !is_first {
            // Two runs in order: this sort merges them.
            self.counts.sort_by_key(|(ns, _)| *ns);
            self.counts.dedup_by(|next, kept| {
                let is_equal = next.0 == kept.0;
                kept.1 += if is_equal { next.1 } else { 0 };
                is_equal
            });
        }
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// True without samples.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Times in ascending order, and how often each was seen.
    pub fn counts(&self) -> &[(u64, u64)] {
        &self.counts
    }

    /// The longest; 0 of none.
    pub fn max_ns(&self) -> u64 {
        self.counts.last().map_or(0, |(ns, _)| *ns)
    }

    /// Returns the p99, or the longest of too few; 0 without any.
    pub fn slowest_ns(&self) -> u64 {
        self.percentile("p99").unwrap_or_else(|_| self.max_ns())
    }

    /// The mean; 0 of none.
    pub fn mean_ns(&self) -> f64 {
        let sum: f64 = self.counts.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
        if self.n == 0 { 0.0 } else { sum / self.n as f64 }
    }

    /// The standard deviation; 0 of none.
    pub fn stddev_ns(&self) -> f64 {
        let mean = self.mean_ns();
        let squares: f64 = self.counts.iter().map(|(ns, count)| (*ns as f64 - mean).powi(2) * *count as f64).sum();
        if self.n == 0 { 0.0 } else { (squares / self.n as f64).sqrt() }
    }

    /// Number of samples above `limit_ns`.
    pub fn above(&self, limit_ns: f64) -> u64 {
        self.counts.iter().rev().take_while(|(ns, _)| *ns as f64 > limit_ns).map(|(_, count)| count).sum()
    }

    /// The smallest time with at most `above` samples above it; 0 of none.
    fn with_above(&self, above: u64) -> u64 {
        let rank = (self.n - above.min(self.n)).max(1);
        let mut seen = 0;
        for (ns, count) in &self.counts {
            seen += count;
            if seen >= rank {
                return *ns;
            }
        }
        self.max_ns()
    }

    /// The percentile `name` in nanoseconds, or why there is none: how many samples are missing for it.
    pub fn percentile(&self, name: &str) -> Result<u64, String> {
        let percentile = Percentile::named(name).ok_or_else(|| format!("there is no {name}"))?;
        let needed = percentile.samples(SAMPLES_ABOVE);
        if self.n >= needed {
            Ok(self.with_above(percentile.above(self.n)))
        } else {
            Err(format!("needs {} samples, has {}", number::count(needed), number::count(self.n)))
        }
    }

    /// Returns the highest time that has enough samples above it, in nanoseconds: a lower bound of each percentile that
    /// has too few. `None` if no time has enough.
    pub fn highest(&self) -> Option<u64> {
        (self.n > SAMPLES_ABOVE).then(|| self.with_above(SAMPLES_ABOVE))
    }

    /// Returns the percentiles of `SHOWN`.
    pub fn percentiles(&self) -> Vec<PercentileView> {
        let view = |name: &str| {
            let (ns, missing) = self.percentile(name).map_or_else(|why| (None, Some(why)), |ns| (Some(ns), None));
            PercentileView { name: name.to_string(), ns, missing }
        };
        SHOWN.map(view).to_vec()
    }

    /// Returns a histogram of the times: at most `BUCKETS_MAX` buckets with round bounds, as fine as possible, with
    /// outliers in the first and the last.
    pub fn buckets(&self) -> Vec<BucketView> {
        if self.is_empty() {
            return Vec::new();
        }
        // One of a hundred is an outlier already.
        let far = (self.n / 1000).max(u64::from(self.n >= 100));
        let (low, high) = (self.with_above(self.n - self.n.div_ceil(100)), self.with_above(far));
        let fits = |bounds: &Vec<u64>| bounds.len() < BUCKETS_MAX;
        let bounds = STEPS.iter().map(|steps| bounds(steps, low, high)).find(fits);
        let bounds = bounds.unwrap_or_else(|| vec![low.max(1), high.max(2)]);
        let (mut from_ns, mut seen, mut buckets) = (0, 0, Vec::new());
        let percent = |count: u64| count as f64 * 100.0 / self.n as f64;
        for to_ns in bounds.into_iter().map(Some).chain([None]) {
            let inside = |ns: u64| ns >= from_ns && to_ns.is_none_or(|to_ns| ns < to_ns);
            let count: u64 = self.counts.iter().filter(|(ns, _)| inside(*ns)).map(|(_, count)| count).sum();
            seen += count;
            buckets.push(BucketView {
                from_ns,
                to_ns,
                count,
                percent: percent(count),
                cumulative_percent: percent(seen),
            });
            from_ns = to_ns.unwrap_or(from_ns);
        }
        buckets.retain(|bucket| bucket.count > 0 || (bucket.from_ns > 0 && bucket.to_ns.is_some()));
        buckets
    }

    /// The percentile curve: −log₁₀ of the share above, and seconds; a tenth of a nine apart, up to the last point
    /// with `SAMPLES_ABOVE` samples above it. Empty with fewer than twenty samples.
    pub fn curve(&self) -> (Vec<f64>, Vec<f64>) {
        let mut points = (Vec::new(), Vec::new());
        if self.n < 2 * SAMPLES_ABOVE {
            return points;
        }
        let last = (self.n as f64 / SAMPLES_ABOVE as f64).log10();
        for tenth in 0..=90 {
            let nines = (f64::from(tenth) / 10.0).min(last);
            let above = (self.n as f64 * 10f64.powf(-nines)).round() as u64;
            points.0.push(nines);
            points.1.push(self.with_above(above) as f64 / 1e9);
            if nines >= last {
                break;
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use plimsoll_record::Distribution;

    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_above_it() {
        let mut times = Times::default();
        for value in 1..=999u64 {
            times.add(&[(value * 1000, 1)]);
        }
        assert_eq!(times.percentile("p99"), Err("needs 1,000 samples, has 999".to_string()));
        times.add(&[(1_000_000, 1)]);
        assert_eq!(times.percentile("p99"), Ok(990_000));
        assert_eq!(times.percentile("p50"), Ok(500_000));
        assert!(times.percentile("p999").is_err());
        assert_eq!(times.percentile("p97.5"), Ok(975_000));
        assert_eq!(times.percentile("q12"), Err("there is no q12".to_string()));
    }

    #[test]
    fn percentiles_and_mean_are_those_of_the_histogram_they_came_from() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            histogram.record(1 + (state >> 40) * (state >> 60)).unwrap();
        }
        let mut times = Times::default();
        times.add(Distribution::from(&histogram).counts());
        assert_eq!(times.len(), histogram.len());
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            let (ours, theirs) = (times.percentile(name).unwrap(), histogram.value_at_quantile(quantile));
            assert!(ours.abs_diff(theirs) * 1000 <= theirs, "{name}: {ours}, {theirs}");
        }
        assert!((times.mean_ns() - histogram.mean()).abs() < histogram.mean() / 1000.0);
        assert!((times.stddev_ns() - histogram.stdev()).abs() < histogram.stdev() / 1000.0);
    }

    #[test]
    fn a_histogram_has_few_buckets_with_round_bounds_and_everything_in_them() {
        for (times, n, first) in [
            (vec![(900, 3), (120_000, 50), (130_000, 900), (480_000, 40), (9_000_000_000, 1)], 10, (0, Some(120_000))),
            (vec![(5_000_000, 7)], 1, (4_700_000, Some(5_600_000))),
            ((0..9).map(|power| (3 * 10u64.pow(power), 10)).collect(), 9, (0, Some(10))),
        ] {
            let mut all = Times::default();
            all.add(&times);
            let buckets = all.buckets();
            assert!(buckets.len() <= BUCKETS_MAX, "{buckets:?}");
            assert_eq!(buckets.iter().map(|one| one.count).sum::<u64>(), all.len());
            assert!((buckets.last().unwrap().cumulative_percent - 100.0).abs() < 1e-9);
            assert!(buckets.windows(2).all(|pair| pair[0].to_ns == Some(pair[1].from_ns)), "{buckets:?}");
            assert_eq!((buckets.len(), buckets[0].from_ns, buckets[0].to_ns), (n, first.0, first.1), "{buckets:?}");
        }
        assert!(Times::default().buckets().is_empty());
    }

    #[test]
    fn a_curve_ends_where_ten_samples_are_above() {
        let mut times = Times::default();
        times.add(&[(1_000, 900), (1_000_000, 100)]);
        let (nines, seconds) = times.curve();
        assert_eq!(nines.len(), seconds.len());
        assert!((nines.last().unwrap() - 2.0).abs() < 1e-9);
        assert!(nines.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(seconds.windows(2).all(|pair| pair[0] <= pair[1]));
        let mut few = Times::default();
        few.add(&[(1_000, 19)]);
        assert!(few.curve().0.is_empty());
    }

    #[test]
    fn slices_of_two_and_of_three_digits_merge() {
        let mut into = Times::default();
        for (digits, n) in [(2, 30), (3, 12)] {
            let mut slice = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, digits).unwrap();
            slice.record_n(5_000_000, n).unwrap();
            into.add(Distribution::from(&slice).counts());
        }
        assert_eq!(into.len(), 42);
        assert!(into.max_ns().abs_diff(5_000_000) < 50_000, "{}", into.max_ns());
        assert_eq!(Times::default().max_ns(), 0);
    }

    #[test]
    fn merging_keeps_order_and_sums_what_is_equal() {
        let mut times = Times::default();
        times.add(&[(2, 1), (5, 2)]);
        times.add(&[(1, 1), (5, 3), (9, 1)]);
        times.add(&[(4, 1)]);
        assert_eq!(times.counts(), [(1, 1), (2, 1), (4, 1), (5, 5), (9, 1)]);
        assert_eq!(times.len(), 9);
    }
}
