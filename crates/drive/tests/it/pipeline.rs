//! Several operations in flight on one session.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use plimsoll_core::{Address, Answer, Observer, Op, Outcome, Sessions, Stream, Ticket};
use plimsoll_drive::{DriveError, DriveSpec, Io, Limit, Pace, StopReason};

use crate::allocations::{AllocationWatch, stop_when};
use crate::seen::{Numbered, drive, drive_with, endless, refused};
use crate::steps::{SEVEN, Transactions};
use crate::toy::{Act, Server, answer_to, client_of_depth};
use crate::wire::{for_ms, over_both, spec};

const MS: Duration = Duration::from_millis(1);
const DEPTH: u32 = 16;

fn deep(io: Io, limit: Limit) -> DriveSpec {
    DriveSpec { limit, depth: DEPTH, slice: MS * 100, ..spec(io) }
}

over_both! {
    every_place_in_a_pipeline_is_a_client_with_operations_of_its_own,
    what_is_started_for_a_session_in_one_go_is_sent_in_one_piece,
    a_lost_connection_leaves_its_whole_pipeline_unknown,
    the_oldest_answer_that_does_not_come_in_time_gives_the_pipeline_up,
    an_open_loop_spreads_few_operations_over_sessions,
    an_operation_in_a_pipeline_allocates_nothing,
}

fn every_place_in_a_pipeline_is_a_client_with_operations_of_its_own(io: Io) {
    for workers in [1, 2] {
        for server in [Server::unix(|_, _, _| Act::Answer), Server::tcp(|_, _, _| Act::Answer)] {
            let spec = DriveSpec { workers, ..deep(io, Limit::Exhausted) };
            assert_eq!(spec.clients(3), 48);
            let stream = Arc::new(Numbered { seed: 3, ops: 100 });
            // The sessions themselves check that each answer is to their oldest request.
            let (driven, log) = drive(&spec, server.clients_of_depth(3, DEPTH as usize), stream);
            assert_eq!(driven.result.stop, StopReason::Exhausted);
            assert_eq!(driven.result.kinds, [[4_800, 0, 0, 0]]);
            let sent = log.check_cycles(3);
            let clients: BTreeSet<u32> = sent.iter().map(|sent| sent.client).collect();
            assert_eq!(clients, (0..48).collect());
            assert_eq!(server.manner.connections.load(SeqCst), 3);
        }
    }
}

#[test]
fn the_tickets_of_a_worker_are_below_the_number_of_clients() {
    struct Tickets(u32);
    impl Observer for Tickets {
        fn sent(&mut self, ticket: Ticket, _: u64, _: u32, _: u64, _: &Op<'_>) {
            assert!(ticket.0 < self.0, "ticket {}", ticket.0);
        }
        fn finished(&mut self, _: Ticket, _: u64, _: Outcome, _: &Answer) {}
    }
    let server = Server::unix(|_, _, _| Act::Answer);
    let spec = DriveSpec { workers: 2, ..deep(Io::Auto, Limit::Ops(20)) };
    let observers = (0..2).map(|_| Box::new(Tickets(spec.clients(3))) as Box<dyn Observer>).collect();
    let sessions = server.clients_of_depth(3, DEPTH as usize);
    let driven = drive_with(&spec, sessions, endless(), observers, &Arc::default(), &mut |_| {}).unwrap();
    assert_eq!(driven.result.ops, 20 * 48);
}

/// A server that answers what it reads at once in one piece, and tells how many requests that was each time.
fn counting(path: &std::path::Path) -> std::thread::JoinHandle<Vec<usize>> {
    const REQUEST: usize = 12;
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 64 * 1024];
        assert_eq!(socket.read(&mut bytes).unwrap(), 5, "the greeting");
        socket.write_all(b"READY").unwrap();
        let mut counts = Vec::new();
        loop {
            let count = socket.read(&mut bytes).unwrap();
            if count % REQUEST != 0 || count == 0 {
                assert!(count <= 4, "requests in pieces: {count} bytes");
                return counts;
            }
            counts.push(count / REQUEST);
            let answers: Vec<u8> =
                bytes[..count].chunks(REQUEST).flat_map(|request| answer_to(&request[4..])).collect();
            socket.write_all(&answers).unwrap();
        }
    })
}

fn what_is_started_for_a_session_in_one_go_is_sent_in_one_piece(io: Io) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let server = counting(&path);
    let sessions = Sessions::Wire(vec![client_of_depth(Address::Unix(path), 0, DEPTH as usize)]);
    let (driven, _) = drive(&deep(io, Limit::Ops(200)), sessions, endless());
    assert_eq!(driven.result.kinds, [[3_200, 0, 0, 0]]);
    assert_eq!(server.join().unwrap(), vec![DEPTH as usize; 200], "one send and one receive for 16 operations");
}

