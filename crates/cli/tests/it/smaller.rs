//! Plans made smaller from the command line, seen before they run, and run where not every store can.

use crate::bench::Place;

/// Programs around a script whose mounts go with it. They need root.
const OWN_MOUNTS: &str = "unshare --mount --propagation private";

/// A plan of several stores, sizes and phases.
const PLAN: &str = r#"
title = "Sizes"
question = "How many?"
stores = ["sqlite", { store = "null", as = "nothing" }]
start = "fresh"
[workload]
name = "kv"
records = 500
[[phase]]
do = "load"
[[phase]]
do = "drive"
clients = [1, 2, 4, 8]
ops = 50
mix = { read = 1 }
[[answer]]
say = "It did {rate with 8}."
[[figure]]
name = "rate with 8"
unit = "1/s"
formula = "drive.rate[clients=8]"
[[figure]]
name = "rate with 2"
unit = "1/s"
formula = "drive.rate[clients=2]"
"#;

#[test]
fn a_smaller_plan_is_printed_run_recorded_and_named_first_in_its_report() {
    let place = Place::new();
    let plan = place.plan(PLAN);
    let smaller = ["--set", "records=20", "--clients", "2", "--stores", "nothing", "--set", "drive.ops=5"];
    let printed = place.run(&[&["check", &plan, "--print"][..], &smaller].concat()).expect(0).out;
    for line in ["records = 20", "clients = [2]", "ops = 5", "formula = \"drive.rate[clients=2]\""] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(!printed.contains("sqlite") && !printed.contains("clients=8") && !printed.contains("answer"), "{printed}");
    let told = place.run(&[&["check", &plan][..], &smaller].concat()).expect(0);
    let told = told.says("The plan was changed: --set records=20").says("1 trial with the workload kv on nothing");
    assert!(told.out.contains("left out: `figure` rate with 8"), "{told:?}");
    let notice = "The plan was changed: --set records=20 --set drive.ops=5 --clients 2 --stores nothing.";
    let ran = place.run(&[&["run", &plan][..], &smaller].concat()).expect(0).says(notice);
    assert!(ran.out.trim_start().starts_with("The plan was changed"), "{}", ran.out);
    assert!(ran.err.contains("The plan was changed"), "{}", ran.err);
    let report = place.report();
    assert_eq!(report["run"]["plan_text"], printed.as_str(), "the recording holds the plan that ran");
    assert_eq!(report["trials"].as_array().unwrap().len(), 1);
    // The recorded command repeats it.
    let words: Vec<String> = serde_json::from_value(report["run"]["command_line"].clone()).unwrap();
    let again: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    place.run(&again).expect(0);
    assert_eq!(place.report()["run"]["plan_text"], printed.as_str());
    // So does the printed plan.
    let copy = place.path().join("copy.toml");
    std::fs::write(&copy, &printed).unwrap();
    place.run(&["run", copy.to_str().unwrap(), "--quiet"]).expect(0);
    assert_eq!(place.report()["trials"][0]["labels"], report["trials"][0]["labels"]);
}

#[test]
fn stores_and_seed_of_the_command_line_are_in_the_printed_plan() {
    let place = Place::new();
    let plan = place.plan(PLAN);
    let printed = place.run(&["check", &plan, "--print", "--on", "null", "--seed", "7"]).expect(0).out;
    assert!(printed.contains("stores = [\"null\"]") && printed.contains("seed = 7"), "{printed}");
}

#[test]
fn a_plan_that_ends_by_a_count_is_not_said_to_take_no_time() {
    let place = Place::new();
    let plan = place.plan(&PLAN.replace("ops = 50", "ops = 123200"));
    let told = place.run(&["check", &plan]).expect(0).out;
    // 2 stores × 15 clients × 123,200.
    assert!(told.contains("3,696,000 operations of phases that end by a count (at 1,000/s: 61.6min)"), "{told}");
    assert!(told.contains("8 loads of 4,000 records in all"), "{told}");
    assert!(!told.contains("0s of driven load"), "{told}");
}

