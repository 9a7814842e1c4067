//! Requests, assembled from parts that were made when the session was opened.

use base64::Engine as _;
use plimsoll_core::{Call, HttpCall, OpKind, StoreError, Template, TemplatePiece, Values};
use plimsoll_endpoint::Password;

use crate::cookies::Cookies;
use crate::endpoint::{Login, Version};
use crate::http2::hpack;
use crate::part::{self, Part, fixed, merged};
use crate::take::Takes;

/// Fields that the session itself writes.
const OWN_FIELDS: [&str; 3] = ["content-length", "transfer-encoding", "expect"];

/// Fields that HTTP/2 has no use for, and forbids (RFC 9113, 8.2.2).
const HTTP1_FIELDS: [&str; 4] = ["connection", "keep-alive", "proxy-connection", "upgrade"];

/// A kind of operation, ready to be asked.
#[derive(Debug, Default)]
pub struct Request {
    /// All of the head, and behind that of HTTP/1.1 a body that is always the same.
    head: Vec<Part>,
    /// The body otherwise.
    body: Vec<Part>,
    /// The answer has a head and no body, whatever the head says.
    pub(crate) is_head: bool,
    /// Status and body are wanted.
    pub(crate) keep: bool,
    /// True if the request changes data of the server.
    pub(crate) writes: bool,
    /// True if the request has credentials of its own, in a field.
    pub(crate) has_login: bool,
    /// The target, if the answer may refer to it.
    pub(crate) own_target: Option<Vec<Part>>,
    /// Cookies are kept and sent.
    pub(crate) cookies: bool,
    /// Statuses that are right; 2xx and 3xx if there are none.
    expect: Vec<(u16, u16)>,
    pub(crate) contains: Option<String>,
    pub(crate) take: Takes,
}

/// Contents of a request, in any version of HTTP.
pub(crate) struct Said<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: Vec<Part>,
    /// Fields except for the host.
    pub(crate) fields: Vec<(String, Vec<Part>)>,
    pub(crate) host: Vec<Part>,
    pub(crate) cookies: bool,
    pub(crate) body: Option<Vec<Part>>,
}

impl Request {
    /// Compiles the request of `kind`, for the server of `login`.
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
        let mut writer = Writer { kind, params: 0 };
        let target = writer.target(target, login)?;
        let mut own = Vec::with_capacity(headers.len());
        for header in headers {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if header.name.is_empty() || !header.name.bytes().all(is_name) {
                return Err(bad(&format!("`{}` is no name of a header", header.name)).next("Write Name: value"));
            }
            let is_one_of = |names: &[&str]| names.iter().any(|name| header.name.eq_ignore_ascii_case(name));
            if is_one_of(&OWN_FIELDS) {
                return Err(
                    bad(&format!("the header {} is written by Plimsoll itself", header.name)).next("Leave it out.")
                );
            }
            if login.version == Version::Http2 && is_one_of(&HTTP1_FIELDS) {
                return Err(bad(&format!("HTTP/2 has no header {}", header.name)).next("Leave it out."));
            }
            let value = writer.template(&header.value, Part::Field, &|c| !c.is_control() || c == '\t')?;
            own.push((header.name.clone(), value));
        }
        let body = body.as_ref().map(|body| writer.template(body, Part::Body, &|_| true)).transpose()?;
        let body = match body {
            None if matches!(method.as_str(), "POST" | "PUT" | "PATCH") => Some(Vec::new()),
            body => body,
        };
        let has = |name: &str| headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
        let (host, fields) = fields(login, own);
        let take = Takes::new(&call.take).map_err(|what| bad(&what))?;
        let own_target = take.need_target().then(|| target.clone());
        let said = Said { method, target, fields, host, cookies: call.cookies, body };
        Ok(Request {
            is_head: method == "HEAD",
            keep: kind.keep_answer && call.take.is_empty(),
            writes: kind.writes(),
            has_login: has("authorization") || has("cookie") || kind.step_of.is_some(),
            cookies: call.cookies,
            expect: call.expect.clone(),
            contains: call.contains.clone(),
            take,
            own_target,
            ..Request::written(said, login)
        })
    }

    /// Makes a request for what the URL names. The head of its answer tells if the server speaks HTTP and accepts the user;
    /// its body is not waited for.
    pub(crate) fn opening(login: &Login) -> Request {
        let target = vec![Part::Bytes(login.own_target().into_bytes())];
        let (host, fields) = fields(login, Vec::new());
        let said = Said { method: "GET", target, fields, host, cookies: false, body: None };
        Request { is_head: true, ..Request::written(said, login) }
    }

    /// `said` in the version of HTTP that `login` wants.
    fn written(said: Said<'_>, login: &Login) -> Request {
        match login.version {
            Version::Http11 => http1(said),
            Version::Http2 => {
                let head = hpack::encode(&said, login.is_tls);
                Request { head, body: said.body.unwrap_or_default(), ..Request::default() }
            }
        }
    }

    /// Returns true if `status` is expected.
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

    /// Returns true if the body of an answer is needed.
    #[inline]
    pub(crate) fn needs_body(&self) -> bool {
        self.keep || self.contains.is_some() || self.take.need_body()
    }

    /// Appends the body, where it does not stand behind the head, and then to `out` the head.
    #[inline]
    pub(crate) fn write(&self, params: Values<'_>, cookies: &Cookies, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        part::write(&self.body, params, cookies, 0, body);
        part::write(&self.head, params, cookies, body.len(), out);
    }
}

