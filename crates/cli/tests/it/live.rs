//! A run in progress: its output, its tag, and finding it again.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bench::{Place, Ran};

const DRIVE: [&str; 10] =
    ["drive", "kv", "--on", "fjall", "--set", "records=500", "--mix", "read=1", "--durability", "buffered"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&DRIVE[..], more].concat()
}

fn set(mut command: Command, variables: &[(&str, &str)]) -> Ran {
    Ran::of(&command.envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn lines_of_progress_come_as_often_as_was_asked() {
    let place = Place::new();
    let ran = place.run(&with(&["--for", "3s", "--think", "2ms", "--slice", "100ms", "--progress", "100ms"])).expect(0);
    let lines: Vec<&str> =
        ran.err.lines().filter(|line| line.contains("· drive · ") && line.contains("/s · p50")).collect();
    // One a second if nothing was asked, and on a busy machine fewer than thirty.
    assert!((5..=33).contains(&lines.len()), "{}", ran.err);
    assert!(
        lines.iter().all(|line| line.starts_with("1/1 fjall · drive · ") && line.contains(" s left · ")),
        "{lines:?}"
    );
    let quiet = place.run(&with(&["--for", "500ms", "--think", "2ms", "--progress", "100ms", "--quiet"])).expect(0);
    assert!(!quiet.err.contains("p50"), "{}", quiet.err);
    place.run(&with(&["--progress", "often"])).expect(2).says("--progress often");
    place.run(&with(&["--progress", "0s"])).expect(2).says("a time above 0");
    // A load says how much of it is done.
    let load = DRIVE.map(|word| if word == "records=500" { "records=20000" } else { word });
    let load = place.run(&[&load[..], &["--ops", "5", "--progress", "10ms"]].concat()).expect(0);
    assert!(load.err.lines().any(|line| line.contains("· load · ") && line.contains(" % · ")), "{}", load.err);
}

#[test]
fn json_lines_come_while_it_runs_and_end_with_the_report() {
    let place = Place::new();
    let json = ["--for", "1s", "--think", "2ms", "--slice", "200ms", "--json", "--quiet", "--tag", "nightly"];
    let ran = place.run(&with(&json)).expect(0);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    assert_eq!(lines[0]["type"], "run");
    assert_eq!(lines[0]["tag"], "nightly");
    let driven: Vec<_> = of("slice").into_iter().filter(|slice| slice["phase"] == "drive").collect();
    assert!(driven.len() >= 2, "{}", ran.out);
    let is_fast = |slice: &&Value| slice["rate_per_s"].as_f64().is_none_or(|rate| rate > 0.0);
    assert!(driven.iter().all(|slice| is_fast(slice) && slice["op"] == "all"));
    assert!(driven.iter().any(|slice| slice["p50_ns"].is_u64()));
    let end = lines.last().unwrap();
    assert_eq!((end["type"].as_str(), end["report"]["verdict"]["state"].as_str()), (Some("end"), Some("pass")));
    assert!(std::path::Path::new(end["page"].as_str().unwrap()).exists());
    // The reader closes the output: the run ends, and is kept.
    let mut child = place.command(&with(&["--for", "60s", "--think", "2ms", "--json", "--quiet", "--slice", "100ms"]));
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn options_may_be_variables_of_the_environment() {
    let place = Place::new();
    let variables = [("PLIMSOLL_ON", "fjall"), ("PLIMSOLL_OPS", "30"), ("PLIMSOLL_SET", "records=500; field_count=2")];
    let ran = set(place.command(&["drive", "kv", "--mix", "read=1", "--print-plan"]), &variables).expect(0);
    for words in ["stores = [\"fjall\"]", "ops = 30", "records = 500", "field_count = 2"] {
        assert!(ran.out.contains(words), "no {words} in {}", ran.out);
    }
    assert!(ran.err.contains("from the environment, PLIMSOLL_OPS: --ops=30"), "{}", ran.err);
    // What is typed counts, and so does what does not go with a variable.
    let typed = place.command(&["drive", "kv", "--mix", "read=1", "--for", "7s", "--on", "sqlite", "--print-plan"]);
    let ran = set(typed, &variables).expect(0);
    assert!(ran.out.contains("for = \"7s\"") && ran.out.contains("sqlite") && !ran.out.contains("ops"), "{}", ran.out);
    assert!(!ran.err.contains("PLIMSOLL_ON") && !ran.err.contains("PLIMSOLL_OPS"), "{}", ran.err);
    // What is wrong in one is shown with its name, without secrets.
    let drive = ["drive", "kv", "--mix", "read=1", "--on", "fjall"];
    set(place.command(&drive), &[("PLIMSOLL_CLIENTS", "many")]).expect(2).says("PLIMSOLL_CLIENTS: --clients=many");
    set(place.command(&drive), &[("PLIMSOLL_STRICT", "perhaps")]).expect(2).says("write true or false");
    let ran = set(place.command(&["drive", "kv"]), &[("PLIMSOLL_ON", "redis://me:s3cret@127.0.0.1:1/")]).expect(3);
    assert!(!ran.err.contains("s3cret"), "{}", ran.err);
    set(place.command(&["runs"]), &[("PLIMSOLL_JSON", "perhaps")]).expect(0);
}

#[test]
fn runs_are_listed_with_what_came_of_them_and_removed_by_it() {
    let place = Place::new();
    place.run(&with(&["--ops", "2000", "--tag", "nightly"])).expect(0);
    place.run(&with(&["--ops", "2000", "--goal", "p50=1ns"])).expect(1);
    place.run(&with(&["--ops", "5", "--tag", "two words"])).expect(2).says("a tag is one word");
    let good = place.all_runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let listed = place.run(&["runs"]).expect(0);
    let head = listed.out.lines().find(|line| line.contains("verdict")).unwrap_or_default();
    assert!(head.contains("rate") && head.contains("p99") && head.contains("tag"), "{}", listed.out);
    assert!(listed.out.lines().any(|line| line.contains(&good) && line.contains("PASS") && line.contains("nightly")));
    let tagged = place.run(&["runs", "--tag", "nightly", "--json"]).expect(0);
    let one: Value = serde_json::from_str(tagged.out.trim()).unwrap();
    assert_eq!((one["id"].as_str(), one["verdict"].as_str()), (Some(&*good), Some("pass")));
    assert!(one["rate_per_s"].as_f64().unwrap() > 0.0 && one["p99_ns"].is_u64(), "{one}");
    // A run that ended and missed its goal has not failed; one whose recording is damaged has.
    place.run(&["runs", "remove", "--failed"]).expect(0).says("no such runs");
    let damaged = place.runs().join("20200101-000000-0000");
    std::fs::create_dir(&damaged).unwrap();
    let dry = place.run(&["runs", "remove", "--failed", "--dry-run"]).expect(0);
    assert!(dry.out.contains("would remove 20200101-000000-0000") && damaged.exists(), "{}", dry.out);
    place.run(&["runs", "remove", "--older-than", "30d"]).expect(0).says("removed 20200101-000000-0000");
    assert!(!damaged.exists() && place.all_runs().len() == 2);
    place.run(&["runs", "remove", "--older-than", "soon"]).expect(2).says("--older-than soon");
    place.run(&["runs", "remove"]).expect(2);
}
