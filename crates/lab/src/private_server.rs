//! One server of our own on this machine, and what guards it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind, Waits, waits};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::ending::{self, Ending};
use crate::orphans;
use crate::packages::{Program, SYSTEM_PATH};
use crate::place::{NAME_PREFIX, Place};
use crate::user::ServerUser;

const SUPERVISOR: &str = include_str!("supervisor.sh");
/// Programs that the supervisor is made of, besides `/bin/sh`.
const TOOLS: [Program; 5] = [
    Program { name: "setpriv", directories: &[], package: "util-linux" },
    Program { name: "setsid", directories: &[], package: "util-linux" },
    Program { name: "env", directories: &[], package: "coreutils" },
    Program { name: "sleep", directories: &[], package: "coreutils" },
    Program { name: "rm", directories: &[], package: "coreutils" },
];
/// How long the supervisor may take to start a program, which it does at once.
const START_BOUND: Duration = Duration::from_secs(10);
/// How long it may take to clean up below an ended program; it gives up by itself after 10 s.
const REAP_BOUND: Duration = Duration::from_secs(15);
/// How long a program may take to leave when it is no longer wanted, before it is killed.
const LEAVE_BOUND: Duration = Duration::from_secs(2);
/// How long the supervisor may take to end and remove everything.
const CLOSE_BOUND: Duration = Duration::from_secs(30);

/// A signal that asks a server to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

impl StopSignal {
    fn name(self) -> &'static str {
        match self {
            StopSignal::Term => "TERM",
            StopSignal::Int => "INT",
            StopSignal::Quit => "QUIT",
        }
    }

    fn signal(self) -> Signal {
        match self {
            StopSignal::Term => Signal::TERM,
            StopSignal::Int => Signal::INT,
            StopSignal::Quit => Signal::QUIT,
        }
    }
}

/// The program that runs now.
struct Running {
    name: String,
    pid: u32,
    handle: OwnedFd,
    /// Where its part of the log begins.
    log_start: u64,
}

/// The directories of a private server, the supervisor that guards them, and at most one program running in them.
///
/// A program started here runs in a session of its own, as the server's user, with nothing of Plimsoll's
/// environment but a fixed `PATH` and `LC_ALL=C`, in the data directory.
///
/// [`PrivateServer::close`] ends the program with all its descendants and removes the directories. Dropping does the
/// same and keeps the log, because who does not close has failed. So does Plimsoll's death, however it came, without
/// the log. When the supervisor is killed too, the kernel ends the program, and the next [`PrivateServer::new`]
/// removes the rest.
pub struct PrivateServer {
    name: String,
    place: Place,
    user: ServerUser,
    log_dir: PathBuf,
    leave: StopSignal,
    supervisor: Child,
    control: Option<ChildStdin>,
    replies: ChildStdout,
    running: Option<Running>,
    /// How the program ended that should be running.
    ended: Option<StoreError>,
    waits: Waits,
}

impl PrivateServer {
    /// Makes the directories under the first of `bases` which `user` can get to, after removing what dead
    /// Plimsolls left in any of them, and starts the supervisor.
    ///
    /// `name` is the server's, for its kept log. `leave` is the signal on which it ends soonest: it gets that
    /// when nobody wants its data any more. `log_dir` is where [`PrivateServer::keep_log`] copies to. When the user
    /// wants an end, which `waits` tell, no program is waited for any longer.
    ///
    /// # Errors
    /// `Permission` when no base will do, with the reason for each; `Missing` when a system tool is not there;
    /// `DiskFull` and others as the operating system says.
    pub fn new(
        name: &str,
        bases: &[PathBuf],
        user: ServerUser,
        leave: StopSignal,
        log_dir: &Path,
        waits: &Waits,
    ) -> Result<Self, StoreError> {
        for tool in TOOLS {
            tool.find()?;
        }
        for base in bases {
            // A base that cannot be listed is either refused below, or has nothing that we could remove.
            let _ = orphans::sweep_orphans(base);
        }
        let place = Place::make(bases, &user)?;
        let supervisor = spawn_supervisor(&place, leave);
        let (supervisor, control, replies) = supervisor.map_err(|error| {
            let _ = orphans::remove(&place.root, Some(&place.sockets));
            StoreError::io("/bin/sh", &error)
        })?;
        Ok(Self {
            name: name.to_owned(),
            place,
            user,
            log_dir: log_dir.to_owned(),
            leave,
            supervisor,
            control: Some(control),
            replies,
            running: None,
            ended: None,
            waits: waits.clone(),
        })
    }

    /// The directory for the server's data: its user's, 0700, empty at first.
    pub fn data_dir(&self) -> &Path {
        &self.place.data
    }

    /// The directory for the server's sockets: its user's, 0700, at most 60 bytes long.
    pub fn socket_dir(&self) -> &Path {
        &self.place.sockets
    }

    /// The directory that holds the data and, mostly, the sockets.
    pub fn root_dir(&self) -> &Path {
        &self.place.root
    }

    /// The user that programs run as.
    pub fn user(&self) -> &ServerUser {
        &self.user
    }

