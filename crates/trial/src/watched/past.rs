//! Logs that are there already: each is read to its end, and its slices have the times of the log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use plimsoll_analysis::fold::Fold;
use plimsoll_analysis::number;
use plimsoll_core::{StoreErrorKind, shown};
use plimsoll_drive::Clock;
use plimsoll_logs::{LogCounts, LogFormat, LogText, SliceTable, TableSlice};
use plimsoll_record::Recorder;
use plimsoll_record::data::RunState;

use super::{LogTime, Samples, WatchSpec, Watched, WatchedLog, new_text, notices, unended, unknown};
use crate::error::TrialError;
use crate::log_file::{self, feed, locked};
use crate::log_grammar::Grammar;
use crate::run::Ended;
use crate::sink::{Sink, Sinks, Told};

/// Fewest operations of a slice for its 90th percentile, and fewest slices of which some can be slow ones.
const SLICE_OPS_MIN: u64 = 100;
const SLICES_MIN: usize = 8;
/// Longest time that slow operations are told to be above: longer ones would be minutes, with more than two digits.
const ABOVE_MAX_NS: u64 = 100_000_000_000;
/// Bytes at the beginning of files that are compared.
const COMPARED: usize = 64 << 10;

/// Reads logs that are there already.
pub(super) fn past(spec: &WatchSpec<'_>, sink: &dyn Sink) -> Result<Ended, TrialError> {
    let mut read: Vec<(&WatchedLog, ReadLog<'_>)> = Vec::new();
    for log in spec.logs {
        if spec.is_stopped() {
            break;
        }
        sink.take(&Told::Note(format!("reading {}", log.label)));
        let Some(whole) = ReadLog::read(spec, log, sink)? else { break };
        read.push((log, whole));
    }
    let length_us = read.iter_mut().map(|(_, log)| log.text.table().length_us()).max().unwrap_or(1_000_000);
    for (_, log) in &mut read {
        log.text.table().lengthen(length_us);
        log.slices = log.text.table().take_all();
    }
    let Some(base_us) = read.iter().filter_map(|(_, log)| Some(log.slices.first()?.start_us)).min() else {
        return Err(TrialError::new(StoreErrorKind::Interrupted, "interrupted before a log was read"));
    };
    let time = LogTime { base_us, length_us, begin_ns: 0, end_ns: u64::MAX };
    let labels: Vec<String> = read.iter().map(|(log, _)| log.label.clone()).collect();
    let notices = read.iter().flat_map(|(log, read)| read.notices(&log.label)).collect();
    let header = spec.header(&labels, base_us.saturating_mul(1_000), length_us as u64 * 1_000, notices);
    let recorder = Recorder::create(spec.runs_dir, &header)?;
    let sinks = Sinks::new(Clock::start(), &recorder, sink, Fold::new(false));
    sinks.show(&Told::BeginRun(Box::new(header)));
    let mut samples = Samples::default();
    let mut end_ns = 0;
    for (ordinal, (log, read)) in (0..).zip(&read) {
        let start_ns = read.slices.first().map_or(0, |first| time.start_ns(first));
        let last_ns = read.slices.last().map_or(0, |last| time.end_ns(last));
        let watched = Watched { ordinal, label: &log.label, grammar: Some(read.grammar), time };
        watched.begin(&sinks, &log.path.display().to_string(), start_ns, None)?;
        let has_times = read.text.counts().ops > read.text.counts().untimed;
        for (position, slice) in (0..).zip(&read.slices) {
            watched.slice(&sinks, position, slice, has_times, &mut samples)?;
        }
        watched.end(&sinks, start_ns, last_ns, read.text.counts())?;
        end_ns = end_ns.max(last_ns);
    }
    samples.tell(&sinks)?;
    let state = if spec.is_stopped() { RunState::Interrupted } else { RunState::Complete };
    sinks.show(&Told::EndRun(state.clone(), end_ns));
    Ok(Ended { recording: recorder.finish(state, end_ns)?, result: Ok(()) })
}

/// A log that was read.
struct ReadLog<'a> {
    grammar: Grammar<'a>,
    text: LogText,
    slices: Vec<TableSlice>,
    /// Files of which a part could not be read, each with the reason, and those that begin as others do.
    failed: Vec<String>,
}

