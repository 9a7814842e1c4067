//! Nodes that join while their cluster is driven.

use std::time::Duration;

use plimsoll_record::data::{FaultKind, Run, Series};
use plimsoll_testkit::draw::repeats;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Place, servers, wait_for};
use crate::lab::Lab;

/// A plan in which a node joins; `STORE` stands for the store.
const PLAN: &str = r#"
stores = [STORE]
repeats = 2
workload = { name = "coupons", records = 500, index = "own" }
[[phase]]
do = "load"
[[phase]]
name = "join"
do = "drive"
clients = 4
think = "10ms"
for = "4s"
mix = { read = 7, update = 3 }
fault = "add node at 1s"
[[phase]]
do = "check"
[goals]
lost = 0
wrong = 0
errors = "0%"
[[figure]]
name = "until it is whole"
unit = "s"
formula = "join.join_seconds"
"#;

/// Runs trials of the plan on `store`. The same node joins in each, since it has left in between.
fn joins(place: &Place, store: &str, trials: usize) {
    let plan = PLAN.replace("STORE", store).replace("repeats = 2", &format!("repeats = {trials}"));
    place.run(&["run", &place.plan(&plan), "-q"]).expect(0).says("until it is whole");
    let texts = events(place);
    assert_eq!(texts.iter().filter(|text| text.contains("node 3 left")).count(), trials, "{texts:?}");
    assert_eq!(joined(place), vec!["node 3"; trials]);
}

/// The nodes that have joined in the newest run so far.
fn joined(place: &Place) -> Vec<String> {
    let run = place.all_runs().pop().and_then(|run| Run::load(&run).ok());
    let faults = run.iter().flat_map(Run::faults).filter(|fault| fault.taken_ns.is_some());
    faults.map(|fault| fault.subject.clone()).collect()
}

/// The events that the newest run has recorded so far.
fn events(place: &Place) -> Vec<String> {
    let run = place.all_runs().pop().and_then(|run| Run::load(&run).ok());
    run.map_or(Vec::new(), |run| run.events.into_iter().map(|event| event.text).collect())
}

#[test]
fn a_replica_of_postgresql_joins_a_lab_while_it_is_driven_and_leaves_at_the_trials_end() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    joins(&place, "\"lab:postgres-replicas\"", 2);
    assert_eq!(lab.status()["nodes"].as_array().unwrap().len(), 2, "a lab stays as it was");
    // The node of a run that is killed stays, and the lab says so.
    let plan = PLAN.replace("STORE", "\"lab:postgres-replicas\"").replace("\"4s\"", "\"600s\"");
    let mut run = place.started(&["run", &place.plan(&plan), "-q"], 1);
    let left = || lab.status()["nodes"][2]["is_left"].clone();
    wait_for("the node", Duration::from_secs(200), || left() == false);
    run.kill();
    wait_for("that it is known", Duration::from_secs(200), || left() == true);
    let command = "plimsoll lab remove postgres-replicas 3";
    place.line("lab status").expect(0).says(&format!("left by a run that was killed: {command}"));
    place.line(command.strip_prefix("plimsoll ").unwrap()).expect(0).says("node 3 has left");
    lab.down();
}

#[test]
fn a_node_of_galera_joins_while_it_is_driven_and_leaves_at_the_trials_end() {
    let galera = "{ store = \"galera\", nodes = 2, settings = \"wsrep_sync_wait=15\" }";
    joins(&Place::new(), galera, repeats(1, 2));
}

#[test]
fn a_node_that_has_died_is_started_before_the_one_that_joined_leaves() {
    let place = Place::new();
    // A check would start it, too.
    let unchecked = PLAN.split_once("[[phase]]\ndo = \"check\"").unwrap().0.replace("\"4s\"", "\"14s\"");
    let plan = unchecked
        .replace("STORE", "{ store = \"postgres-replicas\", nodes = 2 }")
        .replace("repeats = 2", "repeats = 1");
    let run = place.recording(&["run", &place.plan(&plan), "-q"]);
    let has_joined = || !joined(&place).is_empty();
    wait_for("the node", Duration::from_secs(200), has_joined);
    let pids = servers(run.0.id(), "postgres");
    kill_process(Pid::from_raw(pids[1] as i32).unwrap(), Signal::KILL).unwrap();
    // Its sessions may fail the drive.
    run.ended();
    let texts = events(&place);
    let is_told = |what: &str| texts.iter().any(|text| text.contains(what));
    assert!(is_told(" was started again") && is_told("node 3 left"), "{texts:?}");
}

