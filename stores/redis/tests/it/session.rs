//! Bytes that a session writes, and its replies to bytes in pieces of any size.

use plimsoll_core::{
    Answer, CompletionSink, Op, Outcome, StoreErrorKind, Ticket, Value, ValueBuf, WireSession, WireState,
};
use plimsoll_store_redis::wire::Protocol;
use proptest::prelude::*;

use crate::fixture::{
    DELETE, GET, Kept, LOOK, NUMBERED, OWN, PUT, SCAN, Said, kinds, kinds_and_own, ready, ready_for_own, session,
};

fn start(session: &mut dyn WireSession, ticket: u32, kind: u16, params: &[Value<'_>]) -> Vec<u8> {
    let (mut buf, mut out) = (ValueBuf::new(), Vec::new());
    params.iter().for_each(|value| buf.push(*value));
    session.start(Ticket(ticket), &Op::new(kind, buf.values()), &mut out);
    out
}

#[test]
fn requests_are_commands_under_the_prefix() {
    let mut session = session(Protocol::Resp2, "p:");
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    assert_eq!(out, b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nplimsoll\r\n*1\r\n$4\r\nPING\r\n");
    session.feed(b"+OK\r\n+PONG\r\n", &mut out, &mut Kept::default());
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
        for (ticket, kind) in (0..).zip([GET, PUT, GET, DELETE, DELETE, LOOK, LOOK, PUT]) {
            start(&mut session, ticket, kind, &[Value::Bytes(b"k"), Value::Bytes(b"v")]);
        }
        let (mut kept, mut rest) = (Kept::default(), Vec::new());
        for bytes in REPLIES.chunks(piece) {
            rest.extend_from_slice(bytes);
            let used = session.feed(&rest, &mut Vec::new(), &mut kept);
            rest.drain(..used);
        }
        assert_eq!(kept.0, said(), "in pieces of {piece}");
        assert!(rest.is_empty());
        assert_eq!(*session.state(), WireState::Ready);
    }
}

#[test]
fn a_long_value_that_nobody_wants_is_not_kept_waiting_for() {
    let mut session = ready();
    start(&mut session, 0, LOOK, &[Value::Bytes(b"k")]);
    let (mut kept, mut out) = (Kept::default(), Vec::new());
    assert_eq!(session.feed(b"$100000\r\n", &mut out, &mut kept), 9, "the head is used up");
    for _ in 0..100 {
        assert!(kept.0.is_empty());
        assert_eq!(session.feed(&[b'-'; 1_000], &mut out, &mut kept), 1_000);
    }
    assert!(kept.0.is_empty(), "its end has not come");
    assert_eq!(session.feed(b"\r\n", &mut out, &mut kept), 2);
    assert_eq!(kept.0, [(0, Outcome::Ok, None, String::new())]);
}

/// Returns the error of a session that keeps at most 1,000 bytes when `bytes` answer a GET.
fn limited(bytes: &[u8]) -> String {
    let mut session = ready();
    session.limit_answers(1_000);
    start(&mut session, 0, GET, &[Value::Bytes(b"k")]);
    let mut kept = Kept::default();
    assert_eq!(session.feed(bytes, &mut Vec::new(), &mut kept), bytes.len());
    assert_eq!(kept.0[0].1, Outcome::Unknown);
    let WireState::Failed(error) = session.state() else { panic!("it was taken") };
    error.to_string()
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
    let mut kept = Kept::default();
    session.feed(b"+PONG\r\n", &mut Vec::new(), &mut kept);
    assert_eq!(kept.0, [(0, Outcome::Rejected, None, "UNSUPPORTED".to_owned())]);
}

#[test]
fn an_answer_that_is_none_makes_everything_in_flight_unknown() {
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b":7\r\n", b"*1\r\n+x\r\n", b"$3\r\nabcd\r\n"] {
        let mut session = ready();
        start(&mut session, 0, PUT, &[Value::Bytes(b"k"), Value::Bytes(b"v")]);
        start(&mut session, 1, GET, &[Value::Bytes(b"k")]);
        let mut kept = Kept::default();
        assert_eq!(session.feed(bytes, &mut Vec::new(), &mut kept), bytes.len());
        let outcomes: Vec<_> = kept.0.iter().map(|(ticket, outcome, ..)| (*ticket, *outcome)).collect();
        assert_eq!(outcomes, [(0, Outcome::Unknown), (1, Outcome::Unknown)], "{}", bytes.escape_ascii());
        let WireState::Failed(error) = session.state() else { panic!("{} was taken", bytes.escape_ascii()) };
        assert_eq!(error.kind, StoreErrorKind::Broken);
    }
}

