//! The wire executor when the server or the network fails.

use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::pace::ThinkTime;
use plimsoll_core::{Address, Measure, Outcome, Sessions, SliceHistogram, StoreErrorKind};
use plimsoll_drive::{
    Backoff, Breaker, DriveError, DriveSpec, Io, Limit, Pace, Retry, RetryCounts, RetryScope, StopReason,
};

use crate::seen::{Driven, drive, endless, refused};
use crate::toy::{Act, Server, client};
use crate::wire::{for_ms, over_both, spec};

const MS: Duration = Duration::from_millis(1);

over_both! {
    also as tasks:
    a_lost_connection_leaves_its_operation_unknown_and_is_opened_again,
    an_operation_without_answer_is_given_up_and_a_late_answer_is_nobodys,
    an_outage_stays_in_the_distribution,
    what_was_due_and_not_sent_is_unfinished_when_the_server_does_not_come_back,
    a_server_that_refuses_at_the_start_is_an_error_and_later_it_ends_the_phase,
    a_session_that_the_server_ends_while_its_client_thinks_costs_a_connection_and_nothing_else,
    a_server_that_goes_away_while_its_clients_think_is_lost,
    a_connection_that_is_not_greeted_is_given_up_in_time_and_begun_again_after_a_wait,
    an_operation_whose_connection_is_lost_is_sent_again_over_the_next_one,
    a_client_that_cannot_connect_rejects_what_is_due_at_once,
    ;
    what_a_server_said_before_it_hung_up_is_the_error,
    an_operation_that_a_server_puts_off_is_sent_again_after_growing_waits,
    an_operation_that_is_put_off_until_its_time_out_is_rejected_by_the_servers_word,
    where_nobody_listens_the_error_says_where_and_what_to_do,
}

fn error_count(driven: &Driven, code: &str) -> u64 {
    driven.result.errors.iter().filter(|error| error.code == code).map(|error| error.count).sum()
}

/// Waits until a server has answered so often: the sessions of its clients are open.
fn until_answered(server: &Server, count: u64) {
    while server.manner.answered.load(SeqCst) < count {
        std::thread::sleep(MS);
    }
}

/// Leaves connections to `server` without a greeting for 0.9 s, from its tenth answer on. Returns its answers by then.
fn silence(server: &Server) -> JoinHandle<u64> {
    let manner = server.manner.clone();
    std::thread::spawn(move || {
        while manner.answered.load(SeqCst) < 10 {
            std::thread::sleep(MS);
        }
        manner.silent.store(true, SeqCst);
        std::thread::sleep(MS * 900);
        manner.silent.store(false, SeqCst);
        manner.answered.load(SeqCst)
    })
}

fn a_lost_connection_leaves_its_operation_unknown_and_is_opened_again(io: Io) {
    for act in [Act::Close, Act::Reset, Act::CloseHalfWay] {
        let tcp = Server::tcp(move |_, request, _| if request == 9 { act } else { Act::Answer });
        let unix = Server::unix(move |_, request, _| if request == 9 { act } else { Act::Answer });
        for server in [tcp, unix] {
            let spec = DriveSpec { limit: Limit::Ops(50), ..spec(io) };
            let (driven, log) = drive(&spec, server.clients(3), endless());
            // Each connection does nine operations and loses the tenth: five times in 50.
            assert_eq!(driven.result.kinds, [[135, 0, 0, 15]], "{act:?}");
            assert_eq!(driven.result.stop, StopReason::Limit);
            assert_eq!((driven.result.lost_connections, error_count(&driven, "connection")), (15, 15));
            assert_eq!(log.check_cycles(1).len(), 150, "a client goes on with its next operation");
            let finished = log.finished.lock().unwrap();
            assert_eq!(finished.iter().filter(|outcome| **outcome == Outcome::Unknown).count(), 15);
            assert!(driven.result.down_ns >= 12 * 10_000_000, "{} ns down", driven.result.down_ns);
        }
    }
}

fn what_a_server_said_before_it_hung_up_is_the_error(io: Io) {
    let server = Server::unix(|_, _, _| Act::Answer);
    server.manner.rude.store(true, SeqCst);
    let spec = DriveSpec { limit: Limit::Ops(3), ..spec(io) };
    // More than the socket's buffer: the server hangs up while the request is being sent.
    let (driven, _) = drive(&spec, server.clients_with(1, 3_000_000), endless());
    assert_eq!(driven.result.kinds, [[0, 0, 0, 3]]);
    for error in &driven.result.errors {
        assert_eq!(error.message, "the server said good-bye");
    }
}

