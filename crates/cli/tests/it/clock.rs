//! Wrong wall clocks, as clients of the servers see them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_store_postgres::Connection;
use rustix::process::Signal;

use crate::bench::{Place, wait_for};
use crate::faults::{are_healed, postgres_of};
use crate::lab::Lab;

/// Longest time until a clock is as it should be.
const SEEN: Duration = Duration::from_secs(200);

/// Returns how many hours a clock is ahead of this machine's.
fn hours_off(seconds: f64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    ((seconds - now) / 3600.0).round() as i64
}

/// Returns how many hours a server's clock is ahead, by the answer to a client.
fn of_postgres(client: &mut Connection) -> Option<i64> {
    let answer = client.value("SELECT extract(epoch FROM clock_timestamp())").ok()?;
    Some(hours_off(answer.parse().unwrap()))
}

/// Returns how many hours the clock of a lab's only node is ahead, by its answer to TIME.
fn of_redis(lab: &Lab<'_>) -> i64 {
    let status = lab.status();
    let socket = Path::new(status["nodes"][0]["socket_dir"].as_str().unwrap()).join("redis.sock");
    let output = Command::new("redis-cli").arg("-s").arg(socket).arg("TIME").output().expect("redis-cli: redis-tools");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().and_then(|line| line.parse().ok()).map_or(i64::MAX, hours_off)
}

#[test]
fn the_clock_of_old_and_new_backends_jumps_and_is_back_after_healing() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=500", "--mix", "read=1", "--on", "postgres", "--clients", "4", "-q"];
    let fault = ["--think", "10ms", "--for", "300s", "--fault", "clock all by=5h at 6s for 3s"];
    let mut run = place.started(&[&line[..], &fault].concat(), 1);
    let endpoint = postgres_of(&run);
    let open = || endpoint.open(Arc::default(), "", &[], Duration::from_secs(20)).ok();
    let (mut old, mut seen): (_, [Vec<i64>; 2]) = (open().unwrap(), Default::default());
    // The last look begins after the healing.
    let mut is_over = false;
    while !is_over && run.0.try_wait().unwrap().is_none() {
        is_over = are_healed(&place, 1);
        let now = [of_postgres(&mut old), open().and_then(|mut new| of_postgres(&mut new))];
        for (all, one) in seen.iter_mut().zip(now) {
            all.extend(one);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    run.signal(Signal::INT);
    run.ended().expect(130);
    seen.iter_mut().for_each(Vec::dedup);
    assert_eq!(seen, [[0, 5, 0], [0, 5, 0]]);
    let report = place.report();
    let found = &report["faults"][0];
    assert_eq!((&found["name"], &found["kind"]), (&"wrong clock of the server".into(), &"clock".into()));
    assert!(found["error"].is_null() && found["healed_s"].as_f64().unwrap() >= 1.9, "{found}");
}

#[test]
fn a_lab_has_the_clock_of_a_command_again_after_a_run_was_killed_and_keeps_it_over_a_restart() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis", &[]);
    let is_off = |hours: i64| wait_for("the clock", SEEN, || of_redis(&lab) == hours);
    assert_eq!(of_redis(&lab), 0);
    lab.does("clock", "1 by=-2h").says("lab redis: clock of node 1: by=-2h");
    assert_eq!(of_redis(&lab), -2);
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:redis", "--clients", "4", "-q", "--for", "600s"];
    let mut run = place.started(&[&line[..], &["--think", "10ms", "--fault", "clock all by=3h at 1s"]].concat(), 1);
    is_off(3);
    run.kill();
    is_off(-2);
    // While the clock is set, a status does not have it.
    wait_for("the status", SEEN, || place.line("lab status").expect(0).out.contains("clock: by=-2h"));
    lab.does("clock", "1 1").says("by=-2h");
    lab.does("restart", "1");
    is_off(-2);
    let drive = "kv --mix read=1 --set records=200 --clients 1 --ops 50";
    lab.drive(drive).expect(0).says("clock of node 1 = by=-2h (not true)");
    lab.does("clock", "true").says("lab redis: clock of all nodes: true");
    assert_eq!(of_redis(&lab), 0);
    place.refuses(&[
        ("lab clock redis 1 by=5", "`by=5`: needs a unit"),
        ("lab clock redis 2 by=5s", "lab redis has no node `2`"),
    ]);
    lab.down();
}
