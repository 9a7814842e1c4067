//! The pieces of a request: what is always the same, and how parameters stand between it.

use std::io::Write as _;

use plimsoll_core::{Value, Values};

use crate::cookies::Cookies;
use crate::http2::hpack;

/// A piece of a request. Parameters are known by their numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// A parameter as a part of a target, percent-encoded.
    Encoded(usize),
    /// A parameter as a whole target: of a URL its path, any other behind this base unless it begins with it.
    Target(usize, Vec<u8>),
    /// A parameter within a field.
    Field(usize),
    /// A parameter within a body.
    Body(usize),
    /// The length of the body, in digits.
    Length,
    /// The cookies that were given; nothing at all without any.
    Cookies,
    /// HTTP/2: a text behind its length.
    Sized(Vec<Part>),
}

/// Returns the bytes of `parts`, if they are constant.
pub(crate) fn fixed(parts: &[Part]) -> Option<&[u8]> {
    match parts {
        [] => Some(&[]),
        [Part::Bytes(bytes)] => Some(bytes),
        _ => None,
    }
}

/// Puts together what is always the same.
pub(crate) fn merged(parts: Vec<Part>) -> Vec<Part> {
    parts.into_iter().fold(Vec::new(), |mut all, part| {
        match (all.last_mut(), part) {
            (Some(Part::Bytes(before)), Part::Bytes(bytes)) => before.extend(bytes),
            (_, Part::Bytes(bytes)) if bytes.is_empty() => {}
            (_, part) => all.push(part),
        }
        all
    })
}

/// Appends `all`, of a request whose body has so many bytes.
#[inline]
pub(crate) fn write(all: &[Part], params: Values<'_>, cookies: &Cookies, body_bytes: usize, out: &mut Vec<u8>) {
    for part in all {
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::Encoded(at) => encoded(out, params.get(*at), &PLAIN),
            Part::Target(at, base) => whole_target(out, params.get(*at), base),
            Part::Field(at) => {
                let from = out.len();
                written(out, params.get(*at));
                // It must not end the field it stands in.
                out[from..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
            }
            Part::Body(at) => written(out, params.get(*at)),
            Part::Length => out.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes()),
            Part::Cookies => {
                let from = out.len();
                out.extend_from_slice(b"Cookie: ");
                match cookies.write(out) {
                    true => out.extend_from_slice(b"\r\n"),
                    false => out.truncate(from),
                }
            }
            Part::Sized(inner) => match &inner[..] {
                [Part::Cookies] => {
                    let (from, mut any) = (out.len(), false);
                    hpack::sized(out, Some(hpack::COOKIE), |out| any = cookies.write(out));
                    out.truncate(if any { out.len() } else { from });
                }
                inner => hpack::sized(out, None, |out| write(inner, params, cookies, body_bytes, out)),
            },
        }
    }
}

/// Bytes that stand for themselves in a part of a target: unreserved ones, and `/`.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let is_mark = matches!(byte as u8, b'-' | b'.' | b'_' | b'~' | b'/');
        plain[byte] = (byte as u8).is_ascii_alphanumeric() || is_mark;
        byte += 1;
    }
    plain
};

/// Characters that stand for themselves in a complete target.
static GRAPHIC: [bool; 256] = {
    let mut graphic = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        graphic[byte] = (byte as u8).is_ascii_graphic() && byte as u8 != b'#';
        byte += 1;
    }
    graphic
};

#[inline]
fn encoded(out: &mut Vec<u8>, value: Value<'_>, plain: &[bool; 256]) {
    value.with_bytes(|bytes| encoded_bytes(out, bytes, plain));
}

#[inline]
fn encoded_bytes(out: &mut Vec<u8>, bytes: &[u8], plain: &[bool; 256]) {
    for byte in bytes {
        if plain[usize::from(*byte)] {
            out.push(*byte);
        } else {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// A target that an answer gave, as `Location` does: of a URL its path and query. A fragment is not sent.
fn whole_target(out: &mut Vec<u8>, value: Value<'_>, base: &[u8]) {
    value.with_bytes(|bytes| {
        let bytes = bytes.split(|byte| *byte == b'#').next().unwrap_or_default();
        let after = bytes.strip_prefix(b"http").map(|rest| rest.strip_prefix(b"s").unwrap_or(rest));
        let path = match after.and_then(|rest| rest.strip_prefix(b"://")) {
            Some(rest) => rest.iter().position(|byte| matches!(byte, b'/' | b'?')).map_or(&b"/"[..], |at| &rest[at..]),
            None => {
                let below = bytes.strip_prefix(base);
                if !below.is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'?'))) {
                    out.extend_from_slice(base);
                }
                bytes
            }
        };
        if path.first() != Some(&b'/') {
            out.push(b'/');
        }
        encoded_bytes(out, path, &GRAPHIC);
    });
}

/// A value as text.
#[inline]
fn written(out: &mut Vec<u8>, value: Value<'_>) {
    // Writing to memory cannot fail.
    let _ = match value {
        Value::Null => out.write_all(b"null"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Float(value) => write!(out, "{value}"),
        Value::Timestamp(us) => write!(out, "{us}"),
        other => other.with_bytes(|bytes| out.write_all(bytes)),
    };
}
