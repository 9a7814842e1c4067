//! Clusters: private servers of one node or more that run by a store's recipe, each in its own directory, with one
//! supervisor for all.

mod faults;
mod provisions;
mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use plimsoll_core::{
    ClockChange, Launch, LimitChange, Limits, Link, Member, Node, Nodes, Progress, Recipe, ServerSpec, Servers, Span,
    StoreError, StoreErrorKind, Waits,
};

use crate::disks::{Disks, log_disk_of};
use crate::ending::Ending;
use crate::hosts::{Host, NamespaceGuard, Network};
use crate::limits;
use crate::private_server::PrivateServer;
use crate::supervisor::Supervisor;
use crate::user::ServerUser;

/// Longest time for making a data directory, including its sync on a slow disk.
const SET_UP_BOUND: Duration = Duration::from_secs(180);
/// Longest time for a start, including recovery after a crash and loading the data.
const START_BOUND: Duration = Duration::from_secs(600);
/// Longest time for a stop: the server writes all dirty memory.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// Longest time for a program that finds out which data a node has.
const RECOVER_BOUND: Duration = Duration::from_secs(120);
/// Time between two checks whether a node is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Longest time for one check.
const LOOK_BOUND: Duration = Duration::from_secs(10);

/// A running cluster. It ends, with all its files, when it is closed or dropped, or when Plimsoll dies. If it is
/// dropped, its logs are kept, because something failed. [`Servers`] describes the operations on it.
pub struct Cluster(ClusterHandle);

/// Directories in which servers may have theirs.
#[derive(Debug, Clone)]
pub struct Bases {
    /// Candidates, best first. The first one is taken that the servers' user can reach.
    pub directories: Vec<PathBuf>,
    /// Disks that can lose power, if the data are on such disks.
    pub(crate) disks: Option<Arc<Disks>>,
}

impl<T: AsRef<[PathBuf]> + ?Sized> From<&T> for Bases {
    fn from(directories: &T) -> Self {
        Self { directories: directories.as_ref().to_owned(), disks: None }
    }
}

/// Handle to the servers of a cluster, usable from any thread. It does not keep the cluster from ending.
#[derive(Clone)]
pub struct ClusterHandle(Arc<Running>);

struct Running {
    recipe: Box<dyn Recipe>,
    spec: ServerSpec,
    supervisor: Supervisor,
    user: ServerUser,
    bases: Bases,
    log_dir: PathBuf,
    secret: String,
    network: Option<Arc<Network>>,
    limits: Limits,
    members: RwLock<Vec<ClusterMember>>,
    /// Numbers of nodes that are being started, with the times when that began.
    starting: Mutex<BTreeMap<usize, Instant>>,
    promotion: Mutex<Promotion>,
    waits: Waits,
}

/// State after promotions.
#[derive(Debug, Clone, Default)]
struct Promotion {
    /// Number of the node that was made the primary last.
    primary: usize,
    /// Numbers of nodes that do not follow it.
    stale: BTreeSet<usize>,
}

/// A node's server at one moment.
#[derive(Debug, Clone)]
pub struct ServerState {
    /// Ending of a server that should run; `None` while it runs, or if a command stopped it.
    pub ended: Option<(Ending, StoreError)>,
    /// Id of the server's process.
    pub pid: Option<u32>,
    /// True while one of its threads hangs by a command.
    pub hangs: bool,
    /// Error of its wall clock; `None` for the true clock.
    pub clock: Option<ClockChange>,
}

/// A node with its server, host and files.
#[derive(Clone)]
struct ClusterMember {
    node: Arc<Node>,
    server: Arc<Mutex<PrivateServer>>,
    /// Host of the node; `None` if it is on this machine's own network.
    host: Option<Arc<Host>>,
    log: Arc<Path>,
    root: Arc<Path>,
}

