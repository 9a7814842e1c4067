//! Random operations on the indexes and on a map come to the same.

use std::collections::BTreeSet;

use std::ops::Bound;

use plimsoll_core::{Kv, Value};
use plimsoll_keyindex::{Cursor, Entries, IndexError, IndexSpec, Indexes, Query, Rows, encode};
use proptest::prelude::*;

use crate::mem_kv::{KEY_BYTES_MAX, MemKv};
use crate::people::{
    BY_NAME, Model, People, Person, PersonEntries, Question, Write, people, some_key, some_person, some_question,
    some_write,
};

#[derive(Debug, Clone)]
enum Step {
    Write(Write),
    Ask(Question, usize),
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => some_write().prop_map(Step::Write),
        4 => (some_question(), 1..4usize).prop_map(|(question, limit)| Step::Ask(question, limit)),
    ]
}

fn apply(step: &Step, people: &mut People, kv: &mut MemKv, model: &mut Model) {
    match step {
        Step::Write(write) => {
            let (before, there) = (model.clone(), write.to_store(people, kv).unwrap());
            assert_eq!(there.is_some(), write.to_model(model));
            if let (Write::Insert(all), Some(at)) = (write, there) {
                assert!(before.contains_key(&all[at].0) || all[..at].iter().any(|(key, _)| *key == all[at].0));
            }
        }
        Step::Ask(question, limit) => ask(question, *limit, people, kv, model),
    }
}

/// All at once, by keys only, counted, and page by page: always the same answer.
fn ask(question: &Question, limit: usize, people: &mut People, kv: &mut MemKv, model: &Model) {
    let right = question.answer(model);
    let right_keys: Vec<_> = right.iter().map(|(key, _)| key.clone()).collect();
    let query = question.query();

    let mut all = Vec::new();
    let page = people
        .find(kv, &query, &mut |key, record| all.push((key.to_vec(), Person::from_record(record).unwrap())))
        .unwrap();
    assert_eq!((all, page.matches, page.next), (right, right_keys.len() as u64, None), "{question:?}");

    let mut keys = Vec::new();
    people.find_keys(kv, &query, &mut |key| keys.push(key.to_vec())).unwrap();
    assert_eq!(keys, right_keys, "keys of {question:?}");
    assert_eq!(people.count(kv, &query).unwrap(), right_keys.len() as u64);

    assert_eq!(
        paged(&query, limit, |query, keys| people.find(kv, query, &mut |key, _| keys.push(key.to_vec())).unwrap().next),
        right_keys
    );
    assert_eq!(
        paged(&query, limit, |query, keys| people
            .find_keys(kv, query, &mut |key| keys.push(key.to_vec()))
            .unwrap()
            .next),
        right_keys
    );
}

fn paged(
    query: &Query,
    limit: usize,
    mut ask: impl FnMut(&Query, &mut Vec<Vec<u8>>) -> Option<Cursor>,
) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut query = query.clone().limit(limit);
    loop {
        let before = keys.len();
        let next = ask(&query, &mut keys);
        assert!(keys.len() - before <= limit);
        match next {
            // As it would go through a user's hands.
            Some(cursor) => query = query.after(Cursor::from_bytes(cursor.as_bytes().to_vec())),
            None => return keys,
        }
    }
}

fn check_is_clean(people: &mut People, kv: &mut MemKv, model: &Model) {
    let check = people.verify(kv).unwrap();
    assert!(check.is_clean(), "{check:?}");
    assert_eq!(check.records, model.len() as u64);
    assert_eq!(check.index_keys, entry_count(model));
}

fn entry_count(model: &Model) -> u64 {
    model.values().map(|person| 3 + BTreeSet::from_iter(&person.tags).len() as u64).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_operations_come_to_what_the_model_says(steps in prop::collection::vec(some_step(), 1..40), atomic: bool) {
        let mut kv = if atomic { MemKv::atomic() } else { MemKv::not_atomic() };
        let (mut people, mut model) = (people(), Model::new());
        for step in &steps {
            apply(step, &mut people, &mut kv, &mut model);
        }
        check_is_clean(&mut people, &mut kv, &model);
    }

    #[test]
    fn damage_is_found_counted_and_mended(
        all in prop::collection::btree_map(some_key(), some_person(), 1..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..6),
        question in some_question(),
    ) {
        let (mut kv, mut people) = (MemKv::not_atomic(), people());
        for (key, person) in &all {
            people.put(&mut kv, key, &person.to_record()).unwrap();
        }
        let mut model = all.clone();
        for (at, remove_record) in damage {
            let role = if remove_record { b'r' } else { b'x' };
            let candidates: Vec<_> = kv.pairs().into_keys().filter(|key| key[0] == role).collect();
            if candidates.is_empty() {
                continue;
            }
            let victim = at.get(&candidates);
            kv.delete(victim).unwrap();
            if remove_record {
                model.remove(&victim[2..]);
            }
        }
        let found = people.verify(&mut kv).unwrap();
        // Every index key is of a record or dangles; every entry has its index key or misses it.
        prop_assert_eq!(found.index_keys - found.dangling + found.missing, entry_count(&model));
        let mended = people.repair(&mut kv).unwrap();
        prop_assert_eq!((mended.dangling, mended.missing, mended.faults), (found.dangling, found.missing, found.faults));
        check_is_clean(&mut people, &mut kv, &model);
        ask(&question, 2, &mut people, &mut kv, &model);
    }
}

