//! Starts, stops and removes a private server on this machine, under a supervisor.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{ClockChange, Launch, ServerSpec, StopSignal, StoreError, StoreErrorKind, Waits, waits};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::clock::WrongClock;
use crate::directories::{self, DISK_LINK, NAME_PREFIX, ServerDirectories};
use crate::ending::{self, Ending};
use crate::hang::Hang;
use crate::limits::LimitUsage;
use crate::orphans;
use crate::supervisor::{ANSWER_BOUND, CLOSE_BOUND, Supervisor, readable};
use crate::user::ServerUser;

/// Longest time for cleaning up below an ended program; the supervisor itself gives up after 10 s.
const END_BOUND: Duration = Duration::from_secs(15);

fn number_of(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
    }
}

/// Program that runs now.
struct Running {
    name: &'static str,
    pid: u32,
    handle: OwnedFd,
    /// Offset in the log where the output of this program begins.
    log_start: u64,
    /// Number of memory kills by the kernel before this start.
    memory_kills: u64,
}

/// The directories of a private server, the supervisor that guards them, and at most one program running in them.
///
/// Programs started here run in their own session, as the server's user, in the data directory. Their environment is a
/// fixed `PATH` and `LC_ALL=C`.
///
/// [`PrivateServer::close`] ends the program with all its descendants and removes the directories. Dropping does the
/// same and keeps the log, because a value that was not closed has failed. If Plimsoll dies, the supervisor does the
/// same without keeping the log. If the supervisor is killed too, the kernel ends the program, and the next
/// [`PrivateServer::new`] removes the rest.
pub struct PrivateServer {
    spec: ServerSpec,
    directories: ServerDirectories,
    user: ServerUser,
    log_dir: PathBuf,
    /// Network namespace of the server's own host, if it has one.
    network: Option<PathBuf>,
    supervisor: Supervisor,
    /// True after removing the directories was tried.
    is_closed: bool,
    running: Option<Running>,
    /// Ending of a program that should be running.
    ended: Option<(Ending, StoreError)>,
    /// Thread of the server that hangs by a command.
    hang: Option<Hang>,
    /// Wrong clock of the server's processes.
    clock: Option<WrongClock>,
    waits: Waits,
}

impl PrivateServer {
    /// Makes the directories under the first of `bases` that `user` can reach, after removing files of dead Plimsoll
    /// processes in all of them. Nothing runs there yet.
    ///
    /// `spec` gives the name of the kept log, and [`ServerSpec::leave`]. [`PrivateServer::keep_log`] copies to
    /// `log_dir`. If `waits` report an interrupt, waiting for a program ends.
    ///
    /// # Errors
    /// `Permission` if no base can be used, with the reason for each; `DiskFull`; other errors of the operating system.
    pub fn new(
        supervisor: &Supervisor,
        spec: ServerSpec,
        user: ServerUser,
        bases: &[PathBuf],
        log_dir: &Path,
        waits: &Waits,
    ) -> Result<Self, StoreError> {
        for base in bases {
            // A base that cannot be listed is either refused below, or contains nothing that could be removed.
            let _ = orphans::sweep_orphans(base);
        }
        let guard = |root: &Path| supervisor.ask(root, &["guard".as_ref(), root.as_ref()], ANSWER_BOUND).map(drop);
        let directories = ServerDirectories::make(bases, &user, &guard)?;
        Ok(Self {
            spec,
            directories,
            user,
            log_dir: log_dir.to_owned(),
            network: None,
            supervisor: supervisor.clone(),
            is_closed: false,
            running: None,
            ended: None,
            hang: None,
            clock: None,
            waits: waits.clone(),
        })
    }

