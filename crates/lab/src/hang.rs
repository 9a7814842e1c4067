//! A thread of a server that hangs: it is traced and stopped (ptrace(2)) while the others run.
//!
//! The tracer is a thread of this process. When it ends, for any reason, the kernel lets the stopped thread continue.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind, Waits};
use rustix::process::Pid;

use crate::orphans::works_in;
use crate::user::ServerUser;

/// Time in which the threads' use of processors is compared, and longest time until one of them uses some.
const LOOK_LENGTH: Duration = Duration::from_millis(100);
const LOOK_BOUND: Duration = Duration::from_secs(2);
/// Longest time until a thread stops: it may wait for a disk.
const STOP_BOUND: Duration = Duration::from_secs(5);
/// Time between two checks whether a thread has stopped, and whether a stopped one was killed.
const STOP_INTERVAL: Duration = Duration::from_millis(1);
const KEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Advice if tracing is not permitted.
pub(crate) const TRACING_ADVICE: &str = "run as root; in a container, add CAP_SYS_PTRACE; elsewhere allow tracing: \
                                         sysctl kernel.yama.ptrace_scope=1";

/// Requests of ptrace(2), and the event of a thread that stops at a request. Types in `libc` differ by its target.
const CONTINUE: u16 = 7;
const DETACH: u16 = 17;
const SEIZE: u16 = 0x4206;
const INTERRUPT: u16 = 0x4207;
const EVENT_STOP: i32 = 128;

/// Fails if this process may not stop a single thread of servers that run as `user`.
///
/// # Errors
/// `Permission`; an error if no program can be started as `user`.
pub(crate) fn hangs_must_be_permitted(user: &ServerUser) -> Result<(), StoreError> {
    trace_as(user).map_err(|error| refused(&error))
}

/// Traces and stops a program that runs as `user`, and ends it.
pub(crate) fn trace_as(user: &ServerUser) -> io::Result<()> {
    let mut command = Command::new("/bin/sh");
    // It also ends with this process, which closes its input.
    command.args(["-c", "read _"]).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if user.is_switched {
        command.uid(user.uid).gid(user.gid);
    }
    let mut program = command.spawn()?;
    let thread = Pid::from_child(&program);
    let stopped = stop(thread);
    if stopped.is_ok() {
        release(thread);
    }
    // It may have ended just now.
    let _ = program.kill();
    let _ = program.wait();
    stopped
}

/// A stopped thread, which continues when this value is dropped.
pub(crate) struct Hang {
    release: Option<Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

impl Hang {
    /// Stops the busiest of `threads` that belong to the server in `root`; returns `None` if none of them does work.
    ///
    /// # Errors
    /// `Permission` if this process may not trace them; `Broken` if the thread does not stop; `Interrupted`.
    pub(crate) fn of_busiest(threads: &[u32], root: &Path, waits: &Waits) -> Result<Option<Self>, StoreError> {
        let threads = threads.iter().filter_map(|thread| Pid::from_raw((*thread).try_into().ok()?));
        let threads: Vec<Pid> = threads.filter(|thread| works_in(*thread, root)).collect();
        let Some(thread) = busiest(&threads, waits)? else { return Ok(None) };
        Self::of(thread).map(Some).map_err(|error| refused(&error))
    }

    /// Stops a thread; returns when it has stopped.
    fn of(thread: Pid) -> io::Result<Self> {
        let ((release, released), (tells, told)) = (channel(), channel());
        let trace = move || {
            let stopped = stop(thread);
            let is_stopped = stopped.is_ok();
            let _ = tells.send(stopped);
            if is_stopped {
                keep(thread, &released);
            }
        };
        let tracer = std::thread::Builder::new().name("hang".to_owned()).spawn(trace)?;
        told.recv().unwrap_or_else(|_| Err(io::Error::other("the tracer has failed")))?;
        Ok(Self { release: Some(release), tracer: Some(tracer) })
    }
}

impl Drop for Hang {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(tracer) = self.tracer.take() {
            let _ = tracer.join();
        }
    }
}

