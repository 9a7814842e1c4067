//! Random draws of tests, and how often tests repeat them.
//!
//! `cargo xtask test` sets the seed to the commit, so that each commit tries other moments and a failure can be repeated by
//! `PLIMSOLL_TEST_SEED`; with `--heavy` it is new each time, and repetitions are many.

use plimsoll_core::random::SplitMix;

/// Returns `usual`, or `heavy` in a run with long repetitions.
pub fn repeats(usual: usize, heavy: usize) -> usize {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { heavy } else { usual }
}

/// Random numbers of one test.
#[derive(Debug)]
pub struct Draw(SplitMix);

impl Draw {
    /// Begins the sequence of `test` with the seed of this run, which is printed.
    #[allow(clippy::print_stdout, reason = "shown with a test that fails")]
    pub fn new(test: &str) -> Self {
        let seed = std::env::var("PLIMSOLL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("to repeat this: PLIMSOLL_TEST_SEED={seed}");
        let own = |seed: u64, byte: u8| seed.wrapping_mul(31).wrapping_add(byte.into());
        Self(SplitMix::new(test.bytes().fold(seed, own)))
    }

    /// Returns a number from 0 up to, and without, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.bits() % bound.max(1)
    }

    /// Returns the list in a drawn order.
    pub fn shuffled<T>(&mut self, mut list: Vec<T>) -> Vec<T> {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u64 + 1) as usize);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_list_has_each_item_once_and_any_of_them_first() {
        let mut draw = Draw::new("a list");
        let mut seen = [0; 5];
        for _ in 0..200 {
            let mut list = draw.shuffled(vec![0_usize, 1, 2, 3, 4]);
            seen[list[0]] += 1;
            list.sort_unstable();
            assert_eq!(list, [0, 1, 2, 3, 4]);
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }
}
