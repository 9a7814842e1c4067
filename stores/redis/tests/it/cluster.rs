//! Clusters of three servers: keys where their slots are, and slots that move. What starts them, and drives them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::{Answer, Durability, Layout, Observer, Op, Outcome, Store, Ticket, Value, ValueBuf};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec, Io, Limit, Pace};
use plimsoll_store_redis::slots::slot_of;
use plimsoll_store_redis::{Node, kind};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::private::base;
use plimsoll_testkit::process::free_port;

use crate::fixture::{GET, PUT, Server, TIMEOUT, kinds, open};

/// Three servers that share the slots. They belong to the test.
pub struct Cluster {
    pub nodes: Vec<ClusterNode>,
    /// Settings of each server besides its ports.
    settings: Vec<String>,
}

pub struct ClusterNode {
    pub server: Server,
    pub port: String,
    bus_port: String,
    id: String,
}

impl ClusterNode {
    /// Starts a node on two free ports; `port` is the option that takes the one for clients.
    fn start(port: &str, settings: &[String]) -> ClusterNode {
        let [own, bus] = [free_port().to_string(), free_port().to_string()];
        let mut arguments = vec![port, &own, "--cluster-port", &bus, "--bind", "127.0.0.1", "--cluster-enabled", "yes"];
        arguments.extend(settings.iter().map(String::as_str));
        let server = Server::start(&arguments);
        let id = server.ask(&["CLUSTER", "MYID"]).text();
        ClusterNode { server, port: own, bus_port: bus, id }
    }

    /// Returns this field of its INFO.
    pub fn says(&self, name: &str) -> String {
        let info = self.server.ask(&["INFO", "everything"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "not so within {TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first slot of each node, and what comes after the last one's.
const PARTS: [u16; 4] = [0, 5_461, 10_922, 16_384];

impl Cluster {
    pub fn start() -> Cluster {
        Self::with("--port", &["--cluster-require-full-coverage", "no"])
    }

    /// Three masters on the port that this option takes, and with these settings.
    pub fn with(port: &str, settings: &[&str]) -> Cluster {
        let kept = ["--appendonly", "yes", "--appendfsync", "always"];
        let settings: Vec<String> = kept.iter().chain(settings).map(|word| (*word).to_owned()).collect();
        let nodes: Vec<_> = (0..3).map(|_| ClusterNode::start(port, &settings)).collect();
        let cluster = Cluster { nodes, settings };
        for (place, node) in cluster.nodes.iter().enumerate() {
            let (first, last) = (PARTS[place].to_string(), (PARTS[place + 1] - 1).to_string());
            node.server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]);
            node.server.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            cluster.meet(node);
        }
        cluster.until_all_know(3);
        cluster
    }

    fn meet(&self, node: &ClusterNode) {
        self.nodes[0].server.ask(&["CLUSTER", "MEET", "127.0.0.1", &node.port, &node.bus_port]);
    }

    /// A replica of one of the masters, in step with it.
    pub fn replica_of(&self, place: usize) -> ClusterNode {
        let replica = ClusterNode::start("--port", &self.settings);
        self.meet(&replica);
        until("the replica knows its master", || {
            let nodes = replica.server.ask(&["CLUSTER", "NODES"]).text();
            self.nodes.iter().all(|node| nodes.contains(&node.id))
        });
        replica.server.ask(&["CLUSTER", "REPLICATE", &self.nodes[place].id]);
        until("the replica is in step", || replica.says("master_link_status") == "up");
        // Masters vote only for a replica that they have heard of.
        until("all know the replica", || {
            let knows = |node: &ClusterNode| {
                let nodes = node.server.ask(&["CLUSTER", "NODES"]).text();
                nodes.lines().any(|line| line.starts_with(&replica.id) && line.contains("slave"))
            };
            self.nodes.iter().all(knows)
        });
        replica
    }

    pub fn until_all_know(&self, masters: usize) {
        for node in &self.nodes {
            until("the cluster is whole", || {
                let info = node.server.ask(&["CLUSTER", "INFO"]).text();
                let known: BTreeSet<String> = node
                    .server
                    .ask(&["CLUSTER", "SLOTS"])
                    .list()
                    .iter()
                    .map(|range| range.list()[2].list()[2].text())
                    .collect();
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384") && known.len() == masters
            });
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.nodes[0].port)
    }

    pub fn sizes(&self) -> Vec<i64> {
        let size = |node: &ClusterNode| match node.server.ask(&["DBSIZE"]) {
            Node::Int(size) => size,
            other => panic!("{other:?}"),
        };
        self.nodes.iter().map(size).collect()
    }

    /// The place of the node that a slot belongs to, as it began.
    pub fn owner(slot: u16) -> usize {
        PARTS.iter().rposition(|first| *first <= slot).unwrap()
    }

    /// Brings a slot from the node that has it to another one, key by key, as `redis-cli --cluster reshard` does.
    fn migrate(&self, slot: u16, from: usize, to: usize) {
        let (slot, source, target) = (slot.to_string(), &self.nodes[from], &self.nodes[to]);
        target.server.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source.id]);
        source.server.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id]);
        loop {
            let keys = source.server.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
            let Some(key) = keys.list().first().map(Node::text) else { break };
            source.server.ask(&["MIGRATE", "127.0.0.1", &target.port, &key, "0", "5000"]);
            // The slot is open for a while, so that the load meets it.
            std::thread::sleep(Duration::from_millis(2));
        }
        for node in [target, source] {
            node.server.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &target.id]);
        }
    }
}

