//! Values in the protocol's binary format ("Binary Protocol Value"), and in its text format.
//!
//! A parameter has the type that its kind declares, or, where the value is of another, that one; the server converts.
//! A column comes back by the type that the server says.

use plimsoll_core::{Utc, Value, ValueBuf, ValueType};

use super::packet::{Reader, length_encoded_bytes, read_bytes};

/// Column types (`enum_field_types`).
const TINY: u8 = 1;
const DOUBLE: u8 = 5;
const LONGLONG: u8 = 8;
const DATETIME: u8 = 12;
const BLOB: u8 = 252;
const VAR_STRING: u8 = 253;

/// The collation that means "bytes, not characters".
const BINARY: u16 = 63;
/// Column flag.
const UNSIGNED: u16 = 0x20;

/// The type of a parameter, as the server calls it.
pub(crate) fn parameter_type(value_type: ValueType) -> u8 {
    match value_type {
        ValueType::Bool => TINY,
        ValueType::Int => LONGLONG,
        ValueType::Float => DOUBLE,
        ValueType::Text => VAR_STRING,
        // As a blob its bytes are not taken for characters of the connection's.
        ValueType::Bytes => BLOB,
        ValueType::Timestamp => DATETIME,
    }
}

/// Appends a parameter; returns its type, `None` for null, of which nothing is appended.
#[inline]
pub(crate) fn encode(value: Value<'_>, out: &mut Vec<u8>) -> Option<u8> {
    Some(match value {
        Value::Null => return None,
        Value::Int(v) => {
            out.extend_from_slice(&v.to_le_bytes());
            LONGLONG
        }
        Value::Text(v) => {
            length_encoded_bytes(out, v.as_bytes());
            VAR_STRING
        }
        Value::Bytes(v) => {
            length_encoded_bytes(out, v);
            BLOB
        }
        Value::Float(v) => {
            out.extend_from_slice(&v.to_le_bytes());
            DOUBLE
        }
        Value::Bool(v) => {
            out.push(u8::from(v));
            TINY
        }
        Value::Timestamp(us) => encode_timestamp(us, out),
    })
}

fn encode_timestamp(us: i64, out: &mut Vec<u8>) -> u8 {
    let Utc { year, month, day, hour, minute, second, us } = Utc::of_us(us);
    if !(1..=9_999).contains(&year) {
        // No such date in this format: the server is to refuse it in its own words.
        length_encoded_bytes(out, format!("year {year}").as_bytes());
        return VAR_STRING;
    }
    out.push(11);
    out.extend_from_slice(&(year as u16).to_le_bytes());
    out.extend([month, day, hour, minute, second].map(|part| part as u8));
    out.extend_from_slice(&(us as u32).to_le_bytes());
    DATETIME
}

/// Encoding of a column's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// `TINYINT(1)`, which is what BOOLEAN stands for: a bool if it is 0 or 1.
    Bool,
    Int1,
    UInt1,
    Int2,
    UInt2,
    Int4,
    UInt4,
    Int8,
    UInt8,
    Float4,
    Float8,
    Text,
    Bytes,
    Bit,
    Date,
    DateTime,
    Time,
    Null,
}

impl Code {
    /// Parses a column definition ("Column Definition Packet"), whose fields after the names have fixed positions from
    /// its end on. Returns `None` if it is not one.
    #[inline]
    pub(crate) fn of_definition(payload: &[u8]) -> Option<Code> {
        let fixed: &[u8; 13] = payload.last_chunk()?;
        let [0x0c, charset @ .., _, _, _, _, _, _, _, _, _, _] = fixed else { return None };
        let [_, _, _, length0, length1, length2, length3, column_type, flags0, flags1, ..] = fixed;
        let charset = u16::from_le_bytes(*charset);
        let length = u32::from_le_bytes([*length0, *length1, *length2, *length3]);
        let unsigned = u16::from_le_bytes([*flags0, *flags1]) & UNSIGNED != 0;
        let signed = |signed, otherwise| if unsigned { otherwise } else { signed };
        Some(match *column_type {
            TINY if length == 1 && !unsigned => Code::Bool,
            TINY => signed(Code::Int1, Code::UInt1),
            2 => signed(Code::Int2, Code::UInt2),
            13 => Code::UInt2,
            3 | 9 => signed(Code::Int4, Code::UInt4),
            LONGLONG => signed(Code::Int8, Code::UInt8),
            4 => Code::Float4,
            DOUBLE => Code::Float8,
            6 => Code::Null,
            7 | DATETIME => Code::DateTime,
            10 => Code::Date,
            11 => Code::Time,
            16 => Code::Bit,
            // Decimals and JSON are texts, whatever their collation.
            0 | 245 | 246 => Code::Text,
            15 | 247..=254 if charset != BINARY => Code::Text,
            15 | 247..=255 => Code::Bytes,
            _ => return None,
        })
    }
}

