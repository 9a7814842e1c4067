//! What needs a host that a test cannot name: one with several addresses.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use plimsoll_core::{Address, KindId, Op, Stream, ValueBuf, WireClient, WireSession};

use super::*;
use crate::board::{Board, Shared};
use crate::clock::Clock;
use crate::link::Place;
use crate::reactor::Epoll;
use crate::worker::Setup;

/// Ready as soon as anything arrives.
struct Eager(WireState);

impl WireSession for Eager {
    fn open(&mut self, _: &[OpKind], _: &mut Vec<u8>) {
        self.0 = WireState::Opening;
    }
    fn state(&self) -> &WireState {
        &self.0
    }
    fn depth_max(&self) -> u32 {
        1
    }
    fn start(&mut self, _: Ticket, _: &Op<'_>, _: &mut Vec<u8>) {}
    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, _: &mut dyn Done) -> usize {
        self.0 = WireState::Ready;
        bytes.len()
    }
    fn close(&mut self, _: &mut Vec<u8>) {}
}

struct Nothing;

impl Stream for Nothing {
    fn op(&self, _: u32, _: u64, _: &mut ValueBuf) -> Option<KindId> {
        None
    }
}

fn worker(addresses: &[SocketAddr]) -> WireWorker<Epoll> {
    let shared = Shared {
        taken: AtomicU32::new(0),
        halt: AtomicBool::new(false),
        stop: Arc::default(),
        next_arrival: AtomicU64::new(0),
    };
    let core = WorkerCore::new(Setup {
        stream: Arc::new(Nothing),
        observer: None,
        board: Board::new(0, false),
        shared: Arc::new(shared),
        clients: vec![0],
        steps: vec![None],
        kinds: Arc::new([]),
        first_cycle: 0,
        ops_per_client: 1,
        backlog_ns: u64::MAX,
        op_timeout_ns: 1_000_000_000,
        each_max: 0,
        cpu_ns: || 0,
    });
    let client =
        WireClient { address: Address::Tcp("several".to_owned(), 1), session: Box::new(Eager(WireState::Opening)) };
    let link = Link::new(client, Place::of_addresses(addresses));
    let reactor = Epoll::new(1).unwrap();
    WireWorker::new(core, vec![link], Vec::new().into(), Clock::start().ticker(), reactor)
}

/// An address where nobody listens.
fn refusing() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_host_is_tried_at_all_its_addresses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listening = listener.local_addr().unwrap();
    let greeter = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"!").unwrap());
    let mut worker = worker(&[refusing(), refusing(), listening]);
    worker.open_all().expect("the third address listens");
    greeter.join().unwrap();
}

#[test]
fn a_host_that_listens_nowhere_is_unreachable() {
    let mut worker = worker(&[refusing(), refusing()]);
    let error = worker.open_all().expect_err("nobody listens");
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
}
