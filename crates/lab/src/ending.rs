//! How a server's process ended, and what that means.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use plimsoll_core::{StoreError, StoreErrorKind};

/// Bytes of a log's end that go into an error.
const TAIL_BYTES: u64 = 2048;
/// Bytes of a log's beginning in which it is looked whether the disk was full: an installer says so before all advice.
const BEGIN_BYTES: u64 = 64 << 10;
/// A disk with less room than this is full: a server gives back what it could write of the last operation.
const ROOM_BYTES: u64 = 256 << 10;
/// Lines of a log's end that go into an error.
const TAIL_LINES: usize = 8;

/// How a process ended, as a shell tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending(pub(crate) i32);

impl Ending {
    /// True when it ended by itself and content.
    pub fn is_success(self) -> bool {
        self.0 == 0
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<i32> {
        (self.0 > 128).then_some(self.0 - 128)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.signal() {
            Some(signal) => write!(f, "was ended by signal {signal}"),
            None => write!(f, "ended with exit status {}", self.0),
        }
    }
}

/// The error that `name`, which should be running or have ended well, has ended so; `log` is what it said, and its data
/// are below `root`.
pub(crate) fn error_of(name: &str, ending: Ending, log: &Log, root: &Path) -> StoreError {
    let kind = match kind_of(&log.tail) {
        // A server that could write a part of what it wanted is told no reason.
        StoreErrorKind::Broken if log.says_full || is_full(root) => StoreErrorKind::DiskFull,
        kind => kind,
    };
    let error = StoreError::new(kind, format!("{name} {ending}"));
    if log.tail.is_empty() { error.detail("it said nothing") } else { error.detail(log.tail.clone()) }
}

/// Whether the file system of `path` has so little room left that whoever died for want of it died for that.
fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|device| device.f_bavail * device.f_frsize < ROOM_BYTES)
}

/// The class of trouble, by the operating system's words, which servers print behind their own.
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

/// What a program said in its log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Its last lines.
    pub(crate) tail: String,
    /// That a disk was full stands in its beginning.
    pub(crate) says_full: bool,
}

/// The log at `path`, without what is from before `start`.
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

/// The last lines of the log at `path`, none of them from before `start`.
fn tail_of(path: &Path, start: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = start.max(length.saturating_sub(TAIL_BYTES));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<&str> = text.lines().collect();
    if from > start && lines.len() > 1 {
        // Most likely the end of a longer line.
        lines.remove(0);
    }
    Ok(lines.split_off(lines.len().saturating_sub(TAIL_LINES)).join("\n").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_says_status_or_signal() {
        assert_eq!(Ending(1).to_string(), "ended with exit status 1");
        assert_eq!(Ending(137).to_string(), "was ended by signal 9");
        assert!(Ending(0).is_success() && !Ending(143).is_success());
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
