//! Bytes in pieces have the effect of the whole, and no bytes can hurt.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use plimsoll_core::{
    Answer, Call, CompletionSink, IndexMode, Layout, Op, OpKind, Outcome, Ticket, Value, ValueBuf, ValueType,
};
use plimsoll_core::{WireSession, WireState};
use plimsoll_store_mariadb::wire::{Login, MySession};
use proptest::prelude::*;

use crate::fixture::{Server, TIMEOUT, create, layout, login, sql, values};
use crate::records::{ALL, COUNT, FIND, GET, INSERT, SCAN};

/// Outcome of each ticket as text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen(BTreeMap<u32, String>);

impl CompletionSink for Seen {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        let rows: Vec<Vec<Value<'_>>> = answer.row_iter().map(|row| row.iter().collect()).collect();
        let text = format!("{outcome:?} {} {} {} {rows:?}", answer.rows, answer.code, answer.message);
        assert_eq!(self.0.insert(ticket.0, text), None, "ticket {ticket:?} was finished twice");
    }
}

const SELECT: u16 = 9;
const TEXT: u16 = 10;

fn kinds() -> Vec<OpKind> {
    let mut kinds = crate::records::kinds();
    kinds.push(sql("select", "SELECT made, body, 1.5, $1 FROM items WHERE code = $1", &[ValueType::Text]));
    kinds.push(OpKind { call: Call::SqlText, ..sql("text", "", &[ValueType::Text]) });
    kinds
}

fn session(layout: &Layout, database: &str) -> MySession {
    let login = Login { database: Some(database.to_owned()), ..login("root", None) };
    MySession::new(Arc::new(login), Arc::new(layout.clone()), vec!["SET NAMES utf8mb4".to_owned()])
}

/// Operations of every kind, among them one that is refused in the middle of its batch.
fn operations() -> Vec<(u16, ValueBuf)> {
    let record = |code, count| {
        [Value::Text(code), count, Value::Float(0.5), Value::Bool(false), Value::Bytes(b"\0"), Value::Timestamp(1)]
    };
    let batch = |codes: &[&'static str]| {
        values(&codes.iter().zip(0..).flat_map(|(code, n)| record(*code, Value::Int(n))).collect::<Vec<_>>())
    };
    vec![
        (INSERT, batch(&["a", "b", "c", "d"])),
        (GET, values(&[Value::Text("b")])),
        (INSERT, batch(&["e", "b", "f"])),
        (GET, values(&[Value::Text("e")])),
        (2, values(&[Value::Text("a"), Value::Null, Value::Bytes(&[7; 300])])),
        (3, values(&[Value::Text("d")])),
        (3, values(&[Value::Text("d")])),
        (SCAN, values(&[Value::Int(0), Value::Int(10)])),
        (FIND, values(&[Value::Int(1), Value::Null])),
        (ALL, values(&[])),
        (COUNT, values(&[])),
        (8, values(&[])),
        (SELECT, values(&[Value::Text("a")])),
        (TEXT, values(&[Value::Text("SELECT *, NULL FROM items")])),
        (TEXT, values(&[Value::Text("DO 1")])),
    ]
}

/// Bytes that a server sent before the first operation, and in reply to each.
#[derive(Default)]
struct Recorded {
    opening: Vec<u8>,
    answers: Vec<Vec<u8>>,
}

/// A conversation with a real server, `chunk` bytes at a time.
fn converse(server: &Server, layout: &Layout, chunk: usize) -> (Seen, Recorded) {
    let mut socket = UnixStream::connect(server.socket()).expect("connected");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut session = session(layout, &server.database);
    let (mut out, mut input, mut seen) = (Vec::new(), Vec::new(), Seen::default());
    let mut recorded = Recorded::default();
    session.open(&kinds(), &mut out);
    let mut turn = |session: &mut MySession, out: &mut Vec<u8>, seen: &mut Seen, record: &mut Vec<u8>| {
        socket.write_all(out).expect("sent");
        out.clear();
        let mut buffer = vec![0; chunk];
        let count = socket.read(&mut buffer).expect("an answer in time");
        assert!(count > 0, "the server went away: {:?}", session.state());
        record.extend_from_slice(&buffer[..count]);
        input.extend_from_slice(&buffer[..count]);
        let used = session.feed(&input, out, seen);
        input.drain(..used);
    };
    while *session.state() == WireState::Opening {
        turn(&mut session, &mut out, &mut seen, &mut recorded.opening);
    }
    assert_eq!(*session.state(), WireState::Ready);
    for ((kind, params), ticket) in operations().iter().zip(0..) {
        session.start(Ticket(ticket), &Op::new(*kind, params.values()), &mut out);
        let mut answer = Vec::new();
        while !seen.0.contains_key(&ticket) {
            turn(&mut session, &mut out, &mut seen, &mut answer);
        }
        recorded.answers.push(answer);
    }
    (seen, recorded)
}

