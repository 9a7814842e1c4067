//! Nodes of a cluster that die under load, and replicas that take their place.

use std::time::Duration;

use plimsoll_core::{Layout, Outcome};
use plimsoll_drive::{DriveResult, Io, OpTime, Pace};
use plimsoll_store_redis::slots::slot_of;
use plimsoll_testkit::certificates::Authority;

use crate::cluster::{CLIENTS, Cluster, KEYS, PREFIX, counter, drive, filled, key, until};
use crate::fixture::open;

/// Five hundred operations a second, whatever is answered: few enough to work off on a busy machine what an outage leaves.
fn open_loop() -> Pace {
    Pace::even(500.0)
}

/// Errors of this outcome, by their codes.
fn codes(result: &DriveResult, outcome: Outcome) -> Vec<(&str, u64)> {
    let these = result.errors.iter().filter(|error| error.outcome == outcome);
    these.map(|error| (error.code.as_str(), error.count)).collect()
}

/// The place of the master, as it was at first, of what an operation asked for.
fn home(op: &OpTime) -> usize {
    let number = (op.cycle / 2 * CLIENTS + u64::from(op.client)) % KEYS;
    Cluster::owner(slot_of(format!("{PREFIX}{}", key(number)).as_bytes()))
}

#[test]
fn a_node_that_dies_is_an_outage_for_its_keys_only() {
    let mut cluster = Cluster::start();
    let mut store = open(&cluster.url(), &[], None).unwrap();
    store.create(&Layout::default()).unwrap();
    let pace = open_loop();
    let outage = Duration::from_millis(700);
    let dying = &mut cluster.nodes[1].server;
    let result = drive(&mut *store, 1, Io::Auto, pace, || {
        dying.kill();
        std::thread::sleep(outage);
        dying.start_again();
        // While it loads its data, it says so instead.
        until("the node is back", || {
            let says = dying.control().command(&[b"CLUSTER", b"INFO"]);
            says.is_ok_and(|says| says.text().contains("cluster_state:ok"))
        });
        std::thread::sleep(Duration::from_secs(3));
    });
    let errors = |outcome: Outcome| -> u64 {
        result.errors.iter().filter(|error| error.outcome == outcome).map(|error| error.count).sum()
    };
    assert!(result.lost_connections >= 8, "every session had a connection to it: {}", result.lost_connections);
    assert!(errors(Outcome::Unknown) <= 8, "{:?}", result.errors);
    // A node that has just started says no until it has heard of the others.
    let said_no =
        |error: &plimsoll_drive::ErrorCount| error.outcome == Outcome::Rejected && error.code != "CLUSTERDOWN";
    assert!(!result.errors.iter().any(said_no), "{:?}", result.errors);
    assert!(result.down_ns >= 8 * outage.as_nanos() as u64 / 2, "{} ns", result.down_ns);
    // What was due for the dead node waited for it, and stands in the distribution with that time.
    let waited = |op: &&plimsoll_drive::OpTime| op.end_ns - op.scheduled_ns > outage.as_nanos() as u64 / 2;
    assert!(result.each.iter().filter(waited).count() >= 8);
    let last_ns = result.each.iter().map(|op| op.scheduled_ns).max().unwrap();
    let good = |op: &&plimsoll_drive::OpTime| op.outcome == Outcome::Ok && last_ns - op.scheduled_ns < 200_000_000;
    assert!(result.each.iter().filter(good).count() > 25, "it goes on afterwards");
    cluster.until_all_know(3);
    store.close().unwrap();
    assert_eq!(cluster.sizes(), [0, 0, 0]);
}

