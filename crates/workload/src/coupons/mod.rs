//! Coupons: records with one field that is asked for by a condition.
//!
//! "Which coupons have been redeemed less than 50 times?" over 100,000 records of about 200 bytes, of
//! which 0.5 % match and stand under keys spread at random. Loading them shows what keeping an index
//! costs, the question what it brings, by scan and by index; a mixture of reads, updates and the
//! question shows whether the answers stay right while the index changes underneath.
//!
//! | file | what |
//! |---|---|
//! | `content` | the records themselves: every field as a function of (seed, record, version) |
//! | `stream` | which operation each client does next |

mod content;
mod stream;

use std::sync::Arc;

use plimsoll_core::{
    Access, Call, Collection, Extent, Field, Index, IndexMode, Interface, Layout, OpKind, ParamSpec, Params,
    RecordsCall, Stream, StreamSpec, Truth, ValueBuf, ValueType, Workload, WorkloadSpec,
};

use content::Content;

/// A coupon's fields, in order.
const FIELDS: [(&str, ValueType); 8] = [
    ("code", ValueType::Text),
    ("affiliate", ValueType::Int),
    ("redeemed", ValueType::Int),
    ("value_cents", ValueType::Int),
    ("expires", ValueType::Timestamp),
    ("campaign", ValueType::Text),
    ("note", ValueType::Text),
    ("stamp", ValueType::Int),
];
const CODE: u16 = 0;
const REDEEMED: u16 = 2;
const STAMP: u16 = 7;

const INSERT: u16 = 0;
const READ: u16 = 1;
const UPDATE: u16 = 2;
const QUERY: u16 = 3;
const SCAN: u16 = 4;
const ALL: u16 = 5;
const KINDS: [&str; 6] = ["insert", "read", "update", "query", "scan", "all"];

/// Most times that a coupon has been redeemed, plus one: the counts are spread evenly below it.
const REDEEMED_END: u64 = 10_000;

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("records", 1..=1_000_000_000, "100000", "coupons to load, about 200 bytes each"),
    ParamSpec::one_of(
        "index",
        &["none", "own", "keyindex"],
        "index on the redeemed count: none, one of the store, or one of the key index",
    ),
    ParamSpec::int(
        "below",
        0..=REDEEMED_END as i64,
        "50",
        "the query asks for counts below this; 1 in 10,000 records matches for each unit",
    ),
];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "coupons",
        summary: "records found by a condition on one field, with and without an index",
        interfaces: &[Interface::Records],
        dialects: &[],
        kinds: &KINDS,
        params: PARAMS,
        presets: &[],
        make: |seed, params, _| Ok(Box::new(Coupons::new(seed, params))),
    }
}

/// The workload with its parameters set.
struct Coupons {
    layout: Layout,
    kinds: Vec<OpKind>,
    content: Arc<Content>,
    record_bytes: u64,
}

impl Coupons {
    fn new(seed: u64, params: &Params) -> Self {
        let records = u64::try_from(params.int("records")).unwrap_or(0).max(1);
        let below = u64::try_from(params.int("below")).unwrap_or(0).min(REDEEMED_END);
        let index = IndexMode::named(params.text("index")).unwrap_or_default();
        let content = Arc::new(Content::new(seed, records, below));
        Self { layout: layout(index), kinds: kinds(), record_bytes: content.record_bytes(), content }
    }
}

fn layout(index: IndexMode) -> Layout {
    let fields = FIELDS.map(|(name, value_type)| Field { name: name.into(), value_type });
    let coupons = Collection {
        name: "coupons".into(),
        fields: fields.into(),
        key: CODE,
        indexes: vec![Index { fields: vec![REDEEMED] }],
    };
    Layout { collections: vec![coupons], index, ..Layout::default() }
}

fn kinds() -> Vec<OpKind> {
    let find = |access| RecordsCall::Find { field: REDEEMED, access };
    let calls = [
        (RecordsCall::Insert, FIELDS.map(|(_, value_type)| value_type).to_vec(), false),
        (RecordsCall::Get, vec![ValueType::Text], true),
        (
            RecordsCall::Update { fields: vec![REDEEMED, STAMP] },
            vec![ValueType::Text, ValueType::Int, ValueType::Int],
            false,
        ),
        (find(Access::Indexed), vec![ValueType::Int, ValueType::Int], true),
        (find(Access::Scan), vec![ValueType::Int, ValueType::Int], true),
        (RecordsCall::All, Vec::new(), true),
    ];
    let kind = |(name, (call, params, keep_answer)): (&str, (_, Vec<ValueType>, _))| OpKind {
        keep_answer,
        ..OpKind::new(name, Call::Records { collection: 0, call }, &params)
    };
    KINDS.into_iter().zip(calls).map(kind).collect()
}

