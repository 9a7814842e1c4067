//! Typed records: the `records` interface over a key-value store.

use std::collections::BTreeMap;

use plimsoll_core::{
    Access, Answer, BlockingSession, Call, Collection, Field, Index, IndexMode, Kv, Layout, Op, OpKind, Outcome,
    RecordsCall, StoreErrorKind, Value, ValueBuf, ValueType,
};
use plimsoll_keyindex::records::{Records, RecordsSession};
use proptest::prelude::*;

use crate::mem_kv::MemKv;

pub const INSERT: u16 = 0;
pub const GET: u16 = 1;
pub const SET_USED: u16 = 2;
const SET_NOTE_AND_USED: u16 = 3;
const DELETE: u16 = 4;
pub const SCAN: u16 = 5;
pub const INDEXED: u16 = 6;
const ALL: u16 = 7;
const COUNT: u16 = 8;
const NOTHING: u16 = 9;
const BY_NOTE: u16 = 10;

/// Coupons: code (key), times used, note, since. Indexes by use, and by note and use.
pub fn layout(index: IndexMode) -> Layout {
    let field = |name: &str, value_type| Field { name: name.into(), value_type };
    let fields = vec![
        field("note", ValueType::Text),
        field("code", ValueType::Text),
        field("used", ValueType::Int),
        field("since", ValueType::Timestamp),
    ];
    let coupons = Collection {
        name: "coupons".into(),
        fields,
        key: 1,
        indexes: vec![Index { fields: vec![2] }, Index { fields: vec![0, 2] }],
    };
    let other = Collection { name: "other".into(), ..coupons.clone() };
    Layout { collections: vec![other, coupons], index, ..Layout::default() }
}

pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call, keep_answer| OpKind {
        name: name.into(),
        call: Call::Records { collection: 1, call },
        params: Vec::new(),
        keep_answer,
        step_of: None,
    };
    vec![
        kind("insert", RecordsCall::Insert, false),
        kind("get", RecordsCall::Get, true),
        kind("use", RecordsCall::Update { fields: vec![2] }, false),
        kind("note and use", RecordsCall::Update { fields: vec![0, 2] }, false),
        kind("delete", RecordsCall::Delete, false),
        kind("scan", RecordsCall::Find { field: 2, access: Access::Scan }, true),
        kind("indexed", RecordsCall::Find { field: 2, access: Access::Indexed }, true),
        kind("all", RecordsCall::All, true),
        kind("count", RecordsCall::Find { field: 2, access: Access::Indexed }, false),
        OpKind { name: "nothing".into(), call: Call::Nothing, params: Vec::new(), keep_answer: false, step_of: None },
        kind("by note", RecordsCall::Find { field: 0, access: Access::Indexed }, true),
    ]
}

fn session(mode: IndexMode) -> RecordsSession<MemKv> {
    let mut session = Records::new(&layout(mode)).unwrap().session(MemKv::atomic());
    session.prepare(&kinds()).unwrap();
    session
}

type Row = (Option<String>, String, Option<i64>, Option<i64>);

