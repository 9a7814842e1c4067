//! Values in the protocol's binary format, by the type that the server said.
//!
//! A value that is not of the parameter's type is sent in text format, so that the server converts it or
//! says why it cannot; a column of a type not listed here comes back as text.

use std::io::Write;

use plimsoll_core::{Utc, Value, ValueBuf};

use super::message::patch_length;

/// Format of a column's values in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Binary representation of the server, for the types of [`Code`]; text for others.
    Binary,
    /// Text representation.
    Text,
}

/// Microseconds from 1970 to 2000, where PostgreSQL's timestamps begin.
const EPOCH_OFFSET_US: i64 = 946_684_800_000_000;

/// A type whose binary format is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Text,
    Bytea,
    Timestamp,
    /// Any other type, as text.
    Other,
}

impl Code {
    /// Returns the type with the server's number (`src/include/catalog/pg_type.dat`).
    pub(crate) fn of_oid(oid: u32) -> Code {
        match oid {
            16 => Code::Bool,
            17 => Code::Bytea,
            20 => Code::Int8,
            21 => Code::Int2,
            23 => Code::Int4,
            26 => Code::Oid,
            700 => Code::Float4,
            701 => Code::Float8,
            // name, text, unknown, char(n), varchar(n): their binary format is their text.
            19 | 25 | 705 | 1042 | 1043 => Code::Text,
            // A timestamp without a zone is taken as UTC.
            1114 | 1184 => Code::Timestamp,
            _ => Code::Other,
        }
    }

    /// The format in which columns of this type are asked for: 1 binary, 0 text.
    pub(crate) fn format(self) -> u16 {
        u16::from(self != Code::Other)
    }
}

/// Appends length and bytes of a parameter; true when they are in binary format, false for text.
#[inline]
pub(crate) fn encode(code: Code, value: Value<'_>, out: &mut Vec<u8>) -> bool {
    match (code, value) {
        (_, Value::Null) => sized(out, u32::MAX, &[]),
        (Code::Int8, Value::Int(v)) => sized(out, 8, &v.to_be_bytes()),
        (Code::Text, Value::Text(v)) | (Code::Bytea, Value::Text(v)) => bytes(out, v.as_bytes()),
        (Code::Bytea, Value::Bytes(v)) => bytes(out, v),
        (Code::Float8, Value::Float(v)) => sized(out, 8, &v.to_be_bytes()),
        (Code::Bool, Value::Bool(v)) => sized(out, 1, &[u8::from(v)]),
        (Code::Timestamp, Value::Timestamp(v)) => sized(out, 8, &v.saturating_sub(EPOCH_OFFSET_US).to_be_bytes()),
        (Code::Int4, Value::Int(v)) if i32::try_from(v).is_ok() => sized(out, 4, &(v as i32).to_be_bytes()),
        (Code::Int2, Value::Int(v)) if i16::try_from(v).is_ok() => sized(out, 2, &(v as i16).to_be_bytes()),
        (Code::Float4, Value::Float(v)) => sized(out, 4, &(v as f32).to_be_bytes()),
        (Code::Float8, Value::Int(v)) => sized(out, 8, &(v as f64).to_be_bytes()),
        _ => return encode_text(value, out),
    }
    true
}

#[inline]
fn sized(out: &mut Vec<u8>, length: u32, bytes: &[u8]) {
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[inline]
fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    sized(out, u32::try_from(bytes.len()).expect("a parameter holds at most 4 GiB"), bytes);
}

#[cold]
fn encode_text(value: Value<'_>, out: &mut Vec<u8>) -> bool {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Null => Ok(()),
        Value::Bool(v) => write!(out, "{v}"),
        Value::Int(v) => write!(out, "{v}"),
        Value::Float(v) => write!(out, "{v}"),
        Value::Text(v) => out.write_all(v.as_bytes()),
        Value::Bytes(v) => out.write_all(v),
        Value::Timestamp(v) => write_timestamp(v, out),
    };
    let length = out.len() - at - 4;
    patch_length(out, at, length);
    false
}