fn a_lost_connection_leaves_its_whole_pipeline_unknown(io: Io) {
    for act in [Act::Close, Act::CloseHalfWay] {
        // Each connection answers 100 requests, and with the next one it is gone.
        let server = Server::unix(move |_, request, _| if request == 100 { act } else { Act::Answer });
        let (driven, log) = drive(&deep(io, Limit::Ops(50)), server.clients_of_depth(2, DEPTH as usize), endless());
        let result = &driven.result;
        assert_eq!((result.ops, result.stop.clone()), (1_600, StopReason::Limit), "{act:?}");
        assert_eq!(log.check_cycles(1).len(), 1_600);
        let unknown = driven.outcome(Outcome::Unknown);
        assert!(result.lost_connections >= 12, "{act:?}: {}", result.lost_connections);
        // Nearly: at the end some places of the pipelines have no more to do.
        let most = result.lost_connections * u64::from(DEPTH);
        assert!((most - 2 * u64::from(DEPTH)..=most).contains(&unknown), "{act:?}: {unknown} of {most}");
        assert_eq!(driven.outcome(Outcome::Ok) + unknown, 1_600);
    }
}

fn the_oldest_answer_that_does_not_come_in_time_gives_the_pipeline_up(io: Io) {
    let server = Server::unix(|_, request, _| if request == 40 { Act::AnswerAfter(MS * 3_000) } else { Act::Answer });
    let spec = DriveSpec { op_timeout: MS * 1_000, ..deep(io, Limit::Ops(5)) };
    let (driven, _) = drive(&spec, server.clients_of_depth(1, DEPTH as usize), endless());
    let result = &driven.result;
    assert_eq!((result.ops, result.lost_connections), (80, 1));
    assert!((1..=16).contains(&driven.outcome(Outcome::Unknown)), "{:?}", result.kinds);
    assert!(result.errors.iter().all(|e| e.code == "timeout"), "{:?}", result.errors);
}

fn an_open_loop_spreads_few_operations_over_sessions(io: Io) {
    let server = Server::unix(|_, _, _| Act::AnswerAfter(MS));
    let spec = DriveSpec { pace: Pace::even(200.0), each_max: 1 << 20, ..deep(io, Limit::Duration(MS * 500)) };
    let (driven, _) = drive(&spec, server.clients_of_depth(4, DEPTH as usize), endless());
    let result = &driven.result;
    assert_eq!(result.ops + result.unfinished, 100);
    let mut each = result.each.clone();
    each.sort_by_key(|op| op.scheduled_ns);
    let next_to_each_other = each.windows(2).filter(|pair| pair[0].client / DEPTH == pair[1].client / DEPTH).count();
    assert!(next_to_each_other < 20, "{next_to_each_other} of 99 went to the session of the one before");
}

#[test]
fn what_cannot_have_a_pipeline_is_refused_with_a_sentence() {
    let server = Server::unix(|_, _, _| Act::Answer);
    let steps: Arc<dyn Stream> = Transactions::new(SEVEN);
    for (depth, sessions, stream, words) in [
        (9, server.clients_of_depth(2, 8), endless(), "a depth of 9 is more than the 8"),
        (2, server.clients(1), endless(), "more than the 1 that"),
        (2, crate::blocking::sessions(1, |_, _| Outcome::Ok), endless(), "one operation at a time"),
        (0, server.clients_of_depth(1, 10_000), endless(), "1 to 1024 operations in flight"),
        (5_000, server.clients_of_depth(1, 10_000), endless(), "1 to 1024 operations in flight"),
        (2, server.clients_of_depth(1, 8), steps, "mix the steps"),
    ] {
        let error = refused(&DriveSpec { depth, ..for_ms(Io::Auto, 100) }, sessions, stream);
        assert!(matches!(&error, DriveError::Spec(what) if what.contains(words)), "{error:?}");
    }
}

fn an_operation_in_a_pipeline_allocates_nothing(io: Io) {
    // On a schedule a stall makes operations wait, and buffers grow once to those of a whole pipeline.
    for (pace, most) in [(Pace::Closed, 0), (Pace::even(20_000.0), 9)] {
        let server = Server::unix(|_, _, _| Act::Answer);
        let (watch, found) = AllocationWatch::between(1_000, 10_000);
        let spec = DriveSpec { pace, ..deep(io, Limit::Duration(MS * 30_000)) };
        let sessions = server.clients_of_depth(3, DEPTH as usize);
        let stop = Arc::<AtomicBool>::default();
        let mut on_slice = stop_when(&found, &stop);
        let driven = drive_with(&spec, sessions, endless(), vec![watch], &stop, &mut on_slice);
        assert!(driven.unwrap().result.ops >= 10_000);
        let found = found.load(SeqCst);
        assert!(found <= most, "{found} allocations in 9,000 operations");
    }
}
