//! Directory of runs, their names, and their list.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use plimsoll_core::Utc;

use crate::data::{LedgerCheck, Run, RunState, Trial};
use crate::error::RecordError;
use crate::schema::{APPLICATION_ID, FILE_NAME};

/// A run, as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Duration of the run, in nanoseconds; `None` if it did not end.
    pub end_ns: Option<u64>,
    /// The plan's name.
    pub plan_name: String,
    /// The user's word for it; empty without one.
    pub tag: String,
    /// Wall time of its start, nanoseconds since 1970.
    pub started_wall_ns: i64,
    /// The stores, as reports call them, in the order of the trials.
    pub stores: Vec<String>,
    /// State at the end of the run.
    pub state: RunState,
    /// True while the program that writes it is alive.
    pub live: bool,
    /// Acknowledged writes that were not there, by the worst check of each trial; `None` if a store could not be read, and
    /// no other lost any.
    pub lost: Option<u64>,
    /// Answers' missing and wrong records, and the ledger's disagreements other than loss.
    pub wrong: u64,
}

/// A directory that is called like a run, and what is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    /// Name of the run.
    pub id: String,
    /// The run, and what the caller makes of it; or why it cannot be read.
    pub summary: Result<(RunSummary, T), RecordError>,
}

/// The name of a run: `YYYYMMDD-hhmmss-xxxx`, by the UTC of `started_wall_ns` (nanoseconds since 1970), so that
/// names sort as runs began. The last four digits are the 256th of the second, so that two runs of one second do
/// too, and 8 bits of `random`.
pub fn run_id(started_wall_ns: i64, random: u64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of_us(started_wall_ns.div_euclid(1_000));
    let fraction = started_wall_ns.rem_euclid(1_000_000_000) * 256 / 1_000_000_000;
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{fraction:02x}{:02x}", random & 0xff)
}

/// True for names that [`run_id`] could have made.
fn is_run_id(name: &str) -> bool {
    name.len() == 20
        && name.bytes().enumerate().all(|(position, byte)| match position {
            8 | 15 => byte == b'-',
            16.. => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            _ => byte.is_ascii_digit(),
        })
}

