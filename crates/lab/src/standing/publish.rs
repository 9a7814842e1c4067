//! Nodes on ports of the loopback interface, for clients that are on no host of the lab.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::StoreError;

use super::{Lab, enter};
use crate::holders;

/// Between two looks whether somebody connects, or wants the end.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long a node may take to accept a connection.
const CONNECT_BOUND: Duration = Duration::from_secs(5);

/// A node, where it listens, and where it is reached meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Its number, from 0.
    pub node: usize,
    /// Its own address.
    pub inside: SocketAddrV4,
    /// The same on the loopback interface of this machine.
    pub outside: SocketAddrV4,
}

/// Passes connections to ports of the loopback interface on to the nodes of `lab` with these numbers, until `stop` is set.
/// `first` is the port of the first of them, and the next of the next; without it they are free ones. `stands` is told where
/// they are.
///
/// # Errors
/// `Usage` of a node that listens on no port; `AddressTaken`; as [`Lab::status`].
pub fn publish(
    lab: &Lab,
    numbers: &[usize],
    first: Option<u16>,
    stop: &AtomicBool,
    stands: impl FnOnce(&[Published]),
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
        all.push((listener, Published { node: *number, inside: SocketAddrV4::new(node.address, port), outside }));
    }
    // What listens already stays on this machine's network; all that connects from now on is on the lab's.
    let _there = status.load.map(|load| enter(&load.namespace)).transpose()?;
    stands(&all.iter().map(|(_, published)| *published).collect::<Vec<_>>());
    while !stop.load(Ordering::SeqCst) {
        for (listener, Published { inside, .. }) in &all {
            match listener.accept() {
                Ok((client, _)) => pass_on(client, *inside),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The client has gone, or there are too many files open: the next may fare better.
                Err(_) => {}
            }
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Connects `client` to `inside`, each way on a thread; where that fails, its connection ends.
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
    // One that cannot be had a thread for is closed, which its client hears.
    let _ = std::thread::Builder::new().name("publish".to_owned()).spawn(pass);
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // Whichever end fails, both hear of it.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
