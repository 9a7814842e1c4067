//! Killed at any moment: the recording is complete, and nothing else is left.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_testkit::draw::{Draw, repeats};

use crate::bench::{Guarded, Place, small_coupons, wait_for};

/// Ids of processes that have `directory` in their command line or their working directory.
fn processes_with(directory: &Path) -> Vec<u32> {
    let text = directory.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let works_in = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(text) || works_in.to_string_lossy().contains(text) {
            found.push(pid);
        }
    }
    found
}

/// Kills of each test.
fn kills() -> usize {
    repeats(5, 200)
}

/// A moment within the small study's first seconds.
fn random_moment(draw: &mut Draw) -> Duration {
    Duration::from_millis(draw.below(4_000))
}

/// Starts the small study, lets `before` look at its process, kills it `after`, and checks that its recording reaches up to the kill.
fn kill(place: &Place, on: &str, after: Duration, before: impl FnOnce(u32)) {
    let plan = small_coupons(r#"["sqlite"]"#, 20_000, 5).replacen("stores", "slice = \"100ms\"\nstores", 1);
    let plan = place.plan(&plan);
    let mut child = Guarded(place.command(&["run", &plan, "--quiet", "--on", on]).spawn().unwrap());
    wait_for("the recording", Duration::from_secs(20), || {
        place.all_runs().iter().any(|run| run.join("run.sqlite").exists())
    });
    let began = Instant::now();
    std::thread::sleep(after);
    before(child.0.id());
    child.0.kill().unwrap();
    let lived = began.elapsed();
    child.0.wait().unwrap();
    let ran = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["run"]["state"], "killed", "after {after:?}");
    // Something is recorded every slice of 100 ms: samples always, operations while a phase drives them. The
    // rest is room for a busy machine.
    let recorded = report["run"]["seconds"].as_f64().unwrap();
    assert!(recorded + 1.0 > lived.as_secs_f64(), "recorded up to {recorded} s, killed at {lived:?}");
}

#[test]
fn a_recording_reaches_up_to_a_kill_at_any_moment() {
    let (place, mut draw) = (Place::new(), Draw::new("recording"));
    for _ in 0..kills() {
        kill(&place, "sqlite", random_moment(&mut draw), |_| {});
        std::fs::remove_dir_all(place.runs()).unwrap();
    }
}

#[test]
fn the_next_start_removes_what_a_killed_one_left() {
    let place = Place::new();
    kill(&place, "sqlite", Duration::from_secs(2), |_| {});
    assert!(place.only_run().join("data").exists(), "the kill came too early to leave anything");
    let plan = place.plan(&small_coupons(r#"["fjall"]"#, 100, 1));
    place.run(&["run", &plan]).expect(0).says("removed the data of the killed run");
    for run in place.all_runs() {
        assert!(run.join("run.sqlite").exists() && !run.join("data").exists(), "{}", run.display());
    }
}

#[test]
fn a_private_server_dies_with_the_program() {
    let (place, mut draw) = (Place::new(), Draw::new("server"));
    let mut servers = 0;
    for _ in 0..kills() {
        let mut directories = Vec::new();
        kill(&place, "postgres", random_moment(&mut draw), |pid| directories = server_directories(&place, pid));
        servers += usize::from(!directories.is_empty());
        wait_for("the private server's end", Duration::from_secs(10), || {
            directories.iter().all(|directory| !directory.exists() && processes_with(directory).is_empty())
        });
        std::fs::remove_dir_all(place.runs()).unwrap();
    }
    // A server takes part of the four seconds to start; five moments of them may all be before.
    let kills = kills();
    assert!(kills < 20 || servers > kills / 2, "only {servers} of {kills} kills met a server");
}

/// The directories of the private servers that the process `pid` has made, and their sockets': their marks say so.
fn server_directories(place: &Place, pid: u32) -> Vec<PathBuf> {
    let list =
        |directory: PathBuf| std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let stores = place.all_runs().into_iter().flat_map(|run| list(run.join("data")));
    let bases = stores.chain(["/var/tmp", "/tmp"].map(PathBuf::from));
    let mut found = Vec::new();
    for root in bases.flat_map(list) {
        let mark = std::fs::read_to_string(root.join("supervisor")).unwrap_or_default();
        if mark.contains(&format!("\npid {pid}\n")) {
            found.push(root);
            found.extend(mark.lines().find_map(|line| line.strip_prefix("sockets ")).map(PathBuf::from));
        }
    }
    found
}

#[test]
fn of_a_private_server_that_dies_its_end_is_told_its_log_left_and_what_it_had_acknowledged_read_back() {
    let place = Place::new();
    let plan = place.plan(
        r#"
title = "A server that dies"
stores = ["postgres"]
[workload]
name = "coupons"
records = 500
index = "own"
[[phase]]
do = "load"
batch = 500
durability = "at-end"
[[phase]]
name = "mixed"
do = "drive"
clients = 2
for = "6s"
durability = "durable"
mix = { read = 70, update = 30 }
[[phase]]
do = "check"
"#,
    );
    let mut child = Guarded(place.command(&["run", &plan]).spawn().unwrap());
    let mut postmaster = None;
    wait_for("a private server", Duration::from_secs(30), || {
        let directories = server_directories(&place, child.0.id());
        let file = directories.first().map(|root| root.join("data/postmaster.pid"));
        let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        postmaster = text.lines().next().filter(|_| text.contains("ready")).map(str::to_owned);
        postmaster.is_some()
    });
    std::thread::sleep(Duration::from_secs(3));
    let killed = std::process::Command::new("kill").args(["-9", postmaster.as_deref().unwrap()]).status().unwrap();
    assert!(killed.success());
    let mut words = String::new();
    std::io::Read::read_to_string(&mut child.0.stderr.take().unwrap(), &mut words).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(9), "{words}");
    assert!(words.contains("postgres was ended by signal 9"), "{words}");
    let run = place.only_run();
    let files: Vec<_> = std::fs::read_dir(&run).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(files.iter().any(|name| name.to_string_lossy().starts_with("postgresql-")), "its log is not in {files:?}");
    assert!(!run.join("data").exists());
    let trial = &plimsoll_record::data::Run::load(&run).unwrap().trials[0];
    let [ledger] = &trial.ledgers[..] else { panic!("{:?}", trial.ledgers) };
    assert!(ledger.complete && ledger.acknowledged > 500 && ledger.read_back == 500, "{ledger:?}");
    assert!(ledger.lost == 0 && ledger.wrong.is_empty(), "{ledger:?}");
}
