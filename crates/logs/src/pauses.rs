//! Pauses in the log of a Java virtual machine: for its garbage collector, and at other safepoints.
//!
//! From version 9 on the log is unified (`-Xlog:gc,safepoint:file=gc.log:time,level,tags`):
//! `[2026-11-29T16:15:29.123+0000][info][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms`.
//! Version 8 has a line per collection (`-Xloggc:gc.log -XX:+PrintGCDetails -XX:+PrintGCDateStamps`):
//! `2026-11-29T16:15:29.123+0000: 1.234: [GC (Allocation Failure) 153344K->17023K(494592K), 0.0124 secs]`.
//! A line has a time of day: seconds since the start alone tell no time.

use memchr::memmem;
use plimsoll_core::log_time;

use crate::line::{LineReader, LogLine};
use crate::scan::{billionths, whole, word};

/// Beginning of a message with the length of a safepoint, up to version 12.
const STOPPED: &[u8] = b"Total time for which application threads were stopped: ";
/// Beginnings of lines that version 8 writes at the top of a file.
const HEADERS: [&[u8]; 4] = [b"OpenJDK ", b"Java HotSpot(TM) ", b"Memory: ", b"CommandLine flags: "];
/// Shortest time of a safepoint beyond the collections in it that is a pause of its own, in nanoseconds. Each one takes
/// some microseconds.
const REST_MIN_NS: u64 = 1_000_000;

/// Reads a line.
pub(crate) fn line(reader: &mut LineReader, line: &[u8]) -> LogLine {
    match line.strip_prefix(b"[") {
        Some(text) => unified(reader, text),
        None => of_version_8(reader, line),
    }
}

/// Reads a line of a unified log behind its first bracket.
fn unified(reader: &mut LineReader, text: &[u8]) -> LogLine {
    let time = log_time::iso(text, reader.options.zone_s);
    let Some((at_us, rest)) = time.filter(|(_, rest)| rest.starts_with(b"]")) else { return LogLine::Broken };
    if let Some(took_ns) = length_ns(rest) {
        return collection(reader, at_us, took_ns);
    }
    match stopped_ns(rest) {
        Some(stopped_ns) => safepoint(reader, at_us, stopped_ns),
        // Other programs write a time in brackets, too, but no other decoration behind it.
        None if rest.starts_with(b"][") => LogLine::Ignored,
        None => LogLine::Broken,
    }
}

/// Reads a line of version 8. Details of a collection are indented.
fn of_version_8(reader: &mut LineReader, line: &[u8]) -> LogLine {
    if HEADERS.iter().any(|begin| line.starts_with(begin)) || line.starts_with(b" ") {
        return LogLine::Ignored;
    }
    let time = log_time::iso(line, reader.options.zone_s);
    let Some((at_us, rest)) = time.and_then(|(at_us, rest)| Some((at_us, rest.strip_prefix(b": ")?))) else {
        return LogLine::Broken;
    };
    let (since_start, message) = word(rest);
    let message = message.trim_ascii_start();
    if since_start.strip_suffix(b":").and_then(billionths).is_none() {
        return LogLine::Broken;
    }
    if let Some(took_ns) = collection_ns(message) {
        // The time is that of the beginning.
        let took_us = i64::try_from(took_ns / 1_000).unwrap_or(i64::MAX);
        return collection(reader, at_us.saturating_add(took_us), took_ns);
    }
    match stopped_ns(message) {
        Some(stopped_ns) => safepoint(reader, at_us, stopped_ns),
        None if message.starts_with(b"[") || message.starts_with(b"Application time: ") => LogLine::Ignored,
        None => LogLine::Broken,
    }
}

fn collection(reader: &mut LineReader, at_us: i64, took_ns: u64) -> LogLine {
    reader.collected_ns = reader.collected_ns.saturating_add(took_ns);
    LogLine::Pause { at_us, took_ns }
}

/// Returns the pause at a safepoint without the collections in it, whose lines stand before.
fn safepoint(reader: &mut LineReader, at_us: i64, stopped_ns: u64) -> LogLine {
    let collected_ns = std::mem::take(&mut reader.collected_ns);
    let took_ns = stopped_ns.saturating_sub(collected_ns);
    if collected_ns > 0 && took_ns < REST_MIN_NS {
        return LogLine::Ignored;
    }
    LogLine::Pause { at_us, took_ns }
}

/// Returns the length of a collector's pause in a unified log, in nanoseconds.
fn length_ns(rest: &[u8]) -> Option<u64> {
    let message = &rest[memmem::find(rest, b" GC(")?..];
    let message = &message[memmem::find(message, b") ")? + 2..];
    // Phases of a pause are indented.
    let message = message.strip_prefix(b"Pause ")?;
    let length = message.trim_ascii_end().strip_suffix(b"ms")?;
    let number = length.rsplit(|byte| *byte == b' ').next()?;
    billionths(number).map(|(billionths, _)| billionths / 1_000)
}

/// Returns the length of a collection of version 8, in nanoseconds; `None` for concurrent phases.
fn collection_ns(message: &[u8]) -> Option<u64> {
    let inside = message.strip_prefix(b"[")?;
    let stops = inside.starts_with(b"GC") && !inside.starts_with(b"GC concurrent") || inside.starts_with(b"Full GC");
    let end = memmem::find(message, b" [Times: ").unwrap_or(message.len());
    let length = message[..end].trim_ascii_end().strip_suffix(b" secs]").filter(|_| stops)?;
    let number = length.rsplit(|byte| *byte == b' ').next()?;
    billionths(number).map(|(ns, _)| ns)
}

/// Returns the length of a safepoint, in nanoseconds.
fn stopped_ns(message: &[u8]) -> Option<u64> {
    if let Some(at) = memmem::find(message, STOPPED) {
        return billionths(word(&message[at + STOPPED.len()..]).0).map(|(ns, _)| ns);
    }
    let safepoint = &message[memmem::find(message, b" Safepoint \"")?..];
    let total = b" Total: ";
    whole(word(&safepoint[memmem::find(safepoint, total)? + total.len()..]).0)
}
