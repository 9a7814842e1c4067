//! Threads that hang alone, and connections that are reset, as seen from outside of the servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Place, once_below, servers, wait_for};
use crate::faults::{postgres_of, seconds};
use crate::lab::Lab;

/// Returns the text of a file of a process or thread; empty if it has ended.
fn proc(id: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default()
}

fn ids_in(directory: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the threads of a server's process and of its children that a tracer has stopped.
fn stopped(server: u32) -> Vec<u32> {
    let parent = format!("\nPPid:\t{server}\n");
    let is_its = |process: &u32| *process == server || proc(*process, "status").contains(&parent);
    let processes = ids_in("/proc").into_iter().filter(is_its);
    let threads = processes.flat_map(|process| ids_in(&format!("/proc/{process}/task")));
    threads.filter(|thread| proc(*thread, "status").contains("\nState:\tt (tracing stop)\n")).collect()
}

/// Returns the peers of the established connections to a port in the network of a process, in the words of the kernel.
fn peers(process: u32, port: u16) -> BTreeSet<String> {
    let end = format!(":{port:04X}");
    let is_its = |words: &Vec<String>| words[1].ends_with(&end) && words[3] == "01";
    let table = proc(process, "net/tcp");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(is_its).map(|words| words[2].clone()).collect()
}

fn only_fault(report: &Value) -> &Value {
    let faults = report["faults"].as_array().unwrap();
    assert!(faults.len() == 1 && faults[0]["error"].is_null(), "{report}");
    &faults[0]
}

#[test]
fn one_process_of_a_server_hangs_while_a_new_client_is_answered() {
    let mut seen = Vec::new();
    // On a busy machine an answer may take as long as the process hangs, but not each time.
    let goes_on = (0..3).any(|_| {
        seen.push(hang_beside_a_new_client());
        seen.last().is_some_and(|(is_answered, outage_s)| *is_answered && *outage_s < 3.5)
    });
    assert!(goes_on, "a new client waits for the process that hangs: {seen:?}");
}

/// Drives PostgreSQL, of which one process hangs for four seconds. Returns true if a new client was answered meanwhile, and
/// the outage of all others in seconds.
fn hang_beside_a_new_client() -> (bool, f64) {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=500", "--mix", "read=1", "--on", "postgres", "--clients", "4", "-q"];
    let fault = ["--for", "9s", "--fault", "hang all at 3s for 4s"];
    let mut run = place.recording(&[&line[..], &fault].concat());
    let endpoint = postgres_of(&run);
    let server = servers(run.0.id(), "postgres")[0];
    let (mut seen, mut is_answered) = (BTreeSet::new(), false);
    while run.0.try_wait().unwrap().is_none() {
        let now = stopped(server);
        assert!(now.len() < 2, "{now:?}");
        if !now.is_empty() {
            let mut client = endpoint.open(Arc::default(), "", &[], Duration::from_secs(20)).unwrap();
            assert_eq!(client.value("SELECT 1").unwrap(), "1");
            // While it still hangs.
            is_answered |= stopped(server) == now;
        }
        seen.extend(now);
        std::thread::sleep(Duration::from_millis(50));
    }
    run.ended().expect(0);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(!seen.contains(&server), "{seen:?}");
    let report = place.report();
    let found = only_fault(&report);
    assert_eq!((&found["name"], &found["kind"]), (&"hang of the server".into(), &"hang".into()));
    assert!(seconds(found, "healed_s") >= 3.9, "{found}");
    let sentence = found["sentence"].as_str().unwrap();
    assert!(!sentence.contains("no client noticed"), "{sentence}");
    (is_answered, seconds(found, "outage_s"))
}

#[test]
fn a_lab_lets_a_thread_continue_after_the_run_was_killed_and_by_a_command() {
    let place = Place::new();
    let lab = Lab::up(&place, "mariadb", &[]);
    let server = lab.status()["nodes"][0]["process"].as_u64().unwrap() as u32;
    let line = ["drive", "oltp_point_select", "--set", "table_size=200", "--on", "lab:mariadb", "--clients", "4"];
    let mut run = place.started(&[&line[..], &["-q", "--for", "600s", "--fault", "hang all at 1s"]].concat(), 1);
    let hangs = || stopped(server).len() == 1;
    wait_for("the thread to hang", Duration::from_secs(200), hangs);
    assert_ne!(stopped(server), [server], "the main thread goes on");
    // The lab looks twice a second, as a new client.
    wait_for("the state", Duration::from_secs(200), || lab.states() == ["hanging"]);
    run.kill();
    wait_for("the lab to be whole", Duration::from_secs(100), || stopped(server).is_empty());
    wait_for("the state", Duration::from_secs(100), || lab.states() == ["running"]);
    let mut run = place.started(&[&line[..], &["-q", "--for", "600s"]].concat(), 1);
    lab.does("hang", "1").says("node 1 hanging");
    assert!(hangs());
    run.kill();
    assert!(hangs(), "it is not the run's");
    lab.does("resume", "1");
    assert!(stopped(server).is_empty());
    lab.down();
}

#[test]
fn connections_that_are_reset_fail_and_clients_connect_again() {
    // A busy machine may be late with all connections.
    once_below(2.9, outage_by_a_reset_s);
}

/// Drives a primary whose connections are reset. Returns the outage in seconds.
fn outage_by_a_reset_s() -> f64 {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "postgres-replicas", "--nodes", "2", "--clients", "4"];
    // Without think times: a session that is reset between two operations fails none.
    let load = ["-q", "--slice", "100ms", "--for", "8s", "--fault", "reset primary at 5s"];
    let mut run = place.started(&[&drive[..], &load].concat(), 1);
    // The primary is started before its replica.
    let all = servers(run.0.id(), "postgres");
    let serves = |server: &&u32| peers(**server, 5432).len() >= 4;
    let server = *all.iter().find(serves).unwrap_or_else(|| panic!("nobody serves four clients: {all:?}"));
    let before = peers(server, 5432);
    let mut are_back = false;
    while run.0.try_wait().unwrap().is_none() {
        let now = peers(server, 5432);
        are_back |= now.len() >= 4 && now.is_disjoint(&before);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(are_back, "the clients did not connect again");
    run.ended().expect(0);
    let report = place.report();
    let found = only_fault(&report);
    assert_eq!(found["name"], "reset of connections to node 1, the primary");
    // Each client had a request on its way, or one that was about to begin.
    let failed = found["unknown"].as_u64().unwrap() + found["rejected"].as_u64().unwrap();
    assert!((1..=8).contains(&failed), "{found}");
    assert_eq!(report["trials"][0]["ledgers"][0]["lost"], 0, "{report}");
    seconds(found, "outage_s")
}

#[test]
fn a_lab_has_its_connections_reset_again_and_again_and_by_a_command() {
    let place = Place::new();
    let lab = Lab::up(&place, "etcd", &["--nodes", "1"]);
    place.refuses(&[("lab hang etcd 1", "no thread or process for each client … pause instead of hang")]);
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:etcd", "--clients", "4", "-q", "--for", "6s"];
    let load = ["--think", "1ms", "--json", "--fault", "reset all at 1s every 1s"];
    let ran = place.run(&[&line[..], &load].concat()).expect(0);
    let report = ran.last_json();
    let faults = report["report"]["faults"].as_array().unwrap();
    assert!(faults.len() >= 2 && faults.iter().all(|fault| fault["error"].is_null()), "{faults:?}");
    assert!(faults.iter().any(|fault| fault["noticed_s"].is_number()), "{faults:?}");
    // The lab itself is a client, and so is a gateway of etcd.
    let driving = lab.driving("kv --mix read=1 --set records=200 --clients 2 --think 5ms --for 60s");
    lab.does("reset", "1").says("node 1 reset");
    drop(driving);
    lab.down();
}
