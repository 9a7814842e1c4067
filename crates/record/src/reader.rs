//! Reads a recording: of a finished run, of one that was killed, and of one that is still going on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::serialization::Deserializer;
use plimsoll_core::{Footprint, Measure, Outcome, Pause, SeriesSpec, Setting, Slice, SliceHistogram, Watched};
use rusqlite::{Connection, OpenFlags, Row};

use crate::data::{
    AnswerCheck, Asked, Event, FigureSpec, GoalSpec, LedgerCheck, Phase, PhaseEnd, PhaseHeader, PhaseResult,
    PhaseState, PublishedSpec, Run, RunHeader, RunState, Sample, SamplerSeries, Trial, TrialHeader,
};
use crate::distribution::Distribution;
use crate::error::RecordError;
use crate::schema::{APPLICATION_ID, DISTURBED, FILE_NAME, FORMAT, UNFINISHED, WITNESS};

impl Run {
    /// Reads the recording at `path`: the file, or the directory of its run. Nothing is changed. Of a run that
    /// is going on it gives what was committed at one moment.
    ///
    /// # Errors
    /// The file cannot be read, is no recording, has a newer format, or is damaged.
    pub fn load(path: &Path) -> Result<Run, RecordError> {
        let mut recording = Recording::open(path)?;
        recording.read(read_run)
    }
}