fn an_operation_without_answer_is_given_up_and_a_late_answer_is_nobodys(io: Io) {
    // Every fifth request is answered 2 s late, on a connection that has been given up by then.
    let server = Server::unix(|_, request, _| if request == 4 { Act::AnswerAfter(MS * 2_000) } else { Act::Answer });
    let spec = DriveSpec { limit: Limit::Ops(10), op_timeout: MS * 1_000, ..spec(io) };
    let (driven, log) = drive(&spec, server.clients(2), endless());
    // The session itself panics when it is handed an answer to another request.
    assert_eq!(driven.result.kinds, [[16, 0, 0, 4]]);
    assert_eq!(error_count(&driven, "timeout"), 4);
    log.check_cycles(1);
    let max_ns = driven.max_ns(Measure::Service);
    assert!((1_000_000_000..60_000_000_000).contains(&max_ns), "given up after {max_ns} ns");
}

fn an_outage_stays_in_the_distribution(io: Io) {
    // A busy machine may start the server again after the phase, but not each time.
    assert!((0..3).any(|_| comes_back_after_an_outage(io)), "the sessions did not come back");
}

/// Drives a server that ends and is started again. Returns true if the sessions came back.
fn comes_back_after_an_outage(io: Io) -> bool {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let mut first = Server::unix_at(&path, |_, _, _| Act::Answer);
    let sessions = first.clients(4);
    let spec = DriveSpec { pace: Pace::even(1_000.0), op_timeout: MS * 2_000, ..for_ms(io, 3_000) };
    let second = std::thread::spawn(move || {
        until_answered(&first, 1);
        std::thread::sleep(MS * 400);
        first.die();
        std::thread::sleep(MS * 500);
        Server::unix_at(&path, |_, _, _| Act::Answer)
    });
    let (driven, _) = drive(&spec, sessions, endless());
    let second = second.join().unwrap();
    let result = &driven.result;
    assert_eq!(result.ops + result.unfinished, 3_000, "every operation that was due is somewhere");
    assert!(result.lost_connections == 4 && result.down_ns > 4 * 400_000_000, "{result:?}");
    let (first_ns, last_ns) = result.lost_between_ns.unwrap();
    assert!(result.start_ns < first_ns && first_ns <= last_ns && last_ns < result.end_ns, "{result:?}");
    let slow = driven.slow();
    assert!(slow >= 300, "some 400 waited more than 100 ms of the 500: {slow}");
    assert_eq!(result.stop, StopReason::Limit);
    second.manner.answered.load(SeqCst) > 100
}

fn what_was_due_and_not_sent_is_unfinished_when_the_server_does_not_come_back(io: Io) {
    let mut server = Server::unix(|_, _, _| Act::Answer);
    let sessions = server.clients(2);
    let spec = DriveSpec { pace: Pace::even(200.0), op_timeout: MS * 300, ..for_ms(io, 2_000) };
    let killer = std::thread::spawn(move || {
        until_answered(&server, 1);
        std::thread::sleep(MS * 300);
        server.die();
    });
    let (driven, _) = drive(&spec, sessions, endless());
    killer.join().unwrap();
    assert_eq!(driven.result.ops + driven.result.unfinished, 400);
    assert!((60..400).contains(&driven.result.unfinished), "{}", driven.result.unfinished);
    // A worker that was kept from running may end in a slice after the others.
    let unfinished = || driven.slices.iter().filter_map(|slice| slice.unfinished.as_ref());
    assert_eq!(unfinished().map(|one| one.len()).sum::<u64>(), driven.result.unfinished);
    let oldest_ns = unfinished().map(|one| one.max()).max().unwrap();
    assert!(oldest_ns > 350_000_000, "the oldest waited {oldest_ns} ns");
}

fn a_server_that_refuses_at_the_start_is_an_error_and_later_it_ends_the_phase(io: Io) {
    let server = Server::tcp(|_, request, _| if request == 20 { Act::Close } else { Act::Answer });
    let manner = server.manner.clone();
    let setter = std::thread::spawn(move || {
        // Operations are answered when all sessions are open.
        while manner.answered.load(SeqCst) < 10 {
            std::thread::sleep(MS);
        }
        manner.never.store(true, SeqCst);
    });
    let (driven, _) = drive(&for_ms(io, 200_000), server.clients(2), endless());
    setter.join().unwrap();
    assert!(
        matches!(&driven.result.stop, StopReason::Refused(e) if e.kind == StoreErrorKind::Authentication),
        "{:?}",
        driven.result.stop
    );
    // Each connection does 20; the one that is refused may end the phase before the other one has.
    assert!(driven.result.ops >= 20 && driven.length() < MS * 100_000);

    let error = refused(&for_ms(io, 100), server.clients(2), endless());
    assert!(matches!(error, DriveError::Store(e) if e.kind == StoreErrorKind::Authentication));
}