/// Appends the columns of a binary row to `values`; false when it is not a row of these columns.
#[inline]
pub(crate) fn decode_row(payload: &[u8], columns: &[Code], values: &mut ValueBuf) -> bool {
    // A zero, and a bit for every column that is null, the first two of which mean nothing.
    let mut reader = Reader(payload);
    let Some(head) = reader.take(1 + (columns.len() + 9) / 8) else { return false };
    let nulls = &head[1..];
    for (position, code) in (2..).zip(columns) {
        if nulls[position / 8] & (1 << (position % 8)) != 0 {
            values.push(Value::Null);
        } else if !decode(*code, &mut reader, values) {
            return false;
        }
    }
    reader.0.is_empty()
}

#[inline]
fn decode(code: Code, reader: &mut Reader<'_>, values: &mut ValueBuf) -> bool {
    let value = match code {
        Code::Int8 => reader.array().map(|bytes| Value::Int(i64::from_le_bytes(bytes))),
        Code::Int4 => reader.array().map(|bytes| Value::Int(i64::from(i32::from_le_bytes(bytes)))),
        Code::UInt4 => reader.array().map(|bytes| Value::Int(i64::from(u32::from_le_bytes(bytes)))),
        Code::Int2 => reader.array().map(|bytes| Value::Int(i64::from(i16::from_le_bytes(bytes)))),
        Code::UInt2 => reader.array().map(|bytes| Value::Int(i64::from(u16::from_le_bytes(bytes)))),
        Code::Int1 => reader.u8().map(|v| Value::Int(i64::from(v.cast_signed()))),
        Code::UInt1 => reader.u8().map(|v| Value::Int(i64::from(v))),
        Code::Bool => reader.u8().map(|v| match v {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            other => Value::Int(i64::from(other.cast_signed())),
        }),
        Code::Float4 => reader.array().map(|bytes| Value::Float(f64::from(f32::from_le_bytes(bytes)))),
        Code::Float8 => reader.array().map(|bytes| Value::Float(f64::from_le_bytes(bytes))),
        Code::Text => read_bytes(reader).map(text),
        Code::Bytes => read_bytes(reader).map(Value::Bytes),
        Code::Bit => read_bytes(reader).map(bits),
        Code::UInt8 => return reader.array().is_some_and(|bytes| push_unsigned(u64::from_le_bytes(bytes), values)),
        Code::Date | Code::DateTime => return decode_date(code, reader, values).is_some(),
        Code::Time => return decode_time(reader, values).is_some(),
        // A column of type NULL is null in every row.
        Code::Null => None,
    };
    let Some(value) = value else { return false };
    values.push(value);
    true
}

/// Texts arrive in UTF-8, since that was asked for; what is none stays as it is.
#[inline]
fn text(bytes: &[u8]) -> Value<'_> {
    std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Text)
}

/// A `BIT(n)` of up to 63 bits is a number, the highest byte first.
fn bits(bytes: &[u8]) -> Value<'_> {
    let number = bytes.iter().try_fold(0_i64, |number, byte| Some(number.checked_mul(256)? | i64::from(*byte)));
    number.map_or(Value::Bytes(bytes), Value::Int)
}

