//! Session of the wire executor: its connection, the state of that, and the bytes that are still to be sent.

use std::convert::Infallible;
use std::os::fd::OwnedFd;

use plimsoll_core::{Answer, CompletionSink, OpKind, Outcome, WireClient, WireSession};
use rustix::io::Errno;

use crate::backoff::Attempts;
use crate::place::ResolvedAddress;

/// Time after which a connection has lasted.
pub(crate) const LASTED_NS: u64 = 10_000_000;
/// Wait before the next try to get into a server's full queue.
pub(crate) const QUEUE_NS: u64 = 10_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LostConnections {
    pub count: u64,
    /// Times of the first loss and of the last.
    pub between_ns: Option<(u64, u64)>,
}

impl LostConnections {
    /// Counts a connection that was lost at `at_ns`.
    #[cold]
    pub fn note(&mut self, at_ns: u64) {
        self.add(Self { count: 1, between_ns: Some((at_ns, at_ns)) });
    }

    /// Adds connections that were lost elsewhere.
    pub fn add(&mut self, more: Self) {
        self.count += more.count;
        self.between_ns = match (self.between_ns, more.between_ns) {
            (Some(own), Some(more)) => Some((own.0.min(more.0), own.1.max(more.1))),
            (own, more) => own.or(more),
        };
    }
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No connection; the next attempt is at this time.
    Down { retry_ns: u64 },
    /// The socket is being connected.
    Connecting,
    /// The session greets, authenticates or prepares.
    Opening,
    /// The session takes operations.
    Ready,
}

/// A connection to one server. Its socket is with the [`crate::reactor`].
pub(crate) struct ServerConnection {
    pub place: ResolvedAddress,
    pub stage: Stage,
    /// Start of the stage.
    pub since_ns: u64,
    /// Start of its last attempt.
    pub begun_ns: u64,
    /// Time of its loss, until it is back.
    pub lost_ns: Option<u64>,
    /// Time at which it ended while nothing was in flight, until it is back: lost if that fails.
    pub idle_end_ns: Option<u64>,
    pub attempts: Attempts,
    /// Tries since the last success; says which address is next.
    tries: usize,
    /// Bytes that arrived and that the session could not use yet.
    rest: Vec<u8>,
}

impl ServerConnection {
    pub fn new(place: ResolvedAddress, attempts: Attempts) -> Self {
        Self {
            place,
            stage: Stage::Down { retry_ns: 0 },
            since_ns: 0,
            begun_ns: 0,
            lost_ns: None,
            idle_end_ns: None,
            attempts,
            tries: 0,
            rest: Vec::new(),
        }
    }

    /// Moves on to `stage`.
    pub fn enter(&mut self, stage: Stage, now_ns: u64) {
        self.stage = stage;
        self.since_ns = now_ns;
    }

    /// Begins it.
    pub fn connect(&mut self, now_ns: u64) -> Result<OwnedFd, Errno> {
        self.tries += 1;
        self.begun_ns = now_ns;
        let socket = self.place.connect(self.tries - 1)?;
        self.enter(Stage::Connecting, now_ns);
        Ok(socket)
    }

    /// True while another of the host's addresses has not been tried.
    pub fn has_another_address(&self) -> bool {
        self.tries < self.place.targets.len()
    }

    /// Marks the connection as usable. Returns the time for which it was lost.
    pub fn ready(&mut self, now_ns: u64) -> u64 {
        self.enter(Stage::Ready, now_ns);
        self.attempts.succeeded();
        // The address that worked is tried first next time.
        self.tries = self.tries.saturating_sub(1);
        let down_ns = self.down_ns(now_ns);
        self.lost_ns = None;
        self.idle_end_ns = None;
        down_ns
    }

    /// Returns true if the connection stood for some time. The next one to a server that ends each at once would not
    /// last either.
    pub fn has_lasted(&self, now_ns: u64) -> bool {
        self.stage == Stage::Ready && now_ns.saturating_sub(self.since_ns) >= LASTED_NS
    }

    /// Returns the time since its loss.
    pub fn down_ns(&self, now_ns: u64) -> u64 {
        self.lost_ns.map_or(0, |lost_ns| now_ns.saturating_sub(lost_ns))
    }

    /// Drops data in transit, and waits before the next attempt.
    pub fn lose(&mut self, now_ns: u64) {
        self.rest.clear();
        let retry_ns = now_ns + self.attempts.wait_ns();
        self.enter(Stage::Down { retry_ns }, now_ns);
        self.lost_ns.get_or_insert(now_ns);
    }

    /// Returns the time at which a connection ended that is lost after all: nothing was in flight, and its server takes
    /// no other one.
    pub fn lose_after_idle(&mut self) -> Option<u64> {
        let ended_ns = self.idle_end_ns.take()?;
        self.lost_ns.get_or_insert(ended_ns);
        Some(ended_ns)
    }

    /// Drops data in transit; the next attempt is immediate, and nothing was lost.
    pub fn ended(&mut self, now_ns: u64) {
        self.rest.clear();
        self.enter(Stage::Down { retry_ns: now_ns }, now_ns);
    }

