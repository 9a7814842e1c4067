//! A replica that joins: a slow base backup ends, and one that stands still is called hung.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_core::{Link, StoreErrorKind, Waits};
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::PostgresRecipe;
use plimsoll_testkit::private::base;

use crate::private::ask;

/// Time without progress after which a join is called hung.
const HUNG_AFTER: Duration = Duration::from_secs(3);

#[test]
fn a_base_backup_that_stands_still_is_called_hung_and_a_slow_one_is_not() {
    let base = base();
    let recipe = PostgresRecipe { nodes: 2, ..Default::default() };
    let (bases, logs) = ([base.path().to_owned()], base.path().join("logs"));
    let waits = Waits::default().with_hung_after(HUNG_AFTER);
    let cluster = Cluster::start(Box::new(recipe), &bases, &logs, &waits, &mut |_| {}).unwrap();
    let handle = cluster.handle();
    let slow = |rate| Link { rate_bits_per_s: Some(rate), ..Link::default() };
    handle.set_link(0, slow(40_000_000)).unwrap();
    let since = Instant::now();
    assert_eq!(cluster.add().unwrap(), 2);
    assert!(since.elapsed() > HUNG_AFTER, "the slow one took only {:?}", since.elapsed());

    handle.set_link(0, slow(20_000_000)).unwrap();
    let joining = std::thread::spawn(move || handle.add());
    let is_sending = || {
        let all = cluster.in_progress().unwrap();
        all.iter().any(|one| one.node == 3 && one.what == "base backup" && one.percent() > Some(0.0))
    };
    while !is_sending() {
        assert!(!joining.is_finished(), "it joined unseen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sender = ask(&cluster, "select pid from pg_stat_progress_basebackup");
    let stop = format!("kill -STOP {sender}");
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    let error = joining.join().unwrap().unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Broken, "{error}");
    let says = |text: &str| error.what.contains(text);
    let steps = "base backup, streaming database files; no progress for ";
    assert!(says("join of node 4 hung at ") && says(steps), "{error}");
    assert_eq!(cluster.nodes().len(), 3, "the node is gone");
    cluster.close().unwrap();
}
