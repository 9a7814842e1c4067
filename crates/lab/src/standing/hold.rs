//! The process that holds a lab: answers requests, and restarts nodes that have ended by themselves.

mod status;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_core::{Launch, Node, NodeChoice, Nodes, ParamValue, ProgramChange, StoreError, Waits, waits};
use serde::Serialize;

use super::lease::{self, Leases};
use super::log::LogWriter;
use super::long::{Long, NodeAnswers};
use super::request::{LabAction, LabReply, LabRequest, LabStatus, NodeState, NodesReply, Sent};
use super::{ANSWER_BOUND, LabDirectory, TRUE_CLOCK};
use crate::cluster::{Cluster, ClusterHandle, ServerState};
use crate::supervisor::readable;

/// Time between two checks of nodes and connections.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Length of the longest request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Time before a node that has ended is restarted: at first, and at most.
const BACK_OFF: Duration = Duration::from_millis(250);
const BACK_OFF_MAX: Duration = Duration::from_secs(8);
/// A node that has ended this often within this time is not restarted any more.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);
/// Reason to refuse a node that joins or leaves.
const JOINS: &str = "a node joins or leaves while all others run";

plimsoll_core::words! {
    /// Policy for restarting a node that has ended by itself.
    pub enum Restart {
        /// Never restarts a node.
        Never = "never",
        /// Restarts a node that was killed or exited with a status other than 0.
        OnFailure = "on-failure",
        /// Restarts a node whatever its exit status.
        Always = "always",
    }
}

/// Description of a lab for its status, and its restart policy.
pub struct LabDescription {
    /// Name of the store, and the name that the user gave when the lab was made.
    pub store: String,
    /// See `store`.
    pub made_as: String,
    /// Parameters of the store.
    pub params: BTreeMap<String, ParamValue>,
    /// Version of the servers.
    pub version: String,
    /// Policy for restarting nodes.
    pub restart: Restart,
    /// URL of a server that a plan describes.
    pub url: Option<String>,
}

#[derive(Clone, Default)]
struct NodeSupervision {
    /// State that a command put the node in: stopped, killed or paused.
    by_command: Option<NodeState>,
    /// Recent restarts.
    restarts: Vec<Instant>,
    restart_count: u32,
    /// Time of the next restart.
    next: Option<Instant>,
    /// True while the node is being started.
    starts: bool,
    /// Reason why the node is not restarted any more.
    given_up: Option<String>,
}

struct Holder {
    name: String,
    about: LabDescription,
    since_unix_ns: u64,
    cluster: ClusterHandle,
    kept: Mutex<BTreeMap<usize, NodeSupervision>>,
    /// Processes that added nodes and are to remove them, by the nodes' numbers.
    needed_by: Mutex<BTreeMap<usize, OwnedFd>>,
    leases: Leases,
    long: Long,
    log: LogWriter,
    /// Set by a request for the end, and at the end. The clients in `waiting` receive the reply after it.
    is_ending: AtomicBool,
    waiting: Mutex<Vec<UnixStream>>,
}

