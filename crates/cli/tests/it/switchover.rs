//! Planned switchovers of Redis: a replica becomes a master by command, and the former master follows it.

use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};
use crate::lab::Lab;
use crate::lab_progress::Stopped;

/// Longest time until the nodes are one cluster again.
const SEEN: Duration = Duration::from_secs(200);
/// Most records of which the newest write may be lost: what the replica had not received.
const LOST_MAX: u64 = 20;

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
    let load = ["drive", "kv", "--set", "records=200", "--on", &on, "--clients", "4", "--think", "2ms", "--for", "10s"];
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

/// Drives a store whose first replica takes over, and whose node of another role is paused then.
fn go_by_roles(store: &str, subjects: [&str; 2], paused: &str) {
    let place = Place::new();
    let load = ["drive", "kv", "--set", "records=200", "--on", store, "--clients", "4", "--think", "2ms"];
    let second = format!("pause {paused} at 1s after fault 1 for 100ms");
    let faulted = ["--for", "12s", "--json", "-q", "--fault", "promote replica at 1s", "--fault", &second];
    let ran = place.run(&[&load[..], &faulted].concat());
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let report = ran.last_json();
    let found = report["report"]["faults"].as_array().unwrap();
    let seen: Vec<&str> = found.iter().map(|fault| fault["subject"].as_str().unwrap()).collect();
    assert_eq!(seen, subjects, "{store}: {report}");
    assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
}

#[test]
fn the_primary_is_another_after_a_switchover_by_sentinels() {
    go_by_roles("redis-sentinel", ["node 2, a replica", "node 2, the primary"], "primary");
}

#[test]
fn the_replica_is_another_after_a_switchover_of_a_redis_cluster() {
    // A cluster has several masters, and no primary that a report could name.
    go_by_roles("redis-cluster", ["node 4", "node 1"], "replica");
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
