//! Sessions without a socket: answers in any order, in pieces, and of every code.

use plimsoll_core::{Op, Outcome, Ticket, Value, WireSession, WireState};
use plimsoll_testkit::pieces::fed;
use plimsoll_testkit::wire::values;

use crate::fixture::{ADD, COMPARE, DELETE, LOOK, SEARCH, entry, keeper, ready, result};

fn started(session: &mut dyn WireSession, ops: &[(u32, u16)]) -> Vec<u8> {
    let (params, mut out) = (values(&[Value::Int(7), Value::Int(7)]), Vec::new());
    for (ticket, kind) in ops {
        session.start(Ticket(*ticket), &Op::new(*kind, params.values()), &mut out);
    }
    out
}

#[test]
fn answers_find_their_operations_in_any_order_and_in_pieces() {
    let bytes: Vec<u8> =
        [entry(1), entry(3), result(2, 0x6f, 6), entry(1), result(3, 0x65, 0), result(1, 0x65, 0)].concat();
    for piece in [1, 2, 7, 30, bytes.len()] {
        let mut session = ready();
        started(&mut session, &[(10, SEARCH), (11, COMPARE), (12, LOOK)]);
        let mut kept = keeper();
        let (_, left) = fed(&mut session, &bytes, &[piece], &mut kept);
        let row = vec!["uid=a".to_owned(), "abc".to_owned()];
        let said: Vec<_> =
            kept.all.iter().map(|(ticket, outcome, rows, row, ..)| (*ticket, *outcome, *rows, row)).collect();
        let expected = [(11, Outcome::Ok, 1, &vec![]), (12, Outcome::Ok, 1, &vec![]), (10, Outcome::Ok, 2, &row)];
        assert_eq!(said, expected, "in pieces of {piece}");
        assert!(left == 0 && *session.state() == WireState::Ready);
    }
}

#[test]
fn numbers_are_used_again_and_no_more_are_in_flight_than_there_are() {
    let mut session = ready();
    let most = session.depth_max();
    let all: Vec<_> = (0..most).map(|ticket| (ticket, LOOK)).collect();
    for _ in 0..3 {
        let asked = started(&mut session, &all);
        assert_eq!(asked.windows(9).filter(|bytes| *bytes == b"uid=7,o=x").count(), all.len());
        let mut kept = keeper();
        for id in (1..=most as u8).rev() {
            session.feed(&result(id, 0x65, 0), &mut Vec::new(), &mut kept);
        }
        let mut tickets: Vec<_> = kept.all.iter().map(|said| said.0).collect();
        tickets.sort_unstable();
        assert!(tickets.into_iter().eq(0..most));
    }
}

#[test]
fn every_code_is_an_outcome() {
    use Outcome::{NotFound, Ok, Rejected, Unknown};
    let (search, deleted, added, compared) = (0x65, 0x6b, 0x69, 0x6f);
    for (kind, tag, code, outcome, name) in [
        (LOOK, search, 0, NotFound, ""),
        (LOOK, search, 32, NotFound, ""),
        (DELETE, deleted, 32, NotFound, ""),
        (ADD, added, 32, Rejected, "noSuchObject"),
        (ADD, added, 68, Rejected, "entryAlreadyExists"),
        (COMPARE, compared, 5, Ok, ""),
        (COMPARE, compared, 6, Ok, ""),
        (LOOK, search, 6, Rejected, "compareTrue"),
        (LOOK, search, 4, Rejected, "sizeLimitExceeded"),
        (LOOK, search, 51, Rejected, "busy"),
        (LOOK, search, 52, Rejected, "unavailable"),
        (DELETE, deleted, 52, Unknown, "unavailable"),
        (ADD, added, 80, Unknown, "other"),
        (ADD, added, 3, Unknown, "timeLimitExceeded"),
        (ADD, added, 50, Rejected, "insufficientAccessRights"),
        (LOOK, search, 99, Rejected, "code 99"),
    ] {
        let (mut session, mut kept) = (ready(), keeper());
        started(&mut session, &[(1, kind)]);
        session.feed(&result(1, tag, code), &mut Vec::new(), &mut kept);
        assert_eq!((kept.all[0].1, kept.all[0].4.as_str()), (outcome, name), "{code} to {kind}");
        assert_eq!(*session.state(), WireState::Ready);
    }
}

#[test]
fn a_referral_names_its_place() {
    let (mut session, mut kept) = (ready(), keeper());
    started(&mut session, &[(1, LOOK)]);
    let mut bytes = b"\x30\x18\x02\x01\x01\x65\x13\x0a\x01\x0a\x04\0\x04\0\xa3\x0a\x04\x08ldap://h".to_vec();
    session.feed(&bytes, &mut Vec::new(), &mut kept);
    assert_eq!((kept.all[0].1, kept.all[0].4.as_str()), (Outcome::Rejected, "referral"));
    assert!(kept.all[0].5.contains("ldap://h"));
    // References beside entries and intermediate words are passed over.
    started(&mut session, &[(2, LOOK)]);
    bytes = [vec![0x30, 0x0b, 2, 1, 1, 0x73, 6, 4, 4, 0, 0, 0, 0], vec![0x30, 5, 2, 1, 1, 0x79, 0]].concat();
    bytes.extend(result(1, 0x65, 0));
    assert_eq!(session.feed(&bytes, &mut Vec::new(), &mut kept), bytes.len());
    assert_eq!((kept.all[1].1, kept.all[1].2), (Outcome::NotFound, 0));
}
