//! pgbench's random numbers, hashes and permutation, as PostgreSQL 15 and later define them (`src/common/pg_prng.c`,
//! PostgreSQL documentation, "pgbench", "Built-In Functions"): the same state gives the same numbers.

use plimsoll_core::random::{GOLDEN, SplitMix, mix};

use crate::scramble::hash;

/// Least parameter of [`Xoroshiro::gaussian`].
pub(crate) const GAUSSIAN_MIN: f64 = 2.0;
/// Least and greatest parameter of [`Xoroshiro::zipfian`].
pub(crate) const ZIPFIAN: std::ops::RangeInclusive<f64> = 1.001..=1000.0;

/// xoroshiro128** (Blackman and Vigna 2018), PostgreSQL's generator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Xoroshiro {
    s0: u64,
    s1: u64,
}

impl Xoroshiro {
    /// Seeds the generator as `pg_prng_seed` does: the state from two steps of SplitMix64.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut seeds = SplitMix::new(seed);
        Self::of_state(seeds.bits(), seeds.bits())
    }

    /// Returns the generator of operation `cycle` of `client`.
    #[inline]
    pub(crate) fn of_operation(seed: u64, client: u32, cycle: u64) -> Self {
        let first = hash(seed, u64::from(client), cycle);
        Self::of_state(first, mix(first ^ GOLDEN))
    }

    #[inline]
    fn of_state(s0: u64, s1: u64) -> Self {
        // All zeros would stay so for ever.
        if s0 == 0 && s1 == 0 { Self { s0: 0x5851_f42d_4c95_7f2d, s1: 0x1405_7b7e_f767_814f } } else { Self { s0, s1 } }
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let (s0, sx) = (self.s0, self.s1 ^ self.s0);
        self.s0 = s0.rotate_left(24) ^ sx ^ (sx << 16);
        self.s1 = sx.rotate_left(37);
        s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// Evenly from `0 ..= most`, by rejection of what the next power of two holds beyond it.
    #[inline]
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        loop {
            let number = self.next() >> most.leading_zeros();
            if number <= most {
                return number;
            }
        }
    }

    /// Evenly from `0 .. 1`, in steps of 2^-52.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 12) as f64 / (1u64 << 52) as f64
    }

    /// `random(low, high)`; `low <= high`.
    #[inline]
    pub(crate) fn uniform(&mut self, low: i64, high: i64) -> i64 {
        low.wrapping_add(self.up_to(high.wrapping_sub(low) as u64) as i64)
    }

    /// `random_exponential(low, high, parameter)`; the parameter is above 0.
    pub(crate) fn exponential(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.unit();
        spread(low, high, -(cut + (1.0 - cut) * uniform).ln() / parameter)
    }

    /// `random_gaussian(low, high, parameter)`; the parameter is at least [`GAUSSIAN_MIN`].
    pub(crate) fn gaussian(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        // Box and Muller 1958, again until within the parameter.
        let deviation = loop {
            let (u1, u2) = (1.0 - self.unit(), 1.0 - self.unit());
            let normal = (-2.0 * u1.ln()).sqrt() * (2.0 * std::f64::consts::PI * u2).sin();
            if (-parameter..parameter).contains(&normal) {
                break normal;
            }
        };
        spread(low, high, (deviation + parameter) / (parameter * 2.0))
    }

    /// `random_zipfian(low, high, parameter)`; the parameter is in [`ZIPFIAN`]. Rejection after Devroye 1986,
    /// "Non-Uniform Random Variate Generation", pages 550 and 551.
    pub(crate) fn zipfian(&mut self, low: i64, high: i64, s: f64) -> i64 {
        let n = high.wrapping_sub(low).wrapping_add(1);
        if n <= 1 {
            return low;
        }
        let b = 2f64.powf(s - 1.0);
        loop {
            let (u, v) = (self.unit(), self.unit());
            let x = u.powf(-1.0 / (s - 1.0)).floor();
            let t = (1.0 + 1.0 / x).powf(s - 1.0);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= n as f64 {
                return low.wrapping_sub(1).wrapping_add(x as i64);
            }
        }
    }
}

/// The number that stands at `part`, 0 to 1, of `low ..= high`.
fn spread(low: i64, high: i64, part: f64) -> i64 {
    let count = high.wrapping_sub(low).wrapping_add(1) as f64;
    low.wrapping_add((count * part) as i64)
}

/// `hash_fnv1a(value, seed)`: FNV-1a over the value's eight bytes.
#[inline]
pub(crate) fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    value.to_le_bytes().into_iter().fold(OFFSET_BASIS ^ seed as u64, step) as i64
}

