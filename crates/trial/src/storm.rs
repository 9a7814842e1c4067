//! Connection storm: many connections to servers at once, on which nothing is sent.
//!
//! A single thread opens and holds them all. A connection that the server refuses or closes is opened again after a while.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_analysis::number::{self, count};
use plimsoll_core::{Node, StoreErrorKind};
use plimsoll_lab::hosts::ThreadNetwork;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};

use crate::error::{TrialError, io_error};

/// Time after which a connection is opened again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Longest time until the storm counts as begun, if servers do not answer all connections.
const BEGIN_BOUND: Duration = Duration::from_secs(2);
/// Longest time until the thread sees that it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Connections that are opened between two looks at the answers.
const AT_ONCE: usize = 64;
/// Events that are read at once.
const EVENTS: usize = 256;
/// Events of a connection that its server has closed.
const CLOSED: epoll::EventFlags = epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);
/// Servers that a message names.
const NAMED_MAX: usize = 3;

/// A storm in progress. It ends when this is dropped.
pub(crate) struct Storm {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<StormCounts>>,
    /// Servers, as a message names them.
    name: String,
    connections: usize,
}

/// Counts of a storm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StormCounts {
    /// Connections that are open.
    pub(crate) open: u64,
    /// Most connections that were open at once.
    pub(crate) open_max: u64,
    /// Attempts that servers refused, or that failed in the kernel.
    pub(crate) refused: u64,
    /// Open connections that servers closed.
    pub(crate) closed: u64,
}

/// Address at which a server takes connections.
pub(crate) struct StormTarget {
    /// Name in messages.
    pub(crate) name: String,
    address: SocketAddrAny,
}

/// Connection of a storm: at times without a socket.
#[derive(Default)]
struct Connection {
    socket: Option<OwnedFd>,
    is_open: bool,
    /// True after the first answer of the server.
    is_answered: bool,
}

/// Work of the thread.
struct Connections<'a> {
    targets: &'a [StormTarget],
    epoll: OwnedFd,
    all: Vec<Connection>,
    /// Connections that are to be opened again, by time.
    again: VecDeque<(Instant, usize)>,
    counts: StormCounts,
    /// Number of connections without a first answer.
    unanswered: usize,
    last_error: Option<Errno>,
}

impl Storm {
    /// Opens `connections` to each of `targets` from `network`. Returns when servers have answered all of them, and
    /// after 2 s at most.
    ///
    /// # Errors
    /// `Unreachable` if none could be opened; errors of the operating system.
    pub(crate) fn begin(
        targets: Vec<StormTarget>,
        connections: u32,
        network: Option<Arc<ThreadNetwork>>,
    ) -> Result<Self, TrialError> {
        let mut names: Vec<String> = targets.iter().take(NAMED_MAX).map(|target| target.name.clone()).collect();
        let more = targets.len().saturating_sub(NAMED_MAX) as u64;
        names.extend((more > 0).then(|| number::plural(more, "other", "others")));
        let (name, connections) = (names.join(", "), targets.len() * connections as usize);
        let (over, (begun, has_begun)) = (Arc::new(AtomicBool::new(false)), channel());
        let is_over = Arc::clone(&over);
        let run = move || {
            let entered = network.as_ref().map(|network| network.enter()).transpose();
            let opened = entered.and_then(|guard| Ok((guard, Connections::new(&targets, connections)?)));
            match opened {
                Ok((_guard, storm)) => storm.run(&is_over, &begun),
                Err(error) => {
                    let _ = begun.send(Err(io_error("a connection storm", &error)));
                    StormCounts::default()
                }
            }
        };
        let thread = std::thread::Builder::new().name("storm".to_owned());
        let thread = thread.spawn(run).map_err(|error| io_error("the thread of a connection storm", &error))?;
        let storm = Self { over, thread: Some(thread), name, connections };
        let none = |why: Option<Errno>| {
            let what = format!("no connection to {} could be opened", storm.name);
            let failed = TrialError::new(StoreErrorKind::Unreachable, what);
            let failed = failed.next("choose a time at which the servers run and take connections");
            match why {
                Some(errno) => failed.detail(std::io::Error::from(errno).to_string()),
                None => failed.detail("the server did not answer within 2 s"),
            }
        };
        match has_begun.recv() {
            Ok(Ok((0, why))) => Err(none(why)),
            Ok(Ok(_)) => Ok(storm),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(TrialError::broken("the thread of a connection storm has failed")),
        }
    }

    /// Closes all connections, and describes the storm in a sentence. Returns false besides if some were never open.
    pub(crate) fn end(mut self) -> (String, bool) {
        let counts = self.stop();
        let (open, all) = (counts.open_max, self.connections as u64);
        let sentence = format!(
            "connection storm on {}: at most {} of {} connections were open at once; {} failed, and servers closed {}",
            self.name,
            count(open),
            count(all),
            number::plural(counts.refused, "attempt", "attempts"),
            number::plural(counts.closed, "connection", "connections")
        );
        (sentence, open >= all)
    }

    fn stop(&mut self) -> StormCounts {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.stop();
    }
}

impl StormTarget {
    /// Returns the first port of a node, or its Unix socket if it has no port.
    ///
    /// # Errors
    /// `Usage` if it has neither; those of [`StormTarget::at_socket`].
    pub(crate) fn of(node: &Node) -> Result<Self, TrialError> {
        if !node.ports.is_empty() {
            return Ok(Self::at_port(node.listens_at(0).into()));
        }
        let path = socket_in(node).ok_or_else(|| {
            let what = format!("node {} has neither a port nor a Unix socket", node.number + 1);
            TrialError::usage(what).next("choose a time at which the server runs, or leave the storm out")
        })?;
        Self::at_socket(&path)
    }

