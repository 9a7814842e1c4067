//! Medians, ratios and anything else with a 95 % interval.

use super::special::coin_at_most;
use super::{CONFIDENCE, median};

/// A value with the interval in which the truth lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Observations behind it.
    pub n: u64,
}

/// The median and its distribution-free interval: the order statistics of the sign test (David & Nagaraja, *Order
/// Statistics*, 3rd ed., section 7.1). The true confidence is 95 % or somewhat more. Returns `None` with fewer than
/// six values, for which no such interval has 95 %.
pub fn of_median(values: &[f64]) -> Option<Interval> {
    let n = values.len() as u64;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The most values that may be left out at either end.
    let outside = (0..n / 2).take_while(|k| 2.0 * coin_at_most(*k, n) <= 1.0 - CONFIDENCE).last()?;
    Some(Interval {
        value: median(&sorted)?,
        low: *sorted.get(outside as usize)?,
        high: *sorted.get((n - 1 - outside) as usize)?,
        n,
    })
}

/// The middle 95 % of resampled values: the percentile interval (Efron, 1979). `None` with fewer than forty.
pub fn percentiles(mut resampled: Vec<f64>) -> Option<(f64, f64)> {
    resampled.retain(|value| value.is_finite());
    resampled.sort_by(f64::total_cmp);
    let n = resampled.len();
    if n < 40 {
        return None;
    }
    let at = |share: f64| resampled.get(((n - 1) as f64 * share).round() as usize).copied();
    Some((at((1.0 - CONFIDENCE) / 2.0)?, at(f64::midpoint(1.0, CONFIDENCE))?))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::*;

    #[test]
    fn a_median_needs_six_values_for_its_interval() {
        assert_eq!(of_median(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        let six = of_median(&[6.0, 2.0, 3.0, 1.0, 5.0, 4.0]).unwrap();
        assert_eq!((six.value, six.low, six.high, six.n), (3.5, 1.0, 6.0, 6));
        // n = 10: the second and the ninth (97.9 %), as in the tables of the sign test.
        let ten = of_median(&(1..=10).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((ten.low, ten.high), (2.0, 9.0));
        let many = of_median(&(1..=100).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((many.low, many.high), (40.0, 61.0));
    }

    #[test]
    fn the_interval_of_a_median_holds_the_truth_as_often_as_it_says() {
        let mut dice = SplitMix::new(1);
        let held = (0..2_000)
            .filter(|_| {
                let values: Vec<f64> =
                    (0..15).map(|_| (dice.below(1 << 30) as f64 / f64::from(1 << 30)).powi(3)).collect();
                let interval = of_median(&values).unwrap();
                interval.low <= 0.125 && 0.125 <= interval.high
            })
            .count();
        // n = 15: the true confidence is 96.5 %.
        assert!((1_900..=1_965).contains(&held), "{held} of 2,000");
    }

    #[test]
    fn few_resampled_values_have_no_interval() {
        assert_eq!(percentiles(vec![1.0; 39]), None);
        assert_eq!(percentiles(vec![1.0; 40]), Some((1.0, 1.0)));
    }
}
