//! The coupon workload, small, against its own truth.

use std::collections::BTreeSet;

use plimsoll_core::{
    Answer, Cold, Durability, IndexMode, Op, Outcome, ParamValue, Params, StreamSpec, Truth, Value, ValueBuf, Version,
    Workload,
};

use crate::{Fixture, open};

const RECORDS: i64 = 3000;

fn workload(mode: IndexMode) -> Box<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "coupons").unwrap();
    let params = [
        ("records", ParamValue::Int(RECORDS)),
        ("index", ParamValue::Text(mode.name().into())),
        ("below", ParamValue::Int(200)),
    ];
    (spec.make)(7, &Params(params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn load(fixture: &mut Fixture, workload: &dyn Workload) {
    fixture.store.create(workload.layout()).unwrap();
    let mut session = fixture.sessions(1, Durability::AtEnd, workload.kinds()).remove(0);
    let stream = workload.stream(&StreamSpec::Load { batch: 100, clients: 1 }).unwrap();
    let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
    let mut cycle = 0;
    while let Some(kind) = stream.op(0, cycle, &mut params) {
        answer.clear();
        assert_eq!(session.execute(&Op { kind, params: params.values() }, &mut answer), Outcome::Ok, "{answer:?}");
        params.clear();
        cycle += 1;
    }
    fixture.store.sync().unwrap();
}

/// Codes of all records that one operation of `kind` finds, each held against the truth.
fn found(fixture: &mut Fixture, workload: &dyn Workload, truth: &dyn Truth, kind: &str) -> BTreeSet<u64> {
    let mut session = fixture.session(workload.kinds());
    let stream = workload.stream(&StreamSpec::One { kind: kind.into(), clients: 1 }).unwrap();
    let (mut params, mut answer, mut row) = (ValueBuf::new(), Answer::default(), ValueBuf::new());
    let kind = stream.op(0, 0, &mut params).unwrap();
    assert_eq!(session.execute(&Op { kind, params: params.values() }, &mut answer), Outcome::Ok, "{answer:?}");
    answer
        .row_iter()
        .map(|found| {
            let id = truth.record_id(found.get(0)).unwrap();
            row.clear();
            truth.row(id, Version::Loaded, &mut row);
            assert_eq!(found.iter().collect::<Vec<_>>(), row.values().iter().collect::<Vec<_>>());
            id
        })
        .collect()
}

#[test]
fn every_way_of_asking_gives_the_true_answer_warm_cold_and_after_a_restart() {
    for mode in [IndexMode::None, IndexMode::Own, IndexMode::Keyindex] {
        let workload = workload(mode);
        let truth = workload.truth().unwrap();
        let redeemed = workload.layout().collections[0].indexes[0].fields[0];
        let mut row = ValueBuf::new();
        let wanted: BTreeSet<u64> = (0..RECORDS as u64)
            .filter(|id| {
                row.clear();
                truth.row(*id, Version::Loaded, &mut row);
                matches!(row.values().get(usize::from(redeemed)), Value::Int(count) if count < 200)
            })
            .collect();
        assert!(wanted.len() > 20);

        let mut fixture = open();
        load(&mut fixture, &*workload);
        fixture.store.settle().unwrap();
        assert_eq!(found(&mut fixture, &*workload, truth, "query"), wanted);
        assert_eq!(found(&mut fixture, &*workload, truth, "scan"), wanted);
        let Cold::Done { file_bytes, .. } = fixture.store.cold().unwrap() else {
            panic!("files of our own can be made cold");
        };
        assert!(file_bytes > 100 * RECORDS as u64, "{file_bytes}");
        assert_eq!(found(&mut fixture, &*workload, truth, "query"), wanted);
        fixture.store.restart().unwrap();
        assert_eq!(found(&mut fixture, &*workload, truth, "all").len(), RECORDS as usize);

        let size = fixture.store.footprint().unwrap();
        assert!(size.data_bytes > workload.record_bytes() * RECORDS as u64, "{size:?}");
        let index_bytes = size.index_bytes.unwrap();
        match mode {
            IndexMode::None => assert_eq!(index_bytes, 0),
            _ => assert!(index_bytes > 10 * RECORDS as u64 && index_bytes < size.data_bytes, "{size:?}"),
        }
        assert!(size.total_bytes.unwrap() >= size.data_bytes + index_bytes);

        let query = workload.kinds().iter().find(|kind| kind.name == "query").unwrap();
        let bounds = crate::params(&[Value::Null, Value::Int(200)]);
        let explained = fixture.store.explain(query, bounds.values()).unwrap().unwrap();
        let how = match mode {
            IndexMode::None => "SCAN coupons",
            IndexMode::Own => "SEARCH coupons USING INDEX coupons_index_0 (redeemed<?)",
            IndexMode::Keyindex => "range of index keys, then one get for each match",
        };
        assert_eq!(explained, how);
        let said = fixture.store.check_integrity().unwrap().unwrap();
        let keys =
            if mode == IndexMode::Keyindex { "; `coupons`: 3000 index keys agree with 3000 records" } else { "" };
        assert_eq!(said, format!("integrity_check: ok{keys}"));
    }
}
