//! Planned switchovers: a replica becomes the primary by command, and the former primary follows it and runs on.

use std::time::Duration;

use plimsoll_testkit::draw::{Draw, repeats};
use rustix::process::Pid;
use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};
use crate::faults::until_healed;
use crate::lab::Lab;
use crate::lab_progress::Stopped;

/// Longest time until the nodes are one cluster again.
const SEEN: Duration = Duration::from_secs(200);
/// Most records of which the newest write may be lost: what the replica had not received. A busy machine takes up to a
/// second, of at most 100 writes. Sentinels alone would take 8 s, in which clients write most of all records.
const LOST_MAX: u64 = 80;

/// Returns a field of each node's status.
fn each(lab: &Lab<'_>, field: &str) -> Vec<Value> {
    lab.status()["nodes"].as_array().unwrap().iter().map(|node| node[field].clone()).collect()
}

/// Returns the state of replication that a node reports.
fn replication(lab: &Lab<'_>, node: usize) -> String {
    let address = each(lab, "address")[node - 1].as_str().unwrap().to_owned();
    lab.exec(&node.to_string(), &["redis-cli", "-h", &address, "INFO", "replication"]).expect(0).out
}

/// Returns true if a node has all data of the master `of`.
fn follows(lab: &Lab<'_>, node: usize, of: usize) -> bool {
    let (says, address) = (replication(lab, node), each(lab, "address")[of - 1].as_str().unwrap().to_owned());
    ["role:slave", &format!("master_host:{address}"), "master_link_status:up"].iter().all(|line| says.contains(*line))
}

/// Drives a lab while node `to` becomes a master in place of node 1, and hands back by command.
fn hands_over(store: &'static str, to: usize) {
    let place = Place::new();
    let lab = Lab::up(&place, store, &[]);
    wait_for("the processes of all nodes", SEEN, || each(&lab, "process").iter().all(Value::is_u64));
    let processes = each(&lab, "process");
    let on = format!("lab:{store}");
    let load =
        ["drive", "kv", "--set", "records=200", "--on", &on, "--clients", "4", "--think", "20ms", "--for", "10s"];
    let fault = format!("promote node {to} at 2s");
    let ran = place.run(&[&load[..], &["--json", "-q", "--fault", &fault]].concat());
    // The new master may lack the newest writes, which answers show.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let ran = ran.last_json();
    let report = &ran["report"];
    let found = &report["faults"][0];
    assert!(found["error"].is_null() && found["healed_s"].is_number(), "{found}");
    assert_eq!(found["subject"], format!("node {to}"), "{found}");
    let lost = report["trials"][0]["ledgers"][0]["lost"].as_u64().unwrap();
    assert!(lost <= LOST_MAX, "{lost} lost: {report}");
    wait_for("the former master to follow", SEEN, || follows(&lab, 1, to));
    let roles = each(&lab, "role");
    assert!(roles[to - 1] == "master" && roles[0] == "replica", "{roles:?}");
    assert_eq!(each(&lab, "process"), processes, "no server was ended");
    let (line, refused) = (format!("lab promote {store} {to}"), format!("node {to} is a master already"));
    place.refuses(&[(line.as_str(), refused.as_str())]);
    // Nodes start in the roles that they have now.
    lab.does("restart", "");
    wait_for("the former master to follow again", SEEN, || follows(&lab, 1, to));
    wait_for("the same roles", SEEN, || each(&lab, "role") == roles);
    wait_for("the processes of all nodes", SEEN, || each(&lab, "process").iter().all(Value::is_u64));
    let processes = each(&lab, "process");
    lab.does("promote", "1").says("node 1 is the primary after");
    wait_for("the other to follow", SEEN, || follows(&lab, to, 1));
    assert_eq!(each(&lab, "process"), processes, "no server was ended");
    lab.down();
}

#[test]
fn a_replica_that_sentinels_did_not_choose_takes_over_and_hands_back() {
    hands_over("redis-sentinel", 3);
}

#[test]
fn a_replica_of_a_redis_cluster_takes_over_and_hands_back() {
    hands_over("redis-cluster", 4);
}

/// Drives a store whose first replica takes over, and whose node of another role is paused then. Returns the nodes of both
/// faults.
fn promoted_and_paused(on: &[&str], paused: &str) -> Vec<String> {
    let load = ["drive", "kv", "--set", "records=200", "--clients", "4", "--think", "2ms", "--on"];
    let second = format!("pause {paused} at 1s after fault 1 for 100ms");
    let faults = ["--fault", "promote replica at 1s", "--fault", &second];
    let found = until_healed(&Place::new(), &[&load[..], on, &faults].concat(), 2);
    assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
    found.iter().map(|fault| fault["subject"].as_str().unwrap().to_owned()).collect()
}

/// Drives a cluster whose first replica takes over, and is the primary then.
fn leads_once_promoted(on: &[&str]) {
    let mut seen = Vec::new();
    // A busy machine may cause an election between both faults, but not each time.
    let leads = (0..3).any(|_| {
        let both = promoted_and_paused(on, "primary");
        let promoted = both[0].strip_suffix(", a replica").map(|node| format!("{node}, the primary"));
        let leads = promoted.as_ref() == Some(&both[1]);
        seen.push(both);
        leads
    });
    assert!(leads, "{seen:?}");
}

#[test]
fn the_primary_is_another_after_a_switchover_by_sentinels() {
    assert_eq!(promoted_and_paused(&["redis-sentinel"], "primary"), ["node 2, a replica", "node 2, the primary"]);
}

#[test]
fn the_replica_is_another_after_a_switchover_of_a_redis_cluster() {
    // A cluster has several masters, and no primary that a report could name.
    assert_eq!(promoted_and_paused(&["redis-cluster"], "replica"), ["node 4", "node 1"]);
}

