//! Client hosts: cut from a host, and behind a slow link to it, one by one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_core::{Link, LinkPeers};
use plimsoll_lab::hosts::{Network, client_host};

use crate::hosts::{connect, echo, pair, round_trip};

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
    let listener = {
        let _guard = two.enter().unwrap();
        TcpListener::bind((two.address(), 0)).unwrap()
    };
    let address = listener.local_addr().unwrap();
    let mut narrow = {
        let _guard = plimsoll_lab::standing::enter(&clients[0]).unwrap();
        TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap()
    };
    let (mut receiving, _) = listener.accept().unwrap();
    let peers = LinkPeers::ClientHost(0);
    two.set_link_to(Link { rate_bits_per_s: Some(8_000_000), peers, ..Link::default() }, client_host(0)).unwrap();
    // Both end with the other side.
    let sending = std::thread::spawn(move || while narrow.write_all(&[0; 16 << 10]).is_ok() {});
    let other = connect(&one, &two);
    let mut busy = other.try_clone().unwrap();
    let asking = std::thread::spawn(move || while busy.write_all(b"x").is_ok() && busy.read_exact(&mut [0]).is_ok() {});
    let mut read = |bytes: usize| {
        let since = Instant::now();
        receiving.read_exact(&mut vec![0; bytes]).unwrap();
        since.elapsed()
    };
    read(400_000);
    // 1448 of each frame's 1514 bytes are payload. Other tests and programs may hold the reader up.
    let is_kept = (0..8).any(|_| {
        let bytes = 1_000_000;
        let rate = bytes as f64 * 8.0 / read(bytes).as_secs_f64() * 1514.0 / 1448.0 / 1e6;
        println!("{rate:.2} Mbit/s");
        (7.0..=8.8).contains(&rate)
    });
    assert!(is_kept);
    other.shutdown(Shutdown::Both).unwrap();
    asking.join().unwrap();
    drop(receiving);
    sending.join().unwrap();
}
