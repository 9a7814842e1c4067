//! Commands for a lab while it is driven: each is an event of the recording, once, at its own time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_record::data::{Event, EventClass, Run};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Place, wait_for};
use crate::lab::Lab;
use crate::lab_progress::Stopped;

/// Returns the actions on servers in the newest recording.
pub fn acts(place: &Place) -> Vec<Event> {
    let run = Run::load(&place.all_runs().pop().unwrap()).unwrap();
    run.events.into_iter().filter(|event| event.class.is_action()).collect()
}

/// Returns the texts of actions, without the durations of those that took 0.1 s or longer.
pub fn texts(acts: &[Event]) -> Vec<&str> {
    acts.iter().map(|act| act.text.split(" (took").next().unwrap()).collect()
}

fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

#[test]
fn a_pause_of_a_driven_lab_is_told_at_its_time_and_named_first_in_the_stall() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis", &[]);
    let refused = "no control group for `cpus` … plimsoll lab up STORE --set cpus=…";
    place.refuses(&[("lab limit redis 1 cpus=1", refused)]);
    let driving = lab.driving("kv --mix read=1 --set records=500 --clients 4 --think 2ms --for 16s --goal outage=1s");
    std::thread::sleep(Duration::from_millis(1_500));
    let mut took = Vec::new();
    for verb in ["pause", "resume"] {
        let from = wall_ns();
        lab.does(verb, "1");
        took.push((from, wall_ns()));
        // A slice without any answer lies within.
        std::thread::sleep(Duration::from_millis(2_200));
    }
    driving.ended().expect(1).says("FAIL … no answer for … wanted ≤ 1.00 s");
    let acts = acts(&place);
    assert_eq!(texts(&acts), ["lab pause redis 1", "lab resume redis 1"]);
    let report = place.report();
    let started = report["run"]["started_wall_ns"].as_i64().unwrap();
    for (act, (from, to)) in acts.iter().zip(took) {
        let is_during = (from - 500_000_000..=to + 500_000_000).contains(&(started + act.from_ns as i64));
        assert!(is_during, "{act:?}: {} to {} ns", from - started, to - started);
    }
    let sentence = report["stalls"][0]["sentence"].as_str().unwrap();
    // It ends before the first slice that has half of the usual operations, which may be that of the second command.
    let pause = format!("{} at {:.2} s", acts[0].text, acts[0].from_ns as f64 / 1e9);
    assert!(sentence.contains(&format!("at the same time: {pause}")), "{sentence}");
    let text = report["summary"][0]["text"].as_str().unwrap();
    assert!(text.contains("no answer for ") && text.contains(&format!(", around then: {pause}")), "{text}");
    assert_eq!(report["plots"]["acts"][0]["name"], acts[0].text);
    place.line("report latest --format text").expect(0).says("Events … lab pause redis 1 … lab resume redis 1");
    lab.down();
}

#[test]
fn a_server_that_hangs_by_itself_leaves_a_run_undecided_unless_a_goal_allows_that() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis", &[]);
    let process = Pid::from_raw(lab.status()["nodes"][0]["process"].as_u64().unwrap() as i32).unwrap();
    let undecided = "did not do what its load requires … nothing was answered for … no fault of the plan";
    for (goal, code, words) in [("", 11, undecided), (" --goal outage=20s", 0, "PASS … no answer for")] {
        let driving = lab.driving(&format!("kv --mix read=1 --set records=500 --clients 4 --for 8s{goal}"));
        std::thread::sleep(Duration::from_millis(1_500));
        let stopped = Stopped::new(process).unwrap();
        // Longer than two seconds, and several slices without an answer.
        std::thread::sleep(Duration::from_millis(2_500));
        drop(stopped);
        driving.ended().expect(code).says(words);
    }
    lab.down();
}

#[test]
fn every_command_for_a_driven_lab_is_told_once_and_what_was_refused_is_not() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let driving = lab.driving("kv --mix read=1 --set records=100 --clients 2 --think 5ms --for 600s");
    let commands = [
        ("kill", "2"),
        ("start", "2"),
        ("restart", "2"),
        ("stop", "2"),
        ("start", ""),
        ("pause", "2"),
        ("resume", "2"),
        ("reload", "1"),
        ("link", "2 --delay 1ms"),
        ("link", "--plain"),
        ("add", ""),
        ("remove", "3"),
    ];
    for (verb, more) in commands {
        lab.does(verb, more);
    }
    place.refuses(&[("lab remove postgres-replicas 1", "cannot do without its primary")]);
    lab.does("status", "");
    // What fails by itself is told, too.
    let process = lab.status()["nodes"][1]["process"].as_u64().unwrap();
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL).unwrap();
    wait_for("the replica to be back", Duration::from_secs(200), || lab.status()["nodes"][1]["restarts"] == 1);
    wait_for("its start", Duration::from_secs(200), || lab.status()["nodes"][1]["state"] == "running");
    driving.signal(Signal::INT);
    driving.ended();
    let acts = acts(&place);
    let told = [
        "lab kill postgres-replicas 2",
        "lab start postgres-replicas 2",
        "lab restart postgres-replicas 2",
        "lab stop postgres-replicas 2",
        "lab start postgres-replicas",
        "lab pause postgres-replicas 2",
        "lab resume postgres-replicas 2",
        "lab reload postgres-replicas 1",
        "lab link postgres-replicas 2: 1ms ± 0ns one way",
        "lab link postgres-replicas: plain",
        "lab add postgres-replicas",
        "lab remove postgres-replicas 3",
        "node 2 of lab postgres-replicas was ended by signal 9 (SIGKILL)",
        "automatic restart of node 2 of lab postgres-replicas",
    ];
    assert_eq!(texts(&acts), told);
    assert_eq!(acts.iter().filter(|act| act.class == EventClass::Command).count(), told.len() - 2);
    assert!(acts.windows(2).all(|pair| pair[0].until_ns <= pair[1].from_ns), "{acts:?}");
    lab.down();
}
