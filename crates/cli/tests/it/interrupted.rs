//! Ctrl-C during operations of stores whose calls block until they are done: no failure.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench::{Place, Ran, wait_for};
use crate::servers::Postgres;

/// Drives `script` in SQLite, with operations that take longer than anybody waits, until Ctrl-C.
#[track_caller]
fn is_interrupted(script: &str) {
    let place = Place::new();
    let file = place.path().join("long.sql");
    std::fs::write(&file, script).unwrap();
    let args = ["drive", "-f", file.to_str().unwrap(), "--on", "sqlite", "--for", "600s", "--op-timeout", "600s"];
    let child = place.command(&args).spawn().unwrap();
    wait_for("the recording", Duration::from_secs(20), || !place.all_runs().is_empty());
    // There is no load, and what is driven begins soon after that.
    std::thread::sleep(Duration::from_secs(2));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ran = Ran::of(&child.wait_with_output().unwrap()).expect(130);
    assert!(!ran.out.contains("FAIL"), "{ran:?}");
    // There were such operations.
    place.run(&["report", "latest", "--format", "json"]).expect(0).says("stopped by the user");
}

#[test]
fn operations_that_sleep_are_stopped_and_have_not_failed() {
    is_interrupted("SELECT 1;\n\\sleep 500 s\nSELECT 2;\n");
}

#[test]
fn a_long_statement_in_sqlite_is_stopped_and_has_not_failed() {
    is_interrupted(
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000000000) SELECT count(*) FROM c;\n",
    );
}

/// A server on which one of the tables that say how large the data are takes longer to count than anybody waits.
fn slow_to_count(place: &Place) -> Postgres {
    let server = Postgres::start(place.path());
    server.sql("CREATE VIEW pgbench_branches AS SELECT bid FROM generate_series(1, 2) bid, pg_sleep(600)");
    server
}

#[test]
fn counting_the_data_of_others_has_the_time_of_work_and_no_more() {
    let place = Place::new();
    let server = slow_to_count(&place);
    let began = Instant::now();
    let ran = place.run(&["drive", "select", "--no-load", "--ops", "1", "--on", &server.url(), "--work-timeout", "2s"]);
    ran.expect(3);
    // It was two minutes whatever the limit.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn counting_the_data_of_others_is_interrupted() {
    let place = Place::new();
    let server = slow_to_count(&place);
    let child = place.command(&["drive", "select", "--no-load", "--ops", "1", "--on", &server.url()]).spawn().unwrap();
    wait_for("the count", Duration::from_secs(20), || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "0"
    });
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    Ran::of(&child.wait_with_output().unwrap()).expect(130);
}
