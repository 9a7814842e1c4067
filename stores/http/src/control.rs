//! One look at a server, for everything that is not measured: whether it is there, and what it calls itself.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Address, Answer, Done, Durability, Outcome, StoreError, StoreErrorKind, Ticket, WireSession, WireState,
};

use crate::endpoint::Endpoint;
use crate::wire::HttpSession;

/// Nobody is told of operations, as none is asked.
struct Nobody;

impl Done for Nobody {
    fn push(&mut self, _: Ticket, _: Outcome, _: &Answer) {}
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Opens a session as a client does and closes it: what the server calls itself, empty when it does not say. Every
/// single wait is bounded by `timeout`.
///
/// # Errors
/// `Unreachable` when nobody listens or answers; `Authentication`, `Usage` and `Broken` as a session says.
pub fn look(endpoint: &Endpoint, timeout: Duration) -> Result<String, StoreError> {
    let place = &endpoint.login.place;
    let nobody = |error: &std::io::Error| {
        let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        let kind = if denied { StoreErrorKind::Permission } else { StoreErrorKind::Unreachable };
        StoreError::new(kind, format!("nobody answers at {place}"))
            .detail(error.to_string())
            .next("Check scheme, host and port, and that the server runs and listens there.")
    };
    let mut tls = endpoint.tls_client()?.map(|client| client.connect(endpoint.host(), place)).transpose()?;
    let mut stream = connect(&endpoint.address, timeout).map_err(|error| nobody(&error))?;
    let mut session = HttpSession::new(Arc::new(endpoint.login.clone()), Durability::AtEnd);
    let (mut out, mut written, mut input) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(tls) = &mut tls {
        tls.begin(&mut out);
    }
    session.open(&[], &mut written);
    match &mut tls {
        Some(tls) => tls.send(&written, &mut out),
        None => out.append(&mut written),
    }
    let mut arrived = vec![0; 64 << 10];
    loop {
        stream.write_all(&out).map_err(|error| nobody(&error))?;
        out.clear();
        let count = stream.read(&mut arrived).map_err(|error| nobody(&error))?;
        if count == 0 {
            return Err(nobody(&std::io::Error::other("it closed the connection without an answer")));
        }
        match &mut tls {
            Some(tls) => tls.feed(&arrived[..count], &mut input, &mut out)?,
            None => input.extend_from_slice(&arrived[..count]),
        }
        let used = session.feed(&input, &mut written, &mut Nobody);
        input.drain(..used);
        match session.state() {
            WireState::Ready => return Ok(session.server()),
            WireState::Failed(error) => return Err(error.clone()),
            WireState::Opening => {}
        }
    }
}

fn connect(address: &Address, timeout: Duration) -> std::io::Result<Box<dyn Stream>> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            Ok(Box::new(stream))
        }
        Address::Tcp(host, port) => {
            let mut last = std::io::Error::other("the host has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(timeout))?;
                        stream.set_write_timeout(Some(timeout))?;
                        return Ok(Box::new(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}
