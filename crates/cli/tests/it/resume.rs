//! Runs that were killed, and continued. `trial` tries on simulated time which trials stay, and when the clock goes on.

use std::path::Path;
use std::time::Duration;

use plimsoll_record::data::Run;

use crate::bench::{Guarded, Place, wait_for};

/// A plan of five trials of a quarter of a second each.
const PLAN: &str = r#"
title = "Five"
stores = ["sqlite"]
slice = "100ms"
[workload]
name = "kv"
records = 200
[[phase]]
do = "load"
[[phase]]
do = "drive"
clients = [1, 2, 3, 4, 5]
think = "1ms"
for = "250ms"
mix = { read = 1, update = 1 }
durability = "durable"
[[phase]]
do = "check"
[goals]
lost = 0
"#;

/// Starts the plan, and waits until one of its trials has ended: a busy machine kills it some trials later.
fn begun(place: &Place, args: &[&str]) -> Guarded {
    let child = place.recording(args);
    wait_for("a trial", Duration::from_secs(200), || ended(&place.only_run()) >= 1);
    child
}

fn ended(run: &Path) -> usize {
    Run::load(run).map_or(0, |run| run.trials.iter().filter(|trial| trial.end_ns.is_some()).count())
}

#[test]
fn what_cannot_be_continued_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    place.run(&["run", "--resume", "latest"]).expect(10).says("no run");
    let plan = place.plan(PLAN);
    let mut child = begun(&place, &["run", &plan, "--quiet"]);
    child.kill();
    let run = place.only_run();
    let before = Run::load(&run).unwrap();
    place.run(&["run", "--resume", "20200101"]).expect(10);
    place.run(&["run", "--resume", "/etc/passwd"]).expect(10).says("/etc/passwd");
    place.run(&["run", "--resume", "latest", "--seed", "9"]).expect(2).says("has its own options … name its plan");
    let other = ["run", &plan, "--resume", "latest", "--set", "records=5"];
    place.run(&other).expect(2).says("has another plan than these options make … its command was: ");
    // The plan's file has changed since.
    place.plan(&PLAN.replace("250ms", "200ms"));
    place.run(&["run", "--resume", "latest"]).expect(2).says("has another plan than these options make");
    place.plan(PLAN);
    let set = "UPDATE run SET header = json_set(header, '$.plimsoll_version', ?1)";
    let version = |version: &str| {
        let file = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
        assert_eq!(file.execute(set, [version]).unwrap(), 1);
    };
    version("0.0.1");
    place
        .run(&["run", "--resume", "latest"])
        .expect(2)
        .says("was begun by Plimsoll 0.0.1: no other version can continue it");
    version(&before.header.plimsoll_version);
    assert_eq!(Run::load(&run).unwrap().trials, before.trials, "nothing is lost by refusals");
    let kept = format!("{} of 5 trials are recorded", ended(&run));
    place.run(&["run", &plan, "--resume", "latest", "--quiet"]).expect(0).says(&kept);
    assert_eq!(Run::load(&run).unwrap().trials.len(), 5);
    place.run(&["run", "--resume", "latest"]).expect(2).says("is complete … leave --resume out to start again");
}

#[test]
fn a_search_for_the_load_line_is_not_continued() {
    let place = Place::new();
    let mut child = place.started(&["line", "kv", "--on", "null", "--mix", "read=1", "--quiet"], 1);
    let live = place.run(&["run", "--resume", "latest"]).expect(10);
    live.says("is still being written: stop that run first");
    child.kill();
    let ran = place.run(&["run", "--resume", "latest"]).expect(2);
    ran.says("decides each step by those before it, and cannot be continued … plimsoll line kv");
}

#[test]
fn a_run_is_not_continued_with_other_values_of_a_csv_file_and_compare_names_it() {
    let place = Place::new();
    let csv = place.path().join("users.csv");
    let plan = PLAN.replace(
        "name = \"kv\"\nrecords = 200",
        "name = \"script\"\nscript = [{ name = \"read\", text = \"SELECT :id\" }]\ncsv = [{ file = \"users.csv\" }]",
    );
    let plan = plan.replace("sqlite", "null").replace(", update = 1", "").replace("lost = 0", "errors = \"0%\"");
    let plan = plan.replace("[[phase]]\ndo = \"load\"\n", "").replace("[[phase]]\ndo = \"check\"\n", "");
    let plan = place.plan(&plan.replace("durability = \"durable\"\n", ""));
    std::fs::write(&csv, "id\nsecret1\nsecret2\n").unwrap();
    let mut child = begun(&place, &["run", &plan, "--quiet"]);
    child.kill();
    std::fs::write(&csv, "id\nsecret1\nsecret3\n").unwrap();
    let refused = place.run(&["run", "--resume", "latest"]).expect(2);
    refused.says("began with another users.csv: 3 lines, sha256 … restore the file, or leave --resume out");
    std::fs::write(&csv, "id\nsecret1\nsecret2\n").unwrap();
    place.run(&["run", "--resume", "latest", "--quiet"]).expect(0);
    let first = Run::load(&place.only_run()).unwrap();
    assert!(!first.header.plan_json.contains("secret"));
    std::fs::write(&csv, "id\nsecret1\nsecret3\nsecret4\n").unwrap();
    place.run(&["run", &plan, "--quiet"]).expect(0);
    let compared = place.run(&["compare", &first.header.id, "latest"]).expect(0);
    compared.says("csv users.csv … 3 lines, sha256").says("4 lines, sha256");
}
