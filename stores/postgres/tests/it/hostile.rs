//! Bytes in pieces have the effect of the whole, and no bytes can hurt.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use plimsoll_core::{
    Address, Answer, CompletionSink, IndexMode, Layout, Op, Outcome, Ticket, Value, ValueBuf, WireSession, WireState,
};
use plimsoll_store_postgres::wire::{Login, PgSession};

use crate::fixture::{Server, TIMEOUT, create, layout, login, values};
use crate::records::kinds;

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

fn session(layout: &Layout, database: &str) -> PgSession {
    let login = Login { database: database.to_owned(), ..login("postgres", None) };
    PgSession::new(Arc::new(login), Arc::new(layout.clone()), "SET synchronous_commit = off")
}

/// Operations of every kind, among them one that is rejected in the middle of its batch.
fn operations() -> Vec<(u16, ValueBuf)> {
    let record = |code, count| {
        [Value::Text(code), count, Value::Float(0.5), Value::Bool(false), Value::Bytes(b"\0"), Value::Timestamp(1)]
    };
    let batch = |codes: &[&'static str]| {
        values(&codes.iter().zip(0..).flat_map(|(code, n)| record(*code, Value::Int(n))).collect::<Vec<_>>())
    };
    vec![
        (0, batch(&["a", "b", "c", "d"])),
        (1, values(&[Value::Text("b")])),
        (0, batch(&["e", "b", "f"])),
        (1, values(&[Value::Text("e")])),
        (2, values(&[Value::Text("a"), Value::Null, Value::Bytes(&[7; 300])])),
        (3, values(&[Value::Text("d")])),
        (3, values(&[Value::Text("d")])),
        (4, values(&[Value::Int(0), Value::Int(10)])),
        (5, values(&[Value::Int(1), Value::Null])),
        (6, values(&[])),
        (7, values(&[])),
        (8, values(&[])),
    ]
}

/// A conversation with a real server, `chunk` bytes at a time: what was seen and what the server sent,
/// before the operations and after they were all started at once.
fn converse(server: &Server, layout: &Layout, chunk: usize) -> (Seen, Vec<u8>, Vec<u8>) {
    let Address::Unix(path) = server.socket() else { unreachable!("the server has a socket") };
    let mut socket = UnixStream::connect(path).expect("connected");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut session = session(layout, &server.database);
    let mut out = Vec::new();
    let mut seen = Seen::default();
    let mut sent = [Vec::new(), Vec::new()];
    let ops = operations();
    session.open(&kinds(), &mut out);
    let mut input = Vec::new();
    let mut asked = false;
    while seen.0.len() < ops.len() {
        if *session.state() == WireState::Ready && !asked {
            asked = true;
            start_all(&mut session, &ops, &mut out);
        }
        socket.write_all(&out).expect("sent");
        out.clear();
        let mut buffer = vec![0; chunk];
        let count = socket.read(&mut buffer).expect("an answer in time");
        assert!(count > 0, "the server went away: {:?}", session.state());
        sent[usize::from(asked)].extend_from_slice(&buffer[..count]);
        input.extend_from_slice(&buffer[..count]);
        let used = session.feed(&input, &mut out, &mut seen);
        input.drain(..used);
    }
    let [opening, answers] = sent;
    (seen, opening, answers)
}

fn start_all(session: &mut PgSession, ops: &[(u16, ValueBuf)], out: &mut Vec<u8>) {
    assert!(ops.len() <= session.depth_max() as usize);
    for ((kind, params), ticket) in ops.iter().zip(0..) {
        session.start(Ticket(ticket), &Op::new(*kind, params.values()), out);
    }
}

/// A small generator of numbers, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Feeds `bytes` in pieces of up to `piece_max`; returns what was left unused.
fn feed_pieces(session: &mut PgSession, bytes: &[u8], piece_max: usize, random: &mut Random, seen: &mut Seen) -> usize {
    let (mut input, mut out, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        let piece = (1 + random.below(piece_max)).min(bytes.len() - at);
        input.extend_from_slice(&bytes[at..at + piece]);
        at += piece;
        let used = session.feed(&input, &mut out, seen);
        assert!(used <= input.len());
        input.drain(..used);
    }
    input.len()
}

