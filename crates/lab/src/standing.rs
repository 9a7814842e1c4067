//! Labs: clusters that run until a command ends them.
//!
//! A separate process ([`hold`]) owns the cluster and answers requests on a socket ([`Lab`]). A lab is found by its
//! name:
//!
//! ```text
//! DIRECTORY/NAME/          its user's, 0700
//!     lock                 locked by the process that holds it, while that lives
//!     socket               where that answers
//!     log                  what was done to it
//! ```
//!
//! Each connection carries one request, a line of JSON, and one reply, another line. A client ends what it sends after
//! its request; after one for planned work only when the work has ended or is to stop.

mod hold;
mod lease;
mod log;
mod long;
mod publish;
mod request;
mod servers;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    FailoverTime, LimitChange, Node, Nodes, Servers, Setting, Span, StoreError, StoreErrorKind, Waits, waits,
};
use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;

use crate::PrivilegedFault;
use crate::hosts::NamespaceGuard;
use crate::supervisor::{Supervisor, readable};
pub use hold::{LabDescription, Restart, hold};
use log::LOG;
pub use log::{LabAct, LabLog};
pub use publish::{PublishedNode, publish};
pub use request::{HostStatus, LabStatus, NodeState, NodeStatus, OperationStatus};
use request::{LabAction, LabReply, LabRequest, Sent};

/// Word for a clock without an error, in commands and reports.
pub const TRUE_CLOCK: &str = "true";
/// Files in a lab's directory.
pub(crate) const LOCK: &str = "lock";
const SOCKET: &str = "socket";
/// Most characters of a lab's name.
const NAME_LETTERS_MAX: usize = 32;
/// Number of attempts to take a name, and the time between two of them.
const TRIES_MAX: u32 = 10;
const TRY_INTERVAL: Duration = Duration::from_millis(5);
/// Time-out of requests that need no waiting.
const ANSWER_BOUND: Duration = Duration::from_secs(15);
/// Time-out of the reply after planned work was stopped: its program is killed, or its statement cancelled.
const STOP_BOUND: Duration = Duration::from_secs(30);
/// Time-out of all other requests: a node that joins copies all data.
const WORK_BOUND: Duration = Duration::from_secs(900);

/// Client of a lab.
pub struct Lab {
    name: String,
    directory: PathBuf,
    nodes: Vec<Arc<Node>>,
    namespace: Option<PathBuf>,
    has_primary: bool,
    failover_time: Option<FailoverTime>,
    /// Limits of planned work, and its stop by the user.
    waits: Waits,
}

/// Directory, lock and socket of a lab that is being made.
pub struct LabDirectory {
    name: String,
    directory: PathBuf,
    listener: UnixListener,
    _lock: File,
}

impl LabDirectory {
    /// Takes a name in `labs`, which is created if needed. `supervisor` removes the files, however this process ends.
    ///
    /// # Errors
    /// `Usage` if the name is not valid or taken; otherwise an error of the operating system.
    pub fn take(labs: &Path, name: &str, supervisor: &Supervisor) -> Result<Self, StoreError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if !name.starts_with(|first: char| first.is_ascii_alphanumeric())
            || !name.chars().all(is_plain)
            || name.len() > NAME_LETTERS_MAX
        {
            let what = format!("`{}` is not a valid name of a lab", plimsoll_core::shown::clean(name));
            return Err(StoreError::usage(what).next(format!(
                "give --name a letter or digit, then letters, digits, `-`, `_` and `.`, {NAME_LETTERS_MAX} at most"
            )));
        }
        let directory = labs.join(name);
        let at = |error: std::io::Error| StoreError::io(directory.display(), &error);
        supervisor.remove_at_end(&directory)?;
        let mut tries = 0;
        let lock = loop {
            tries += 1;
            DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(at)?;
            let mut options = OpenOptions::new();
            let lock = options.write(true).create(true).truncate(false).mode(0o600).open(directory.join(LOCK));
            // A process that lists labs holds the lock briefly, and may remove a file that no process has locked yet.
            let is_there = |lock: &File| {
                let named = directory.join(LOCK).metadata();
                lock.metadata().is_ok_and(|own| named.is_ok_and(|named| named.ino() == own.ino()))
            };
            match lock {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && tries < TRIES_MAX => {}
                Err(error) => return Err(at(error)),
                Ok(lock) if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() => {
                    if tries == TRIES_MAX {
                        let what = format!("there is a lab `{name}` already");
                        return Err(StoreError::usage(what)
                            .next(format!("choose --name ANOTHER, or end that lab: plimsoll lab down {name}")));
                    }
                }
                Ok(lock) if is_there(&lock) => break lock,
                Ok(_) => {}
            }
            std::thread::sleep(TRY_INTERVAL);
        };
        let _ = fs::remove_file(directory.join(SOCKET));
        let listener = by_short_path(&directory, |path| UnixListener::bind(path)).map_err(at)?;
        Ok(Self { name: name.to_owned(), directory, listener, _lock: lock })
    }

    /// Returns the lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the lab's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for LabDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the directory of all labs of a user whose runs are kept in `runs_dir`.
