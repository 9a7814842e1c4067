//! A proxy in front of a cluster, and several servers that share one machine.

use std::time::Duration;

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::Run;
use plimsoll_testkit::draw::repeats;
use rustix::process::Signal;

use crate::bench::{Place, wait_for};
use crate::lab::Lab;

/// Slices without errors after which all sessions have left a killed node: 3 s, longer than any wait before a session
/// connects again.
const CALM: usize = 30;

/// Is driven through its proxy, says so, and goes on when a node behind it is killed.
fn is_driven_through(store: &'static str, workload: &str, killed: &str) {
    let place = Place::new();
    let lab = Lab::up(&place, store, &[]);
    let drive = format!("drive {workload} --on lab:{store} --clients 6 --think 5ms --slice 100ms --full");
    place.line(&format!("{drive} --ops 50")).expect(0).says("through HAProxy to 3 nodes");
    place.line("lab status").expect(0).says("haproxy … :8000");
    place.run(&["lab", "add", store]).expect(2).says("start a new cluster with more nodes");
    let drive = format!("{drive} --for 300s --keep-operations 1M");
    let driven = place.started(&drive.split(' ').collect::<Vec<_>>(), 5);
    place.run(&["lab", "kill", store, killed]).expect(0);
    let before = place.slices().len();
    let is_calm = |slice: &Slice<Distribution>| {
        let mut outcomes = slice.histograms.iter().map(|one| one.outcome);
        let is_hung = slice.oldest_age_ns > 1_000_000_000;
        !slice.histograms.is_empty() && !is_hung && outcomes.all(|outcome| !outcome.is_error())
    };
    // How many fail while the cluster is without a leader depends on the machine's pace, and so does the time.
    let mut calm_from_ns = 0;
    wait_for("answers without errors", Duration::from_secs(200), || {
        let slices: Vec<_> = place.slices().into_iter().skip(before).collect();
        let last = &slices[slices.len().saturating_sub(CALM)..];
        calm_from_ns = last.first().map_or(0, |slice| slice.start_ns);
        last.len() == CALM && last.iter().all(is_calm)
    });
    driven.signal(Signal::INT);
    driven.ended().expect(130);
    // Each session has another node.
    let run = Run::load(&place.all_runs().pop().unwrap()).unwrap();
    let all = run.trials[0].phases.iter().find_map(|phase| phase.operations.as_ref()).unwrap();
    for client in 0..6 {
        let its = all.each.iter().rev().find(|op| op.client == client && !op.outcome.is_error());
        assert!(its.is_some_and(|op| op.end_ns > calm_from_ns), "client {client} has no answers: {its:?}");
    }
    lab.down();
}

#[test]
fn etcd_behind_haproxy_is_driven() {
    is_driven_through("etcd-haproxy", "kv --mix read=1 --set records=300", "3");
}

#[test]
fn postgresql_behind_haproxy_reads_and_writes_through_two_ports() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-haproxy", &["--nodes", "3"]);
    let drive = "drive kv --set records=500 --on lab:postgres-haproxy --clients 4 --full --mix";
    place
        .line(&format!("{drive} read=1,update=1 --think 2ms --ops 100"))
        .expect(0)
        .says("kept every promise … through HAProxy to 3 nodes");
    // PostgreSQL's own count of who was asked: the replicas, through the second port.
    place
        .line(&format!("{drive} read=1 --ops 1000 --set postgres.reads=replicas"))
        .expect(0)
        .says("kept every promise");
    let asked = "SELECT CASE WHEN pg_is_in_recovery() THEN sum(xact_commit) > 500 END FROM pg_stat_database";
    for replica in ["2", "3"] {
        let psql = ["lab", "exec", lab.name, replica, "--", "psql", "-Atc", asked];
        // A session of the server adds its count at its end, for which its client does not wait.
        let has_more = || place.run(&psql).expect(0).out.lines().any(|line| line == "t");
        wait_for("the count of a replica", Duration::from_secs(100), has_more);
    }
    lab.down();
}

#[test]
fn a_proxy_in_front_of_one_server_is_refused_and_what_instances_cannot_be_asked_too() {
    Place::new().refuses(&[
        ("drive kv --mix read=1 --for 1s --on postgres --set postgres.haproxy=true", "nodes = 3"),
        ("drive kv --mix read=1 --for 1s --on etcd --set etcd.haproxy=true", "nodes = 3"),
        ("drive oltp_point_select --on mariadb --set mariadb.haproxy=true", "galera"),
        ("drive select --on postgres --set postgres.instances=2 --nodes 2", "instances"),
        ("drive kv --mix scan=1 --set records=50 --on postgres --set postgres.instances=2", "cannot be scanned"),
        (
            "drive coupons --mix read=1 --set records=50 --on postgres --set postgres.instances=2",
            "each instance has a part of them",
        ),
    ]);
}

#[test]
fn instances_share_a_machine_the_ledger_vouches_for_all_and_each_client_of_sql_has_one() {
    let place = Place::new();
    let sql = "oltp_read_write --set table_size=500 --set max_tries=50 --set tables=1";
    let all = [
        ("postgres", "kv --mix read=2,update=1,insert=1 --set records=500", "kept every promise"),
        ("mariadb", sql, "MEASURED"),
        ("postgres", sql, "MEASURED"),
    ];
    for (store, workload, said) in all.into_iter().take(repeats(2, 3)) {
        let drive =
            format!("drive {workload} --on {store} --set {store}.instances=2 --clients 4 --think 2ms --ops 10 --full");
        place.line(&drive).expect(0).says(&format!("{said} … {store} node 1 … {store} node 2"));
    }
}

mod heavy {
    use super::*;

    #[test]
    fn galera_behind_haproxy_is_driven() {
        is_driven_through("galera-haproxy", "oltp_point_select --set table_size=500", "2");
    }
}
