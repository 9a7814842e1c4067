//! Sessions without a socket: how answers are taken, whole and in pieces, and what garbage comes to.

use plimsoll_core::{
    Call, Durability, HttpCall, HttpTake, Op, OpKind, Outcome, StoreErrorKind, Ticket, Value, ValueBuf, ValueType,
    WireSession, WireState,
};
use plimsoll_store_http::endpoint::Version;
use plimsoll_store_http::wire::HttpSession;
use plimsoll_testkit::pieces::{self, Kept, failure};
use proptest::prelude::*;

use crate::fixture::{GET, HEAD, LOOK, PUT, Said, keeper, kinds, login, ready, session};

fn start(session: &mut HttpSession, kinds: &[u16]) -> Vec<u8> {
    pieces::start(session, kinds, &[Value::Text("/x"), Value::Bytes(b"body")])
}

/// Feeds `bytes` in pieces of `step`, as an executor does.
fn fed(session: &mut HttpSession, bytes: &[u8], step: usize) -> Vec<Said> {
    let mut kept = keeper();
    pieces::fed(session, bytes, &[step], &mut kept);
    kept.all
}

const ASKED: [u16; 8] = [GET, LOOK, HEAD, GET, GET, GET, GET, LOOK];
const ANSWERS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone\
HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n\
HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: t\r\n\r\n\
HTTP/1.1 204 No Content\r\n\r\n\
HTTP/1.1 503 Busy Now\r\nContent-Length: 2\r\n\r\nno\
HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n\
HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";

#[test]
fn answers_are_taken_however_they_arrive() {
    let ok = |ticket, status, body: &[u8]| (ticket, Outcome::Ok, Some((status, body.to_vec())), "".into(), "".into());
    let refused = |ticket, code: &str, words: &str| (ticket, Outcome::Rejected, None, code.into(), words.into());
    let expected: Vec<Said> = vec![
        ok(0, 200, b"hello"),
        refused(1, "404", "Not Found"),
        ok(2, 200, b""),
        ok(3, 200, b"abc0123456789"),
        ok(4, 204, b""),
        refused(5, "503", "Service Unavailable"),
        ok(6, 304, b""),
        refused(7, "410", "Gone"),
    ];
    for step in [1, 2, 3, 7, 64, ANSWERS.len()] {
        let mut session = ready();
        start(&mut session, &ASKED);
        assert_eq!(fed(&mut session, ANSWERS, step), expected, "{step}");
        assert_eq!(*session.state(), WireState::Ready);
    }
}

