//! Tests of servers that end connections gracefully.

use std::sync::Arc;

use plimsoll_core::{Durability, Stream, Value, ValueBuf};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec, Limit, Pace};

use plimsoll_lab::OpenStore;

use crate::fixture::{LOOK, Server, kinds, open};

/// Drives eight clients through 1,000 requests each, over TCP to `port`; what came of it.
fn driven(port: u16, depth: u32, pace: Pace) -> DriveResult {
    driven_at(&format!("http://127.0.0.1:{port}"), depth, pace)
}

/// Drives what listens at `url`.
fn driven_at(url: &str, depth: u32, pace: Pace) -> DriveResult {
    driven_in(&mut open(url, None).unwrap(), depth, pace)
}

/// Drives any store.
pub fn driven_in(store: &mut OpenStore, depth: u32, pace: Pace) -> DriveResult {
    let sessions = store.sessions(8, Durability::Durable).unwrap();
    let ops_per_client = 1_000 / u64::from(depth);
    let limit = Limit::Ops(ops_per_client);
    let spec = DriveSpec { limit, depth, pace, ..DriveSpec::default() };
    let reads: Vec<_> = kinds().into_iter().filter(|kind| !kind.writes()).collect();
    let drive = Drive {
        clock: &Clock::start(),
        spec: &spec,
        sessions,
        kinds: &reads,
        stream: Arc::new(Root),
        observers: Vec::new(),
        stop: Arc::default(),
    };
    drive.run(&mut |_| {}).unwrap()
}

/// Asks for the root, again and again.
struct Root;

impl Stream for Root {
    fn op(&self, _: u32, _: u64, params: &mut ValueBuf) -> Option<u16> {
        params.push(Value::Text("/"));
        Some(LOOK)
    }
}

#[test]
fn a_server_that_ends_connections_after_100_requests_loses_none() {
    let server = Server::start("keepalive_requests 100;");
    for pace in [Pace::Closed, Pace::even(4_000.0)] {
        let result = driven(server.port, 1, pace);
        assert_eq!((result.kinds[usize::from(LOOK)], result.errors.len()), ([8_000, 0, 0, 0], 0));
        assert_eq!((result.lost_connections, result.down_ns), (0, 0));
        // 1,000 requests a session are ten full connections.
        assert_eq!(result.ended_connections, 80);
    }
    // In a pipeline, what was asked behind the last answer is not answered, and asked again on the next connection. A slow
    // client always asks four at once: of 100 requests nothing would be behind the last one.
    let server = Server::start("keepalive_requests 99;");
    let result = driven(server.port, 4, Pace::Closed);
    assert!(result.ended_connections >= 60 && result.lost_connections == 0, "{result:?}");
    assert_eq!((result.kinds[usize::from(LOOK)], result.errors.len()), ([8_000, 0, 0, 0], 0), "{:?}", result.errors);
    assert!((1..=3 * result.ended_connections).contains(&result.asked_again), "{result:?}");
}

#[test]
fn requests_behind_the_end_of_a_connection_to_one_of_several_servers_are_sent_again() {
    let [first, second] = [(); 2].map(|()| Server::start("keepalive_requests 99;"));
    let result = driven_at(&format!("{},127.0.0.1:{}", first.url(), second.port), 4, Pace::Closed);
    assert_eq!((result.kinds[usize::from(LOOK)], result.errors.len()), ([8_000, 0, 0, 0], 0), "{:?}", result.errors);
    assert!(result.ended_connections >= 60 && result.lost_connections == 0, "{result:?}");
    assert!((1..=3 * result.ended_connections).contains(&result.asked_again), "{result:?}");
}

#[test]
fn a_server_that_never_keeps_a_connection_is_driven() {
    let server = Server::start("keepalive_timeout 0;");
    let result = driven(server.port, 1, Pace::Closed);
    assert_eq!((result.kinds[usize::from(LOOK)], result.lost_connections), ([8_000, 0, 0, 0], 0));
    assert_eq!(result.ended_connections, 8_000, "each request");
}
