//! Slices as an HdrHistogram interval log.
//!
//! The format is that of HdrHistogram's `HistogramLogWriter`, version 1.3: comments, a legend, then lines of
//! `[Tag=…,]start,length,max,histogram`: seconds since the base time (here the run's start), seconds, milliseconds, and
//! the V2 compressed histogram in base64, whose values are nanoseconds.

use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use plimsoll_analysis::RunView;
use plimsoll_analysis::slices::SliceRow;

/// Names of a line's fields.
const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
/// Times are recorded with this many digits.
const DIGITS: u8 = 3;
/// Longest time that is told apart.
const TOP_NS: u64 = 3_600_000_000_000;

/// Writes every slice as a log of HdrHistogram intervals, version 1.3, for HistogramLogProcessor and HdrHistogram's
/// viewers. Lines without a tag are all operations together; a tag is `trial/phase/kind`.
pub fn hdr(view: &RunView, rows: impl Iterator<Item = SliceRow>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and neither do histograms of fixed bounds.
    let written = write(view, rows, &mut bytes);
    debug_assert!(written.is_some(), "a log is written to memory");
    let mut text = String::from_utf8(bytes).unwrap_or_default();
    // The library writes no legend; tools skip it, and people read it.
    let at = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
    text.insert_str(at, LEGEND);
    text
}

fn write(view: &RunView, rows: impl Iterator<Item = SliceRow>, bytes: &mut Vec<u8>) -> Option<()> {
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_nanos(u64::try_from(view.run.started_wall_ns).unwrap_or(0));
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment(&format!(
            "[Logged with Plimsoll {}, run {}]",
            one_word(&view.run.plimsoll_version),
            one_word(&view.run.id)
        ))
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(1_000_000.0);
    let mut log = builder.begin_log_with(bytes, &mut serializer).ok()?;
    for row in rows.filter(|row| !row.warmup && !row.times_ns.is_empty()) {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, TOP_NS, DIGITS).ok()?;
        for (ns, count) in &row.times_ns {
            histogram.saturating_record_n(*ns, *count);
        }
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
        let tag = format!("{}/{}/{}", one_word(&row.trial), one_word(&row.phase), one_word(&row.op));
        let tag = if row.op == "all" { None } else { Tag::new(&tag) };
        log.write_histogram(&histogram, seconds(row.start_s), seconds(row.end_s - row.start_s), tag).ok()?;
    }
    Some(())
}

/// A text without what would end a tag or a line.
fn one_word(text: &str) -> String {
    text.chars().map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}
