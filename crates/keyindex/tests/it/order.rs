//! Encodings order as values do, whatever follows them.

use plimsoll_core::OwnedValue;
use plimsoll_keyindex::encode;
use proptest::prelude::*;

/// Numbers of every magnitude, not only the large ones that uniform bits give.
fn ints() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift)
}

/// Bytes in which those that need care are frequent.
fn awkward_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()], 0..6)
}

fn awkward_text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('\u{ff}'), any::<char>()], 0..6)
        .prop_map(String::from_iter)
}

pub fn values() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        any::<bool>().prop_map(OwnedValue::Bool),
        ints().prop_map(OwnedValue::Int),
        prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), Just(f64::NAN)].prop_map(OwnedValue::Float),
        awkward_text().prop_map(|text| OwnedValue::Text(text.into())),
        awkward_bytes().prop_map(|bytes| OwnedValue::Bytes(bytes.into())),
        ints().prop_map(OwnedValue::Timestamp),
    ]
}

fn encoded(values: &[OwnedValue], tail: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        encode::push(&mut out, value.value());
    }
    out.extend_from_slice(tail);
    out
}

/// Returns the number of cases of a test, which are others in each run; a heavy run has more.
fn cases() -> u32 {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 4_000 } else { 1_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn composites_order_as_their_values_whatever_key_follows(
        a in prop::collection::vec(values(), 3),
        b in prop::collection::vec(values(), 3),
        same in 0..3usize,
        tails in (awkward_bytes(), awkward_bytes()),
    ) {
        // The first fields are often equal, else only those would be compared.
        let b: Vec<_> = a[..same].iter().chain(&b[same..]).cloned().collect();
        let expected = a.iter().zip(&b).map(|(a, b)| a.value().order(b.value())).find(|order| order.is_ne());
        let bytes = encoded(&a, &tails.0).cmp(&encoded(&b, &tails.1));
        prop_assert_eq!(bytes, expected.unwrap_or(tails.0.cmp(&tails.1)));
    }

    #[test]
    fn what_is_encoded_says_where_it_ends(all in prop::collection::vec(values(), 0..5), tail in awkward_bytes()) {
        let bytes = encoded(&all, &tail);
        let at = all.iter().fold(0, |at, _| at + encode::len(&bytes[at..]).unwrap());
        prop_assert_eq!(&bytes[at..], &tail[..]);
    }

    #[test]
    fn reading_anything_ends_without_panic(bytes in awkward_bytes()) {
        let len = encode::len(&bytes);
        prop_assert!(len.is_none_or(|len| len <= bytes.len()));
    }
}