    /// Returns the server at an address and port.
    pub(crate) fn at_port(address: SocketAddr) -> Self {
        Self { name: address.to_string(), address: address.into() }
    }

    /// Returns the server at a Unix socket.
    ///
    /// # Errors
    /// A path that no socket can have.
    pub(crate) fn at_socket(path: &Path) -> Result<Self, TrialError> {
        let name = path.display().to_string();
        let address = SocketAddrUnix::new(path).map_err(|errno| io_error(&name, &errno.into()))?;
        Ok(Self { name, address: address.into() })
    }

    /// Begins a connection. Returns its socket, and true if it is open.
    fn connect(&self) -> Result<(OwnedFd, bool), Errno> {
        let (family, flags) = (self.address.address_family(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        if family != AddressFamily::UNIX {
            // Closed by a reset, because ports that wait for a minute would be missing for sessions.
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        match connect(&socket, &self.address) {
            Ok(()) => Ok((socket, true)),
            Err(Errno::INPROGRESS) => Ok((socket, false)),
            Err(errno) => Err(errno),
        }
    }
}

/// Returns the Unix socket of a node without a port.
fn socket_in(node: &Node) -> Option<PathBuf> {
    use std::os::unix::fs::FileTypeExt as _;
    let entries = std::fs::read_dir(&node.socket_dir).into_iter().flatten().flatten();
    let is_socket = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    entries.filter(is_socket).map(|entry| entry.path()).min()
}

/// Answer to the thread that begins a storm: the number of open connections and the last error of others.
type Begun = Result<(u64, Option<Errno>), TrialError>;

impl<'a> Connections<'a> {
    fn new(targets: &'a [StormTarget], connections: usize) -> std::io::Result<Self> {
        Ok(Self {
            targets,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            all: (0..connections).map(|_| Connection::default()).collect(),
            again: VecDeque::new(),
            counts: StormCounts::default(),
            unanswered: connections,
            last_error: None,
        })
    }

    /// Opens all connections, and opens lost ones again until `over` is set. Sends one answer to `begun`.
    fn run(mut self, over: &AtomicBool, begun: &Sender<Begun>) -> StormCounts {
        let (until, mut has_begun) = (Instant::now() + BEGIN_BOUND, false);
        // The first attempts are as due as later ones.
        self.again = (0..self.all.len()).map(|at| (Instant::now(), at)).collect();
        while !over.load(Ordering::Relaxed) {
            let now = Instant::now();
            for _ in 0..AT_ONCE {
                let Some((_, at)) = self.again.front().copied().filter(|(due, _)| *due <= now) else { break };
                self.again.pop_front();
                self.open(at);
            }
            let due_in = self.again.front().map(|(due, _)| due.saturating_duration_since(now));
            self.take_answers(due_in.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL));
            if !has_begun && (self.unanswered == 0 || Instant::now() >= until) {
                has_begun = true;
                let _ = begun.send(Ok((self.counts.open_max, self.last_error)));
            }
        }
        self.counts
    }

    /// Begins a connection.
    fn open(&mut self, at: usize) {
        let begun = self.targets[at % self.targets.len()].connect().and_then(|(socket, is_open)| {
            let flags = if is_open { CLOSED } else { CLOSED | epoll::EventFlags::OUT };
            epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(at as u64), flags)?;
            Ok((socket, is_open))
        });
        match begun {
            Ok((socket, is_open)) => {
                self.all[at].socket = Some(socket);
                if is_open {
                    self.note_open(at);
                }
            }
            Err(errno) => self.note_refusal(at, errno),
        }
    }

    /// Reads events of the sockets, and waits for the first of them.
    fn take_answers(&mut self, longest: Duration) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        let mut events = Vec::with_capacity(EVENTS);
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)).is_err() {
            return;
        }
        for event in events {
            let (at, flags) = (event.data.u64() as usize, event.flags);
            let Some(socket) = &self.all[at].socket else { continue };
            if self.all[at].is_open {
                if flags.intersects(CLOSED) {
                    self.note_close(at);
                }
                continue;
            }
            let connected = sockopt::socket_error(socket)
                .and_then(|answer| answer)
                .and_then(|()| epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(at as u64), CLOSED));
            match connected {
                Ok(()) => self.note_open(at),
                Err(errno) => self.note_refusal(at, errno),
            }
        }
    }

    fn note_open(&mut self, at: usize) {
        self.all[at].is_open = true;
        self.counts.open += 1;
        self.counts.open_max = self.counts.open_max.max(self.counts.open);
        self.note_answer(at);
    }

    fn note_close(&mut self, at: usize) {
        self.counts.open -= 1;
        self.counts.closed += 1;
        self.drop_socket(at);
    }

    fn note_refusal(&mut self, at: usize, errno: Errno) {
        self.last_error = Some(errno);
        self.counts.refused += 1;
        self.note_answer(at);
        self.drop_socket(at);
    }

    fn note_answer(&mut self, at: usize) {
        self.unanswered -= usize::from(!self.all[at].is_answered);
        self.all[at].is_answered = true;
    }

    /// Closes the socket, and opens another one later.
    fn drop_socket(&mut self, at: usize) {
        self.all[at].socket = None;
        self.all[at].is_open = false;
        self.again.push_back((Instant::now() + AGAIN_AFTER, at));
    }
}

#[cfg(test)]
#[path = "storm_tests.rs"]
mod tests;
