//! The ledger catches every kind of lie, through the drive loop, while eight clients work at the same time.

use plimsoll_core::{Durability, StoreKind};
use plimsoll_testkit::draw::repeats;
use plimsoll_testkit::lying::{Lie, Lying};
use plimsoll_testkit::trial::{Outcomes, Trial, workload};
use plimsoll_verify::AnswerVerdict;

use crate::kv_lies::sum;
use crate::opened;

/// 400 coupons of which a tenth match, so that keys and the index are fought over.
fn trial(kind: &dyn StoreKind, seed: u64) -> Outcomes {
    let mut store = opened(kind);
    let workload = workload("coupons", seed, &[("records", 400), ("below", 1_000)], &[("index", "own")]);
    let mix = [("update", 4), ("read", 4), ("query", 1), ("scan", 1)].map(|(kind, share)| (kind.to_owned(), share));
    let trial =
        Trial { workload, clients: 8, ops_per_client: 500, mix: mix.into(), durability: Durability::Durable, batch: 1 };
    let outcomes = trial.run(&mut *store).unwrap();
    store.close().unwrap();
    outcomes
}

#[test]
fn the_reference_store_tells_the_truth() {
    for seed in 0..repeats(2, 5) as u64 {
        let outcomes = trial(&*plimsoll_testkit::reference::kind(), seed);
        assert!(outcomes.is_right(), "{}", outcomes.complaints());
        assert!(outcomes.ledger.acknowledged > 400 + 1_000, "{:?}", outcomes.ledger);
        let queries = outcomes.answers.iter().find(|one| one.kind_name == "query").unwrap();
        assert!(queries.answers > 200 && queries.expected > 20 * queries.answers, "{queries:?}");
    }
}

#[test]
fn every_lie_is_caught_and_called_by_its_name() {
    for (number, lie) in Lie::ALL.into_iter().enumerate() {
        for seed in 0..repeats(1, 3) as u64 {
            let kind = Lying::new(lie, 10, 100 * number as u64 + seed);
            let outcomes = trial(&kind, seed);
            assert!(kind.told() > 0, "{lie:?} was never told");
            assert!(!outcomes.is_right(), "{lie:?} was told {} times and not caught", kind.told());
            let ledger = &outcomes.ledger;
            let sum = |of: fn(&AnswerVerdict) -> u64| sum(&outcomes, of);
            let complaints = outcomes.complaints();
            let caught = match lie {
                Lie::Lose => ledger.lost > 0 && sum(|one| one.stale + one.missing) > 0,
                Lie::Duplicate => ledger.duplicated > 0 && sum(|one| one.duplicated) > 0,
                Lie::Reorder => sum(|one| one.stale) > 0 && ledger.wrong_content == 0,
                Lie::Resurrect => sum(|one| one.stale) > 0 && ledger.resurrected > 0,
                Lie::Stale => sum(|one| one.stale) > 0 && ledger.is_kept(),
                Lie::ForgetIndex => sum(|one| one.missing) > 0 && ledger.index_disagrees > 0 && ledger.lost == 0,
                Lie::Corrupt => sum(|one| one.wrong_content) > 0 && ledger.wrong_content > 0 && ledger.lost == 0,
                Lie::Deny => sum(|one| one.refused) > 0 && ledger.refused > 0,
                Lie::Invent => sum(|one| one.alien) > 0 && ledger.alien > 0 && ledger.lost == 0,
            };
            assert!(caught, "{lie:?}, told {} times, was taken for something else:\n{complaints}", kind.told());
        }
    }
}
