//! Watching without a load: operations from logs, and readings of the machine and of processes.
//!
//! A log that is there already is read to its end, and its slices have the times of the log. A log that grows is
//! followed, and processes are watched, on the run's clock (`live`). Either is a trial with one phase.

mod live;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_analysis::fold::Fold;
use plimsoll_core::{Call, Catalogue, OpKind, Series, SeriesKind, Slice, StoreErrorKind, shown};
use plimsoll_drive::Clock;
use plimsoll_logs::{LineOptions, LineReader, LogCounts, LogFormat, LogText, SliceTable, TableSlice};
use plimsoll_record::data::{
    Goal, Outline, PhaseEnd, PhaseHeader, PhaseKind, PhaseResult, PhaseState, ResultName, RunHeader, RunState, Sample,
    TrialHeader,
};
use plimsoll_record::{Distribution, RecordError, Recorder};

use crate::error::TrialError;
use crate::log_file::{self, Grammar, feed, locked};
use crate::run::{Ended, random, wall_ns};
use crate::sink::{Sink, Sinks, Told};

/// Length of a slice of what is watched live.
const SLICE: Duration = Duration::from_secs(1);
/// Name of the phase of a trial that is watched.
const PHASE: &str = "watch";
/// Source of series from logs.
const LOG: &str = "log";
/// Fewest operations of a slice for its 90th percentile, and fewest slices of which some can be slow ones.
const SLICE_OPS_MIN: u64 = 100;
const SLICES_MIN: usize = 8;
/// Bytes at the beginning of files that are compared.
const COMPARED: usize = 64 << 10;
/// First notice of each report.
const NOTICE: &str = "Watched, not driven: the load is that of clients which were served anyway, and times are those \
                      that the server measured.";

/// A log to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedLog {
    /// Name in reports.
    pub label: String,
    /// A file, a directory with the files of one log, or `-` for standard input.
    pub path: PathBuf,
}

/// Parameters of watching.
pub struct WatchSpec<'a> {
    /// Stores, which read logs of statements; and samplers.
    pub catalogue: &'a Catalogue,
    /// The logs. A log that is followed is the only one.
    pub logs: &'a [WatchedLog],
    /// Format of the logs: `access`, or a store that reads statements. `None`: by their first lines.
    pub format: Option<&'a str>,
    /// Options of reading lines. `newest_us` is ignored.
    pub lines: LineOptions,
    /// Follows the log as it grows, instead of reading what is there.
    pub follow: bool,
    /// Processes to watch, with their descendants.
    pub pids: &'a [u32],
    /// Control group to watch: all processes in it and below it.
    pub group: Option<&'a Path>,
    /// Name of the processes in reports.
    pub label: &'a str,
    /// Time to watch live; `None`: until the user ends it, or all processes have ended.
    pub length: Option<Duration>,
    /// Goals.
    pub goals: &'a [Goal],
    /// Directory of recordings.
    pub runs_dir: &'a Path,
    /// Set when the user wants an end.
    pub stop: &'a Arc<AtomicBool>,
    /// Command line of the run, without credentials.
    pub command_line: Vec<String>,
    /// The user's word for the run; empty without one.
    pub tag: &'a str,
}

impl WatchSpec<'_> {
    fn has_processes(&self) -> bool {
        !self.pids.is_empty() || self.group.is_some()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn header(&self, labels: &[String], started_wall_ns: i64, slice_ns: u64, notices: Vec<String>) -> RunHeader {
        RunHeader {
            id: plimsoll_record::run_id(wall_ns(), random()),
            plimsoll_version: env!("CARGO_PKG_VERSION").to_owned(),
            plan_name: PHASE.to_owned(),
            title: format!("Watched: {}", labels.join(", ")),
            question: String::new(),
            answers: Vec::new(),
            worthless: Vec::new(),
            source: String::new(),
            plan_text: String::new(),
            plan_json: String::new(),
            outline: Outline { trials: labels.len() as u32, watched: true, ..Outline::default() },
            command_line: self.command_line.clone(),
            tag: self.tag.to_owned(),
            seed: 0,
            slice_ns,
            started_wall_ns,
            environment: plimsoll_sample::environment(self.runs_dir),
            left_out: Vec::new(),
            notices: [vec![NOTICE.to_owned()], notices].concat(),
            goals: self.goals.to_vec(),
            figures: Vec::new(),
        }
    }
}

