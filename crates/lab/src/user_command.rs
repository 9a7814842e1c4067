//! Commands of a user that begin and heal a fault, run by `sh` in a process of this program that outlives its owner.
//!
//! Like the user's shell, the commands have the owner's environment and working directory, and the machine's own
//! network. They have no terminal and no input, and their output is kept for errors only. If the owner ends without a
//! request to heal, for any reason, the process heals the fault.

use std::fs::{self, DirEntry};
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use crate::hosts::at_home;
use crate::orphans::state_and_parent;
use crate::supervisor::{ANSWER_BOUND, OWNER, again, ends_with_us, ends_within, ignore_signals, readable};

/// Name of the process in lists of processes.
const NAME: &str = "plimsoll-command";
/// Task of the process.
pub(crate) const TASK: &str = "command";
/// Program that runs the commands.
const SHELL: &str = "/bin/sh";
/// Reason of a failure if the process that runs the commands has ended: it runs none any more.
const LOST: &str = "its process was killed";
/// Beginning of the reason if the shell does not exist or this user may not execute it.
const NO_SHELL: &str = "cannot execute ";
/// Longest time of a command: after it the command is killed.
const COMMAND_BOUND: Duration = Duration::from_secs(60);
/// Longest request: both commands.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Requests after the first: to end the command that begins the fault, and to heal it.
const STOP: &[u8] = b"stop";
const HEAL: &[u8] = b"heal";
/// Part of the command that heals the fault, in messages.
const HEALS: &str = "heals";
/// Answer of a command that ended with exit code 0. All others are reasons of a failure.
const DONE: &[u8] = b"done";
/// Length of the longest answer.
const ANSWER_BYTES_MAX: usize = 4096;
/// Bytes that are kept of a command's output: the last ones.
const OUTPUT_BYTES_MAX: usize = 1000;
/// Most reads of output after the end of a command: programs that it left may go on to write.
const LAST_READS_MAX: usize = 64;
/// Time between two looks whether a command has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Time between two looks whether the user wants an end.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// A fault that commands begin and heal. If this is dropped, or the owner dies, the fault is healed.
#[derive(Debug)]
pub struct UserCommand {
    child: Child,
    control: OwnedFd,
    /// Command that heals it.
    heal: Option<String>,
}

impl UserCommand {
    /// Longest time for which commands run after the end of their owner: both, one after the other.
    pub const LEFT_BOUND: Duration = COMMAND_BOUND.saturating_mul(2).saturating_add(ANSWER_BOUND);

    /// Returns true while commands of this user run whose owner has ended: they heal its fault.
    pub fn are_left() -> bool {
        let mut runners = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|process| runner(&process));
        runners.any(|(pid, owner)| state_and_parent(pid).is_some_and(|(_, parent)| parent != owner))
    }

    /// Starts the command that begins the fault. `heal` is the command that heals it.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn start(begin: &str, heal: Option<&str>) -> Result<Self, StoreError> {
        let execute = || -> io::Result<Self> {
            let (mut command, control) = again(NAME)?;
            command.arg(TASK).envs(std::env::vars_os().filter(|(name, _)| name != OWNER));
            if let Ok(directory) = std::env::current_dir() {
                command.current_dir(directory);
            }
            let child = command.spawn()?;
            // Not as arguments, which all users see in lists of processes for as long as the fault lasts.
            let request = [Some(begin), heal].into_iter().flatten().collect::<Vec<_>>().join("\0");
            send(&control, request.as_bytes(), SendFlags::NOSIGNAL)?;
            Ok(Self { child, control, heal: heal.map(str::to_owned) })
        };
        // The calling thread may be in the network of a host.
        at_home(execute).map_err(|error| StoreError::io("/proc/self/exe", &error))
    }

    /// Waits for the end of the command that begins the fault. If `is_stopped` becomes true, the command is killed.
    ///
    /// # Errors
    /// `Broken` if the command did not end with exit code 0 within 60 s, with the end of its output; `Interrupted` if it
    /// was killed. If the process was killed that would heal the fault, the advice has the command that heals it.
    pub fn begun(&self, is_stopped: impl Fn() -> bool) -> Result<(), StoreError> {
        self.answer("begins", is_stopped)
    }

    /// Heals the fault.
    ///
    /// # Errors
    /// `Broken` as [`UserCommand::begun`], with the command in the advice.
    pub fn heal(self) -> Result<(), StoreError> {
        // If the process has ended, no answer comes.
        let _ = send(&self.control, HEAL, SendFlags::NOSIGNAL);
        self.answer(HEALS, || false)
    }

    /// Waits for the end of the command that `does` this with the fault: `begins` or [`HEALS`].
    fn answer(&self, does: &str, is_stopped: impl Fn() -> bool) -> Result<(), StoreError> {
        let failed = |why: &str| {
            let error = StoreError::broken(format!("the command that {does} it failed")).detail(why);
            let by_hand = self.heal.as_ref().filter(|_| does == HEALS || why == LOST);
            match by_hand.map(|heal| format!("heal the fault by hand: {heal}")) {
                Some(by_hand) if why == LOST => error.next(by_hand),
                Some(by_hand) => error.next(format!("{}; {by_hand}", advice(why))),
                None => error.next(advice(why)),
            }
        };
        let mut until = Instant::now() + COMMAND_BOUND + ANSWER_BOUND;
        let mut stopped = false;
        while !readable(&self.control, STOP_INTERVAL).map_err(|error| failed(&error.to_string()))? {
            if !stopped && is_stopped() {
                let _ = send(&self.control, STOP, SendFlags::NOSIGNAL);
                (stopped, until) = (true, Instant::now() + ANSWER_BOUND);
            }
            if Instant::now() > until {
                return Err(failed("its process does not reply"));
            }
        }
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        let length = recv(&self.control, &mut answer[..], RecvFlags::empty()).map_or(0, |(_, length)| length);
        match &answer[..length] {
            _ if stopped => {
                let what = format!("the command that {does} it was killed, because the user stopped the run");
                Err(StoreError::new(StoreErrorKind::Interrupted, what))
            }
            DONE => Ok(()),
            [] => Err(failed(LOST)),
            why => Err(failed(&String::from_utf8_lossy(why))),
        }
    }
}