pub fn beside(runs_dir: &Path) -> PathBuf {
    runs_dir.with_file_name("labs")
}

/// Moves the calling thread into a host's network namespace, as [`HostStatus`] and [`NodeStatus`] name it. Threads and
/// processes started from it inherit the namespace. Dropping the guard moves the thread back.
///
/// # Errors
/// Errors of the kernel.
pub fn enter(namespace: &Path) -> Result<NamespaceGuard, StoreError> {
    crate::hosts::enter_at(namespace).map_err(|error| StoreError::io(namespace.display(), &error))
}

/// Returns the names of running labs, and removes files of labs whose process was killed.
///
/// # Errors
/// Fails if `labs` cannot be listed. A directory that does not exist contains no labs.
pub fn names(labs: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(labs) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| StoreError::io(labs.display(), &error))?,
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let Ok(lock) = File::open(entry.path().join(LOCK)) else {
            let _ = fs::remove_dir(entry.path());
            continue;
        };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            names.extend(entry.file_name().into_string());
            continue;
        }
        for file in [SOCKET, LOG, LOCK] {
            let _ = fs::remove_file(entry.path().join(file));
        }
        let _ = fs::remove_dir(entry.path());
    }
    names.sort();
    Ok(names)
}

/// Returns true if a living process holds the lab in `directory`.
fn is_held(directory: &Path) -> bool {
    File::open(directory.join(LOCK))
        .is_ok_and(|lock| rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}

/// Calls `act` with a short path of the socket in `directory`, however long the directory's own path is.
fn by_short_path<T>(directory: &Path, act: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let held = File::open(directory)?;
    act(Path::new(&format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd())))
}

impl Lab {
    /// Returns the lab with this name.
    ///
    /// # Errors
    /// `Usage` if there is none, with the names of the running labs; `Broken` if it does not answer.
    pub fn open(labs: &Path, name: &str) -> Result<Self, StoreError> {
        let all = names(labs)?;
        if !all.iter().any(|known| known == name) {
            let next = match &all[..] {
                [] => "make one: plimsoll lab up STORE --keep".to_owned(),
                all => format!("running labs: {}", all.join(", ")),
            };
            let what = format!("there is no lab `{}`", plimsoll_core::shown::clean(name));
            return Err(StoreError::usage(what).next(next));
        }
        let directory = labs.join(name);
        let name = name.to_owned();
        let (nodes, namespace, waits) = (Vec::new(), None, Waits::default());
        let mut lab = Self { name, directory, nodes, namespace, has_primary: false, failover_time: None, waits };
        lab.look()?;
        Ok(lab)
    }

    /// Sets the limits of planned work, and its stop by the user.
    #[must_use]
    pub fn with_waits(self, waits: Waits) -> Self {
        Self { waits, ..self }
    }

    /// Returns the lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the lab again for its nodes.
    fn look(&mut self) -> Result<(), StoreError> {
        let nodes: Vec<Node>;
        (nodes, self.namespace, self.has_primary, self.failover_time) = self.ask(&LabRequest::Nodes, ANSWER_BOUND)?;
        self.nodes = nodes.into_iter().map(Arc::new).collect();
        Ok(())
    }

    /// Returns the lab's status.
    ///
    /// # Errors
    /// `Broken` if it does not answer.
    pub fn status(&self) -> Result<LabStatus, StoreError> {
        self.ask(&LabRequest::Status, ANSWER_BOUND)
    }

    /// Fails if the process that holds the lab may not carry out a fault on its servers.
    ///
    /// # Errors
    /// As [`PrivilegedFault::must_be_permitted`] in that process; `Broken` if it does not answer.
    pub fn must_permit(&self, fault: PrivilegedFault) -> Result<(), StoreError> {
        self.ask(&LabRequest::Permits(fault), WORK_BOUND)
    }