pub const KEYS: u64 = 600;
pub const PREFIX: &str = "plimsoll:test_1:";

/// Keys of which every third shares one slot, by its hash tag.
pub fn key(number: u64) -> String {
    if number.is_multiple_of(3) { format!("{{together}}{number}") } else { format!("key{number}") }
}

pub fn value(number: u64) -> String {
    format!("value of {number}")
}

/// Reads and writes keys in turn, every client its own.
struct Mixed {
    clients: u64,
}

impl plimsoll_core::Stream for Mixed {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<u16> {
        let number = (cycle / 2 * self.clients + u64::from(client)) % KEYS;
        params.push(Value::Bytes(key(number).as_bytes()));
        if cycle.is_multiple_of(2) {
            params.push(Value::Bytes(value(number).as_bytes()));
            return Some(PUT);
        }
        Some(GET)
    }
}

/// Checks that every answer is the right one, and keeps what took how long.
struct Check {
    asked: Vec<u64>,
    wrong: Arc<AtomicBool>,
}

impl Observer for Check {
    fn sent(&mut self, ticket: Ticket, _: u64, client: u32, cycle: u64, _: &Op<'_>) {
        let index = ticket.0 as usize;
        if self.asked.len() <= index {
            self.asked.resize(index + 1, 0);
        }
        self.asked[index] = (cycle << 32) | u64::from(client);
    }

    fn finished(&mut self, ticket: Ticket, _: u64, outcome: Outcome, answer: &Answer) {
        let (cycle, client) = (self.asked[ticket.0 as usize] >> 32, self.asked[ticket.0 as usize] & 0xffff_ffff);
        let number = (cycle / 2 * CLIENTS + client) % KEYS;
        if !cycle.is_multiple_of(2)
            && outcome == Outcome::Ok
            && answer.values.values().get(0) != Value::Bytes(value(number).as_bytes())
        {
            self.wrong.store(true, Ordering::Relaxed);
        }
    }
}

pub const CLIENTS: u64 = 8;

/// Drives eight clients over the store, while `meanwhile` happens, until that is over and a little longer.
pub fn drive(store: &mut dyn Store, depth: u32, io: Io, pace: Pace, meanwhile: impl FnOnce() + Send) -> DriveResult {
    let sessions = store.sessions(CLIENTS as u32 / depth, Durability::Durable).unwrap();
    let wrong = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let spec = DriveSpec {
        limit: Limit::Duration(Duration::from_secs(60)),
        // A failover whose vote fails is tried again after some seconds.
        backlog: Duration::from_secs(60),
        depth,
        io,
        pace,
        op_timeout: Duration::from_secs(20),
        each_max: 1 << 20,
        ..DriveSpec::default()
    };
    let clock = Clock::start();
    let drive = Drive {
        clock: &clock,
        spec: &spec,
        sessions,
        kinds: &kinds(),
        stream: Arc::new(Mixed { clients: CLIENTS }),
        observers: vec![Box::new(Check { asked: Vec::new(), wrong: Arc::clone(&wrong) })],
        stop: Arc::clone(&stop),
    };
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(move || drive.run(&mut |_| {}));
        std::thread::sleep(Duration::from_millis(200));
        meanwhile();
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap()
    });
    assert!(!wrong.load(Ordering::Relaxed), "an answer was wrong");
    result
}

pub fn counter(store: &mut dyn Store, name: &str) -> f64 {
    let counters = plimsoll_testkit::ask::counters(store);
    let of_nodes: Vec<f64> =
        counters.iter().filter(|counter| counter.name == name).map(plimsoll_core::Reading::number).collect();
    assert!(!of_nodes.is_empty(), "{name}: {counters:?}");
    of_nodes.iter().sum()
}

