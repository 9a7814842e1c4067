//! Reads and writes apart: replicas that answer, and a ledger that says when they answer with the past.

use crate::bench::Place;
use crate::lab::{Lab, counts};
use crate::lab_progress::is_seen_behind;

/// Returns the names of the nodes that answered in the latest run's drive.
fn nodes(place: &Place) -> Vec<String> {
    counts(place).into_iter().map(|(name, _)| name).collect()
}

/// Reads are right without writes, and late if updates of a replica are now and then lost and repeated: then the run fails.
fn is_told(place: &Place, lab: &Lab<'_>, parameter: &str, [workload, right]: [&str; 2]) {
    let drive = |mix: &str, which: &str| {
        lab.drive(&format!("{workload} --mix {mix} --clients 6 --for 1500ms --set {parameter}={which}"))
    };
    let node = |number: usize| format!("{} node {number}", lab.name);
    drive("read=1 --think 5ms --set records=500", "replicas").expect(0).says(right);
    assert_eq!(nodes(place), [node(2), node(3)]);
    drive("read=1 --think 5ms --set records=500", "any").expect(0).says(right);
    assert_eq!(nodes(place), [node(1), node(2), node(3)]);
    lab.does("link", "2 --loss 10%");
    // How many reads are late depends on which packets are lost: in few drives none is, and in very few no session opens.
    let late = |_| {
        let ran = drive("read=1,update=1 --set records=50", "replicas");
        assert!(ran.code != Some(3) || ran.err.contains("no session within"), "{ran:?}");
        // Or undecided, if packets were lost again and again.
        assert!(matches!(ran.code, Some(0 | 1 | 3 | 11)), "{ran:?}");
        Some(ran).filter(|ran| ran.code == Some(1))
    };
    (0..20).find_map(late).expect("none of 20 drives read the past").says("wrong … it shows");
    drive("read=1,update=1 --think 5ms --set records=50", "primary").expect(0).says(right);
    lab.does("link", "--plain");
}

#[test]
fn mariadb_reads_from_replicas() {
    let place = Place::new();
    let lab = Lab::up(&place, "mariadb-replicas", &[]);
    is_told(&place, &lab, "mariadb.reads", ["coupons", "checked answers … were right"]);
    is_seen_behind(&lab);
    lab.down();
}

#[test]
fn postgresql_reads_from_replicas_writes_to_the_primary_and_spreads_sessions_over_the_hosts_of_a_url() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &[]);
    is_told(&place, &lab, "postgres.reads", ["kv", "kept every promise"]);
    // Transactions that write go to the primary whole.
    let small =
        "--set table_size=1000 --set max_tries=9 --set postgres.reads=replicas --think 5ms --for 1s --clients 2";
    for (workload, answering) in [("oltp_read_write", &[1][..]), ("oltp_read_only", &[2, 3])] {
        lab.drive(&format!("{workload} {small}")).expect(0).says("MEASURED");
        let wanted: Vec<String> = answering.iter().map(|node| format!("postgres-replicas node {node}")).collect();
        assert_eq!(nodes(&place), wanted, "{workload}");
    }
    place.refuses(&[("drive kv --on postgres --set postgres.reads=replicas", "there is none")]);

    let script = place.path().join("read.sql");
    std::fs::write(&script, "SELECT 1;\n").unwrap();
    let reads = format!("-f {}", script.display());
    let drive = |what: &str, url: &str| {
        let program = env!("CARGO_BIN_EXE_plimsoll");
        let words = format!("{program} drive {what} --clients 9 --think 5ms --ops 60 --on {url}");
        lab.exec("load", &words.split(' ').collect::<Vec<_>>())
    };
    let hosts = "postgres://postgres@10.77.0.1,10.77.0.2,10.77.0.3/postgres";
    let random = format!("{hosts}?load_balance_hosts=random");
    drive(&reads, &random).expect(0);
    assert_eq!(counts(&place).len(), 3, "{:?}", counts(&place));
    drive(&reads, &format!("{random}&target_session_attrs=standby")).expect(0);
    assert_eq!(counts(&place).len(), 2, "{:?}", counts(&place));
    let apart = "kv --mix read=1 --set records=500 --set postgres.reads=replicas";
    drive(apart, hosts).expect(0).says("kept every promise");
    assert_eq!(counts(&place).len(), 2, "{:?}", counts(&place));
    drive(&format!("{reads} --set postgres.reads=any"), &random).expect(2).says("Leave one of them out");
    lab.down();
}

mod heavy {
    use super::*;

    #[test]
    fn redis_reads_from_replicas() {
        let place = Place::new();
        let lab = Lab::up(&place, "redis-sentinel", &[]);
        is_told(&place, &lab, "redis.reads", ["kv", "kept every promise"]);
        lab.down();
    }
}
