//! Frames of RESP2 and RESP3 (Redis documentation, "Redis serialization protocol specification"), read in place.
//!
//! Nothing is copied and nothing recurses: a server cannot make this use more memory or stack than the bytes that
//! it sent. Streamed strings and aggregates (`$?`, `*?`), which no server sends unasked, are not understood.

/// Longest line: a length, a number, a status or an error.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Longest string, four times what servers allow unless told otherwise (`proto-max-bulk-len`).
const BULK_BYTES_MAX: usize = 2 << 30;
/// Most elements of one aggregate.
const ELEMENTS_MAX: i64 = 1 << 30;

/// A reply that is not made of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A string of any bytes, also a verbatim one with its format.
    Bulk(&'a [u8]),
    /// Null value: RESP2's null string and null array, RESP3's null.
    Null,
    /// A status; RESP3's doubles, booleans and big numbers as they are written.
    Simple(&'a [u8]),
    /// An integer.
    Int(i64),
    /// An error, its code being the first word.
    Error(&'a [u8]),
}

/// Type of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// An array or a set.
    List,
    /// A map: its elements are keys and values in turn.
    Map,
    /// Message without a request.
    Push,
    /// Attributes of the reply that follows; they count as no element.
    Attributes,
}

/// Beginning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A reply and its bytes.
    Reply(Reply<'a>, usize),
    /// The head of an aggregate: how many elements follow, and the head's own bytes.
    Aggregate(Aggregate, usize, usize),
    /// The head of a string whose bytes are not all there: how many it takes in all, its head and end included.
    PartialBulk(usize),
    /// Too little to say.
    Partial,
    /// No RESP.
    Malformed,
}

/// Parses the beginning of `bytes`.
#[inline]
pub fn token(bytes: &[u8]) -> Token<'_> {
    let Some((tag, rest)) = bytes.split_first() else { return Token::Partial };
    if let b'$' | b'=' | b'!' = tag {
        return bulk(*tag, rest);
    }
    let Some((line, used)) = line(rest) else {
        let plausible = rest.len() < LINE_BYTES_MAX && b"+-:_#,(*%~>|".contains(tag);
        return if plausible { Token::Partial } else { Token::Malformed };
    };
    let used = used + 1;
    let aggregate = |aggregate, each: usize| match integer(line) {
        Some(count @ 0..=ELEMENTS_MAX) => Token::Aggregate(aggregate, count as usize * each, used),
        Some(-1) => Token::Reply(Reply::Null, used),
        _ => Token::Malformed,
    };
    match tag {
        b'+' | b'#' | b',' | b'(' => Token::Reply(Reply::Simple(line), used),
        b':' => integer(line).map_or(Token::Malformed, |number| Token::Reply(Reply::Int(number), used)),
        b'-' => Token::Reply(Reply::Error(line), used),
        b'_' if line.is_empty() => Token::Reply(Reply::Null, used),
        b'*' | b'~' => aggregate(Aggregate::List, 1),
        b'%' => aggregate(Aggregate::Map, 2),
        b'>' => aggregate(Aggregate::Push, 1),
        b'|' => aggregate(Aggregate::Attributes, 2),
        _ => Token::Malformed,
    }
}

/// The bytes of the whole reply that `bytes` begin with, elements and attributes included; `None` while it is not
/// all there, an error when it is no RESP.
///
/// # Errors
/// Nothing to say but that.
pub fn whole(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    let mut left = 1usize;
    while left > 0 {
        match token(bytes.get(at..).unwrap_or_default()) {
            Token::Reply(_, used) => {
                at += used;
                left -= 1;
            }
            Token::Aggregate(Aggregate::Attributes, elements, used) => {
                at += used;
                left = left.saturating_add(elements);
            }
            Token::Aggregate(_, elements, used) => {
                at += used;
                left = (left - 1).saturating_add(elements);
            }
            Token::Partial | Token::PartialBulk(_) => return Ok(None),
            Token::Malformed => return Err(Malformed),
        }
    }
    Ok(Some(at))
}

/// Error of bytes that are not RESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// A string behind its tag.
#[inline]
fn bulk(tag: u8, rest: &[u8]) -> Token<'_> {
    // Lengths are short: their digits are read one by one, without looking for the line's end first.
    let mut length = 0usize;
    let mut digits = 0;
    let head = loop {
        match rest.get(digits) {
            Some(digit @ b'0'..=b'9') if digits < 10 => {
                length = length * 10 + usize::from(digit - b'0');
                digits += 1;
            }
            Some(b'\r') if digits > 0 => match rest.get(digits + 1) {
                Some(b'\n') => break digits + 2,
                Some(_) => return Token::Malformed,
                None => return Token::Partial,
            },
            None => return Token::Partial,
            Some(b'-') if digits == 0 => {
                return match (rest.get(..4), b"-1\r\n".starts_with(rest)) {
                    (Some(b"-1\r\n"), _) => Token::Reply(Reply::Null, 5),
                    (None, true) => Token::Partial,
                    _ => Token::Malformed,
                };
            }
            Some(_) => return Token::Malformed,
        }
    };
    if length > BULK_BYTES_MAX {
        return Token::Malformed;
    }
    let all = 1 + head + length + 2;
    let Some(body) = rest.get(head..head + length + 2) else { return Token::PartialBulk(all) };
    let (body, end) = body.split_at(length);
    match (end, tag) {
        (b"\r\n", b'!') => Token::Reply(Reply::Error(body), all),
        (b"\r\n", _) => Token::Reply(Reply::Bulk(body), all),
        _ => Token::Malformed,
    }
}

