//! The sql interface.

use plimsoll_core::{Layout, Outcome, StoreErrorKind, Value, ValueType};

use crate::fixture::{Server, ask, sql};

#[test]
fn parameters_take_the_types_the_server_says() {
    let server = Server::start();
    server
        .control()
        .simple("CREATE TABLE t (small int2, mid int4, price numeric, day date, name varchar(20))")
        .unwrap();
    let types = [ValueType::Int, ValueType::Int, ValueType::Float, ValueType::Timestamp, ValueType::Text];
    let kinds = [
        sql("put", "INSERT INTO t VALUES ($1, $2, $3, $4, $5)", &types),
        sql("get", "SELECT *, 1.5::float4, 7::oid, NULL::int FROM t WHERE mid = $1", &[ValueType::Int]),
    ];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    let row =
        [Value::Int(-3), Value::Int(70_000), Value::Float(0.25), Value::Timestamp(86_400_000_000), Value::Text("x")];
    assert_eq!(ask(&mut connection, 0, &row).0, Outcome::Ok);
    let (outcome, answer) = ask(&mut connection, 1, &row[1..2]);
    assert_eq!(outcome, Outcome::Ok);
    let expected = [
        Value::Int(-3),
        Value::Int(70_000),
        Value::Text("0.25"),
        Value::Text("1970-01-02"),
        Value::Text("x"),
        Value::Float(1.5),
        Value::Int(7),
        Value::Null,
    ];
    assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), expected);

    let too_large = [Value::Int(40_000), row[1], row[2], row[3], row[4]];
    let (outcome, answer) = ask(&mut connection, 0, &too_large);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "22003"), "{}", answer.message);
    assert_eq!(ask(&mut connection, 1, &row[1..2]).1.rows, 1, "the session goes on after a rejection");
}

#[test]
fn a_statement_that_cannot_be_prepared_is_named() {
    let server = Server::start();
    let wrong = |text: &str, params: &[ValueType]| {
        let Err(error) = server.open(&Layout::default(), &[sql("bad", text, params)]) else { panic!("{text} passed") };
        error
    };
    let syntax = wrong("SELEC 1", &[]);
    assert_eq!(syntax.kind, StoreErrorKind::Usage);
    assert!(syntax.what.contains("SELEC 1"), "{syntax}");
    assert!(syntax.detail.unwrap().contains("42601"));
    assert_eq!(wrong("SELECT 1 FROM nowhere", &[]).kind, StoreErrorKind::Usage);
    let count = wrong("SELECT $1::int + $2::int", &[ValueType::Int]);
    assert!(count.what.contains("declares 1 parameters and its statement takes 2"), "{count}");
}

#[test]
fn a_statement_that_leaves_a_transaction_open_ends_the_session() {
    let server = Server::start();
    let mut connection = server.open(&Layout::default(), &[sql("begin", "BEGIN", &[])]).unwrap();
    assert_eq!(ask(&mut connection, 0, &[]).0, Outcome::Unknown);
    assert!(!connection.is_ready());
}

#[test]
fn a_copy_ends_the_session() {
    let server = Server::start();
    server.control().simple("CREATE TABLE t (n int)").unwrap();
    let mut connection = server.open(&Layout::default(), &[sql("copy", "COPY t FROM STDIN", &[])]).unwrap();
    let (outcome, answer) = ask(&mut connection, 0, &[]);
    assert_eq!(outcome, Outcome::Unknown);
    assert!(answer.message.contains("COPY"), "{}", answer.message);
}

#[test]
fn an_error_at_commit_is_a_rejection() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE TABLE t (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)").unwrap();
    let mut connection =
        server.open(&Layout::default(), &[sql("put", "INSERT INTO t VALUES ($1)", &[ValueType::Int])]).unwrap();
    assert_eq!(ask(&mut connection, 0, &[Value::Int(1)]).0, Outcome::Ok);
    let (outcome, answer) = ask(&mut connection, 0, &[Value::Int(1)]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "23505"));
    assert_eq!(control.value("SELECT count(*) FROM t").unwrap(), "1");
}