    /// Passes the input to `take`, with the rest of the input before. It returns the number of bytes used.
    #[inline]
    pub fn feed<E>(&mut self, arrived: &[u8], take: impl FnOnce(&[u8]) -> Result<usize, E>) -> Result<(), E> {
        if self.rest.is_empty() {
            let used = take(arrived)?;
            if used < arrived.len() {
                self.rest.extend_from_slice(&arrived[used..]);
            }
        } else {
            self.rest.extend_from_slice(arrived);
            let used = take(&self.rest)?;
            self.rest.drain(..used.min(self.rest.len()));
        }
        Ok(())
    }
}

/// A session with its buffers.
pub(crate) struct SessionLink {
    pub connection: ServerConnection,
    pub session: Box<dyn WireSession>,
    /// The session has several connections of its own, and none here.
    pub is_branched: bool,
    /// Time at which an operation was first given up since the last answered one.
    pub silent_since_ns: Option<u64>,
    /// Bytes to send.
    pub out: Vec<u8>,
    /// Sending failed: what the server said before is still listened to.
    pub hung_up: Option<HungUp>,
    /// Since when the server's queue has been full.
    queues_since_ns: Option<u64>,
    /// Operations that this connection is still to do, where another is to follow it then.
    pub left: u32,
    /// Time at which operations are sent again that the server has put off.
    pub again_ns: Option<u64>,
    /// True if the server has put operations off, and has answered none since.
    pub is_putting_off: bool,
    /// The newest answer by which the server has put an operation off.
    pub refusal: Option<Box<Answer>>,
}

/// A connection on which sending failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HungUp {
    pub errno: Errno,
    /// Pieces of the server's data that are still read: a server may continue to send without reading.
    pub pieces_left: u32,
}

impl SessionLink {
    pub fn new(mut client: WireClient, place: ResolvedAddress, attempts: Attempts) -> Self {
        Self {
            connection: ServerConnection::new(place, attempts),
            is_branched: client.session.branches().is_some(),
            session: client.session,
            silent_since_ns: None,
            out: Vec::with_capacity(1024),
            hung_up: None,
            queues_since_ns: None,
            left: 0,
            again_ns: None,
            is_putting_off: false,
            refusal: None,
        }
    }

    /// Notes that the server has put operations off by `refusal`. Returns the time at which they are sent again, after a
    /// wait as between connections.
    #[cold]
    pub fn put_off(&mut self, now_ns: u64, refusal: &Answer) -> u64 {
        self.is_putting_off = true;
        self.refusal.get_or_insert_default().fail(Outcome::Rejected, &refusal.code, &refusal.message);
        let attempts = &mut self.connection.attempts;
        *self.again_ns.get_or_insert_with(|| now_ns + attempts.wait_ns())
    }

    /// Notes that the server begins operations again.
    #[cold]
    pub fn takes_again(&mut self) {
        self.is_putting_off = false;
        self.connection.attempts.succeeded();
    }

    /// Begins a connection.
    pub fn connect(&mut self, now_ns: u64) -> Result<OwnedFd, Errno> {
        let socket = self.connection.connect(now_ns)?;
        self.queues_since_ns = None;
        Ok(socket)
    }

    /// A session over several connections begins; those are its [`crate::wire`]'s business.
    pub fn begin(&mut self, now_ns: u64, kinds: &[OpKind]) {
        self.connection.begun_ns = now_ns;
        self.connected(now_ns, kinds);
        self.queues_since_ns = None;
    }

    /// Waits a little before the next try to get into the server's queue; false when that has been too long.
    pub fn queues_again(&mut self, now_ns: u64, timeout_ns: u64) -> bool {
        let since_ns = *self.queues_since_ns.get_or_insert(now_ns);
        self.connection.stage = Stage::Down { retry_ns: now_ns + QUEUE_NS };
        now_ns.saturating_sub(since_ns) < timeout_ns
    }

    /// The connection stands: the session greets.
    pub fn connected(&mut self, now_ns: u64, kinds: &[OpKind]) {
        self.connection.enter(Stage::Opening, now_ns);
        self.session.open(kinds, &mut self.out);
    }

    /// The server ended the connection; the next one is begun at once.
    pub fn ended(&mut self, now_ns: u64) {
        self.forget();
        self.connection.ended(now_ns);
    }

    /// The connection is lost, and tried again after a while.
    pub fn lose_connection(&mut self, now_ns: u64) {
        self.forget();
        self.connection.lose(now_ns);
    }

    fn forget(&mut self) {
        self.out.clear();
        self.hung_up = None;
        self.queues_since_ns = None;
        self.again_ns = None;
    }

    /// Passes the input to the session.
    #[inline]
    pub fn feed(&mut self, arrived: &[u8], done: &mut dyn CompletionSink) {
        let Self { connection, session, out, .. } = self;
        let Ok(()) = connection.feed(arrived, |bytes| Ok::<_, Infallible>(session.feed(bytes, out, done)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_several_workers_are_between_the_first_and_the_last_of_all() {
        let mut all = LostConnections::default();
        all.add(LostConnections::default());
        assert_eq!((all.count, all.between_ns), (0, None));
        let (mut one, mut other) = (all, all);
        [7, 5].into_iter().for_each(|at_ns| one.note(at_ns));
        other.note(6);
        for worker in [one, LostConnections::default(), other] {
            all.add(worker);
        }
        assert_eq!((all.count, all.between_ns), (3, Some((5, 7))));
    }
}
