//! The `records` interface, however indexes are kept.

use plimsoll_core::{
    Access, Answer, BlockingSession, Call, Durability, IndexMode, Layout, Op, OpKind, Outcome, RecordsCall, Value,
    ValueType,
};

use crate::{ask, items, open, params};

const INSERT: u16 = 0;
const GET: u16 = 1;
const UPDATE: u16 = 2;
const DELETE: u16 = 3;
const QUERY: u16 = 4;
const SCAN: u16 = 5;
const ALL: u16 = 6;
const COUNT: u16 = 7;

const MODES: [IndexMode; 3] = [IndexMode::None, IndexMode::Own, IndexMode::Keyindex];

fn kinds(layout: &Layout) -> Vec<OpKind> {
    let fields = &layout.collections[0].fields;
    let kind = |name: &str, call, params: Vec<ValueType>, keep_answer| OpKind {
        name: name.into(),
        call: Call::Records { collection: 0, call },
        params,
        keep_answer,
        step_of: None,
    };
    let find = |access| RecordsCall::Find { field: 1, access };
    let key = fields[0].value_type;
    vec![
        kind("insert", RecordsCall::Insert, fields.iter().map(|field| field.value_type).collect(), false),
        kind("get", RecordsCall::Get, vec![key], true),
        kind("update", RecordsCall::Update { fields: vec![1, 3] }, vec![key, ValueType::Int, ValueType::Bool], false),
        kind("delete", RecordsCall::Delete, vec![key], false),
        kind("query", find(Access::Indexed), vec![ValueType::Int; 2], true),
        kind("scan", find(Access::Scan), vec![ValueType::Int; 2], true),
        kind("all", RecordsCall::All, vec![], true),
        kind("count", RecordsCall::All, vec![], false),
    ]
}

fn item<'a>(code: &'a str, number: Value<'a>) -> [Value<'a>; 6] {
    [Value::Text(code), number, Value::Float(0.25), Value::Bool(true), Value::Bytes(b"\0x\xff"), Value::Timestamp(-5)]
}

/// A session on an empty store, with whatever holds the store open.
fn each(index: IndexMode, test: impl FnOnce(&mut dyn BlockingSession)) {
    let mut fixture = open();
    let layout = items(index);
    fixture.store.create(&layout).unwrap();
    let mut session = fixture.session(&kinds(&layout));
    test(&mut *session);
    drop(session);
    let said = fixture.store.check_integrity().unwrap().unwrap();
    assert!(said.starts_with("integrity_check: ok"), "{said}");
    fixture.store.close().unwrap();
}

fn codes(answer: &Answer) -> Vec<String> {
    let mut codes: Vec<String> = answer
        .row_iter()
        .map(|row| match row.get(0) {
            Value::Text(code) => code.to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    codes.sort();
    codes
}

#[test]
fn a_record_comes_back_as_it_went_in() {
    for mode in MODES {
        each(mode, |session| {
            let row = item("käse", Value::Int(i64::MIN));
            assert_eq!(ask(session, INSERT, &row).0, Outcome::Ok);
            let (outcome, answer) = ask(session, GET, &[Value::Text("käse")]);
            assert_eq!((outcome, answer.rows, answer.columns), (Outcome::Ok, 1, 6));
            assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), row);
            let nothing = [Value::Text(""), Value::Null, Value::Null, Value::Null, Value::Null, Value::Null];
            assert_eq!(ask(session, INSERT, &nothing).0, Outcome::Ok);
            let (_, answer) = ask(session, GET, &[Value::Text("")]);
            assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), nothing);
            assert_eq!(ask(session, GET, &[Value::Text("none")]).0, Outcome::NotFound);
        });
    }
}

#[test]
fn many_are_inserted_together_or_not_at_all() {
    for mode in MODES {
        each(mode, |session| {
            let mut rows = Vec::new();
            for code in ["a", "b", "c"] {
                rows.extend(item(code, Value::Int(1)));
            }
            assert_eq!(ask(session, INSERT, &rows).0, Outcome::Ok);
            let mut again = Vec::new();
            for code in ["d", "b", "e"] {
                again.extend(item(code, Value::Int(2)));
            }
            let (outcome, answer) = ask(session, INSERT, &again);
            assert_eq!(outcome, Outcome::Rejected);
            assert!(!answer.code.is_empty() && !answer.message.is_empty(), "{answer:?}");
            let (outcome, answer) = ask(session, INSERT, &item("a", Value::Int(3)));
            assert_eq!(outcome, Outcome::Rejected);
            if mode != IndexMode::Keyindex {
                assert_eq!(answer.code, "SQLITE_CONSTRAINT_PRIMARYKEY");
            }
            assert_eq!(codes(&ask(session, ALL, &[]).1), ["a", "b", "c"]);
            assert_eq!(codes(&ask(session, QUERY, &[Value::Int(1), Value::Int(2)]).1), ["a", "b", "c"]);
            // Half a record is no record.
            assert_eq!(ask(session, INSERT, &rows[..9]).0, Outcome::Rejected);
            assert_eq!(ask(session, INSERT, &[]).0, Outcome::Rejected);
            let (outcome, answer) = ask(session, COUNT, &[]);
            assert_eq!((outcome, answer.rows, answer.values.len()), (Outcome::Ok, 3, 0));
        });
    }
}

