//! A protocol of length and bytes, its session without I/O, and a server that follows a script.
//!
//! Greeting: `HELLO`, answered by `READY` or `NEVER`. Request: length (4 bytes, little-endian; its highest bit says
//! that answers may wait for the next request's), then a number (8 bytes) and as many more bytes as the length says.
//! Answer: the number, and the sum of the request's bytes, or [`REFUSED`], or [`NOT_NOW`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::tasks::shaped;

use plimsoll_core::{
    Address, Answer, CompletionSink, Op, OpKind, Outcome, Sessions, StoreError, StoreErrorKind, Ticket, Value,
    WireClient, WireSession, WireState,
};

/// Value in place of a number: the server ends the connection and says so.
const LAST_WORDS: i64 = i64::MIN;
/// Value in place of a sum: the server refuses.
const REFUSED: u64 = u64::MAX;
/// Value in place of a sum: the server has not begun the request.
const NOT_NOW: u64 = u64::MAX - 1;
/// Flag in a request's length: the answer may wait.
const MORE: u32 = 1 << 31;

pub struct ToySession {
    state: WireState,
    /// Requests without an answer, oldest first: ticket, number and sum.
    unanswered: VecDeque<(Ticket, i64, u64)>,
    depth: usize,
    /// Position of the last request's length in the output, if its answer may wait.
    may_wait: Option<usize>,
    /// Bytes that each request carries beside its number.
    ballast: usize,
    answer: Answer,
}

impl WireSession for ToySession {
    fn open(&mut self, _: &[OpKind], out: &mut Vec<u8>) {
        self.state = WireState::Opening;
        self.unanswered.clear();
        self.may_wait = None;
        out.extend_from_slice(b"HELLO");
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, _: usize) {}

    fn depth_max(&self) -> u32 {
        self.depth as u32
    }

    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        assert!(self.unanswered.len() < self.depth, "more operations than it takes");
        let Value::Int(number) = op.params.get(0) else { panic!("an operation without its number") };
        let begin = out.len() + 4;
        let more = if op.more { MORE } else { 0 };
        self.may_wait = op.more.then_some(out.len());
        out.extend_from_slice(&((8 + self.ballast as u32) | more).to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend((0..self.ballast).map(|i| (i as i64 + number) as u8));
        self.unanswered.push_back((ticket, number, sum(&out[begin..])));
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(at) = self.may_wait.take() {
            let length = u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
            out[at..at + 4].copy_from_slice(&(length & !MORE).to_le_bytes());
        }
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let mut used = 0;
        while self.state == WireState::Opening && bytes.len() - used >= 5 {
            self.state = match &bytes[used..used + 5] {
                b"READY" => WireState::Ready,
                _ => WireState::Failed(StoreError::new(StoreErrorKind::Authentication, "the server said NEVER")),
            };
            used += 5;
        }
        while bytes.len() - used >= 16 {
            let number = i64::from_le_bytes(bytes[used..used + 8].try_into().unwrap());
            let sum = u64::from_le_bytes(bytes[used + 8..used + 16].try_into().unwrap());
            let (ticket, wanted_number, wanted_sum) = self.unanswered.pop_front().expect("an answer to a request");
            if number == LAST_WORDS {
                self.state = WireState::Failed(StoreError::new(StoreErrorKind::Store, "the server said good-bye"));
                return bytes.len();
            }
            self.answer.clear();
            let is_refused = sum == NOT_NOW;
            if is_refused {
                self.answer.fail(Outcome::Rejected, "not now", "is not ready");
                if done.put_off(ticket, &self.answer) {
                    used += 16;
                    continue;
                }
            }
            let outcome = if is_refused {
                Outcome::Rejected
            } else if sum == REFUSED {
                assert_eq!(number, wanted_number, "the refusal is of this request");
                self.answer.fail(Outcome::Rejected, "40001", "would not")
            } else {
                assert_eq!((number, sum), (wanted_number, wanted_sum), "the answer is to this request");
                Outcome::Ok
            };
            self.answer.values.push(Value::Int(number));
            (self.answer.columns, self.answer.rows) = (1, 1);
            done.push(ticket, outcome, &self.answer);
            used += 16;
        }
        used
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&0u32.to_le_bytes());
    }
}

/// Returns the answer to a request, which begins with its number.
pub fn answer_to(request: &[u8]) -> [u8; 16] {
    let mut answer = [0; 16];
    answer[..8].copy_from_slice(&request[..8]);
    answer[8..].copy_from_slice(&sum(request).to_le_bytes());
    answer
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}

