//! What is sent: a request put together from what was made when the session was opened.

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use plimsoll_core::{Call, HttpCall, OpKind, Piece, StoreError, Template, Value, Values};

use crate::cookies::Cookies;
use crate::endpoint::Login;
use crate::take::Takes;

/// Fields that the session itself writes.
const OWN_FIELDS: [&str; 3] = ["content-length", "transfer-encoding", "expect"];

/// A kind of operation, ready to be asked.
#[derive(Debug, Default)]
pub struct Request {
    /// From the method to the end of the head, or with a body that is not always the same to its length.
    head: Vec<Part>,
    /// A body that has parameters.
    body: Option<Vec<Part>>,
    /// The answer has a head and no body, whatever the head says.
    pub(crate) is_head: bool,
    /// Status and body are wanted.
    pub(crate) keep: bool,
    /// It changes what the server holds.
    pub(crate) writes: bool,
    /// It says who asks, by a field of its own.
    pub(crate) has_login: bool,
    /// Cookies are kept and sent.
    pub(crate) cookies: bool,
    /// Statuses that are right; 2xx and 3xx if there are none.
    expect: Vec<(u16, u16)>,
    pub(crate) contains: Option<String>,
    pub(crate) take: Takes,
}

/// A piece of a request.
#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// The next parameter as a part of a target, percent-encoded.
    Encoded,
    /// The next parameter as a whole target: its own path, where it is a URL.
    Target,
    /// The next parameter within a field.
    Field,
    /// The next parameter within a body.
    Body,
    /// The field of the cookies that were given.
    Cookies,
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
        let HttpCall { method, target, headers, body, .. } = call;
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
            return Err(bad("its method is not in capital letters").next("Write GET, PUT …"));
        }
        if method == "CONNECT" {
            return Err(bad("CONNECT makes a tunnel, which is no operation"));
        }
        if kind.params.len() != call.params() {
            return Err(bad("it has not a parameter for each place that takes one"));
        }
        let mut head = Writer { kind, parts: Vec::new(), text: format!("{method} {}", login.base) };
        head.target(target, login)?;
        head.text.push_str(" HTTP/1.1\r\n");
        let has = |name: &str| headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
        fields(&mut head.text, login, &has);
        for header in headers {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if header.name.is_empty() || !header.name.bytes().all(is_name) {
                return Err(bad(&format!("`{}` is no name of a header", header.name)).next("Write Name: value"));
            }
            if OWN_FIELDS.iter().any(|own| header.name.eq_ignore_ascii_case(own)) {
                return Err(
                    bad(&format!("the header {} is written by Plimsoll itself", header.name)).next("Leave it out.")
                );
            }
            let _ = write!(head.text, "{}: ", header.name);
            head.template(&header.value, || Part::Field, &|c| !c.is_control() || c == '\t')?;
            head.text.push_str("\r\n");
        }
        if call.cookies {
            head.part(Part::Cookies);
        }
        let mut rest = Writer { kind, parts: Vec::new(), text: String::new() };
        let has_body = body.is_some() || matches!(method.as_str(), "POST" | "PUT" | "PATCH");
        if let Some(body) = body {
            rest.template(body, || Part::Body, &|_| true)?;
        }
        let is_fixed = rest.parts.is_empty();
        match (has_body, is_fixed) {
            (false, _) => head.text.push_str("\r\n"),
            (true, true) => {
                let _ = write!(head.text, "Content-Length: {}\r\n\r\n{}", rest.text.len(), rest.text);
            }
            (true, false) => head.text.push_str("Content-Length: "),
        }
        Ok(Request {
            head: head.end(),
            body: (!is_fixed).then(|| rest.end()),
            is_head: method == "HEAD",
            keep: kind.keep_answer && call.take.is_empty(),
            writes: kind.writes(),
            has_login: has("authorization") || has("cookie") || kind.step_of.is_some(),
            cookies: call.cookies,
            expect: call.expect.clone(),
            contains: call.contains.clone(),
            take: Takes::new(&call.take).map_err(|what| bad(&what))?,
        })
    }

    /// What is asked before anything else: whether this is a server that speaks HTTP and takes us.
    pub(crate) fn opening(login: &Login) -> Request {
        let mut text = format!("HEAD {} HTTP/1.1\r\n", login.own_target());
        fields(&mut text, login, &|_| false);
        text.push_str("\r\n");
        Request { head: vec![Part::Bytes(text.into_bytes())], is_head: true, ..Request::default() }
    }

    /// Whether `status` is one that it should be answered with.
    #[inline]
    pub(crate) fn expects(&self, status: u16) -> bool {
        match &self.expect[..] {
            [] => (200..400).contains(&status),
            expected => expected.iter().any(|(first, last)| (*first..=*last).contains(&status)),
        }
    }

    /// The statuses it should be answered with, in words.
    pub(crate) fn expected(&self) -> String {
        let one =
            |(first, last): &(u16, u16)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
        self.expect.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Whether the body of an answer is looked at.
    #[inline]
    pub(crate) fn needs_body(&self) -> bool {
        self.keep || self.contains.is_some() || self.take.need_body()
    }

    /// Appends the request. `scratch` is anybody's memory.
    #[inline]
    pub(crate) fn write(&self, params: Values<'_>, cookies: &Cookies, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let mut at = 0;
        parts(&self.head, params, &mut at, cookies, out);
        if let Some(body) = &self.body {
            scratch.clear();
            parts(body, params, &mut at, cookies, scratch);
            out.extend_from_slice(itoa::Buffer::new().format(scratch.len()).as_bytes());
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(scratch);
        }
    }
}

