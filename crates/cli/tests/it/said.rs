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
