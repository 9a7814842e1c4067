//! Endings of servers' processes, and the errors they become.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use plimsoll_core::{StoreError, StoreErrorKind};

/// Bytes of a log's end that go into an error.
const TAIL_BYTES: u64 = 2048;
/// Bytes of a log's beginning that are searched for a full disk: an installer reports that before all advice.
const BEGIN_BYTES: u64 = 64 << 10;
/// Bytes of a log's end that are searched for a crash: a server that recovers goes on to write.
const CRASH_BYTES: u64 = 64 << 10;
/// Disks with less room than this count as full: a server frees the space of a write that failed half-way.
const ROOM_BYTES: u64 = 256 << 10;
/// Lines of a log's end that go into an error.
const TAIL_LINES: usize = 8;
/// Words by which servers report that a part of them has crashed, such as a process that others go on without.
const CRASHES: [&str; 3] = ["panic", "terminated by signal", "got signal"];

/// Words of a line that reports an error.
const REPORTS: [&str; 8] = ["error", "fatal", "panic", "failed", "cannot", "can't", "could not", "unable to"];

/// Exit status of a process, as a shell reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending(pub(crate) i32);

impl Ending {
    /// Returns true if the process exited with status 0.
    pub fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Returns the signal that ended the process.
    pub fn signal(self) -> Option<i32> {
        (self.0 > 128).then_some(self.0 - 128)
    }

    /// Returns true if another process or the kernel sent the signal that ended it, and not an error of its own.
    pub(crate) fn is_from_outside(self) -> bool {
        let own = [libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];
        self.signal().is_some_and(|signal| !own.contains(&signal))
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.signal() {
            // `signal: 9 (SIGKILL)`
            Some(signal) => {
                let status = ExitStatus::from_raw(signal).to_string();
                write!(f, "was ended by {}", status.replacen(':', "", 1))
            }
            None => write!(f, "ended with exit status {}", self.0),
        }
    }
}

/// Returns the error that `name`, which should be running or have succeeded, ended as `ending` says. `log` is its
/// output; its data are below `root`.
pub(crate) fn error_of(name: &str, ending: Ending, log: &Log, root: &Path) -> StoreError {
    let kind = match kind_of(&log.tail) {
        // A server that could write only a part gets no reason from the kernel.
        StoreErrorKind::Broken if log.says_full || is_full(root) => StoreErrorKind::DiskFull,
        kind => kind,
    };
    let error = StoreError::new(kind, format!("{name} {ending}"));
    if log.tail.is_empty() { error.detail("the program printed nothing") } else { error.detail(from_cause(&log.tail)) }
}

/// Returns the lines of a log from the first that reports an error; the last one if none does: the first may be a banner.
fn from_cause(tail: &str) -> String {
    let reports = |line: &str| {
        let line = line.to_lowercase();
        REPORTS.iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = tail.lines().collect();
    let first = lines.iter().position(|line| reports(line)).unwrap_or(lines.len().saturating_sub(1));
    lines[first..].join("\n")
}

/// Returns true if the file system of `path` is so full that a lack of room may have ended a store.
pub fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|device| device.f_bavail * device.f_frsize < ROOM_BYTES)
}

/// Returns the kind of error, by the operating system's messages, which servers append to their own.
fn kind_of(tail: &str) -> StoreErrorKind {
    const WORDS: [(&str, StoreErrorKind); 5] = [
        ("No space left on device", StoreErrorKind::DiskFull),
        ("Disk quota exceeded", StoreErrorKind::DiskFull),
        ("Address already in use", StoreErrorKind::AddressTaken),
        ("Permission denied", StoreErrorKind::Permission),
        ("Operation not permitted", StoreErrorKind::Permission),
    ];
    WORDS.iter().find(|(words, _)| tail.contains(words)).map_or(StoreErrorKind::Broken, |(_, kind)| *kind)
}

/// Output of a program.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Last lines.
    pub(crate) tail: String,
    /// True if the beginning reports a full disk.
    pub(crate) says_full: bool,
}

/// Reads the log at `path` from offset `start`.
pub(crate) fn log_of(path: &Path, start: u64) -> Log {
    let begin = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(BEGIN_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).to_lowercase())
    });
    let words = ["no space left on device", "disk quota exceeded", "out of disk space"];
    let says_full = begin.is_ok_and(|begin: String| words.iter().any(|one| begin.contains(one)));
    Log { tail: tail_of(path, start).unwrap_or_else(|error| error.to_string()), says_full }
}

