//! Supervisor of private servers: this program, executed again.
//!
//! The supervisor starts and reaps servers' programs. It removes them with their directories on request, or when its
//! owner ends for any reason: it notices the end of the socket between them. Each packet is a request of words with a
//! zero byte between them. The reply is a number; a negative one is an error.
//!
//! | request | effect | reply |
//! |---|---|---|
//! | `guard ROOT` | removes the directories at ROOT at the end, if its owner has made them by then | 0 |
//! | `start ROOT LEAVE UID GID NETWORK PROGRAM ARG…` | runs a program there; LEAVE is the signal on which the program
//! ends soonest, NETWORK the file of its network namespace | process id |
//! | `end ROOT` | kills the program, unless it has ended, and the processes that it left | its exit status, as a shell
//! reports it |
//! | `remove ROOT` | ends the processes there and removes the directories | 0 |
//! | `also DIRECTORY` | removes this directory and the files directly in it at the end, unless another process holds a
//! lock on its file `lock` | 0 |
//!
//! At the end the supervisor ends all programs together, and then removes directories, the last one first.

mod process;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use process::{OWNER, ends_with_us, ignore_signals};

/// Longest time for ending and removing everything.
pub(crate) const CLOSE_BOUND: Duration = Duration::from_secs(30);
/// Longest time for a request that needs no waiting.
pub(crate) const ANSWER_BOUND: Duration = Duration::from_secs(10);
/// Length of the longest request: less than the kernel accepts at once by default.
const REQUEST_BYTES_MAX: usize = 128 << 10;
/// Time between two checks whether a process has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// A supervisor of one private server, or of all nodes of a cluster. It ends with the last copy of this value.
#[derive(Debug, Clone)]
pub struct Supervisor(Arc<Process>);

#[derive(Debug)]
struct Process {
    child: Child,
    /// Locked from a request to its reply.
    control: Mutex<OwnedFd>,
}

impl Supervisor {
    /// Starts a supervisor, which guards nothing yet.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn start() -> Result<Self, StoreError> {
        Self::execute().map_err(|error| StoreError::io("/proc/self/exe", &error))
    }

    fn execute() -> io::Result<Self> {
        let (mut command, control) = again("plimsoll-supervisor")?;
        // So that Ctrl-C in a terminal does not reach the supervisor.
        let child = command.process_group(0).spawn()?;
        Ok(Self(Arc::new(Process { child, control: Mutex::new(control) })))
    }

    /// Makes the supervisor remove the lab's directory on exit, unless another process holds the lab's lock by then.
    ///
    /// # Errors
    /// Fails if the supervisor does not reply.
    pub(crate) fn remove_at_end(&self, directory: &Path) -> Result<(), StoreError> {
        self.ask(directory, &["also".as_ref(), directory.as_os_str()], ANSWER_BOUND).map(drop)
    }

    /// Sends a request of these words and returns the reply; an error is reported for `about`.
    pub(crate) fn ask(&self, about: &Path, words: &[&OsStr], bound: Duration) -> Result<i32, StoreError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        if let Some(word) = words.iter().find(|word| word.contains(&0)) {
            let what = format!("a server's argument has a zero byte: {}", String::from_utf8_lossy(word).escape_debug());
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        let request = words.join(&0);
        if request.len() > REQUEST_BYTES_MAX {
            let what = format!("a server's command line has {} bytes; the limit is {REQUEST_BYTES_MAX}", request.len());
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        let control = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        match exchange(&control, &request, bound) {
            Ok(number @ 0..) => Ok(number),
            Ok(number) => Err(StoreError::io(about.display(), &io::Error::from_raw_os_error(-number))),
            Err(_) => {
                // A late reply would be taken for that to the next request, and a stopped supervisor ends nothing. The
                // servers end with it.
                let _ = rustix::net::shutdown(&*control, Shutdown::Both);
                let _ = kill_process(Pid::from_child(&self.0.child), Signal::KILL);
                Err(lost())
            }
        }
    }

    /// Fails if the supervisor was killed: all servers have ended with it, and no request tells their endings.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let control = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        // Between requests nothing but the end of the socket makes it readable.
        if matches!(readable(&*control, Duration::ZERO), Ok(false)) { Ok(()) } else { Err(lost()) }
    }
}

/// Returns the error of a supervisor that was killed or does not reply.
fn lost() -> StoreError {
    StoreError::broken("the supervisor of the private server was killed or does not reply")
        .next("run again; the next start removes what it left")
}

impl Drop for Process {
    fn drop(&mut self) {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::net::shutdown(control, Shutdown::Both);
        ends_within(&mut self.child, CLOSE_BOUND);
    }
}

/// Waits for the end of a child process. Returns false if it goes on after `bound`.
pub(crate) fn ends_within(child: &mut Child, bound: Duration) -> bool {
    let until = Instant::now() + bound;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    true
}

/// Returns a command that executes this program again as a process called `name`, and this process's end of the socket
/// between both.
pub(crate) fn again(name: &str) -> io::Result<(Command, OwnedFd)> {
    // Without this reference the linker might leave it out.
    std::hint::black_box(&process::BEFORE_MAIN);
    let (control, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let owner = std::process::id().to_string();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(name)
        .arg(format!("--of={owner}"))
        .env_clear()
        .env(process::OWNER, &owner)
        .current_dir("/")
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok((command, control))
}

/// Sends a request and waits for the reply.
fn exchange(control: &OwnedFd, request: &[u8], bound: Duration) -> io::Result<i32> {
    rustix::net::send(control, request, SendFlags::NOSIGNAL)?;
    let mut answer = [0; 4];
    if !readable(control, bound)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    match rustix::net::recv(control, &mut answer, RecvFlags::empty())?.1 {
        4 => Ok(i32::from_ne_bytes(answer)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Waits until `file` is readable; returns false after `bound`.
pub(crate) fn readable(file: &impl AsFd, bound: Duration) -> io::Result<bool> {
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
