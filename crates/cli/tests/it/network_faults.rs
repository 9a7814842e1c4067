//! Faults of the network in a run, as datagrams between all hosts of a lab show them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_core::Servers as _;
use plimsoll_lab::hosts::client_host;
use plimsoll_lab::standing;
use serde_json::Value;

use crate::bench::{Guarded, Place};
use crate::lab::Lab;

/// Hosts, in the order of their numbers.
const NAMES: [&str; 6] = ["the load", "client host 1", "client host 2", "node 1", "node 2", "node 3"];
const CLIENT_1: usize = 1;
const CLIENT_2: usize = 2;
const NODE_1: usize = 3;
const NODE_2: usize = 4;
const NODE_3: usize = 5;
/// All hosts with clients.
const CLIENTS: [usize; 3] = [0, CLIENT_1, CLIENT_2];
/// Time between two datagrams from a host to another.
const INTERVAL: Duration = Duration::from_millis(20);
/// Number of datagrams in a row by which the state of a way is judged: the fastest counts, because a busy machine
/// delays some of them.
const WINDOW: usize = 5;
/// Datagrams from a host to another after the end of the run.
const AFTERWARDS: usize = 4 * WINDOW;
/// Delay of the slow links.
const SLOW: Duration = Duration::from_millis(300);
/// Mean delay of the uneven link, and the shortest one. A plain link is faster.
const UNEVEN: Duration = Duration::from_millis(100);
const UNEVEN_LEAST: Duration = Duration::from_millis(60);

/// State of the way from a host to another.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Plain,
    Slow,
    Cut,
}

/// Returns true for the ways between a host and others.
fn is_between(from: usize, to: usize, host: usize, others: &[usize]) -> bool {
    (from == host && others.contains(&to)) || (to == host && others.contains(&from))
}

/// Function that returns true if a fault changes the way from a host to another.
type Ways = fn(usize, usize) -> bool;

/// Faults, the state of the ways that each changes, how often it begins, and these ways. No two change a way at the
/// same time.
const FAULTS: [(&str, State, usize, Ways); 11] = [
    ("link node 1 from clients delay=300ms at 500ms for 1s", State::Slow, 1, |from, to| {
        is_between(from, to, NODE_1, &CLIENTS)
    }),
    ("link node 2 from node 3 delay=300ms at 500ms for 1s", State::Slow, 1, |from, to| {
        is_between(from, to, NODE_2, &[NODE_3])
    }),
    ("link node 1 from client host 2 delay=300ms at 2s for 1s", State::Slow, 1, |from, to| {
        is_between(from, to, NODE_1, &[CLIENT_2])
    }),
    ("cut node 2 from node 3 at 2s for 1s", State::Cut, 1, |from, to| is_between(from, to, NODE_2, &[NODE_3])),
    ("cut node 1 from clients at 3500ms for 1s", State::Cut, 1, |from, to| is_between(from, to, NODE_1, &CLIENTS)),
    ("cut node 2 in from node 3 at 3500ms for 1s", State::Cut, 1, |from, to| (from, to) == (NODE_3, NODE_2)),
    ("cut node 1 from client host 1 at 5s for 1s", State::Cut, 1, |from, to| is_between(from, to, NODE_1, &[CLIENT_1])),
    ("cut node 2 out to node 3 at 5s for 1s", State::Cut, 1, |from, to| (from, to) == (NODE_2, NODE_3)),
    ("cut node 3 in at 6500ms for 1s", State::Cut, 1, |_, to| to == NODE_3),
    ("cut node 3 out at 8s for 1s", State::Cut, 1, |from, _| from == NODE_3),
    ("cut node 3 at 9500ms for 600ms every 1200ms", State::Cut, 3, |from, to| from == NODE_3 || to == NODE_3),
];
/// Faults that datagrams pass: some are lost, some arrive twice, or each takes another time.
const PASSED: [&str; 2] = [
    "link node 2 from client host 1 loss=10% duplicate=10% at 9500ms for 3s",
    "link node 1 from node 2 delay=100ms jitter=40ms at 9500ms for 3s",
];

/// A datagram from a host to another.
struct Datagram {
    from: usize,
    to: usize,
    sent: Instant,
    /// Time until it arrived first.
    took: Option<Duration>,
    arrivals: u32,
}

