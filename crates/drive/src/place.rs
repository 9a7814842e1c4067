//! Addresses of servers in the kernel's form, and their errors.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};

/// Looks up the addresses of a host. May take as long as the system's resolver does.
///
/// # Errors
/// `Unreachable` if the name has none.
pub fn addresses_of(host: &str, port: u16) -> Result<Vec<SocketAddr>, StoreError> {
    let unknown = |detail: String| {
        StoreError::new(StoreErrorKind::Unreachable, format!("the host name {host} cannot be resolved"))
            .detail(detail)
            .next("check the host's name")
    };
    let found = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(unknown("it has no address".to_owned())) } else { Ok(found) }
}

/// An address as the kernel wants it, with the words that name it in errors.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedAddress {
    pub name: String,
    pub targets: Vec<SocketAddrAny>,
}

impl ResolvedAddress {
    /// Looks the address up. May take as long as the system's resolver does.
    pub fn resolve(address: &Address) -> Result<ResolvedAddress, StoreError> {
        match address {
            Address::Unix(path) => {
                let name = name(address);
                let target = SocketAddrUnix::new(path.as_path()).map_err(|errno| {
                    StoreError::new(StoreErrorKind::Usage, format!("{name} cannot be a socket's path: {errno}"))
                        .next("use a directory with a shorter path (at most 107 bytes with the socket's name)")
                })?;
                Ok(ResolvedAddress { name, targets: vec![target.into()] })
            }
            Address::Tcp(host, port) => {
                let targets = addresses_of(host, *port)?.into_iter().map(SocketAddrAny::from).collect();
                Ok(ResolvedAddress { name: name(address), targets })
            }
        }
    }

    /// Begins a connection to one address after the other, as `tries` counts up. The socket does not block.
    pub fn connect(&self, tries: usize) -> Result<OwnedFd, Errno> {
        let target = &self.targets[tries % self.targets.len()];
        let (family, flags) = (target.address_family(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        if family != AddressFamily::UNIX {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        match connect(&socket, target) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }

    /// An error of the operating system at this place.
    pub fn error(&self, errno: Errno) -> StoreError {
        let mut error = StoreError::io(&self.name, &errno.into());
        if errno == Errno::NOENT {
            error.kind = StoreErrorKind::Unreachable;
        }
        match errno {
            Errno::NOENT | Errno::CONNREFUSED => error.next("check that the server runs and listens there"),
            Errno::ADDRNOTAVAIL => error.next(
                "no local port is free: each closed connection keeps one for a minute (TIME_WAIT); use a Unix socket, fewer new \
                 connections, or net.ipv4.tcp_tw_reuse=1",
            ),
            Errno::AGAIN => error.next("the server's queue is full: use fewer clients, or a longer queue there"),
            _ => error,
        }
    }

    /// The server ended the connection.
    pub fn closed(&self) -> StoreError {
        StoreError::new(StoreErrorKind::Unreachable, format!("{}: the server closed the connection", self.name))
    }

    /// The server did not get through its greeting in time.
    pub fn silent(&self, waited_ns: u64) -> StoreError {
        silent(&self.name, waited_ns)
    }
}

/// Returns the name of an address in messages.
pub(crate) fn name(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        Address::Tcp(host, port) => format!("{host}:{port}"),
    }
}

/// Returns seconds, to the millisecond.
fn to_ms(ns: u64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}

/// The server at `place` did not get through its greeting in time.
pub(crate) fn silent(place: &str, waited_ns: u64) -> StoreError {
    let seconds = to_ms(waited_ns);
    StoreError::new(StoreErrorKind::Unreachable, format!("{place}: no session within {seconds} s")).next(
        "check that the server is not overloaded and speaks this protocol; if it only needs longer, raise \
         setup_timeout, or the phase's connect_timeout",
    )
}

/// The server at `place` has not answered an operation in time.
pub(crate) fn unanswered(place: &str, waited_ns: u64) -> StoreError {
    let seconds = to_ms(waited_ns);
    StoreError::new(StoreErrorKind::Unreachable, format!("{place}: no answer within {seconds} s"))
        .next("check the server's log; if it only needs longer, raise op_timeout (of a load: load_timeout)")
}

/// Returns true if a retry cannot succeed.
pub(crate) fn is_for_good(error: &StoreError) -> bool {
    use StoreErrorKind as K;
    matches!(error.kind, K::Authentication | K::Permission | K::Usage | K::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv6_is_named_in_brackets() {
        let name = |host: &str| ResolvedAddress::resolve(&Address::Tcp(host.to_owned(), 7)).unwrap().name;
        assert_eq!((name("::1"), name("127.0.0.1")), ("[::1]:7".to_owned(), "127.0.0.1:7".to_owned()));
    }
}
