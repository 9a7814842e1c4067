//! The sql interface.

use plimsoll_core::{Call, Layout, OpKind, Outcome, Value, ValueType};

use crate::fixture::{Server, SqlServer as _, ask, sql};

#[test]
fn statements_of_this_server() {
    plimsoll_testkit::steps!(
        values_come_back_by_the_type_of_their_column,
        transactions_are_begun_ended_and_rolled_back,
        a_deadlock_is_rejected_with_its_number_and_so_is_a_lock_not_had_in_time,
        what_changes_its_columns_between_two_executions_is_read_as_it_is_then,
        a_procedures_answers_are_taken_to_the_end,
        long_values_go_and_come_in_several_packets,
    );
}

fn values_come_back_by_the_type_of_their_column() {
    let server = Server::start();
    server
        .control()
        .simple(
            "CREATE TABLE t (small SMALLINT, mid INT, big BIGINT UNSIGNED, tiny TINYINT UNSIGNED, yes BOOLEAN, \
             price DECIMAL(8,2), day DATE, clock TIME(3), at DATETIME(6), stamp TIMESTAMP(3) NULL, name VARCHAR(20), \
             raw VARBINARY(20), doc JSON, kind ENUM('a','b'), bits BIT(12), real4 FLOAT)",
        )
        .expect("a table");
    let put = "INSERT INTO t VALUES ($1, $2, 18446744073709551615, 200, $3, $4, $5, '-26:03:04.5', $5, $5, $6, $7, \
               '[1]', 'b', 258, 0.5)";
    let types = [
        ValueType::Int,
        ValueType::Int,
        ValueType::Bool,
        ValueType::Float,
        ValueType::Timestamp,
        ValueType::Text,
        ValueType::Bytes,
    ];
    let get = "SELECT *, NULL, 7 FROM t WHERE mid = $1 AND $1 = mid";
    let text = OpKind { call: Call::SqlText, ..sql("text", "", &[ValueType::Text]) };
    let kinds = [sql("put", put, &types), sql("get", get, &[ValueType::Int]), text];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    let row = [
        Value::Int(-3),
        Value::Int(70_000),
        Value::Bool(true),
        Value::Float(0.25),
        Value::Timestamp(86_400_123_456),
        Value::Text("kä'se"),
        Value::Bytes(b"\0\xff"),
    ];
    let (outcome, answer) = ask(&mut connection, 0, &row);
    assert_eq!(outcome, Outcome::Ok, "{}", answer.message);
    let (outcome, answer) = ask(&mut connection, 1, &row[1..2]);
    assert_eq!((outcome, answer.rows, answer.columns), (Outcome::Ok, 1, 18), "{}", answer.message);
    let mut expected = [
        row[0],
        row[1],
        Value::Text("18446744073709551615"),
        Value::Int(200),
        row[2],
        Value::Text("0.25"),
        Value::Text("1970-01-02"),
        Value::Text("-26:03:04.500000"),
        row[4],
        Value::Timestamp(86_400_123_000),
        row[5],
        row[6],
        Value::Text("[1]"),
        Value::Text("b"),
        Value::Int(258),
        Value::Float(0.5),
        Value::Null,
        Value::Int(7),
    ];
    assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), expected);

    let text = "SELECT *, NULL, 7 FROM t";
    let (outcome, answer) = ask(&mut connection, 2, &[Value::Text(text)]);
    assert_eq!((outcome, answer.rows), (Outcome::Ok, 1), "{}", answer.message);
    expected[7] = Value::Text("-26:03:04.500");
    expected[8] = Value::Text("1970-01-02 00:00:00.123456");
    expected[9] = Value::Text("1970-01-02 00:00:00.123");
    assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), expected, "the same in the text format");
    let (outcome, answer) = ask(&mut connection, 2, &[Value::Text("SELEC")]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "1064"));

    let too_large = [Value::Int(40_000), row[1], row[2], row[3], row[4], row[5], row[6]];
    let (outcome, answer) = ask(&mut connection, 0, &too_large);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "1264"), "{}", answer.message);
    assert!(answer.message.starts_with("22003: "), "{}", answer.message);
    let other_types = [Value::Text("-3"), Value::Float(2.0), Value::Int(0), Value::Null, Value::Null, row[5], row[5]];
    assert_eq!(ask(&mut connection, 0, &other_types).0, Outcome::Ok, "the server converts");
    assert_eq!(ask(&mut connection, 1, &[Value::Int(2)]).1.values.values().get(0), Value::Int(-3));
}

fn transactions_are_begun_ended_and_rolled_back() {
    let server = Server::start();
    server.control().simple("CREATE TABLE t (n INT PRIMARY KEY)").expect("a table");
    let kinds = [
        sql("begin", "BEGIN", &[]),
        sql("put", "INSERT INTO t VALUES ($1)", &[ValueType::Int]),
        sql("count", "SELECT COUNT(*) FROM t", &[]),
        sql("commit", "COMMIT", &[]),
        sql("rollback", "ROLLBACK", &[]),
    ];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    for (end, expected) in [(4, 0), (3, 1)] {
        for (kind, params) in [(0, &[][..]), (1, &[Value::Int(1)]), (end, &[])] {
            assert_eq!(ask(&mut connection, kind, params).0, Outcome::Ok);
        }
        assert_eq!(ask(&mut connection, 2, &[]).1.values.values().get(0), Value::Int(expected));
    }
    let (outcome, answer) = ask(&mut connection, 1, &[Value::Int(1)]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "1062"), "{}", answer.message);
}

