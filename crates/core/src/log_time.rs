//! Times in logs, in microseconds since 1970.
//!
//! Each function parses the beginning of a text and returns the time and the rest of the text. A time without a zone is
//! one of `zone_s`, in seconds east of UTC.

use crate::calendar::Utc;

const DAY_US: i64 = 86_400_000_000;
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
/// Abbreviations of zones that have one meaning in logs, in hours east of UTC.
const ZONES: [(&[u8], i64); 17] = [
    (b"UTC", 0),
    (b"GMT", 0),
    (b"WET", 0),
    (b"WEST", 1),
    (b"CET", 1),
    (b"CEST", 2),
    (b"EET", 2),
    (b"EEST", 3),
    (b"MSK", 3),
    (b"JST", 9),
    (b"EST", -5),
    (b"EDT", -4),
    (b"CDT", -5),
    (b"MST", -7),
    (b"MDT", -6),
    (b"PST", -8),
    (b"PDT", -7),
];

/// Parses a time of ISO 8601 or SQL: `2026-11-29T16:15:29.5+01:00`, `2026-11-29 16:15:29.5 CET`.
pub fn iso(text: &[u8], zone_s: i64) -> Option<(i64, &[u8])> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?, 2)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?, 2)?;
    let rest = rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b" "))?;
    let (of_day_us, rest) = of_day_us(rest)?;
    let (zone_s, rest) = zone(rest, zone_s);
    Some((since_1970_us(year, month, day)? + of_day_us - zone_s * 1_000_000, rest))
}

/// Parses a time of the common log format: `29/Nov/2026:16:15:29 +0100`; also with a fraction, or without the zone.
pub fn common(text: &[u8], zone_s: i64) -> Option<(i64, &[u8])> {
    let (day, rest) = number(text, 2)?;
    let (month, rest) = month(rest.strip_prefix(b"/")?)?;
    let (year, rest) = number(rest.strip_prefix(b"/")?, 4)?;
    let (of_day_us, rest) = of_day_us(rest.strip_prefix(b":")?)?;
    let (zone_s, rest) = zone(rest, zone_s);
    Some((since_1970_us(year, month, day)? + of_day_us - zone_s * 1_000_000, rest))
}

/// Parses a time of syslog, which has no year: `Nov 29 16:15:29`. Takes the last year in which the time is at most a
/// day after `newest_us`.
pub fn syslog(text: &[u8], zone_s: i64, newest_us: i64) -> Option<(i64, &[u8])> {
    let (month, rest) = month(text)?;
    let rest = rest.strip_prefix(b" ")?;
    let (day, rest) = match rest.strip_prefix(b" ") {
        Some(rest) => number(rest, 1)?,
        None => number(rest, 2)?,
    };
    let (of_day_us, rest) = of_day_us(rest.strip_prefix(b" ")?)?;
    let last_us = newest_us.saturating_add(DAY_US);
    let year = Utc::of_us(last_us).year;
    let of = |year| Some(since_1970_us(year, month, day)? + of_day_us - zone_s * 1_000_000);
    // Two years with a 29 February are at most 8 apart.
    let at_us = (0..=8).filter_map(|back| of(year - back)).find(|at_us| *at_us <= last_us)?;
    Some((at_us, rest))
}

/// Parses a distance from UTC: `+01:00`, `-0530`, `Z`. Returns seconds east of UTC; `None` for any other text.
pub fn offset_s(text: &[u8]) -> Option<i64> {
    distance(text).filter(|(_, rest)| rest.is_empty()).map(|(zone_s, _)| zone_s)
}

fn since_1970_us(year: i64, month: i64, day: i64) -> Option<i64> {
    // Nanoseconds between any two of these years have 63 bits.
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let midnight_us = Utc { year, month, day, hour: 0, minute: 0, second: 0, us: 0 }.since_1970_us()?;
    // The 31 February is the 3 March.
    (Utc::of_us(midnight_us).day == day).then_some(midnight_us)
}

/// Splits a number of so many digits off.
fn number(text: &[u8], digits: usize) -> Option<(i64, &[u8])> {
    let (head, rest) = text.split_at_checked(digits)?;
    let value =
        head.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))?;
    Some((value, rest))
}

fn month(text: &[u8]) -> Option<(i64, &[u8])> {
    let (head, rest) = text.split_at_checked(3)?;
    let at = MONTHS.iter().position(|month| *month == head)?;
    Some((at as i64 + 1, rest))
}

/// Parses a time of day with an optional fraction of the second, in microseconds.
fn of_day_us(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hour, rest) = number(text, 2)?;
    let (minute, rest) = number(rest.strip_prefix(b":")?, 2)?;
    let (second, rest) = number(rest.strip_prefix(b":")?, 2)?;
    // A leap second has the number 60.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (us, rest) = fraction_us(rest);
    Some(((hour * 3_600 + minute * 60 + second) * 1_000_000 + us, rest))
}

