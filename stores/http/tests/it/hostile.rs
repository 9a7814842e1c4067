//! Servers that are none, on real sockets.

use std::io::{Read, Write};
use std::net::TcpListener;

use plimsoll_core::{Durability, Outcome, Value};
use plimsoll_testkit::ask::{Script, ask};

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

/// Answers GET well and HEAD as `way` says; or both with a field on two lines, or with a length that does not count.
fn odd(way: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut request) {
                    let is_head = request[..read].starts_with(b"HEAD");
                    let (fields, body) = match way {
                        "close" if is_head => return,
                        "400" if is_head => ("Content-Length: 0\r\n", ""),
                        "fold" => ("X: one,\r\n two\r\nContent-Length: 5\r\n", "hello"),
                        "both" => ("Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
                        _ => ("Content-Length: 5\r\n", "hello"),
                    };
                    let status = if way == "400" && is_head { "400 Bad Request" } else { "200 OK" };
                    let body = if is_head && way != "body" { "" } else { body };
                    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n{fields}\r\n{body}").as_bytes());
                }
            });
        }
    });
    port
}

#[test]
fn a_server_that_answers_get_is_measured_however_it_answers_head() {
    for way in ["body", "close", "400", "fold", "both"] {
        let mut store = open(&format!("http://127.0.0.1:{}", odd(way)), None).unwrap();
        store.describe().unwrap();
        let mut script = Script::new();
        script.op(GET, [Value::Text("/")]).op(GET, [Value::Text("/")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        for reply in replies {
            assert_eq!(kept(&reply.answer), Some((200, b"hello".to_vec())), "{way}");
        }
    }
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
