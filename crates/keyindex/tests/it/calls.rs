//! Calls that operations make to the store.

use plimsoll_core::{IndexMode, Value};
use plimsoll_keyindex::records::Records;

use crate::coupons::*;
use crate::mem_kv::{Calls, MemKv};

#[test]
fn a_query_with_500_matches_makes_501_calls_whatever_the_number_of_records() {
    let records = Records::new(&layout(IndexMode::Keyindex)).unwrap();
    for kv in [MemKv::atomic as fn() -> MemKv, MemKv::not_atomic] {
        for count in [500, 5_000, 50_000] {
            let kv = kv();
            let mut session = session_on(&kv, &records);
            let all = (0..count).map(|n| coupon(None, &format!("{n}"), if n % (count / 500) == 0 { 10 } else { 99 }));
            Write::Insert(all.collect()).to_store(&mut session);
            kv.take_calls();
            assert_eq!(run(&mut session, INDEXED, &[Value::Null, Value::Int(50)]).1.rows, 500);
            assert_eq!(kv.take_calls(), Calls { gets: 500, scans: 1, writes: 0 });
        }
    }
}

#[test]
fn a_write_touches_only_the_index_keys_that_change() {
    // One by one, so that they can be counted.
    let kv = MemKv::not_atomic();
    let mut session = session_on(&kv, &Records::new(&layout(IndexMode::Keyindex)).unwrap());
    let mut writes = |write: Write| {
        write.to_store(&mut session);
        kv.take_calls().writes
    };
    let with = |note, used| coupon(Some(note), "c", used);
    assert_eq!(writes(Write::Insert(vec![with("a", 1)])), 1 + 2, "the record and two entries");
    assert_eq!(writes(Write::NoteAndUse(with("a", 1))), 1, "the record");
    assert_eq!(writes(Write::NoteAndUse(with("b", 1))), 1 + 2, "one index has the note");
    assert_eq!(writes(Write::Use(with("b", 2))), 1 + 4, "two indexes have the use");
    assert_eq!(writes(Write::Delete("c".into())), 1 + 2);
    assert!(kv.pairs().is_empty());
}
