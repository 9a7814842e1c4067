//! Random draws of tests, and how often tests repeat them.
//!
//! `cargo xtask test` sets the seed to the commit, so that each commit tries other moments and a failure can be repeated by
//! `PLIMSOLL_TEST_SEED`; with `--heavy` it is new each time, and repetitions are many.

/// Returns `usual`, or `heavy` in a run with long repetitions.
pub fn repeats(usual: usize, heavy: usize) -> usize {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { heavy } else { usual }
}

/// SplitMix64 (Steele, Lea, Flood, 2014).
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// Begins the sequence of `test` with the seed of this run, which is printed.
    #[allow(clippy::print_stdout, reason = "shown with a test that fails")]
    pub fn new(test: &str) -> Self {
        let seed = std::env::var("PLIMSOLL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("to repeat this: PLIMSOLL_TEST_SEED={seed}");
        Self(test.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())))
    }

    /// Returns a number from 0 up to, and without, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}
