//! Keys and values: the core workloads of YCSB.
//!
//! `records` values stand under keys of their own. Clients read them, write them anew, insert others, read several in the
//! order of their keys, or read one and write it: shares of these, and how popular which records are, are what YCSB's
//! workloads A to F differ in (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010).
//!
//! | file | what |
//! |---|---|
//! | `choose` | how popular which records are |
//! | `content` | keys and values as functions of (seed, record, version) |
//! | `turns` | which kind is next, and which of its kind |
//! | `stream` | which operation each client does next |
//! | `steps` | the two steps of a `read_modify_write` |
//! | `truth` | what must stand under which key |

mod choose;
mod content;
mod steps;
mod stream;
mod truth;
pub(crate) mod turns;

use std::sync::LazyLock;

use plimsoll_core::{
    Call, Extent, Interface, KindId, KvCall, OpKind, ParamSpec, Params, Preset, Stream, StreamSpec, Truth, ValueBuf,
    ValueType, Workload, WorkloadError, WorkloadSpec,
};

pub(crate) use choose::Chooser;
use content::Content;

const READ: KindId = 0;
const UPDATE: KindId = 1;
const INSERT: KindId = 2;
const SCAN: KindId = 3;
const READ_MODIFY_WRITE: KindId = 4;
const RMW_READ: KindId = 5;
const MODIFY: KindId = 6;
const KINDS: [&str; 5] = ["read", "update", "insert", "scan", "read_modify_write"];

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("records", 1..=1_000_000_000, "100000", "values to load"),
    ParamSpec::int("field_count", 1..=1_000, "10", "fields of a record; all of them are one value"),
    ParamSpec::int("field_length", 1..=1 << 20, "100", "bytes of a field"),
    ParamSpec::one_of(
        "distribution",
        &["scrambled", "zipfian", "latest", "uniform", "hotspot"],
        "distribution of operations over records",
    ),
    ParamSpec::int("hot_records", 0..=100, "20", "percent of the records that are hot, with `hotspot`"),
    ParamSpec::int("hot_operations", 0..=100, "80", "percent of the operations that go to them"),
    ParamSpec::int("scan_length", 1..=10_000, "100", "a scan reads 1 to this many records, each number as likely"),
    ParamSpec::one_of("ledger", &["on", "off"], "check every answer, and look for every acknowledged write"),
];

/// YCSB's workloads by their letters; without one it is B.
const PRESETS: &[Preset] = &[
    B,
    Preset::of("kv:a", "YCSB's workload A: update heavy", &[("read", 50), ("update", 50)]),
    Preset { name: "kv:b", ..B },
    Preset::of("kv:c", "YCSB's workload C: read only", &[("read", 1)]),
    Preset {
        params: &[("distribution", "latest")],
        ..Preset::of("kv:d", "YCSB's workload D: read latest", &[("read", 95), ("insert", 5)])
    },
    Preset::of("kv:e", "YCSB's workload E: short ranges", &[("scan", 95), ("insert", 5)]),
    Preset::of("kv:f", "YCSB's workload F: read-modify-write", &[("read", 50), ("read_modify_write", 50)]),
];
const B: Preset = Preset::of("kv", "YCSB's workload B: read mostly", &[("read", 95), ("update", 5)]);

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "kv",
        summary: "YCSB's core workloads: values read and written under keys, some more popular than others",
        interfaces: &[Interface::Kv],
        dialects: &[],
        kinds: &KINDS,
        params: PARAMS,
        presets: PRESETS,
        make: |seed, params, _| Ok(Box::new(Pairs::new(seed, params)?)),
    }
}

struct Pairs {
    seed: u64,
    records: u64,
    scan_length: u64,
    value_bytes: u64,
    content: Content,
    /// Popularity of records, made at its first use: the checks of a plan do not need it.
    chooser: LazyLock<Chooser, Box<dyn FnOnce() -> Chooser + Send>>,
    kinds: Vec<OpKind>,
    has_truth: bool,
}

impl Pairs {
    fn new(seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let int = |name: &str| params.int(name).unsigned_abs();
        let value_bytes = int("field_count") * int("field_length");
        if value_bytes < content::HEADER_BYTES as u64 || value_bytes > 64 << 20 {
            let what = format!("a value of field_count × field_length = {value_bytes} bytes");
            return Err(WorkloadError::new(what, "a value has 16 bytes, which say whose it is, to 64 MiB"));
        }
        let (records, hot, hot_operations) = (int("records"), int("hot_records"), int("hot_operations"));
        let distribution = params.text("distribution").to_owned();
        let has_truth = params.text("ledger") != "off";
        Ok(Self {
            seed,
            records,
            scan_length: int("scan_length"),
            value_bytes,
            content: Content::new(seed, value_bytes as usize),
            chooser: LazyLock::new(Box::new(move || Chooser::new(&distribution, records, hot, hot_operations))),
            kinds: kinds(has_truth),
            has_truth,
        })
    }
}