/// Returns advice for a command that failed for this reason.
fn advice(why: &str) -> String {
    match why.starts_with(NO_SHELL) {
        true => format!("commands of faults run in {SHELL}: install it, and let this user execute it"),
        false => format!("run it in a shell: it has to end with exit code 0 within {} s", COMMAND_BOUND.as_secs()),
    }
}

/// Returns the numbers of a process of this user that runs commands, and of its owner; `None` for another process.
fn runner(process: &DirEntry) -> Option<(Pid, i32)> {
    let pid = Pid::from_raw(process.file_name().to_str()?.parse().ok()?)?;
    if process.metadata().ok()?.uid() != geteuid().as_raw() {
        return None;
    }
    let command_line = fs::read_to_string(process.path().join("cmdline")).ok()?;
    let words: Vec<&str> = command_line.split('\0').collect();
    let [NAME, owner, TASK, ""] = words[..] else { return None };
    Some((pid, owner.strip_prefix("--of=")?.parse().ok()?))
}

impl Drop for UserCommand {
    fn drop(&mut self) {
        let _ = shutdown(&self.control, Shutdown::Both);
        // Both commands.
        ends_within(&mut self.child, 2 * COMMAND_BOUND);
    }
}

/// Runs in the process: carries out both commands, the second on request or at the end of the owner.
pub(crate) fn run() {
    // Ctrl-C in a terminal, and its end, do not reach the commands. Fails only if the process leads a session already.
    let _ = rustix::process::setsid();
    ignore_signals();
    let _ = rustix::thread::set_name(c"plimsoll-commnd");
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let Ok((_, length @ 1..)) = recv(io::stdin(), &mut request[..], RecvFlags::empty()) else { return };
    let commands = String::from_utf8_lossy(&request[..length]).into_owned();
    let mut commands = commands.split('\0');
    let has_stop = || matches!(recv(io::stdin(), &mut [0_u8; 4], RecvFlags::DONTWAIT), Ok((_, 1..)));
    // Without an owner the command ends before the one that heals begins.
    answer(&carried_out(SHELL, commands.next().unwrap_or_default(), has_stop));
    let Some(heal) = commands.next() else { return };
    await_healing();
    answer(&carried_out(SHELL, heal, || false));
}

/// Waits for the request to heal the fault, or the end of the owner. A request to stop may come when the command has
/// just ended by itself.
fn await_healing() {
    loop {
        let mut request = [0_u8; HEAL.len()];
        let received = recv(io::stdin(), &mut request[..], RecvFlags::empty());
        match received {
            Err(Errno::INTR) => {}
            Ok((_, length)) if request.get(..length) == Some(STOP) => {}
            _ => return,
        }
    }
}

/// Answers the owner, if there is one.
fn answer(done: &Result<(), String>) {
    let answer = done.as_ref().map_or_else(|why| why.as_bytes(), |()| DONE);
    let _ = send(io::stdin(), &answer[..answer.len().min(ANSWER_BYTES_MAX)], SendFlags::NOSIGNAL);
}

