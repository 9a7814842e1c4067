//! Bytes to and from a server, one connection, with a bound on how long it may be silent.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::tls::Tls;

/// Received at once; a message that is longer makes the buffer grow.
const INPUT_BYTES: usize = 256 << 10;

/// Takes bytes and says how many of them it used; what it appends is sent.
type Feed<'f> = &'f mut dyn FnMut(&[u8], &mut Vec<u8>) -> usize;

/// One connection to a server. After an error it is of no more use.
pub struct Channel {
    socket: OwnedFd,
    /// Where TLS begins with the first byte.
    layer: Option<Layer>,
    place: String,
    /// Bytes to send, and how many of them have been.
    out: Vec<u8>,
    sent: usize,
    /// Bytes received and not used yet are the first `filled` ones.
    input: Vec<u8>,
    filled: usize,
    timeout: Duration,
    /// When it was last written to, or something moved.
    quiet_since: Instant,
}

/// TLS, and what waits on our side of it.
struct Layer {
    tls: Tls,
    /// Decrypted and not used yet.
    arrived: Vec<u8>,
    /// Not encrypted yet; empty between two calls.
    written: Vec<u8>,
}

impl Channel {
    /// Connects. `place` names the server in messages. `timeout` is how long connecting may take, and how long the
    /// server may be silent afterwards ([`Channel::set_timeout`]).
    ///
    /// # Errors
    /// `Unreachable`, or `Permission` where a socket is not for us.
    pub fn connect(address: &Address, place: &str, timeout: Duration) -> Result<Channel, StoreError> {
        let socket = connect(address, timeout).map_err(|error| nobody(&error, place))?;
        Ok(Channel {
            socket,
            layer: None,
            place: place.to_owned(),
            out: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            timeout,
            quiet_since: Instant::now(),
        })
    }

    /// Begins TLS. All that is written from now on goes through it.
    pub fn encrypt(&mut self, mut tls: Tls) {
        tls.begin(&mut self.out);
        self.layer = Some(Layer { tls, arrived: Vec::new(), written: Vec::new() });
    }

    /// Sets how long the server may be silent while something is asked.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Names the server in messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Lets somebody write what the next turns send.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.quiet_since = Instant::now();
        match &mut self.layer {
            None => write(&mut self.out),
            Some(layer) => {
                write(&mut layer.written);
                layer.encrypt(&mut self.out);
            }
        }
    }

    /// True when something has arrived, be it the end of the connection.
    pub fn has_news(&mut self) -> bool {
        self.quiet_since = Instant::now();
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// Waits for the socket once, sends what can be sent, and hands over what has arrived. `feed` is offered again what
    /// it has not used.
    ///
    /// # Errors
    /// `Unreachable`, when the connection is lost, or the server silent for too long; or as TLS says.
    pub fn turn(&mut self, feed: Feed<'_>) -> Result<(), StoreError> {
        let ready = self.wait()?;
        let mut moved = false;
        if ready.intersects(PollFlags::OUT) {
            moved |= self.send();
        }
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            moved |= self.receive(feed)?;
        }
        if moved {
            self.quiet_since = Instant::now();
        }
        Ok(())
    }

    /// Sends what the socket takes at once, as a last word.
    pub fn send_what_can_be(&mut self) {
        if self.sent < self.out.len() {
            self.send();
        }
    }

    fn wait(&self) -> Result<PollFlags, StoreError> {
        let Some(left) = self.timeout.checked_sub(self.quiet_since.elapsed()) else {
            let waited = self.timeout.as_secs_f64();
            let what = format!("{} has not answered for {waited} s", self.place);
            return Err(StoreError::new(StoreErrorKind::Unreachable, what));
        };
        let pending = self.sent < self.out.len();
        let flags = if pending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&self.socket, flags)];
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut fds, Some(&left)) {
            Ok(_) => Ok(fds[0].revents()),
            Err(Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(self.lost(error)),
        }
    }

    /// True when something was sent.
    fn send(&mut self) -> bool {
        let moved = match send(&self.socket, &self.out[self.sent..], SendFlags::NOSIGNAL) {
            Ok(count) => {
                self.sent += count;
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            // The server may have said why before it closed: read that first.
            Err(_) => {
                self.sent = self.out.len();
                false
            }
        };
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        moved
    }

    /// True when something arrived.
    fn receive(&mut self, feed: Feed<'_>) -> Result<bool, StoreError> {
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        match recv(&self.socket, &mut self.input[self.filled..], RecvFlags::empty()) {
            Ok((_, 0)) => {
                let what = format!("{} closed the connection", self.place);
                Err(StoreError::new(StoreErrorKind::Unreachable, what))
            }
            Ok((_, count)) => {
                self.filled += count;
                let arrived = &self.input[..self.filled];
                let used = match &mut self.layer {
                    None => feed(arrived, &mut self.out),
                    Some(layer) => {
                        layer.take(arrived, &mut self.out, feed)?;
                        arrived.len()
                    }
                };
                self.input.copy_within(used..self.filled, 0);
                self.filled -= used;
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: Errno) -> StoreError {
        let error = io::Error::from(error);
        StoreError::new(StoreErrorKind::Unreachable, format!("the connection to {} was lost: {error}", self.place))
    }
}

impl Layer {
    fn encrypt(&mut self, out: &mut Vec<u8>) {
        self.tls.send(&self.written, out);
        self.written.clear();
    }

    fn take(&mut self, cipher: &[u8], out: &mut Vec<u8>, feed: Feed<'_>) -> Result<(), StoreError> {
        let result = self.tls.feed(cipher, &mut self.arrived, out);
        // What was said before an error is heard first.
        if !self.arrived.is_empty() {
            let used = feed(&self.arrived, &mut self.written);
            self.arrived.drain(..used);
            self.encrypt(out);
        }
        result
    }
}

fn nobody(error: &io::Error, place: &str) -> StoreError {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    let kind = if denied { StoreErrorKind::Permission } else { StoreErrorKind::Unreachable };
    StoreError::new(kind, format!("nobody can be reached at {place}"))
        .detail(error.to_string())
        .next("Check host, port or socket, and that the server runs and listens there.")
}

/// A socket that does not block, connected to the first of the host's addresses that lets itself be, each tried for
/// `timeout`.
///
/// # Errors
/// The operating system's, of the last address.
pub fn connect(address: &Address, timeout: Duration) -> io::Result<OwnedFd> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
        Address::Tcp(host, port) => {
            let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        stream.set_nonblocking(true)?;
                        return Ok(stream.into());
                    }
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
    }
}
