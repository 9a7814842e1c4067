//! Readers and writers at the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_core::Value;
use plimsoll_keyindex::{Indexes, Query, Rows};

use crate::mem_kv::MemKv;
use crate::people::{BY_NUMBER, BY_TAG, Person, PersonEntries, people};

const WRITERS: u64 = 3;
const KEYS_EACH: u64 = 8;
const ROUNDS: i64 = 400;

/// Every writer moves its own people through numbers 0 to 9; only those of number 5 and more are asked for.
/// What each key certainly was and may have been is kept as (rounds begun, rounds done).
#[test]
fn a_query_has_all_that_matched_throughout_and_none_that_matched_at_no_moment() {
    for kv in [MemKv::atomic(), MemKv::not_atomic()] {
        let shared = people();
        let begun: Vec<AtomicU64> = (0..WRITERS * KEYS_EACH).map(|_| AtomicU64::new(0)).collect();
        let done: Vec<AtomicU64> = (0..WRITERS * KEYS_EACH).map(|_| AtomicU64::new(0)).collect();
        let running = AtomicU64::new(WRITERS);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (mut kv, mut people) = (kv.clone(), shared.another());
                let (begun, done, running) = (&begun, &done, &running);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        for n in 0..KEYS_EACH {
                            let key = writer * KEYS_EACH + n;
                            begun[key as usize].fetch_add(1, Ordering::SeqCst);
                            let person = at_round(key, round);
                            people.put(&mut kv, &key.to_be_bytes(), &person.to_record()).unwrap();
                            done[key as usize].fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            for index in [BY_NUMBER, BY_TAG] {
                let (mut kv, mut people) = (kv.clone(), shared.another());
                let (begun, done, running) = (&begun, &done, &running);
                scope.spawn(move || {
                    let query = Query::on(index)
                        .range(std::ops::Bound::Included(Value::Int(5)), std::ops::Bound::Excluded(Value::Int(10)));
                    while running.load(Ordering::SeqCst) > 0 {
                        let before: Vec<_> = done.iter().map(|done| done.load(Ordering::SeqCst)).collect();
                        let mut found = Vec::new();
                        people
                            .find(&mut kv, &query, &mut |key, record| {
                                found.push((u64::from_be_bytes(key.try_into().unwrap()), record.to_vec()));
                            })
                            .unwrap();
                        let after: Vec<_> = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).collect();
                        for key in 0..WRITERS * KEYS_EACH {
                            let versions = before[key as usize]..=after[key as usize];
                            let matches = |round: u64| {
                                round > 0 && (5..10).contains(&at_round(key, round as i64).number.unwrap())
                            };
                            let times = found.iter().filter(|(other, _)| *other == key).count();
                            assert!(times <= 1, "a record came twice");
                            if versions.clone().all(matches) {
                                assert_eq!(times, 1, "key {key} matched throughout {versions:?}");
                            }
                            if !versions.clone().any(matches) {
                                assert_eq!(times, 0, "key {key} never matched in {versions:?}");
                            }
                        }
                        for (key, record) in found {
                            let person = Person::from_record(&record).unwrap();
                            let versions = before[key as usize]..=after[key as usize];
                            assert!(
                                versions.into_iter().any(|round| round > 0 && at_round(key, round as i64) == person)
                            );
                        }
                    }
                });
            }
        });
        assert!(shared.another().verify(&mut kv.clone()).unwrap().is_clean());
    }
}

fn at_round(key: u64, round: i64) -> Person {
    let number = (key as i64 + round) % 10;
    Person { number: Some(number), name: format!("{round}"), tags: vec![number, number + 100] }
}

/// Without locks two updates of one record leave index keys of versions that are no more.
#[test]
fn writers_of_the_same_record_leave_indexes_that_agree() {
    let mut kv = MemKv::atomic();
    let shared = people();
    let checked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4i64 {
            let (mut kv, mut people) = (kv.clone(), shared.another());
            let checked = &checked;
            scope.spawn(move || {
                for round in 0..1_000 {
                    let key = [b'k', (round % 3) as u8];
                    let person = Person {
                        number: Some(thread * 10_000 + round),
                        name: String::new(),
                        tags: vec![thread, round],
                    };
                    match round % 5 {
                        0 => drop(people.delete(&mut kv, &key).unwrap()),
                        1 => {
                            let mut rows = Rows::new();
                            rows.push(&key, &person.to_record());
                            people.insert(&mut kv, &rows).unwrap();
                        }
                        2 if round % 100 == 2 => {
                            // Also a check, which waits for the writers and lets them wait, finds no fault.
                            assert!(people.verify(&mut kv).unwrap().is_clean());
                            checked.store(true, Ordering::SeqCst);
                        }
                        _ => drop(people.put(&mut kv, &key, &person.to_record()).unwrap()),
                    }
                }
            });
        }
    });
    assert!(checked.into_inner());
    let check = shared.another().verify(&mut kv).unwrap();
    assert!(check.is_clean(), "{check:?}");
}

/// Records that were there before an index was, with writers that change, add and delete some of them all the while.
#[test]
fn an_index_is_built_while_writers_go_on_with_and_without_atomic_batches() {
    for kv in [MemKv::atomic(), MemKv::not_atomic()] {
        let shared = people();
        let mut without = Indexes::new(3, Vec::new(), PersonEntries);
        for key in 0..3_000_u64 {
            without.put(&mut kv.clone(), &key.to_be_bytes(), &at_round(key, 0).to_record()).unwrap();
        }
        let is_built = AtomicBool::new(false);
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (mut kv, mut people) = (kv.clone(), shared.another());
                let (is_built, written) = (&is_built, &written);
                scope.spawn(move || {
                    for round in 1.. {
                        let key = (round as u64 * 7 + writer * 1_013) % 3_100;
                        match round % 5 {
                            0 => drop(people.delete(&mut kv, &key.to_be_bytes()).unwrap()),
                            _ => drop(
                                people.put(&mut kv, &key.to_be_bytes(), &at_round(key, round).to_record()).unwrap(),
                            ),
                        }
                        written.fetch_add(1, Ordering::SeqCst);
                        if is_built.load(Ordering::SeqCst) && round > 500 {
                            break;
                        }
                    }
                });
            }
            let (mut kv, mut people) = (kv.clone(), shared.another());
            while written.load(Ordering::SeqCst) < 100 {
                std::thread::yield_now();
            }
            for index in 0..4 {
                people.build(&mut kv, index).unwrap();
            }
            is_built.store(true, Ordering::SeqCst);
        });
        let check = shared.another().verify(&mut kv.clone()).unwrap();
        assert!(check.is_clean(), "{check:?}");
    }
}