/// Runs a command by `shell`, and kills it if `has_stop` returns true. Returns the reason that it failed, and the end of
/// its output.
fn carried_out(shell: &str, command: &str, has_stop: impl Fn() -> bool) -> Result<(), String> {
    let mut output = Vec::new();
    let why = match execute(shell, command, has_stop, &mut output) {
        Ok(Some(status)) if status.success() => return Ok(()),
        // `exit status: 1`, `signal: 9 (SIGKILL)`
        Ok(Some(status)) => status.to_string(),
        Ok(None) => format!("killed after {} s", COMMAND_BOUND.as_secs()),
        Err(error) => error.to_string(),
    };
    let output = String::from_utf8_lossy(&output);
    let said = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    Err(if said.is_empty() { why } else { format!("{why}: {said}") })
}

/// Runs a command by `shell` to its end. Returns `None` if it was killed.
fn execute(
    shell: &str,
    command: &str,
    has_stop: impl Fn() -> bool,
    output: &mut Vec<u8>,
) -> io::Result<Option<ExitStatus>> {
    let (reader, writer) = io::pipe()?;
    let mut program = Command::new(shell);
    program.arg("-c").arg(command).env_remove(OWNER);
    program.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    ends_with_us(&mut program, Signal::KILL);
    let mut child = program.spawn().map_err(|error| not_begun(shell, &error))?;
    // Closes this process's copies of the writing end.
    drop(program);
    let (began, mut pipe) = (Instant::now(), Some(reader));
    let ended = loop {
        drain(&mut pipe, LOOK_INTERVAL, output)?;
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > COMMAND_BOUND || has_stop() {
            // It leads a session, and so a group.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            child.wait()?;
            break None;
        }
    };
    for _ in 0..LAST_READS_MAX {
        if !drain(&mut pipe, Duration::ZERO, output)? {
            break;
        }
    }
    Ok(ended)
}

/// Returns the error of a shell that did not begin, with the shell's name.
fn not_begun(shell: &str, error: &io::Error) -> io::Error {
    let beginning = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => NO_SHELL,
        _ => "cannot start ",
    };
    io::Error::new(error.kind(), format!("{beginning}{shell}: {error}"))
}

