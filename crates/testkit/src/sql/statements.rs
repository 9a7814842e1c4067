//! Records and statements over one connection, and connections that end.

use std::time::{Duration, Instant};

use plimsoll_core::{Call, IndexMode, KvCall, Layout, OpKind, Outcome, StoreErrorKind, ValueType};
use plimsoll_endpoint::Connected;

use super::{SqlServer, ask};
use crate::records::{COUNT, INSERT, NOTHING, batch, kinds, layout, record};
use crate::wire::sql;

const WAIT_MAX: Duration = Duration::from_secs(20);

/// Passes all that this file checks.
///
/// # Panics
/// If a check fails.
pub fn statements<S: SqlServer>() {
    crate::steps!(
        an_insert_of_any_size_is_done_as_a_whole_or_not_at_all::<S>,
        a_kind_that_the_layout_has_no_collection_for_is_refused::<S>,
        a_statement_that_cannot_be_prepared_is_named::<S>,
        a_cancelled_operation_is_rejected::<S>,
        an_operation_is_unknown_when_its_connection_is_ended::<S>,
        an_idle_connection_that_was_ended_says_so::<S>,
        an_operation_is_unknown_when_its_server_is_killed::<S>,
    );
}

fn an_insert_of_any_size_is_done_as_a_whole_or_not_at_all<S: SqlServer>() {
    let (server, layout) = (S::start(), layout(IndexMode::Own));
    server.create(&layout);
    let mut connection = server.open(&layout, &kinds()).expect("prepared");
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n:04}")).collect();
    let mut before = 0;
    for size in [0, 1, 2, 15, 16, 17, 255, 256, 290] {
        let inserted = ask(&mut connection, INSERT, &batch(&names[before..before + size]));
        assert_eq!(inserted.0, Outcome::Ok, "{size}: {}", inserted.1.message);
        before += size;
        assert_eq!(ask(&mut connection, COUNT, &[]).1.rows as usize, before, "{size}");
    }

    // What is there already comes last in the batch, after many that are new.
    let again = [&names[before..], &["c0007".to_owned()]].concat();
    let (outcome, answer) = ask(&mut connection, INSERT, &batch(&again));
    let (code, words) = S::DIALECT.taken;
    assert_eq!((outcome, answer.code.as_str(), answer.rows), (Outcome::Rejected, code, 0));
    assert!(words.iter().all(|words| answer.message.contains(words)), "the server's words: {}", answer.message);
    let (outcome, answer) = ask(&mut connection, COUNT, &[]);
    assert_eq!((outcome, answer.rows as usize), (Outcome::Ok, before), "nothing of that batch is there");
    assert!(answer.values.is_empty(), "what is not wanted is not kept");
    assert!(answer.code.is_empty(), "an error does not outlive its operation");
    assert_eq!(ask(&mut connection, INSERT, &record("after", None)).0, Outcome::Ok);
    let seen = server.control().value("SELECT COUNT(*) FROM items WHERE code = 'after'");
    assert_eq!(seen.expect("an answer"), "1", "no transaction is left open");
    assert_eq!(ask(&mut connection, NOTHING, &[]).0, Outcome::Ok);
}

fn a_kind_that_the_layout_has_no_collection_for_is_refused<S: SqlServer>() {
    let server = S::start();
    let error = server.open(&Layout::default(), &kinds()).err().expect("it has no collection");
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert!(error.what.contains("collection 0"), "{error}");
    if !(S::DIALECT.kind)().spec().interfaces.contains(&plimsoll_core::Interface::Kv) {
        let asks = OpKind { call: Call::Kv(KvCall::Get), ..kinds()[1].clone() };
        let error = server.open(&layout(IndexMode::None), &[asks]).err().expect("it keeps no pairs");
        assert!(error.what.contains("does not speak"), "{error}");
    }
}

