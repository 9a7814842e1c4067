//! Every kind of lie is caught, called by its name, and not taken for another.

use plimsoll_core::{Outcome, Value, Version};
use plimsoll_verify::{AnswerVerdict, LedgerVerdict};
use proptest::prelude::*;

use crate::simulation::{Ask, Rows, Simulation, Troubles};
use crate::toy::Toy;

const CLIENTS: u64 = 3;
const RECORDS: u64 = 12;

/// A store after a storm, with a record of client 0 that is there for certain, and its number.
fn after_a_storm(seed: u64) -> (Simulation, u64) {
    let mut simulation = Simulation::new(seed, RECORDS, CLIENTS, Troubles { unknown: 40, rejected: 20 });
    simulation.storm(60);
    let id = (0..RECORDS).step_by(CLIENTS as usize).find(|id| !simulation.unsure.contains(id));
    let id = id.unwrap_or_else(|| panic!("seed {seed} leaves no record sure"));
    if !simulation.held.contains_key(&id) {
        assert_eq!(simulation.quietly(0, Ask::Insert(id), |_, _| {}), Outcome::Ok);
    }
    // Two versions that everyone has seen.
    for _ in 0..2 {
        assert_eq!(simulation.quietly(0, Ask::Update(id), |_, _| {}), Outcome::Ok);
        simulation.quietly(1, Ask::Get(id), |_, _| {});
    }
    (simulation, id)
}

/// Seeds whose storm leaves a record that is sure.
fn seeds() -> impl Iterator<Item = u64> {
    (0..60).filter(|seed| {
        let mut simulation = Simulation::new(*seed, RECORDS, CLIENTS, Troubles { unknown: 40, rejected: 20 });
        simulation.storm(60);
        (0..RECORDS).step_by(CLIENTS as usize).any(|id| !simulation.unsure.contains(&id))
    })
}

fn of<'a>(answers: &'a [AnswerVerdict], kind: &str) -> &'a AnswerVerdict {
    answers.iter().find(|verdict| verdict.kind_name == kind).unwrap()
}

fn honest_but(ledger: &LedgerVerdict, name: &str) {
    let wrong = ledger.wrong();
    assert!(wrong.keys().all(|other| other == name) && ledger.lost == 0, "{name} expected: {ledger:#?}");
    assert!(wrong.contains_key(name), "{name} expected: {ledger:#?}");
    assert!(!ledger.is_kept() && !ledger.examples.is_empty());
}

#[test]
fn a_write_that_was_acknowledged_and_dropped_is_lost() {
    let mut runs = 0;
    for seed in seeds() {
        let (mut simulation, id) = after_a_storm(seed);
        let before = simulation.held[&id];
        simulation.quietly(0, Ask::Update(id), |simulation, _| simulation.hold(id, before));
        let acknowledged_ns = simulation.now * 10_000;
        let (answers, ledger) = simulation.judge(|_, _| {});
        assert!(answers.iter().all(AnswerVerdict::is_right), "seed {seed}: {answers:#?}");
        assert_eq!((ledger.lost, ledger.wrong().len()), (1, 0), "seed {seed}: {ledger:#?}");
        assert_eq!(ledger.lost_window_ns, Some((acknowledged_ns, acknowledged_ns)));
        assert_eq!(ledger.loss_upper_bound, None);
        runs += 1;
    }
    assert!(runs > 20, "{runs} runs");
}

#[test]
fn a_record_that_was_acknowledged_and_is_gone_is_lost_with_all_its_writes() {
    for seed in seeds() {
        let (simulation, id) = after_a_storm(seed);
        let (_, ledger) = simulation.judge(|records, index| {
            records.retain(|(key, _)| *key != id);
            index.retain(|(key, _)| *key != id);
        });
        assert!(ledger.lost >= 3 && ledger.wrong().is_empty(), "seed {seed}: {ledger:#?}");
        assert!(ledger.sentence().contains("lost"));
    }
}

#[test]
fn an_overwritten_version_that_had_been_seen_overwritten_is_resurrected() {
    for seed in seeds() {
        let (mut simulation, id) = after_a_storm(seed);
        let before = simulation.held[&id];
        simulation.quietly(0, Ask::Update(id), |_, _| {});
        simulation.quietly(2, Ask::Get(id), |_, _| {});
        simulation.held.insert(id, before);
        let (answers, ledger) = simulation.judge(|_, _| {});
        assert!(answers.iter().all(AnswerVerdict::is_right));
        honest_but(&ledger, "resurrected");
    }
}

