//! A Poisson process of rate 1 as a pure function of an arrival's number.
//!
//! The time of arrival `n` is a sum of `n` exponential gaps, and adding them up from the first would be neither quick
//! nor pure. It is taken from above instead: the sum of 2^40 gaps is one gamma-distributed number; the share of it
//! that its first half of the gaps has is beta-distributed, whatever the sum is; and so on down to blocks of 64
//! gaps, in which the sums of `k` exponential gaps over the sum of all 64 say where each arrival lies (Devroye,
//! Non-Uniform Random Variate Generation, IX.3 and V.2). Each number comes from a hash of the seed and its place, so
//! any arrival can be asked for, in any order and on any thread, and the whole is a Poisson process exactly.

use std::f64::consts::TAU;

use plimsoll_core::random::{SplitMix, mix};

/// Arrivals of a block, as a power of two.
const BLOCK_BITS: u32 = 6;
const BLOCK: usize = 1 << BLOCK_BITS;
/// Halvings from the whole to a block.
const LEVELS: u32 = 34;
/// Arrivals of the whole: eleven days of 1,000,000 a second. There are none after it.
const ARRIVALS: u64 = 1 << (BLOCK_BITS + LEVELS);

/// The process; see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    seed: u64,
}

/// A block's times, kept from arrival to arrival, and the bounds of what it was halved from.
#[derive(Debug)]
pub(crate) struct Block {
    /// `u64::MAX` when nothing is kept.
    number: u64,
    /// Bounds from the whole down to the block.
    bounds: [(f64, f64); LEVELS as usize + 1],
    times: [f64; BLOCK],
}

impl Default for Block {
    fn default() -> Self {
        Self { number: u64::MAX, bounds: [(0.0, 0.0); LEVELS as usize + 1], times: [0.0; BLOCK] }
    }
}

impl Process {
    /// Makes the process of a seed: equal seeds give equal processes.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Time of arrival `index`, counted from 0; infinite when there is none. Arrivals of one block are cheap with
    /// the same `block`.
    #[inline]
    pub fn at(&self, index: u64, block: &mut Option<Box<Block>>) -> f64 {
        let number = index >> BLOCK_BITS;
        let within = index as usize & (BLOCK - 1);
        if let Some(block) = block
            && block.number == number
        {
            return block.times[within];
        }
        if index >= ARRIVALS {
            return f64::INFINITY;
        }
        match block {
            Some(block) => {
                self.fill(block, number);
                block.times[within]
            }
            None => {
                let mut block = Block::default();
                self.fill(&mut block, number);
                block.times[within]
            }
        }
    }

    /// Arrivals before `time`.
    pub fn count_before(&self, time: f64) -> u64 {
        let (mut low, mut high) = (0.0, self.whole());
        if time > high {
            return ARRIVALS;
        }
        let mut number = 0;
        for level in 1..=LEVELS {
            let middle = self.middle(level, number, low, high);
            number *= 2;
            if time > middle {
                low = middle;
                number += 1;
            } else {
                high = middle;
            }
        }
        let mut block = Block::default();
        self.fill(&mut block, number);
        (number << BLOCK_BITS) + block.times.partition_point(|&at| at < time) as u64
    }

    /// The sum of all gaps.
    fn whole(&self) -> f64 {
        Random::new(self.seed, 0, 0).gamma(ARRIVALS as f64)
    }

    /// Returns the point at which the part `number` of `level - 1`, from `low` to `high`, is halved.
    fn middle(&self, level: u32, number: u64, low: f64, high: f64) -> f64 {
        let half = (ARRIVALS >> level) as f64;
        let mut random = Random::new(self.seed, u64::from(level), number);
        let (left, right) = (random.gamma(half), random.gamma(half));
        low + (high - low) * (left / (left + right))
    }

    #[cold]
    #[inline(never)]
    fn fill(&self, block: &mut Block, number: u64) {
        // Levels at which the kept block and this one are parts of the same.
        let shared = match block.number {
            u64::MAX => {
                block.bounds[0] = (0.0, self.whole());
                0
            }
            kept => LEVELS - (u64::BITS - (kept ^ number).leading_zeros()).min(LEVELS),
        };
        for level in shared + 1..=LEVELS {
            let (low, high) = block.bounds[level as usize - 1];
            let part = number >> (LEVELS - level);
            let middle = self.middle(level, part >> 1, low, high);
            block.bounds[level as usize] = if part & 1 == 0 { (low, middle) } else { (middle, high) };
        }
        let (low, high) = block.bounds[LEVELS as usize];
        let mut random = Random::new(self.seed, u64::from(LEVELS) + 1, number);
        let mut sum = 0.0;
        for time in &mut block.times {
            sum += random.exponential();
            *time = sum;
        }
        for time in &mut block.times {
            *time = low + (high - low) * (*time / sum);
        }
        block.number = number;
    }
}

/// Numbers that a seed and a place stand for: SplitMix64 from their hash.
pub(crate) struct Random(SplitMix);

impl Random {
    /// Makes the generator of these words, in this order.
    pub fn of(words: [u64; 3]) -> Self {
        Self(SplitMix::new(words.into_iter().fold(0, |state, word| mix(state ^ mix(word)))))
    }

    fn new(seed: u64, level: u64, number: u64) -> Self {
        Self(SplitMix::new(mix(mix(seed ^ 0x706c_696d_736f_6c6c) ^ mix((level << 48) ^ number))))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Returns a random number above 0, at most 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 * (0.5f64).powi(53)
    }

    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    /// Gamma-distributed with `shape`, which is 1 or more: Marsaglia and Tsang, A simple method for generating gamma
    /// variables, ACM TOMS 26 (2000).
    fn gamma(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let t = c * x;
            if t <= -1.0 {
                continue;
            }
            // `(1 + t)³ - 1` and its logarithm without cancelling: shapes are up to 2^40.
            let beyond = t * (3.0 + t * (3.0 + t));
            if self.uniform().ln() < 0.5 * x * x + d * (beyond.ln_1p() - beyond) {
                return d * (1.0 + beyond);
            }
        }
    }
}
