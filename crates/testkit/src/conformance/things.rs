//! The collections that are asked of a store, and a model of them.

use std::collections::BTreeMap;

use plimsoll_core::{
    Access, Call, Collection, Field, Index, IndexMode, Layout, OpKind, Outcome, RecordsCall, Value, ValueType,
};
use plimsoll_workload::scramble::hash;

use super::Subject;
use crate::ask::{Reply, Script, ask};
use crate::owned::{Owned, Row, row};

/// Fields of a thing. Those up to `at` have an index.
pub(super) const FIELDS: [(&str, ValueType); 9] = [
    ("key", ValueType::Text),
    ("flag", ValueType::Bool),
    ("count", ValueType::Int),
    ("ratio", ValueType::Float),
    ("label", ValueType::Text),
    ("blob", ValueType::Bytes),
    ("at", ValueType::Timestamp),
    ("note", ValueType::Text),
    ("data", ValueType::Bytes),
];
pub(super) const INDEXED: std::ops::RangeInclusive<u16> = 1..=6;
pub(super) const COUNT: u16 = 2;
pub(super) const NOTE: u16 = 7;

pub(super) const INSERT: u16 = 0;
pub(super) const GET: u16 = 1;
pub(super) const UPDATE: u16 = 2;
pub(super) const DELETE: u16 = 3;
pub(super) const ALL: u16 = 4;
pub(super) const COUNT_ROWS: u16 = 5;
const FINDS: u16 = 6;

/// The kind that finds by `field`.
pub(super) fn find(field: u16, access: Access) -> u16 {
    FINDS + 2 * (field - INDEXED.start()) + u16::from(access == Access::Scan)
}

pub(super) fn kind(name: String, collection: u16, call: RecordsCall, params: Vec<ValueType>) -> OpKind {
    OpKind { name, call: Call::Records { collection, call }, params, keep_answer: true, step_of: None }
}

/// The kinds that are asked, by position.
pub(super) fn kinds() -> Vec<OpKind> {
    let of = |field: u16| FIELDS[usize::from(field)].1;
    let key = of(0);
    let update = RecordsCall::Update { fields: vec![COUNT, NOTE] };
    let count = RecordsCall::Find { field: COUNT, access: Access::Scan };
    let mut kinds = vec![
        kind("insert".into(), 0, RecordsCall::Insert, FIELDS.map(|(_, value_type)| value_type).to_vec()),
        kind("get".into(), 0, RecordsCall::Get, vec![key]),
        kind("update".into(), 0, update, vec![key, of(COUNT), of(NOTE)]),
        kind("delete".into(), 0, RecordsCall::Delete, vec![key]),
        kind("all".into(), 0, RecordsCall::All, Vec::new()),
        OpKind { keep_answer: false, ..kind("count".into(), 0, count, vec![of(COUNT), of(COUNT)]) },
    ];
    for field in INDEXED {
        for access in [Access::Indexed, Access::Scan] {
            let name = format!("find_{}_{}", FIELDS[usize::from(field)].0, u8::from(access == Access::Scan));
            kinds.push(kind(name, 0, RecordsCall::Find { field, access }, vec![of(field); 2]));
        }
    }
    kinds
}

pub(super) fn layout(mode: IndexMode) -> Layout {
    let fields = FIELDS.map(|(name, value_type)| Field { name: name.into(), value_type });
    let things = Collection {
        name: "things".into(),
        fields: fields.into(),
        key: 0,
        indexes: INDEXED.map(|field| Index { fields: vec![field] }).collect(),
    };
    Layout { collections: vec![things], index: mode, ..Layout::default() }
}

/// The things that a store should hold.
#[derive(Default)]
pub(super) struct Model(pub BTreeMap<String, Row>);

impl Model {
    /// `count` things at random, whose keys begin with `name`.
    pub fn random(name: &str, count: u64, seed: u64) -> Self {
        let thing = |number| {
            let key = format!("{name}-{:08x}", hash(seed, number, 99) as u32 ^ number as u32);
            (key.clone(), random_thing(key, hash(seed, number, 0)))
        };
        Self((0..count).map(thing).collect())
    }

    pub fn rows(&self) -> Vec<&Row> {
        self.0.values().collect()
    }

