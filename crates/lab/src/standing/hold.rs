//! The process that holds a lab: answers what is asked, and starts again what has ended by itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_core::{Launch, Node, Nodes, ParamValue, StoreError};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::Pid;

use super::long::Long;
use super::request::{Act, Answer, HostStatus, LabStatus, NodeState, NodeStatus, Request};
use super::{ANSWER_BOUND, Entry};
use crate::cluster::{Cluster, ClusterHandle, Seen};
use crate::limits::Met;
use crate::orphans::works_in;

/// Between two looks at the nodes, and at who wants something.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// How long a node that has ended is left alone: at first, and at most.
const BACK_OFF: Duration = Duration::from_millis(250);
const BACK_OFF_MAX: Duration = Duration::from_secs(8);
/// A node that has ended more often than so, within this time, is left to somebody.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

plimsoll_core::words! {
    /// When a node is started again that has ended by itself.
    pub enum Restart {
        /// Never: it is left as it is.
        Never = "never",
        /// Where it failed: it was killed, or said so by its exit status.
        OnFailure = "on-failure",
        /// However it ended.
        Always = "always",
    }
}

/// What is said of a lab, and how it is kept.
pub struct About {
    /// The store's name, and what it was called when the lab was made.
    pub store: String,
    /// See `store`.
    pub made_as: String,
    /// The store's parameters.
    pub params: BTreeMap<String, ParamValue>,
    /// The servers' version.
    pub version: String,
    /// When a node is started again.
    pub restart: Restart,
    /// Where the server is reached, where a plan describes it.
    pub url: Option<String>,
}

/// What is known of a node beside its server.
#[derive(Clone, Default)]
struct Kept {
    /// Somebody has stopped it, or has it stand still.
    by_command: Option<NodeState>,
    /// When it was started again.
    restarts: Vec<Instant>,
    restart_count: u32,
    /// When it is next.
    next: Option<Instant>,
    /// It is being started.
    starts: bool,
    /// It ended so, and nobody starts it.
    given_up: Option<String>,
}

struct Holder {
    name: String,
    about: About,
    since_unix_ns: u64,
    cluster: ClusterHandle,
    kept: Mutex<BTreeMap<usize, Kept>>,
    long: Long,
    /// Somebody wants the end; whoever asked for it hears of it when it has come.
    is_ending: AtomicBool,
    waiting: Mutex<Vec<UnixStream>>,
}

