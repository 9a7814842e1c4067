//! Formats of logs, and the operation in a line.

use memchr::memchr_iter;
use plimsoll_core::{KindId, Outcome, log_time};

use crate::took::Took;
use crate::{access, directory, pauses, proxy};

/// Lines that decide the format of a log.
const LINES_MAX: usize = 64;
/// Time that no line is later than, while the format is not known: 2100-01-01.
const NEWEST_US: i64 = 4_102_444_800_000_000;

plimsoll_core::words! {
    /// Format of a log.
    pub enum LogFormat {
        /// The common or combined log format of Apache, nginx and Varnish, with a response time behind it.
        Access = "access",
        /// HTTP log of HAProxy.
        Haproxy = "haproxy",
        /// Access log of 389 Directory Server, or of OpenLDAP's slapd with the level `stats`.
        Ldap = "ldap",
        /// Log of a Java virtual machine, with pauses for its garbage collector and at other safepoints.
        Gc = "gc",
        /// Log of statements, which a store reads.
        Statements = "statements",
    }
}

impl LogFormat {
    /// Operation types of the format. Operations name them by position; the last is for all others.
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            LogFormat::Access | LogFormat::Haproxy => &access::KINDS,
            LogFormat::Ldap => &directory::KINDS,
            LogFormat::Gc => &[],
            LogFormat::Statements => &STATEMENTS,
        }
    }

    /// Returns true if operations have the sizes of their answers.
    pub fn has_bytes(self) -> bool {
        matches!(self, LogFormat::Access | LogFormat::Haproxy)
    }
}

/// Operation types of statements: first words.
const STATEMENTS: [&str; 13] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "WITH", "COPY", "CALL", "BEGIN", "COMMIT", "ROLLBACK",
    "other",
];

/// Returns the operation type of a statement.
pub(crate) fn statement_kind(text: &str) -> KindId {
    let letters = text.trim_start().bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = &text.trim_start()[..letters];
    let word = if word.eq_ignore_ascii_case("END") { "COMMIT" } else { word };
    position(&STATEMENTS, |kind| kind.eq_ignore_ascii_case(word))
}

/// Returns the position of a type among `kinds`, or the last.
pub(crate) fn position(kinds: &[&str], is_it: impl Fn(&str) -> bool) -> KindId {
    let last = kinds.len().saturating_sub(1);
    kinds.iter().position(|kind| is_it(kind)).unwrap_or(last) as KindId
}

plimsoll_core::words! {
    /// Unit of a response time that a log has as a plain number.
    pub enum TimeUnit {
        /// Seconds, as of nginx' `$request_time` and Apache's `%T`.
        Seconds = "s",
        /// Milliseconds, as of Apache's `%{ms}T`.
        Milliseconds = "ms",
        /// Microseconds, as of Apache's and Varnish's `%D`.
        Microseconds = "us",
    }
}

/// Options of reading lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineOptions {
    /// Unit of response times in access logs. `None`: seconds for numbers with a decimal point; whole ones are no times.
    pub unit: Option<TimeUnit>,
    /// Number of the word behind the common part of access logs that is the response time, from 1.
    pub field: Option<usize>,
    /// Zone of times without one, in seconds east of UTC.
    pub zone_s: i64,
    /// Time that no line is later than, by more than a day, in microseconds since 1970: it tells the year of times
    /// without one.
    pub newest_us: i64,
}

/// Operation in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedOp {
    /// Time of the line, in microseconds since 1970.
    pub at_us: i64,
    /// Response time in nanoseconds; `None` if the line has none.
    pub took_ns: Option<u64>,
    /// Position of the operation type among [`LogFormat::kinds`].
    pub kind: KindId,
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// Status or result code of the answer; 0 without one.
    pub code: u16,
    /// Bytes of the answer.
    pub bytes: u64,
}

/// Content of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLine {
    /// An operation that ended.
    Op(LoggedOp),
    /// A pause of the program that wrote the log.
    Pause {
        /// End of the pause, in microseconds since 1970.
        at_us: i64,
        /// Length of the pause in nanoseconds.
        took_ns: u64,
    },
    /// A line of the format without an operation.
    Ignored,
    /// No line of the format.
    Broken,
}

/// Reads lines of one format.
#[derive(Debug, Clone)]
pub struct LineReader {
    format: LogFormat,
    pub(crate) options: LineOptions,
    /// Text of the newest time with a zone, and the time: most lines of a busy log share it with the line before.
    newest: Option<([u8; TIME_BYTES], i64)>,
    /// Response time of access logs, once lines have decided.
    took: Option<Took>,
    /// Time of a Java virtual machine in pauses for its garbage collector since its last safepoint, in nanoseconds.
    pub(crate) collected_ns: u64,
}