#[inline]
fn parts(parts: &[Part], params: Values<'_>, at: &mut usize, cookies: &Cookies, out: &mut Vec<u8>) {
    let mut next = || {
        *at += 1;
        params.get(*at - 1)
    };
    for part in parts {
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::Encoded => encoded(out, next(), &PLAIN),
            Part::Target => whole_target(out, next()),
            Part::Field => {
                let from = out.len();
                written(out, next());
                // It must not end the field it stands in.
                out[from..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
            }
            Part::Body => written(out, next()),
            Part::Cookies => cookies.write(out),
        }
    }
}

/// Puts a request's pieces together: what is always the same in one piece.
struct Writer<'k> {
    kind: &'k OpKind,
    parts: Vec<Part>,
    text: String,
}

impl Writer<'_> {
    fn bad(&self, what: &str) -> StoreError {
        StoreError::usage(format!("operation `{}`: {what}", self.kind.name))
    }

    fn part(&mut self, part: Part) {
        if !self.text.is_empty() {
            self.parts.push(Part::Bytes(std::mem::take(&mut self.text).into_bytes()));
        }
        self.parts.push(part);
    }

    fn end(mut self) -> Vec<Part> {
        if !self.text.is_empty() {
            self.parts.push(Part::Bytes(self.text.into_bytes()));
        }
        self.parts
    }

    fn target(&mut self, target: &Template, login: &Login) -> Result<(), StoreError> {
        match &target.0[..] {
            // What the URL names itself.
            [] => {
                self.text.truncate(self.text.len() - login.base.len());
                self.text.push_str(&login.own_target());
            }
            _ if !login.query.is_empty() => {
                return Err(self
                    .bad("it has a path of its own, and the URL a query")
                    .next("Write the query behind the path."));
            }
            [Piece::Param] => self.part(Part::Target),
            _ => {
                let is_plain = |c: char| c.is_ascii_graphic() && c != '#';
                self.template(target, || Part::Encoded, &is_plain)?;
            }
        }
        Ok(())
    }

    fn template(
        &mut self,
        template: &Template,
        part: impl Fn() -> Part,
        may_stand: &dyn Fn(char) -> bool,
    ) -> Result<(), StoreError> {
        for piece in &template.0 {
            let from_environment;
            let text = match piece {
                Piece::Param => {
                    self.part(part());
                    continue;
                }
                Piece::Text(text) => text,
                Piece::Env(name) => {
                    from_environment = std::env::var(name).map_err(|_| {
                        self.bad(&format!("the environment variable {name} is not set"))
                            .next("Set it where Plimsoll is started.")
                    })?;
                    &from_environment
                }
            };
            if !text.chars().all(may_stand) {
                let what = "a target or header has characters that cannot stand there";
                return Err(self.bad(what).next("Percent-encode those of a target."));
            }
            self.text.push_str(text);
        }
        Ok(())
    }
}

