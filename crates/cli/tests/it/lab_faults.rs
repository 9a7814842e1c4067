//! Faults and planned work of drives on labs: healed to the state before, and stopped with their run.

use std::time::Duration;

use plimsoll_record::data::{FaultSpan, Run};
use plimsoll_testkit::draw::{Draw, repeats};
use rustix::process::Signal;

use crate::bench::{Guarded, Place, wait_for};
use crate::lab::Lab;

/// Longest time until a fault is recorded, or healed.
const SEEN: Duration = Duration::from_secs(60);

/// Starts a drive of a minute on `lab`, with `faults`.
#[track_caller]
fn breaking(place: &Place, lab: &Lab<'_>, faults: &[&str]) -> Guarded {
    let on = format!("lab:{}", lab.name);
    let line = ["drive", "kv", "--set", "records=200", "--on", &on, "--clients", "4", "--for", "60s", "-q"];
    let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
    place.started(&[&line[..], &faults].concat(), 1)
}

/// Returns the faults that the newest run has recorded so far.
fn spans(place: &Place) -> Vec<FaultSpan> {
    let run = place.all_runs().pop().and_then(|run| Run::load(&run).ok());
    run.iter().flat_map(Run::faults).cloned().collect()
}

/// Returns a field of each node's status.
fn each(lab: &Lab<'_>, field: &str) -> Vec<String> {
    let status = lab.status();
    status["nodes"].as_array().unwrap().iter().map(|node| node[field].to_string()).collect()
}

#[test]
fn the_faults_of_a_lab_are_healed_also_after_the_run_was_killed() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2", "--set", "cpus=1"]);
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:postgres-replicas", "--clients", "4", "-q"];
    let faults = [
        "pause replica at 500ms for 300ms",
        "cut node 2 at 1s for 500ms",
        "kill primary at 2s for 1s",
        "promote replica at 2500ms",
    ];
    let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
    let report = place.run(&[&line[..], &["--for", "7s", "--json"], &faults].concat()).last_json();
    let found = report["report"]["faults"].as_array().unwrap();
    assert_eq!(found.len(), 4, "{report}");
    assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
    let seen = || ["state", "link", "limits"].map(|field| each(&lab, field));
    wait_for("all nodes to run", Duration::from_secs(20), || lab.states() == ["running"; 2]);
    let whole = seen();
    let mut run = breaking(&place, &lab, &["kill replica at 4s", "cut node 2 at 4s", "limit all cpus=0.2 at 4s"]);
    let taken = || spans(&place).iter().filter(|span| span.taken_ns.is_some()).count() == 3;
    wait_for("the faults", SEEN, taken);
    let broken = seen();
    assert!(broken.iter().zip(&whole).all(|(now, before)| now != before), "{broken:?}");
    run.kill();
    wait_for("the lab to be whole", SEEN, || seen() == whole);
    lab.down();
}

#[test]
fn a_run_that_is_killed_at_a_drawn_moment_of_any_fault_leaves_a_whole_lab() {
    const FAULTS: [&str; 15] = [
        "kill replica",
        "stop primary",
        "pause all",
        "hang primary",
        "restart replica",
        "restart all rolling",
        "promote replica",
        "reset primary",
        "cut node 2 in",
        "link all delay=5ms loss=1%",
        "limit all cpus=0.3",
        "clock all by=-5s drift=500ppm",
        "work backup",
        "storm all connections=50",
        "neighbour all cpu=1",
    ];
    let (place, mut draw) = (Place::new(), Draw::new("faults of a lab"));
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2", "--set", "cpus=1"]);
    let seen = || ["state", "link", "limits", "clock"].map(|field| each(&lab, field));
    let whole = seen();
    for _ in 0..repeats(2, 60) {
        let fault = format!("{} at 300ms", FAULTS[draw.below(FAULTS.len() as u64) as usize]);
        let mut run = breaking(&place, &lab, &[&fault]);
        let after = Duration::from_millis(draw.below(1_500));
        println!("{fault}: killed {after:?} after the first slice");
        std::thread::sleep(after);
        run.kill();
        wait_for("the lab to be whole", SEEN, || seen() == whole);
        let drive = ["drive", "kv", "--set", "records=50", "--on", "lab:postgres-replicas", "--ops", "20", "-q"];
        wait_for("the lab to be driven", SEEN, || place.run(&drive).code == Some(0));
    }
    lab.down();
}

