//! The store against real servers.

// A panic is how a test fails.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Call, Durability, KvCall, Layout, OpKind, OpenOptions, Sessions, StoreErrorKind as K, Target, ValueType, Waits,
};
use plimsoll_store_nats::kind;
use plimsoll_testkit::certificates::{Authority, Mutual, Pair};
use plimsoll_testkit::equals::{KILLED, Server, Suite};
use plimsoll_testkit::params::defaults;
use plimsoll_testkit::process::{ServerProcess, free_port};

const SUITE: Suite = Suite { kind, server };

fn server(dir: &Path, [address, _]: [SocketAddr; 2]) -> (Command, String) {
    (configured(dir, address, ""), format!("nats://s3cret@{address}"))
}

fn configured(dir: &Path, address: SocketAddr, more: &str) -> Command {
    let (file, store_dir) = (dir.join("nats.conf"), dir.join("data"));
    let text = format!(
        "listen: {address}\nmax_payload: 8388608\nauthorization {{ token: s3cret }}\njetstream {{ store_dir: {store_dir:?} }}\n{more}"
    );
    std::fs::write(&file, text).expect("a file in a temporary directory");
    let mut command = Command::new("nats-server");
    command.arg("--config").arg(file);
    command
}

/// Servers with TLS, which want a certificate of the client's, too.
const ENCRYPTED: Suite = Suite { kind, server: encrypted };

fn encrypted(dir: &Path, [address, _]: [SocketAddr; 2]) -> (Command, String) {
    let pairs = Mutual::in_dir(dir);
    let (root, Pair { certificate, key }) = (&pairs.root, &pairs.server);
    let tls = format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {root:?}, verify: true }}\n");
    (configured(dir, address, &tls), format!("natss://s3cret@{address}/?{}", pairs.query()))
}

#[test]
fn a_private_server_conforms() {
    SUITE.conforms_private();
}

#[test]
fn an_attached_server_conforms() {
    ENCRYPTED.conforms_attached();
}

#[test]
fn what_is_wrong_with_tls_is_said_with_a_next_step() {
    let (clear, encrypted, other) = (SUITE.start(), ENCRYPTED.start(), Authority::default());
    let (place, query) = encrypted.url.split_once("/?").unwrap();
    let (root, strange) = (query.split('&').next().unwrap(), other.root().display().to_string());
    for (url, kind, what, next) in [
        (format!("{place}?cacert={strange}"), K::Authentication, "not signed by an authority", "?cacert=FILE"),
        (format!("{place}?{root}"), K::Authentication, "wants a client certificate", "?cert=FILE&key=FILE"),
        (place.replace("natss", "nats"), K::Usage, "wants TLS", "write natss://"),
        (clear.url.replace("nats", "natss"), K::Usage, "does not speak TLS", "write nats://"),
        (
            format!("{}?handshake_first=yes", clear.url.replace("nats", "natss")),
            K::Usage,
            "does not speak TLS",
            "without TLS",
        ),
    ] {
        let error = SUITE.error_at(&url);
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(
            error.what.contains(what) && error.next.as_ref().is_some_and(|words| words.contains(next)),
            "{error:?}"
        );
    }
    let note = {
        encrypted.open(KILLED, &mut Vec::new()).create(&Layout::default()).unwrap();
        let mut said = Vec::new();
        encrypted.open("next", &mut said);
        said.concat()
    };
    let address = place.split_once('@').unwrap().1;
    assert!(note.contains(&format!("`nats --server tls://{address} --tlsca=")), "{note}");
}