/// Sockets of all hosts, and the datagrams between them, in the order in which they were sent.
struct Probe {
    sockets: Vec<(SocketAddr, UdpSocket)>,
    datagrams: Vec<Datagram>,
}

impl Probe {
    /// Opens a socket on each host of a lab with three nodes.
    fn new(place: &Place, lab: &Lab<'_>) -> Self {
        let status = lab.status();
        let host = |of: &Value| -> (IpAddr, PathBuf) {
            let [address, namespace] = ["address", "namespace"].map(|field| of[field].as_str().unwrap());
            (address.parse().unwrap(), PathBuf::from(namespace))
        };
        let holder = standing::Lab::open(&standing::beside(&place.runs()), lab.name).unwrap();
        let clients = holder.client_hosts(2).unwrap().into_iter().enumerate();
        let clients = clients.map(|(number, namespace)| (IpAddr::from(client_host(number)), namespace));
        let nodes = status["nodes"].as_array().unwrap().iter().map(host);
        let all = std::iter::once(host(&status["load"])).chain(clients).chain(nodes);
        let sockets = all.map(|(address, namespace)| {
            let _guard = standing::enter(&namespace).unwrap();
            let socket = UdpSocket::bind((address, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            (socket.local_addr().unwrap(), socket)
        });
        let sockets: Vec<_> = sockets.collect();
        assert_eq!(sockets.len(), NAMES.len(), "{status}");
        Self { sockets, datagrams: Vec::new() }
    }

    /// Sends a datagram from each host to each other.
    fn send(&mut self) {
        for (from, (_, socket)) in self.sockets.iter().enumerate() {
            for (to, (address, _)) in self.sockets.iter().enumerate().filter(|(to, _)| *to != from) {
                let number = self.datagrams.len() as u32;
                self.datagrams.push(Datagram { from, to, sent: Instant::now(), took: None, arrivals: 0 });
                // A datagram that cannot be sent does not arrive.
                let _ = socket.send_to(&number.to_be_bytes(), address);
            }
        }
    }

    /// Receives the datagrams that have arrived.
    fn receive(&mut self) {
        for (_, socket) in &self.sockets {
            let mut number = [0; 4];
            while socket.recv(&mut number).is_ok() {
                let number = u32::from_be_bytes(number) as usize;
                // A datagram of an earlier run may be late.
                let Some(datagram) = self.datagrams.get_mut(number) else { continue };
                datagram.took = datagram.took.or(Some(datagram.sent.elapsed()));
                datagram.arrivals += 1;
            }
        }
    }

    /// Sends datagrams until the run has ended, and for a while after that. Returns them.
    fn beside(&mut self, run: &mut Guarded) -> Vec<Datagram> {
        let mut after = 0;
        while after < AFTERWARDS {
            after += usize::from(run.0.try_wait().unwrap().is_some());
            self.send();
            let until = Instant::now() + INTERVAL;
            while Instant::now() < until {
                self.receive();
                std::thread::sleep(INTERVAL / 10);
            }
        }
        self.receive();
        std::mem::take(&mut self.datagrams)
    }
}

/// Returns the datagrams from a host to another.
fn of_way(all: &[Datagram], from: usize, to: usize) -> Vec<&Datagram> {
    all.iter().filter(|datagram| (datagram.from, datagram.to) == (from, to)).collect()
}

/// Returns the state of a way by datagrams in a row; `None` between a plain and a slow one.
fn state(window: &[&Datagram]) -> Option<State> {
    match window.iter().filter_map(|datagram| datagram.took).min() {
        None => Some(State::Cut),
        Some(least) if least >= SLOW => Some(State::Slow),
        Some(least) => (least < UNEVEN_LEAST).then_some(State::Plain),
    }
}

/// Returns the states that a way has one after the other.
fn planned(from: usize, to: usize) -> Vec<State> {
    let its = FAULTS.into_iter().filter(|(.., changes)| changes(from, to));
    let states = its.flat_map(|(_, state, times, _)| std::iter::repeat_n([state, State::Plain], times).flatten());
    std::iter::once(State::Plain).chain(states).collect()
}

/// Returns the ways whose states are not as planned.
fn unplanned(all: &[Datagram]) -> Vec<String> {
    let ways = (0..NAMES.len()).flat_map(|from| (0..NAMES.len()).map(move |to| (from, to)));
    let wrong = ways.filter(|(from, to)| from != to).filter_map(|(from, to)| {
        let mut seen: Vec<State> = of_way(all, from, to).chunks_exact(WINDOW).filter_map(state).collect();
        seen.dedup();
        let planned = planned(from, to);
        let said = format!("from {} to {}: {seen:?}, planned {planned:?}", NAMES[from], NAMES[to]);
        (seen != planned).then_some(said)
    });
    wrong.collect()
}

/// Returns the shares of datagrams of the lossy link that were lost, and that arrived twice.
fn lost_and_twice(all: &[Datagram]) -> [f64; 2] {
    let is_its = |datagram: &&Datagram| is_between(datagram.from, datagram.to, NODE_2, &[CLIENT_1]);
    let its: Vec<&Datagram> = all.iter().filter(is_its).collect();
    let is_lost = |datagram: &&Datagram| datagram.arrivals == 0;
    let (Some(first), Some(last)) = (its.iter().position(is_lost), its.iter().rposition(is_lost)) else {
        return [0.0; 2];
    };
    let its = &its[first..=last];
    let share = |arrivals: u32| {
        let count = its.iter().filter(|datagram| datagram.arrivals == arrivals).count();
        count as f64 / its.len() as f64
    };
    [share(0), share(2)]
}

/// Returns the shares of datagrams of the uneven link that took less than the delay of the link, and more.
fn early_and_late(all: &[Datagram]) -> [f64; 2] {
    const NEAR: Duration = Duration::from_millis(5);
    let mut took = Vec::new();
    for (from, to) in [(NODE_1, NODE_2), (NODE_2, NODE_1)] {
        let its = of_way(all, from, to);
        let uneven = its.chunks_exact(WINDOW).filter(|window| state(window).is_none());
        took.extend(uneven.flatten().filter_map(|datagram| datagram.took));
    }
    let share = |count: usize| count as f64 / took.len().max(1) as f64;
    let early = took.iter().filter(|took| **took < UNEVEN - NEAR).count();
    let late = took.iter().filter(|took| **took > UNEVEN + NEAR).count();
    [share(early), share(late)]
}

#[test]
fn faults_of_the_network_change_the_ways_that_they_name_and_no_others() {
    let place = Place::new();
    let lab = Lab::up(&place, "etcd", &["--nodes", "3"]);
    let mut probe = Probe::new(&place, &lab);
    let drive = ["drive", "kv", "--mix", "read=1", "--set", "records=200", "--on", "lab:etcd", "--clients", "6", "-q"];
    let more = ["--client-hosts", "2", "--op-timeout", "1s", "--connect-timeout", "1s", "--goal", "errors=100%"];
    let all = FAULTS.into_iter().map(|(fault, ..)| fault).chain(PASSED);
    let faults: Vec<&str> = all.flat_map(|fault| ["--fault", fault]).collect();
    // Ends before the fourth beginning of the repeated cut.
    let line = [&drive[..], &more, &["--think", "20ms", "--for", "13s"], &faults].concat();
    let mut seen = Vec::new();
    // A busy machine may be as late as a slow link, but not each time.
    let are_as_planned = (0..3).any(|_| {
        let mut run = place.recording(&line);
        let all = probe.beside(&mut run);
        let ran = run.ended();
        if ran.code != Some(0) {
            // A fault that is late may meet the next one of its node.
            seen.push(format!("{ran:?}"));
            return false;
        }
        let report = place.report();
        let found = report["faults"].as_array().unwrap();
        assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
        // A tenth are lost or arrive twice. Of the others on the uneven link, those behind a late one are late, too.
        let (wrong, passed, uneven) = (unplanned(&all), lost_and_twice(&all), early_and_late(&all));
        let is_right = wrong.is_empty()
            && passed.iter().all(|share| (0.03..0.2).contains(share))
            && uneven.iter().all(|share| *share > 0.1);
        seen.push(format!("lost, twice: {passed:.2?}; early, late: {uneven:.2?}; {wrong:#?}"));
        is_right
    });
    drop(probe);
    assert!(are_as_planned, "{}", seen.join("\n"));
    lab.down();
}
