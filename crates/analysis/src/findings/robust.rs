//! Usual values of a series, and deviations from them, by medians: a few outliers move neither.

use crate::stat;

/// Slices that a moving median is taken over, and slices that share one.
const WINDOW: usize = 120;
const BLOCK: usize = WINDOW / 4;
/// Factors that make a median of deviations, and a mean of them, the standard deviation of normal values.
const OF_MEDIAN: f64 = 1.4826;
const OF_MEAN: f64 = 1.2533;

/// Returns the usual value at each place: the moving median of the known values.
pub fn usual(values: &[Option<f64>]) -> Vec<f64> {
    let mut usual = Vec::with_capacity(values.len());
    let mut known: Vec<f64> = values.iter().flatten().copied().collect();
    let overall = middle(&mut known).unwrap_or(0.0);
    for start in (0..values.len()).step_by(BLOCK) {
        let half = WINDOW / 2;
        let from = (start + BLOCK / 2).saturating_sub(half).min(values.len().saturating_sub(WINDOW));
        let window = values.iter().skip(from).take(WINDOW);
        let mut known: Vec<f64> = window.flatten().copied().collect();
        usual.resize(values.len().min(start + BLOCK), middle(&mut known).unwrap_or(overall));
    }
    usual
}

/// Returns the standard deviation by the median absolute deviation (Rousseeuw & Croux, *J. Am. Stat. Assoc.* 88, 1993);
/// 0 if more than half of the residuals are 0.
pub fn spread(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|one| one.abs()).collect();
    OF_MEDIAN * middle(&mut sizes).unwrap_or(0.0)
}

/// Returns the deviation of each value from its usual one, in standard deviations within ± `limit`; 0 for unknown
/// values. `None` if most values are unknown, or all are equal.
pub fn deviations(values: &[Option<f64>], limit: f64) -> Option<Vec<f64>> {
    if values.iter().flatten().count() * 2 < values.len() {
        return None;
    }
    let usual = usual(values);
    let residual = |(value, usual): (&Option<f64>, &f64)| value.map_or(0.0, |value| value - usual);
    let residuals: Vec<f64> = values.iter().zip(&usual).map(residual).collect();
    let sizes: Vec<f64> = residuals.iter().map(|one| one.abs()).collect();
    let (by_median, by_mean) = (spread(&residuals), OF_MEAN * stat::mean(&sizes));
    // Of events that are rare the median is 0. Of others a tail must not make all deviations large.
    let scale = if by_median > 0.0 { by_median.max(by_mean / 2.0) } else { by_mean };
    (scale > 0.0).then(|| residuals.iter().map(|one| (one / scale).clamp(-limit, limit)).collect())
}

/// Returns the median, of an even number the upper one; `None` of none.
fn middle(values: &mut [f64]) -> Option<f64> {
    let at = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(at, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: impl IntoIterator<Item = f64>) -> Vec<Option<f64>> {
        values.into_iter().map(Some).collect()
    }

    #[test]
    fn a_usual_value_follows_a_trend_and_no_outlier() {
        let rising = known((0..400).map(|at| if at % 20 == 7 { 1e6 } else { f64::from(at) }));
        let usual = usual(&rising);
        assert_eq!(usual.len(), 400);
        assert!((usual[200] - 205.0).abs() < 10.0, "{}", usual[200]);
        // A window never leaves the series.
        assert!((usual[0] - 60.0).abs() < 10.0 && (usual[399] - 340.0).abs() < 10.0, "{} {}", usual[0], usual[399]);
    }

    #[test]
    fn rare_events_deviate_and_constants_have_no_deviations() {
        let events = known((0..100).map(|at| if at % 25 == 3 { 1.0 } else { 0.0 }));
        let deviations = super::deviations(&events, 6.0).unwrap();
        assert_eq!((deviations[3], deviations[4]), (6.0, 0.0));
        assert_eq!(super::deviations(&known([5.0; 40]), 6.0), None);
        let mostly_unknown: Vec<Option<f64>> = (0..40).map(|at| (at % 3 == 0).then_some(f64::from(at))).collect();
        assert_eq!(super::deviations(&mostly_unknown, 6.0), None);
    }

    #[test]
    fn the_spread_of_even_noise_is_its_own() {
        // A triangle from −1 to 1: the median of its sizes is a half.
        let residuals: Vec<f64> = (-100..=100).map(|at| f64::from(at) / 100.0).collect();
        assert!((spread(&residuals) - 0.5 * OF_MEDIAN).abs() < 0.01);
        assert_eq!(spread(&[0.0, 0.0, 9.0]), 0.0);
    }
}
