//! Choice of records: YCSB's distributions as pure functions of random bits.
//!
//! Definitions are those of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010; package
//! `site.ycsb.generator` of its core):
//!
//! | name | record |
//! |---|---|
//! | `uniform` | each as likely as any other |
//! | `zipfian` | number 0 is the most popular, then 1 …: Zipf's law with constant 0.99, by the method of Gray et al. ("Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994) |
//! | `scrambled` | popular as in `zipfian` over 10^10 items, each mapped to a record by FNV-1a of its rank: popular records stand anywhere |
//! | `latest` | as in `zipfian`, counted back from the newest |
//! | `hotspot` | a share of the operations goes to a share of the records, evenly within and without |

use crate::scramble::{below, mix};
use crate::script::hash_fnv1a;

/// Zipf's constant, as in YCSB.
const THETA: f64 = 0.99;
/// `1 / (1 - THETA)`. A whole number: raising to it needs no `powf`, and is closer to the definition than one.
const ALPHA: i32 = 100;
/// Items that `scrambled` ranks, however many records there are (`ScrambledZipfianGenerator.ITEM_COUNT`).
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// A popularity over `0 .. n`.
#[derive(Debug, Clone)]
pub(crate) enum Chooser {
    /// All alike.
    Uniform {
        /// Number of records.
        records: u64,
    },
    /// Zipf's law by rank.
    Zipfian(Zipf),
    /// Zipf's law by rank, mapped to any record.
    Scrambled {
        ranks: Zipf,
        /// Number of records.
        records: u64,
    },
    /// Zipf's law by age.
    Latest(Zipf),
    /// A hot part and a cold one.
    Hotspot {
        /// Records in the hot part; they are the first ones.
        hot: u64,
        /// Number of records.
        records: u64,
        /// Share of operations that go there, of 2^64.
        hot_ops: u64,
    },
}

impl Chooser {
    /// The popularity called `name` over `records`; with `hotspot`, `hot_ops_percent` of the operations go to
    /// `hot_records_percent` of the records.
    pub fn new(name: &str, records: u64, hot_records_percent: u64, hot_ops_percent: u64) -> Self {
        let records = records.max(1);
        match name {
            "zipfian" => Chooser::Zipfian(Zipf::new(records)),
            "scrambled" => Chooser::Scrambled { ranks: Zipf::new(SCRAMBLED_ITEMS), records },
            "latest" => Chooser::Latest(Zipf::new(records)),
            "hotspot" => Chooser::Hotspot {
                hot: records * hot_records_percent.min(100) / 100,
                records,
                hot_ops: (u128::from(hot_ops_percent.min(100)) * u128::from(u64::MAX) / 100) as u64,
            },
            _ => Chooser::Uniform { records },
        }
    }

    /// The record for 64 random bits. Of `latest`: how many are newer than it.
    #[inline]
    pub fn choose(&self, bits: u64) -> u64 {
        match self {
            Chooser::Uniform { records } => below(bits, *records),
            Chooser::Zipfian(ranks) | Chooser::Latest(ranks) => ranks.rank(bits),
            Chooser::Scrambled { ranks, records } => fnv(ranks.rank(bits)) % records,
            Chooser::Hotspot { hot, records, hot_ops } => {
                let place = mix(bits);
                let is_hot = bits < *hot_ops;
                match (is_hot && *hot > 0) || hot == records {
                    true => below(place, *hot),
                    false => hot + below(place, records - hot),
                }
            }
        }
    }
}

/// Ranks `0 .. items` by Zipf's law with constant `THETA`, by the method of Gray et al.: exact for the two most
/// popular, the continuous law for the others.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    items: u64,
    zeta: f64,
    /// Upper bound of `u * zeta` for rank 1.
    second: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks of `items`, at least 1.
    pub fn new(items: u64) -> Self {
        let items = items.max(1);
        let (zeta_n, second) = (zeta(items), 1.0 + 0.5f64.powf(THETA));
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - second / zeta_n);
        Self { items, zeta: zeta_n, second, eta }
    }

    /// The rank for 64 random bits.
    #[inline]
    pub fn rank(&self, bits: u64) -> u64 {
        let u = (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let scaled = u * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < self.second || self.items == 2 {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * u - self.eta + 1.0).powi(ALPHA);
        (rank as u64).min(self.items - 1)
    }
}

