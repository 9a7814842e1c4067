//! Access logs of directory servers: 389 Directory Server, and OpenLDAP's slapd with the log level `stats`.
//!
//! Both have a line with `RESULT` at the end of each operation, with its `tag`, its result code `err` and, in seconds,
//! its `etime`. The tag is that of the response in the protocol (RFC 4511).

use memchr::memmem;
use plimsoll_core::{KindId, Outcome, log_time};

use crate::line::{LineReader, LogLine, LoggedOp, position};
use crate::scan::{billionths, signed, whole};

/// Operation types.
pub(crate) const KINDS: [&str; 9] =
    ["bind", "search", "modify", "add", "delete", "modrdn", "compare", "extended", "other"];
/// Tags of responses, in the order of [`KINDS`].
const TAGS: [u64; 8] = [97, 101, 103, 105, 107, 109, 111, 120];

/// Reads a line.
pub(crate) fn line(reader: &mut LineReader, line: &[u8]) -> LogLine {
    let Some(at) = memmem::find(line, b" RESULT ") else {
        let is_access = memmem::find(line, b"conn=").is_some() && time_us(reader, line).is_some();
        // Headers of 389 Directory Server's files.
        let is_header = line.starts_with(b"\t");
        return if is_access || is_header { LogLine::Ignored } else { LogLine::Broken };
    };
    let Some(at_us) = time_us(reader, line) else { return LogLine::Broken };
    let rest = &line[at..];
    let Some(tag) = field(rest, b" tag=").and_then(whole) else { return LogLine::Ignored };
    let Some(result) = field(rest, b" err=").and_then(signed) else { return LogLine::Broken };
    let took_ns = field(rest, b" etime=").and_then(billionths).map(|(ns, _)| ns);
    let code = u16::try_from(result).unwrap_or(0);
    LogLine::Op(LoggedOp { at_us, took_ns, kind: kind(tag), outcome: outcome(result), code, bytes: 0 })
}

fn kind(tag: u64) -> KindId {
    let at = TAGS.iter().position(|one| *one == tag);
    at.map_or_else(|| position(&KINDS, |_| false), |at| at as KindId)
}

/// Returns the outcome of a result code (RFC 4511, appendix A). Answers to comparisons, referrals and the steps of a
/// bind are no errors. After an exceeded time limit or a failure of the server the outcome is unknown.
fn outcome(code: i64) -> Outcome {
    match code {
        0 | 5 | 6 | 10 | 14 => Outcome::Ok,
        32 => Outcome::NotFound,
        1 | 3 | 80 | ..0 => Outcome::Unknown,
        _ => Outcome::Rejected,
    }
}

/// Returns the value of a field, up to the next blank.
fn field<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let value = &line[memmem::find(line, name)? + name.len()..];
    Some(&value[..memchr::memchr(b' ', value).unwrap_or(value.len())])
}

/// Returns the time at the beginning of a line: in brackets, of ISO 8601, of syslog, or in slapd's hexadecimal digits.
fn time_us(reader: &mut LineReader, line: &[u8]) -> Option<i64> {
    if let Some(text) = line.strip_prefix(b"[") {
        return reader.common_time(text).map(|(at_us, _)| at_us);
    }
    let options = reader.options;
    let iso = || log_time::iso(line, options.zone_s);
    let time = iso().or_else(|| log_time::syslog(line, options.zone_s, options.newest_us));
    time.map(|(at_us, _)| at_us).or_else(|| hexadecimal_us(line))
}

/// Parses slapd's own time: seconds, a point, and nanoseconds with eight digits or microseconds with five.
fn hexadecimal_us(line: &[u8]) -> Option<i64> {
    let word = &line[..memchr::memchr(b' ', line)?];
    let number = |digits: &[u8]| {
        let text = std::str::from_utf8(digits).ok()?;
        i64::from_str_radix(text, 16).ok().filter(|_| (1..=8).contains(&text.len()) && !text.starts_with(['+', '-']))
    };
    let Some(point) = memchr::memchr(b'.', word) else {
        return number(word).filter(|_| word.len() == 8).map(|seconds| seconds * 1_000_000);
    };
    let (seconds, part) = (number(&word[..point])?, &word[point + 1..]);
    let part_us = if part.len() > 5 { number(part)? / 1_000 } else { number(part)? };
    Some(seconds * 1_000_000 + part_us)
}
