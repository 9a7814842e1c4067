//! Are two samples different?

use super::series::effective_n;
use super::special::t_quantile;
use super::{CONFIDENCE, mean, variance};

/// The 95 % interval of the difference of the means `b − a` of two series whose values hang together, by Welch's t-test
/// (Biometrika 34, 1947): each counts with its effective number of values instead of its length. `None` where one is worth
/// fewer than two.
pub fn welch(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    welch_at(CONFIDENCE, a, b)
}

/// Returns the interval of [`welch`] with another confidence: that of one of several tests.
pub fn welch_at(confidence: f64, a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    welch_of(confidence, (a, effective_n(a)), (b, effective_n(b)))
}

/// Welch's test of samples that are worth so many independent values each.
fn welch_of(confidence: f64, (a, n_a): (&[f64], f64), (b, n_b): (&[f64], f64)) -> Option<(f64, f64)> {
    if a.len() < 3 || b.len() < 3 || n_a < 2.0 || n_b < 2.0 {
        return None;
    }
    let (part_a, part_b) = (variance(a) / n_a, variance(b) / n_b);
    let value = mean(b) - mean(a);
    let error = (part_a + part_b).sqrt();
    if error == 0.0 {
        return Some((value, value));
    }
    // Satterthwaite's degrees of freedom (Biometrics 2, 1946).
    let df = (part_a + part_b).powi(2) / (part_a.powi(2) / (n_a - 1.0) + part_b.powi(2) / (n_b - 1.0));
    let half = t_quantile(confidence, df) * error;
    Some((value - half, value + half))
}

#[cfg(test)]
mod tests {
    use super::super::special::t_two_sided;
    use super::*;
    use plimsoll_core::random::SplitMix;

    #[test]
    fn welch_agrees_with_a_worked_example() {
        // The first example of Wikipedia's "Welch's t-test": t = −2.46, 25.0 degrees of freedom, p = 0.021.
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4];
        let (low, high) = welch_of(CONFIDENCE, (&a, 15.0), (&b, 15.0)).unwrap();
        let t = (low + high) / (high - low) * t_quantile(CONFIDENCE, 25.0);
        assert!((t - 2.46).abs() < 0.01 && (t_two_sided(t, 25.0) - 0.021).abs() < 5e-4, "{t}");
        assert_eq!(welch(&[1.0, 2.0], &b), None);
        assert_eq!(welch(&[1.0; 5], &[2.0; 5]), Some((1.0, 1.0)));
        let (low_95, high_95) = welch(&a, &b).unwrap();
        let (low, high) = welch_at(0.999, &a, &b).unwrap();
        assert!(low < low_95 && high > high_95, "{low} {low_95} {high_95} {high}");
    }

    #[test]
    fn series_that_hang_together_are_not_called_different_more_often_than_they_should() {
        let mut dice = SplitMix::new(11);
        let mut series = |n: usize| {
            let mut last = 0.0;
            (0..n)
                .map(|_| {
                    last = 0.7 * last + dice.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
                    last
                })
                .collect::<Vec<f64>>()
        };
        let rounds = 400;
        let is_different = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
        let wrong = (0..rounds).filter(|_| is_different(welch(&series(120), &series(120)).unwrap())).count();
        // Taken as independent they would be called different in more than a third of all cases.
        assert!(wrong * 100 <= rounds * 10, "{wrong} of {rounds}");
    }
}
