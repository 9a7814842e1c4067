//! Servers that are none, on real sockets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_core::{Durability, Outcome, StoreErrorKind, Value, Waits};
use plimsoll_store_http::kind;
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::opening::Opening;

use crate::fixture::{GET, kept, kinds, open};

/// A head that does not end within what a head may have.
static ENDLESS: [u8; 64 << 10] = {
    let mut head = [b'x'; 64 << 10];
    let (begin, mut at) = (b"HTTP/1.1 200 OK\r\nX: ", 0);
    while at < begin.len() {
        head[at] = begin[at];
        at += 1;
    }
    head
};

/// Answers the first `good` requests of every connection properly, and the next one with `bad` and the end.
fn serve(good: usize, bad: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            for at in 0.. {
                if !matches!(stream.read(&mut request), Ok(1..)) {
                    break;
                }
                let answer = if at < good { &b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..] } else { bad };
                if stream.write_all(answer).is_err() || at >= good {
                    break;
                }
            }
        }
    });
    port
}

/// Answers GET as `way` says, and nothing else. Returns the port, and the number of connections that have asked something.
fn odd(way: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, asked) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, count) = (stream.unwrap(), Arc::clone(&count));
            std::thread::spawn(move || {
                let (mut request, mut is_first) = ([0; 4096], true);
                while let Ok(read @ 1..) = stream.read(&mut request) {
                    count.fetch_add(usize::from(is_first), Ordering::SeqCst);
                    is_first = false;
                    let (fields, body) = match way {
                        _ if !request[..read].starts_with(b"GET") => return,
                        "silent" => continue,
                        "fold" => ("X: one,\r\n two\r\nContent-Length: 5\r\n", "hello"),
                        _ => ("Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
                    };
                    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}").as_bytes());
                }
            });
        }
    });
    (port, asked)
}

#[test]
fn a_server_that_answers_get_is_measured_and_nothing_else_is_asked() {
    for way in ["fold", "both"] {
        let (port, asked) = odd(way);
        let mut store = open(&format!("http://127.0.0.1:{port}"), None).unwrap();
        store.describe().unwrap();
        let mut script = Script::new();
        script.op(GET, [Value::Text("/")]).op(GET, [Value::Text("/")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        for reply in replies {
            assert_eq!(kept(&reply.answer), Some((200, b"hello".to_vec())), "{way}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{way}: once when it was attached, and the session");
    }
}

#[test]
fn a_silent_server_is_asked_once() {
    let (port, asked) = odd("silent");
    let waits = Waits::from(Duration::from_millis(1_000));
    let mut opening = Opening::attached(kind, &format!("http://127.0.0.1:{port}"), None);
    opening.options.waits = waits;
    let error = opening.open().err().unwrap();
    assert_eq!((error.kind, asked.load(Ordering::SeqCst)), (StoreErrorKind::Unreachable, 1), "{error:?}");
}

#[test]
fn an_answer_that_is_none_is_unknown_and_the_connection_is_opened_again() {
    for bad in [
        &b"\0\xff garbage \r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\n\r\nto the end",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
        ENDLESS.as_slice(),
    ] {
        let port = serve(2, bad);
        let mut store = open(&format!("http://127.0.0.1:{port}"), None).unwrap();
        let mut script = Script::new();
        for _ in 0..4 {
            script.op(GET, [Value::Text("/")]);
        }
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        let outcomes: Vec<_> = replies.iter().map(|reply| reply.outcome).collect();
        use Outcome::{Ok, Unknown};
        assert_eq!(outcomes, [Ok, Ok, Unknown, Ok], "{}", bad[..bad.len().min(99)].escape_ascii());
    }
}
