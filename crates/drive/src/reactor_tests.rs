//! Tests of the reactor's contract, over real sockets, for each kernel interface.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::*;

macro_rules! over_both {
    ($($name:ident,)*) => {
        mod over_epoll {
            $(#[test] fn $name() { super::$name(super::Epoll::new(4).unwrap()); })*
        }
        mod over_io_uring {
            $(#[test] fn $name() { super::$name(super::Uring::new(4).unwrap()); })*
        }
        /// All pieces are in use most of the time, so that receiving has to be asked again.
        mod over_io_uring_with_little_memory {
            $(#[test] fn $name() { super::$name(super::Uring::with_pieces(4, 2).unwrap()); })*
        }
    };
}

over_both! {
    more_than_all_memory_for_receiving_arrives_whole_and_in_order,
    what_is_sent_in_pieces_without_waiting_arrives_in_order,
    what_the_kernel_has_no_room_for_is_sent_when_it_has,
    nothing_of_a_closed_connection_is_told_of_its_successor,
    what_the_peer_said_before_it_was_hung_up_on_is_heard,
    a_wait_ends_in_time_and_the_clock_ticks,
    each_alarm_goes_off_once_for_its_last_setting,
    leaving_in_the_midst_of_it_takes_no_time,
}

/// A connection of `slot`, and its other end.
fn connect(reactor: &mut impl Reactor, slot: usize) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    reactor.connect(slot, ours.into()).unwrap();
    assert_eq!(next(reactor), Event::Connected { slot, result: Ok(()) });
    theirs
}

fn next(reactor: &mut impl Reactor) -> Event {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(event) = reactor.next() {
            return event;
        }
        assert!(Instant::now() < until, "nothing comes");
        reactor.wait(Some(1_000_000_000)).unwrap();
    }
}

fn byte(at: usize, of: usize) -> u8 {
    (at / 7 + at / 1013 + of) as u8
}

fn more_than_all_memory_for_receiving_arrives_whole_and_in_order(mut reactor: impl Reactor) {
    const BYTES: usize = 3_000_000;
    let peers: Vec<_> = (0..4).map(|slot| connect(&mut reactor, slot)).collect();
    let writers: Vec<_> = peers
        .into_iter()
        .enumerate()
        .map(|(of, mut peer)| {
            std::thread::spawn(move || {
                let bytes: Vec<u8> = (0..BYTES).map(|at| byte(at, of)).collect();
                peer.write_all(&bytes).unwrap();
            })
        })
        .collect();
    let mut arrived = [0; 4];
    let mut closed = 0;
    while closed < 4 {
        match next(&mut reactor) {
            Event::Arrived { slot } => {
                for &found in reactor.arrived() {
                    assert_eq!(found, byte(arrived[slot], slot), "byte {} of {slot}", arrived[slot]);
                    arrived[slot] += 1;
                }
            }
            Event::Closed { slot } => {
                assert_eq!(arrived[slot], BYTES);
                closed += 1;
                reactor.close(slot);
            }
            other => panic!("{other:?}"),
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
}

fn what_is_sent_in_pieces_without_waiting_arrives_in_order(mut reactor: impl Reactor) {
    let mut peer = connect(&mut reactor, 2);
    let mut out = Vec::new();
    for piece in 0..200u8 {
        out.extend([piece; 3]);
        reactor.send(2, &mut out).unwrap();
    }
    reactor.wait(Some(0)).unwrap();
    assert!(out.is_empty());
    let mut read = [0; 600];
    peer.read_exact(&mut read).unwrap();
    assert!(read.iter().enumerate().all(|(at, &found)| usize::from(found) == at / 3));
}

fn what_the_kernel_has_no_room_for_is_sent_when_it_has(mut reactor: impl Reactor) {
    const BYTES: usize = 4_000_000;
    const MORE: usize = 1_000_000;
    let mut peer = connect(&mut reactor, 0);
    let mut out: Vec<u8> = (0..BYTES).map(|at| byte(at, 0)).collect();
    reactor.send(0, &mut out).unwrap();
    // The kernel has said how much it takes; the rest, and what is appended now, has to wait.
    reactor.wait(Some(0)).unwrap();
    assert_eq!(reactor.next(), None);
    out.extend((BYTES..BYTES + MORE).map(|at| byte(at, 0)));
    reactor.send(0, &mut out).unwrap();
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; BYTES + MORE];
        peer.read_exact(&mut read).unwrap();
        assert!(read.iter().enumerate().all(|(at, &found)| found == byte(at, 0)));
        peer.write_all(b"!").unwrap();
    });
    loop {
        match next(&mut reactor) {
            Event::Room { slot: 0 } => reactor.send(0, &mut out).unwrap(),
            Event::Arrived { slot: 0 } => break,
            other => panic!("{other:?}"),
        }
    }
    reader.join().unwrap();
    assert!(out.is_empty());
}

