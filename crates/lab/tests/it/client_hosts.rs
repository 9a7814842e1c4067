//! Client hosts: cut from a host, and behind a slow link to it, one by one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use plimsoll_core::{Link, LinkPeers};
use plimsoll_lab::hosts::{Network, client_host};

use crate::hosts::{arrives_at, connect, echo, flood, pair, round_trip};

#[test]
fn a_host_that_is_cut_from_one_client_host_still_reaches_the_others() {
    let network = Network::shared().unwrap();
    let (one, two) = pair();
    let clients = network.client_hosts(2).unwrap();
    assert_eq!(network.client_hosts(1).unwrap(), clients[..1], "the first one is there already");
    let load = network.namespace();
    let from = |namespace: &Path, limit_ms| {
        let address = echo(&two);
        let _guard = plimsoll_lab::standing::enter(namespace).unwrap();
        TcpStream::connect_timeout(&address, Duration::from_millis(limit_ms))
    };
    let mut before: Vec<TcpStream> = clients.iter().map(|namespace| from(namespace, 10_000).unwrap()).collect();
    for (number, stream) in before.iter_mut().enumerate() {
        assert_eq!(stream.local_addr().unwrap().ip(), client_host(number));
        round_trip(stream, 3);
    }
    two.set_link_to(Link { peers: LinkPeers::ClientHost(1), ..Link::CUT }, client_host(1)).unwrap();
    assert!(from(&clients[1], 500).is_err(), "no packet of the second client host arrives");
    before[1].set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    before[1].write_all(b"x").unwrap();
    assert!(before[1].read_exact(&mut [0]).is_err(), "nor one of a connection that was there");
    round_trip(&mut before[0], 3);
    for namespace in [&clients[0], &load] {
        round_trip(&mut from(namespace, 10_000).unwrap(), 3);
    }
    round_trip(&mut connect(&one, &two), 3);
    round_trip(&mut connect(&two, &one), 3);
    two.set_link(Link::default()).unwrap();
    before[1].set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    before[1].read_exact(&mut [0]).unwrap();
    round_trip(&mut before[1], 3);
    two.set_link_to_clients(Link { peers: LinkPeers::Clients, ..Link::CUT }).unwrap();
    for namespace in [&clients[0], &clients[1], &load] {
        assert!(from(namespace, 500).is_err(), "{}: a cut from clients is one from all of them", namespace.display());
    }
    round_trip(&mut connect(&one, &two), 3);
}

#[test]
fn a_slow_link_to_one_client_host_delays_no_packets_of_others_and_is_healed_to_the_link_before() {
    let network = Network::shared().unwrap();
    let (one, two) = pair();
    let clients = network.client_hosts(2).unwrap();
    let from = |namespace: &Path| {
        let address = echo(&two);
        let _guard = plimsoll_lab::standing::enter(namespace).unwrap();
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let mut slow = from(&clients[1]);
    let mut others = [from(&clients[0]), from(&network.namespace()), connect(&one, &two)];
    // Other tests and programs may disturb a quartile throughout.
    let takes = |stream: &mut TcpStream, ms: std::ops::Range<u64>| {
        (0..30).any(|_| {
            let seen = round_trip(stream, 20);
            println!("first quartile of a round trip: {seen:?}, wanted {ms:?} ms");
            assert!(seen >= Duration::from_millis(ms.start), "{seen:?}");
            seen < Duration::from_millis(ms.end)
        })
    };
    two.set_link(Link { delay: Duration::from_millis(20), ..Link::default() }).unwrap();
    let before = two.link();
    let peers = LinkPeers::ClientHost(1);
    two.set_link_to(Link { delay: Duration::from_millis(50), peers, ..Link::default() }, client_host(1)).unwrap();
    assert!(takes(&mut slow, 100..130));
    // From now on a delayed packet is always on its way.
    let mut busy = slow.try_clone().unwrap();
    let asking = std::thread::spawn(move || while busy.write_all(b"x").is_ok() && busy.read_exact(&mut [0]).is_ok() {});
    for stream in &mut others {
        assert!(takes(stream, 0..20), "it waits for packets of the slow client host");
    }
    slow.shutdown(Shutdown::Both).unwrap();
    asking.join().unwrap();
    two.set_link(before).unwrap();
    for stream in [&mut from(&clients[1]), &mut others[0]] {
        assert!(takes(stream, 40..60));
    }
}

#[test]
fn a_narrow_link_to_one_client_host_keeps_its_rate_beside_packets_of_others() {
    let network = Network::shared().unwrap();
    let (one, two) = pair();
    let clients = network.client_hosts(1).unwrap();
    let peers = LinkPeers::ClientHost(0);
    two.set_link_to(Link { rate_bits_per_s: Some(8_000_000), peers, ..Link::default() }, client_host(0)).unwrap();
    let (mut receiving, sending) = flood(&two, || plimsoll_lab::standing::enter(&clients[0]).unwrap());
    let other = connect(&one, &two);
    // Ends with the other side.
    let mut busy = other.try_clone().unwrap();
    let asking = std::thread::spawn(move || while busy.write_all(b"x").is_ok() && busy.read_exact(&mut [0]).is_ok() {});
    assert!(arrives_at(&mut receiving, 1_000_000, 7.0..=8.8));
    other.shutdown(Shutdown::Both).unwrap();
    asking.join().unwrap();
    drop(receiving);
    sending.join().unwrap();
}
