//! Sessions of HTTP/2 without a socket: how answers are taken, whole and in pieces, and what garbage comes to.

use plimsoll_core::{Durability, Op, Outcome, StoreErrorKind, Ticket, Value, ValueBuf, WireSession, WireState};
use plimsoll_store_http::endpoint::Version;
use plimsoll_store_http::http2::Http2Session;
use plimsoll_testkit::allocations::{ROUNDS, none};
use plimsoll_testkit::pieces::{self, Counted, failure};
use proptest::prelude::*;

use crate::fixture::{GET, HEAD, LOOK, PUT, Said, keeper, kinds, login};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// The frames of what a session sends, without the greeting of a client.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    bytes = bytes.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap_or(bytes);
    let mut all = Vec::new();
    while let [a, b, c, kind, flags, d, e, f, g, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        all.push((*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]), rest[..length].to_vec()));
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty());
    all
}

/// `:status 200`, and a length of 5.
const HEAD_200: &[u8] = b"\x88\x0f\x0d\x015";

/// A session that has asked for the server first, on the stream 1, and was answered.
fn ready(settings: &[u8]) -> Http2Session {
    let mut session = Http2Session::asking(login(Version::Http2));
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    let sent = frames(&out);
    assert_eq!((sent[0].0, sent[1].0, sent[2].0), (SETTINGS, WINDOW_UPDATE, HEADERS));
    assert_eq!(sent[0].3[..12], [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0], "no table, nothing pushed");
    assert_eq!((sent[2].1, sent[2].2), (END_STREAM | END_HEADERS, 1));
    // GET, http, h, /
    assert!(sent[2].3.starts_with(b"\x82\x86\x01\x01h\x84"), "{}", sent[2].3.escape_ascii());
    let greeting = [
        frame(SETTINGS, 0, 0, settings),
        frame(SETTINGS, 1, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, b"\x88\x0f\x27\x04test"),
        // Its body is not waited for.
        frame(DATA, 0, 1, b"body"),
    ]
    .concat();
    let mut out = Vec::new();
    assert_eq!(session.feed(&greeting, &mut out, &mut keeper()), greeting.len());
    assert_eq!(out, [frame(SETTINGS, 1, 0, &[]), frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())].concat());
    assert_eq!(*session.state(), WireState::Ready);
    session
}

fn start(session: &mut Http2Session, kinds: &[u16], body: &[u8]) -> Vec<u8> {
    pieces::start(session, kinds, &[Value::Text("/x"), Value::Bytes(body)])
}

/// Feeds `bytes` in pieces of `step`; what it says, and what it sends.
fn fed(session: &mut Http2Session, bytes: &[u8], step: usize) -> (Vec<Said>, Vec<u8>) {
    let mut kept = keeper();
    let (out, _) = pieces::fed(session, bytes, &[step], &mut kept);
    (kept.all, out)
}

