//! Nodes that join while their cluster is driven.

use std::time::Duration;

use crate::bench::{Place, wait_for};
use crate::lab::Lab;

/// A plan in which a node joins; `STORE` stands for the store.
const PLAN: &str = r#"
stores = [STORE]
repeats = 2
workload = { name = "coupons", records = 500, index = "own" }
[[phase]]
do = "load"
[[phase]]
name = "join"
do = "drive"
clients = 4
for = "4s"
mix = { read = 7, update = 3 }
action = [{ at = "1s", what = "add" }]
[[phase]]
do = "check"
[goals]
lost = 0
wrong = 0
errors = "0%"
[[figure]]
name = "until it is whole"
unit = "s"
formula = "join.join_seconds"
"#;

/// Runs it on `store`: in both repeats the same node joins, since it has left in between.
fn joins_twice(place: &Place, store: &str) {
    place.run(&["run", &place.plan(&PLAN.replace("STORE", store)), "-q"]).expect(0).says("until it is whole");
    let report = place.report();
    let texts = report["events"].as_array().unwrap().iter().map(|event| event["text"].to_string()).collect::<Vec<_>>();
    let count = |what: &str| texts.iter().filter(|text| text.contains(what)).count();
    assert_eq!((count("node 3 joined"), count("node 3 left")), (2, 2), "{texts:?}");
}

#[test]
fn a_replica_of_postgresql_joins_a_lab_while_it_is_driven_and_leaves_at_the_trials_end() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    joins_twice(&place, "\"lab:postgres-replicas\"");
    assert_eq!(lab.status()["nodes"].as_array().unwrap().len(), 2, "a lab stays as it was");
    // The node of a run that is killed stays, and the lab says so.
    let plan = PLAN.replace("STORE", "\"lab:postgres-replicas\"").replace("\"4s\"", "\"60s\"");
    let mut run = place.started(&["run", &place.plan(&plan), "-q"], 1);
    let left = || lab.status()["nodes"][2]["is_left"].clone();
    wait_for("the node", Duration::from_secs(20), || left() == false);
    run.kill();
    wait_for("that it is known", Duration::from_secs(5), || left() == true);
    let command = "plimsoll lab remove postgres-replicas 3";
    place.line("lab status").expect(0).says(&format!("left by a run that was killed: {command}"));
    place.line(command.strip_prefix("plimsoll ").unwrap()).expect(0).says("node 3 has left");
    lab.down();
}

#[test]
fn a_node_of_galera_joins_while_it_is_driven_and_leaves_at_the_trials_end() {
    joins_twice(&Place::new(), "{ store = \"galera\", nodes = 2, settings = \"wsrep_sync_wait=15\" }");
}

#[test]
fn an_action_that_cannot_be_is_refused_before_anything_is_started() {
    let place = Place::new();
    let on = |store: &str| PLAN.replace("STORE", store);
    for (plan, text) in [
        (on("\"sqlite\""), "Plimsoll cannot act on the servers of sqlite"),
        (on("\"postgres\""), "made alone takes no replicas"),
        (on("\"sqlite\"").replace("\"add\"", "\"explode\""), "explode"),
        (on("\"sqlite\"").replace("at = \"1s\", ", ""), "an action needs `at`"),
        (on("\"sqlite\"").replace("at = \"1s\"", "at = 1"), ":1"),
    ] {
        place.run(&["run", &place.plan(&plan)]).expect(2).says(text);
    }
    assert!(place.all_runs().is_empty());
}
