//! HTTP log of HAProxy (`option httplog`), with or without the prefix of syslog.
//!
//! `client [time] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes …"request"`. The time is that of the request;
//! `Ta` is the whole time in milliseconds.

use memchr::memchr;

use crate::access::{method, outcome};
use crate::line::{LineReader, LoggedOp};
use crate::scan::{signed, whole, word};

/// Times that are longer are none of the format: 34 years.
const TOTAL_MAX_MS: i64 = 1 << 40;

/// Reads a line.
pub(crate) fn op(reader: &mut LineReader, line: &[u8]) -> Option<LoggedOp> {
    let (begun_us, rest) = reader.time_in_brackets(line)?;
    let (_frontend, rest) = word(rest.strip_prefix(b"]")?);
    let (server, rest) = word(rest);
    memchr(b'/', server)?;
    let (timers, rest) = word(rest);
    let mut parts = timers.split(|byte| *byte == b'/');
    let total = parts.nth(4)?;
    // A plus sign stands before the time if the line was written before the end of the answer.
    let total_ms = signed(total.strip_prefix(b"+").unwrap_or(total)).filter(|ms| *ms < TOTAL_MAX_MS)?;
    if parts.next().is_some() {
        return None;
    }
    let (status, rest) = word(rest);
    // Without an answer the status is -1.
    let status = u64::try_from(signed(status)?).unwrap_or(0);
    let (bytes, rest) = word(rest);
    let bytes = bytes.strip_prefix(b"+").unwrap_or(bytes);
    let request = memchr(b'"', rest).map_or(&b""[..], |at| &rest[at + 1..]);
    let kind = method(request);
    let took_ms = u64::try_from(total_ms).ok();
    Some(LoggedOp {
        at_us: begun_us.saturating_add(total_ms.max(0).saturating_mul(1_000)),
        took_ns: took_ms.map(|ms| ms.saturating_mul(1_000_000)),
        kind,
        outcome: outcome(kind, status),
        code: u16::try_from(status).unwrap_or(0),
        bytes: whole(bytes)?,
    })
}
