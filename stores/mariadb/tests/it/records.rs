//! The records interface.

use plimsoll_core::{Access, IndexMode, OpKind, Outcome, RecordsCall, Value, ValueType};

use crate::fixture::{Server, ask, create, kind, layout};

const TYPES: [ValueType; 6] =
    [ValueType::Text, ValueType::Int, ValueType::Float, ValueType::Bool, ValueType::Bytes, ValueType::Timestamp];

pub const INSERT: u16 = 0;
pub const GET: u16 = 1;
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

/// Inserts are put together of statements of 256, 16 and 1 records.
#[test]
fn an_insert_of_any_size_is_done_as_a_whole_or_not_at_all() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let mut connection = server.open(&layout, &kinds()).expect("prepared");
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n:04}")).collect();
    let mut before = 0;
    for size in [0, 1, 2, 15, 16, 17, 255, 256, 290] {
        let batch: Vec<Value<'_>> =
            names[before..before + size].iter().zip(0..).flat_map(|(name, n)| record(name, Some(n))).collect();
        assert_eq!(ask(&mut connection, INSERT, &batch).0, Outcome::Ok, "{size}");
        before += size;
        assert_eq!(ask(&mut connection, COUNT, &[]).1.rows as usize, before, "{size}");
    }

    // What is there already comes in the last statement of the batch, after many that are new.
    let again: Vec<Value<'_>> =
        names[before..].iter().map(String::as_str).chain(["c0007"]).flat_map(|name| record(name, None)).collect();
    let (outcome, answer) = ask(&mut connection, INSERT, &again);
    assert_eq!((outcome, answer.code.as_str(), answer.rows), (Outcome::Rejected, "1062", 0));
    assert!(answer.message.starts_with("23000: ") && answer.message.contains("c0007"), "{}", answer.message);
    let (outcome, answer) = ask(&mut connection, COUNT, &[]);
    assert_eq!((outcome, answer.rows as usize), (Outcome::Ok, before), "nothing of that batch is there");
    assert!(answer.values.is_empty(), "what is not wanted is not kept");
    assert!(answer.code.is_empty(), "an error does not outlive its operation");
    assert_eq!(ask(&mut connection, INSERT, &record("after", None)).0, Outcome::Ok, "no transaction is left open");
    assert_eq!(server.control().value("SELECT COUNT(*) FROM items WHERE code = 'after'").expect("seen"), "1");
    assert_eq!(ask(&mut connection, NOTHING, &[]).0, Outcome::Ok);
}

#[test]
fn a_scan_reads_the_table_although_there_is_an_index() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    let mut control = server.control();
    create(&mut control, &layout);
    let fill = "INSERT INTO items (code, count) WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n \
                WHERE n < 5000) SELECT CONCAT('c', n), n FROM n";
    control.simple("SET max_recursive_iterations = 10000").expect("set");
    control.simple(fill).expect("filled");
    control.simple("ANALYZE TABLE items").expect("analyzed");
    let mut type_of = |access| {
        let kind = &kinds()[if access == Access::Scan { SCAN } else { FIND } as usize];
        let text = plimsoll_store_mariadb::sql::compile(kind, &layout).unwrap().texts[0].sql.clone();
        let text = text.replacen('?', "17", 1).replacen('?', "19", 1);
        let answer = control.simple(&format!("EXPLAIN {text}")).expect("a plan");
        format!("{:?}", answer.values.values().get(3))
    };
    assert_eq!(type_of(Access::Scan), "Text(\"ALL\")");
    assert_eq!(type_of(Access::Indexed), "Text(\"range\")");
}

#[test]
fn a_kind_that_the_layout_has_no_collection_for_is_refused() {
    let server = Server::start();
    let Err(error) = server.open(&plimsoll_core::Layout::default(), &kinds()) else { panic!("it was prepared") };
    assert_eq!(error.kind, plimsoll_core::StoreErrorKind::Usage);
    assert!(error.what.contains("collection 0"), "{error}");
    let asks = OpKind { call: plimsoll_core::Call::Kv(plimsoll_core::KvCall::Get), ..kinds()[1].clone() };
    let Err(error) = server.open(&layout(IndexMode::None), &[asks]) else { panic!("it was prepared") };
    assert!(error.what.contains("does not speak"), "{error}");
}