/// Returns the directory of runs: `$XDG_STATE_HOME/plimsoll/runs`, or `~/.local/state/plimsoll/runs`.
///
/// # Errors
/// Neither `XDG_STATE_HOME` nor `HOME` holds an absolute path.
pub fn default_runs_dir() -> Result<PathBuf, RecordError> {
    runs_dir(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn runs_dir(state_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, RecordError> {
    // The XDG base directory specification wants relative paths ignored.
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute(state_home).or_else(|| absolute(home).map(|home| home.join(".local/state")));
    state.map(|state| state.join("plimsoll/runs")).ok_or(RecordError::NoPlace)
}

/// True while the program that writes the run in `directory` is alive.
pub fn is_live(directory: &Path) -> bool {
    // The recorder holds a lock on the directory, which goes with its process.
    File::open(directory).is_ok_and(|held| matches!(held.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}

/// Beginning of the name of a directory whose recording has no header yet, before the name of the run.
pub(crate) const BEGUN: &str = ".new-";
/// Age from which on such a directory was left by a kill: making a recording takes some milliseconds.
const LEFT: Duration = Duration::from_secs(60);

/// Removes what kills have left of recordings without a header.
pub(crate) fn sweep(runs_dir: &Path) {
    let is_left = |path: &Path| {
        let age = path.symlink_metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
        age.is_some_and(|age| age > LEFT) && !is_live(path)
    };
    let is_begun = |name: &OsStr| name.to_str().and_then(|name| name.strip_prefix(BEGUN)).is_some_and(is_run_id);
    let left = runs_dir.read_dir().into_iter().flatten().flatten();
    for path in left.filter(|entry| is_begun(&entry.file_name())).map(|entry| entry.path()).filter(|path| is_left(path))
    {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Lists all runs in `runs_dir`, the newest first, with the result of `made_of` for each; returns none when the
/// directory does not exist.
///
/// # Errors
/// The directory cannot be listed. A run that cannot be read stands in the list with its error.
pub fn list<T: Send>(runs_dir: &Path, made_of: impl Fn(&Run) -> T + Sync) -> Result<Vec<Listed<T>>, RecordError> {
    let mut ids = ids(runs_dir)?;
    ids.reverse();
    // Every recording is read as a whole, by as many at a time as there are processors.
    let next = AtomicUsize::new(0);
    let read = || {
        let mut read = Vec::new();
        while let Some((position, id)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, ids.get(at)?))) {
            read.push((position, Listed { summary: summary(&runs_dir.join(id), &made_of), id: id.clone() }));
        }
        read
    };
    let readers = std::thread::available_parallelism().map_or(1, usize::from).min(ids.len());
    let mut listed = std::thread::scope(|scope| {
        // Where the system has no more threads or memory for them, this one reads them all.
        let reader = |_| std::thread::Builder::new().spawn_scoped(scope, read).ok();
        let readers: Vec<_> = (1..readers).filter_map(reader).collect();
        let mut all = read();
        all.extend(readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()));
        all
    });
    listed.sort_by_key(|(position, _)| *position);
    Ok(listed.into_iter().map(|(_, listed)| listed).collect())
}

/// Names of the runs in `runs_dir`, the oldest first; none when there is no such directory.
///
/// # Errors
/// The directory cannot be listed.
pub fn ids(runs_dir: &Path) -> Result<Vec<String>, RecordError> {
    let failed = |error: std::io::Error| RecordError::Read { path: runs_dir.to_owned(), what: error.to_string() };
    let entries = match runs_dir.read_dir() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string()
            && is_run_id(&name)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            ids.push(name);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Returns a list's summary of the run in `directory`. The whole run is read: if a report would refuse it, the list
/// shows it as not readable, in the same words.
fn summary<T>(directory: &Path, made_of: impl Fn(&Run) -> T) -> Result<(RunSummary, T), RecordError> {
    let live = is_live(directory);
    let run = Run::load(directory)?;
    let answers = run.trials.iter().flat_map(|trial| &trial.answers);
    let made = made_of(&run);
    let lost = worst(&run, |ledger| ledger.lost);
    let wrong = worst(&run, |ledger| ledger.wrong.values().copied().fold(0, u64::saturating_add));
    let are_complete = run.trials.iter().flat_map(|trial| &trial.ledgers).all(|ledger| ledger.complete);
    let summary = RunSummary {
        end_ns: run.end_ns,
        stores: run.stores(),
        live,
        lost: (lost > 0 || are_complete).then_some(lost),
        wrong: answers
            .flat_map(|answers| [answers.counts.missing, answers.counts.wrong])
            .fold(wrong, u64::saturating_add),
        plan_name: run.header.plan_name,
        tag: run.header.tag,
        started_wall_ns: run.header.started_wall_ns,
        state: run.state,
    };
    Ok((summary, made))
}

/// Returns the sum of a count over the trials. Ledgers of one trial are about the same writes: the worst of them counts.
fn worst(run: &Run, count: impl Fn(&LedgerCheck) -> u64) -> u64 {
    let of_trial = |trial: &Trial| trial.ledgers.iter().map(&count).max().unwrap_or(0);
    run.trials.iter().map(of_trial).fold(0, u64::saturating_add)
}

/// The run that `wanted` means: a path, `latest`, a name, or the beginning of one name. Gives a path for
/// [`crate::data::Run::load`].
///
/// # Errors
/// There is no such run, or there are several; a path is not looked at.
pub fn find(runs_dir: &Path, wanted: &str) -> Result<PathBuf, RecordError> {
    let path = Path::new(wanted);
    // Whether there is one, and what, is for its reader to say.
    if wanted.contains('/') || wanted.ends_with(".sqlite") {
        return Ok(path.to_owned());
    }
    let ids = ids(runs_dir)?;
    let found: Vec<&String> = match wanted {
        "latest" => ids.last().into_iter().collect(),
        "" => Vec::new(),
        _ => ids.iter().filter(|id| id.starts_with(wanted)).collect(),
    };
    match found[..] {
        [id] => Ok(runs_dir.join(id)),
        [] => Err(RecordError::NotFound { wanted: wanted.to_owned(), runs_dir: runs_dir.to_owned() }),
        _ => {
            Err(RecordError::Ambiguous { wanted: wanted.to_owned(), candidates: found.into_iter().cloned().collect() })
        }
    }
}

/// Removes the run `id` with everything in its directory.
///
/// # Errors
/// As [`removable`]: then nothing is removed.
pub fn remove(runs_dir: &Path, id: &str) -> Result<(), RecordError> {
    let path = removable(runs_dir, id)?;
    std::fs::remove_dir_all(&path).map_err(|error| RecordError::writing(&path, &error))
}

/// Returns the directory of the run `id`, which can be removed.
///
/// # Errors
/// There is no such run, it is still going on, or the directory is not one that a recorder made.
pub fn removable(runs_dir: &Path, id: &str) -> Result<PathBuf, RecordError> {
    let path = runs_dir.join(id);
    let is_directory = is_run_id(id) && path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_directory {
        return Err(RecordError::NotFound { wanted: id.to_owned(), runs_dir: runs_dir.to_owned() });
    }
    if is_live(&path) {
        return Err(RecordError::Live(path));
    }
    let failed = |error: std::io::Error| RecordError::writing(&path, &error);
    let empty = path.read_dir().map_err(failed)?.next().is_none();
    if !empty && !is_recording(&path.join(FILE_NAME)) {
        return Err(RecordError::NotOurs { path, why: format!("there is no recording called {FILE_NAME} in it") });
    }
    Ok(path)
}

/// Looks at a file's first bytes only, so that a damaged recording can be removed too (SQLite's file format,
/// section 1.3: the application id stands at offset 68).
fn is_recording(path: &Path) -> bool {
    let mut head = [0; 72];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head.starts_with(b"SQLite format 3\0")
        && head.ends_with(&APPLICATION_ID.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_left_of_a_recording_without_a_header_is_removed_later() {
        let runs = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let path = runs.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("reserve"), "").unwrap();
            File::open(&path).unwrap().set_modified(std::time::SystemTime::now() - age).unwrap();
            path
        };
        let (left, young) = (make(".new-19700101-000000-0000", 2 * LEFT), make(".new-19700101-000000-0001", LEFT / 2));
        let (held, other) = (make(".new-19700101-000000-0002", 2 * LEFT), make(".new-things", 2 * LEFT));
        let lock = File::open(&held).unwrap();
        lock.lock().unwrap();
        sweep(runs.path());
        assert_eq!([&left, &young, &held, &other].map(|path| path.exists()), [false, true, true, true]);
        assert_eq!(ids(runs.path()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_name_is_the_second_of_the_start_and_sorts() {
        assert_eq!(run_id(0, 0), "19700101-000000-0000");
        assert_eq!(run_id(1_795_292_643_999_999_999, 0x1_abcd), "20261121-202403-ffcd");
        assert_eq!(run_id(951_782_400_000_000_000, 7), "20000229-000000-0007");
        assert_eq!(run_id(4_107_542_399_000_000_000, 7), "21000228-235959-0007");
        assert!(is_run_id(&run_id(1_795_292_643_999_999_999, u64::MAX)));
        for name in
            ["latest", "20261121-202403-ABCD", "20261121-202403-abc", "../../../../etc/init", "20261121_202403_abcd"]
        {
            assert!(!is_run_id(name), "{name}");
        }
    }

    #[test]
    fn runs_are_kept_in_the_state_directory() {
        let some = |text: &str| Some(OsString::from(text));
        assert_eq!(runs_dir(some("/s"), some("/h")), Ok("/s/plimsoll/runs".into()));
        assert_eq!(runs_dir(None, some("/h")), Ok("/h/.local/state/plimsoll/runs".into()));
        assert_eq!(runs_dir(some("relative"), some("/h")), Ok("/h/.local/state/plimsoll/runs".into()));
        assert_eq!(runs_dir(some(""), None), Err(RecordError::NoPlace));
    }
}