#[test]
fn a_replica_that_takes_over_ends_the_outage_and_hands_back_by_moved() {
    let mut cluster =
        Cluster::with("--port", &["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "1000"]);
    let replica = cluster.replica_of(1);
    let mut store = open(&cluster.url(), &[], None).unwrap();
    store.create(&Layout::default()).unwrap();
    let result = drive(&mut *store, 1, Io::Auto, open_loop(), || {
        cluster.nodes[1].server.kill();
        until("the replica has taken over", || replica.says("role") == "master");
        // On a busy machine the clients take their time to find it, and to work off what was due meanwhile.
        std::thread::sleep(Duration::from_secs(5));
    });
    assert!(result.lost_connections >= CLIENTS, "every session had a connection to it: {}", result.lost_connections);
    let unknown: u64 = codes(&result, Outcome::Unknown).iter().map(|(_, count)| count).sum();
    assert!(unknown <= CLIENTS, "what was in flight there and nothing else: {:?}", result.errors);
    // For a moment masters know that the slots have no node.
    let said_no = codes(&result, Outcome::Rejected);
    assert!(said_no.iter().all(|(code, _)| *code == "CLUSTERDOWN"), "{said_no:?}");
    // It takes a second until the others hold it for dead, and its clients waited for all of that.
    let outage_ns = 1_000_000_000;
    let waited = |op: &&OpTime| op.end_ns - op.scheduled_ns > outage_ns / 2;
    let long: Vec<&OpTime> = result.each.iter().filter(waited).collect();
    assert!(long.len() as u64 >= CLIENTS, "{} of {}", long.len(), result.each.len());
    assert!(long.iter().any(|op| home(op) == 1 && op.outcome == Outcome::Ok), "they waited for the replica");
    // At the end the replica answers for the dead master's keys.
    let last_ns = result.each.iter().map(|op| op.scheduled_ns).max().unwrap();
    let at_last = |op: &&OpTime| last_ns - op.scheduled_ns < 300_000_000 && home(op) == 1;
    let (good, bad): (Vec<&OpTime>, Vec<_>) =
        result.each.iter().filter(at_last).partition(|op| op.outcome == Outcome::Ok || op.outcome == Outcome::NotFound);
    assert!(good.len() > 10 && bad.is_empty(), "{} good, {bad:?}", good.len());

    // The old master comes back as a replica and is made master again, which loses no operation.
    cluster.nodes[1].server.start_again();
    until("it is a replica", || {
        cluster.nodes[1].says("role") == "slave" && cluster.nodes[1].says("master_link_status") == "up"
    });
    let before = counter(&mut *store, "cluster_moved");
    let result = drive(&mut *store, 1, Io::Auto, open_loop(), || {
        cluster.nodes[1].server.ask(&["CLUSTER", "FAILOVER"]);
        until("it is master again", || cluster.nodes[1].says("role") == "master" && replica.says("role") == "slave");
    });
    // A master that knows of one of the two changes only knows of no node for the slots: for a moment, which is longer
    // on a busy machine.
    let said_no = codes(&result, Outcome::Rejected);
    let is_short = |count: u64| 4 * count < result.ops;
    assert!(said_no.iter().all(|(code, count)| *code == "CLUSTERDOWN" && is_short(*count)), "{said_no:?}");
    assert_eq!(result.errors.len(), said_no.len(), "{:?}", result.errors);
    assert!(counter(&mut *store, "cluster_moved") > before, "its keys were asked elsewhere");
    cluster.until_all_know(3);
    store.close().unwrap();
    assert_eq!(cluster.sizes(), [0, 0, 0]);
}

#[test]
fn a_cluster_is_spoken_to_through_tls() {
    let (authority, other) = (Authority::default(), Authority::new("other"));
    let pair = authority.sign("127.0.0.1");
    let shown = |path: &std::path::Path| path.display().to_string();
    let (ca, cert, key_file) = (shown(&authority.root()), shown(&pair.certificate), shown(&pair.key));
    let options = format!(
        "--tls-cluster yes --tls-replication yes --tls-cert-file {cert} --tls-key-file {key_file} --tls-ca-cert-file {ca}"
    );
    let cluster = Cluster::with("--tls-port", &options.split(' ').collect::<Vec<_>>());
    let url = |query: &str| format!("rediss://127.0.0.1:{}/?{query}&cert={cert}&key={key_file}", cluster.nodes[0].port);
    let mut store = open(&url(&format!("cacert={ca}")), &[], None).unwrap();
    assert!(store.describe().unwrap().place.starts_with("cluster of 3 masters at rediss://127.0.0.1"));
    store.create(&Layout::default()).unwrap();
    filled(&mut *store, &cluster);
    store.close().unwrap();
    assert_eq!(cluster.sizes(), [0, 0, 0]);
    let untrusted = open(&url(&format!("cacert={}", other.root().display())), &[], None).err().unwrap();
    assert_eq!(untrusted.kind, plimsoll_core::StoreErrorKind::Authentication, "{untrusted:?}");
}
