//! Ctrl-C during operations of stores whose calls block until they are done: no failure.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bench::{Guarded, Place, wait_for};
use crate::servers::Postgres;

/// Drives `script` in SQLite, with operations that take longer than anybody waits, until Ctrl-C.
#[track_caller]
fn is_interrupted(script: &str) {
    let place = Place::new();
    let file = place.path().join("long.sql");
    std::fs::write(&file, script).unwrap();
    let args = ["drive", "-f", file.to_str().unwrap(), "--on", "sqlite", "--for", "600s", "--op-timeout", "600s"];
    let args = [&args[..], &["--slice", "200ms"]].concat();
    let child = place.started(&args, 2);
    child.signal(Signal::INT);
    let ran = child.ended().expect(130);
    assert!(!ran.out.contains("FAIL"), "{ran:?}");
    // There were such operations.
    place.line("report latest --format json").expect(0).says("stopped by the user");
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

#[test]
fn counting_the_data_of_others_has_the_time_of_work_and_no_more_and_is_interrupted() {
    let place = Place::new();
    // One of the tables that say how large the data are takes longer to count than anybody waits.
    let server = Postgres::start(place.path());
    server.sql("CREATE VIEW pgbench_branches AS SELECT bid FROM generate_series(1, 2) bid, pg_sleep(600)");
    let drive = format!("drive select --no-load --ops 1 --on {}", server.url());
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let child = Guarded(place.command(&drive.split(' ').collect::<Vec<_>>()).spawn().unwrap());
    wait_for("the count", Duration::from_secs(20), || server.sql(sleeping) != "0");
    child.signal(Signal::INT);
    child.ended().expect(130);

    let began = Instant::now();
    place.line(&format!("{drive} --work-timeout 1s")).expect(3);
    // It was two minutes whatever the limit.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
