//! Neighbours on the network of a host.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plimsoll_core::Link;
use plimsoll_lab::Neighbour;
use plimsoll_lab::hosts::{Host, Network};

use super::{connect, pair, round_trip};

/// Returns what a host's interface receives and sends within a second, in Mbit/s.
fn traffic(host: &Host) -> [f64; 2] {
    let _guard = host.enter().unwrap();
    let bytes = || {
        let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:")).unwrap();
        let numbers: Vec<f64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        [numbers[0], numbers[8]]
    };
    let (before, since) = (bytes(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let (after, took_s) = (bytes(), since.elapsed().as_secs_f64());
    [0, 1].map(|way| (after[way] - before[way]) * 8e-6 / took_s)
}

#[test]
fn a_neighbour_on_the_network_shares_the_rate_of_a_link_until_it_ends() {
    let (one, two) = pair();
    two.set_link(Link { rate_bits_per_s: Some(20_000_000), ..Link::default() }).unwrap();
    let mut stream = connect(&one, &two);
    let load = Network::shared().unwrap().namespace();
    // Other tests and programs may hold both up.
    let is_quick = |stream: &mut TcpStream| (0..30).any(|_| round_trip(stream, 50) < Duration::from_millis(2));
    assert!(is_quick(&mut stream));
    let neighbour = Neighbour::sending(&two.namespace(), &load, None).unwrap();
    neighbour.begun().unwrap();
    // Confirmations of one direction wait behind the data of the other, which may keep one of them slow.
    let is_full = (0..10).any(|_| {
        let both = traffic(&two);
        println!("received and sent: {both:.1?} Mbit/s");
        both.iter().all(|rate| (1.0..25.0).contains(rate)) && both.iter().any(|rate| *rate >= 10.0)
    });
    assert!(is_full);
    // The neighbour's connections pause for a moment when they have lost what did not fit.
    let is_slow = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let trip = round_trip(&mut stream, 20);
        println!("beside the neighbour: {trip:?}");
        trip > Duration::from_millis(4)
    });
    assert!(is_slow, "a round trip is as quick beside the neighbour");
    neighbour.end().unwrap();
    assert!(is_quick(&mut stream), "the link is still full");
    // Its connections may still send again what they had sent.
    let is_empty = (0..5).any(|_| traffic(&two).iter().all(|rate| *rate < 1.0));
    assert!(is_empty, "the link still carries its bytes");
}

#[test]
fn a_neighbour_on_the_network_keeps_its_rate_on_a_link_that_carries_more_and_connects_again() {
    let (_, two) = pair();
    let load = Network::shared().unwrap().namespace();
    // It connects once the cut has ended.
    two.set_link(Link::CUT).unwrap();
    let neighbour = Neighbour::sending(&two.namespace(), &load, Some(16_000_000)).unwrap();
    neighbour.begun().unwrap();
    two.set_link(Link::default()).unwrap();
    let keeps_its_rate = || {
        (0..30).any(|_| {
            let both = traffic(&two);
            println!("received and sent: {both:.1?} Mbit/s");
            both.iter().all(|rate| (14.0..19.0).contains(rate))
        })
    };
    assert!(keeps_its_rate());
    two.set_link(Link::CUT).unwrap();
    // Longer than a connection may be silent.
    std::thread::sleep(Duration::from_secs(7));
    assert!(traffic(&two).iter().all(|rate| *rate < 1.0));
    two.set_link(Link::default()).unwrap();
    assert!(keeps_its_rate());
}