/// The generalized harmonic number: the sum of `1 / i^THETA` for i from 1 to `n`. The first terms are added up; the rest
/// is Euler and Maclaurin's formula, whose error is below 1e-12 there.
fn zeta(n: u64) -> f64 {
    const ADDED: u64 = 10_000;
    let head: f64 = (1..=n.min(ADDED)).rev().map(|i| (i as f64).powf(-THETA)).sum();
    if n <= ADDED {
        return head;
    }
    let (from, to) = (ADDED as f64, n as f64);
    let integral = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (to.powf(-THETA) - from.powf(-THETA)) / 2.0;
    let slope = THETA / 12.0 * (from.powf(-THETA - 1.0) - to.powf(-THETA - 1.0));
    head + integral + ends + slope
}

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight bytes of a number, lowest first, without its sign.
#[inline]
fn fnv(number: u64) -> u64 {
    hash_fnv1a(number as i64, 0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scramble::hash;

    const DRAWS: u64 = 200_000;

    fn counts(chooser: &Chooser, of: impl Fn(u64) -> usize, bins: usize) -> Vec<f64> {
        let mut counts = vec![0.0; bins];
        for draw in 0..DRAWS {
            counts[of(chooser.choose(hash(11, draw, 0)))] += 1.0;
        }
        counts
    }

    /// Chi-square of counts against shares, over its number of degrees of freedom: about 1, with a standard deviation
    /// of `sqrt(2 / degrees)`.
    fn chi_square(counts: &[f64], shares: &[f64]) -> f64 {
        let total: f64 = counts.iter().sum();
        let sum: f64 = counts.iter().zip(shares).map(|(n, share)| (n - total * share).powi(2) / (total * share)).sum();
        sum / (shares.len() - 1) as f64
    }

    fn fits(counts: &[f64], shares: &[f64], what: &str) {
        let share: f64 = shares.iter().sum();
        assert!((share - 1.0).abs() < 1e-9, "{what}: shares add up to {share}");
        let chi_square = chi_square(counts, shares);
        let far = 1.0 + 5.0 * (2.0 / (shares.len() - 1) as f64).sqrt();
        assert!(chi_square < far, "{what}: chi-square {chi_square} for each degree of freedom");
    }

    #[test]
    fn harmonic_numbers_are_those_of_the_definition_and_of_ycsb() {
        for n in [1, 2, 1_000, 10_000, 10_001, 300_000] {
            let added: f64 = (1..=n).map(|i| (i as f64).powf(-THETA)).sum();
            assert!((zeta(n) - added).abs() < 1e-9, "{n}: {} and {added}", zeta(n));
        }
        // `ScrambledZipfianGenerator.ZETAN`, for its ten thousand million items.
        assert!((zeta(SCRAMBLED_ITEMS) - 26.469_028_201_783_02).abs() < 1e-6, "{}", zeta(SCRAMBLED_ITEMS));
    }

    #[test]
    fn the_hash_is_the_one_of_ycsb() {
        // The first keys that YCSB loads: `user6284781860667377211`, …
        let first = [6284781860667377211, 8517097267634966620, 1820151046732198393, 4052466453699787802];
        assert_eq!([0, 1, 2, 3].map(fnv), first);
    }

    /// The share of ranks below `rank`, from the method: exact for the first two, then its inverse.
    fn share_below(zipf: &Zipf, rank: u64) -> f64 {
        match rank {
            0 => 0.0,
            1 => 1.0 / zipf.zeta,
            2 => zipf.second / zipf.zeta,
            rank if rank >= zipf.items => 1.0,
            rank => {
                let place = (rank as f64 / zipf.items as f64).powf(1.0 / f64::from(ALPHA));
                ((place - 1.0 + zipf.eta) / zipf.eta).max(zipf.second / zipf.zeta)
            }
        }
    }

    #[test]
    fn zipfian_ranks_are_as_frequent_as_the_method_says() {
        for items in [10, 1_000, 1_000_000] {
            let zipf = Zipf::new(items);
            // 0, 1, 2, then each bin twice as wide as the one before.
            let mut ends = vec![1, 2, 3];
            while ends.last().is_some_and(|end| *end < items) {
                ends.push((ends[ends.len() - 1] * 2).min(items));
            }
            let mut from = 0.0;
            let shares: Vec<f64> = ends
                .iter()
                .map(|end| {
                    let to = share_below(&zipf, *end);
                    let share = to - from;
                    from = to;
                    share
                })
                .collect();
            let chooser = Chooser::Zipfian(zipf);
            let bin = |rank: u64| ends.iter().position(|end| rank < *end).expect("a rank below the items");
            fits(&counts(&chooser, bin, ends.len()), &shares, &format!("zipfian over {items}"));
        }
    }

    #[test]
    fn the_method_is_near_the_law_it_stands_for() {
        let items = 100_000;
        let zipf = Zipf::new(items);
        let law = |rank: u64| (rank as f64 + 1.0).powf(-THETA) / zipf.zeta;
        for rank in [0, 1] {
            let share = share_below(&zipf, rank + 1) - share_below(&zipf, rank);
            assert!((share / law(rank) - 1.0).abs() < 1e-12, "rank {rank}");
        }
        let mut sum = 0.0;
        for rank in 0..items {
            sum += law(rank);
            if [9, 99, 999, 9_999].contains(&rank) {
                let share = share_below(&zipf, rank + 1);
                assert!((share - sum).abs() < 0.03, "the first {}: {share}, by the law {sum}", rank + 1);
            }
        }
    }

    #[test]
    fn scrambled_is_the_same_law_spread_over_all_records() {
        let records = 5_000;
        let chooser = Chooser::new("scrambled", records, 0, 0);
        let zipf = Zipf::new(SCRAMBLED_ITEMS);
        let favourites = [0, 1, 2, 3, 4].map(|rank| fnv(rank) % records);
        assert!(favourites.windows(2).any(|pair| pair[0] > pair[1]), "they are not in order");
        let of = |record| favourites.iter().position(|one| *one == record).unwrap_or(favourites.len());
        let counts = counts(&chooser, of, favourites.len() + 1);
        // Ranks beyond the first few hundred fall on every record alike.
        let spread = 1.0 - share_below(&zipf, 300);
        for (rank, count) in counts.iter().take(favourites.len()).enumerate() {
            let rank = rank as u64;
            let mut share = share_below(&zipf, rank + 1) - share_below(&zipf, rank) + spread / records as f64;
            let also = (5..300).filter(|other| fnv(*other) % records == favourites[rank as usize]);
            share += also.map(|other| share_below(&zipf, other + 1) - share_below(&zipf, other)).sum::<f64>();
            let (expected, deviation) = (DRAWS as f64 * share, (DRAWS as f64 * share).sqrt());
            assert!((count - expected).abs() < 5.0 * deviation + 1.0, "rank {rank}: {count} of {expected}");
        }
        assert!(counts[0] / DRAWS as f64 > 1.0 / 26.5, "the favourite's share");
    }

    #[test]
    fn uniform_and_hotspot_are_even_within_their_parts() {
        let tenths = |record: u64| (record / 100) as usize;
        let uniform = Chooser::new("uniform", 1_000, 0, 0);
        fits(&counts(&uniform, tenths, 10), &[0.1; 10], "uniform");
        // YCSB's defaults: 80 % of the operations to 20 % of the records.
        let hotspot = Chooser::new("hotspot", 1_000, 20, 80);
        let shares: Vec<f64> = (0..10).map(|tenth| if tenth < 2 { 0.4 } else { 0.025 }).collect();
        fits(&counts(&hotspot, tenths, 10), &shares, "hotspot");
        for (records, ops) in [(0, 80), (100, 80), (20, 0), (20, 100)] {
            let edge = Chooser::new("hotspot", 1_000, records, ops);
            let tenths = counts(&edge, tenths, 10);
            assert_eq!(tenths.iter().sum::<f64>(), DRAWS as f64);
            let hot = tenths[..2].iter().sum::<f64>() / DRAWS as f64;
            let expected = if records == 20 { ops as f64 / 100.0 } else { 0.2 };
            assert!((hot - expected).abs() < 0.01, "{records} and {ops}: {hot}");
        }
    }

    #[test]
    fn every_choice_is_a_record_however_few_there_are() {
        for name in ["uniform", "zipfian", "scrambled", "latest", "hotspot"] {
            for records in [1, 2, 3, 7] {
                let chooser = Chooser::new(name, records, 20, 80);
                let mut bits = vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63];
                bits.extend((0..1_000).map(|n| hash(3, n, 1)));
                assert!(bits.iter().all(|bits| chooser.choose(*bits) < records), "{name} of {records}");
            }
        }
    }
}
