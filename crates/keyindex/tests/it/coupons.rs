//! The collection that the tests keep: coupons, their operations, and a model of them.

use std::collections::BTreeMap;

use plimsoll_core::{
    Access, Answer, BlockingSession, Call, Collection, Field, Index, IndexMode, Layout, Op, OpKind, Outcome,
    RecordsCall, Value, ValueBuf, ValueType,
};
use plimsoll_keyindex::records::{Records, RecordsSession};
use proptest::prelude::*;

use crate::mem_kv::MemKv;

pub const INSERT: u16 = 0;
pub const GET: u16 = 1;
pub const SET_USED: u16 = 2;
pub const SET_NOTE_AND_USED: u16 = 3;
pub const DELETE: u16 = 4;
pub const SCAN: u16 = 5;
pub const INDEXED: u16 = 6;
pub const ALL: u16 = 7;
pub const COUNT: u16 = 8;
pub const NOTHING: u16 = 9;
pub const BY_NOTE: u16 = 10;

/// Coupons: code (key), times used, note, since. Indexes by use, and by note and use.
pub fn layout(index: IndexMode) -> Layout {
    let field = |name: &str, value_type| Field { name: name.into(), value_type };
    let fields = vec![
        field("note", ValueType::Text),
        field("code", ValueType::Text),
        field("used", ValueType::Int),
        field("since", ValueType::Timestamp),
    ];
    let coupons = Collection {
        name: "coupons".into(),
        fields,
        key: 1,
        indexes: vec![Index { fields: vec![2] }, Index { fields: vec![0, 2] }],
    };
    let other = Collection { name: "other".into(), ..coupons.clone() };
    Layout { collections: vec![other, coupons], index, ..Layout::default() }
}

pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call, keep_answer| OpKind {
        name: name.into(),
        call: Call::Records { collection: 1, call },
        params: Vec::new(),
        keep_answer,
        step_of: None,
    };
    vec![
        kind("insert", RecordsCall::Insert, false),
        kind("get", RecordsCall::Get, true),
        kind("use", RecordsCall::Update { fields: vec![2] }, false),
        kind("note and use", RecordsCall::Update { fields: vec![0, 2] }, false),
        kind("delete", RecordsCall::Delete, false),
        kind("scan", RecordsCall::Find { field: 2, access: Access::Scan }, true),
        kind("indexed", RecordsCall::Find { field: 2, access: Access::Indexed }, true),
        kind("all", RecordsCall::All, true),
        kind("count", RecordsCall::Find { field: 2, access: Access::Indexed }, false),
        OpKind { name: "nothing".into(), call: Call::Nothing, params: Vec::new(), keep_answer: false, step_of: None },
        kind("by note", RecordsCall::Find { field: 0, access: Access::Indexed }, true),
    ]
}

pub fn session(mode: IndexMode) -> RecordsSession<MemKv> {
    session_on(&MemKv::atomic(), &Records::new(&layout(mode)).unwrap())
}

pub fn session_on(kv: &MemKv, records: &Records) -> RecordsSession<MemKv> {
    let mut session = records.session(kv.clone());
    session.prepare(&kinds()).unwrap();
    session
}

pub type Row = (Option<String>, String, Option<i64>, Option<i64>);

pub fn coupon(note: Option<&str>, code: &str, used: i64) -> Row {
    (note.map(str::to_owned), code.into(), Some(used), None)
}

