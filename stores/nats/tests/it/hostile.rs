//! Servers that are none.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use plimsoll_core::{OpenOptions, Target, Waits};
use plimsoll_store_nats::kind;

const INFO: &str = "INFO {\"server_id\":\"X\",\"version\":\"2.9.10\",\"headers\":true,\"client_id\":1}\r\n";

/// What attaching to a server comes to that says `first`, and `again` for as long as anybody listens.
fn attached(first: &'static str, again: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = socket.write_all(first.as_bytes());
                while !again.is_empty() && socket.write_all(again).is_ok() {}
                // Silent until the other side has had enough.
                std::thread::sleep(Duration::from_secs(10));
            });
        }
    });
    let kind = kind();
    let params = plimsoll_testkit::params::defaults(kind.spec().params);
    let target = Target::Attach { url, password: None };
    let waits = Waits::from(Duration::from_secs(1));
    let began = Instant::now();
    let opened = kind.open(OpenOptions { target, params, run_id: "hostile".to_owned(), waits }, &mut |_| {});
    let error = opened.err().expect("it is no NATS");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}: {error}", began.elapsed());
    assert!(error.next.is_some(), "{error}");
    error.to_string()
}

#[test]
fn whoever_is_no_nats_is_refused_in_time() {
    assert!(attached("", b"").contains("has not answered"));
    assert!(attached(&INFO[..20], b"").contains("has not answered"));
    assert!(attached("-ERR 'x'\r\n", b"").contains("as no NATS"));
    assert!(attached("HTTP/1.1 400 Bad Request\r\n\r\n", b"").contains("as no NATS"));
    assert!(attached("", &[b'x'; 1000]).contains("as no NATS"));
    assert!(attached(INFO, b"PING\r\nPING\r\n").contains("as no NATS"));
    assert!(attached(INFO, b"MSG a 1 3\r\nabc\r\n").contains("as no NATS"));
    assert!(attached(INFO, b"MSG a 1 99999999999\r\n").contains("99999999999 bytes"));
}
