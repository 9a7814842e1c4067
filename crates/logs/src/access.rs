//! Access logs of web servers: the common log format, and anything behind it.
//!
//! `host ident user [time] "request" status bytes`, then in any order quoted texts (referer, user agent), words, and a
//! response time: a bare number, or a word such as `rt=0.005`. The first one counts.

use memchr::memchr;
use plimsoll_core::{KindId, Outcome};

use crate::line::{LineReader, LoggedOp, TimeUnit, position};
use crate::scan::{billionths, quoted, whole, word};

/// Operation types: methods.
pub(crate) const KINDS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "other"];
/// Names of words that have the response time.
const TIMES: [&[u8]; 5] = [b"rt", b"request_time", b"duration", b"time", b"took"];

/// Reads a line.
pub(crate) fn op(reader: &mut LineReader, line: &[u8]) -> Option<LoggedOp> {
    let (at_us, rest) = reader.time_in_brackets(line)?;
    let (request, rest) = quoted(rest.strip_prefix(b"]")?)?;
    let (status, rest) = word(rest);
    let status = if status == b"-" { 0 } else { whole(status)? };
    let (bytes, rest) = word(rest);
    let bytes = if bytes == b"-" || bytes.is_empty() { 0 } else { whole(bytes)? };
    let kind = method(request);
    let (took_ns, outcome) = (took_ns(rest, reader.options.unit), outcome(kind, status));
    Some(LoggedOp { at_us, took_ns, kind, outcome, code: u16::try_from(status).unwrap_or(0), bytes })
}

/// Returns the operation type of a request, `GET /index.html HTTP/1.1`.
pub(crate) fn method(request: &[u8]) -> KindId {
    let method = &request[..memchr(b' ', request).unwrap_or(request.len())];
    position(&KINDS, |kind| kind.as_bytes() == method)
}

/// Returns the outcome of a request with this status, or with 0 if it had no answer. A client that has gone away (499
/// of nginx) and a server that fails to answer a write leave it unknown.
pub(crate) fn outcome(kind: KindId, status: u64) -> Outcome {
    let writes = matches!(KINDS.get(usize::from(kind)), Some(&("POST" | "PUT" | "DELETE" | "PATCH" | "other")));
    match status {
        0 | 499 => Outcome::Unknown,
        404 | 410 => Outcome::NotFound,
        501 | 505 => Outcome::Rejected,
        500.. if writes => Outcome::Unknown,
        400.. => Outcome::Rejected,
        _ => Outcome::Ok,
    }
}

/// Finds the response time behind the common part of a line.
fn took_ns(mut rest: &[u8], unit: Option<TimeUnit>) -> Option<u64> {
    let mut bare = None;
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => return bare,
            Some(b'"') => {
                let Some((_, behind)) = quoted(rest) else { return bare };
                rest = behind;
            }
            Some(_) => {
                let (one, behind) = word(rest);
                rest = behind;
                match memchr(b'=', one) {
                    Some(at) if TIMES.contains(&&one[..at]) => {
                        if let Some(ns) = nanoseconds(unquoted(&one[at + 1..]), unit) {
                            return Some(ns);
                        }
                    }
                    Some(_) => {}
                    None => bare = bare.or_else(|| nanoseconds(one, unit)),
                }
            }
        }
    }
}

fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text)
}

fn nanoseconds(text: &[u8], unit: Option<TimeUnit>) -> Option<u64> {
    let (billionths, has_point) = billionths(text)?;
    Some(match unit {
        Some(TimeUnit::Seconds) => billionths,
        None if has_point => billionths,
        Some(TimeUnit::Milliseconds) => billionths / 1_000,
        Some(TimeUnit::Microseconds) | None => billionths / 1_000_000,
    })
}
