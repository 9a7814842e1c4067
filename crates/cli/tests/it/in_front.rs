//! A proxy in front of a cluster, and several servers that share one machine.

use plimsoll_testkit::draw::repeats;

use crate::bench::Place;
use crate::lab::Lab;

/// Is driven through its proxy, says so, and goes on when a node behind it is killed.
fn is_driven_through(store: &'static str, workload: &str, killed: &str) {
    let place = Place::new();
    let lab = Lab::up(&place, store, &[]);
    let drive = format!("drive {workload} --on lab:{store} --clients 6 --think 5ms --slice 100ms --full");
    place.line(&format!("{drive} --ops 50")).expect(0).says("through HAProxy to 3 nodes");
    place.line("lab status").expect(0).says("haproxy … :8000");
    place.run(&["lab", "add", store]).expect(2).says("start a new cluster with more nodes");
    // How many fail while the cluster is without a leader depends on the machine's pace.
    let drive = format!("{drive} --for 8s --goal errors=90%");
    let driven = place.started(&drive.split(' ').collect::<Vec<_>>(), 5);
    place.run(&["lab", "kill", store, killed]).expect(0);
    // Sessions go to another node.
    driven.ended().expect(0);
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
        place.run(&psql).expect(0).says("t\n");
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
