//! Wrong wall clocks of servers: the kernel's functions for reading clocks are replaced in each of their processes.
//!
//! The kernel has one wall clock for all processes; only their code for reading it, the vDSO, belongs to each. Children
//! inherit a change; a program that is executed does not. So a thread looks for such programs while the clock is wrong.

mod vdso;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_core::{ClockChange, StoreError, StoreErrorKind};
use rustix::process::Pid;

use crate::hang::{TRACING_ADVICE, release, seize, trace_as, until_stopped};
use crate::orphans::{those_in, works_in};
use crate::user::ServerUser;
use vdso::{CodePatch, Vdso, is_in};

/// Interval of looks for programs that were executed meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Most looks until one finds no further program.
const LOOKS_MAX: usize = 20;
/// Longest time until no thread of a process has executed bytes that are replaced, and the time between two attempts.
const FREE_BOUND: Duration = Duration::from_secs(5);
const FREE_INTERVAL: Duration = Duration::from_millis(1);
/// Longest time until a clock that was wrong is right in all processes.
const HEAL_BOUND: Duration = Duration::from_secs(30);
/// Entry of the auxiliary vector (getauxval(3)) with the address of the vDSO.
const AT_SYSINFO_EHDR: u64 = 33;

/// A wrong clock of a server, which is right again when this value is dropped.
pub(crate) struct WrongClock {
    change: ClockChange,
    release: Option<Sender<()>>,
    keeper: Option<JoinHandle<io::Result<()>>>,
}

/// Fails if clocks of servers cannot be changed on this machine.
///
/// # Errors
/// `Usage`, with the reason.
pub fn clocks_must_be_possible() -> Result<(), StoreError> {
    if cfg!(not(target_arch = "x86_64")) {
        let what = "the clock of a server can be changed on x86-64 only";
        return Err(StoreError::usage(what).next("leave the fault `clock` out"));
    }
    let refused = |error: io::Error| {
        let what = "this kernel does not give programs the functions for reading clocks (vDSO), or no room for others";
        StoreError::usage(what).detail(error.to_string()).next("leave the fault `clock` out, or boot without vdso=0")
    };
    Vdso::own().map(drop).map_err(refused)
}

/// Fails if this process may not change the clocks of servers that run as `user`.
///
/// # Errors
/// `Permission`; an error if no program can be started as `user`.
pub(crate) fn clocks_must_be_permitted(user: &ServerUser) -> Result<(), StoreError> {
    trace_as(user).map_err(|error| refused(&error))
}

impl WrongClock {
    /// Makes the clock of all processes of the server in `root` wrong, also of those that start later. Returns the
    /// present number of processes as well.
    ///
    /// # Errors
    /// `Usage` if this machine cannot; `Permission` if this process may not trace them; `Broken` if it did not take
    /// effect. All clocks are right then.
    pub(crate) fn begin(root: &Path, change: ClockChange) -> Result<(Self, usize), StoreError> {
        clocks_must_be_possible()?;
        let began = Self::keep(root.to_owned(), change);
        began.map_err(|error| refused(&error))
    }

    fn keep(root: PathBuf, change: ClockChange) -> io::Result<(Self, usize)> {
        let ((release, released), (tells, told)) = (channel(), channel());
        let vdso = Vdso::own()?;
        let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
        let keep = move || {
            let wrong = vdso.wrong(change, start_ns);
            let set = set_all(&root, &vdso, &wrong);
            let is_set = set.is_ok();
            let _ = tells.send(set);
            if is_set {
                watch(&root, &vdso, &wrong, &released);
            }
            let heal = || set_all(&root, &vdso, &vdso.right()).map(drop);
            let until = Instant::now() + HEAL_BOUND;
            let mut healed = heal();
            // A process that waits for a disk cannot be stopped, and so not be healed, until the wait is over.
            while is_set && healed.is_err() && Instant::now() < until {
                std::thread::sleep(LOOK_INTERVAL);
                healed = heal();
            }
            healed
        };
        let keeper = std::thread::Builder::new().name("clock".to_owned()).spawn(keep)?;
        let clock = Self { change, release: Some(release), keeper: Some(keeper) };
        // An error drops the clock, which waits until all are right.
        let count = told.recv().unwrap_or_else(|_| Err(io::Error::other("the tracer has failed")))?;
        Ok((clock, count))
    }

