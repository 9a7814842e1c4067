//! SQLite as a store, through the same doors that trials use.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod conforms;
mod phases;
mod place;
mod records;
mod sql;

use plimsoll_core::{
    Answer, BlockingSession, Collection, Durability, Field, Index, IndexMode, Layout, Op, OpKind, OpenOptions, Outcome,
    Params, Sessions, Target, Value, ValueBuf, ValueType,
};

/// A store in a directory of its own.
pub(crate) struct Fixture {
    pub(crate) store: plimsoll_lab::OpenStore,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn open() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::Private { data_dir: dir.path().to_owned(), said: false, log_dir: dir.path().to_owned() };
    let options = OpenOptions { target, params: Params::default(), run_id: "test".into(), waits: Default::default() };
    let store = plimsoll_lab::open(&*plimsoll_store_sqlite::kind(), options, &mut |_| {}).unwrap();
    Fixture { store, dir }
}

impl Fixture {
    pub(crate) fn sessions(
        &mut self,
        count: u32,
        durability: Durability,
        kinds: &[OpKind],
    ) -> Vec<Box<dyn BlockingSession>> {
        let Sessions::Blocking(mut sessions) = self.store.sessions(count, durability).unwrap() else {
            panic!("sqlite's sessions block");
        };
        for session in &mut sessions {
            session.prepare(kinds).unwrap();
        }
        sessions
    }

    pub(crate) fn session(&mut self, kinds: &[OpKind]) -> Box<dyn BlockingSession> {
        self.sessions(1, Durability::Buffered, kinds).remove(0)
    }
}

pub(crate) fn params(values: &[Value<'_>]) -> ValueBuf {
    let mut params = ValueBuf::new();
    for value in values {
        params.push(*value);
    }
    params
}

/// Runs an operation and returns its outcome and answer.
pub(crate) fn ask(session: &mut dyn BlockingSession, kind: u16, values: &[Value<'_>]) -> (Outcome, Answer) {
    let params = params(values);
    let mut answer = Answer::default();
    let outcome = session.execute(&Op::new(kind, params.values()), &mut answer);
    (outcome, answer)
}

/// Items with one field of every type, keyed by a text, with an index on `number`.
pub(crate) fn items(index: IndexMode) -> Layout {
    let field = |name: &str, value_type| Field { name: name.into(), value_type };
    let fields = vec![
        field("code", ValueType::Text),
        field("number", ValueType::Int),
        field("share", ValueType::Float),
        field("open", ValueType::Bool),
        field("order", ValueType::Bytes),
        field("at", ValueType::Timestamp),
    ];
    let collection = Collection { name: "items".into(), fields, key: 0, indexes: vec![Index { fields: vec![1] }] };
    Layout { collections: vec![collection], index, ..Layout::default() }
}
