//! HTTP requests: the request itself, the checks of its answer, and the values taken from it.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize, Serializer};

/// Replacement for a secret value.
pub const HIDDEN: &str = "***";

/// An HTTP request. Answer: one row with the values of [`HttpCall::take`]; without those, of the status (an integer)
/// and the body (bytes).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpCall {
    /// `GET`, `PUT` …
    pub method: String,
    /// Path and query. A parameter is percent-encoded except for `/`; a parameter that is the whole target is sent as
    /// it is.
    #[serde(serialize_with = "shown")]
    pub target: Template,
    /// Header fields besides those that every request has.
    pub headers: Vec<HttpHeader>,
    /// Body of the request.
    #[serde(serialize_with = "shown_body")]
    pub body: Option<Template>,
    /// Ranges of statuses that count as success; 200 to 399 if empty.
    pub expect: Vec<(u16, u16)>,
    /// Text that the body must contain.
    pub contains: Option<String>,
    /// Values taken from the answer, one column each.
    pub take: Vec<HttpTake>,
    /// The client keeps the cookies that it receives, and sends them.
    pub cookies: bool,
}

/// A text with places for parameters, in this order: those of the target, of the headers, of the body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Template(pub Vec<TemplatePiece>);

/// A piece of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplatePiece {
    /// Literal text.
    Text(String),
    /// The next parameter.
    Param,
    /// The value of an environment variable: a secret.
    Env(String),
}

/// A header field of a request.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Header<V> {
    /// Name of the field.
    pub name: String,
    /// Value of the field.
    pub value: V,
}

/// A header field of an operation type.
pub type HttpHeader = Header<Template>;
/// A header field as a user writes it.
pub type RequestHeader = Header<String>;

/// A text that may hold secrets.
pub trait SecretText: Clone {
    /// Masks the values of secret names in the text.
    fn masked(&self) -> Self;

    /// Masks all of the text except for its variables.
    fn hidden(&self) -> Self;
}

impl SecretText for String {
    fn masked(&self) -> Self {
        masked(self)
    }

    fn hidden(&self) -> Self {
        replaced(self, &literals(0..self.len(), self))
    }
}

impl SecretText for Template {
    fn masked(&self) -> Self {
        self.with_texts(masked)
    }

    fn hidden(&self) -> Self {
        self.with_texts(|_| HIDDEN.to_owned())
    }
}

impl<V: SecretText> Header<V> {
    /// The value with secrets masked.
    pub fn shown(&self) -> V {
        if is_secret(&self.name) { self.value.hidden() } else { self.value.clone() }
    }
}

impl<V: SecretText + fmt::Display> fmt::Debug for Header<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.shown())
    }
}

impl<V: SecretText + Serialize> Serialize for Header<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Header", 2)?;
        fields.serialize_field("name", &self.name)?;
        fields.serialize_field("value", &self.shown())?;
        fields.end()
    }
}

fn shown<T: SecretText + Serialize, S: Serializer>(text: &T, serializer: S) -> Result<S::Ok, S::Error> {
    text.masked().serialize(serializer)
}

fn shown_body<T: SecretText + Serialize, S: Serializer>(body: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    body.as_ref().map(T::masked).serialize(serializer)
}

/// A value taken from an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpTake {
    /// A field of the JSON body: names and positions, from the outside in.
    Json(Vec<String>),
    /// A header field.
    Header(String),
    /// The match of this regular expression's first group in the body, or the whole match if it has no group.
    Regex(String),
    /// The status.
    Status,
    /// The whole body.
    Body,
}

impl HttpCall {
    /// A GET of `target`, which has a parameter for each `{}`.
    pub fn get(target: &str) -> Self {
        Self { method: "GET".to_owned(), target: Template::of(target), ..Self::default() }
    }

    /// Number of parameters.
    pub fn params(&self) -> usize {
        self.templates().map(Template::params).sum()
    }

