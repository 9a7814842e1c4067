//! The `sql` interface.

use plimsoll_core::{Call, Durability, Layout, OpKind, Outcome, Value};

use plimsoll_testkit::records::{blocking, execute as ask};

use crate::open;

fn kind(sql: &str) -> OpKind {
    OpKind::new("statement", Call::Sql(sql.into()), &[]).kept()
}

#[test]
fn statements_are_asked_with_their_parameters() {
    let mut fixture = open();
    let statements = vec![
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)".into(),
        "INSERT INTO t VALUES (1, 'x'), (2, NULL)".into(),
    ];
    fixture.store.create(&Layout { statements, ..Layout::default() }).unwrap();
    let kinds = [
        kind("SELECT b, a FROM t WHERE a >= $2 AND a < $1 ORDER BY a"),
        kind("INSERT INTO t (a, b) VALUES ($1, $2)"),
        kind("INSERT INTO t (a, b) VALUES ($1, $2) RETURNING a * 0.5, b"),
    ];
    let mut session = fixture.session(&kinds);
    let session = &mut *session;
    let (outcome, answer) = ask(session, 0, &[Value::Int(9), Value::Int(1)]);
    assert_eq!((outcome, answer.rows, answer.columns), (Outcome::Ok, 2, 2));
    let wanted = [Value::Text("x"), Value::Int(1), Value::Null, Value::Int(2)];
    assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), wanted);
    assert_eq!(ask(session, 1, &[Value::Int(3), Value::Text("y")]).0, Outcome::Ok);
    let (outcome, answer) = ask(session, 1, &[Value::Int(3), Value::Text("y")]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "SQLITE_CONSTRAINT_PRIMARYKEY"));
    let (_, answer) = ask(session, 2, &[Value::Int(5), Value::Bytes(b"\xff")]);
    assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), [Value::Float(2.5), Value::Bytes(b"\xff")]);
    let text = OpKind { call: Call::SqlText, ..kind("") };
    session.prepare(&[text]).unwrap();
    let (outcome, answer) = ask(session, 0, &[Value::Text("SELECT b FROM t WHERE a = 1")]);
    assert_eq!((outcome, answer.values.values().get(0)), (Outcome::Ok, Value::Text("x")));
    let (outcome, answer) = ask(session, 0, &[Value::Text("SELECT c FROM t")]);
    assert_eq!((outcome, answer.message.contains("no such column: c")), (Outcome::Rejected, true));
}

#[test]
fn an_answer_to_nothing_is_no_error_and_a_missing_parameter_is() {
    let mut fixture = open();
    let statements = vec!["CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)".into()];
    fixture.store.create(&Layout { statements, ..Layout::default() }).unwrap();
    let mut session = fixture.session(&[kind("SELECT b, a FROM t WHERE a >= $2 AND a < $1 ORDER BY a")]);
    let session = &mut *session;
    assert_eq!(ask(session, 0, &[Value::Int(0), Value::Int(0)]).0, Outcome::Ok);
    assert_eq!(ask(session, 0, &[Value::Int(0)]).0, Outcome::Rejected);
}

#[test]
fn a_statement_that_is_none_is_refused_with_sqlites_words() {
    let mut fixture = open();
    let bad = Layout { statements: vec!["CREATE TABEL t (a)".into()], ..Layout::default() };
    let error = fixture.store.create(&bad).unwrap_err();
    assert_eq!(error.what, "sqlite: cannot make the layout at `CREATE TABEL t (a)`");
    assert!(error.detail.unwrap().contains("near \"TABEL\""));
    let mut sessions = blocking(&mut *fixture.store, 1, Durability::Durable, &[]);
    let error = sessions[0].prepare(&[kind("SELECT a FROM nowhere")]).unwrap_err();
    assert!(error.to_string().contains("no such table: nowhere"), "{error}");
}