#[test]
fn nodes_that_a_killed_run_has_all_killed_paused_or_stopped_run_again() {
    let place = Place::new();
    let lab = Lab::up(&place, "etcd", &["--nodes", "3"]);
    for (verb, state) in [("kill", "killed"), ("pause", "paused"), ("stop", "stopped")] {
        let fault = format!("{verb} all at 500ms");
        let mut run = breaking(&place, &lab, &[fault.as_str()]);
        wait_for("the fault", SEEN, || lab.states() == [state; 3]);
        run.kill();
        wait_for("all nodes to run", SEEN, || lab.states() == ["running"; 3]);
    }
    lab.down();
}

#[test]
fn links_and_limits_are_healed_to_those_of_each_node_and_a_node_that_joined_has_faults_too() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2", "--set", "cpus=2"]);
    lab.does("link", "2 --delay 2ms");
    lab.does("limit", "2 cpus=1");
    let faults = [
        "link all delay=5ms at 12s for 1s",
        "limit all cpus=0.5 at 12s for 1s",
        "restart all rolling at 500ms after fault 2",
    ];
    let run = breaking(&place, &lab, &faults);
    lab.does("add", "");
    let seen = || ["link", "limits"].map(|field| each(&lab, field));
    let (before, processes) = (seen(), each(&lab, "process"));
    assert!(spans(&place).is_empty(), "the node joined too late: {:?}", spans(&place));
    wait_for("the faults' end", SEEN, || spans(&place).iter().filter(|span| span.healed_ns.is_some()).count() == 3);
    assert_eq!(seen(), before);
    let restarted = each(&lab, "process");
    assert!(restarted.len() == 3 && restarted.iter().all(|process| !processes.contains(process)), "{restarted:?}");
    run.signal(Signal::INT);
    run.ended().expect(130);
    lab.down();
}

#[test]
fn planned_work_of_a_lab_stops_with_its_run_and_another_run_is_told() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres", &[]);
    let other = lab.driving("select --clients 1 --think 5ms --for 300s");
    lab.exec("1", &["psql", "-qc", "CREATE TABLE held (x int)"]).expect(0);
    // A vacuum waits as long as this transaction reads the table.
    let reads = "BEGIN; LOCK TABLE held IN ACCESS SHARE MODE; SELECT pg_sleep(300)";
    let _reads = Guarded(place.command(&["lab", "exec", lab.name, "1", "--", "psql", "-qc", reads]).spawn().unwrap());
    let count = |condition: &str| {
        let asked = format!("SELECT count(*) FROM pg_stat_activity WHERE {condition}");
        lab.exec("1", &["psql", "-Atqc", &asked]).expect(0).out.trim().to_owned()
    };
    let vacuums = || count("query LIKE 'VACUUM%'");
    wait_for("the lock", SEEN, || count("wait_event = 'PgSleep'") == "1");
    for signal in [Signal::INT, Signal::KILL] {
        let mut run = breaking(&place, &lab, &["work vacuum at 500ms"]);
        wait_for("the vacuum", SEEN, || vacuums() == "1");
        run.signal(signal);
        assert_eq!(run.0.wait().unwrap().code(), (signal == Signal::INT).then_some(130));
        wait_for("the vacuum's end", Duration::from_secs(10), || vacuums() == "0");
    }
    other.signal(Signal::INT);
    other.ended();
    let events = Run::load(&place.all_runs()[0]).unwrap().events;
    let works = events.iter().filter(|event| event.text.starts_with("lab work"));
    let works: Vec<&str> = works.map(|event| event.text.split(" (took").next().unwrap()).collect();
    assert_eq!(works, ["lab work postgres 1: vacuum was stopped"; 2]);
    lab.down();
}
