//! Disturbances of servers from outside, as the kernel shows them: connection storms and noisy neighbours.

use std::time::{Duration, Instant};

use plimsoll_testkit::draw::repeats;
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Place, servers, wait_for};
use crate::faults::are_healed;
use crate::lab::Lab;

/// Longest time until a disturbance is seen, or has ended.
const BOUND: Duration = Duration::from_secs(100);
/// Port 5432, as the kernel writes it.
const PORT: &str = ":1538";
const NEIGHBOUR: &str = "plimsoll-neighbour";

/// Returns the number of connections to the PostgreSQL of a process, on its host.
fn connections(pid: u64) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let is_open = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 3 && fields[1].ends_with(PORT) && fields[3] == "01"
    };
    table.lines().filter(is_open).count()
}

/// Returns the processor time of a process in ticks of 10 ms; 0 if it has ended.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Returns true if a process has the file of a neighbour open, which has no name.
fn writes(pid: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut names = files.filter_map(|file| std::fs::read_link(file.path()).ok()?.into_os_string().into_string().ok());
    names.any(|name| name.contains(".plimsoll-neighbour-") && name.ends_with(" (deleted)"))
}

/// Returns the bytes that the host of a process has sent so far.
fn sent(pid: u64) -> u64 {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:")).unwrap();
    line.split_whitespace().nth(8).unwrap().parse().unwrap()
}

/// Returns what the host of a process sends in half a second, in Mbit/s.
fn sends_mbit(pid: u64) -> f64 {
    let (before, since) = (sent(pid), Instant::now());
    std::thread::sleep(Duration::from_millis(500));
    (sent(pid) - before) as f64 * 8e-6 / since.elapsed().as_secs_f64()
}