/// The fields that every request has, but for those that it `has` itself.
fn fields(text: &mut String, login: &Login, has: &dyn Fn(&str) -> bool) {
    if !has("host") {
        let _ = write!(text, "Host: {}\r\n", login.host);
    }
    if !has("user-agent") {
        text.push_str("User-Agent: plimsoll\r\n");
    }
    if let Some(user) = login.user.as_ref().filter(|_| !has("authorization")) {
        let password = login.password.as_ref().map_or("", |password| password.text());
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let _ = write!(text, "Authorization: Basic {secret}\r\n");
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

/// Those that stand for themselves in a whole one.
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

/// A target that an answer gave, as `Location` does: of a URL its path and query.
fn whole_target(out: &mut Vec<u8>, value: Value<'_>) {
    value.with_bytes(|bytes| {
        let after = bytes.strip_prefix(b"http").map(|rest| rest.strip_prefix(b"s").unwrap_or(rest));
        let path = match after.and_then(|rest| rest.strip_prefix(b"://")) {
            Some(rest) => rest.iter().position(|byte| *byte == b'/').map_or(&b"/"[..], |at| &rest[at..]),
            None => bytes,
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

#[cfg(test)]
mod tests {
    use plimsoll_core::{HttpHeader, StoreErrorKind, ValueBuf, ValueType};

    use super::*;
    use crate::endpoint::resolve;

    fn login(url: &str) -> Login {
        resolve(url, None, Default::default()).unwrap().login
    }

    fn kind(method: &str, target: &str, body: Option<&str>) -> OpKind {
        let call = HttpCall { method: method.into(), body: body.map(Template::of), ..HttpCall::get(target) };
        let params = vec![ValueType::Text; call.params()];
        OpKind { name: "ask".into(), call: Call::Http(call), params, keep_answer: false, step_of: None }
    }

    fn sent(request: &Request, values: &[Value<'_>]) -> String {
        let (mut params, mut out) = (ValueBuf::new(), Vec::new());
        values.iter().for_each(|value| params.push(*value));
        request.write(params.values(), &Cookies::default(), &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parameters_stand_where_they_belong_as_is_right_there() {
        let mut put = kind("PUT", "/{}/of?n={}", Some("[{}]"));
        if let Call::Http(call) = &mut put.call {
            let header = |name: &str, value: &str| HttpHeader { name: name.into(), value: Template::of(value) };
            call.headers = vec![header("X-Id", "<{}>"), header("user-agent", "k6/1.0")];
        }
        put.params = vec![ValueType::Text; 4];
        let request = Request::new(&put, &login("http://ada:pass@h:81/base/")).unwrap();
        let values = [Value::Text("a/b c?ü%"), Value::Int(i64::MIN), Value::Text("x\r\nY: z"), Value::Float(0.5)];
        let expected = "PUT /base/a/b%20c%3F%C3%BC%25/of?n=-9223372036854775808 HTTP/1.1\r\nHost: h:81\r\n\
                        Authorization: Basic YWRhOnBhc3M=\r\nX-Id: <x  Y: z>\r\nuser-agent: k6/1.0\r\n\
                        Content-Length: 5\r\n\r\n[0.5]";
        assert_eq!(sent(&request, &values), expected);
    }

    #[test]
    fn a_target_that_is_one_parameter_stands_as_it_is() {
        let whole = Request::new(&kind("GET", "{}", None), &login("http://h")).unwrap();
        for (value, target) in [
            ("/bytes/64", "/bytes/64"),
            ("/a?b=c%20d&e", "/a?b=c%20d&e"),
            ("/a b", "/a%20b"),
            ("https://h:8443/items/7?x=1", "/items/7?x=1"),
            ("http://h", "/"),
            ("items", "/items"),
        ] {
            let expected = format!("GET {target} HTTP/1.1\r\nHost: h\r\nUser-Agent: plimsoll\r\n\r\n");
            assert_eq!(sent(&whole, &[Value::Text(value)]), expected, "{value}");
        }
    }

    #[test]
    fn no_target_is_what_the_url_names() {
        for (url, target) in [
            ("http://h", "/"),
            ("http://h/", "/"),
            ("http://h/api/items", "/api/items"),
            ("http://h/find?q=1&r", "/find?q=1&r"),
        ] {
            let request = Request::new(&kind("POST", "", Some("x")), &login(url)).unwrap();
            let text = sent(&request, &[]);
            assert!(text.starts_with(&format!("POST {target} HTTP/1.1\r\n")), "{url}: {text}");
            assert!(text.ends_with("\r\nContent-Length: 1\r\n\r\nx"), "{text}");
        }
        assert!(Request::new(&kind("GET", "/other", None), &login("http://h/find?q=1")).is_err());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let mut header = kind("GET", "/", None);
        if let Call::Http(call) = &mut header.call {
            call.headers = vec![HttpHeader { name: "Content-Length".into(), value: Template::of("7") }];
        }
        let mut unset = kind("GET", "/", None);
        if let Call::Http(call) = &mut unset.call {
            call.target = Template(vec![Piece::Text("/".into()), Piece::Env("PLIMSOLL_TEST_NEVER_SET".into())]);
        }
        let mut untold = kind("GET", "/{}", None);
        untold.params.clear();
        for bad in [
            kind("get", "/", None),
            kind("GET", "/ HTTP/1.1\r\nX: y", None),
            kind("CONNECT", "/", None),
            header,
            unset,
            untold,
        ] {
            assert_eq!(Request::new(&bad, &login("http://h")).unwrap_err().kind, StoreErrorKind::Usage, "{bad:?}");
        }
    }
}
