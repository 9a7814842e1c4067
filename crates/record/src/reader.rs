//! Reads a recording: of a finished run, of one that was killed, and of one that is still going on.

mod slices;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::serialization::Deserializer;
use rusqlite::{Connection, OpenFlags, Row};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::data::{
    Event, EventClass, FaultDetail, FaultKind, FaultSpan, Level, Operations, Phase, PhaseEnd, PhaseHeader, PhaseResult,
    PhaseState, ResultName, Run, RunEnd, RunHeader, Sample, Series, SeriesKind, Trial, TrialHeader,
};
use crate::distribution::Distribution;
use crate::error::RecordError;
use crate::fault::skipped_of_words;
use crate::operations;
use crate::schema::{APPLICATION_ID, FILE_NAME, FORMAT, beside, has_table};
use slices::{check_generator, read_slices};

/// Largest count and latest time of a recording: two years, in nanoseconds. Calculations with such numbers do not overflow.
const COUNT_MAX: u64 = 1 << 56;
/// Suffix of the name of the write-ahead log.
const LOG: &str = "-wal";

impl Run {
    /// Reads the recording at `path`: the file, or the directory of its run. Nothing is changed. Of a run that
    /// is going on it gives what was committed at one moment.
    ///
    /// # Errors
    /// The file cannot be read, is no recording, has another format or several load generators, or is damaged.
    pub fn load(path: &Path) -> Result<Run, RecordError> {
        let mut recording = Recording::open(path)?;
        // All of it is of one moment.
        let run = match recording.connection.transaction() {
            Ok(moment) => read_run(&moment),
            Err(error) => Err(Fault::Sql(error)),
        };
        run.map_err(|fault| match fault {
            Fault::Sql(error) => RecordError::reading(&recording.path, &error),
            Fault::Content(what) => RecordError::Damaged { path: recording.path.clone(), what },
            Fault::Generator(found) => RecordError::OtherGenerator { path: recording.path.clone(), found },
        })
    }
}

/// Facts about a recording that are read without its measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// The plan's name.
    pub plan_name: String,
    /// The plan as it was expanded.
    pub plan_json: String,
    /// The run ended as planned.
    pub is_complete: bool,
    /// The trials that ended: the store, as reports call it, and how long each took, in nanoseconds.
    pub trials: Vec<(String, u64)>,
}

/// A look at the recording at `path`, the file or the directory of its run.
///
/// # Errors
/// As [`Run::load`], but for what is not looked at.
pub fn glance(path: &Path) -> Result<Glance, RecordError> {
    let Recording { path, connection, _copy } = Recording::open(path)?;
    let read = || -> rusqlite::Result<Glance> {
        let sql = "SELECT header ->> 'plan_name', plan, coalesce(ended ->> 'state', '') = 'complete' FROM run";
        let (plan_name, plan_json, is_complete) =
            connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let sql = "SELECT store_label, end_ns - (header ->> 'start_ns') FROM trial WHERE end_ns IS NOT NULL";
        let mut statement = connection.prepare(sql)?;
        let trials = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
        let trials = trials.collect::<rusqlite::Result<_>>()?;
        Ok(Glance { plan_name, plan_json, is_complete, trials })
    };
    read().map_err(|error| RecordError::reading(&path, &error))
}

/// Returns the files that the recording at `path`, the file or the directory of its run, may consist of.
pub fn files(path: &Path) -> [PathBuf; 4] {
    let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
    // SQLite's other files stand beside the file that a link leads to.
    let path = path.canonicalize().unwrap_or(path);
    ["", LOG, "-shm", "-journal"].map(|end| beside(&path, end))
}

/// Returns true if the file at `path` begins as recordings do: no report replaces one.
pub fn is_file_of_one(path: &Path) -> bool {
    let mut begins = [0; 15];
    // A pipe would wait for its other end.
    path.is_file()
        && std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut begins).is_ok())
        && begins == *b"SQLite format 3"
}