/// Why a query gave nothing usable.
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Content(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

pub(crate) type Read<T> = Result<T, Fault>;

/// An open recording.
pub(crate) struct Recording {
    path: PathBuf,
    connection: Connection,
    /// Where a copy stands while it is read; removed with this.
    _copy: Option<Copy>,
}

struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Recording {
    /// Opens the file at `path`, or in the directory `path`, without a right to write.
    pub(crate) fn open(path: &Path) -> Result<Recording, RecordError> {
        let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let bytes = std::fs::metadata(&path).map_err(|error| RecordError::Read {
            path: path.clone(),
            what: if error.kind() == std::io::ErrorKind::NotFound {
                "there is no such file".into()
            } else {
                error.to_string()
            },
        })?;
        if !bytes.is_file() || bytes.len() < 100 {
            return Err(RecordError::NotARecording(path));
        }
        let log_bytes = std::fs::metadata(log_of(&path)).map_or(0, |log| log.len());
        // A log is read through an index beside it. Where that cannot be made (read-only media), a recording
        // without a log needs none, and one with a log is read as a copy.
        match Self::open_at(&path, &path, "") {
            Err(RecordError::Read { .. }) if log_bytes == 0 => Self::open_at(&path, &path, "?immutable=1"),
            Err(RecordError::Read { .. }) => Self::open_copy(&path),
            other => other,
        }
    }

    fn open_at(shown: &Path, file: &Path, query: &str) -> Result<Recording, RecordError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let numbers = Connection::open_with_flags(uri(file) + query, flags).and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(5))?;
            let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
            let format: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            Ok((connection, id, format))
        });
        let path = shown.to_owned();
        match numbers.map_err(|error| RecordError::reading(&path, &error))? {
            (_, id, _) if id != APPLICATION_ID => Err(RecordError::NotARecording(path)),
            (connection, _, found) if found > FORMAT => {
                // Its tables may be others, but a newer version has something to say its own by.
                let version = connection.query_row("SELECT plimsoll_version FROM run", [], |row| row.get(0));
                Err(RecordError::NewerFormat { path, found, written_by: version.ok() })
            }
            (_, _, found) if found < 1 => {
                Err(RecordError::Damaged { path, what: format!("no Plimsoll wrote a format {found}") })
            }
            (connection, _, _) => Ok(Recording { path, connection, _copy: None }),
        }
    }

    fn open_copy(path: &Path) -> Result<Recording, RecordError> {
        use std::os::unix::fs::DirBuilderExt;
        let failed = |error: std::io::Error| RecordError::Read { path: path.to_owned(), what: error.to_string() };
        let moment = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let place = std::env::temp_dir().join(format!("plimsoll-read-{}-{moment}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&place).map_err(failed)?;
        let copy = Copy(place);
        let file = copy.0.join(FILE_NAME);
        std::fs::copy(path, &file).map_err(failed)?;
        std::fs::copy(log_of(path), log_of(&file)).map_err(failed)?;
        Ok(Recording { _copy: Some(copy), ..Self::open_at(path, &file, "")? })
    }

    /// Runs `query` on the recording as it is at one moment.
    pub(crate) fn read<T>(&mut self, query: impl FnOnce(&Connection) -> Read<T>) -> Result<T, RecordError> {
        let answer = match self.connection.transaction() {
            Ok(moment) => query(&moment),
            Err(error) => Err(Fault::Sql(error)),
        };
        answer.map_err(|fault| match fault {
            Fault::Sql(error) => RecordError::reading(&self.path, &error),
            Fault::Content(what) => RecordError::Damaged { path: self.path.clone(), what },
        })
    }
}

/// The write-ahead log beside a file.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// SQLite's way to write a path with options behind it.
fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Reads all rows of `sql`, each with `get`.
pub(crate) fn all<T>(connection: &Connection, sql: &str, mut get: impl FnMut(&Row<'_>) -> Read<T>) -> Read<Vec<T>> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(get(row)?);
    }
    Ok(found)
}

/// The column at `position` as a count or a time.
fn count(row: &Row<'_>, position: usize) -> Read<u64> {
    optional_count(row, position)?.ok_or_else(|| Fault::Content(format!("column {position} of a row is null")))
}

fn optional_count(row: &Row<'_>, position: usize) -> Read<Option<u64>> {
    match row.get::<_, Option<i64>>(position)? {
        None => Ok(None),
        Some(value) => u64::try_from(value).map(Some).map_err(|_| Fault::Content(format!("{value} is no count"))),
    }
}

fn number(row: &Row<'_>, position: usize) -> Read<f64> {
    Ok(row.get::<_, Option<f64>>(position)?.unwrap_or(f64::NAN))
}

fn outcome(word: &str) -> Read<Outcome> {
    let found = Outcome::ALL.into_iter().find(|outcome| outcome.name() == word);
    found.ok_or_else(|| Fault::Content(format!("there is no outcome {word:?}")))
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Read<T> {
    serde_json::from_str(text).map_err(|error| Fault::Content(format!("{error} in {text:?}")))
}

pub(crate) fn run_state(word: &str, reason: Option<String>) -> Read<RunState> {
    match word {
        "unfinished" => Ok(RunState::Unfinished),
        "complete" => Ok(RunState::Complete),
        "interrupted" => Ok(RunState::Interrupted),
        "failed" => Ok(RunState::Failed(reason.unwrap_or_default())),
        _ => Err(Fault::Content(format!("there is no state {word:?} of a run"))),
    }
}

fn phase_state(word: &str, reason: Option<String>) -> Read<PhaseState> {
    match word {
        "unfinished" => Ok(PhaseState::Unfinished),
        "complete" => Ok(PhaseState::Complete),
        "interrupted" => Ok(PhaseState::Interrupted),
        "failed" => Ok(PhaseState::Failed(reason.unwrap_or_default())),
        "void" => Ok(PhaseState::Void(reason.unwrap_or_default())),
        _ => Err(Fault::Content(format!("there is no state {word:?} of a phase"))),
    }
}

fn read_run(connection: &Connection) -> Read<Run> {
    let mut trials = read_trials(connection)?;
    let mut phases = read_phases(connection)?;
    for trial in &mut trials {
        let ordinal = trial.header.ordinal;
        while let Some(first) = phases.first_entry().filter(|first| first.key().0 == ordinal) {
            trial.phases.push(first.remove());
        }
    }
    if let Some(((trial, phase), _)) = phases.first_key_value() {
        return Err(Fault::Content(format!("phase {phase} belongs to trial {trial}, and there is none")));
    }
    read_checks(connection, &mut trials)?;
    let (state, reason, end_ns, recorder_bytes) =
        one(all(connection, "SELECT state, reason, end_ns, recorder_bytes FROM run", |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, optional_count(row, 2)?, count(row, 3)?))
        })?)?;
    Ok(Run {
        header: read_header(connection)?,
        state: run_state(&state, reason)?,
        end_ns,
        trials,
        samples: read_samples(connection)?,
        events: all(connection, "SELECT at_ns, trial, level, kind, text FROM event ORDER BY at_ns, ordinal", |row| {
            Ok(Event {
                at_ns: count(row, 0)?,
                trial: row.get(1)?,
                level: row.get(2)?,
                kind: row.get(3)?,
                text: row.get(4)?,
            })
        })?,
        recorder_bytes,
    })
}

