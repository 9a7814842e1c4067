//! A store that dies between any two writes.

use plimsoll_core::KvError;
use plimsoll_keyindex::{IndexError, Indexes};
use proptest::prelude::*;

use crate::mem_kv::MemKv;
use crate::people::{Model, Person, people, some_key, some_person, some_question, some_write};

/// Returns the contents of the records themselves, read past every index.
fn stored(kv: &MemKv) -> Model {
    let records = kv.pairs().into_iter().filter(|(key, _)| key[0] == b'r');
    records.map(|(key, record)| (key[2..].to_vec(), Person::from_record(&record).unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn whatever_write_is_the_last_one_readers_are_right_and_repair_mends(
        writes in prop::collection::vec(some_write(), 1..12),
        atomic: bool,
        questions in prop::collection::vec(some_question(), 3),
    ) {
        let total = {
            let mut kv = if atomic { MemKv::atomic() } else { MemKv::not_atomic() };
            let mut people = people();
            for write in &writes {
                write.to_store(&mut people, &mut kv).unwrap();
            }
            kv.take_calls().writes
        };
        for survives in 0..=total {
            let mut kv = if atomic { MemKv::atomic() } else { MemKv::not_atomic() };
            kv.die_after(Some(survives));
            let (mut before, mut after) = (Model::new(), Model::new());
            let mut before_death = people();
            for write in &writes {
                write.to_model(&mut after);
                match write.to_store(&mut before_death, &mut kv) {
                    Ok(_) => before.clone_from(&after),
                    Err(IndexError::Store(KvError::Unknown(_))) => break,
                    Err(other) => panic!("{other}"),
                }
            }
            kv.die_after(None);

            // Every record is as it was or as it should be; of an atomic store, all of them are the one or the other.
            let now = stored(&kv);
            for key in before.keys().chain(after.keys()).chain(now.keys()) {
                prop_assert!(now.get(key) == before.get(key) || now.get(key) == after.get(key), "{:?}", key);
            }
            prop_assert!(!atomic || now == before);

            let mut people = people();
            for question in &questions {
                let mut found = Vec::new();
                people.find(&mut kv, &question.query(), &mut |key, record| {
                    found.push((key.to_vec(), Person::from_record(record).unwrap()));
                }).unwrap();
                // A record stands where the first of its keys does, and that may be one left behind: hence the sorting.
                let mut right = question.answer(&now);
                found.sort_by(|a, b| a.0.cmp(&b.0));
                right.sort_by(|a, b| a.0.cmp(&b.0));
                prop_assert_eq!(found, right, "{:?} after {} writes", question, survives);
            }
            let check = people.verify(&mut kv).unwrap();
            prop_assert_eq!((check.missing, check.unreadable), (0, 0), "the order of writes leaves only dangling keys");
            prop_assert!(!atomic || check.is_clean(), "an atomic store never disagrees: {:?}", check);
            people.repair(&mut kv).unwrap();
            prop_assert!(people.verify(&mut kv).unwrap().is_clean());
            prop_assert_eq!(stored(&kv), now, "repair changes no record");
        }
    }

    #[test]
    fn a_build_that_died_is_finished_by_another_one(
        all in prop::collection::btree_map(some_key(), some_person(), 1..8),
        survives in 0..40u64,
    ) {
        let mut kv = MemKv::not_atomic();
        let mut plain = Indexes::new(3, Vec::new(), crate::people::PersonEntries);
        for (key, person) in &all {
            plain.put(&mut kv, key, &person.to_record()).unwrap();
        }
        kv.die_after(Some(survives));
        let mut people = people();
        let _ = (0..4).try_for_each(|index| people.build(&mut kv, index).map(drop));
        kv.die_after(None);
        for index in 0..4 {
            people.build(&mut kv, index).unwrap();
        }
        prop_assert!(people.verify(&mut kv).unwrap().is_clean());
    }
}
