//! How a server's process ended, and what that means.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use plimsoll_core::{StoreError, StoreErrorKind};

/// Bytes of a log's end that go into an error.
const TAIL_BYTES: u64 = 2048;
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

/// The error that `name`, which should be running or have ended well, has ended so; `tail` is what it said last.
pub(crate) fn error_of(name: &str, ending: Ending, tail: &str) -> StoreError {
    let error = StoreError::new(kind_of(tail), format!("{name} {ending}"));
    if tail.is_empty() { error.detail("it said nothing") } else { error.detail(tail) }
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

/// The last lines of the log at `path`, none of them from before `start`.
pub(crate) fn tail_of(path: &Path, start: u64) -> io::Result<String> {
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
