//! A server for one test, and sessions without a socket.

use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Answer, Call, Durability, HttpCall, OpKind, Outcome, ParamValue, StoreError, Template, Value, ValueType,
    WireSession, WireState,
};
use plimsoll_lab::OpenStore;
use plimsoll_store_http::endpoint::{Login, Version, resolve};
use plimsoll_store_http::kind;
use plimsoll_store_http::server::{NGINX, content};
use plimsoll_store_http::wire::HttpSession;
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::pieces::Kept;
use plimsoll_testkit::process::{ServerProcess, free_port};

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// An nginx on a loopback port that lives as long as this value. It belongs to the test, not to Plimsoll.
pub struct Server {
    process: ServerProcess,
    pub port: u16,
}

impl Server {
    /// Starts a server with these words in its `http` block, besides a file `/` of 612 bytes.
    pub fn start(words: &str) -> Server {
        Self::listening(words, "", |_| {})
    }

    /// Starts a server with words behind the port it listens on, and a directory prepared by `prepare`.
    pub fn listening(words: &str, how: &str, prepare: impl FnOnce(&std::path::Path)) -> Server {
        let program = NGINX.find().expect("nginx (or run `cargo xtask test`)");
        let (dir, port) = (ServerProcess::dir("/var/tmp"), free_port());
        std::fs::create_dir_all(dir.path().join("files/put")).unwrap();
        std::fs::write(dir.path().join("files/index.html"), content(612)).unwrap();
        prepare(dir.path());
        let configuration = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr warn; events {{}}\n\
             http {{ client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;\n\
             uwsgi_temp_path u; scgi_temp_path s; types {{ text/html html; }}\n{words}\n\
             server {{ listen 127.0.0.1:{port} {how}; root files; location /put {{ dav_methods PUT; }}\n\
             location /teapot {{ return 418; }} location /nothing {{ return 204; }}\n\
             location /there {{ return 302 /; }} location /down {{ return 503; }} include more*; }} }}\n"
        );
        std::fs::write(dir.path().join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new(program);
        command.args(["-e", "stderr", "-p"]).arg(dir.path()).arg("-c").arg(dir.path().join("nginx.conf"));
        Server {
            process: ServerProcess::start(dir, &mut command, || TcpStream::connect(("127.0.0.1", port)).is_ok()),
            port,
        }
    }

    /// The path of a file in its directory.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.process.path(name)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The lines of `access.log`, where it was told to write one.
    pub fn accesses(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("access.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Attaches to what listens at `url`.
pub fn open(url: &str, password: Option<&str>) -> Result<OpenStore, StoreError> {
    open_with(url, password, &[])
}

/// Opens a store with these parameters.
pub fn open_with(url: &str, password: Option<&str>, params: &[(&str, ParamValue)]) -> Result<OpenStore, StoreError> {
    let mut opening = Opening::attached(kind, url, password);
    opening.options.params.0.extend(params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    opening.open()
}

pub const GET: u16 = 0;
pub const LOOK: u16 = 1;
pub const HEAD: u16 = 2;
pub const PUT: u16 = 3;
pub const NUMBERED: u16 = 4;

pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, method: &str, target: &str, body: bool, params: &[ValueType], keep_answer| {
        let body = body.then(|| Template::of("{}"));
        let call = Call::Http(HttpCall { method: method.into(), body, ..HttpCall::get(target) });
        OpKind { keep_answer, ..OpKind::new(name, call, params) }
    };
    let (text, bytes) = (ValueType::Text, ValueType::Bytes);
    vec![
        kind("get", "GET", "{}", false, &[text], true),
        kind("look", "GET", "{}", false, &[text], false),
        kind("head", "HEAD", "{}", false, &[text], true),
        kind("put", "PUT", "/put/{}", true, &[text, bytes], false),
        kind("numbered", "GET", "/bytes/{}", false, &[ValueType::Int], false),
    ]
}

/// Result of an operation: its outcome, status and body, the code and the message.
pub type Said = (u32, Outcome, Option<(i64, Vec<u8>)>, String, String);

pub fn kept(answer: &Answer) -> Option<(i64, Vec<u8>)> {
    let values = answer.values.values();
    let mut values = values.iter();
    match (values.next(), values.next()) {
        (Some(Value::Int(status)), Some(Value::Bytes(body))) => Some((status, body.to_vec())),
        _ => None,
    }
}

/// Keeps what a session says.
pub fn keeper() -> Kept<Said> {
    Kept::new(|ticket, outcome, answer| (ticket, outcome, kept(answer), answer.code.clone(), answer.message.clone()))
}

pub fn login(version: Version) -> Arc<Login> {
    Arc::new(resolve("http://h", None, Default::default(), version).unwrap().login)
}

pub fn session(durability: Durability) -> HttpSession {
    HttpSession::new(login(Version::Http11), durability)
}

/// A session that takes operations, before which it says nothing.
pub fn ready() -> HttpSession {
    let mut session = session(Durability::AtEnd);
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    assert_eq!((session.state(), out.len()), (&WireState::Ready, 0));
    session
}
