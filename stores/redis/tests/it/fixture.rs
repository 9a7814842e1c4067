//! A server for one test, and sessions without a socket.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::command::Part;
use plimsoll_core::{
    Address, Call, KvCall, Layout, OpKind, Outcome, StoreError, Value, ValueType, WireSession, WireState,
};
use plimsoll_lab::OpenStore;
use plimsoll_store_redis::endpoint::{Endpoint, Login};
use plimsoll_store_redis::server::find_server;
use plimsoll_store_redis::wire::{Protocol, RedisSession};
use plimsoll_store_redis::{Control, Node, kind};
use plimsoll_testkit::conformance::kv_kinds;
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::pieces::Kept;
use plimsoll_testkit::process::ServerProcess;

pub const TIMEOUT: Duration = Duration::from_secs(100);

/// A Redis that lives as long as this value. It belongs to the test, not to Plimsoll.
pub struct Server {
    process: ServerProcess,
    arguments: Vec<String>,
    password: Option<&'static str>,
}

impl Server {
    /// Starts a server on a socket with these further arguments.
    pub fn start(arguments: &[&str]) -> Server {
        let dir = ServerProcess::dir("/var/tmp");
        let words = arguments.iter().position(|word| *word == "--requirepass");
        let password = words.and_then(|at| arguments.get(at + 1)).map(|word| String::leak((*word).to_owned()) as &_);
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let (mut command, socket) = (Self::command(dir.path(), &arguments), dir.path().join("socket"));
        Server {
            process: ServerProcess::start(dir, &mut command, || UnixStream::connect(&socket).is_ok()),
            arguments,
            password,
        }
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again where it was.
    pub fn start_again(&mut self) {
        let (mut command, socket) = (Self::command(&self.process.path(""), &self.arguments), self.socket());
        self.process.start_again(&mut command, || UnixStream::connect(&socket).is_ok());
    }

    fn command(dir: &Path, arguments: &[String]) -> Command {
        let (_, program) = find_server(None).expect("redis-server (or run `cargo xtask test`)");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--daemonize", "no", "--dir"]).arg(dir);
        command.arg("--unixsocket").arg(dir.join("socket")).args(arguments);
        command
    }

    pub fn socket(&self) -> PathBuf {
        self.process.path("socket")
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
    pub fn open(&self, params: &[(&str, &str)], password: Option<&str>) -> Result<OpenStore, StoreError> {
        open(&self.url(), params, password)
    }

    /// Attaches to it, with an empty store.
    pub fn made(&self) -> OpenStore {
        let mut store = self.open(&[], None).expect("attached");
        store.create(&Layout::default()).expect("an empty store");
        store
    }
}

/// Attaches to what listens at `url`.
pub fn open(url: &str, params: &[(&str, &str)], password: Option<&str>) -> Result<OpenStore, StoreError> {
    let opening = Opening::attached(kind, url, password).run("test-1");
    params.iter().fold(opening, |opening, (name, value)| opening.text(name, value)).open()
}

pub const GET: u16 = 0;
pub const PUT: u16 = 1;
pub const DELETE: u16 = 2;
pub const LOOK: u16 = 3;
pub const SCAN: u16 = 4;
pub const NUMBERED: u16 = 5;

pub fn kinds() -> Vec<OpKind> {
    let mut kinds = kv_kinds();
    kinds.push(OpKind::new("numbered", Call::Kv(KvCall::Put), &[ValueType::Int, ValueType::Text]));
    kinds
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
pub fn keeper() -> Kept<Said> {
    Kept::new(|ticket, outcome, answer| {
        let value = match answer.values.values().get(0) {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        };
        (ticket, outcome, value, answer.code.clone())
    })
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
    assert_eq!(session.feed(greeting, &mut out, &mut keeper()), greeting.len());
    assert_eq!(*session.state(), WireState::Ready);
    session
}
