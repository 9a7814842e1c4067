//! Calls of a trial around its operations: sync, settle, cold, restart, sizes, plans.

use plimsoll_core::{CacheSize, ColdStart, Durability, IndexMode, Outcome, Value};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::records::{FIND, INSERT, SCAN, blocking, execute, kinds, layout, record};
use plimsoll_testkit::wire::values;

use crate::{Fixture, open};

const RECORDS: i64 = 3000;

/// Loads records with a number each, in no order.
fn load(fixture: &mut Fixture) {
    let mut session = blocking(&mut *fixture.store, 1, Durability::AtEnd, &kinds()[..8]).remove(0);
    for first in (0..RECORDS).step_by(100) {
        let names: Vec<(String, i64)> =
            (first..first + 100).map(|n| n * 7919 % RECORDS).map(|n| (format!("{n:06}"), n)).collect();
        let mut rows: Vec<Value<'_>> = names.iter().flat_map(|(code, number)| record(code, Some(*number))).collect();
        rows.iter_mut().skip(4).step_by(6).for_each(|body| *body = Value::Bytes(&[7; 100]));
        assert_eq!(execute(&mut *session, INSERT, &rows).0, Outcome::Ok);
    }
    fixture.store.sync().unwrap();
}

#[test]
fn the_cache_is_as_large_as_the_pragma_says() {
    let dir = tempfile::tempdir().unwrap();
    let opening = Opening::private(plimsoll_store_sqlite::kind, dir.path()).int("cache_size", 8 << 20);
    let mut store = opening.open().unwrap();
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
        fixture.store.create(&layout(mode)).unwrap();
        load(&mut fixture);
        let size = fixture.store.footprint().unwrap();
        assert!(size.data_bytes > 100 * RECORDS as u64, "{size:?}");
        let index_bytes = size.index_bytes.unwrap();
        match mode {
            IndexMode::None => assert_eq!(index_bytes, 0),
            _ => assert!(index_bytes > 5 * RECORDS as u64 && index_bytes < size.data_bytes, "{size:?}"),
        }
        assert!(size.total_bytes.unwrap() >= size.data_bytes + index_bytes);

        let bounds = values(&[Value::Null, Value::Int(50)]);
        let mut explained =
            |kind: u16| fixture.store.explain(&kinds()[usize::from(kind)], bounds.values()).unwrap().unwrap();
        let (query, scan) = match mode {
            IndexMode::None => ("SCAN items", "SCAN items"),
            IndexMode::Own => ("SEARCH items USING INDEX items_index_0 (count<?)", "SCAN items"),
            IndexMode::Keyindex => {
                ("range of index keys, then one get for each match", "scan of all records, each compared")
            }
        };
        assert_eq!((explained(FIND).as_str(), explained(SCAN).as_str()), (query, scan));
        let said = fixture.store.check_integrity().unwrap().unwrap();
        let keys = if mode == IndexMode::Keyindex { "; `items`: 3000 index keys agree with 3000 records" } else { "" };
        assert_eq!(said, format!("integrity_check: ok{keys}"));
        let ColdStart::Done { file_bytes, .. } = fixture.store.cold().unwrap() else {
            panic!("files of our own can be made cold");
        };
        assert!(file_bytes > 100 * RECORDS as u64, "{file_bytes}");
    }
}
