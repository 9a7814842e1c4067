//! The store against real servers.

// A panic is how a test fails.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use plimsoll_core::{
    Address, Answer, AsyncSession, Call, Durability, KvCall, Layout, Op, OpKind, Outcome, Sessions,
    StoreErrorKind as K, ValueBuf, ValueType,
};
use plimsoll_store_etcd::kind;
use plimsoll_testkit::advice::follow;
use plimsoll_testkit::certificates::{Authority, Mutual};
use plimsoll_testkit::equals::{KILLED, Server, Suite};
use plimsoll_testkit::proxy::in_turn;

const SUITE: Suite = Suite { kind, server };

fn server(dir: &Path, [client, peer]: [SocketAddr; 2]) -> (Command, String) {
    let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(dir);
    command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.args(["--initial-cluster", &format!("default={peer_url}"), "--max-request-bytes", "8388608"]);
    // A third of its processor time went to garbage collections of a few megabytes.
    command.env("GOGC", "400");
    (command, format!("etcd://{client}"))
}

/// Servers with TLS, which want a certificate of the client's, too.
const ENCRYPTED: Suite = Suite { kind, server: encrypted };

fn encrypted(dir: &Path, addresses: [SocketAddr; 2]) -> (Command, String) {
    let pairs = Mutual::in_dir(dir);
    let (mut command, _) = server(&dir.join("data"), addresses);
    let url = format!("https://{}", addresses[0]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--client-cert-auth"]);
    command.arg("--cert-file").arg(&pairs.server.certificate).arg("--key-file").arg(&pairs.server.key);
    command.arg("--trusted-ca-file").arg(&pairs.root);
    (command, format!("etcds://{}/?{}", addresses[0], pairs.query()))
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
    let (place, _) = encrypted.url.split_once("/?").unwrap();
    let root = encrypted.url.split_once("cacert=").unwrap().1.split_once('&').unwrap().0;
    let strange = other.root().display().to_string();
    let (killed, host) = (format!("plimsoll:{KILLED}:k"), place.replace("etcds", "https"));
    let pair = |name: &str| encrypted.url.split_once(&format!("{name}=")).unwrap().1.split('&').next().unwrap();
    let files = ["--cacert", root, "--cert", pair("&cert"), "--key", pair("&key")];
    etcdctl(&host, &[&files[..], &["put", &killed, "1"]].concat(), "");
    for (url, kind, what, next) in [
        (format!("{place}?cacert={strange}"), K::Authentication, "not signed by an authority", "?cacert=FILE"),
        (format!("{place}?cacert={root}"), K::Authentication, "wants a client certificate", "?cert=FILE&key=FILE"),
        (place.replace("etcds", "etcd"), K::Unreachable, "the connection is lost", "with TLS, write etcds://"),
        (
            clear.url.replace("etcd", "etcds"),
            K::Unreachable,
            "ended the connection in the TLS",
            "without, write etcd://",
        ),
    ] {
        let error = SUITE.error_at(&url);
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(
            error.what.contains(what) && error.next.as_ref().is_some_and(|words| words.contains(next)),
            "{error:?}"
        );
    }
    // What a run leaves is removed by the command that is advised.
    let mut said = Vec::new();
    encrypted.open("next", &mut said);
    follow(&said, &[]);
    said.clear();
    encrypted.open("next", &mut said);
    assert_eq!(said, [""; 0]);
}

#[test]
fn three_servers_are_one_cluster_before_and_after_a_restart() {
    SUITE.three_servers_are_one_cluster();
}

#[test]
fn keys_that_are_left_are_named_with_the_command_that_removes_them() {
    let hosts = |server: &Server| server.url.strip_prefix("etcd://").unwrap().to_owned();
    let ask = |server: &Server, words: &[&str]| {
        let output = Command::new("etcdctl").args(["--endpoints", &hosts(server)]).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let killed = format!("plimsoll:{KILLED}:k");
    let leave = |server: &Server| {
        for key in ["own", &killed, "plimsoll:results:k"] {
            ask(server, &["put", key, "1"]);
        }
        let mut said = Vec::new();
        server.open("next", &mut said);
        follow(&said, &[]);
        assert_eq!(ask(server, &["get", "", "--prefix", "--keys-only"]), "own\n\nplimsoll:results:k\n\n");
        said.clear();
        server.open("next", &mut said);
        assert_eq!(said, [""; 0], "a key that has no run's name is none of a run");
        ask(server, &["put", &killed, "1"]);
    };
    SUITE.names_leftovers(leave, |server, run| {
        format!("etcdctl --endpoints {} del --prefix plimsoll:{run}:", hosts(server))
    });
}

#[test]
fn a_wrong_url_is_refused() {
    SUITE.refuses("etcd://h/path", "the URL has a path, and etcd takes none");
    SUITE.refuses("etcd://h?x=1", "the URL has a parameter, and etcd takes none");
    SUITE.refuses("etcd://h?cacert=/ca", "the URL has a parameter of TLS, and no TLS");
    SUITE.refuses("etcds://h?x=1", "the URL has a parameter that is not known");
    SUITE.refuses("etcds://h?cacert=/nowhere/ca", "cacert: /nowhere/ca cannot be read");
    SUITE.refuses("etcd://root@h", "the URL names a user, and there is no password");
}

#[test]
fn servers_of_several_clusters_are_refused() {
    let [one, other] = [(); 2].map(|()| SUITE.start());
    let error = SUITE.error_at(&format!("{},{}", one.url, other.url.trim_start_matches("etcd://")));
    assert_eq!(error.kind, K::Usage, "{error:?}");
    assert!(error.what.contains("belong to several clusters"), "{error:?}");
    // Behind one address, as that of a proxy.
    let addresses = [&one, &other].map(|server| {
        let (host, port) = server.url.strip_prefix("etcd://").unwrap().split_once(':').unwrap();
        Address::Tcp(host.to_owned(), port.parse().unwrap())
    });
    let error = SUITE.error_at(&format!("etcd://127.0.0.1:{}", in_turn(addresses)));
    assert_eq!(error.kind, K::Usage, "{error:?}");
    assert!(error.what.contains("leads to several servers, and keys would stay on some"), "{error:?}");
}

#[test]
fn a_server_that_is_not_etcd_is_refused_in_time() {
    assert!(SUITE.refusal("", b"").contains("no answer within"));
    assert!(SUITE.refusal("HTTP/1.1 400 Bad Request\r\n\r\n", b"").contains("the connection is lost"));
    assert!(SUITE.refusal("", &[b'x'; 1000]).contains("the connection is lost"));
}

/// Asks etcdctl as `words` say, with `input` on its standard input.
fn etcdctl(host: &str, words: &[&str], input: &str) {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", host]).args(words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{words:?}");
}

#[test]
fn a_user_without_a_right_to_the_keys_of_runs_may_use_others() {
    let mut server = SUITE.start();
    let host = server.url.strip_prefix("etcd://").unwrap().to_owned();
    for words in [
        &["user", "add", "root:s3cret"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "app"],
        &["role", "grant-permission", "app", "readwrite", "app:", "--prefix=true"],
        &["user", "add", "app:pass"],
        &["user", "grant-role", "app", "app"],
        &["auth", "enable"],
    ] {
        etcdctl(&host, words, "");
    }
    server.url = format!("etcd://app:pass@{host}");
    let mut store = server.open("scoped", &mut Vec::new());
    store.describe().expect("described");
    assert_eq!(store.create(&Layout::default()).unwrap_err().kind, K::Permission);
}

#[test]
fn a_token_that_is_not_valid_any_more_is_replaced_and_the_call_repeated_and_counted() {
    let mut server = SUITE.start();
    let host = server.url.strip_prefix("etcd://").unwrap().to_owned();
    etcdctl(&host, &["user", "add", "root:s3cret"], "");
    etcdctl(&host, &["user", "grant-role", "root", "root"], "");
    etcdctl(&host, &["auth", "enable"], "");
    server.url = format!("etcd://root:s3cret@{host}");
    let mut store = server.open("tokens", &mut Vec::new());
    store.create(&Layout::default()).unwrap();
    let Sessions::Async(mut sessions) = store.sessions(2, Durability::Durable).unwrap() else { panic!("no async") };
    let kinds = [OpKind::new("put", Call::Kv(KvCall::Put), &[ValueType::Bytes, ValueType::Bytes])];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let put = |session: &mut dyn AsyncSession| {
        let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
        params.push(plimsoll_core::Value::Bytes(b"key"));
        params.push(plimsoll_core::Value::Bytes(b"value"));
        let outcome = runtime.block_on(session.execute(&Op::new(0, params.values()), &mut answer));
        assert_eq!(outcome, Outcome::Ok, "{} {}", answer.code, answer.message);
        session.asked_again()
    };
    for session in &mut sessions {
        runtime.block_on(session.open(&kinds)).unwrap();
        assert_eq!(put(&mut **session), 0);
    }
    // A change of a user's password ends the user's tokens.
    let passwd = ["--user", "root:s3cret", "user", "passwd", "root", "--interactive=false"];
    etcdctl(&host, &passwd, "s3cret\n");
    for session in &mut sessions {
        assert_eq!(put(&mut **session), 1, "the call is repeated once");
        assert_eq!(put(&mut **session), 1, "with a token that lasts");
    }
    etcdctl(&host, &passwd, "s3cret\n");
    runtime.block_on(sessions[0].open(&kinds)).expect("a session that opens with a token of before");
    drop(sessions);
    store.describe().expect("the control plane logs in anew, too");
    store.close().expect("the run's keys are removed");
}
