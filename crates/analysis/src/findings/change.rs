//! Changes of level: values that are at another level from one place on, to the end or until they come back.

use super::shift::LEAD_MAX;
use crate::stat::{self, difference, series::autocorrelation_time};

/// Values of each level.
const SIDE_MIN: usize = 15;
/// Half widths of the interval of the difference between which 0 must not lie. The place of the change is chosen among
/// all places, so that a single one is too few.
const HALF_WIDTHS: f64 = 3.0;
/// Factor on the error probability of a level that comes back: two places are chosen instead of one.
const TWO_PLACES: f64 = 0.2;
/// Half of the 95 % interval of the place of a change, in units of the values' variance over the square of the change
/// (Bai, *Rev. Econ. Stat.* 79, 1997), and the largest that counts, in slices.
const BAI: f64 = 11.0;
const OFF_MAX: usize = 5;

/// Test of values before and after a place.
#[derive(Debug, Clone, Copy)]
pub struct Test {
    /// Confidence of the interval of the difference.
    pub confidence: f64,
    /// Least difference of the medians; `None` if any difference counts.
    pub least: Option<f64>,
}

impl Test {
    /// Returns true if both parts are at different levels: Welch's interval is far from 0, as is the change of the median.
    fn differ(&self, before: &[f64], after: &[f64]) -> bool {
        let shift = stat::mean(after) - stat::mean(before);
        // A dip moves a mean and no median.
        let is_large = self.least.is_none_or(|least| {
            let medians = stat::median(before).zip(stat::median(after));
            medians.is_some_and(|(before, after)| (after - before) * shift.signum() >= least)
        });
        // The interval takes much longer.
        is_large
            && difference::welch_at(self.confidence, before, after)
                .is_some_and(|(low, high)| f64::midpoint(low, high).abs() > HALF_WIDTHS * (high - low) / 2.0)
    }
}

/// A change of level, in slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// First slice of the new level.
    pub at: usize,
    /// First slice after it; `None` if it lasts.
    pub end: Option<usize>,
    /// Slices by which both may be off.
    pub off: usize,
}

impl Change {
    /// Returns true for a slice of the new level.
    pub fn is_inside(&self, slice: usize) -> bool {
        slice >= self.at && self.end.is_none_or(|end| slice < end)
    }

    /// Divides the known values into those of the new level and the others.
    pub fn sides(&self, values: &[Option<f64>]) -> (Vec<f64>, Vec<f64>) {
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for (slice, value) in values.iter().enumerate() {
            if self.is_inside(slice) { &mut inside } else { &mut outside }.extend(*value);
        }
        (inside, outside)
    }

    /// Returns true if a series that changes like `own` changes with this level: not later, and hardly earlier.
    fn is_with(&self, own: &Change) -> bool {
        let off = self.off.max(own.off);
        let is_near = |level: usize, own: usize| own <= level + off && own + off + LEAD_MAX >= level;
        let ends = match (self.end, own.end) {
            (Some(level), Some(own)) => is_near(level, own),
            (None, None) => true,
            _ => false,
        };
        ends && is_near(self.at, own.at)
    }
}

/// Known values of a series, each with its slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    slices: Vec<usize>,
    pub values: Vec<f64>,
}

impl Known {
    /// Leaves out the slices without a value.
    pub fn of(values: &[Option<f64>]) -> Self {
        let known = values.iter().enumerate().filter_map(|(slice, value)| Some((slice, (*value)?)));
        let (slices, values) = known.unzip();
        Known { slices, values }
    }

    /// Returns the change of level that stands out most, if it is more than the values' variation explains.
    pub fn change(&self, test: Test) -> Option<Change> {
        let back = episode(&self.values).and_then(|(at, end)| self.tested(at, Some(end), test));
        back.or_else(|| self.tested(step(&self.values)?, None, test))
    }

    /// Returns the change that begins, and ends, with that of `level`; `None` without one.
    pub fn change_with(&self, level: &Change, test: Test) -> Option<Change> {
        let (at, end) = match level.end {
            Some(_) => episode(&self.values).map(|(at, end)| (at, Some(end)))?,
            None => (step(&self.values)?, None),
        };
        // Most series change elsewhere, and tests take much longer than places.
        let is_possible = level.is_with(&self.placed(at, end, OFF_MAX));
        let own = is_possible.then(|| self.tested(at, end, test))?;
        own.filter(|own| level.is_with(own))
    }

    /// Returns a change at these positions.
    fn placed(&self, at: usize, end: Option<usize>, off: usize) -> Change {
        Change { at: self.slices[at], end: end.map(|end| self.slices[end]), off }
    }

    /// Returns the change at these positions if the values before and after differ.
    fn tested(&self, at: usize, end: Option<usize>, test: Test) -> Option<Change> {
        let (before, after) = self.values.split_at(at);
        let Some(end) = end else {
            return test.differ(before, after).then(|| self.placed(at, None, off(before, after)));
        };
        let (inside, after) = after.split_at(end - at);
        let test = Test { confidence: 1.0 - TWO_PLACES * (1.0 - test.confidence), ..test };
        let is_found = is_back(before, inside, after) && test.differ(before, inside) && test.differ(inside, after);
        is_found.then(|| self.placed(at, Some(end), off(before, inside).max(off(inside, after))))
    }
}