/// `hash_murmur2(value, seed)`, also `hash`: MurmurHash64A (Appleby) of the value's eight bytes.
pub(crate) fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const ROTATION: u32 = 47;
    let stir = |x: u64| x ^ (x >> ROTATION);
    let key = stir((value as u64).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    let hash = (seed as u64 ^ MULTIPLIER.wrapping_mul(8) ^ key).wrapping_mul(MULTIPLIER);
    stir(stir(hash).wrapping_mul(MULTIPLIER)) as i64
}

/// `permute(value, size, seed)`: where `value` goes in a permutation of `0 .. size`; `size` is above 0.
pub(crate) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let mut random = Xoroshiro::of_seed(seed as u64);
    let size = size as u64;
    let mut at = value as u64 % size;
    // The greatest power of two that fits: bijections of its numbers are applied to the lower and to the upper end.
    let bits = size.ilog2();
    let mask = (1u64 << bits) - 1;
    let turned = |number: u64, factor: u64, flip: u64| {
        let number = (number.wrapping_mul(factor) ^ flip) & mask;
        ((number << 1) & mask) | (number >> (bits - 1))
    };
    for _ in 0..6 {
        let (factor, flip) = ((random.next() & mask) | 1, random.next() & mask);
        if at <= mask {
            at = turned(at, factor, flip);
        }
        let (factor, flip) = ((random.next() & mask) | 1, random.next() & mask);
        let from_end = size - 1 - at;
        if from_end <= mask {
            at = size - 1 - turned(from_end, factor, flip);
        }
        at = (at + random.up_to(size - 1)) % size;
    }
    at as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `pgbench` of PostgreSQL 15.18 with `--random-seed=42 -c 1 -j 1`, each by `\set a debug(…)`.
    #[test]
    fn what_pgbench_says_is_what_comes_out() {
        assert_eq!(hash_murmur2(42, 5432), -8_888_550_574_847_118_926);
        assert_eq!(hash_murmur2(-7, 0), -2_376_560_325_806_870_531);
        assert_eq!(hash_fnv1a(42, 5432), 8_300_031_466_468_664_087);
        assert_eq!(hash_fnv1a(-123_456_789_012, -9), 3_440_307_065_816_699_720);
        assert_eq!(hash_murmur2(42, 4_306_334_408_478_191_133), 416_645_645_586_623_766);
        let permuted = [
            (0, 10, 7, 1),
            (1, 10, 7, 0),
            (-1, 1_000_000, 5432, 842_868),
            (123_456_789, i64::MAX, -4, 8_079_421_694_944_930_074),
            (1, 2, 3, 1),
            (1, 1, 3, 0),
            (5, 1 << 20, 11, 986_859),
        ];
        for (value, size, seed, wanted) in permuted {
            assert_eq!(permute(value, size, seed), wanted, "permute({value}, {size}, {seed})");
        }
    }

    /// Random numbers of the same call. pgbench takes the client's state, then the default seed, from a sequence that
    /// starts at the seed.
    #[test]
    fn a_state_gives_the_numbers_that_it_gives_pgbench() {
        let mut base = Xoroshiro::of_seed(42);
        let mut random = Xoroshiro::of_seed(base.next());
        assert_eq!(base.next() as i64, 4_306_334_408_478_191_133, ":default_seed");
        assert_eq!(random.uniform(1, 1_000_000), 668_251);
        assert_eq!(random.uniform(1, 1_000_000), 855_542);
        assert_eq!(random.exponential(1, 1_000_000, 2.5), 349_760);
        assert_eq!(random.gaussian(1, 1_000_000, 2.5), 433_232);
        assert_eq!(random.zipfian(1, 1_000_000, 1.5), 2);
        assert_eq!(random.zipfian(1, 1_000_000, 1.001), 158);
    }

    #[test]
    fn every_number_of_a_permutation_is_met_once() {
        for (size, seed) in [(2, 0), (3, 1), (7, 5), (64, -1), (1000, 42)] {
            let mut met = vec![false; size as usize];
            for value in 0..size {
                let at = permute(value, size, seed) as usize;
                assert!(!std::mem::replace(&mut met[at], true), "{value} of {size}");
            }
        }
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Xoroshiro::of_seed(1);
        for (low, high) in [(0, 0), (1, 2), (-5, 5), (i64::MIN, -2), (1, i64::MAX), (7, 1_000_000)] {
            for _ in 0..200 {
                for number in [
                    random.uniform(low, high),
                    random.exponential(low, high, 0.001),
                    random.exponential(low, high, 700.0),
                    random.gaussian(low, high, 2.0),
                    random.zipfian(low, high, 1.2),
                    random.zipfian(low, high, 1000.0),
                ] {
                    assert!((low..=high).contains(&number), "{number} of {low} to {high}");
                }
            }
        }
    }
}
