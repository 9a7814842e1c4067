//! Connections to a store, in the shapes that `drive` can run.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use crate::error::StoreError;
use crate::op::{Answer, Op, OpKind, Outcome, Ticket};

/// A connection whose calls return when they are done: embedded stores.
pub trait BlockingSession: Send {
    /// Prepares the kinds that will be asked. Called once, before the first operation.
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError>;

    /// Does one operation. `answer` is empty on entry. Must not retry in silence.
    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome;
}

/// Work of an [`AsyncSession`] that goes on when it is polled, on the worker's thread.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A connection over somebody else's asynchronous client. Its futures run on a tokio runtime of the worker's thread, which
/// has sockets and no timers (`tokio::time`): the executor keeps time, and drops a future that takes too long.
pub trait AsyncSession: Send {
    /// Connects, or connects anew and forgets all state; prepares the kinds that will be asked.
    fn open<'a>(&'a mut self, kinds: &'a [OpKind]) -> Pending<'a, Result<(), StoreError>>;

    /// Keeps at most so many bytes of one answer, [`ANSWER_BYTES_MAX`] if never told; a longer one is
    /// [`Outcome::Unknown`] at most.
    fn limit_answers(&mut self, bytes_max: usize);

    /// Begins one operation, and takes from `op` what it needs before it returns. `answer` is empty on entry. Must not
    /// retry in silence. Where the future is dropped, the operation is unknown, and [`AsyncSession::open`] is called next.
    fn execute<'a>(&'a mut self, op: &Op<'_>, answer: &'a mut Answer) -> Pending<'a, Outcome>;

    /// Where it connects to, for messages; without credentials.
    fn place(&self) -> &str;

    /// The server that it is connected to, or will be next, where that is one of several.
    fn address(&self) -> Option<Address> {
        None
    }

    /// Why it takes no further operation without [`AsyncSession::open`]; `None` while it does.
    fn lost(&self) -> Option<StoreError>;
}

/// Where a wire session's server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix-domain socket.
    Unix(PathBuf),
    /// A host name or address and a port.
    Tcp(String, u16),
}

/// How far a wire session has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WireState {
    /// Greeting, authenticating or preparing: feed it.
    #[default]
    Opening,
    /// Takes operations. A protocol without a greeting may say so as soon as it is opened.
    Ready,
    /// The server has ended the connection, as its protocol lets it at any time: nothing is wrong, and
    /// another connection is to be opened at once. What was in flight has been reported.
    Ended,
    /// Will not work again without [`WireSession::open`]; says why.
    Failed(StoreError),
}

/// Receives the operations that an arriving piece of bytes completed.
pub trait Done {
    /// The operation known by `ticket` came to `outcome`; `answer` is read before the call returns.
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer);
}

/// Most bytes of one answer that a session keeps, unless it is told otherwise.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A protocol without I/O: bytes in, bytes out. The executor owns the socket, partial writes and resets.
pub trait WireSession: Send {
    /// Begins a new connection: forgets all state and appends the greeting to `out`. `kinds` are
    /// prepared before the session says [`WireState::Ready`].
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>);

    /// How far it has come. Cheap.
    fn state(&self) -> &WireState;

    /// Keeps at most so many bytes of one answer, [`ANSWER_BYTES_MAX`] if never told. An answer that is longer ends the
    /// connection with [`StoreError::answer_too_large`], as soon as its length is known, or that many bytes have passed.
    /// What nobody wants of an answer is not kept, and may be of any length.
    fn limit_answers(&mut self, bytes_max: usize);

    /// Most operations it takes before one must have been answered; 1 where the protocol has no pipeline.
    fn depth_max(&self) -> u32;

    /// Appends the bytes that start an operation.
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>);

    /// Nothing follows at once any more after an operation that was started with [`Op::more`]: appends what asks the
    /// server for its answer. Called before what was started is sent.
    fn flush(&mut self, _out: &mut Vec<u8>) {}

    /// Takes what arrived, reports what it completed, and may append more to send (authentication,
    /// transactions of several round trips). Returns the number of bytes it used; the executor keeps the
    /// rest and offers it again with what comes after.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize;

    /// Appends the bytes of a polite good-bye.
    fn close(&mut self, out: &mut Vec<u8>);

    /// Whether its connections may go to one server after the other: [`WireSession::next_address`] says where.
    fn moves(&self) -> bool {
        false
    }

    /// Where the next connection is to go, of a session that [`WireSession::moves`]: asked once before each. It must not wait
    /// for anything.
    fn next_address(&mut self) -> Option<Address> {
        None
    }

    /// The connections of a session that speaks to several servers at a time, which has them in place of the one
    /// that others have; `None` for those.
    fn branches(&mut self) -> Option<&mut dyn Branches> {
        None
    }
}

