//! Values as the server writes them in text, by the type of their column. The session has set how
//! (`DateStyle = ISO`, `bytea_output = hex`).

use plimsoll_core::{Utc, Value, ValueBuf};

use super::value::{self, Code};

/// Appends a column's value; false when its text is not of its type.
#[inline]
pub(crate) fn decode(code: Code, bytes: &[u8], values: &mut ValueBuf) -> bool {
    let value = match code {
        // As in the other format.
        Code::Text | Code::Other => return value::decode(code, bytes, values),
        Code::Bytea => {
            let Some(digits) = bytes.strip_prefix(b"\\x").filter(|digits| digits.len() % 2 == 0) else { return false };
            let mut good = true;
            values.push_bytes_with(|out| {
                out.extend(digits.chunks_exact(2).map(|pair| {
                    let value = hex(pair[0]).zip(hex(pair[1]));
                    good &= value.is_some();
                    value.map_or(0, |(high, low)| high << 4 | low)
                }));
            });
            return good;
        }
        Code::Bool => match bytes {
            b"t" => Some(Value::Bool(true)),
            b"f" => Some(Value::Bool(false)),
            _ => None,
        },
        Code::Int2 | Code::Int4 | Code::Int8 | Code::Oid => parsed(bytes).map(Value::Int),
        Code::Float4 => parsed::<f32>(bytes).map(|value| Value::Float(value.into())),
        Code::Float8 => parsed(bytes).map(Value::Float),
        Code::Timestamp => timestamp_us(bytes).map(Value::Timestamp),
    };
    let Some(value) = value else { return false };
    values.push(value);
    true
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn parsed<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Microseconds since 1970 of `2000-02-29 01:02:03.000004+00`, also without a zone (UTC), with another one, or before
/// Christ.
fn timestamp_us(bytes: &[u8]) -> Option<i64> {
    match bytes {
        b"infinity" => return Some(i64::MAX),
        b"-infinity" => return Some(i64::MIN),
        _ => {}
    }
    let (bytes, before_christ) = bytes.strip_suffix(b" BC").map_or((bytes, false), |rest| (rest, true));
    let text = std::str::from_utf8(bytes).ok()?;
    let (date, time) = text.split_once(' ')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let year = if before_christ { 1 - year } else { year };
    let zone_at = time.find(['+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone_at);
    let of_day_us = clock_us(time)?;
    let zone_us = match zone.split_at_checked(1) {
        Some(("-", offset)) => -clock_us(offset)?,
        Some((_, offset)) => clock_us(offset)?,
        None => 0,
    };
    let midnight = Utc { year, month, day, hour: 0, minute: 0, second: 0, us: 0 };
    midnight.since_1970_us()?.checked_add(of_day_us - zone_us)
}

/// Microseconds of `HH:MM:SS.ffffff`, of which only the hours must be there.
fn clock_us(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut seconds = 0;
    let mut unit = 3_600;
    for part in whole.split(':') {
        seconds += part.parse::<i64>().ok()? * unit;
        unit /= 60;
    }
    let digits = fraction.len().min(6) as u32;
    let fraction = if digits == 0 { 0 } else { fraction.get(..6.min(fraction.len()))?.parse::<i64>().ok()? };
    Some(seconds * 1_000_000 + fraction * 10_i64.pow(6 - digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::value::write_timestamp;

    #[test]
    fn a_timestamp_comes_back_as_it_was_written() {
        for us in [0, -1, 1, 951_782_400_000_001, -62_135_596_800_000_001, 1_700_000_000_123_456, 4_102_444_800_000_000]
        {
            let mut text = Vec::new();
            write_timestamp(us, &mut text).unwrap();
            assert_eq!(timestamp_us(&text), Some(us), "{}", String::from_utf8_lossy(&text));
        }
        assert_eq!(timestamp_us(b"1970-01-01 02:30:00.5+02:30"), Some(500_000));
        assert_eq!(timestamp_us(b"1969-12-31 19:00:00-05"), Some(0));
        assert_eq!(timestamp_us(b"1970-01-01 00:00:01"), Some(1_000_000));
        assert_eq!(timestamp_us(b"infinity"), Some(i64::MAX));
        for wrong in [&b"1970-01-01"[..], b"1970-01 00:00:00", b"", b"x-y-z 0", b"1970-01-01 00:00:00.x"] {
            assert_eq!(timestamp_us(wrong), None);
        }
    }

    #[test]
    fn text_of_another_type_is_refused() {
        let mut values = ValueBuf::new();
        for (code, text) in [
            (Code::Int8, &b"7x"[..]),
            (Code::Bool, b"true"),
            (Code::Float8, b""),
            (Code::Bytea, b"abc"),
            (Code::Bytea, b"\\xabc"),
            (Code::Bytea, b"\\xzz"),
            (Code::Timestamp, b"today"),
        ] {
            assert!(!decode(code, text, &mut values), "{code:?}");
        }
    }
}