/// The only one of `rows`.
pub(crate) fn one<T>(mut rows: Vec<T>) -> Read<T> {
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        _ => Err(Fault::Content("it does not describe exactly one run".into())),
    }
}

fn read_header(connection: &Connection) -> Read<RunHeader> {
    let sql = "SELECT id, plimsoll_version, plan_name, title, question, source, plan_text, plan_json, command_line, \
               seed, slice_ns, started_wall_ns FROM run";
    let mut header = one(all(connection, sql, |row| {
        let seed: String = row.get(9)?;
        Ok(RunHeader {
            id: row.get(0)?,
            plimsoll_version: row.get(1)?,
            plan_name: row.get(2)?,
            title: row.get(3)?,
            question: row.get(4)?,
            source: row.get(5)?,
            plan_text: row.get(6)?,
            plan_json: row.get(7)?,
            command_line: json(&row.get::<_, String>(8)?)?,
            seed: seed.parse().map_err(|_| Fault::Content(format!("{seed:?} is no seed")))?,
            slice_ns: count(row, 10)?,
            started_wall_ns: row.get(11)?,
            environment: Vec::new(),
            left_out: Vec::new(),
            goals: Vec::new(),
            figures: Vec::new(),
            series: Vec::new(),
        })
    })?)?;
    header.environment =
        all(connection, "SELECT name, value FROM environment ORDER BY ordinal", |row| Ok((row.get(0)?, row.get(1)?)))?;
    header.left_out = all(connection, "SELECT text FROM left_out ORDER BY ordinal", |row| Ok(row.get(0)?))?;
    header.goals = all(connection, "SELECT what, limit_value, unit FROM goal ORDER BY ordinal", |row| {
        Ok(GoalSpec { what: row.get(0)?, limit: number(row, 1)?, unit: row.get(2)? })
    })?;
    header.figures = all(connection, "SELECT name, unit, formula FROM figure ORDER BY ordinal", |row| {
        Ok(FigureSpec { name: row.get(0)?, unit: row.get(1)?, formula: row.get(2)?, published: Vec::new() })
    })?;
    let format: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let since_2 = if format < 2 { "'{}'" } else { "labels" };
    let sql = format!("SELECT figure, value, measured_on, {since_2} FROM published ORDER BY figure, ordinal");
    for (figure, value, of, labels) in all(connection, &sql, |row| {
        let labels: String = row.get(3)?;
        Ok((count(row, 0)? as usize, number(row, 1)?, row.get(2)?, labels))
    })? {
        let at = serde_json::from_str(&labels)
            .map_err(|_| Fault::Content("the labels of a published value are not JSON".into()))?;
        let figure = header.figures.get_mut(figure);
        figure
            .ok_or_else(|| Fault::Content("a value was published for no figure".into()))?
            .published
            .push(PublishedSpec { value, of, at });
    }
    header.series = all(connection, "SELECT sampler, subject, name, unit FROM series ORDER BY ordinal", |row| {
        let spec = SeriesSpec { subject: row.get(1)?, name: row.get(2)?, unit: row.get(3)? };
        Ok(SamplerSeries { sampler: row.get(0)?, spec })
    })?;
    Ok(header)
}

fn read_samples(connection: &Connection) -> Read<Vec<Sample>> {
    let mut samples: Vec<Sample> = Vec::new();
    all(connection, "SELECT at_ns, series, value FROM sample ORDER BY at_ns, series", |row| {
        let at_ns = count(row, 0)?;
        let value = (row.get(1)?, row.get(2)?);
        match samples.last_mut() {
            Some(last) if last.at_ns == at_ns => last.values.push(value),
            _ => samples.push(Sample { at_ns, values: vec![value] }),
        }
        Ok(())
    })?;
    Ok(samples)
}

