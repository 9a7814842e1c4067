//! Code that runs in the supervisor's process, which has one thread.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::{REQUEST_BYTES_MAX, readable};
use crate::directories::MARK_FILE;
use crate::hosts;
use crate::limits::{self, CgroupGuard};
use crate::neighbour;
use crate::orphans;
use crate::packages::SYSTEM_PATH;
use crate::standing::LOCK;
use crate::user_command;

/// Environment variable that makes this program a supervisor, a neighbour or a runner of commands: the id of the process
/// that owns it.
pub(crate) const OWNER: &str = "PLIMSOLL_SUPERVISOR_OF";
/// Longest time for programs to end on a signal, before they are killed.
const LEAVE_BOUND: Duration = Duration::from_secs(2);
/// Longest time for killed processes to end. Only processes that SIGKILL does not end take longer.
const KILL_BOUND: Duration = Duration::from_secs(10);
/// Shortest and longest time between two checks whether processes have ended. A check reads all of `/proc`, and a kill
/// is recorded at the check that finds no process.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(50);
/// Share of the time waited so far that passes until the next check.
const LOOK_SHARE: u32 = 8;
/// Time without a request after which ended processes are reaped that no request will name.
const REAP_INTERVAL: Duration = Duration::from_secs(10);
/// Largest number of a signal.
const SIGNAL_MAX: i32 = 64;

/// Runs before `main` of every program that contains this crate: the program of a test has no `main` that could check
/// whether it was executed as one of these.
// SAFETY: this section holds functions. The function continues only in a process that was executed for it, and needs
// nothing that is set up for `main`: files, processes, clocks and threads of std work without; there is no other thread.
#[used]
#[unsafe(link_section = ".init_array")]
pub(super) static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // If the variable is set without the rest, the program starts normally.
    if let Some(owner) = std::env::var_os(OWNER).filter(|owner| is_asked_by(owner)) {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        match &arguments[..] {
            [_, task] if task == user_command::TASK => user_command::run(),
            [_, task, about @ ..] => neighbour::run(task, about),
            _ => run(owner),
        }
        std::process::exit(0);
    }
}

/// Returns true if `owner` is this process's parent, and standard input is a socket from it.
fn is_asked_by(owner: &OsStr) -> bool {
    let parent = number(owner.as_bytes()).and_then(Pid::from_raw);
    let socket = rustix::net::sockopt::socket_type(io::stdin());
    parent.is_some() && parent == rustix::process::getppid() && socket == Ok(SocketType::SEQPACKET)
}

/// Makes this process ignore the signals that end programs.
pub(crate) fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // If SIGCHLD is ignored, programs are reaped as they end, and their numbers may belong to other processes by the
    // next signal.
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Answers requests on standard input until it ends; then removes everything.
fn run(owner: OsString) {
    ignore_signals();
    // Orphaned descendants become children of this process, so they are found however they forked.
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        return;
    }
    let _ = rustix::thread::set_name(c"plimsoll-superv");
    let mut guard = Guard { owner, servers: Vec::new(), seen: BTreeSet::new(), also: Vec::new() };
    let control = io::stdin();
    let mut request = vec![0; REQUEST_BYTES_MAX];
    loop {
        match readable(&control, REAP_INTERVAL) {
            Ok(true) => {}
            Ok(false) => {
                guard.below(None, &processes());
                continue;
            }
            Err(_) => break,
        }
        let Ok((_, length @ 1..)) = rustix::net::recv(&control, &mut request[..], RecvFlags::empty()) else { break };
        let words: Vec<&[u8]> = request[..length].split(|byte| *byte == 0).collect();
        let answer = guard.answer(&words).unwrap_or_else(|error| -error.raw_os_error().unwrap_or(libc::EIO));
        // If the peer has gone, the next receive fails and ends the loop.
        let _ = rustix::net::send(&control, &answer.to_ne_bytes(), SendFlags::NOSIGNAL);
    }
    // No process is left to report to; the next sweep finds what is left.
    let _ = guard.remove(None);
    for directory in guard.also {
        let lock = File::open(directory.join(LOCK));
        let is_anothers = |lock: &File| rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_err();
        if lock.as_ref().is_ok_and(is_anothers) {
            continue;
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(directory);
    }
}

struct Guard {
    owner: OsString,
    /// Servers, in the order in which they were made.
    servers: Vec<GuardedServer>,
    /// Processes of servers that were seen while these ended, and orphans that were reaped. Some end before they are
    /// killed, and may have left something nevertheless.
    seen: BTreeSet<i32>,
    /// Directories that are removed last.
    also: Vec<PathBuf>,
}

/// Directory of a private server, and the program that runs in it.
struct GuardedServer {
    root: PathBuf,
    /// Lock on its mark, so that no sweep takes it for an orphan after its owner's death.
    lock: Option<File>,
    /// Socket directory, if it is not below the root: a process that removes the root meanwhile also removes the mark.
    sockets: Option<PathBuf>,
    /// Control groups, of which the root has the only note.
    groups: Vec<PathBuf>,
    program: Option<Program>,
}

