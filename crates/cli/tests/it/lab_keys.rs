//! Labs of Redis: each run has keys of its own, and removes these only; roles are those after a failover.

use crate::bench::{Place, wait_for};
use crate::lab::Lab;
use crate::lab_progress::SEEN;

#[test]
fn runs_on_one_lab_keep_out_of_each_others_keys_and_remove_their_own() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-cluster", &[]);
    let ask = |words: &[&str]| lab.exec("1", &[&["redis-cli", "-c", "-h", "10.77.0.1"], words].concat()).expect(0).out;
    ask(&["SET", "mine", "1"]);
    let refused = "drive kv --on lab:redis-cluster --no-load --mix read=1 --set records=500 --for 1s";
    place.line(refused).expect(2);
    assert_eq!(ask(&["GET", "mine"]).trim(), "1");
    let load = "kv --set records=500 --mix read=1,update=1 --clients 2 --think 10ms --goal lost=0";
    let driving = lab.driving(&format!("{load} --for 8s"));
    lab.drive(&format!("{load} --for 1s")).expect(0);
    driving.ended().expect(0);
    for node in 1..=3 {
        let host = format!("10.77.0.{node}");
        let keys = lab.exec("1", &["redis-cli", "-h", &host, "KEYS", "*"]).expect(0).out;
        assert!(keys.lines().all(|key| key.trim().is_empty() || key.trim() == "mine"), "{keys}");
    }
    assert_eq!(ask(&["GET", "mine"]).trim(), "1");
    lab.down();
}

#[test]
fn faults_and_the_status_of_a_cluster_go_by_the_roles_after_a_failover() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-cluster", &["--set", "replicas=1"]);
    let roles = || -> Vec<String> {
        let status = lab.status();
        let nodes = status["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(), ["master", "master", "master", "replica", "replica", "replica"]);
    let address = lab.status()["nodes"][3]["address"].as_str().unwrap().to_owned();
    lab.exec("4", &["redis-cli", "-h", &address, "CLUSTER", "FAILOVER", "TAKEOVER"]).expect(0).says("OK");
    let mut former = 0;
    wait_for("the failover", SEEN, || {
        let roles = roles();
        former = roles.iter().position(|role| role == "replica").map_or(0, |at| at + 1);
        roles[3] == "master" && roles.iter().filter(|role| *role == "replica").count() == 3
    });
    let load = ["drive", "kv", "--set", "records=200", "--on", "lab:redis-cluster", "--clients", "2", "--for", "5s"];
    let fault = ["--think", "10ms", "--goal", "errors=100%", "--json", "-q", "--fault", "kill replica at 1s for 1s"];
    let report = place.run(&[&load[..], &fault].concat()).last_json();
    let name = report["report"]["faults"][0]["name"].as_str().unwrap().to_owned();
    assert!((1..=3).contains(&former) && name.contains(&format!("node {former}")), "{name}: {former}");
    lab.down();
}