#[test]
fn what_nobody_asked_ends_the_connection_with_the_servers_words() {
    let mut session = ready();
    session.feed(b"-ERR max number of clients reached\r\n", &mut Vec::new(), &mut Kept::default());
    let WireState::Failed(error) = session.state() else { panic!("it goes on") };
    assert!(error.to_string().contains("max number of clients"), "{error}");
}

#[test]
fn a_server_that_has_become_a_clusters_says_so() {
    for words in ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "CLUSTERDOWN Hash slot not served"] {
        struct Message(String);
        impl plimsoll_core::CompletionSink for Message {
            fn push(&mut self, _: Ticket, outcome: Outcome, answer: &plimsoll_core::Answer) {
                assert_eq!(outcome, Outcome::Rejected);
                self.0 = format!("{}: {}", answer.code, answer.message);
            }
        }
        let mut session = ready();
        start(&mut session, 0, GET, &[Value::Bytes(b"k")]);
        let mut message = Message(String::new());
        session.feed(format!("-{words}\r\n").as_bytes(), &mut Vec::new(), &mut message);
        let code = words.split(' ').next().unwrap_or_default();
        assert!(
            message.0.starts_with(&format!("{code}: {words}: this server has become a node of a cluster")),
            "{}",
            message.0
        );
    }
}

#[test]
fn any_reply_answers_a_command_of_the_users_own_however_it_is_cut() {
    const REPLIES: &[u8] =
        b"$3\r\nAnn\r\n$-1\r\n*0\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n-WRONGTYPE no\r\n*2\r\n+OK\r\n-ERR in it\r\n:7\r\n";
    let ok = |ticket, rows| (ticket, Outcome::Ok, rows, String::new());
    let wanted = [
        ok(0, 1),
        ok(1, 1),
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
        let (mut rows, mut rest) = (Rows::default(), Vec::new());
        for bytes in REPLIES.chunks(piece) {
            rest.extend_from_slice(bytes);
            let used = session.feed(&rest, &mut Vec::new(), &mut rows);
            rest.drain(..used);
        }
        assert_eq!(rows.0, wanted, "in pieces of {piece}");
    }
}

/// Keeps how many rows answers had.
#[derive(Default)]
struct Rows(Vec<(u32, Outcome, u64, String)>);

impl CompletionSink for Rows {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        assert!(answer.values.values().len() == answer.rows as usize);
        self.0.push((ticket.0, outcome, answer.rows, answer.code.clone()));
    }
}

#[test]
fn what_the_server_does_not_know_is_refused_when_the_session_opens() {
    for (known, what) in [("*-1", "knows no command HGET"), ("*2\r\n$4\r\nhget\r\n:4", "takes 4 words")] {
        let mut session = session(Protocol::Resp2, "");
        let mut out = Vec::new();
        session.open(&kinds_and_own(), &mut out);
        assert!(out.windows(7).any(|bytes| bytes == b"COMMAND"));
        session.feed(format!("+OK\r\n*1\r\n{known}\r\n").as_bytes(), &mut out, &mut Kept::default());
        let WireState::Failed(error) = session.state() else { panic!("it is refused") };
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
        let mut kept = Kept::default();
        let used = session.feed(&bytes, &mut Vec::new(), &mut kept);
        prop_assert!(used <= bytes.len() && kept.0.len() <= 5);
    }
}