#[test]
fn a_member_of_etcd_leads_after_a_switchover() {
    leads_once_promoted(&["etcd", "--nodes", "3"]);
}

#[test]
fn the_leader_of_etcd_hands_over_to_the_member_of_a_command_and_runs_on() {
    let place = Place::new();
    let lab = Lab::up(&place, "etcd", &["--nodes", "3"]);
    wait_for("the processes of all nodes", SEEN, || each(&lab, "process").iter().all(Value::is_u64));
    let processes = each(&lab, "process");
    let promote = |node: u32| {
        let ran = place.line(&format!("lab promote etcd {node}"));
        match ran.code {
            Some(2) => ran.says(&format!("node {node} is the leader already … promote replica")),
            _ => ran.expect(0).says(&format!("node {node} is the primary after")),
        }
    };
    // Any member may lead at first. A busy machine may cause an election before it is asked again, but not each time.
    let leads = |node: u32| {
        (0..3).any(|_| {
            promote(node);
            promote(node).code == Some(2)
        })
    };
    assert!(leads(1) && leads(2));
    assert_eq!(each(&lab, "process"), processes, "no server was ended");
    lab.down();
}

#[test]
fn a_node_that_is_no_replica_is_not_promoted() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &[]);
    let master = "node 1 is a master already … promote replica";
    place.refuses(&[("lab promote redis-sentinel 1", master)]);
    place.refuses(&[("lab promote redis-sentinel 4", "node 4 is a Sentinel, which cannot be promoted")]);
    lab.down();
    let alone = ["drive", "kv", "--on", "redis", "--for", "5s", "--set", "redis.replicas=1"];
    let refused = place.run(&[&alone[..], &["--fault", "promote replica at 1s"]].concat()).expect(2);
    refused.says("a replica of redis cannot be promoted by a command");
}

mod heavy {
    use super::*;

    /// Returns true if Sentinels may choose each of the three servers.
    fn all_are_candidates(lab: &Lab<'_>) -> bool {
        (1..=3).all(|node| {
            let address = each(lab, "address")[node - 1].as_str().unwrap().to_owned();
            let question = ["redis-cli", "-h", &address, "CONFIG", "GET", "replica-priority"];
            lab.exec(&node.to_string(), &question).out.lines().nth(1) == Some("100")
        })
    }

    #[test]
    fn a_run_that_is_killed_at_a_drawn_moment_of_a_switchover_leaves_no_replica_excluded() {
        let (place, mut draw) = (Place::new(), Draw::new("switchovers of Sentinels"));
        let lab = Lab::up(&place, "redis-sentinel", &[]);
        let load = ["drive", "kv", "--set", "records=200", "--on", "lab:redis-sentinel", "--clients", "4", "-q"];
        let faulted = ["--think", "2ms", "--for", "600s", "--fault", "promote replica at 1200ms"];
        for _ in 0..repeats(5, 20) {
            // After the first slice, so that a kill may come before the switchover.
            let mut run = place.started(&[&load[..], &faulted].concat(), 1);
            let after = Duration::from_millis(draw.below(3_000));
            println!("killed {after:?} after the first slice");
            std::thread::sleep(after);
            run.kill();
            // A switchover by command begins when that of the run has ended.
            wait_for("another switchover", SEEN, || {
                let replica = each(&lab, "role").iter().position(|role| role == "replica");
                let line = replica.map(|at| format!("lab promote redis-sentinel {}", at + 1));
                line.is_some_and(|line| place.line(&line).code == Some(0))
            });
            assert!(all_are_candidates(&lab), "killed {after:?} after the first slice");
        }
        lab.down();
    }

    #[test]
    fn a_replica_under_patroni_takes_over_and_is_the_primary_then() {
        leads_once_promoted(&["postgres-patroni"]);
    }

    #[test]
    fn patroni_hands_over_to_the_replica_of_a_command_and_hands_back() {
        let place = Place::new();
        let lab = Lab::up(&place, "postgres-patroni", &[]);
        wait_for("the processes of all nodes", SEEN, || each(&lab, "process").iter().all(Value::is_u64));
        let processes = each(&lab, "process");
        place.refuses(&[("lab promote postgres-patroni 1", "node 1 is the primary already … promote replica")]);
        lab.does("promote", "3").says("node 3 is the primary after");
        wait_for("the former primary to follow", SEEN, || each(&lab, "role") == ["replica", "replica", "primary"]);
        assert_eq!(each(&lab, "process"), processes, "no node was ended");
        // A replica is a candidate once it follows.
        wait_for("the primary to hand back", SEEN, || place.line("lab promote postgres-patroni 1").code == Some(0));
        wait_for("the other to follow", SEEN, || each(&lab, "role") == ["primary", "replica", "replica"]);
        lab.down();
    }

    #[test]
    fn a_switchover_that_a_replica_of_a_redis_cluster_gave_up_succeeds_once_its_master_goes_on() {
        let place = Place::new();
        let lab = Lab::up(&place, "redis-cluster", &[]);
        let master = Pid::from_raw(each(&lab, "process")[0].as_u64().unwrap() as i32).unwrap();
        let held = Stopped::new(master).unwrap();
        let promotion = Guarded(place.command(&["lab", "promote", "redis-cluster", "4"]).spawn().unwrap());
        // The replica gives up after 5 s. The others take the master for lost 10 s later.
        let gave_up = || lab.does("logs", "4 -n 500").out.contains("Manual failover timed out");
        wait_for("the replica to give up", SEEN, gave_up);
        drop(held);
        promotion.ended().expect(0);
        wait_for("the new roles", SEEN, || each(&lab, "role")[3] == "master" && each(&lab, "role")[0] == "replica");
        lab.down();
    }
}
