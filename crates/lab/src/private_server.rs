//! One server of our own on this machine, and what guards it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{Launch, ServerSpec, StopSignal, StoreError, StoreErrorKind, Waits, waits};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::ending::{self, Ending};
use crate::limits::Met;
use crate::orphans;
use crate::place::{self, NAME_PREFIX, Place};
use crate::supervisor::{ANSWER_BOUND, CLOSE_BOUND, Supervisor, readable};
use crate::user::ServerUser;

/// How long it may take to clean up below an ended program; it gives up by itself after 10 s.
const END_BOUND: Duration = Duration::from_secs(15);

fn number_of(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
    }
}

/// The program that runs now.
struct Running {
    name: &'static str,
    pid: u32,
    handle: OwnedFd,
    /// Where its part of the log begins.
    log_start: u64,
    /// How many the kernel had killed for their memory before.
    memory_kills: u64,
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
    spec: ServerSpec,
    place: Place,
    user: ServerUser,
    log_dir: PathBuf,
    /// The network namespace of its host, where it has one of its own.
    network: Option<PathBuf>,
    supervisor: Supervisor,
    /// Its directories were removed, or that was tried.
    is_closed: bool,
    running: Option<Running>,
    /// How the program ended that should be running.
    ended: Option<(Ending, StoreError)>,
    waits: Waits,
}

impl PrivateServer {
    /// Makes the directories under the first of `bases` which `user` can get to, after removing what dead
    /// Plimsolls left in any of them; nothing runs there yet.
    ///
    /// Of `spec` it takes the name for its kept log, and [`ServerSpec::leave`]. `log_dir` is where
    /// [`PrivateServer::keep_log`] copies to. When the user wants an end, which `waits` tell, no program is waited for any
    /// longer.
    ///
    /// # Errors
    /// `Permission` when no base will do, with the reason for each; `DiskFull` and others as the operating system says.
    pub fn new(
        supervisor: &Supervisor,
        spec: ServerSpec,
        user: ServerUser,
        bases: &[PathBuf],
        log_dir: &Path,
        waits: &Waits,
    ) -> Result<Self, StoreError> {
        for base in bases {
            // A base that cannot be listed is either refused below, or has nothing that we could remove.
            let _ = orphans::sweep_orphans(base);
        }
        let guard = |root: &Path| supervisor.ask(root, &["guard".as_ref(), root.as_ref()], ANSWER_BOUND).map(drop);
        let place = Place::make(bases, &user, &guard)?;
        Ok(Self {
            spec,
            place,
            user,
            log_dir: log_dir.to_owned(),
            network: None,
            supervisor: supervisor.clone(),
            is_closed: false,
            running: None,
            ended: None,
            waits: waits.clone(),
        })
    }

