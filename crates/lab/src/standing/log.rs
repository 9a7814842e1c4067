//! Log of what was done to a lab, a file in its directory. A reader needs no reply of the lab, and misses nothing,
//! however seldom it reads: times are those of CLOCK_MONOTONIC, and the file stays readable after the lab's end.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Name of the log in the lab's directory.
pub(super) const LOG: &str = "log";

/// Action on a lab: by a command, or by the lab itself. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabAct {
    /// Command, or description in its style.
    pub what: String,
    /// True if a process asked for it; false if the lab acted by itself.
    pub is_command: bool,
    /// Beginning.
    pub from_ns: u64,
    /// End; `None` while it is in progress.
    pub until_ns: Option<u64>,
}

/// Line of the log.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// Beginning of an action that `process` asked for; without `process` the lab acts by itself.
    Begin { number: u64, at_ns: u64, process: Option<u32>, what: String },
    /// End of the action with this number; without `what` it was refused.
    End { number: u64, at_ns: u64, what: Option<String> },
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Writer of the log, in the process that holds the lab.
pub(super) struct LogWriter {
    file: Mutex<File>,
    count: AtomicU64,
}

impl LogWriter {
    /// Creates the log of a lab in its `directory`.
    pub fn create(directory: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(directory.join(LOG))?;
        file.set_len(0)?;
        Ok(Self { file: Mutex::new(file), count: AtomicU64::new(0) })
    }

    /// Performs `act` for `process`, or for the lab itself, and logs it as `what`. An action that is refused has not taken
    /// place.
    pub fn logged<T>(
        &self,
        process: Option<u32>,
        what: String,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let number = self.begin(process, &what);
        let done = act();
        let what = match &done {
            Ok(_) => Some(what),
            Err(error) if error.kind == StoreErrorKind::Usage => None,
            Err(error) if error.kind == StoreErrorKind::Interrupted => Some(format!("{what} was stopped")),
            Err(error) => Some(format!("{what} failed: {}", error.what)),
        };
        self.write(&Line::End { number, at_ns: now_ns(), what });
        done
    }

    /// Logs a moment of `process`, or of the lab itself.
    pub fn moment(&self, process: Option<u32>, what: &str) {
        let number = self.begin(process, what);
        self.write(&Line::End { number, at_ns: now_ns(), what: Some(what.to_owned()) });
    }

    /// Logs the beginning of an action, and returns its number.
    fn begin(&self, process: Option<u32>, what: &str) -> u64 {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.write(&Line::Begin { number, at_ns: now_ns(), process, what: what.to_owned() });
        number
    }

    fn write(&self, line: &Line) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            // A disk without space ends the run that is recorded there, too.
            let _ = file.write_all(&text);
        }
    }
}

/// Reader of a lab's log.
pub struct LabLog {
    file: BufReader<File>,
    /// Part of a line.
    part: Vec<u8>,
    /// Process whose own actions are left out.
    own: u32,
    in_progress: BTreeMap<u64, LabAct>,
}

impl LabLog {
    /// Opens the log of the lab in `directory`, and passes over actions that have ended. Those of the process `own` are
    /// left out.
    pub(super) fn open(directory: &Path, own: u32) -> std::io::Result<Self> {
        let file = BufReader::new(File::open(directory.join(LOG))?);
        let mut log = Self { file, part: Vec::new(), own, in_progress: BTreeMap::new() };
        log.ended()?;
        Ok(log)
    }

    /// Returns the actions that have ended since the last call.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn ended(&mut self) -> std::io::Result<Vec<LabAct>> {
        let mut ended = Vec::new();
        while self.file.read_until(b'\n', &mut self.part)? > 0 && self.part.ends_with(b"\n") {
            match serde_json::from_slice(&std::mem::take(&mut self.part)) {
                Ok(Line::Begin { number, at_ns, process, what }) if process != Some(self.own) => {
                    let is_command = process.is_some();
                    self.in_progress.insert(number, LabAct { what, is_command, from_ns: at_ns, until_ns: None });
                }
                Ok(Line::End { number, at_ns, what }) => {
                    let begun = self.in_progress.remove(&number);
                    let done = begun.zip(what);
                    ended.extend(done.map(|(begun, what)| LabAct { what, until_ns: Some(at_ns), ..begun }));
                }
                _ => {}
            }
        }
        Ok(ended)
    }

    /// Returns the actions that have begun and not ended, as seen last; later calls do not return them again.
    pub fn take_in_progress(&mut self) -> Vec<LabAct> {
        std::mem::take(&mut self.in_progress).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1;
    const USER: Option<u32> = Some(2);

    fn whats(acts: &[LabAct]) -> Vec<&str> {
        acts.iter().map(|act| act.what.as_str()).collect()
    }

    #[test]
    fn what_others_did_since_the_log_was_opened_is_read_once_with_its_times() {
        let directory = tempfile::tempdir().unwrap();
        let writer = LogWriter::create(directory.path()).unwrap();
        writer.moment(USER, "lab kill a");
        let before = writer.begin(USER, "lab add a");
        let mut log = LabLog::open(directory.path(), OWN).unwrap();
        assert_eq!(whats(&log.ended().unwrap()), [""; 0], "what had ended before");
        let from_ns = now_ns();
        writer.moment(USER, "lab pause a 1");
        writer.moment(Some(OWN), "lab stop a");
        writer.logged(USER, "lab resume a 1".to_owned(), || Ok(())).unwrap();
        // The directory goes with the lab.
        drop(directory);
        let read = log.ended().unwrap();
        assert_eq!(whats(&read), ["lab pause a 1", "lab resume a 1"]);
        assert!(read.iter().all(|act| act.from_ns >= from_ns && act.until_ns.unwrap() >= act.from_ns), "{read:?}");
        assert_eq!(whats(&log.ended().unwrap()), [""; 0], "read once");
        assert_eq!(before, 1);
        assert_eq!(whats(&log.take_in_progress()), ["lab add a"]);
        assert_eq!(whats(&log.take_in_progress()), [""; 0]);
    }

    #[test]
    fn acts_of_the_lab_itself_are_no_commands() {
        let directory = tempfile::tempdir().unwrap();
        let writer = LogWriter::create(directory.path()).unwrap();
        let mut log = LabLog::open(directory.path(), OWN).unwrap();
        writer.moment(None, "node 1 of lab a ended");
        writer.moment(USER, "lab start a 1");
        let is_command: Vec<bool> = log.ended().unwrap().iter().map(|act| act.is_command).collect();
        assert_eq!(is_command, [false, true]);
    }

    #[test]
    fn a_refused_command_did_nothing_and_one_that_failed_or_was_stopped_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let writer = LogWriter::create(directory.path()).unwrap();
        let mut log = LabLog::open(directory.path(), OWN).unwrap();
        let refused: Result<(), _> = writer.logged(USER, "lab add a".to_owned(), || Err(StoreError::usage("no")));
        let failed: Result<(), _> =
            writer.logged(USER, "lab stop a".to_owned(), || Err(StoreError::broken("too slow")));
        let interrupted = || Err(plimsoll_core::waits::interrupted());
        let stopped: Result<(), _> = writer.logged(USER, "lab work a: backup".to_owned(), interrupted);
        assert!(refused.is_err() && failed.is_err() && stopped.is_err());
        assert_eq!(whats(&log.ended().unwrap()), ["lab stop a failed: too slow", "lab work a: backup was stopped"]);
    }
}