    /// Moves the data directory below `base`, which the user can reach. Must be called before data are written.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn keep_data_in(&mut self, base: &Path) -> Result<(), StoreError> {
        let data = self.directory_in(base)?;
        // Processes that work there are found by the link.
        std::os::unix::fs::symlink(&data, self.directories.root.join(DISK_LINK))
            .map_err(|error| StoreError::io(data.display(), &error))?;
        self.directories.data = data;
        Ok(())
    }

    /// Makes a directory of the server's user in `base`, a mounted disk, with which it is removed.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn directory_in(&self, base: &Path) -> Result<PathBuf, StoreError> {
        let made = base.join(self.directories.root.file_name().unwrap_or_default());
        directories::make_directory(&made, &self.user).map_err(|error| StoreError::io(made.display(), &error))?;
        Ok(made)
    }

    /// Sets the network namespace of programs that are started from now on.
    pub fn live_on(&mut self, network: PathBuf) {
        self.network = Some(network);
    }

    /// Returns the data directory: owned by the server's user, mode 0700, empty at first.
    pub fn data_dir(&self) -> &Path {
        &self.directories.data
    }

    /// Returns the directory for sockets: owned by the server's user, mode 0700, with a path of at most 60 bytes.
    pub fn socket_dir(&self) -> &Path {
        &self.directories.sockets
    }

    /// Returns the directory that contains the data and, usually, the sockets.
    pub fn root_dir(&self) -> &Path {
        &self.directories.root
    }

    /// Returns the path of the log, which contains the output of all starts.
    pub fn log(&self) -> &Path {
        &self.directories.log
    }

    /// Returns the id of the running program.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.pid)
    }

    /// Starts a program and leaves it running.
    ///
    /// # Errors
    /// `Usage` if a program runs already, or an argument has a zero byte; `Broken` if the supervisor was killed;
    /// otherwise the error of executing it.
    pub fn start(&mut self, launch: &Launch) -> Result<u32, StoreError> {
        if let Some(running) = &self.running {
            // Without a supervisor the ending of a program is not known.
            self.supervisor.check()?;
            return Err(StoreError::new(StoreErrorKind::Usage, format!("{} runs already", running.name)));
        }
        let Launch { program, arguments, .. } = launch;
        let root = self.directories.root.as_os_str();
        let [leave, uid, gid] = self.leave_and_ids();
        let network = self.network.as_deref().unwrap_or(Path::new("-")).as_os_str();
        let fixed = ["start".as_ref(), root, leave.as_ref(), uid.as_ref(), gid.as_ref(), network, program.as_os_str()];
        let words: Vec<&OsStr> = fixed.into_iter().chain(arguments.iter().map(AsRef::as_ref)).collect();
        let log_start = fs::metadata(&self.directories.log).map_or(0, |metadata| metadata.len());
        let pid = self.supervisor.ask(program, &words, ANSWER_BOUND)?;
        // The program is not yet reaped, so the number is still its own.
        let handle = Pid::from_raw(pid)
            .ok_or(rustix::io::Errno::INVAL)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| StoreError::io(format_args!("process {pid}"), &error.into()))?;
        let pid = pid.unsigned_abs();
        self.ended = None;
        let memory_kills = LimitUsage::of(&self.directories.root).memory_kills;
        self.running = Some(Running { name: launch.name, pid, handle, log_start, memory_kills });
        Ok(pid)
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// The errors of [`PrivateServer::start`]; an error with the last log lines if the program fails; `Broken` if it
    /// takes longer than `bound`, or `Interrupted`, both after killing it.
    pub fn run(&mut self, launch: &Launch, bound: Duration) -> Result<(), StoreError> {
        let waits = self.waits.clone();
        self.run_within(launch, bound, &waits)
    }

    /// Runs a program as [`PrivateServer::run`] does, with other `waits` that may be interrupted.
    pub(crate) fn run_within(&mut self, launch: &Launch, bound: Duration, waits: &Waits) -> Result<(), StoreError> {
        self.start(launch)?;
        if !self.wait_or_kill(bound, waits)? {
            let name = launch.name;
            return Err(self.broken(format!("{name} was not done after {} s and was killed", bound.as_secs())));
        }
        let (ending, error) = self.reap()?;
        if ending.is_success() { Ok(()) } else { Err(error) }
    }

    /// Returns an error unless the program still runs.
    ///
    /// # Errors
    /// The ending of the program, with the last lines of its log, which is kept. Repeated calls return the same error.
    pub fn check(&mut self) -> Result<(), StoreError> {
        if self.running.is_none() {
            let stopped = || StoreError::new(StoreErrorKind::Unreachable, "the server is stopped");
            return Err(self.ended.clone().map_or_else(stopped, |(_, error)| error));
        }
        if self.wait(Duration::ZERO, &self.waits)? {
            let (ending, error) = self.reap()?;
            self.ended = Some((ending, error.clone()));
            return Err(error);
        }
        Ok(())
    }

    /// Returns the ending of a program that should be running, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<(Ending, StoreError)> {
        let _ = self.check();
        self.ended.clone()
    }

    /// Sends `signal` to the program, waits for its end, and ends the processes it left. Succeeds if none runs.
    ///
    /// # Errors
    /// `Broken` if the program does not end within `bound`, or `Interrupted`; it is killed then.
    pub fn stop(&mut self, signal: StopSignal, bound: Duration) -> Result<(), StoreError> {
        // A thread that hangs cannot end on a signal.
        (self.ended, self.hang) = (None, None);
        let Some(Running { name, handle, .. }) = &self.running else { return Ok(()) };
        let (name, waits) = (*name, self.waits.clone());
        match rustix::process::pidfd_send_signal(handle, number_of(signal)) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(StoreError::io(name, &error.into())),
        }
        if self.wait_or_kill(bound, &waits)? {
            return self.forget();
        }
        Err(self.broken(format!("{name} did not stop within {} s and was killed", bound.as_secs())))
    }

    /// Sends the program SIGHUP.
    ///
    /// # Errors
    /// The errors of [`PrivateServer::check`] and of the operating system.
    pub(crate) fn reload(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let Some(Running { name, handle, .. }) = &self.running else { return Ok(()) };
        let sent = rustix::process::pidfd_send_signal(handle, Signal::HUP);
        sent.map_err(|error| StoreError::io(name, &error.into()))
    }

    /// Kills the program and all its descendants at once, as a crash would. Succeeds if none runs.
    ///
    /// # Errors
    /// Fails if the supervisor does not reply.
    pub fn kill(&mut self) -> Result<(), StoreError> {
        self.ended = None;
        if self.running.is_none() { Ok(()) } else { self.forget() }
    }

    /// Copies the server's log to the log directory, over an earlier copy. Returns the copy's path, which begins with
    /// the server's name.
    ///
    /// # Errors
    /// Errors of copying.
    pub fn keep_log(&self) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.log_dir)?;
        let root_name = self.directories.root.file_name().unwrap_or_default().to_string_lossy();
        let number = root_name.trim_start_matches(NAME_PREFIX);
        let path = self.log_dir.join(format!("{}-{number}.log", self.spec.name.to_lowercase()));
        fs::copy(&self.directories.log, &path)?;
        Ok(path)
    }

    /// Ends everything, removes the directories, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` if something could not be ended or removed; the next start tries again.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.end()
    }

    /// Ends everything as [`PrivateServer::close`] does; a second call does nothing.
    pub(crate) fn end(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        // A thread that is stopped cannot end on a signal.
        self.hang = None;
        let root = &self.directories.root;
        let removed = self.supervisor.ask(root, &["remove".as_ref(), root.as_os_str()], CLOSE_BOUND);
        self.clock = None;
        if removed.is_ok() {
            return Ok(());
        }
        let sockets =
            (!self.directories.sockets.starts_with(&self.directories.root)).then_some(&*self.directories.sockets);
        orphans::remove(&self.directories.root, sockets)
            .map_err(|error| StoreError::io(self.directories.root.display(), &error).next("remove it by hand"))
    }

    /// Waits until the program has ended; returns false after `bound`.
    fn wait(&self, bound: Duration, waits: &Waits) -> Result<bool, StoreError> {
        let Some(running) = &self.running else { return Ok(true) };
        let until = Instant::now() + bound;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let has_ended = readable(&running.handle, left.min(waits::TICK))
                .map_err(|error| StoreError::io(format_args!("process {}", running.pid), &error))?;
            if has_ended || left.is_zero() {
                return Ok(has_ended);
            }
            waits.check()?;
        }
    }

    /// Waits as [`PrivateServer::wait`] does, and kills the program after `bound`.
    fn wait_or_kill(&mut self, bound: Duration, waits: &Waits) -> Result<bool, StoreError> {
        let waited = self.wait(bound, waits);
        if !matches!(waited, Ok(true)) {
            self.kill()?;
        }
        waited
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        self.end_program()?;
        (self.running, self.hang) = (None, None);
        Ok(())
    }

    /// Returns the ending of the ended program, and the error that reports it.
    fn reap(&mut self) -> Result<(Ending, StoreError), StoreError> {
        let ending = self.end_program()?;
        self.hang = None;
        let Some(running) = self.running.take() else {
            return Ok((ending, StoreError::new(StoreErrorKind::Unreachable, "the server is stopped")));
        };
        let log = ending::log_of(&self.directories.log, running.log_start);
        let error = ending::error_of(running.name, ending, &log, &self.directories.root);
        let mut error = LimitUsage::of(&self.directories.root).explain(error, running.memory_kills);
        // The kernel's reason names who sent the signal; signals of Plimsoll end no program that should be running.
        if ending.is_from_outside() && error.kind != StoreErrorKind::Exhausted {
            error.what.push_str(", sent by nothing that was watched");
        }
        let error = if ending.is_success() { error } else { self.with_log(error) };
        Ok((ending, error))
    }

    /// Returns the lines in which the running server reports a crash of a part of it.
    pub(crate) fn crash(&self) -> Option<String> {
        let start = self.running.as_ref().map_or(0, |running| running.log_start);
        ending::crash_in(&self.directories.log, start)
    }

    /// Returns the error `lost` of a request to the running server with its log, and a crash of a part of it as the cause.
    pub(crate) fn explain(&self, lost: StoreError) -> StoreError {
        let Some(crash) = self.crash() else {
            return match (lost.next.clone(), self.kept_log()) {
                (Some(next), Some(log)) => {
                    lost.next(format!("{}; the log is {}", next.trim_end_matches('.'), log.display()))
                }
                _ => self.with_log(lost),
            };
        };
        let is_full = ending::is_full(&self.directories.root);
        let kind = if is_full { StoreErrorKind::DiskFull } else { StoreErrorKind::Broken };
        self.with_log(StoreError { kind, ..lost }.detail(crash))
    }

    /// Ends the server, unless that was done, and keeps its log, because something failed.
    pub(crate) fn abandon(&mut self) {
        if !self.is_closed && self.directories.log.metadata().is_ok_and(|log| log.len() > 0) {
            let _ = self.keep_log();
        }
        // No caller can handle an error here; the next start removes what is left.
        let _ = self.end();
    }

    /// Kills a running program that is of no use, and returns the error `why` with its last log lines.
    pub(crate) fn give_up(&mut self, why: StoreError) -> StoreError {
        let start = self.running.as_ref().map_or(0, |running| running.log_start);
        let said = ending::log_of(&self.directories.log, start).tail;
        let detail = why.detail.iter().chain(Some(&said)).filter(|text| !text.is_empty());
        let detail = detail.cloned().collect::<Vec<_>>().join("\n");
        let error = self.with_log(why.detail(detail));
        let _ = self.kill();
        error
    }

    /// Kills a server that hangs, and returns the error `why`, with the path of its log.
    pub(crate) fn end_hung(&mut self, why: StoreError) -> StoreError {
        let _ = self.kill();
        self.with_log(why)
    }

    /// Stops all processes of the server, or lets them continue; returns when they do.
    ///
    /// # Errors
    /// `Broken` if a process does not; errors of the operating system.
    pub fn pause(&self, stands: bool) -> Result<(), StoreError> {
        orphans::pause_those_in(&self.directories.root, stands)
            .map_err(|error| StoreError::io(self.directories.root.display(), &error))
    }

    /// Keeps a thread of the server stopped; `None` lets it continue.
    pub(crate) fn hold(&mut self, hang: Option<Hang>) {
        self.hang = hang;
    }

    /// Returns true while a thread of the server is kept stopped.
    pub(crate) fn hangs(&self) -> bool {
        self.hang.is_some() && self.running.is_some()
    }

    /// Sets the error of the wall clock of the server's processes, also of later ones; `None` for the true clock.
    ///
    /// # Errors
    /// As [`WrongClock::begin`] and [`WrongClock::end`]. If a change cannot begin, the former error begins again.
    pub(crate) fn set_clock(&mut self, change: Option<ClockChange>) -> Result<(), StoreError> {
        let former = self.clock();
        self.clock.take().map_or(Ok(()), WrongClock::end)?;
        let Some(change) = change else { return Ok(()) };
        let begun = self.wrong_clock(change);
        if begun.is_err() {
            self.clock = former.and_then(|former| self.wrong_clock(former).ok());
        }
        self.clock = Some(begun?);
        Ok(())
    }

    fn wrong_clock(&self, change: ClockChange) -> Result<WrongClock, StoreError> {
        let (clock, processes) = WrongClock::begin(&self.directories.root, change)?;
        if processes == 0 && self.running.is_some() {
            let what = "no process of the server works in its directory, so its clock cannot be changed";
            return Err(StoreError::broken(what).next("leave the fault `clock` out, or use another store"));
        }
        Ok(clock)
    }

    /// Returns the error of the wall clock of the server's processes; `None` for the true clock.
    pub(crate) fn clock(&self) -> Option<ClockChange> {
        self.clock.as_ref().map(WrongClock::change)
    }

    /// Makes a file for the server's user below its data directory; a directory if `name` ends with `/`.
    ///
    /// # Errors
    /// `Usage` if `name` leads out of the data directory.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(StoreError::usage(format!("`{name}` is not below the server's data directory"))
                .next("name a file there, such as conf/server.conf"));
        }
        let path = self.directories.data.join(name);
        let made = match name.ends_with('/') {
            true => directories::make_directory(&path, &self.user),
            false => fs::write(&path, bytes).and_then(|()| directories::give(&path, 0o600, &self.user)),
        };
        made.map_err(|error| StoreError::io(path.display(), &error))
    }

    /// Removes sockets that a killed server left: some servers do not listen at a path that exists.
    pub(crate) fn clear_sockets(&self) {
        for entry in fs::read_dir(&self.directories.sockets).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }

    fn broken(&self, what: String) -> StoreError {
        self.with_log(StoreError::new(StoreErrorKind::Broken, what))
    }

    /// Keeps the log as [`PrivateServer::keep_log`], and returns the copy's path. A server that was never started has
    /// written nothing.
    fn kept_log(&self) -> Option<PathBuf> {
        self.keep_log().ok().filter(|path| !path.metadata().is_ok_and(|log| log.len() == 0))
    }

    fn with_log(&self, error: StoreError) -> StoreError {
        let is_full = error.kind == StoreErrorKind::DiskFull;
        let space = is_full.then(|| format!("free space on the disk of {}", self.directories.root.display()));
        let log = self.kept_log().map(|path| format!("read its log, {}", path.display()));
        let next: Vec<String> = space.into_iter().chain(log).collect();
        if next.is_empty() { error } else { error.next(next.join("; ")) }
    }

    /// Kills the program, unless it has ended, and its remaining processes; returns its ending.
    fn end_program(&self) -> Result<Ending, StoreError> {
        let root = &self.directories.root;
        self.supervisor.ask(root, &["end".as_ref(), root.as_os_str()], END_BOUND).map(Ending)
    }

    /// Returns the words for the supervisor: numbers of the signal and of the user, `-` if that is the caller.
    fn leave_and_ids(&self) -> [String; 3] {
        let leave = number_of(self.spec.leave).as_raw().to_string();
        match self.user.is_switched {
            true => [leave, self.user.uid.to_string(), self.user.gid.to_string()],
            false => [leave, "-".to_owned(), "-".to_owned()],
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.abandon();
    }
}