pub fn run(session: &mut dyn BlockingSession, kind: u16, params: &[Value<'_>]) -> (Outcome, Answer) {
    let (mut buf, mut answer) = (ValueBuf::new(), Answer::default());
    params.iter().for_each(|value| buf.push(*value));
    let outcome = session.execute(&Op::new(kind, buf.values()), &mut answer);
    (outcome, answer)
}

pub fn values(row: &Row) -> [Value<'_>; 4] {
    [
        row.0.as_deref().map_or(Value::Null, Value::Text),
        Value::Text(&row.1),
        row.2.map_or(Value::Null, Value::Int),
        row.3.map_or(Value::Null, Value::Timestamp),
    ]
}

pub fn rows(answer: &Answer) -> Vec<Row> {
    let text = |value| if let Value::Text(text) = value { Some(text.to_owned()) } else { None };
    let number = |value| match value {
        Value::Int(number) | Value::Timestamp(number) => Some(number),
        _ => None,
    };
    let mut rows: Vec<Row> = answer
        .row_iter()
        .map(|row| (text(row.get(0)), text(row.get(1)).unwrap(), number(row.get(2)), number(row.get(3))))
        .collect();
    rows.sort();
    assert_eq!(answer.rows, rows.len() as u64);
    rows
}

pub fn some_row() -> impl Strategy<Value = Row> {
    let note = prop::option::of(prop::sample::select(vec!["", "a", "a\0b", "b"]).prop_map(str::to_owned));
    let code = prop::sample::select(vec!["", "\0", "c1", "c2", "c3", "\u{ff}"]).prop_map(str::to_owned);
    (note, code, prop::option::weighted(0.8, -3..4i64), prop::option::of(any::<i64>()))
}

/// Expected records, by their codes.
pub type Model = BTreeMap<String, Row>;

/// All of them, sorted.
pub fn everything(model: &Model) -> Vec<Row> {
    let mut all: Vec<_> = model.values().cloned().collect();
    all.sort();
    all
}

/// A write, for a session and for the model.
#[derive(Debug, Clone)]
pub enum Write {
    Insert(Vec<Row>),
    Use(Row),
    NoteAndUse(Row),
    Delete(String),
}

pub fn some_write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => prop::collection::vec(some_row(), 1..4).prop_map(Write::Insert),
        2 => some_row().prop_map(Write::Use),
        2 => some_row().prop_map(Write::NoteAndUse),
        1 => some_row().prop_map(|row| Write::Delete(row.1)),
    ]
}

impl Write {
    pub fn to_store(&self, session: &mut dyn BlockingSession) -> (Outcome, Answer) {
        match self {
            Write::Insert(all) => run(session, INSERT, &all.iter().flat_map(values).collect::<Vec<_>>()),
            Write::Use(row) => run(session, SET_USED, &[values(row)[1], values(row)[2]]),
            Write::NoteAndUse(row) => {
                run(session, SET_NOTE_AND_USED, &[values(row)[1], values(row)[0], values(row)[2]])
            }
            Write::Delete(code) => run(session, DELETE, &[Value::Text(code)]),
        }
    }

    /// Returns the outcome that it should have.
    pub fn to_model(&self, model: &mut Model) -> Outcome {
        let there = match self {
            Write::Insert(all) => {
                let mut inserted = model.clone();
                if all.iter().any(|row| inserted.insert(row.1.clone(), row.clone()).is_some()) {
                    return Outcome::Rejected;
                }
                *model = inserted;
                true
            }
            Write::Use(row) => model.get_mut(&row.1).map(|kept| kept.2 = row.2).is_some(),
            Write::NoteAndUse(row) => {
                model.get_mut(&row.1).map(|kept| (kept.0, kept.2) = (row.0.clone(), row.2)).is_some()
            }
            Write::Delete(code) => model.remove(code).is_some(),
        };
        if there { Outcome::Ok } else { Outcome::NotFound }
    }
}

/// A question about uses or notes, from the one bound to below the other.
#[derive(Debug, Clone)]
pub enum Question {
    Used(Option<i64>, Option<i64>),
    Note(Option<String>, Option<String>),
}

pub fn some_question() -> impl Strategy<Value = Question> {
    let used = || prop::option::of(-3..4i64);
    let note = || some_row().prop_map(|row| row.0);
    prop_oneof![
        2 => (used(), used()).prop_map(|(low, high)| Question::Used(low, high)),
        1 => (note(), note()).prop_map(|(low, high)| Question::Note(low, high)),
    ]
}

impl Question {
    pub fn bounds(&self) -> [Value<'_>; 2] {
        match self {
            Question::Used(low, high) => [*low, *high].map(|bound| bound.map_or(Value::Null, Value::Int)),
            Question::Note(low, high) => [low, high].map(|bound| bound.as_deref().map_or(Value::Null, Value::Text)),
        }
    }

    /// The operation that asks it of an index.
    pub fn kind(&self) -> u16 {
        if matches!(self, Question::Used(..)) { INDEXED } else { BY_NOTE }
    }

    /// The right answer, sorted.
    pub fn answer(&self, model: &Model) -> Vec<Row> {
        fn within<T: PartialOrd>(value: Option<&T>, low: Option<&T>, high: Option<&T>) -> bool {
            value.is_some_and(|value| low.is_none_or(|low| low <= value) && high.is_none_or(|high| value < high))
        }
        let matches = |row: &&Row| match self {
            Question::Used(low, high) => within(row.2.as_ref(), low.as_ref(), high.as_ref()),
            Question::Note(low, high) => within(row.0.as_ref(), low.as_ref(), high.as_ref()),
        };
        everything(model).into_iter().filter(|row| matches(&row)).collect()
    }
}