#[test]
fn a_node_that_joined_leaves_again_while_its_cluster_is_driven() {
    let place = Place::new();
    let plan = PLAN.replace("STORE", "{ store = \"postgres-replicas\", nodes = 2 }").replace("repeats = 2\n", "");
    let faults = "fault = [\"add node at 1s\", \"remove node at 2s\"]";
    let plan = plan.replace("fault = \"add node at 1s\"", faults).replace("\"4s\"", "\"300s\"");
    let run = place.recording(&["run", &place.plan(&plan), "-q"]);
    wait_for("that it has left", Duration::from_secs(200), || {
        let run = place.all_runs().pop().and_then(|run| Run::load(&run).ok());
        run.is_some_and(|run| run.faults().any(|span| span.kind == FaultKind::Removal && span.healed_ns.is_some()))
    });
    run.signal(Signal::INT);
    run.ended().expect(130);
    let run = Run::load(&place.only_run()).unwrap();
    let spans: Vec<_> = run.faults().map(|span| (span.kind, span.subject.as_str(), span.error.is_none())).collect();
    assert_eq!(spans, [(FaultKind::Join, "node 3", true), (FaultKind::Removal, "node 3", true)]);
    assert!(!events(&place).iter().any(|text| text.contains("node 3 left")), "it had left already");
}

/// Replaces a node of `store`, a cluster of three, by an empty one within a drive of `length`.
#[track_caller]
fn is_replaced(store: &str, node: &str, length: &str) {
    let place = Place::new();
    let plan = PLAN.replace("STORE", &format!("{{ {store}, nodes = 3 }}")).replace("repeats = 2\n", "");
    let plan = plan.replace("add node", &format!("replace {node}")).replace("4s", length);
    // Clients of the node wait, or connect again.
    let plan = plan.replace("errors = \"0%\"", "errors = \"100%\"");
    let plan = plan.split("[[figure]]").next().unwrap();
    place.run(&["run", &place.plan(plan), "-q"]).expect(0);
    let run = Run::load(&place.only_run()).unwrap();
    let spans = run.faults().map(|span| (span.kind, span.subject.as_str(), span.error.as_deref()));
    assert_eq!(spans.collect::<Vec<_>>(), [(FaultKind::Replacement, node, None)]);
    assert!(run.faults().all(|span| span.healed_ns.is_some()));
}

#[test]
fn an_empty_node_replaces_another_while_its_cluster_is_driven() {
    is_replaced("store = \"postgres-replicas\"", "node 2", "12s");
}

mod heavy {
    use super::*;

    #[test]
    fn the_progress_of_a_node_that_joins_is_recorded() {
        let place = Place::new();
        let plan = PLAN
            .replace("STORE", "{ store = \"postgres-replicas\", nodes = 2 }")
            .replace("repeats = 2", "repeats = 1")
            // Longer than the backup takes at this rate: the link is slow as long as the phase lasts.
            .replace("\"4s\"", "\"10s\"")
            .replace("\"add node at 1s\"", "[\"link node 1 rate=30Mbit at 500ms\", \"add node at 1s\"]");
        place.run(&["run", &place.plan(&plan), "-q"]).expect(0);
        let run = Run::load(&place.all_runs().pop().unwrap()).unwrap();
        let is_share = |series: &Series| (series.source.as_str(), series.name.as_str()) == ("progress", "base backup");
        let position = run.series.iter().position(is_share).expect("its progress");
        assert_eq!(run.series[position].subject, "postgres-replicas node 3");
        let shares: Vec<f64> = run.samples.iter().filter_map(|sample| sample.value(position)).collect();
        assert!(shares.iter().any(|share| (1.0..100.0).contains(share)) && shares.is_sorted(), "{shares:?}");
        assert!(run.series.iter().any(|series| series.name == "base backup, rate" && series.unit == "B/s"));
    }

    #[test]
    fn an_empty_node_of_galera_replaces_another_while_its_cluster_is_driven() {
        is_replaced("store = \"galera\", settings = \"wsrep_sync_wait=15\"", "node 3", "30s");
    }
}