/// Numbers that no signed one is equal to come as text.
fn push_unsigned(value: u64, values: &mut ValueBuf) -> bool {
    match i64::try_from(value) {
        Ok(value) => values.push(Value::Int(value)),
        Err(_) => push_text(values, format_args!("{value}")),
    }
    true
}

fn push_text(values: &mut ValueBuf, text: std::fmt::Arguments<'_>) {
    values.push_text_with(|out| {
        // Writing to a string cannot fail.
        let _ = std::fmt::Write::write_fmt(out, text);
    });
}

/// A date with a time is a timestamp, taken as UTC; one without, or with a part that is zero, its text.
fn decode_date(code: Code, reader: &mut Reader<'_>, values: &mut ValueBuf) -> Option<()> {
    let length = reader.u8()?;
    let (mut year, mut month, mut day) = (0, 0, 0);
    let (mut hour, mut minute, mut second, mut us) = (0, 0, 0, 0);
    if !matches!(length, 0 | 4 | 7 | 11) {
        return None;
    }
    if length >= 4 {
        (year, month, day) = (u16::from_le_bytes(reader.array()?), reader.u8()?, reader.u8()?);
    }
    if length >= 7 {
        (hour, minute, second) = (reader.u8()?, reader.u8()?, reader.u8()?);
    }
    if length == 11 {
        us = u32::from_le_bytes(reader.array()?);
    }
    if code == Code::Date {
        push_text(values, format_args!("{year:04}-{month:02}-{day:02}"));
    } else if month == 0 || day == 0 {
        push_text(values, format_args!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}"));
    } else {
        let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(i64::from);
        let utc = Utc { year: year.into(), month, day, hour, minute, second, us: us.into() };
        values.push(Value::Timestamp(utc.since_1970_us()?));
    }
    Some(())
}

fn decode_time(reader: &mut Reader<'_>, values: &mut ValueBuf) -> Option<()> {
    let length = reader.u8()?;
    let (mut negative, mut days, mut hour, mut minute, mut second, mut us) = (0, 0, 0, 0, 0, 0);
    if !matches!(length, 0 | 8 | 12) {
        return None;
    }
    if length >= 8 {
        (negative, days) = (reader.u8()?, u32::from_le_bytes(reader.array()?));
        (hour, minute, second) = (reader.u8()?, reader.u8()?, reader.u8()?);
    }
    if length == 12 {
        us = u32::from_le_bytes(reader.array()?);
    }
    let sign = if negative == 0 { "" } else { "-" };
    let hours = u64::from(days) * 24 + u64::from(hour);
    push_text(values, format_args!("{sign}{hours:02}:{minute:02}:{second:02}.{us:06}"));
    Some(())
}

/// Appends the columns of a text row to `values`; false when it is not a row of these columns. Numbers and bools are
/// read by their type, dates and times stay texts.
pub(crate) fn decode_text_row(payload: &[u8], columns: &[Code], values: &mut ValueBuf) -> bool {
    let mut reader = Reader(payload);
    for code in columns {
        if reader.0.first() == Some(&0xfb) {
            reader.take(1);
            values.push(Value::Null);
            continue;
        }
        match read_bytes(&mut reader) {
            Some(bytes) => values.push(of_text(*code, bytes)),
            None => return false,
        }
    }
    reader.0.is_empty()
}

