//! A server for one test, and sessions without a socket.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Call, Layout, LdapCall, LdapScope, OpKind, Outcome, StoreError, Value, ValueType, WireSession, WireState,
};
use plimsoll_lab::OpenStore;
use plimsoll_store_ldap::endpoint::{Password, resolve};
use plimsoll_store_ldap::server::SLAPD;
use plimsoll_store_ldap::wire::LdapSession;
use plimsoll_store_ldap::{Control, kind};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::pieces::Kept;
use plimsoll_testkit::process::{ServerProcess, free_port};

pub const TIMEOUT: Duration = Duration::from_secs(100);
pub const BASE: &str = "dc=example,dc=com";
pub const ADMIN: &str = "cn=admin,dc=example,dc=com";
pub const PASSWORD: &str = "word-7";

/// A slapd on a loopback port that lives as long as this value. It belongs to the test, not to Plimsoll.
pub struct Server {
    process: ServerProcess,
    pub port: u16,
    /// Port for TLS from the first byte on.
    pub tls_port: u16,
}

impl Server {
    /// Starts a server whose directory has only its base, with these lines in its slapd.conf before the databases.
    pub fn start(lines: &str) -> Server {
        Self::prepared(|_| lines.to_owned(), "")
    }

    /// Starts a server with lines that `prepare` makes from the server's directory, and `database` for its database.
    pub fn prepared(prepare: impl FnOnce(&Path) -> String, database: &str) -> Server {
        let program = SLAPD.find().expect("slapd (or run `cargo xtask test`)");
        let dir = ServerProcess::dir("/var/tmp");
        let (port, tls_port) = (free_port(), free_port());
        let lines = prepare(dir.path());
        let place = dir.path().display();
        let configuration = format!(
            "modulepath /usr/lib/ldap\nmoduleload back_mdb\ninclude /etc/ldap/schema/core.schema\n\
             include /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema\n{lines}\n\
             database config\nrootdn {ADMIN}\ndatabase mdb\nsuffix {BASE}\nrootdn {ADMIN}\nrootpw {PASSWORD}\n\
             directory {place}\nmaxsize 268435456\n{database}\ndatabase monitor\n"
        );
        std::fs::write(dir.path().join("slapd.conf"), configuration).unwrap();
        let tls =
            if lines.contains("TLSCertificateFile") { format!(" ldaps://127.0.0.1:{tls_port}") } else { String::new() };
        let mut command = Command::new(program);
        command.args(["-d", "32768", "-h", &format!("ldap://127.0.0.1:{port}{tls}"), "-f"]);
        command.arg(dir.path().join("slapd.conf"));
        let process = ServerProcess::start(dir, &mut command, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let server = Server { process, port, tls_port };
        let base = [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "x")];
        let attributes = base.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        server.control().must(&LdapCall::Add { dn: BASE.to_owned(), attributes }, "add the base").unwrap();
        server
    }

    /// URL of the administrator, without the password.
    pub fn url(&self) -> String {
        format!("ldap://{ADMIN}@127.0.0.1:{}/{BASE}", self.port)
    }

    /// URL without a user.
    pub fn anonymous(&self) -> String {
        format!("ldap://127.0.0.1:{}/{BASE}", self.port)
    }

    pub fn control(&self) -> Control {
        // With TLS demanded the tests' own questions go through it.
        Control::open(&resolve(&self.url(), Some(&Password::new(PASSWORD))).unwrap(), TIMEOUT).unwrap()
    }

    /// DNs of all entries.
    pub fn entries(&self) -> Vec<String> {
        let all = self.control().entries(BASE, LdapScope::Sub, "(objectClass=*)", &["1.1"]).unwrap();
        all.into_iter().map(|(dn, _)| dn).collect()
    }

    /// Stops it as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Sets the store's parameters to their defaults but for `syncs`.
fn with_params(opening: Opening, syncs: &str) -> Opening {
    let opening = opening.text("index", "objectClass,uid eq").text("syncs", syncs).text("load", "offline");
    opening.int("threads", 16).int("maxsize", 1 << 30).run("test-1")
}

/// Returns options for what listens at `url`.
pub fn attach(url: &str, password: Option<&str>, syncs: &str) -> Opening {
    with_params(Opening::attached(kind, url, password), syncs)
}

/// Attaches to what listens at `url`.
pub fn open(url: &str, password: Option<&str>, syncs: &str) -> Result<OpenStore, StoreError> {
    attach(url, password, syncs).open()
}

/// Returns the opening of a private store.
pub fn opening(dir: &Path) -> Opening {
    with_params(Opening::private(kind, dir), "ask")
}

/// Opens a private store, with an empty directory.
pub fn private(dir: &Path) -> OpenStore {
    let mut store = opening(dir).open().expect("a private server");
    store.create(&Layout::default()).expect("an empty directory");
    store
}

pub const SEARCH: u16 = 0;
pub const LOOK: u16 = 1;
pub const COMPARE: u16 = 2;
pub const DELETE: u16 = 3;
pub const ADD: u16 = 4;

pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call, params: &[ValueType], keep_answer| OpKind {
        keep_answer,
        ..OpKind::new(name, Call::Ldap(call), params)
    };
    let search = || LdapCall::Search {
        base: "uid={}".into(),
        scope: LdapScope::Base,
        filter: "(objectClass=*)".into(),
        attributes: vec!["cn".into()],
    };
    let dn = || "uid={}".to_owned();
    let of_entry =
        [("objectClass", "account"), ("uid", "{}")].map(|(name, value)| (name.into(), value.into())).to_vec();
    let int = ValueType::Int;
    vec![
        kind("search", search(), &[int], true),
        kind("look", search(), &[int], false),
        kind("compare", LdapCall::Compare { dn: dn(), attribute: "cn".into(), value: "x".into() }, &[int], false),
        kind("delete", LdapCall::Delete { dn: dn() }, &[int], false),
        kind("add", LdapCall::Add { dn: dn(), attributes: of_entry }, &[int, int], false),
    ]
}

/// Reply to an operation: its outcome, rows, first row, the code and the message.
pub type Said = (u32, Outcome, u64, Vec<String>, String, String);

/// Keeps what a session says.
pub fn keeper() -> Kept<Said> {
    Kept::new(|ticket, outcome, answer| {
        let text = |value: Value<'_>| match value {
            Value::Text(text) => text.to_owned(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        let row = answer.row_iter().next().map(|row| row.iter().map(text).collect()).unwrap_or_default();
        (ticket, outcome, answer.rows, row, answer.code.clone(), answer.message.clone())
    })
}

/// A session whose bind has been answered.
pub fn ready() -> LdapSession {
    let mut session = LdapSession::new(Arc::new(resolve("ldap://h", None).unwrap().login), "o=x", true);
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    assert_eq!(out, b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0");
    let answer = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
    assert_eq!(session.feed(answer, &mut out, &mut keeper()), answer.len());
    assert_eq!(*session.state(), WireState::Ready);
    session
}

/// A response without words: the message's number, the operation's tag, the result code.
pub fn result(id: u8, tag: u8, code: u8) -> Vec<u8> {
    vec![0x30, 0x0c, 2, 1, id, tag, 7, 0x0a, 1, code, 4, 0, 4, 0]
}

/// An entry `uid=a` with `cn: abc`.
pub fn entry(id: u8) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x1b, 2, 1, id, 0x64, 0x16, 4, 5];
    bytes.extend_from_slice(b"uid=a\x30\x0d\x30\x0b\x04\x02cn\x31\x05\x04\x03abc");
    bytes
}