/// Values of all types, few enough that they meet, with those at which an order can go wrong.
const VALUES: &[Value<'static>] = &[
    Value::Null,
    Value::Bool(false),
    Value::Bool(true),
    Value::Int(i64::MIN),
    Value::Int(-1),
    Value::Int(0),
    Value::Int(256),
    Value::Int(i64::MAX),
    Value::Float(f64::NEG_INFINITY),
    Value::Float(-0.0),
    Value::Float(0.0),
    Value::Float(f64::NAN),
    Value::Timestamp(-1),
    Value::Timestamp(0),
    Value::Text(""),
    Value::Text("a"),
    Value::Text("a\0"),
    Value::Text("a\u{ff}"),
    Value::Text("ab"),
    Value::Bytes(b""),
    Value::Bytes(b"a\0"),
    Value::Bytes(b"\xff"),
];

/// A record is one or two values, encoded; the index is on both.
fn both_values(_: usize, _: &[u8], record: &[u8], out: &mut Entries) -> Result<(), IndexError> {
    let mut values = plimsoll_core::ValueBuf::new();
    let first = encode::read(record, &mut values).ok_or(IndexError::Corrupt("no value"))?;
    encode::read(&record[first..], &mut values).ok_or(IndexError::Corrupt("no second value"))?;
    out.add(&[values.values().get(0), values.values().get(1)]);
    Ok(())
}

fn some_value() -> impl Strategy<Value = Value<'static>> {
    prop::sample::select(VALUES)
}

fn some_bound() -> impl Strategy<Value = Bound<Value<'static>>> {
    (some_value(), 0..5).prop_map(|(value, kind)| match kind {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(value),
        _ => Bound::Excluded(value),
    })
}

