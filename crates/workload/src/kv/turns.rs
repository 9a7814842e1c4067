//! Order of a client's operations: the operation type of each, and its number among those of its type.
//!
//! A client's operations come in rounds as long as the sum of the shares, without their common divisor: 20 for 95 and 5.
//! In each round every kind has exactly its share, in an order drawn by lot for each client and round. So the number of
//! an operation among those of its kind is known without looking back, and with it the keys that have been inserted.

use plimsoll_core::KindId;

use crate::scramble::{below, hash};

/// Multipliers of a round's order that are kept at most.
const STEPS_MAX: usize = 64;

/// Returns the number of an operation within its client's phase: a phase's cycles begin at a multiple of 2^32, so
/// phases differ in their operations.
#[inline]
pub(crate) fn within_phase(cycle: u64) -> u64 {
    cycle & 0xffff_ffff
}

/// The kinds of a mix and their turns.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    seed: u64,
    /// Upper ends of the kinds' places in a round.
    ends: Vec<(u64, KindId)>,
    round: u64,
    /// Numbers without a divisor in common with the round: multiplying by one puts its places into another order.
    steps: Vec<u64>,
}

/// Operation type of an operation and its position among those of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub kind: KindId,
    /// Number of operations of this type before this one, in earlier rounds and in this round.
    pub number: u64,
}

impl Turns {
    /// Turns by `shares`, each of them above zero.
    pub fn new(seed: u64, shares: &[(KindId, u32)]) -> Self {
        let divisor = shares.iter().fold(0, |divisor, (_, share)| gcd(divisor, u64::from(*share)));
        let mut round = 0;
        let ends = shares.iter().map(|(kind, share)| {
            round += u64::from(*share) / divisor;
            (round, *kind)
        });
        let ends: Vec<_> = ends.collect();
        let steps = (1..=round).filter(|step| gcd(*step, round) == 1);
        // Of long rounds some, spread over all.
        let stride = (round as usize / STEPS_MAX / 2).max(1);
        let steps = steps.step_by(stride).take(STEPS_MAX).collect();
        Self { seed, ends, round, steps }
    }

    #[inline]
    pub fn turn(&self, client: u64, cycle: u64) -> Turn {
        if let [(_, only)] = self.ends[..] {
            return Turn { kind: only, number: cycle };
        }
        let (round, at) = (cycle / self.round, cycle % self.round);
        let lot = hash(self.seed, client, round);
        let step = self.steps[below(lot << 32, self.steps.len() as u64) as usize];
        let place = (at * step + below(lot, self.round)) % self.round;
        let mut start = 0;
        for (end, kind) in &self.ends {
            if place < *end {
                return Turn { kind: *kind, number: round * (end - start) + place - start };
            }
            start = *end;
        }
        unreachable!("the last end is the round's length, and a place is below it")
    }

    /// Returns the number of operations of `kind` that a client has certainly started before operation `cycle`: those
    /// of complete rounds.
    #[inline]
    pub fn before(&self, kind: KindId, cycle: u64) -> u64 {
        cycle / self.round * self.of_round(kind)
    }

    /// Returns the number of operations of `kind` in a round.
    #[inline]
    pub fn of_round(&self, kind: KindId) -> u64 {
        let mut start = 0;
        for (end, one) in &self.ends {
            if *one == kind {
                return end - start;
            }
            start = *end;
        }
        0
    }

    /// Returns true if any turn is of this type.
    pub fn has(&self, kind: KindId) -> bool {
        self.ends.iter().any(|(_, one)| *one == kind)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_round_has_each_kind_its_share_and_numbers_have_no_gap(seed: u64, client in 0u64..64, shares in prop::collection::vec(1u32..40, 1..5), rounds in 1u64..5) {
            let shares: Vec<(KindId, u32)> = (0..).zip(shares).collect();
            let turns = Turns::new(seed, &shares);
            let mut numbers: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); shares.len()];
            for cycle in 0..rounds * turns.round {
                let Turn { kind, number } = turns.turn(client, cycle);
                prop_assert!(numbers[usize::from(kind)].insert(number), "a number twice");
            }
            let total: u64 = shares.iter().map(|(_, share)| u64::from(*share)).sum();
            for (kind, share) in shares {
                let expected = rounds * turns.round * u64::from(share) / total;
                let numbers = &numbers[usize::from(kind)];
                prop_assert_eq!(numbers.len() as u64, expected);
                prop_assert!(numbers.iter().copied().eq(0..expected));
                prop_assert_eq!(turns.before(kind, rounds * turns.round), expected);
                prop_assert!(turns.has(kind));
            }
        }
    }

    #[test]
    fn the_order_is_drawn_by_lot() {
        let turns = Turns::new(1, &[(0, 95), (1, 5)]);
        assert_eq!(turns.round, 20);
        let mut places = [0; 20];
        for round in 0..4_000 {
            let at = (0..20).find(|at| turns.turn(3, round * 20 + at).kind == 1).unwrap();
            places[at as usize] += 1;
        }
        assert!(places.iter().all(|count| (130..270).contains(count)), "{places:?}");
    }
}
