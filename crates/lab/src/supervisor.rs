//! The process that guards private servers: this program, executed again.
//!
//! It starts and reaps their programs, and removes them with their directories when it is told to, or when its owner
//! ends, however that came: the end of the socket between them is all that it needs to see. It reads one packet after
//! the other, words with a zero byte between them, and answers each with a number, an error's below zero:
//!
//! | request | what it does | answer |
//! |---|---|---|
//! | `guard ROOT` | removes the place at ROOT at the end, if its owner has made it by then | 0 |
//! | `start ROOT LEAVE UID GID NETWORK PROGRAM ARG…` | runs a program there; LEAVE is the signal on which it ends soonest, NETWORK a file of the network namespace that it is in | its process id |
//! | `end ROOT` | kills it, unless it has ended, and what it left running | its exit status, as a shell tells it |
//! | `remove ROOT` | ends what runs there and removes the place | 0 |
//! | `also DIRECTORY` | removes that directory and the files directly in it at the end, unless another process has its file `lock` locked | 0 |
//!
//! At the end it removes everything in this order: programs, all together; then places, the last one first.

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

/// How long it may take to end and remove everything.
pub(crate) const CLOSE_BOUND: Duration = Duration::from_secs(30);
/// How long it may take for what it does at once.
pub(crate) const ANSWER_BOUND: Duration = Duration::from_secs(10);
/// Longest request: less than what the kernel takes by default at once.
const REQUEST_BYTES_MAX: usize = 128 << 10;
/// Between two looks whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// A supervisor of private servers: of one, or of all nodes of a cluster. It ends with the last copy of this value.
#[derive(Debug, Clone)]
pub struct Supervisor(Arc<Process>);

#[derive(Debug)]
struct Process {
    child: Child,
    /// Held for a request with its answer.
    control: Mutex<OwnedFd>,
}

impl Supervisor {
    /// Starts one, which guards nothing yet.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn start() -> Result<Self, StoreError> {
        Self::execute().map_err(|error| StoreError::io("/proc/self/exe", &error))
    }

    fn execute() -> io::Result<Self> {
        // Without a mention the linker might leave it out.
        std::hint::black_box(&process::BEFORE_MAIN);
        let (control, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let owner = std::process::id().to_string();
        let child = Command::new("/proc/self/exe")
            .arg0("plimsoll-supervisor")
            .arg(format!("--of={owner}"))
            .env_clear()
            .env(process::OWNER, &owner)
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // So that Ctrl-C in a terminal does not reach it.
            .process_group(0)
            .spawn()?;
        Ok(Self(Arc::new(Process { child, control: Mutex::new(control) })))
    }

    /// Has it remove the directory of a lab at the end, unless it is another process's by then.
    ///
    /// # Errors
    /// When it does not do its part.
    pub(crate) fn remove_at_end(&self, directory: &Path) -> Result<(), StoreError> {
        self.ask(directory, &["also".as_ref(), directory.as_os_str()], ANSWER_BOUND).map(drop)
    }

    /// Its answer to a request of these words; an error of its is one of `about`.
    pub(crate) fn ask(&self, about: &Path, words: &[&OsStr], bound: Duration) -> Result<i32, StoreError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        if let Some(word) = words.iter().find(|word| word.contains(&0)) {
            let what = format!("a server's argument has a zero byte: {}", String::from_utf8_lossy(word).escape_debug());
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        let request = words.join(&0);
        if request.len() > REQUEST_BYTES_MAX {
            let what = format!("a server's command line has {} bytes, and may have {REQUEST_BYTES_MAX}", request.len());
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        let control = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        match exchange(&control, &request, bound) {
            Ok(number @ 0..) => Ok(number),
            Ok(number) => Err(StoreError::io(about.display(), &io::Error::from_raw_os_error(-number))),
            Err(_) => {
                // A late answer would be taken for that to the next request, and who is stopped ends nothing. Servers end with it.
                let _ = rustix::net::shutdown(&*control, Shutdown::Both);
                let _ = kill_process(Pid::from_child(&self.0.child), Signal::KILL);
                let what = "the supervisor of the private server was killed or does not answer";
                Err(StoreError::new(StoreErrorKind::Broken, what)
                    .next("run again; what it left is removed at the next start"))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::net::shutdown(control, Shutdown::Both);
        let until = Instant::now() + CLOSE_BOUND;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// Sends a request and waits for its answer.
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

/// Waits until `file` can be read, or `bound` is over.
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
