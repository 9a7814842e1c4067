//! Connecting to a server, with a bound on all of it: finding the name's addresses, and trying each.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, Waits, waits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as begin, socket_with, sockopt};

/// A socket that does not block, connected to the first of the host's addresses that lets itself be, all within
/// [`Waits::answer`].
///
/// # Errors
/// The operating system's, of the last address; `TimedOut`; `Interrupted` when the user wants an end.
pub fn connect(address: &Address, waits: &Waits) -> io::Result<OwnedFd> {
    let until = Instant::now() + waits.answer();
    match address {
        Address::Unix(path) => {
            let path = SocketAddrUnix::new(path.as_path())?;
            loop {
                let socket = socket(AddressFamily::UNIX)?;
                match begin(&socket, &path) {
                    Ok(()) => return Ok(socket),
                    // The server's queue is full: it is there, and has not got round to us.
                    Err(Errno::AGAIN) => goes_on(waits, until)?,
                    Err(error) => return Err(error.into()),
                }
                std::thread::sleep(waits::TICK);
            }
        }
        Address::Tcp(host, port) => {
            let found = addresses(host, *port, waits, until)?;
            let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for (at, address) in found.iter().enumerate() {
                // What the first do not need is left to the others.
                let part = until.saturating_duration_since(Instant::now()) / (found.len() - at) as u32;
                match connect_to(address, waits, Instant::now() + part) {
                    Ok(socket) => return Ok(socket),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
    }
}

fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

fn goes_on(waits: &Waits, until: Instant) -> io::Result<()> {
    match waits.is_stopped() {
        true => Err(io::ErrorKind::Interrupted.into()),
        false if Instant::now() > until => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(()),
    }
}

/// The system's resolver cannot be interrupted: it is left behind where it takes too long.
fn addresses(host: &str, port: u16, waits: &Waits, until: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (found, answer) = sync_channel(1);
    let name = (host.to_owned(), port);
    std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let all = name.to_socket_addrs().map(Iterator::collect);
        // The thread that asked may have ended.
        let _ = found.send(all);
    })?;
    loop {
        match answer.recv_timeout(waits::TICK) {
            Ok(all) => return all,
            Err(RecvTimeoutError::Timeout) => goes_on(waits, until)?,
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn connect_to(address: &SocketAddr, waits: &Waits, until: Instant) -> io::Result<OwnedFd> {
    let socket = socket(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match begin(&socket, address) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    loop {
        let tick = Timespec { tv_sec: 0, tv_nsec: Duration::as_nanos(&waits::TICK) as i64 };
        match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&tick)) {
            Ok(0) | Err(Errno::INTR) => goes_on(waits, until)?,
            Ok(_) => return sockopt::socket_error(&socket)?.map(|()| socket).map_err(io::Error::from),
            Err(error) => return Err(error.into()),
        }
    }
}