/// What a [`WireSession`] with several connections does over each of them. Known by their numbers, from 0 on.
///
/// Of such a session [`WireSession::feed`] and [`WireSession::close`] are never called; [`WireSession::open`] and
/// [`WireSession::start`] append nothing to what they are handed. After each call, to it or to them, the executor does
/// what [`Branches::next_wish`] says, until it says nothing more.
pub trait Branches {
    /// Most connections that it ever has. Does not change.
    fn count_max(&self) -> usize;

    /// What the executor is to do next.
    fn next_wish(&mut self) -> Option<Wish>;

    /// The connection stands: greet.
    fn connected(&mut self, branch: usize);

    /// As [`WireSession::feed`].
    ///
    /// # Errors
    /// Why this connection is of no more use. [`Branches::lost`] is called for it next.
    fn feed(&mut self, branch: usize, bytes: &[u8], done: &mut dyn Done) -> Result<usize, StoreError>;

    /// The connection is lost, or did not come about; what is in flight there is unknown. The executor tries again
    /// after a while, unless that is not wished any more.
    fn lost(&mut self, branch: usize, error: &StoreError, done: &mut dyn Done);

    /// What is to be sent there; the executor removes what it has sent.
    fn out(&mut self, branch: usize) -> &mut Vec<u8>;
}

/// What a session wishes for one of its [`Branches`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A connection to this server, and another one whenever that is lost.
    Connect {
        /// Which.
        branch: usize,
        /// Where its server listens.
        address: Address,
    },
    /// No connection any more.
    Close {
        /// Which.
        branch: usize,
    },
    /// That is sent what stands in [`Branches::out`].
    Send {
        /// Which.
        branch: usize,
    },
}

/// A wire session and where to connect it.
pub struct WireClient {
    /// Where its server listens.
    pub address: Address,
    /// Its protocol.
    pub session: Box<dyn WireSession>,
}

/// How the sessions of a store are driven: known before any is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionShape {
    /// [`Sessions::Blocking`].
    Blocking,
    /// [`Sessions::Instant`].
    Instant,
    /// [`Sessions::Async`].
    Async,
    /// [`Sessions::Wire`]; [`Sessions::Blocking`] where `keyindex` keeps the indexes.
    Wire,
}

/// What sessions of a store are, and what one takes of this process: known before any is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSpec {
    /// How they are driven.
    pub shape: SessionShape,
    /// Bytes of memory, as measured with many of them.
    pub bytes: u64,
    /// File descriptors.
    pub descriptors: u32,
    /// The store's parameters that multiply both: how many servers a session has a connection to each of; a word, which
    /// stands for two where it is not the default.
    pub times: &'static [&'static str],
    /// The store's parameter that says how many sessions one of our own takes.
    pub bounded_by: Option<&'static str>,
}

impl SessionSpec {
    /// Sessions of `shape` with one connection that take so many `bytes` each, as many as anybody wants.
    pub const fn new(shape: SessionShape, bytes: u64) -> Self {
        Self { shape, bytes, descriptors: 1, times: &[], bounded_by: None }
    }
}

/// The sessions of one phase, all of one shape.
pub enum Sessions {
    /// One thread each.
    Blocking(Vec<Box<dyn BlockingSession>>),
    /// Many to a worker: their calls never wait for anything.
    Instant(Vec<Box<dyn BlockingSession>>),
    /// Many to a worker, each a task of its runtime.
    Async(Vec<Box<dyn AsyncSession>>),
    /// Many to a worker.
    Wire(Vec<WireClient>),
}

impl Sessions {
    /// Number of sessions.
    pub fn len(&self) -> usize {
        match self {
            Sessions::Blocking(all) | Sessions::Instant(all) => all.len(),
            Sessions::Async(all) => all.len(),
            Sessions::Wire(all) => all.len(),
        }
    }

    /// How they are driven.
    pub fn shape(&self) -> SessionShape {
        match self {
            Sessions::Blocking(_) => SessionShape::Blocking,
            Sessions::Instant(_) => SessionShape::Instant,
            Sessions::Async(_) => SessionShape::Async,
            Sessions::Wire(_) => SessionShape::Wire,
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
