//! Tests that need a host that a test cannot name, with several addresses, or made-up times.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use plimsoll_core::pace::Backoff;
use plimsoll_core::{Address, KindId, Op, StoreErrorKind, Stream, ValueBuf, WireClient, WireSession};

use super::*;
use crate::backoff::Attempts;
use crate::board::{Board, BoardSizes, Shared};
use crate::clock::Clock;
use crate::grid::Grid;
use crate::place::ResolvedAddress;
use crate::worker::{CANCEL_NS, Settings, Setup, Turns};

const SECOND: u64 = 1_000_000_000;
/// Wait before a connection is opened again, or an operation sent again: longer than a test.
const WAIT_NS: u64 = 1_000 * SECOND;
const OP_TIMEOUT_NS: u64 = 3 * WAIT_NS;

/// Ready as soon as anything arrives; later bytes are refusals to begin the operation.
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
    fn start(&mut self, _: Ticket, _: &Op<'_>, out: &mut Vec<u8>) {
        out.push(b'?');
    }
    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        if self.0 == WireState::Ready {
            let mut refusal = Answer::default();
            let outcome = refusal.fail(Outcome::Rejected, "not now", "is not ready");
            if !done.put_off(Ticket(0), &refusal) {
                done.push(Ticket(0), outcome, &refusal);
            }
        }
        self.0 = WireState::Ready;
        bytes.len()
    }
    fn close(&mut self, _: &mut Vec<u8>) {}
}

struct Endless;

impl Stream for Endless {
    fn op(&self, _: u32, _: u64, _: &mut ValueBuf) -> Option<KindId> {
        Some(0)
    }
}

fn worker<R: Reactor>(addresses: &[SocketAddr], reactor: R, shared: Arc<Shared>) -> WireWorker<R> {
    let core = WorkerCore::new(Setup {
        stream: Arc::new(Endless),
        observer: None,
        board: Board::new(&BoardSizes { kinds: 1, clients: 1, lanes: 1, ..BoardSizes::default() }).unwrap(),
        shared,
        clients: vec![0],
        steps: vec![None],
        kinds: Arc::new([]),
        first_cycle: 0,
        rests: None,
        settings: Settings {
            ops_max: 1,
            backlog_ns: u64::MAX,
            op_timeout_ns: OP_TIMEOUT_NS,
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
        tells_parts: false,
        tells_silences: false,
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
        Attempts::new(Backoff::Constant(WAIT_NS), 1, 0),
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

/// Returns the address of a server that greets its first client, and that client's connection.
fn greeting() -> (SocketAddr, JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listening = listener.local_addr().unwrap();
    let greeter = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"!").unwrap();
        socket
    });
    (listening, greeter)
}

/// Returns a worker in its phase, whose operation the server has put off, and the server's end of its connection.
fn putting_off(shared: Arc<Shared>) -> (WireWorker<Epoll>, TcpStream) {
    let (listening, greeter) = greeting();
    let mut worker = worker(&[listening], Epoll::new(1).unwrap(), shared);
    assert!(worker.open_all().expect("the server listens"));
    let mut server = greeter.join().unwrap();
    worker.starting = false;
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1_000 * WAIT_NS, end_ns: None };
    worker.core.begin(Start { grid, turns: Turns::Closed });
    let sent_ns = worker.ticker.now_ns();
    worker.core.release(0, sent_ns);
    worker.fill(sent_ns, 1);
    put_off(&mut worker, &mut server);
    (worker, server)
}

/// Refuses the operation in flight for now. Returns when the worker knows.
fn put_off(worker: &mut WireWorker<Epoll>, server: &mut TcpStream) {
    server.write_all(b"!").unwrap();
    while worker.again_ns == u64::MAX {
        assert_eq!(worker.core.in_flight(), 1, "it is put off");
        worker.poll(None);
    }
}

/// The worker's operation ended by the server's word, on a connection that stands.
fn is_refused(worker: WireWorker<Epoll>) {
    assert_eq!((worker.core.in_flight(), worker.lost_connections.count, worker.not_ready), (0, 0, 0));
    let mut errors = Vec::new();
    worker.core.report().errors.add_to(&mut errors);
    let [error] = &errors[..] else { panic!("{errors:?}") };
    let seen = (error.outcome, &*error.code, &*error.message, error.count);
    assert_eq!(seen, (Outcome::Rejected, "not now", "is not ready", 1));
}

#[test]
fn an_operation_whose_wait_ends_late_is_refused_by_the_servers_word_and_its_connection_stays() {
    for is_over in [false, true] {
        let (mut worker, mut server) = putting_off(Arc::default());
        worker.keep_time(worker.again_ns + CHECK_NS);
        assert_eq!((worker.core.asked_again(), worker.core.in_flight()), (1, 1), "a tick is no delay");
        put_off(&mut worker, &mut server);
        // The machine stands until the operation has timed out, or has no time left for an answer.
        let deadline_ns = worker.core.deadline_ns(0).expect("it is in flight");
        worker.keep_time(if is_over { deadline_ns + SECOND } else { deadline_ns - CHECK_NS });
        assert_eq!(worker.core.asked_again(), 1);
        is_refused(worker);
    }
}

#[test]
fn a_refusal_takes_the_memory_of_the_one_before() {
    let (mut worker, mut server) = putting_off(Arc::default());
    let memory = |worker: &WireWorker<Epoll>| {
        let of = |refusal: &Answer| (std::ptr::from_ref(refusal), refusal.code.as_ptr(), refusal.message.as_ptr());
        worker.links[0].refusal.as_deref().map(of)
    };
    let first = memory(&worker);
    worker.keep_time(worker.again_ns + CHECK_NS);
    put_off(&mut worker, &mut server);
    assert!(first.is_some() && first == memory(&worker));
}

#[test]
fn an_operation_that_waits_for_its_server_when_the_user_stops_is_refused_and_its_connection_stays() {
    let shared = Arc::new(Shared::default());
    let (mut worker, _server) = putting_off(shared.clone());
    shared.stop.store(true, Relaxed);
    let stop_ns = worker.again_ns - WAIT_NS / 2;
    worker.keep_time(stop_ns);
    assert_eq!(worker.core.in_flight(), 1);
    worker.keep_time(stop_ns + CANCEL_NS);
    is_refused(worker);
}

#[test]
fn a_host_is_tried_at_all_its_addresses() {
    fn is_tried<R: Reactor>(reactor: impl Fn() -> R) {
        let (listening, greeter) = greeting();
        let mut third = worker(&[refusing(), refusing(), listening], reactor(), Arc::default());
        assert!(third.open_all().expect("the third address listens"));
        greeter.join().unwrap();
        let error =
            worker(&[refusing(), refusing()], reactor(), Arc::default()).open_all().expect_err("no server listens");
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
    }
    is_tried(|| Epoll::new(1).unwrap());
    is_tried(|| Uring::new(1).unwrap());
}
