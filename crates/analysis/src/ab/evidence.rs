//! Tests the centre of a series of differences with random signs; the test is valid after every one of them.
//!
//! Which side of a pair is driven first is drawn by lot. Where both sides are the same, the difference of a pair has
//! therefore either sign with the same probability, whatever the size of the difference comes from: a drift, a pause of
//! the machine, a heavy tail, a neighbour's hour. Nothing else is assumed. A bet at fair odds on the next sign that may
//! depend on everything seen before and on the size of the difference gains nothing in the mean (a martingale), so by
//! Ville's inequality (*Étude critique de la notion de collectif*, 1939) the probability that its capital ever reaches
//! 1/α is at most α, however often one looks. The factor of a bet is exp(λd)/cosh(λd), as in de la Peña (*A general class
//! of exponential inequalities for martingales and ratios*, Ann. Probab. 27, 1999); with bets on signs it is an e-test
//! of symmetry (Vovk & Wang, *Nonparametric e-tests of symmetry*, NEJSDS 2, 2024). A factor is at most 2: no outlier
//! decides, and five pairs never do.
//!
//! Differences from any other centre are tested alike, and the centres that are not rejected are a confidence sequence:
//! with probability 1 − α it holds the true centre at all times (Howard, Ramdas, McAuliffe & Sekhon, *Time-uniform,
//! nonparametric, nonasymptotic confidence sequences*, Ann. Statist. 49, 2021).

/// Sizes of the bets, in medians of the differences so far; the capital is shared among them, half on either sign. Few:
/// each costs the others a part of the capital. Their spread suits true differences from a third of the noise upwards.
const BETS: [f64; 3] = [0.25, 0.7, 2.0];

/// A difference counts for no more than this many medians: a bet on an outlier would lose all that it has.
const SIZE_MAX: f64 = 2.0;

/// Estimate of the centre of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The centre: the median of the means of all pairs of values (Hodges & Lehmann, Ann. Math. Statist. 34, 1963).
    pub value: f64,
    /// Ends of its interval; `None` where there are too few values for one.
    pub interval: Option<(f64, f64)>,
}

/// Logarithm of the capital that bets against `centre` have come to: the evidence that the values' centre is another.
pub fn against(values: &[f64], centre: f64) -> f64 {
    let mut sizes: Vec<f64> = Vec::with_capacity(values.len());
    let mut capital = [[0.0f64; 2]; BETS.len()];
    for value in values {
        let difference = value - centre;
        let size = difference.abs();
        sizes.insert(sizes.partition_point(|known| *known < size), size);
        // Nothing has no sign to bet on.
        if size == 0.0 {
            continue;
        }
        let middle = sizes.len() / 2;
        let median = match sizes.len() % 2 {
            1 => sizes[middle],
            _ => f64::midpoint(sizes[middle - 1], sizes[middle]),
        };
        for (bet, capital) in BETS.iter().zip(&mut capital) {
            let stake = bet * (size / median).min(SIZE_MAX);
            let won = std::f64::consts::LN_2 - (-2.0 * stake).exp().ln_1p();
            let lost = won - 2.0 * stake;
            let positive = difference > 0.0;
            capital[0] += if positive { won } else { lost };
            capital[1] += if positive { lost } else { won };
        }
    }
    let all = capital.as_flattened();
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + (all.iter().map(|one| (one - most).exp()).sum::<f64>() / all.len() as f64).ln()
}

/// Returns true if `centre` is rejected as the values' centre, at a rate of false alarms of `alpha` over all looks
/// together.
pub fn rejects(values: &[f64], centre: f64, alpha: f64) -> bool {
    against(values, centre) >= -alpha.ln()
}

/// Fewest values that can reject anything at `alpha`.
pub fn fewest(alpha: f64) -> usize {
    (1..).find(|n| rejects(&vec![1.0; *n], 0.0, alpha)).unwrap_or(usize::MAX)
}

/// The centre with its interval; `None` of no values.
pub fn estimate(values: &[f64], alpha: f64) -> Option<Estimate> {
    let value = centre(values)?;
    let spread = values.iter().map(|one| (one - value).abs()).fold(0.0, f64::max);
    let interval = end(values, value, spread, alpha, -1.0).zip(end(values, value, spread, alpha, 1.0));
    Some(Estimate { value, interval })
}

