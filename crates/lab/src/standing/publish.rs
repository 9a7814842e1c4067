//! Publishing nodes on ports of the loopback interface, for clients outside the lab's hosts.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::StoreError;

use super::{Lab, enter};
use crate::holders;

/// Time between two checks for connections and for the end.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time for a node to accept a connection.
const CONNECT_BOUND: Duration = Duration::from_secs(5);

/// A node with its own address and its published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedNode {
    /// Number of the node, from 0.
    pub node: usize,
    /// Address of the node.
    pub inside: SocketAddrV4,
    /// Address on the loopback interface of this machine.
    pub outside: SocketAddrV4,
}

/// Forwards connections to ports of the loopback interface to the nodes of `lab` with these numbers, until `stop` is
/// set. `first` is the port of the first node, and the next node has the next port; without `first`, free ports are
/// used. `stands` receives the addresses.
///
/// # Errors
/// `Usage` for a node that listens on no port; `AddressTaken`; the errors of [`Lab::status`].
pub fn publish(
    lab: &Lab,
    numbers: &[usize],
    first: Option<u16>,
    stop: &AtomicBool,
    stands: impl FnOnce(&[PublishedNode]),
) -> Result<(), StoreError> {
    let status = lab.status()?;
    let mut all = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        let node = status.nodes.iter().find(|node| node.number == *number);
        let Some((node, port)) = node.and_then(|node| Some((node, *node.ports.first()?))) else {
            let what = format!("node {} of lab {} listens on no port", number + 1, lab.name());
            return Err(StoreError::usage(what).next("its socket is in the directory that `plimsoll lab status` shows"));
        };
        let offset = u16::try_from(at).unwrap_or(u16::MAX);
        let wanted = SocketAddrV4::new(Ipv4Addr::LOCALHOST, first.map_or(0, |first| first.saturating_add(offset)));
        let failed = |error: std::io::Error| {
            let is_taken = error.kind() == ErrorKind::AddrInUse;
            let held = is_taken.then(|| holders::of_port(wanted.port()).join("; ")).filter(|held| !held.is_empty());
            let error = StoreError::io(wanted, &error);
            held.map_or(error.clone(), |held| error.detail(held))
        };
        let listener = TcpListener::bind(wanted).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port_outside = listener.local_addr().map_err(failed)?.port();
        let outside = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port_outside);
        all.push((listener, PublishedNode { node: *number, inside: SocketAddrV4::new(node.address, port), outside }));
    }
    // Sockets that listen already stay in this machine's network; later connections are made in the lab's.
    let _guard = status.load.map(|load| enter(&load.namespace)).transpose()?;
    stands(&all.iter().map(|(_, published)| *published).collect::<Vec<_>>());
    while !stop.load(Ordering::SeqCst) {
        for (listener, PublishedNode { inside, .. }) in &all {
            match listener.accept() {
                Ok((client, _)) => pass_on(client, *inside),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The client has gone, or too many files are open: the next connection may succeed.
                Err(_) => {}
            }
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Connects `client` to `inside`, with a thread for each direction; on failure the connection is closed.
fn pass_on(client: TcpStream, inside: SocketAddrV4) {
    let pass = move || {
        let Ok(server) = TcpStream::connect_timeout(&inside.into(), CONNECT_BOUND) else { return };
        let is_set = client.set_nonblocking(false).is_ok() && client.set_nodelay(true).is_ok();
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
        if !is_set || server.set_nodelay(true).is_err() {
            return;
        }
        let back = std::thread::Builder::new().name("publish".to_owned()).spawn(move || copy(server, client));
        if back.is_ok() {
            copy(from, to);
        }
    };
    // If no thread can be created, the connection is closed, and the client sees end of file.
    let _ = std::thread::Builder::new().name("publish".to_owned()).spawn(pass);
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // If either end fails, both see the end of the connection.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