impl<'a> ReadLog<'a> {
    /// Reads a log. Returns `None` if the user ended that before its first operation was read.
    fn read(spec: &WatchSpec<'a>, log: &WatchedLog, sink: &dyn Sink) -> Result<Option<Self>, TrialError> {
        let mut chosen = spec.format.map(|name| Grammar::named(name, spec.catalogue)).transpose()?;
        let mut text: Option<Mutex<LogText>> = None;
        let (mut failed, mut damaged) = (Vec::new(), None);
        // Files that had operations, with their beginnings: others may have the same header.
        let mut heads: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for file in log_file::files(&log.path)? {
            let (head, mut whole) = match log_file::open(&file, spec.stop) {
                Ok(opened) => opened,
                Err(_) if spec.is_stopped() => break,
                Err(error) if log_file::is_damage(&error) => {
                    failed.push(format!("{} was not read: {error}", file.display()));
                    damaged.get_or_insert_with(|| log_file::unread(&file, &error));
                    continue;
                }
                Err(error) => return Err(log_file::unread(&file, &error)),
            };
            if head.is_empty() {
                continue;
            }
            log_file::must_be_read(&file, &head)?;
            if chosen.is_none() {
                chosen = Grammar::of_head(&head, spec.catalogue);
            }
            let grammar = match chosen {
                Some(grammar) => grammar,
                // The user ended a pipe before its first operation.
                None if spec.is_stopped() => break,
                None => return Err(unknown(&file, &head, spec.catalogue)),
            };
            let text = text.get_or_insert_with(|| Mutex::new(new_text(spec, grammar, SliceTable::growing())));
            locked(text).learn(&head);
            let before = locked(text).counts().clone();
            // The file ends when the user wants an end: the part that was read until then counts.
            if let Err(error) = feed(&mut *whole, grammar, text, None)
                && !spec.is_stopped()
            {
                failed.push(format!("{} was read up to an error: {error}", file.display()));
            }
            locked(text).end_file();
            let after = locked(text).counts().clone();
            let (lines, ops) = (after.lines - before.lines, after.ops - before.ops);
            let lines = number::plural(lines, "line", "lines");
            sink.take(&Told::Note(format!("{}: {lines}", file.display())));
            if ops == 0 {
                continue;
            }
            let head = head[..head.len().min(COMPARED)].to_vec();
            let begins_alike = |other: &Vec<u8>| head.starts_with(other) || other.starts_with(&head);
            if let Some((other, _)) = heads.iter().find(|(_, other)| begins_alike(other)) {
                let (file, other) = (file.display(), other.display());
                failed.push(format!("{file} begins as {other} does: operations in both count twice"));
            }
            heads.push((file, head));
        }
        let (Some(grammar), Some(text)) = (chosen, text) else {
            if spec.is_stopped() {
                return Ok(None);
            }
            if let Some(error) = damaged {
                return Err(error);
            }
            return Err(TrialError::usage(format!("{} is empty", log.path.display()))
                .next("name a log with operations, or add --follow to wait for them"));
        };
        let mut text = text.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        text.end();
        if text.counts().ops + text.counts().pauses == 0 && !spec.is_stopped() {
            let error = without_operations(&log.path, grammar, text.counts());
            return Err(match failed.first() {
                Some(why) => error.detail(shown::clean(why)),
                None => error,
            });
        }
        Ok(Some(Self { grammar, text, slices: Vec::new(), failed }))
    }

    fn notices(&self, label: &str) -> Vec<String> {
        let failed = self.failed.iter().map(|text| shown::clean(text));
        let sparse = self.is_sparse().then(|| {
            let described = self.slow_ns().map(|ns| {
                let above = plimsoll_plan::show_ns(ns);
                format!("; `plimsoll explain latest --above {above}` describes the slow operations")
            });
            format!(
                "{label}: most slices have too few operations for percentiles, so that no finding can name slow \
                 moments{}",
                described.unwrap_or_default()
            )
        });
        failed.chain(notices(label, self.grammar, self.text.counts(), self.text.times())).chain(sparse).collect()
    }

    /// Returns true if most slices with response times have too few for percentiles.
    fn is_sparse(&self) -> bool {
        let counts: Vec<u64> = self.slices.iter().map(TableSlice::timed).filter(|timed| *timed > 0).collect();
        let few = counts.iter().filter(|timed| **timed < SLICE_OPS_MIN).count();
        counts.len() >= SLICES_MIN && few * 2 > counts.len()
    }

    /// Returns a time of two digits that at least one of a hundred operations took longer than; `None` if there is none.
    fn slow_ns(&self) -> Option<u64> {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        for (ns, count) in self.slices.iter().flat_map(TableSlice::times) {
            *times.entry(ns).or_default() += count;
        }
        let rank = (times.values().sum::<u64>() * 99).div_ceil(100);
        let mut before = 0u64;
        let (p99_ns, _) = times.into_iter().find(|(_, count)| {
            before += *count;
            before >= rank
        })?;
        // A recording does not tell nearly equal times apart.
        let limit_ns = (p99_ns / 10 * 9).min(ABOVE_MAX_NS);
        let digit = 10u64.pow(limit_ns.checked_ilog10()?.saturating_sub(1));
        Some(limit_ns / digit * digit)
    }
}

/// Error of a log without operations.
fn without_operations(path: &Path, grammar: Grammar<'_>, counts: &LogCounts) -> TrialError {
    let is_unended = counts.unfinished > 0 && counts.lines == counts.unfinished;
    if is_unended && grammar.format() != LogFormat::Statements {
        return unended(path);
    }
    let what = format!(
        "{}: none of {} lines is an operation of a log in the format `{}`",
        path.display(),
        shown::count(counts.lines),
        grammar.name()
    );
    let error = TrialError::usage(what).next("name another format with --log-format");
    match &counts.first_broken {
        Some((number, text)) => error.detail(shown::clean(&format!("line {number}: {text}"))),
        None => error,
    }
}