fn of_text(code: Code, bytes: &[u8]) -> Value<'_> {
    use Code as C;
    if code == C::Bit {
        return bits(bytes);
    }
    let value = text(bytes);
    let Value::Text(digits) = value else { return value };
    let number = match code {
        C::Bool if matches!(digits, "0" | "1") => Some(Value::Bool(digits == "1")),
        C::Bool | C::Int1 | C::UInt1 | C::Int2 | C::UInt2 | C::Int4 | C::UInt4 | C::Int8 | C::UInt8 => {
            digits.parse().ok().map(Value::Int)
        }
        C::Float4 | C::Float8 => digits.parse().ok().map(Value::Float),
        C::Bytes => Some(Value::Bytes(bytes)),
        C::Bit | C::Text | C::Date | C::DateTime | C::Time | C::Null => None,
    };
    number.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(column_type: u8, charset: u16, length: u32, flags: u16) -> Vec<u8> {
        let mut out = b"\x03def\0\0\0\x01a\0".to_vec();
        out.push(0x0c);
        out.extend_from_slice(&charset.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.push(column_type);
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[0, 0, 0]);
        out
    }

    #[test]
    fn a_column_is_read_by_its_type() {
        for (column_type, charset, length, flags, code) in [
            (1, 63, 1, 0, Code::Bool),
            (1, 63, 4, 0, Code::Int1),
            (1, 63, 1, 0x20, Code::UInt1),
            (8, 63, 20, 0, Code::Int8),
            (8, 63, 20, 0x20, Code::UInt8),
            (246, 63, 10, 0, Code::Text),
            (253, 45, 10, 0, Code::Text),
            (253, 63, 10, 0, Code::Bytes),
            (252, 63, 10, 0, Code::Bytes),
            (245, 63, 10, 0, Code::Text),
            (16, 63, 10, 0, Code::Bit),
        ] {
            assert_eq!(Code::of_definition(&definition(column_type, charset, length, flags)), Some(code));
        }
        assert_eq!(Code::of_definition(&definition(200, 63, 1, 0)), None);
        assert_eq!(Code::of_definition(&definition(1, 63, 1, 0)[5..20]), None);
        assert_eq!(Code::of_definition(b"short"), None);
    }

    #[test]
    fn timestamps_come_back_as_they_were_sent() {
        for us in
            [0, -1, 1, -62_135_596_800_000_000, 253_402_300_799_999_999, 951_782_400_000_001, 1_300_000_000_123_456]
        {
            let mut out = Vec::new();
            assert_eq!(encode(Value::Timestamp(us), &mut out), Some(DATETIME));
            let mut values = ValueBuf::new();
            assert!(decode(Code::DateTime, &mut Reader(&out), &mut values));
            assert_eq!(values.values().get(0), Value::Timestamp(us));
        }
        let mut out = Vec::new();
        assert_eq!(encode(Value::Timestamp(i64::MAX), &mut out), Some(VAR_STRING), "left to the server to refuse");
    }

    #[test]
    fn a_row_of_other_columns_is_refused() {
        let columns = [Code::Int4, Code::Text, Code::Int8];
        let row = [&[0, 0b1_0000][..], &7_i32.to_le_bytes(), b"\x02ab"].concat();
        let mut values = ValueBuf::new();
        assert!(decode_row(&row, &columns, &mut values));
        assert_eq!(values.values().iter().collect::<Vec<_>>(), [Value::Int(7), Value::Text("ab"), Value::Null]);
        for end in 0..row.len() {
            assert!(!decode_row(&row[..end], &columns, &mut ValueBuf::new()), "cut to {end}");
        }
        assert!(!decode_row(&[&row[..], b"x"].concat(), &columns, &mut values), "more than a row");
    }

    #[test]
    fn what_is_no_number_of_ours_comes_as_text() {
        let mut values = ValueBuf::new();
        assert!(decode(Code::UInt8, &mut Reader(&u64::MAX.to_le_bytes()), &mut values));
        assert!(decode(Code::Date, &mut Reader(&[4, 0xd0, 7, 2, 29]), &mut values));
        assert!(decode(Code::DateTime, &mut Reader(&[0]), &mut values));
        assert!(decode(Code::Time, &mut Reader(&[8, 1, 1, 0, 0, 0, 2, 3, 4]), &mut values));
        assert!(decode(Code::Bit, &mut Reader(&[2, 1, 2]), &mut values));
        assert!(!decode(Code::DateTime, &mut Reader(&[5, 0, 0, 0, 0, 0]), &mut values));
        let texts = ["18446744073709551615", "2000-02-29", "0000-00-00 00:00:00.000000", "-26:03:04.000000"];
        let expected: Vec<Value<'_>> = texts.into_iter().map(Value::Text).chain([Value::Int(258)]).collect();
        assert_eq!(values.values().iter().collect::<Vec<_>>(), expected);
    }
}
