//! Typed records: the `records` interface over a key-value store.

use plimsoll_core::{
    Access, BlockingSession, Call, IndexMode, Kv, OpKind, Outcome, RecordsCall, StoreErrorKind, Value,
};
use plimsoll_keyindex::records::Records;
use proptest::prelude::*;

use crate::coupons::*;
use crate::mem_kv::{KEY_BYTES_MAX, MemKv};

#[derive(Debug, Clone)]
enum Step {
    Write(Write),
    Get(String),
    Find(Question),
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => some_write().prop_map(Step::Write),
        1 => some_row().prop_map(|row| Step::Get(row.1)),
        4 => some_question().prop_map(Step::Find),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(700) })]

    #[test]
    fn sessions_answer_as_a_map_would_with_and_without_indexes_and_atomic_batches(
        steps in prop::collection::vec(some_step(), 1..40),
        mode in prop::sample::select(vec![IndexMode::None, IndexMode::Keyindex]),
        atomic: bool,
    ) {
        let mut kv = if atomic { MemKv::atomic() } else { MemKv::not_atomic() };
        let records = Records::new(&layout(mode)).unwrap();
        let (mut session, mut model) = (session_on(&kv, &records), Model::new());
        for step in &steps {
            match step {
                Step::Write(write) => {
                    let (outcome, answer) = write.to_store(&mut session);
                    prop_assert_eq!(outcome, write.to_model(&mut model));
                    prop_assert!(outcome != Outcome::Rejected || answer.message.contains("there already"));
                }
                Step::Get(code) => {
                    let (outcome, answer) = run(&mut session, GET, &[Value::Text(code)]);
                    prop_assert_eq!(outcome, if model.contains_key(code) { Outcome::Ok } else { Outcome::NotFound });
                    prop_assert_eq!(rows(&answer), Vec::from_iter(model.get(code).cloned()));
                }
                Step::Find(question) => {
                    let right = question.answer(&model);
                    prop_assert_eq!(&rows(&run(&mut session, question.kind(), &question.bounds()).1), &right);
                    if question.kind() == INDEXED {
                        prop_assert_eq!(&rows(&run(&mut session, SCAN, &question.bounds()).1), &right);
                        let (outcome, counted) = run(&mut session, COUNT, &question.bounds());
                        let wanted = (Outcome::Ok, right.len() as u64, 0);
                        prop_assert_eq!((outcome, counted.rows, counted.values.len()), wanted);
                    }
                }
            }
        }
        prop_assert_eq!(rows(&run(&mut session, ALL, &[]).1), everything(&model));
        let index_keys = if mode == IndexMode::None { 0 } else { 2 * model.len() };
        let wanted = format!("`coupons`: {index_keys} index keys agree with {} records", model.len());
        prop_assert!(records.check(&mut kv).unwrap().contains(&wanted));
    }
}

#[test]
fn what_the_store_cannot_hold_is_refused_before_anything_is_written() {
    // Without atomic batches what was written before the one that fails would stand.
    let kv = MemKv::not_atomic();
    let mut session = session_on(&kv, &Records::new(&layout(IndexMode::Keyindex)).unwrap());
    let long = |less: usize| "n".repeat(KEY_BYTES_MAX - less);
    assert_eq!(run(&mut session, INSERT, &values(&coupon(Some("short"), "k", 1))).0, Outcome::Ok);
    let before = kv.pairs();
    let mut refused = |kind, params: &[Value<'_>]| {
        let (outcome, answer) = run(&mut session, kind, params);
        assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, StoreErrorKind::Usage.name()));
        answer.message
    };
    let said = refused(INSERT, &values(&coupon(Some(&long(0)), "l", 1)));
    let wanted = "an entry of index 1 would have a key of 309 bytes, and this store keeps keys of up to 300: shorten \
                  the record's key or the indexed values";
    assert_eq!(said, wanted);
    let two = [coupon(Some("fits"), "a", 1), coupon(Some(&long(8)), "b", 1)];
    refused(INSERT, &two.each_ref().map(values).concat());
    let said = refused(INSERT, &values(&coupon(None, &long(1), 1)));
    assert!(said.starts_with("a") && said.contains("bytes, and this store keeps keys of up to 300"), "{said}");
    refused(SET_NOTE_AND_USED, &[Value::Text("k"), Value::Text(&long(0)), Value::Int(1)]);
    assert_eq!(kv.pairs(), before);
    // The longest that fits: index, note with its end, uses, key.
    let longest = coupon(Some(&long(3 + 3 + 2 + 1)), "l", 1);
    assert_eq!(run(&mut session, INSERT, &values(&longest)).0, Outcome::Ok);
    assert!(kv.pairs().keys().any(|key| key.len() == KEY_BYTES_MAX));
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let mut session = session(IndexMode::Keyindex);
    let row = coupon(None, "c", 1);
    for (kind, params, why) in [
        (INSERT, vec![], "multiple"),
        (INSERT, values(&row)[..3].to_vec(), "multiple"),
        (INSERT, vec![Value::Null, Value::Null, Value::Null, Value::Null], "null"),
        (INSERT, vec![Value::Int(1), Value::Text("c"), Value::Null, Value::Null], "type"),
        (GET, vec![Value::Int(1)], "type"),
        (SET_USED, vec![Value::Text("c")], "number of values"),
        (SET_USED, vec![Value::Text("c"), Value::Text("one")], "type"),
        (INDEXED, vec![Value::Float(1.0), Value::Null], "type"),
        (99, vec![], "not been prepared"),
    ] {
        let (outcome, answer) = run(&mut session, kind, &params);
        assert_eq!(outcome, Outcome::Rejected, "{why}");
        assert!(answer.message.contains(why), "`{}` should say `{why}`", answer.message);
    }
    assert!(session.kv().pairs().is_empty());
    assert_eq!(run(&mut session, NOTHING, &[]).0, Outcome::Ok);
}

