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

use plimsoll_core::{Value, ValueBuf};

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
        Value::Text(v) => {
            push_escaped(out, TEXT, v.as_bytes());
            out.extend_from_slice(&[ESCAPE, END]);
        }
        Value::Bytes(v) => {
            push_escaped(out, BYTES, v);
            out.extend_from_slice(&[ESCAPE, END]);
        }
    }
}

/// Appends the bytes with which the encodings of all texts (or bytes) begin that begin with `value`.
/// Of a value of another type this is its encoding: it is the beginning of itself only.
pub fn push_beginning(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Text(v) => push_escaped(out, TEXT, v.as_bytes()),
        Value::Bytes(v) => push_escaped(out, BYTES, v),
        other => push(out, other),
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

/// Appends the value that `bytes` begins with to `out`; returns its encoding's length, or `None` when
/// `bytes` begins with none.
pub fn read(bytes: &[u8], out: &mut ValueBuf) -> Option<usize> {
    let len = len(bytes)?;
    let body = bytes.get(1..len)?;
    match bytes[0] {
        NULL => out.push(Value::Null),
        FALSE => out.push(Value::Bool(false)),
        TRUE => out.push(Value::Bool(true)),
        FLOAT => out.push(Value::Float(float_of_bits(be_u64(body)))),
        TIMESTAMP => out.push(Value::Timestamp(signed_of_bits(be_u64(body)))),
        TEXT => {
            let mut plain = Vec::new();
            unescape(body, &mut plain);
            out.push(Value::Text(std::str::from_utf8(&plain).ok()?));
        }
        BYTES => out.push_bytes_with(|plain| unescape(body, plain)),
        tag => out.push(Value::Int(read_int(tag, body)?)),
    }
    Some(len)
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

fn read_int(tag: u8, body: &[u8]) -> Option<i64> {
    let negative = tag < INT_ZERO;
    let mut bits = [if negative { 0xFF } else { 0 }; 8];
    bits[8 - body.len()..].copy_from_slice(body);
    let bits = u64::from_be_bytes(bits);
    if negative { 0i64.checked_sub_unsigned(!bits) } else { i64::try_from(bits).ok() }
}

fn push_escaped(out: &mut Vec<u8>, tag: u8, plain: &[u8]) {
    out.push(tag);
    let mut pieces = plain.split(|byte| *byte == ESCAPE);
    out.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        out.extend_from_slice(piece);
    }
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

/// Appends what `escaped`, which [`escaped_len`] has measured, stands for.
fn unescape(escaped: &[u8], out: &mut Vec<u8>) {
    let mut escaped = &escaped[..escaped.len() - 2];
    while let Some(zero) = escaped.iter().position(|byte| *byte == ESCAPE) {
        out.extend_from_slice(&escaped[..=zero]);
        escaped = &escaped[zero + 2..];
    }
    out.extend_from_slice(escaped);
}

fn be_u64(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all.copy_from_slice(&bytes[..8]);
    u64::from_be_bytes(all)
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
    fn every_boundary_stands_in_order_and_comes_back() {
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
            let mut out = ValueBuf::new();
            assert_eq!(read(&bytes, &mut out), Some(len_alone), "{value:?}");
            assert_eq!(out.values().get(0), value);
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
        // 2^63 does not fit; neither does a text that is no UTF-8.
        let mut out = ValueBuf::new();
        assert_eq!(read(&[INT_MOST, 0x80, 0, 0, 0, 0, 0, 0, 0], &mut out), None);
        assert_eq!(read(&[TEXT, 0xFF, 0, 1], &mut out), None);
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
