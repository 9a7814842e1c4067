//! A row of values as one number, so that contents can be compared without being kept.

use plimsoll_core::{Value, Values};

/// Digest of a row: its values, their types and their order. Two rows that differ have the same one with a
/// probability of 2^-32, which is fine for finding faults and no defence against an adversary.
pub(crate) fn digest(row: Values<'_>) -> u32 {
    let mut state = fold(0x9e37_79b9_7f4a_7c15, row.len() as u64);
    for value in row.iter() {
        state = match value {
            Value::Null => fold(state, 1),
            Value::Bool(value) => fold(fold(state, 2), u64::from(value)),
            Value::Int(value) => fold(fold(state, 3), value as u64),
            // All NaNs are one; minus zero is not zero.
            Value::Float(value) if value.is_nan() => fold(state, 4),
            Value::Float(value) => fold(fold(state, 5), value.to_bits()),
            Value::Timestamp(value) => fold(fold(state, 6), value as u64),
            Value::Text(value) => fold_bytes(fold(state, 7), value.as_bytes()),
            Value::Bytes(value) => fold_bytes(fold(state, 8), value),
        };
    }
    (state ^ (state >> 32)) as u32
}

fn fold_bytes(mut state: u64, bytes: &[u8]) -> u64 {
    state = fold(state, bytes.len() as u64);
    let (pairs, rest) = bytes.as_chunks::<16>();
    for pair in pairs {
        state = fold_pair(state, word(&pair[..8]), word(&pair[8..]));
    }
    match rest.len() {
        0 => state,
        1..=8 => fold(state, word(rest)),
        _ => fold_pair(state, word(&rest[..8]), word(&rest[8..])),
    }
}

/// Converts up to 8 bytes to a number.
fn word(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(whole) => u64::from_le_bytes(whole),
        Err(_) => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

fn fold(state: u64, word: u64) -> u64 {
    fold_pair(state, word, 0)
}

/// Multiplies to 128 bits and folds the halves, as wyhash does.
fn fold_pair(state: u64, a: u64, b: u64) -> u64 {
    let product =
        u128::from(a ^ state ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(b ^ state.rotate_left(32) ^ 0x8bb8_4b93_962e_acc9);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::ValueBuf;
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[Value<'_>]) -> u32 {
        let mut buf = ValueBuf::new();
        values.iter().for_each(|value| buf.push(*value));
        digest(buf.values())
    }

    #[test]
    fn rows_that_look_alike_have_digests_of_their_own() {
        let rows: &[&[Value<'_>]] = &[
            &[],
            &[Value::Null],
            &[Value::Null, Value::Null],
            &[Value::Int(0)],
            &[Value::Timestamp(0)],
            &[Value::Float(0.0)],
            &[Value::Float(-0.0)],
            &[Value::Bool(false)],
            &[Value::Text("")],
            &[Value::Bytes(b"")],
            &[Value::Bytes(b"\0")],
            &[Value::Text("ab"), Value::Text("c")],
            &[Value::Text("a"), Value::Text("bc")],
            &[Value::Int(1), Value::Int(2)],
            &[Value::Int(2), Value::Int(1)],
        ];
        let mut digests: Vec<_> = rows.iter().map(|row| of(row)).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), rows.len());
    }

    proptest! {
        #[test]
        fn one_byte_changed_changes_the_digest(mut bytes in prop::collection::vec(any::<u8>(), 1..300), place: usize, by in 1u8..) {
            let before = of(&[Value::Bytes(&bytes)]);
            let place = place % bytes.len();
            bytes[place] = bytes[place].wrapping_add(by);
            prop_assert_ne!(of(&[Value::Bytes(&bytes)]), before);
        }
    }
}