fn nothing_of_a_closed_connection_is_told_of_its_successor(mut reactor: impl Reactor) {
    let mut former = connect(&mut reactor, 1);
    for round in 0..100u8 {
        former.write_all(&[round, 0]).unwrap();
        // Now it waits in the socket, or the kernel has told of it already; either way it is too late.
        if round % 2 == 0 {
            reactor.wait(Some(1_000_000)).unwrap();
        }
        reactor.close(1);
        let mut latter = connect(&mut reactor, 1);
        latter.write_all(&[round, 1]).unwrap();
        assert_eq!(next(&mut reactor), Event::Arrived { slot: 1 });
        assert_eq!(reactor.arrived(), [round, 1]);
        assert_eq!(former.read(&mut [0]).map_err(|error| error.kind()).unwrap_or(0), 0, "it is closed");
        former = latter;
    }
}

fn what_the_peer_said_before_it_was_hung_up_on_is_heard(mut reactor: impl Reactor) {
    let mut peer = connect(&mut reactor, 3);
    peer.write_all(b"good-bye").unwrap();
    reactor.hang_up(3);
    assert_eq!(next(&mut reactor), Event::Arrived { slot: 3 });
    assert_eq!(reactor.arrived(), b"good-bye");
    assert!(matches!(next(&mut reactor), Event::Closed { slot: 3 } | Event::Broken { slot: 3, .. }));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

fn a_wait_ends_in_time_and_the_clock_ticks(mut reactor: impl Reactor) {
    let begin = Instant::now();
    reactor.wait(Some(20_000_000)).unwrap();
    assert_eq!(reactor.next(), None);
    assert!(begin.elapsed() >= Duration::from_millis(20));
    reactor.tick(Timespec { tv_sec: 0, tv_nsec: 1 }, 5_000_000);
    for _ in 0..3 {
        reactor.wait(None).unwrap();
        assert_eq!(reactor.next(), Some(Event::Tick));
    }
}

fn leaving_in_the_midst_of_it_takes_no_time(mut reactor: impl Reactor) {
    let mut peers: Vec<_> = (0..4).map(|slot| connect(&mut reactor, slot)).collect();
    let mut out = vec![7; 4_000_000];
    reactor.send(0, &mut out).unwrap();
    reactor.wait(Some(0)).unwrap();
    peers[1].write_all(&[1; 50_000]).unwrap();
    reactor.close(2);
    let begin = Instant::now();
    drop(reactor);
    assert!(begin.elapsed() < Duration::from_secs(5), "took {:?}", begin.elapsed());
    // A connection that was being read from when it was closed may be reset instead of ended.
    peers[3].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(peers[3].read(&mut [0]).unwrap(), 0, "all connections are closed");
}

fn each_alarm_goes_off_once_for_its_last_setting(mut reactor: impl Reactor) {
    const MS_NS: u64 = 1_000_000;
    let clock = crate::clock::Clock::start();
    for round in 0..3 {
        let begin_ns = clock.now_ns();
        // The last of them is put forward from a time that does not come, and the second is never set.
        reactor.set_alarm(3, clock.timespec(begin_ns + 3_600_000 * MS_NS));
        let mut expected = [(0, 20), (2, 10), (3, 30)].map(|(alarm, after_ms)| {
            reactor.set_alarm(alarm, clock.timespec(begin_ns + after_ms * MS_NS));
            Some((alarm, begin_ns + after_ms * MS_NS))
        });
        for _ in 0..3 {
            let Event::Alarm { alarm: which } = next(&mut reactor) else { panic!("nothing else was asked for") };
            let found = expected.iter_mut().find(|one| one.is_some_and(|(alarm, _)| alarm == which));
            let (_, at_ns) = found.and_then(Option::take).unwrap_or_else(|| panic!("round {round}: {which} again"));
            assert!(clock.now_ns() >= at_ns, "round {round}: {which} goes off in time");
        }
        reactor.wait(Some(5 * MS_NS)).unwrap();
        assert_eq!(reactor.next(), None, "none goes off twice");
    }
}