    /// Iterates over the templates, in the order of their parameters.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        [&self.target].into_iter().chain(self.headers.iter().map(|header| &header.value)).chain(&self.body)
    }
}

impl Template {
    /// `text` with a parameter for each `{}`.
    pub fn of(text: &str) -> Self {
        let mut pieces = Vec::new();
        for (at, piece) in text.split("{}").enumerate() {
            if at > 0 {
                pieces.push(TemplatePiece::Param);
            }
            if !piece.is_empty() {
                pieces.push(TemplatePiece::Text(piece.to_owned()));
            }
        }
        Self(pieces)
    }

    fn with_texts(&self, text: impl Fn(&str) -> String) -> Template {
        let replaced = |piece: &TemplatePiece| match piece {
            TemplatePiece::Text(literal) => TemplatePiece::Text(text(literal)),
            other => other.clone(),
        };
        Template(self.0.iter().map(replaced).collect())
    }

    /// Number of parameters.
    pub fn params(&self) -> usize {
        self.0.iter().filter(|piece| **piece == TemplatePiece::Param).count()
    }
}

/// Shows the template with secrets masked.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole: String = self
            .0
            .iter()
            .map(|piece| match piece {
                TemplatePiece::Text(text) => text.clone(),
                TemplatePiece::Param => "{}".to_owned(),
                TemplatePiece::Env(name) => format!("${{env.{name}}}"),
            })
            .collect();
        f.write_str(&masked(&whole))
    }
}

/// A request as a user writes it: its texts hold variables and expressions as `${…}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpRequest {
    /// `GET`, `PUT` …
    pub method: String,
    /// Path and query; empty for those of the URL.
    #[serde(serialize_with = "shown")]
    pub path: String,
    /// Header fields of the request.
    pub headers: Vec<RequestHeader>,
    /// Body of the request.
    #[serde(serialize_with = "shown_body")]
    pub body: Option<String>,
    /// Statuses that count as success, as `200-299, 404`; empty for 200 to 399.
    pub expect: String,
    /// Text that the answer's body must contain.
    pub contains: Option<String>,
    /// Variables that are set before the request is sent, with their expressions.
    pub set: Vec<(String, String)>,
    /// Variables that are taken from the answer, with their locations in it.
    pub take: Vec<(String, String)>,
}

/// Masks the values of secret headers, and of fields named `password`, `token` and the like in `text`.
pub fn masked(text: &str) -> String {
    replaced(text, &secret_ranges(text))
}

fn replaced(text: &str, ranges: &[Range<usize>]) -> String {
    let mut shown = text.to_owned();
    ranges.iter().rev().for_each(|range| shown.replace_range(range.clone(), HIDDEN));
    shown
}

/// Parts of `range` of `text` that are neither `${…}` nor blank.
fn literals(range: Range<usize>, text: &str) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), range.start);
    while let Some(rest) = text.get(at..range.end).filter(|rest| !rest.is_empty()) {
        let variable = rest.find("${").and_then(|from| Some((from, from + rest.get(from..)?.find('}')? + 1)));
        let (end, next) = variable.unwrap_or((rest.len(), rest.len()));
        if !rest.get(..end).unwrap_or_default().trim().is_empty() {
            found.push(at..at + end);
        }
        at += next;
    }
    found
}

/// Ends of names of secrets, in lower case without `-` and `_`.
const SECRET_ENDS: [&str; 16] = [
    "accesskey",
    "apikey",
    "authkey",
    "authorization",
    "cookie",
    "credentials",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "sessionid",
    "signature",
    "token",
];

/// True if `name` is that of a secret: a header, a field of a body, a parameter of a URL.
pub fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
    // `sig` signs URLs of Azure.
    plain == "sig" || SECRET_ENDS.iter().any(|end| plain.ends_with(end))
}

