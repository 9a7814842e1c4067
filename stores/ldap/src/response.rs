//! Replies: messages, results and entries (RFC 4511, 4.1.1, 4.1.9, 4.5.2).

use crate::ber::{self, ENUMERATED, INTEGER, Malformed, OCTETS, Reader, SEQUENCE, SET};

/// The beginning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Number of the request that it answers; 0 for an unsolicited message.
    pub id: i32,
    /// Tag of the operation.
    pub tag: u8,
    /// Position and length in bytes of the operation's contents.
    pub from: usize,
    /// See `from`.
    pub bytes: usize,
    /// Bytes of the whole message.
    pub total: usize,
}

/// Reads the beginning of a message up to its operation's contents; `None` when more is needed.
///
/// # Errors
/// When it is no message of LDAP.
#[inline]
pub fn message(bytes: &[u8]) -> Result<Option<Message>, Malformed> {
    let Some(whole) = ber::head(bytes)? else { return Ok(None) };
    if whole.tag != SEQUENCE {
        return Err(Malformed("no message"));
    }
    let total = whole.head_bytes + whole.bytes;
    let within = &bytes[..bytes.len().min(total)];
    let is_all = within.len() == total;
    let cut_off = || if is_all { Err(Malformed("a message shorter than what it holds")) } else { Ok(None) };
    let mut at = whole.head_bytes;
    let Some(number) = ber::head(&within[at..])? else { return cut_off() };
    at += number.head_bytes;
    if number.tag != INTEGER {
        return Err(Malformed("a message without a number"));
    }
    if number.bytes > 4 {
        return Err(Malformed("a number of more than four bytes"));
    }
    let Some(digits) = within.get(at..at + number.bytes) else { return cut_off() };
    let id = ber::integer(digits)?;
    at += number.bytes;
    let Some(operation) = ber::head(&within[at..])? else { return cut_off() };
    let from = at + operation.head_bytes;
    if from + operation.bytes > total {
        return Err(Malformed("an operation longer than its message"));
    }
    Ok(Some(Message { id, tag: operation.tag, from, bytes: operation.bytes, total }))
}

/// Result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LdapResult<'a> {
    /// The result code.
    pub code: i32,
    /// The server's words; mostly none.
    pub message: &'a [u8],
    /// First URL of a referral.
    pub referral: Option<&'a [u8]>,
}

/// Reads the contents of a response.
///
/// # Errors
/// When it is no result.
#[inline]
pub fn result(contents: &[u8]) -> Result<LdapResult<'_>, Malformed> {
    let mut reader = Reader(contents);
    let code = ber::integer(reader.expect(ENUMERATED)?)?;
    let _matched_dn = reader.expect(OCTETS)?;
    let message = reader.expect(OCTETS)?;
    let mut result = LdapResult { code, message, referral: None };
    while let Some((tag, contents)) = reader.next()? {
        // Others are SASL's words, an extended response's name and value, and what later versions may add.
        if tag == 0xa3 {
            result.referral = Some(Reader(contents).expect(OCTETS)?);
        }
    }
    Ok(result)
}

/// Reads the contents of an entry: `dn` is told its name, then `value` each attribute with its first value.
///
/// # Errors
/// When it is no entry.
pub fn entry<'a>(
    contents: &'a [u8],
    dn: impl FnOnce(&'a [u8]),
    mut value: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), Malformed> {
    let mut reader = Reader(contents);
    dn(reader.expect(OCTETS)?);
    let mut attributes = Reader(reader.expect(SEQUENCE)?);
    while let Some((tag, attribute)) = attributes.next()? {
        if tag != SEQUENCE {
            return Err(Malformed("an entry with something else than attributes"));
        }
        let mut parts = Reader(attribute);
        let name = parts.expect(OCTETS)?;
        if let Some((_, first)) = Reader(parts.expect(SET)?).next()? {
            value(name, first);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &[u8] = b"\x30\x0c\x02\x01\x05\x65\x07\x0a\x01\0\x04\0\x04\0";

    #[test]
    fn a_message_is_read_whole_and_waited_for_in_pieces() {
        let expected = Message { id: 5, tag: 0x65, from: 7, bytes: 7, total: 14 };
        assert_eq!(message(DONE), Ok(Some(expected)));
        for end in 0..7 {
            assert_eq!(message(&DONE[..end]), Ok(None), "{end}");
        }
        assert_eq!(message(&DONE[..7]), Ok(Some(expected)));
        let long = b"\x30\x84\0\0\0\x10\x02\x04\x7f\xff\xff\xff\x65\x84\0\0\0\x07";
        let found = message(long);
        assert_eq!(found, Err(Malformed("an operation longer than its message")));
    }

    #[test]
    fn results_have_words_and_referrals() {
        assert_eq!(result(&DONE[7..]), Ok(LdapResult { code: 0, message: b"", referral: None }));
        let referral = b"\x0a\x01\x0a\x04\0\x04\x02no\xa3\x0a\x04\x08ldap://h";
        let expected = LdapResult { code: 10, message: b"no", referral: Some(b"ldap://h") };
        assert_eq!(result(referral), Ok(expected));
        assert!(result(b"\x0a\x01\0\x04\0").is_err() && result(b"").is_err());
    }

    #[test]
    fn an_entry_is_its_name_and_its_attributes() {
        let bytes = b"\x04\x03o=x\x30\x1a\x30\x0b\x04\x01o1\x06\x04\x01x\x04\x01y\x30\x0b\x04\x02cn1\x05\x04\x03abc";
        let (mut name, mut values) = (Vec::new(), Vec::new());
        entry(bytes, |dn| name = dn.to_vec(), |name, value| values.push((name, value))).unwrap();
        assert_eq!(name, b"o=x");
        assert_eq!(values, [(&b"o"[..], &b"x"[..]), (b"cn", b"abc")]);
    }
}