/// The line that `rest` begins with, without its end, and its bytes with it.
#[inline]
fn line(rest: &[u8]) -> Option<(&[u8], usize)> {
    let end = rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n')?;
    let line = rest.get(..end)?;
    // A line that ends in a line feed alone is no server's; what it means is told from its content.
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

#[inline]
fn integer(line: &[u8]) -> Option<i64> {
    if let [digit @ b'0'..=b'9'] = line {
        return Some(i64::from(digit - b'0'));
    }
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Appends a decimal number.
#[inline]
pub(crate) fn decimal(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        return out.push(b'0' + number as u8);
    }
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a command and its arguments.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.push(b'*');
    decimal(out, words.len() as u64);
    out.extend_from_slice(b"\r\n");
    words.iter().for_each(|word| string(out, word));
}

/// Appends a string with its length.
pub(crate) fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_type_of_both_versions_is_read() {
        let replies: [(&[u8], Reply<'_>); 14] = [
            (b"$5\r\na\r\nb\0\r\n", Reply::Bulk(b"a\r\nb\0")),
            (b"$0\r\n\r\n", Reply::Bulk(b"")),
            (b"$-1\r\n", Reply::Null),
            (b"*-1\r\n", Reply::Null),
            (b"_\r\n", Reply::Null),
            (b"+OK\r\n", Reply::Simple(b"OK")),
            (b":1\r\n", Reply::Int(1)),
            (b":-9223372036854775808\r\n", Reply::Int(i64::MIN)),
            (b"-ERR no\r\n", Reply::Error(b"ERR no")),
            (b"!6\r\nERR no\r\n", Reply::Error(b"ERR no")),
            (b"#t\r\n", Reply::Simple(b"t")),
            (b",1.5\r\n", Reply::Simple(b"1.5")),
            (b"(12345678901234567890\r\n", Reply::Simple(b"12345678901234567890")),
            (b"=7\r\ntxt:abc\r\n", Reply::Bulk(b"txt:abc")),
        ];
        for (bytes, reply) in replies {
            assert_eq!(token(bytes), Token::Reply(reply, bytes.len()), "{}", bytes.escape_ascii());
            assert_eq!(whole(bytes), Ok(Some(bytes.len())));
        }
        assert_eq!(token(b"*2\r\n:1\r\n:2\r\n"), Token::Aggregate(Aggregate::List, 2, 4));
        assert_eq!(token(b"%1\r\n"), Token::Aggregate(Aggregate::Map, 2, 4));
        assert_eq!(token(b">3\r\n"), Token::Aggregate(Aggregate::Push, 3, 4));
        assert_eq!(token(b"$100\r\nabc"), Token::PartialBulk(108));
    }

    #[test]
    fn a_reply_with_all_it_is_made_of_is_measured() {
        let nested = b"|1\r\n+ttl\r\n:3\r\n*3\r\n%1\r\n$1\r\na\r\n_\r\n~0\r\n*1\r\n:5\r\n";
        let mut more = nested.to_vec();
        more.extend_from_slice(b"+OK\r\n");
        assert_eq!(whole(&more), Ok(Some(nested.len())));
        for end in 0..nested.len() {
            assert_eq!(whole(&nested[..end]), Ok(None), "the first {end} bytes");
        }
    }

    #[test]
    fn what_is_no_resp_is_refused() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"$x\r\n",
            b"$-2\r\n",
            b"$3\r\nabcd\r\n",
            b"$99999999999\r\n",
            b":one\r\n",
            b"*x\r\n",
            b"*-2\r\n",
            b"_x\r\n",
            b"\x16\x03\x01",
        ] {
            assert_eq!(token(bytes), Token::Malformed, "{}", bytes.escape_ascii());
        }
        let endless = [b"+".as_slice(), &[b'a'; LINE_BYTES_MAX]].concat();
        assert_eq!(token(&endless), Token::Malformed);
    }

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"", &[b'x'; 12]]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\nxxxxxxxxxxxx\r\n");
        let mut numbers = Vec::new();
        for number in [0, 9, 10, 99, 100, u64::MAX] {
            decimal(&mut numbers, number);
            numbers.push(b' ');
        }
        assert_eq!(numbers, b"0 9 10 99 100 18446744073709551615 ");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = whole(&bytes);
        }

        #[test]
        fn any_resp_like_bytes_are_read_within_their_length(text in "[-$*%~>|+:_,0-9\r\n]{0,60}") {
            if let Ok(Some(used)) = whole(text.as_bytes()) {
                prop_assert!(used <= text.len());
            }
        }

        #[test]
        fn strings_come_back_however_they_are_cut(value: Vec<u8>, cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            command(&mut bytes, &[&value]);
            let bulk = &bytes[4..];
            prop_assert_eq!(token(bulk), Token::Reply(Reply::Bulk(&value), bulk.len()));
            let end = cut.index(bulk.len());
            prop_assert!(matches!(token(&bulk[..end]), Token::Partial | Token::PartialBulk(_)));
        }
    }
}
