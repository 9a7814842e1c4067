//! Change, interval and significance of one number.

use plimsoll_core::random::SplitMix;

use crate::latency::{PERCENTILES, Times};
use crate::stat::interval;
use crate::stat::{difference, mean, median, series, special};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 300;

/// Most groups of slices that are resampled, and fewest that say anything.
const GROUPS: (usize, usize) = (6, 60);

/// Largest distance from zero, in per cent, of an interval that may be reported as no change: a larger difference
/// matters in practice. A noise floor above it is refused for the same reason.
const MATTERS_PERCENT: f64 = 10.0;

/// Repeats from which on they, and not the slices within them, tell how sure a number is: the spread between repeats
/// holds what slices of one trial cannot show.
const REPEATS: usize = 4;

/// Observations of a number in one run.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Values, one for each repeat of the trial.
    pub repeats: Vec<f64>,
    /// Observations behind all of them.
    pub n: u64,
    /// Reason that the value is missing.
    pub missing: Option<String>,
    /// A late generator may have moved one of the values.
    pub late: bool,
    /// Source of the values: see [`Within`].
    pub within: Within,
}

/// Observations within the trials.
#[derive(Debug, Clone, Default)]
pub enum Within {
    /// No further observation than the number itself.
    #[default]
    Nothing,
    /// A value for each slice, in time order.
    Series(Vec<f64>),
    /// Values that have nothing to do with each other.
    Values(Vec<f64>),
    /// The interval of the change, by resampling both runs' slices: see [`resampled`].
    Resampled(Option<(f64, f64)>),
}

/// A change in per cent, its 95 % interval, and how that was made.
pub struct Change {
    pub percent: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub method: &'static str,
    pub significant: Option<bool>,
}

impl Observed {
    /// The number: the median of its repeats.
    pub fn value(&self) -> Option<f64> {
        median(&self.repeats)
    }
}

/// B against A.
pub fn change(a: &Observed, b: &Observed, noise_floor_percent: f64) -> Change {
    let (Some(from), Some(to)) = (a.value(), b.value()) else {
        return Change { percent: None, interval: None, method: "", significant: None };
    };
    let percent = (from != 0.0).then(|| (to / from - 1.0) * 100.0);
    let (interval, method) = match interval_of(a, b, from) {
        Some((low, high, method)) => (Some((low, high)), method),
        None => (None, "seen once"),
    };
    let is_narrow = |low: f64, high: f64| low >= -MATTERS_PERCENT && high <= MATTERS_PERCENT;
    let significant = match (interval, percent) {
        (Some((low, high)), Some(percent)) if low > 0.0 || high < 0.0 => Some(percent.abs() > noise_floor_percent),
        (Some((low, high)), Some(_)) => is_narrow(low, high).then_some(false),
        // Nothing before and nothing after is no change.
        (_, None) => (from == to).then_some(false),
        (None, Some(percent)) => (percent == 0.0).then_some(false),
    };
    Change { percent, interval, method, significant }
}

fn interval_of(a: &Observed, b: &Observed, from: f64) -> Option<(f64, f64, &'static str)> {
    if a.repeats.len() >= REPEATS && b.repeats.len() >= REPEATS {
        let (low, high) = ratios(&a.repeats, &b.repeats)?;
        return Some((low, high, "repeats"));
    }
    match (&a.within, &b.within) {
        (Within::Values(a), Within::Values(b)) if a.len() >= REPEATS && b.len() >= REPEATS => {
            let (low, high) = ratios(a, b)?;
            Some((low, high, "values"))
        }
        (Within::Series(a), Within::Series(b)) => {
            let (low, high) = difference::welch(a, b)?;
            let base = mean(a);
            // Rates and times are never negative.
            let percent = |end: f64| (end / base * 100.0).max(-100.0);
            (base > 0.0 && from > 0.0).then(|| (percent(low), percent(high), "slices, Welch"))
        }
        (Within::Resampled(interval), _) => interval.map(|(low, high)| (low, high, "slices, bootstrap")),
        _ => None,
    }
}

/// Interval of the ratio of two samples without pairs: order statistics of all ratios, by the null distribution of
/// Mann and Whitney's U (Moses; Hollander & Wolfe, *Nonparametric Statistical Methods*, section 4.3), normal
/// approximation. In per cent of change. `None` for zeros.
fn ratios(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.iter().chain(b).any(|value| *value <= 0.0) {
        return None;
    }
    let mut all: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b / a)).collect();
    all.sort_by(f64::total_cmp);
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let z = special::t_quantile(crate::stat::CONFIDENCE, 1e7);
    let outside = n_a * n_b / 2.0 - z * (n_a * n_b * (n_a + n_b + 1.0) / 12.0).sqrt();
    let outside = outside.floor().max(0.0) as usize;
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    Some((percent(*all.get(outside)?), percent(*all.get(all.len() - 1 - outside)?)))
}

/// Intervals of the ratios of two runs' percentiles, in the order of [`PERCENTILES`], by resampling groups of
/// neighbouring slices (the block bootstrap of Carlstein, Ann. Statist. 14, 1986), from a fixed seed. Slices hang
/// together: a group is at least as long as they do. In per cent of change.
pub fn resampled(a: &[Times], b: &[Times]) -> [Option<(f64, f64)>; PERCENTILES.len()] {
    let (Some(a), Some(b)) = (Binned::new(a), Binned::new(b)) else { return [None; PERCENTILES.len()] };
    let mut dice = SplitMix::new(0x0070_6c69_6d73_6f6c);
    let mut changes: [Vec<f64>; PERCENTILES.len()] = Default::default();
    for _ in 0..RESAMPLES {
        let (from, to) = (a.draw(&mut dice), b.draw(&mut dice));
        for (changes, (from, to)) in changes.iter_mut().zip(from.into_iter().zip(to)) {
            if from > 0.0 {
                changes.push((to / from - 1.0) * 100.0);
            }
        }
    }
    changes.map(interval::percentiles)
}

