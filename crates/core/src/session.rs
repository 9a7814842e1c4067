//! Connections to a store, in the shapes that `drive` supports.

use std::borrow::Cow;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::StoreError;
use crate::op::{Answer, Op, OpKind, Outcome, Ticket};
use crate::tally::AnswerTally;

/// A connection whose calls return when they are done. Embedded stores have it.
pub trait BlockingSession: Send {
    /// Prepares the operation types of the phase. Called once, before the first operation.
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError>;

    /// Executes one operation. `answer` is empty on entry. Must not retry silently.
    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome;

    /// Requests since the session was made that the server had refused to begin, and that were sent again.
    fn asked_again(&self) -> u64 {
        0
    }
}

/// Work of an [`AsyncSession`], polled on the worker's thread.
pub type SessionFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A connection over a third-party asynchronous client. Its futures run on a tokio runtime of the worker's thread,
/// which has sockets and no timers (`tokio::time`): the executor keeps time, and drops a future that takes too long.
pub trait AsyncSession: Send {
    /// Connects, or reconnects without any earlier state; prepares the operation types of the phase.
    fn open<'a>(&'a mut self, kinds: &'a [OpKind]) -> SessionFuture<'a, Result<(), StoreError>>;

    /// Limits the bytes that are kept of one answer; [`ANSWER_BYTES_MAX`] by default. A longer answer is
    /// [`Outcome::Unknown`] at most.
    fn limit_answers(&mut self, bytes_max: usize);

    /// Starts one operation. Must copy from `op` before it returns. `answer` is empty on entry. Must not retry
    /// silently. If the future is dropped, the operation is unknown, and [`AsyncSession::open`] is called next.
    fn execute<'a>(&'a mut self, op: &Op<'_>, answer: &'a mut Answer) -> SessionFuture<'a, Outcome>;

    /// The server's address for messages, without credentials.
    fn place(&self) -> &str;

    /// The server that the session is connected to, or will be next, if the store has several.
    fn address(&self) -> Option<Address> {
        None
    }

    /// The reason why [`AsyncSession::open`] is needed before the next operation; `None` if it is not.
    fn lost(&self) -> Option<StoreError>;

    /// Ready once the server has ended the connection. Polled between operations, so that the next operation does not
    /// meet a connection that is gone.
    fn poll_ended(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Requests since the session was made that the server had refused to begin, and that were sent again.
    fn asked_again(&self) -> u64 {
        0
    }
}

/// The address on which a wire session's server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix-domain socket.
    Unix(PathBuf),
    /// A host name or address and a port.
    Tcp(String, u16),
}

/// State of a wire session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WireState {
    /// Greeting, authenticating or preparing: needs more bytes.
    #[default]
    Opening,
    /// Accepts operations. A protocol without a greeting may start in this state.
    Ready,
    /// The server has closed the connection, as its protocol allows at any time. This is no error: another connection
    /// is opened immediately. Operations in flight have been reported.
    Ended,
    /// Unusable until [`WireSession::open`]; carries the reason.
    Failed(StoreError),
}

/// Receives the operations that arriving bytes completed.
pub trait CompletionSink {
    /// Reports that the operation of `ticket` ended with `outcome`; `answer` is read before the call returns.
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer);

    /// Reports that the server, which ends the connection, has not begun the operation of `ticket`. Returns true if it will
    /// be started again on the next connection; otherwise its end has to be reported.
    fn not_begun(&mut self, _ticket: Ticket) -> bool {
        false
    }

    /// Reports that the server has not begun the operation of `ticket`, and continues the connection. Returns true if it
    /// will be started again after a wait; otherwise its end has to be reported. `refusal` has the server's code and
    /// message, and is read before the call returns: an operation that cannot be started again in time ends with it.
    fn put_off(&mut self, _ticket: Ticket, _refusal: &Answer) -> bool {
        false
    }
}

