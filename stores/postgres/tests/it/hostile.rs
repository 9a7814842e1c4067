//! Bytes in pieces have the effect of the whole, and no bytes can hurt.

use std::collections::BTreeMap;

use plimsoll_core::{Op, Ticket, Value, ValueBuf, WireSession, WireState};
use plimsoll_store_postgres::wire::PgSession;
use plimsoll_testkit::pieces::Seen;
use plimsoll_testkit::records::{COUNT, GET};
use plimsoll_testkit::sql::{Recorded, bytes_are_taken_in_pieces, refuses_a_larger_answer};

use crate::fixture::{Server, SqlServer as _, values};

#[test]
fn pieces_of_any_size_give_the_same_answers() {
    bytes_are_taken_in_pieces::<Server>(1_250);
}

#[test]
fn what_a_server_says_in_no_conversation() {
    let server = Server::start();
    let recorded = Recorded::of(&server);
    a_row_nobody_wants_is_not_held_until_it_is_complete(&server, &recorded);
    reads_that_share_a_sync_have_no_outcome_before_its_answer(&server, &recorded);
    let row = [&b"2\0\0\0\x04D"[..], &(200_u32 << 20).to_be_bytes(), b"ab"].concat();
    refuses_a_larger_answer(&server, &recorded, &row, 209_715_196);
}

fn a_row_nobody_wants_is_not_held_until_it_is_complete(server: &Server, recorded: &Recorded) {
    let mut session = recorded.opened(server);
    session.start(Ticket(0), &Op::new(COUNT, ValueBuf::new().values()), &mut Vec::new());
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

const FOUND_NOTHING: &[u8] = b"2\0\0\0\x04C\0\0\0\x0dSELECT 0\0";
const READY: &[u8] = b"Z\0\0\0\x05I";

/// A session with two reads that share a Sync, and their bytes.
fn two_joined(server: &Server, recorded: &Recorded) -> (PgSession, Vec<u8>) {
    let mut session = recorded.opened(server);
    let mut out = Vec::new();
    let key = values(&[Value::Text("nobody")]);
    for ticket in 0..2 {
        session.start(Ticket(ticket), &Op { more: true, ..Op::new(GET, key.values()) }, &mut out);
    }
    session.flush(&mut out);
    (session, out)
}

fn reads_that_share_a_sync_have_no_outcome_before_its_answer(server: &Server, recorded: &Recorded) {
    let both = [FOUND_NOTHING, FOUND_NOTHING].concat();
    let found_nothing = |ticket: u32| (ticket, "NotFound 0   []".to_owned());
    let error = |severity: &str, code: &str| {
        let body = format!("S{severity}\0V{severity}\0C{code}\0Mwords\0\0");
        [b"E", &(body.len() as u32 + 4).to_be_bytes()[..], body.as_bytes()].concat()
    };

    let (mut session, _) = two_joined(server, recorded);
    let (mut seen, mut out) = (Seen::default(), Vec::new());
    session.feed(&both, &mut out, &mut seen);
    assert_eq!(seen, Seen::default());
    session.feed(READY, &mut out, &mut seen);
    assert_eq!(seen.0, BTreeMap::from([found_nothing(0), found_nothing(1)]));
    assert!(out.is_empty());

    // The transaction fails at its very end by no operation's fault, so both are asked again, each by itself.
    let (mut session, sent) = two_joined(server, recorded);
    let (mut seen, mut out) = (Seen::default(), Vec::new());
    session.feed(&[&both, &error("ERROR", "40001"), READY].concat(), &mut out, &mut seen);
    assert_eq!(seen, Seen::default());
    let (message, sync) = sent[..sent.len() - 5].split_at((sent.len() - 5) / 2);
    assert_eq!(out, [message, &sent[sent.len() - 5..], sync, &sent[sent.len() - 5..]].concat());
    session.feed(&[FOUND_NOTHING, READY, FOUND_NOTHING, READY].concat(), &mut out, &mut seen);
    assert_eq!(seen.0, BTreeMap::from([found_nothing(0), found_nothing(1)]));

    // The server goes away in between: what it said before is no outcome.
    let (mut session, _) = two_joined(server, recorded);
    let mut seen = Seen::default();
    session.feed(&[&both, &error("FATAL", "57P01")[..]].concat(), &mut Vec::new(), &mut seen);
    assert!(seen.0.len() == 2 && seen.0.values().all(|seen| seen.starts_with("Unknown 0 57P01")), "{seen:?}");

    // More answers than were asked for.
    let (mut session, _) = two_joined(server, recorded);
    let mut seen = Seen::default();
    session.feed(&[&both, FOUND_NOTHING].concat(), &mut Vec::new(), &mut seen);
    assert!(matches!(session.state(), WireState::Failed(_)));
    assert!(seen.0.len() == 2 && seen.0.values().all(|seen| seen.starts_with("Unknown")), "{seen:?}");
}
