//! Hosts: what they reach, and that nothing of them stays.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use plimsoll_lab::hosts::{Host, Network};

fn own_network() -> std::path::PathBuf {
    fs::read_link("/proc/thread-self/ns/net").unwrap()
}

/// Answers each byte that comes with one, on `host`.
fn echo(host: &Host) -> std::net::SocketAddr {
    let _there = host.enter().unwrap();
    let listener = TcpListener::bind((host.address(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    address
}

#[test]
fn hosts_reach_each_other_and_nobody_else() {
    let home = own_network();
    let network = Network::shared().unwrap();
    let (one, two) = (network.add_host().unwrap(), network.add_host().unwrap());
    let address = echo(&two);
    let outside = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    {
        let _there = one.enter().unwrap();
        let _again = one.enter().unwrap();
        drop(_again);
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), one.address());
        stream.write_all(b"x").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert!(TcpStream::connect_timeout(&outside, Duration::from_secs(1)).is_err(), "its loopback is its own");
        let sent = UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", (Ipv4Addr::new(192, 0, 2, 1), 9));
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::ENETUNREACH), "there is no way out");
    }
    assert_eq!(own_network(), home);
    assert!(TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err(), "nor a way in");
}

#[test]
fn twenty_hosts_are_made_at_once_and_go_with_their_last_user() {
    let since = Instant::now();
    let network = Network::shared().unwrap();
    let hosts: Vec<Host> = (0..20).map(|_| network.add_host().unwrap()).collect();
    let took = since.elapsed();
    println!("twenty hosts: {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    let mut addresses: Vec<_> = hosts.iter().map(Host::address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 20);
    let path = hosts[0].namespace();
    assert!(path.exists());
    drop(hosts);
    assert!(fs::read_link(&path).map_or(true, |link| !link.to_string_lossy().starts_with("net:")), "{path:?}");
}
