//! HPACK (RFC 7541) without state: what is sent goes into no table, and servers are told that ours has no room, so that what
//! arrives refers to nothing that came before it.

use super::huffman;
use crate::part::{Part, fixed, merged};
use crate::request::Said;
use crate::response::Malformed;

/// The largest number in a header block: no text may have so many bytes.
const NUMBER_MAX: usize = 1 << 24;

/// The field `cookie`, never to be kept, up to its value.
pub(crate) const COOKIE: [u8; 2] = [0x1f, 32 - 15];

/// Fields that intermediaries must not store (RFC 7541, 7.1.3).
const SECRETS: [&str; 2] = ["authorization", "cookie"];

/// Encodes a request's head as one header block.
pub(crate) fn encode(said: &Said<'_>, is_tls: bool) -> Vec<Part> {
    let bytes = |text: &str| vec![Part::Bytes(text.as_bytes().to_vec())];
    let mut all = Vec::new();
    field(&mut all, ":method", bytes(said.method));
    field(&mut all, ":scheme", bytes(if is_tls { "https" } else { "http" }));
    field(&mut all, ":authority", said.host.clone());
    field(&mut all, ":path", said.target.clone());
    for (name, value) in &said.fields {
        field(&mut all, &name.to_ascii_lowercase(), value.clone());
    }
    if let Some(body) = &said.body {
        let length = fixed(body).map_or(vec![Part::Length], |body| bytes(&body.len().to_string()));
        field(&mut all, "content-length", length);
    }
    if said.cookies {
        all.push(Part::Sized(vec![Part::Cookies]));
    }
    merged(all)
}

fn field(all: &mut Vec<Part>, name: &str, value: Vec<Part>) {
    let is_named = |entry: &(&[u8], &[u8])| entry.0 == name.as_bytes();
    let is_same = |entry: &(&[u8], &[u8])| is_named(entry) && fixed(&value) == Some(entry.1);
    let mut out = Vec::new();
    if let Some(at) = STATIC.iter().position(is_same) {
        number(&mut out, 0x80, 7, at + 1);
        return all.push(Part::Bytes(out));
    }
    let first = if SECRETS.contains(&name) { 0x10 } else { 0 };
    match STATIC.iter().position(is_named) {
        Some(at) => number(&mut out, first, 4, at + 1),
        None => {
            out.push(first);
            sized(&mut out, None, |out| out.extend_from_slice(name.as_bytes()));
        }
    }
    match fixed(&value) {
        Some(text) => sized(&mut out, None, |out| out.extend_from_slice(text)),
        None => {
            all.push(Part::Bytes(std::mem::take(&mut out)));
            all.push(Part::Sized(value));
        }
    }
    all.push(Part::Bytes(out));
}

/// Appends `before`, and what `write` appends behind its length, without blanks around it.
#[inline]
pub(crate) fn sized(out: &mut Vec<u8>, before: Option<[u8; 2]>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(before.as_ref().map_or(&[], |before| &before[..]));
    let from = out.len();
    out.push(0);
    write(out);
    let text = &out[from + 1..];
    let blanks = text.len() - text.trim_ascii_start().len();
    let length = text.trim_ascii().len();
    if blanks > 0 {
        out.copy_within(from + 1 + blanks..from + 1 + blanks + length, from + 1);
    }
    out.truncate(from + 1 + length);
    if length < 0x7f {
        out[from] = length as u8;
        return;
    }
    // The length is written at the end, and moves to the front.
    let end = out.len();
    number(out, 0, 7, length);
    let prefix = out.len() - end;
    out[from..].rotate_right(prefix);
    out.remove(from + prefix);
}

