//! Tests that need a host that a test cannot name: one with several addresses.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use plimsoll_core::pace::Backoff;
use plimsoll_core::{Address, KindId, Op, StoreErrorKind, Stream, ValueBuf, WireClient, WireSession};

use super::*;
use crate::backoff::Attempts;
use crate::board::{Board, Shared};
use crate::clock::Clock;
use crate::place::ResolvedAddress;
use crate::worker::{Settings, Setup};

/// Ready as soon as anything arrives.
struct Eager(WireState);

impl WireSession for Eager {
    fn open(&mut self, _: &[OpKind], _: &mut Vec<u8>) {
        self.0 = WireState::Opening;
    }
    fn state(&self) -> &WireState {
        &self.0
    }
    fn limit_answers(&mut self, _: usize) {}

    fn depth_max(&self) -> u32 {
        1
    }
    fn start(&mut self, _: Ticket, _: &Op<'_>, _: &mut Vec<u8>) {}
    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, _: &mut dyn CompletionSink) -> usize {
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

fn worker<R: Reactor>(addresses: &[SocketAddr], reactor: R) -> WireWorker<R> {
    let shared = Shared::default();
    let core = WorkerCore::new(Setup {
        stream: Arc::new(Nothing),
        observer: None,
        board: Board::new(0, false, false, 0, 0, 0).unwrap(),
        shared: Arc::new(shared),
        clients: vec![0],
        steps: vec![None],
        kinds: Arc::new([]),
        first_cycle: 0,
        rests: None,
        settings: Settings {
            ops_max: 1,
            backlog_ns: u64::MAX,
            op_timeout_ns: 1_000_000_000,
            open_timeout_ns: 30_000_000_000,
            reopen_timeout_ns: None,
            backoff: Backoff::default(),
            seed: 1,
            ends_on_loss: false,
            wake: plimsoll_core::pace::WakeMode::Precise,
            cpu_ns: || 0,
            queued_ns: || 0,
        },
        each_max: 0,
        tells_servers: false,
        taint: Arc::default(),
    });
    let client =
        WireClient { address: Address::Tcp("several".to_owned(), 1), session: Box::new(Eager(WireState::Opening)) };
    let link = SessionLink::new(
        client,
        ResolvedAddress {
            name: "several".to_owned(),
            targets: addresses.iter().map(|&address| address.into()).collect(),
        },
        Attempts::new(Backoff::default(), 1, 0),
    );
    let (links, ticker) = (vec![link], Clock::start().ticker());
    let mut wire = Wire { core, links, kinds: Vec::new().into(), ticker, io: Io::Auto, reconnect: None };
    let branches = BranchTable::of(&mut wire.links);
    wire.over(reactor, branches, IoUsed::Epoll(None))
}

/// Returns an address without a listener.
fn refusing() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_host_is_tried_at_all_its_addresses() {
    fn is_tried<R: Reactor>(reactor: impl Fn() -> R) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listener.local_addr().unwrap();
        let greeter = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(b"!").unwrap();
            socket
        });
        let mut third = worker(&[refusing(), refusing(), listening], reactor());
        assert!(third.open_all().expect("the third address listens"));
        greeter.join().unwrap();
        let error = worker(&[refusing(), refusing()], reactor()).open_all().expect_err("no server listens");
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
    }
    is_tried(|| Epoll::new(1).unwrap());
    is_tried(|| Uring::new(1).unwrap());
}
