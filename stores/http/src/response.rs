//! The head of an answer: its status, and the four fields that say how long its body is and what becomes of the
//! connection.
//!
//! This is a small parser of our own. `httparse` is good and fast, but fills an array with every field of an answer,
//! each of which would have to be looked at again; here a field of no interest costs the search for its colon and its
//! line's end.

/// The most bytes that a head may have.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// The most bytes of the line that begins a chunk, extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;

/// Reason that the input is not HTTP/1, in a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// End of an answer's body, as its fields say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Length in bytes.
    Length(u64),
    /// Chunks, ended by one of no bytes.
    Chunked,
    /// Not specified: the body ends with the connection.
    Unsaid,
}

/// A head, borrowed from what arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// 100 to 999.
    pub status: u16,
    /// End of the body, if there is one.
    pub framing: Framing,
    /// The server closes the connection after this answer.
    pub close: bool,
    /// True if the answer says when to retry: the field `Retry-After`.
    pub retry_after: bool,
    /// The field `Server`; empty when there is none.
    pub server: &'a [u8],
    /// True if the answer sets or removes a cookie.
    pub set_cookie: bool,
}

/// Reads a head from the beginning of `bytes`: the head and its length, or `None` while it is not all there.
///
/// # Errors
/// [`Malformed`] as soon as it cannot become one.
#[inline]
pub fn head(bytes: &[u8]) -> Result<Option<(Head<'_>, usize)>, Malformed> {
    let Some((line, mut at)) = next_line(bytes, 0) else {
        let known = bytes.len().min(7);
        return match bytes[..known] == b"HTTP/1."[..known] && bytes.len() <= HEAD_BYTES_MAX {
            true => Ok(None),
            false => Err(Malformed("no line of HTTP/1")),
        };
    };
    let (minor, status) = status_line(line)?;
    // HTTP/1.0 closes unless it says otherwise.
    let framing = Framing::Unsaid;
    let mut head = Head { status, framing, close: minor == b'0', retry_after: false, server: b"", set_cookie: false };
    let mut may_go_on = false;
    loop {
        let found = next_line(bytes, at);
        if found.map_or(bytes.len(), |(_, next)| next) > HEAD_BYTES_MAX {
            return Err(Malformed("a head of more than 32 KiB"));
        }
        let Some((line, next)) = found else { return Ok(None) };
        at = next;
        if line.is_empty() {
            return Ok(Some((head, at)));
        }
        // Nothing depends on the further lines of most fields.
        if !(may_go_on && line.first().is_some_and(is_blank)) {
            may_go_on = !field(line, &mut head)?;
        }
    }
}

/// The fields of a whole head, by name and value. A value that is continued has its line ends.
pub fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = next_line(head, 0).map_or(head.len(), |(_, next)| next);
    let field = move || {
        let begin = at;
        loop {
            at = next_line(head, at)?.1;
            if !head.get(at).is_some_and(is_blank) {
                return Some(&head[begin..at]);
            }
        }
    };
    std::iter::from_fn(field).filter_map(|field| {
        let colon = field.iter().position(|byte| *byte == b':')?;
        Some((&field[..colon], field[colon + 1..].trim_ascii()))
    })
}

/// True for a byte that begins a line that continues the one before (`obs-fold`: RFC 9112, 5.2).
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The line that begins at `at`, without its end, and where the next one begins.
#[inline]
fn next_line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = &bytes[at..];
    let end = memchr::memchr(b'\n', rest)?;
    let line = &rest[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1))
}

#[inline]
fn status_line(line: &[u8]) -> Result<(u8, u16), Malformed> {
    let no_status = Malformed("no status line of HTTP/1");
    let Some(rest) = line.strip_prefix(b"HTTP/1.") else { return Err(no_status) };
    let [minor @ (b'0' | b'1'), b' ', a @ b'1'..=b'9', b, c, reason @ ..] = rest else { return Err(no_status) };
    if !(b.is_ascii_digit() && c.is_ascii_digit()) {
        return Err(no_status);
    }
    // A server's own words may repeat the request, which must not be shown.
    if !matches!(reason, [] | [b' ', ..]) {
        return Err(no_status);
    }
    let digit = |byte: &u8| u16::from(byte - b'0');
    Ok((*minor, digit(a) * 100 + digit(b) * 10 + digit(c)))
}

/// Takes a field. True if it says where the answer or the connection ends.
#[inline]
fn field<'a>(line: &'a [u8], head: &mut Head<'a>) -> Result<bool, Malformed> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Malformed("a field without a colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.first().is_none_or(|byte| matches!(byte, b' ' | b'\t')) || name.last() == Some(&b' ') {
        return Err(Malformed("a field without a name"));
    }
    match colon {
        6 if name.eq_ignore_ascii_case(b"server") => head.server = value.trim_ascii(),
        10 if name.eq_ignore_ascii_case(b"connection") => {
            for word in value.split(|byte| *byte == b',') {
                let word = word.trim_ascii();
                if word.eq_ignore_ascii_case(b"close") {
                    head.close = true;
                    break;
                } else if word.eq_ignore_ascii_case(b"keep-alive") {
                    head.close = false;
                }
            }
            return Ok(true);
        }
        10 if name.eq_ignore_ascii_case(b"set-cookie") => head.set_cookie = true,
        11 if name.eq_ignore_ascii_case(b"retry-after") => head.retry_after = true,
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let length = number(value.trim_ascii(), 10).ok_or(Malformed("a Content-Length that is no number"))?;
            match head.framing {
                Framing::Unsaid => head.framing = Framing::Length(length),
                Framing::Length(before) if before != length => return Err(Malformed("two lengths for one body")),
                Framing::Length(_) | Framing::Chunked => {}
            }
            return Ok(true);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("a transfer encoding that was not requested"));
            }
            // It overrides a length (RFC 9112, 6.3).
            head.framing = Framing::Chunked;
            return Ok(true);
        }
        _ => {}
    }
    Ok(false)
}