#[test]
fn a_deleted_record_that_comes_back_is_resurrected() {
    for seed in seeds() {
        let (mut simulation, id) = after_a_storm(seed);
        let before = simulation.held[&id];
        simulation.quietly(0, Ask::Delete(id), |_, _| {});
        assert_eq!(simulation.quietly(2, Ask::Get(id), |_, _| {}), Outcome::NotFound);
        simulation.held.insert(id, before);
        let (_, ledger) = simulation.judge(|_, _| {});
        honest_but(&ledger, "resurrected");
    }
}

#[test]
fn a_write_that_was_refused_and_is_there_is_caught() {
    for seed in seeds() {
        let (mut simulation, id) = after_a_storm(seed);
        let stamp = simulation.next_stamp(0);
        // There is such a record already, so the store says no, and does it all the same.
        let outcome = simulation.quietly(0, Ask::Insert(id), |simulation, _| simulation.hold(id, stamp));
        assert_eq!(outcome, Outcome::Rejected);
        simulation.quietly(1, Ask::Get(id), |_, _| {});
        let (answers, ledger) = simulation.judge(|_, _| {});
        honest_but(&ledger, "refused");
        assert_eq!(of(&answers, "get").refused, 1);
    }
}

#[test]
fn what_is_wrong_with_the_records_in_the_end_has_a_name() {
    for seed in seeds() {
        let judge = |lie: &dyn Fn(u64, &mut Rows, &mut Rows)| {
            let (simulation, id) = after_a_storm(seed);
            simulation.judge(|records, index| lie(id, records, index)).1
        };
        honest_but(
            &judge(&|id, records, _| records.push(*records.iter().find(|(key, _)| *key == id).unwrap())),
            "duplicated",
        );
        honest_but(&judge(&|_, records, _| records.push((RECORDS + 5, 0))), "alien");
        // Spoilt values under a stamp that was written, and one that was not.
        for stamp in
            [-Version::Written { client: 0, cycle: 0 }.stamp(), Version::Written { client: 0, cycle: 9_999 }.stamp()]
        {
            let spoil = |id, records: &mut Rows, index: &mut Rows| {
                for row in records.iter_mut().filter(|(key, _)| *key == id) {
                    row.1 = stamp;
                }
                index.retain(|(key, _)| *key != id);
            };
            let ledger = judge(&spoil);
            assert_eq!((ledger.wrong_content, ledger.lost), (1, 0), "seed {seed}: {ledger:#?}");
        }
        honest_but(
            &judge(&|_, records, index| index.push(*records.iter().find(|row| !index.contains(row)).unwrap())),
            "index_disagrees",
        );
    }
}

#[test]
fn a_record_that_only_the_index_forgot_is_found_to_disagree() {
    let mut runs = 0;
    for seed in seeds() {
        let (simulation, _) = after_a_storm(seed);
        let mut dropped = false;
        let unsure = simulation.unsure.clone();
        let (_, ledger) = simulation.judge(|_, index| {
            let sure = index.iter().rposition(|(id, _)| !unsure.contains(id));
            dropped = sure.map(|sure| index.remove(sure)).is_some();
        });
        if dropped {
            honest_but(&ledger, "index_disagrees");
            runs += 1;
        }
    }
    assert!(runs > 20, "{runs} runs");
}

/// Records are read before the index is asked: a write without an answer may happen in between.
#[test]
fn a_write_without_an_answer_may_happen_between_reading_records_and_index() {
    let mut runs = 0;
    for seed in seeds() {
        let (mut simulation, id) = after_a_storm(seed);
        let stamp = simulation.unanswered(0, Ask::Update(id));
        let (_, ledger) = simulation.judge(|_, index| {
            let matches =
                matches!(Toy::value(id, Version::from_stamp(stamp).unwrap()), Value::Int(value) if value < 40);
            runs += u32::from(matches || index.iter().any(|(key, _)| *key == id));
            index.retain(|(key, _)| *key != id);
            if matches {
                index.push((id, stamp));
            }
        });
        assert!(ledger.is_kept(), "seed {seed}: {ledger:#?}");
        // What no write can have made of it stays wrong.
        let (mut simulation, id) = after_a_storm(seed);
        let stamp = simulation.unanswered(0, Ask::Update(id));
        let (_, ledger) = simulation.judge(|_, index| {
            index.retain(|(key, _)| *key != id);
            index.push((id, stamp + 1));
        });
        assert_eq!(ledger.index_disagrees, 1, "seed {seed}: {ledger:#?}");
    }
    assert!(runs > 20, "{runs} runs");
}

