//! A blocking connection for the control plane and for key-value sessions: the same [`PgSession`] that the
//! drive loop runs, over a socket of its own.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Address, Answer, Done, Layout, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, WireSession, WireState,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::reach::Endpoint;
use crate::wire::{PgSession, Secured, Transaction};

/// Received at once; a message that is longer makes the buffer grow.
const INPUT_BYTES: usize = 256 << 10;

/// A connection whose calls return when they are done.
pub struct Connection {
    socket: OwnedFd,
    session: Secured,
    place: String,
    /// Bytes to send, and how many of them have been.
    out: Vec<u8>,
    sent: usize,
    /// Bytes received and not used yet are the first `filled` ones.
    input: Vec<u8>,
    filled: usize,
    timeout: Duration,
}

struct Visit<'a>(&'a mut dyn FnMut(Outcome, &Answer));

impl Done for Visit<'_> {
    fn push(&mut self, _: Ticket, outcome: Outcome, answer: &Answer) {
        (self.0)(outcome, answer);
    }
}

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) error: StoreError,
    /// It was TLS that failed.
    pub(crate) in_tls: bool,
}

impl Connection {
    /// Connects, logs in, runs `settings` and prepares `kinds`, all within `timeout`, which is also how long
    /// the server may be silent afterwards ([`Connection::set_timeout`]).
    ///
    /// # Errors
    /// Nobody there, no TLS with it, a refused login or statement.
    pub fn open(
        endpoint: &Endpoint,
        layout: Arc<Layout>,
        settings: &str,
        kinds: &[OpKind],
        timeout: Duration,
    ) -> Result<Connection, StoreError> {
        Self::try_open(endpoint, layout, settings, kinds, timeout).map_err(|refused| refused.error)
    }

    pub(crate) fn try_open(
        endpoint: &Endpoint,
        layout: Arc<Layout>,
        settings: &str,
        kinds: &[OpKind],
        timeout: Duration,
    ) -> Result<Connection, Refused> {
        let place = endpoint.login.place.clone();
        let socket = connect(&endpoint.address, &place, timeout).map_err(|error| Refused { error, in_tls: false })?;
        let session = PgSession::new(Arc::clone(&endpoint.login), layout, settings);
        let mut connection = Connection {
            socket,
            session: Secured::new(session, endpoint.security.clone(), &place),
            place,
            out: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            timeout,
        };
        connection.session.open(kinds, &mut connection.out);
        match connection.pump(&mut |_, _| {}, |session| *session.state() == WireState::Opening) {
            Ok(()) => Ok(connection),
            Err(mut error) => {
                if error.kind == StoreErrorKind::Unreachable && endpoint.security.is_direct() {
                    error.next =
                        Some("Leave sslnegotiation=direct out: servers before PostgreSQL 17 do not know it.".into());
                }
                // A last word, so that the server's log says why.
                let _ = send(&connection.socket, &connection.out[connection.sent..], SendFlags::NOSIGNAL);
                Err(Refused { error, in_tls: connection.session.tls_failed() })
            }
        }
    }

    /// Version and cipher suite, when it is encrypted.
    pub fn tls(&self) -> Option<String> {
        self.session.agreed()
    }

    /// Where its transaction stands.
    pub fn transaction(&self) -> Transaction {
        self.session.inner().transaction()
    }

    /// Sets how long the server may be silent while something is asked.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// True when it can take an operation.
    pub fn is_ready(&self) -> bool {
        *self.session.state() == WireState::Ready
    }