/// Reads the line that begins a chunk: the chunk's bytes and the line's, or `None` while it is not all there.
///
/// # Errors
/// [`Malformed`] when it is none.
pub fn chunk(bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let Some((line, used)) = next_line(bytes, 0) else {
        return match bytes.len() > CHUNK_LINE_BYTES_MAX {
            true => Err(Malformed("a chunk whose line has no end")),
            false => Ok(None),
        };
    };
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let length = number(digits, 16).ok_or(Malformed("a chunk without a length"))?;
    Ok(Some((length, used)))
}

/// Reads one line of the fields after the last chunk: its bytes and whether it was the last, or `None` while it is not
/// all there.
///
/// # Errors
/// [`Malformed`] when it has no end.
pub fn trailer(bytes: &[u8]) -> Result<Option<(bool, usize)>, Malformed> {
    match next_line(bytes, 0) {
        Some((line, used)) => Ok(Some((line.is_empty(), used))),
        None if bytes.len() > HEAD_BYTES_MAX => Err(Malformed("a field of more than 32 KiB")),
        None => Ok(None),
    }
}

/// Digits and nothing else, that fit.
#[inline]
pub(crate) fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        number.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Result<(Head<'_>, usize), Malformed> {
        head(bytes).map(|found| found.expect("it is all there"))
    }

    #[test]
    fn the_fields_that_matter_are_read_whatever_their_case() {
        let text = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\ncOnTeNt-LeNgTh:  612 \r\nX: y\r\n\r\nbody";
        let (head, used) = whole(text).unwrap();
        assert_eq!((head.status, head.server), (200, &b"nginx/1.22.1"[..]));
        assert_eq!((head.framing, head.close, &text[used..]), (Framing::Length(612), false, &b"body"[..]));
        let (head, _) = whole(b"HTTP/1.1 404\nTRANSFER-ENCODING: Chunked\nConnection: x, Close\n\n").unwrap();
        assert_eq!(head.status, 404);
        assert_eq!((head.framing, head.close), (Framing::Chunked, true));
        for both in [
            &b"Content-Length: 7\r\nTransfer-Encoding: chunked"[..],
            b"Transfer-Encoding: chunked\r\nContent-Length: 7",
        ] {
            let text = [b"HTTP/1.1 200 OK\r\n", both, b"\r\n\r\n"].concat();
            assert_eq!(whole(&text).unwrap().0.framing, Framing::Chunked);
        }
        assert!(whole(b"HTTP/1.0 200 OK\r\n\r\n").unwrap().0.close);
        assert!(!whole(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n").unwrap().0.close);
    }

    #[test]
    fn a_field_goes_on_where_a_line_begins_with_a_blank() {
        let text = b"HTTP/1.1 200 OK\r\nX: one,\r\n two: 2\r\n\tthree\r\nContent-Length: 5\r\nY: z\r\n\r\n";
        let (head, used) = whole(text).unwrap();
        assert_eq!((head.framing, used), (Framing::Length(5), text.len()));
        let all: Vec<_> = fields(text).collect();
        assert_eq!(all, [(&b"X"[..], &b"one,\r\n two: 2\r\n\tthree"[..]), (b"Content-Length", b"5"), (b"Y", b"z")]);
    }

    #[test]
    fn a_part_of_a_head_is_waited_for_and_what_is_none_is_not() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(head(&text[..end]), Ok(None), "{end}");
        }
        for bad in [
            &b"SSH-2.0-OpenSSH"[..],
            b"\x15\x03\x01\x00\x02\x02\x50",
            b"HTTP/2 200 OK\r\n",
            b"HTTP/1.1 20 OK\r\n",
            b"HTTP/1.1 2000 OK\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n",
            b"HTTP/1.1 200 OK\r\n: no name\r\n",
            b"HTTP/1.1 200 OK\r\n folded: on\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n",
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive,\r\n close\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n",
        ] {
            assert!(head(bad).is_err(), "{}", bad.escape_ascii());
        }
        let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
        endless.extend(b"X: y\r\n".repeat(HEAD_BYTES_MAX / 6));
        assert!(head(&endless).is_err());
        assert!(head(&[&b"HTTP/1."[..], &[b'1'; HEAD_BYTES_MAX]].concat()).is_err());
    }

    #[test]
    fn chunks_have_lengths_and_may_have_extensions() {
        assert_eq!(chunk(b"1aF;name=value\r\nxyz"), Ok(Some((0x1af, 16))));
        assert_eq!(chunk(b"0\r\n"), Ok(Some((0, 3))));
        assert_eq!(chunk(b"1a"), Ok(None));
        for bad in [&b"\r\n"[..], b"g\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", &[b'1'; 5000]] {
            assert!(chunk(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