/// Fault of a query's result.
enum Fault {
    Sql(rusqlite::Error),
    Content(String),
    /// Measurements of a load generator that is not known, by its number.
    Generator(i64),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

type Read<T> = Result<T, Fault>;

/// An open recording.
struct Recording {
    path: PathBuf,
    connection: Connection,
    /// Directory of a copy while it is read; removed on drop.
    _copy: Option<TempDir>,
}

impl Recording {
    /// Opens the file at `path`, or in the directory `path`, without a right to write.
    fn open(path: &Path) -> Result<Recording, RecordError> {
        let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::PermissionDenied => RecordError::Unreadable(path.clone()),
            ErrorKind::NotFound => RecordError::Read { path: path.clone(), what: "there is no such file".into() },
            _ => RecordError::Read { path: path.clone(), what: error.to_string() },
        };
        let bytes = std::fs::metadata(&path).map_err(failed)?;
        if !bytes.is_file() || bytes.len() < 100 {
            return Err(RecordError::NotARecording(path));
        }
        std::fs::File::open(&path).map_err(failed)?;
        let log_bytes = std::fs::metadata(beside(&path, LOG)).map_or(0, |log| log.len());
        // A log is read through an index beside it. Where that cannot be made (read-only media), a recording
        // without a log needs none, and one with a log is read as a copy.
        let opened = match Self::open_at(&path, &path, "") {
            Err(RecordError::Read { .. }) if log_bytes == 0 => Self::open_at(&path, &path, "?immutable=1"),
            Err(RecordError::Read { .. }) => Self::open_copy(&path),
            other => other,
        }?;
        if log_bytes == 0 {
            opened.is_whole(bytes.len())?;
        }
        Ok(opened)
    }

    /// Fails if a file of `bytes`, which has no log, is cut off. SQLite takes a part of the last page for the page.
    fn is_whole(&self, bytes: u64) -> Result<(), RecordError> {
        let number = |name: &str| self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        let whole = number("page_size").and_then(|size| Ok(size * number("page_count")?));
        let whole = whole.map_err(|error| RecordError::reading(&self.path, &error))? as u64;
        if bytes < whole {
            let what = format!("{bytes} of {whole} bytes are there");
            return Err(RecordError::Damaged { path: self.path.clone(), what });
        }
        Ok(())
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
            (_, _, found) if found < 1 => {
                Err(RecordError::Damaged { path, what: format!("no version of Plimsoll wrote format {found}") })
            }
            (connection, _, found) if found != FORMAT => {
                // Its tables are others, but every version has something to say its own by.
                let version = connection.query_row("SELECT plimsoll_version FROM run", [], |row| row.get(0));
                Err(RecordError::OtherFormat { path, found, written_by: version.ok() })
            }
            (connection, _, _) => Ok(Recording { path, connection, _copy: None }),
        }
    }

    fn open_copy(path: &Path) -> Result<Recording, RecordError> {
        let failed = |error: std::io::Error| RecordError::Read { path: path.to_owned(), what: error.to_string() };
        let own = Permissions::from_mode(0o700);
        let copy = tempfile::Builder::new().prefix("plimsoll-read-").permissions(own).tempdir().map_err(failed)?;
        let file = copy.path().join(FILE_NAME);
        std::fs::copy(path, &file).map_err(failed)?;
        std::fs::copy(beside(path, LOG), beside(&file, LOG)).map_err(failed)?;
        Ok(Recording { _copy: Some(copy), ..Self::open_at(path, &file, "")? })
    }
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
fn all<T>(connection: &Connection, sql: &str, mut get: impl FnMut(&Row<'_>) -> Read<T>) -> Read<Vec<T>> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(get(row)?);
    }
    Ok(found)
}