/// Returns the lines in which the log at `path` reports a crash after offset `start`, and those that follow.
pub(crate) fn crash_in(path: &Path, start: u64) -> Option<String> {
    let (_, text) = end_of(path, start, CRASH_BYTES).ok()?;
    let mut lines = text.lines().skip_while(|line| {
        let line = line.to_lowercase();
        !CRASHES.iter().any(|words| line.contains(words))
    });
    let first = lines.next()?;
    Some([first].into_iter().chain(lines.take(TAIL_LINES - 1)).collect::<Vec<_>>().join("\n"))
}

/// Returns the last lines of the log at `path` after offset `start`.
fn tail_of(path: &Path, start: u64) -> io::Result<String> {
    let (from, text) = end_of(path, start, TAIL_BYTES)?;
    let mut lines: Vec<&str> = text.lines().collect();
    if from > start && lines.len() > 1 {
        // The first line most likely is the end of a longer one.
        lines.remove(0);
    }
    Ok(lines.split_off(lines.len().saturating_sub(TAIL_LINES)).join("\n").trim().to_owned())
}

/// Returns at most `bytes_max` of the end of the log at `path` after offset `start`, and their offset.
pub(crate) fn end_of(path: &Path, start: u64, bytes_max: u64) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let from = start.max(file.metadata()?.len().saturating_sub(bytes_max));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok((from, String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_says_status_or_signal() {
        assert_eq!(Ending(1).to_string(), "ended with exit status 1");
        assert_eq!(Ending(137).to_string(), "was ended by signal 9 (SIGKILL)");
        assert_eq!(Ending(128 + 40).to_string(), "was ended by signal 40");
        assert!(Ending(0).is_success() && !Ending(143).is_success());
        assert_eq!([1, 134, 137, 143].map(|code| Ending(code).is_from_outside()), [false, false, true, true]);
    }

    #[test]
    fn an_error_begins_with_the_line_that_reports_it() {
        let tail = "PostgreSQL stand-alone backend 15.18\nbackend> \npg_rewind: error: no such segment\nHINT: keep it";
        assert_eq!(from_cause(tail), "pg_rewind: error: no such segment\nHINT: keep it");
        let redis = "1:C 1 Dec 2026 # oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo\n1:C 1 Dec 2026 # Configuration loaded\n\
                     1:M 1 Dec 2026 # Can't open or create append-only dir appendonlydir: Not a directory";
        assert!(from_cause(redis).starts_with("1:M 1 Dec 2026 # Can't open"), "{}", from_cause(redis));
        assert_eq!(from_cause("a banner\nthe port is taken"), "the port is taken");
        assert_eq!(from_cause(""), "");
    }

    #[test]
    fn a_crash_is_found_in_this_start_though_the_server_has_recovered() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let crash =
            "PANIC:  could not fsync file: Input/output error\nLOG:  process was terminated by signal 6: Aborted";
        let recovers: String = (0..20).map(|line| format!("LOG:  redo {line}\n")).collect();
        std::fs::write(file.path(), format!("panic: old\nLOG:  ready\n{crash}\n{recovers}")).unwrap();
        let found = crash_in(file.path(), "panic: old\n".len() as u64).unwrap();
        assert!(found.starts_with(crash) && found.ends_with("LOG:  redo 5"), "{found}");
        std::fs::write(file.path(), "LOG:  ready\nERROR:  no such table\n").unwrap();
        assert_eq!(crash_in(file.path(), 0), None);
    }

    #[test]
    fn a_tail_has_the_last_lines_of_this_start_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "before\nstarting\nFATAL: no\n").unwrap();
        assert_eq!(tail_of(file.path(), 7).unwrap(), "starting\nFATAL: no");
        let many: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        std::fs::write(file.path(), many).unwrap();
        let tail = tail_of(file.path(), 0).unwrap();
        assert!(tail.starts_with("line 992\n") && tail.ends_with("line 999"), "{tail}");
        std::fs::write(file.path(), "x".repeat(10_000)).unwrap();
        assert_eq!(tail_of(file.path(), 0).unwrap().len(), TAIL_BYTES as usize);
    }
}