/// Watches, and records what was seen. Ends when the logs were read; live, after the time of `spec`, when all processes
/// have ended, or when the user wants an end.
///
/// # Errors
/// A log or a process that cannot be watched, a log of another format, or a recording that failed.
pub fn watch(spec: &WatchSpec<'_>, sink: &dyn Sink) -> Result<Ended, TrialError> {
    if spec.follow || spec.has_processes() { live::live(spec, sink) } else { past(spec, sink) }
}

/// Reads logs that are there already.
fn past(spec: &WatchSpec<'_>, sink: &dyn Sink) -> Result<Ended, TrialError> {
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
    let fold = Mutex::new(Fold::new(false));
    let sinks = Sinks { clock: Clock::start(), recorder: &recorder, sink, fold, readings: Default::default() };
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
                chosen = Grammar::of_head(&head, spec.catalogue, spec.stop);
            }
            if spec.is_stopped() {
                break;
            }
            let grammar = chosen.ok_or_else(|| unknown(&file, &head, spec.catalogue))?;
            let text = text.get_or_insert_with(|| Mutex::new(new_text(spec, grammar, SliceTable::growing())));
            locked(text).learn(&head);
            let before = locked(text).counts().clone();
            if let Err(error) = feed(&mut *whole, grammar, text, None, spec.stop)
                && !spec.is_stopped()
            {
                failed.push(format!("{} was read up to an error: {error}", file.display()));
            }
            locked(text).end_file();
            let after = locked(text).counts().clone();
            let (lines, ops) = (after.lines - before.lines, after.ops - before.ops);
            sink.take(&Told::Note(format!("{}: {} lines", file.display(), shown::count(lines))));
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
            format!(
                "{label}: most slices have too few operations for percentiles, so that no finding can name slow \
                 moments; `plimsoll explain latest --above 1s` describes those of slow operations"
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
}

fn new_text(spec: &WatchSpec<'_>, grammar: Grammar<'_>, table: SliceTable) -> LogText {
    let options = LineOptions { newest_us: wall_ns() / 1_000, ..spec.lines };
    LogText::new(LineReader::new(grammar.format(), options), table)
}

/// Error of a log whose format is not recognised.
fn unknown(file: &Path, head: &[u8], catalogue: &Catalogue) -> TrialError {
    if let Some(why) = log_file::refusal(head, catalogue) {
        return TrialError::usage(format!("{}: {why}", file.display()))
            .next("name another log, or its format with --log-format");
    }
    let first: Vec<u8> = head.iter().copied().take_while(|byte| *byte != b'\n').take(200).collect();
    let error = TrialError::usage(match head.is_empty() {
        true => format!("{} has no line yet that tells its format", file.display()),
        false => format!("{}: the format of this log is not known", file.display()),
    });
    let first = shown::clean(&String::from_utf8_lossy(&first));
    error
        .detail(if first.is_empty() { first } else { format!("the first line: {first}") })
        .next("name its format with --log-format; `plimsoll watch --help` lists them")
}

