//! Killed at any moment: the recording is complete, and nothing else is left.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_testkit::draw::{Draw, repeats};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{LOADED, Place, left_below, servers, small_coupons, wait_for};
use crate::lab::Lab;
use crate::lab_faults::spans;
use crate::lab_version::{REDIS, copied};

/// Longest time until nothing of a killed run is left.
const GONE: Duration = Duration::from_secs(100);

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
        wait_for("the private server's end", GONE, || {
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
pub(crate) fn server_directories(place: &Place, pid: u32) -> Vec<PathBuf> {
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

/// Options of stores, and the faults that their private servers can have.
const BROKEN: [(&[&str], &[&str]); 3] = [
    (
        &["--on", "postgres", "--set", "postgres.disk=ext4", "--set", "postgres.cpus=2"],
        &[
            "disk eio write always",
            "disk eio flush always",
            "disk delay write 5000 1000 7",
            "disk full",
            "disk bit-rot 3 0.01",
            "disk speed 8000 150000000 single",
            "disk ignore-flushes",
            "stop all",
            "pause all",
            "hang all",
            "restart all",
            "limit all cpus=0.5",
            "clock all by=1h",
            "work vacuum",
            "work reindex",
            "neighbour all cpu=1",
            "neighbour all disk",
        ],
    ),
    (
        &["--on", "postgres-replicas", "--nodes", "2", "--client-hosts", "1"],
        &[
            "kill primary",
            "replace node 2",
            "add node",
            "remove node",
            "restart all rolling",
            "promote replica",
            "reset primary",
            "cut node 2",
            "cut all from clients",
            "cut primary from client host 1",
            "cut node 1 from node 2",
            "link all delay=5ms loss=1% close=1s",
            "link all from clients delay=5ms",
            "link all from client host 1 delay=5ms",
            "link node 1 from node 2 delay=5ms",
            "work backup all",
            "storm all connections=50",
            "neighbour all network=5Mbit",
        ],
    ),
    (&["--on", "redis"], &["restart all with PROGRAM"]),
];

/// Returns the network of a process.
fn network(process: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// Returns the living processes.
fn processes() -> impl Iterator<Item = u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One that has ended and was not waited for has no arguments.
    all.filter(|process| std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty()))
}

#[test]
fn a_run_that_is_killed_at_a_drawn_moment_of_any_fault_leaves_nothing_of_its_servers() {
    let mut draw = Draw::new("faults of private servers");
    let own = network(std::process::id());
    let programs = Lab::base();
    let program = copied(Path::new(REDIS), programs.path());
    let with_store = |(store, faults): (_, &'static [&'static str])| faults.iter().map(move |fault| (store, *fault));
    let all: Vec<(&[&str], &str)> = BROKEN.into_iter().flat_map(with_store).collect();
    // Each twice in a heavy run, at two moments.
    let count = repeats(2, 2 * all.len());
    for (store, fault) in draw.shuffled(all).into_iter().cycle().take(count) {
        let place = Place::new();
        // After the first slice, so that a kill may come before it.
        let fault = format!("{} at 1200ms", fault.replace("PROGRAM", program.to_str().unwrap()));
        // A node leaves only if one has joined.
        let is_removal = fault.starts_with("remove");
        let joining: &[&str] = if is_removal { &["--fault", "add node at 100ms"] } else { &[] };
        let drive = ["drive", "kv", "--set", "records=200", "--clients", "4", "--think", "2ms", "--for", "600s", "-q"];
        let mut run = place.started(&[&drive[..], store, joining, &["--fault", &fault]].concat(), 1);
        if is_removal {
            let has_joined = || spans(&place).iter().any(|span| span.taken_ns.is_some());
            wait_for("the node to join", Duration::from_secs(200), has_joined);
        }
        let after = Duration::from_millis(draw.below(2_000));
        println!("{fault}: killed {after:?} after the first slice");
        std::thread::sleep(after);
        let directories = server_directories(&place, run.0.id());
        let started = servers(run.0.id(), "");
        let networks: BTreeSet<PathBuf> = started.iter().copied().filter_map(network).collect();
        let is_other = |network: &&PathBuf| Some(*network) != own.as_ref();
        // While a file of a network is open, the kernel gives its number to no other.
        let of = |wanted: &PathBuf| started.iter().copied().find(|process| network(*process).as_ref() == Some(wanted));
        let open = |wanted: &PathBuf| File::open(format!("/proc/{}/ns/net", of(wanted)?)).ok();
        let _held: Vec<File> = networks.iter().filter(is_other).filter_map(open).collect();
        run.kill();
        let is_its = |process: &u32| {
            let its = network(*process).filter(|network| is_other(&network));
            started.contains(process) || its.is_some_and(|network| networks.contains(&network))
        };
        wait_for("nothing to be left", GONE, || {
            let is_gone = |directory: &PathBuf| !directory.exists() && left_below(directory).is_empty();
            directories.iter().all(is_gone) && left_below(place.path()).is_empty() && !processes().any(|it| is_its(&it))
        });
        place.line("drive kv --on null --mix read=1 --ops 1").expect(0);
        assert!(place.all_runs().iter().all(|run| !run.join("data").exists()), "{fault}");
    }
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