#[test]
fn answers_are_taken_however_they_arrive_and_in_any_order() {
    let bytes = [
        // Of the last first; padded, with a priority, in two pieces.
        frame(HEADERS, END_HEADERS | PADDED | 0x20, 9, b"\x02\0\0\0\0\x10\x88\0\0"),
        frame(PING, 0, 0, b"12345678"),
        frame(DATA, PADDED, 9, b"\x01ab\0"),
        frame(HEADERS, 0, 3, &HEAD_200[..2]),
        frame(CONTINUATION, 0, 3, &[]),
        frame(CONTINUATION, END_HEADERS, 3, &HEAD_200[2..]),
        frame(0x77, 0xff, 3, b"what nobody knows"),
        frame(DATA, END_STREAM, 3, b"hello"),
        // 103, then 404 as a literal with Huffman.
        frame(HEADERS, END_HEADERS, 5, b"\x08\x03103"),
        frame(HEADERS, END_HEADERS, 5, b"\x08\x83\x68\x0d\x7f"),
        frame(DATA, END_STREAM, 5, b"gone"),
        frame(HEADERS, END_HEADERS | END_STREAM, 7, b"\x88\x0f\x0d\x03999"),
        frame(DATA, 0, 9, b""),
        // Fields behind the body.
        frame(HEADERS, END_HEADERS | END_STREAM, 9, b"\0\x01t\x01v"),
        frame(RST_STREAM, 0, 11, &8_u32.to_be_bytes()),
        frame(RST_STREAM, 0, 13, &7_u32.to_be_bytes()),
        frame(HEADERS, END_HEADERS | END_STREAM, 15, b"\x88"),
        // Of streams that are over.
        frame(WINDOW_UPDATE, 0, 3, &9_u32.to_be_bytes()),
        frame(RST_STREAM, 0, 5, &0_u32.to_be_bytes()),
    ]
    .concat();
    let ok = |ticket, body: &[u8]| (ticket, Outcome::Ok, Some((200, body.to_vec())), "".into(), "".into());
    let expected: Vec<Said> = vec![
        ok(0, b"hello"),
        (1, Outcome::Rejected, None, "404".into(), "Not Found".into()),
        ok(2, b""),
        ok(3, b"ab"),
        (4, Outcome::Unknown, None, "reset".into(), "http://h:80 broke off its answer: CANCEL".into()),
        ok(5, b""),
    ];
    for step in [1, 2, 3, 7, 64, bytes.len()] {
        let mut session = ready(&[]);
        let asked = frames(&start(&mut session, &[GET, LOOK, HEAD, GET, GET, GET], b""));
        let (said, sent) = fed(&mut session, &bytes, step);
        assert_eq!(said, expected, "in pieces of {step}");
        let again = (HEADERS, END_HEADERS | END_STREAM, 15, asked[5].3.clone());
        assert_eq!(frames(&sent), [(PING, 1, 0, b"12345678".to_vec()), again]);
        assert_eq!((session.state(), session.asked_again()), (&WireState::Ready, 1));
        let tally = session.tally().unwrap();
        assert_eq!((tally.statuses(), tally.bytes_max()), (vec![(200, 4), (404, 1)], Some(5)));
    }
}

