//! A server for one test, and sessions without a socket.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::command::Part;
use plimsoll_core::{
    Address, Answer, Call, CompletionSink, KvCall, OpKind, OpenOptions, Outcome, ParamValue, Params, StoreError,
    Target, Ticket, Value, ValueType, WireSession, WireState,
};
use plimsoll_store_redis::endpoint::{Endpoint, Login};
use plimsoll_store_redis::server::find_server;
use plimsoll_store_redis::wire::{Protocol, RedisSession};
use plimsoll_store_redis::{Control, Node, kind};

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A Redis that lives as long as this value. It belongs to the test, not to Plimsoll.
pub struct Server {
    child: Child,
    dir: tempfile::TempDir,
    arguments: Vec<String>,
    password: Option<&'static str>,
}

impl Server {
    /// Starts a server on a socket with these further arguments.
    pub fn start(arguments: &[&str]) -> Server {
        let dir = tempfile::Builder::new()
            .prefix(&format!("redis-test-{}-", std::process::id()))
            .tempdir_in("/var/tmp")
            .expect("a directory");
        let child = Self::launch(dir.path(), arguments);
        let words = arguments.iter().position(|word| *word == "--requirepass");
        let password = words.and_then(|at| arguments.get(at + 1)).map(|word| String::leak((*word).to_owned()) as &_);
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Server { child, dir, arguments, password }
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }

    /// Starts it again where it was.
    pub fn start_again(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.child = Self::launch(self.dir.path(), &arguments);
    }

    fn launch(dir: &std::path::Path, arguments: &[&str]) -> Child {
        let (_, program) = find_server(None).expect("redis-server (or run `cargo xtask test`)");
        let log = std::fs::File::create(dir.join("log")).expect("a log");
        let mut child = Command::new(program)
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--dir"])
            .arg(dir)
            .arg("--unixsocket")
            .arg(dir.join("socket"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server runs");
        let began = Instant::now();
        while std::os::unix::net::UnixStream::connect(dir.join("socket")).is_err() {
            let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            assert!(matches!(child.try_wait(), Ok(None)) && began.elapsed() < TIMEOUT, "it did not start: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// A connection of its owner.
    pub fn control(&self) -> Control {
        let password = self.password.map(plimsoll_store_redis::endpoint::Password::new);
        let login = Login { user: None, password, database: 0, place: "the test's server".to_owned() };
        let endpoint = Endpoint { address: Address::Unix(self.socket()), tls: None, login };
        Control::open(&endpoint, TIMEOUT).expect("a connection")
    }

    pub fn ask(&self, words: &[&str]) -> Node {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.control().command(&words).expect("an answer")
    }

    /// Attaches to it.
    pub fn open(&self, params: &[(&str, &str)], password: Option<&str>) -> Result<plimsoll_lab::OpenStore, StoreError> {
        open(&self.url(), params, password)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Attaches to what listens at `url`.
pub fn open(url: &str, params: &[(&str, &str)], password: Option<&str>) -> Result<plimsoll_lab::OpenStore, StoreError> {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), ParamValue::Text((*value).to_owned())));
    let target = Target::Attach { url: url.to_owned(), password: password.map(str::to_owned) };
    plimsoll_lab::open(
        &*kind(),
        OpenOptions {
            target,
            params: Params(params.collect()),
            run_id: "test-1".to_owned(),
            waits: Default::default(),
        },
        &mut |_| {},
    )
}

pub const GET: u16 = 0;
pub const PUT: u16 = 1;
pub const DELETE: u16 = 2;
pub const LOOK: u16 = 3;
pub const SCAN: u16 = 4;
pub const NUMBERED: u16 = 5;

pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call, params: &[ValueType], keep_answer| OpKind {
        name: name.into(),
        call: Call::Kv(call),
        params: params.to_vec(),
        keep_answer,
        step_of: None,
    };
    let bytes = ValueType::Bytes;
    vec![
        kind("get", KvCall::Get, &[bytes], true),
        kind("put", KvCall::Put, &[bytes, bytes], false),
        kind("delete", KvCall::Delete, &[bytes], false),
        kind("look", KvCall::Get, &[bytes], false),
        kind("scan", KvCall::Scan, &[bytes, ValueType::Int], true),
        kind("numbered", KvCall::Put, &[ValueType::Int, ValueType::Text], false),
    ]
}

/// A command of the user's own, after [`kinds`].
pub const OWN: u16 = 6;

/// [`kinds`], and `HGET user:{} name`.
pub fn kinds_and_own() -> Vec<OpKind> {
    let text = |text: &str| Part::Text(text.to_owned());
    let own = vec![vec![text("HGET")], vec![text("user:"), Part::Param], vec![text("name")]];
    let mut kinds = kinds();
    kinds.push(OpKind::new("own", Call::Command(own), &[ValueType::Int]).kept());
    kinds
}

/// Reply to an operation: its outcome, the value, the code.
pub type Said = (u32, Outcome, Option<Vec<u8>>, String);

/// Keeps what a session says.
#[derive(Default)]
pub struct Kept(pub Vec<Said>);

impl CompletionSink for Kept {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        let value = match answer.values.values().get(0) {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        };
        self.0.push((ticket.0, outcome, value, answer.code.clone()));
    }
}

pub fn session(protocol: Protocol, prefix: &str) -> RedisSession {
    let login = Login { user: None, password: None, database: 0, place: "redis://test".to_owned() };
    RedisSession::new(Arc::new(login), protocol, prefix)
}

/// A session that has been greeted.
pub fn ready() -> RedisSession {
    ready_for(&kinds(), b"+OK\r\n+PONG\r\n")
}

/// Session with [`kinds_and_own`], whose command is unknown to it.
pub fn ready_for_own() -> RedisSession {
    ready_for(&kinds_and_own(), b"+OK\r\n-NOPERM\r\n+PONG\r\n")
}

fn ready_for(kinds: &[OpKind], greeting: &[u8]) -> RedisSession {
    let mut session = session(Protocol::Resp2, "");
    let mut out = Vec::new();
    session.open(kinds, &mut out);
    assert_eq!(session.feed(greeting, &mut out, &mut Kept::default()), greeting.len());
    assert_eq!(*session.state(), WireState::Ready);
    session
}