fn fraction_us(text: &[u8]) -> (i64, &[u8]) {
    let Some(digits) = text.strip_prefix(b".").or_else(|| text.strip_prefix(b",")) else { return (0, text) };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return (0, text);
    }
    let (head, rest) = digits.split_at(length);
    let six = head.iter().map(|byte| i64::from(byte - b'0')).chain(std::iter::repeat(0)).take(6);
    (six.fold(0, |us, digit| us * 10 + digit), rest)
}

/// Splits a zone off, behind a blank or none. Returns `zone_s` if the text begins with something else.
fn zone(text: &[u8], zone_s: i64) -> (i64, &[u8]) {
    let behind = text.strip_prefix(b" ").unwrap_or(text);
    if let Some(found) = distance(behind) {
        return found;
    }
    let letters = behind.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let (word, rest) = behind.split_at(letters);
    // The sign of `GMT+3` has two meanings.
    let has_sign = rest.first().is_some_and(|byte| matches!(byte, b'+' | b'-'));
    match ZONES.iter().find(|(name, _)| *name == word && !has_sign) {
        Some((_, hours)) => (hours * 3_600, rest),
        None => (zone_s, text),
    }
}

fn distance(text: &[u8]) -> Option<(i64, &[u8])> {
    let (sign, rest) = match text.split_first()? {
        (b'Z', rest) if !rest.first().is_some_and(u8::is_ascii_alphanumeric) => return Some((0, rest)),
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = number(rest, 2)?;
    let minutes = number(rest.strip_prefix(b":").unwrap_or(rest), 2);
    let (minutes, rest) = minutes.unwrap_or((0, rest));
    (hours <= 15 && minutes <= 59).then_some((sign * (hours * 3_600 + minutes * 60), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-29 16:15:29 UTC.
    const AT_US: i64 = 1_795_968_929_000_000;

    fn utc(us: i64) -> String {
        let Utc { year, month, day, hour, minute, second, us } = Utc::of_us(us);
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}")
    }

    #[test]
    fn each_way_to_write_a_time_means_the_same() {
        assert_eq!(utc(AT_US), "2026-11-29 16:15:29.000000");
        for text in [
            "2026-11-29T16:15:29Z",
            "2026-11-29 16:15:29 UTC",
            "2026-11-29 16:15:29",
            "2026-11-29 17:15:29 CET",
            "2026-11-29T17:15:29+01:00",
            "2026-11-29 11:15:29-05",
            "2026-11-29T21:45:29+0530",
        ] {
            assert_eq!(iso(text.as_bytes(), 0), Some((AT_US, &b""[..])), "{text}");
        }
        for text in ["29/Nov/2026:16:15:29 +0000", "29/Nov/2026:17:15:29 +0100", "29/Nov/2026:16:15:29"] {
            assert_eq!(common(text.as_bytes(), 0), Some((AT_US, &b""[..])), "{text}");
        }
        assert_eq!(syslog(b"Nov 29 16:15:29 db1", 0, AT_US), Some((AT_US, &b" db1"[..])));
    }

    #[test]
    fn fractions_zones_and_what_follows_are_kept_apart() {
        assert_eq!(iso(b"2026-11-29T16:15:29.1234567Z]", 0), Some((AT_US + 123_456, &b"]"[..])));
        assert_eq!(iso(b"2026-11-29 16:15:29,5 [7]", 0), Some((AT_US + 500_000, &b" [7]"[..])));
        assert_eq!(iso(b"2026-11-29 18:15:29 LOG:", 7_200), Some((AT_US, &b" LOG:"[..])));
        assert_eq!(common(b"29/Nov/2026:16:15:29.655] http-in", 0), Some((AT_US + 655_000, &b"] http-in"[..])));
    }

    #[test]
    fn a_time_of_syslog_is_of_the_year_before_if_it_would_lie_ahead() {
        let new_year = AT_US + 40 * DAY_US;
        assert_eq!(syslog(b"Nov 29 16:15:29", 0, new_year).map(|(at_us, _)| at_us), Some(AT_US));
        assert_eq!(syslog(b"Feb 29 16:15:29", 0, AT_US).map(|(at_us, _)| utc(at_us)).unwrap()[..10], *"2024-02-29");
        assert_eq!(syslog(b"Dec  1 16:15:29", 0, AT_US).map(|(at_us, _)| utc(at_us)).unwrap()[..10], *"2025-12-01");
    }

    #[test]
    fn other_texts_are_no_times() {
        let others = [
            "",
            "0026-11-29T16:15:29Z",
            "29/Nov/9999:16:15:29",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "31/Feb/2026:16:15:29",
            "Feb 30 16:15:29",
            "2026-11-29",
            "2026-11-29T24:00:00Z",
            "29/Nov/2026:16:15",
            "é",
        ];
        for text in others {
            assert_eq!(iso(text.as_bytes(), 0), None, "{text}");
            assert_eq!(common(text.as_bytes(), 0), None, "{text}");
            assert_eq!(syslog(text.as_bytes(), 0, 0), None, "{text}");
        }
        assert_eq!(offset_s(b"+01:00"), Some(3_600));
        assert_eq!(offset_s(b"-0330"), Some(-12_600));
        assert_eq!(offset_s(b"CET"), None);
    }
}