/// Returns the place with the largest difference of means, as CUSUM weighs places (Page, *Biometrika* 41, 1954); `None` of
/// too few values, and of equal ones.
fn step(values: &[f64]) -> Option<usize> {
    let n = values.len();
    let last = n.checked_sub(SIDE_MIN)?;
    let whole: f64 = values.iter().sum();
    let mut sum = 0.0_f64;
    let mut best = (0_usize, 0.0_f64);
    for (at, value) in values.iter().enumerate().take(last + 1) {
        let (before, after) = (at as f64, (n - at) as f64);
        let weight = (sum / before.max(1.0) - (whole - sum) / after).abs() * (before * after).sqrt();
        if at >= SIDE_MIN && weight > best.1 {
            best = (at, weight);
        }
        sum += value;
    }
    Some(best.0).filter(|at| *at > 0)
}

/// Returns begin and end of the part that stands out most: between the extremes of the sums of deviations from the mean
/// (Levin & Kline, *Stat. Med.* 4, 1985), each moved to the best place before and after the other. `None` of too few
/// values.
fn episode(values: &[f64]) -> Option<(usize, usize)> {
    let mean = stat::mean(values);
    let mut sum = 0.0_f64;
    let (mut least, mut most) = ((0_usize, 0.0_f64), (0_usize, 0.0_f64));
    for (at, value) in values.iter().enumerate() {
        sum += value - mean;
        if sum < least.1 {
            least = (at + 1, sum);
        }
        if sum > most.1 {
            most = (at + 1, sum);
        }
    }
    let at = step(values.get(..least.0.max(most.0))?)?;
    let length = step(values.get(at..)?)?;
    Some((at, at + length))
}

/// Returns true if the values after the part are nearer to those before it than to it.
fn is_back(before: &[f64], inside: &[f64], after: &[f64]) -> bool {
    let [before, inside, after] = [before, inside, after].map(stat::mean);
    let (there, back) = (inside - before, inside - after);
    there * back > 0.0 && (after - before).abs() < there.abs().min(back.abs())
}

/// Returns the number of values by which the place between two levels may be off.
fn off(before: &[f64], after: &[f64]) -> usize {
    let shift = stat::mean(after) - stat::mean(before);
    let variance = |side: &[f64]| stat::variance(side) * autocorrelation_time(side);
    let off = BAI * variance(before).max(variance(after)) / (shift * shift);
    1 + off.min((OFF_MAX - 1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::super::made::{made, repeating};
    use super::*;

    const ANY: Test = Test { confidence: 0.95, least: None };

    fn known(values: &[f64]) -> Known {
        Known::of(&values.iter().copied().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn a_change_lasts_or_comes_back_and_a_ladder_does_neither_come_back() {
        let steps = |levels: &[(f64, usize)]| -> Vec<f64> {
            levels.iter().flat_map(|(level, length)| std::iter::repeat_n(*level, *length)).collect()
        };
        let change = |levels: &[(f64, usize)]| known(&steps(levels)).change(ANY).map(|one| (one.at, one.end));
        assert_eq!(change(&[(1.0, 40), (5.0, 20)]), Some((40, None)));
        assert_eq!(change(&[(1.0, 40), (5.0, 30), (1.0, 50)]), Some((40, Some(70))));
        assert_eq!(change(&[(5.0, 20), (1.0, 60), (4.5, 20)]), Some((20, Some(80))));
        // Too short for an end, and too short at all.
        assert_eq!(change(&[(1.0, 40), (5.0, 10), (1.0, 50)]), None);
        assert_eq!(change(&[(1.0, 14), (5.0, 15)]), None);
        assert_eq!(change(&[(1.0, 60)]), None);
        let ladder = change(&[(1.0, 40), (5.0, 40), (9.0, 40)]);
        assert!(ladder.is_none_or(|(_, end)| end.is_none()), "{ladder:?}");
    }

    #[test]
    fn a_series_changes_with_a_level_if_it_is_not_later_and_of_the_same_kind() {
        let level = Change { at: 50, end: None, off: 1 };
        let with = |at: usize| known(&made(120, at..120, 5.0)).change_with(&level, ANY).is_some();
        assert_eq!([46, 47, 50, 51, 52].map(with), [false, true, true, true, false]);
        let back = known(&made(120, 50..80, 5.0));
        assert_eq!(back.change_with(&level, ANY), None);
        assert!(back.change_with(&Change { end: Some(80), ..level }, ANY).is_some());
        assert_eq!(back.change_with(&Change { end: Some(70), ..level }, ANY), None);
        // A slice without a value moves no place.
        let mut values: Vec<Option<f64>> = made(120, 50..120, 5.0).into_iter().map(Some).collect();
        values[10..20].fill(None);
        assert_eq!(Known::of(&values).change_with(&level, ANY).unwrap().at, 50);
    }

    #[test]
    fn the_place_of_a_change_is_as_exact_as_its_size_allows() {
        let mut dice = SplitMix::new(43);
        let mut off = |size: f64| {
            let noise = repeating(&mut dice, 0.5, 160);
            let values: Vec<f64> = noise.iter().zip(made(160, 80..160, size)).map(|(a, b)| a + b).collect();
            known(&values).change(ANY).unwrap().off
        };
        assert_eq!(off(20.0), 1);
        assert!(off(3.0) > 1);
    }
}