/// Error of a log without operations.
fn without_operations(path: &Path, grammar: Grammar<'_>, counts: &LogCounts) -> TrialError {
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

/// Returns sentences about lines of a log that are not among its operations.
fn notices(
    label: &str,
    grammar: Grammar<'_>,
    counts: &LogCounts,
    times: Option<Result<String, &'static str>>,
) -> Vec<String> {
    let count = shown::count;
    let mut all = Vec::new();
    if let Some(Ok(place)) = &times {
        all.push(format!("{label}: {place}"));
    }
    if counts.broken > 0 {
        let first = counts.first_broken.as_ref();
        let first = first.map_or(String::new(), |(number, text)| format!("; the first is line {number}: {text}"));
        let (broken, lines, name) = (count(counts.broken), count(counts.lines), grammar.name());
        all.push(format!("{label}: {broken} of {lines} lines are none of the format `{name}`{first}"));
    }
    if counts.unfinished > 0 {
        let unfinished = count(counts.unfinished);
        all.push(format!("{label}: entries without an end were left out: {unfinished}"));
    }
    if counts.untimed > 0 {
        let (untimed, ops) = (count(counts.untimed), count(counts.ops));
        let next = times.and_then(Result::err).map_or_else(String::new, |why| format!("; {why}"));
        let left_out = if counts.untimed < counts.ops { ", and are in none of the figures" } else { "" };
        all.push(format!("{label}: {untimed} of {ops} operations have no response time{left_out}{next}"));
    }
    if counts.long > 0 {
        let long = count(counts.long);
        all.push(format!("{label}: operations of more than an hour, which count as one hour: {long}"));
    }
    if counts.stray > 0 {
        let stray = count(counts.stray);
        all.push(format!(
            "{label}: lines with a time before the year 2000 or ahead of this machine's clock, which count in no \
             figure: {stray}"
        ));
    }
    if counts.unzoned > 0 {
        let unzoned = count(counts.unzoned);
        all.push(format!(
            "{label}: statements with a time without a zone that is known, read with --log-zone, by default UTC: \
             {unzoned}"
        ));
    }
    if counts.late > 0 {
        let late = count(counts.late);
        all.push(format!("{label}: operations that were logged late, and count in a later slice: {late}"));
    }
    all.iter().map(|text| shown::clean(text)).collect()
}

/// Times of slices on the run's clock.
#[derive(Clone, Copy)]
struct LogTime {
    /// Start of the run, in microseconds since 1970.
    base_us: i64,
    /// Length of a slice.
    length_us: i64,
    /// Time at which watching began: no slice begins before.
    begin_ns: u64,
    /// Time at which watching ended: no slice ends after.
    end_ns: u64,
}

impl LogTime {
    fn start_ns(&self, slice: &TableSlice) -> u64 {
        self.own_start_ns(slice).max(self.begin_ns)
    }

    fn own_start_ns(&self, slice: &TableSlice) -> u64 {
        u64::try_from(slice.start_us.saturating_sub(self.base_us)).unwrap_or(0).saturating_mul(1_000)
    }

    fn end_ns(&self, slice: &TableSlice) -> u64 {
        let end_ns = self.own_start_ns(slice).saturating_add(self.length_us as u64 * 1_000);
        end_ns.min(self.end_ns)
    }
}

/// Samples of several logs by their times.
#[derive(Default)]
struct Samples(BTreeMap<u64, Sample>);

impl Samples {
    fn tell(self, sinks: &Sinks<'_>) -> Result<(), RecordError> {
        let is_empty = |sample: &Sample| sample.values.is_empty() && sample.distributions.is_empty();
        for (at_ns, sample) in self.0.into_iter().filter(|(_, sample)| !is_empty(sample)) {
            sinks.tell(Told::Sample(Sample { at_ns, ..sample }))?;
        }
        Ok(())
    }
}

/// Trial of what is watched.
#[derive(Clone, Copy)]
struct Watched<'a> {
    ordinal: u32,
    label: &'a str,
    grammar: Option<Grammar<'a>>,
    time: LogTime,
}