    /// Has its data in a directory below `base` instead, which its user can get to. Nothing is there yet.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn keep_data_in(&mut self, base: &Path) -> Result<(), StoreError> {
        let data = base.join(self.place.root.file_name().unwrap_or_default());
        place::make_directory(&data, &self.user).map_err(|error| StoreError::io(data.display(), &error))?;
        self.place.data = data;
        Ok(())
    }

    /// Has what is started from now on in this network namespace.
    pub fn live_on(&mut self, network: PathBuf) {
        self.network = Some(network);
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

    /// What it says, over all of its starts.
    pub fn log(&self) -> &Path {
        &self.place.log
    }

    /// The id of the running program.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.pid)
    }

    /// Starts a program and leaves it running.
    ///
    /// # Errors
    /// `Usage` when something runs already, or an argument has a zero byte; others when it cannot be executed.
    pub fn start(&mut self, launch: &Launch) -> Result<u32, StoreError> {
        if let Some(running) = &self.running {
            return Err(StoreError::new(StoreErrorKind::Usage, format!("{} runs already", running.name)));
        }
        let Launch { program, arguments, .. } = launch;
        let root = self.place.root.as_os_str();
        let [leave, uid, gid] = self.leave_and_ids();
        let network = self.network.as_deref().unwrap_or(Path::new("-")).as_os_str();
        let fixed = ["start".as_ref(), root, leave.as_ref(), uid.as_ref(), gid.as_ref(), network, program.as_os_str()];
        let words: Vec<&OsStr> = fixed.into_iter().chain(arguments.iter().map(AsRef::as_ref)).collect();
        let log_start = fs::metadata(&self.place.log).map_or(0, |metadata| metadata.len());
        let pid = self.supervisor.ask(program, &words, ANSWER_BOUND)?;
        // Not yet reaped, so the number is still this program's.
        let handle = Pid::from_raw(pid)
            .ok_or(rustix::io::Errno::INVAL)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| StoreError::io(format_args!("process {pid}"), &error.into()))?;
        let pid = pid.unsigned_abs();
        self.ended = None;
        let memory_kills = Met::of(&self.place.root).memory_kills;
        self.running = Some(Running { name: launch.name, pid, handle, log_start, memory_kills });
        Ok(pid)
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// As [`PrivateServer::start`]; when it does not end well, by the words it said last; `Broken` when it is
    /// not done within `bound`, and killed; `Interrupted`, and killed too.
    pub fn run(&mut self, launch: &Launch, bound: Duration) -> Result<(), StoreError> {
        self.start(launch)?;
        if !self.wait_or_kill(bound)? {
            let name = launch.name;
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
            return Err(self.ended.clone().map_or_else(stopped, |(_, error)| error));
        }
        if self.wait(Duration::ZERO)? {
            let (ending, error) = self.reap()?;
            self.ended = Some((ending, error.clone()));
            return Err(error);
        }
        Ok(())
    }

    /// How the program ended that should be running, if it has.
    pub(crate) fn ended(&mut self) -> Option<(Ending, StoreError)> {
        let _ = self.check();
        self.ended.clone()
    }

    /// Asks the program to end by `signal`, waits for it, and ends what it left running. No error when none runs.
    ///
    /// # Errors
    /// `Broken` when it does not end within `bound`, or `Interrupted`; it is killed then.
    pub fn stop(&mut self, signal: StopSignal, bound: Duration) -> Result<(), StoreError> {
        self.ended = None;
        let Some(Running { name, handle, .. }) = &self.running else { return Ok(()) };
        let name = *name;
        match rustix::process::pidfd_send_signal(handle, number_of(signal)) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(StoreError::io(name, &error.into())),
        }
        if self.wait_or_kill(bound)? {
            return self.forget();
        }
        Err(self.broken(format!("{name} did not stop within {} s and was killed", bound.as_secs())))
    }

    /// Sends the program SIGHUP.
    ///
    /// # Errors
    /// As [`PrivateServer::check`]; as the operating system says.
    pub(crate) fn reload(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let Some(Running { name, handle, .. }) = &self.running else { return Ok(()) };
        let sent = rustix::process::pidfd_send_signal(handle, Signal::HUP);
        sent.map_err(|error| StoreError::io(name, &error.into()))
    }

    /// Kills the program and all its descendants at once, as a crash would. No error when none runs.
    ///
    /// # Errors
    /// When the supervisor does not do its part.
    pub fn kill(&mut self) -> Result<(), StoreError> {
        self.ended = None;
        if self.running.is_none() { Ok(()) } else { self.forget() }
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
        let path = self.log_dir.join(format!("{}-{number}.log", self.spec.name.to_lowercase()));
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

    /// The same; a second time there is nothing to do.
    pub(crate) fn end(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        let root = &self.place.root;
        if self.supervisor.ask(root, &["remove".as_ref(), root.as_os_str()], CLOSE_BOUND).is_ok() {
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
        self.end_program()?;
        self.running = None;
        Ok(())
    }

    /// How the program, which has ended, ended, and the error that says so.
    fn reap(&mut self) -> Result<(Ending, StoreError), StoreError> {
        let ending = self.end_program()?;
        let Some(running) = self.running.take() else {
            return Ok((ending, StoreError::new(StoreErrorKind::Unreachable, "the server is stopped")));
        };
        let log = ending::log_of(&self.place.log, running.log_start);
        let error = ending::error_of(running.name, ending, &log, &self.place.root);
        let error = Met::of(&self.place.root).explain(error, running.memory_kills);
        let error = match (ending.is_success(), error.kind) {
            (true, _) => error,
            (_, StoreErrorKind::DiskFull) => {
                error.next(format!("free space on the disk of {}", self.place.root.display()))
            }
            _ => self.with_log(error),
        };
        Ok((ending, error))
    }

    /// Closes it, unless that was done, and keeps its log: something failed, here or with whoever used it.
    pub(crate) fn abandon(&mut self) {
        if !self.is_closed && self.place.log.metadata().is_ok_and(|log| log.len() > 0) {
            let _ = self.keep_log();
        }
        // There is nobody to tell; what is left is found by the next start.
        let _ = self.end();
    }

    /// The error that a program which runs is of no use, `why`, with what it said last; it is killed.
    pub(crate) fn give_up(&mut self, why: StoreError) -> StoreError {
        let start = self.running.as_ref().map_or(0, |running| running.log_start);
        let said = ending::log_of(&self.place.log, start).tail;
        let detail = why.detail.iter().chain(Some(&said)).filter(|text| !text.is_empty());
        let detail = detail.cloned().collect::<Vec<_>>().join("\n");
        let error = self.with_log(why.detail(detail));
        let _ = self.kill();
        error
    }

    /// Has all that runs there stand still, or go on; returns when it does.
    ///
    /// # Errors
    /// `Broken` when a process does not; as the operating system says.
    pub fn pause(&self, stands: bool) -> Result<(), StoreError> {
        orphans::pause_those_in(&self.place.root, stands)
            .map_err(|error| StoreError::io(self.place.root.display(), &error))
    }

    /// Makes a file for the server's user below its data directory; a directory, where `name` ends with `/`.
    ///
    /// # Errors
    /// `Usage` if `name` leads out of the data directory.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(StoreError::usage(format!("`{name}` is not below the server's data directory"))
                .next("name a file there, such as conf/server.conf"));
        }
        let path = self.place.data.join(name);
        let made = match name.ends_with('/') {
            true => place::make_directory(&path, &self.user),
            false => fs::write(&path, bytes).and_then(|()| place::give(&path, 0o600, &self.user)),
        };
        made.map_err(|error| StoreError::io(path.display(), &error))
    }

    /// Removes the sockets that a server left which was killed: some do not listen where one stands.
    pub(crate) fn clear_sockets(&self) {
        for entry in fs::read_dir(&self.place.sockets).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
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

    /// Kills the program, unless it has ended, with what it has left; how it ended.
    fn end_program(&self) -> Result<Ending, StoreError> {
        let root = &self.place.root;
        self.supervisor.ask(root, &["end".as_ref(), root.as_os_str()], END_BOUND).map(Ending)
    }

    /// What the supervisor is told: numbers of the signal and of the user, `-` where that is the caller.
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