#[test]
fn changes_are_found_by_the_index_and_by_the_scan() {
    for mode in MODES {
        each(mode, |session| {
            for number in 0..20 {
                ask(session, INSERT, &item(&format!("k{number:02}"), Value::Int(number)));
            }
            let update = [Value::Text("k19"), Value::Int(-1), Value::Bool(false)];
            assert_eq!(ask(session, UPDATE, &update).0, Outcome::Ok);
            assert_eq!(ask(session, UPDATE, &[Value::Text("k05"), Value::Null, Value::Null]).0, Outcome::Ok);
            assert_eq!(ask(session, UPDATE, &[Value::Text("x"), Value::Int(1), Value::Null]).0, Outcome::NotFound);
            assert_eq!(ask(session, DELETE, &[Value::Text("k01")]).0, Outcome::Ok);
            assert_eq!(ask(session, DELETE, &[Value::Text("k01")]).0, Outcome::NotFound);
            for kind in [QUERY, SCAN] {
                let find = |session: &mut dyn BlockingSession, low, high| codes(&ask(session, kind, &[low, high]).1);
                assert_eq!(find(session, Value::Int(0), Value::Int(4)), ["k00", "k02", "k03"]);
                assert_eq!(find(session, Value::Null, Value::Int(1)), ["k00", "k19"]);
                assert_eq!(find(session, Value::Int(17), Value::Null), ["k17", "k18"]);
                assert_eq!(find(session, Value::Null, Value::Null).len(), 18);
                assert_eq!(find(session, Value::Int(4), Value::Int(4)), [""; 0]);
            }
            let (_, answer) = ask(session, GET, &[Value::Text("k19")]);
            assert_eq!(answer.values.values().get(3), Value::Bool(false));
            assert_eq!(answer.values.values().get(4), Value::Bytes(b"\0x\xff"));
        });
    }
}

#[test]
fn an_integer_key_is_the_row_number() {
    let mut layout = items(IndexMode::Own);
    layout.collections[0].fields[0].value_type = ValueType::Int;
    let mut fixture = open();
    fixture.store.create(&layout).unwrap();
    let mut session = fixture.session(&kinds(&layout));
    let mut row = item("", Value::Int(7));
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
            let (outcome, answer) = ask(session, INSERT, &item("a", Value::Text("seven")));
            assert_eq!(outcome, Outcome::Rejected, "{answer:?}");
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
        fixture.store.create(&items(mode)).unwrap();
        let kind = |call| OpKind { name: "odd".into(), call, params: vec![], keep_answer: true, step_of: None };
        for call in [
            Call::Records { collection: 3, call: RecordsCall::All },
            Call::Records { collection: 0, call: RecordsCall::Update { fields: vec![0] } },
            Call::Records { collection: 0, call: RecordsCall::Find { field: 9, access: Access::Scan } },
        ] {
            let plimsoll_core::Sessions::Blocking(mut sessions) =
                fixture.store.sessions(1, Durability::Durable).unwrap()
            else {
                panic!("sqlite's sessions block");
            };
            let error = sessions[0].prepare(&[kind(call)]).unwrap_err();
            assert!(error.what.contains("`odd`"), "{error}");
        }
    }
}

#[test]
fn clients_that_write_at_a_time_take_turns() {
    const CLIENTS: u32 = 8;
    const EACH: i64 = 12;
    for mode in MODES {
        let mut fixture = open();
        let layout = items(mode);
        fixture.store.create(&layout).unwrap();
        let sessions = fixture.sessions(CLIENTS, Durability::Durable, &kinds(&layout));
        std::thread::scope(|scope| {
            for (client, mut session) in sessions.into_iter().enumerate() {
                scope.spawn(move || {
                    for number in 0..EACH {
                        let code = format!("{client}-{number}");
                        let row = params(&item(&code, Value::Int(number)));
                        let mut answer = Answer::default();
                        let outcome = session.execute(&Op::new(INSERT, row.values()), &mut answer);
                        assert_eq!(outcome, Outcome::Ok, "{answer:?}");
                        let update = [Value::Text(code.as_str()), Value::Int(-number), Value::Bool(false)];
                        assert_eq!(ask(&mut *session, UPDATE, &update).0, Outcome::Ok);
                        // Readers do not wait for writers.
                        assert_eq!(ask(&mut *session, QUERY, &[Value::Null, Value::Int(0)]).0, Outcome::Ok);
                    }
                });
            }
        });
        let mut session = fixture.session(&kinds(&layout));
        assert_eq!(ask(&mut *session, COUNT, &[]).1.rows, u64::from(CLIENTS) * EACH as u64);
        let below = ask(&mut *session, QUERY, &[Value::Null, Value::Int(0)]).1;
        assert_eq!(below.rows, u64::from(CLIENTS) * (EACH as u64 - 1));
        drop(session);
        fixture.store.check_integrity().unwrap();
    }
}