/// Holds `cluster` as the lab of `directory` until a request or `stop` ends it. `stands` receives the status when the
/// lab answers requests.
///
/// # Errors
/// Errors of ending or removing.
pub fn hold(
    cluster: Cluster,
    directory: LabDirectory,
    about: LabDescription,
    stop: &AtomicBool,
    stands: impl FnOnce(&LabStatus),
) -> Result<(), StoreError> {
    let at = |error: std::io::Error| StoreError::io(directory.directory().display(), &error);
    let holder = Arc::new(Holder {
        name: directory.name().to_owned(),
        about,
        since_unix_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
        cluster: cluster.handle(),
        kept: Mutex::default(),
        needed_by: Mutex::default(),
        leases: Leases::default(),
        long: Long::default(),
        log: LogWriter::create(directory.directory()).map_err(at)?,
        is_ending: AtomicBool::new(false),
        waiting: Mutex::default(),
    });
    directory.listener.set_nonblocking(true).map_err(at)?;
    let watching = Arc::clone(&holder);
    // Without this thread the status does not list long-running operations.
    let _ = std::thread::Builder::new().name("lab".to_owned()).spawn(move || watching.watch());
    stands(&holder.status()?);
    while !stop.load(Ordering::SeqCst) && !holder.is_ending.load(Ordering::SeqCst) {
        while let Ok((socket, _)) = directory.listener.accept() {
            let holder = Arc::clone(&holder);
            // If no thread can be created, the connection is closed, and the client sees end of file.
            let _ = std::thread::Builder::new().name("lab".to_owned()).spawn(move || holder.serve(socket));
        }
        holder.look_after();
        if !holder.cluster.starting().is_empty() {
            holder.long.poke();
        }
        // A request is taken at once: faults have planned times.
        if readable(&directory.listener, LOOK_INTERVAL).is_err() {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
    holder.is_ending.store(true, Ordering::SeqCst);
    holder.long.end();
    let closed = cluster.close();
    let answer = closed.clone().and_then(reply);
    drop(directory);
    for mut socket in std::mem::take(&mut *holder.waiting.lock().unwrap_or_else(PoisonError::into_inner)) {
        say(&mut socket, &answer);
    }
    closed
}

/// Makes a reply of what a request returns.
fn reply<T: Serialize>(returned: T) -> LabReply {
    serde_json::to_value(returned).map_err(|error| StoreError::broken(error.to_string()))
}

fn say(socket: &mut UnixStream, answer: &LabReply) {
    // A client that has gone does not receive the reply.
    if let Ok(mut line) = serde_json::to_vec(answer) {
        line.push(b'\n');
        let _ = socket.write_all(&line);
    }
}

impl Holder {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<usize, NodeSupervision>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut socket: UnixStream) {
        // Accepted sockets inherit non-blocking mode from the listener.
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_read_timeout(Some(ANSWER_BOUND));
        let mut line = String::new();
        if BufReader::new((&socket).take(REQUEST_BYTES_MAX)).read_line(&mut line).is_err() {
            return;
        }
        let answered = match serde_json::from_str(&line) {
            Ok(Sent { request: LabRequest::Down, process }) => {
                self.log.moment(Some(process), &format!("lab down {}", self.name));
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
                self.is_ending.store(true, Ordering::SeqCst);
                return;
            }
            Ok(Sent { request, process }) => self.unclaimed(process, &request).and_then(|()| {
                self.leases.before(process, &request, &self.cluster);
                let answered = match self.command(&request) {
                    Some(_) if self.leases.has_ended(process) => Err(lease::no_process(process)),
                    Some(command) => {
                        self.log.logged(Some(process), command, || self.answer(process, &request, &socket))
                    }
                    None => self.answer(process, &request, &socket),
                };
                self.leases.after(process, &request, answered.is_ok());
                answered
            }),
            Err(error) => Err(StoreError::usage(format!("the lab received a malformed request: {error}"))
                .next("a lab and its commands are of one release: end it with `plimsoll lab down`, and make it anew")),
        };
        say(&mut socket, &answered);
    }

    /// Refuses a run's change of a link, limit, clock or program that another run has changed, until that one has set it
    /// back.
    fn unclaimed(&self, process: u32, request: &LabRequest) -> Result<(), StoreError> {
        let Some((other, number)) = self.leases.clash(process, request) else { return Ok(()) };
        let thing = match request {
            LabRequest::Link { .. } => "link",
            LabRequest::Limit { .. } => "limit",
            LabRequest::RestartWith { .. } => "program",
            _ => "clock",
        };
        let what = format!("node {} of lab {} has a {thing} of another run (process {other})", number + 1, self.name);
        Err(StoreError::usage(what).next("begin this fault when that run has set back its own, or name another node"))
    }

    /// Returns the command of a request that does something to servers, or words in the style of a command.
    fn command(&self, request: &LabRequest) -> Option<String> {
        let of = |verb: &str, nodes: Nodes| match nodes {
            Nodes::All => format!("lab {verb} {}", self.name),
            Nodes::One(number) => format!("lab {verb} {} {}", self.name, number + 1),
            Nodes::Several(all) => {
                let numbers: Vec<String> = all.numbers().map(|number| (number + 1).to_string()).collect();
                format!("lab {verb} {} {}", self.name, numbers.join(" "))
            }
        };
        match request {
            LabRequest::Act { act, nodes } if *act != LabAction::Check => Some(of(act.name(), *nodes)),
            LabRequest::RestartWith { nodes, program } => {
                Some(format!("{} --with {}", of("restart", *nodes), program.display()))
            }
            LabRequest::Link { nodes, link } => Some(format!("{}: {link}", of("link", *nodes))),
            LabRequest::Limit { nodes, given, .. } => Some(format!("{}: {given}", of("limit", *nodes))),
            LabRequest::Clock { nodes, change } => {
                let change = change.map_or(TRUE_CLOCK.to_owned(), |change| change.to_string());
                Some(format!("{}: {change}", of("clock", *nodes)))
            }
            LabRequest::Add { .. } => Some(of("add", Nodes::All)),
            LabRequest::Remove(number) => Some(of("remove", Nodes::One(*number))),
            LabRequest::Work { nodes, name, .. } => Some(format!("{}: {name}", of("work", *nodes))),
            // Each run with faults asks for it at the end.
            LabRequest::Rejoin => self.cluster.has_stale().then(|| of("rejoin", Nodes::All)),
            LabRequest::Act { .. } | LabRequest::Run { .. } | LabRequest::Down | LabRequest::Lease => None,
            LabRequest::Status | LabRequest::InProgress | LabRequest::Nodes => None,
            LabRequest::Primary | LabRequest::Replica | LabRequest::ClientHosts { .. } => None,
            LabRequest::Permits(_) => None,
        }
    }

    fn answer(&self, process: u32, request: &LabRequest, socket: &UnixStream) -> LabReply {
        match request {
            LabRequest::Status => self.status().and_then(reply),
            LabRequest::InProgress => self.cluster.in_progress().and_then(reply),
            LabRequest::Nodes => {
                let nodes = self.cluster.nodes().iter().map(|node| Node::clone(node)).collect();
                let namespace = self.cluster.network().map(|network| network.namespace());
                let (has_primary, failover_time) = (self.cluster.has_primary(), self.cluster.failover_time());
                let nodes: NodesReply = (nodes, namespace, has_primary, failover_time);
                reply(nodes)
            }
            LabRequest::Act { act, nodes } => self.act(*act, *nodes).and_then(reply),
            LabRequest::RestartWith { nodes, program } => self.restart_with(*nodes, program).and_then(reply),
            LabRequest::Run { node, program, arguments, bound_ms } => {
                let launch = Launch::new("a program", program.clone(), arguments);
                self.cluster.run(*node, &launch, Duration::from_millis(*bound_ms)).and_then(reply)
            }
            LabRequest::ClientHosts { count } => self.cluster.client_hosts(*count).and_then(reply),
            LabRequest::Link { nodes, link } => self.cluster.servers().set_link(*nodes, *link).and_then(reply),
            LabRequest::Limit { nodes, change, .. } => {
                self.cluster.servers().change_limit(*nodes, change).and_then(reply)
            }
            LabRequest::Clock { nodes, change } => self.cluster.servers().set_clock(*nodes, *change).and_then(reply),
            LabRequest::Permits(fault) => self.cluster.must_permit(*fault).and_then(reply),
            LabRequest::Primary => self.cluster.chosen(NodeChoice::Primary).and_then(reply),
            LabRequest::Replica => self.cluster.chosen(NodeChoice::Replica).and_then(reply),
            LabRequest::Rejoin => self.cluster.rejoin().and_then(reply),
            LabRequest::Work { nodes, name, bound_ms } => {
                let bound = Duration::from_millis(*bound_ms);
                let work = |stop| self.cluster.work_within(*nodes, name, &Waits::new(waits::ANSWER, bound, stop));
                self.until_stopped(socket, work).and_then(reply)
            }
            LabRequest::Lease => {
                self.must_run(None, "faults begin while all nodes run")?;
                self.leases.give(process).and_then(reply)
            }
            LabRequest::Add { needed_by } => self.add(*needed_by).and_then(reply),
            LabRequest::Remove(number) => {
                self.must_run(Some(*number), JOINS)?;
                self.meant(Nodes::One(*number), Some(NodeState::Stopped));
                let removed = self.cluster.remove(*number);
                self.kept().remove(number);
                self.needed_by().remove(number);
                removed.and_then(reply)
            }
            LabRequest::Down => reply(()),
        }
    }

    /// Calls `act` with a flag that is set when the client sends nothing more, because it asks for a stop or has ended,
    /// or when the lab ends.
    fn until_stopped<T>(&self, socket: &UnixStream, act: impl FnOnce(Arc<AtomicBool>) -> T) -> T {
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let look = || {
                // Nothing follows a request: if something can be read, it is the end.
                let has_ended =
                    || self.is_ending.load(Ordering::SeqCst) || readable(socket, LOOK_INTERVAL).unwrap_or(true);
                std::iter::repeat_with(has_ended).any(|ended| ended);
                stop.store(true, Ordering::SeqCst);
            };
            // Without this thread only the limits of `act` end it.
            let _ = std::thread::Builder::new().name("lab".to_owned()).spawn_scoped(scope, look);
            let done = act(Arc::clone(&stop));
            // Ends the thread.
            let _ = socket.shutdown(Shutdown::Read);
            done
        })
    }

    fn needed_by(&self) -> MutexGuard<'_, BTreeMap<usize, OwnedFd>> {
        self.needed_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, needed_by: Option<u32>) -> Result<usize, StoreError> {
        // A node for a process that has ended would stay, and not be known as left.
        let process = needed_by.map(lease::handle).transpose()?;
        self.must_run(None, JOINS)?;
        let number = self.cluster.add()?;
        self.needed_by().extend(process.map(|process| (number, process)));
        Ok(number)
    }

    /// Refuses a change while a node other than `but` does not run: it would wait in vain until all are one cluster.
    fn must_run(&self, but: Option<usize>, why: &str) -> Result<(), StoreError> {
        let mut down = Vec::new();
        for node in self.cluster.nodes() {
            let state = self.node(&node, Some(&NodeAnswers::new()))?.state;
            if !matches!(state, NodeState::Running | NodeState::Starting | NodeState::NotReady) {
                down.push((node.number, state));
            }
        }
        let Some((number, state)) = down.iter().find(|(number, _)| Some(*number) != but) else { return Ok(()) };
        let (number, name) = (number + 1, &self.name);
        let is_stopped = matches!(state, NodeState::Paused | NodeState::Hanging);
        let verb = if is_stopped { "resume" } else { "start" };
        let what = format!("node {number} of lab {name} is {}: {why}", state.name());
        // Of several that do not run none can be removed.
        let remove = if down.len() == 1 { format!(", or plimsoll lab remove {name} {number}") } else { String::new() };
        Err(StoreError::usage(what).next(format!("plimsoll lab {verb} {name} {number}{remove}")))
    }

    fn act(&self, act: LabAction, nodes: Nodes) -> Result<(), StoreError> {
        match act {
            LabAction::Check => return self.cluster.check(nodes),
            // Noted before the command, so that no restart happens meanwhile.
            LabAction::Kill => self.meant(nodes, Some(NodeState::Killed)),
            LabAction::Stop | LabAction::Restart => self.meant(nodes, Some(NodeState::Stopped)),
            LabAction::Pause => self.meant(nodes, Some(NodeState::Paused)),
            LabAction::Start | LabAction::Resume | LabAction::Reload | LabAction::Promote => {}
            LabAction::Hang | LabAction::Reset => {}
        }
        let done = match act {
            LabAction::Kill => self.cluster.kill(nodes),
            LabAction::Stop => self.cluster.stop(nodes),
            LabAction::Restart => self.cluster.restart(nodes),
            LabAction::Pause => self.cluster.pause(nodes),
            LabAction::Hang => self.cluster.hang(nodes),
            LabAction::Resume => self.cluster.resume(nodes),
            LabAction::Reset => self.cluster.reset(nodes),
            LabAction::Reload => self.cluster.reload(nodes),
            LabAction::Promote => match nodes {
                Nodes::One(number) => self.cluster.promote(number),
                Nodes::All | Nodes::Several(_) => {
                    Err(StoreError::usage("one node can be the primary").next("plimsoll lab promote NAME NODE"))
                }
            },
            LabAction::Start | LabAction::Check => self.cluster.start(nodes),
        };
        if matches!(act, LabAction::Start | LabAction::Restart | LabAction::Resume) && done.is_ok() {
            self.meant(nodes, None);
        }
        done.map(drop)
    }

    fn restart_with(&self, nodes: Nodes, program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        // A refusal leaves the nodes as they are.
        self.cluster.check_program(nodes, program)?;
        self.meant(nodes, Some(NodeState::Stopped));
        let changed = self.cluster.restart_with(nodes, program);
        if changed.is_ok() || self.cluster.check(nodes).is_ok() {
            self.meant(nodes, None);
        }
        changed
    }

    /// Notes the state that a command put nodes in; `None` if they are to run.
    fn meant(&self, nodes: Nodes, by_command: Option<NodeState>) {
        let mut kept = self.kept();
        for node in self.cluster.nodes() {
            if nodes.has(node.number) {
                let entry = kept.entry(node.number).or_default();
                *entry =
                    NodeSupervision { by_command, restart_count: entry.restart_count, ..NodeSupervision::default() };
            }
        }
    }

    /// Heals the faults of processes that have ended, and restarts nodes that have ended by themselves, when their time
    /// has come.
    fn look_after(self: &Arc<Self>) {
        for lease in self.leases.ended() {
            let holder = Arc::clone(self);
            let heal = move || {
                let what = format!("lab {}: healed the faults of a run that has ended", holder.name);
                let act = |act: LabAction, nodes: Nodes| holder.act(act, nodes);
                // What is healed are effects of commands.
                let by = Some(std::process::id());
                let _ = holder.log.logged(by, what, || lease.heal(&holder.cluster, act));
            };
            let _ = std::thread::Builder::new().name("lab".to_owned()).spawn(heal);
        }
        for node in self.cluster.nodes() {
            let number = node.number;
            // A node with an operation in progress is checked next time.
            let Ok(Some(ServerState { ended: Some((ending, error)), .. })) = self.cluster.server_state(number) else {
                continue;
            };
            // Locked until the restart is noted.
            let mut kept = self.kept();
            let entry = kept.entry(number).or_default();
            if entry.by_command.is_some() || entry.given_up.is_some() || entry.starts {
                continue;
            }
            if entry.next.is_none() {
                let what = format!("node {} of lab {} {ending}", number + 1, self.name);
                self.log.moment(None, &what);
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
        // A node that does not start has ended again, which the next check finds.
        let what = format!("automatic restart of node {} of lab {}", number + 1, self.name);
        let _ = self.log.logged(None, what, || self.cluster.start(Nodes::One(number)));
        if let Some(entry) = self.kept().get_mut(&number) {
            entry.starts = false;
        }
    }

    /// Looks for long-running operations until the lab ends. Paused and stopped nodes are not asked until they are
    /// started.
    fn watch(&self) {
        self.long.follow(&self.cluster, |number| {
            if self.cluster.starting().contains_key(&number) {
                return true;
            }
            let kept = self.kept();
            kept.get(&number).is_none_or(|kept| kept.by_command.is_none() && kept.given_up.is_none())
        });
    }
}