impl Watched<'_> {
    fn begin(
        &self,
        sinks: &Sinks<'_>,
        place: &str,
        start_ns: u64,
        length: Option<Duration>,
    ) -> Result<(), RecordError> {
        let label = self.label.to_owned();
        let kinds: &[&str] = match self.grammar {
            Some(grammar) => grammar.format().kinds(),
            None => &[],
        };
        let kind = |name: &&str| OpKind {
            name: (*name).to_owned(),
            call: Call::Nothing,
            params: Vec::new(),
            keep_answer: false,
            step_of: None,
        };
        sinks.show(&Told::Next(label.clone()));
        sinks.tell(Told::BeginTrial(TrialHeader {
            ordinal: self.ordinal,
            store: self.grammar.map_or(PHASE, |grammar| grammar.name()).to_owned(),
            store_label: label,
            place: shown::clean(place),
            version: String::new(),
            settings: Vec::new(),
            failover_time: None,
            workload: PHASE.to_owned(),
            params: BTreeMap::new(),
            labels: BTreeMap::new(),
            breaks: false,
            rarer_cycles: BTreeMap::new(),
            kinds: kinds.iter().map(kind).collect(),
            record_count: 0,
            record_bytes: 0,
            start_ns,
        }))?;
        let header = PhaseHeader {
            trial: self.ordinal,
            ordinal: 0,
            name: PHASE.to_owned(),
            kind: PhaseKind::Drive,
            rung: None,
            durability: None,
            clients: 0,
            workers: 0,
            rate_per_s: None,
            stages: Vec::new(),
            finds_warmup: false,
            start_ns,
        };
        sinks.tell(Told::BeginPhase(header, length))
    }

    /// Records a slice: its operations with response times, if the log has any, and its other figures as series.
    fn slice(
        &self,
        sinks: &Sinks<'_>,
        ordinal: u32,
        table: &TableSlice,
        has_times: bool,
        samples: &mut Samples,
    ) -> Result<(), RecordError> {
        let (start_ns, end_ns) = (self.time.start_ns(table), self.time.end_ns(table));
        let seconds = end_ns.saturating_sub(start_ns) as f64 / 1e9;
        // A slice of a time before watching began.
        if seconds <= 0.0 {
            return Ok(());
        }
        let series = |name: &str, unit: &str, kind: SeriesKind| {
            let (source, subject) = (LOG.to_owned(), self.label.to_owned());
            sinks.series(Series { source, subject, name: name.to_owned(), unit: unit.to_owned(), kind })
        };
        let sample = samples.0.entry(end_ns).or_default();
        let mut level = |name: &str, unit: &str, value: f64| -> Result<(), RecordError> {
            sample.values.push((series(name, unit, SeriesKind::Level)?, value));
            Ok(())
        };
        let format = self.grammar.map(Grammar::format);
        if format.is_some_and(|format| format != LogFormat::Gc) && !has_times {
            level("operations", "1/s", (table.untimed + table.timed()) as f64 / seconds)?;
            level("failed", "1/s", table.failed as f64 / seconds)?;
        }
        if format.is_some_and(LogFormat::has_bytes) {
            level("sent", "B/s", table.bytes as f64 / seconds)?;
        }
        if format == Some(LogFormat::Gc) {
            level("stopped", "%", table.paused_ns as f64 / 1e7 / seconds)?;
        }
        if let Some(pauses) = table.pauses() {
            sample.distributions.push((series("pause", "ns", SeriesKind::Distribution)?, Distribution::from(&pauses)));
        }
        if !has_times || format == Some(LogFormat::Gc) {
            return Ok(());
        }
        let wall_ns = table.start_us.saturating_add(self.time.length_us).saturating_mul(1_000);
        let histograms = table.histograms();
        let slice = Slice { ordinal, start_ns, end_ns, wall_ns, histograms, ..Slice::default() };
        sinks.slice(self.ordinal, 0, slice, true)
    }

    fn end(&self, sinks: &Sinks<'_>, start_ns: u64, end_ns: u64, counts: &LogCounts) -> Result<(), RecordError> {
        let mut end = PhaseEnd { end_ns, state: PhaseState::Complete, ..PhaseEnd::default() };
        end.push(ResultName::Seconds, end_ns.saturating_sub(start_ns) as f64 / 1e9);
        if counts.ops > 0 {
            let (name, subject, n) = (ResultName::Ops, String::new(), counts.ops);
            end.results.push(PhaseResult { name, subject, value: n as f64, n });
        }
        for (code, n) in &counts.codes {
            let (name, subject) = (ResultName::ErrorCode, code.to_string());
            end.results.push(PhaseResult { name, subject, value: *n as f64, n: *n });
        }
        sinks.tell(Told::EndPhase(self.ordinal, 0, end))?;
        sinks.tell(Told::EndTrial(self.ordinal, end_ns))
    }
}
