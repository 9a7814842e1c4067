//! Pieces of lines.

use memchr::{memchr, memchr2};

/// Splits the first word off, which ends before a blank.
pub(crate) fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    text.split_at(memchr(b' ', text).unwrap_or(text.len()))
}

/// Splits a text in double quotes off, in which a backslash precedes quotes. Returns it without the outer quotes.
pub(crate) fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 2;
    }
}

/// Parses a whole number.
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

/// Parses a number, which may be below 0.
pub(crate) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => whole(digits).map(|number| -(number as i64)),
        None => whole(text).map(|number| number as i64),
    }
}

/// Parses a decimal number. Returns it in billionths, and true if it has a decimal point.
pub(crate) fn billionths(text: &[u8]) -> Option<(u64, bool)> {
    let Some(point) = memchr(b'.', text) else {
        return Some((whole(text)?.checked_mul(1_000_000_000)?, false));
    };
    let (head, part) = (&text[..point], &text[point + 1..]);
    let head = if head.is_empty() && !part.is_empty() { 0 } else { whole(head)? };
    if !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = part.iter().map(|byte| u64::from(byte - b'0')).chain(std::iter::repeat(0)).take(9);
    let part = digits.fold(0, |sum, digit| sum * 10 + digit);
    Some((head.checked_mul(1_000_000_000)?.checked_add(part)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_have_a_point() {
        assert_eq!(billionths(b"12"), Some((12_000_000_000, false)));
        assert_eq!(billionths(b"0.0051234567891"), Some((5_123_456, true)));
        assert_eq!(billionths(b".5"), Some((500_000_000, true)));
        for text in ["", ".", "-", "1.2.3", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(billionths(text.as_bytes()), None, "{text}");
        }
        assert_eq!((signed(b"-1"), signed(b"7"), signed(b"--1")), (Some(-1), Some(7), None));
    }

    #[test]
    fn a_quoted_text_ends_at_a_quote_without_a_backslash() {
        assert_eq!(quoted(br#" "a \" b\\" c"#), Some((&br#"a \" b\\"#[..], &b" c"[..])));
        for text in ["", "a", "\"a", "\"a\\\"", "\"a\\"] {
            assert_eq!(quoted(text.as_bytes()), None, "{text}");
        }
    }
}
