//! Values as bytes that order as the values do.
//!
//! | value | bytes |
//! |---|---|
//! | null | `05` |
//! | false, true | `08`, `09` |
//! | integer | `20 + n` or, when negative, `20 - n`; then its *n* significant bytes, 0 to 8, highest first |
//! | float | `30`, then 8 bytes |
//! | timestamp | `38`, then 8 bytes |
//! | text | `40`, its bytes with `00` written `00 FF`, then `00 01` |
//! | bytes | `48`, as text |
//!
//! No encoded value is the beginning of another one, so values may follow each other and anything may
//! follow them: a composite entry is its values' encodings, an index key is an entry and the record's key.
//! Values of different types order as in the table. Numbers order as numbers, −0 is 0, and a NaN (all of
//! them are one) is above every other float; texts and bytes order as their bytes.

use plimsoll_core::Value;

const NULL: u8 = 0x05;
const FALSE: u8 = 0x08;
const TRUE: u8 = 0x09;
const INT_ZERO: u8 = 0x20;
const INT_LEAST: u8 = INT_ZERO - 8;
const INT_MOST: u8 = INT_ZERO + 8;
const FLOAT: u8 = 0x30;
const TIMESTAMP: u8 = 0x38;
const TEXT: u8 = 0x40;
const BYTES: u8 = 0x48;

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 0x01;

/// The lowest byte with which a value other than null begins.
pub(crate) const ABOVE_NULL: u8 = NULL + 1;

/// Appends the encoding of `value`.
#[inline]
pub fn push(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(v) => out.push(if v { TRUE } else { FALSE }),
        Value::Int(v) => push_int(out, v),
        Value::Float(v) => push_fixed(out, FLOAT, float_bits(v)),
        Value::Timestamp(v) => push_fixed(out, TIMESTAMP, signed_bits(v)),
        Value::Text(v) => push_escaped(out, TEXT, v.as_bytes()),
        Value::Bytes(v) => push_escaped(out, BYTES, v),
    }
}

/// Number of bytes of the encoded value that `bytes` begins with; `None` when there is none.
#[inline]
pub fn len(bytes: &[u8]) -> Option<usize> {
    let len = match *bytes.first()? {
        NULL | FALSE | TRUE => 1,
        tag @ INT_LEAST..=INT_MOST => 1 + usize::from(tag.abs_diff(INT_ZERO)),
        FLOAT | TIMESTAMP => 9,
        TEXT | BYTES => return escaped_len(&bytes[1..]).map(|len| 1 + len),
        _ => return None,
    };
    (bytes.len() >= len).then_some(len)
}

/// Makes `bytes` the lowest byte string above all that begin with it. False, and `bytes` empty, when
/// there is none because all its bytes are `FF`; that never is so for encodings.
pub(crate) fn raise_past(bytes: &mut Vec<u8>) -> bool {
    while let Some(last) = bytes.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return true;
        }
        bytes.pop();
    }
    false
}

/// The bits of a float, made to order as the float does.
pub(crate) fn float_bits(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

pub(crate) fn float_of_bits(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

pub(crate) fn signed_bits(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

pub(crate) fn signed_of_bits(bits: u64) -> i64 {
    (bits ^ 1 << 63) as i64
}

fn push_fixed(out: &mut Vec<u8>, tag: u8, bits: u64) {
    let mut all = [tag; 9];
    all[1..].copy_from_slice(&bits.to_be_bytes());
    out.extend_from_slice(&all);
}

/// A negative number's bytes are the complement of its magnitude's, so that −2 comes before −1, and its
/// tag falls as its magnitude grows.
fn push_int(out: &mut Vec<u8>, value: i64) {
    let magnitude = value.unsigned_abs();
    let significant = 8 - magnitude.leading_zeros() as usize / 8;
    let (tag, bits) =
        if value < 0 { (INT_ZERO - significant as u8, !magnitude) } else { (INT_ZERO + significant as u8, magnitude) };
    out.push(tag);
    out.extend_from_slice(&bits.to_be_bytes()[8 - significant..]);
}

fn push_escaped(out: &mut Vec<u8>, tag: u8, plain: &[u8]) {
    out.push(tag);
    let mut pieces = plain.split(|byte| *byte == ESCAPE);
    out.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&[ESCAPE, END]);
}

/// Length of an escaped text with its end.
fn escaped_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == ESCAPE)?;
        match *bytes.get(at + 1)? {
            END => return Some(at + 2),
            ESCAPED_ZERO => at += 2,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, value);
        out
    }

    #[test]
    fn every_boundary_stands_in_order_and_says_where_it_ends() {
        let mut ints: Vec<i64> = vec![i64::MIN, i64::MAX, 0];
        for bits in 0..63 {
            for near in -1..=1 {
                ints.extend([(1 << bits) + near, -(1 << bits) + near]);
            }
        }
        ints.sort_unstable();
        ints.dedup();
        let floats = [f64::NEG_INFINITY, f64::MIN, -1.0, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        let all: Vec<Value<'_>> = [Value::Null, Value::Bool(false), Value::Bool(true)]
            .into_iter()
            .chain(ints.iter().map(|v| Value::Int(*v)))
            .chain(floats.iter().map(|v| Value::Float(*v)))
            .chain([i64::MIN, -1, 0, 1, i64::MAX].map(Value::Timestamp))
            .chain(["", "\0", "\0\0", "\0\u{1}", "\u{1}", "a", "a\0", "a\0\u{ff}", "aa", "b"].map(Value::Text))
            .chain([&b""[..], b"\0", b"\0\xff", b"\x01", b"\xff", b"\xff\xff"].map(Value::Bytes))
            .collect();
        for pair in all.windows(2) {
            assert!(encoded(pair[0]) < encoded(pair[1]), "{pair:?}");
            assert_eq!(pair[0].order(pair[1]), std::cmp::Ordering::Less, "{pair:?}");
        }
        for value in all {
            let mut bytes = encoded(value);
            let len_alone = bytes.len();
            bytes.extend_from_slice(&[0xFF, 0x00, 0x01]);
            assert_eq!(len(&bytes), Some(len_alone), "{value:?}");
            for short in 0..len_alone {
                assert_eq!(len(&bytes[..short]), None, "{value:?} cut to {short}");
            }
        }
    }

    #[test]
    fn there_is_one_zero_and_one_nan() {
        assert_eq!(encoded(Value::Float(-0.0)), encoded(Value::Float(0.0)));
        assert_eq!(encoded(Value::Float(-f64::NAN)), encoded(Value::Float(f64::NAN)));
        assert!(encoded(Value::Float(f64::NAN)) > encoded(Value::Float(f64::INFINITY)));
    }

    #[test]
    fn what_is_no_encoding_is_refused() {
        for bytes in [&[][..], &[0], &[0xFF], &[INT_MOST], &[TEXT, b'a'], &[TEXT, 0, 2], &[BYTES, 0, 0xFF]] {
            assert_eq!(len(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn raising_passes_all_continuations() {
        let mut bytes = vec![1, 0xFF, 0xFF];
        assert!(raise_past(&mut bytes));
        assert_eq!(bytes, [2]);
        let mut bytes = vec![0xFF];
        assert!(!raise_past(&mut bytes));
        assert!(bytes.is_empty());
    }
}
