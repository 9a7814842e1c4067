//! Loads that change, and clients that think, from options alone.

use serde_json::Value;

use crate::bench::Place;

/// Drives as `options` say, and returns the drive's report.
fn driven(place: &Place, options: &str) -> Value {
    place.line(&format!("drive kv --mix read=1 --set records=100 {options}")).expect(0);
    place.driven()
}

#[test]
fn a_rate_in_stages_is_told_stage_by_stage() {
    let place = Place::new();
    let phase = driven(&place, "--on redis --stages 100/s@1s,100/s..500/s@2s,..0/s@1s --clients 4 --goal errors=100%");
    let stages = phase["stages"].as_array().unwrap();
    let text = |stage: &Value| stage["load"].as_str().unwrap().to_owned();
    let loads: Vec<String> = stages.iter().map(text).collect();
    assert_eq!(loads, ["100/s", "100/s to 500/s", "500/s to 0/s"], "{phase}");
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
    let phase = driven(&place, "--stages 2@1s,6@2s --think exp:200ms --on sqlite");
    assert_eq!((phase["clients"].as_u64(), phase["open_loop"].as_bool()), (Some(6), Some(false)), "{phase}");
    // 14 seconds of a client at 5 operations a second at most; their number varies by its root.
    let done = phase["ops"]["count"].as_u64().unwrap();
    assert!((10..=120).contains(&done), "{done} operations");
    let loads: Vec<&str> = phase["stages"].as_array().unwrap().iter().filter_map(|one| one["load"].as_str()).collect();
    assert_eq!(loads, ["2 clients", "6 clients"]);
    assert!(phase["stages"][0]["wanted_per_s"].is_null());
}

#[test]
fn a_wave_and_think_times_are_written_down_as_a_plan() {
    let place = Place::new();
    let printed = |options: &str| {
        let ran = place.line(&format!("drive kv --on redis --mix read=1 --print-plan {options}")).expect(0);
        place.run(&["check", &place.plan(&ran.out)]).expect(0);
        ran
    };
    printed("--rate sine=1000/s,amplitude=500/s,period=10s --for 1s")
        .says("rate = { \"sine\" = \"1000/s\", \"amplitude\" = \"500/s\", \"period\" = \"10s\" }");
    printed("--think 50ms..200ms,exp:100ms").says("think = [\"50ms..200ms\", \"exp:100ms\"]");
    place.refuses(&[
        (
            "drive kv --on redis --mix read=1 --rate 5 --think 1s",
            "`rate` and `think` both determine when operations start",
        ),
        (
            "drive kv --on redis --mix read=1 --stages 1/s@1s --for 1s",
            "the stages determine the length of the phase: leave out `for`",
        ),
    ]);
}

#[test]
fn several_scenarios_go_on_at_once_and_each_has_its_numbers() {
    let place = Place::new();
    // With blanks that do not break.
    let scenarios = "--scenario readers\u{a0}clients=3\u{a0}mix=read\u{a0}think=10ms \
                     --scenario writers\u{a0}clients=2\u{a0}workers=2\u{a0}mix=update=3,read=1\u{a0}rate=200/s \
                     --scenario late\u{a0}mix=insert\u{a0}stages=0/s@1s,100/s@1s";
    let fixed =
        format!("drive kv --set records=100 --for 2s --full --goal readers.mean=5s --goal read.p50=5s {scenarios}");
    let goals = "--goal writers/update.p50=5s --goal writers.errors=0% --goal errors=100% --goal lost=0";
    for store in ["redis", "sqlite"] {
        place.line(&format!("{fixed} --on {store} {goals}")).expect(0).says("late/insert");
        let phase = place.driven();
        assert_eq!(phase["clients"].as_u64(), Some(6), "{phase}");
        let count = |name: &str| {
            let ops = phase["latencies"].as_array().unwrap().iter().find(|op| op["op"] == name);
            ops.and_then(|op| op["count"].as_u64()).unwrap_or_else(|| panic!("no {name} in {phase}"))
        };
        // 200/s for 2 s, and 100/s in the second of them; three clients that wait 10 ms do up to 600.
        let (writes, late) = (count("writers/update") + count("writers/read"), count("late/insert"));
        let sent = writes + late + phase["ops"]["unfinished"].as_u64().unwrap();
        assert!(writes <= 400 && late <= 100 && sent >= 499, "{writes} and {late} of {sent} on {store}");
        assert!((20..=605).contains(&count("readers/read")), "{}", count("readers/read"));
    }
    let steps = "drive tpcb --on sqlite --for 1s --full --goal errors=100% --goal b.mean=5s --goal a/tpcb/2.mean=5s \
                 --scenario a\u{a0}rate=50/s --scenario b\u{a0}clients=2\u{a0}think=20ms";
    place.line(steps).expect(0).says("a/tpcb/2 UPDATE").says("b/tpcb/7 COMMIT");
    let plan = place.line(&format!("{fixed} --on redis --print-plan")).expect(0);
    let told = place.run(&["check", &place.plan(&plan.out)]).expect(0);
    told.says("readers: 3 clients, closed loop, thinking for 10ms, read 100 %; writers: 2 clients, open loop at 200/s");
}

#[test]
fn what_is_no_scenario_is_said() {
    let place = Place::new();
    let wrong = |options: &[&str], what: &str| {
        let fixed = ["drive", "kv", "--on", "redis", "--for", "1s"];
        place.run(&[&fixed, options].concat()).expect(2).says(what);
    };
    wrong(&["--scenario", "r mix=read foo=1"], "--scenario r mix=read foo=1: `foo=1` is not one of its keys");
    wrong(&["--scenario", "r mix=read mix=scan"], "--scenario r mix=read mix=scan: `mix` is given twice");
    wrong(&["--scenario", "r mix=read", "--clients", "4"], "each scenario sets `clients` for itself");
    wrong(&["--scenario", "r mix=read", "--scenario", "r mix=scan"], "another scenario is named `r` already");
    wrong(&["--scenario", "r mix=read", "--goal", "w.p99=5ms"], "no operation type or step of `kv` is called `w`");
    // Another request than that of the mix would be sent: this one's name begins as those of the scenario do.
    let mut plan = "stores = [\"http://127.0.0.1:9\"]\n[workload]\nname = \"http\"\n".to_owned();
    for (name, path, method) in [("x", "/X", "DELETE"), ("a/b", "/AB", "GET"), ("b", "/B", "GET")] {
        plan += &format!("[[workload.request]]\nname = \"{name}\"\npath = \"{path}\"\nmethod = \"{method}\"\n");
    }
    plan += "[[phase]]\ndo = \"drive\"\ndurability = \"as-configured\"\nops = 10\n\
             [[phase.scenario]]\nname = \"a\"\nmix = { b = 1 }\n";
    let plan = place.plan(&plan);
    place.run(&["run", &plan]).expect(2).says("the operation type `a/b` has the name of one of the scenario `a`");
    let line = ["line", "kv", "--on", "redis", "--goal", "p99=5ms", "--scenario", "r mix=read"];
    place.run(&line).expect(2).says("a load line is that of one load");
}

#[test]
fn a_workload_with_nothing_to_load_has_an_empty_load() {
    let place = Place::new();
    let plan = "stores = [\"null\"]\n[workload]\nname = \"nothing\"\n[[phase]]\ndo = \"load\"\n\
                [[phase]]\ndo = \"drive\"\nops = 100\nmix = { nothing = 1 }\n";
    place.run(&["run", &place.plan(plan)]).expect(0).says("null ran as planned");
}
