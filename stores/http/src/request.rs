//! What is sent: a request put together from what was made when the session was opened.

use std::fmt::Write as _;

use base64::Engine as _;
use plimsoll_core::{Call, HttpCall, OpKind, StoreError, Value, ValueType, Values};

use crate::endpoint::Login;

/// A kind of operation, ready to be asked.
#[derive(Debug, Default)]
pub struct Request {
    /// The method and the target up to the first parameter, then what follows each parameter. The last piece goes on
    /// to the end of the head, or to the length of the body.
    pieces: Vec<Vec<u8>>,
    /// The parameter after those of the target is the body.
    has_body: bool,
    /// The answer has a head and no body, whatever the head says.
    pub(crate) is_head: bool,
    /// The body is wanted.
    pub(crate) keep: bool,
    /// It changes what the server holds.
    pub(crate) writes: bool,
}

impl Request {
    /// What `kind` asks, of the server of `login`.
    ///
    /// # Errors
    /// `Usage` when it is no request, or one that HTTP cannot say.
    pub fn new(kind: &OpKind, login: &Login) -> Result<Request, StoreError> {
        let bad = |what: &str| StoreError::usage(format!("operation `{}`: {what}", kind.name));
        let call = match &kind.call {
            Call::Http(call) => call,
            // What opens a connection asks nothing either.
            Call::Nothing | Call::Steps => return Ok(Request::opening(login)),
            _ => return Err(kind.refused("HTTP")),
        };
        let HttpCall { method, target, body } = call;
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
            return Err(bad("its method is not in capital letters").next("Write GET, PUT …"));
        }
        if method == "CONNECT" {
            return Err(bad("CONNECT makes a tunnel, which is no operation"));
        }
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
            return Err(bad("its target has characters that no target has").next("Percent-encode them."));
        }
        let takes = target.matches("{}").count() + usize::from(*body);
        let as_text =
            |value_type: &ValueType| matches!(value_type, ValueType::Bytes | ValueType::Text | ValueType::Int);
        if kind.params.len() != takes || !kind.params.iter().all(as_text) {
            return Err(bad("its parameters are not one text, integer or bytes for each {} and the body"));
        }
        let mut pieces: Vec<Vec<u8>> = target.split("{}").map(|piece| piece.as_bytes().to_vec()).collect();
        // A target may begin with a parameter; then that begins with `/`.
        let begin = format!("{method} {}", login.base);
        pieces[0].splice(0..0, begin.into_bytes());
        let end = fields(login, *body);
        let last = pieces.len() - 1;
        pieces[last].extend_from_slice(end.as_bytes());
        let is_head = method == "HEAD";
        Ok(Request { pieces, has_body: *body, is_head, keep: kind.keep_answer, writes: kind.writes() })
    }

    /// What is asked before anything else: whether this is a server that speaks HTTP and takes us.
    pub(crate) fn opening(login: &Login) -> Request {
        let base = if login.base.is_empty() { "/" } else { &login.base };
        let text = format!("HEAD {base}{}", fields(login, false));
        Request { pieces: vec![text.into_bytes()], is_head: true, ..Request::default() }
    }

    /// Appends the request.
    #[inline]
    pub fn write(&self, params: Values<'_>, out: &mut Vec<u8>) {
        let mut pieces = self.pieces.iter();
        if let Some(first) = pieces.next() {
            out.extend_from_slice(first);
        }
        for (at, piece) in pieces.enumerate() {
            encoded(out, params.get(at));
            out.extend_from_slice(piece);
        }
        if self.has_body {
            body(out, params.get(self.pieces.len() - 1));
        }
    }
}

/// The rest of a head, from the space before the version on; with a body, up to its length.
fn fields(login: &Login, body: bool) -> String {
    let mut text = format!(" HTTP/1.1\r\nHost: {}\r\nUser-Agent: plimsoll\r\n", login.host);
    if let Some(user) = &login.user {
        let password = login.password.as_ref().map_or("", |password| password.text());
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let _ = write!(text, "Authorization: Basic {secret}\r\n");
    }
    text.push_str(if body { "Content-Length: " } else { "\r\n" });
    text
}

/// Bytes that stand for themselves in a target: unreserved ones, and `/`.
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

#[inline]
fn encoded(out: &mut Vec<u8>, value: Value<'_>) {
    let bytes = match value {
        Value::Bytes(bytes) => bytes,
        Value::Text(text) => text.as_bytes(),
        Value::Int(number) => return decimal(out, number),
        // Kinds have no parameters of other types, and null is nothing.
        _ => return,
    };
    for byte in bytes {
        if PLAIN[usize::from(*byte)] {
            out.push(*byte);
        } else {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// The length of a body, the end of the head, and the body.
fn body(out: &mut Vec<u8>, value: Value<'_>) {
    let bytes = match value {
        Value::Bytes(bytes) => bytes,
        Value::Text(text) => text.as_bytes(),
        Value::Int(number) => {
            let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1 + u32::from(number < 0);
            decimal(out, i64::from(digits));
            out.extend_from_slice(b"\r\n\r\n");
            return decimal(out, number);
        }
        _ => &[],
    };
    decimal(out, bytes.len() as i64);
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(bytes);
}

fn decimal(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{StoreErrorKind, ValueBuf};

    use super::*;
    use crate::endpoint::resolve;

    fn login(url: &str) -> Login {
        resolve(url, None).unwrap().login
    }

    fn kind(method: &str, target: &str, body: bool, params: &[ValueType]) -> OpKind {
        let call = Call::Http(HttpCall { method: method.into(), target: target.into(), body });
        OpKind { name: "ask".into(), call, params: params.to_vec(), keep_answer: false, step_of: None }
    }

    #[test]
    fn parameters_stand_where_the_braces_are_and_last_is_the_body() {
        let put = kind("PUT", "/{}/of?n={}", true, &[ValueType::Text, ValueType::Int, ValueType::Bytes]);
        let request = Request::new(&put, &login("http://ada:pass@h:81/base/")).unwrap();
        let mut params = ValueBuf::new();
        params.push(Value::Text("a/b c?ü%"));
        params.push(Value::Int(i64::MIN));
        params.push(Value::Bytes(b"\x00body"));
        let mut out = Vec::new();
        request.write(params.values(), &mut out);
        let expected = "PUT /base/a/b%20c%3F%C3%BC%25/of?n=-9223372036854775808 HTTP/1.1\r\nHost: h:81\r\n\
                        User-Agent: plimsoll\r\nAuthorization: Basic YWRhOnBhc3M=\r\nContent-Length: 5\r\n\r\n\0body";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let whole = Request::new(&kind("GET", "{}", false, &[ValueType::Text]), &login("http://h")).unwrap();
        let (mut params, mut out) = (ValueBuf::new(), Vec::new());
        params.push(Value::Text("/bytes/64"));
        whole.write(params.values(), &mut out);
        assert_eq!(out, b"GET /bytes/64 HTTP/1.1\r\nHost: h\r\nUser-Agent: plimsoll\r\n\r\n");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bad in [
            kind("get", "/", false, &[]),
            kind("GET", "/ HTTP/1.1\r\nX: y", false, &[]),
            kind("GET", "/{}", false, &[]),
            kind("PUT", "/", true, &[ValueType::Float]),
            kind("CONNECT", "/", false, &[]),
        ] {
            assert_eq!(Request::new(&bad, &login("http://h")).unwrap_err().kind, StoreErrorKind::Usage, "{bad:?}");
        }
    }
}
