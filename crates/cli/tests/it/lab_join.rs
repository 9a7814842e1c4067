//! Nodes that join while their cluster is driven.

use serde_json::Value;

use crate::bench::Place;
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

/// Runs it on `store`; the texts of events.
fn events_of(place: &Place, store: &str) -> Vec<(f64, String)> {
    place.run(&["run", &place.plan(&PLAN.replace("STORE", store)), "-q"]).expect(0).says("until it is whole");
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let view: Value = serde_json::from_str(&report.out).unwrap();
    let events = view["events"].as_array().unwrap().iter();
    events.map(|event| (event["at_s"].as_f64().unwrap(), event["text"].as_str().unwrap().to_owned())).collect()
}

/// Checks that the same node joins in both repeats, since it has left in between.
fn joins_twice(events: &[(f64, String)], joined: &str, left: &str) {
    let count = |what: &str| events.iter().filter(|(_, text)| text.contains(what)).count();
    assert_eq!((count(joined), count(left)), (2, 2), "{events:?}");
}

#[test]
fn a_replica_of_postgresql_joins_while_it_is_driven_and_leaves_at_the_trials_end() {
    let place = Place::new();
    let events = events_of(&place, "{ store = \"postgres-replicas\", nodes = 2 }");
    joins_twice(&events, "node 3 joined", "node 3 left");
    // A lab stays as it was.
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    joins_twice(&events_of(&place, "\"lab:postgres-replicas\""), "joined", "left");
    assert_eq!(lab.status()["nodes"].as_array().unwrap().len(), 2);
    lab.down();
}

#[test]
fn a_node_of_galera_joins_while_it_is_driven_and_leaves_at_the_trials_end() {
    let place = Place::new();
    let settings = "{ store = \"galera\", nodes = 2, settings = \"wsrep_sync_wait=15\" }";
    joins_twice(&events_of(&place, settings), "node 3 joined", "node 3 left");
}

#[test]
fn an_action_that_cannot_be_is_refused_before_anything_is_started() {
    let place = Place::new();
    let refused = |plan: &str, text: &str| place.run(&["run", &place.plan(plan)]).expect(2).says(text);
    let on = |store: &str| PLAN.replace("STORE", store);
    refused(&on("\"sqlite\""), "Plimsoll cannot act on the servers of sqlite");
    refused(&on("\"postgres\""), "made alone takes no replicas");
    refused(&on("\"sqlite\"").replace("\"add\"", "\"explode\""), "explode");
    refused(&on("\"sqlite\"").replace("at = \"1s\", ", ""), "an action needs `at`");
    refused(&on("\"sqlite\"").replace("at = \"1s\"", "at = 1"), ":1");
    assert!(place.all_runs().is_empty());
}
