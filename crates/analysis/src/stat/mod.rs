//! Statistics: intervals, tests, autocorrelation, warm-up. Pure functions of numbers; the sources of formulas stand at
//! each.
//!
//! | module | what |
//! |---|---|
//! | [`interval`] | medians and bootstrap, each with a 95 % interval |
//! | [`difference`] | are two samples different: Welch's t for slice series |
//! | [`series`] | autocorrelation and effective sample size; where a warm-up ends |
//! | [`fit`] | rank correlation |
//! | [`special`] | distribution functions |
//!
//! No randomness that is not from a fixed seed: the same run gives the same numbers on any machine.

pub mod difference;
pub mod fit;
pub mod interval;
pub mod series;
pub mod special;

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// The mean; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The unbiased variance; 0 of fewer than two.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// The median: the mean of the two in the middle when their number is even; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values.get(middle).copied()
    } else {
        Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0)
    }
}

/// Returns the median of an iterator's values; `None` without any.
pub fn median_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    median(&values.collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_two_is_between_them() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, 7.0]), Some(3.0));
    }
}
