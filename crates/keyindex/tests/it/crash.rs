//! A store that dies between any two writes.

use plimsoll_core::{IndexMode, Outcome};
use plimsoll_keyindex::records::{Records, RecordsSession};
use proptest::prelude::*;

use crate::coupons::*;
use crate::mem_kv::MemKv;

/// Returns the records themselves, read past every index.
fn stored(session: &mut RecordsSession<MemKv>) -> Model {
    rows(&run(session, ALL, &[]).1).into_iter().map(|row| (row.1.clone(), row)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn whatever_write_is_the_last_one_readers_are_right(
        writes in prop::collection::vec(some_write(), 1..12),
        atomic: bool,
        questions in prop::collection::vec(some_question(), 3),
    ) {
        let records = Records::new(&layout(IndexMode::Keyindex)).unwrap();
        let empty = || if atomic { MemKv::atomic() } else { MemKv::not_atomic() };
        let total = {
            let kv = empty();
            let mut session = session_on(&kv, &records);
            for write in &writes {
                write.to_store(&mut session);
            }
            kv.take_calls().writes
        };
        for survives in 0..=total {
            let mut kv = empty();
            kv.die_after(Some(survives));
            let (mut before, mut after) = (Model::new(), Model::new());
            let mut session = session_on(&kv, &records);
            for write in &writes {
                let wanted = write.to_model(&mut after);
                match write.to_store(&mut session).0 {
                    Outcome::Unknown => break,
                    outcome => prop_assert_eq!(outcome, wanted),
                }
                before.clone_from(&after);
            }
            kv.die_after(None);

            // Every record is as it was or as it should be; of an atomic store, all of them are the one or the other.
            let mut session = session_on(&kv, &records);
            let now = stored(&mut session);
            for key in before.keys().chain(after.keys()).chain(now.keys()) {
                prop_assert!(now.get(key) == before.get(key) || now.get(key) == after.get(key), "{:?}", key);
            }
            prop_assert!(!atomic || now == before);
            for question in &questions {
                let found = rows(&run(&mut session, question.kind(), &question.bounds()).1);
                prop_assert_eq!(found, question.answer(&now), "{:?} after {} writes", question, survives);
            }
            if let Err(error) = records.check(&mut kv) {
                prop_assert!(!atomic, "an atomic store never disagrees: {}", error);
                let only_dangling = " 0 records without an index key, 0 unreadable";
                prop_assert!(error.to_string().contains(only_dangling), "{}", error);
            }
        }
    }
}
