//! Bytes of a log to slices.

use std::collections::BTreeMap;

use memchr::memchr;
use plimsoll_core::Outcome;
use plimsoll_core::production::{LogEntry, TimedStatement};

use crate::line::{LineReader, LogFormat, LogLine, LoggedOp, statement_kind};
use crate::table::{SliceTable, TOP_NS};

/// Longest line, in bytes. Longer ones are broken.
const LINE_MAX: usize = 1 << 20;
/// Most characters of a broken line that are kept.
const SHOWN_MAX: usize = 120;
/// Time that no entry can have, in microseconds since 1970: 2200-01-01.
const END_US: i64 = 7_258_118_400_000_000;
/// Time that a log has only if a clock was not set, if it is before this one: 2000-01-01.
const START_US: i64 = 946_684_800_000_000;
/// Times that are later than this machine's by more are those of a clock that was not set, too.
const AHEAD_US: i64 = 86_400_000_000;
/// Smallest difference between the clocks of a log and of this machine that is corrected, in microseconds. Times of
/// many logs have whole seconds only, and lines wait in a server's buffers.
const SHIFT_MIN_US: i64 = 2_500_000;

/// Counts of a log's lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines.
    pub lines: u64,
    /// Operations.
    pub ops: u64,
    /// Operations without a response time.
    pub untimed: u64,
    /// Operations that were rejected or unknown, by their codes.
    pub codes: BTreeMap<u16, u64>,
    /// Pauses.
    pub pauses: u64,
    /// Lines that are none of the format.
    pub broken: u64,
    /// Number of the first broken line, from 1, and its beginning.
    pub first_broken: Option<(u64, String)>,
    /// Lines without an end: the last of a file that is being written, or was cut.
    pub unfinished: u64,
    /// Operations and pauses whose slices were taken before: they count in the next slice.
    pub late: u64,
    /// Operations with a response time above an hour: they count as one of an hour.
    pub long: u64,
    /// Statements whose times have no zone that is known: they are taken for those of `--log-zone`.
    pub unzoned: u64,
    /// Operations and pauses with a time before the year 2000, or ahead of this machine's clock: they count nowhere.
    pub stray: u64,
}

impl LogCounts {
    fn op(&mut self, op: &LoggedOp) {
        self.ops += 1;
        self.untimed += u64::from(op.took_ns.is_none());
        self.long += u64::from(op.took_ns.is_some_and(|ns| ns > TOP_NS));
        if op.outcome.is_error() && op.code > 0 {
            *self.codes.entry(op.code).or_default() += 1;
        }
    }
}

/// Log that is read: its operations as slices, and counts of its lines.
#[derive(Debug, Clone)]
pub struct LogText {
    reader: LineReader,
    table: SliceTable,
    counts: LogCounts,
    /// Operations and pauses of a clock that was not set.
    stray: Option<(SliceTable, LogCounts)>,
    /// Beginning of a line whose end was not read yet.
    begun: Vec<u8>,
    /// True within a line that is too long.
    skips: bool,
    /// Correction of the log's clock, in microseconds, once it is known.
    shift_us: Option<i64>,
    /// Time of this machine's clock; `None` for a log that was written before.
    now_us: Option<i64>,
}

impl LogText {
    /// Makes a log without lines.
    pub fn new(reader: LineReader, table: SliceTable) -> Self {
        let counts = LogCounts::default();
        Self { reader, table, counts, stray: None, begun: Vec::new(), skips: false, shift_us: None, now_us: None }
    }

    /// The format.
    pub fn format(&self) -> LogFormat {
        self.reader.format()
    }

    /// Decides by the beginning of the log where response times are; see [`LineReader::learn`].
    pub fn learn(&mut self, head: &[u8]) {
        self.reader.learn(head);
    }