impl Cluster {
    /// Makes directories under the first of `bases` that the servers' user can reach, starts the nodes there and makes
    /// a cluster of them. Logs are copied to `log_dir` if anything fails. `progress` receives a line for each step that
    /// takes a while.
    ///
    /// # Errors
    /// `Missing` if a program is not installed; `Permission` if no base can be used; `DiskFull`; `AddressTaken`;
    /// `Broken` with the last log lines of a node that does not start.
    pub fn start(
        recipe: Box<dyn Recipe>,
        bases: impl Into<Bases>,
        log_dir: &Path,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        Self::start_under(Supervisor::start()?, Limits::default(), recipe, bases, log_dir, waits, progress)
    }

    /// Starts a cluster under a supervisor that runs already, with limits for each node.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_under(
        supervisor: Supervisor,
        limits: Limits,
        recipe: Box<dyn Recipe>,
        bases: impl Into<Bases>,
        log_dir: &Path,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let spec = recipe.spec();
        provisions::fits(spec)?;
        progress(&format!("starting a private {}", spec.name));
        let network = (spec.hosts > 0).then(Network::shared).transpose()?;
        let running = Arc::new(Running {
            user: ServerUser::caller_or(spec.user, spec.package)?,
            supervisor,
            limits,
            bases: bases.into(),
            log_dir: log_dir.to_owned(),
            secret: provisions::secret()?,
            members: RwLock::default(),
            starting: Mutex::default(),
            promotion: Mutex::default(),
            waits: waits.clone(),
            network,
            recipe,
            spec,
        });
        let ports = if spec.hosts == 0 { provisions::free_ports(spec.nodes * spec.ports.len())? } else { Vec::new() };
        if let Some(disks) = &running.bases.disks {
            progress(&format!("making disks with {}", disks.file_system().name()));
            disks.make((0..spec.nodes).filter_map(|number| running.machine(number)), Some(&running.user))?;
        }
        for number in 0..spec.nodes {
            running.add_member(number, ports.iter().skip(number * spec.ports.len()).copied())?;
        }
        let cluster = Self(ClusterHandle(running));
        let (running, nodes, _guard) = (&cluster.0.0, cluster.nodes(), cluster.0.enter()?);
        running.bring_up(Nodes::All, true, progress)?;
        running.recipe.form(&nodes, waits)?;
        running.recipe.until_whole(&nodes, waits)?;
        Ok(cluster)
    }

    /// Returns a handle to the servers.
    pub fn handle(&self) -> ClusterHandle {
        self.0.clone()
    }

    /// Ends all nodes at once, removes their files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` if something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        self.0.0.members().iter().map(|member| locked(&member.server).end()).fold(Ok(()), Result::and)
    }
}

impl ClusterHandle {
    /// Returns the handle reduced to operations on servers.
    pub fn servers(&self) -> Arc<dyn Servers> {
        Arc::clone(&self.0) as Arc<dyn Servers>
    }

