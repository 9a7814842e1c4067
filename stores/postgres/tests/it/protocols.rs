//! The three ways to send a statement, and several operations in one pipeline.

use plimsoll_core::{Call, Durability, IndexMode, OpKind, Outcome, ParamValue, Sessions, Value, ValueType};
use plimsoll_lab::OpenStore;
use plimsoll_store_postgres::kind;
use plimsoll_store_postgres::wire::PIPELINE_ABORTED;
use plimsoll_testkit::conformance;
use plimsoll_testkit::sql::wire;

use crate::fixture::{Server, SqlServer as _, Wire, layout, sql};

const PROTOCOLS: [&str; 3] = ["prepared", "extended", "simple"];

fn attached(server: &Server, protocol: &str) -> OpenStore {
    let run_id = format!("protocol-{protocol}");
    let mut store = server.attach("postgres").run(&run_id).text("protocol", protocol).open().expect("attached");
    store.create(&layout(IndexMode::None)).expect("created");
    store
}

fn open(server: &Server, protocol: &str, kinds: &[OpKind]) -> (OpenStore, Wire) {
    let mut store = attached(server, protocol);
    let wire = wire(&mut *store, Durability::Durable, kinds);
    (store, wire)
}

#[test]
fn a_store_conforms_when_statements_are_parsed_each_time_and_when_values_stand_in_the_text() {
    for protocol in &PROTOCOLS[1..] {
        let protocol = [("protocol", ParamValue::Text((*protocol).to_owned()))];
        conformance::run_attached_with(&*kind(), &Server::start().url("postgres"), None, &protocol);
    }
}

#[test]
fn every_protocol() {
    plimsoll_testkit::steps!(
        what_looks_like_a_parameter_stays_text_in_every_protocol,
        a_text_made_while_it_runs_is_sent_as_it_is,
        a_pipeline_is_answered_in_order_and_an_error_skips_the_rest,
        independent_operations_in_flight_fail_on_their_own,
        a_failed_transaction_is_over_when_it_is_rolled_back,
        a_step_on_a_table_of_an_earlier_step_is_prepared_once_when_it_is_reached,
        statements_and_settings_that_an_operation_drops_are_prepared_and_set_again,
        a_step_that_another_step_drops_is_prepared_again,
        a_statement_that_something_unseen_drops_fails_once,
        a_statement_with_other_parameters_than_declared_is_refused_in_every_protocol,
    );
}

fn what_looks_like_a_parameter_stays_text_in_every_protocol() {
    let server = Server::start();
    let kinds = [sql("all", "SELECT $1::text, '$1' || $1::text", &[ValueType::Text])];
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &kinds);
        for text in ["", "o'clock", "\\'; DROP TABLE items; --", "käse \u{1f9c0}", "E'\\x", "$1", "--", "/*"] {
            let (outcome, answer) = wire.ask(0, &[Value::Text(text)]);
            assert_eq!(outcome, Outcome::Ok, "{protocol}: {}", answer.message);
            let both = [Value::Text(text), Value::Text(&format!("$1{text}"))];
            assert_eq!(answer.values.values().iter().collect::<Vec<_>>(), both, "{protocol}");
        }
        let (outcome, answer) = wire.ask(0, &[Value::Text("a\0b")]);
        assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "22021"), "{protocol}: {}", answer.message);
    }
}