/// Reads all rows of `sql` from `table`, which not all recordings have.
fn all_of_table<T>(
    connection: &Connection,
    table: &str,
    sql: &str,
    get: impl FnMut(&Row<'_>) -> Read<T>,
) -> Read<Vec<T>> {
    if has_table(connection, table)? { all(connection, sql, get) } else { Ok(Vec::new()) }
}

/// Returns the bytes of the column at `position`.
fn blob<'a>(row: &'a Row<'_>, position: usize) -> Read<&'a [u8]> {
    Ok(row.get_ref(position)?.as_blob().map_err(rusqlite::Error::from)?)
}

/// The column at `position` as a count or a time.
fn count(row: &Row<'_>, position: usize) -> Read<u64> {
    optional_count(row, position)?.ok_or_else(|| Fault::Content(format!("column {position} of a row is null")))
}

fn optional_count(row: &Row<'_>, position: usize) -> Read<Option<u64>> {
    match row.get::<_, Option<i64>>(position)? {
        None => Ok(None),
        Some(value) => match u64::try_from(value) {
            Ok(count) if count <= COUNT_MAX => Ok(Some(count)),
            _ => {
                let column = row.as_ref().column_name(position)?;
                Err(Fault::Content(format!("{value} in the column {column:?} is not a count or a time")))
            }
        },
    }
}

/// Checks that a time is possible and that its end is not before its beginning; `what` it is the time of.
fn check_time(what: &str, from_ns: u64, until_ns: u64) -> Read<()> {
    if from_ns <= until_ns && until_ns <= COUNT_MAX {
        return Ok(());
    }
    Err(Fault::Content(format!("{what} is from {from_ns} ns to {until_ns} ns")))
}

/// Converts `word` to the value that it names.
fn named<T>(word: &str, named: impl Fn(&str) -> Option<T>) -> Read<T> {
    named(word).ok_or_else(|| Fault::Content(format!("{word:?} is unknown")))
}

/// The document in the column at `position`, if there is one.
fn optional_document<T: DeserializeOwned>(row: &Row<'_>, position: usize) -> Read<Option<T>> {
    let column = row.as_ref().column_name(position)?;
    let text = row.get_ref(position)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let document = text.map(serde_json::from_str).transpose();
    document.map_err(|error| Fault::Content(format!("{column:?} of a row: {error}")))
}

fn document<T: DeserializeOwned>(row: &Row<'_>, position: usize) -> Read<T> {
    optional_document(row, position)?.ok_or_else(|| Fault::Content(format!("column {position} of a row is null")))
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
        return Err(Fault::Content(format!("phase {phase} belongs to trial {trial}, which does not exist")));
    }
    all(connection, "SELECT trial, found FROM answers ORDER BY trial, phase, found ->> 'op'", |row| {
        find_trial(&mut trials, row.get(0)?)?.answers.push(document(row, 1)?);
        Ok(())
    })?;
    all(connection, "SELECT trial, found FROM ledger ORDER BY trial, phase", |row| {
        find_trial(&mut trials, row.get(0)?)?.ledgers.push(document(row, 1)?);
        Ok(())
    })?;
    for fault in read_faults(connection)? {
        find_trial(&mut trials, fault.trial)?.faults.push(fault);
    }
    let mut runs = all(connection, "SELECT header, plan, ended, recorder_bytes FROM run", |row| {
        let header = RunHeader { plan_json: row.get(1)?, ..document(row, 0)? };
        let ended: Option<RunEnd> = optional_document(row, 2)?;
        Ok((header, ended, count(row, 3)?))
    })?;
    let (Some((header, ended, recorder_bytes)), true) = (runs.pop(), runs.is_empty()) else {
        return Err(Fault::Content("it does not describe exactly one run".into()));
    };
    let end_ns = ended.as_ref().map(|ended| ended.end_ns);
    Ok(Run {
        header,
        state: ended.unwrap_or_default().state,
        end_ns,
        trials,
        series: read_series(connection)?,
        samples: read_samples(connection)?,
        fine_samples: read_fine_samples(connection)?,
        events: read_events(connection)?,
        recorder_bytes,
    })
}