/// Reads once if the pipe is readable within `bound`, and keeps the end of the output. Returns true if there was some.
fn drain(pipe: &mut Option<PipeReader>, bound: Duration, output: &mut Vec<u8>) -> io::Result<bool> {
    let Some(reader) = pipe else {
        std::thread::sleep(bound);
        return Ok(false);
    };
    if !readable(&*reader, bound)? {
        return Ok(false);
    }
    let mut part = [0; 4096];
    let length = reader.read(&mut part)?;
    if length == 0 {
        *pipe = None;
    }
    output.extend_from_slice(&part[..length]);
    let excess = output.len().saturating_sub(OUTPUT_BYTES_MAX);
    output.drain(..excess);
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns commands that make and remove a file, and its path.
    fn commands(directory: &Path) -> (String, String, std::path::PathBuf) {
        let file = directory.join("broken");
        (format!("touch {}", file.display()), format!("rm {}", file.display()), file)
    }

    #[test]
    fn a_command_begins_a_fault_and_another_heals_it() {
        let directory = tempfile::tempdir().unwrap();
        let (begin, heal, file) = commands(directory.path());
        let fault = UserCommand::start(&begin, Some(&heal)).unwrap();
        fault.begun(|| false).unwrap();
        assert!(file.exists());
        fault.heal().unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_fault_is_healed_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let (begin, heal, file) = commands(directory.path());
        let fault = UserCommand::start(&begin, Some(&heal)).unwrap();
        fault.begun(|| false).unwrap();
        assert!(file.exists());
        drop(fault);
        assert!(!file.exists());
        UserCommand::start(&begin, None).unwrap().begun(|| false).unwrap();
        assert!(file.exists(), "no command heals it");
    }

    #[test]
    fn a_command_that_fails_tells_its_exit_code_and_the_end_of_its_output() {
        let begin = "yes filler | head -n 20000; echo 'no such host' >&2; exit 7";
        let error = UserCommand::start(begin, None).unwrap().begun(|| false).unwrap_err();
        assert_eq!((error.kind, error.what.as_str()), (StoreErrorKind::Broken, "the command that begins it failed"));
        let detail = error.detail.unwrap();
        assert!(detail.starts_with("exit status: 7: ") && detail.ends_with("; no such host"), "{detail}");
        assert!(detail.len() < 2 * OUTPUT_BYTES_MAX, "{}", detail.len());
        let fault = UserCommand::start("true", Some("exit 3")).unwrap();
        fault.begun(|| false).unwrap();
        let error = fault.heal().unwrap_err();
        assert_eq!(
            (error.what.as_str(), error.detail.as_deref()),
            ("the command that heals it failed", Some("exit status: 3"))
        );
        let next = "run it in a shell: it has to end with exit code 0 within 60 s; heal the fault by hand: exit 3";
        assert_eq!(error.next.as_deref(), Some(next));
    }

    #[test]
    fn a_fault_that_cannot_be_healed_any_more_comes_with_the_command_to_do_it_by_hand() {
        let next = |error: &StoreError| error.next.clone().unwrap_or_default();
        let fault = UserCommand::start("kill -9 $PPID; exit 0", Some("echo healed")).unwrap();
        let (begun, healed) = (fault.begun(|| false).unwrap_err(), fault.heal().unwrap_err());
        assert_eq!([&begun, &healed].map(next), ["heal the fault by hand: echo healed"; 2]);
        assert_eq!(
            [begun.what, healed.what],
            ["begins", "heals"].map(|does| format!("the command that {does} it failed"))
        );
        assert_eq!([begun.detail, healed.detail], [Some(LOST.to_owned()), Some(LOST.to_owned())]);
        let begun = UserCommand::start("kill -9 $PPID", None).unwrap().begun(|| false).unwrap_err();
        assert!(next(&begun).starts_with("run it in a shell"), "nothing heals it");
    }

    #[test]
    fn a_process_that_runs_commands_is_known_with_its_owner() {
        let fault = UserCommand::start("true", Some("true")).unwrap();
        fault.begun(|| false).unwrap();
        let (pid, own) = (Pid::from_child(&fault.child), rustix::process::getpid().as_raw_pid());
        let mut all = fs::read_dir("/proc").unwrap().filter_map(|process| runner(&process.unwrap()));
        let (_, owner) = all.find(|(found, _)| *found == pid).unwrap();
        assert_eq!((owner, state_and_parent(pid).unwrap().1), (own, own));
    }

    #[test]
    fn a_shell_that_cannot_be_executed_is_named_with_advice() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("sh").display().to_string();
        let why = carried_out(&missing, "true", || false).unwrap_err();
        assert_eq!(why, format!("cannot execute {missing}: No such file or directory (os error 2)"));
        assert_eq!(advice(&why), "commands of faults run in /bin/sh: install it, and let this user execute it");
        std::fs::write(&missing, "").unwrap();
        let why = carried_out(&missing, "true", || false).unwrap_err();
        assert_eq!(why, format!("cannot execute {missing}: Permission denied (os error 13)"));
        assert!(advice(&why).contains("let this user execute it"));
        assert!(advice("exit status: 127: sh: cannot execute x").starts_with("run it in a shell"));
        assert_eq!(carried_out(SHELL, "true", || false), Ok(()));
    }

    #[test]
    fn a_stop_kills_the_command_and_the_other_still_heals() {
        let directory = tempfile::tempdir().unwrap();
        let (begin, heal, file) = commands(directory.path());
        let fault = UserCommand::start(&format!("{begin}; sleep 600"), Some(&heal)).unwrap();
        let error = fault.begun(|| file.exists()).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Interrupted);
        fault.heal().unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_stop_that_comes_after_the_end_of_the_command_heals_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (begin, heal, file) = commands(directory.path());
        let fault = UserCommand::start(&begin, Some(&heal)).unwrap();
        assert!(readable(&fault.control, COMMAND_BOUND).unwrap(), "no answer");
        send(&fault.control, STOP, SendFlags::NOSIGNAL).unwrap();
        fault.begun(|| false).unwrap();
        assert!(!readable(&fault.control, Duration::from_millis(300)).unwrap() && file.exists(), "it is healed");
        fault.heal().unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_program_that_a_command_leaves_running_delays_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let pid = directory.path().join("pid").display().to_string();
        let since = Instant::now();
        let fault = UserCommand::start(&format!("sleep 200 & echo $! > {pid}"), Some(&format!("kill $(cat {pid})")));
        let fault = fault.unwrap();
        fault.begun(|| false).unwrap();
        assert!(since.elapsed() < Duration::from_secs(100), "{:?}", since.elapsed());
        fault.heal().unwrap();
    }

    #[test]
    fn commands_have_the_environment_and_the_directory_of_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        let begin = format!("echo \"$PATH\" > {out}; pwd -P >> {out}; env >> {out}", out = out.display());
        UserCommand::start(&begin, None).unwrap().begun(|| false).unwrap();
        let text = std::fs::read_to_string(&out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], std::env::var("PATH").unwrap());
        assert_eq!(Path::new(lines[1]), std::env::current_dir().unwrap());
        assert!(!text.contains(OWNER), "{text}");
    }
}
