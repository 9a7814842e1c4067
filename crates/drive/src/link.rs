//! One session of the wire executor: where its server listens, how far its connection has come, and the bytes that
//! it has not used or that are still to be sent.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use plimsoll_core::{Address, OpKind, StoreError, StoreErrorKind, WireClient, WireSession};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

/// First and longest wait before a lost connection is tried again.
pub(crate) const BACKOFF_NS: std::ops::Range<u64> = 10_000_000..1_000_000_000;

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// None; the next try is at this time.
    Down { retry_ns: u64 },
    /// The socket is being connected.
    Connecting,
    /// The session greets, authenticates or prepares.
    Opening,
    /// The session takes operations.
    Ready,
}

/// An address as the kernel wants it, with the words that name it in errors.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    name: String,
    targets: Vec<PlaceTarget>,
}

#[derive(Debug, Clone)]
enum PlaceTarget {
    Unix(SocketAddrUnix),
    Tcp(SocketAddr),
}

impl Place {
    /// Looks the address up. May take as long as the system's resolver does.
    pub fn resolve(address: &Address) -> Result<Place, StoreError> {
        match address {
            Address::Unix(path) => {
                let name = path.display().to_string();
                let target = SocketAddrUnix::new(path.as_path()).map_err(|errno| {
                    StoreError::new(StoreErrorKind::Usage, format!("{name} cannot be a socket's path: {errno}"))
                        .next("use a directory with a shorter path (at most 107 bytes with the socket's name)")
                })?;
                Ok(Place { name, targets: vec![PlaceTarget::Unix(target)] })
            }
            Address::Tcp(host, port) => {
                let name = format!("{host}:{port}");
                let unknown = |detail: String| {
                    StoreError::new(StoreErrorKind::Unreachable, format!("the host name {host} cannot be resolved"))
                        .detail(detail)
                        .next("check the host's name")
                };
                let targets: Vec<_> = (host.as_str(), *port)
                    .to_socket_addrs()
                    .map_err(|error| unknown(error.to_string()))?
                    .map(PlaceTarget::Tcp)
                    .collect();
                if targets.is_empty() {
                    return Err(unknown("it has no address".to_owned()));
                }
                Ok(Place { name, targets })
            }
        }
    }

    /// A host with several addresses.
    #[cfg(test)]
    pub fn of_addresses(addresses: &[SocketAddr]) -> Place {
        Place { name: "several".to_owned(), targets: addresses.iter().copied().map(PlaceTarget::Tcp).collect() }
    }

    /// Begins a connection to one address after the other, as `tries` counts up. The socket does not block.
    pub fn connect(&self, tries: usize) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, connected) = match &self.targets[tries % self.targets.len()] {
            PlaceTarget::Unix(address) => {
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                let connected = connect(&socket, address);
                (socket, connected)
            }
            PlaceTarget::Tcp(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = socket_with(family, SocketType::STREAM, flags, None)?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                let connected = connect(&socket, address);
                (socket, connected)
            }
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }

    /// An error of the operating system at this place.
    pub fn error(&self, errno: Errno) -> StoreError {
        let mut error = StoreError::io(&self.name, &errno.into());
        if matches!(errno, Errno::NOENT | Errno::CONNREFUSED | Errno::TIMEDOUT | Errno::CONNRESET) {
            error.kind = StoreErrorKind::Unreachable;
        }
        match errno {
            Errno::NOENT | Errno::CONNREFUSED => error.next("check that the server runs and listens there"),
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
        let seconds = waited_ns as f64 / 1e9;
        StoreError::new(StoreErrorKind::Unreachable, format!("{}: no session within {seconds} s", self.name)).next(
            "check that the server is not overloaded and speaks this protocol; where it only needs longer, raise \
                 setup_timeout",
        )
    }

    /// The server has not answered an operation in time.
    pub fn unanswered(&self, waited_ns: u64) -> StoreError {
        let seconds = waited_ns as f64 / 1e9;
        StoreError::new(StoreErrorKind::Unreachable, format!("{}: no answer within {seconds} s", self.name))
            .next("see in the server's log why; where it only needs longer, raise op_timeout (of a load: load_timeout)")
    }
}