fn read_trials(connection: &Connection) -> Read<Vec<Trial>> {
    let sql = "SELECT ordinal, store, store_label, place, version, workload, record_count, record_bytes, start_ns, \
               end_ns FROM trial ORDER BY ordinal";
    let mut trials = all(connection, sql, |row| {
        Ok(Trial {
            header: TrialHeader {
                ordinal: row.get(0)?,
                store: row.get(1)?,
                store_label: row.get(2)?,
                place: row.get(3)?,
                version: row.get(4)?,
                settings: Vec::new(),
                workload: row.get(5)?,
                params: BTreeMap::new(),
                labels: BTreeMap::new(),
                kinds: Vec::new(),
                record_count: count(row, 6)?,
                record_bytes: count(row, 7)?,
                start_ns: count(row, 8)?,
            },
            end_ns: optional_count(row, 9)?,
            phases: Vec::new(),
            answers: Vec::new(),
            ledgers: Vec::new(),
        })
    })?;
    let of = |trials: &mut Vec<Trial>, ordinal: u32, add: &mut dyn FnMut(&mut Trial)| -> Read<()> {
        find_trial(trials, ordinal).map(add)
    };
    all(connection, "SELECT trial, name, value FROM label", |row| {
        let (name, value): (String, String) = (row.get(1)?, row.get(2)?);
        of(&mut trials, row.get(0)?, &mut |trial| drop(trial.header.labels.insert(name.clone(), value.clone())))
    })?;
    all(connection, "SELECT trial, name, value FROM param", |row| {
        let (name, value): (String, String) = (row.get(1)?, row.get(2)?);
        of(&mut trials, row.get(0)?, &mut |trial| drop(trial.header.params.insert(name.clone(), value.clone())))
    })?;
    let sql = "SELECT trial, name, value, default_value, source FROM setting ORDER BY trial, ordinal";
    all(connection, sql, |row| {
        let setting = Setting { name: row.get(1)?, value: row.get(2)?, default: row.get(3)?, source: row.get(4)? };
        of(&mut trials, row.get(0)?, &mut |trial| trial.header.settings.push(setting.clone()))
    })?;
    all(connection, "SELECT trial, definition FROM op_kind ORDER BY trial, ordinal", |row| {
        let kind: plimsoll_core::OpKind = json(&row.get::<_, String>(1)?)?;
        of(&mut trials, row.get(0)?, &mut |trial| trial.header.kinds.push(kind.clone()))
    })?;
    Ok(trials)
}

fn find_trial(trials: &mut [Trial], ordinal: u32) -> Read<&mut Trial> {
    let found = trials.iter_mut().find(|trial| trial.header.ordinal == ordinal);
    found.ok_or_else(|| Fault::Content(format!("a row belongs to trial {ordinal}, and there is none")))
}

type Phases = BTreeMap<(u32, u32), Phase>;

/// The phase that the first two columns of `row` name.
fn phase_of<'a>(phases: &'a mut Phases, row: &Row<'_>) -> Read<&'a mut Phase> {
    let key = (row.get(0)?, row.get(1)?);
    phases.get_mut(&key).ok_or_else(|| Fault::Content(format!("a row belongs to no phase: {key:?}")))
}

fn read_phases(connection: &Connection) -> Read<Phases> {
    let format: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let late = if format < 3 { "NULL" } else { "late" };
    let sql = format!(
        "SELECT trial, ordinal, name, kind, durability, clients, rate_per_s, start_ns, end_ns, state, reason, \
         data_bytes, index_bytes, total_bytes, {late} FROM phase"
    );
    let found = all(connection, &sql, |row| {
        let header = PhaseHeader {
            trial: row.get(0)?,
            ordinal: row.get(1)?,
            name: row.get(2)?,
            kind: row.get(3)?,
            durability: row.get(4)?,
            clients: row.get(5)?,
            rate_per_s: row.get(6)?,
            start_ns: count(row, 7)?,
        };
        let footprint = match optional_count(row, 11)? {
            None => None,
            Some(data_bytes) => Some(Footprint {
                data_bytes,
                index_bytes: optional_count(row, 12)?,
                total_bytes: optional_count(row, 13)?,
            }),
        };
        let (state, late) = match phase_state(&row.get::<_, String>(9)?, row.get(10)?)? {
            // Nobody had asked for strictness: there was nothing else.
            PhaseState::Void(why) if format < 3 => (PhaseState::Complete, Some(why)),
            state => (state, row.get(14)?),
        };
        let end = PhaseEnd {
            end_ns: optional_count(row, 8)?.unwrap_or(header.start_ns),
            state,
            late,
            results: Vec::new(),
            asked: Vec::new(),
            footprint,
            remarks: Vec::new(),
        };
        Ok(((header.trial, header.ordinal), Phase { header, end, slices: Vec::new() }))
    })?;
    let mut phases: Phases = found.into_iter().collect();
    all(connection, "SELECT trial, phase, name, unit, value, n FROM result ORDER BY trial, phase, ordinal", |row| {
        let result = PhaseResult { name: row.get(2)?, unit: row.get(3)?, value: number(row, 4)?, n: count(row, 5)? };
        phase_of(&mut phases, row).map(|phase| phase.end.results.push(result))
    })?;
    let sql = "SELECT trial, phase, kind, start_ns, end_ns, outcome, rows FROM asked ORDER BY trial, phase, ordinal";
    all(connection, sql, |row| {
        let asked = Asked {
            kind: row.get(2)?,
            start_ns: count(row, 3)?,
            end_ns: count(row, 4)?,
            outcome: outcome(&row.get::<_, String>(5)?)?,
            rows: count(row, 6)?,
        };
        phase_of(&mut phases, row).map(|phase| phase.end.asked.push(asked))
    })?;
    all(connection, "SELECT trial, phase, name, text FROM remark ORDER BY trial, phase, ordinal", |row| {
        let remark = (row.get(2)?, row.get(3)?);
        phase_of(&mut phases, row).map(|phase| phase.end.remarks.push(remark))
    })?;
    read_slices(connection, &mut phases)?;
    for phase in phases.values_mut().filter(|phase| phase.end.state == PhaseState::Unfinished) {
        phase.end.end_ns = phase.slices.last().map_or(phase.end.end_ns, |slice| slice.end_ns);
    }
    Ok(phases)
}

