//! Connections over TLS, and what is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::{Layout, Outcome, StoreError, StoreErrorKind, Value, ValueType, WireSession};
use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::Connection;
use plimsoll_store_mariadb::conninfo::{Environment, resolve};
use plimsoll_store_mariadb::wire::MySession;
use plimsoll_testkit::certificates::Authority;
use plimsoll_testkit::pieces::{Counted, failure};
use plimsoll_testkit::process::free_port;

use crate::fixture::{Server, SqlServer as _, TIMEOUT, address, ask, login, open_login, sql, start};

/// A server that shows a certificate for `localhost`, and its authority.
struct Encrypted {
    mariadb: Cluster,
    authority: Authority,
    port: u16,
}

#[test]
fn a_server_with_tls() {
    let (authority, port) = (Authority::default(), free_port());
    let own = authority.sign("localhost");
    let path = |path: &Path| path.display().to_string();
    let settings = [
        ("skip-networking", "OFF"),
        ("bind-address", "127.0.0.1"),
        ("port", &*port.to_string()),
        ("ssl-ca", &*path(&authority.root())),
        ("ssl-cert", &*path(&own.certificate)),
        ("ssl-key", &*path(&own.key)),
    ];
    let server = Encrypted { mariadb: start(&settings), authority, port };
    let mut control = open_login(&address(&server.mariadb), login("root", None)).expect("root");
    for statement in
        ["CREATE USER careful@`%` IDENTIFIED BY 'pw' REQUIRE SSL", "CREATE USER easy@`%` IDENTIFIED BY 'pw'"]
    {
        control.simple(statement).expect("done");
    }
    plimsoll_testkit::steps!(
        with &server;
        a_connection_is_encrypted_as_far_as_was_asked,
        operations_of_any_size_go_over_it,
        what_cannot_be_trusted_is_refused,
        nothing_is_taken_in_clear_after_tls_was_agreed_on,
    );
    server.mariadb.close().expect("closed");
}

impl Encrypted {
    fn url(&self, user: &str, host: &str, parameters: &str) -> String {
        format!("mysql://{user}:pw@{host}:{}/?{parameters}", self.port)
    }
}

fn connect(url: &str, kinds: &[plimsoll_core::OpKind]) -> Result<Connection, StoreError> {
    let info = resolve(url, None, &Environment { var: &|_| None, user: None })?;
    plimsoll_store_mariadb::connect(&info.address, Arc::new(info.login), Arc::default(), &[], kinds, TIMEOUT)
}

fn cipher(connection: &mut Connection) -> String {
    let answer = connection.simple("SHOW STATUS LIKE 'Ssl_cipher'").expect("an answer");
    match answer.values.values().get(1) {
        Value::Text(cipher) => cipher.to_owned(),
        other => panic!("{other:?}"),
    }
}

fn a_connection_is_encrypted_as_far_as_was_asked(server: &Encrypted) {
    let ca = server.authority.root();
    let verify = |mode: &str| format!("ssl-mode={mode}&ssl-ca={}", ca.display());
    for (host, parameters, is_encrypted) in [
        ("127.0.0.1", "", true),
        ("127.0.0.1", "ssl-mode=preferred", true),
        ("127.0.0.1", "ssl_mode=REQUIRED", true),
        ("127.0.0.1", &verify("VERIFY_CA"), true),
        ("localhost", &verify("VERIFY_IDENTITY"), true),
        ("127.0.0.1", "ssl-mode=DISABLED", false),
    ] {
        let mut connection = connect(&server.url("easy", host, parameters), &[]).expect(parameters);
        assert_eq!(!cipher(&mut connection).is_empty(), is_encrypted, "{parameters}");
    }
    connect(&server.url("careful", "127.0.0.1", ""), &[]).expect("whoever must use it does");
}