#[test]
fn kinds_that_cannot_be_done_are_refused_when_prepared() {
    let mut session = session(IndexMode::None);
    let with = |call| vec![OpKind { name: "x".into(), call, params: Vec::new(), keep_answer: true, step_of: None }];
    for call in [
        Call::Sql("select 1".into()),
        Call::Records { collection: 7, call: RecordsCall::Get },
        Call::Records { collection: 1, call: RecordsCall::Update { fields: vec![1] } },
        Call::Records { collection: 1, call: RecordsCall::Update { fields: vec![9] } },
        Call::Records { collection: 1, call: RecordsCall::Find { field: 9, access: Access::Scan } },
    ] {
        let error = session.prepare(&with(call)).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Usage);
        assert!(error.what.contains('x'));
    }
    assert_eq!(Records::new(&layout(IndexMode::Own)).unwrap_err().kind, StoreErrorKind::Usage);
}

#[test]
fn collections_of_one_store_do_not_meet() {
    let records = Records::new(&layout(IndexMode::Keyindex)).unwrap();
    let kv = MemKv::atomic();
    let mut first = records.session(kv.clone());
    let mut kinds = kinds();
    for kind in &mut kinds {
        if let Call::Records { collection, .. } = &mut kind.call {
            *collection = 0;
        }
    }
    first.prepare(&kinds).unwrap();
    let mut second = records.session(kv);
    second.prepare(&self::kinds()).unwrap();
    let row = coupon(None, "c", 1);
    assert_eq!(run(&mut first, INSERT, &values(&row)).0, Outcome::Ok);
    assert_eq!(run(&mut second, GET, &[Value::Text("c")]).0, Outcome::NotFound);
    assert_eq!(run(&mut second, INDEXED, &[Value::Null, Value::Null]).1.rows, 0);
    assert_eq!(run(&mut second, ALL, &[]).1.rows, 0);
}

#[test]
fn a_composite_index_answers_for_its_first_field() {
    let mut session = session(IndexMode::Keyindex);
    for row in [coupon(Some("a"), "1", 1), coupon(Some("b"), "2", 1), coupon(None, "3", 1)] {
        run(&mut session, INSERT, &values(&row));
    }
    session.kv().take_calls();
    let (_, answer) = run(&mut session, BY_NOTE, &[Value::Text("a"), Value::Text("b")]);
    assert_eq!(rows(&answer), [coupon(Some("a"), "1", 1)]);
    assert_eq!(session.kv().take_calls().gets, 1);
}

#[test]
fn a_corrupt_record_is_an_error_and_no_answer() {
    let mut session = session(IndexMode::Keyindex);
    run(&mut session, INSERT, &values(&coupon(None, "c", 1)));
    session.kv().put(b"r\x01c", b"?").unwrap();
    for (kind, params) in [
        (GET, vec![Value::Text("c")]),
        (SCAN, vec![Value::Null, Value::Null]),
        (INDEXED, vec![Value::Null, Value::Null]),
        (SET_USED, vec![Value::Text("c"), Value::Int(2)]),
        (DELETE, vec![Value::Text("c")]),
    ] {
        let (outcome, answer) = run(&mut session, kind, &params);
        assert_eq!((outcome, answer.code.as_str(), answer.rows), (Outcome::Rejected, "CORRUPT", 0));
    }
}

#[test]
fn sessions_say_how_they_find() {
    let explain = |mode, kind: u16| Records::new(&layout(mode)).unwrap().explain(&kinds()[usize::from(kind)]);
    assert!(explain(IndexMode::Keyindex, INDEXED).unwrap().contains("index keys"));
    assert!(explain(IndexMode::Keyindex, SCAN).unwrap().contains("all records"));
    assert!(explain(IndexMode::None, INDEXED).unwrap().contains("all records"));
    assert_eq!(explain(IndexMode::Keyindex, GET), None);
}
