//! Bytes that a session writes, and its replies to bytes in pieces of any size.

use plimsoll_core::{Op, Outcome, StoreErrorKind, Ticket, Value, WireSession, WireState};
use plimsoll_store_redis::wire::Protocol;
use plimsoll_testkit::pieces::{self, Kept, PuttingOff, failure, fed};
use plimsoll_testkit::wire::values;
use proptest::prelude::*;

use crate::fixture::{
    DELETE, GET, LOOK, NUMBERED, OWN, PUT, SCAN, Said, keeper, kinds, kinds_and_own, ready, ready_for_own, session,
};

fn start(session: &mut dyn WireSession, ticket: u32, kind: u16, params: &[Value<'_>]) -> Vec<u8> {
    let (params, mut out) = (values(params), Vec::new());
    session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut out);
    out
}

#[test]
fn requests_are_commands_under_the_prefix() {
    let mut session = session(Protocol::Resp2, "p:");
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    assert_eq!(out, b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nplimsoll\r\n*1\r\n$4\r\nPING\r\n");
    session.feed(b"+OK\r\n+PONG\r\n", &mut out, &mut keeper());
    let bytes = Value::Bytes;
    assert_eq!(start(&mut session, 0, GET, &[bytes(b"a\r\n")]), b"*2\r\n$3\r\nGET\r\n$5\r\np:a\r\n\r\n");
    assert_eq!(start(&mut session, 1, PUT, &[bytes(b"k"), bytes(b"")]), b"*3\r\n$3\r\nSET\r\n$3\r\np:k\r\n$0\r\n\r\n");
    assert_eq!(start(&mut session, 2, DELETE, &[bytes(b"k")]), b"*2\r\n$3\r\nDEL\r\n$3\r\np:k\r\n");
    let numbered = start(&mut session, 3, NUMBERED, &[Value::Int(-120), Value::Text("käse")]);
    assert_eq!(numbered, "*3\r\n$3\r\nSET\r\n$6\r\np:-120\r\n$5\r\nkäse\r\n".as_bytes());
    let numbered = start(&mut session, 4, NUMBERED, &[Value::Int(0), Value::Text("")]);
    assert_eq!(numbered, b"*3\r\n$3\r\nSET\r\n$3\r\np:0\r\n$0\r\n\r\n");
}

/// Replies to eight operations in a pipeline, with what a RESP3 server may say between them.
const REPLIES: &[u8] = b"$5\r\nva\r\nl\r\n>2\r\n+invalidate\r\n_\r\n+OK\r\n$-1\r\n:1\r\n:0\r\n$11\r\nnobody asks\r\n\
    |1\r\n+ttl\r\n:3\r\n_\r\n-OOM command not allowed\r\n";

fn said() -> Vec<Said> {
    let none = String::new;
    vec![
        (0, Outcome::Ok, Some(b"va\r\nl".to_vec()), none()),
        (1, Outcome::Ok, None, none()),
        (2, Outcome::NotFound, None, none()),
        (3, Outcome::Ok, None, none()),
        (4, Outcome::NotFound, None, none()),
        (5, Outcome::Ok, None, none()),
        (6, Outcome::NotFound, None, none()),
        (7, Outcome::Rejected, None, "OOM".to_owned()),
    ]
}

#[test]
fn replies_are_the_same_however_they_are_cut() {
    for piece in 1..=REPLIES.len() {
        let mut session = ready();
        let kinds = [GET, PUT, GET, DELETE, DELETE, LOOK, LOOK, PUT];
        pieces::start(&mut session, &kinds, &[Value::Bytes(b"k"), Value::Bytes(b"v")]);
        let mut kept = keeper();
        let (_, left) = fed(&mut session, REPLIES, &[piece], &mut kept);
        assert_eq!((kept.all, left), (said(), 0), "in pieces of {piece}");
        assert_eq!(*session.state(), WireState::Ready);
    }
}

#[test]
fn a_long_value_that_nobody_wants_is_not_kept_waiting_for() {
    let mut session = ready();
    start(&mut session, 0, LOOK, &[Value::Bytes(b"k")]);
    let (mut kept, mut out) = (keeper(), Vec::new());
    assert_eq!(session.feed(b"$100000\r\n", &mut out, &mut kept), 9, "the head is used up");
    for _ in 0..100 {
        assert!(kept.all.is_empty());
        assert_eq!(session.feed(&[b'-'; 1_000], &mut out, &mut kept), 1_000);
    }
    assert!(kept.all.is_empty(), "its end has not come");
    assert_eq!(session.feed(b"\r\n", &mut out, &mut kept), 2);
    assert_eq!(kept.all, [(0, Outcome::Ok, None, String::new())]);
}

/// Returns the error of a session that keeps at most 1,000 bytes when `bytes` answer a GET.
fn limited(bytes: &[u8]) -> String {
    let mut session = ready();
    session.limit_answers(1_000);
    start(&mut session, 0, GET, &[Value::Bytes(b"k")]);
    let mut kept = keeper();
    assert_eq!(session.feed(bytes, &mut Vec::new(), &mut kept), bytes.len());
    assert_eq!(kept.all[0].1, Outcome::Unknown);
    failure(&session).to_string()
}

#[test]
fn an_answer_that_is_larger_than_what_is_kept_is_refused_as_soon_as_its_length_is_known() {
    let words = "answers with 419430414 bytes, and at most 1000 are kept of an answer (--answer-max)";
    assert!(limited(b"$419430400\r\nab").contains(words));
    let whole = [&b"$2000\r\n"[..], &[b'x'; 2_000], b"\r\n"].concat();
    assert!(limited(&whole).contains("answers with 2000 bytes"));
    // The length of its elements is unknown.
    let list = [&b"*1000000\r\n"[..], &b":1\r\n".repeat(500)].concat();
    assert!(limited(&list).contains("answers with more bytes, and at most 1000"));
}

#[test]
fn what_redis_does_not_speak_is_rejected_when_it_is_asked() {
    let mut session = ready();
    assert_eq!(start(&mut session, 0, SCAN, &[Value::Bytes(b"k"), Value::Int(3)]), b"*1\r\n$4\r\nPING\r\n");
    let mut kept = keeper();
    session.feed(b"+PONG\r\n", &mut Vec::new(), &mut kept);
    assert_eq!(kept.all, [(0, Outcome::Rejected, None, "UNSUPPORTED".to_owned())]);
}

#[test]
fn an_answer_that_is_none_makes_everything_in_flight_unknown() {
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b":7\r\n", b"*1\r\n+x\r\n", b"$3\r\nabcd\r\n"] {
        let mut session = ready();
        start(&mut session, 0, PUT, &[Value::Bytes(b"k"), Value::Bytes(b"v")]);
        start(&mut session, 1, GET, &[Value::Bytes(b"k")]);
        let mut kept = keeper();
        assert_eq!(session.feed(bytes, &mut Vec::new(), &mut kept), bytes.len());
        let outcomes: Vec<_> = kept.all.iter().map(|(ticket, outcome, ..)| (*ticket, *outcome)).collect();
        assert_eq!(outcomes, [(0, Outcome::Unknown), (1, Outcome::Unknown)], "{}", bytes.escape_ascii());
        assert_eq!(failure(&session).kind, StoreErrorKind::Broken);
    }
}