#[test]
fn a_wrong_size_has_one_message_and_nothing_runs() {
    let place = Place::new();
    let plan = place.plan(PLAN);
    place.refuses(&[
        (
            &format!("run {plan} --set sqlite.journal_mode=wall"),
            "--set sqlite.journal_mode=wall: … did you mean `wal`?",
        ),
        (&format!("run {plan} --stores sqlite --on null"), "--on"),
        (&format!("check {plan} --quick --set records=5"), "--quick chooses all sizes itself"),
        ("run", "required"),
    ]);
    // A mistake of the plan itself is told as one, with its line.
    let wrong = place.plan(&PLAN.replace("ops = 50", "ops = 50\nclents = 3"));
    place.run(&["run", &wrong, "--set", "records=5"]).expect(2).says("unknown key `clents` in a `drive` phase");
    assert!(place.all_runs().is_empty());
}

#[test]
fn the_quick_version_says_first_that_it_answers_nothing() {
    let place = Place::new();
    let plan = place.plan(PLAN);
    let ran = place.run(&["run", &plan, "--quick", "--quiet"]).expect(0);
    assert!(ran.out.trim_start().starts_with("This is the quick version of the plan"), "{}", ran.out);
    let report = place.report();
    // The ends of the sweep, on each store.
    assert_eq!(report["trials"].as_array().unwrap().len(), 4, "{}", report["run"]["plan_text"]);
    assert!(report["run"]["plan_text"].as_str().unwrap().contains("clients = [1, 8]"));
    let page = std::fs::read_to_string(place.only_run().join("report.html")).unwrap();
    assert!(page.contains("its figures do not answer the question"), "the page says it too");
}

#[test]
fn stores_without_their_programs_are_left_out_and_named_and_the_rest_runs() {
    let place = Place::new();
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let hidden = format!("mount --bind {} /usr/lib/postgresql", empty.display());
    let hidden = |command: &str| place.shell(OWN_MOUNTS, &format!("{hidden} && exec $plimsoll {command}"));
    let plan = place.plan(&PLAN.replace("{ store = \"null\", as = \"nothing\" }", "\"postgres\""));
    let needs = hidden(&format!("doctor --for {plan}")).expect(1);
    needs.says("postgres is not installed … apt-get install postgresql … sqlite: ");
    hidden(&format!("check {plan}")).expect(0).says("Left out: postgres cannot run here: postgres is not installed");
    let ran = hidden(&format!("run {plan} --clients 2")).expect(0);
    let notice = "Left out: postgres cannot run here: postgres is not installed";
    assert!(ran.err.contains(notice), "{}", ran.err);
    assert!(ran.out.lines().take(6).any(|line| line.contains("Left out: postgres")), "{}", ran.out);
    let report = place.report();
    assert_eq!(report["trials"].as_array().unwrap().len(), 1);
    assert_eq!(report["trials"][0]["labels"]["store"], "sqlite");
    // Stores that the command line names are wanted.
    hidden(&format!("run {plan} --stores sqlite,postgres")).expect(5).says("postgres is not installed");
    let alone = place.plan(&PLAN.replace("\"sqlite\", { store = \"null\", as = \"nothing\" }", "\"postgres\""));
    hidden(&format!("run {alone}")).expect(5).says("postgres is not installed … apt-get install postgresql");
    assert_eq!(place.all_runs().len(), 1);
}

#[test]
fn doctor_looks_at_what_a_study_needs() {
    let place = Place::new();
    place.run(&["doctor", "--for", "coupons"]).expect(0).says("sqlite: ").says("fjall: ");
    place.run(&["doctor", "--for", "no-such-study"]).expect(2).says("unknown store `no-such-study` … studies: coupons");
    place.run(&["doctor", "--for", "/nonexistent/plan.toml"]).expect(2).says("/nonexistent/plan.toml");
}