/// Condition on a field.
#[derive(Debug, Clone)]
enum Asked {
    Equal(Value<'static>),
    Range(Bound<Value<'static>>, Bound<Value<'static>>),
    Beginning(Value<'static>),
}

impl Asked {
    fn matches(&self, value: Value<'_>) -> bool {
        let equal = |a: Value<'_>, b: Value<'_>| a.order(b).is_eq();
        match self {
            Asked::Equal(wanted) => equal(*wanted, value),
            // Written down from the documentation: null is in no range, and as a bound none.
            Asked::Range(low, high) => {
                let above = match *low {
                    Bound::Unbounded | Bound::Included(Value::Null) | Bound::Excluded(Value::Null) => true,
                    Bound::Included(low) => low.order(value).is_le(),
                    Bound::Excluded(low) => low.order(value).is_lt(),
                };
                let below = match *high {
                    Bound::Unbounded | Bound::Included(Value::Null) | Bound::Excluded(Value::Null) => true,
                    Bound::Included(high) => value.order(high).is_le(),
                    Bound::Excluded(high) => value.order(high).is_lt(),
                };
                value != Value::Null && above && below
            }
            Asked::Beginning(wanted) => match (*wanted, value) {
                (Value::Text(wanted), Value::Text(value)) => value.starts_with(wanted),
                (Value::Bytes(wanted), Value::Bytes(value)) => value.starts_with(wanted),
                (wanted, value) => equal(wanted, value),
            },
        }
    }

    fn ask(&self, query: Query) -> Query {
        match self {
            Asked::Equal(value) => query.equal(*value),
            Asked::Range(low, high) => query.range(*low, *high),
            Asked::Beginning(value) => query.prefix(*value),
        }
    }
}

fn some_asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        2 => some_value().prop_map(Asked::Equal),
        6 => (some_bound(), some_bound()).prop_map(|(low, high)| Asked::Range(low, high)),
        2 => some_value().prop_map(Asked::Beginning),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn queries_over_values_of_all_types_come_to_what_comparing_them_says(
        records in prop::collection::vec((some_value(), some_value()), 0..24),
        asked in prop::collection::vec((prop::option::of(some_value()), some_asked()), 10),
    ) {
        let (mut kv, mut indexes) = (MemKv::atomic(), Indexes::new(0, vec![IndexSpec::new(2)], both_values));
        for (key, (first, second)) in records.iter().enumerate() {
            let mut record = Vec::new();
            encode::push(&mut record, *first);
            encode::push(&mut record, *second);
            indexes.put(&mut kv, &[key as u8], &record).unwrap();
        }
        for (first, asked) in asked {
            // On the first field, or on the second of those whose first one is given.
            let query = match first {
                Some(first) => asked.ask(Query::on(0).equal(first)),
                None => asked.ask(Query::on(0)),
            };
            let mut right: Vec<u8> = (0..records.len() as u8)
                .filter(|key| match (first, records[usize::from(*key)]) {
                    (Some(wanted), (value, second)) => wanted.order(value).is_eq() && asked.matches(second),
                    (None, (value, _)) => asked.matches(value),
                })
                .collect();
            let mut found = Vec::new();
            indexes.find_keys(&mut kv, &query, &mut |key| found.push(key[0])).unwrap();
            found.sort_unstable();
            right.sort_unstable();
            prop_assert_eq!(found, right, "{:?} {:?} of {:?}", first, asked, records);
        }
    }
}

#[test]
fn what_the_store_cannot_hold_is_refused_before_anything_is_written() {
    let too_long = |done: Result<(), IndexError>| match done {
        Err(error @ IndexError::KeyTooLong { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    // Without atomic batches what was written before the one that fails would stand.
    let (mut kv, mut people) = (MemKv::not_atomic(), people());
    let person = |name: &str| Person { number: Some(1), name: name.into(), tags: vec![2] }.to_record();
    people.put(&mut kv, b"k", &person("short")).unwrap();
    let before = kv.pairs();
    let said = too_long(people.put(&mut kv, b"l", &person(&"n".repeat(KEY_BYTES_MAX))).map(drop));
    let wanted = "an entry of index 1 would have a key of 307 bytes, and this store keeps keys of up to 300: shorten \
                  the record's key or the indexed values";
    assert_eq!(said, wanted);
    let mut rows = Rows::new();
    rows.push(b"a", &person("fits"));
    rows.push(b"b", &person(&"n".repeat(KEY_BYTES_MAX - 8)));
    too_long(people.insert(&mut kv, &rows).map(drop));
    let said = too_long(people.put(&mut kv, &[b'k'; KEY_BYTES_MAX - 1], &person("")).map(drop));
    assert!(said.starts_with("a") && said.contains("bytes, and this store keeps keys of up to 300"), "{said}");
    let long = person(&"n".repeat(KEY_BYTES_MAX));
    too_long(
        people
            .update(&mut kv, b"k", |_, new| {
                new.extend_from_slice(&long);
                Ok(())
            })
            .map(drop),
    );
    assert_eq!(kv.pairs(), before);
    // The longest that fits: index, name with its end, number, key.
    people.put(&mut kv, b"l", &person(&"n".repeat(KEY_BYTES_MAX - 3 - 3 - 2 - 1))).unwrap();
    assert!(kv.pairs().keys().any(|key| key.len() == KEY_BYTES_MAX));
}

#[test]
fn an_index_is_built_over_more_records_than_a_page_holds() {
    let (mut kv, mut people) = (MemKv::atomic(), people());
    let mut model = Model::new();
    let mut without = Indexes::new(3, Vec::new(), PersonEntries);
    for n in 0..1_234i64 {
        let person = Person { number: Some(n % 100), name: format!("n{}", n % 7), tags: vec![n, n % 3] };
        let key = n.to_be_bytes().to_vec();
        without.put(&mut kv, &key, &person.to_record()).unwrap();
        model.insert(key, person);
    }
    assert_eq!(people.verify(&mut kv).unwrap().missing, 1_234 * 3 + 1_234 + 1_234 - 3);
    for index in 0..4 {
        people.build(&mut kv, index).unwrap();
    }
    check_is_clean(&mut people, &mut kv, &model);
    ask(&Question::Name("n3".into()), 50, &mut people, &mut kv, &model);
    // Built again it comes to the same.
    assert_eq!(people.build(&mut kv, BY_NAME).unwrap(), 1_234);
    check_is_clean(&mut people, &mut kv, &model);
}

#[test]
fn index_keys_of_an_index_that_is_no_more_dangle() {
    let (mut kv, mut people) = (MemKv::atomic(), people());
    people.put(&mut kv, b"k", &Person { number: None, name: String::new(), tags: vec![1] }.to_record()).unwrap();
    let mut fewer = Indexes::new(3, vec![IndexSpec::new(1)], PersonEntries);
    assert_eq!(fewer.repair(&mut kv).unwrap().dangling, 3);
    assert!(fewer.verify(&mut kv).unwrap().is_clean());
}

#[test]
fn a_record_that_cannot_be_read_is_said_and_left_alone() {
    let (mut kv, mut people) = (MemKv::atomic(), people());
    people.put(&mut kv, b"k", &Person { number: Some(1), name: "a".into(), tags: vec![1] }.to_record()).unwrap();
    kv.put(b"r\x03k", b"\xffnonsense").unwrap();
    let check = people.repair(&mut kv).unwrap();
    assert_eq!((check.unreadable, check.dangling, check.missing), (1, 0, 0));
    assert_eq!(check.index_keys, 4);
    assert!(people.find(&mut kv, &Question::Everybody.query(), &mut |_, _| panic!("no record can be read")).is_err());
}

#[test]
#[should_panic(expected = "the last part of a query")]
fn nothing_follows_a_range() {
    use std::ops::Bound::Unbounded;
    let _ = Query::on(0).range(Unbounded, Unbounded).equal(plimsoll_core::Value::Int(1));
}
