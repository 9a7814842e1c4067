//! A wire session that a store gave out, asked over a socket without the drive loop; and operations and layouts to ask it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plimsoll_core::{
    Address, Answer, Call, Collection, CompletionSink, Field, Index, IndexMode, Layout, Op, OpKind, Outcome,
    RecordsCall, StoreError, Ticket, Value, ValueBuf, ValueType, WireClient, WireState,
};

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
struct All(Vec<(u32, Outcome, Answer)>);

impl CompletionSink for All {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        self.0.push((ticket.0, outcome, answer.clone()));
    }
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
    /// What the session says.
    pub fn try_open(client: WireClient, kinds: &[OpKind]) -> Result<Wire, StoreError> {
        let Address::Unix(path) = &client.address else { panic!("this goes over a Unix socket") };
        let socket = UnixStream::connect(path).expect("the server listens");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a socket has a timeout");
        let mut wire = Wire { socket, client, out: Vec::new(), input: Vec::new(), sent: Vec::new() };
        wire.client.session.open(kinds, &mut wire.out);
        while *wire.client.session.state() == WireState::Opening {
            wire.turn(&mut All(Vec::new()));
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
        let mut all = All(Vec::new());
        while all.0.len() < ops.len() {
            self.turn(&mut all);
        }
        all.0
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

/// A kind of operation on records of the first collection, whose answer is kept.
pub fn kind(name: &str, call: RecordsCall, params: &[ValueType]) -> OpKind {
    let call = Call::Records { collection: 0, call };
    OpKind { name: name.into(), call, params: params.to_vec(), keep_answer: true, step_of: None }
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

/// Returns a collection with a field of every type, and an index on the number.
pub fn layout(index: IndexMode) -> Layout {
    let field = |name: &str, value_type| Field { name: name.into(), value_type };
    Layout {
        collections: vec![Collection {
            name: "items".into(),
            fields: vec![
                field("code", ValueType::Text),
                field("count", ValueType::Int),
                field("ratio", ValueType::Float),
                field("live", ValueType::Bool),
                field("body", ValueType::Bytes),
                field("made", ValueType::Timestamp),
            ],
            key: 0,
            indexes: vec![Index { fields: vec![1] }],
        }],
        index,
        ..Layout::default()
    }
}
