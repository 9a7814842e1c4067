//! The store against real servers.

// A panic is how a test fails.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use plimsoll_store_etcd::kind;
use plimsoll_testkit::advice::follow;
use plimsoll_testkit::equals::{KILLED, Server, Suite};

const SUITE: Suite = Suite { kind, server };

fn server(dir: &Path, [client, peer]: [SocketAddr; 2]) -> (Command, String) {
    let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(dir);
    command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.args(["--initial-cluster", &format!("default={peer_url}"), "--max-request-bytes", "8388608"]);
    (command, format!("etcd://{client}"))
}

#[test]
fn a_private_server_conforms() {
    SUITE.conforms_private();
}

#[test]
fn an_attached_server_conforms() {
    SUITE.conforms_attached();
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
    SUITE.refuses("etcd://root@h", "the URL names a user, and there is no password");
}

#[test]
fn a_server_that_is_not_etcd_is_refused_in_time() {
    assert!(SUITE.refusal("", b"").contains("no answer within"));
    assert!(SUITE.refusal("HTTP/1.1 400 Bad Request\r\n\r\n", b"").contains("the connection is lost"));
    assert!(SUITE.refusal("", &[b'x'; 1000]).contains("the connection is lost"));
}
