//! The records interface.

use plimsoll_core::{Access, IndexMode, OpKind, Outcome, RecordsCall, Value, ValueType, tables};
use plimsoll_store_postgres::sql::Postgres;

use crate::fixture::{Server, ask, create, kind, layout};

const TYPES: [ValueType; 6] =
    [ValueType::Text, ValueType::Int, ValueType::Float, ValueType::Bool, ValueType::Bytes, ValueType::Timestamp];

pub const INSERT: u16 = 0;
pub const GET: u16 = 1;
const UPDATE: u16 = 2;
const DELETE: u16 = 3;
pub const SCAN: u16 = 4;
pub const FIND: u16 = 5;
pub const ALL: u16 = 6;
pub const COUNT: u16 = 7;
const NOTHING: u16 = 8;

pub fn kinds() -> Vec<OpKind> {
    let find = |name, access| kind(name, RecordsCall::Find { field: 1, access }, &[ValueType::Int, ValueType::Int]);
    vec![
        kind("insert", RecordsCall::Insert, &TYPES),
        kind("get", RecordsCall::Get, &TYPES[..1]),
        kind("update", RecordsCall::Update { fields: vec![1, 4] }, &[TYPES[0], TYPES[1], TYPES[4]]),
        kind("delete", RecordsCall::Delete, &TYPES[..1]),
        find("scan", Access::Scan),
        find("find", Access::Indexed),
        kind("all", RecordsCall::All, &[]),
        OpKind { keep_answer: false, ..kind("count", RecordsCall::All, &[]) },
        OpKind { call: plimsoll_core::Call::Nothing, ..kind("nothing", RecordsCall::All, &[]) },
    ]
}

pub fn record(code: &str, count: Option<i64>) -> [Value<'_>; 6] {
    [
        Value::Text(code),
        count.map_or(Value::Null, Value::Int),
        Value::Float(0.1),
        Value::Bool(true),
        Value::Bytes(b"\0\xff'"),
        Value::Timestamp(1_700_000_000_123_456),
    ]
}

pub fn codes(answer: &plimsoll_core::Answer) -> Vec<String> {
    let mut codes: Vec<String> = answer
        .row_iter()
        .map(|row| match row.get(0) {
            Value::Text(code) => code.to_owned(),
            other => panic!("a code is a text, not {other:?}"),
        })
        .collect();
    codes.sort();
    codes
}

#[test]
fn a_record_is_inserted_read_changed_and_deleted() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let mut connection = server.open(&layout, &kinds()).expect("prepared");

    let first = record("kä'se", Some(i64::MIN));
    assert_eq!(ask(&mut connection, INSERT, &first).0, Outcome::Ok);
    let (outcome, answer) = ask(&mut connection, GET, &first[..1]);
    assert_eq!(outcome, Outcome::Ok);
    assert_eq!((answer.rows, answer.columns), (1, 6));
    assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), first);

    let change = [first[0], Value::Null, Value::Bytes(b"")];
    assert_eq!(ask(&mut connection, UPDATE, &change).0, Outcome::Ok);
    let (_, answer) = ask(&mut connection, GET, &first[..1]);
    assert_eq!(answer.values.values().get(1), Value::Null);
    assert_eq!(answer.values.values().get(4), Value::Bytes(b""));
    assert_eq!(answer.values.values().get(5), first[5], "what was not set stays");

    assert_eq!(ask(&mut connection, DELETE, &first[..1]).0, Outcome::Ok);
    for (kind, params) in [(DELETE, &first[..1]), (GET, &first[..1]), (UPDATE, &change[..])] {
        let (outcome, answer) = ask(&mut connection, kind, params);
        assert_eq!((outcome, answer.rows), (Outcome::NotFound, 0), "kind {kind}");
    }
    assert_eq!(ask(&mut connection, NOTHING, &[]).0, Outcome::Ok);
}

#[test]
fn an_insert_of_several_records_is_done_as_a_whole_or_not_at_all() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let mut connection = server.open(&layout, &kinds()).expect("prepared");
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n:04}")).collect();
    let batch: Vec<Value<'_>> = names.iter().zip(0..).flat_map(|(name, n)| record(name, Some(n))).collect();
    assert_eq!(ask(&mut connection, INSERT, &batch).0, Outcome::Ok);
    assert_eq!(ask(&mut connection, COUNT, &[]).1.rows, 1_000);

    let second: Vec<Value<'_>> = ["d0", "c0007", "d1"].iter().flat_map(|name| record(name, None)).collect();
    let (outcome, answer) = ask(&mut connection, INSERT, &second);
    assert_eq!((outcome, answer.code.as_str(), answer.rows), (Outcome::Rejected, "23505", 0));
    assert!(answer.message.contains("items_pkey"), "the server's words: {}", answer.message);
    let (outcome, answer) = ask(&mut connection, COUNT, &[]);
    assert_eq!((outcome, answer.rows), (Outcome::Ok, 1_000), "nothing of the second batch is there");
    assert!(answer.values.is_empty(), "what is not wanted is not kept");
    assert!(answer.code.is_empty(), "an error does not outlive its operation");
}

#[test]
fn a_range_finds_what_lies_in_it_by_scan_and_by_index() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let mut connection = server.open(&layout, &kinds()).expect("prepared");
    for (code, count) in [("a", Some(-1)), ("b", Some(0)), ("c", Some(5)), ("d", Some(9)), ("n", None)] {
        assert_eq!(ask(&mut connection, INSERT, &record(code, count)).0, Outcome::Ok);
    }
    for kind in [SCAN, FIND] {
        for (low, high, expected) in [
            (Value::Int(0), Value::Int(9), &["b", "c"][..]),
            (Value::Null, Value::Int(5), &["a", "b"]),
            (Value::Int(5), Value::Null, &["c", "d"]),
            (Value::Null, Value::Null, &["a", "b", "c", "d"]),
            (Value::Int(7), Value::Int(8), &[]),
        ] {
            let (outcome, answer) = ask(&mut connection, kind, &[low, high]);
            assert_eq!(outcome, Outcome::Ok);
            assert_eq!(codes(&answer), expected, "kind {kind}, {low:?} .. {high:?}");
        }
    }
    assert_eq!(codes(&ask(&mut connection, ALL, &[]).1), ["a", "b", "c", "d", "n"]);
}

#[test]
fn a_scan_reads_the_table_although_there_is_an_index() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    let mut control = server.control();
    create(&mut control, &layout);
    control
        .simple("INSERT INTO items (code, count) SELECT 'c' || n, n FROM generate_series(1, 20000) n; ANALYZE items")
        .expect("filled");
    let plan_of = |control: &mut plimsoll_store_postgres::Connection, access| {
        let kind = &kinds()[if access == Access::Scan { SCAN } else { FIND } as usize];
        let text = tables::compile::<Postgres>(kind, &layout).unwrap().texts[0].clone();
        let text = text.replace("$1", "17").replace("$2", "19");
        control.value(&format!("EXPLAIN {text}")).expect("a plan")
    };
    assert!(plan_of(&mut control, Access::Scan).starts_with("Seq Scan"));
    assert!(plan_of(&mut control, Access::Indexed).starts_with("Index Scan"));
}

#[test]
fn a_kind_that_the_layout_has_no_collection_for_is_refused() {
    let server = Server::start();
    let Err(error) = server.open(&plimsoll_core::Layout::default(), &kinds()) else { panic!("it was prepared") };
    assert_eq!(error.kind, plimsoll_core::StoreErrorKind::Usage);
    assert!(error.what.contains("collection 0"), "{error}");
}
