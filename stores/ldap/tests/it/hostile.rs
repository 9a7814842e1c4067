//! Replies that no directory server sends.

use plimsoll_core::{Outcome, StoreErrorKind, Value, WireSession};
use plimsoll_store_ldap::wire::LdapSession;
use plimsoll_testkit::pieces::{self, failure, start};
use proptest::prelude::*;

use crate::fixture::{COMPARE, LOOK, SEARCH, Said, entry, keeper, ready, result};

/// Starts operations in a new session and feeds it. Returns it, and what it said.
fn fed(ops: &[u16], bytes: &[u8], piece: usize) -> (LdapSession, Vec<Said>) {
    let (mut session, mut kept) = (ready(), keeper());
    start(&mut session, ops, &[Value::Int(1)]);
    pieces::fed(&mut session, bytes, &[piece], &mut kept);
    (session, kept.all)
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
        let (session, kept) = fed(&[LOOK, COMPARE], &bytes, usize::MAX);
        let error = failure(&session);
        assert_eq!(error.kind, StoreErrorKind::Broken);
        assert!(error.to_string().contains(words), "{error}");
        assert!(kept.len() == 2 && kept.iter().all(|said| said.1 == Outcome::Unknown), "{bytes:?}");
    }
}

#[test]
fn an_answer_that_is_larger_than_what_is_kept_is_refused_as_soon_as_its_length_is_known() {
    let limited = |bytes: &[u8]| {
        let (mut session, mut kept) = (ready(), keeper());
        session.limit_answers(1_000);
        start(&mut session, &[SEARCH], &[Value::Int(1)]);
        session.feed(bytes, &mut Vec::new(), &mut kept);
        assert_eq!(kept.all[0].1, Outcome::Unknown);
        failure(&session).to_string()
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
    let (session, kept) = fed(&[LOOK], &bytes, usize::MAX);
    let error = failure(&session);
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("unavailable (52): stop"), "{error}");
    assert_eq!(kept[0].1, Outcome::Unknown);
}

proptest! {
    #[test]
    fn no_bytes_panic_and_none_are_used_twice(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fed(&[LOOK, SEARCH, COMPARE], &bytes, usize::MAX);
    }

    #[test]
    fn bits_that_changed_on_the_way_never_panic(at in 0usize..71, bit in 0u8..8, piece in 1usize..71) {
        let mut bytes: Vec<u8> = [entry(2), entry(1), result(1, 0x65, 0)].concat();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(fed(&[LOOK, SEARCH], &bytes, piece).1.len() <= 2);
    }
}
