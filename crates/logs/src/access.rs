//! Access logs of web servers: the common log format, and anything behind it.
//!
//! `host ident user [time] "request" status bytes`, then in any order quoted texts (referer, user agent), words, and a
//! response time, which `took` finds.

use memchr::memchr;
use plimsoll_core::{KindId, Outcome};

use crate::line::{LineReader, LoggedOp, position};
use crate::scan::{quoted, whole, word};

/// Operation types: methods.
pub(crate) const KINDS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "other"];

/// Reads a line.
pub(crate) fn op(reader: &mut LineReader, line: &[u8]) -> Option<LoggedOp> {
    let (op, rest) = common_part(reader, line)?;
    Some(LoggedOp { took_ns: reader.took(rest).ns(rest), ..op })
}

/// Reads the common part of a line. Returns the operation without a response time, and the text behind that part.
pub(crate) fn common_part<'l>(reader: &mut LineReader, line: &'l [u8]) -> Option<(LoggedOp, &'l [u8])> {
    let (at_us, rest) = reader.time_in_brackets(line)?;
    let (request, rest) = quoted(rest.strip_prefix(b"]")?)?;
    let (status, rest) = word(rest);
    let status = if status == b"-" { 0 } else { whole(status)? };
    let (bytes, rest) = word(rest);
    let bytes = if bytes == b"-" || bytes.is_empty() { 0 } else { whole(bytes)? };
    let kind = method(request);
    let code = u16::try_from(status).unwrap_or(0);
    Some((LoggedOp { at_us, took_ns: None, kind, outcome: outcome(kind, status), code, bytes }, rest))
}

/// Returns the operation type of a request, `GET /index.html HTTP/1.1`.
pub(crate) fn method(request: &[u8]) -> KindId {
    let method = &request[..memchr(b' ', request).unwrap_or(request.len())];
    position(&KINDS, |kind| kind.as_bytes() == method)
}

/// Returns the outcome of a request with this status, or with 0 if it had no answer. A client that has gone away (499
/// of nginx) and a server that fails to answer a write leave it unknown.
pub(crate) fn outcome(kind: KindId, status: u64) -> Outcome {
    let writes = || matches!(KINDS.get(usize::from(kind)), Some(&("POST" | "PUT" | "DELETE" | "PATCH" | "other")));
    match status {
        0 | 499 => Outcome::Unknown,
        404 | 410 => Outcome::NotFound,
        501 | 505 => Outcome::Rejected,
        500.. if writes() => Outcome::Unknown,
        400.. => Outcome::Rejected,
        _ => Outcome::Ok,
    }
}
