//! Links that change or become plain while frames are on their way.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_core::Link;
use plimsoll_lab::hosts::Host;

use super::{connect, pair, round_trip, socket};

/// Longest wait for datagrams to arrive.
const ARRIVE_MAX: Duration = Duration::from_secs(60);

/// Numbered datagrams, some 10,000 a second, from one host to another until they are counted.
struct Numbered {
    is_ended: Arc<AtomicBool>,
    arrived: Arc<AtomicU32>,
    sending: JoinHandle<u32>,
    receiving: JoinHandle<Vec<u32>>,
}

impl Numbered {
    fn start(from: &Host, to: &Host) -> Self {
        let (sender, receiver) = (socket(from), socket(to));
        let address = receiver.local_addr().unwrap();
        let (is_ended, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let sending = {
            let is_ended = Arc::clone(&is_ended);
            std::thread::spawn(move || {
                let mut sent = 0_u32;
                while !is_ended.load(Ordering::Relaxed) {
                    for _ in 0..10 {
                        sender.send_to(&sent.to_be_bytes(), address).unwrap();
                        sent += 1;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                sent
            })
        };
        let receiving = {
            let (is_ended, arrived) = (Arc::clone(&is_ended), Arc::clone(&arrived));
            std::thread::spawn(move || {
                let (mut numbers, mut bytes) = (Vec::new(), [0; 4]);
                loop {
                    match receiver.recv(&mut bytes) {
                        Ok(_) => {
                            numbers.push(u32::from_be_bytes(bytes));
                            arrived.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) if is_ended.load(Ordering::Relaxed) => return numbers,
                        Err(_) => {}
                    }
                }
            })
        };
        Self { is_ended, arrived, sending, receiving }
    }

    /// Waits until more datagrams have arrived.
    fn wait_for(&self, more: u32) {
        let (before, until) = (self.arrived.load(Ordering::Relaxed), Instant::now() + ARRIVE_MAX);
        while self.arrived.load(Ordering::Relaxed) - before < more {
            assert!(Instant::now() < until, "fewer than {more} datagrams arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the datagrams, and returns the numbers of those that were lost.
    fn lost(self) -> Vec<u32> {
        self.is_ended.store(true, Ordering::Relaxed);
        let (sent, numbers) = (self.sending.join().unwrap(), self.receiving.join().unwrap());
        let arrived: BTreeSet<u32> = numbers.iter().copied().collect();
        (0..sent).filter(|number| !arrived.contains(number)).collect()
    }
}

/// Makes two hosts that know each other's Ethernet addresses.
fn acquainted() -> (Host, Host) {
    let (one, two) = pair();
    round_trip(&mut connect(&one, &two), 3);
    round_trip(&mut connect(&two, &one), 3);
    (one, two)
}

fn slow(delay_ms: u64) -> Link {
    Link { delay: Duration::from_millis(delay_ms), ..Link::default() }
}

#[test]
fn a_link_that_changes_twenty_times_loses_no_frame() {
    let (one, two) = acquainted();
    let streams = [Numbered::start(&one, &two), Numbered::start(&two, &one)];
    let narrow = Link { rate_bits_per_s: Some(200_000_000), ..Link::default() };
    for link in [slow(5), slow(1), narrow, Link::default()].into_iter().cycle().take(20) {
        streams.iter().for_each(|stream| stream.wait_for(200));
        two.set_link(link).unwrap();
    }
    streams.iter().for_each(|stream| stream.wait_for(200));
    for stream in streams {
        assert_eq!(stream.lost(), Vec::<u32>::new());
    }
}

#[test]
fn a_link_to_one_host_that_begins_and_heals_loses_no_frame_of_another() {
    let ((one, two), (third, _fourth)) = (acquainted(), pair());
    let streams = [Numbered::start(&one, &two), Numbered::start(&two, &one)];
    for turn in 0..20 {
        streams.iter().for_each(|stream| stream.wait_for(200));
        let begins = turn % 2 == 0;
        let set = if begins { two.set_link_to(Link::CUT, third.address()) } else { two.set_link(Link::default()) };
        set.unwrap();
    }
    streams.iter().for_each(|stream| stream.wait_for(200));
    for stream in streams {
        assert_eq!(stream.lost(), Vec::<u32>::new());
    }
}

#[test]
fn frames_on_their_way_arrive_in_their_order_when_a_link_becomes_plain() {
    let (one, two) = acquainted();
    let (sender, receiver) = (socket(&one), socket(&two));
    let address = receiver.local_addr().unwrap();
    two.set_link(slow(30_000)).unwrap();
    let since = Instant::now();
    for number in 0..50_u8 {
        sender.send_to(&[number], address).unwrap();
    }
    two.set_link(Link::default()).unwrap();
    for number in 0..50 {
        let mut seen = [0];
        receiver.recv(&mut seen).unwrap();
        assert_eq!(seen, [number]);
    }
    assert!(since.elapsed() < Duration::from_secs(30), "they took the delay of a link that was gone");
}

/// Returns the number of TCP segments that a host has sent again.
fn retransmitted(host: &Host) -> u64 {
    let _guard = host.enter().unwrap();
    let table = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with("Tcp:")).collect();
    let place = lines[0].split_whitespace().position(|name| name == "RetransSegs").unwrap();
    lines[1].split_whitespace().nth(place).unwrap().parse().unwrap()
}

#[test]
fn connections_do_not_stall_when_a_link_changes() {
    let (one, two) = acquainted();
    let mut stream = connect(&one, &two);
    let mut again = stream.try_clone().unwrap();
    let (is_ended, trips) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let asking = {
        let (is_ended, trips) = (Arc::clone(&is_ended), Arc::clone(&trips));
        std::thread::spawn(move || {
            while !is_ended.load(Ordering::Relaxed) {
                again.write_all(b"x").unwrap();
                again.read_exact(&mut [0]).unwrap();
                trips.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    // A machine that holds a host up for 0.2 s makes the other one send again, too.
    let does_not_stall = (0..5).any(|_| {
        let before = retransmitted(&one) + retransmitted(&two);
        for turn in 0..20 {
            let seen = trips.load(Ordering::Relaxed);
            let until = Instant::now() + ARRIVE_MAX;
            while trips.load(Ordering::Relaxed) - seen < 20 {
                assert!(Instant::now() < until, "no answer");
                std::thread::sleep(Duration::from_millis(1));
            }
            two.set_link(if turn % 2 == 0 { slow(1) } else { Link::default() }).unwrap();
        }
        let again = retransmitted(&one) + retransmitted(&two) - before;
        println!("{again} segments sent again in twenty changes");
        again == 0
    });
    is_ended.store(true, Ordering::Relaxed);
    asking.join().unwrap();
    assert!(does_not_stall);
    round_trip(&mut stream, 3);
}
