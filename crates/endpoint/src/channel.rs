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
    /// How long the first word may take; `None` when there was one.
    first_word: Option<Duration>,
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
    /// Connects. `place` names the server in messages. `timeout` is how long connecting may take, how long the first word
    /// of the server may take after that, and how long it may be silent afterwards ([`Channel::set_timeout`]).
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
            first_word: Some(timeout),
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
        let bound = self.first_word.map_or(self.timeout, |first_word| first_word.min(self.timeout));
        let Some(left) = bound.checked_sub(self.quiet_since.elapsed()) else {
            return Err(self.unreachable(format!("{} has not answered for {} s", self.place, bound.as_secs_f64())));
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
            Ok((_, 0)) => Err(self.unreachable(format!("{} closed the connection", self.place))),
            Ok((_, count)) => {
                self.first_word = None;
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
        self.unreachable(format!("the connection to {} was lost: {error}", self.place))
    }

    /// Of a server that has never said a word, nobody knows whether it speaks what is spoken here.
    fn unreachable(&self, what: String) -> StoreError {
        let error = StoreError::new(StoreErrorKind::Unreachable, what);
        match self.first_word {
            None => error.next("See in the server's log why."),
            Some(_) => error.next(
                "Check scheme, host and port: another program may listen there, or the same one with TLS where the URL has \
                 none, or without.",
            ),
        }
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Asks something of a listener that does not speak, with a minute for each answer; what comes of it.
    fn ask(listener: &TcpListener, meanwhile: impl FnOnce()) -> StoreError {
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
        let mut channel = Channel::connect(&address, "store://there", Duration::from_millis(100)).unwrap();
        channel.set_timeout(Duration::from_secs(60));
        channel.write(|out| out.extend_from_slice(b"hello"));
        meanwhile();
        loop {
            if let Err(error) = channel.turn(&mut |bytes, _| bytes.len()) {
                return error;
            }
        }
    }

    #[test]
    fn who_never_says_a_word_is_waited_for_as_long_as_connecting_may_take() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let started = Instant::now();
        let error = ask(&listener, || {});
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(error.what, "store://there has not answered for 0.1 s");
        assert!(error.next.unwrap().starts_with("Check scheme, host and port"));
    }

    #[test]
    fn who_closes_without_a_word_may_be_another_program() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = ask(&listener, || drop(listener.accept().unwrap()));
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
        assert!(error.next.unwrap().starts_with("Check scheme, host and port"), "{}", error.what);
    }

    #[test]
    fn who_has_spoken_once_has_the_time_of_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
        let mut channel = Channel::connect(&address, "store://there", Duration::from_millis(100)).unwrap();
        channel.set_timeout(Duration::from_millis(600));
        let (mut peer, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut peer, b"a word").unwrap();
        let mut heard = 0;
        while heard < 6 {
            channel
                .turn(&mut |bytes, _| {
                    heard += bytes.len();
                    bytes.len()
                })
                .unwrap();
        }
        channel.write(|out| out.extend_from_slice(b"more"));
        let error = loop {
            if let Err(error) = channel.turn(&mut |bytes, _| bytes.len()) {
                break error;
            }
        };
        assert_eq!(error.what, "store://there has not answered for 0.6 s");
        assert_eq!(error.next.as_deref(), Some("See in the server's log why."));
    }
}