#[test]
fn a_session_begins_with_operations() {
    let (mut session, mut out) = (Http2Session::new(login(Version::Http2), Durability::AtEnd), Vec::new());
    session.open(&kinds(), &mut out);
    assert_eq!((*session.state() == WireState::Ready, frames(&out).len()), (true, 2), "settings and a window");
    let sent = frames(&start(&mut session, &[GET], b""));
    assert_eq!((sent[0].0, sent[0].2), (HEADERS, 1));
    let answer = [frame(SETTINGS, 0, 0, &[]), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88")].concat();
    let (said, _) = fed(&mut session, &answer, 99);
    assert_eq!((said[0].0, said[0].1), (0, Outcome::Ok));
}

#[test]
fn a_request_that_the_server_refuses_to_begin_is_sent_again_when_another_is_answered_or_none_is_in_flight() {
    let refused = |id: u32| frame(RST_STREAM, 0, id, &7_u32.to_be_bytes());
    let answered = |id: u32| frame(HEADERS, END_HEADERS | END_STREAM, id, b"\x88");
    let mut session = ready(&[]);
    start(&mut session, &[GET, PUT, LOOK], b"v");
    let (said, out) = fed(&mut session, &refused(5), 99);
    assert!(said.is_empty() && out.is_empty(), "two are in flight");
    let (said, out) = fed(&mut session, &answered(3), 99);
    let sent: Vec<_> = frames(&out).into_iter().map(|one| (one.0, one.1, one.2)).collect();
    assert_eq!((said.len(), sent), (1, vec![(HEADERS, END_HEADERS, 9), (DATA, END_STREAM, 9)]));
    assert_eq!(fed(&mut session, &answered(7), 99).0.len(), 1);
    // A server that takes none is not asked for ever.
    let mut id = 9;
    for _ in 1..1_000 {
        let (said, out) = fed(&mut session, &refused(id), 99);
        id += 2;
        assert_eq!((said.len(), frames(&out)[0].2), (0, id), "alone, it is sent at once");
    }
    let (said, _) = fed(&mut session, &refused(id), 99);
    assert_eq!((said[0].0, said[0].1, &*said[0].3), (1, Outcome::Rejected, "refused"));
    assert_eq!((session.asked_again(), session.state()), (1_000, &WireState::Ready));
    // Of a connection that ends, or is lost, it has certainly not happened.
    for (end, sent) in [
        (&[0, 0, 0, 99, 0, 0, 0, 0], (0, Outcome::Ok, "")),
        (&[0, 0, 0, 99, 0, 0, 0, 2], (0, Outcome::Unknown, "connection")),
    ] {
        let mut session = ready(&[]);
        start(&mut session, &[GET, PUT], b"v");
        let bytes = [refused(5), frame(GOAWAY, 0, 0, end), answered(3)].concat();
        let (said, _) = fed(&mut session, &bytes, bytes.len());
        let said: Vec<_> = said.iter().map(|one| (one.0, one.1, &*one.3)).collect();
        assert_eq!(said, [sent, (1, Outcome::Rejected, "closed")]);
    }
}

#[test]
fn requests_keep_to_the_windows_and_the_number_of_streams() {
    // Two streams, and 10 bytes on each.
    let mut session = ready(&[0, 3, 0, 0, 0, 2, 0, 4, 0, 0, 0, 10]);
    assert_eq!(session.depth_max(), 2);
    let sent = frames(&start(&mut session, &[PUT, PUT, PUT], &[7; 25]));
    let shape = |sent: &[(u8, u8, u32, Vec<u8>)]| -> Vec<_> {
        sent.iter().map(|one| (one.0, one.1, one.2, one.3.len())).collect()
    };
    let heads = sent[0].3.len();
    assert_eq!(shape(&sent), [(HEADERS, 4, 3, heads), (DATA, 0, 3, 10), (HEADERS, 4, 5, heads), (DATA, 0, 5, 10)]);
    assert!(sent[0].3.ends_with(b"\x0f\x0d\x0225"), "{}", sent[0].3.escape_ascii());
    // Room for one, by a window; for both, by a setting; and the third when one is over, answered before it was heard out.
    let (_, out) = fed(&mut session, &frame(WINDOW_UPDATE, 0, 5, &5_u32.to_be_bytes()), 99);
    assert_eq!(shape(&frames(&out)), [(DATA, 0, 5, 5)]);
    let (_, out) = fed(&mut session, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 20]), 99);
    assert_eq!(shape(&frames(&out)), [(SETTINGS, 1, 0, 0), (DATA, 0, 3, 10), (DATA, END_STREAM, 5, 10)]);
    let (said, out) = fed(&mut session, &frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x88"), 99);
    assert_eq!((said[0].0, said[0].1), (0, Outcome::Ok));
    assert_eq!(shape(&frames(&out)), [(RST_STREAM, 0, 3, 4), (HEADERS, 4, 7, heads), (DATA, 0, 7, 20)]);
    // A window that was made smaller.
    let (_, out) = fed(&mut session, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]), 99);
    assert_eq!(shape(&frames(&out)), [(SETTINGS, 1, 0, 0)]);
    let (_, out) = fed(&mut session, &frame(WINDOW_UPDATE, 0, 7, &25_u32.to_be_bytes()), 99);
    assert_eq!(shape(&frames(&out)), [(DATA, END_STREAM, 7, 5)]);
}

#[test]
fn what_a_server_did_not_begin_with_before_it_closed_has_not_happened() {
    let mut session = ready(&[]);
    start(&mut session, &[GET, PUT, GET], b"v");
    let (said, _) = fed(&mut session, &frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]), 99);
    let shown = |said: &[Said]| -> Vec<_> { said.iter().map(|one| (one.0, one.1, one.3.clone())).collect() };
    assert_eq!(shown(&said), [(1, Outcome::Rejected, "closed".into()), (2, Outcome::Rejected, "closed".into())]);
    assert_eq!(*session.state(), WireState::Ready);
    assert!(start(&mut session, &[GET], b"").is_empty(), "nothing is sent any more");
    let (said, _) = fed(&mut session, &frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x88"), 99);
    assert_eq!(shown(&said), [(0, Outcome::Ok, "".into()), (0, Outcome::Rejected, "closed".into())]);
    assert_eq!(*session.state(), WireState::Ended);
    let mut out = Vec::new();
    session.open(&kinds(), &mut out);
    assert_eq!((*session.state() == WireState::Ready, frames(&out).len()), (true, 2), "it does not ask again");
    // With an error it is lost at once.
    let mut session = ready(&[]);
    start(&mut session, &[GET, GET], b"");
    let (said, _) = fed(&mut session, &frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 11, b'c', b'a', b'l', b'm']), 99);
    assert_eq!(shown(&said), [(1, Outcome::Rejected, "closed".into()), (0, Outcome::Unknown, "connection".into())]);
    let error = failure(&session);
    assert!(error.what.ends_with("ended the connection: ENHANCE_YOUR_CALM") && error.detail.as_deref() == Some("calm"));
}