/// Writes and reads every key; how many keys each node has then, which are some for each.
pub fn filled(store: &mut dyn Store, cluster: &Cluster) -> Vec<i64> {
    let mut script = Script::new();
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    for (number, key) in (0..).zip(&keys) {
        script.op(PUT, [Value::Bytes(key.as_bytes()), Value::Bytes(value(number).as_bytes())]);
        script.op(GET, [Value::Bytes(key.as_bytes())]);
    }
    let replies = ask(store, &kinds(), Durability::Durable, &script).unwrap();
    for (number, pair) in (0..).zip(replies.chunks(2)) {
        assert_eq!((pair[0].outcome, pair[1].outcome), (Outcome::Ok, Outcome::Ok), "{pair:?}");
        assert_eq!(pair[1].answer.values.values().get(0), Value::Bytes(value(number).as_bytes()));
    }
    let sizes = cluster.sizes();
    assert!(sizes.iter().all(|size| *size > 100), "{sizes:?}");
    sizes
}

#[test]
fn keys_go_where_their_slots_are_and_are_removed_everywhere() {
    let cluster = Cluster::start();
    cluster.nodes[Cluster::owner(slot_of(b"own"))].server.ask(&["SET", "own", "kept"]);
    for params in [&[("protocol", "2")][..], &[("protocol", "3")]] {
        let mut store = open(&cluster.url(), params, None).unwrap();
        store.create(&Layout::default()).unwrap();
        let sizes = filled(&mut *store, &cluster);
        // All keys, the one that was there, and the note of this run.
        assert_eq!(sizes.iter().sum::<i64>(), KEYS as i64 + 2);
        assert_eq!((counter(&mut *store, "cluster_moved"), counter(&mut *store, "cluster_ask")), (0.0, 0.0));
        assert!(store.describe().unwrap().place.starts_with("cluster of 3 masters at redis://127.0.0.1"));
        // The second time, memory of what was removed before is used again, and little comes on top.
        if params[0].1 == "2" {
            assert!(store.footprint().unwrap().data_bytes > KEYS * 50);
        }
        store.close().unwrap();
        assert_eq!(cluster.sizes().iter().sum::<i64>(), 1);
    }
}

#[test]
fn slots_that_move_under_load_are_followed() {
    let cluster = Cluster::start();
    for (depth, io) in [(1, Io::Epoll), (4, Io::Auto)] {
        let mut store = open(&cluster.url(), &[], None).unwrap();
        store.create(&Layout::default()).unwrap();
        let slot = slot_of(format!("{PREFIX}{{together}}").as_bytes());
        let home = Cluster::owner(slot);
        let away = (home + 1) % 3;
        let result = drive(&mut *store, depth, io, Pace::Closed, || {
            cluster.migrate(slot, home, away);
            std::thread::sleep(Duration::from_millis(200));
            cluster.migrate(slot, away, home);
        });
        assert!(result.errors.is_empty(), "{:?}", result.errors);
        assert_eq!((result.lost_connections, result.down_ns), (0, 0));
        assert!(result.ops > 300, "{}", result.ops);
        let (moved, asked) = (counter(&mut *store, "cluster_moved"), counter(&mut *store, "cluster_ask"));
        assert!(moved >= 2.0 && asked >= 1.0, "{moved} MOVED and {asked} ASK at depth {depth}");
        store.close().unwrap();
        assert_eq!(cluster.sizes(), [0, 0, 0]);
    }
}

#[test]
fn an_attached_cluster_conforms() {
    let cluster = Cluster::start();
    plimsoll_testkit::conformance::run_attached(&*kind(), &cluster.url(), None);
}

#[test]
fn a_private_cluster_keeps_its_keys_through_a_restart() {
    let base = base();
    let mut store = Opening::private(kind, base.path()).int("nodes", 3).open().unwrap();
    assert_eq!(store.processes().len(), 3);
    for pid in store.processes() {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!line.contains("requirepass"), "{line}");
    }
    let supervisors = store.processes().into_iter().map(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find(|line| line.starts_with("PPid:")).unwrap().to_owned()
    });
    assert_eq!(supervisors.collect::<std::collections::BTreeSet<_>>().len(), 1, "one guards all");
    assert_eq!(store.describe().unwrap().place, "private cluster of 3 servers");
    store.create(&Layout::default()).unwrap();
    let mut puts = Script::new();
    let mut gets = Script::new();
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    for key in &keys {
        puts.op(PUT, [Value::Bytes(key.as_bytes()), Value::Bytes(b"v")]);
        gets.op(GET, [Value::Bytes(key.as_bytes())]);
    }
    let all_ok = |replies: Vec<plimsoll_testkit::ask::Reply>| replies.iter().all(|reply| reply.outcome == Outcome::Ok);
    assert!(all_ok(ask(&mut *store, &kinds(), Durability::AtEnd, &puts).unwrap()));
    store.sync().unwrap();
    store.restart().unwrap();
    assert!(all_ok(ask(&mut *store, &kinds(), Durability::Durable, &gets).unwrap()));
    assert!(store.check_integrity().unwrap().is_some());
    store.close().unwrap();
    assert!(std::fs::read_dir(base.path().join("data")).unwrap().next().is_none(), "nothing is left");
}
