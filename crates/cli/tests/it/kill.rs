//! Killed at any moment: the recording is complete, and nothing else is left.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_testkit::draw::{Draw, repeats};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{LOADED, Place, left_below, small_coupons, wait_for};

/// Starts the small study, lets `before` look at its process, and kills it `after`. Returns the time in seconds before the
/// kill that its recording lacks.
fn kill(place: &Place, on: &str, after: Duration, before: impl FnOnce(u32)) -> f64 {
    let plan = small_coupons(r#"["sqlite"]"#, 20_000, 5).replacen("stores", "slice = \"100ms\"\nstores", 1);
    let mut run = place.recording(&["run", &place.plan(&plan), "--quiet", "--on", on]);
    let began = Instant::now();
    std::thread::sleep(after);
    before(run.0.id());
    run.0.kill().unwrap();
    let lived = began.elapsed();
    run.0.wait().unwrap();
    let report = place.report();
    assert_eq!(report["run"]["state"], "killed", "after {after:?}");
    lived.as_secs_f64() - report["run"]["seconds"].as_f64().unwrap()
}

#[test]
fn a_run_that_still_goes_on_is_reported_as_running() {
    let place = Place::new();
    let load = ["drive", "kv", "--on", "null", "--think", "5ms", "--slice", "100ms", "--for", "60s", "--quiet"];
    let mut run = place.started(&load, 1);
    let report = place.report();
    assert_eq!(report["run"]["state"], "running", "{report}");
    let shown = place.line("runs show latest").expect(0);
    assert!(shown.out.contains("The run is still running") && !shown.out.contains("killed"), "{shown:?}");
    run.kill();
    assert_eq!(place.report()["run"]["state"], "killed");
}

#[test]
fn at_any_moment_a_recording_reaches_up_to_a_kill_a_server_dies_and_the_next_start_removes_the_rest() {
    let (place, mut draw) = (Place::new(), Draw::new("recording"));
    let (mut servers, mut left, mut lacks_s, kills) = (0, 0, f64::INFINITY, repeats(6, 300));
    for kill_number in 0..kills {
        let on = if kill_number % 2 == 0 { "postgres" } else { "sqlite" };
        let mut directories = Vec::new();
        // Within the study's first seconds.
        // The last one is late enough for a recording that stays behind to be seen.
        let moment = Duration::from_millis(if kill_number + 1 == kills { 3_500 } else { draw.below(3_500) });
        lacks_s = kill(&place, on, moment, |pid| directories = server_directories(&place, pid));
        servers += usize::from(!directories.is_empty());
        wait_for("the private server's end", Duration::from_secs(100), || {
            directories.iter().all(|directory| !directory.exists() && left_below(directory).is_empty())
        });
        let data = place.all_runs().pop().unwrap().join("data");
        let is_left = data.exists();
        left += usize::from(is_left);
        let next = place.line("drive kv --on null --mix read=1 --ops 1").expect(0);
        assert_eq!(next.err.contains("removed the data of the killed run"), is_left, "{next:?}");
        assert!(!data.exists());
    }
    // Something is recorded every slice of 100 ms: samples always, operations while a phase drives them. A busy machine
    // may be late with more, but not each time.
    let again_s = (0..2).map(|_| kill(&place, "sqlite", Duration::from_millis(3_500), |_| ()));
    let mut all_s = std::iter::once(lacks_s).chain(again_s);
    assert!(all_s.any(|lacks_s| lacks_s < 2.5), "the recording stays behind: {lacks_s} s");
    // A server takes part of the time to start; some moments may all be before.
    assert!(kills < 20 || servers > kills / 4, "only {servers} of {kills} kills met a server");
    assert!(left > 0, "the kills came too early to leave anything");
    assert!(place.all_runs().iter().all(|run| run.join("run.sqlite").exists()));
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
    let plan = place.plan(&format!(
        r#"
title = "A server that dies"
stores = ["postgres"]
slice = "200ms"
{LOADED}
[[phase]]
name = "mixed"
do = "drive"
clients = 2
for = "300s"
durability = "durable"
mix = {{ read = 70, update = 30 }}
[[phase]]
do = "check"
"#
    ));
    let run = place.started(&["run", &plan], 5);
    let directories = server_directories(&place, run.0.id());
    let file = std::fs::read_to_string(directories[0].join("data/postmaster.pid")).unwrap();
    let postmaster = Pid::from_raw(file.lines().next().unwrap().parse().unwrap()).unwrap();
    kill_process(postmaster, Signal::KILL).unwrap();
    let killed = std::time::Instant::now();
    run.ended().expect(9).says("postgres was ended by signal 9 (SIGKILL), sent by nothing that was watched");
    assert!(killed.elapsed() < Duration::from_secs(200), "the drive went on for {:?}", killed.elapsed());
    let run = place.only_run();
    let files: Vec<_> = std::fs::read_dir(&run).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(files.iter().any(|name| name.to_string_lossy().starts_with("postgresql-")), "its log is not in {files:?}");
    assert!(!run.join("data").exists());
    let trial = &plimsoll_record::data::Run::load(&run).unwrap().trials[0];
    let [ledger] = &trial.ledgers[..] else { panic!("{:?}", trial.ledgers) };
    assert!(ledger.complete && ledger.acknowledged > 500 && ledger.read_back == 500, "{ledger:?}");
    assert!(ledger.lost == 0 && ledger.wrong.is_empty(), "{ledger:?}");
}
