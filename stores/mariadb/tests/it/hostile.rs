//! Bytes in pieces have the effect of the whole, and no bytes can hurt.

use plimsoll_core::{Op, Ticket, ValueBuf, WireSession, WireState};
use plimsoll_store_mariadb::wire::MySession;
use plimsoll_testkit::pieces::{PuttingOff, Seen, failure, start};
use plimsoll_testkit::records::{ALL, COUNT};
use plimsoll_testkit::sql::{Recorded, bytes_are_taken_in_pieces, refuses_a_larger_answer};

use crate::fixture::{Server, SqlServer as _};

#[test]
fn pieces_of_any_size_give_the_same_answers() {
    bytes_are_taken_in_pieces::<Server>(10);
}

#[test]
fn what_a_server_says_in_no_conversation() {
    let server = Server::start();
    let recorded = Recorded::of(&server);
    a_row_nobody_wants_is_not_held_until_it_is_complete(&server, &recorded);
    a_row_beyond_all_bounds_is_an_error(&server, &recorded);
    what_a_node_without_a_majority_does_not_begin_is_put_off(&server, &recorded);
    for length in [2_000, 0xff_ffff] {
        let head = [&[2, 0, 0, 1, 6, 0][..], &row_header(length, 2), &[0; 9]].concat();
        refuses_a_larger_answer(&server, &recorded, &head, length);
    }
}

/// A packet's header, and the row it begins.
fn row_header(length: usize, number: u8) -> Vec<u8> {
    [&(length as u32).to_le_bytes()[..3], &[number]].concat()
}

fn a_row_nobody_wants_is_not_held_until_it_is_complete(server: &Server, recorded: &Recorded) {
    let mut session = recorded.opened(server);
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

fn what_a_node_without_a_majority_does_not_begin_is_put_off(server: &Server, recorded: &Recorded) {
    let mut session = recorded.opened(server);
    let words = b"\xff\x17\x04#08S01WSREP has not yet prepared node for application use";
    let refusal = [&row_header(words.len(), 1)[..], words].concat();
    let mut seen = PuttingOff::default();
    for _ in 0..2 {
        start(&mut session, &[COUNT], &[]);
        assert_eq!(session.feed(&refusal, &mut Vec::new(), &mut seen), refusal.len());
        assert_eq!(session.state(), &WireState::Ready);
    }
    assert_eq!(seen, PuttingOff { put_off: vec![(0, "1047".to_owned()); 2], finished: Vec::new() });
    // For a receiver that sends nothing again.
    let mut seen = Seen::default();
    start(&mut session, &[COUNT], &[]);
    session.feed(&refusal, &mut Vec::new(), &mut seen);
    assert!(seen.0[&0].starts_with("Rejected 0 1047 08S01: WSREP"), "{}", seen.0[&0]);
}

fn a_row_beyond_all_bounds_is_an_error(server: &Server, recorded: &Recorded) {
    let mut session = recorded.opened(server);
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
    let error = failure(&session);
    assert!(error.what.contains("and at most 268435456 are kept"), "{error}");
}