/// Answers are wanted where they are held against the truth.
fn kinds(has_truth: bool) -> Vec<OpKind> {
    let (key, value) = (ValueType::Bytes, ValueType::Bytes);
    let kind = |name: &str, call, params: &[ValueType], step_of| OpKind {
        keep_answer: has_truth && matches!(call, Call::Kv(KvCall::Get | KvCall::Scan)),
        step_of,
        ..OpKind::new(name, call, params)
    };
    let of_steps = Some(READ_MODIFY_WRITE);
    vec![
        kind(KINDS[0], Call::Kv(KvCall::Get), &[key], None),
        kind(KINDS[1], Call::Kv(KvCall::Put), &[key, value], None),
        kind(KINDS[2], Call::Kv(KvCall::Put), &[key, value], None),
        kind(KINDS[3], Call::Kv(KvCall::Scan), &[key, ValueType::Int], None),
        kind(KINDS[4], Call::Steps, &[key], None),
        kind("read before write", Call::Kv(KvCall::Get), &[key], of_steps),
        kind("write after read", Call::Kv(KvCall::Put), &[key, value], of_steps),
    ]
}

impl Workload for Pairs {
    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        stream::stream(self, spec)
    }

    fn extent(&self) -> Option<Extent> {
        let kind = self.kinds[usize::from(READ)].clone();
        Some(Extent { param: "records", of: ["record", "records"], exact: false, kind, by_record: true })
    }

    fn record_key(&self, id: u64, params: &mut ValueBuf) {
        params.push_bytes_with(|key| self.content.write_key(id, key));
    }

    fn truth(&self) -> Option<&dyn Truth> {
        self.has_truth.then_some(&self.content as &dyn Truth)
    }

    fn record_count(&self) -> u64 {
        self.records
    }

    fn record_bytes(&self) -> u64 {
        content::KEY_BYTES as u64 + self.value_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use plimsoll_core::{Answer, Outcome, ParamValue, Step, Value, ValueBuf, Version};

    use super::*;
    use crate::tests::each_op;

    fn pairs(records: i64, distribution: &str) -> Pairs {
        let mut params = crate::tests::defaults(spec().params);
        params.0.insert("records".into(), ParamValue::Int(records));
        params.0.insert("distribution".into(), ParamValue::Text(distribution.into()));
        Pairs::new(3, &params).unwrap()
    }

    fn mix(pairs: &Pairs, shares: &[(&str, u32)], clients: u32) -> Box<dyn Stream> {
        let mix = shares.iter().map(|(kind, share)| ((*kind).to_owned(), *share)).collect();
        pairs.stream(&StreamSpec::Mix { mix, clients }).unwrap()
    }

    fn bytes(params: &ValueBuf, position: usize) -> &[u8] {
        match params.values().get(position) {
            Value::Bytes(bytes) => bytes,
            other => panic!("{other:?} is no bytes"),
        }
    }

    #[test]
    fn the_load_puts_every_record_once_whatever_the_batch() {
        let pairs = pairs(1_000, "uniform");
        let mut seen = BTreeSet::new();
        let stream = pairs.stream(&StreamSpec::Load { batch: 100, clients: 3 }).unwrap();
        each_op(&*stream, 0..3, 0..u64::MAX, |_, kind, params| {
            assert_eq!((kind, params.len()), (INSERT, 2));
            let (key, value) = (bytes(params, 0), bytes(params, 1));
            assert_eq!(params.values().record(), pairs.content.id_of(key));
            assert_eq!(pairs.content.version_of(key, value), Some(Version::Loaded));
            assert_eq!(key.len() + value.len(), pairs.record_bytes() as usize);
            assert!(seen.insert(pairs.content.id_of(key).unwrap()));
        });
        assert!(seen.into_iter().eq(0..1_000));
    }

    #[test]
    fn inserts_are_new_and_reads_of_the_latest_are_of_what_is_there() {
        let pairs = pairs(500, "latest");
        let stream = mix(&pairs, &[("read", 95), ("insert", 5)], 4);
        let mut there: BTreeSet<u64> = (0..500).collect();
        let (mut reads_of_new, mut reads) = (0, 0);
        each_op(&*stream, 0..4, 0..4_000, |(client, cycle), kind, params| {
            let id = pairs.content.id_of(bytes(params, 0)).unwrap();
            if kind == INSERT {
                assert!(there.insert(id), "{id} is there already");
                let version = Version::Written { client, cycle };
                assert_eq!(pairs.content.version_of(bytes(params, 0), bytes(params, 1)), Some(version));
            } else {
                assert!(there.contains(&id), "client {client} asks for {id} at {cycle} before it is there");
                reads += 1;
                reads_of_new += u64::from(id >= 500);
            }
        });
        assert!(there.into_iter().eq(500 - 500..500 + 4 * 200), "inserted records leave no gap");
        assert!(reads_of_new * 2 > reads, "{reads_of_new} of {reads} reads are of what was inserted");
    }

    #[test]
    fn a_later_phase_inserts_the_same_keys_with_stamps_of_its_own_and_reads_what_is_there() {
        let pairs = pairs(500, "latest");
        let stream = mix(&pairs, &[("read", 95), ("insert", 5)], 2);
        let phase = |first: u64| {
            let (mut inserted, mut versions) = (BTreeSet::new(), BTreeSet::new());
            each_op(&*stream, 1..2, first..first + 2_000, |(_, cycle), kind, params| {
                let id = pairs.content.id_of(bytes(params, 0)).unwrap();
                if kind == INSERT {
                    inserted.insert(id);
                    versions.insert(pairs.content.version_of(bytes(params, 0), bytes(params, 1)).unwrap());
                } else {
                    assert!(id < 500 || inserted.contains(&id), "{id} is not there at {cycle}");
                }
            });
            (inserted, versions)
        };
        let ((first, versions), (second, others)) = (phase(0), phase(3 << 32));
        assert!(first == second && first.len() == 100);
        assert!(versions.is_disjoint(&others));
    }

    #[test]
    fn a_mix_has_its_shares_and_every_kind_its_parameters() {
        let pairs = pairs(10_000, "scrambled");
        let shares = [("read", 1), ("update", 2), ("insert", 3), ("scan", 4), ("read_modify_write", 5)];
        let stream = mix(&pairs, &shares, 2);
        let mut counts = BTreeMap::new();
        each_op(&*stream, 1..2, 0..15_000, |_, kind, params| {
            let types = params.values().iter().map(|value| value.value_type().unwrap());
            assert!(types.eq(pairs.kinds[usize::from(kind)].params.iter().copied()));
            assert_eq!(params.values().record(), pairs.content.id_of(bytes(params, 0)));
            if let Value::Int(length) = params.values().get(1) {
                assert!((1..=100).contains(&length));
            }
            *counts.entry(kind).or_insert(0) += 1;
        });
        assert!(counts.into_iter().eq((0..5).zip([1_000, 2_000, 3_000, 4_000, 5_000])));
    }

    #[test]
    fn a_read_modify_write_writes_what_it_read() {
        let pairs = pairs(100, "zipfian");
        let stream = mix(&pairs, &[("read_modify_write", 1)], 1);
        let mut steps = stream.steps(0).unwrap();
        let (mut begun, mut params) = (ValueBuf::new(), ValueBuf::new());
        for (cycle, read) in [Outcome::Ok, Outcome::NotFound, Outcome::Rejected].into_iter().enumerate() {
            begun.clear();
            let kind = stream.op(0, cycle as u64, &mut begun).unwrap();
            steps.begin(cycle as u64, kind, begun.values());
            assert_eq!(steps.next(&mut params), Step::Send { kind: RMW_READ, more: false });
            let (asked, named) = ((bytes(&params, 0), params.values().record()), pairs.content.id_of(bytes(&begun, 0)));
            assert_eq!(asked, (bytes(&begun, 0), named));
            steps.answered(read, &Answer::default());
            params.clear();
            if read == Outcome::Rejected {
                assert_eq!(steps.next(&mut params), Step::End { kind, outcome: read });
                continue;
            }
            assert_eq!(steps.next(&mut params), Step::Send { kind: MODIFY, more: false });
            assert_eq!(bytes(&params, 0), bytes(&begun, 0));
            let version = Version::Written { client: 0, cycle: cycle as u64 };
            assert_eq!(pairs.content.version_of(bytes(&params, 0), bytes(&params, 1)), Some(version));
            steps.answered(Outcome::Ok, &Answer::default());
            params.clear();
            assert_eq!(steps.next(&mut params), Step::End { kind, outcome: Outcome::Ok });
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        let uniform = pairs(10, "uniform");
        let refused = |mix: Vec<(String, u32)>| uniform.stream(&StreamSpec::Mix { mix, clients: 1 }).err().unwrap();
        assert!(refused(vec![("delete".into(), 1)]).contains("read_modify_write"));
        assert!(refused(vec![("read".into(), 0)]).contains("share"));
        let mut params = crate::tests::defaults(spec().params);
        params.0.insert("distribution".into(), ParamValue::Text("scrambled".into()));
        params.0.insert("field_count".into(), ParamValue::Int(1));
        params.0.insert("field_length".into(), ParamValue::Int(15));
        let error = Pairs::new(1, &params).err().unwrap();
        assert!(error.what.contains("15 bytes") && error.help.unwrap().contains("16 bytes"));
    }
}
