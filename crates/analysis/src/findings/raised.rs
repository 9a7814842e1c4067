//! Windows of neighbouring slices in which a number of events is far from the usual one.
//!
//! Moderate effects that last are small in each slice: of eight sessions of a closed loop one that hangs for a second
//! takes an eighth of the throughput of four slices, which is within the noise of each. So the events of 1, 2, 4 and 8
//! slices are added up and compared with the usual number (a scan statistic: Naus, *J. Am. Stat. Assoc.* 60, 1965).
//! Numbers of events say more than percentiles of a slice, which rest on a few of its operations.
//!
//! The distance is that of the roots of both numbers, which has a standard deviation of 1 for independent events
//! (Anscombe, *Biometrika* 35, 1948). Real events vary more, and with their neighbours. So each width has a standard
//! deviation of its own: that of the windows on the other side of the usual number, which slow slices do not widen, and
//! at least that of narrower windows. One limit then holds for all widths. In 1 to 2 % of runs of 120 slices a window
//! of independent events is beyond it by chance, and in more if events depend on each other.
//!
//! Slow slices move the usual number as well. So windows that are somewhat far are left out, and the rest is searched
//! again. Of overlapping windows the farthest is taken, without slices at its ends that are hardly far themselves:
//! causes are searched at the beginning.

use std::ops::Range;

use super::robust;
use crate::stat;

/// Slices of a window, and slices of a phase for each of them if they are several.
const WIDTHS: [usize; 4] = [1, 2, 4, 8];
const SLICES_EACH: usize = 16;
/// Standard deviations from which a window is far, and from which it is not counted as usual.
const FAR: f64 = 4.0;
const SOMEWHAT_FAR: f64 = 3.0;
/// Searches without windows that are somewhat far, before the last one.
const PASSES: usize = 2;
/// Share of the slices from which those that are far are usual.
const FAR_SHARE_MAX: f64 = 0.4;
/// Share of the mean distance of a window's slices up to which one at an end is cut off.
const OWN_SHARE: f64 = 0.5;

/// Numbers of the events of slices, as shares of other numbers: of operations, or of seconds.
pub struct Counts<'c> {
    pub seen: &'c [f64],
    pub of: &'c [f64],
    /// 1 if more than usual are looked for, −1 if fewer are.
    pub sign: f64,
}

/// A window that is far.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub slices: Range<usize>,
    /// Usual number of its events.
    pub usual: f64,
    /// Standard deviation of the distance of its width.
    pub spread: f64,
    /// Distance from the usual number, in standard deviations.
    far: f64,
}

/// Returns the distance between a number of events and the usual one, in standard deviations of independent events.
pub fn distance(seen: f64, usual: f64) -> f64 {
    2.0 * ((seen + 0.375).sqrt() - (usual + 0.375).sqrt())
}

