//! The store against real servers.

// A panic is how a test fails.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use plimsoll_core::Layout;
use plimsoll_store_nats::kind;
use plimsoll_testkit::equals::{KILLED, Server, Suite};

const SUITE: Suite = Suite { kind, server };

fn server(dir: &Path, [address, _]: [SocketAddr; 2]) -> (Command, String) {
    let (file, store_dir) = (dir.join("nats.conf"), dir.join("data"));
    let text = format!(
        "listen: {address}\nmax_payload: 8388608\nauthorization {{ token: s3cret }}\njetstream {{ store_dir: {store_dir:?} }}\n"
    );
    std::fs::write(&file, text).expect("a file in a temporary directory");
    let mut command = Command::new("nats-server");
    command.arg("--config").arg(file);
    (command, format!("nats://s3cret@{address}"))
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