impl Workload for Coupons {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        stream::stream(&self.content, spec)
    }

    fn truth(&self) -> Option<&dyn Truth> {
        Some(&*self.content)
    }

    fn extent(&self) -> Option<Extent> {
        let gets = |kind: &&OpKind| matches!(kind.call, Call::Records { call: RecordsCall::Get, .. });
        let kind = self.kinds.iter().find(gets)?.clone();
        Some(Extent { param: "records", of: ["record", "records"], exact: false, kind, by_record: true })
    }

    fn record_key(&self, id: u64, params: &mut ValueBuf) {
        self.content.key(id, params);
    }

    fn record_count(&self) -> u64 {
        self.content.records
    }

    fn record_bytes(&self) -> u64 {
        self.record_bytes
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{ParamValue, Value, Version};
    use proptest::prelude::*;

    use super::*;
    use crate::tests::each_op;

    fn coupons(seed: u64, records: i64, below: i64) -> Coupons {
        let mut params = crate::tests::defaults(spec().params);
        params.0.insert("records".into(), ParamValue::Int(records));
        params.0.insert("below".into(), ParamValue::Int(below));
        Coupons::new(seed, &params)
    }

    fn int(value: Value<'_>) -> i64 {
        match value {
            Value::Int(value) => value,
            other => panic!("{other:?} is no integer"),
        }
    }

    fn bytes(row: plimsoll_core::Values<'_>) -> usize {
        let size = |value| match value {
            Value::Text(text) => str::len(text),
            _ => 8,
        };
        row.iter().map(size).sum()
    }

    #[test]
    fn a_coupon_takes_about_200_bytes() {
        let coupons = coupons(1, 10_000, 50);
        let mut row = ValueBuf::new();
        let mut sum = 0;
        for id in 0..10_000 {
            row.clear();
            coupons.content.row(id, Version::Loaded, &mut row);
            let size = bytes(row.values());
            assert!((190..=210).contains(&size), "{size} bytes");
            sum += size;
        }
        let mean = sum as f64 / 10_000.0;
        assert!((195.0..=205.0).contains(&mean), "{mean} bytes on average");
        assert!((coupons.record_bytes() as f64 - mean).abs() < 1.0, "{} said", coupons.record_bytes());
    }

    #[test]
    fn half_a_percent_match_and_stand_anywhere() {
        let coupons = coupons(42, 100_000, 50);
        let mut row = ValueBuf::new();
        let mut matching = Vec::new();
        for id in 0..100_000 {
            row.clear();
            coupons.content.row(id, Version::Loaded, &mut row);
            if int(row.values().get(usize::from(REDEEMED))) < 50 {
                let Value::Text(code) = row.values().get(usize::from(CODE)) else { panic!("codes are text") };
                matching.push((code.to_owned(), id));
            }
        }
        assert_eq!(matching.len(), 500);
        // In the keys' order as in the load's order: 500 dealt to 10 equal parts are 50 each, give or take 4 sigma.
        matching.sort();
        let mut by_first_letter = [0; 32];
        let mut by_tenth = [0; 10];
        for (code, id) in &matching {
            by_first_letter[content::ALPHABET.iter().position(|&letter| letter == code.as_bytes()[0]).unwrap()] += 1;
            by_tenth[(id / 10_000) as usize] += 1;
        }
        assert!(by_tenth.iter().all(|&n| (22..=78).contains(&n)), "{by_tenth:?}");
        assert!(by_first_letter.iter().all(|&n| n <= 40), "{by_first_letter:?}");
    }

    #[test]
    fn the_number_of_matches_does_not_drift_while_updates_run() {
        let records = 20_000;
        let coupons = coupons(3, records, 50);
        let mix = vec![("update".to_owned(), 1)];
        let stream = coupons.stream(&StreamSpec::Mix { mix, clients: 8 }).unwrap();
        let mut redeemed: Vec<i64> = Vec::new();
        let mut row = ValueBuf::new();
        for id in 0..records as u64 {
            row.clear();
            coupons.content.row(id, Version::Loaded, &mut row);
            redeemed.push(int(row.values().get(usize::from(REDEEMED))));
        }
        let matches = |redeemed: &[i64]| redeemed.iter().filter(|&&count| count < 50).count();
        assert_eq!(matches(&redeemed), 100);
        let (mut params, mut crossings, mut sum) = (ValueBuf::new(), 0, 0);
        for cycle in 0..5_000 {
            for client in 0..8 {
                params.clear();
                stream.op(client, cycle, &mut params);
                let id = coupons.content.record_id(params.values().get(0)).unwrap();
                let count = int(params.values().get(1));
                crossings += usize::from((redeemed[id as usize] < 50) != (count < 50));
                redeemed[id as usize] = count;
            }
            sum += matches(&redeemed);
        }
        let mean = sum as f64 / 5_000.0;
        assert!((80.0..120.0).contains(&mean), "{mean} matches on average");
        assert!((4_000..6_500).contains(&crossings), "{crossings} of 40,000 updates crossed the bound");
    }

    proptest! {
        #[test]
        fn a_key_gives_its_record_back_and_others_give_none(seed: u64, records in 1i64..5_000, id: u64, junk in ".{0,14}") {
            let coupons = coupons(seed, records, 50);
            let id = id % records as u64;
            let mut row = ValueBuf::new();
            coupons.content.row(id, Version::Loaded, &mut row);
            let key = row.values().get(usize::from(CODE));
            prop_assert_eq!(coupons.content.record_id(key), Some(id));
            let Value::Text(code) = key else { panic!("codes are text") };
            prop_assert_eq!(code.len(), 12);
            prop_assert_eq!(coupons.content.record_id(Value::Text(&code.to_lowercase())), None);
            prop_assert_eq!(coupons.content.record_id(Value::Int(id as i64)), None);
            prop_assert_eq!(coupons.content.record_id(Value::Text(&junk)), None);
        }

        #[test]
        fn an_update_writes_what_the_truth_says_it_wrote(seed: u64, records in 8i64..3_000, below in 0i64..=10_000, client in 0u32..8, cycle in 0u64..1 << 39) {
            let coupons = coupons(seed, records, below);
            let stream = coupons.stream(&StreamSpec::One { kind: "update".into(), clients: 8 }).unwrap();
            let mut params = ValueBuf::new();
            prop_assert_eq!(stream.op(client, cycle, &mut params), Some(UPDATE));
            let id = coupons.content.record_id(params.values().get(0)).unwrap();
            let (mut loaded, mut written) = (ValueBuf::new(), ValueBuf::new());
            let version = Version::Written { client, cycle };
            coupons.content.row(id, Version::Loaded, &mut loaded);
            coupons.content.row(id, version, &mut written);
            prop_assert_eq!(coupons.content.version(written.values()), Some(version));
            prop_assert_eq!(coupons.content.version(loaded.values()), Some(Version::Loaded));
            for (field, (_, value_type)) in FIELDS.iter().enumerate() {
                let value = written.values().get(field);
                match field as u16 {
                    REDEEMED => prop_assert_eq!(value, params.values().get(1)),
                    STAMP => prop_assert_eq!(value, params.values().get(2)),
                    _ => prop_assert_eq!(value, loaded.values().get(field)),
                }
                prop_assert_eq!(value.value_type(), Some(*value_type));
            }
        }

        #[test]
        fn every_record_is_loaded_once_whoever_loads(records in 1i64..2_000, batch in 1u32..100, clients in 1u32..9) {
            let coupons = coupons(5, records, 50);
            let stream = coupons.stream(&StreamSpec::Load { batch, clients }).unwrap();
            let mut seen = vec![false; records as usize];
            each_op(&*stream, 0..clients, 0..u64::MAX, |_, kind, params| {
                assert_eq!(kind, INSERT);
                assert!(params.len() <= batch as usize * FIELDS.len());
                for row in params.values().rows(FIELDS.len()) {
                    let id = coupons.content.record_id(row.get(0)).unwrap();
                    assert!(!std::mem::replace(&mut seen[id as usize], true));
                    assert_eq!(coupons.content.version(row), Some(Version::Loaded));
                }
            });
            prop_assert!(seen.iter().all(|&seen| seen));
        }

        #[test]
        fn a_key_is_written_by_one_client_only(records in 8i64..3_000, clients in 1u32..9) {
            let coupons = coupons(5, records, 50);
            let mix = vec![("update".to_owned(), 3), ("read".to_owned(), 1), ("query".to_owned(), 1)];
            let stream = coupons.stream(&StreamSpec::Mix { mix, clients }).unwrap();
            let mut owner = vec![None; records as usize];
            each_op(&*stream, 0..clients, 0..400, |(client, _), kind, params| {
                if kind <= UPDATE {
                    assert_eq!(params.values().record(), coupons.content.record_id(params.values().get(0)));
                }
                if kind == UPDATE {
                    let id = coupons.content.record_id(params.values().get(0)).unwrap();
                    assert_eq!(*owner[id as usize].get_or_insert(client), client);
                }
            });
        }
    }

    #[test]
    fn a_stream_that_makes_no_sense_is_refused_with_a_reason() {
        let coupons = coupons(1, 4, 50);
        let refused = |spec| coupons.stream(&spec).err().expect("refused");
        assert!(refused(StreamSpec::One { kind: "insert".into(), clients: 1 }).contains("load"));
        assert!(refused(StreamSpec::One { kind: "delete".into(), clients: 1 }).contains("read"));
        assert!(refused(StreamSpec::Mix { mix: vec![("update".into(), 1)], clients: 8 }).contains('4'));
        assert!(refused(StreamSpec::Mix { mix: vec![("read".into(), 0)], clients: 1 }).contains("share"));
    }
}
