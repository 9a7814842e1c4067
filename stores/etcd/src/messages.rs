//! Messages of etcd's API (`rpc.proto` of etcd 3.4) that are used, written and read by hand.
//! Their only fields are varints and bytes.

use bytes::{BufMut, BytesMut};
use http::header::HeaderValue;
use plimsoll_endpoint::equals::Login;
use plimsoll_endpoint::{Password, Reader};

/// Bytes before a message: the flag of compression, and the length.
pub(crate) const HEAD_BYTES: usize = 5;

/// Writes an AuthenticateRequest. Its answer has the token in field 2.
pub(crate) fn login(login: &Login, message: &mut Writer<'_>) {
    let password = login.password.as_ref().map(Password::text).unwrap_or_default();
    message.bytes(1, login.user.text().as_bytes(), &[]).bytes(2, password.as_bytes(), &[]);
}

/// Returns the token in an AuthenticateResponse.
pub(crate) fn token(response: &[u8]) -> Option<HeaderValue> {
    let mut token = HeaderValue::from_bytes(bytes(response, 2)).ok()?;
    token.set_sensitive(true);
    Some(token)
}

/// Writes one message.
pub(crate) struct Writer<'a>(&'a mut BytesMut);

impl<'a> Writer<'a> {
    /// Begins a message with room for its head.
    pub fn begin(out: &'a mut BytesMut) -> Self {
        out.clear();
        out.put_bytes(0, HEAD_BYTES);
        Writer(out)
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.put_u8(value as u8);
    }

    /// Appends a field of bytes, in two parts.
    pub fn bytes(&mut self, field: u64, first: &[u8], rest: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint((first.len() + rest.len()) as u64);
        self.0.put_slice(first);
        self.0.put_slice(rest);
        self
    }

    /// Appends fields that are encoded already.
    pub fn raw(&mut self, fields: &[u8]) {
        self.0.put_slice(fields);
    }

    /// Appends a field of a number that is not negative.
    pub fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }
}

/// Content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Hands the fields of `message` to `take`, in order. Returns `None` if the message is malformed.
pub(crate) fn fields<'a>(message: &'a [u8], mut take: impl FnMut(u64, Field<'a>)) -> Option<()> {
    let mut reader = Reader(message);
    while !reader.0.is_empty() {
        let tag = varint(&mut reader)?;
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut reader)?),
            1 => Field::Bytes(reader.take(8)?),
            2 => {
                let length = usize::try_from(varint(&mut reader)?).ok()?;
                Field::Bytes(reader.take(length)?)
            }
            5 => Field::Bytes(reader.take(4)?),
            _ => return None,
        };
        take(tag >> 3, value);
    }
    Some(())
}

fn varint(reader: &mut Reader<'_>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Hands the keys and values of a RangeResponse to `take`, in order. Returns `None` if the message is malformed.
pub(crate) fn pairs<'a>(response: &'a [u8], mut take: impl FnMut(&'a [u8], &'a [u8])) -> Option<()> {
    let mut is_whole = Some(());
    fields(response, |field, value| {
        let (2, Field::Bytes(pair)) = (field, value) else { return };
        let (mut key, mut found) = (&[][..], &[][..]);
        let whole = fields(pair, |field, value| match (field, value) {
            (1, Field::Bytes(bytes)) => key = bytes,
            (5, Field::Bytes(bytes)) => found = bytes,
            _ => {}
        });
        is_whole = is_whole.and(whole);
        take(key, found);
    })?;
    is_whole
}

/// Returns the number in the field `wanted`; 0, protobuf's default, if it is left out.
pub(crate) fn number(message: &[u8], wanted: u64) -> u64 {
    let mut found = 0;
    let _ = fields(message, |field, value| {
        if let (true, Field::Number(number)) = (field == wanted, value) {
            found = number;
        }
    });
    found
}

/// Returns the bytes in the field `wanted`; none if it is left out.
pub(crate) fn bytes(message: &[u8], wanted: u64) -> &[u8] {
    let mut found = &[][..];
    let _ = fields(message, |field, value| {
        if let (true, Field::Bytes(bytes)) = (field == wanted, value) {
            found = bytes;
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut out = BytesMut::new();
        Writer::begin(&mut out).bytes(1, b"pre", b"fix").number(3, 300);
        assert_eq!(&out[HEAD_BYTES..], b"\x0a\x06prefix\x18\xac\x02");
        assert_eq!((number(&out[HEAD_BYTES..], 3), bytes(&out[HEAD_BYTES..], 1)), (300, &b"prefix"[..]));
    }

    #[test]
    fn pairs_are_read_and_what_is_cut_is_no_message() {
        let response = b"\x0a\x02\x18\x07\x12\x08\x0a\x01k\x10\x05\x2a\x01v\x20\x01";
        let mut found = Vec::new();
        assert_eq!(pairs(response, |key, value| found.push((key, value))), Some(()));
        assert_eq!(found, [(&b"k"[..], &b"v"[..])]);
        for end in [1, 3, 5, 9] {
            assert_eq!(pairs(&response[..end], |_, _| {}), None, "{end}");
        }
        assert_eq!(fields(&[0xff; 11], |_, _| {}), None);
    }
}
