//! The control of a device: one line a command, one line an answer, over a Unix socket.
//!
//! An answer begins with `ok` or `error`. Commands are those of [`HELP`]; `Control` is a client of it, so that a program and a shell
//! can do the same.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::FileSystem;
use plimsoll_core::fault::{CutMoment, Fault, Survivors};
use rustix::fs::{Mode, OFlags};

use crate::counters::{AtRisk, Counters, Cut, UnsyncedFile};
use crate::error::{FaultError, UNDERLYING};

/// The socket's name in the device's directory.
pub(crate) const SOCKET: &str = "control";
/// Time limit for requests that the daemon answers immediately.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for keeping the survivors, which may be as much as was un-flushed.
const POWER_ON_LIMIT: Duration = Duration::from_secs(300);

/// The commands, for a person.
pub const HELP: &str = "\
arm now|flush N|write N            cut the power at the Nth flush or write from now
freeze now|flush N|write N         as arm, but programs on the device do not notice: their writes from then on are
                                   gone after the power is on again
halt now|flush N|write N           as freeze, but flushes fail from then on, so nothing more is promised
cut                                cut the power now
tell DIRECTORY                     trigger the armed device in this directory as soon as this one's power is cut; send this
                                   after both were armed; clear removes it
wait MILLISECONDS                  wait for the cut; the reply is that of status
set ignore-flushes                 acknowledge flushes without making anything durable
set eio write|flush|read once|always|silent N
                                   fail; silent: report success, and do nothing
set delay write|flush|read MEDIAN_US JITTER_US SEED
                                   reply late, in microseconds
set full                           fail writes with ENOSPC: of a device all, as one without room below the file system,
                                   whose journal fails, too; of files those that make a file longer, and new names
set bit-rot SEED SHARE             flip a bit in this share of the sectors that are read
set speed SEEK_US BYTES_PER_S single|mirror|stripe
                                   take the time of a slow device, or of two: a seek, in microseconds, for a request
                                   elsewhere than at the end of the previous one, and a throughput
met FAULT                          show how many requests have met such a fault so far: met eio read once
mend                               end all faults; a cut stays armed
clear                              end all faults, and disarm the cut
status                             show power, counters, and the writes at risk at the cut
files                              of files: list the files with data that is not synced, or was not at the cut
sync                               of files: make everything durable, which sync(2) cannot do there,
                                   unless flushes are ignored
power-on none|all|random SEED SHARE [tear]|prefix WRITES [tear]
                                   after a cut, with nothing mounted: keep these of the un-flushed writes
";

/// The control of a device that runs, from any process of the same user.
#[derive(Debug, Clone)]
pub struct Control(Arc<Path>);

impl Control {
    /// Returns the device whose socket or directory this is, or a link to it. Asks nothing yet.
    ///
    /// # Errors
    /// Fails if the socket does not exist.
    pub fn of_socket(path: &Path) -> Result<Self, FaultError> {
        let whole = path.canonicalize().map_err(FaultError::at(path))?;
        let directory = if whole.is_dir() { &whole } else { whole.parent().unwrap_or(Path::new("/")) };
        let control = Self::of_directory(directory);
        std::fs::metadata(control.socket()).map_err(FaultError::at(&control.socket()))?;
        Ok(control)
    }

    pub(crate) fn of_directory(directory: &Path) -> Self {
        Self(directory.into())
    }