fn a_text_made_while_it_runs_is_sent_as_it_is() {
    let server = Server::start();
    let given = OpKind { call: Call::SqlText, ..sql("given", "", &[ValueType::Text]) };
    let kinds = [given, sql("one", "SELECT 1", &[])];
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &kinds);
        let (outcome, answer) =
            wire.ask(0, &[Value::Text("SELECT 7, 'x', 1.50, now() > '2020-01-01', '\\x00ff'::bytea")]);
        assert_eq!(outcome, Outcome::Ok, "{}", answer.message);
        let values: Vec<Value<'_>> = answer.values.values().iter().collect();
        let expected =
            [Value::Int(7), Value::Text("x"), Value::Text("1.50"), Value::Bool(true), Value::Bytes(b"\x00\xff")];
        assert_eq!(values, expected, "{protocol}");
        let (outcome, answer) = wire.ask(0, &[Value::Text("SELEC 7")]);
        assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "42601"));
        assert_eq!(wire.ask(1, &[]).1.values.values().get(0), Value::Int(1));
        let both = wire.pipeline(&[(0, &[Value::Text("SELECT 2")], true), (1, &[], false)]);
        assert_eq!(both[0].2.values.values().get(0), Value::Int(2), "{protocol}");
        assert_eq!(both[1].2.values.values().get(0), Value::Int(1), "{protocol}");
    }
}

fn steps() -> Vec<OpKind> {
    let step = |name: &str, text: &str, params: &[ValueType]| OpKind { step_of: Some(0), ..sql(name, text, params) };
    vec![
        OpKind { call: Call::Steps, ..sql("transaction", "", &[]) },
        step("begin", "BEGIN", &[]),
        step("add", "INSERT INTO items (code, count) VALUES ($1, $2)", &[ValueType::Text, ValueType::Int]),
        step("count", "SELECT count(*) FROM items", &[]),
        step("commit", "COMMIT", &[]),
        step("rollback", "ROLLBACK", &[]),
    ]
}

const BEGIN: u16 = 1;
const ADD: u16 = 2;
const COUNT: u16 = 3;
const COMMIT: u16 = 4;
const ROLLBACK: u16 = 5;

fn a_pipeline_is_answered_in_order_and_an_error_skips_the_rest() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &steps());
        let add = |code: &'static str| [Value::Text(code), Value::Int(1)];
        let outcomes = |answers: &[(u32, Outcome, plimsoll_core::Answer)]| -> Vec<(u32, Outcome, String)> {
            answers.iter().map(|(ticket, outcome, answer)| (*ticket, *outcome, answer.code.clone())).collect()
        };
        let good = wire.pipeline(&[
            (BEGIN, &[], true),
            (ADD, &add("a"), true),
            (ADD, &add("b"), true),
            (COUNT, &[], true),
            (COMMIT, &[], false),
        ]);
        let ok = |count: u32| (0..count).map(|ticket| (ticket, Outcome::Ok, String::new())).collect::<Vec<_>>();
        assert_eq!(outcomes(&good), ok(5), "{protocol}");
        assert_eq!(good[3].2.values.values().get(0), Value::Int(2), "{protocol}");
        if protocol == "simple" {
            // There each statement is answered by itself, and nothing is skipped.
            continue;
        }
        let bad = wire.pipeline(&[
            (ADD, &add("c"), true),
            (ADD, &add("c"), true),
            (ADD, &add("d"), true),
            (COUNT, &[], false),
            (COUNT, &[], false),
        ]);
        let skipped = |ticket| (ticket, Outcome::Rejected, PIPELINE_ABORTED.to_owned());
        let expected = [
            (0, Outcome::Ok, String::new()),
            (1, Outcome::Rejected, "23505".to_owned()),
            skipped(2),
            skipped(3),
            (4, Outcome::Ok, String::new()),
        ];
        assert_eq!(outcomes(&bad), expected, "{protocol}");
        assert_eq!(bad[4].2.values.values().get(0), Value::Int(2), "all of the pipeline was rolled back");
        // The error is the last one's own, and nothing is left over for the next pipeline.
        let last = wire.pipeline(&[(COUNT, &[], true), (ADD, &add("a"), false)]);
        assert_eq!(outcomes(&last)[1], (1, Outcome::Rejected, "23505".to_owned()), "{protocol}");
        assert_eq!(outcomes(&wire.pipeline(&[(COUNT, &[], false)])), ok(1), "{protocol}");
    }
}