fn run(session: &mut dyn BlockingSession, kind: u16, params: &[Value<'_>]) -> (Outcome, Answer) {
    let (mut buf, mut answer) = (ValueBuf::new(), Answer::default());
    params.iter().for_each(|value| buf.push(*value));
    let outcome = session.execute(&Op::new(kind, buf.values()), &mut answer);
    (outcome, answer)
}

fn values(row: &Row) -> [Value<'_>; 4] {
    [
        row.0.as_deref().map_or(Value::Null, Value::Text),
        Value::Text(&row.1),
        row.2.map_or(Value::Null, Value::Int),
        row.3.map_or(Value::Null, Value::Timestamp),
    ]
}

fn rows(answer: &Answer) -> Vec<Row> {
    let text = |value| if let Value::Text(text) = value { Some(text.to_owned()) } else { None };
    let number = |value| match value {
        Value::Int(number) | Value::Timestamp(number) => Some(number),
        _ => None,
    };
    let mut rows: Vec<Row> = answer
        .row_iter()
        .map(|row| (text(row.get(0)), text(row.get(1)).unwrap(), number(row.get(2)), number(row.get(3))))
        .collect();
    rows.sort();
    assert_eq!(answer.rows, rows.len() as u64);
    rows
}

fn some_row() -> impl Strategy<Value = Row> {
    let note = prop::option::of(prop::sample::select(vec!["", "a", "a\0b", "b"]).prop_map(str::to_owned));
    let code = prop::sample::select(vec!["", "\0", "c1", "c2", "c3", "\u{ff}"]).prop_map(str::to_owned);
    (note, code, prop::option::weighted(0.8, -3..4i64), prop::option::of(any::<i64>()))
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<Row>),
    Get(String),
    Use(Row),
    NoteAndUse(Row),
    Delete(String),
    Find(Option<i64>, Option<i64>),
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec(some_row(), 1..4).prop_map(Step::Insert),
        1 => some_row().prop_map(|row| Step::Get(row.1)),
        2 => some_row().prop_map(Step::Use),
        2 => some_row().prop_map(Step::NoteAndUse),
        1 => some_row().prop_map(|row| Step::Delete(row.1)),
        3 => (prop::option::of(-3..4i64), prop::option::of(-3..4i64)).prop_map(|(low, high)| Step::Find(low, high)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn sessions_answer_as_a_map_would_with_and_without_indexes(steps in prop::collection::vec(some_step(), 1..30), mode in prop::sample::select(vec![IndexMode::None, IndexMode::Keyindex])) {
        let mut session = session(mode);
        let mut model: BTreeMap<String, Row> = BTreeMap::new();
        for step in &steps {
            match step {
                Step::Insert(all) => {
                    let params: Vec<_> = all.iter().flat_map(values).collect();
                    let mut expected = model.clone();
                    let taken = all.iter().filter(|row| expected.insert(row.1.clone(), (*row).clone()).is_some()).count();
                    let (outcome, answer) = run(&mut session, INSERT, &params);
                    if taken == 0 {
                        prop_assert_eq!(outcome, Outcome::Ok);
                        model = expected;
                    } else {
                        prop_assert_eq!(outcome, Outcome::Rejected);
                        prop_assert!(answer.message.contains("there already"));
                    }
                }
                Step::Get(code) => {
                    let (outcome, answer) = run(&mut session, GET, &[Value::Text(code)]);
                    prop_assert_eq!(outcome, if model.contains_key(code) { Outcome::Ok } else { Outcome::NotFound });
                    prop_assert_eq!(rows(&answer), Vec::from_iter(model.get(code).cloned()));
                }
                Step::Use(row) => {
                    let (outcome, _) = run(&mut session, SET_USED, &[values(row)[1], values(row)[2]]);
                    prop_assert_eq!(outcome, if model.contains_key(&row.1) { Outcome::Ok } else { Outcome::NotFound });
                    model.get_mut(&row.1).into_iter().for_each(|kept| kept.2 = row.2);
                }
                Step::NoteAndUse(row) => {
                    let (outcome, _) = run(&mut session, SET_NOTE_AND_USED, &[values(row)[1], values(row)[0], values(row)[2]]);
                    prop_assert_eq!(outcome, if model.contains_key(&row.1) { Outcome::Ok } else { Outcome::NotFound });
                    model.get_mut(&row.1).into_iter().for_each(|kept| (kept.0, kept.2) = (row.0.clone(), row.2));
                }
                Step::Delete(code) => {
                    let (outcome, _) = run(&mut session, DELETE, &[Value::Text(code)]);
                    prop_assert_eq!(outcome, if model.remove(code).is_some() { Outcome::Ok } else { Outcome::NotFound });
                }
                Step::Find(low, high) => {
                    let within = |used: i64| low.is_none_or(|low| low <= used) && high.is_none_or(|high| used < high);
                    let mut right: Vec<_> = model.values().filter(|row| row.2.is_some_and(within)).cloned().collect();
                    right.sort();
                    let bounds = [low.map_or(Value::Null, Value::Int), high.map_or(Value::Null, Value::Int)];
                    prop_assert_eq!(&rows(&run(&mut session, SCAN, &bounds).1), &right);
                    prop_assert_eq!(&rows(&run(&mut session, INDEXED, &bounds).1), &right);
                    let (outcome, counted) = run(&mut session, COUNT, &bounds);
                    prop_assert_eq!((outcome, counted.rows, counted.values.len()), (Outcome::Ok, right.len() as u64, 0));
                }
            }
        }
        let mut right: Vec<_> = model.values().cloned().collect();
        right.sort();
        prop_assert_eq!(rows(&run(&mut session, ALL, &[]).1), right);
        let checks = Records::new(&layout(mode)).unwrap().verify(session.kv()).unwrap();
        prop_assert!(checks.iter().all(|(_, check)| check.is_clean()), "{:?}", checks);
        prop_assert_eq!(checks[1].1.records, model.len() as u64);
    }
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let mut session = session(IndexMode::Keyindex);
    let row: Row = (None, "c".into(), Some(1), None);
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
    let row: Row = (None, "c".into(), Some(1), None);
    assert_eq!(run(&mut first, INSERT, &values(&row)).0, Outcome::Ok);
    assert_eq!(run(&mut second, GET, &[Value::Text("c")]).0, Outcome::NotFound);
    assert_eq!(run(&mut second, INDEXED, &[Value::Null, Value::Null]).1.rows, 0);
    assert_eq!(run(&mut second, ALL, &[]).1.rows, 0);
}

#[test]
fn a_composite_index_answers_for_its_first_field() {
    let mut session = session(IndexMode::Keyindex);
    let coupon = |note: Option<&str>, code: &str| -> Row { (note.map(str::to_owned), code.into(), Some(1), None) };
    for row in [coupon(Some("a"), "1"), coupon(Some("b"), "2"), coupon(None, "3")] {
        run(&mut session, INSERT, &values(&row));
    }
    session.kv().take_calls();
    let (_, answer) = run(&mut session, BY_NOTE, &[Value::Text("a"), Value::Text("b")]);
    assert_eq!(rows(&answer), [coupon(Some("a"), "1")]);
    assert_eq!(session.kv().take_calls().gets, 1);
}

#[test]
fn a_corrupt_record_is_an_error_and_no_answer() {
    let mut session = session(IndexMode::Keyindex);
    run(&mut session, INSERT, &values(&(None, "c".into(), Some(1), None)));
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