#[test]
fn what_nobody_asked_ends_the_connection_with_the_servers_words() {
    let mut session = ready();
    session.feed(b"-ERR max number of clients reached\r\n", &mut Vec::new(), &mut keeper());
    let error = failure(&session);
    assert!(error.to_string().contains("max number of clients"), "{error}");
}

#[test]
fn a_server_that_has_become_a_clusters_says_so() {
    for words in ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "CLUSTERDOWN Hash slot not served"] {
        let mut session = ready();
        start(&mut session, 0, GET, &[Value::Bytes(b"k")]);
        let mut messages = Kept::new(|_, outcome, answer| {
            assert_eq!(outcome, Outcome::Rejected);
            format!("{}: {}", answer.code, answer.message)
        });
        session.feed(format!("-{words}\r\n").as_bytes(), &mut Vec::new(), &mut messages);
        let message = &messages.all[0];
        let code = words.split(' ').next().unwrap_or_default();
        assert!(
            message.starts_with(&format!("{code}: {words}: this server has become a node of a cluster")),
            "{message}"
        );
    }
}

#[test]
fn what_a_server_does_not_begin_for_now_is_put_off_and_other_errors_are_not() {
    let mut session = ready_for_own();
    let kinds = [GET, PUT, DELETE, OWN, GET, PUT, OWN];
    for (ticket, kind) in (0..).zip(kinds) {
        start(&mut session, ticket, kind, &[Value::Int(1), Value::Text("v")]);
    }
    let replies = b"-LOADING Redis is loading the dataset in memory\r\n\
        -MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n\
        -BUSY Redis is busy running a script.\r\n-LOADING x\r\n-WRONGTYPE x\r\n+OK\r\n-BUSYGROUP x\r\n";
    let mut seen = PuttingOff::default();
    assert_eq!(session.feed(replies, &mut Vec::new(), &mut seen), replies.len());
    let codes = ["LOADING", "MASTERDOWN", "BUSY", "LOADING"].map(str::to_owned);
    assert_eq!(seen.put_off, (0_u32..).zip(codes).collect::<Vec<_>>());
    assert_eq!(seen.finished, [(4, Outcome::Rejected), (5, Outcome::Ok), (6, Outcome::Rejected)]);
    // They are asked again over the same connection.
    start(&mut session, 0, GET, &[Value::Int(1)]);
    session.feed(b"$-1\r\n", &mut Vec::new(), &mut seen);
    assert_eq!(seen.finished.last(), Some(&(0, Outcome::NotFound)));
    // For a receiver that sends nothing again.
    let mut kept = keeper();
    start(&mut session, 0, GET, &[Value::Int(1)]);
    session.feed(b"-LOADING x\r\n", &mut Vec::new(), &mut kept);
    assert_eq!(kept.all, [(0, Outcome::Rejected, None, "LOADING".to_owned())]);
}