/// Appends a number whose first byte has `bits` for it beside `first`.
fn number(out: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let most = (1 << bits) - 1;
    if number < most {
        return out.push(first | number as u8);
    }
    out.push(first | most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A name or a value as it stands in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text<'b> {
    Plain(&'b [u8]),
    Huffman(&'b [u8]),
}

impl<'b> Text<'b> {
    /// Decodes the text; `room` is a reusable buffer.
    #[inline]
    pub(crate) fn read<'t>(&self, room: &'t mut Vec<u8>) -> Result<&'t [u8], Malformed>
    where
        'b: 't,
    {
        match self {
            Text::Plain(text) => Ok(text),
            Text::Huffman(code) => {
                room.clear();
                huffman::decode(code, room)?;
                Ok(room)
            }
        }
    }
}

/// The fields of a block, one after the other.
pub(crate) struct Fields<'b>(pub(crate) &'b [u8]);

impl<'b> Fields<'b> {
    /// The next name and its value.
    ///
    /// # Errors
    /// [`Malformed`], after which there are no more.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(Text<'b>, Text<'b>)>, Malformed> {
        loop {
            let Some(first) = self.0.first() else { return Ok(None) };
            let index_bits = match first {
                0x80.. => {
                    let (name, value) = self.entry(7)?;
                    return Ok(Some((Text::Plain(name), Text::Plain(value))));
                }
                0x40.. => 6,
                0x20.. => {
                    // A new size of a table that has none.
                    self.number(5)?;
                    continue;
                }
                _ => 4,
            };
            let name = match first & ((1 << index_bits) - 1) {
                0 => {
                    self.0 = &self.0[1..];
                    self.text()?
                }
                _ => Text::Plain(self.entry(index_bits)?.0),
            };
            return Ok(Some((name, self.text()?)));
        }
    }

    fn entry(&mut self, bits: u32) -> Result<(&'static [u8], &'static [u8]), Malformed> {
        let at = self.number(bits)?.checked_sub(1);
        let entry = at.and_then(|at| STATIC.get(at));
        entry.copied().ok_or(Malformed("a field of a table that we do not keep"))
    }

    fn text(&mut self) -> Result<Text<'b>, Malformed> {
        let is_huffman = self.0.first().is_some_and(|first| first & 0x80 != 0);
        let length = self.number(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Malformed("a header block that breaks off"))?;
        self.0 = rest;
        Ok(if is_huffman { Text::Huffman(text) } else { Text::Plain(text) })
    }

    #[inline]
    fn number(&mut self, bits: u32) -> Result<usize, Malformed> {
        let cut = Malformed("a header block that breaks off");
        let (first, mut rest) = self.0.split_first().ok_or(cut)?;
        let most = (1_usize << bits) - 1;
        let mut number = usize::from(*first) & most;
        if number == most {
            for shift in [0, 7, 14, 21] {
                let (byte, after) = rest.split_first().ok_or(cut)?;
                rest = after;
                number += usize::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
                if shift == 21 {
                    return Err(Malformed("a number without an end"));
                }
            }
        }
        if number > NUMBER_MAX {
            return Err(Malformed("a number that is too large"));
        }
        self.0 = rest;
        Ok(number)
    }
}

/// The static table (RFC 7541, appendix A); its first entry is number 1.
#[rustfmt::skip]
static STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(block: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
        let (mut fields, mut found, mut room) = (Fields(block), Vec::new(), Vec::new());
        while let Some((name, value)) = fields.next()? {
            let name = String::from_utf8_lossy(name.read(&mut room)?).into_owned();
            found.push((name, String::from_utf8_lossy(value.read(&mut room)?).into_owned()));
        }
        Ok(found)
    }

    #[test]
    fn blocks_are_read_whatever_their_form() {
        // A size, indexed, literal with a name of the table and with its own, with Huffman and without.
        let block = b"\x20\x88\x5c\x015\x0f\x27\x82\x64\x02\x10\x01x\x00\x40\x01y\x01z";
        let expected = [(":status", "200"), ("content-length", "5"), ("server", "302"), ("x", ""), ("y", "z")];
        assert_eq!(all(block).unwrap(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for end in 1..block.len() {
            let _ = all(&block[..end]);
        }
        for bad in [&b"\x80"[..], b"\xbe", b"\x7f\xff\xff\xff\xff\x01", b"\x00\x05a", b"\x00\x01a\x02b", b"\x88\x40"] {
            assert!(all(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lengths_stand_before_texts_of_any_length() {
        for length in [0, 1, 126, 127, 128, 254, 255, 300, 16_500, 100_000] {
            let mut out = b"before".to_vec();
            let text = "x".repeat(length);
            out.push(0);
            sized(&mut out, None, |out| out.push(b'n'));
            sized(&mut out, None, |out| out.extend_from_slice(format!(" \t{text} ").as_bytes()));
            assert_eq!(all(&out[6..]), Ok(vec![("n".to_owned(), text)]), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&bytes);
        }
    }
}
