//! A server of our own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_core::{
    Answer, Nodes, Observer, Op, OpKind, Outcome, Sessions, Stream, Ticket, Value, ValueBuf, WireClient,
};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_lab::Cluster;
use plimsoll_store_http::endpoint::{Endpoint, Version};
use plimsoll_store_http::server::{self, INDEX_BYTES, SIZES_BYTES, content};
use plimsoll_store_http::wire::HttpSession;
use plimsoll_store_http::{NginxRecipe, look};

use crate::fixture::{GET, TIMEOUT, kept, kinds};

fn start(dir: &tempfile::TempDir) -> Cluster {
    let recipe = Box::new(NginxRecipe { access_log: false, connections: 4096, version: Version::Http11 });
    Cluster::start(recipe, &[PathBuf::from("/var/tmp")], dir.path(), &Default::default(), &mut |_| {}).unwrap()
}

fn endpoint(server: &Cluster) -> Endpoint {
    server::endpoint(&server.first(), Version::Http11)
}

/// Asks for each of a list of targets in turn, again and again.
struct Targets(Vec<String>);

impl Stream for Targets {
    fn op(&self, _: u32, cycle: u64, params: &mut ValueBuf) -> Option<u16> {
        params.push(Value::Text(&self.0[cycle as usize % self.0.len()]));
        Some(GET)
    }
}

/// Counts answers, and acts after a given number.
struct Counter {
    kept: Arc<Mutex<Vec<(Outcome, usize)>>>,
    at: usize,
    then: Option<Box<dyn FnOnce() + Send>>,
}

impl Observer for Counter {
    fn sent(&mut self, _: Ticket, _: u64, _: u32, _: u64, _: &Op<'_>) {}

    fn finished(&mut self, _: Ticket, _: u64, outcome: Outcome, answer: &Answer) {
        let mut all = self.kept.lock().unwrap();
        all.push((outcome, kept(answer).map_or(0, |(_, body)| body.len())));
        if all.len() >= self.at
            && let Some(then) = self.then.take()
        {
            drop(all);
            then();
        }
    }
}

/// Drives one session for a time, and does `then` once `at` operations are done.
fn drive(
    endpoint: Endpoint,
    targets: Vec<String>,
    length: Duration,
    at: usize,
    then: Box<dyn FnOnce() + Send>,
) -> Vec<(Outcome, usize)> {
    let session = HttpSession::new(Arc::new(endpoint.login.clone()), plimsoll_core::Durability::Durable);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let reads: Vec<OpKind> = kinds().into_iter().filter(|kind| !kind.writes()).collect();
    let spec = DriveSpec { limit: Limit::Duration(length), ..DriveSpec::default() };
    let drive = Drive {
        clock: &Clock::start(),
        spec: &spec,
        sessions: Sessions::Wire(vec![WireClient { address: endpoint.address, session: Box::new(session) }]),
        kinds: &reads,
        stream: Arc::new(Targets(targets)),
        observers: vec![Box::new(Counter { kept: Arc::clone(&kept), at, then: Some(then) })],
        stop: Arc::default(),
    };
    drive.run(&mut |_| {}).unwrap();
    Arc::into_inner(kept).expect("the observer is gone").into_inner().unwrap()
}

#[test]
fn it_serves_its_files_and_is_gone_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir);
    let pid = server.pids()[0];
    assert!(listens_on_no_port(pid), "it listens on the network");
    let mut targets = vec!["/".to_owned()];
    targets.extend(SIZES_BYTES.map(|size| format!("/bytes/{size}")));
    let count = targets.len();
    let said = drive(endpoint(&server), targets, Duration::from_millis(300), usize::MAX, Box::new(|| {}));
    let sizes = [INDEX_BYTES].into_iter().chain(SIZES_BYTES);
    assert!(said.len() >= count);
    for (said, size) in said.iter().zip(sizes.cycle()) {
        assert_eq!(*said, (Outcome::Ok, size));
    }
    assert_eq!(std::fs::read(server.first().data_dir.join("files/bytes/1024")).unwrap(), content(1024));
    let (sockets, files) = (server.first().socket_dir.clone(), server.first().data_dir.clone());
    server.close().unwrap();
    assert!(!sockets.exists() && !files.exists() && !PathBuf::from(format!("/proc/{pid}")).exists());
}

/// Returns true if no socket of a process listens in `/proc/net/tcp` or `tcp6`.
fn listens_on_no_port(pid: u32) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let inodes: Vec<String> = links
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    assert!(!inodes.is_empty(), "it has its Unix socket at least");
    ["tcp", "tcp6"].iter().all(|name| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        text.lines()
            .skip(1)
            .all(|line| line.split_ascii_whitespace().nth(9).is_none_or(|inode| !inodes.iter().any(|own| own == inode)))
    })
}

#[test]
fn it_is_stopped_and_killed_and_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir);
    server.stop(Nodes::All).unwrap();
    assert!(look(&endpoint(&server), TIMEOUT).is_err());
    server.start(Nodes::All).unwrap();
    server.kill(Nodes::All).unwrap();
    assert!(server.check(Nodes::All).is_err());
    server.start(Nodes::One(0)).unwrap();
    assert!(look(&endpoint(&server), TIMEOUT).unwrap().starts_with("nginx/"));
    server.close().unwrap();
}

#[test]
fn a_server_that_is_killed_leaves_unknown_operations_and_is_driven_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir);
    let again = server.handle();
    // Killed from within the run: the next request has no server to answer it.
    let (tell, told) = std::sync::mpsc::channel();
    let killer = std::thread::spawn(move || {
        told.recv().unwrap();
        again.kill(Nodes::All).unwrap();
        again.start(Nodes::All).unwrap();
    });
    let then = Box::new(move || tell.send(()).unwrap());
    let said = drive(endpoint(&server), vec!["/bytes/1048576".to_owned()], Duration::from_secs(3), 20, then);
    killer.join().unwrap();
    let lost = said.iter().position(|(outcome, _)| *outcome == Outcome::Unknown).expect("an operation was in flight");
    assert!(said[lost + 1..].contains(&(Outcome::Ok, 1 << 20)), "it goes on afterwards");
    assert!(said.iter().all(|(outcome, _)| matches!(outcome, Outcome::Ok | Outcome::Unknown)));
}
