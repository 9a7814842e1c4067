//! Errors of recordings, with a remedy for each.

use std::path::{Path, PathBuf};

use plimsoll_core::{StoreError, StoreErrorKind};

use crate::schema::{FORMAT, GENERATOR, beside};

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An error of a recording: its cause, its place, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Neither `$XDG_STATE_HOME` nor `$HOME` says where runs are kept.
    #[error("there is no place to keep runs: set XDG_STATE_HOME or HOME to an absolute path")]
    NoPlace,
    /// A run of that name exists already.
    #[error("{} is there already: start the run again, it gets another name", .0.display())]
    Exists(PathBuf),
    /// The device is full. What was recorded before can be read.
    #[error("no space left on the device that holds {}: free some; what was recorded before is kept", .0.display())]
    DiskFull(PathBuf),
    /// The file has come to the largest size that this process may give one. What was recorded before can be read.
    #[error("{} has reached the largest size that a file may have here: raise it (ulimit -f); what was recorded before is kept",
        .0.display())]
    FileLimit(PathBuf),
    /// Not permitted there.
    #[error("no permission for {}: {what}", path.display())]
    Permission {
        /// Path of the recording.
        path: PathBuf,
        /// The system's words.
        what: String,
    },
    /// This user may not read the recording.
    #[error("no permission to read {}", .0.display())]
    Unreadable(PathBuf),
    /// The recording could not be written.
    #[error("cannot write {}: {what}", path.display())]
    Write {
        /// Path of the recording.
        path: PathBuf,
        /// SQLite's or the system's words.
        what: String,
    },
    /// The file could not be read.
    #[error("cannot read {}: {what}", path.display())]
    Read {
        /// Path of the recording.
        path: PathBuf,
        /// SQLite's or the system's words.
        what: String,
    },
    /// The run does not exist.
    #[error("there is no run {wanted:?} in {}: `plimsoll runs` lists what there is", runs_dir.display())]
    NotFound {
        /// Run that was requested.
        wanted: String,
        /// Directory that was searched.
        runs_dir: PathBuf,
    },
    /// The name is a prefix of several runs' names.
    #[error("{wanted:?} is the beginning of several runs: {}", candidates.join(", "))]
    Ambiguous {
        /// Run that was requested.
        wanted: String,
        /// Runs that the name may mean.
        candidates: Vec<String>,
    },
    /// The file is something else.
    #[error("{} is not a recording of Plimsoll", .0.display())]
    NotARecording(PathBuf),
    /// A version of Plimsoll wrote it that kept recordings otherwise.
    #[error("{} has format {found}{}, and this Plimsoll, {VERSION}, reads format {FORMAT}: read it with {}",
        path.display(),
        written_by.as_ref().map_or(String::new(), |version| format!(", written by Plimsoll {version}")),
        reader_of(*found, written_by.as_deref()))]
    OtherFormat {
        /// The recording.
        path: PathBuf,
        /// Format of the recording.
        found: i32,
        /// The version that wrote it, where that can be told.
        written_by: Option<String>,
    },
    /// Several load generators observed the load, and this version reads the measurements of one.
    #[error("{} has measurements of load generator {found}, and this Plimsoll, {VERSION}, knows only load generator \
             {GENERATOR}: read it with a newer one", path.display())]
    OtherGenerator {
        /// The recording.
        path: PathBuf,
        /// Number of the load generator.
        found: i64,
    },
    /// The recording existed when the run began, and does not any more.
    #[error("{} was removed or moved while it was written: the run goes no further, and nothing of it is kept", .0.display())]
    Removed(PathBuf),
    /// Another file has taken its place.
    #[error("{} was replaced by something else while it was written: the run goes no further, and nothing of it is kept",
        .0.display())]
    Replaced(PathBuf),
    /// The file is a recording, and part of it is invalid.
    #[error("{} is damaged: {what}; `sqlite3 FILE .recover` may bring back a part", path.display())]
    Damaged {
        /// The recording.
        path: PathBuf,
        /// Part that is invalid.
        what: String,
    },
    /// The run is still going on.
    #[error("{} is still being written: stop that run first", .0.display())]
    Live(PathBuf),
    /// The directory is not one that a recorder made.
    #[error("{} is left alone: {why}", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Evidence against it.
        why: String,
    },
}