#[test]
fn who_speaks_no_http2_is_told_so() {
    for (bytes, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "does not offer HTTP/2"),
        (b"HTTP/1.0 505\r\n\r\n", "does not offer HTTP/2"),
        (b"220 mail.example ESMTP\r\n", "did not answer with HTTP/2"),
        (b"\x15\x03\x01\0\x02\x02\x50\0\0\0", "did not answer with HTTP/2"),
        (&frame(PING, 0, 0, b"12345678"), "did not answer with HTTP/2"),
    ] {
        for step in [1, 99] {
            let mut session = Http2Session::new(login(Version::Http2), Durability::AtEnd);
            session.open(&kinds(), &mut Vec::new());
            fed(&mut session, bytes, step);
            let error = failure(&session);
            assert!(error.what.contains(words) && error.next.is_some(), "{error:?}");
        }
    }
}

#[test]
fn garbage_ends_the_session_and_all_in_flight_is_unknown() {
    let many = |frame: Vec<u8>, count: usize| frame.repeat(count);
    for bad in [
        b"\xff\xff\xff\0\0\0\0\0\0".to_vec(),
        frame(DATA, 0, 3, b"before its head"),
        frame(DATA, 0, 0, b""),
        frame(HEADERS, END_HEADERS, 2, b"\x88"),
        frame(HEADERS, END_HEADERS, 99, b"\x88"),
        frame(HEADERS, END_HEADERS, 3, b"\xbe"),
        frame(HEADERS, END_HEADERS, 3, b"\x5c\x015"),
        frame(HEADERS, END_HEADERS, 3, b"\x88\x88"),
        frame(HEADERS, END_HEADERS, 3, b""),
        frame(HEADERS, END_HEADERS, 3, b"\x08\x02xx"),
        frame(HEADERS, END_HEADERS, 3, b"\x08\x03101"),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x08\x03100"),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, HEAD_200),
        frame(HEADERS, END_HEADERS | PADDED, 3, b"\x09\x88"),
        frame(HEADERS, END_HEADERS, 3, b"\x88\x0f\x0d\x02-1"),
        [frame(HEADERS, END_HEADERS, 3, b"\x88"), frame(HEADERS, END_HEADERS, 3, b"\x88")].concat(),
        [frame(HEADERS, END_HEADERS, 3, HEAD_200), frame(DATA, 0, 3, b"sixsix")].concat(),
        [frame(HEADERS, 0, 3, b"\x88"), frame(PING, 0, 0, b"12345678")].concat(),
        [frame(HEADERS, 0, 3, b"\x88"), frame(CONTINUATION, END_HEADERS, 5, b"")].concat(),
        [frame(HEADERS, 0, 3, b"\x88"), many(frame(CONTINUATION, 0, 3, &[0; 9_000]), 4)].concat(),
        [frame(HEADERS, 0, 3, b"\x88"), many(frame(CONTINUATION, 0, 3, b""), 20_000)].concat(),
        frame(CONTINUATION, END_HEADERS, 3, b"\x88"),
        frame(5, END_HEADERS, 3, b"\0\0\0\x02\x88"),
        frame(SETTINGS, 0, 0, b"12345"),
        frame(SETTINGS, 0, 1, b""),
        frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
        frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]),
        frame(PING, 0, 0, b"short"),
        frame(WINDOW_UPDATE, 0, 0, &[0; 4]),
        frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        frame(WINDOW_UPDATE, 0, 3, &[0x7f, 0xff, 0xff, 0xff]),
        frame(WINDOW_UPDATE, 0, 0, b"1"),
        frame(RST_STREAM, 0, 3, b""),
        frame(GOAWAY, 0, 0, b""),
        many(frame(PING, 0, 0, b"12345678"), 20_000),
        many(frame(SETTINGS, 0, 0, b""), 20_000),
        many(frame(HEADERS, END_HEADERS, 3, b"\x08\x03103"), 20_000),
    ] {
        let mut session = ready(&[]);
        start(&mut session, &[GET, PUT], b"v");
        let mut kept = keeper();
        assert_eq!(session.feed(&bad, &mut Vec::new(), &mut kept), bad.len());
        let shown = bad[..bad.len().min(40)].escape_ascii().to_string();
        let error = failure(&session);
        assert!(error.kind == StoreErrorKind::Broken && error.next.is_some(), "{shown}: {error:?}");
        assert!(
            kept.all.len() == 2 && kept.all.iter().all(|said| said.1 == Outcome::Unknown),
            "{shown}: {:?}",
            kept.all
        );
    }
}

