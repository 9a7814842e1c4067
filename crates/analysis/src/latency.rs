//! How long operations took: merged distributions, percentiles that have enough samples, percentile curves.

use plimsoll_record::Distribution;

use crate::number;
use crate::view::PercentileView;

/// Samples that must lie above a percentile for it to be given.
pub const SAMPLES_ABOVE: u64 = 10;

/// The percentiles that there are, by the name that formulas and goals use, as samples per one above.
pub const PERCENTILES: [(&str, u64); 5] = [("p50", 2), ("p90", 10), ("p95", 20), ("p99", 100), ("p999", 1000)];

/// How many samples there are for one above the percentile `name`.
pub fn one_in(name: &str) -> Option<u64> {
    PERCENTILES.iter().find(|(known, _)| *known == name).map(|(_, one_in)| *one_in)
}

/// Those of them that tables and charts show.
pub const SHOWN: [&str; 4] = ["p50", "p90", "p99", "p999"];

/// Times in nanoseconds and how often each was seen. A time is the middle of the bucket that it was counted in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Ascending, each time once.
    counts: Vec<(u64, u64)>,
    n: u64,
}

impl Times {
    /// Adds one operation that took `ns`.
    pub fn record(&mut self, ns: u64) {
        self.merge(&[(ns, 1)]);
    }

    /// Adds a slice's.
    pub fn add(&mut self, distribution: &Distribution) {
        self.merge(distribution.counts());
    }

    /// Adds all of another.
    pub fn add_times(&mut self, other: &Times) {
        self.merge(&other.counts);
    }

    /// Takes a part away, of which each time is one of these.
    pub fn subtract(&mut self, part: impl Iterator<Item = (u64, u64)>) {
        for (ns, count) in part {
            if let Ok(at) = self.counts.binary_search_by_key(&ns, |(ns, _)| *ns) {
                let taken = count.min(self.counts[at].1);
                self.counts[at].1 -= taken;
                self.n -= taken;
            }
        }
        self.counts.retain(|(_, count)| *count > 0);
    }

    /// Adds times in ascending order.
    fn merge(&mut self, others: &[(u64, u64)]) {
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
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().copied()
    }

    /// The longest; 0 of none.
    pub fn max_ns(&self) -> u64 {
        self.counts.last().map_or(0, |(ns, _)| *ns)
    }

    /// The mean; 0 of none.
    pub fn mean_ns(&self) -> f64 {
        let sum: f64 = self.counts().map(|(ns, count)| ns as f64 * count as f64).sum();
        if self.n == 0 { 0.0 } else { sum / self.n as f64 }
    }

    /// Number of samples above `limit_ns`.
    pub fn above(&self, limit_ns: f64) -> u64 {
        self.counts.iter().rev().take_while(|(ns, _)| *ns as f64 > limit_ns).map(|(_, count)| count).sum()
    }

    /// The smallest time with at most `above` samples above it; 0 of none.
    fn with_above(&self, above: u64) -> u64 {
        let rank = (self.n - above.min(self.n)).max(1);
        let mut seen = 0;
        for (ns, count) in self.counts() {
            seen += count;
            if seen >= rank {
                return ns;
            }
        }
        self.max_ns()
    }

    /// The percentile `name` in nanoseconds, or why there is none: how many samples are missing for it.
    pub fn percentile(&self, name: &str) -> Result<u64, String> {
        let one_in = one_in(name).ok_or_else(|| format!("there is no {name}"))?;
        let needed = SAMPLES_ABOVE * one_in;
        if self.n >= needed {
            Ok(self.with_above(self.n / one_in))
        } else {
            Err(format!("needs {} samples, has {}", number::count(needed), number::count(self.n)))
        }
    }

    /// All of [`SHOWN`].
    pub fn percentiles(&self) -> Vec<PercentileView> {
        let view = |name: &str| {
            let (ns, missing) = self.percentile(name).map_or_else(|why| (None, Some(why)), |ns| (Some(ns), None));
            PercentileView { name: name.to_string(), ns, missing }
        };
        SHOWN.map(view).to_vec()
    }

    /// The percentile curve: −log₁₀ of the share above, and seconds; a tenth of a nine apart, up to the last point
    /// with [`SAMPLES_ABOVE`] samples above it. Empty with fewer than twenty samples.
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

    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_above_it() {
        let mut times = Times::default();
        for value in 1..=999u64 {
            times.record(value * 1000);
        }
        assert_eq!(times.percentile("p99"), Err("needs 1,000 samples, has 999".to_string()));
        times.record(1_000_000);
        assert_eq!(times.percentile("p99"), Ok(990_000));
        assert_eq!(times.percentile("p50"), Ok(500_000));
        assert!(times.percentile("p999").is_err());
        assert_eq!(times.percentile("p12"), Err("there is no p12".to_string()));
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
        times.add(&Distribution::from(&histogram));
        assert_eq!(times.len(), histogram.len());
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            let (ours, theirs) = (times.percentile(name).unwrap(), histogram.value_at_quantile(quantile));
            assert!(ours.abs_diff(theirs) * 1000 <= theirs, "{name}: {ours}, {theirs}");
        }
        assert!((times.mean_ns() - histogram.mean()).abs() < histogram.mean() / 1000.0);
    }

    #[test]
    fn a_curve_ends_where_ten_samples_are_above() {
        let mut times = Times::default();
        times.merge(&[(1_000, 900), (1_000_000, 100)]);
        let (nines, seconds) = times.curve();
        assert_eq!(nines.len(), seconds.len());
        assert!((nines.last().unwrap() - 2.0).abs() < 1e-9);
        assert!(nines.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(seconds.windows(2).all(|pair| pair[0] <= pair[1]));
        let mut few = Times::default();
        few.merge(&[(1_000, 19)]);
        assert!(few.curve().0.is_empty());
    }

    #[test]
    fn slices_of_two_and_of_three_digits_merge() {
        let mut into = Times::default();
        for (digits, n) in [(2, 30), (3, 12)] {
            let mut slice = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, digits).unwrap();
            slice.record_n(5_000_000, n).unwrap();
            into.add(&Distribution::from(&slice));
        }
        assert_eq!(into.len(), 42);
        assert!(into.max_ns().abs_diff(5_000_000) < 50_000, "{}", into.max_ns());
        assert_eq!(Times::default().max_ns(), 0);
    }

    #[test]
    fn merging_keeps_order_and_sums_what_is_equal() {
        let mut times = Times::default();
        times.merge(&[(2, 1), (5, 2)]);
        times.merge(&[(1, 1), (5, 3), (9, 1)]);
        times.record(4);
        assert_eq!(times.counts().collect::<Vec<_>>(), [(1, 1), (2, 1), (4, 1), (5, 5), (9, 1)]);
        assert_eq!(times.len(), 9);
    }
}