#[test]
fn a_body_that_is_not_kept_is_thrown_away_as_it_arrives() {
    let mut session = ready();
    start(&mut session, &[LOOK]);
    let mut kept = keeper();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nabc";
    assert_eq!(session.feed(head, &mut Vec::new(), &mut kept), head.len());
    let piece = vec![b'x'; 1 << 20];
    assert_eq!(session.feed(&piece, &mut Vec::new(), &mut kept), piece.len());
    assert!(kept.all.is_empty());
    // Kept, such a body is refused at once.
    let mut session = ready();
    start(&mut session, &[GET]);
    assert_eq!(fed(&mut session, head, head.len())[0].1, Outcome::Unknown);
    let mut session = ready();
    session.limit_answers(1_000);
    start(&mut session, &[GET]);
    fed(&mut session, b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", 99);
    let error = failure(&session);
    let words = "answers with 1001 bytes, and at most 1000 are kept of an answer (--answer-max)";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_chunked_body_that_is_kept_has_a_bound() {
    let mut session = ready();
    session.limit_answers(64 << 20);
    start(&mut session, &[GET]);
    let mut kept = keeper();
    session.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", &mut Vec::new(), &mut kept);
    let piece = vec![b'x'; 8 << 20];
    for _ in 0..9 {
        session.feed(&piece, &mut Vec::new(), &mut kept);
    }
    assert_eq!(kept.all[0].1, Outcome::Unknown);
    assert!(failure(&session).to_string().contains("more bytes, and at most 67108864"));
}

#[test]
fn a_connection_that_closes_ends_in_good_order() {
    let mut session = ready();
    start(&mut session, &[GET, LOOK]);
    let said = fed(&mut session, b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok", 1000);
    assert_eq!((said[0].1, said[1].1), (Outcome::Ok, Outcome::Unknown));
    assert_eq!(said[1].3, "closed");
    assert_eq!(*session.state(), WireState::Ended);
    // Opened again, it does not send the opening request.
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    assert_eq!((session.state(), out.len()), (&WireState::Ready, 0));
    start(&mut session, &[LOOK]);
    assert_eq!(fed(&mut session, b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 3)[0].1, Outcome::Ok);
    assert_eq!(*session.state(), WireState::Ended, "HTTP/1.0 closes unless it says otherwise");
}

#[test]
fn an_error_of_the_servers_own_leaves_a_write_open() {
    use Outcome::{Rejected, Unknown};
    for (head, write) in [
        ("400 Bad Request", Rejected),
        ("404 Not Found", Rejected),
        ("408 Request Timeout", Rejected),
        ("409 Conflict", Rejected),
        ("413 Content Too Large", Rejected),
        ("429 Too Many Requests", Rejected),
        ("500 Internal Server Error", Unknown),
        ("501 Not Implemented", Rejected),
        ("502 Bad Gateway", Unknown),
        ("503 Service Unavailable", Unknown),
        ("503 Service Unavailable\r\nRetry-After: 1", Rejected),
        ("504 Gateway Timeout", Unknown),
        ("504 Gateway Timeout\r\nRetry-After: 1", Unknown),
        ("505 HTTP Version Not Supported", Rejected),
        ("507 Insufficient Storage", Unknown),
        ("520 ", Unknown),
    ] {
        let mut session = ready();
        start(&mut session, &[PUT, LOOK]);
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").repeat(2);
        let said = fed(&mut session, answer.as_bytes(), 1000);
        assert_eq!((said[0].1, said[1].1), (write, Rejected), "{head}");
        assert_eq!((&said[0].3, &said[0].4), (&said[1].3, &said[1].4), "{head}: the words are the same");
        assert_eq!(said[0].3, head[..3]);
    }
}

#[test]
fn a_session_that_asks_for_the_server_ends_with_the_head_of_its_answer() {
    let (mut session, mut out) = (HttpSession::asking(login(Version::Http11)), Vec::new());
    session.open(&[], &mut out);
    assert!(out.starts_with(b"GET / HTTP/1.1\r\nHost: h\r\n") && out.ends_with(b"\r\n\r\n"));
    let answer = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 612\r\n\r\nthe first pie";
    assert_eq!(session.feed(answer, &mut out, &mut keeper()), answer.len());
    assert_eq!((session.state(), session.server()), (&WireState::Ended, "test"));
}

#[test]
fn the_first_answer_says_whether_this_is_the_place() {
    for (answer, kind) in [
        (&b"HTTP/1.1 401 Unauthorized\r\n\r\n"[..], StoreErrorKind::Authentication),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StoreErrorKind::Usage),
        (b"\x15\x03\x03\x00\x02\x02\x46", StoreErrorKind::Broken),
        (b"220 mail.example ESMTP\r\n", StoreErrorKind::Broken),
    ] {
        let mut session = HttpSession::asking(login(Version::Http11));
        session.open(&kinds(), &mut Vec::new());
        fed(&mut session, answer, 3);
        assert_eq!(failure(&session).kind, kind);
    }
}

#[test]
fn writes_are_not_called_durable() {
    let promised = [(Durability::Durable, false), (Durability::Buffered, false)];
    for (durability, ready) in promised.into_iter().chain([(Durability::AtEnd, true), (Durability::AsConfigured, true)])
    {
        for writes in [true, false] {
            let mut session = session(durability);
            let kinds: Vec<_> = kinds().into_iter().filter(|kind| writes || !kind.writes()).collect();
            session.open(&kinds, &mut Vec::new());
            match session.state() {
                WireState::Ready => assert!(ready || !writes),
                WireState::Failed(error) => {
                    assert!(!ready && writes && error.kind == StoreErrorKind::Usage, "{error}");
                    assert!(error.next.as_deref().unwrap().contains("as-configured"));
                }
                WireState::Opening | WireState::Ended => panic!("it asks nothing first"),
            }
        }
    }
}

#[test]
fn an_answer_that_nobody_asked_for_ends_the_connection() {
    let mut session = ready();
    let said = fed(&mut session, b"HTTP/1.1 408 Request Time-out\r\nConnection: close\r\n\r\n", 1000);
    assert!(said.is_empty());
    let error = failure(&session);
    assert_eq!((error.kind, error.detail.as_deref()), (StoreErrorKind::Unreachable, Some("408 Request Timeout")));
}

#[test]
fn a_request_is_one_piece_of_bytes() {
    let out = start(&mut ready(), &[PUT, HEAD]);
    let put = "PUT /put//x HTTP/1.1\r\nHost: h\r\nUser-Agent: plimsoll\r\nContent-Length: 4\r\n\r\nbody";
    let head = "HEAD /x HTTP/1.1\r\nHost: h\r\nUser-Agent: plimsoll\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), format!("{put}{head}"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every operation is answered at most once, in order; a failed session has answered them all and takes everything.
    #[test]
    fn garbage_panics_nobody(
        damage in prop::collection::vec((0..ANSWERS.len(), any::<u8>()), 0..6),
        cut in 0..ANSWERS.len(),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        step in 1..100_usize,
        from_start in any::<bool>(),
    ) {
        let mut bytes = ANSWERS.to_vec();
        damage.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        bytes.splice(cut..cut, noise);
        let mut session = if from_start { HttpSession::asking(login(Version::Http11)) } else { ready() };
        if from_start {
            session.open(&kinds(), &mut Vec::new());
        } else {
            start(&mut session, &ASKED);
        }
        let said = fed(&mut session, &bytes, step);
        prop_assert!(said.iter().map(|said| said.0).eq(0..said.len() as u32));
        if matches!(session.state(), WireState::Failed(_) | WireState::Ended) {
            prop_assert_eq!(said.len(), if from_start { 0 } else { ASKED.len() });
        }
    }
}

/// A kind that wants something of its answers, and keeps cookies.
fn taking(take: &[HttpTake]) -> OpKind {
    let call = HttpCall { take: take.to_vec(), cookies: true, contains: Some("1".into()), ..HttpCall::get("/") };
    OpKind { keep_answer: true, ..OpKind::new("take", Call::Http(call), &[]) }
}

fn taken(kind: OpKind, bytes: &[u8], step: usize) -> (HttpSession, Vec<Said>) {
    let mut session = session(Durability::AtEnd);
    session.open(&[kind], &mut Vec::new());
    let nothing = ValueBuf::new();
    session.start(Ticket(0), &Op::new(0, nothing.values()), &mut Vec::new());
    let said = fed(&mut session, bytes, step);
    (session, said)
}

const GIVEN: &[u8] = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 17\r\n\r\n{\"id\": [1, \"xy\"]}";

#[test]
fn an_answer_without_what_is_wanted_is_an_error_of_its_own() {
    let json = |path: &[&str]| HttpTake::Json(path.iter().map(|name| (*name).to_owned()).collect());
    for step in [1, 7, GIVEN.len()] {
        let (mut session, said) = taken(taking(&[json(&["id", "0"]), HttpTake::Status]), GIVEN, step);
        assert_eq!((said.len(), said[0].1), (1, Outcome::Ok), "{said:?}");
        let (nothing, mut out) = (ValueBuf::new(), Vec::new());
        session.start(Ticket(1), &Op::new(0, nothing.values()), &mut out);
        assert!(String::from_utf8(out).unwrap().contains("\r\nCookie: a=b\r\n"));
        let (session, said) = taken(taking(&[json(&["id", "name"])]), GIVEN, step);
        assert_eq!((said[0].1, said[0].3.as_str()), (Outcome::Rejected, "content"));
        assert!(said[0].4.contains("no `id.name`"), "{said:?}");
        // The connection is as good as before.
        assert_eq!(*session.state(), WireState::Ready);
    }
    let (_, said) = taken(taking(&[]), b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2", 9);
    assert_eq!((said[0].1, said[0].3.as_str()), (Outcome::Rejected, "content"));
}

#[test]
fn a_location_is_relative_to_the_target_of_its_own_request() {
    let call = HttpCall { take: vec![HttpTake::Header("Location".into())], ..HttpCall::get("{}") };
    let kind = OpKind { keep_answer: true, ..OpKind::new("go", Call::Http(call), &[ValueType::Text]) };
    let mut session = session(Durability::AtEnd);
    session.open(&[kind], &mut Vec::new());
    let asked = |session: &mut HttpSession, targets: [&str; 2], to: &str| {
        let mut params = ValueBuf::new();
        for (ticket, target) in (0..).zip(targets) {
            params.clear();
            params.push(Value::Text(target));
            session.start(Ticket(ticket), &Op::new(0, params.values()), &mut Vec::new());
        }
        let answer = format!("HTTP/1.1 303 See Other\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").repeat(2);
        let mut kept = Kept::new(|_, outcome, answer| (outcome, format!("{:?}", answer.values.values().get(0))));
        session.feed(answer.as_bytes(), &mut Vec::new(), &mut kept);
        kept.all
    };
    let ok = |path: &str| (Outcome::Ok, format!("Text({path:?})"));
    assert_eq!(asked(&mut session, ["/a/b", "/c/d?e"], "../f?g"), [ok("/f?g"), ok("/f?g")]);
    assert_eq!(asked(&mut session, ["/a/b/c", "/c/d?e"], "x"), [ok("/a/b/x"), ok("/c/x")]);
    assert_eq!(asked(&mut session, ["/a/b", "/c/d?e"], "http://other/f"), [ok("http://other/f"), ok("http://other/f")]);
}

#[test]
fn answers_are_counted_by_status_and_by_size() {
    for step in [1, 7, ANSWERS.len()] {
        let mut session = ready();
        start(&mut session, &ASKED);
        fed(&mut session, ANSWERS, step);
        let tally = session.tally().unwrap();
        let statuses = [(200, 3), (204, 1), (304, 1), (404, 1), (410, 1), (503, 1)];
        assert_eq!((tally.count(), tally.statuses()), (8, statuses.to_vec()), "{step}");
        // 5, 4, 0 (HEAD), 13 in chunks, 0, 2, 0 and 1 bytes.
        assert_eq!((tally.bytes_median(), tally.bytes_max()), (Some(1), Some(13)), "{step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Tests that the wanted values of any answer are found or missed, once.
    #[test]
    fn what_is_wanted_of_garbage_panics_nobody(
        damage in prop::collection::vec((0..GIVEN.len(), any::<u8>()), 0..6),
        body in prop::collection::vec(any::<u8>(), 0..80),
        path in prop::collection::vec("[a-z0-9]{0,3}", 1..4),
        step in 1..100_usize,
    ) {
        let mut bytes = GIVEN.to_vec();
        damage.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        let take = [HttpTake::Json(path), HttpTake::Regex("([0-9]).".into()), HttpTake::Header("set-cookie".into()), HttpTake::Body];
        let (session, said) = taken(taking(&take), &bytes, step);
        prop_assert!(said.len() <= 1);
        prop_assert!(!said.is_empty() || !matches!(session.state(), WireState::Failed(_)));
        let whole = [format!("HTTP/1.1 200 OK\r\nSet-Cookie: x\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
        prop_assert_eq!(taken(taking(&take), &whole, step).1.len(), 1);
    }
}