/// Default limit of the bytes that a session keeps of one answer.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A protocol without I/O: bytes in, bytes out. The executor owns the socket, partial writes and resets.
pub trait WireSession: Send {
    /// Begins a new connection: forgets all state and appends the greeting to `out`. The session prepares `kinds`
    /// before it becomes [`WireState::Ready`].
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>);

    /// The current state. Cheap.
    fn state(&self) -> &WireState;

    /// Limits the bytes that are kept of one answer; [`ANSWER_BYTES_MAX`] by default. A longer answer ends the
    /// connection with [`StoreError::answer_too_large`] as soon as its length is known, or that many bytes have
    /// passed. Parts of an answer that are not kept may have any length.
    fn limit_answers(&mut self, bytes_max: usize);

    /// Most operations in flight; 1 if the protocol has no pipeline.
    fn depth_max(&self) -> u32;

    /// Appends the bytes that send an operation.
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>);

    /// Appends the request for a reply, after operations that were started with [`Op::more`] and that no other
    /// follows immediately. Called before those bytes are sent.
    fn flush(&mut self, _out: &mut Vec<u8>) {}

    /// Consumes received bytes, reports completed operations, and may append more to send (authentication,
    /// transactions of several round trips). Returns the number of bytes used; the executor keeps the rest and offers
    /// it again with the next bytes.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize;

    /// Appends the bytes of an orderly disconnect.
    fn close(&mut self, out: &mut Vec<u8>);

    /// Requests since the session was made that the server had refused to begin, and that were sent again.
    fn asked_again(&self) -> u64 {
        0
    }

    /// Counts of the answers since the session was made, if the protocol has a status for each.
    fn tally(&self) -> Option<Cow<'_, AnswerTally>> {
        None
    }

    /// Number of parts into which the store divides its keys, at most [`KEY_PARTS_MAX`](crate::KEY_PARTS_MAX); 0 if the
    /// session does not know them. Constant.
    fn key_parts(&self) -> u8 {
        0
    }

    /// Part of the keys of the operation that was started last, from 0. Cheap.
    fn key_part(&self) -> u8 {
        0
    }

    /// True if its connections may change to another server: see [`WireSession::next_address`].
    fn moves(&self) -> bool {
        false
    }

    /// Address of the next connection, for a session that [`WireSession::moves`]. Called once before each connection;
    /// must not block.
    fn next_address(&mut self) -> Option<Address> {
        None
    }

    /// The connections of a session that speaks to several servers at a time, in place of the single connection of
    /// others; `None` for those.
    fn branches(&mut self) -> Option<&mut dyn Branches> {
        None
    }
}

/// The connections of a [`WireSession`] that has several, numbered from 0.
///
/// [`WireSession::feed`] and [`WireSession::close`] are never called on such a session; [`WireSession::open`] and
/// [`WireSession::start`] append nothing to the buffer that they are given. After each call on the session or its
/// branches, the executor fulfils [`Branches::next_wish`] until there is no more wish.
pub trait Branches {
    /// Most connections at any time. Constant.
    fn count_max(&self) -> usize;

    /// The next action for the executor.
    fn next_wish(&mut self) -> Option<Wish>;

    /// Reports that the connection is established: the branch appends its greeting.
    fn connected(&mut self, branch: usize);

    /// Processes bytes of a branch, as [`WireSession::feed`].
    ///
    /// # Errors
    /// The reason why this connection is unusable. [`Branches::lost`] is called for it next.
    fn feed(&mut self, branch: usize, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<usize, StoreError>;

    /// Reports that the connection was lost, or could not be made; operations in flight on it are unknown. The
    /// executor tries again after a while, unless the session has withdrawn its wish.
    fn lost(&mut self, branch: usize, error: &StoreError, done: &mut dyn CompletionSink);

    /// Address of the server that all operations in flight wait for; `None` if they wait for several, or for none.
    fn awaited(&self) -> Option<&Address> {
        None
    }

    /// Bytes to send on the connection; the executor removes those that it has sent.
    fn out(&mut self, branch: usize) -> &mut Vec<u8>;
}

/// A request of a session for one of its [`Branches`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Connect to this server, and again whenever the connection is lost.
    Connect {
        /// Number of the branch.
        branch: usize,
        /// Address on which its server listens.
        address: Address,
    },
    /// Close the connection, and do not reconnect.
    Close {
        /// Number of the branch.
        branch: usize,
    },
    /// Send the bytes of [`Branches::out`].
    Send {
        /// Number of the branch.
        branch: usize,
    },
}

/// A wire session and the address of its server.
pub struct WireClient {
    /// Address on which its server listens.
    pub address: Address,
    /// The session's protocol.
    pub session: Box<dyn WireSession>,
}

/// The shape of a store's sessions, known before any is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionShape {
    /// [`Sessions::Blocking`].
    Blocking,
    /// [`Sessions::Instant`].
    Instant,
    /// [`Sessions::Async`].
    Async,
    /// [`Sessions::Wire`]; [`Sessions::Blocking`] if `keyindex` keeps the indexes.
    Wire,
}

/// Shape of a store's sessions, and the resources of this process that each takes. Known before any is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSpec {
    /// The sessions' shape.
    pub shape: SessionShape,
    /// Bytes of memory of one session, as measured with many of them.
    pub bytes: u64,
    /// File descriptors of one session.
    pub descriptors: u32,
    /// Parameters of the store that multiply both: the number of servers that each session connects to. A parameter
    /// with a word as its value counts as two unless it has its default.
    pub times: &'static [&'static str],
    /// Parameter of the store that limits the number of sessions of a private server.
    pub bounded_by: Option<&'static str>,
}

impl SessionSpec {
    /// Creates a spec for sessions of `shape` with one connection and `bytes` of memory each, in any number.
    pub const fn new(shape: SessionShape, bytes: u64) -> Self {
        Self { shape, bytes, descriptors: 1, times: &[], bounded_by: None }
    }
}

/// The sessions of one phase, all of one shape.
pub enum Sessions {
    /// A thread for each.
    Blocking(Vec<Box<dyn BlockingSession>>),
    /// Many to a worker: their calls never block.
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

    /// The sessions' shape.
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
