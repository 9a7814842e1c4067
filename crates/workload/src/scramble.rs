//! Seeded bijections and a hash: how numbers in order become numbers at random, and back.

use plimsoll_core::random::GOLDEN;
pub use plimsoll_core::random::{below, mix};

/// A hash of (seed, a, b), the same on every machine.
#[inline]
pub fn hash(seed: u64, a: u64, b: u64) -> u64 {
    hash_from(beginning(seed), a, b)
}

/// Returns the state of [`hash`] after a seed alone, to hash many values with one seed.
#[inline]
pub fn beginning(seed: u64) -> u64 {
    mix(seed.wrapping_add(GOLDEN))
}

/// [`hash`] of a seed whose [`beginning`] is known.
#[inline]
pub fn hash_from(beginning: u64, a: u64, b: u64) -> u64 {
    let x = mix(beginning ^ a.wrapping_add(GOLDEN));
    mix(x.wrapping_add(GOLDEN) ^ b.wrapping_mul(GOLDEN))
}

/// A pseudo-random permutation of `0 .. 2^bits` for an even number of bits: a balanced Feistel network
/// (Luby and Rackoff 1988: four rounds look like a random permutation).
#[derive(Debug, Clone)]
pub struct Feistel {
    keys: [u64; 4],
    half_bits: u32,
}

impl Feistel {
    /// The permutation that `seed` names; `bits` is even and 2 to 62.
    pub fn new(seed: u64, bits: u32) -> Self {
        assert!(bits.is_multiple_of(2) && (2..=62).contains(&bits), "a balanced Feistel network has two halves");
        Self { keys: std::array::from_fn(|round| hash(seed, 0xfe15, round as u64)), half_bits: bits / 2 }
    }

    /// The image of `x`.
    #[inline]
    pub fn apply(&self, x: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }

    /// The number whose image is `y`.
    #[inline]
    pub fn invert(&self, y: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (y >> self.half_bits, y & mask);
        for key in self.keys.iter().rev() {
            (left, right) = (right ^ (mix(left ^ key) & mask), left);
        }
        (left << self.half_bits) | right
    }
}

/// A pseudo-random permutation of `0 .. n` for any `n`: a Feistel network over the next power of four,
/// applied again until the image is below `n` (cycle walking, Black and Rogaway 2002; at most 4 times on average).
#[derive(Debug, Clone)]
pub struct Permutation {
    feistel: Feistel,
    n: u64,
}

impl Permutation {
    /// The permutation of `0 .. n` that `seed` names; `n` is 1 to 2^62.
    pub fn new(seed: u64, n: u64) -> Self {
        assert!((1..=1 << 62).contains(&n), "a permutation of 1 to 2^62 numbers");
        let bits = (u64::BITS - (n - 1).leading_zeros()).next_multiple_of(2).max(2);
        Self { feistel: Feistel::new(seed, bits), n }
    }

    /// The image of `x`, which is below `n`.
    #[inline]
    pub fn apply(&self, x: u64) -> u64 {
        let mut y = self.feistel.apply(x);
        while y >= self.n {
            y = self.feistel.apply(y);
        }
        y
    }

    /// The number whose image is `y`, which is below `n`.
    #[inline]
    pub fn invert(&self, y: u64) -> u64 {
        let mut x = self.feistel.invert(y);
        while x >= self.n {
            x = self.feistel.invert(x);
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_feistel_network_is_undone(seed: u64, half in 1u32..=31, x: u64) {
            let bits = 2 * half;
            let x = x & ((1 << bits) - 1);
            let feistel = Feistel::new(seed, bits);
            let y = feistel.apply(x);
            prop_assert!(y < 1 << bits);
            prop_assert_eq!(feistel.invert(y), x);
        }

        #[test]
        fn a_permutation_meets_every_number_once(seed: u64, n in 1u64..3000) {
            let permutation = Permutation::new(seed, n);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = permutation.apply(x);
                prop_assert!(!std::mem::replace(&mut seen[y as usize], true));
                prop_assert_eq!(permutation.invert(y), x);
            }
        }

        #[test]
        fn a_choice_is_below_its_bound(bits: u64, n in 1u64..) {
            prop_assert!(below(bits, n) < n);
        }
    }
}