impl From<RecordError> for StoreError {
    fn from(error: RecordError) -> Self {
        let kind = match error {
            RecordError::DiskFull(_) | RecordError::FileLimit(_) => StoreErrorKind::DiskFull,
            RecordError::Permission { .. } | RecordError::Unreadable(_) | RecordError::Write { .. } => {
                StoreErrorKind::Permission
            }
            RecordError::NoPlace => StoreErrorKind::Usage,
            _ => StoreErrorKind::Recording,
        };
        let told = Self::new(kind, error.to_string());
        match error {
            RecordError::Unreadable(_) => told.next("read it as its owner, or have the owner permit it"),
            RecordError::NotARecording(_) => told.next("name a run, as `plimsoll runs` lists them, or its run.sqlite"),
            RecordError::Permission { .. } => {
                told.next("set XDG_STATE_HOME to a directory that this user can write to")
            }
            _ => told,
        }
    }
}

impl RecordError {
    /// A file-system error met while `path` was made: what is missing was not there before.
    pub(crate) fn making(path: &Path, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => RecordError::Write { path: path.to_owned(), what: error.to_string() },
            _ => Self::writing(path, error),
        }
    }

    /// A file-system error met while writing `path`, which is there.
    pub(crate) fn writing(path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let path = path.to_owned();
        match error.kind() {
            K::NotFound => RecordError::Removed(path),
            K::StorageFull | K::QuotaExceeded => RecordError::DiskFull(path),
            K::FileTooLarge => RecordError::FileLimit(path),
            K::PermissionDenied | K::ReadOnlyFilesystem => RecordError::Permission { path, what: error.to_string() },
            _ => RecordError::Write { path, what: error.to_string() },
        }
    }

    /// An SQLite error met while writing the recording `path`.
    ///
    /// SQLite tells a full disk from other trouble only where a write was refused as a whole, and a file that may not grow
    /// not at all: for the rest the device is asked whether it has room, and the files how large they are.
    pub(crate) fn writing_rows(path: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as C;
        let out_of_room = match error.sqlite_error_code() {
            Some(C::DiskFull) => true,
            Some(C::SystemIoFailure | C::CannotOpen) => {
                let directory = path.parent().unwrap_or(path);
                rustix::fs::statvfs(directory).is_ok_and(|device| device.f_bavail * device.f_frsize < (64 << 10))
            }
            _ => false,
        };
        let is_limited = error.sqlite_error_code() == Some(C::SystemIoFailure) && is_at_limit(path);
        let path = path.to_owned();
        match error.sqlite_error_code() {
            _ if out_of_room => RecordError::DiskFull(path),
            _ if is_limited => RecordError::FileLimit(path),
            Some(C::ReadOnly | C::PermissionDenied) => RecordError::Permission { path, what: error.to_string() },
            _ => RecordError::Write { path, what: error.to_string() },
        }
    }

    /// An SQLite error met while reading the recording `path`.
    pub(crate) fn reading(path: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as C;
        // A table that is damaged is repeated with all its lines.
        let what = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(C::NotADatabase) => RecordError::NotARecording(path),
            Some(C::PermissionDenied) => RecordError::Unreadable(path),
            // Not SQLite's own: a table or a value is not what the format says it is.
            None | Some(C::DatabaseCorrupt | C::Unknown) => RecordError::Damaged { path, what },
            Some(_) => RecordError::Read { path, what },
        }
    }
}

/// Returns the program that reads recordings of the format `found`. Builds of one version may differ in their format.
fn reader_of(found: i32, written_by: Option<&str>) -> String {
    let age = if found > FORMAT { "a newer" } else { "an older" };
    match written_by {
        Some(VERSION) => format!("{age} build of it, whose `plimsoll --version` shows recording format {found}"),
        Some(_) => "the version that wrote it".to_owned(),
        None => format!("{age} one"),
    }
}

/// Returns true if the limit on the size of files prevents the recording `path` or its log from growing by a page.
fn is_at_limit(path: &Path) -> bool {
    const PAGE_BYTES: u64 = 64 << 10;
    let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Fsize).current else { return false };
    let is_large = |path: PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() + PAGE_BYTES > most);
    ["", "-wal", "-journal"].into_iter().any(|end| is_large(beside(path, end)))
}
