//! Watching without a load: operations from logs, and readings of the machine and of processes.
//!
//! A log that is there already is read to its end, and its slices have the times of the log (`past`). A log that grows
//! is followed, and processes and the counters of a server are watched, on the run's clock (`live`). Either is a trial
//! with one phase.

mod live;
mod past;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::{Call, Catalogue, OpKind, Password, Series, SeriesKind, Slice, shown};
use plimsoll_logs::{LineOptions, LineReader, LogCounts, LogFormat, LogText, SliceTable, TableSlice};
use plimsoll_record::data::{
    Goal, Outline, PhaseEnd, PhaseHeader, PhaseKind, PhaseResult, PhaseState, ResultName, RunHeader, Sample,
    TrialHeader,
};
use plimsoll_record::{Distribution, RecordError};

use crate::error::TrialError;
use crate::log_grammar::{self, Grammar};
use crate::run::{Ended, random, wall_ns};
use crate::sink::{Sink, Sinks, Told};

/// Length of a slice of what is watched live.
const SLICE: Duration = Duration::from_secs(1);
/// Name of the phase of a trial that is watched.
const PHASE: &str = "watch";
/// Source of series from logs.
const LOG: &str = "log";
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

/// Running server whose counters are watched.
pub struct WatchedServer {
    /// URL without secrets, for messages.
    pub url: String,
    /// URL and password to connect with; no password leaves it to the store's own places.
    pub login: (String, Option<Password>),
}

/// Parameters of watching.
pub struct WatchSpec<'a> {
    /// Stores, which read logs of statements; and samplers.
    pub catalogue: &'a Catalogue,
    /// The logs. Of those that are followed one has operations; the others have pauses.
    pub logs: &'a [WatchedLog],
    /// Format of the logs: `access`, or a store that reads statements. `None`: by their first lines.
    pub format: Option<&'a str>,
    /// Options of reading lines. `newest_us` is ignored.
    pub lines: LineOptions,
    /// Follows the logs as they grow, instead of reading what is there.
    pub follow: bool,
    /// Processes to watch, with their descendants.
    pub pids: &'a [u32],
    /// Control group to watch: all processes in it and below it.
    pub group: Option<&'a Path>,
    /// Server to watch by its counters.
    pub server: Option<&'a WatchedServer>,
    /// Names of the samplers to read while something is watched live.
    pub samplers: &'a [String],
    /// Name of the processes, or of the server, in reports.
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
            outline: Outline { trials: labels.len() as u32, watched: true, ..Outline::default() },
            command_line: self.command_line.clone(),
            tag: self.tag.to_owned(),
            slice_ns,
            started_wall_ns,
            environment: plimsoll_sample::environment(self.runs_dir),
            notices: [vec![NOTICE.to_owned()], notices].concat(),
            goals: self.goals.to_vec(),
            ..RunHeader::default()
        }
    }
}

/// Watches, and records what was seen. Ends when the logs were read; live, after the time of `spec`, when all processes
/// have ended, or when the user wants an end.
///
/// # Errors
/// A log or a process that cannot be watched, a log of another format, or a recording that failed.
pub fn watch(spec: &WatchSpec<'_>, sink: &dyn Sink) -> Result<Ended, TrialError> {
    if spec.follow || spec.has_processes() || spec.server.is_some() {
        live::live(spec, sink)
    } else {
        past::past(spec, sink)
    }
}

fn new_text(spec: &WatchSpec<'_>, grammar: Grammar<'_>, table: SliceTable) -> LogText {
    let options = LineOptions { newest_us: wall_ns() / 1_000, ..spec.lines };
    LogText::new(LineReader::new(grammar.format(), options), table)
}

/// Error of a log whose format is not recognised.
fn unknown(file: &Path, head: &[u8], catalogue: &Catalogue) -> TrialError {
    if let Some(why) = log_grammar::refusal(head, catalogue) {
        return TrialError::usage(format!("{}: {why}", file.display()))
            .next("name another log, or its format with --log-format");
    }
    if !head.is_empty() && !head.contains(&b'\n') {
        return unended(file);
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

/// Error of a log without a whole line.
fn unended(log: &Path) -> TrialError {
    TrialError::usage(format!("{}: no line of it has an end: the server may still be writing it", log.display()))
        .next("repeat this when the server has written more; add the end of the line if that is all")
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
        let kind = |name: &&str| OpKind::new(*name, Call::Nothing, &[]);
        sinks.show(&Told::Next(label.clone()));
        sinks.tell(Told::BeginTrial(TrialHeader {
            ordinal: self.ordinal,
            store: self.grammar.map_or(PHASE, |grammar| grammar.name()).to_owned(),
            store_label: label,
            place: shown::clean(place),
            workload: PHASE.to_owned(),
            kinds: kinds.iter().map(kind).collect(),
            start_ns,
            ..TrialHeader::default()
        }))?;
        let header = PhaseHeader {
            trial: self.ordinal,
            name: PHASE.to_owned(),
            kind: PhaseKind::Drive,
            start_ns,
            ..PhaseHeader::default()
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