/// Returns the thread that uses most processor time, as soon as one uses any.
fn busiest(threads: &[Pid], waits: &Waits) -> Result<Option<Pid>, StoreError> {
    let until = Instant::now() + LOOK_BOUND;
    while !threads.is_empty() && Instant::now() < until {
        let before: Vec<u64> = threads.iter().map(|thread| processor_ns(*thread)).collect();
        waits.pause(LOOK_LENGTH)?;
        let used = threads.iter().zip(before).map(|(thread, ns)| (processor_ns(*thread).saturating_sub(ns), *thread));
        let most = used.max_by_key(|(used_ns, _)| *used_ns);
        if let Some((1.., thread)) = most {
            return Ok(Some(thread));
        }
    }
    Ok(None)
}

/// Returns the processor time of a thread so far (`Documentation/scheduler/sched-stats.rst`); 0 if it has ended.
fn processor_ns(thread: Pid) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", thread.as_raw_nonzero())).unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Stops a thread as its tracer.
fn stop(thread: Pid) -> io::Result<()> {
    seize(thread)?;
    until_stopped(thread)
}

/// Becomes the tracer of a thread, and asks it to stop. It continues if this thread ends.
pub(crate) fn seize(thread: Pid) -> io::Result<()> {
    trace(SEIZE, thread, 0)?;
    trace(INTERRUPT, thread, 0)
}

/// Waits until a traced thread has stopped.
pub(crate) fn until_stopped(thread: Pid) -> io::Result<()> {
    let until = Instant::now() + STOP_BOUND;
    loop {
        match waited(thread)? {
            Some(status) if !libc::WIFSTOPPED(status) => return Err(io::Error::other("it has ended")),
            Some(status) if status >> 16 == EVENT_STOP => return Ok(()),
            // A signal came before; the thread receives it, and stops then.
            Some(status) => trace(CONTINUE, thread, libc::WSTOPSIG(status))?,
            None if Instant::now() > until => return Err(io::ErrorKind::TimedOut.into()),
            None => std::thread::sleep(STOP_INTERVAL),
        }
    }
}

/// Keeps a stopped thread until `released` is closed, or the thread is killed.
fn keep(thread: Pid, released: &Receiver<()>) {
    while released.recv_timeout(KEEP_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        // A thread that was killed is there until its tracer has asked, and its process with it.
        if !waited(thread).is_ok_and(|status| status.is_none_or(|status| libc::WIFSTOPPED(status))) {
            return;
        }
    }
    release(thread);
}

/// Lets a stopped thread continue.
pub(crate) fn release(thread: Pid) {
    // If that fails, the thread was killed, and is released with this tracer.
    let _ = trace(DETACH, thread, 0);
}