#[derive(Clone, Copy)]
struct Program {
    pid: Pid,
    leave: Signal,
}

impl GuardedServer {
    fn is_program(&self, pid: Pid) -> bool {
        self.program.is_some_and(|program| program.pid == pid)
    }
}

impl Guard {
    fn answer(&mut self, words: &[&[u8]]) -> io::Result<i32> {
        match *words {
            [b"guard", root] => {
                let root = path(root).to_owned();
                let (lock, sockets, groups, program) = (None, None, Vec::new(), None);
                self.servers.push(GuardedServer { root, lock, sockets, groups, program });
                Ok(0)
            }
            [b"start", root, leave, uid, gid, network, ref command @ ..] => {
                let leave = number(leave).and_then(Signal::from_named_raw).ok_or(Errno::INVAL)?;
                let network = (network != b"-").then(|| File::open(path(network))).transpose()?;
                let _network = network.map(|network| NetworkGuard::enter(&network)).transpose()?;
                let _limits = CgroupGuard::enter(path(root))?;
                self.start(path(root), leave, number(uid).zip(number(gid)), command)
            }
            [b"end", root] => self.end(path(root)),
            [b"remove", root] => self.remove(Some(path(root))).map(|()| 0),
            [b"also", directory] => {
                self.also.push(path(directory).to_owned());
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn start(&mut self, root: &Path, leave: Signal, user: Option<(u32, u32)>, command: &[&[u8]]) -> io::Result<i32> {
        let [program, arguments @ ..] = command else { return Err(Errno::INVAL.into()) };
        let server = self.servers.iter_mut().find(|server| server.root == root && server.program.is_none());
        let server = server.ok_or(Errno::INVAL)?;
        if server.lock.is_none() {
            let mut mark = File::open(root.join(MARK_FILE))?;
            rustix::fs::flock(&mark, FlockOperation::LockShared)?;
            let mut text = Vec::new();
            mark.read_to_end(&mut text)?;
            server.sockets = orphans::sockets_in_mark(&text).flatten();
            server.groups = limits::groups_of(root);
            server.lock = Some(mark);
        }
        let log = OpenOptions::new().append(true).open(root.join("log"))?;
        let mut command = Command::new(path(program));
        command
            .args(arguments.iter().map(|argument| path(argument)))
            .env_clear()
            .env("PATH", SYSTEM_PATH)
            .env("LC_ALL", "C")
            .current_dir(root.join("data"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some((uid, gid)) = user {
            // Drops all supplementary groups, too.
            command.uid(uid).gid(gid);
        }
        ends_with_us(&mut command, leave);
        let pid = Pid::from_child(&command.spawn()?);
        server.program = Some(Program { pid, leave });
        // Only a sweep needs the note: this process knows the id.
        let _ = orphans::note_program(root, pid);
        Ok(pid.as_raw_nonzero().get())
    }

    fn end(&mut self, root: &Path) -> io::Result<i32> {
        self.kill(Some(root))?;
        let server = self.servers.iter_mut().find(|server| server.root == root);
        let program = server.and_then(|server| server.program.take()).ok_or(Errno::SRCH)?;
        let ended = rustix::process::waitid(WaitId::Pid(program.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        let ended = ended.ok_or(Errno::BUSY)?;
        let by_signal = || ended.terminating_signal().map(|signal| 128 + signal);
        ended.exit_status().or_else(by_signal).ok_or_else(|| Errno::BUSY.into())
    }

    /// Ends and removes the server at `of`, or all of them.
    fn remove(&mut self, of: Option<&Path>) -> io::Result<()> {
        let is_meant = |server: &GuardedServer| of.is_none_or(|of| server.root == of);
        for program in self.servers.iter().filter(|server| is_meant(server)).filter_map(|server| server.program) {
            let _ = rustix::process::kill_process(program.pid, program.leave);
        }
        self.wait(of, LEAVE_BOUND, |_| {});
        // If a process still writes there, the next sweep removes it.
        self.kill(of)?;
        let (meant, kept) = std::mem::take(&mut self.servers).into_iter().partition(is_meant);
        self.servers = kept;
        let meant: Vec<GuardedServer> = meant;
        let remove = |server: GuardedServer| {
            let removed = orphans::remove_made_by(&self.owner, &server.root);
            let removed = limits::remove_groups(&server.groups).and(removed);
            match server.sockets.map(fs::remove_dir_all) {
                Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => removed.and(Err(error)),
                _ => removed,
            }
        };
        meant.into_iter().rev().map(remove).fold(Ok(()), io::Result::and)
    }

    /// Kills all processes below, again and again until none is left: one that was killed may have made another before.
    /// Removes what they left outside of their directories, before a program's id can be another's.
    fn kill(&mut self, of: Option<&Path>) -> io::Result<()> {
        let kill = |pid: Pid| {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        };
        if !self.wait(of, KILL_BOUND, kill) {
            return Err(Errno::BUSY.into());
        }
        let meant = self.servers.iter().filter(|server| of.is_none_or(|of| server.root == of));
        let programs = meant.filter_map(|server| server.program);
        let mut ended = std::mem::take(&mut self.seen);
        ended.extend(programs.map(|program| program.pid.as_raw_pid()));
        orphans::clean_up(&ended);
        Ok(())
    }

    /// Calls `each` for the remaining processes and their descendants until none is left. Returns false if one is left
    /// after `bound`.
    fn wait(&mut self, of: Option<&Path>, bound: Duration, mut each: impl FnMut(Pid)) -> bool {
        let began = Instant::now();
        loop {
            let all = processes();
            let below = self.below(of, &all);
            if below.is_empty() || began.elapsed() > bound {
                return below.is_empty();
            }
            let found = with_descendants(below, &all);
            self.seen.extend(found.iter().map(|pid| pid.as_raw_pid()));
            found.into_iter().for_each(&mut each);
            std::thread::sleep((began.elapsed() / LOOK_SHARE).clamp(LOOK_INTERVAL, LOOK_INTERVAL_MAX));
        }
    }

    /// Returns the living children of this process that belong to the server at `of`, or all. Ended ones are reaped,
    /// except programs: their number must stay theirs until their owner has asked for their exit status.
    fn below(&mut self, of: Option<&Path>, all: &[Process]) -> Vec<Pid> {
        let Self { servers, seen, .. } = self;
        let mut has_ended = |pid: Pid| {
            let is_program = servers.iter().any(|server| server.is_program(pid));
            let keep = if is_program { WaitIdOptions::NOWAIT } else { WaitIdOptions::empty() };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | keep;
            let has_ended = !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None));
            if has_ended && !is_program {
                seen.insert(pid.as_raw_pid());
            }
            has_ended
        };
        // The working directory tells which server left a process. A process that works elsewhere counts for every
        // server.
        let is_anothers = |pid: Pid| {
            let is_its = |server: &GuardedServer| server.is_program(pid) || orphans::works_in(pid, &server.root);
            of.is_some_and(|of| servers.iter().any(|server| server.root != of && is_its(server)))
        };
        let own = rustix::process::getpid();
        let children = all.iter().filter(|process| process.parent == Some(own)).map(|process| process.pid);
        children.filter(|pid| !has_ended(*pid) && !is_anothers(*pid)).collect()
    }
}

/// Guard that keeps this process in another network namespace. Programs started meanwhile inherit the namespace.
struct NetworkGuard(File);

impl NetworkGuard {
    fn enter(network: &File) -> io::Result<Self> {
        let home = File::open("/proc/self/ns/net")?;
        hosts::go_into(network.as_fd())?;
        Ok(Self(home))
    }
}

impl Drop for NetworkGuard {
    fn drop(&mut self) {
        // Cannot fail for lack of privilege: the process had it when it entered.
        let _ = hosts::go_into(self.0.as_fd());
    }
}

struct Process {
    pid: Pid,
    parent: Option<Pid>,
}

/// Returns all processes that this one sees. Not every kernel lists the children of a process.
fn processes() -> Vec<Process> {
    let read = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(number(entry.file_name().as_bytes())?)?;
        let stat = fs::read(entry.path().join("stat")).ok()?;
        // The name before the last bracket may hold anything.
        let fields = &stat[stat.iter().rposition(|byte| *byte == b')')?..];
        let parent = number(fields.split(|byte| *byte == b' ').nth(2)?).and_then(Pid::from_raw);
        Some(Process { pid, parent })
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(read).collect()
}

/// Returns `pids` and the processes that descend from them in `all`, parents first.
fn with_descendants(mut pids: Vec<Pid>, all: &[Process]) -> Vec<Pid> {
    let mut next = 0;
    while let Some(&parent) = pids.get(next) {
        let is_new = |process: &&Process| process.parent == Some(parent) && !pids.contains(&process.pid);
        let children: Vec<Pid> = all.iter().filter(is_new).map(|process| process.pid).collect();
        pids.extend(children);
        next += 1;
    }
    pids
}

/// Makes `command` the leader of its own session with default signal handlers. It receives `leave` when this
/// process dies.
pub(crate) fn ends_with_us(command: &mut Command, leave: Signal) {
    let supervisor = rustix::process::getpid();
    // SAFETY: system calls only, between fork and exec of a process with one thread.
    unsafe {
        command.pre_exec(move || {
            for signal in 1..=SIGNAL_MAX {
                libc::signal(signal, libc::SIG_DFL);
            }
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(leave))?;
            // The supervisor may have died before that was set.
            if rustix::process::getppid() == Some(supervisor) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
}

fn path(word: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(word))
}

fn number<T: FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
