//! Made series for tests of levels.

use std::ops::Range;

use plimsoll_core::random::SplitMix;

fn noise(dice: &mut SplitMix) -> f64 {
    // The sum of twelve uniforms is close to normal.
    (0..12).map(|_| dice.share()).sum::<f64>() - 6.0
}

/// Returns `n` values of which each repeats a share of the one before, with a standard deviation of 1.
pub fn repeating(dice: &mut SplitMix, share: f64, n: usize) -> Vec<f64> {
    let mut last = noise(dice);
    let next = |_| {
        last = share * last + (1.0 - share * share).sqrt() * noise(dice);
        last
    };
    (0..n).map(next).collect()
}

/// Returns `n` values: `size` inside, and 0 outside.
pub fn made(n: usize, inside: Range<usize>, size: f64) -> Vec<f64> {
    (0..n).map(|at| if inside.contains(&at) { size } else { 0.0 }).collect()
}
