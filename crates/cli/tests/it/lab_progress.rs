//! Operations in progress of a lab, in its status: their position, and their standstill.

use std::time::Duration;

use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};
use crate::lab::Lab;

/// Longest time until a change is visible on a busy machine.
const SEEN: Duration = Duration::from_secs(90);

/// Returns the operation `what` of a node, if its status shows it.
fn seen(lab: &Lab<'_>, node: u64, what: &str) -> Option<Value> {
    let status = lab.status();
    let mut all = status["in_progress"].as_array().unwrap().iter();
    all.find(|long| long["node"] == node && long["what"].as_str().unwrap().starts_with(what)).cloned()
}

/// Waits until something is seen that is so.
fn wait_for_seen(lab: &Lab<'_>, node: u64, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    wait_for(what, SEEN, || {
        found = seen(lab, node, what).filter(&is_so);
        found.is_some()
    });
    found.unwrap()
}

fn done(long: &Value) -> u64 {
    long["done"].as_u64().unwrap()
}

/// Waits until it is somewhere, and then until it is further, and has run for longer.
fn moves(lab: &Lab<'_>, node: u64, what: &str) -> Value {
    let first = wait_for_seen(lab, node, what, |long| long["done"].as_u64() > Some(0));
    let then = wait_for_seen(lab, node, what, |long| done(long) > done(&first) && long["for_s"].as_u64() > Some(1));
    assert!(then["still_s"].as_u64().unwrap() <= 3, "{then}");
    then
}

#[test]
fn a_base_backup_a_vacuum_and_that_one_stands_still_are_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let sql = |text: &str| ["lab", "exec", "postgres-replicas", "1", "--", "psql", "-qc", text].map(str::to_owned);
    let run = |text: &str| place.run(&sql(text).each_ref().map(String::as_str)).expect(0);
    run("CREATE TABLE t AS SELECT g, repeat('x', 100) AS x FROM generate_series(1, 200000) g");
    run("DELETE FROM t WHERE g % 10 = 0");
    let psql = ["lab", "exec", "postgres-replicas", "1", "--", "psql", "-q"];
    let slowly = [&psql[..], &["-c", "SET vacuum_cost_delay = '20ms'", "-c", "SET vacuum_cost_limit = 50"]].concat();
    let vacuum = Guarded(place.command(&[&slowly[..], &["-c", "VACUUM t"]].concat()).spawn().unwrap());
    let seen_vacuum = moves(&lab, 1, "vacuum of t");
    assert!(seen_vacuum["total"].as_u64().unwrap() >= done(&seen_vacuum) && seen_vacuum["unit"] == "blocks");
    drop(vacuum);

    place.run(&["lab", "link", "1", "--rate", "20Mbit"]).expect(0);
    let add = Guarded(place.command(&["lab", "add"]).spawn().unwrap());
    let backup = moves(&lab, 3, "base backup");
    assert!(backup["total"].as_u64().unwrap() > done(&backup) && backup["step"] == "streaming database files");
    place.run(&["lab", "link", "1", "--rate", "1kbit"]).expect(0);
    wait_for_seen(&lab, 3, "base backup", |long| long["still_s"].as_u64() >= Some(3));
    let shown = place.run(&["lab", "status"]).expect(0);
    shown.says("In progress").says("base backup").says("no progress for");
    place.run(&["lab", "link", "--plain"]).expect(0);
    wait_for("the backup's end", SEEN, || lab.status()["in_progress"].as_array().unwrap().is_empty());
    drop(add);
    lab.down();
}

#[test]
fn a_recovery_after_a_crash_is_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres", &["--set", "max_wal_size=4GiB"]);
    let table = "CREATE TABLE t AS SELECT g, md5(g::text) AS x FROM generate_series(1, 2000000) g";
    let index = "CREATE INDEX ON t (x)";
    let fill = ["lab", "exec", lab.name(), "1", "--", "psql", "-q", "-c", table, "-c", index];
    place.run(&fill).expect(0);
    place.run(&["lab", "kill", "1"]).expect(0);
    let mut start = Guarded(place.command(&["lab", "start", "1"]).spawn().unwrap());
    let recovery = wait_for_seen(&lab, 1, "recovery", |long| long["left"].as_u64() > Some(0));
    assert!(recovery["unit"] == "B" && recovery["step"].as_str().unwrap().starts_with("log segment "), "{recovery}");
    assert!(start.0.wait().unwrap().success());
    lab.down();
}

#[test]
fn a_state_transfer_of_galera_is_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "galera", &["--nodes", "1"]);
    place.run(&["lab", "link", "1", "--rate", "50Mbit"]).expect(0);
    let mut add = Guarded(place.command(&["lab", "add"]).spawn().unwrap());
    let transfer = moves(&lab, 2, "state transfer");
    assert!(transfer["total"].as_u64().unwrap() > done(&transfer) && transfer["unit"] == "B", "{transfer}");
    place.run(&["lab", "link", "--plain"]).expect(0);
    assert!(add.0.wait().unwrap().success());
    lab.down();
}

#[test]
fn how_far_a_replica_of_mariadb_is_behind_is_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "mariadb-replicas", &["--nodes", "2"]);
    let sql = |node: &str, text: &str| {
        place.run(&["lab", "exec", "mariadb-replicas", node, "--", "mariadb", "-uplimsoll", "-e", text]).expect(0)
    };
    sql("2", "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 300; START SLAVE");
    sql("1", "CREATE DATABASE later");
    let first = wait_for_seen(&lab, 2, "catching up", |long| long["left"].as_u64() > Some(0));
    let then = wait_for_seen(&lab, 2, "catching up", |long| long["left"].as_u64() > first["left"].as_u64());
    assert!(then["unit"] == "s" && then["still_s"].as_u64().unwrap() <= 3, "{then}");
    place.run(&["lab", "status"]).expect(0).says("s behind");
    lab.down();
}

#[test]
fn a_copy_that_a_replica_of_redis_makes_is_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &["--set", "sentinels=0", "--set", "replicas=1"]);
    let fill = "for i = 1, 100000 do redis.call('SET', 'key' .. i, string.rep(tostring(i), 60)) end return 'filled'";
    let client = ["lab", "exec", lab.name(), "1", "--", "redis-cli", "-h", "10.77.0.1"];
    place.run(&[&client[..], &["EVAL", fill, "0"]].concat()).expect(0).says("filled");
    place.run(&["lab", "kill", "2"]).expect(0);
    place.run(&["lab", "link", "1", "--rate", "2Mbit"]).expect(0);
    let _start = Guarded(place.command(&["lab", "start", "2"]).spawn().unwrap());
    moves(&lab, 2, "copy of its master");
    place.run(&["lab", "link", "--plain"]).expect(0);
    wait_for("the copy's end", SEEN, || seen(&lab, 2, "copy of its master").is_none());
    lab.down();
}