    /// Opens the log of what others do to the lab from now on.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn log(&self) -> Result<LabLog, StoreError> {
        LabLog::open(&self.directory, std::process::id())
            .map_err(|error| StoreError::io(self.directory.join(LOG).display(), &error))
    }

    /// Moves the calling thread into the network namespace of the load host, as
    /// [`ClusterHandle::enter`](crate::ClusterHandle::enter) does. Returns `None` if the lab is on this machine's own
    /// network.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn enter(&self) -> Result<Option<NamespaceGuard>, StoreError> {
        self.namespace.as_deref().map(enter).transpose()
    }

    /// Changes a limit of a node, or of each, as [`Servers::change_limit`] does. Reports of runs quote the change as
    /// `given`.
    ///
    /// # Errors
    /// As [`Servers::change_limit`].
    pub fn change_limit_as(
        &self,
        nodes: Nodes,
        change: &LimitChange,
        given: &str,
    ) -> Result<Vec<(usize, LimitChange)>, StoreError> {
        let request = LabRequest::Limit { nodes, change: change.clone(), given: given.to_owned() };
        self.ask(&request, WORK_BOUND)
    }

    /// Ends the lab and removes all its files; returns when that is done.
    ///
    /// # Errors
    /// Errors of removing.
    pub fn down(self) -> Result<(), StoreError> {
        self.ask::<()>(&LabRequest::Down, WORK_BOUND)?;
        let until = Instant::now() + ANSWER_BOUND;
        while is_held(&self.directory) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Adds a node that stays, unlike those of [`Servers::add`], which this process removes.
    ///
    /// # Errors
    /// `Usage` if the store takes no further nodes, or a node does not run; otherwise as it failed to join.
    pub fn add_to_stay(&self) -> Result<usize, StoreError> {
        self.ask(&LabRequest::Add { needed_by: None }, WORK_BOUND)
    }

    /// Returns the limits as settings: of each node if they differ.
    fn limits(&self) -> Vec<Setting> {
        let first = &self.first().limits;
        if self.nodes.iter().all(|node| node.limits == *first) {
            return first.settings();
        }
        let each = self.nodes.iter().flat_map(|node| {
            let of_node = move |setting: Setting| Setting {
                name: format!("{} of node {}", setting.name, node.number + 1),
                ..setting
            };
            node.limits.settings().into_iter().map(of_node)
        });
        each.collect()
    }

    fn act(&self, act: LabAction, nodes: Nodes) -> Result<Span, StoreError> {
        let from = Instant::now();
        self.ask::<()>(&LabRequest::Act { act, nodes }, WORK_BOUND)?;
        Ok(Span { from, until: Instant::now() })
    }

    fn ask<T: DeserializeOwned>(&self, request: &LabRequest, bound: Duration) -> Result<T, StoreError> {
        let lost = |error: std::io::Error| {
            if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::NotFound) {
                let what = format!("lab `{}` was ended meanwhile", self.name);
                return StoreError::broken(what).next("plimsoll lab status lists the running labs");
            }
            let what = format!("lab `{}` does not answer", self.name);
            StoreError::new(StoreErrorKind::Broken, what).detail(error.to_string()).next("plimsoll lab status")
        };
        let ask = || {
            let mut socket = by_short_path(&self.directory, |path| UnixStream::connect(path))?;
            socket.set_read_timeout(Some(bound))?;
            let mut line = serde_json::to_vec(&Sent { process: std::process::id(), request })?;
            line.push(b'\n');
            socket.write_all(&line)?;
            if matches!(request, LabRequest::Work { .. }) {
                // The lab limits the work, and stops it at the end of what it is sent.
                while !self.waits.is_stopped() && !readable(&socket, waits::TICK)? {}
            }
            socket.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            if BufReader::new(socket).read_line(&mut answer)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(serde_json::from_str(&answer)?)
        };
        let answer: LabReply = ask().map_err(lost)?;
        serde_json::from_value(answer?).map_err(|_| {
            let what = format!("lab `{}` sent a malformed reply, and may have done what was asked", self.name);
            StoreError::broken(what)
                .next("a lab and its commands are of one release: end it with `plimsoll lab down`, and make it anew")
        })
    }
}
