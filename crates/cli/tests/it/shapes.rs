//! Loads that change, and clients that think, from options alone.

use serde_json::Value;

use crate::bench::Place;

fn driven(place: &Place, options: &[&str]) -> Value {
    let fixed = ["drive", "kv", "--mix", "read=1", "--set", "records=100"];
    place.run(&[&fixed, options].concat()).expect(0);
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    serde_json::from_str(&report.out).unwrap()
}

fn of_drive(report: &Value) -> &Value {
    let phases = report["trials"][0]["phases"].as_array().unwrap();
    phases.iter().find(|phase| phase["kind"] == "drive").unwrap()
}

#[test]
fn a_rate_in_stages_is_told_stage_by_stage() {
    let place = Place::new();
    let report = driven(&place, &["--on", "redis", "--stages", "100/s@1s,100/s..500/s@2s,..0/s@1s", "--clients", "4"]);
    let stages = of_drive(&report)["stages"].as_array().unwrap().clone();
    let text = |stage: &Value| stage["load"].as_str().unwrap().to_owned();
    let loads: Vec<String> = stages.iter().map(text).collect();
    assert_eq!(loads, ["100/s", "100/s to 500/s", "500/s to 0/s"], "{report}");
    let wanted: Vec<f64> = stages.iter().map(|stage| stage["wanted_per_s"].as_f64().unwrap()).collect();
    assert_eq!(wanted, [100.0, 300.0, 250.0]);
    // What was due is there, on the busiest machine too.
    let count: u64 = stages.iter().map(|stage| stage["count"].as_u64().unwrap()).sum();
    assert!((949..=951).contains(&count), "100 + 600 + 250: {count}");
    place.run(&["report", "latest", "--format", "text"]).expect(0).says("500/s to 0/s");
}

#[test]
fn clients_in_stages_think_between_their_operations() {
    let place = Place::new();
    let options = ["--stages", "2@1s,6@2s", "--think", "exp:50ms", "--on", "sqlite"];
    let report = driven(&place, &options);
    let phase = of_drive(&report);
    assert_eq!((phase["clients"].as_u64(), phase["open_loop"].as_bool()), (Some(6), Some(false)), "{phase}");
    // 14 seconds of a client at 20 operations a second at most; their number varies by its root.
    let done = phase["ops"]["count"].as_u64().unwrap();
    assert!((20..=350).contains(&done), "{done} operations");
    let loads: Vec<&str> = phase["stages"].as_array().unwrap().iter().filter_map(|one| one["load"].as_str()).collect();
    assert_eq!(loads, ["2 clients", "6 clients"]);
    assert!(phase["stages"][0]["wanted_per_s"].is_null());
}

#[test]
fn a_wave_and_think_times_are_written_down_as_a_plan() {
    let place = Place::new();
    let printed = |options: &[&str]| {
        let fixed = ["drive", "kv", "--on", "redis", "--mix", "read=1", "--print-plan"];
        let ran = place.run(&[&fixed, options].concat()).expect(0);
        place.run(&["check", &place.plan(&ran.out)]).expect(0);
        ran.out
    };
    let plan = printed(&["--rate", "sine=1000/s,amplitude=500/s,period=10s", "--for", "1s"]);
    assert!(
        plan.contains("rate = { \"sine\" = \"1000/s\", \"amplitude\" = \"500/s\", \"period\" = \"10s\" }"),
        "{plan}"
    );
    let plan = printed(&["--think", "50ms..200ms,exp:100ms"]);
    assert!(plan.contains("think = [\"50ms..200ms\", \"exp:100ms\"]"), "{plan}");
    let wrong = ["drive", "kv", "--on", "redis", "--mix", "read=1", "--rate", "5", "--think", "1s"];
    place.run(&wrong).expect(2).says("a rate says when operations start, and a think time says it too");
    let wrong = ["drive", "kv", "--on", "redis", "--mix", "read=1", "--stages", "1/s@1s", "--for", "1s"];
    place.run(&wrong).expect(2).says("the stages say how long the phase is: leave out `for`");
}