/// A session that has heard `opening` and started all operations.
fn asked(layout: &Layout, opening: &[u8], random: &mut Random) -> (PgSession, Seen) {
    let mut session = session(layout, "any");
    let mut seen = Seen::default();
    session.open(&kinds(), &mut Vec::new());
    feed_pieces(&mut session, opening, opening.len(), random, &mut seen);
    assert_eq!(*session.state(), WireState::Ready);
    start_all(&mut session, &operations(), &mut Vec::new());
    (session, seen)
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
    let (whole, opening, answers) = converse(&server, &layout, 1 << 16);
    assert!(whole.0[&2].starts_with("Rejected 0 23505"), "{}", whole.0[&2]);
    assert!(whole.0[&3].starts_with("NotFound"), "the rejected batch left nothing: {}", whole.0[&3]);
    assert!(whole.0[&9].starts_with("Ok 3 "), "{}", whole.0[&9]);
    fresh();
    assert_eq!(converse(&server, &layout, 1).0, whole, "byte by byte from a live server");

    let mut random = Random(0x9e37_79b9);
    for round in 0..1_000 {
        let piece_max = [1, 3, 17, 200, 5_000][round % 5];
        let (mut session, mut seen) = asked(&layout, &opening, &mut random);
        assert_eq!(feed_pieces(&mut session, &answers, piece_max, &mut random, &mut seen), 0);
        assert_eq!(seen, whole, "round {round}, pieces of up to {piece_max}");
    }

    // Cut off anywhere: no operation is invented, and those before the cut are as they were.
    for cut in 0..answers.len() {
        let (mut session, mut seen) = asked(&layout, &opening, &mut random);
        feed_pieces(&mut session, &answers[..cut], 4_096, &mut random, &mut seen);
        assert!(seen.0.iter().all(|(ticket, text)| whole.0[ticket] == *text), "cut at {cut}");
        assert_eq!(*session.state(), WireState::Ready);
    }

    // Damaged anywhere: no panic, no ticket finished twice, and after a failure all of them are finished.
    let mut failures = 0;
    for round in 0..5_000 {
        let (mut session, mut seen) = asked(&layout, &opening, &mut random);
        let mut damaged = answers.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(damaged.len());
            damaged[at] = random.below(256) as u8;
        }
        feed_pieces(&mut session, &damaged, 1_000, &mut random, &mut seen);
        if matches!(session.state(), WireState::Failed(_)) {
            failures += 1;
            assert_eq!(seen.0.len(), operations().len(), "round {round}");
        }
    }
    assert!(failures > 1_250, "damage is noticed: {failures} of 5000");

    // The opening, damaged too.
    for _ in 0..5_000 {
        let mut session = session(&layout, "any");
        session.open(&kinds(), &mut Vec::new());
        let mut damaged = opening.clone();
        let at = random.below(damaged.len());
        damaged[at] = random.below(256) as u8;
        feed_pieces(&mut session, &damaged, 1_000, &mut random, &mut Seen::default());
    }

    // And noise.
    for _ in 0..5_000 {
        let noise: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        let (mut session, mut seen) = asked(&layout, &opening, &mut random);
        feed_pieces(&mut session, &noise, 50, &mut random, &mut seen);
    }
}

#[test]
fn a_row_nobody_wants_is_not_held_until_it_is_complete() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let (_, opening, _) = converse(&server, &layout, 1 << 16);
    let mut session = session(&layout, "any");
    session.open(&kinds(), &mut Vec::new());
    session.feed(&opening, &mut Vec::new(), &mut Seen::default());
    session.start(Ticket(0), &Op::new(7, ValueBuf::new().values()), &mut Vec::new());
    let mut seen = Seen::default();
    let row = [&b"2\0\0\0\x04D"[..], &(200_u32 << 20).to_be_bytes()].concat();
    assert_eq!(session.feed(&row, &mut Vec::new(), &mut seen), row.len(), "the header is used");
    let body = vec![0; (200 << 20) - 4];
    for piece in body.chunks(1 << 20) {
        assert_eq!(session.feed(piece, &mut Vec::new(), &mut seen), piece.len(), "and every piece of it");
    }
    session.feed(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I", &mut Vec::new(), &mut seen);
    assert!(seen.0[&0].starts_with("Ok 1 "), "{}", seen.0[&0]);
}

