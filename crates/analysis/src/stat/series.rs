//! Values that follow upon each other: how much they repeat each other, and where they have settled.

use super::mean;

/// Values to a batch of MSER-5.
const BATCH: usize = 5;

/// Sum of the autocorrelations at all lags, at least 1: how many values of the series are worth one that stands
/// alone. Geyer's initial positive sequence (*Practical Markov Chain Monte Carlo*, Statist. Sci. 7, 1992, section
/// 3.3): sums of pairs of autocovariances are added while they are positive.
pub fn autocorrelation_time(values: &[f64]) -> f64 {
    let n = values.len();
    let mean = mean(values);
    let covariance = |lag: usize| {
        let pairs = values.iter().zip(values.iter().skip(lag));
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n as f64
    };
    let whole = covariance(0);
    // Values that differ by their rounding alone repeat nothing.
    if n < 4 || whole <= (1e-12 * mean).powi(2) {
        return 1.0;
    }
    let mut sum = 0.0;
    for lag in (0..n / 2).step_by(2) {
        let pair = covariance(lag) + covariance(lag + 1);
        if pair <= 0.0 {
            break;
        }
        sum += pair;
    }
    (2.0 * sum / whole - 1.0).clamp(1.0, n as f64)
}

/// Returns the number of independent values that the series is worth: its length over its [`autocorrelation_time`].
pub fn effective_n(values: &[f64]) -> f64 {
    values.len() as f64 / autocorrelation_time(values)
}

/// Returns the number of warm-up values to leave out at the start, by MSER-5 (White, *Simulation* 69, 1997; Spratt,
/// 1998): of all truncations the one whose rest has the smallest standard error of the mean, over batches of five.
/// `None` with fewer than twenty values, and where the best truncation lies in the second half: the series has not
/// settled.
pub fn warmup_end(values: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = values.chunks_exact(BATCH).map(mean).collect();
    let n = batches.len();
    if n < 4 {
        return None;
    }
    let statistic = |left_out: usize| {
        let rest = batches.get(left_out..).unwrap_or_default();
        let mean = mean(rest);
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    // The last few batches are too few to have a spread.
    let best = (0..n - 2).min_by(|a, b| statistic(*a).total_cmp(&statistic(*b)))?;
    (best <= n / 2).then_some(best * BATCH)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::*;

    fn noise(dice: &mut SplitMix) -> f64 {
        // The sum of twelve uniforms is close to normal.
        (0..12).map(|_| dice.below(1 << 24) as f64 / f64::from(1 << 24)).sum::<f64>() - 6.0
    }

    #[test]
    fn values_that_repeat_each_other_are_worth_fewer() {
        let mut dice = SplitMix::new(3);
        let alone: Vec<f64> = (0..2_000).map(|_| noise(&mut dice)).collect();
        assert!(autocorrelation_time(&alone) < 1.25, "{}", autocorrelation_time(&alone));
        // AR(1) with 0.8: (1 + 0.8) / (1 − 0.8) = 9.
        let mut last = 0.0;
        let hanging: Vec<f64> = (0..20_000)
            .map(|_| {
                last = 0.8 * last + noise(&mut dice);
                last
            })
            .collect();
        let time = autocorrelation_time(&hanging);
        assert!((7.5..10.5).contains(&time), "{time}");
        assert_eq!(autocorrelation_time(&[1.0; 50]), 1.0);
        assert!((effective_n(&hanging) - 20_000.0 / time).abs() < 1e-9);
    }

    #[test]
    fn a_warm_up_is_found_and_what_never_settles_is_said() {
        let mut dice = SplitMix::new(5);
        let rising: Vec<f64> =
            (0..100).map(|at| 1_000.0 * (1.0 - (-f64::from(at) / 6.0).exp()) + 5.0 * noise(&mut dice)).collect();
        let end = warmup_end(&rising).unwrap();
        assert!((20..=50).contains(&end), "{end}");
        let flat: Vec<f64> = (0..100).map(|_| 1_000.0 + 5.0 * noise(&mut dice)).collect();
        assert!(warmup_end(&flat).unwrap() <= 25);
        let growing: Vec<f64> = (0..100).map(|at| f64::from(at * at)).collect();
        assert_eq!(warmup_end(&growing), None);
        assert_eq!(warmup_end(&[1.0; 19]), None);
    }
}