/// Returns the names of the faults of a report. Each was healed without an error.
#[track_caller]
fn healed(report: &Value) -> Vec<String> {
    let faults = report["faults"].as_array().unwrap();
    assert!(faults.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{faults:?}");
    faults.iter().map(|fault| fault["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_connection_storm_comes_from_the_host_of_the_load_and_ends_with_its_fault_or_a_killed_run() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let status = lab.status();
    let nodes = status["nodes"].as_array().unwrap();
    let pids: Vec<u64> = nodes.iter().map(|node| node["process"].as_u64().unwrap()).collect();
    let stormed = || pids.iter().map(|pid| connections(*pid) >= 60).collect::<Vec<_>>();
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:postgres-replicas", "--clients", "2", "-q"];
    let drive = |more: &[&str]| place.recording(&[&line[..], &["--think", "5ms"], more].concat());
    assert_eq!(stormed(), [false, false]);
    let mut run = drive(&["--for", "300s", "--fault", "storm all connections=60 at 1s for 8s"]);
    wait_for("the storm", BOUND, || stormed() == [true, true]);
    wait_for("its end", BOUND, || stormed() == [false, false]);
    assert!(run.0.try_wait().unwrap().is_none(), "the storm ended with the run");
    wait_for("its healing", BOUND, || are_healed(&place, 1));
    run.signal(Signal::INT);
    run.ended().expect(130);
    let report = place.report();
    assert_eq!(healed(&report), ["connection storm on all nodes"]);
    let told = |event: &Value| event["text"].as_str().unwrap().contains("at most 120 of 120 connections were open");
    assert!(report["events"].as_array().unwrap().iter().any(told), "{report}");
    let mut run = drive(&["--for", "300s", "--fault", "storm node 2 connections=60 at 1s"]);
    wait_for("the storm", BOUND, || stormed() == [false, true]);
    run.kill();
    wait_for("its end", BOUND, || stormed() == [false, false]);
    lab.down();
}

#[test]
fn noisy_neighbours_use_processors_and_disk_and_end_with_their_fault_or_a_killed_run() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=200", "--on", "postgres", "--clients", "2", "-q"];
    // From its beginning, because the neighbours stay for a few seconds.
    let drive = |more: &[&str]| place.recording(&[&line[..], &["--think", "5ms"], more].concat());
    let cpus = repeats(1, 2);
    let (busy, writing) = (format!("neighbour all cpu={cpus} at 1s for 8s"), "neighbour all disk at 1s for 8s");
    let mut run = drive(&["--for", "300s", "--fault", &busy, "--fault", writing]);
    let (id, mut pids) = (run.0.id(), Vec::new());
    wait_for("the neighbours", BOUND, || {
        pids = servers(id, NEIGHBOUR);
        pids.len() == cpus + 1
    });
    wait_for("processor time and a file", BOUND, || {
        let (writing, others): (Vec<u32>, Vec<u32>) = pids.iter().partition(|pid| writes(**pid));
        writing.len() == 1 && others.iter().filter(|pid| ticks(**pid) >= 10).count() == cpus
    });
    wait_for("their end", BOUND, || servers(id, NEIGHBOUR).is_empty());
    assert!(run.0.try_wait().unwrap().is_none(), "they ended with the run");
    wait_for("their healing", BOUND, || are_healed(&place, 2));
    run.signal(Signal::INT);
    run.ended().expect(130);
    let mut names = healed(&place.report());
    names.sort_unstable();
    let busy = format!("noisy neighbour (cpu={cpus}) beside the server");
    assert_eq!(names, [busy.as_str(), "noisy neighbour (disk) beside the server"]);
    let endless = ["--fault", "neighbour all cpu=1 at 1s", "--fault", "neighbour all disk at 1s"];
    let mut run = drive(&[&["--for", "300s"][..], &endless[..]].concat());
    wait_for("the neighbours", BOUND, || {
        pids = servers(run.0.id(), NEIGHBOUR);
        pids.len() == 2
    });
    run.kill();
    let is_gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    wait_for("their end", BOUND, || pids.iter().all(is_gone));
}

#[test]
fn a_neighbour_on_the_network_fills_the_link_of_its_node_and_ends_with_its_fault_or_a_killed_run() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    lab.does("link", "2 --rate 20Mbit");
    let status = lab.status();
    let nodes = status["nodes"].as_array().unwrap();
    let pids: Vec<u64> = nodes.iter().map(|node| node["process"].as_u64().unwrap()).collect();
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:postgres-replicas", "--clients", "2", "-q"];
    let line = [&line[..], &["--think", "50ms"]].concat();
    let drive = |more: &[&str]| place.recording(&[&line[..], more].concat());
    let mut run = drive(&["--for", "300s", "--fault", "neighbour node 2 network at 2s for 8s"]);
    wait_for("the neighbour", BOUND, || (12.0..25.0).contains(&sends_mbit(pids[1])));
    assert!(sends_mbit(pids[0]) < 5.0, "node 1 has a neighbour, too");
    wait_for("its end", BOUND, || sends_mbit(pids[1]) < 2.0);
    assert!(run.0.try_wait().unwrap().is_none(), "it ended with the run");
    wait_for("its healing", BOUND, || are_healed(&place, 1));
    run.signal(Signal::INT);
    run.ended().expect(130);
    assert_eq!(healed(&place.report()), ["noisy neighbour (network) beside node 2"]);
    let mut run = drive(&["--for", "300s", "--fault", "neighbour node 2 network=8Mbit at 1s"]);
    wait_for("the neighbour", BOUND, || (6.0..11.0).contains(&sends_mbit(pids[1])));
    run.kill();
    wait_for("its end", BOUND, || sends_mbit(pids[1]) < 2.0);
    lab.down();
}

#[test]
fn a_storm_of_more_connections_than_file_descriptors_is_refused_with_the_remedy() {
    let place = Place::new();
    let few = "ulimit -n 500; $plimsoll drive select --on postgres --for 5s --fault 'storm all connections=5000 at 1s'";
    place.shell("", few).expect(2).says("file descriptors, and 500 are available … raise the limit: ulimit -n");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_storm_on_a_server_that_does_not_run_ends_the_run_with_the_reason() {
    let place = Place::new();
    let line = ["drive", "select", "--on", "postgres", "--for", "12s", "-q"];
    let faults = ["--fault", "kill all at 500ms for 8s", "--fault", "storm all connections=5 at 2500ms for 1s"];
    let ran = place.run(&[&line[..], &faults].concat());
    assert_ne!(ran.code, Some(0), "{ran:?}");
    ran.says("storm all connections=5 at 2500ms for 1s: no connection to … could be opened … Connection refused");
}