fn independent_operations_in_flight_fail_on_their_own() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &steps());
        let codes = ["a", "b", "a", "c"];
        let params: Vec<[Value<'_>; 2]> = codes.iter().map(|code| [Value::Text(code), Value::Int(0)]).collect();
        let ops: Vec<(u16, &[Value<'_>], bool)> = params.iter().map(|params| (ADD, &params[..], false)).collect();
        let outcomes: Vec<Outcome> = wire.pipeline(&ops).iter().map(|(_, outcome, _)| *outcome).collect();
        assert_eq!(outcomes, [Outcome::Ok, Outcome::Ok, Outcome::Rejected, Outcome::Ok], "{protocol}");
    }
}

fn a_failed_transaction_is_over_when_it_is_rolled_back() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &steps());
        let add = [Value::Text("a"), Value::Int(1)];
        for (kind, params, code) in [
            (BEGIN, &[][..], ""),
            (ADD, &add, ""),
            (ADD, &add, "23505"),
            (COUNT, &[], "25P02"),
            (ROLLBACK, &[], ""),
            (COUNT, &[], ""),
        ] {
            let (_, answer) = wire.ask(kind, params);
            assert_eq!(answer.code, code, "{protocol}");
        }
    }
}

fn a_step_on_a_table_of_an_earlier_step_is_prepared_once_when_it_is_reached() {
    let step = |name: &str, text: &str, params: &[ValueType]| OpKind { step_of: Some(0), ..sql(name, text, params) };
    let kinds = [
        OpKind { call: Call::Steps, ..sql("script", "", &[]) },
        step("make", "CREATE TEMPORARY TABLE own (n int)", &[]),
        step("add", "INSERT INTO own VALUES ($1)", &[ValueType::Int]),
        step("read", "SELECT n, 'x' FROM own WHERE n = $1", &[ValueType::Int]),
        step("drop", "DROP TABLE own", &[]),
        sql("named", "SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql", &[]),
    ];
    let server = Server::start();
    for (protocol, named) in PROTOCOLS.into_iter().zip([5, 0, 0]) {
        let (_store, mut wire) = open(&server, protocol, &kinds);
        let (outcome, answer) = wire.ask(3, &[Value::Int(7)]);
        assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "42P01"), "{protocol}");
        for number in [7, 8] {
            let n = [Value::Int(number)];
            let more = protocol != "simple";
            let answers = wire.pipeline(&[(1, &[], more), (2, &n, more), (3, &n, more), (4, &[], false)]);
            for (_, outcome, answer) in &answers {
                assert_eq!(*outcome, Outcome::Ok, "{protocol}: {}: {}", answer.code, answer.message);
            }
            let row: Vec<Value<'_>> = answers[2].2.values.values().iter().collect();
            assert_eq!(row, [Value::Int(number), Value::Text("x")], "{protocol}");
        }
        assert_eq!(wire.ask(5, &[]).1.values.values().get(0), Value::Int(named), "{protocol}");
    }
}

