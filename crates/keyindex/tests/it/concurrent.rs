//! Readers and writers at the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_core::{IndexMode, Value};
use plimsoll_keyindex::records::Records;

use crate::coupons::*;
use crate::mem_kv::MemKv;

const WRITERS: u64 = 3;
const KEYS_EACH: u64 = 8;
const ROUNDS: u64 = 400;

/// Every writer moves its own coupons through uses 0 to 9; only those of 5 and more are asked for, by use and by note.
/// Rounds begun and rounds done give the values that a coupon may have had and certainly had.
#[test]
fn a_query_has_all_that_matched_throughout_and_none_that_matched_at_no_moment() {
    for mut kv in [MemKv::atomic(), MemKv::not_atomic()] {
        let records = Records::new(&layout(IndexMode::Keyindex)).unwrap();
        Write::Insert((0..WRITERS * KEYS_EACH).map(|key| at_round(key, 0)).collect())
            .to_store(&mut session_on(&kv, &records));
        let begun: Vec<AtomicU64> = (0..WRITERS * KEYS_EACH).map(|_| AtomicU64::new(0)).collect();
        let done: Vec<AtomicU64> = (0..WRITERS * KEYS_EACH).map(|_| AtomicU64::new(0)).collect();
        let running = AtomicU64::new(WRITERS);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut session = session_on(&kv, &records);
                let (begun, done, running) = (&begun, &done, &running);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        for key in writer * KEYS_EACH..(writer + 1) * KEYS_EACH {
                            begun[key as usize].fetch_add(1, Ordering::SeqCst);
                            Write::NoteAndUse(at_round(key, round)).to_store(&mut session);
                            done[key as usize].fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            for question in [Question::Used(Some(5), Some(10)), Question::Note(Some("5".into()), None)] {
                let mut session = session_on(&kv, &records);
                let (begun, done, running) = (&begun, &done, &running);
                scope.spawn(move || {
                    while running.load(Ordering::SeqCst) > 0 {
                        let before: Vec<_> = done.iter().map(|done| done.load(Ordering::SeqCst)).collect();
                        let found = rows(&run(&mut session, question.kind(), &question.bounds()).1);
                        let after: Vec<_> = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).collect();
                        for key in 0..WRITERS * KEYS_EACH {
                            let versions = before[key as usize]..=after[key as usize];
                            let matches = |round: u64| at_round(key, round).2.unwrap() >= 5;
                            let own: Vec<_> = found.iter().filter(|row| row.1 == code(key)).collect();
                            assert!(own.len() <= 1, "a record came twice");
                            if versions.clone().all(matches) {
                                assert_eq!(own.len(), 1, "key {key} matched throughout {versions:?}");
                            }
                            if !versions.clone().any(matches) {
                                assert_eq!(own.len(), 0, "key {key} never matched in {versions:?}");
                            }
                            let is_one = |row: &Row| versions.clone().any(|round| at_round(key, round) == *row);
                            assert!(own.into_iter().all(is_one));
                        }
                    }
                });
            }
        });
        records.check(&mut kv).unwrap();
    }
}

fn code(key: u64) -> String {
    format!("{key}")
}

fn at_round(key: u64, round: u64) -> Row {
    let used = (key + round) % 10;
    coupon(Some(&format!("{used} in {round}")), &code(key), used as i64)
}

/// Without locks two updates of one record leave index keys of versions that are no more.
#[test]
fn writers_of_the_same_record_leave_indexes_that_agree() {
    let mut kv = MemKv::atomic();
    let records = Records::new(&layout(IndexMode::Keyindex)).unwrap();
    let checked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4i64 {
            let (mut kv, mut session) = (kv.clone(), session_on(&kv, &records));
            let (checked, records) = (&checked, &records);
            scope.spawn(move || {
                for round in 0..1_000 {
                    let row = coupon(Some(&format!("{thread}")), &format!("{}", round % 3), thread * 10_000 + round);
                    match round % 5 {
                        0 => drop(Write::Delete(row.1).to_store(&mut session)),
                        1 => drop(Write::Insert(vec![row]).to_store(&mut session)),
                        2 if round % 100 == 2 => {
                            // Also a check, which waits for the writers and lets them wait, finds no fault.
                            records.check(&mut kv).unwrap();
                            checked.store(true, Ordering::SeqCst);
                        }
                        3 => drop(run(&mut session, INDEXED, &[Value::Null, Value::Null])),
                        _ => drop(Write::NoteAndUse(row).to_store(&mut session)),
                    }
                }
            });
        }
    });
    assert!(checked.into_inner());
    records.check(&mut kv).unwrap();
}