    /// Describes where the response times are; see [`LineReader::times`].
    pub fn times(&self) -> Option<Result<String, &'static str>> {
        self.reader.times()
    }

    /// Counts so far.
    pub fn counts(&self) -> &LogCounts {
        &self.counts
    }

    /// The slices.
    pub fn table(&mut self) -> &mut SliceTable {
        &mut self.table
    }

    /// Sets the time of this machine's clock, in microseconds since 1970, for lines that are written now. The first
    /// operation after that tells the difference between the clocks.
    pub fn set_now(&mut self, now_us: i64) {
        self.now_us = Some(now_us);
    }

    /// Returns the time that is added to the log's times, in microseconds: 0 for clocks that agree.
    pub fn shift_us(&self) -> i64 {
        self.shift_us.unwrap_or(0)
    }

    /// Takes the next bytes of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, behind) = (&rest[..end], &rest[end + 1..]);
            rest = behind;
            if std::mem::take(&mut self.skips) {
                continue;
            }
            if self.begun.is_empty() {
                self.line(line);
                continue;
            }
            let mut whole = std::mem::take(&mut self.begun);
            whole.extend_from_slice(line);
            self.line(&whole);
            whole.clear();
            self.begun = whole;
        }
        if self.skips {
            return;
        }
        self.begun.extend_from_slice(rest);
        if self.begun.len() > LINE_MAX {
            let begun = std::mem::take(&mut self.begun);
            self.counts.lines += 1;
            self.broken(&begun);
            self.skips = true;
        }
    }

    /// Ends the log. If all its times are those of a clock that was not set, they count.
    pub fn end(&mut self) {
        let Some((table, counts)) = self.stray.take() else { return };
        let stray = counts.ops + counts.pauses;
        if self.counts.ops + self.counts.pauses > 0 {
            self.counts.stray += stray;
            return;
        }
        let LogCounts { ops, untimed, codes, pauses, long, late, .. } = counts;
        self.table = table;
        self.counts = LogCounts { ops, untimed, codes, pauses, long, late, ..std::mem::take(&mut self.counts) };
    }

    /// Returns the slices and counts for this time.
    fn places(&mut self, at_us: i64) -> (&mut SliceTable, &mut LogCounts) {
        let newest_us = self.reader.options.newest_us.saturating_add(AHEAD_US);
        // A log that grows is on this machine's clock.
        if self.now_us.is_some() || (START_US..=newest_us).contains(&at_us) {
            return (&mut self.table, &mut self.counts);
        }
        let (table, counts) = self.stray.get_or_insert_with(|| (SliceTable::growing(), LogCounts::default()));
        (table, counts)
    }

    /// Ends a file of the log. A last line without its end is left out and counted.
    pub fn end_file(&mut self) {
        let unfinished = u64::from(!self.begun.is_empty());
        self.counts.lines += unfinished;
        self.counts.unfinished += unfinished;
        self.begun.clear();
        self.skips = false;
    }

    /// Takes an entry of a log of statements.
    pub fn entry(&mut self, entry: LogEntry<'_>) {
        match entry {
            LogEntry::Timed(TimedStatement { at_us, has_zone, took_ns, text }) => {
                self.counts.lines += 1;
                self.counts.unzoned += u64::from(!has_zone);
                let zone_us = if has_zone { 0 } else { self.reader.options.zone_s * 1_000_000 };
                let at_us = at_us.saturating_sub(zone_us);
                if !(0..END_US).contains(&at_us) {
                    return self.broken(text.as_bytes());
                }
                let (kind, outcome) = (statement_kind(text), Outcome::Ok);
                // The end of an entry shows with the next one only, so that its time tells nothing of the clocks.
                self.op(LoggedOp { at_us, took_ns: Some(took_ns), kind, outcome, code: 0, bytes: 0 });
            }
            LogEntry::Cut(true) => {
                self.counts.lines += 1;
                self.counts.unfinished += 1;
            }
            LogEntry::Statement(..) | LogEntry::Cut(false) => {}
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.counts.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.reader.line(line) {
            LogLine::Op(op) => {
                let at_us = self.shifted(op.at_us, op.took_ns.unwrap_or(0));
                self.op(LoggedOp { at_us, ..op });
            }
            LogLine::Pause { at_us, took_ns } => {
                let at_us = self.shifted(at_us, 0);
                let at_us = self.past(at_us);
                let (table, counts) = self.places(at_us);
                counts.pauses += 1;
                counts.late += u64::from(!table.add_pause(at_us, took_ns));
            }
            LogLine::Ignored => {}
            LogLine::Broken => self.broken(line),
        }
    }

    fn op(&mut self, op: LoggedOp) {
        let op = LoggedOp { at_us: self.past(op.at_us), ..op };
        let (table, counts) = self.places(op.at_us);
        counts.op(&op);
        counts.late += u64::from(!table.add(&op));
    }

    /// Returns a time of the log on this machine's clock.
    fn shifted(&mut self, at_us: i64, took_ns: u64) -> i64 {
        let Some(now_us) = self.now_us else { return at_us };
        let shift_us = *self.shift_us.get_or_insert_with(|| {
            let apart_us = now_us.saturating_sub(at_us);
            // Some servers log the time at which a request began: then its response time is no difference.
            let since_end_us = apart_us.saturating_sub(i64::try_from(took_ns / 1_000).unwrap_or(i64::MAX));
            let nearest_us = apart_us.saturating_abs().min(since_end_us.saturating_abs());
            if nearest_us >= SHIFT_MIN_US { apart_us } else { 0 }
        });
        at_us.saturating_add(shift_us)
    }

    /// Returns a time that is not ahead of this machine's clock, if the log grows: what is logged has ended.
    fn past(&self, at_us: i64) -> i64 {
        self.now_us.map_or(at_us, |now_us| at_us.min(now_us))
    }

    fn broken(&mut self, line: &[u8]) {
        self.counts.broken += 1;
        let number = self.counts.lines;
        self.counts.first_broken.get_or_insert_with(|| {
            let beginning = &line[..line.len().min(4 * SHOWN_MAX)];
            (number, String::from_utf8_lossy(beginning).chars().take(SHOWN_MAX).collect())
        });
    }
}