fn statements_and_settings_that_an_operation_drops_are_prepared_and_set_again() {
    let kinds = [
        sql("sum", "SELECT $1::int + $2::int", &[ValueType::Int, ValueType::Int]),
        // Found by the settings of the session.
        sql("items", "SELECT count(*) FROM items", &[]),
        sql("deallocate", "DEALLOCATE ALL", &[]),
        sql("discard", "DISCARD ALL", &[]),
        sql("reset", "RESET ALL", &[]),
    ];
    let (none, two): (&[Value<'_>], &[Value<'_>]) = (&[], &[Value::Int(1), Value::Int(2)]);
    let server = Server::start();
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &kinds);
        for drops in [2, 3, 4, 2, 3, 4] {
            // One that is parsed before the statements are dropped is parsed once more after that.
            let ops = [(0, two, false), (drops, none, false), (0, two, false), (1, none, false)];
            let answers = wire.pipeline(&ops);
            for (ticket, outcome, answer) in &answers {
                let words = format!("{protocol}: {drops}: {ticket}: {}: {}", answer.code, answer.message);
                assert_eq!(*outcome, Outcome::Ok, "{words}");
            }
            assert_eq!(answers.len(), ops.len(), "settings are no operation");
            let values = [&answers[0], &answers[2], &answers[3]].map(|(_, _, answer)| answer.values.values().get(0));
            assert_eq!(values, [Value::Int(3), Value::Int(3), Value::Int(0)], "{protocol}");
            let (outcome, answer) = wire.ask(drops, &[]);
            assert_eq!(outcome, Outcome::Ok, "{protocol}: {}: {}", answer.code, answer.message);
            assert_eq!(wire.ask(1, &[]).0, Outcome::Ok, "{protocol}");
            // Known again: no Parse is sent.
            assert_eq!(wire.ask(1, &[]).0, Outcome::Ok, "{protocol}");
            let is_parsed = wire.sent().first() == Some(&b'C');
            assert!(!is_parsed, "{protocol}");
        }
    }
}

fn a_step_that_another_step_drops_is_prepared_again() {
    let step = |name: &str, text: &str, params: &[ValueType]| OpKind { step_of: Some(0), ..sql(name, text, params) };
    let kinds = [
        OpKind { call: Call::Steps, ..sql("script", "", &[]) },
        step("make", "CREATE TEMPORARY TABLE own (n int)", &[]),
        step("add", "INSERT INTO own VALUES ($1)", &[ValueType::Int]),
        step("deallocate", "DEALLOCATE ALL", &[]),
        step("discard", "DISCARD ALL", &[]),
        step("count", "SELECT count(*) FROM items", &[]),
    ];
    let server = Server::start();
    for protocol in PROTOCOLS {
        let (_store, mut wire) = open(&server, protocol, &kinds);
        let n: &[Value<'_>] = &[Value::Int(7)];
        for _ in 0..2 {
            // DISCARD ALL also drops the temporary table.
            for (kind, params) in [(1, &[][..]), (2, n), (3, &[]), (2, n), (4, &[]), (5, &[])] {
                let (outcome, answer) = wire.ask(kind, params);
                assert_eq!(outcome, Outcome::Ok, "{protocol}: {kind}: {}: {}", answer.code, answer.message);
            }
        }
    }
}

fn a_statement_that_something_unseen_drops_fails_once() {
    let given = OpKind { call: Call::SqlText, ..sql("given", "", &[ValueType::Text]) };
    let kinds = [given, sql("one", "SELECT 1", &[]), sql("two", "SELECT 2", &[])];
    let server = Server::start();
    for (protocol, code) in PROTOCOLS.into_iter().zip(["26000", "", ""]) {
        let (_store, mut wire) = open(&server, protocol, &kinds);
        assert_eq!(wire.ask(0, &[Value::Text("DEALLOCATE ALL")]).0, Outcome::Ok, "{protocol}");
        assert_eq!(wire.ask(1, &[]).1.code, code, "{protocol}");
        for (kind, value) in [(1, 1), (2, 2), (1, 1)] {
            let (outcome, answer) = wire.ask(kind, &[]);
            assert_eq!(outcome, Outcome::Ok, "{protocol}: {}: {}", answer.code, answer.message);
            assert_eq!(answer.values.values().get(0), Value::Int(value), "{protocol}");
        }
    }
}

fn a_statement_with_other_parameters_than_declared_is_refused_in_every_protocol() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let mut store = attached(&server, protocol);
        let Ok(Sessions::Wire(mut clients)) = store.sessions(1, Durability::Durable) else { panic!("wire") };
        let kinds = [sql("two", "SELECT $1::int + $2::int", &[ValueType::Int])];
        let error = Wire::try_open(clients.remove(0), &kinds).err().expect("refused");
        assert!(error.what.contains("declares 1 parameters and its statement takes 2"), "{protocol}: {error}");
        store.close().expect("closed");
    }
}