    /// Returns the error of the clock.
    pub(crate) fn change(&self) -> ClockChange {
        self.change
    }

    /// Makes the clock right again.
    ///
    /// # Errors
    /// `Broken` if that did not take effect in a process that still runs.
    pub(crate) fn end(mut self) -> Result<(), StoreError> {
        self.heal().map_err(|error| refused(&error))
    }

    fn heal(&mut self) -> io::Result<()> {
        drop(self.release.take());
        let Some(keeper) = self.keeper.take() else { return Ok(()) };
        keeper.join().unwrap_or_else(|_| Err(io::Error::other("the tracer has failed")))
    }
}

impl Drop for WrongClock {
    fn drop(&mut self) {
        let _ = self.heal();
    }
}

/// Makes the clock of programs wrong that are executed from now on, until `released` is closed.
fn watch(root: &Path, vdso: &Vdso, wrong: &[CodePatch], released: &Receiver<()>) {
    while released.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        // A process that does not stop now is tried again.
        let _ = set_all(root, vdso, wrong);
    }
}

/// Sets the bytes of the vDSO of all processes of the server in `root`, and returns the number of processes. A process
/// may start another before it is stopped, so the last look finds nothing to do.
fn set_all(root: &Path, vdso: &Vdso, pieces: &[CodePatch]) -> io::Result<usize> {
    let mut count = 0;
    for _ in 0..LOOKS_MAX {
        let (processes, mut is_done, mut failed) = (those_in(root)?, true, None);
        for process in &processes {
            match set(*process, root, vdso, pieces) {
                Ok(was_set) => is_done &= was_set,
                // It has ended meanwhile.
                Err(_) if !works_in(*process, root) => {}
                // All others are set nevertheless.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        count = processes.len();
        if is_done {
            break;
        }
    }
    Ok(count)
}

/// Sets the bytes of the vDSO of a process. Returns true if it had them.
fn set(process: Pid, root: &Path, vdso: &Vdso, pieces: &[CodePatch]) -> io::Result<bool> {
    if Memory::of(process).and_then(|memory| memory.image(vdso)).is_ok_and(|image| has_all(&image, pieces)) {
        return Ok(true);
    }
    let trace = || -> io::Result<bool> {
        let until = Instant::now() + FREE_BOUND;
        while !replace(process, root, vdso, pieces)? {
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(FREE_INTERVAL);
        }
        Ok(false)
    };
    // When the tracer ends, for any reason, the kernel lets all threads continue.
    std::thread::scope(|scope| -> io::Result<bool> {
        let tracer = std::thread::Builder::new().name("clock".to_owned()).spawn_scoped(scope, trace)?;
        tracer.join().unwrap_or_else(|_| Err(io::Error::other("the tracer has failed")))
    })
}

/// Replaces the bytes while all threads of a process are stopped. Returns false if one of them has executed some.
fn replace(process: Pid, root: &Path, vdso: &Vdso, pieces: &[CodePatch]) -> io::Result<bool> {
    let _stopped = Stopped::all_of(process)?;
    // Another process may have received the number.
    if !works_in(process, root) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let memory = Memory::of(process)?;
    if !vdso.is_known(&memory.image(vdso)?) {
        return Err(io::Error::other("it does not read clocks by the functions of this kernel"));
    }
    for thread in threads(process)?.into_iter().filter(|thread| !has_ended(process, *thread)) {
        let at = position(process, thread).map(|at| at.wrapping_sub(memory.start));
        if at.is_none_or(|at| vdso.is_in_use(at as usize)) {
            return Ok(false);
        }
    }
    pieces.iter().try_for_each(|(at, bytes)| memory.file.write_all_at(bytes, memory.start + *at as u64))?;
    match has_all(&memory.image(vdso)?, pieces) {
        true => Ok(true),
        false => Err(io::Error::other("its memory does not have the bytes that were written")),
    }
}

fn has_all(image: &[u8], pieces: &[CodePatch]) -> bool {
    pieces.iter().all(|piece| is_in(image, piece))
}

/// Threads that this thread keeps stopped; they continue when this value is dropped.
struct Stopped(Vec<Pid>);

impl Stopped {
    fn all_of(process: Pid) -> io::Result<Self> {
        let mut stopped = Self(Vec::new());
        loop {
            let is_new = |thread: &Pid| !stopped.0.contains(thread) && !is_still(process, *thread);
            let new: Vec<Pid> = threads(process)?.into_iter().filter(is_new).collect();
            // A thread may start another before it stops.
            if new.is_empty() {
                return Ok(stopped);
            }
            for thread in &new {
                match seize(*thread) {
                    Ok(()) => stopped.0.push(*thread),
                    Err(_) if is_still(process, *thread) => {}
                    Err(error) => return Err(error),
                }
            }
            for thread in &new {
                match until_stopped(*thread) {
                    Err(error) if !is_still(process, *thread) => return Err(error),
                    _ => {}
                }
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|thread| release(*thread));
    }
}

/// Memory of a process, and the address of its vDSO.
struct Memory {
    file: File,
    start: u64,
}

impl Memory {
    fn of(process: Pid) -> io::Result<Self> {
        let of = |name: &str| format!("/proc/{}/{name}", process.as_raw_nonzero());
        let file = OpenOptions::new().read(true).write(true).open(of("mem"))?;
        let auxiliary = std::fs::read(of("auxv"))?;
        let mut entries = auxiliary.as_chunks::<16>().0.iter().map(|entry| u128::from_le_bytes(*entry));
        let start = entries.find(|entry| *entry as u64 == AT_SYSINFO_EHDR).map(|entry| (entry >> 64) as u64);
        let none = || io::Error::other("it has none of the kernel's functions for reading clocks, or is of 32 bits");
        Ok(Self { file, start: start.ok_or_else(none)? })
    }

    /// Returns the bytes of the vDSO.
    fn image(&self, vdso: &Vdso) -> io::Result<Vec<u8>> {
        let mut image = vec![0; vdso.bytes()];
        self.file.read_exact_at(&mut image, self.start)?;
        Ok(image)
    }
}

fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    let entries = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))?.flatten();
    Ok(entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect())
}