/// Doublings of the distance from the centre before an interval is taken to be unbounded.
const DOUBLINGS: u32 = 60;

/// Halvings of the distance in which the end lies.
const HALVINGS: u32 = 40;

/// The end of the interval in the direction of `sign`.
fn end(values: &[f64], centre: f64, spread: f64, alpha: f64, sign: f64) -> Option<f64> {
    let rejected = |distance: f64| rejects(values, centre + sign * distance, alpha);
    let (mut inside, mut outside) = (0.0, spread.max(1e-12) / 1024.0);
    for _ in 0..DOUBLINGS {
        if rejected(outside) {
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(inside, outside);
                *(if rejected(middle) { &mut outside } else { &mut inside }) = middle;
            }
            return Some(centre + sign * outside);
        }
        inside = outside;
        outside *= 2.0;
        // All values lie on one side by far: it gets no farther.
        if outside > 64.0 * spread.max(1e-9) {
            return None;
        }
    }
    None
}

/// The median of the means of all pairs of values, each with itself too; `None` of none.
pub fn centre(values: &[f64]) -> Option<f64> {
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, one) in values.iter().enumerate() {
        means.extend(values.iter().skip(at).map(|other| f64::midpoint(*one, *other)));
    }
    crate::stat::median(&means)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::random::SplitMix;

    const ALPHA: f64 = 0.05;

    fn unit(dice: &mut SplitMix) -> f64 {
        (dice.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30)
    }

    #[test]
    fn the_fewest_that_can_decide_are_seven_and_more_where_less_is_risked() {
        assert_eq!(fewest(ALPHA), 7);
        assert_eq!(fewest(ALPHA / 2.0), 8);
        let six = estimate(&[0.3, 0.31, 0.29, 0.3, 0.32, 0.3], ALPHA).unwrap();
        assert_eq!(six.interval, None);
        let seven = estimate(&[0.3, 0.31, 0.29, 0.3, 0.32, 0.3, 0.28], ALPHA).unwrap();
        let (low, high) = seven.interval.unwrap();
        assert!(0.2 < low && low < 0.3 && 0.3 < high && high < 0.4, "{seven:?}");
        assert_eq!(estimate(&[], ALPHA), None);
    }

    #[test]
    fn bets_at_fair_odds_gain_nothing_in_the_mean() {
        // All 2^12 lots of twelve sizes, outliers and nothings among them: the mean capital is 1.
        let sizes = [0.1, 0.2, 5.0, 0.0, 0.15, 0.3, 0.1, 40.0, 0.2, 0.0, 0.12, 0.9];
        let capital = |lot: u32| {
            let values: Vec<f64> = (0..12).map(|at| if lot >> at & 1 == 1 { sizes[at] } else { -sizes[at] }).collect();
            against(&values, 0.0).exp()
        };
        let mean = (0..1u32 << 12).map(capital).sum::<f64>() / f64::from(1 << 12);
        assert!((mean - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn the_interval_holds_the_centre_at_all_times_as_often_as_it_says() {
        // Heavy tails and a drift, with the sign by lot; looked at after each of 60 pairs.
        let mut dice = SplitMix::new(5);
        let missed = (0..300)
            .filter(|_| {
                let values: Vec<f64> = (0..60)
                    .map(|at| {
                        let noise = 0.01 / unit(&mut dice).sqrt() + f64::from(at) * 0.0005;
                        0.02 + if dice.below(2) == 0 { noise } else { -noise }
                    })
                    .collect();
                (1..=60).any(|n| rejects(&values[..n], 0.02, ALPHA))
            })
            .count();
        assert!(missed <= 15, "{missed} of 300");
    }

    #[test]
    fn one_outlier_moves_no_end_by_much() {
        let mut dice = SplitMix::new(6);
        let mut values: Vec<f64> = (0..30).map(|_| 0.1 + 0.02 * (unit(&mut dice) - 0.5)).collect();
        let before = estimate(&values, ALPHA).unwrap().interval.unwrap();
        values[7] = -3.0;
        let after = estimate(&values, ALPHA).unwrap().interval.unwrap();
        assert!((before.0 - after.0).abs() < 0.005 && (before.1 - after.1).abs() < 0.005, "{before:?} {after:?}");
    }
}
