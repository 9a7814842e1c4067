//! Operations without a reply are unknown.

use plimsoll_core::{Layout, Outcome, StoreErrorKind};
use plimsoll_endpoint::Connected as _;

use crate::fixture::{Server, address, ask, open_login, sql, start};

/// The number of the connection that sleeps; waits until there is one.
fn sleeper(control: &mut plimsoll_store_mariadb::Connection) -> String {
    let query = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%' AND DB = DATABASE()";
    for _ in 0..1_000 {
        let id = control.value(query).expect("an answer");
        if !id.is_empty() {
            return id;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nobody sleeps");
}

#[test]
fn an_operation_is_unknown_when_its_server_is_killed() {
    let server = start(&[]).expect("a server");
    let kinds = [sql("sleep", "SELECT SLEEP(30)", &[])];
    let login = std::sync::Arc::new(crate::fixture::login("root", None));
    let timeout = crate::fixture::TIMEOUT;
    let mut connection =
        plimsoll_store_mariadb::connect(&address(&server), login, std::sync::Arc::default(), &[], &kinds, timeout)
            .expect("prepared");
    let mut control = open_login(&address(&server), crate::fixture::login("root", None)).expect("a connection");
    let asker = std::thread::spawn(move || {
        let result = ask(&mut connection, 0, &[]);
        (result, connection.simple("SELECT 1").expect_err("the connection is gone"))
    });
    control.simple("CREATE DATABASE d").and_then(|_| control.simple("USE d")).expect("a database");
    let asleep = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'";
    while control.value(asleep).expect("an answer") == "0" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(server.pids()[0] as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    let ((outcome, answer), error) = asker.join().expect("no panic");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(!answer.message.is_empty(), "it says why");
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    server.close().expect("closed");
}

#[test]
fn an_operation_is_unknown_when_its_connection_is_killed_and_the_next_connection_works() {
    let server = Server::start();
    let kinds = [sql("sleep", "SELECT SLEEP(30)", &[]), sql("one", "SELECT 1", &[])];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    let asker = std::thread::spawn(move || {
        let result = ask(&mut connection, 0, &[]);
        assert!(!connection.is_ready());
        result
    });
    let mut control = server.control();
    let id = sleeper(&mut control);
    control.simple(&format!("KILL {id}")).expect("killed");
    let (outcome, answer) = asker.join().expect("no panic");
    assert_eq!(outcome, Outcome::Unknown, "{answer:?}");
    assert!(matches!(answer.code.as_str(), "1927" | "1053" | ""), "{answer:?}");
    let mut connection = server.open(&Layout::default(), &kinds).expect("opened again");
    assert_eq!(ask(&mut connection, 1, &[]).0, Outcome::Ok);
}

#[test]
fn an_idle_connection_that_was_killed_says_so() {
    let server = Server::start();
    let mut connection = server.open(&Layout::default(), &[]).expect("open");
    let id = connection.value("SELECT CONNECTION_ID()").expect("its number");
    server.control().simple(&format!("KILL {id}")).expect("killed");
    let began = std::time::Instant::now();
    while connection.is_alive() {
        assert!(began.elapsed() < crate::fixture::TIMEOUT, "it never heard of it");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(connection.simple("SELECT 1").expect_err("it is gone").kind, StoreErrorKind::Unreachable);
}

#[test]
fn a_cancelled_operation_is_rejected() {
    let server = Server::start();
    let kinds = [sql("sleep", "SELECT SLEEP(30) FROM (SELECT 1) AS one", &[]), sql("one", "SELECT 1", &[])];
    let mut connection = server.open(&Layout::default(), &kinds).expect("prepared");
    connection.simple("SET max_statement_time = 0.05").expect("set");
    let (outcome, answer) = ask(&mut connection, 0, &[]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "1969"), "{answer:?}");
    assert_eq!(ask(&mut connection, 1, &[]).0, Outcome::Ok);
}
