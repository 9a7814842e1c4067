//! Records of one collection, the operations on them, and blocking sessions that are asked without the drive loop.

use plimsoll_core::{
    Access, Answer, BlockingSession, Call, Collection, Durability, Field, Index, IndexMode, Layout, Op, OpKind,
    Outcome, RecordsCall, Sessions, Store, Value, ValueType,
};

use crate::wire::values;

const TYPES: [ValueType; 6] =
    [ValueType::Text, ValueType::Int, ValueType::Float, ValueType::Bool, ValueType::Bytes, ValueType::Timestamp];

/// Kinds of [`kinds`], by position.
pub const INSERT: u16 = 0;
/// Reads one record.
pub const GET: u16 = 1;
/// Sets `count` and `body` of one record.
pub const UPDATE: u16 = 2;
/// Deletes one record.
pub const DELETE: u16 = 3;
/// Finds a range of `count` by reading all records.
pub const SCAN: u16 = 4;
/// Finds a range of `count` by its index.
pub const FIND: u16 = 5;
/// Reads all records.
pub const ALL: u16 = 6;
/// Reads all records and keeps none.
pub const COUNT: u16 = 7;
/// Asks nothing.
pub const NOTHING: u16 = 8;

/// Returns the operation types of records of [`layout`].
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
        OpKind { call: Call::Nothing, ..kind("nothing", RecordsCall::All, &[]) },
    ]
}

/// Returns the values of a record of [`layout`].
pub fn record(code: &str, count: Option<i64>) -> [Value<'_>; 6] {
    let count = count.map_or(Value::Null, Value::Int);
    let (body, made) = (Value::Bytes(b"\0\xff'"), Value::Timestamp(1_700_000_000_123_456));
    [Value::Text(code), count, Value::Float(0.1), Value::Bool(true), body, made]
}

/// Returns the values of a batch of records, numbered from 0 in `count`.
pub fn batch(names: &[String]) -> Vec<Value<'_>> {
    names.iter().zip(0..).flat_map(|(name, number)| record(name, Some(number))).collect()
}

/// Returns an operation type on records of the first collection, with answers kept.
pub fn kind(name: &str, call: RecordsCall, params: &[ValueType]) -> OpKind {
    let call = Call::Records { collection: 0, call };
    OpKind { name: name.into(), call, params: params.to_vec(), keep_answer: true, step_of: None }
}

/// Returns a collection with a field of every type, and an index on the number.
pub fn layout(index: IndexMode) -> Layout {
    let field = |name: &str, value_type| Field { name: name.into(), value_type };
    Layout {
        collections: vec![Collection {
            name: "items".into(),
            fields: vec![
                field("code", ValueType::Text),
                field("count", ValueType::Int),
                field("ratio", ValueType::Float),
                field("live", ValueType::Bool),
                field("body", ValueType::Bytes),
                field("made", ValueType::Timestamp),
            ],
            key: 0,
            indexes: vec![Index { fields: vec![1] }],
        }],
        index,
        ..Layout::default()
    }
}

/// Opens blocking sessions of `store` with `kinds`.
///
/// # Panics
/// If there are none.
pub fn blocking(
    store: &mut dyn Store,
    count: u32,
    durability: Durability,
    kinds: &[OpKind],
) -> Vec<Box<dyn BlockingSession>> {
    let sessions = store.sessions(count, durability).expect("sessions");
    let Sessions::Blocking(mut sessions) = sessions else { panic!("they are {:?}", sessions.shape()) };
    sessions.iter_mut().for_each(|session| session.prepare(kinds).expect("prepared"));
    sessions
}

/// Runs one operation of a blocking session.
pub fn execute(session: &mut dyn BlockingSession, kind: u16, params: &[Value<'_>]) -> (Outcome, Answer) {
    let (params, mut answer) = (values(params), Answer::default());
    (session.execute(&Op::new(kind, params.values()), &mut answer), answer)
}