fn a_session_that_the_server_ends_while_its_client_thinks_costs_a_connection_and_nothing_else(io: Io) {
    let server = Server::tcp(|_, _, _| Act::Answer);
    server.manner.idle_ms.store(450, SeqCst);
    let think = Some(ThinkTime::Constant(680_000_000));
    for depth in [1, 2] {
        // The asynchronous sessions have no pipeline.
        let sessions = if depth == 1 { server.clients(2) } else { server.clients_of_depth(2, 2) };
        let spec = DriveSpec { think, depth, limit: Limit::Ops(5), ..for_ms(io, 2_050) };
        let (driven, log) = drive(&spec, sessions, endless());
        // A connection ends in each of the four think times.
        let ended = driven.result.ended_connections;
        assert_eq!(driven.result.kinds, [[10 * u64::from(depth), 0, 0, 0]], "{ended} ended");
        assert!((6..=10).contains(&ended), "{ended}");
        assert_eq!((driven.result.lost_connections, driven.result.down_ns), (0, 0));
        assert!(driven.result.errors.is_empty(), "{:?}", driven.result.errors);
        log.check_cycles(1);
    }
}

fn a_server_that_goes_away_while_its_clients_think_is_lost(io: Io) {
    let mut server = Server::tcp(|_, _, _| Act::Answer);
    let sessions = server.clients(3);
    let spec = DriveSpec { think: Some(ThinkTime::Constant(10_000_000_000)), ..for_ms(io, 2_000) };
    let killer = std::thread::spawn(move || {
        until_answered(&server, 3);
        std::thread::sleep(MS * 200);
        server.die();
    });
    let (driven, _) = drive(&spec, sessions, endless());
    killer.join().unwrap();
    let result = &driven.result;
    assert_eq!((result.ops, result.lost_connections, result.ended_connections), (3, 3, 0));
    assert!(result.failed_connects >= 3 && result.down_ns > 3 * 400_000_000, "{result:?}");
}

fn a_connection_that_is_not_greeted_is_given_up_in_time_and_begun_again_after_a_wait(io: Io) {
    // Each connection is lost after 40 requests.
    let server = Server::unix(|_, request, _| if request == 40 { Act::Close } else { Act::Answer });
    let silencer = silence(&server);
    let backoff = Backoff::Constant(100_000_000);
    let spec = DriveSpec { connect_timeout: Some(MS * 100), backoff, ..for_ms(io, 2_000) };
    let (driven, _) = drive(&spec, server.clients(2), endless());
    let answered = silencer.join().unwrap();
    let result = &driven.result;
    // An attempt and the wait after it take 200 ms, and a little more by the tick: there is time for 4 or 5 of each client.
    assert!((1..=20).contains(&result.failed_connects), "{result:?}");
    assert_eq!(error_count(&driven, "connect"), result.failed_connects);
    let error = result.errors.iter().find(|error| error.code == "connect").unwrap();
    assert!(error.message.contains("no session within 0.1"), "{}", error.message);
    // With the limit of the phase's beginning no session would have come back.
    assert!(server.manner.answered.load(SeqCst) >= answered + 40, "{result:?}");
    assert_eq!(result.stop, StopReason::Limit);
}

fn an_operation_whose_connection_is_lost_is_sent_again_over_the_next_one(io: Io) {
    let server = Server::unix(|_, request, _| if request == 9 { Act::Close } else { Act::Answer });
    let retry = Some(Retry { scope: RetryScope::Idempotent, tries: 2 });
    let spec = DriveSpec { limit: Limit::Ops(50), retry, ..spec(io) };
    let (driven, log) = drive(&spec, server.clients(3), endless());
    // A connection does nine operations, and the next one does the tenth: that is five times in 50.
    assert_eq!(driven.result.kinds, [[150, 0, 0, 15]]);
    assert_eq!(driven.result.retries, Some(RetryCounts { retries: 15, given_up: 0 }));
    let mut sent = log.sent.lock().unwrap().clone();
    assert_eq!(sent.len(), 165);
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent.len(), 150, "a retry is the same operation");
}

fn a_client_that_cannot_connect_rejects_what_is_due_at_once(io: Io) {
    let mut quarters_ns = Vec::new();
    // A busy machine may be late with most of it, but not each time.
    let is_at_once = (0..3).any(|_| {
        quarters_ns.push(quarter_of_rejections_ns(io));
        quarters_ns.last().is_some_and(|quarter_ns| *quarter_ns < 150_000_000)
    });
    assert!(is_at_once, "{quarters_ns:?}");
}

