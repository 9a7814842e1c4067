//! A wire session that a store gave out, asked over a socket without the drive loop; and statements to ask it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plimsoll_core::{
    Address, Answer, Call, Op, OpKind, Outcome, StoreError, Ticket, Value, ValueBuf, ValueType, WireClient,
    WireSession, WireState,
};

use crate::allocations::{ROUNDS, none};
use crate::pieces::{Counted, Kept};

/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs operations on a session that a store gave out, over its Unix socket.
///
/// Its calls panic, with the reason, when an answer does not come.
pub struct Wire {
    socket: UnixStream,
    client: WireClient,
    out: Vec<u8>,
    input: Vec<u8>,
    sent: Vec<u8>,
}

/// Keeps every answer, by its ticket.
type All = Kept<(u32, Outcome, Answer)>;

fn all() -> All {
    Kept::new(|ticket, outcome, answer| (ticket, outcome, answer.clone()))
}

impl Wire {
    /// Connects, and prepares `kinds`.
    ///
    /// # Panics
    /// When the session does not get ready.
    pub fn open(client: WireClient, kinds: &[OpKind]) -> Wire {
        Self::try_open(client, kinds).expect("the session gets ready")
    }

    /// Connects, and prepares `kinds`.
    ///
    /// # Errors
    /// The error of the session.
    pub fn try_open(client: WireClient, kinds: &[OpKind]) -> Result<Wire, StoreError> {
        let Address::Unix(path) = &client.address else { panic!("this goes over a Unix socket") };
        let socket = UnixStream::connect(path).expect("the server listens");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a socket has a timeout");
        let mut wire = Wire { socket, client, out: Vec::new(), input: Vec::new(), sent: Vec::new() };
        wire.client.session.open(kinds, &mut wire.out);
        while *wire.client.session.state() == WireState::Opening {
            wire.turn(&mut all());
        }
        match wire.client.session.state() {
            WireState::Failed(error) => Err(error.clone()),
            _ => Ok(wire),
        }
    }

    fn turn(&mut self, all: &mut All) {
        self.socket.write_all(&self.out).expect("the server takes it");
        self.sent.append(&mut self.out);
        let mut buffer = [0; 4096];
        let count = self.socket.read(&mut buffer).expect("an answer in time");
        assert!(count > 0, "the server closed the connection");
        self.input.extend_from_slice(&buffer[..count]);
        let used = self.client.session.feed(&self.input, &mut self.out, all);
        self.input.drain(..used);
    }

    /// Runs one operation to its end.
    pub fn ask(&mut self, kind: u16, params: &[Value<'_>]) -> (Outcome, Answer) {
        let (_, outcome, answer) = self.pipeline(&[(kind, params, false)]).remove(0);
        (outcome, answer)
    }

    /// Starts all of these at once, each with or without more to follow; what each came to, in the order of answers.
    pub fn pipeline(&mut self, ops: &[(u16, &[Value<'_>], bool)]) -> Vec<(u32, Outcome, Answer)> {
        self.sent.clear();
        for ((kind, params, more), ticket) in ops.iter().zip(0..) {
            let params = values(params);
            let op = Op { more: *more, ..Op::new(*kind, params.values()) };
            self.client.session.start(Ticket(ticket), &op, &mut self.out);
        }
        self.client.session.flush(&mut self.out);
        let mut all = all();
        while all.all.len() < ops.len() {
            self.turn(&mut all);
        }
        all.all
    }

    /// Returns the bytes sent for the last operation or pipeline.
    pub fn sent(&self) -> &[u8] {
        &self.sent
    }

    /// Sends an operation without parameters, and waits for nothing.
    pub fn start(&mut self, kind: u16) {
        self.client.session.start(Ticket(0), &Op::new(kind, values(&[]).values()), &mut self.out);
        self.socket.write_all(&self.out).expect("the server takes it");
        self.out.clear();
    }

    /// Closes the socket and begins a new connection, without a peer.
    pub fn give_up(mut self, kinds: &[OpKind]) -> WireClient {
        drop(self.socket);
        self.client.session.open(kinds, &mut self.out);
        self.client
    }
}

/// A statement, whose answer is kept.
pub fn sql(name: &str, text: &str, params: &[ValueType]) -> OpKind {
    let call = Call::Sql(text.into());
    OpKind { name: name.into(), call, params: params.to_vec(), keep_answer: true, step_of: None }
}

/// These values, one after the other.
pub fn values(all: &[Value<'_>]) -> ValueBuf {
    let mut buf = ValueBuf::new();
    for value in all {
        buf.push(*value);
    }
    buf
}

/// Starts operations together and feeds their answers, many times. Returns the outcomes of one round, counted.
///
/// # Panics
/// If it allocates anything once warm, or leaves bytes unused.
pub fn allocates_nothing(session: &mut dyn WireSession, ops: &[(u16, [Value<'_>; 2])], answers: &[u8]) -> [u64; 4] {
    let ops: Vec<_> = ops.iter().map(|(kind, params)| (*kind, values(params))).collect();
    let (mut out, mut done) = (Vec::new(), Counted::default());
    none(1, || {
        out.clear();
        for ((kind, params), ticket) in ops.iter().zip(0..) {
            session.start(Ticket(ticket), &Op::new(*kind, params.values()), &mut out);
        }
        assert_eq!(session.feed(answers, &mut Vec::new(), &mut done), answers.len());
    });
    done.0.map(|count| count / (ROUNDS + 1))
}
