//! Numbers and texts off the front of a message that is all there.

/// Unread part of a message.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        self.0.split_off(..count)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    /// The bytes up to the next zero, which is taken too.
    pub fn cstr(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        self.take(end + 1).map(|text| &text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_where_there_is_too_little() {
        let mut reader = Reader(b"\x01ab\0\x02\x03rest");
        assert_eq!((reader.u8(), reader.cstr(), reader.array()), (Some(1), Some(&b"ab"[..]), Some([2, 3])));
        assert_eq!((reader.cstr(), reader.take(5), reader.array::<5>()), (None, None, None));
        assert_eq!((reader.take(4), reader.u8(), reader.take(0)), (Some(&b"rest"[..]), None, Some(&b""[..])));
    }
}