fn read_events(connection: &Connection) -> Read<Vec<Event>> {
    let sql = "SELECT from_ns, until_ns, trial, level, class, subject, text FROM event ORDER BY from_ns, ordinal";
    all(connection, sql, |row| {
        let (from_ns, until_ns) = (count(row, 0)?, count(row, 1)?);
        check_time("an event", from_ns, until_ns)?;
        let (class, text) = (named(&row.get::<_, String>(4)?, EventClass::named)?, row.get::<_, String>(6)?);
        Ok(Event {
            from_ns,
            until_ns,
            trial: row.get(2)?,
            level: named(&row.get::<_, String>(3)?, Level::named)?,
            class: class.of_recorded(&text),
            subject: row.get(5)?,
            text,
        })
    })
}

/// Reads the parts of faults by trial and ordinal, of a recording that has them.
fn read_fault_details(connection: &Connection) -> Read<BTreeMap<(u32, u32), FaultDetail>> {
    let sql = "SELECT trial, ordinal, detail FROM fault_detail";
    let one = |row: &Row<'_>| Ok(((row.get(0)?, row.get(1)?), document(row, 2)?));
    all_of_table(connection, "fault_detail", sql, one).map(|details| details.into_iter().collect())
}

fn read_faults(connection: &Connection) -> Read<Vec<FaultSpan>> {
    let sql = "SELECT trial, phase, ordinal, kind, subject, fault, planned_ns, begun_ns, taken_ns, healing_ns, healed_ns, \
               error FROM fault ORDER BY trial, ordinal";
    let mut details = read_fault_details(connection)?;
    all(connection, sql, |row| {
        let (trial, ordinal): (u32, u32) = (row.get(0)?, row.get(2)?);
        let (kind, fault) = (named(&row.get::<_, String>(3)?, FaultKind::named)?, row.get::<_, String>(5)?);
        let (detail, subject) = (details.remove(&(trial, ordinal)), row.get::<_, String>(4)?);
        let mut detail = FaultDetail::completed(detail, kind, &fault, &subject);
        let (error, is_skipped) = skipped_of_words(row.get(11)?);
        detail.is_skipped |= is_skipped;
        Ok(FaultSpan {
            trial,
            phase: row.get(1)?,
            ordinal,
            kind,
            detail,
            subject,
            fault,
            planned_ns: count(row, 6)?,
            begun_ns: count(row, 7)?,
            taken_ns: optional_count(row, 8)?,
            healing_ns: optional_count(row, 9)?,
            healed_ns: optional_count(row, 10)?,
            error,
        })
    })
}

fn read_series(connection: &Connection) -> Read<Vec<Series>> {
    all(connection, "SELECT source, subject, name, unit, kind FROM series ORDER BY ordinal", |row| {
        let kind = named(&row.get::<_, String>(4)?, SeriesKind::named)?;
        Ok(Series { source: row.get(0)?, subject: row.get(1)?, name: row.get(2)?, unit: row.get(3)?, kind })
    })
}

/// The values in a table of samples.
fn read_values(connection: &Connection, table: &str) -> Read<Vec<Sample>> {
    let mut samples: Vec<Sample> = Vec::new();
    all(connection, &format!("SELECT at_ns, series, value FROM {table} ORDER BY at_ns, series"), |row| {
        let at_ns = count(row, 0)?;
        let value = (row.get(1)?, row.get(2)?);
        match samples.last_mut() {
            Some(last) if last.at_ns == at_ns => last.values.push(value),
            _ => samples.push(Sample { at_ns, values: vec![value], ..Sample::default() }),
        }
        Ok(())
    })?;
    Ok(samples)
}

fn read_fine_samples(connection: &Connection) -> Read<Vec<Sample>> {
    if has_table(connection, "fine_sample")? { read_values(connection, "fine_sample") } else { Ok(Vec::new()) }
}

fn read_samples(connection: &Connection) -> Read<Vec<Sample>> {
    let mut samples = read_values(connection, "sample")?;
    let mut decoder = Deserializer::new();
    all(connection, "SELECT at_ns, series, hdr FROM distribution ORDER BY at_ns, series", |row| {
        let (at_ns, one) = (count(row, 0)?, (row.get(1)?, distribution(&mut decoder, row, 2, "a distribution")?));
        match samples.binary_search_by_key(&at_ns, |sample| sample.at_ns) {
            Ok(known) => samples[known].distributions.push(one),
            Err(place) => samples.insert(place, Sample { at_ns, distributions: vec![one], ..Sample::default() }),
        }
        Ok(())
    })?;
    Ok(samples)
}

