//! A proxy in front of a cluster, and several servers that share one machine.

use std::time::Duration;

use crate::bench::{Guarded, Place};
use crate::lab::Lab;

/// Is driven through its proxy, says so, and goes on when a node behind it is killed.
fn is_driven_through(store: &'static str, workload: &[&str], killed: &str) {
    let place = Place::new();
    let lab = Lab::up(&place, store, &[]);
    let on = format!("lab:{store}");
    let drive =
        |length: &'static str| [&["drive"], workload, &["--on", &on, "--clients", "6", "--for", length]].concat();
    let ran = place.run(&drive("1s")).expect(0);
    ran.says("through HAProxy to 3 nodes");
    let status = place.run(&["lab", "status"]).expect(0);
    assert!(status.out.contains("haproxy") && status.out.contains(":8000"), "{}", status.out);
    place.run(&["lab", "add", store]).expect(2).says("start a new cluster with more nodes");
    let mut driven = Guarded(place.command(&drive("8s")).spawn().unwrap());
    std::thread::sleep(Duration::from_secs(4));
    place.run(&["lab", "kill", store, killed]).expect(0);
    assert!(driven.0.wait().unwrap().success(), "sessions go to another node");
    lab.down();
}

#[test]
fn galera_behind_haproxy_is_driven() {
    let workload = ["oltp_point_select", "--set", "table_size=500"];
    is_driven_through("galera-haproxy", &workload, "2");
}

#[test]
fn etcd_behind_haproxy_is_driven() {
    is_driven_through("etcd-haproxy", &["kv", "--mix", "read=1", "--set", "records=300"], "3");
}

#[test]
fn postgresql_behind_haproxy_reads_and_writes_through_two_ports() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-haproxy", &["--nodes", "3"]);
    let drive =
        ["drive", "kv", "--set", "records=500", "--on", "lab:postgres-haproxy", "--clients", "4", "--for", "1s"];
    let run = |more: &[&str]| place.run(&[&drive, more].concat());
    run(&["--mix", "read=1,update=1"]).expect(0).says("kept every promise").says("through HAProxy to 3 nodes");
    // PostgreSQL's own count of who was asked: the replicas, through the second port.
    let reads = run(&["--mix", "read=1", "--set", "postgres.reads=replicas"]).expect(0);
    reads.says("kept every promise");
    let asked = "SELECT CASE WHEN pg_is_in_recovery() THEN sum(xact_commit) > 500 END FROM pg_stat_database";
    for replica in ["2", "3"] {
        let psql = ["lab", "exec", lab.name, replica, "--", "psql", "-Atc", asked];
        place.run(&psql).expect(0).says("t\n");
    }
    lab.down();
}

#[test]
fn a_proxy_in_front_of_one_server_is_refused() {
    let place = Place::new();
    let drive = ["drive", "kv", "--mix", "read=1", "--for", "1s", "--on"];
    for on in ["postgres", "etcd"] {
        let set = format!("{on}.haproxy=true");
        place.run(&[&drive[..], &[on, "--set", &set]].concat()).expect(2).says("nodes = 3");
    }
    place
        .run(&["drive", "oltp_point_select", "--on", "mariadb", "--set", "mariadb.haproxy=true"])
        .expect(2)
        .says("galera");
}

#[test]
fn instances_share_a_machine_and_the_ledger_vouches_for_all() {
    let place = Place::new();
    let set = ["--set", "postgres.instances=3", "--set", "records=500", "--clients", "6", "--for", "1s"];
    let run = |workload: &[&str]| place.run(&[&["drive"], workload, &["--on", "postgres"], &set[..]].concat());
    let ran = run(&["kv", "--mix", "read=2,update=1,insert=1"]).expect(0);
    ran.says("kept every promise").says("postgres node 1").says("postgres node 3");
    run(&["kv", "--mix", "scan=1"]).expect(2).says("cannot be scanned");
    run(&["coupons", "--mix", "read=1"]).expect(2).says("each instance has a part of them");
}

#[test]
fn each_client_of_sql_has_one_of_the_instances() {
    let place = Place::new();
    for store in ["postgres", "mariadb"] {
        let instances = format!("{store}.instances=2");
        let set = ["--set", &instances, "--set", "table_size=500", "--set", "max_tries=50", "--set", "tables=1"];
        let drive = ["drive", "oltp_read_write", "--on", store, "--clients", "4", "--for", "1s"];
        let ran = place.run(&[&drive[..], &set].concat()).expect(0);
        ran.says(&format!("{store} node 1")).says(&format!("{store} node 2"));
    }
    let both = ["--set", "postgres.instances=2", "--nodes", "2"];
    place.run(&[&["drive", "select", "--on", "postgres"], &both[..]].concat()).expect(2).says("instances");
}