/// Writes microseconds since 1970 as ISO 8601.
pub(crate) fn write_timestamp(us: i64, out: &mut Vec<u8>) -> std::io::Result<()> {
    let Utc { year, month, day, hour, minute, second, us } = Utc::of_us(us);
    // There is no year 0: it is 1 BC.
    let (year, suffix) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}+00{suffix}")
}

/// Appends a column's value; false when its bytes are not of its type.
#[inline]
pub(crate) fn decode(code: Code, bytes: &[u8], values: &mut ValueBuf) -> bool {
    let value = match code {
        Code::Text | Code::Other => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text),
            // From a database of encoding SQL_ASCII, which promises nothing about its texts.
            Err(_) => Value::Bytes(bytes),
        },
        Code::Bytea => Value::Bytes(bytes),
        _ => match decode_fixed(code, bytes) {
            Some(value) => value,
            None => return false,
        },
    };
    values.push(value);
    true
}

#[inline]
fn decode_fixed(code: Code, bytes: &[u8]) -> Option<Value<'static>> {
    Some(match code {
        Code::Bool => Value::Bool(u8::from_be_bytes(bytes.try_into().ok()?) != 0),
        Code::Int2 => Value::Int(i64::from(i16::from_be_bytes(bytes.try_into().ok()?))),
        Code::Int4 => Value::Int(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
        Code::Int8 => Value::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
        Code::Oid => Value::Int(i64::from(u32::from_be_bytes(bytes.try_into().ok()?))),
        Code::Float4 => Value::Float(f64::from(f32::from_be_bytes(bytes.try_into().ok()?))),
        Code::Float8 => Value::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
        Code::Timestamp => Value::Timestamp(i64::from_be_bytes(bytes.try_into().ok()?).saturating_add(EPOCH_OFFSET_US)),
        Code::Text | Code::Bytea | Code::Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(value: Value<'_>) -> String {
        let mut out = Vec::new();
        assert!(!encode(Code::Other, value, &mut out));
        assert_eq!(u32::from_be_bytes(out[..4].try_into().unwrap()) as usize, out.len() - 4);
        String::from_utf8(out[4..].to_vec()).unwrap()
    }

    #[test]
    fn every_type_comes_back_as_it_was_sent() {
        for (code, value) in [
            (Code::Bool, Value::Bool(true)),
            (Code::Int2, Value::Int(-3)),
            (Code::Int4, Value::Int(i64::from(i32::MIN))),
            (Code::Int8, Value::Int(i64::MIN)),
            (Code::Float4, Value::Float(0.5)),
            (Code::Float8, Value::Float(-0.1)),
            (Code::Text, Value::Text("käse")),
            (Code::Bytea, Value::Bytes(b"\0\xff")),
            (Code::Timestamp, Value::Timestamp(-1)),
            (Code::Timestamp, Value::Timestamp(1_700_000_000_123_456)),
        ] {
            let mut out = Vec::new();
            assert!(encode(code, value, &mut out), "{value:?} goes in binary");
            let mut values = ValueBuf::new();
            assert!(decode(code, &out[4..], &mut values));
            assert_eq!(values.values().get(0), value);
        }
    }

    #[test]
    fn what_does_not_fit_its_type_goes_as_text() {
        let mut out = Vec::new();
        assert!(!encode(Code::Int2, Value::Int(40_000), &mut out));
        assert_eq!(&out[4..], b"40000");
        assert_eq!(text_of(Value::Bool(false)), "false");
        assert_eq!(text_of(Value::Float(0.1)), "0.1");
        assert_eq!(text_of(Value::Timestamp(0)), "1970-01-01 00:00:00.000000+00");
        assert_eq!(text_of(Value::Timestamp(951_782_400_000_001)), "2000-02-29 00:00:00.000001+00");
        assert_eq!(text_of(Value::Timestamp(-62_135_596_800_000_001)), "0001-12-31 23:59:59.999999+00 BC");
    }

    #[test]
    fn a_value_of_the_wrong_length_is_refused() {
        let mut values = ValueBuf::new();
        for code in [Code::Bool, Code::Int2, Code::Int4, Code::Int8, Code::Oid, Code::Float8, Code::Timestamp] {
            assert!(!decode(code, b"123", &mut values), "{code:?}");
        }
        assert!(values.is_empty());
    }
}