fn read_slices(connection: &Connection, phases: &mut Phases) -> Read<()> {
    let format: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let since_2 = if format < 2 { "0, 0, 0" } else { "drain, voluntary_switches, involuntary_switches" };
    let since_3 = if format < 3 { "NULL" } else { "disturbed_ns" };
    let sql = format!(
        "SELECT trial, phase, ordinal, warmup, start_ns, end_ns, wall_ns, due_unsent, in_flight, oldest_age_ns, \
         lag_p50_ns, lag_p99_ns, lag_max_ns, worker_cpu_ns, {since_2}, {since_3} FROM slice ORDER BY trial, phase, ordinal"
    );
    all(connection, &sql, |row| {
        let slice = Slice {
            ordinal: row.get(2)?,
            warmup: row.get(3)?,
            start_ns: count(row, 4)?,
            end_ns: count(row, 5)?,
            wall_ns: row.get(6)?,
            histograms: Vec::new(),
            unfinished: None,
            due_unsent: count(row, 7)?,
            in_flight: count(row, 8)?,
            oldest_age_ns: count(row, 9)?,
            lag_p50_ns: count(row, 10)?,
            lag_p99_ns: count(row, 11)?,
            lag_max_ns: count(row, 12)?,
            worker_cpu_ns: count(row, 13)?,
            drain: row.get(14)?,
            voluntary_switches: count(row, 15)?,
            involuntary_switches: count(row, 16)?,
            watched: optional_count(row, 17)?.map(|disturbed_ns| Watched { disturbed_ns, ..Watched::default() }),
        };
        phase_of(phases, row).map(|phase| phase.slices.push(slice))
    })?;
    read_histograms(connection, phases)?;
    if format < 3 {
        return Ok(());
    }
    all(connection, "SELECT trial, phase, slice, start_ns, end_ns, cpu FROM pause ORDER BY rowid", |row| {
        let pause = Pause { start_ns: count(row, 3)?, end_ns: count(row, 4)?, cpu: row.get(5)? };
        watched(slice_of(phases, row)?).map(|watched| watched.pauses.push(pause))
    })?;
    Ok(())
}

/// The slice that the first three columns of `row` name.
fn slice_of<'a>(phases: &'a mut Phases, row: &Row<'_>) -> Read<&'a mut Slice<Distribution>> {
    let ordinal: u32 = row.get(2)?;
    let slices = &mut phase_of(phases, row)?.slices;
    let position = slices.binary_search_by_key(&ordinal, |slice| slice.ordinal);
    let slice = position.ok().and_then(|position| slices.get_mut(position));
    slice.ok_or_else(|| Fault::Content(format!("a row belongs to slice {ordinal}, and there is none")))
}

/// What a witness saw of `slice`.
fn watched(slice: &mut Slice<Distribution>) -> Read<&mut Watched<Distribution>> {
    let ordinal = slice.ordinal;
    let watched = slice.watched.as_mut();
    watched.ok_or_else(|| Fault::Content(format!("slice {ordinal} was disturbed, and nobody watched")))
}