/// Drives a client that cannot connect for a while. Returns the time in ns in which a quarter of the operations that it
/// rejected were.
fn quarter_of_rejections_ns(io: Io) -> u64 {
    // The connection is lost after 40 requests, which is 200 ms, and others are not greeted until 0.9 s.
    let server = Server::unix(|_, request, _| if request == 40 { Act::Close } else { Act::Answer });
    let silencer = silence(&server);
    let breaker = Some(Breaker { failures: 2, wait_ns: 300_000_000 });
    let spec = DriveSpec { connect_timeout: Some(MS * 100), breaker, pace: Pace::even(200.0), ..for_ms(io, 2_000) };
    let (driven, log) = drive(&spec, server.clients(1), endless());
    let answered = silencer.join().unwrap();
    let result = &driven.result;
    let counts = result.breaker.unwrap();
    assert!((1..=8).contains(&counts.opened) && counts.rejected >= 20, "{result:?}");
    assert_eq!(error_count(&driven, "breaker"), counts.rejected);
    assert_eq!(result.kinds[0][Outcome::Rejected as usize], counts.rejected, "an attempt to connect is no operation");
    assert_eq!(result.ops + result.unfinished, 400, "every arrival is counted once");
    log.check_cycles(1);
    let is_rejected = |one: &&SliceHistogram| (one.measure, one.outcome) == (Measure::Response, Outcome::Rejected);
    let mut all = hdrhistogram::Histogram::<u64>::new(2).unwrap();
    let waits = driven.slices.iter().flat_map(|slice| &slice.histograms).filter(is_rejected);
    waits.for_each(|one| all.add(&one.histogram).unwrap());
    // Some had waited for the connection before the circuit opened.
    assert!(server.manner.answered.load(SeqCst) >= answered + 40, "{result:?}");
    assert_eq!(result.stop, StopReason::Limit);
    all.value_at_quantile(0.25)
}

fn an_operation_that_a_server_puts_off_is_sent_again_after_growing_waits(io: Io) {
    // Three of four requests are put off: each operation waits 10, 20 and 40 ms.
    let server = Server::unix(|_, request, _| if request % 4 == 3 { Act::Answer } else { Act::NotNow });
    for pace in [Pace::Closed, Pace::even(5.0)] {
        let spec = DriveSpec { limit: Limit::Ops(5), pace, ..spec(io) };
        let (driven, log) = drive(&spec, server.clients(1), endless());
        let result = &driven.result;
        assert_eq!((result.kinds[0], result.asked_again), ([5, 0, 0, 0], 15), "{result:?}");
        assert_eq!((result.lost_connections, result.failed_connects, log.check_cycles(1).len()), (0, 0, 5));
        let histograms = driven.slices.iter().flat_map(|slice| &slice.histograms);
        let least_ns = histograms.filter(|one| one.measure == Measure::Service).map(|one| one.histogram.min()).min();
        assert!(least_ns.is_some_and(|least_ns| least_ns >= 69_000_000), "its time goes on: {least_ns:?} ns");
    }
}

fn an_operation_that_is_put_off_until_its_time_out_is_rejected_by_the_servers_word(io: Io) {
    let server = Server::unix(|_, _, _| Act::NotNow);
    // Half a second is left for a loaded machine when the last wait would be too long.
    let spec = DriveSpec { limit: Limit::Ops(2), op_timeout: MS * 1_200, ..spec(io) };
    let (driven, _) = drive(&spec, server.clients(1), endless());
    let result = &driven.result;
    assert_eq!((error_count(&driven, "not now"), result.lost_connections), (2, 0), "{result:?}");
    assert_eq!(result.kinds[0][Outcome::Rejected as usize], 2);
    // Waits of 10 to 320 ms are within an operation's time-out; one of 640 ms is not.
    let asked = server.manner.answered.load(SeqCst);
    assert!((4..=12).contains(&result.asked_again) && asked <= 14, "{asked} requests, {result:?}");
}

fn where_nobody_listens_the_error_says_where_and_what_to_do(io: Io) {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let nowhere = [Address::Tcp("127.0.0.1".to_owned(), port), Address::Unix("/nonexistent/socket".into())];
    for address in nowhere {
        let sessions = Sessions::Wire(vec![client(address.clone(), 0)]);
        let error = refused(&for_ms(io, 100), sessions, endless());
        let DriveError::Store(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
        assert!(error.next.is_some());
        let place = match &address {
            Address::Tcp(host, port) => format!("{host}:{port}"),
            Address::Unix(path) => path.display().to_string(),
        };
        assert!(error.what.contains(&place), "{}", error.what);
    }
}
