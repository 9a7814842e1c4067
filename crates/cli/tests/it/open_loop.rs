//! A rate that is asked for is the rate that is offered.

use crate::bench::Place;

const PLAN: &str = r#"
title = "Point selects at a rate"
stores = ["postgres"]
[workload]
name = "select"
[[phase]]
do = "load"
[[phase]]
name = "steady"
do = "drive"
clients = 4
loop = "open"
rate = "500/s"
warmup = "500ms"
for = "2s"
mix = { select = 1 }
"#;

#[test]
fn every_operation_that_was_due_stands_in_the_result() {
    let place = Place::new();
    // On a machine that has other work to do the generator is late, and the last moments may be lost.
    let lenient = format!("{PLAN}[goals]\nerrors = \"100%\"\n");
    place.run(&["run", &place.plan(&lenient)]).expect(0);
    let ran = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let results = report["trials"][0]["phases"][1]["results"].as_array().unwrap();
    let value = |name: &str| {
        results.iter().find(|result| result["name"] == name).and_then(|result| result["value"].as_f64()).unwrap()
    };
    // 500 a second for 2 s; those due in the last moments may be unfinished on a busy machine, but not gone.
    // Operations that were due in the warm-up and ended after it belong to the 2 s.
    let seen = value("ops") + value("unfinished");
    assert!((1_000.0..=1_250.0).contains(&seen), "{seen} operations, {results:?}");
    assert!(value("lag_p99") > 0.0);
}

#[test]
fn a_workload_with_nothing_to_load_has_an_empty_load() {
    let place = Place::new();
    let plan =
        PLAN.replace("\"postgres\"", "\"null\"").replace("\"select\"", "\"nothing\"").replace("select", "nothing");
    place.run(&["run", &place.plan(&plan)]).expect(0).says("null ran as planned");
}
