//! Replies that no directory server sends.

use plimsoll_core::{Op, Outcome, StoreErrorKind, Ticket, Value, ValueBuf, WireSession, WireState};
use proptest::prelude::*;

use crate::fixture::{COMPARE, Kept, LOOK, SEARCH, entry, ready, result};

fn fed(ops: &[u16], bytes: &[u8]) -> (WireState, Kept) {
    let (mut session, mut kept) = (ready(), Kept::default());
    let (mut params, mut out) = (ValueBuf::new(), Vec::new());
    params.push(Value::Int(1));
    for (ticket, kind) in (0..).zip(ops) {
        session.start(Ticket(ticket), &Op::new(*kind, params.values()), &mut out);
    }
    session.feed(bytes, &mut out, &mut kept);
    (session.state().clone(), kept)
}

#[test]
fn what_is_no_answer_ends_the_connection_and_leaves_everything_open() {
    for (bytes, words) in [
        (b"HTTP/1.1 400 Bad Request".to_vec(), "not LDAP"),
        (b"\x30\x80\x02\x01\x01".to_vec(), "not LDAP"),
        (b"\x30\x05\x04\x01\x01\x65\0".to_vec(), "not LDAP"),
        (b"\x30\x07\x02\x05\x01\x01\x01\x01\x01".to_vec(), "not LDAP"),
        (b"\x30\x05\x02\x01\x01\x65\x7f".to_vec(), "not LDAP"),
        (b"\x30\x05\x02\x01\x01\x65\0".to_vec(), "not LDAP"),
        (result(9, 0x65, 0), "without a request"),
        (entry(9), "without a request"),
        (result(1, 0x6b, 0), "to another operation type"),
        (entry(2), "unexpected entry"),
    ] {
        let (state, kept) = fed(&[LOOK, COMPARE], &bytes);
        let WireState::Failed(error) = state else { panic!("{bytes:?} was taken") };
        assert_eq!(error.kind, StoreErrorKind::Broken);
        assert!(error.to_string().contains(words), "{error}");
        assert!(kept.0.len() == 2 && kept.0.iter().all(|said| said.1 == Outcome::Unknown), "{bytes:?}");
    }
}

#[test]
fn an_answer_that_is_larger_than_what_is_kept_is_refused_as_soon_as_its_length_is_known() {
    let limited = |bytes: &[u8]| {
        let (mut session, mut kept) = (ready(), Kept::default());
        session.limit_answers(1_000);
        let mut params = ValueBuf::new();
        params.push(Value::Int(1));
        session.start(Ticket(0), &Op::new(SEARCH, params.values()), &mut Vec::new());
        session.feed(bytes, &mut Vec::new(), &mut kept);
        let WireState::Failed(error) = session.state() else { panic!("it was taken") };
        assert_eq!(kept.0[0].1, Outcome::Unknown);
        error.to_string()
    };
    let words = "and at most 1000 are kept of an answer (--answer-max)";
    let one = limited(b"\x30\x84\x10\x00\x00\x00\x02\x01\x01\x65\x84\x0f\xff\xff\xf0");
    assert!(one.contains("answers with 268435462 bytes") && one.contains(words), "{one}");
    // Many entries of a search together.
    let many = limited(&entry(1).repeat(100));
    assert!(many.contains(words), "{many}");
}

#[test]
fn a_notice_of_disconnection_is_told() {
    let mut bytes = b"\x30\x2a\x02\x01\0\x78\x25\x0a\x01\x34\x04\0\x04\x04stop\x8a\x16".to_vec();
    bytes.extend_from_slice(b"1.3.6.1.4.1.1466.20036");
    bytes[1] = (bytes.len() - 2) as u8;
    bytes[6] = (bytes.len() - 7) as u8;
    let (state, kept) = fed(&[LOOK], &bytes);
    let WireState::Failed(error) = state else { panic!("it was taken") };
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("unavailable (52): stop"), "{error}");
    assert_eq!(kept.0[0].1, Outcome::Unknown);
}

proptest! {
    #[test]
    fn no_bytes_panic_and_none_are_used_twice(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fed(&[LOOK, SEARCH, COMPARE], &bytes);
    }

    #[test]
    fn bits_that_changed_on_the_way_never_panic(at in 0usize..71, bit in 0u8..8, piece in 1usize..71) {
        let mut bytes: Vec<u8> = [entry(2), entry(1), result(1, 0x65, 0)].concat();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let (mut session, mut kept, mut waiting) = (ready(), Kept::default(), Vec::new());
        let (mut params, mut out) = (ValueBuf::new(), Vec::new());
        params.push(Value::Int(1));
        for (ticket, kind) in [(0, LOOK), (1, SEARCH)] {
            session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut out);
        }
        for arrived in bytes.chunks(piece) {
            waiting.extend_from_slice(arrived);
            let used = session.feed(&waiting, &mut out, &mut kept);
            prop_assert!(used <= waiting.len());
            waiting.drain(..used);
        }
        prop_assert!(kept.0.len() <= 2);
    }
}