#[test]
fn any_reply_answers_a_command_of_the_users_own_however_it_is_cut() {
    const REPLIES: &[u8] =
        b"$3\r\nAnn\r\n$-1\r\n*0\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n-WRONGTYPE no\r\n*2\r\n+OK\r\n-ERR in it\r\n:7\r\n";
    let ok = |ticket, rows| (ticket, Outcome::Ok, rows, String::new());
    let wanted = [
        ok(0, 1),
        // A read of nothing.
        (1, Outcome::NotFound, 1, String::new()),
        ok(2, 0),
        ok(3, 2),
        (4, Outcome::Rejected, 0, "WRONGTYPE".to_owned()),
        (5, Outcome::Rejected, 0, "ERR".to_owned()),
        ok(6, 1),
    ];
    for piece in 1..=REPLIES.len() {
        let mut session = ready_for_own();
        for ticket in 0..7 {
            let asked = start(&mut session, ticket, OWN, &[Value::Int(17)]);
            assert_eq!(asked, b"*3\r\n$4\r\nHGET\r\n$7\r\nuser:17\r\n$4\r\nname\r\n");
        }
        let mut rows = Kept::new(|ticket, outcome, answer| {
            assert!(answer.values.values().len() == answer.rows as usize);
            (ticket, outcome, answer.rows, answer.code.clone())
        });
        fed(&mut session, REPLIES, &[piece], &mut rows);
        assert_eq!(rows.all, wanted, "in pieces of {piece}");
    }
}

#[test]
fn what_the_server_does_not_know_is_refused_when_the_session_opens() {
    for (known, what) in [("*-1", "knows no command HGET"), ("*2\r\n$4\r\nhget\r\n:4", "takes 4 words")] {
        let mut session = session(Protocol::Resp2, "");
        let mut out = Vec::new();
        session.open(&kinds_and_own(), &mut out);
        assert!(out.windows(7).any(|bytes| bytes == b"COMMAND"));
        session.feed(format!("+OK\r\n*1\r\n{known}\r\n").as_bytes(), &mut out, &mut keeper());
        let error = failure(&session);
        assert!(error.kind == StoreErrorKind::Usage && error.what.contains(what), "{error}");
    }
}

proptest! {
    #[test]
    fn whatever_arrives_is_taken_or_ends_the_session(bytes in prop::collection::vec(prop::sample::select(b"+-:$*%>|_~0123\r\nOK".to_vec()), 0..60)) {
        let mut session = ready_for_own();
        for (ticket, kind) in (0..).zip([OWN, GET, OWN, PUT, OWN]) {
            start(&mut session, ticket, kind, &[Value::Int(1), Value::Text("v")]);
        }
        let mut kept = keeper();
        let used = session.feed(&bytes, &mut Vec::new(), &mut kept);
        prop_assert!(used <= bytes.len() && kept.all.len() <= 5);
    }
}
