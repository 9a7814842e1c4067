//! Pauses in the unified log of a Java virtual machine (`-Xlog:gc:file=gc.log:time,level,tags`, from version 9 on).
//!
//! `[2026-11-29T16:15:29.123+0000][info][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms`.
//! A line has a time of day, by the decoration `time` or `utctime`: seconds since the start alone tell no time.

use memchr::memmem;
use plimsoll_core::log_time;

use crate::line::{LineReader, LogLine};
use crate::scan::billionths;

/// Reads a line.
pub(crate) fn line(reader: &LineReader, line: &[u8]) -> LogLine {
    let time = line.strip_prefix(b"[").and_then(|text| log_time::iso(text, reader.options.zone_s));
    let Some((at_us, rest)) = time.filter(|(_, rest)| rest.starts_with(b"]")) else { return LogLine::Broken };
    match length_ns(rest) {
        Some(took_ns) => LogLine::Pause { at_us, took_ns },
        // Other programs write a time in brackets, too, but no other decoration behind it.
        None if rest.starts_with(b"][") => LogLine::Ignored,
        None => LogLine::Broken,
    }
}

/// Returns the length of a pause, in nanoseconds.
fn length_ns(rest: &[u8]) -> Option<u64> {
    let message = &rest[memmem::find(rest, b" GC(")?..];
    let message = &message[memmem::find(message, b") ")? + 2..];
    // Phases of a pause are indented.
    let message = message.strip_prefix(b"Pause ")?;
    let length = message.trim_ascii_end().strip_suffix(b"ms")?;
    let number = length.rsplit(|byte| *byte == b' ').next()?;
    billionths(number).map(|(billionths, _)| billionths / 1_000)
}