/// Holds `cluster` as the lab of `entry` until somebody asks for its end, or `stop` is set; then ends it. `stands` is told
/// how it is when it answers.
///
/// # Errors
/// What could not be ended or removed.
pub fn hold(
    cluster: Cluster,
    entry: Entry,
    about: About,
    stop: &AtomicBool,
    stands: impl FnOnce(&LabStatus),
) -> Result<(), StoreError> {
    let holder = Arc::new(Holder {
        name: entry.name().to_owned(),
        about,
        since_unix_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
        cluster: cluster.handle(),
        kept: Mutex::default(),
        long: Long::default(),
        is_ending: AtomicBool::new(false),
        waiting: Mutex::default(),
    });
    let at = |error: std::io::Error| StoreError::io(entry.directory().display(), &error);
    entry.listener.set_nonblocking(true).map_err(at)?;
    let watching = Arc::clone(&holder);
    // Without it nothing is said of what runs long.
    let _ = std::thread::Builder::new().name("lab".to_owned()).spawn(move || watching.watch());
    stands(&holder.status()?);
    while !stop.load(Ordering::SeqCst) && !holder.is_ending.load(Ordering::SeqCst) {
        while let Ok((socket, _)) = entry.listener.accept() {
            let holder = Arc::clone(&holder);
            // One that cannot be had a thread for is closed, which its client hears.
            let _ = std::thread::Builder::new().name("lab".to_owned()).spawn(move || holder.serve(socket));
        }
        holder.look_after();
        if !holder.cluster.starting().is_empty() {
            holder.long.poke();
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    holder.long.end();
    let closed = cluster.close();
    let answer = match &closed {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed(error.clone().into()),
    };
    drop(entry);
    for mut socket in std::mem::take(&mut *holder.waiting.lock().unwrap_or_else(PoisonError::into_inner)) {
        say(&mut socket, &answer);
    }
    closed
}

fn say(socket: &mut UnixStream, answer: &Answer) {
    // Who has gone does not hear it.
    if let Ok(mut line) = serde_json::to_vec(answer) {
        line.push(b'\n');
        let _ = socket.write_all(&line);
    }
}

impl Holder {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<usize, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut socket: UnixStream) {
        // Accepted sockets are as the listener is.
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_read_timeout(Some(ANSWER_BOUND));
        let mut line = String::new();
        if BufReader::new((&socket).take(REQUEST_BYTES_MAX)).read_line(&mut line).is_err() {
            return;
        }
        let answered = match serde_json::from_str(&line) {
            Ok(Request::Down) => {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
                self.is_ending.store(true, Ordering::SeqCst);
                return;
            }
            Ok(request) => self.answer(request),
            Err(error) => Err(StoreError::usage(format!("a lab was asked what is no question: {error}"))),
        };
        say(&mut socket, &answered.unwrap_or_else(|error| Answer::Failed(error.into())));
    }

    fn answer(&self, request: Request) -> Result<Answer, StoreError> {
        match request {
            Request::Status => Ok(Answer::Status(Box::new(self.status()?))),
            Request::Nodes => {
                let nodes = self.cluster.nodes().iter().map(|node| Node::clone(node)).collect();
                Ok(Answer::Nodes { nodes, namespace: self.cluster.network().map(|network| network.namespace()) })
            }
            Request::Act { act, node } => self.act(act, node.map_or(Nodes::All, Nodes::One)).map(|()| Answer::Done),
            Request::Run { node, program, arguments, bound_ms } => {
                let launch = Launch::new("a program", program, arguments);
                self.cluster.run(node, &launch, Duration::from_millis(bound_ms)).map(|()| Answer::Done)
            }
            Request::Link { node, link } => {
                let nodes = self.cluster.nodes();
                let meant =
                    nodes.iter().map(|node| node.number).filter(|number| node.is_none_or(|node| node == *number));
                meant.map(|number| self.cluster.set_link(number, link)).collect::<Result<Vec<()>, _>>()?;
                Ok(Answer::Done)
            }
            Request::Add => self.cluster.add().map(Answer::Added),
            Request::Remove(number) => {
                self.meant(Nodes::One(number), Some(NodeState::Stopped));
                let removed = self.cluster.remove(number);
                self.kept().remove(&number);
                removed.map(|()| Answer::Done)
            }
            Request::Down => Ok(Answer::Done),
        }
    }

    fn act(&self, act: Act, nodes: Nodes) -> Result<(), StoreError> {
        match act {
            Act::Check => return self.cluster.check(nodes),
            // Before it is done, so that nobody starts meanwhile what is to stay away.
            Act::Kill => self.meant(nodes, Some(NodeState::Killed)),
            Act::Stop => self.meant(nodes, Some(NodeState::Stopped)),
            Act::Pause => self.meant(nodes, Some(NodeState::Paused)),
            Act::Start | Act::Resume | Act::Reload => {}
        }
        let done = match act {
            Act::Kill => self.cluster.kill(nodes),
            Act::Stop => self.cluster.stop(nodes),
            Act::Pause => self.cluster.pause(nodes),
            Act::Resume => self.cluster.resume(nodes),
            Act::Reload => self.cluster.reload(nodes),
            Act::Start | Act::Check => self.cluster.start(nodes),
        };
        if matches!(act, Act::Start | Act::Resume) && done.is_ok() {
            self.meant(nodes, None);
        }
        done.map(drop)
    }

    /// Notes what somebody wants of nodes: to be so, or to run.
    fn meant(&self, nodes: Nodes, by_command: Option<NodeState>) {
        let mut kept = self.kept();
        for node in self.cluster.nodes() {
            if nodes == Nodes::All || nodes == Nodes::One(node.number) {
                let entry = kept.entry(node.number).or_default();
                *entry = Kept { by_command, restart_count: entry.restart_count, ..Kept::default() };
            }
        }
    }

    /// Starts again what has ended by itself, when it is time.
    fn look_after(self: &Arc<Self>) {
        for node in self.cluster.nodes() {
            let number = node.number;
            // A node that something is being done to is looked at next time.
            let Ok(Some(Seen { ended: Some((ending, error)), .. })) = self.cluster.seen(number) else { continue };
            // Held to the end: who is started says that it has been only afterwards.
            let mut kept = self.kept();
            let entry = kept.entry(number).or_default();
            if entry.by_command.is_some() || entry.given_up.is_some() || entry.starts {
                continue;
            }
            let now = Instant::now();
            let is_wanted = match self.about.restart {
                Restart::Never => false,
                Restart::OnFailure => !ending.is_success(),
                Restart::Always => true,
            };
            entry.restarts.retain(|at| now.duration_since(*at) < RESTARTS_WITHIN);
            match entry.next {
                _ if !is_wanted => entry.given_up = Some(error.to_string()),
                _ if entry.restarts.len() >= RESTARTS_MAX => {
                    let seconds = RESTARTS_WITHIN.as_secs();
                    entry.given_up = Some(format!("ended {RESTARTS_MAX} times within {seconds} s; {error}"));
                }
                None => {
                    let wait = BACK_OFF * 2u32.pow(entry.restarts.len() as u32);
                    entry.next = Some(now + wait.min(BACK_OFF_MAX));
                }
                Some(next) if now < next => continue,
                Some(_) => {
                    entry.restarts.push(now);
                    entry.restart_count += 1;
                    (entry.next, entry.starts) = (None, true);
                    let holder = Arc::clone(self);
                    let start = move || holder.start_again(number);
                    entry.starts = std::thread::Builder::new().name("lab".to_owned()).spawn(start).is_ok();
                }
            }
        }
    }

    fn start_again(&self, number: usize) {
        // Where it does not start it has ended again, and is seen so next time.
        let _ = self.cluster.start(Nodes::One(number));
        if let Some(entry) = self.kept().get_mut(&number) {
            entry.starts = false;
        }
    }

    /// Looks at what runs long until the lab ends. Nodes that stand still or are away are not asked, until they are started.
    fn watch(&self) {
        self.long.follow(&self.cluster, |number| {
            if self.cluster.starting().contains_key(&number) {
                return true;
            }
            let kept = self.kept();
            kept.get(&number).is_none_or(|kept| kept.by_command.is_none() && kept.given_up.is_none())
        });
    }

    fn status(&self) -> Result<LabStatus, StoreError> {
        let nodes = self.cluster.nodes().iter().map(|node| self.node(node)).collect::<Result<_, _>>()?;
        let load = self.cluster.network();
        Ok(LabStatus {
            name: self.name.clone(),
            store: self.about.store.clone(),
            made_as: self.about.made_as.clone(),
            params: self.about.params.clone(),
            version: self.about.version.clone(),
            url: self.about.url.clone(),
            process: std::process::id(),
            since_unix_ns: self.since_unix_ns,
            load: load.map(|load| HostStatus { address: load.address(), namespace: load.namespace() }),
            nodes,
            in_progress: self.long.now(),
        })
    }

    fn node(&self, node: &Node) -> Result<NodeStatus, StoreError> {
        let number = node.number;
        let kept = self.kept().get(&number).cloned().unwrap_or_default();
        let seen = self.cluster.seen(number)?;
        let (ended, process) = seen.map_or((None, None), |seen| (seen.ended, seen.pid));
        let ended = ended.map(|(_, error)| error.to_string());
        let starts = self.cluster.starting().contains_key(&number);
        let state = match (&kept, &ended) {
            (_, None) if starts => NodeState::Starting,
            (Kept { by_command: Some(state), .. }, _) => *state,
            (Kept { given_up: Some(_), .. }, _) => NodeState::Maintenance,
            (_, Some(_)) => NodeState::Restarting,
            _ => NodeState::Running,
        };
        let (log, directory) = self.cluster.files(number)?;
        let (processor_s, memory_bytes) = used_by(&directory);
        Ok(NodeStatus {
            number,
            role: self.cluster.role(number).to_owned(),
            address: node.address,
            ports: node.ports.clone(),
            namespace: self.cluster.namespace(number)?,
            log,
            directory: directory.clone(),
            socket_dir: node.socket_dir.clone(),
            process,
            state,
            reason: kept.given_up.or(ended),
            restarts: kept.restart_count,
            processor_s,
            memory_bytes,
            limits: node.limits.clone(),
            throttled_s: Met::of(&directory).throttled_s,
            link: self.cluster.link(number)?,
        })
    }
}

/// Processor time and resident memory of all processes that work below `directory` (proc_pid_stat(5)).
fn used_by(directory: &Path) -> (f64, u64) {
    let (mut ticks, mut pages) = (0u64, 0u64);
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        if !pid.is_some_and(|pid| works_in(pid, directory)) {
            continue;
        }
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name before the last bracket may hold anything. Fields 14, 15 and 24 are user, system, pages.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        ticks += field(14) + field(15);
        pages += field(24);
    }
    (ticks as f64 / clock_ticks_per_second() as f64, pages * page_size() as u64)
}