/// Bytes of `29/Nov/2026:16:15:29 +0000`.
const TIME_BYTES: usize = 26;

impl LineReader {
    /// Makes a reader of a format.
    pub fn new(format: LogFormat, options: LineOptions) -> Self {
        Self { format, options, newest: None, took: None, collected_ns: 0 }
    }

    /// The format.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Decides by the beginning of the log where response times of an access log are. Otherwise its first operation
    /// decides.
    pub fn learn(&mut self, head: &[u8]) {
        if self.format != LogFormat::Access || self.took.is_some() {
            return;
        }
        let mut rests = Vec::new();
        for line in first_lines(head) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            rests.extend(access::common_part(self, line).map(|(_, rest)| rest));
        }
        if !rests.is_empty() {
            self.took = Some(Took::decide(&rests, &self.options));
        }
    }

    /// Describes where the response times of an access log are, or returns the reason why there are none. `None` for
    /// other formats, and before an operation was read.
    pub fn times(&self) -> Option<Result<String, &'static str>> {
        self.took.map(Took::text)
    }

    /// Returns the position of the response time. `rest` decides if no line has.
    pub(crate) fn took(&mut self, rest: &[u8]) -> Took {
        *self.took.get_or_insert_with(|| Took::decide(&[rest], &self.options))
    }

    /// Reads a line, which has no line end. Statements are read by stores: for them every line is ignored.
    pub fn line(&mut self, line: &[u8]) -> LogLine {
        if line.iter().all(u8::is_ascii_whitespace) {
            return LogLine::Ignored;
        }
        match self.format {
            LogFormat::Access => access::op(self, line).map_or(LogLine::Broken, LogLine::Op),
            LogFormat::Haproxy => proxy::op(self, line).map_or(LogLine::Broken, LogLine::Op),
            LogFormat::Ldap => directory::line(self, line),
            LogFormat::Gc => pauses::line(self, line),
            LogFormat::Statements => LogLine::Ignored,
        }
    }

    /// Finds the first `[` with a time of the common log format behind it. Returns the time and the text behind that.
    pub(crate) fn time_in_brackets<'l>(&mut self, line: &'l [u8]) -> Option<(i64, &'l [u8])> {
        memchr_iter(b'[', line).find_map(|at| self.common_time(&line[at + 1..]))
    }

    /// Parses the time of the common log format at the beginning of `text`.
    pub(crate) fn common_time<'l>(&mut self, text: &'l [u8]) -> Option<(i64, &'l [u8])> {
        if let Some((known, at_us)) = &self.newest
            && text.starts_with(known)
        {
            return Some((*at_us, &text[TIME_BYTES..]));
        }
        let (at_us, rest) = log_time::common(text, self.options.zone_s)?;
        if text.len() - rest.len() == TIME_BYTES {
            self.newest = text.first_chunk::<TIME_BYTES>().map(|known| (*known, at_us));
        }
        Some((at_us, rest))
    }
}

/// Returns the whole lines at the beginning of a log, without empty ones and those that continue an entry.
fn first_lines(head: &[u8]) -> Vec<&[u8]> {
    let whole = memchr::memrchr(b'\n', head).map_or(&b""[..], |end| &head[..end]);
    // A file that was truncated while a server wrote it begins with zeros.
    let whole = &whole[whole.iter().take_while(|byte| **byte == 0).count()..];
    let begins = |line: &&[u8]| line.first().is_some_and(|byte| !byte.is_ascii_whitespace());
    whole.split(|byte| *byte == b'\n').filter(begins).take(LINES_MAX).collect()
}

/// Returns the format of a log by its first lines: that of most of them, and of at least half. `None` for a log of
/// statements, for another format, and without a whole line.
pub fn recognise(text: &[u8]) -> Option<LogFormat> {
    let lines = first_lines(text);
    let read = |format: LogFormat| {
        let mut reader = LineReader::new(format, LineOptions { newest_us: NEWEST_US, ..LineOptions::default() });
        lines.iter().filter(|line| reader.line(line) != LogLine::Broken).count()
    };
    let formats = LogFormat::ALL.into_iter().filter(|format| *format != LogFormat::Statements);
    let best = formats.map(|format| (read(format), format)).max_by_key(|(count, _)| *count);
    best.filter(|(count, _)| *count > 0 && *count * 2 >= lines.len()).map(|(_, format)| format)
}
