//! The wire executor when all goes well.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_core::{Answer, Measure, Observer, Op, Outcome, Ticket};
use plimsoll_drive::{DriveSpec, Group, Io, Limit, Pace, StopReason, ThinkTime};

use crate::allocations::{AllocationWatch, stop_when};
use crate::seen::{Numbered, drive, drive_until, drive_with, endless};
use crate::tasks::shaped;
use crate::toy::{Act, Server, client};

const MS: Duration = Duration::from_millis(1);

/// Each of these functions is a test on either way to ask the kernel for sockets, and mostly of asynchronous
/// sessions: they must not differ.
macro_rules! over_both {
    (also as tasks: $($task:ident,)* $(; $($name:ident,)*)?) => {
        mod tasks {
            $(#[test] fn $task() { crate::tasks::over_tasks(); super::$task(plimsoll_drive::Io::Epoll); })*
        }
        over_both! { $($task,)* $($($name,)*)? }
    };
    ($($name:ident,)*) => {
        mod epoll {
            $(#[test] fn $name() { super::$name(plimsoll_drive::Io::Epoll); })*
        }
        mod io_uring {
            $(#[test] fn $name() { super::$name(plimsoll_drive::Io::IoUring); })*
        }
    };
}
pub(crate) use over_both;

pub fn spec(io: Io) -> DriveSpec {
    DriveSpec { io, ..DriveSpec::default() }
}

pub fn for_ms(io: Io, length: u32) -> DriveSpec {
    DriveSpec { limit: Limit::Duration(MS * length), slice: MS * 100, ticks: true, op_timeout: MS * 2_000, ..spec(io) }
}

over_both! {
    also as tasks:
    a_large_request_to_a_slow_reader_arrives_whole,
    an_answer_in_single_bytes_is_one_answer,
    an_open_loop_keeps_its_schedule_over_workers,
    groups_of_sessions_keep_paces_of_their_own,
    the_oldest_due_operation_goes_to_whichever_session_is_idle,
    the_generators_own_cpu_time_is_told_per_slice,
    a_stop_flag_ends_the_phase,
    what_each_of_several_servers_answered_is_told_apart,
    ;
    every_operation_goes_out_and_comes_back_over_unix_and_tcp_and_two_workers,
    an_operation_allocates_nothing,
}

fn every_operation_goes_out_and_comes_back_over_unix_and_tcp_and_two_workers(io: Io) {
    for workers in [1, 2] {
        for server in [Server::unix(|_, _, _| Act::Answer), Server::tcp(|_, _, _| Act::Answer)] {
            let spec = DriveSpec { workers, ..spec(io) };
            let stream = Arc::new(Numbered { seed: 3, ops: 300 });
            let (driven, log) = drive(&spec, server.clients(5), stream);
            assert_eq!(driven.result.stop, StopReason::Exhausted);
            assert_eq!(driven.result.kinds, [[1_500, 0, 0, 0]]);
            assert_eq!(log.check_cycles(3).len(), 1_500);
            assert_eq!(server.manner.connections.load(SeqCst), 5);
            assert_eq!(driven.result.lost_connections, 0);
            // The servers' threads see the end a little later, and count an answer when it has gone out.
            for _ in 0..4_000 {
                if server.manner.goodbyes.load(SeqCst) == 5 && server.manner.answered.load(SeqCst) == 1_500 {
                    break;
                }
                std::thread::sleep(MS * 5);
            }
            assert_eq!(server.manner.goodbyes.load(SeqCst), 5, "sessions say good-bye");
            assert_eq!(server.manner.answered.load(SeqCst), 1_500);
        }
    }
}

/// Counts the answers of each server.
struct ByServer {
    /// The server of each ticket.
    servers: [u32; 4],
    answered: Arc<Mutex<[u64; 2]>>,
}

impl Observer for ByServer {
    fn sent(&mut self, _: Ticket, _: u64, _: u32, _: u64, _: &Op<'_>) {}

    fn finished(&mut self, ticket: Ticket, _: u64, outcome: Outcome, _: &Answer) {
        let server = self.servers[ticket.0 as usize] as usize;
        self.answered.lock().unwrap()[server] += u64::from(!outcome.is_error());
    }

    fn answered_by(&mut self, ticket: Ticket, server: u32) {
        self.servers[ticket.0 as usize] = server;
    }
}

fn what_each_of_several_servers_answered_is_told_apart(io: Io) {
    let slow = Server::unix(|_, _, _| Act::AnswerAfter(MS * 5));
    // Refusals are no answers.
    let quick = Server::tcp(|_, request, _| if request % 3 == 0 { Act::Refuse } else { Act::Answer });
    let clients = |count: u32| (0..count).map(|at| if at % 2 == 0 { &slow } else { &quick });
    let sessions = shaped(clients(4).map(|server| client(server.address.clone(), 0)));
    let spec = DriveSpec { limit: Limit::Ops(30), workers: 2, slice: MS * 20, ..spec(io) };
    let (driven, _) = drive(&spec, sessions, endless());
    assert_eq!(driven.result.kinds, [[100, 0, 20, 0]]);
    let of = |server: &Server| {
        let answered = driven.slices.iter().flat_map(|slice| &slice.servers).filter(|one| one.by == server.address);
        let times: Vec<_> = answered.filter_map(|one| one.times.as_ref()).collect();
        (times.iter().map(|times| times.len()).sum::<u64>(), times.iter().map(|times| times.min()).min().unwrap())
    };
    let (of_slow, of_quick) = (of(&slow), of(&quick));
    assert_eq!((of_slow.0, of_quick.0), (60, 40));
    assert!(of_slow.1 >= 4_900_000 && of_quick.1 < 4_900_000, "{of_slow:?}, {of_quick:?}");
    assert!(driven.slices.iter().all(|slice| slice.servers.len() == 2));
    // Observers hear of the servers by their numbers.
    let answered = Arc::new(Mutex::new([0; 2]));
    let observer = |_| -> Box<dyn Observer> { Box::new(ByServer { servers: [0; 4], answered: answered.clone() }) };
    let sessions = shaped(clients(4).map(|server| client(server.address.clone(), 0)));
    let observers = (0..2).map(observer).collect();
    let again = drive_with(&spec, sessions, endless(), observers, &Arc::default(), &mut |_| {}).unwrap();
    let number = |of: &Server| again.slices[0].servers.iter().position(|one| one.by == of.address).unwrap();
    let answered = *answered.lock().unwrap();
    assert_eq!((answered[number(&slow)], answered[number(&quick)]), (60, 40));
    // If there is one, the test is independent of it.
    let only = Server::unix(|_, _, _| Act::Answer);
    let (driven, _) = drive(&spec, only.clients(2), endless());
    assert!(driven.slices.iter().all(|slice| slice.servers.is_empty()));
}

fn a_large_request_to_a_slow_reader_arrives_whole(io: Io) {
    for server in [Server::unix(|_, _, _| Act::Answer), Server::tcp(|_, _, _| Act::Answer)] {
        server.manner.slow_reader.store(true, SeqCst);
        let spec = DriveSpec { limit: Limit::Ops(2), op_timeout: MS * 20_000, ..spec(io) };
        // More than any socket's buffer; the session checks the sum of what the server read.
        let (driven, _) = drive(&spec, server.clients_with(3, 3_000_000), endless());
        assert_eq!(driven.result.kinds, [[6, 0, 0, 0]]);
        assert!(driven.max_ns(Measure::Service) > 20_000_000, "the server read slowly");
    }
}

fn an_answer_in_single_bytes_is_one_answer(io: Io) {
    let server = Server::tcp(|_, _, _| Act::Dribble);
    let spec = DriveSpec { limit: Limit::Ops(20), ..spec(io) };
    let (driven, log) = drive(&spec, server.clients(2), endless());
    assert_eq!(driven.result.kinds, [[40, 0, 0, 0]]);
    log.check_cycles(1);
}

fn an_open_loop_keeps_its_schedule_over_workers(io: Io) {
    for workers in [1, 2] {
        let server = Server::unix(|_, _, _| Act::Answer);
        let spec = DriveSpec { pace: Pace::even(1_000.0), each_max: 1 << 20, workers, ..for_ms(io, 500) };
        let (driven, _) = drive(&spec, server.clients(4), endless());
        let result = &driven.result;
        assert_eq!(result.ops + result.unfinished, 500);
        assert!(result.unfinished < 490, "{} unfinished", result.unfinished);
        let scheduled: BTreeSet<_> = result.each.iter().map(|op| op.scheduled_ns - result.start_ns).collect();
        assert_eq!(scheduled.len() as u64, result.ops);
        for at_ns in scheduled {
            assert!((at_ns % 1_000_000).min(1_000_000 - at_ns % 1_000_000) <= 1, "{at_ns} is on the schedule");
        }
        assert!(result.each.iter().all(|op| op.sent_ns >= op.scheduled_ns), "nothing is sent before its time");
        // The lateness of what was due and never sent counts too.
        assert!((result.ops..=500).contains(&result.lag.n), "{:?}", result.lag);
        assert!(driven.length() >= MS * 500 && driven.length() < MS * 100_000);
    }
}

fn groups_of_sessions_keep_paces_of_their_own(io: Io) {
    let server = Server::unix(|_, _, _| Act::Answer);
    let group = |sessions, workers, pace| Group { sessions, workers, pace, think: None };
    let quick = Group { think: Some(ThinkTime::Constant(5_000_000)), ..group(3, 2, Pace::Closed) };
    let groups = vec![quick, group(2, 1, Pace::even(100.0)), group(1, 1, Pace::poisson(200.0))];
    let spec = DriveSpec { groups, seed: 7, each_max: 1 << 20, ..for_ms(io, 1_000) };
    let (driven, log) = drive(&spec, server.clients(6), endless());
    assert_eq!(driven.result.stop, StopReason::Limit);
    log.check_cycles(1);
    let count =
        |clients: std::ops::Range<u32>| driven.result.each.iter().filter(|op| clients.contains(&op.client)).count();
    // Three clients that think for 5 ms, on a machine that may be late.
    assert!((10..=600).contains(&count(0..3)), "{}", count(0..3));
    let due = |clients: std::ops::Range<u32>| {
        let mut due: Vec<u64> =
            driven.result.each.iter().filter(|op| clients.contains(&op.client)).map(|op| op.scheduled_ns).collect();
        due.sort_unstable();
        due.into_iter().map(|at_ns| at_ns - driven.result.start_ns).collect::<Vec<_>>()
    };
    let even = due(3..5);
    assert!(even.iter().enumerate().all(|(number, at_ns)| *at_ns == number as u64 * 10_000_000), "{even:?}");
    assert!(even.len() as u64 <= 100 && even.len() as u64 + driven.result.unfinished >= 100, "{}", even.len());
    let poisson = due(5..6);
    // A busy machine does not send the last ones in time.
    assert!((20..=280).contains(&poisson.len()), "200 ± 5 of their root at most: {}", poisson.len());
    // The response time of a closed loop is its service time, also beside an open one.
    let ended = |measure| driven.of(measure).map(|one| one.histogram.len()).sum::<u64>();
    assert_eq!(ended(Measure::Response), ended(Measure::Service));
    assert_eq!(ended(Measure::Response), driven.result.each.len() as u64);
}

fn the_oldest_due_operation_goes_to_whichever_session_is_idle(io: Io) {
    // The first connection answers nothing for 300 ms; the other one takes all that is due meanwhile.
    let server = Server::unix(|connection, request, _| match (connection, request) {
        (0, 5) => Act::AnswerAfter(MS * 300),
        _ => Act::Answer,
    });
    let spec = DriveSpec { pace: Pace::even(500.0), each_max: 1 << 20, ..for_ms(io, 500) };
    let (driven, _) = drive(&spec, server.clients(2), endless());
    let each = &driven.result.each;
    let slow = each.iter().max_by_key(|op| op.end_ns - op.sent_ns).unwrap();
    assert!(slow.end_ns - slow.sent_ns >= 300_000_000);
    let mut meanwhile: Vec<_> =
        each.iter().filter(|op| op.scheduled_ns > slow.scheduled_ns && op.sent_ns < slow.end_ns).collect();
    meanwhile.sort_by_key(|op| op.scheduled_ns);
    assert!(meanwhile.len() > 5, "only {} meanwhile", meanwhile.len());
    assert!(meanwhile.iter().all(|op| op.client != slow.client));
    for pair in meanwhile.windows(2) {
        assert!(pair[1].sent_ns >= pair[0].end_ns, "one after the other on the one idle session");
        assert!((pair[1].scheduled_ns - pair[0].scheduled_ns).abs_diff(2_000_000) <= 1, "none was left for the other");
    }
}

fn the_generators_own_cpu_time_is_told_per_slice(io: Io) {
    let server = Server::unix(|_, _, _| Act::Answer);
    let (driven, _) = drive(&for_ms(io, 1_000), server.clients(4), endless());
    let cpu_ns: u64 = driven.slices.iter().map(|slice| slice.worker_cpu_ns).sum();
    assert!(cpu_ns > 1_000_000 && u128::from(cpu_ns) < driven.length().as_nanos(), "{cpu_ns} ns");
    // A machine that stands still for a slice leaves it empty.
    let slices: Vec<_> = driven.slices.iter().filter(|slice| !slice.drain).collect();
    let told = slices.iter().filter(|slice| slice.worker_cpu_ns > 0 && slice.voluntary_switches > 0);
    assert!(2 * told.count() > slices.len(), "{slices:?}");
    assert!((0.001..1.05).contains(&driven.result.busiest_worker), "{}", driven.result.busiest_worker);
    assert!(driven.slices[0].in_flight <= 4);
}

fn a_stop_flag_ends_the_phase(io: Io) {
    let server = Server::unix(|_, _, _| Act::AnswerAfter(MS));
    let stop = Arc::new(AtomicBool::new(false));
    let on_slice = |slice: &plimsoll_core::Slice| {
        stop.fetch_or(slice.ordinal == 1, SeqCst);
    };
    let driven = drive_until(&for_ms(io, 200_000), server.clients(3), &stop, on_slice);
    assert_eq!(driven.result.stop, StopReason::Cancelled);
    assert!(driven.length() < MS * 100_000, "took {:?}", driven.length());
    assert_eq!(driven.outcome(Outcome::Unknown), 0, "what was in flight was waited for");
}

fn an_operation_allocates_nothing(io: Io) {
    // The times of single operations are wanted too, and there is soon no room for more.
    for (pace, each_max) in [(Pace::Closed, 0), (Pace::even(5_000.0), 0), (Pace::Closed, 1_000)] {
        let server = Server::unix(|_, _, _| Act::Answer);
        let (watch, found) = AllocationWatch::between(200, 2_000);
        let spec = DriveSpec { pace: pace.clone(), each_max, ..for_ms(io, 30_000) };
        let stop = Arc::<AtomicBool>::default();
        let mut on_slice = stop_when(&found, &stop);
        let driven = drive_with(&spec, server.clients(4), endless(), vec![watch], &stop, &mut on_slice);
        assert!(driven.unwrap().result.ops >= 2_000);
        assert_eq!(found.load(SeqCst), 0, "allocations in 1,800 operations, {pace:?}, {each_max}");
    }
}