fn operations_of_any_size_go_over_it(server: &Encrypted) {
    let kinds = [
        sql("echo", "SELECT $1, LENGTH($2)", &[ValueType::Int, ValueType::Bytes]),
        sql("long", "SELECT REPEAT('x', $1)", &[ValueType::Int]),
    ];
    let mut connection = connect(&server.url("easy", "127.0.0.1", "ssl-mode=REQUIRED"), &kinds).expect("prepared");
    for length in [0, 1, 100, 20_000, 3_000_000] {
        let (outcome, answer) = ask(&mut connection, 0, &[Value::Int(7), Value::Bytes(&vec![1; length])]);
        assert_eq!((outcome, answer.values.values().get(1)), (Outcome::Ok, Value::Int(length as i64)));
        let (outcome, answer) = ask(&mut connection, 1, &[Value::Int(length as i64)]);
        assert_eq!(outcome, Outcome::Ok, "{}", answer.message);
        assert!(matches!(answer.values.values().get(0), Value::Text(text) if text.len() == length));
    }
}

fn what_cannot_be_trusted_is_refused(server: &Encrypted) {
    let other = Authority::new("other");
    let ca = |file: PathBuf, mode: &str| format!("ssl-mode={mode}&ssl-ca={}", file.display());
    for (host, parameters, kind, words) in [
        ("127.0.0.1", ca(other.root(), "VERIFY_CA"), StoreErrorKind::Authentication, "root.crt"),
        ("127.0.0.1", ca(server.authority.root(), "VERIFY_IDENTITY"), StoreErrorKind::Authentication, "127.0.0.1"),
        ("127.0.0.1", ca(other.dir().join("nowhere.pem"), "VERIFY_CA"), StoreErrorKind::Usage, "ssl-ca: /"),
        ("127.0.0.1", "ssl-cert=/x".to_owned(), StoreErrorKind::Usage, "ssl-key"),
    ] {
        let error = connect(&server.url("easy", host, &parameters), &[]).map(|_| ()).expect_err("refused");
        assert_eq!(error.kind, kind, "{parameters}: {error:?}");
        assert!(format!("{error:?}").contains(words), "{parameters}: {error:?}");
        assert!(!format!("{error:?}").contains("pw@"), "{error:?}");
    }
    let clear =
        connect(&server.url("careful", "127.0.0.1", "ssl-mode=DISABLED"), &[]).map(|_| ()).expect_err("refused");
    assert_eq!(clear.kind, StoreErrorKind::Authentication, "{clear:?}");
}

#[test]
fn a_server_without_it_is_refused_when_it_is_asked_for() {
    let server = Server::start();
    let plimsoll_core::Address::Tcp(host, port) = server.tcp() else { panic!("an address") };
    let error =
        connect(&format!("mysql://root@{host}:{port}/?ssl-mode=REQUIRED"), &[]).map(|_| ()).expect_err("refused");
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.contains("has no TLS"), "{error}");
    connect(&format!("mysql://root@{host}:{port}/"), &[]).expect("preferred is not required");
}

/// A machine in between adds bytes of its own behind the server's greeting.
fn nothing_is_taken_in_clear_after_tls_was_agreed_on(server: &Encrypted) {
    let info = resolve(
        &server.url("easy", "127.0.0.1", "ssl-mode=REQUIRED"),
        None,
        &Environment { var: &|_| None, user: None },
    )
    .expect("resolved");
    let mut greeting = Vec::new();
    let stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("connected");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    while greeting.len() < 5 || greeting.len() < 4 + usize::from(greeting[0]) {
        let mut byte = [0];
        std::io::Read::read_exact(&mut &stream, &mut byte).expect("a greeting");
        greeting.push(byte[0]);
    }
    let mut session = MySession::new(Arc::new(info.login), Arc::new(Layout::default()), Vec::new());
    session.open(&[], &mut Vec::new());
    // An OK, as if we were let in.
    greeting.extend_from_slice(&[7, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
    session.feed(&greeting, &mut Vec::new(), &mut Counted::default());
    assert_eq!(failure(&session).kind, StoreErrorKind::Broken);
}