    /// True when it can take an operation and the server has not ended it since it was last used.
    pub fn is_still_ready(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let told = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0);
        let mut done = Visit(&mut |_, _| {});
        if told && let Err(error) = self.step(&mut done, Instant::now()) {
            self.session.fail(error, &mut done);
        }
        self.is_ready()
    }

    /// Starts one operation and calls `visit` with its outcome and answer. An error means that the
    /// connection failed; `visit` was then called with [`Outcome::Unknown`].
    pub(crate) fn run(
        &mut self,
        start: impl FnOnce(&mut PgSession, &mut Vec<u8>),
        visit: &mut dyn FnMut(Outcome, &Answer),
    ) -> Result<(), StoreError> {
        if let WireState::Failed(error) = self.session.state() {
            return Err(error.clone());
        }
        self.session.write(&mut self.out, start);
        self.pump(visit, |session| session.inner().is_asked())
    }

    /// Runs one prepared operation.
    pub fn execute(&mut self, op: &Op<'_>, visit: &mut dyn FnMut(Outcome, &Answer)) -> Result<(), StoreError> {
        self.run(|session, out| session.start(Ticket(0), op, out), visit)
    }

    /// Runs statements as plain text; their values come back as text. What the server rejects is an error.
    pub fn simple(&mut self, text: &str) -> Result<Answer, StoreError> {
        let mut result = (Outcome::Unknown, Answer::default());
        self.run(|session, out| session.start_simple(Ticket(0), text, out), &mut |outcome, answer| {
            result = (outcome, answer.clone())
        })?;
        match result {
            (Outcome::Ok | Outcome::NotFound, answer) => Ok(answer),
            (_, answer) => Err(rejected(&self.place, &answer)),
        }
    }

    /// The first value of the first row of [`Connection::simple`]; empty when there is none, or it is null.
    pub fn value(&mut self, text: &str) -> Result<String, StoreError> {
        let answer = self.simple(text)?;
        Ok(match answer.values.values().get(0) {
            plimsoll_core::Value::Text(value) => value.to_owned(),
            _ => String::new(),
        })
    }

    /// Sends, receives and feeds for as long as `wanting` says so.
    fn pump(
        &mut self,
        visit: &mut dyn FnMut(Outcome, &Answer),
        wanting: impl Fn(&Secured) -> bool,
    ) -> Result<(), StoreError> {
        let mut done = Visit(visit);
        let mut quiet_since = Instant::now();
        while wanting(&self.session) {
            match self.step(&mut done, quiet_since) {
                Ok(true) => quiet_since = Instant::now(),
                Ok(false) => {}
                Err(error) => self.session.fail(error, &mut done),
            }
        }
        match self.session.state() {
            WireState::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Waits for the socket once and moves what can be moved; true when something was.
    fn step(&mut self, done: &mut Visit<'_>, quiet_since: Instant) -> Result<bool, StoreError> {
        let pending = self.sent < self.out.len();
        let Some(left) = self.timeout.checked_sub(quiet_since.elapsed()) else {
            let waited = self.timeout.as_secs_f64();
            return Err(StoreError::new(
                StoreErrorKind::Unreachable,
                format!("{} has not answered for {waited} s", self.place),
            ));
        };
        let flags = if pending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&self.socket, flags)];
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(self.lost(&error.into())),
        }
        let ready = fds[0].revents();
        let mut moved = false;
        if pending && ready.intersects(PollFlags::OUT) {
            match send(&self.socket, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    moved = true;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The server may have said why before it closed: read that first.
                Err(_) => self.sent = self.out.len(),
            }
            if self.sent == self.out.len() {
                self.out.clear();
                self.sent = 0;
            }
        }
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            if self.filled == self.input.len() {
                self.input.resize(self.input.len() * 2, 0);
            }
            match recv(&self.socket, &mut self.input[self.filled..], RecvFlags::empty()) {
                Ok((_, 0)) => {
                    return Err(StoreError::new(
                        StoreErrorKind::Unreachable,
                        format!("{} closed the connection", self.place),
                    ));
                }
                Ok((_, count)) => {
                    self.filled += count;
                    let used = self.session.feed(&self.input[..self.filled], &mut self.out, done);
                    self.input.copy_within(used..self.filled, 0);
                    self.filled -= used;
                    moved = true;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(self.lost(&error.into())),
            }
        }
        Ok(moved)
    }

    fn lost(&self, error: &std::io::Error) -> StoreError {
        StoreError::new(StoreErrorKind::Unreachable, format!("the connection to {} was lost: {error}", self.place))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Polite, not necessary: a server that does not hear it sees the socket close.
        let mut goodbye = Vec::new();
        self.session.close(&mut goodbye);
        let _ = send(&self.socket, &goodbye, SendFlags::NOSIGNAL);
    }
}

/// What the server said no to, classed by SQLSTATE.
pub(crate) fn rejected(place: &str, answer: &Answer) -> StoreError {
    let kind = match answer.code.as_str() {
        "42501" => StoreErrorKind::Permission,
        "53100" => StoreErrorKind::DiskFull,
        code if code.starts_with("57P0") || code.starts_with("08") => StoreErrorKind::Unreachable,
        code if code.starts_with("XX") || code.starts_with("58") => StoreErrorKind::Broken,
        _ => StoreErrorKind::Store,
    };
    StoreError::new(kind, format!("{place} says: {}", answer.message)).detail(answer.code.clone())
}

fn connect(address: &Address, place: &str, timeout: Duration) -> Result<OwnedFd, StoreError> {
    let nobody = |error: &std::io::Error| {
        let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        let kind = if denied { StoreErrorKind::Permission } else { StoreErrorKind::Unreachable };
        StoreError::new(kind, format!("nobody can be reached at {place}"))
            .detail(error.to_string())
            .next("Check host, port and socket directory, and that the server runs and listens there.")
    };
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(|error| nobody(&error))?;
            stream.set_nonblocking(true).map_err(|error| nobody(&error))?;
            Ok(stream.into())
        }
        Address::Tcp(host, port) => {
            let resolved = (host.as_str(), *port).to_socket_addrs().map_err(|error| nobody(&error))?;
            let mut failure = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
            for address in resolved {
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => {
                        let set = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
                        set.map_err(|error| nobody(&error))?;
                        return Ok(stream.into());
                    }
                    Err(error) => failure = error,
                }
            }
            Err(nobody(&failure))
        }
    }
}
