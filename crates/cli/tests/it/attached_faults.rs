//! Faults of an attached server on the clients' side, as the server and another of its clients see them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use plimsoll_testkit::process::free_port;
use rustix::process::Signal;

use crate::bench::{Guarded, Place, wait_for};
use crate::faults::are_healed;
use crate::servers::Redis;

/// Longest time until a fault is seen, or has ended.
const BOUND: Duration = Duration::from_secs(100);
/// Connections of each storm, and most others of a run: its clients, and those of its control plane.
const STORM: usize = 60;
const OTHERS_MAX: usize = 10;

/// A Redis that clients reach over TCP.
struct Attached {
    /// Ends before the place that has its files.
    server: Redis,
    place: Place,
    port: u16,
}

impl Attached {
    fn start() -> Self {
        let place = Place::new();
        let port = free_port();
        let server = Redis::start_with(&[("port", &port.to_string())], place.path());
        Self { server, place, port }
    }

    /// Returns the addresses of clients that are connected over TCP.
    fn clients(&self) -> BTreeSet<String> {
        let list = self.server.ask(&["CLIENT", "LIST"]);
        let address = |line: &str| line.split(' ').find_map(|word| word.strip_prefix("addr=")).map(str::to_owned);
        list.lines().filter_map(address).filter(|address| address.starts_with("127.0.0.1:")).collect()
    }

    /// Returns the command line of a drive with a fault.
    fn drive(&self, clients: &str, more: &[&str]) -> Vec<String> {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let line = ["drive", "kv", "--set", "records=200", "-q", "--on", &url, "--clients", clients];
        line.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    /// Starts a drive with a storm that is allowed.
    fn storming(&self, fault: &str) -> Guarded {
        let line = self.drive("2", &["--think", "5ms", "--for", "300s", "--allow-fault", "--fault", fault]);
        self.place.recording(&words(&line))
    }

    /// Expects that a fault is refused without the permission, before anything is started.
    #[track_caller]
    fn needs_permission(&self, fault: &str, what: &str) {
        let line = self.drive("2", &["--for", "5s", "--fault", fault]);
        let ran = self.place.run(&words(&line)).expect(2);
        ran.says(&format!("{what} to a server that Plimsoll has not started … allow it with --allow-fault"));
        assert!(self.place.all_runs().is_empty(), "nothing was started");
    }

    #[track_caller]
    fn awaits_storm(&self) {
        wait_for("the storm", BOUND, || self.clients().len() >= STORM);
        let count = self.clients().len();
        assert!(count <= STORM + OTHERS_MAX, "{count} connections");
    }

    #[track_caller]
    fn awaits_end(&self) {
        wait_for("its end", BOUND, || self.clients().len() <= OTHERS_MAX);
    }
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

/// Sends a PING, and expects the reply.
#[track_caller]
fn is_answered(client: &mut TcpStream) {
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_reset_ends_the_connections_of_the_run_and_of_no_other_client() {
    let attached = Attached::start();
    attached.needs_permission("reset all at 2s", "this resets connections");
    let mut other = TcpStream::connect(("127.0.0.1", attached.port)).unwrap();
    is_answered(&mut other);
    let own = other.local_addr().unwrap().to_string();
    // Without think times: a session that is reset between two operations fails none.
    let load = ["--slice", "100ms", "--for", "6s", "--allow-fault", "--fault", "reset all at 3s"];
    let mut run = attached.place.started(&words(&attached.drive("4", &load)), 1);
    let before = attached.clients();
    assert!(before.len() >= 5 && before.contains(&own), "{before:?}");
    let mut are_back = false;
    while run.0.try_wait().unwrap().is_none() {
        let now = attached.clients();
        let kept: Vec<&String> = now.intersection(&before).collect();
        are_back |= now.len() >= 5 && kept == [&own];
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(are_back, "the clients did not connect again");
    run.ended().expect(0);
    is_answered(&mut other);
    let report = attached.place.report();
    let found = &report["faults"][0];
    assert!(found["name"] == "reset of connections to the server" && found["error"].is_null(), "{found}");
    // Each client had a request on its way, or one that was about to begin.
    let failed = found["unknown"].as_u64().unwrap() + found["rejected"].as_u64().unwrap();
    assert!((1..=8).contains(&failed), "{found}");
    assert_eq!(report["trials"][0]["ledgers"][0]["lost"], 0, "{report}");
    assert_eq!(attached.server.ask(&["DBSIZE"]), "0", "nothing is left");
}

#[test]
fn a_storm_has_the_planned_connections_and_ends_with_its_fault_a_stop_or_a_killed_run() {
    let attached = Attached::start();
    let storm = format!("storm all connections={STORM} at 500ms");
    attached.needs_permission(&storm, "this opens many connections");
    let mut run = attached.storming(&format!("{storm} for 4s"));
    attached.awaits_storm();
    attached.awaits_end();
    assert!(run.0.try_wait().unwrap().is_none(), "the storm ended with the run");
    wait_for("its healing", BOUND, || are_healed(&attached.place, 1));
    run.signal(Signal::INT);
    run.ended().expect(130);
    let report = attached.place.report();
    let found = &report["faults"][0];
    assert!(found["name"] == "connection storm on the server" && found["error"].is_null(), "{found}");
    let told = |event: &serde_json::Value| event["text"].as_str().unwrap().contains("at most 60 of 60 connections");
    assert!(report["events"].as_array().unwrap().iter().any(told), "{report}");
    let run = attached.storming(&storm);
    attached.awaits_storm();
    run.signal(Signal::INT);
    run.ended().expect(130);
    attached.awaits_end();
    let mut run = attached.storming(&storm);
    attached.awaits_storm();
    run.kill();
    attached.awaits_end();
}
