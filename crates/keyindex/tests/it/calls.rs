//! Calls that operations make to the store.

use plimsoll_core::Value;
use plimsoll_keyindex::Query;
use std::ops::Bound::{Included, Unbounded};

use crate::mem_kv::{Calls, MemKv};
use crate::people::{BY_NUMBER, Person, people};

#[test]
fn a_query_with_500_matches_makes_501_calls_whatever_the_number_of_records() {
    for kv in [MemKv::atomic(), MemKv::not_atomic()] {
        for records in [500, 5_000, 50_000u32] {
            let (mut kv, mut people) = (kv.clone(), people());
            for n in 0..records {
                let number = if n % (records / 500) == 0 { 10 } else { 99 };
                let person = Person { number: Some(number), name: String::new(), tags: Vec::new() };
                people.put(&mut kv, &n.to_be_bytes(), &person.to_record()).unwrap();
            }
            kv.take_calls();
            let query = Query::on(BY_NUMBER).range(Unbounded, Included(Value::Int(50)));
            assert_eq!(people.find(&mut kv, &query, &mut |_, _| {}).unwrap().matches, 500);
            assert_eq!(kv.take_calls(), Calls { gets: 500, scans: 1, writes: 0 });
            assert_eq!(people.find(&mut kv, &query.limit(100), &mut |_, _| {}).unwrap().matches, 100);
            assert_eq!(kv.take_calls(), Calls { gets: 100, scans: 1, writes: 0 });
        }
    }
}

#[test]
fn counting_reads_no_record_where_the_index_is_right_by_itself() {
    let (mut kv, mut people) = (MemKv::atomic(), people());
    people.put(&mut kv, b"k", &Person { number: Some(1), name: "a".into(), tags: vec![1, 2] }.to_record()).unwrap();
    kv.take_calls();
    for index in 0..4 {
        assert_eq!(people.count(&mut kv, &Query::on(index)).unwrap(), 1);
        assert_eq!(kv.take_calls(), Calls { gets: 0, scans: 1, writes: 0 });
    }
}

#[test]
fn a_write_touches_only_the_index_keys_that_change() {
    // One by one, so that they can be counted.
    let (mut kv, mut people) = (MemKv::not_atomic(), people());
    let mut person = Person { number: Some(1), name: "a".into(), tags: vec![1, 2] };
    people.put(&mut kv, b"k", &person.to_record()).unwrap();
    assert_eq!(kv.take_calls().writes, 1 + 5, "the record and five entries");
    people.put(&mut kv, b"k", &person.to_record()).unwrap();
    assert_eq!(kv.take_calls().writes, 1, "the record");
    person.tags = vec![2, 3];
    people.put(&mut kv, b"k", &person.to_record()).unwrap();
    assert_eq!(kv.take_calls().writes, 1 + 2, "one tag new, one gone");
    person.number = Some(2);
    people.put(&mut kv, b"k", &person.to_record()).unwrap();
    assert_eq!(kv.take_calls().writes, 1 + 4, "two indexes have the number");
    people.delete(&mut kv, b"k").unwrap();
    assert_eq!(kv.take_calls().writes, 1 + 5);
    assert!(kv.pairs().is_empty());
}