#[test]
fn a_server_that_begins_with_tls_is_asked_in_this_way() {
    // HAProxy speaks TLS from the first byte on, and NATS behind it in clear.
    let (mut server, dir, port) = (SUITE.start(), ServerProcess::dir("/dev/shm"), free_port());
    let pairs = Mutual::in_dir(dir.path());
    let pem = [&pairs.server.certificate, &pairs.server.key].map(|path| std::fs::read_to_string(path).unwrap());
    let (pair, file) = (dir.path().join("pair"), dir.path().join("haproxy.cfg"));
    std::fs::write(&pair, pem.concat()).unwrap();
    let behind = server.url.split_once('@').unwrap().1;
    let text = format!(
        "defaults\n timeout connect 5s\n timeout client 1m\n timeout server 1m\n\
         listen nats\n bind 127.0.0.1:{port} ssl crt {}\n server nats {behind}\n",
        pair.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file);
    let _proxy = ServerProcess::start(dir, &mut command, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    server.url = format!("natss://s3cret@127.0.0.1:{port}/?handshake_first=yes&{}", pairs.query());
    let mut store = server.open("first", &mut Vec::new());
    store.create(&Layout::default()).unwrap();
    let Sessions::Async(mut sessions) = store.sessions(1, Durability::Buffered).unwrap() else { panic!("no async") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let kinds = [OpKind::new("get", Call::Kv(KvCall::Get), &[ValueType::Bytes])];
    runtime.block_on(sessions[0].open(&kinds)).unwrap();
    drop(sessions);
    store.close().unwrap();
    // Asked in the other way, it waits for TLS, as the client waits for the server's word.
    let error = SUITE.error_at(&server.url.replace("handshake_first=yes&", ""));
    assert!(error.next.as_ref().unwrap().contains("handshake_first=yes"), "{error:?}");
}

#[test]
fn a_user_who_may_not_list_buckets_is_let_in() {
    let dir = ServerProcess::dir("/dev/shm");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (file, store_dir) = (dir.path().join("nats.conf"), dir.path().join("data"));
    let user = "{ user: app, password: pass, permissions: { publish: { deny: \"$JS.API.STREAM.NAMES\" } } }";
    let text =
        format!("listen: {address}\nauthorization {{ users: [ {user} ] }}\njetstream {{ store_dir: {store_dir:?} }}\n");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("nats-server");
    command.arg("--config").arg(file);
    let _server = ServerProcess::start(dir, &mut command, || TcpStream::connect(address).is_ok());
    let target = Target::Attach { url: format!("nats://app:pass@{address}"), password: None };
    let (params, waits) = (defaults(kind().spec().params), Waits::from(Duration::from_secs(5)));
    let options = OpenOptions { target, params, run_id: "scoped".to_owned(), waits };
    let mut store = kind().open(options, &mut |_| {}).expect("it may use buckets");
    store.create(&Layout::default()).unwrap();
    store.close().unwrap();
}

#[test]
fn three_servers_are_one_cluster_before_and_after_a_restart() {
    SUITE.three_servers_are_one_cluster();
}

#[test]
fn a_bucket_that_is_left_is_named_with_the_command_for_its_server_and_without_the_token() {
    let leave = |server: &Server| {
        for run_id in [KILLED, "results"] {
            // Dropped without being closed, as of a run that was killed.
            server.open(run_id, &mut Vec::new()).create(&Layout::default()).unwrap();
        }
    };
    let (note, error) = SUITE.names_leftovers(leave, |server, run| {
        let (_, address) = server.url.split_once('@').unwrap();
        format!("nats --server nats://{address} kv del plimsoll-{run}")
    });
    assert!(note.contains("with NATS_USER set, ") && !note.contains("s3cret"), "{note}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}

#[test]
fn a_wrong_url_is_refused() {
    SUITE.refuses("nats://h/a.b", "the URL's path is no name of a bucket");
    SUITE.refuses("nats://h?x=1", "the URL has a parameter, and NATS takes none");
    SUITE.refuses("nats://h?handshake_first=yes", "the URL has a parameter of TLS, and no TLS");
    SUITE.refuses("natss://h?cacert=/nowhere/ca", "cacert: /nowhere/ca cannot be read");
}

#[test]
fn a_server_that_is_not_nats_is_refused_in_time() {
    const INFO: &str = "INFO {\"server_id\":\"X\",\"version\":\"2.9.10\",\"headers\":true,\"client_id\":1}\r\n";
    assert!(SUITE.refusal("", b"").contains("has not answered"));
    assert!(SUITE.refusal(&INFO[..20], b"").contains("has not answered"));
    for (first, again) in [
        ("-ERR 'x'\r\n", &b""[..]),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", b""),
        ("", &[b'x'; 1000]),
        (INFO, b"PING\r\nPING\r\n"),
        (INFO, b"MSG a 1 3\r\nabc\r\n"),
    ] {
        assert!(SUITE.refusal(first, again).contains("does not answer as NATS"), "{first}");
    }
    assert!(SUITE.refusal(INFO, b"MSG a 1 99999999999\r\n").contains("99999999999 bytes"));
}

/// Answers requests as NATS does, each but the first one to make a bucket.
fn drops_one_request(listener: &TcpListener) {
    let mut dropped = false;
    for socket in listener.incoming().map_while(Result::ok) {
        let mut answers = socket.try_clone().unwrap();
        answers.write_all(b"INFO {\"version\":\"2.9.10\",\"headers\":true,\"client_id\":1}\r\n").unwrap();
        for line in BufReader::new(socket).lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let answered = match words[..] {
                ["PING"] => answers.write_all(b"PONG\r\n"),
                ["PUB", what, _, _] if what.contains("STREAM.CREATE") && !std::mem::replace(&mut dropped, true) => {
                    Ok(())
                }
                ["PUB", _, inbox, _] => answers.write_all(format!("MSG {inbox} 1 2\r\n{{}}\r\n").as_bytes()),
                _ => Ok(()),
            };
            if answered.is_err() {
                break;
            }
        }
    }
}

#[test]
fn a_bucket_is_asked_for_again_where_no_reply_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || drops_one_request(&listener));
    let began = Instant::now();
    let target = Target::Attach { url, password: None };
    let waits = Waits::new(Duration::from_secs(1), Duration::from_secs(60), Arc::default());
    let params = defaults(kind().spec().params);
    let options = OpenOptions { target, params, run_id: KILLED.to_owned(), waits };
    let mut store = kind().open(options, &mut |_| {}).unwrap();
    store.create(&Layout::default()).unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "the first request was answered");
}