    /// The things that match, in the order of their keys.
    pub fn matching(&self, field: u16, low: &Owned, high: &Owned) -> Vec<&Row> {
        self.0.values().filter(|row| row[usize::from(field)].value().lies_in(low.value(), high.value())).collect()
    }

    /// Adds inserts of all things to `script`, `batch` to an operation.
    pub fn insert(&self, script: &mut Script, batch: usize) {
        for rows in self.rows().chunks(batch) {
            script.op(INSERT, rows.iter().flat_map(|row| row.iter().map(Owned::value)));
        }
    }
}

/// A thing at random: small ranges, so that bounds fall between and upon values; one value in eight is null.
fn random_thing(key: String, seed: u64) -> Row {
    let draw = |salt: u64, n: u64| hash(seed, salt, 1) % n;
    let mut row = vec![Owned::Text(key.into())];
    for (field, (_, value_type)) in FIELDS.iter().enumerate().skip(1) {
        let salt = field as u64;
        if draw(salt, 8) == 0 {
            row.push(Owned::Null);
            continue;
        }
        let number = draw(100 + salt, 40) as i64 - 20;
        row.push(match value_type {
            ValueType::Bool => Owned::Bool(number > 0),
            ValueType::Int => Owned::Int(number * 1_000_003),
            ValueType::Float => Owned::Float((number as f64 + 0.5) * 1.5),
            ValueType::Timestamp => Owned::Timestamp(number * 1_000_000_007),
            ValueType::Text => Owned::Text(
                LETTERS[(number + 20) as usize % LETTERS.len()].repeat(1 + draw(200 + salt, 3) as usize).into(),
            ),
            ValueType::Bytes => {
                Owned::Bytes((0..draw(200 + salt, 4)).map(|place| draw(300 + salt + place, 3) as u8 * 127).collect())
            }
        });
    }
    row
}

/// Texts whose order is another in most languages than by their bytes.
const LETTERS: [&str; 8] = ["a", "B", "b", "ä", "Z", "_", "z'", "%"];

/// Makes the layout and asks `script`.
pub(super) fn made_and_asked(
    subject: &mut Subject<'_>,
    mode: IndexMode,
    script: &Script,
) -> Result<Vec<Reply>, String> {
    subject.store.create(&layout(mode)).map_err(|error| format!("create: {error}"))?;
    asked(subject, script)
}

/// Asks `script`.
pub(super) fn asked(subject: &mut Subject<'_>, script: &Script) -> Result<Vec<Reply>, String> {
    let durability = subject.durability();
    ask(&mut *subject.store, &kinds(), durability, script)
}

/// Holds a reply against the outcome it should have.
pub(super) fn came_to(reply: &Reply, outcome: Outcome, what: &str) -> Result<(), String> {
    if reply.outcome == outcome {
        return Ok(());
    }
    let said = match reply.answer.message.as_str() {
        "" => String::new(),
        message => format!(" ({message})"),
    };
    Err(format!("{what} came to {:?}{said}, not to {outcome:?}", reply.outcome))
}

/// Holds all replies against the outcome they should have.
pub(super) fn all_came_to(replies: &[Reply], outcome: Outcome, what: &str) -> Result<(), String> {
    replies.iter().try_for_each(|reply| came_to(reply, outcome, what))
}

/// Holds the rows of an answer, in any order, against those expected.
pub(super) fn gave(reply: &Reply, expected: &[&Row], what: &str) -> Result<(), String> {
    came_to(reply, Outcome::Ok, what)?;
    let mut got: Vec<Row> = reply.answer.row_iter().map(row).collect();
    got.sort();
    let mut expected: Vec<&Row> = expected.to_vec();
    expected.sort();
    if reply.answer.rows != got.len() as u64 {
        return Err(format!("{what}: {} rows counted, {} given", reply.answer.rows, got.len()));
    }
    let differs = |(got, expected): &(&Row, &&Row)| got != *expected;
    if let Some((got, expected)) = got.iter().zip(&expected).find(differs) {
        return Err(format!("{what}: expected {}, got {}", brief(expected), brief(got)));
    }
    if got.len() != expected.len() {
        return Err(format!("{what}: {} rows expected, {} given", expected.len(), got.len()));
    }
    Ok(())
}

/// A row for a message: long values cut.
fn brief(row: &Row) -> String {
    let text = format!("{row:?}");
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A text as a parameter.
pub(super) fn text(value: &str) -> Value<'_> {
    Value::Text(value)
}