/// The histogram in the column at `position`; `what` it is.
fn distribution(decoder: &mut Deserializer, row: &Row<'_>, position: usize, what: &str) -> Read<Distribution> {
    let mut bytes = blob(row, position)?;
    let dense = decoder.deserialize::<u64, _>(&mut bytes);
    dense.map(|dense| Distribution::from(&dense)).map_err(|error| Fault::Content(format!("{what}: {error}")))
}

fn read_trials(connection: &Connection) -> Read<Vec<Trial>> {
    all(connection, "SELECT header, end_ns FROM trial ORDER BY ordinal", |row| {
        let (header, end_ns): (TrialHeader, _) = (document(row, 0)?, optional_count(row, 1)?);
        check_time("a trial", 0, header.start_ns)?;
        Ok(Trial { header, end_ns, ..Trial::default() })
    })
}

fn find_trial(trials: &mut [Trial], ordinal: u32) -> Read<&mut Trial> {
    let found = trials.iter_mut().find(|trial| trial.header.ordinal == ordinal);
    found.ok_or_else(|| Fault::Content(format!("a row belongs to trial {ordinal}, which does not exist")))
}

type Phases = BTreeMap<(u32, u32), Phase>;

/// The phase that the first two columns of `row` name.
fn phase_of<'a>(phases: &'a mut Phases, row: &Row<'_>) -> Read<&'a mut Phase> {
    let key = (row.get(0)?, row.get(1)?);
    phases.get_mut(&key).ok_or_else(|| Fault::Content(format!("a row belongs to no phase: {key:?}")))
}

fn read_phases(connection: &Connection) -> Read<Phases> {
    let found = all(connection, "SELECT trial, ordinal, header, ended FROM phase", |row| {
        let header: PhaseHeader = document(row, 2)?;
        let unfinished = || PhaseEnd { end_ns: header.start_ns, ..PhaseEnd::default() };
        let end = optional_document::<PhaseEnd>(row, 3)?.unwrap_or_else(unfinished).completed();
        check_time("a phase", 0, header.start_ns.max(end.end_ns))?;
        Ok(((row.get(0)?, row.get(1)?), Phase { header, end, ..Phase::default() }))
    })?;
    let mut phases: Phases = found.into_iter().collect();
    let sql = "SELECT trial, phase, name, subject, value, n FROM result ORDER BY trial, phase, ordinal";
    all(connection, sql, |row| {
        let name = named(&row.get::<_, String>(2)?, ResultName::named)?;
        let value = row.get::<_, Option<f64>>(4)?.unwrap_or(f64::NAN);
        let result = PhaseResult { name, subject: row.get(3)?, value, n: count(row, 5)? };
        phase_of(&mut phases, row).map(|phase| phase.end.results.push(result))
    })?;
    read_slices(connection, &mut phases)?;
    let sql = "SELECT trial, phase, until_ns, generator, times FROM operations ORDER BY trial, phase";
    all_of_table(connection, "operations", sql, |row| {
        check_generator(row, 3)?;
        let until_ns = optional_count(row, 2)?;
        let phase = phase_of(&mut phases, row)?;
        let damaged = || Fault::Content(format!("the operations of phase {} are damaged", phase.header.name));
        let each = operations::decode(blob(row, 4)?).ok_or_else(damaged)?;
        check_time("an operation", 0, each.last().map_or(0, |op| op.end_ns))?;
        phase.operations = Some(Operations { each, until_ns });
        Ok(())
    })?;
    for phase in phases.values_mut().filter(|phase| phase.end.state == PhaseState::Unfinished) {
        phase.end.end_ns = phase.slices.last().map_or(phase.end.end_ns, |slice| slice.end_ns);
    }
    Ok(phases)
}