/// Byte ranges of the secrets in `text`, in order and without overlaps: the values of fields whose name
/// [`is_secret`], as written in headers, JSON, TOML, forms and queries. Values written as `${…}` are not secrets.
pub fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let (mut ranges, mut after) = (Vec::new(), 0);
    for (at, found) in text.match_indices([':', '=', 'r', 'R']) {
        let value = match found {
            _ if at < after => None,
            "r" | "R" => bearer(text, at + 1),
            separator => secret_value(text, at, separator == ":"),
        };
        if let Some(value) = value {
            after = value.end;
            ranges.extend(literals(value, text));
        }
    }
    ranges
}

/// Range of the token at `at`, if `Bearer ` precedes it.
fn bearer(text: &str, at: usize) -> Option<Range<usize>> {
    let word = at.checked_sub("bearer".len()).and_then(|from| text.get(from..at))?;
    let value = text.get(at..)?.strip_prefix(' ')?;
    let length = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')).unwrap_or(value.len());
    word.eq_ignore_ascii_case("bearer").then_some(at + 1..at + 1 + length)
}

/// Range of the value behind the separator at `at`, if the name before that is a secret's.
fn secret_value(text: &str, at: usize, is_colon: bool) -> Option<Range<usize>> {
    let is_quote = |c: char| matches!(c, '"' | '\'');
    let before = text.get(..at)?.trim_end_matches([' ', '\t']);
    let unquoted = before.trim_end_matches(is_quote).trim_end_matches('\\');
    let name_start = unquoted.rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')));
    let name_start = name_start
        .map_or(0, |at| at + unquoted.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let name = unquoted.get(name_start..).filter(|name| is_secret(name))?;
    let start = at + 1;
    let rest = text.get(start..)?;
    let value = rest.trim_start_matches([' ', '\t']);
    let opening = value.trim_start_matches('\\');
    let start = start + (rest.len() - value.len());
    if let Some(quote) = opening.chars().next().filter(|c| is_quote(*c)) {
        let escapes = value.len() - opening.len();
        let start = start + escapes + 1;
        return Some(start..start + quoted(text.get(start..)?, quote, escapes));
    }
    let outer = text.get(..name_start).and_then(|before| before.chars().next_back());
    // A header, in a request or behind an option: it extends to the end of its line or text.
    let is_header = is_colon
        && before.len() == unquoted.len()
        && (outer.is_none_or(|c| is_quote(c) || c == '\n')
            || name.contains('-')
            || name.len() == "cookie".len()
            || is_authorization(name));
    if is_header {
        let line = value.lines().next().unwrap_or_default();
        let length = outer.filter(|c| is_quote(*c)).map_or(line.len(), |quote| quoted(line, quote, 0));
        return Some(start..start + length);
    }
    if is_colon && before.len() == unquoted.len() {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || is_quote(c) || matches!(c, '&' | ',' | ';' | '}' | ']' | '#' | '\\');
    // An expression may contain blanks.
    let mut length = 0;
    while let Some(rest) = value.get(length..) {
        match (rest.strip_prefix("${").and_then(|inside| inside.find('}')), rest.chars().next()) {
            (Some(inside), _) => length += inside + 3,
            (None, Some(c)) if !ends(c) => length += c.len_utf8(),
            _ => break,
        }
    }
    Some(start..start + length)
}

fn is_authorization(name: &str) -> bool {
    name.len() >= 13 && name.to_ascii_lowercase().ends_with("authorization")
}

/// Length of the text before the next `quote` with this many backslashes before it.
pub fn quoted(text: &str, quote: char, escapes: usize) -> usize {
    let ends = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        let slashes = before.len() - before.trim_end_matches('\\').len();
        (slashes == escapes).then(|| at - slashes)
    };
    text.match_indices(quote).find_map(|(at, _)| ends(at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_neither_printed_nor_written_down() {
        let header = |name: &str, value: Vec<TemplatePiece>| HttpHeader { name: name.into(), value: Template(value) };
        let call = HttpCall {
            headers: vec![
                header("authorization", vec![TemplatePiece::Text("Bearer s3cret".into())]),
                header("Cookie", vec![TemplatePiece::Text("id=s3cret".into()), TemplatePiece::Param]),
                header("X-Key", vec![TemplatePiece::Env("KEY".into())]),
                header("Accept", vec![TemplatePiece::Text("text/html".into())]),
            ],
            ..HttpCall::get("/{}/of?n={}")
        };
        let printed = format!("{call:?}");
        assert!(!printed.contains("s3cret") && printed.contains("text/html"), "{printed}");
        assert_eq!((format!("{:?}", call.headers[1]).as_str(), call.params()), ("Cookie: ***{}", 3));
        for (text, shown) in [("Bearer s3cret", "***"), ("Bearer ${token}", "***${token}"), ("${env.T}", "${env.T}")] {
            assert_eq!(text.to_owned().hidden(), shown);
        }
        assert_eq!("a${b".to_owned().hidden(), "***");
        let request = HttpRequest {
            body: Some("user=ada&password=s3cret".into()),
            path: "/?token=s3cret".into(),
            ..HttpRequest::default()
        };
        let written = serde_json::to_string(&(&request, &call)).unwrap();
        assert!(!written.contains("s3cret") && written.contains("user=ada"), "{written}");
    }

    #[test]
    fn secrets_are_found_by_their_names_however_they_are_written() {
        for (text, shown) in [
            ("Authorization: Bearer s3 cr=et", "Authorization: ***"),
            ("-HAuthorization: Bearer a\nAccept: b", "-HAuthorization: ***\nAccept: b"),
            ("--header=Cookie: a=\"b\"; c", "--header=Cookie: ***"),
            ("x-api-key:abc", "x-api-key:***"),
            ("headers = [\"Authorization: B a\", \"Accept: b\"]", "headers = [\"Authorization: ***\", \"Accept: b\"]"),
            ("headers = [\"Cookie: a=\\\"b\\\"; c\", \"Accept: b\"]", "headers = [\"Cookie: ***\", \"Accept: b\"]"),
            (
                "{ Authorization = \"Bearer ${token}\", Accept = \"b\" }",
                "{ Authorization = \"***${token}\", Accept = \"b\" }",
            ),
            ("\"X-Auth-Token\" = 'a b'", "\"X-Auth-Token\" = '***'"),
            (
                "{\"user\": \"ada\", \"password\": \"p, \\\"q\", \"n\": 1}",
                "{\"user\": \"ada\", \"password\": \"***\", \"n\": 1}",
            ),
            ("\"{\\\"token\\\": \\\"abc\\\"}\"", "\"{\\\"token\\\": \\\"***\\\"}\""),
            ("/login?user=a&access_token=abc&n=1", "/login?user=a&access_token=***&n=1"),
            ("password=${random(1, 9)}&token=${t}x", "password=${random(1, 9)}&token=${t}***"),
            ("{\"token\": 123}", "{\"token\": ***}"),
            ("/o?X-Amz-Signature=ab12&x=1", "/o?X-Amz-Signature=***&x=1"),
            ("/o?sv=1&sig=ab%2F&se=2", "/o?sv=1&sig=***&se=2"),
            ("user=a&pwd=b&config=c", "user=a&pwd=***&config=c"),
            ("{\"passphrase\": \"p\", \"jwt\": \"j\"}", "{\"passphrase\": \"***\", \"jwt\": \"***\"}"),
            ("Authorization Bearer abc\"", "Authorization Bearer ***\""),
            ("unexpected token: `x`", "unexpected token: `x`"),
            ("--password-file=/run/secret", "--password-file=/run/secret"),
            ("ü=1 token=ü end", "ü=1 token=*** end"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Ranges are parts of any text, in order.
        #[test]
        fn secret_ranges_are_ranges_of_the_text(text in "([tT]oken|cookie|[ \"'\\\\:=$&{}\n]|.){0,40}") {
            let mut end = 0;
            for range in secret_ranges(&text) {
                proptest::prop_assert!(range.start >= end && range.start < range.end && text.get(range.clone()).is_some());
                end = range.end;
            }
        }
    }
}
