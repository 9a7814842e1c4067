//! The `records` interface, however indexes are kept.

use plimsoll_core::{
    Access, BlockingSession, Call, Durability, IndexMode, OpKind, Outcome, RecordsCall, Value, ValueType,
};
use plimsoll_testkit::records::{COUNT, GET, INSERT, UPDATE, blocking, execute as ask, kinds, layout, record};

use crate::open;

const MODES: [IndexMode; 3] = [IndexMode::None, IndexMode::Own, IndexMode::Keyindex];

/// A session on an empty store, with whatever holds the store open.
fn each(index: IndexMode, test: impl FnOnce(&mut dyn BlockingSession)) {
    let mut fixture = open();
    let layout = layout(index);
    fixture.store.create(&layout).unwrap();
    let mut session = fixture.session(&kinds()[..8]);
    test(&mut *session);
    drop(session);
    let said = fixture.store.check_integrity().unwrap().unwrap();
    assert!(said.starts_with("integrity_check: ok"), "{said}");
    fixture.store.close().unwrap();
}

#[test]
fn an_integer_key_is_the_row_number() {
    let mut of_numbers = layout(IndexMode::Own);
    of_numbers.collections[0].fields[0].value_type = ValueType::Int;
    let mut fixture = open();
    fixture.store.create(&of_numbers).unwrap();
    let mut session = fixture.session(&kinds()[..8]);
    let mut row = record("", Some(7));
    row[0] = Value::Int(-3);
    assert_eq!(ask(&mut *session, INSERT, &row).0, Outcome::Ok);
    let (outcome, answer) = ask(&mut *session, INSERT, &row);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "SQLITE_CONSTRAINT_PRIMARYKEY"));
    assert_eq!(ask(&mut *session, GET, &[Value::Int(-3)]).1.values.values().get(1), Value::Int(7));
}

#[test]
fn what_is_of_the_wrong_type_is_refused() {
    for mode in MODES {
        each(mode, |session| {
            let mut wrong = record("a", None);
            wrong[1] = Value::Text("seven");
            let (outcome, answer) = ask(session, INSERT, &wrong);
            assert_eq!(outcome, Outcome::Rejected, "{answer:?}");
            assert!(!answer.code.is_empty() && !answer.message.is_empty(), "{answer:?}");
            // Half a record is no record.
            assert_eq!(ask(session, INSERT, &record("a", None)[..3]).0, Outcome::Rejected);
            assert_eq!(ask(session, INSERT, &[]).0, Outcome::Rejected);
            assert_eq!(ask(session, COUNT, &[]).1.rows, 0);
            assert_eq!(ask(session, UPDATE, &[Value::Text("a")]).0, Outcome::Rejected);
            assert_eq!(ask(session, 99, &[]).0, Outcome::Rejected);
        });
    }
}

#[test]
fn kinds_that_cannot_be_are_refused_when_prepared() {
    for mode in MODES {
        let mut fixture = open();
        fixture.store.create(&layout(mode)).unwrap();
        let kind = |call| OpKind { name: "odd".into(), call, params: vec![], keep_answer: true, step_of: None };
        for call in [
            Call::Records { collection: 3, call: RecordsCall::All },
            Call::Records { collection: 0, call: RecordsCall::Update { fields: vec![0] } },
            Call::Records { collection: 0, call: RecordsCall::Find { field: 9, access: Access::Scan } },
        ] {
            let mut sessions = blocking(&mut *fixture.store, 1, Durability::Durable, &[]);
            let error = sessions[0].prepare(&[kind(call)]).unwrap_err();
            assert!(error.what.contains("`odd`"), "{error}");
        }
    }
}
