//! Calls of a trial around its operations: sync, settle, cold, restart, sizes, plans.

use std::collections::BTreeSet;

use plimsoll_core::{
    Access, CacheSize, Call, ColdStart, Durability, IndexMode, OpKind, OpenOptions, Outcome, ParamValue, Params,
    RecordsCall, Target, Value, ValueBuf, ValueType,
};

use crate::{Fixture, ask, items, open, params};

const RECORDS: i64 = 3000;
const INSERT: u16 = 0;
const QUERY: u16 = 1;
const SCAN: u16 = 2;
const ALL: u16 = 3;

fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call, params| OpKind {
        name: name.into(),
        call: Call::Records { collection: 0, call },
        params,
        keep_answer: true,
        step_of: None,
    };
    let find = |access| RecordsCall::Find { field: 1, access };
    vec![
        kind("insert", RecordsCall::Insert, vec![]),
        kind("query", find(Access::Indexed), vec![ValueType::Int; 2]),
        kind("scan", find(Access::Scan), vec![ValueType::Int; 2]),
        kind("all", RecordsCall::All, vec![]),
    ]
}

/// A number for each record, in no order.
fn number(record: i64) -> i64 {
    record * 7919 % RECORDS
}

fn load(fixture: &mut Fixture) {
    let mut session = fixture.sessions(1, Durability::AtEnd, &kinds()).remove(0);
    for first in (0..RECORDS).step_by(100) {
        let mut rows = ValueBuf::new();
        for record in first..first + 100 {
            let code = format!("{:06}", number(number(record)));
            let row = [
                Value::Text(&code),
                Value::Int(number(record)),
                Value::Float(record as f64),
                Value::Bool(record % 2 == 0),
                Value::Bytes(&[7; 100]),
                Value::Timestamp(record),
            ];
            rows.extend(params(&row).values());
        }
        let all: Vec<Value<'_>> = rows.values().iter().collect();
        assert_eq!(ask(&mut *session, INSERT, &all).0, Outcome::Ok);
    }
    fixture.store.sync().unwrap();
}

/// The numbers below 50 that one operation finds.
fn found(fixture: &mut Fixture, kind: u16) -> BTreeSet<i64> {
    let mut session = fixture.session(&kinds());
    let (outcome, answer) = ask(&mut *session, kind, &[Value::Null, Value::Int(50)]);
    assert_eq!((outcome, answer.rows), (Outcome::Ok, 50));
    let numbers = answer.row_iter().map(|row| match row.get(1) {
        Value::Int(number) => number,
        other => panic!("{other:?}"),
    });
    numbers.collect()
}

#[test]
fn answers_stay_true_when_settled_cold_and_restarted() {
    let wanted: BTreeSet<i64> = (0..50).collect();
    for mode in [IndexMode::None, IndexMode::Own, IndexMode::Keyindex] {
        let mut fixture = open();
        fixture.store.create(&items(mode)).unwrap();
        load(&mut fixture);
        fixture.store.settle().unwrap();
        assert_eq!(found(&mut fixture, QUERY), wanted);
        assert_eq!(found(&mut fixture, SCAN), wanted);
        let ColdStart::Done { file_bytes, .. } = fixture.store.cold().unwrap() else {
            panic!("files of our own can be made cold");
        };
        assert!(file_bytes > 100 * RECORDS as u64, "{file_bytes}");
        assert_eq!(found(&mut fixture, QUERY), wanted);
        fixture.store.restart().unwrap();
        let mut session = fixture.session(&kinds());
        assert_eq!(ask(&mut *session, ALL, &[]).1.rows, RECORDS as u64);
        drop(session);

        let said = fixture.store.check_integrity().unwrap().unwrap();
        let keys = if mode == IndexMode::Keyindex { "; `items`: 3000 index keys agree with 3000 records" } else { "" };
        assert_eq!(said, format!("integrity_check: ok{keys}"));
    }
}

#[test]
fn the_cache_is_as_large_as_the_pragma_says() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::Private { data_dir: dir.path().to_owned(), said: false, log_dir: dir.path().to_owned() };
    let params = Params([("cache_size".to_owned(), ParamValue::Int(8 << 20))].into());
    let options = OpenOptions { target, params, run_id: "test".into(), waits: Default::default() };
    let mut store = plimsoll_lab::open(&*plimsoll_store_sqlite::kind(), options, &mut |_| {}).unwrap();
    let described = store.describe().unwrap().settings;
    let pragma = described.iter().find(|setting| setting.name == "cache_size").unwrap();
    assert_eq!(pragma.value, "-8192", "KiB");
    let Some(CacheSize::Own { setting, bytes }) = store.cache_bytes().unwrap() else { panic!("it has one") };
    assert_eq!((setting, bytes), ("cache_size of each connection", 8 << 20));
    store.close().unwrap();
}

#[test]
fn sizes_and_plans_follow_the_index() {
    for mode in [IndexMode::None, IndexMode::Own, IndexMode::Keyindex] {
        let mut fixture = open();
        fixture.store.create(&items(mode)).unwrap();
        load(&mut fixture);
        let size = fixture.store.footprint().unwrap();
        assert!(size.data_bytes > 100 * RECORDS as u64, "{size:?}");
        let index_bytes = size.index_bytes.unwrap();
        match mode {
            IndexMode::None => assert_eq!(index_bytes, 0),
            _ => assert!(index_bytes > 5 * RECORDS as u64 && index_bytes < size.data_bytes, "{size:?}"),
        }
        assert!(size.total_bytes.unwrap() >= size.data_bytes + index_bytes);

        let bounds = params(&[Value::Null, Value::Int(50)]);
        let mut explained =
            |kind: u16| fixture.store.explain(&kinds()[usize::from(kind)], bounds.values()).unwrap().unwrap();
        let (query, scan) = match mode {
            IndexMode::None => ("SCAN items", "SCAN items"),
            IndexMode::Own => ("SEARCH items USING INDEX items_index_0 (number<?)", "SCAN items"),
            IndexMode::Keyindex => {
                ("range of index keys, then one get for each match", "scan of all records, each compared")
            }
        };
        assert_eq!((explained(QUERY).as_str(), explained(SCAN).as_str()), (query, scan));
    }
}