    /// What ends waits for it.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The id of the running program.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.pid)
    }

    /// Starts `program`, called `name` in messages, and leaves it running.
    ///
    /// # Errors
    /// `Usage` when something runs already, or an argument has a line break.
    pub fn start<A: AsRef<OsStr>>(&mut self, name: &str, program: &Path, arguments: &[A]) -> Result<u32, StoreError> {
        if let Some(running) = &self.running {
            return Err(StoreError::new(StoreErrorKind::Usage, format!("{} runs already", running.name)));
        }
        let mut line = b"start".to_vec();
        let mut words: Vec<OsString> = vec!["env".into(), "-C".into(), self.place.data.clone().into()];
        // A shell without job control starts background programs with SIGINT and SIGQUIT ignored.
        words.extend(["--default-signal".into(), "setsid".into()]);
        words.extend(self.user.setpriv(self.leave.name()));
        let arguments = arguments.iter().map(AsRef::as_ref);
        for word in words.iter().map(OsString::as_os_str).chain([program.as_os_str()]).chain(arguments) {
            push_quoted(&mut line, word)?;
        }
        line.push(b'\n');
        let log_start = fs::metadata(&self.place.log).map_or(0, |metadata| metadata.len());
        self.tell(&line)?;
        let pid = self.reply("started", START_BOUND)?;
        // Not yet reaped, so the number is still this program's.
        let handle = Pid::from_raw(pid)
            .ok_or(rustix::io::Errno::INVAL)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| StoreError::io(format_args!("process {pid}"), &error.into()))?;
        let pid = pid.unsigned_abs();
        self.ended = None;
        self.running = Some(Running { name: name.to_owned(), pid, handle, log_start });
        Ok(pid)
    }

    /// Runs `program` to its end.
    ///
    /// # Errors
    /// As [`PrivateServer::start`]; when it does not end well, by the words it said last; `Broken` when it is
    /// not done within `bound`, and killed; `Interrupted`, and killed too.
    pub fn run<A: AsRef<OsStr>>(
        &mut self,
        name: &str,
        program: &Path,
        arguments: &[A],
        bound: Duration,
    ) -> Result<(), StoreError> {
        self.start(name, program, arguments)?;
        if !self.wait_or_kill(bound)? {
            return Err(self.broken(format!("{name} was not done after {} s and was killed", bound.as_secs())));
        }
        let (ending, error) = self.reap()?;
        if ending.is_success() { Ok(()) } else { Err(error) }
    }

    /// Whether the program still runs.
    ///
    /// # Errors
    /// When it has ended, which it should not: how, and the last lines of its log, which is kept. The same however
    /// often it is asked.
    pub fn check(&mut self) -> Result<(), StoreError> {
        if self.running.is_none() {
            let stopped = || StoreError::new(StoreErrorKind::Unreachable, "the server is stopped");
            return Err(self.ended.clone().unwrap_or_else(stopped));
        }
        if self.wait(Duration::ZERO)? {
            let error = self.reap()?.1;
            self.ended = Some(error.clone());
            return Err(error);
        }
        Ok(())
    }

    /// Asks the program to end by `signal`, waits for it, and ends what it left running. No error when none runs.
    ///
    /// # Errors
    /// `Broken` when it does not end within `bound`, or `Interrupted`; it is killed then.
    pub fn stop(&mut self, signal: StopSignal, bound: Duration) -> Result<(), StoreError> {
        let Some(running) = &self.running else { return Ok(()) };
        let name = running.name.clone();
        match rustix::process::pidfd_send_signal(&running.handle, signal.signal()) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(StoreError::io(&name, &error.into())),
        }
        if self.wait_or_kill(bound)? {
            return self.forget();
        }
        Err(self.broken(format!("{name} did not stop within {} s and was killed", bound.as_secs())))
    }

    /// Kills the program and all its descendants at once, as a crash would. No error when none runs.
    ///
    /// # Errors
    /// When the supervisor does not do its part.
    pub fn kill(&mut self) -> Result<(), StoreError> {
        if self.running.is_none() {
            return Ok(());
        }
        self.tell(b"kill\n")?;
        self.forget()
    }

    /// Copies the server's log, as far as it got, into the log directory, over an earlier copy of it; returns
    /// the copy's path, which begins with the server's name.
    ///
    /// # Errors
    /// As copying says.
    pub fn keep_log(&self) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.log_dir)?;
        let root_name = self.place.root.file_name().unwrap_or_default().to_string_lossy();
        let number = root_name.trim_start_matches(NAME_PREFIX);
        let path = self.log_dir.join(format!("{}-{number}.log", self.name));
        fs::copy(&self.place.log, &path)?;
        Ok(path)
    }

    /// Ends everything, removes the directories, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be ended or removed; the next start tries again.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), StoreError> {
        if self.control.take().is_none() {
            return Ok(());
        }
        let until = Instant::now() + CLOSE_BOUND;
        while matches!(self.supervisor.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let gone =
            || matches!(self.place.root.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
        if gone() {
            return Ok(());
        }
        let sockets = (!self.place.sockets.starts_with(&self.place.root)).then_some(&*self.place.sockets);
        orphans::remove(&self.place.root, sockets)
            .map_err(|error| StoreError::io(self.place.root.display(), &error).next("remove it by hand"))
    }

    /// Waits until the program has ended; false when it has not within `bound`.
    fn wait(&self, bound: Duration) -> Result<bool, StoreError> {
        let Some(running) = &self.running else { return Ok(true) };
        let until = Instant::now() + bound;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let has_ended = readable(&running.handle, left.min(waits::TICK))
                .map_err(|error| StoreError::io(format_args!("process {}", running.pid), &error))?;
            if has_ended || left.is_zero() {
                return Ok(has_ended);
            }
            self.waits.check()?;
        }
    }

    /// The same, and kills it unless it has ended.
    fn wait_or_kill(&mut self, bound: Duration) -> Result<bool, StoreError> {
        let waited = self.wait(bound);
        if !matches!(waited, Ok(true)) {
            self.kill()?;
        }
        waited
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        self.tell(b"reap\n")?;
        self.reply("exited", REAP_BOUND)?;
        self.running = None;
        Ok(())
    }

    /// How the program, which has ended, ended, and the error that says so.
    fn reap(&mut self) -> Result<(Ending, StoreError), StoreError> {
        self.tell(b"reap\n")?;
        let ending = Ending(self.reply("exited", REAP_BOUND)?);
        let Some(running) = self.running.take() else {
            return Ok((ending, StoreError::new(StoreErrorKind::Unreachable, "the server is stopped")));
        };
        let tail = ending::tail_of(&self.place.log, running.log_start).unwrap_or_else(|error| error.to_string());
        let error = ending::error_of(&running.name, ending, &tail);
        let error = match (ending.is_success(), error.kind) {
            (true, _) => error,
            (_, StoreErrorKind::DiskFull) => {
                error.next(format!("free space on the disk of {}", self.place.root.display()))
            }
            _ => self.with_log(error),
        };
        Ok((ending, error))
    }

    fn broken(&self, what: String) -> StoreError {
        self.with_log(StoreError::new(StoreErrorKind::Broken, what))
    }

    fn with_log(&self, error: StoreError) -> StoreError {
        match self.keep_log() {
            Ok(path) => error.next(format!("read its log, {}", path.display())),
            Err(_) => error,
        }
    }

    fn tell(&mut self, line: &[u8]) -> Result<(), StoreError> {
        let told = match &mut self.control {
            Some(control) => control.write_all(line),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        told.map_err(|_| lost_supervisor())
    }

    /// The number in the supervisor's next line, which begins with `word`.
    fn reply(&mut self, word: &str, bound: Duration) -> Result<i32, StoreError> {
        let until = Instant::now() + bound;
        let mut line = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut byte = [0];
            match readable(&self.replies, left)
                .and_then(|ready| if ready { self.replies.read(&mut byte) } else { Ok(0) })
            {
                Ok(1) if byte[0] == b'\n' => break,
                Ok(1) if line.len() < 100 => line.push(byte[0]),
                _ => return Err(lost_supervisor()),
            }
        }
        let line = String::from_utf8_lossy(&line);
        line.strip_prefix(word).and_then(|number| number.trim().parse().ok()).ok_or_else(lost_supervisor)
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // Not closed: something failed, here or with whoever used it.
        if self.control.is_some() && self.place.log.metadata().is_ok_and(|log| log.len() > 0) {
            let _ = self.keep_log();
        }
        // There is nobody to tell; what is left is found by the next start.
        let _ = self.end();
    }
}

