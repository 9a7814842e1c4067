//! The ledger catches every kind of lie about keys and values, through the drive loop, while eight clients fight over
//! the same keys.

use plimsoll_core::{Durability, StoreKind};
use plimsoll_testkit::draw::repeats;
use plimsoll_testkit::lying_kv::{KvLie, Pairs};
use plimsoll_testkit::trial::{Outcomes, Trial, workload};
use plimsoll_verify::AnswerVerdict;

use crate::opened;

fn trial(kind: &dyn StoreKind, seed: u64, distribution: &str) -> Outcomes {
    let mut store = opened(kind);
    let ints = [("records", 200), ("field_length", 6), ("scan_length", 20)];
    let workload = workload("kv", seed, &ints, &[("distribution", distribution)]);
    let mix = [("read", 4), ("update", 3), ("insert", 1), ("scan", 1), ("read_modify_write", 2)];
    let mix = mix.map(|(kind, share)| (kind.to_owned(), share)).into();
    let trial = Trial { workload, clients: 8, ops_per_client: 500, mix, durability: Durability::Durable, batch: 1 };
    let outcomes = trial.run(&mut *store).unwrap();
    store.close().unwrap();
    outcomes
}

/// The sum over phases and operation types.
pub fn sum(outcomes: &Outcomes, of: impl Fn(&AnswerVerdict) -> u64) -> u64 {
    outcomes.answers.iter().map(of).sum()
}

#[test]
fn a_store_that_tells_the_truth_is_believed_whichever_keys_are_popular() {
    for (seed, distribution) in ["scrambled", "zipfian", "latest", "uniform", "hotspot"].into_iter().enumerate() {
        let outcomes = trial(&Pairs::honest(), seed as u64, distribution);
        assert!(outcomes.is_right(), "{distribution}: {}", outcomes.complaints());
        // 8 clients, 500 operations each, of which 6 in 11 write.
        assert!(outcomes.ledger.acknowledged > 200 + 2_000, "{:?}", outcomes.ledger);
        assert!(outcomes.ledger.read_back > 200 + 300, "inserts are read back: {:?}", outcomes.ledger);
        let of = |name: &str| outcomes.answers.iter().find(|one| one.kind_name == name).unwrap();
        // A read of what was inserted less than a microsecond ago may miss it: clocks are not believed further.
        assert!(of("read").answers > 1_400 && of("read").expected + 30 > of("read").answers, "{:?}", of("read"));
        assert!(of("scan").answers > 300 && of("scan").expected > 5 * of("scan").answers, "{:?}", of("scan"));
        assert!(of("read before write").answers > 700);
    }
}

#[test]
fn every_lie_about_keys_and_values_is_caught_and_called_by_its_name() {
    for (number, lie) in KvLie::ALL.into_iter().enumerate() {
        for seed in 0..repeats(2, 6) as u64 {
            let kind = Pairs::lying(lie, 20, 100 * number as u64 + seed);
            let outcomes = trial(&kind, seed, "scrambled");
            assert!(kind.told() > 0, "{lie:?} was never told");
            assert!(!outcomes.is_right(), "{lie:?} was told {} times and not caught", kind.told());
            let ledger = &outcomes.ledger;
            let caught = match lie {
                KvLie::Lose => ledger.lost > 0 && sum(&outcomes, |one| one.stale + one.missing) > 0,
                KvLie::Resurrect => sum(&outcomes, |one| one.stale) > 0 && ledger.lost + ledger.resurrected > 0,
                KvLie::Stale => sum(&outcomes, |one| one.stale) > 0 && ledger.wrong_content == 0,
                KvLie::Corrupt => sum(&outcomes, |one| one.wrong_content) > 0 && ledger.wrong_content > 0,
                KvLie::Misplace => sum(&outcomes, |one| one.wrong_content) > 0 && ledger.wrong_content > 0,
                KvLie::Deny => sum(&outcomes, |one| one.refused) > 0 && ledger.refused > 0,
                KvLie::Hide => sum(&outcomes, |one| one.missing) > 0,
                KvLie::Skip => sum(&outcomes, |one| one.missing) > 0 && ledger.is_kept(),
                KvLie::Swap => sum(&outcomes, |one| one.disordered) > 0 && ledger.is_kept(),
                KvLie::Repeat => sum(&outcomes, |one| one.duplicated) > 0 && ledger.is_kept(),
                KvLie::Invent => sum(&outcomes, |one| one.alien) > 0 && ledger.is_kept(),
            };
            let told = kind.told();
            assert!(caught, "{lie:?}, told {told} times, was taken for something else:\n{}", outcomes.complaints());
        }
    }
}