/// Groups of slices over the same times.
struct Binned {
    times: Vec<u64>,
    groups: Vec<Vec<u64>>,
}

impl Binned {
    fn new(slices: &[Times]) -> Option<Binned> {
        let means: Vec<f64> = slices.iter().map(Times::mean_ns).collect();
        let together = series::autocorrelation_time(&means).ceil() as usize;
        let together = together.max(slices.len().div_ceil(GROUPS.1)).max(1);
        let mut whole = Times::default();
        slices.iter().for_each(|slice| whole.add(slice.counts()));
        let times: Vec<u64> = whole.counts().iter().map(|(ns, _)| *ns).collect();
        let groups: Vec<Vec<u64>> = slices
            .chunks(together)
            .map(|slices| {
                let mut counts = vec![0; times.len()];
                for (ns, count) in slices.iter().flat_map(Times::counts) {
                    if let Ok(at) = times.binary_search(ns) {
                        counts[at] += count;
                    }
                }
                counts
            })
            .collect();
        (groups.len() >= GROUPS.0).then_some(Binned { times, groups })
    }

    /// The percentiles of as many groups as there are, drawn with replacement; 0 of nothing.
    fn draw(&self, dice: &mut SplitMix) -> [f64; PERCENTILES.len()] {
        let mut sum = vec![0u64; self.times.len()];
        for _ in 0..self.groups.len() {
            let group = &self.groups[dice.below(self.groups.len())];
            sum.iter_mut().zip(group).for_each(|(sum, count)| *sum += count);
        }
        let n: u64 = sum.iter().sum();
        let (mut seen, mut at) = (0, 0);
        PERCENTILES.map(|(_, one_in)| {
            // Percentiles ascend: each goes on where the one before it ended.
            let rank = (n - n / one_in).max(1);
            while at < sum.len() && seen + sum[at] < rank {
                seen += sum[at];
                at += 1;
            }
            self.times.get(at).map_or(0.0, |ns| *ns as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(within: Within, value: f64) -> Observed {
        Observed { repeats: vec![value], n: 1, within, ..Observed::default() }
    }

    /// Slices of exponential times around `mean_ns`.
    fn slices(mean_ns: f64, n: usize, dice: &mut SplitMix) -> Vec<Times> {
        let slice = |dice: &mut SplitMix| {
            let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
            for _ in 0..400 {
                let unit = (dice.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30);
                histogram.record((-unit.ln() * mean_ns) as u64 + 1).unwrap();
            }
            let mut times = Times::default();
            times.add(plimsoll_record::Distribution::from(&histogram).counts());
            times
        };
        (0..n).map(|_| slice(dice)).collect()
    }

    #[test]
    fn a_percentile_that_grew_is_seen_and_one_that_did_not_is_not() {
        let mut dice = SplitMix::new(2);
        let p99 = |mean: f64| mean * 100f64.ln();
        let mut called = 0;
        for _ in 0..3 {
            let (a, b, c) = (slices(1e6, 20, &mut dice), slices(1e6, 20, &mut dice), slices(1.3e6, 20, &mut dice));
            let one = |b: &[Times], mean: f64| observed(Within::Resampled(resampled(&a, b)[2]), p99(mean));
            called += usize::from(change(&one(&b, 1e6), &one(&b, 1.0001e6), 0.0).significant == Some(true));
            let (before, after) = (one(&c, 1e6), one(&c, 1.3e6));
            let grown = change(&before, &after, 0.0);
            assert_eq!(grown.significant, Some(true), "{:?}", grown.interval);
            let floor = change(&before, &after, 40.0);
            assert_eq!(floor.significant, Some(false), "below the noise floor");
        }
        assert!(called <= 1, "{called} of 3");
    }

    #[test]
    fn repeats_say_more_than_slices() {
        let with = |repeats: &[f64]| Observed {
            repeats: repeats.to_vec(),
            within: Within::Series(vec![1.0, 1.01, 0.99, 1.0, 1.02]),
            ..Observed::default()
        };
        let apart = change(&with(&[100.0, 101.0, 99.0, 100.5]), &with(&[110.0, 111.0, 109.0, 112.0]), 0.0);
        assert_eq!((apart.method, apart.significant), ("repeats", Some(true)));
        let mixed = change(&with(&[100.0, 103.0, 98.0, 101.0]), &with(&[101.0, 102.0, 97.0, 102.0]), 0.0);
        assert_eq!(mixed.significant, Some(false), "{:?}", mixed.interval);
        let wide = change(&with(&[100.0, 120.0, 90.0, 110.0]), &with(&[101.0, 118.0, 95.0, 112.0]), 0.0);
        assert_eq!(wide.significant, None, "{:?} tells nothing", wide.interval);
    }

    #[test]
    fn what_was_seen_once_has_no_interval() {
        let once = change(&observed(Within::Nothing, 10.0), &observed(Within::Nothing, 12.0), 0.0);
        assert_eq!((once.percent.map(f64::round), once.interval, once.significant), (Some(20.0), None, None));
        let zero = change(&observed(Within::Nothing, 0.0), &observed(Within::Nothing, 0.0), 0.0);
        assert_eq!((zero.percent, zero.significant), (None, Some(false)));
    }
}
