//! Operations in progress of a lab, in its status: their position, and their standstill.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};
use crate::lab::Lab;

/// Longest time until a change is visible on a busy machine.
pub const SEEN: Duration = Duration::from_secs(200);

/// Returns the operation `what` of a node, if its status shows it.
pub fn seen(lab: &Lab<'_>, node: u64, what: &str) -> Option<Value> {
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
pub fn moves(lab: &Lab<'_>, node: u64, what: &str) -> Value {
    let first = wait_for_seen(lab, node, what, |long| long["done"].as_u64() > Some(0));
    let then = wait_for_seen(lab, node, what, |long| done(long) > done(&first) && long["for_s"].as_u64() > Some(1));
    assert!(then["still_s"].as_u64().unwrap() <= 10, "{then}");
    then
}

#[test]
fn a_base_backup_a_vacuum_and_that_one_stands_still_are_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    for statement in [
        "CREATE TABLE t AS SELECT g, repeat('x', 100) AS x FROM generate_series(1, 200000) g",
        "DELETE FROM t WHERE g % 10 = 0",
    ] {
        lab.exec("1", &["psql", "-qc", statement]).expect(0);
    }
    let psql = ["lab", "exec", lab.name, "1", "--", "psql", "-q", "-c", "SET vacuum_cost_delay = '20ms'"];
    let slowly = [&psql[..], &["-c", "SET vacuum_cost_limit = 50", "-c", "VACUUM t"]].concat();
    let vacuum = Guarded(place.command(&slowly).spawn().unwrap());
    let seen_vacuum = moves(&lab, 1, "vacuum of t");
    assert!(seen_vacuum["total"].as_u64().unwrap() >= done(&seen_vacuum) && seen_vacuum["unit"] == "blocks");
    drop(vacuum);

    place.line("lab link 1 --rate 20Mbit").expect(0);
    let add = Guarded(place.command(&["lab", "add"]).spawn().unwrap());
    let backup = moves(&lab, 3, "base backup");
    assert!(backup["total"].as_u64().unwrap() > done(&backup) && backup["step"] == "streaming database files");
    place.line("lab link 1 --rate 1kbit").expect(0);
    // A byte may come through between two looks.
    wait_for("a backup that stands still", SEEN, || {
        let status = place.line("lab status").expect(0).out;
        status.contains("base backup") && status.contains("no progress for")
    });
    place.line("lab link --plain").expect(0);
    wait_for("the backup's end", SEEN, || lab.status()["in_progress"].as_array().unwrap().is_empty());
    drop(add);
    lab.down();
}

#[test]
fn a_recovery_after_a_crash_is_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres", &["--set", "max_wal_size=4GiB"]);
    let table = "CREATE TABLE t AS SELECT g, md5(g::text) AS x FROM generate_series(1, 500000) g";
    let written = ["psql", "-q", "-c", "DROP TABLE IF EXISTS t", "-c", table, "-c", "CREATE INDEX ON t (x)"];
    // A recovery that ends before it can be held leaves nothing to recover: all is written again.
    let recovery = (0..10).find_map(|_| {
        lab.exec("1", &written).expect(0);
        lab.does("kill", "1");
        held_recovery(&place, &lab)
    });
    let recovery = recovery.expect("a recovery in one of ten starts");
    assert!(recovery["unit"] == "B" && recovery["step"].as_str().unwrap().starts_with("log segment "), "{recovery}");
    lab.down();
}

/// Starts node 1, holds its recovery as soon as it reads the log, and returns what the status says of it; `None` if it
/// ended before, or was at the last segment.
fn held_recovery(place: &Place, lab: &Lab<'_>) -> Option<Value> {
    let mut start = Guarded(place.command(&["lab", "start", "1"]).spawn().unwrap());
    let mut held = None;
    while held.is_none() && start.0.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
        held = recovering(lab.base.path()).and_then(Stopped::new);
    }
    let mut found = None;
    if held.is_some() {
        // A status may show a look of half a second ago.
        let began = Instant::now();
        while found.is_none() && began.elapsed() < Duration::from_secs(10) {
            found = seen(lab, 1, "recovery").filter(|long| long["left"].as_u64() > Some(0));
        }
    }
    drop(held);
    start.ended().expect(0);
    found
}

/// A process that is stopped until this is dropped, also by a test that fails.
pub struct Stopped(Pid);

impl Stopped {
    /// Stops a process; `None` if it has ended.
    pub fn new(pid: Pid) -> Option<Self> {
        kill_process(pid, Signal::STOP).is_ok().then_some(Self(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Returns the process of a PostgreSQL below `base` that reads the log after a crash: its title says so.
fn recovering(base: &Path) -> Option<Pid> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
        let title = std::fs::read(process.path().join("cmdline")).ok()?;
        let is_it = String::from_utf8_lossy(&title).contains("recovering ")
            && std::fs::read_link(process.path().join("cwd")).ok()?.starts_with(base);
        Pid::from_raw(process.file_name().to_str()?.parse().ok()?).filter(|_| is_it)
    })
}

#[test]
fn a_state_transfer_of_galera_is_seen() {
    let place = Place::new();
    let lab = Lab::up(&place, "galera", &["--nodes", "1"]);
    place.line("lab link 1 --rate 50Mbit").expect(0);
    let add = Guarded(place.command(&["lab", "add"]).spawn().unwrap());
    let transfer = moves(&lab, 2, "state transfer");
    assert!(transfer["total"].as_u64().unwrap() > done(&transfer) && transfer["unit"] == "B", "{transfer}");
    place.line("lab link --plain").expect(0);
    add.ended().expect(0);
    lab.down();
}

/// A replica of MariaDB that is told to stay behind is seen to be.
pub fn is_seen_behind(lab: &Lab<'_>) {
    let sql = |node: &str, text: &str| lab.exec(node, &["mariadb", "-uplimsoll", "-e", text]).expect(0);
    sql("2", "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 300; START SLAVE");
    sql("1", "CREATE DATABASE later");
    let first = wait_for_seen(lab, 2, "catching up", |long| long["left"].as_u64() > Some(0));
    let then = wait_for_seen(lab, 2, "catching up", |long| long["left"].as_u64() > first["left"].as_u64());
    assert!(then["unit"] == "s" && then["still_s"].as_u64().unwrap() <= 10, "{then}");
    assert!(lab.does("status", "").out.contains("s behind"));
}
