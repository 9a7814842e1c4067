//! Merged histograms, percentiles that have enough samples, and percentile curves.

use hdrhistogram::Histogram;
use plimsoll_record::Distribution;

use crate::number;
use crate::view::PercentileView;

/// Samples that must lie above a percentile for it to be given.
pub const SAMPLES_ABOVE: u64 = 10;

/// The percentiles that tables show, by the name that formulas and goals use, as samples per one above.
pub const PERCENTILES: [(&str, u64); 4] = [("p50", 2), ("p90", 10), ("p99", 100), ("p999", 1000)];

/// An empty histogram that anything can be added to: 1 ns to 1 h to start with, 3 significant digits.
pub fn empty() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| {
        // The bounds are constants that the crate accepts; a histogram without them accepts everything too.
        Histogram::new_with_max(u64::MAX / 2, 1).unwrap_or_else(|_| unreachable!("constant bounds"))
    });
    histogram.auto(true);
    histogram
}

/// Adds `from` to `into`; what lies beyond an hour is counted there unless `into` has grown.
pub fn merge(into: &mut Histogram<u64>, from: &Distribution) {
    from.add_to(into);
}

/// Adds a dense histogram.
pub fn merge_dense(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    // `into` resizes itself, so the only failure left is a value that does not fit in a usize.
    let _ = into.add(from);
}

/// Samples that the percentile with one in `one_in` above it needs.
fn needed(one_in: u64) -> u64 {
    SAMPLES_ABOVE * one_in
}

/// The percentile `name` in nanoseconds, or how many samples are missing for it; `None` for a name that is none.
pub fn percentile(histogram: &Histogram<u64>, name: &str) -> Option<Result<u64, String>> {
    let one_in = PERCENTILES.iter().find(|(known, _)| *known == name)?.1;
    Some(if histogram.len() >= needed(one_in) {
        Ok(histogram.value_at_quantile(1.0 - 1.0 / one_in as f64))
    } else {
        Err(format!("needs {} samples, has {}", number::count(needed(one_in)), number::count(histogram.len())))
    })
}

/// All of [`PERCENTILES`].
pub fn percentiles(histogram: &Histogram<u64>) -> Vec<PercentileView> {
    PERCENTILES
        .iter()
        .filter_map(|(name, _)| {
            let (ns, missing) = match percentile(histogram, name)? {
                Ok(ns) => (Some(ns), None),
                Err(why) => (None, Some(why)),
            };
            Some(PercentileView { name: (*name).to_string(), ns, missing })
        })
        .collect()
}

/// The percentile curve: −log₁₀ of the share above, and seconds; a tenth of a nine apart, up to the last point
/// with [`SAMPLES_ABOVE`] samples above it. Empty with fewer than twenty samples.
pub fn curve(histogram: &Histogram<u64>) -> (Vec<f64>, Vec<f64>) {
    let mut points = (Vec::new(), Vec::new());
    if histogram.len() < 2 * SAMPLES_ABOVE {
        return points;
    }
    let last = (histogram.len() as f64 / SAMPLES_ABOVE as f64).log10();
    for tenth in 0..=90 {
        let nines = (f64::from(tenth) / 10.0).min(last);
        points.0.push(nines);
        points.1.push(histogram.value_at_quantile(1.0 - 10f64.powf(-nines)) as f64 / 1e9);
        if nines >= last {
            break;
        }
    }
    points
}

/// The median of `values`: the mean of the two in the middle when their number is even; `None` of none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values.get(middle).copied()
    } else {
        Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_above_it() {
        let mut histogram = empty();
        for value in 1..=999u64 {
            histogram.record(value * 1000).unwrap();
        }
        assert_eq!(percentile(&histogram, "p99"), Some(Err("needs 1,000 samples, has 999".to_string())));
        histogram.record(1_000_000).unwrap();
        let p99 = percentile(&histogram, "p99").unwrap().unwrap();
        assert!((990_000..991_000).contains(&p99), "{p99}");
        assert!(percentile(&histogram, "p999").unwrap().is_err());
        assert_eq!(percentile(&histogram, "p12"), None);
    }

    #[test]
    fn a_curve_ends_where_ten_samples_are_above() {
        let mut histogram = empty();
        histogram.record_n(1_000, 900).unwrap();
        histogram.record_n(1_000_000, 100).unwrap();
        let (nines, seconds) = curve(&histogram);
        assert_eq!(nines.len(), seconds.len());
        assert!((nines.last().unwrap() - 2.0).abs() < 1e-9);
        assert!(nines.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(seconds.windows(2).all(|pair| pair[0] <= pair[1]));
        histogram.clear();
        histogram.record_n(1_000, 19).unwrap();
        assert!(curve(&histogram).0.is_empty());
    }

    #[test]
    fn slices_of_two_and_of_three_digits_merge() {
        let mut into = empty();
        for (digits, n) in [(2, 30), (3, 12)] {
            let mut slice = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, digits).unwrap();
            slice.record_n(5_000_000, n).unwrap();
            merge(&mut into, &Distribution::from(&slice));
        }
        assert_eq!(into.len(), 42);
        assert!(into.max().abs_diff(5_000_000) < 50_000, "{}", into.max());
    }

    #[test]
    fn a_median_of_two_is_between_them() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0]), Some(2.0));
        assert_eq!(median(&mut [3.0, 1.0, 7.0]), Some(3.0));
    }
}
