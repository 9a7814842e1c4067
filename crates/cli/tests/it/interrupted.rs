//! Ctrl-C during operations of stores whose calls block until they are done: no failure.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bench::{Guarded, Place, left_below, wait_for};
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
fn a_second_signal_ends_a_run_at_once_whose_disk_delays_a_flush_and_nothing_stays() {
    let place = Place::new();
    let plan = place.plan(
        "stores = [{ store = \"sqlite\", disk = \"ext4\" }]\nslice = \"100ms\"\n\
         [workload]\nname = \"kv\"\nrecords = 100\n[[phase]]\ndo = \"load\"\ndurability = \"durable\"\n\
         [[phase]]\ndo = \"drive\"\nfor = \"100s\"\nmix = { update = 1 }\ndurability = \"durable\"\nop_timeout = \"90s\"\n\
         fault = \"disk delay flush 60000000 0 1 at 300ms\"\n",
    );
    let mut child = place.started(&["run", &plan, "--quiet"], 8);
    child.interrupt_twice();
    // A thread that waits for a flush cannot be killed: the process would stay for the minute that the flush takes.
    wait_for("the end", Duration::from_secs(50), || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    wait_for("the disk's end", Duration::from_secs(100), || left_below(place.path()).is_empty());
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
    wait_for("the count", Duration::from_secs(100), || server.sql(sleeping) != "0");
    child.signal(Signal::INT);
    child.ended().expect(130);

    let began = Instant::now();
    place.line(&format!("{drive} --work-timeout 1s")).expect(3);
    // It was two minutes whatever the limit.
    assert!(began.elapsed() < Duration::from_secs(110), "{:?}", began.elapsed());
}
