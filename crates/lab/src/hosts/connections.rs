//! Resets of TCP connections, by sock_diag(7): the kernel closes a socket, and its peer receives a reset.

use std::collections::HashSet;
use std::fs::DirEntry;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

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
/// Position of a socket's inode in `inet_diag_msg`.
const INODE_START: usize = 68;
/// Open files of this process.
const OWN_FILES: &str = "/proc/self/fd";

/// An established connection, as the kernel lists it.
struct Established {
    family: i32,
    /// Identity for the kernel, with a number that no other socket has.
    id: [u8; ID_BYTES],
    /// Addresses of this end and of the other one; IPv4 addresses in IPv6 are those of IPv4.
    own: SocketAddr,
    peer: SocketAddr,
    inode: u32,
}

/// Resets the established connections to `address` at `ports` in the calling thread's network namespace. Returns their
/// number. Connections to other addresses or ports are never touched.
///
/// # Errors
/// `Permission` without CAP_NET_ADMIN there; `Missing` if the kernel cannot reset connections.
pub(crate) fn reset_connections(address: Ipv4Addr, ports: &[u16]) -> Result<u64, StoreError> {
    let is_there = |own: IpAddr| own == address || (own.is_loopback() && address.is_loopback() && own.is_ipv6());
    reset(|one| ports.contains(&one.own.port()) && is_there(one.own.ip())).map_err(|error| refused(&error))
}

/// Resets the established connections of this process to `servers` in the calling thread's network namespace. Returns
/// their number. Connections of other processes are never touched.
///
/// # Errors
/// `Permission` without CAP_NET_ADMIN there; `Missing` if the kernel cannot reset connections.
pub fn reset_own_connections(servers: &[SocketAddr]) -> Result<u64, StoreError> {
    let sockets = own_sockets().map_err(|error| StoreError::io(OWN_FILES, &error))?;
    let is_meant = |one: &Established| servers.contains(&one.peer) && sockets.contains(&one.inode);
    reset(is_meant).map_err(|error| refused(&error))
}

/// Returns the addresses to which this process has established connections in the calling thread's network namespace.
///
/// # Errors
/// Errors of the kernel, such as one that cannot list connections.
pub fn own_peers() -> io::Result<Vec<SocketAddr>> {
    let sockets = own_sockets()?;
    let all = established(&mut Netlink::of(Some(SOCK_DIAG))?)?;
    Ok(all.into_iter().filter(|one| sockets.contains(&one.inode)).map(|one| one.peer).collect())
}

/// Returns the inodes of this process's sockets.
fn own_sockets() -> io::Result<HashSet<u32>> {
    let target = |file: DirEntry| std::fs::read_link(file.path()).ok()?.into_os_string().into_string().ok();
    let inode = |target: String| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok();
    Ok(std::fs::read_dir(OWN_FILES)?.flatten().filter_map(target).filter_map(inode).collect())
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
        reset(|one| one.own == address)
    };
    match reset_own() {
        Ok(0) => Err(refused(&io::Error::from_raw_os_error(libc::EOPNOTSUPP))),
        Ok(_) => Ok(()),
        Err(error) => Err(refused(&error)),
    }
}

/// Resets the established connections that `is_meant` selects. Returns their number.
fn reset(is_meant: impl Fn(&Established) -> bool) -> io::Result<u64> {
    let mut netlink = Netlink::of(Some(SOCK_DIAG))?;
    let mut count = 0;
    for one in established(&mut netlink)?.iter().filter(|one| is_meant(one)) {
        match netlink.ask(request(SOCK_DESTROY, one.family, &one.id), 0) {
            Ok(()) => count += 1,
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Lists the established connections.
fn established(netlink: &mut Netlink) -> io::Result<Vec<Established>> {
    let mut all = Vec::new();
    // A server that listens at all addresses has sockets of IPv6 for clients of both.
    for family in [libc::AF_INET, libc::AF_INET6] {
        let listed = netlink.list(request(SOCK_DIAG_BY_FAMILY, family, &[0; ID_BYTES]))?;
        all.extend(listed.iter().filter_map(|socket| Established::of(socket, family)));
    }
    Ok(all)
}

/// Returns a request about established connections (`inet_diag_req_v2`).
fn request(kind: u16, family: i32, id: &[u8]) -> NetlinkMessage {
    let mut message = NetlinkMessage::new(kind);
    message.0.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    message.0.extend(ESTABLISHED.to_ne_bytes());
    message.0.extend(id);
    message
}

impl Established {
    /// Reads an `inet_diag_msg`. Its identity begins with both ports, the own one first, and both addresses of 16 bytes,
    /// in the order of the network.
    fn of(socket: &[u8], family: i32) -> Option<Self> {
        let id = <[u8; ID_BYTES]>::try_from(socket.get(ID_START..ID_START + ID_BYTES)?).ok()?;
        let port = |at: usize| <[u8; 2]>::try_from(id.get(at..at + 2)?).ok().map(u16::from_be_bytes);
        let address = |at: usize| {
            if family == libc::AF_INET {
                <[u8; 4]>::try_from(id.get(at..at + 4)?).ok().map(IpAddr::from)
            } else {
                <[u8; 16]>::try_from(id.get(at..at + 16)?).ok().map(|bytes| Ipv6Addr::from(bytes).to_canonical())
            }
        };
        let inode = <[u8; 4]>::try_from(socket.get(INODE_START..INODE_START + 4)?).ok()?;
        let (own, peer) = (SocketAddr::new(address(4)?, port(0)?), SocketAddr::new(address(20)?, port(2)?));
        Some(Self { family, id, own, peer, inode: u32::from_ne_bytes(inode) })
    }
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
    fn connections_of_other_processes_to_the_same_server_are_not_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; read -r <&3", server.port());
        let mut other = std::process::Command::new("bash").args(["-c", &script]).spawn().unwrap();
        let mut of_other = listener.accept().unwrap().0;
        let mut own = TcpStream::connect(server).unwrap();
        let mut of_own = listener.accept().unwrap().0;
        let (_elsewhere, [mut kept, _far], _) = connection("127.0.0.1:0");
        assert!(own_peers().unwrap().contains(&server));
        assert_eq!(reset_own_connections(&[server]).unwrap(), 1);
        assert!(is_reset(&mut own) && is_reset(&mut of_own));
        assert!(!is_reset(&mut of_other) && !is_reset(&mut kept));
        assert!(!own_peers().unwrap().contains(&server));
        assert_eq!(reset_own_connections(&[server]).unwrap(), 0, "none is left");
        other.kill().unwrap();
        other.wait().unwrap();
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