/// Reaction of the server to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Answer,
    AnswerAfter(Duration),
    /// Sends one byte at a time.
    Dribble,
    /// Close the connection without an answer.
    Close,
    /// Close it with a reset (TCP).
    Reset,
    /// Close it in the middle of the answer.
    CloseHalfWay,
    /// Say nothing to this request.
    Ignore,
    /// Would not.
    Refuse,
    /// Does not begin it, and goes on.
    NotNow,
}

/// Reaction of the server, by the connection's number, the request's number within it, and the number asked.
pub type Script = Arc<dyn Fn(u64, u64, i64) -> Act + Send + Sync>;

/// A server on loopback or on a Unix socket, with a thread to a connection.
pub struct Server {
    pub address: Address,
    pub manner: Arc<Manner>,
    stop: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<File>>>,
    thread: Option<JoinHandle<()>>,
    _place: Option<tempfile::TempDir>,
}

/// Behaviour of a server beside its script, and its counters.
#[derive(Default)]
pub struct Manner {
    /// Greet with `NEVER` from now on.
    pub never: AtomicBool,
    /// Do not greet on connections from now on.
    pub silent: AtomicBool,
    /// Read in small pieces with pauses.
    pub slow_reader: AtomicBool,
    /// Say good-bye at the beginning of a request, and read no more of it.
    pub rude: AtomicBool,
    /// End a connection on which nothing is asked for so many milliseconds; 0 for never.
    pub idle_ms: AtomicU64,
    pub connections: AtomicU64,
    pub answered: AtomicU64,
    /// Connections that were closed politely.
    pub goodbyes: AtomicU64,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Server {
    pub fn unix(script: impl Fn(u64, u64, i64) -> Act + Send + Sync + 'static) -> Server {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let listener = Listener::Unix(UnixListener::bind(&path).unwrap());
        Self::serve(listener, Address::Unix(path), Some(place), Arc::new(script))
    }

    /// On a Unix socket that is already somewhere.
    pub fn unix_at(path: &Path, script: impl Fn(u64, u64, i64) -> Act + Send + Sync + 'static) -> Server {
        let _ = std::fs::remove_file(path);
        let listener = Listener::Unix(UnixListener::bind(path).unwrap());
        Self::serve(listener, Address::Unix(PathBuf::from(path)), None, Arc::new(script))
    }

    pub fn tcp(script: impl Fn(u64, u64, i64) -> Act + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // The name may stand for ::1 as well, without a listener.
        Self::serve(Listener::Tcp(listener), Address::Tcp("localhost".to_owned(), port), None, Arc::new(script))
    }

    fn serve(listener: Listener, address: Address, place: Option<tempfile::TempDir>, script: Script) -> Server {
        let mut server = Server {
            address: address.clone(),
            manner: Arc::default(),
            stop: Arc::default(),
            streams: Arc::default(),
            thread: None,
            _place: place,
        };
        let (stop, streams, manner) = (server.stop.clone(), server.streams.clone(), server.manner.clone());
        server.thread = Some(std::thread::spawn(move || {
            loop {
                let socket = match &listener {
                    Listener::Unix(listener) => listener.accept().map(|(socket, _)| OwnedFd::from(socket)),
                    Listener::Tcp(listener) => listener.accept().map(|(socket, _)| {
                        let _ = socket.set_nodelay(true);
                        OwnedFd::from(socket)
                    }),
                };
                if stop.load(SeqCst) {
                    return;
                }
                let socket = File::from(socket.unwrap());
                streams.lock().unwrap().push(socket.try_clone().unwrap());
                let connection = manner.connections.fetch_add(1, SeqCst);
                let (manner, script, address) = (manner.clone(), script.clone(), address.clone());
                std::thread::spawn(move || {
                    // The end of a connection, from whichever side, is an error here and expected.
                    let _ = converse(socket, &address, connection, &script, &manner);
                });
            }
        }));
        server
    }

    pub fn clients(&self, count: usize) -> Sessions {
        self.clients_with(count, 0)
    }

    /// Sessions whose requests carry `ballast` bytes more.
    pub fn clients_with(&self, count: usize, ballast: usize) -> Sessions {
        shaped((0..count).map(|_| client(self.address.clone(), ballast)))
    }

    /// Sessions with a pipeline.
    pub fn clients_of_depth(&self, count: usize, depth: usize) -> Sessions {
        Sessions::Wire((0..count).map(|_| client_of_depth(self.address.clone(), 0, depth)).collect())
    }

    /// Ends all connections and listens no more.
    pub fn die(&mut self) {
        self.stop.store(true, SeqCst);
        match &self.address {
            Address::Unix(path) => drop(UnixStream::connect(path)),
            Address::Tcp(_, port) => drop(TcpStream::connect(("127.0.0.1", *port))),
        }
        // The listener goes first: a client whose connection ends would come back otherwise.
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        for socket in self.streams.lock().unwrap().drain(..) {
            shut_down(&socket);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.die();
    }
}

pub fn client(address: Address, ballast: usize) -> WireClient {
    client_of_depth(address, ballast, 1)
}

/// A session that takes `depth` requests before one must have been answered.
pub fn client_of_depth(address: Address, ballast: usize, depth: usize) -> WireClient {
    // On a busy machine a session's first answer, or refusal, may come long after the others': it takes its memory here.
    let mut answer = Answer::default();
    answer.fail(Outcome::Rejected, "not now", "is not ready");
    answer.values.push(Value::Int(0));
    answer.clear();
    let session = ToySession {
        state: WireState::Opening,
        unanswered: VecDeque::with_capacity(depth),
        depth,
        may_wait: None,
        ballast,
        answer,
    };
    WireClient { address, session: Box::new(session) }
}

fn shut_down(socket: &File) {
    // One that has ended already cannot be shut down.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

fn converse(
    mut socket: File,
    address: &Address,
    connection: u64,
    script: &Script,
    manner: &Manner,
) -> std::io::Result<()> {
    let mut greeting = [0; 5];
    socket.read_exact(&mut greeting)?;
    assert_eq!(&greeting, b"HELLO");
    if manner.silent.load(SeqCst) {
        // Until the client gives the connection up.
        return socket.read(&mut [0]).map(drop);
    }
    socket.write_all(if manner.never.load(SeqCst) { b"NEVER" } else { b"READY" })?;
    // Answers that wait for the end of a pipeline.
    let mut waiting = Vec::new();
    let idle = Duration::from_millis(manner.idle_ms.load(SeqCst));
    let timeout = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&socket, timeout, (!idle.is_zero()).then_some(idle))?;
    for request in 0.. {
        let mut length = [0; 4];
        if let Err(error) = socket.read_exact(&mut length) {
            // The server keeps another handle on it.
            shut_down(&socket);
            return Err(error);
        }
        let length = u32::from_le_bytes(length);
        let more = length & MORE > 0;
        let length = (length & !MORE) as usize;
        if length == 0 {
            manner.goodbyes.fetch_add(1, SeqCst);
            return Ok(());
        }
        if manner.rude.load(SeqCst) {
            let mut words = [0; 16];
            words[..8].copy_from_slice(&LAST_WORDS.to_le_bytes());
            socket.write_all(&words)?;
            shut_down(&socket);
            return Ok(());
        }
        let mut bytes = vec![0; length];
        let piece = if manner.slow_reader.load(SeqCst) { 64 * 1024 } else { length };
        for piece in bytes.chunks_mut(piece) {
            if manner.slow_reader.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            socket.read_exact(piece)?;
        }
        let number = i64::from_le_bytes(bytes[..8].try_into().unwrap());
        let mut answer = answer_to(&bytes);
        let act = script(connection, request, number);
        match act {
            Act::Refuse => answer[8..].copy_from_slice(&REFUSED.to_le_bytes()),
            Act::NotNow => answer[8..].copy_from_slice(&NOT_NOW.to_le_bytes()),
            _ => {}
        }
        match act {
            Act::Answer | Act::Refuse | Act::NotNow | Act::AnswerAfter(_) => {
                if let Act::AnswerAfter(delay) = act {
                    std::thread::sleep(delay);
                }
                waiting.extend_from_slice(&answer);
                if !more {
                    socket.write_all(&waiting)?;
                    waiting.clear();
                }
            }
            Act::Dribble => {
                for byte in answer {
                    socket.write_all(&[byte])?;
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            Act::Close => {
                shut_down(&socket);
                return Ok(());
            }
            Act::Reset => {
                if matches!(address, Address::Tcp(..)) {
                    // Dissolving an established connection sends a reset, even if another handle on it exists.
                    rustix::net::connect_unspec(&socket).unwrap();
                }
                shut_down(&socket);
                return Ok(());
            }
            Act::CloseHalfWay => {
                socket.write_all(&answer[..7])?;
                shut_down(&socket);
                return Ok(());
            }
            Act::Ignore => continue,
        }
        manner.answered.fetch_add(1, SeqCst);
    }
    Ok(())
}
