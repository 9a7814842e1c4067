//! Resets of TCP connections, by sock_diag(7): the kernel closes a socket, and its peer receives a reset.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::net::netlink::SOCK_DIAG;

use super::Network;
use super::netlink::{Netlink, NetlinkMessage};

/// Types of messages (`linux/sock_diag.h`): a list of sockets, and the end of one of them.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
/// Set of the states of established connections: `TCP_ESTABLISHED` is 1.
const ESTABLISHED: u32 = 1 << 1;
/// Position of a socket's identity in `inet_diag_msg`, and its length (`inet_diag_sockid`).
const ID_START: usize = 4;
const ID_BYTES: usize = 48;

/// Resets the established connections to `address` at `ports` in the calling thread's network namespace. Returns their
/// number. Connections to other addresses or ports are never touched.
///
/// # Errors
/// `Permission` without CAP_NET_ADMIN there; `Missing` if the kernel cannot reset connections.
pub(crate) fn reset_connections(address: Ipv4Addr, ports: &[u16]) -> Result<u64, StoreError> {
    reset(address, ports).map_err(|error| refused(&error))
}

/// Fails if no TCP connection can be reset where servers are: on hosts, or on this machine. Makes one there and resets
/// it.
///
/// # Errors
/// `Permission` without CAP_NET_ADMIN there; `Missing` if the kernel cannot reset connections; for hosts those of
/// [`Network::shared`].
pub fn resets_must_be_possible(on_hosts: bool) -> Result<(), StoreError> {
    let network = on_hosts.then(Network::shared).transpose()?;
    let _guard = network.as_ref().map(|network| network.enter()).transpose()?;
    let reset_own = || -> io::Result<u64> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let _ends = (TcpStream::connect(address)?, listener.accept()?);
        reset(Ipv4Addr::LOCALHOST, &[address.port()])
    };
    match reset_own() {
        Ok(0) => Err(refused(&io::Error::from_raw_os_error(libc::EOPNOTSUPP))),
        Ok(_) => Ok(()),
        Err(error) => Err(refused(&error)),
    }
}

fn reset(address: Ipv4Addr, ports: &[u16]) -> io::Result<u64> {
    let mut netlink = Netlink::of(Some(SOCK_DIAG))?;
    let mut count = 0;
    // A server that listens at all addresses has sockets of IPv6 for clients of both.
    for family in [libc::AF_INET, libc::AF_INET6] {
        let all = netlink.list(request(SOCK_DIAG_BY_FAMILY, family, &[0; ID_BYTES]))?;
        let ids = all.iter().filter_map(|socket| socket.get(ID_START..ID_START + ID_BYTES));
        for id in ids.filter(|id| is_of(id, family, address, ports)) {
            match netlink.ask(request(SOCK_DESTROY, family, id), 0) {
                Ok(()) => count += 1,
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(count)
}

/// Returns a request about established connections (`inet_diag_req_v2`).
fn request(kind: u16, family: i32, id: &[u8]) -> NetlinkMessage {
    let mut message = NetlinkMessage::new(kind);
    message.0.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    message.0.extend(ESTABLISHED.to_ne_bytes());
    message.0.extend(id);
    message
}

/// Returns true if the own end of a connection is at `address` and one of `ports`. An identity begins with both ports,
/// the own one first, and both addresses, in the order of the network.
fn is_of(id: &[u8], family: i32, address: Ipv4Addr, ports: &[u16]) -> bool {
    let Some((port, addresses)) = id.split_first_chunk::<2>() else { return false };
    let own = if family == libc::AF_INET {
        addresses.get(2..6).and_then(|own| <[u8; 4]>::try_from(own).ok()).map(IpAddr::from)
    } else {
        let own = addresses.get(2..18).and_then(|own| <[u8; 16]>::try_from(own).ok());
        own.map(|own| Ipv6Addr::from(own).to_canonical())
    };
    let is_there = |own: IpAddr| own == address || (own.is_loopback() && address.is_loopback() && own.is_ipv6());
    ports.contains(&u16::from_be_bytes(*port)) && own.is_some_and(is_there)
}

/// Returns the error for connections that cannot be reset.
fn refused(error: &io::Error) -> StoreError {
    let (kind, next) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            (StoreErrorKind::Permission, "run as root, or in a container with CAP_NET_ADMIN")
        }
        Some(libc::EOPNOTSUPP | libc::ENOENT | libc::EPROTONOSUPPORT) => {
            (StoreErrorKind::Missing, "the kernel needs CONFIG_INET_DIAG_DESTROY, and its module: modprobe tcp_diag")
        }
        _ => (StoreErrorKind::Broken, "see what is missing: plimsoll doctor"),
    };
    StoreError::new(kind, "cannot reset TCP connections on this machine").detail(error.to_string()).next(next)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};

    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::hosts::without;

    /// Makes a connection to a new listener at `address`.
    fn connection(address: &str) -> (TcpListener, [TcpStream; 2], u16) {
        let listener = TcpListener::bind(address).unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        let server = listener.accept().unwrap().0;
        (listener, [client, server], at.port())
    }

    fn is_reset(stream: &mut TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        match stream.read(&mut [0]).unwrap_err().kind() {
            ErrorKind::WouldBlock => false,
            kind => matches!(kind, ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted),
        }
    }

    #[test]
    fn connections_to_the_ports_are_reset_and_no_others() {
        let (one, mut ended, port) = connection("127.0.0.1:0");
        let (_other, mut kept, other_port) = connection("127.0.0.1:0");
        let (_elsewhere, mut far, far_port) = connection("127.0.0.2:0");
        assert_eq!(reset_connections(Ipv4Addr::LOCALHOST, &[port, far_port]).unwrap(), 1);
        assert!(ended.iter_mut().all(is_reset));
        assert!(!kept.iter_mut().chain(&mut far).any(is_reset), "{other_port}");
        assert_eq!(reset_connections(Ipv4Addr::LOCALHOST, &[port]).unwrap(), 0, "none is left");
        TcpStream::connect(one.local_addr().unwrap()).unwrap();
    }

    #[test]
    fn resets_are_possible_on_hosts_and_on_this_machine_with_the_right_to() {
        for on_hosts in [false, true] {
            assert_eq!(resets_must_be_possible(on_hosts), Ok(()), "{on_hosts}");
        }
        let error = without(CapabilitySet::NET_ADMIN, || resets_must_be_possible(false)).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Permission, "{error:?}");
        assert!(error.next.unwrap().contains("CAP_NET_ADMIN"));
    }

    #[test]
    fn a_kernel_that_cannot_is_told_from_a_user_who_may_not() {
        let kind = |errno| refused(&io::Error::from_raw_os_error(errno)).kind;
        assert_eq!([kind(libc::EOPNOTSUPP), kind(libc::EPERM)], [StoreErrorKind::Missing, StoreErrorKind::Permission]);
    }
}