    /// Returns the node's role in the cluster: as it was made, or since a replica was promoted.
    pub fn role(&self, number: usize) -> &'static str {
        self.0.recipe.role(self.0.position(number))
    }

    /// Returns the machine that a node is in, each with its own disk; `None` if the node keeps no data.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub(crate) fn machine(&self, number: usize) -> Result<Option<usize>, StoreError> {
        self.0.find(number).map(|_| self.0.machine(number))
    }

    /// Returns the path of a node's log, and the directory that contains all its files.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub fn files(&self, number: usize) -> Result<(PathBuf, PathBuf), StoreError> {
        let made = self.0.find(number)?;
        Ok((made.log.to_path_buf(), made.root.to_path_buf()))
    }

    /// Returns the network that contains the load host, if the nodes have their own hosts.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.0.network.as_ref()
    }

    /// Does planned work as [`Servers::work`] does, within `waits`.
    ///
    /// # Errors
    /// As [`Servers::work`].
    pub(crate) fn work_within(&self, nodes: Nodes, name: &str, waits: &Waits) -> Result<(), StoreError> {
        self.0.work_within(nodes, name, waits)
    }

    /// Returns true if a node runs that does not follow the present primary.
    pub(crate) fn has_stale(&self) -> bool {
        !self.0.stale().is_empty()
    }

    /// Sets the link between a node's host and all others.
    ///
    /// # Errors
    /// `Usage` if there is no such node, it has no host of its own, or the link is not valid; otherwise an error of the
    /// kernel.
    pub fn set_link(&self, number: usize, link: Link) -> Result<(), StoreError> {
        self.0.set_link_of(number, link)
    }

    /// Returns the link of a node's host; the default if the node is on this machine's own network.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub fn link(&self, number: usize) -> Result<Link, StoreError> {
        Ok(self.0.find(number)?.host.map(|host| host.link()).unwrap_or_default())
    }

    /// Changes a limit of a node's server while it runs. Restarts keep the limit.
    ///
    /// # Errors
    /// `Usage` if there is no such node, it has no control group for the limit, or the limit is not possible.
    pub fn change_limit(&self, number: usize, change: &LimitChange) -> Result<(), StoreError> {
        self.0.change_limit_of(number, change)
    }

    /// Sets the error of the wall clock of a node's server; `None` for the true clock.
    ///
    /// # Errors
    /// `Usage` if there is no such node; otherwise as [`Servers::set_clock`].
    pub(crate) fn set_clock(&self, number: usize, change: Option<ClockChange>) -> Result<(), StoreError> {
        self.0.set_clock_of(number, change)
    }

    /// Returns the error of the wall clock of a node's server; `None` for the true clock. Waits for an operation in
    /// progress on it.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub(crate) fn clock(&self, number: usize) -> Result<Option<ClockChange>, StoreError> {
        self.0.clock_of(number)
    }

    /// Returns the current state of a node's server; `None` while an operation on it is in progress.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub fn server_state(&self, number: usize) -> Result<Option<ServerState>, StoreError> {
        let made = self.0.find(number)?;
        let mut server = match made.server.try_lock() {
            Ok(server) => server,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let (ended, pid, hangs, clock) = (server.ended(), server.pid(), server.hangs(), server.clock());
        Ok(Some(ServerState { ended, pid, hangs, clock }))
    }

    /// Returns the numbers of nodes that are being started, with the times when that began.
    pub fn starting(&self) -> BTreeMap<usize, Instant> {
        self.0.starting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks a node, as a client, if it is ready, and for its state in its own words. Each reply may take `bound`.
    ///
    /// # Errors
    /// `Usage` if there is no such node; an error if it is not ready.
    pub(crate) fn ready(&self, number: usize, bound: Duration) -> Result<String, StoreError> {
        let (nodes, _guard) = (self.0.nodes(), self.0.enter()?);
        let (node, waits) = (self.0.member(&nodes, number, false)?, self.0.waits.with_answer(bound));
        self.0.recipe.ready(&node, &waits)?;
        self.0.recipe.own_state(&node, &waits)
    }

    /// Asks a node for its long-running operations. Each reply of the node may take `bound`.
    ///
    /// # Errors
    /// `Usage` if there is no such node; an error if it does not answer.
    pub fn progress(&self, number: usize, bound: Duration) -> Result<Vec<Progress>, StoreError> {
        let (nodes, _guard) = (self.0.nodes(), self.0.enter()?);
        self.0.recipe.progress(self.0.member(&nodes, number, false)?, &self.0.waits.with_answer(bound))
    }

    /// Moves the calling thread into the network namespace of the load host. Threads and processes started from it
    /// inherit the namespace. Dropping the guard moves the thread back. Returns `None` if the nodes are on this
    /// machine's own network.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn enter(&self) -> Result<Option<NamespaceGuard>, StoreError> {
        self.0.enter()
    }

    /// Returns the path of the network namespace of a node's host; `None` if the node is on this machine's own network.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub fn namespace(&self, number: usize) -> Result<Option<PathBuf>, StoreError> {
        Ok(self.0.find(number)?.host.map(|host| host.namespace()))
    }
}

