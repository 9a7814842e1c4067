//! Reports are silent about what was not done.

use crate::bench::Place;

#[test]
fn where_nothing_is_loaded_nothing_is_said_to_be_loaded_or_to_settle() {
    let place = Place::new();
    let ran = place.run(&["drive", "http", "--on", "http", "--clients", "1", "--ops", "200", "--full"]).expect(0);
    assert!(!ran.err.contains("load") && !ran.err.contains("settle"), "{ran:?}");
    let said = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(" × 200; bodies: median 612 B, max 612 B, n "), "{}", ran.out);
    let view = place.report();
    let phases: Vec<_> = view["trials"][0]["phases"].as_array().unwrap().iter().map(|phase| &phase["kind"]).collect();
    assert_eq!(phases, ["drive"], "{view}");
    assert_eq!(view["trials"][0]["params"]["start"], "fresh", "{view}");
}

#[test]
fn a_planned_ramp_has_rows_that_can_be_told_apart_and_no_doubts_about_its_course() {
    let place = Place::new();
    let plan = place.plan(
        r#"
stores = ["null"]
slice = "500ms"
[workload]
name = "kv"
records = 1000
[[phase]]
do = "drive"
mix = { read = 1 }
clients = 2
stages = ["50/s..1000/s@4s"]
[goals]
# On a busy machine the last operations are not sent in time.
errors = "100%"
"#,
    );
    place.run(&["check", &plan]).expect(0).says("4s of driven load; the stores' own work comes on top");
    let ran = place.run(&["run", &plan, "--full"]).expect(0).says("service time");
    assert!(!ran.err.contains("settle"), "{ran:?}");
    for doubt in ["stalled", "between slices", "hides"] {
        assert!(!ran.out.contains(doubt), "{doubt}: {ran:?}");
    }
}