fn lost_supervisor() -> StoreError {
    StoreError::new(StoreErrorKind::Broken, "the supervisor of the private server was killed or does not answer")
        .next("run again; what it left is removed at the next start")
}

fn spawn_supervisor(place: &Place, leave: StopSignal) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SUPERVISOR, "plimsoll-supervisor"])
        .args([&place.root, &place.sockets])
        .args([leave.name(), &LEAVE_BOUND.as_secs().to_string()])
        .env_clear()
        .env("PATH", SYSTEM_PATH)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Its copy of the mark is what holds the lock after our death.
        .stderr(Stdio::from(place.mark.try_clone()?));
    // SAFETY: two system calls, no allocation and no lock, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(control), Some(replies)) => Ok((child, control, replies)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Appends a blank and `word` so that a shell takes it as one.
fn push_quoted(line: &mut Vec<u8>, word: &OsStr) -> Result<(), StoreError> {
    if word.as_bytes().contains(&b'\n') {
        let what = format!("a server's argument has a line break: {}", word.display());
        return Err(StoreError::new(StoreErrorKind::Usage, what));
    }
    line.extend_from_slice(b" '");
    for byte in word.as_bytes() {
        match byte {
            b'\'' => line.extend_from_slice(b"'\\''"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\'');
    Ok(())
}

/// Waits until `file` can be read, or `bound` is over.
fn readable(file: &impl AsFd, bound: Duration) -> io::Result<bool> {
    let until = Instant::now() + bound;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match rustix::event::poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