fn read_histograms(connection: &Connection, phases: &mut Phases) -> Read<()> {
    let mut decoder = Deserializer::new();
    // In the order in which they were written: no sorting of what holds the bulk of the bytes.
    let sql = "SELECT trial, phase, slice, kind, outcome, measure, hdr FROM histogram ORDER BY rowid";
    all(connection, sql, |row| {
        let kind: Option<u16> = row.get(3)?;
        let word: String = row.get(4)?;
        let measure: String = row.get(5)?;
        let mut bytes = row.get_ref(6)?.as_blob().map_err(rusqlite::Error::from)?;
        let slice = slice_of(phases, row)?;
        let dense = decoder.deserialize::<u64, _>(&mut bytes);
        let dense =
            dense.map_err(|error| Fault::Content(format!("a histogram of slice {}: {error}", slice.ordinal)))?;
        let histogram = Distribution::from(&dense);
        let Some(kind) = kind else {
            match word.as_str() {
                UNFINISHED => slice.unfinished = Some(histogram),
                WITNESS => watched(slice)?.lateness = Some(histogram),
                _ => return Err(Fault::Content("a histogram is of no kind of operation".into())),
            }
            return Ok(());
        };
        let (is_disturbed, measure) = match measure.strip_prefix(DISTURBED) {
            Some(measure) => (true, measure),
            None => (false, measure.as_str()),
        };
        let measure = [Measure::Response, Measure::Service].into_iter().find(|one| one.name() == measure);
        let measure = measure.ok_or_else(|| Fault::Content("a histogram is of no known measure".into()))?;
        let one = SliceHistogram { kind, outcome: outcome(&word)?, measure, histogram };
        if is_disturbed {
            watched(slice)?.disturbed.push(one)
        } else {
            slice.histograms.push(one)
        }
        Ok(())
    })?;
    Ok(())
}

fn read_checks(connection: &Connection, trials: &mut [Trial]) -> Read<()> {
    let mut examples: BTreeMap<(u32, u32, Option<String>), Vec<String>> = BTreeMap::new();
    all(connection, "SELECT trial, phase, op, text FROM example ORDER BY rowid", |row| {
        examples.entry((row.get(0)?, row.get(1)?, row.get(2)?)).or_default().push(row.get(3)?);
        Ok(())
    })?;
    let mut disagreements: BTreeMap<(u32, u32), BTreeMap<String, u64>> = BTreeMap::new();
    all(connection, "SELECT trial, phase, name, count FROM disagreement", |row| {
        disagreements.entry((row.get(0)?, row.get(1)?)).or_default().insert(row.get(2)?, count(row, 3)?);
        Ok(())
    })?;
    let sql = "SELECT trial, phase, op, answers, expected, got, missing, wrong FROM answer_check ORDER BY 1, 2, 3";
    all(connection, sql, |row| {
        let (trial, phase, op): (u32, u32, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        find_trial(trials, trial)?.answers.push(AnswerCheck {
            trial,
            phase,
            answers: count(row, 3)?,
            expected: count(row, 4)?,
            got: count(row, 5)?,
            missing: count(row, 6)?,
            wrong: count(row, 7)?,
            examples: examples.remove(&(trial, phase, Some(op.clone()))).unwrap_or_default(),
            op,
        });
        Ok(())
    })?;
    let sql = "SELECT trial, phase, acknowledged, rejected, unknown, read_back, lost, lost_first_ns, lost_last_ns, \
               loss_upper_bound, complete, sentence FROM ledger_check ORDER BY trial, phase";
    all(connection, sql, |row| {
        let (trial, phase): (u32, u32) = (row.get(0)?, row.get(1)?);
        find_trial(trials, trial)?.ledgers.push(LedgerCheck {
            trial,
            phase,
            acknowledged: count(row, 2)?,
            rejected: count(row, 3)?,
            unknown: count(row, 4)?,
            read_back: count(row, 5)?,
            lost: count(row, 6)?,
            lost_window_ns: optional_count(row, 7)?.zip(optional_count(row, 8)?),
            wrong: disagreements.remove(&(trial, phase)).unwrap_or_default(),
            loss_upper_bound: row.get(9)?,
            complete: row.get(10)?,
            examples: examples.remove(&(trial, phase, None)).unwrap_or_default(),
            sentence: row.get(11)?,
        });
        Ok(())
    })?;
    Ok(())
}
