//! Operations without a reply are unknown.

use plimsoll_core::{Layout, Outcome, StoreErrorKind};

use crate::fixture::{Server, ask, sql};

#[test]
fn an_operation_is_unknown_when_its_server_is_killed() {
    let mut server = Server::alone();
    let mut connection = server.open(&Layout::default(), &[sql("sleep", "SELECT pg_sleep(30)", &[])]).unwrap();
    let asker = std::thread::spawn(move || {
        let result = ask(&mut connection, 0, &[]);
        (result, connection.simple("SELECT 1").expect_err("the connection is gone"))
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    // The postmaster first, so that no process is left to say good-bye in its name.
    server.kill();
    let ((outcome, answer), error) = asker.join().expect("no panic");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(!answer.message.is_empty(), "it says why");
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
}

#[test]
fn an_operation_is_unknown_when_an_administrator_ends_its_connection() {
    let server = Server::start();
    let mut connection = server.open(&Layout::default(), &[sql("sleep", "SELECT pg_sleep(30)", &[])]).unwrap();
    let asker = std::thread::spawn(move || ask(&mut connection, 0, &[]));
    let mut control = server.control();
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%'";
    for _ in 0..1_000 {
        if control.value(ended).unwrap() == "1" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (outcome, answer) = asker.join().expect("no panic");
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Unknown, "57P01"), "{}", answer.message);
}

#[test]
fn a_cancelled_operation_is_rejected() {
    let server = Server::start();
    let kinds = [sql("sleep", "SELECT pg_sleep(30)", &[]), sql("one", "SELECT 1", &[])];
    let mut connection = server.open(&Layout::default(), &kinds).unwrap();
    connection.simple("SET statement_timeout = 50").unwrap();
    let (outcome, answer) = ask(&mut connection, 0, &[]);
    assert_eq!((outcome, answer.code.as_str()), (Outcome::Rejected, "57014"));
    assert_eq!(ask(&mut connection, 1, &[]).0, Outcome::Ok);
}