#[test]
fn a_lie_in_an_answer_has_a_name() {
    for seed in seeds() {
        let judge = |ask: fn(u64) -> Ask, lie: &dyn Fn(u64, i64, &mut Rows)| {
            let (mut simulation, id) = after_a_storm(seed);
            let before = simulation.held[&id];
            simulation.quietly(0, Ask::Update(id), |_, _| {});
            simulation.quietly(1, ask(id), |_, rows| lie(id, before, rows));
            let (answers, ledger) = simulation.judge(|_, _| {});
            assert!(ledger.is_kept(), "seed {seed}: {ledger:#?}");
            let sum = AnswerVerdict { examples: Vec::new(), ..AnswerVerdict::default() };
            answers.into_iter().fold(sum, |mut sum, verdict| {
                sum.missing += verdict.missing;
                sum.not_matching += verdict.not_matching;
                sum.stale += verdict.stale;
                sum.wrong_content += verdict.wrong_content;
                sum.alien += verdict.alien;
                sum.duplicated += verdict.duplicated;
                sum.examples.extend(verdict.examples);
                sum
            })
        };
        let counts = |sum: &AnswerVerdict| {
            assert_eq!(sum.examples.len(), 1, "{sum:#?}");
            (sum.missing, sum.not_matching, sum.stale, sum.wrong_content, sum.alien, sum.duplicated)
        };
        let get = |id| Ask::Get(id);
        let all = |_| Ask::All;
        assert_eq!(counts(&judge(get, &|_, _, rows| rows.clear())), (1, 0, 0, 0, 0, 0));
        assert_eq!(counts(&judge(get, &|_, before, rows| rows[0].1 = before)), (0, 0, 1, 0, 0, 0));
        assert_eq!(counts(&judge(get, &|_, _, rows| rows[0].1 = -rows[0].1)), (0, 0, 0, 1, 0, 0));
        assert_eq!(counts(&judge(get, &|_, _, rows| rows[0].0 = (rows[0].0 + 1) % RECORDS)), (0, 0, 0, 1, 0, 0));
        assert_eq!(counts(&judge(get, &|_, _, rows| rows.push(rows[0]))), (0, 0, 0, 0, 0, 1));
        assert_eq!(counts(&judge(all, &|id, _, rows| rows.retain(|(key, _)| *key != id))), (1, 0, 0, 0, 0, 0));
        assert_eq!(counts(&judge(all, &|_, _, rows| rows.push((RECORDS, 0)))), (0, 0, 0, 0, 1, 0));
        assert_eq!(counts(&judge(all, &|_, _, rows| rows.push(rows[0]))), (0, 0, 0, 0, 0, 1));
        // Nothing lies between 80 and 90: whatever is put in there does not match.
        let nowhere = |_| Ask::Find(Some(80), Some(90));
        let (simulation, id) = after_a_storm(seed);
        let row = (id, simulation.held[&id]);
        let mut simulation = simulation;
        simulation.quietly(1, nowhere(id), |_, rows| rows.push(row));
        let (answers, _) = simulation.judge(|_, _| {});
        assert_eq!(of(&answers, "find").not_matching, 1);
    }
}

proptest! {
    /// A write without an answer excuses its own key, and no other.
    #[test]
    fn an_unknown_write_excuses_no_other_key(seed: u64) {
        let mut simulation = Simulation::new(seed, RECORDS, CLIENTS, Troubles { unknown: 10, rejected: 0 });
        simulation.storm(60);
        let sure = simulation.held.keys().copied().find(|key| !simulation.unsure.contains(key));
        if let Some(id) = sure {
            let (_, ledger) = simulation.judge(|records, index| {
                records.retain(|(key, _)| *key != id);
                index.retain(|(key, _)| *key != id);
            });
            prop_assert!(ledger.lost > 0 || ledger.resurrected > 0, "{:#?}", ledger);
        }
    }
}