#[test]
fn operations_in_flight_allocate_nothing() {
    let mut session = ready(&[]);
    let (mut params, mut out, mut answers, mut done) = (ValueBuf::new(), Vec::new(), Vec::new(), Counted::default());
    let mut id = 3;
    // Until each place has had each of the requests.
    none(10, || {
        out.clear();
        answers.clear();
        for (ticket, kind) in (0..).zip([GET, LOOK, PUT]) {
            params.clear();
            params.push(Value::Text("/a b"));
            params.push(Value::Bytes(b"value"));
            session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut out);
        }
        for stream in [id + 4, id, id + 2] {
            for (kind, flags, payload) in
                [(HEADERS, END_HEADERS, HEAD_200), (DATA, 0, b"he"), (DATA, END_STREAM, b"llo")]
            {
                let length = payload.len() as u8;
                answers.extend_from_slice(&[0, 0, length, kind, flags]);
                answers.extend_from_slice(&u32::to_be_bytes(stream));
                answers.extend_from_slice(payload);
            }
        }
        answers.extend_from_slice(&[0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        id += 6;
        session.feed(&answers, &mut out, &mut done);
    });
    assert_eq!(done.0, [3 * (ROUNDS + 10), 0, 0, 0]);
}

/// Frames with some sense in them, or none.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        Just(b"\x88".to_vec()),
        Just(HEAD_200.to_vec()),
        Just(vec![0, 0, 0, 5, 0, 0, 0, 0]),
        Just(vec![0, 4, 0, 0, 0, 9, 0, 3, 0, 0, 0, 1]),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    (0..11_u8, prop_oneof![Just(0), Just(1), Just(4), Just(5), any::<u8>()], 0..14_u32, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_arrives_is_answered_once_and_never_a_panic(
        arrived in prop::collection::vec(prop_oneof![9 => any_frame(), 1 => prop::collection::vec(any::<u8>(), 0..30)], 0..30),
        step in 1..40_usize,
        settings in prop_oneof![Just(vec![]), Just(vec![0, 3, 0, 0, 0, 2, 0, 4, 0, 0, 0, 1])],
    ) {
        let mut session = ready(&settings);
        start(&mut session, &[GET, PUT, LOOK, HEAD, GET], b"value");
        let bytes = arrived.concat();
        let (said, _) = fed(&mut session, &bytes, step);
        let mut tickets: Vec<_> = said.iter().map(|one| one.0).collect();
        tickets.sort_unstable();
        tickets.dedup();
        prop_assert_eq!(tickets.len(), said.len());
        if *session.state() != WireState::Ready {
            prop_assert_eq!(tickets.len(), 5);
        }
        // In one piece it comes to the same.
        let mut whole = ready(&settings);
        start(&mut whole, &[GET, PUT, LOOK, HEAD, GET], b"value");
        prop_assert_eq!(fed(&mut whole, &bytes, bytes.len().max(1)).0, said);
        // And it is of use again.
        session.open(&kinds(), &mut Vec::new());
        prop_assert_eq!(session.state(), &WireState::Ready);
    }

    #[test]
    fn any_bytes_to_a_greeting_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), step in 1..20_usize) {
        let mut session = Http2Session::new(login(Version::Http2), Durability::AtEnd);
        session.open(&kinds(), &mut Vec::new());
        fed(&mut session, &bytes, step);
    }
}