/// The request as lines.
fn http1(said: Said<'_>) -> Request {
    let mut head = vec![Part::Bytes(format!("{} ", said.method).into_bytes())];
    head.extend(said.target);
    let text = |head: &mut Vec<Part>, text: &str| head.push(Part::Bytes(text.as_bytes().to_vec()));
    text(&mut head, " HTTP/1.1\r\nHost: ");
    head.extend(said.host);
    text(&mut head, "\r\n");
    for (name, value) in said.fields {
        text(&mut head, &format!("{name}: "));
        head.extend(value);
        text(&mut head, "\r\n");
    }
    if said.cookies {
        head.push(Part::Cookies);
    }
    let Some(mut body) = said.body else {
        text(&mut head, "\r\n");
        return Request { head: merged(head), ..Request::default() };
    };
    text(&mut head, "Content-Length: ");
    match fixed(&body) {
        Some(bytes) => {
            text(&mut head, &format!("{}\r\n\r\n", bytes.len()));
            head.append(&mut body);
        }
        None => {
            head.push(Part::Length);
            text(&mut head, "\r\n\r\n");
        }
    }
    Request { head: merged(head), body, ..Request::default() }
}

/// Makes a request's pieces out of templates.
struct Writer<'k> {
    kind: &'k OpKind,
    /// Parameters that have found their places.
    params: usize,
}

impl Writer<'_> {
    fn bad(&self, what: &str) -> StoreError {
        StoreError::usage(format!("operation `{}`: {what}", self.kind.name))
    }

    fn target(&mut self, target: &Template, login: &Login) -> Result<Vec<Part>, StoreError> {
        let mut all = vec![Part::Bytes(login.base.clone().into_bytes())];
        match &target.0[..] {
            // What the URL names itself.
            [] => all = vec![Part::Bytes(login.own_target().into_bytes())],
            _ if !login.query.is_empty() => {
                return Err(self
                    .bad("it has a path of its own, and the URL a query")
                    .next("Write the query behind the path."));
            }
            [TemplatePiece::Param] => {
                let base = login.base.clone().into_bytes();
                all = vec![self.param(|at| Part::Target(at, base))];
            }
            _ => all.extend(self.template(target, Part::Encoded, &|c: char| c.is_ascii_graphic() && c != '#')?),
        }
        Ok(merged(all))
    }

    fn param(&mut self, part: impl FnOnce(usize) -> Part) -> Part {
        self.params += 1;
        part(self.params - 1)
    }

    fn template(
        &mut self,
        template: &Template,
        part: impl Fn(usize) -> Part,
        may_stand: &dyn Fn(char) -> bool,
    ) -> Result<Vec<Part>, StoreError> {
        let mut all = Vec::new();
        for piece in &template.0 {
            let from_environment;
            let text = match piece {
                TemplatePiece::Param => {
                    all.push(self.param(&part));
                    continue;
                }
                TemplatePiece::Text(text) => text,
                TemplatePiece::Env(name) => {
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
            all.push(Part::Bytes(text.clone().into_bytes()));
        }
        Ok(merged(all))
    }
}

/// The host, and the fields that every request has but for those that it has of its `own`, which follow.
fn fields(login: &Login, own: Vec<(String, Vec<Part>)>) -> (Vec<Part>, Vec<(String, Vec<Part>)>) {
    let has = |name: &str| own.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let bytes = |text: String| vec![Part::Bytes(text.into_bytes())];
    let mut all = Vec::with_capacity(own.len() + 2);
    if !has("user-agent") {
        all.push(("User-Agent".to_owned(), bytes("plimsoll".to_owned())));
    }
    if let Some(user) = login.user.as_ref().filter(|_| !has("authorization")) {
        let password = login.password.as_ref().map(Password::text).unwrap_or_default();
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        all.push(("Authorization".to_owned(), bytes(format!("Basic {secret}"))));
    }
    let mut host = bytes(login.host.clone());
    for (name, value) in own {
        match name.eq_ignore_ascii_case("host") {
            true => host = value,
            false => all.push((name, value)),
        }
    }
    (host, all)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{HttpHeader, StoreErrorKind, Value, ValueBuf, ValueType};

    use super::*;
    use crate::endpoint::resolve;

    fn login(url: &str) -> Login {
        resolve(url, None, Default::default(), Version::Http11).unwrap().login
    }

    fn kind(method: &str, target: &str, body: Option<&str>) -> OpKind {
        let call = HttpCall { method: method.into(), body: body.map(Template::of), ..HttpCall::get(target) };
        let params = vec![ValueType::Text; call.params()];
        OpKind { name: "ask".into(), call: Call::Http(call), params, keep_answer: false, step_of: None }
    }

    fn sent(request: &Request, values: &[Value<'_>]) -> String {
        let (mut params, mut body, mut out) = (ValueBuf::new(), Vec::new(), Vec::new());
        values.iter().for_each(|value| params.push(*value));
        request.write(params.values(), &Cookies::default(), &mut body, &mut out);
        out.extend(body);
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
        let whole = Request::new(&kind("GET", "{}", None), &login("http://h/api/")).unwrap();
        for (value, target) in [
            ("/items/7", "/api/items/7"),
            ("items/7", "/api/items/7"),
            ("/api/items/7", "/api/items/7"),
            ("/api?x=1", "/api?x=1"),
            ("/apis", "/api/apis"),
            ("http://h/other/7#top", "/other/7"),
            ("http://h?x=1", "/?x=1"),
        ] {
            let text = sent(&whole, &[Value::Text(value)]);
            assert!(text.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{value}: {text}");
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
            call.target =
                Template(vec![TemplatePiece::Text("/".into()), TemplatePiece::Env("PLIMSOLL_TEST_NEVER_SET".into())]);
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