#[test]
fn an_answer_that_is_larger_than_what_is_kept_is_refused_as_soon_as_its_length_is_known() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let (_, opening, _) = converse(&server, &layout, 1 << 16);
    let mut session = session(&layout, "any");
    session.limit_answers(1_000);
    session.open(&kinds(), &mut Vec::new());
    session.feed(&opening, &mut Vec::new(), &mut Seen::default());
    let key = values(&[Value::Text("a")]);
    session.start(Ticket(0), &Op::new(1, key.values()), &mut Vec::new());
    let mut seen = Seen::default();
    let row = [&b"2\0\0\0\x04D"[..], &(200_u32 << 20).to_be_bytes(), b"ab"].concat();
    session.feed(&row, &mut Vec::new(), &mut seen);
    assert!(seen.0[&0].starts_with("Unknown 0"), "{}", seen.0[&0]);
    let WireState::Failed(error) = session.state() else { panic!("it was taken") };
    let words = "answers with 209715196 bytes, and at most 1000 are kept of an answer (--answer-max)";
    assert!(error.to_string().contains(words), "{error}");
}

const FOUND_NOTHING: &[u8] = b"2\0\0\0\x04C\0\0\0\x0dSELECT 0\0";
const READY: &[u8] = b"Z\0\0\0\x05I";

/// A session with two reads that share a Sync, and their bytes.
fn two_joined(layout: &Layout, opening: &[u8]) -> (PgSession, Vec<u8>) {
    let mut session = session(layout, "any");
    session.open(&kinds(), &mut Vec::new());
    session.feed(opening, &mut Vec::new(), &mut Seen::default());
    let mut out = Vec::new();
    let key = values(&[Value::Text("nobody")]);
    for ticket in 0..2 {
        session.start(Ticket(ticket), &Op { more: true, ..Op::new(1, key.values()) }, &mut out);
    }
    session.flush(&mut out);
    (session, out)
}

#[test]
fn reads_that_share_a_sync_have_no_outcome_before_its_answer() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let (_, opening, _) = converse(&server, &layout, 1 << 16);
    let both = [FOUND_NOTHING, FOUND_NOTHING].concat();
    let found_nothing = |ticket: u32| (ticket, "NotFound 0   []".to_owned());
    let error = |severity: &str, code: &str| {
        let body = format!("S{severity}\0V{severity}\0C{code}\0Mwords\0\0");
        [b"E", &(body.len() as u32 + 4).to_be_bytes()[..], body.as_bytes()].concat()
    };

    let (mut session, _) = two_joined(&layout, &opening);
    let (mut seen, mut out) = (Seen::default(), Vec::new());
    session.feed(&both, &mut out, &mut seen);
    assert_eq!(seen, Seen::default());
    session.feed(READY, &mut out, &mut seen);
    assert_eq!(seen.0, BTreeMap::from([found_nothing(0), found_nothing(1)]));
    assert!(out.is_empty());

    // The transaction fails at its very end by no operation's fault, so both are asked again, each by itself.
    let (mut session, sent) = two_joined(&layout, &opening);
    let (mut seen, mut out) = (Seen::default(), Vec::new());
    session.feed(&[&both, &error("ERROR", "40001"), READY].concat(), &mut out, &mut seen);
    assert_eq!(seen, Seen::default());
    let (message, sync) = sent[..sent.len() - 5].split_at((sent.len() - 5) / 2);
    assert_eq!(out, [message, &sent[sent.len() - 5..], sync, &sent[sent.len() - 5..]].concat());
    session.feed(&[FOUND_NOTHING, READY, FOUND_NOTHING, READY].concat(), &mut out, &mut seen);
    assert_eq!(seen.0, BTreeMap::from([found_nothing(0), found_nothing(1)]));

    // The server goes away in between: what it said before is no outcome.
    let (mut session, _) = two_joined(&layout, &opening);
    let mut seen = Seen::default();
    session.feed(&[&both, &error("FATAL", "57P01")[..]].concat(), &mut Vec::new(), &mut seen);
    assert!(seen.0.len() == 2 && seen.0.values().all(|seen| seen.starts_with("Unknown 0 57P01")), "{seen:?}");

    // More answers than were asked for.
    let (mut session, _) = two_joined(&layout, &opening);
    let mut seen = Seen::default();
    session.feed(&[&both, FOUND_NOTHING].concat(), &mut Vec::new(), &mut seen);
    assert!(matches!(session.state(), WireState::Failed(_)));
    assert!(seen.0.len() == 2 && seen.0.values().all(|seen| seen.starts_with("Unknown")), "{seen:?}");
}