impl Counts<'_> {
    /// Returns the windows that are far, farthest first, none over another; of those that `is_large` accepts by their
    /// slices and the usual number of their events.
    pub fn windows(&self, is_large: impl Fn(&Range<usize>, f64) -> bool) -> Vec<Window> {
        let n = self.seen.len();
        let mut is_far = vec![false; n];
        let mut windows = Vec::new();
        for pass in 0..=PASSES {
            let usual = self.usual(&is_far);
            let limit = if pass < PASSES { SOMEWHAT_FAR } else { FAR };
            let mut all = self.beyond(limit, &usual, &is_far);
            all.retain(|window| is_large(&window.slices, window.usual));
            all.sort_by(|a, b| b.far.total_cmp(&a.far));
            is_far.fill(false);
            windows.clear();
            for mut window in all {
                if !is_far[window.slices.clone()].contains(&true) {
                    self.cut(&mut window, &usual);
                    is_far[window.slices.clone()].fill(true);
                    windows.push(window);
                }
            }
            if is_far.iter().filter(|far| **far).count() as f64 > FAR_SHARE_MAX * n as f64 {
                is_far.fill(false);
            }
        }
        windows
    }

    /// Returns the usual number of events of each slice, by those that are not far.
    fn usual(&self, is_far: &[bool]) -> Vec<f64> {
        let known = self.seen.iter().zip(self.of).zip(is_far);
        let shares = known.map(|((seen, of), is_far)| (*of > 0.0 && !is_far).then(|| seen / of));
        let shares: Vec<Option<f64>> = shares.collect();
        robust::usual(&shares).iter().zip(self.of).map(|(share, of)| share * of).collect()
    }

    /// Returns all windows that are farther than `limit`.
    fn beyond(&self, limit: f64, usual: &[f64], is_far: &[bool]) -> Vec<Window> {
        let n = self.seen.len();
        let (mut all, mut spread) = (Vec::new(), 1.0_f64);
        for width in WIDTHS.into_iter().filter(|width| *width == 1 || n >= width * SLICES_EACH) {
            let windows = (0..(n + 1).saturating_sub(width)).map(|first| first..first + width);
            let windows: Vec<(Range<usize>, f64)> = windows.map(|one| (one.clone(), self.far(one, usual))).collect();
            let is_usual = |one: &&(Range<usize>, f64)| one.1 < 0.0 && !is_far[one.0.clone()].contains(&true);
            let others: Vec<f64> = windows.iter().filter(is_usual).map(|(_, far)| *far).collect();
            spread = spread.max(robust::spread(&others));
            let far = windows.into_iter().filter(|(_, far)| *far > limit * spread);
            all.extend(far.map(|(slices, far)| {
                let usual = usual[slices.clone()].iter().sum();
                Window { slices, usual, spread, far: far / spread }
            }));
        }
        all
    }

    /// Returns the distance of these slices together.
    fn far(&self, slices: Range<usize>, usual: &[f64]) -> f64 {
        self.sign * distance(self.seen[slices.clone()].iter().sum(), usual[slices].iter().sum())
    }

    /// Cuts slices at the ends off that are hardly far themselves.
    fn cut(&self, window: &mut Window, usual: &[f64]) {
        let own = |at: usize| self.far(at..at + 1, usual);
        let all: Vec<f64> = window.slices.clone().map(own).collect();
        let is_meant = |at: &usize| own(*at) >= OWN_SHARE * stat::mean(&all);
        let first = window.slices.clone().find(is_meant).unwrap_or(window.slices.start);
        let last = window.slices.clone().rfind(is_meant).unwrap_or(first);
        window.slices = first..last + 1;
        window.usual = usual[window.slices.clone()].iter().sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(seen: &[f64], sign: f64) -> Vec<(usize, usize)> {
        let of = vec![1.0; seen.len()];
        let windows = Counts { seen, of: &of, sign }.windows(|_, _| true);
        windows.iter().map(|window| (window.slices.start, window.slices.end)).collect()
    }

    #[test]
    fn a_moderate_lack_over_several_slices_is_far_and_over_one_it_is_not() {
        let mut seen = [0.0; 120];
        seen.iter_mut().enumerate().for_each(|(at, seen)| *seen = 968.0 + ((at * 37) % 64) as f64);
        seen[40] -= 80.0;
        assert_eq!(windows(&seen, -1.0), [(0, 0); 0]);
        seen[70..74].iter_mut().for_each(|seen| *seen -= 80.0);
        assert_eq!(windows(&seen, -1.0), [(70, 74)]);
        assert_eq!(windows(&seen, 1.0), [(0, 0); 0]);
    }

    #[test]
    fn an_outlier_is_far_alone_without_its_neighbours() {
        let mut seen = [100.0; 120];
        assert_eq!(windows(&seen, -1.0), [(0, 0); 0]);
        seen[50] = 0.0;
        assert_eq!(windows(&seen, -1.0), [(50, 51)]);
    }
}