/// Feeds `bytes` in pieces whose lengths `pieces` says again and again; false when some are left unused.
fn feed_pieces(session: &mut MySession, bytes: &[u8], pieces: &[usize], seen: &mut Seen) -> bool {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    for piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (next, after) = rest.split_at((*piece).clamp(1, rest.len()));
        rest = after;
        input.extend_from_slice(next);
        let used = session.feed(&input, &mut out, seen);
        assert!(used <= input.len());
        input.drain(..used);
    }
    input.is_empty()
}

/// A session that has heard a real opening.
fn opened(layout: &Layout, recorded: &Recorded, pieces: &[usize]) -> MySession {
    let mut session = session(layout, "any");
    session.open(&kinds(), &mut Vec::new());
    assert!(feed_pieces(&mut session, &recorded.opening, pieces, &mut Seen::default()));
    assert_eq!(*session.state(), WireState::Ready);
    session
}

/// Asks all operations and feeds what `answers` has for each, until one stays without its end.
fn replay(session: &mut MySession, answers: &[Vec<u8>], pieces: &[usize]) -> Seen {
    let mut seen = Seen::default();
    for (((kind, params), answer), ticket) in operations().iter().zip(answers).zip(0..) {
        session.start(Ticket(ticket), &Op::new(*kind, params.values()), &mut Vec::new());
        feed_pieces(session, answer, pieces, &mut seen);
        if !seen.0.contains_key(&ticket) || *session.state() != WireState::Ready {
            break;
        }
    }
    seen
}

#[test]
fn pieces_of_any_size_give_the_same_answers() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    let fresh = || {
        let mut control = server.control();
        control.simple("DROP TABLE IF EXISTS items").unwrap();
        create(&mut control, &layout);
    };
    fresh();
    let (whole, recorded) = converse(&server, &layout, 1 << 16);
    assert!(whole.0[&2].starts_with("Rejected 0 1062 23000: "), "{}", whole.0[&2]);
    assert!(whole.0[&3].starts_with("NotFound"), "the refused batch left nothing: {}", whole.0[&3]);
    assert!(whole.0[&9].starts_with("Ok 3 "), "{}", whole.0[&9]);
    fresh();
    assert_eq!(converse(&server, &layout, 1).0, whole, "byte by byte from a live server");
    proptest!(ProptestConfig::with_cases(300), |(pieces in prop::collection::vec(1..60_usize, 1..20))| {
        let mut session = opened(&layout, &recorded, &pieces);
        prop_assert_eq!(&replay(&mut session, &recorded.answers, &pieces), &whole);
    });

    // Damaged anywhere: no panic, and nothing is finished twice; once failed, what was asked is finished.
    let lengths: Vec<usize> = recorded.answers.iter().map(Vec::len).collect();
    let total: usize = lengths.iter().sum();
    let failures = std::cell::Cell::new(0);
    proptest!(ProptestConfig::with_cases(4_000), |(
        damage in prop::collection::vec((0..total, any::<u8>()), 1..4), pieces in prop::collection::vec(1..500_usize, 1..5)
    )| {
        let mut answers = recorded.answers.clone();
        for (mut at, byte) in damage {
            let which = lengths.iter().position(|length| at < *length || { at -= length; false }).unwrap_or(0);
            if let Some(place) = answers[which].get_mut(at) {
                *place = byte;
            }
        }
        let mut session = opened(&layout, &recorded, &[usize::MAX]);
        let seen = replay(&mut session, &answers, &pieces);
        if matches!(session.state(), WireState::Failed(_)) {
            failures.set(failures.get() + 1);
            prop_assert!(!seen.0.is_empty(), "what was asked came to something");
        }
    });
    assert!(failures.get() > 400, "damage is noticed: {} of 4,000", failures.get());

    // The opening, damaged too, and noise in the place of either.
    proptest!(ProptestConfig::with_cases(4_000), |(
        at in 0..recorded.opening.len(), byte: u8, noise in prop::collection::vec(any::<u8>(), 0..200)
    )| {
        let mut damaged = recorded.opening.clone();
        damaged[at] = byte;
        for bytes in [&damaged, &noise] {
            let mut session = session(&layout, "any");
            session.open(&kinds(), &mut Vec::new());
            feed_pieces(&mut session, bytes, &[1_000], &mut Seen::default());
        }
        let mut session = opened(&layout, &recorded, &[usize::MAX]);
        replay(&mut session, &[noise], &[50]);
    });
}

