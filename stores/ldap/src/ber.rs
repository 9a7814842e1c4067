//! BER as LDAP uses it (X.690; RFC 4511, 5.1): tags of one byte, definite lengths.

/// Reason why bytes are not BER, or BER that LDAP does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// OCTET STRING.
pub const OCTETS: u8 = 0x04;
/// ENUMERATED.
pub const ENUMERATED: u8 = 0x0a;
/// SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// SET.
pub const SET: u8 = 0x31;

/// Tag and length of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The tag.
    pub tag: u8,
    /// Bytes of tag and length.
    pub head_bytes: usize,
    /// Bytes of the contents.
    pub bytes: usize,
}

/// Reads tag and length at the beginning of `bytes`; `None` when more is needed.
///
/// # Errors
/// Tags of several bytes, indefinite lengths and lengths of more than four bytes are not taken.
#[inline]
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let (tag, first) = match bytes {
        [tag, ..] if tag & 0x1f == 0x1f => return Err(Malformed("a tag of several bytes")),
        [tag, first, ..] => (*tag, *first),
        _ => return Ok(None),
    };
    if first < 0x80 {
        return Ok(Some(Head { tag, head_bytes: 2, bytes: usize::from(first) }));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > 4 {
        return Err(Malformed("a length that LDAP does not allow"));
    }
    let Some(digits) = bytes.get(2..2 + count) else { return Ok(None) };
    let bytes = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
    Ok(Some(Head { tag, head_bytes: 2 + count, bytes }))
}

/// Reads elements one after the other out of contents that are all there.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element's tag and contents; `None` at the end.
    ///
    /// # Errors
    /// When it is none, or goes beyond the end.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let head = head(self.0)?.ok_or(Malformed("an element without an end"))?;
        let contents = self.0.get(head.head_bytes..head.head_bytes + head.bytes);
        let contents = contents.ok_or(Malformed("an element longer than its parent"))?;
        self.0 = &self.0[head.head_bytes + head.bytes..];
        Ok(Some((head.tag, contents)))
    }

    /// The contents of the next element, which must have `tag`.
    ///
    /// # Errors
    /// When it has another, or there is none.
    #[inline]
    pub fn expect(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.next()? {
            Some((found, contents)) if found == tag => Ok(contents),
            _ => Err(Malformed("an element other than the one that belongs there")),
        }
    }
}

/// A whole number of INTEGER or ENUMERATED, of at most four bytes.
///
/// # Errors
/// When it has none or more.
#[inline]
pub fn integer(contents: &[u8]) -> Result<i32, Malformed> {
    match contents {
        [first, rest @ ..] if rest.len() < 4 => {
            Ok(rest.iter().fold(i32::from(*first as i8), |number, byte| number << 8 | i32::from(*byte)))
        }
        _ => Err(Malformed("a number of no or more than four bytes")),
    }
}

/// Appends a length in as few bytes as it takes.
pub fn push_length(out: &mut Vec<u8>, length: usize) {
    if length < 0x80 {
        out.push(length as u8);
        return;
    }
    let digits = length.to_be_bytes();
    let from = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len() - 1);
    out.push(0x80 | (digits.len() - from) as u8);
    out.extend_from_slice(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_a_length_is_read() {
        let head_of = |bytes: &[u8]| head(bytes).unwrap().map(|head| (head.head_bytes, head.bytes));
        assert_eq!(head_of(&[4, 0x7f]), Some((2, 127)));
        assert_eq!(head_of(&[4, 0x81, 0x80]), Some((3, 128)));
        assert_eq!(head_of(&[4, 0x84, 0, 0, 1, 2]), Some((6, 258)));
        for part in [&[][..], &[4], &[4, 0x82, 1]] {
            assert_eq!(head_of(part), None);
        }
        for bad in [&[0x1f, 1][..], &[4, 0x80], &[4, 0x85, 0, 0, 0, 0, 1]] {
            assert!(head(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_have_their_sign() {
        let all = [(&[0x7f][..], 127), (&[0x80], -128), (&[0, 0x80], 128), (&[0x7f, 255, 255, 255], i32::MAX)];
        for (bytes, number) in all {
            assert_eq!(integer(bytes), Ok(number));
        }
        assert!(integer(&[]).is_err() && integer(&[0; 5]).is_err());
    }

    proptest! {
        #[test]
        fn what_was_pushed_is_read_again(tag in 0u8..0x1f, contents in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut out = vec![tag];
            push_length(&mut out, contents.len());
            out.extend_from_slice(&contents);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.next(), Ok(Some((tag, &contents[..]))));
            prop_assert_eq!(reader.next(), Ok(None));
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader(&bytes);
            while let Ok(Some((_, contents))) = reader.next() {
                let _ = integer(contents);
            }
        }
    }
}
