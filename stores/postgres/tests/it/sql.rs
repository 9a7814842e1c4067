//! The sql interface.

use plimsoll_core::{Layout, Outcome, StoreErrorKind, Value, ValueType};

use crate::fixture::{Server, SqlServer as _, ask, sql};

#[test]
fn statements_of_this_server() {
    plimsoll_testkit::steps!(
        parameters_take_the_types_the_server_says,
        a_statement_that_leaves_a_transaction_open_ends_the_session,
        a_copy_ends_the_session,
        an_error_at_commit_is_a_rejection,
        an_answer_has_a_bound,
    );
}

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

fn a_statement_that_leaves_a_transaction_open_ends_the_session() {
    let server = Server::start();
    let mut connection = server.open(&Layout::default(), &[sql("begin", "BEGIN", &[])]).unwrap();
    assert_eq!(ask(&mut connection, 0, &[]).0, Outcome::Unknown);
    assert!(!connection.is_ready());
}

fn a_copy_ends_the_session() {
    let server = Server::start();
    server.control().simple("CREATE TABLE t (n int)").unwrap();
    let mut connection = server.open(&Layout::default(), &[sql("copy", "COPY t FROM STDIN", &[])]).unwrap();
    let (outcome, answer) = ask(&mut connection, 0, &[]);
    assert_eq!(outcome, Outcome::Unknown);
    assert!(answer.message.contains("COPY"), "{}", answer.message);
}

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

fn an_answer_has_a_bound() {
    let server = Server::start();
    let kinds = [sql("everything", "SELECT repeat('x', 1000000) FROM generate_series(1, 300)", &[])];
    let mut connection = server.open(&Default::default(), &kinds).expect("connected");
    let (outcome, answer) = ask(&mut connection, 0, &[]);
    assert_eq!(outcome, Outcome::Unknown, "it may have happened");
    assert!(answer.message.contains("at most 268435456 are kept of an answer (--answer-max)"), "{}", answer.message);
    assert_eq!(connection.simple("SELECT 1").expect_err("it has ended").kind, StoreErrorKind::Usage);
}
