//! Values taken from an answer: fields of JSON, of the head, and matches of a regular expression.

use plimsoll_core::{HttpTake, Value, ValueBuf};
use regex::bytes::Regex;

use crate::client::Arrived;
use crate::reference::Base;
use crate::response;

/// Deepest way into JSON.
const DEPTH_MAX: usize = 64;

/// Values taken from the answers of an operation type.
#[derive(Debug, Default)]
pub(crate) struct Takes(Vec<Take>);

#[derive(Debug)]
enum Take {
    Json(Vec<String>),
    Header(String),
    Regex(Regex),
    Status,
    Body,
}

impl Takes {
    /// Compiles `wanted`, or says what is wrong with it.
    pub(crate) fn new(wanted: &[HttpTake]) -> Result<Self, String> {
        let one = |take: &HttpTake| {
            Ok(match take {
                HttpTake::Json(path) if path.len() > DEPTH_MAX => {
                    return Err("a way into JSON of more than 64 names".to_owned());
                }
                HttpTake::Json(path) => Take::Json(path.clone()),
                HttpTake::Header(name) => Take::Header(name.clone()),
                HttpTake::Regex(text) => {
                    Take::Regex(Regex::new(text).map_err(|error| format!("the regular expression `{text}`: {error}"))?)
                }
                HttpTake::Status => Take::Status,
                HttpTake::Body => Take::Body,
            })
        };
        wanted.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the body is needed.
    pub(crate) fn need_body(&self) -> bool {
        self.0.iter().any(|take| matches!(take, Take::Json(_) | Take::Regex(_) | Take::Body))
    }

    /// Returns true if a field is wanted that may refer to the target of the request.
    pub(crate) fn need_target(&self) -> bool {
        self.0.iter().any(|take| matches!(take, Take::Header(name) if is_reference(name)))
    }

    /// Appends what is wanted of an answer to a request for `base`, or says what it has not.
    pub(crate) fn push(&self, arrived: &Arrived<'_>, base: &Base<'_>, values: &mut ValueBuf) -> Result<(), String> {
        let Arrived { status, head, body, .. } = *arrived;
        // Parsed once, for all of its fields.
        let is_json = self.0.iter().any(|take| matches!(take, Take::Json(_)));
        let json = if is_json { serde_json::from_slice::<serde_json::Value>(body).ok() } else { None };
        for take in &self.0 {
            match take {
                Take::Status => values.push(Value::Int(i64::from(status))),
                Take::Body => values.push(Value::Text(text(body)?)),
                Take::Header(name) => {
                    let mut fields =
                        response::fields(head).filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
                    let (_, value) = fields.next().ok_or_else(|| format!("the answer has no header {name}"))?;
                    match text(value)? {
                        value if is_reference(name) => values.push(Value::Text(&base.resolve(value))),
                        value if value.contains('\n') => {
                            let lines: Vec<&str> = value.lines().map(str::trim).collect();
                            values.push(Value::Text(&lines.join(" ")));
                        }
                        value => values.push(Value::Text(value)),
                    }
                }
                Take::Regex(regex) => {
                    let found = regex.captures(body).ok_or_else(|| format!("the body does not match `{regex}`"))?;
                    let part = found.get(1).or(found.get(0)).map_or(&b""[..], |part| part.as_bytes());
                    values.push(Value::Text(text(part)?));
                }
                Take::Json(path) => {
                    let json = json.as_ref().ok_or("the body is no JSON")?;
                    push_json(path, json, values)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns true for a field whose value is a reference (RFC 9110, 8.7 and 10.2.2).
fn is_reference(name: &str) -> bool {
    ["location", "content-location"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "what was to be taken is not UTF-8".to_owned())
}

fn push_json(path: &[String], json: &serde_json::Value, values: &mut ValueBuf) -> Result<(), String> {
    use serde_json::Value as Json;
    let mut at = json;
    for name in path {
        let inner = match at {
            Json::Object(fields) => fields.get(name),
            Json::Array(items) => name.parse::<usize>().ok().and_then(|position| items.get(position)),
            _ => None,
        };
        at = inner.ok_or_else(|| format!("the JSON has no `{}`", path.join(".")))?;
    }
    match at {
        Json::Null => values.push(Value::Null),
        Json::Bool(value) => values.push(Value::Bool(*value)),
        Json::String(value) => values.push(Value::Text(value)),
        Json::Number(number) => match number.as_i64() {
            Some(value) => values.push(Value::Int(value)),
            None => values.push(Value::Text(&number.to_string())),
        },
        whole => values.push(Value::Text(&whole.to_string())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(take: HttpTake, head: &str, body: &str) -> Result<String, String> {
        let (takes, mut values) = (Takes::new(&[take])?, ValueBuf::new());
        let (head, body) = (head.as_bytes(), body.as_bytes());
        let arrived = Arrived { status: 201, retry_after: false, head, body, body_bytes: 0 };
        takes.push(&arrived, &Base { scheme: "http", target: Some(b"/a/b?c") }, &mut values)?;
        Ok(format!("{:?}", values.values().get(0)))
    }

    #[test]
    fn fields_are_found_and_what_is_not_there_is_said() {
        let json = |path: &str| HttpTake::Json(path.split('.').map(str::to_owned).collect());
        let body = r#"{"data": {"token": "a\u00fcb", "ids": [7, 8.5], "on": true, "none": null}}"#;
        for (path, value) in [
            ("data.token", "Text(\"aüb\")"),
            ("data.ids.0", "Int(7)"),
            ("data.ids.1", "Text(\"8.5\")"),
            ("data.ids", "Text(\"[7,8.5]\")"),
            ("data.on", "Bool(true)"),
            ("data.none", "Null"),
        ] {
            assert_eq!(taken(json(path), "", body).as_deref(), Ok(value), "{path}");
        }
        let head = "HTTP/1.1 201 Created\r\nX: y\r\nlocation: /items/7\r\n\r\n";
        assert_eq!(taken(HttpTake::Header("Location".into()), head, "").as_deref(), Ok("Text(\"/items/7\")"));
        let relative = |to: &str| format!("HTTP/1.1 303 See Other\r\nLocation: {to}\r\n\r\n");
        for (to, path) in [("../items/8", "/items/8"), ("?page=2", "/a/b?page=2"), ("http://h/x", "http://h/x")] {
            let value = taken(HttpTake::Header("Location".into()), &relative(to), "");
            assert_eq!(value, Ok(format!("Text({path:?})")), "{to}");
        }
        let folded = "HTTP/1.1 200 OK\r\nX: one,\r\n two\r\n\r\n";
        assert_eq!(taken(HttpTake::Header("X".into()), folded, "").as_deref(), Ok("Text(\"one, two\")"));
        assert_eq!(taken(HttpTake::Status, head, "").as_deref(), Ok("Int(201)"));
        let regex = |text: &str| HttpTake::Regex(text.to_owned());
        assert_eq!(taken(regex("csrf=(\\w+)"), "", "<csrf=ab1>").as_deref(), Ok("Text(\"ab1\")"));
        assert_eq!(taken(regex("[0-9]+"), "", "a 42").as_deref(), Ok("Text(\"42\")"));
        for (take, words) in [
            (json("data.user"), "no `data.user`"),
            (json("data.ids.9"), "no `data.ids.9`"),
            (HttpTake::Header("ETag".into()), "no header ETag"),
            (regex("x(y)"), "does not match"),
            (regex("("), "regular expression"),
        ] {
            let error = taken(take, head, body).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(taken(json("a"), "", "<html>").unwrap_err().contains("no JSON"));
    }
}
