//! Reads and writes apart: replicas that answer, and a ledger that says when they answer with the past.

use serde_json::Value;

use crate::bench::Place;
use crate::lab::Lab;

/// Returns the answers of each node in the latest run's drive.
fn counts(place: &Place) -> Vec<(String, u64)> {
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let view: Value = serde_json::from_str(&report.out).unwrap();
    let phases = view["trials"][0]["phases"].as_array().unwrap();
    let driven = phases.iter().find(|phase| phase["kind"] == "drive").unwrap();
    let nodes = driven["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|node| (node["name"].as_str().unwrap().to_owned(), node["count"].as_u64().unwrap())).collect()
}

fn names(counts: &[(String, u64)]) -> Vec<&str> {
    counts.iter().map(|(name, _)| name.as_str()).collect()
}

/// Reads are right without writes, and late if updates of a replica are now and then lost and repeated: then the run fails.
fn is_told(store: &'static str, parameter: &str, workload: (&[&str], &[&str])) {
    let (reads, writes) = workload;
    let place = Place::new();
    let lab = Lab::up(&place, store, &[]);
    let on = format!("lab:{store}");
    let drive = |workload: &[&str], which: &str| {
        let set = format!("{parameter}={which}");
        place.run(&[&["drive"], workload, &["--on", &on, "--clients", "6", "--for", "3s", "--set", &set]].concat())
    };
    drive(reads, "replicas").expect(0).says("kept every promise");
    let node = |number: usize| format!("{store} node {number}");
    let of_replicas = counts(&place);
    assert_eq!(names(&of_replicas), [node(2), node(3)], "{of_replicas:?}");
    drive(reads, "any").expect(0).says("kept every promise");
    let of_all = counts(&place);
    assert_eq!(names(&of_all), [node(1), node(2), node(3)], "{of_all:?}");
    place.run(&["lab", "link", lab.name, "2", "--loss", "10%"]).expect(0);
    drive(writes, "replicas").expect(1).says("wrong").says("it shows");
    drive(writes, "primary").expect(0).says("kept every promise");
    lab.down();
}

const KV_READS: &[&str] = &["kv", "--mix", "read=1", "--set", "records=500"];
const KV_WRITES: &[&str] = &["kv", "--mix", "read=1,update=1", "--set", "records=50"];
const COUPONS_READS: &[&str] = &["coupons", "--mix", "read=1", "--set", "records=500"];
const COUPONS_WRITES: &[&str] = &["coupons", "--mix", "read=1,update=1", "--set", "records=50"];

#[test]
fn postgresql_reads_from_replicas() {
    is_told("postgres-replicas", "postgres.reads", (KV_READS, KV_WRITES));
}

#[test]
fn mariadb_reads_from_replicas() {
    is_told("mariadb-replicas", "mariadb.reads", (COUPONS_READS, COUPONS_WRITES));
}

#[test]
fn redis_reads_from_replicas() {
    is_told("redis-sentinel", "redis.reads", (KV_READS, KV_WRITES));
}

#[test]
fn transactions_that_write_go_to_the_primary_whole_and_others_to_replicas() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let small = ["--set", "table_size=1000", "--set", "max_tries=9", "--set", "postgres.reads=replicas"];
    for (workload, nodes) in [("oltp_read_write", vec![1]), ("oltp_read_only", vec![2])] {
        let drive = ["drive", workload, "--on", "lab:postgres-replicas", "--for", "2s", "--clients", "2"];
        place.run(&[&drive[..], &small].concat()).expect(0).says("PASS");
        let wanted: Vec<String> = nodes.iter().map(|number| format!("postgres-replicas node {number}")).collect();
        assert_eq!(names(&counts(&place)), wanted, "{workload}");
    }
    // A replica that dies takes its sessions' connections, and others answer: there is none, so they wait for it.
    place.run(&["drive", "kv", "--on", "postgres", "--set", "postgres.reads=replicas"]).expect(2).says("there is none");
    lab.down();
}

#[test]
fn sessions_are_spread_over_the_hosts_of_a_url() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "3"]);
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let script = place.path().join("read.sql");
    std::fs::write(&script, "SELECT 1;\n").unwrap();
    let drive = |url: &str, what: &[&str]| {
        let exec = ["lab", "exec", lab.name, "load", "--", program, "drive"];
        place.run(&[&exec[..], what, &["--clients", "9", "--for", "2s", "--on", url]].concat())
    };
    let reads = ["-f", script.to_str().unwrap()];
    let hosts = "postgres://postgres@10.77.0.1,10.77.0.2,10.77.0.3/postgres";
    drive(&format!("{hosts}?load_balance_hosts=random"), &reads).expect(0);
    assert_eq!(counts(&place).len(), 3, "{:?}", counts(&place));
    drive(&format!("{hosts}?load_balance_hosts=random&target_session_attrs=standby"), &reads).expect(0);
    assert_eq!(counts(&place).len(), 2, "{:?}", counts(&place));
    drive(hosts, &[KV_READS, &["--set", "postgres.reads=replicas"]].concat()).expect(0).says("kept every promise");
    assert_eq!(counts(&place).len(), 2, "{:?}", counts(&place));
    let both = format!("{hosts}?load_balance_hosts=random");
    drive(&both, &[&reads[..], &["--set", "postgres.reads=any"]].concat()).expect(2).says("Leave one of them out");
    lab.down();
}

#[test]
fn a_cluster_is_found_by_any_of_several_nodes_and_a_master_by_its_sentinels() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let drive = ["drive", "kv", "--mix", "read=1", "--set", "records=300", "--clients", "3"];
    let lab = Lab::up(&place, "redis-cluster", &[]);
    let exec = ["lab", "exec", "redis-cluster", "load", "--", program];
    let seeds = ["--on", "redis://10.77.0.1:1,10.77.0.2:6379,10.77.0.3/", "--for", "1s"];
    let ran = place.run(&[&exec[..], &drive, &seeds].concat()).expect(0);
    ran.says("kept every promise");
    assert_eq!(counts(&place).len(), 3, "{:?}", counts(&place));
    lab.down();

    let lab = Lab::up(&place, "redis-sentinel", &[]);
    let exec = ["lab", "exec", "redis-sentinel", "load", "--", program];
    let on = |url: &str, more: &[&str]| place.run(&[&exec[..], &drive, &["--on", url], more].concat());
    let sentinels = "redis+sentinel://10.77.0.1:1,10.77.0.2:26379/";
    on(&format!("{sentinels}other"), &["--for", "1s"]).expect(2).says("know of no master `other`");
    on(&format!("{sentinels}plimsoll"), &["--for", "1s", "--set", "redis.reads=replicas"]).expect(0);
    assert_eq!(counts(&place).len(), 2, "{:?}", counts(&place));
    let url = "redis-sentinel://10.77.0.2,10.77.0.3/0?sentinelMasterId=plimsoll";
    let driven = [&exec[..], &drive, &["--on", url, "--for", "15s"]].concat();
    let mut driven = crate::bench::Guarded(place.command(&driven).spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_secs(5));
    place.run(&["lab", "kill", "redis-sentinel", "1"]).expect(0);
    assert!(driven.0.wait().unwrap().success());
    assert_eq!(counts(&place).len(), 2, "the old master, and the new one: {:?}", counts(&place));
    lab.down();
}