/// A session with its buffers. Its socket is with the [`crate::reactor`].
pub(crate) struct Link {
    pub place: Place,
    pub session: Box<dyn WireSession>,
    /// The session has several connections of its own, and none here.
    pub is_branched: bool,
    pub stage: Stage,
    /// When the stage began.
    pub since_ns: u64,
    /// When the connection was lost, while there is none.
    pub lost_ns: Option<u64>,
    /// When an operation was first given up since the last one that was answered.
    pub silent_since_ns: Option<u64>,
    /// Bytes to send.
    pub out: Vec<u8>,
    /// Bytes that arrived and that the session could not use yet.
    rest: Vec<u8>,
    /// Sending failed: what the server said before is still listened to.
    pub hung_up: Option<HungUp>,
    /// Since when the server's queue has been full.
    queues_since_ns: Option<u64>,
    backoff_ns: u64,
    /// Tries since the last success; says which address is next.
    tries: usize,
}

/// A connection on which sending failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HungUp {
    pub errno: Errno,
    /// How many more pieces of what the server said are listened to: it may talk on without listening.
    pub pieces_left: u32,
}

impl Link {
    pub fn new(mut client: WireClient, place: Place) -> Self {
        Self {
            place,
            is_branched: client.session.branches().is_some(),
            session: client.session,
            stage: Stage::Down { retry_ns: 0 },
            since_ns: 0,
            lost_ns: None,
            silent_since_ns: None,
            out: Vec::with_capacity(1024),
            rest: Vec::new(),
            hung_up: None,
            queues_since_ns: None,
            backoff_ns: BACKOFF_NS.start,
            tries: 0,
        }
    }

    /// Begins a connection.
    pub fn connect(&mut self, now_ns: u64) -> Result<OwnedFd, Errno> {
        self.tries += 1;
        let socket = self.place.connect(self.tries - 1)?;
        self.stage = Stage::Connecting;
        self.since_ns = now_ns;
        self.queues_since_ns = None;
        Ok(socket)
    }

    /// A session over several connections begins; those are its [`crate::wire`]'s business.
    pub fn begin(&mut self, now_ns: u64, kinds: &[OpKind]) {
        self.connected(now_ns, kinds);
        self.queues_since_ns = None;
    }

    /// Waits a little before the next try to get into the server's queue; false when that has been too long.
    pub fn queues_again(&mut self, now_ns: u64, open_timeout_ns: u64) -> bool {
        let since_ns = *self.queues_since_ns.get_or_insert(now_ns);
        self.stage = Stage::Down { retry_ns: now_ns + BACKOFF_NS.start };
        now_ns.saturating_sub(since_ns) < open_timeout_ns
    }

    /// True while another of the host's addresses has not been tried.
    pub fn has_another_address(&self) -> bool {
        self.tries < self.place.targets.len()
    }

    /// The connection stands: the session greets.
    pub fn connected(&mut self, now_ns: u64, kinds: &[OpKind]) {
        self.stage = Stage::Opening;
        self.since_ns = now_ns;
        self.session.open(kinds, &mut self.out);
    }

    /// The session takes operations.
    pub fn ready(&mut self, now_ns: u64) {
        self.stage = Stage::Ready;
        self.since_ns = now_ns;
        self.backoff_ns = BACKOFF_NS.start;
        // The address that worked is tried first next time.
        self.tries = self.tries.saturating_sub(1);
    }

    /// Forgets what was on its way; the next connection is begun at once.
    pub fn ended(&mut self, now_ns: u64) {
        self.forget();
        self.stage = Stage::Down { retry_ns: now_ns };
        self.since_ns = now_ns;
    }

    fn forget(&mut self) {
        self.out.clear();
        self.rest.clear();
        self.hung_up = None;
        self.queues_since_ns = None;
    }

    /// Forgets what was on its way and waits before the next try, longer each time.
    pub fn drop_connection(&mut self, now_ns: u64) {
        self.forget();
        self.stage = Stage::Down { retry_ns: now_ns + self.backoff_ns };
        self.backoff_ns = (self.backoff_ns * 2).min(BACKOFF_NS.end);
        self.since_ns = now_ns;
        self.lost_ns.get_or_insert(now_ns);
    }

    /// Hands the session what arrived, with what it left over before.
    #[inline]
    pub fn feed(&mut self, arrived: &[u8], done: &mut dyn plimsoll_core::Done) {
        if self.rest.is_empty() {
            let used = self.session.feed(arrived, &mut self.out, done);
            if used < arrived.len() {
                self.rest.extend_from_slice(&arrived[used..]);
            }
        } else {
            self.rest.extend_from_slice(arrived);
            let used = self.session.feed(&self.rest, &mut self.out, done);
            self.rest.drain(..used);
        }
    }
}