    /// Returns the directory of the device.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join(SOCKET)
    }

    /// Arms a power cut: now, or at a flush or write that comes.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn arm(&self, cut: CutMoment) -> Result<(), FaultError> {
        self.ask(&format!("arm {cut}"), ANSWER_LIMIT).map(drop)
    }

    /// Arms a freeze of the device: now, or at a flush or write that comes. A freeze is a power cut which the machine
    /// does not notice: the durable and the un-flushed data stay as they are, and later writes are discarded at the
    /// power cycle. So nothing waits for a dead device, and no mapped page of it faults. Acknowledgements after
    /// [`Cut::at_ns`] must not be counted.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn freeze(&self, cut: CutMoment) -> Result<(), FaultError> {
        self.ask(&format!("freeze {cut}"), ANSWER_LIMIT).map(drop)
    }

    /// Arms a freeze with flushes that fail from then on, for a machine with replicas. An acknowledgement based on a
    /// flush that did nothing would mislead them, and they remember it when power is back.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn halt(&self, cut: CutMoment) -> Result<(), FaultError> {
        self.ask(&format!("halt {cut}"), ANSWER_LIMIT).map(drop)
    }

    /// Makes `other`, which is armed, lose power as it is armed to, as soon as this device does: both are on one
    /// circuit. Call it after both were armed; it is void when the cut is over, or cleared. The daemons communicate
    /// among themselves; [`Cut::at_ns`] of both shows the delay between them.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn tell(&self, other: &Control) -> Result<(), FaultError> {
        self.ask(&format!("tell {}", other.directory().display()), ANSWER_LIMIT).map(drop)
    }

    /// Reports that another device on the same circuit has lost power.
    pub(crate) fn told(&self) -> Result<(), FaultError> {
        self.ask("told", ANSWER_LIMIT).map(drop)
    }

    /// The cut, if it has happened.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn cut(&self) -> Result<Option<Cut>, FaultError> {
        self.ask("status", ANSWER_LIMIT).map(|answer| Cut::of_answer(&answer))
    }

    /// The cut, as soon as it has happened; none when it has not by `limit`.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn wait_for_cut(&self, limit: Duration) -> Result<Option<Cut>, FaultError> {
        self.ask(&format!("wait {}", limit.as_millis()), limit + ANSWER_LIMIT).map(|answer| Cut::of_answer(&answer))
    }

    /// Sets a fault from now on.
    ///
    /// # Errors
    /// As [`Self::arm`], and for a fault that makes no sense.
    pub fn set(&self, fault: Fault) -> Result<(), FaultError> {
        self.ask(&format!("set {fault}"), ANSWER_LIMIT).map(drop)
    }

    /// Returns the number of requests that have met faults of this kind so far, also of earlier ones: errors of reads,
    /// delays of writes.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn met(&self, fault: Fault) -> Result<u64, FaultError> {
        let answer = self.ask(&format!("met {fault}"), ANSWER_LIMIT)?;
        answer.parse().map_err(|_| self.strange(&answer))
    }

    /// Removes all faults; an armed cut stays so.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn mend(&self) -> Result<(), FaultError> {
        self.ask("mend", ANSWER_LIMIT).map(drop)
    }

    /// Removes all faults and disarms the cut.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn clear(&self) -> Result<(), FaultError> {
        self.ask("clear", ANSWER_LIMIT).map(drop)
    }

    /// Returns the counts of requests.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn counters(&self) -> Result<Counters, FaultError> {
        let status = self.ask("status", ANSWER_LIMIT)?;
        Counters::of_answer(&status).ok_or_else(|| self.strange(&status))
    }

    /// Returns the unsynced files: now, or at the cut. Only of [`FileSystem::Files`].
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn files(&self) -> Result<Vec<UnsyncedFile>, FaultError> {
        let answer = self.ask("files", ANSWER_LIMIT)?;
        let words: Vec<&str> = answer.split('\t').filter(|word| !word.is_empty()).collect();
        words.chunks(5).map(UnsyncedFile::of_answer).collect::<Option<_>>().ok_or_else(|| self.strange(&answer))
    }

    /// Makes everything durable. Only of [`FileSystem::Files`], where sync(2) and syncfs(2) do not arrive.
    ///
    /// # Errors
    /// As [`Self::arm`]; without power.
    pub fn sync(&self) -> Result<(), FaultError> {
        self.ask("sync", POWER_ON_LIMIT).map(drop)
    }

    /// Begins to count at zero.
    pub(crate) fn count_anew(&self) -> Result<(), FaultError> {
        self.ask("count-anew", ANSWER_LIMIT).map(drop)
    }

    /// Returns the answer to a command that is answered immediately.
    pub(crate) fn ask_now(&self, command: &str) -> Result<String, FaultError> {
        self.ask(command, ANSWER_LIMIT)
    }

    /// The file system, and how often the device is open.
    pub(crate) fn state(&self) -> Result<(FileSystem, u64), FaultError> {
        let status = self.ask("status", ANSWER_LIMIT)?;
        let value = |name: &str| status.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let (file_system, open) = value("file_system").zip(value("open")).ok_or_else(|| self.strange(&status))?;
        let file_system = file_system.parse().map_err(FaultError::Usage)?;
        Ok((file_system, open.parse().map_err(|_| self.strange(&status))?))
    }

    /// Keeps what survives, and has the device work again.
    pub(crate) fn power_on(&self, survivors: &Survivors) -> Result<AtRisk, FaultError> {
        let answer = self.ask(&format!("power-on {survivors}"), POWER_ON_LIMIT)?;
        AtRisk::of_answer(&answer).ok_or_else(|| self.strange(&answer))
    }

    /// The answer to a command of [`HELP`], without `ok`.
    ///
    /// # Errors
    /// When the daemon does not answer in time, and as it says.
    pub fn ask(&self, command: &str, limit: Duration) -> Result<String, FaultError> {
        let gone = |source| FaultError::Gone { directory: self.0.to_path_buf(), source };
        if command.contains('\n') {
            return Err(FaultError::Usage("a command is one line".into()));
        }
        let answer = self.exchange(command, limit).map_err(gone)?;
        match answer.split_once(' ').unwrap_or((&answer, "")) {
            ("ok", said) => Ok(said.to_owned()),
            ("error", said) => Err(match said.strip_prefix(UNDERLYING) {
                Some(said) => FaultError::Underlying(said.to_owned()),
                None => FaultError::Refused(said.to_owned()),
            }),
            _ => Err(gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn exchange(&self, command: &str, limit: Duration) -> io::Result<String> {
        // By its directory: a socket's path may have 107 bytes only.
        let directory = rustix::fs::open(&*self.0, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(format!("{command}\n").as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }

    pub(crate) fn strange(&self, answer: &str) -> FaultError {
        let source = io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply {answer:?}"));
        FaultError::Gone { directory: self.0.to_path_buf(), source }
    }
}