impl Deref for Cluster {
    type Target = dyn Servers;

    fn deref(&self) -> &Self::Target {
        &*self.0.0
    }
}

impl Deref for ClusterHandle {
    type Target = dyn Servers;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Other handles may exist still. A cluster that was closed has nothing left to end.
        for member in self.0.0.members() {
            locked(&member.server).abandon();
            provisions::give_back(&member.node.ports);
        }
    }
}

fn locked(server: &Mutex<PrivateServer>) -> MutexGuard<'_, PrivateServer> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn members(&self) -> Vec<ClusterMember> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the machine that a node keeps its data in. Nodes on one host share a machine.
    fn machine(&self, number: usize) -> Option<usize> {
        self.recipe.keeps_data(number).then(|| self.recipe.host(number))
    }

    fn enter(&self) -> Result<Option<NamespaceGuard>, StoreError> {
        self.network.as_ref().map(|network| network.enter()).transpose()
    }

    fn find(&self, number: usize) -> Result<ClusterMember, StoreError> {
        let found = self.members().into_iter().find(|member| member.node.number == number);
        found.ok_or_else(|| StoreError::usage(format!("there is no node {}", number + 1)))
    }

    /// Returns a node's own host.
    fn own_host(&self, number: usize) -> Result<Arc<Host>, StoreError> {
        self.find(number)?.host.ok_or_else(|| {
            let what = format!("the nodes of {} are on this machine's own network, which has no links", self.spec.name);
            StoreError::usage(what).next("use a store with several nodes: plimsoll list stores")
        })
    }

    /// Returns the number of the node that takes all writes now; of several that take writes, the first that runs.
    fn primary(&self) -> Result<usize, StoreError> {
        if !self.recipe.has_primary() && self.members().len() > 1 {
            let first = self.running().into_iter().find(|node| self.recipe.keeps_data(node.number));
            let none = || StoreError::new(StoreErrorKind::Unreachable, format!("no node of {} runs", self.spec.name));
            return first.map(|node| node.number).ok_or_else(none);
        }
        if self.recipe.promotes().is_ok() {
            return Ok(self.promotion().primary);
        }
        let _guard = self.enter()?;
        self.recipe.primary(&self.nodes(), &self.waits)
    }

    /// Returns the position in the recipe whose role a node has now: a promoted node and the first one have changed
    /// theirs.
    fn position(&self, number: usize) -> usize {
        let (first, primary) = (Promotion::default().primary, self.promotion().primary);
        match number {
            _ if number == primary => first,
            _ if number == first => primary,
            other => other,
        }
    }

    /// Returns the nodes that run and do not follow the present primary.
    fn stale(&self) -> Vec<usize> {
        let stale = self.promotion().stale.clone();
        let runs = |number: &usize| self.on(*number, PrivateServer::check).is_ok();
        stale.into_iter().filter(runs).collect()
    }

    fn promotion(&self) -> MutexGuard<'_, Promotion> {
        self.promotion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lowest number of a running node that holds data and is not the primary.
    fn replica(&self) -> Result<usize, StoreError> {
        let primary = self.primary()?;
        let mut numbers = self.running().into_iter().map(|node| node.number);
        let replica = numbers.find(|number| *number != primary && self.recipe.keeps_data(*number));
        let no_replica = || StoreError::usage(format!("no replica of {} runs", self.spec.name));
        replica.ok_or_else(|| no_replica().next("name a node by its number: node 1"))
    }

    /// Sets a value of nodes, of which `before` has the former values. If one node fails, all get those again.
    fn set_each<V>(
        &self,
        before: Vec<(usize, V)>,
        value: &V,
        set: impl Fn(usize, &V) -> Result<(), StoreError>,
    ) -> Result<Vec<(usize, V)>, StoreError> {
        let done = before.iter().try_for_each(|(number, _)| set(*number, value));
        if done.is_err() {
            before.iter().for_each(|(number, former)| drop(set(*number, former)));
        }
        done.map(|()| before)
    }

    /// Calls `act` with the server of a node.
    fn on<T>(
        &self,
        number: usize,
        act: impl FnOnce(&mut PrivateServer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        act(&mut locked(&self.find(number)?.server))
    }

    /// Makes the directories of a server.
    fn new_server(&self, waits: &Waits) -> Result<PrivateServer, StoreError> {
        let (user, bases) = (self.user.clone(), &self.bases.directories);
        PrivateServer::new(&self.supervisor, self.spec, user, bases, &self.log_dir, waits)
    }

    /// Makes the directories of a node, and a host if it is to have one.
    fn add_member(&self, number: usize, free_ports: impl Iterator<Item = u16>) -> Result<(), StoreError> {
        let mut server = self.new_server(&self.waits)?;
        let mut log_dir = None;
        if let Some((disks, machine)) = self.bases.disks.as_ref().zip(self.machine(number)) {
            server.keep_data_in(&disks.mount_point(machine, Some(&self.user))?)?;
            if self.recipe.has_log_disk() {
                log_dir = Some(server.directory_in(&disks.mount_point(log_disk_of(machine), Some(&self.user))?)?);
            }
        }
        limits::apply(&self.limits, server.root_dir())?;
        let host = match &self.network {
            None => None,
            Some(network) => Some(self.host_of(number, network)?),
        };
        host.iter().for_each(|host| server.live_on(host.namespace()));
        let node = Node {
            number,
            data_dir: server.data_dir().to_owned(),
            socket_dir: server.socket_dir().to_owned(),
            log_dir,
            address: host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.address()),
            ports: match host {
                Some(_) => self.recipe.ports(number).to_vec(),
                None => free_ports.take(self.spec.ports.len()).collect(),
            },
            secret: self.secret.clone(),
            limits: self.limits.clone(),
        };
        let (log, root) = (Arc::from(server.log()), Arc::from(server.root_dir()));
        let member = ClusterMember { node: Arc::new(node), server: Arc::new(Mutex::new(server)), host, log, root };
        self.members.write().unwrap_or_else(PoisonError::into_inner).push(member);
        Ok(())
    }

    /// Returns the host of a node: another node's if the recipe says so, or a new one.
    fn host_of(&self, number: usize, network: &Arc<Network>) -> Result<Arc<Host>, StoreError> {
        let host = self.recipe.host(number);
        let shares = |member: &ClusterMember| self.recipe.host(member.node.number) == host;
        match self.members().into_iter().find(shares).and_then(|member| member.host) {
            Some(host) => Ok(host),
            None => network.add_host().map(Arc::new),
        }
    }

    /// Refuses to let a node join or leave while a node other than `but` does not run: that would wait in vain until all
    /// are one cluster.
    fn others_must_run(&self, but: Option<usize>) -> Result<(), StoreError> {
        for member in self.members().iter().filter(|member| Some(member.node.number) != but) {
            if let Err(ended) = locked(&member.server).check() {
                let (number, name) = (member.node.number + 1, self.spec.name);
                let what = format!("node {number} of {name} does not run: a node joins or leaves while all others run");
                let refused = StoreError { what, detail: Some(ended.to_string()), ..ended };
                return Err(refused.next("start that node before"));
            }
        }
        Ok(())
    }

    fn drop_member(&self, number: usize) -> Result<(), StoreError> {
        let member = self.find(number)?;
        self.members.write().unwrap_or_else(PoisonError::into_inner).retain(|member| member.node.number != number);
        let ended = locked(&member.server).end();
        provisions::give_back(&member.node.ports);
        ended
    }

    /// Calls `act` for the server of each of `nodes`, last started first, and returns when it began and ended.
    fn each(
        &self,
        nodes: Nodes,
        act: impl Fn(&mut PrivateServer) -> Result<(), StoreError>,
    ) -> Result<Span, StoreError> {
        let from = Instant::now();
        self.stages(nodes)?.into_iter().rev().flatten().try_for_each(|number| self.on(number, &act))?;
        Ok(Span { from, until: Instant::now() })
    }

    /// Returns the numbers of `nodes` in start order.
    fn numbers(&self, nodes: Nodes) -> Result<Vec<usize>, StoreError> {
        Ok(self.stages(nodes)?.into_iter().flatten().collect())
    }

    /// Returns the numbers of `nodes` in start order, grouped by stage.
    fn stages(&self, meant: Nodes) -> Result<Vec<Vec<usize>>, StoreError> {
        let nodes = self.nodes();
        let mut stages: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for node in &nodes {
            if meant == Nodes::All || meant == Nodes::One(node.number) {
                let stage = self.recipe.stage(self.member(&nodes, node.number, false)?);
                stages.entry(stage).or_default().push(node.number);
            }
        }
        match meant {
            Nodes::One(number) if stages.is_empty() => self.find(number).map(|_| Vec::new()),
            _ => Ok(stages.into_values().collect()),
        }
    }

    /// Does planned work on nodes, one after the other, by the roles that they have now.
    fn work_within(&self, nodes: Nodes, name: &str, waits: &Waits) -> Result<(), StoreError> {
        let (all, mut numbers) = (self.nodes(), self.numbers(nodes)?);
        let mut works: Vec<&str> = numbers.iter().flat_map(|number| self.works(*number)).copied().collect();
        numbers.retain(|number| self.works(*number).contains(&name));
        if numbers.is_empty() {
            works.sort_unstable();
            works.dedup();
            let what = match nodes {
                Nodes::All => format!("{} has no planned work `{name}`", self.spec.name),
                Nodes::One(number) => format!("node {} has no planned work `{name}` in its present role", number + 1),
            };
            let next = if works.is_empty() { "name another node" } else { "there are: " };
            return Err(StoreError::usage(what).next(format!("{next}{}", works.join(", "))));
        }
        numbers.into_iter().try_for_each(|number| {
            let launch = {
                let _guard = self.enter()?;
                self.recipe.work(name, self.member(&all, number, false)?, waits)?
            };
            launch.map_or(Ok(()), |launch| self.run_beside(number, &launch, waits))
        })
    }

    /// Returns the planned work of a node in its present role.
    fn works(&self, number: usize) -> &'static [&'static str] {
        self.recipe.works(self.position(number))
    }

    /// Runs a program to its end beside the server of a node, which other threads use meanwhile. Its working directory
    /// is a new one, and removed afterwards.
    fn run_beside(&self, number: usize, launch: &Launch, waits: &Waits) -> Result<(), StoreError> {
        let mut beside = self.new_server(waits)?;
        self.find(number)?.host.iter().for_each(|host| beside.live_on(host.namespace()));
        beside.run(launch, waits.work())?;
        beside.close()
    }

    fn member<'a>(&self, nodes: &'a [Arc<Node>], number: usize, is_first: bool) -> Result<Member<'a>, StoreError> {
        let node = nodes.iter().find(|node| node.number == number);
        let node = node.ok_or_else(|| StoreError::usage(format!("there is no node {}", number + 1)))?;
        Ok(Member { nodes, node, is_first, primary: self.promotion().primary })
    }

    /// Makes the files of a node and runs its set-up program, before its first start.
    fn set_up(&self, node: Member<'_>) -> Result<(), StoreError> {
        let (files, program) = (self.recipe.files(node)?, self.recipe.set_up(node)?);
        self.on(node.number, |server| {
            files.iter().try_for_each(|(name, bytes)| server.put(name, bytes))?;
            let run = |launch| server.run(&provisions::set_up_by(launch, &node.data_dir), SET_UP_BOUND);
            program.map_or(Ok(()), run)
        })
    }

    /// Launches nodes, all of a stage together, and waits until each is ready before the next stage.
    fn bring_up(&self, meant: Nodes, anew: bool, progress: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        let (nodes, _guard) = (self.nodes(), self.enter()?);
        let running: Vec<usize> = self.running().iter().map(|node| node.number).collect();
        if meant == Nodes::All && !anew && running.is_empty() {
            let run = |node: &Node, launch: &Launch| self.on(node.number, |server| server.run(launch, RECOVER_BOUND));
            self.recipe.recover(&nodes, &run)?;
        }
        for (position, stage) in self.stages(meant)?.into_iter().enumerate() {
            if position > 0 {
                progress(&format!("{}: starting {} more of {}", self.spec.name, stage.len(), nodes.len()));
            }
            let is_first = position == 0 && meant == Nodes::All && running.is_empty();
            // `Nodes::All` starts the nodes that do not run.
            let stage: Vec<usize> =
                stage.into_iter().filter(|number| meant != Nodes::All || !running.contains(number)).collect();
            self.note_start(&stage, true);
            let started = self.start_stage(&stage, &nodes, is_first, anew);
            self.note_start(&stage, false);
            started?;
        }
        Ok(())
    }

    /// Launches nodes together and waits until each is ready.
    fn start_stage(&self, stage: &[usize], nodes: &[Arc<Node>], is_first: bool, anew: bool) -> Result<(), StoreError> {
        let stale: Vec<usize> = stage.iter().copied().filter(|one| self.promotion().stale.contains(one)).collect();
        for number in stage {
            let member = self.member(nodes, *number, is_first)?;
            if anew {
                self.set_up(member)?;
            }
            let rejoin = if stale.contains(number) { self.recipe.rejoin(member, &self.waits)? } else { None };
            rejoin.map_or(Ok(()), |launch| self.on(*number, |server| server.run(&launch, SET_UP_BOUND)))?;
            let launch = self.recipe.launch(member)?;
            self.on(*number, |server| {
                if server.pid().is_none() {
                    server.clear_sockets();
                }
                server.start(&launch)
            })?;
        }
        stage.iter().try_for_each(|number| self.until_ready(*number, nodes))?;
        stale.into_iter().try_for_each(|number| {
            self.recipe.rejoined(self.member(nodes, number, false)?, &self.waits)?;
            self.promotion().stale.remove(&number);
            Ok(())
        })
    }

    /// Notes that nodes are being started, or no longer are.
    fn note_start(&self, stage: &[usize], begins: bool) {
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        starting.retain(|number, _| !stage.contains(number));
        starting.extend(stage.iter().filter(|_| begins).map(|number| (*number, Instant::now())));
    }

    fn until_ready(&self, number: usize, nodes: &[Arc<Node>]) -> Result<(), StoreError> {
        let bound = START_BOUND.min(self.waits.work());
        let (until, waits) = (Instant::now() + bound, self.waits.with_answer(LOOK_BOUND.min(bound)));
        let node = self.member(nodes, number, false)?;
        loop {
            // Not locked during the request, so that another thread can end the server meanwhile.
            self.on(number, PrivateServer::check)?;
            let Err(error) = self.recipe.ready(&node, &waits) else { return Ok(()) };
            match error.kind {
                StoreErrorKind::Interrupted => return Err(error),
                StoreErrorKind::Unreachable if Instant::now() < until => self.waits.pause(LOOK_INTERVAL)?,
                _ => {
                    let is_late = error.kind == StoreErrorKind::Unreachable;
                    let after = if is_late { format!(" after {} s", bound.as_secs()) } else { String::new() };
                    let what = format!("the private {} server accepts no connections{after}", self.spec.name);
                    let why = StoreError::new(StoreErrorKind::Broken, what).detail(error.to_string());
                    return self.on(number, |server| Err(server.give_up(why)));
                }
            }
        }
    }
}