/// A packet's header, and the row it begins.
fn row_header(length: usize, number: u8) -> Vec<u8> {
    [&(length as u32).to_le_bytes()[..3], &[number]].concat()
}

#[test]
fn a_row_nobody_wants_is_not_held_until_it_is_complete() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let (_, recorded) = converse(&server, &layout, 1 << 16);
    let mut session = opened(&layout, &recorded, &[usize::MAX]);
    session.start(Ticket(0), &Op::new(COUNT, ValueBuf::new().values()), &mut Vec::new());
    let mut seen = Seen::default();
    let mut feed = |session: &mut MySession, bytes: &[u8]| {
        assert_eq!(session.feed(bytes, &mut Vec::new(), &mut seen), bytes.len());
        seen.0.get(&0).cloned()
    };
    // Six columns, and no definitions, since they are known.
    feed(&mut session, &[2, 0, 0, 1, 6, 0]);
    let full = 0xff_ffff;
    let body = vec![0; 1 << 20];
    for (packet, length) in [full, full, 5].into_iter().enumerate() {
        // The first byte says that it is a row.
        feed(&mut session, &[&row_header(length, 2 + packet as u8)[..], &[0]].concat());
        let mut left = length - 1;
        while left > 0 {
            let piece = left.min(body.len());
            feed(&mut session, &body[..piece]);
            left -= piece;
        }
    }
    let done = feed(&mut session, &[7, 0, 0, 5, 0xfe, 0, 0, 2, 0, 0, 0]);
    assert!(done.as_ref().is_some_and(|text| text.starts_with("Ok 1 ")), "{done:?}");
}

#[test]
fn a_row_beyond_all_bounds_is_an_error() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let (_, recorded) = converse(&server, &layout, 1 << 16);
    let mut session = opened(&layout, &recorded, &[usize::MAX]);
    session.start(Ticket(0), &Op::new(ALL, ValueBuf::new().values()), &mut Vec::new());
    let mut seen = Seen::default();
    let mut bytes = vec![2, 0, 0, 1, 6, 0];
    let full = 0xff_ffff;
    for packet in 0..17 {
        bytes.extend_from_slice(&row_header(full, 2 + packet));
        bytes.resize(bytes.len() + full, 0);
    }
    session.feed(&bytes, &mut Vec::new(), &mut seen);
    assert!(seen.0[&0].starts_with("Unknown 0"), "{}", seen.0[&0]);
    let WireState::Failed(error) = session.state() else { panic!("it goes on: {:?}", session.state()) };
    assert!(error.what.contains("and at most 268435456 are kept"), "{error}");
}

#[test]
fn an_answer_that_is_larger_than_what_is_kept_is_refused_as_soon_as_its_length_is_known() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let (_, recorded) = converse(&server, &layout, 1 << 16);
    for length in [2_000, 0xff_ffff] {
        let mut session = opened(&layout, &recorded, &[usize::MAX]);
        session.limit_answers(1_000);
        session.start(Ticket(0), &Op::new(ALL, ValueBuf::new().values()), &mut Vec::new());
        let mut seen = Seen::default();
        let head = [&[2, 0, 0, 1, 6, 0][..], &row_header(length, 2), &[0; 9]].concat();
        session.feed(&head, &mut Vec::new(), &mut seen);
        assert!(seen.0[&0].starts_with("Unknown 0"), "{}", seen.0[&0]);
        let WireState::Failed(error) = session.state() else { panic!("it goes on: {:?}", session.state()) };
        let words = format!("answers with {length} bytes, and at most 1000 are kept of an answer (--answer-max)");
        assert!(error.what.contains(&words), "{error}");
    }
}