/// Returns the state of a thread (proc_pid_stat(5)); `None` if it has gone.
fn state(process: Pid, thread: Pid) -> Option<char> {
    let path = format!("/proc/{}/task/{}/stat", process.as_raw_nonzero(), thread.as_raw_nonzero());
    // The name before the last bracket may contain any character.
    std::fs::read_to_string(path).ok()?.rsplit_once(") ")?.1.chars().next()
}

fn has_ended(process: Pid, thread: Pid) -> bool {
    matches!(state(process, thread), None | Some('Z' | 'X'))
}

/// Returns true for a thread that has ended, or that a tracer has stopped: it hangs by a fault.
fn is_still(process: Pid, thread: Pid) -> bool {
    has_ended(process, thread) || state(process, thread) == Some('t')
}

/// Returns the address of the next instruction of a stopped thread (proc_pid_syscall(5)).
fn position(process: Pid, thread: Pid) -> Option<u64> {
    let path = format!("/proc/{}/task/{}/syscall", process.as_raw_nonzero(), thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    u64::from_str_radix(text.trim_end().rsplit(' ').next()?.strip_prefix("0x")?, 16).ok()
}

/// Returns the error for a server whose clock could not be changed.
fn refused(error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let what = "this process may not change the clock of a server's processes";
        return StoreError::new(StoreErrorKind::Permission, what).detail(error.to_string()).next(TRACING_ADVICE);
    }
    StoreError::broken("the clock of a server's processes could not be changed")
        .detail(error.to_string())
        .next("choose another time: a process may wait for a disk; a program of 32 bits cannot have a wrong clock")
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdout, Command, Stdio};

    use rustix::process::Signal;
    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::hosts::without;

    const CHANGE: ClockChange = ClockChange { by_ns: -100_000 * 1_000_000_000, drift_ppm: 0 };
    /// Longest time until a program that was executed has the wrong clock.
    const SEEN: Duration = Duration::from_secs(20);

    /// A shell without a terminal.
    struct Shell(Child);

    impl Shell {
        fn of(directory: &Path, script: &str) -> Self {
            let mut command = Command::new("setsid");
            command.args(["bash", "-c", script]).current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped());
            Self(command.spawn().unwrap())
        }

        fn pid(&self) -> Pid {
            Pid::from_child(&self.0)
        }

        fn signal(&self, signal: Signal) {
            rustix::process::kill_process(self.pid(), signal).unwrap();
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A shell that writes the time for each line that it reads: its own, and that of a child.
    struct Clocks(Shell, BufReader<ChildStdout>);

    impl Clocks {
        fn of(directory: &Path) -> Self {
            let script = "while read -r; do echo $EPOCHSECONDS $(echo $EPOCHSECONDS); done";
            let mut shell = Shell::of(directory, script);
            let answers = BufReader::new(shell.0.stdout.take().unwrap());
            Self(shell, answers)
        }

        /// Returns the errors of both clocks in seconds.
        fn errors(&mut self) -> [i64; 2] {
            writeln!(self.0.0.stdin.as_mut().unwrap()).unwrap();
            let mut line = String::new();
            self.1.read_line(&mut line).unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
            let errors: Vec<i64> = line.split_whitespace().map(|word| word.parse::<i64>().unwrap() - now).collect();
            errors.try_into().unwrap()
        }

        fn are_wrong(&mut self) -> bool {
            self.errors().into_iter().all(|error| (-100_010..-99_990).contains(&error))
        }

        fn are_right(&mut self) -> bool {
            self.errors().into_iter().all(|error| (-10..10).contains(&error))
        }
    }

    #[track_caller]
    fn wait_for(mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + SEEN;
        while !is_so() {
            assert!(Instant::now() < until, "not within {SEEN:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_clock_of_a_process_and_of_its_new_children_is_wrong_until_it_is_healed() {
        let directory = tempfile::tempdir().unwrap();
        let mut clocks = Clocks::of(directory.path());
        assert!(clocks.are_right());
        let (wrong, count) = WrongClock::begin(directory.path(), CHANGE).unwrap();
        assert!(count == 1 && wrong.change() == CHANGE && clocks.are_wrong(), "{count}");
        wrong.end().unwrap();
        assert!(clocks.are_right());
        let wrong = WrongClock::begin(directory.path(), CHANGE).unwrap();
        assert!(clocks.are_wrong());
        drop(wrong);
        assert!(clocks.are_right(), "a dropped one is healed as well");
    }

    #[test]
    fn clocks_of_another_users_servers_are_changed_only_with_the_right_to() {
        let user = ServerUser::caller_or("nobody", "base-passwd").unwrap();
        assert_eq!(clocks_must_be_permitted(&user), Ok(()));
        // Without root, servers run as the caller.
        if user.is_switched {
            let error = without(CapabilitySet::SYS_PTRACE, || clocks_must_be_permitted(&user)).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Permission, "{error:?}");
            assert_eq!(error.what, "this process may not change the clock of a server's processes");
        }
    }

    #[test]
    fn programs_that_start_later_have_the_wrong_clock_too_and_others_do_not() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut other = Clocks::of(elsewhere.path());
        let (wrong, count) = WrongClock::begin(directory.path(), CHANGE).unwrap();
        let mut late = Clocks::of(directory.path());
        wait_for(|| late.are_wrong());
        assert!(count == 0 && other.are_right(), "{count}");
        wrong.end().unwrap();
        assert!(late.are_right());
    }

    #[test]
    fn processes_that_are_stopped_or_read_the_clock_all_the_time_go_on_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let mut busy = Shell::of(directory.path(), "while :; do now=$EPOCHREALTIME; done");
        let mut clocks = Clocks::of(directory.path());
        assert!(clocks.are_right());
        wait_for(|| those_in(directory.path()).unwrap().len() == 2);
        clocks.0.signal(Signal::STOP);
        let is_stopped = |shell: &Shell| state(shell.pid(), shell.pid()) == Some('T');
        for _ in 0..20 {
            let (wrong, count) = WrongClock::begin(directory.path(), CHANGE).unwrap();
            assert_eq!(count, 2);
            wrong.end().unwrap();
        }
        let wrong = WrongClock::begin(directory.path(), CHANGE).unwrap();
        wait_for(|| is_stopped(&clocks.0));
        clocks.0.signal(Signal::CONT);
        assert!(clocks.are_wrong());
        drop(wrong);
        assert!(clocks.are_right() && busy.0.try_wait().unwrap().is_none());
    }
}