/// Makes a request to a traced thread, with a signal that it receives.
fn trace(request: u16, thread: Pid, signal: i32) -> io::Result<()> {
    let (thread, nowhere) = (thread.as_raw_nonzero().get(), std::ptr::null_mut::<libc::c_void>());
    let signal = std::ptr::without_provenance_mut::<libc::c_void>(signal.unsigned_abs() as usize);
    // SAFETY: none of these requests reads or writes memory of this process or of the thread.
    let done = unsafe { libc::ptrace(request.into(), thread, nowhere, signal) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the status of a traced thread (waitpid(2)) if it has changed.
fn waited(thread: Pid) -> io::Result<Option<i32>> {
    let mut status = 0;
    let flags = libc::__WALL | libc::WNOHANG;
    // SAFETY: writes to `status` only.
    match unsafe { libc::waitpid(thread.as_raw_nonzero().get(), &raw mut status, flags) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(status)),
    }
}

/// Returns the error for a thread that could not be stopped.
fn refused(error: &io::Error) -> StoreError {
    if error.raw_os_error() == Some(libc::EPERM) {
        let what = "this process may not stop a single thread of a server";
        return StoreError::new(StoreErrorKind::Permission, what).detail(error.to_string()).next(TRACING_ADVICE);
    }
    StoreError::broken("a thread of the server could not be stopped")
        .detail(error.to_string())
        .next("choose another time: the thread may have ended, or may wait for a disk")
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::hosts::without;

    const BUSY: &str = "while :; do :; done";

    const IDLE: &str = ": >$$; read _";

    /// Starts two shells in `directory`: one that does nothing, and one that runs `script`.
    fn shells(directory: &Path, script: &str) -> [Child; 2] {
        [IDLE, script].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(directory).stdin(std::process::Stdio::piped());
            let shell = command.spawn().unwrap();
            // A start takes processor time. After it an idle shell waits for its input.
            let state = || std::fs::read_to_string(format!("/proc/{}/stat", shell.id())).unwrap();
            let has_started = || directory.join(shell.id().to_string()).exists() && state().contains(") S ");
            while script == IDLE && !has_started() {
                std::thread::sleep(STOP_INTERVAL);
            }
            shell
        })
    }

    fn end(shells: [Child; 2]) {
        for mut shell in shells {
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
    }

    fn is_stopped(shell: &Child) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", shell.id())).unwrap().contains(") t ")
    }

    #[test]
    fn the_busiest_thread_stops_until_it_is_released() {
        let (directory, waits) = (tempfile::tempdir().unwrap(), Waits::default());
        let shells = shells(directory.path(), BUSY);
        let ids = [shells[0].id(), shells[1].id()];
        let hang = Hang::of_busiest(&ids, directory.path(), &waits).unwrap().unwrap();
        assert_eq!([is_stopped(&shells[0]), is_stopped(&shells[1])], [false, true]);
        drop(hang);
        assert!(!is_stopped(&shells[1]));
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(Hang::of_busiest(&ids, elsewhere.path(), &waits).unwrap().is_none(), "of another server");
        end(shells);
    }

    #[test]
    fn servers_of_another_user_are_traced_only_with_the_right_to() {
        assert_eq!(hangs_must_be_permitted(&ServerUser::caller()), Ok(()));
        let user = ServerUser::caller_or("nobody", "base-passwd").unwrap();
        assert_eq!(hangs_must_be_permitted(&user), Ok(()));
        // Without root, servers run as the caller.
        if user.is_switched {
            let error = without(CapabilitySet::SYS_PTRACE, || hangs_must_be_permitted(&user)).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Permission, "{error:?}");
            assert_eq!(error.what, "this process may not stop a single thread of a server");
            assert_eq!(error.next.as_deref(), Some(TRACING_ADVICE));
        }
    }

    #[test]
    fn threads_that_do_nothing_do_not_hang() {
        let directory = tempfile::tempdir().unwrap();
        let shells = shells(directory.path(), IDLE);
        let ids = [shells[0].id(), shells[1].id()];
        assert!(Hang::of_busiest(&ids, directory.path(), &Waits::default()).unwrap().is_none());
        end(shells);
    }

    #[test]
    fn a_process_that_hangs_can_be_killed_and_its_parent_learns_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let noted = directory.path().join("busy");
        let [mut idle, mut parent] = shells(directory.path(), "(while :; do :; done) & echo $! >busy; wait");
        let read = || std::fs::read_to_string(&noted).unwrap_or_default().trim().parse::<u32>().ok();
        let busy = std::iter::repeat_with(read).flatten().next().unwrap();
        let hang = Hang::of_busiest(&[busy], directory.path(), &Waits::default()).unwrap().unwrap();
        rustix::process::kill_process(Pid::from_raw(busy as i32).unwrap(), rustix::process::Signal::KILL).unwrap();
        parent.wait().unwrap();
        drop(hang);
        idle.kill().unwrap();
        idle.wait().unwrap();
    }
}
