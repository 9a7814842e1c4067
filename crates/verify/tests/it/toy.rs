//! A workload with every call there is, small enough that keys are fought over.

use std::sync::Arc;

use plimsoll_core::{
    Access, Call, Collection, Field, Index, IndexMode, Layout, OpKind, ParamSpec, ParamType, ParamValue, Params,
    RecordsCall, Stream, StreamSpec, Truth, Value, ValueBuf, ValueType, Values, Version, Workload,
};

pub const INSERT: u16 = 0;
pub const GET: u16 = 1;
pub const UPDATE: u16 = 2;
pub const DELETE: u16 = 3;
pub const FIND: u16 = 4;
pub const ALL: u16 = 5;

/// Makes a workload of this program with its defaults, but for these.
pub fn workload(name: &str, changes: &[(&str, i64)]) -> Arc<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == name).unwrap();
    let default = |param: &ParamSpec| match param.param_type {
        ParamType::Int { .. } => ParamValue::Int(param.default.parse().unwrap()),
        _ => ParamValue::Text(param.default.into()),
    };
    let mut params = Params(spec.params.iter().map(|param| (param.name.into(), default(param))).collect());
    params.0.extend(changes.iter().map(|(name, value)| ((*name).into(), ParamValue::Int(*value))));
    Arc::from((spec.make)(11, &params, &[]).unwrap())
}

/// SplitMix64: a seed is a history.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    /// Returns true once in `n` times; 0 is never.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

pub struct Toy {
    records: u64,
    layout: Layout,
    kinds: Vec<OpKind>,
}

impl Toy {
    pub fn new(records: u64) -> Self {
        let field = |name: &str| Field { name: name.into(), value_type: ValueType::Int };
        let collection = Collection {
            name: "toys".into(),
            fields: ["key", "value", "stamp"].map(field).into(),
            key: 0,
            indexes: vec![Index { fields: vec![1] }],
        };
        let calls = [
            ("insert", RecordsCall::Insert, 3),
            ("get", RecordsCall::Get, 1),
            ("update", RecordsCall::Update { fields: vec![1, 2] }, 3),
            ("delete", RecordsCall::Delete, 1),
            ("find", RecordsCall::Find { field: 1, access: Access::Indexed }, 2),
            ("all", RecordsCall::All, 0),
        ];
        let kinds = calls.map(|(name, call, params)| OpKind {
            name: name.into(),
            call: Call::Records { collection: 0, call },
            params: vec![ValueType::Int; params],
            keep_answer: true,
            step_of: None,
        });
        let layout = Layout { collections: vec![collection], index: IndexMode::Own, ..Layout::default() };
        Self { records, layout, kinds: kinds.into() }
    }

    /// The value that a version of a record has; one in eight is null.
    pub fn value(id: u64, version: Version) -> Value<'static> {
        let hash = (id + 1).wrapping_mul(0x9e37_79b9).wrapping_add(version.stamp() as u64).wrapping_mul(0x85eb_ca6b);
        match (hash >> 16) % 80 {
            value if value < 70 => Value::Int(value as i64),
            _ => Value::Null,
        }
    }
}

impl Workload for Toy {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, _spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        Err("the simulation makes its own operations".into())
    }

    fn truth(&self) -> Option<&dyn Truth> {
        Some(self)
    }

    fn record_count(&self) -> u64 {
        self.records
    }

    fn record_bytes(&self) -> u64 {
        24
    }
}

impl Truth for Toy {
    fn record_id(&self, key: Value<'_>) -> Option<u64> {
        match key {
            Value::Int(key) => u64::try_from(key).ok().filter(|id| *id < self.records),
            _ => None,
        }
    }

    fn version(&self, row: Values<'_>) -> Option<Version> {
        match row.get(2) {
            Value::Int(stamp) => Version::from_stamp(stamp),
            _ => None,
        }
    }

    fn row(&self, id: u64, version: Version, row: &mut ValueBuf) {
        row.push(Value::Int(id as i64));
        row.push(Toy::value(id, version));
        row.push(Value::Int(version.stamp()));
    }
}