fn a_deadlock_is_rejected_with_its_number_and_so_is_a_lock_not_had_in_time() {
    let server = Server::start();
    server.control().simple("CREATE TABLE t (n INT PRIMARY KEY, v INT)").expect("a table");
    server.control().simple("INSERT INTO t VALUES (1, 0), (2, 0)").expect("rows");
    let kinds = [
        sql("begin", "BEGIN", &[]),
        sql("set", "UPDATE t SET v = v + 1 WHERE n = $1", &[ValueType::Int]),
        sql("rollback", "ROLLBACK", &[]),
    ];
    let mut first = server.open(&Layout::default(), &kinds).expect("prepared");
    let mut second = server.open(&Layout::default(), &kinds).expect("prepared");
    for (connection, row) in [(&mut first, 1), (&mut second, 2)] {
        ask(connection, 0, &[]);
        assert_eq!(ask(connection, 1, &[Value::Int(row)]).0, Outcome::Ok);
    }
    let waiting = std::thread::spawn(move || ask(&mut first, 1, &[Value::Int(2)]));
    let other = ask(&mut second, 1, &[Value::Int(1)]);
    // Only when its victim has let go does the other one go on.
    if other.0 == Outcome::Rejected {
        ask(&mut second, 2, &[]);
    }
    let both = [waiting.join().expect("no panic"), other];
    let victims: Vec<_> = both.iter().filter(|(outcome, _)| *outcome == Outcome::Rejected).collect();
    assert_eq!(victims.len(), 1, "{both:?}");
    assert_eq!((victims[0].1.code.as_str(), victims[0].1.gave_way), ("1213", true));

    let mut holder = server.open(&Layout::default(), &kinds).expect("prepared");
    drop(second);
    ask(&mut holder, 0, &[]);
    assert_eq!(ask(&mut holder, 1, &[Value::Int(1)]).0, Outcome::Ok);
    let mut late = server.open(&Layout::default(), &kinds).expect("prepared");
    late.simple("SET innodb_lock_wait_timeout = 1").expect("set");
    let (outcome, answer) = ask(&mut late, 1, &[Value::Int(1)]);
    assert_eq!((outcome, answer.code.as_str(), answer.gave_way), (Outcome::Rejected, "1205", true));
}

fn what_changes_its_columns_between_two_executions_is_read_as_it_is_then() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE TABLE t (a INT)").expect("a table");
    control.simple("INSERT INTO t VALUES (5)").expect("a row");
    let mut connection = server.open(&Layout::default(), &[sql("all", "SELECT * FROM t", &[])]).expect("prepared");
    assert_eq!(ask(&mut connection, 0, &[]).1.values.values().get(0), Value::Int(5));
    control.simple("ALTER TABLE t MODIFY a VARCHAR(10), ADD b BIGINT DEFAULT 9").expect("changed");
    for _ in 0..2 {
        let (outcome, answer) = ask(&mut connection, 0, &[]);
        assert_eq!((outcome, answer.columns), (Outcome::Ok, 2), "{}", answer.message);
        assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), [Value::Text("5"), Value::Int(9)]);
    }
}

fn a_procedures_answers_are_taken_to_the_end() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE PROCEDURE p() BEGIN SELECT 1, 2; SELECT 'three'; END").expect("a procedure");
    let kinds = [sql("call", "CALL p()", &[]), sql("one", "SELECT 1", &[])];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    for _ in 0..2 {
        let (outcome, answer) = ask(&mut connection, 0, &[]);
        assert_eq!((outcome, answer.columns), (Outcome::Ok, 1), "{}", answer.message);
        assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), [Value::Text("three")]);
        assert_eq!(ask(&mut connection, 1, &[]).1.values.values().get(0), Value::Int(1));
    }
}

fn long_values_go_and_come_in_several_packets() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("SET GLOBAL max_allowed_packet = 67108864").expect("allowed");
    control.simple("CREATE TABLE t (n INT PRIMARY KEY, body LONGBLOB)").expect("a table");
    let put = sql("put", "INSERT INTO t VALUES ($1, $2)", &[ValueType::Int, ValueType::Bytes]);
    let get = sql("get", "SELECT body FROM t WHERE n >= $1 ORDER BY n", &[ValueType::Int]);
    let count = OpKind { keep_answer: false, ..get.clone() };
    let mut connection = server.open(&Layout::default(), &[put, get, count]).expect("prepared");
    // Around the length at which a packet is full, and far beyond it.
    let lengths = [0xff_ffff - 40, 0xff_ffff - 20, 0xff_ffff, 40_000_000];
    for (length, n) in lengths.iter().zip(0..) {
        let body: Vec<u8> = (0..*length).map(|place| (place % 251) as u8).collect();
        let (outcome, answer) = ask(&mut connection, 0, &[Value::Int(n), Value::Bytes(&body)]);
        assert_eq!(outcome, Outcome::Ok, "{length}: {}", answer.message);
        let (outcome, answer) = ask(&mut connection, 1, &[Value::Int(n)]);
        assert_eq!((outcome, answer.rows), (Outcome::Ok, 1), "{length}");
        assert!(answer.values.values().get(0) == Value::Bytes(&body), "{length}: it comes back as it was");
    }
    let (outcome, answer) = ask(&mut connection, 2, &[Value::Int(0)]);
    assert_eq!((outcome, answer.rows, answer.values.len()), (Outcome::Ok, 4, 0));
}
