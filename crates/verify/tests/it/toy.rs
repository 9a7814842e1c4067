//! A workload with every call there is, small enough that keys are fought over.

use plimsoll_core::{
    Access, Call, Collection, Field, Index, IndexMode, Layout, OpKind, RecordsCall, Stream, StreamSpec, Truth, Value,
    ValueBuf, ValueType, Values, Version, Workload,
};

pub const INSERT: u16 = 0;
pub const GET: u16 = 1;
pub const UPDATE: u16 = 2;
pub const DELETE: u16 = 3;
pub const FIND: u16 = 4;
pub const ALL: u16 = 5;

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