fn a_statement_that_cannot_be_prepared_is_named<S: SqlServer>() {
    let server = S::start();
    let refused = |text: &str, params: &[ValueType]| {
        let opened = server.open(&Layout::default(), &[sql("bad", text, params)]);
        let error = opened.err().unwrap_or_else(|| panic!("{text} passed"));
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error}");
        error
    };
    for (text, code) in ["SELEC 1", "SELECT 1 FROM nowhere"].into_iter().zip(S::DIALECT.refusals) {
        let error = refused(text, &[]);
        assert!(error.what.contains(text), "{error}");
        assert!(error.detail.as_ref().is_some_and(|detail| detail.contains(code)), "{error:?}");
    }
    let count = refused(S::DIALECT.sum, &[ValueType::Int]);
    assert!(count.what.contains("declares 1 parameters and its statement takes 2"), "{count}");
}

fn a_cancelled_operation_is_rejected<S: SqlServer>() {
    let server = S::start();
    let (bound, code) = S::DIALECT.bounded;
    let kinds =
        [sql("sleep", &format!("{} FROM (SELECT 1) AS one", S::DIALECT.sleep), &[]), sql("one", "SELECT 1", &[])];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    connection.simple(bound).expect("set");
    let (outcome, answer) = ask(&mut connection, 0, &[]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, code), "{answer:?}");
    assert_eq!(ask(&mut connection, 1, &[]).0, Outcome::Ok);
}

/// Starts a long statement, and runs `end` with the id of its connection. Returns the outcome.
fn interrupted<S: SqlServer>(server: &S, end: impl FnOnce(&str)) -> (Outcome, plimsoll_core::Answer, StoreErrorKind) {
    let kinds = [sql("sleep", S::DIALECT.sleep, &[])];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    let mut control = server.control();
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let (outcome, answer) = ask(&mut connection, 0, &[]);
            let error = connection.simple("SELECT 1").expect_err("the connection is gone");
            assert!(!connection.is_ready());
            (outcome, answer, error.kind)
        });
        let began = Instant::now();
        let id = loop {
            let id = control.value(S::DIALECT.sleepers).expect("an answer");
            if !id.is_empty() {
                break id;
            }
            assert!(began.elapsed() < WAIT_MAX, "the statement does not run");
            std::thread::sleep(Duration::from_millis(5));
        };
        end(&id);
        asker.join().expect("no panic")
    })
}

fn an_operation_is_unknown_when_its_connection_is_ended<S: SqlServer>() {
    let server = S::start();
    let end = |id: &str| drop(server.control().simple(&S::DIALECT.end.replace("{}", id)).expect("ended"));
    let (outcome, answer, _) = interrupted(&server, end);
    assert_eq!(outcome, Outcome::Unknown, "{answer:?}");
    assert!(S::DIALECT.ended.contains(&answer.code.as_str()), "{answer:?}");
    let mut again = server.open(&Layout::default(), &[sql("one", "SELECT 1", &[])]).expect("opened again");
    assert_eq!(ask(&mut again, 0, &[]).0, Outcome::Ok);
}

fn an_idle_connection_that_was_ended_says_so<S: SqlServer>() {
    let server = S::start();
    let mut connection = server.control();
    let id = connection.value(S::DIALECT.own_id).expect("its id");
    server.control().simple(&S::DIALECT.end.replace("{}", &id)).expect("ended");
    let began = Instant::now();
    while connection.is_alive() {
        assert!(began.elapsed() < WAIT_MAX, "it never heard of it");
        std::thread::sleep(Duration::from_millis(5));
    }
    connection.simple("SELECT 1").expect_err("it is gone");
}

fn an_operation_is_unknown_when_its_server_is_killed<S: SqlServer>() {
    let server = S::alone();
    let (outcome, answer, kind) = interrupted(&server, |_| server.kill());
    assert_eq!((outcome, kind), (Outcome::Unknown, StoreErrorKind::Unreachable));
    assert!(!answer.message.is_empty(), "it says why");
}
