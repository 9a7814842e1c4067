//! Servers of our own that run by a store's recipe: a cluster of one node or more, each in a place of its own, one
//! supervisor for all.

mod provisions;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Launch, Limits, Member, Node, Nodes, Progress, Recipe, ServerSpec, Servers, Setting, Span, StoreError,
    StoreErrorKind, Waits,
};

use crate::disks::Disks;
use crate::ending::Ending;
use crate::hosts::{Entered, Host, Link, Network};
use crate::limits;
use crate::private_server::PrivateServer;
use crate::proxy;
use crate::supervisor::Supervisor;
use crate::user::ServerUser;

/// How long making a data directory may take, its sync on a slow disk included.
const SET_UP_BOUND: Duration = Duration::from_secs(180);
/// How long a start may take, recovery after a crash and loading the data included.
const START_BOUND: Duration = Duration::from_secs(600);
/// How long a stop may take: it writes all that is dirty in memory.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// How long a program may take that finds out what data a node has.
const RECOVER_BOUND: Duration = Duration::from_secs(120);
/// Between two looks whether a node is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(10);

/// A running cluster. It ends, with all its files, when it is closed, dropped (its logs are kept then, for something
/// failed), or Plimsoll dies. Everything that can be done to it meanwhile is said of [`Servers`].
pub struct Cluster(ClusterHandle);

/// Where servers may have their directories.
#[derive(Debug, Clone)]
pub struct Bases {
    /// Best first: the first is taken that the servers' user can get to.
    pub places: Vec<PathBuf>,
    /// Where their data are, if that is elsewhere: on disks that can lose power.
    pub(crate) disks: Option<Arc<Disks>>,
}

impl<T: AsRef<[PathBuf]> + ?Sized> From<&T> for Bases {
    fn from(places: &T) -> Self {
        Self { places: places.as_ref().to_owned(), disks: None }
    }
}

/// What acts on the servers of a cluster, for any thread. It keeps nobody from ending them.
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
    members: RwLock<Vec<Made>>,
    /// Numbers of nodes that are being started, since when.
    starting: Mutex<BTreeMap<usize, Instant>>,
    waits: Waits,
}

/// A node's server at one moment.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How it ended that should run; `None` while it runs, or where it was stopped by somebody.
    pub ended: Option<(Ending, StoreError)>,
    /// The id of its process.
    pub pid: Option<u32>,
}

/// One node and what it is made of.
#[derive(Clone)]
struct Made {
    node: Arc<Node>,
    server: Arc<Mutex<PrivateServer>>,
    /// What it is on, where that is not this machine's own network.
    host: Option<Arc<Host>>,
    log: Arc<Path>,
    root: Arc<Path>,
}

impl Cluster {
    /// Makes directories under the first of `bases` that the servers' user can get to, starts the nodes there and makes a
    /// cluster of them. Logs are copied to `log_dir` if anything fails. `progress` is told what takes a while.
    ///
    /// # Errors
    /// `Missing` when a program is not installed; `Permission` when no base will do; `DiskFull`; `AddressTaken`; `Broken`
    /// with the last words of a node that does not start.
    pub fn start(
        recipe: Box<dyn Recipe>,
        bases: impl Into<Bases>,
        log_dir: &Path,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        Self::start_under(Supervisor::start()?, Limits::default(), recipe, bases, log_dir, waits, progress)
    }

    /// The same, with its nodes under a supervisor that runs already, and with limits for each of them.
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
        let (running, nodes, _there) = (&cluster.0.0, cluster.nodes(), cluster.0.enter()?);
        running.bring_up(Nodes::All, true, progress)?;
        running.recipe.form(&nodes, waits)?;
        running.recipe.until_whole(&nodes, waits)?;
        Ok(cluster)
    }

    /// What acts on the servers.
    pub fn handle(&self) -> ClusterHandle {
        self.0.clone()
    }

    /// Ends all nodes at once, removes their files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        self.0.0.members().iter().map(|member| locked(&member.server).end()).fold(Ok(()), Result::and)
    }
}

impl ClusterHandle {
    /// The same, with nothing but what is done to servers.
    pub fn servers(&self) -> Arc<dyn Servers> {
        Arc::clone(&self.0) as Arc<dyn Servers>
    }

    /// What a node was to the cluster when it was made.
    pub fn role(&self, number: usize) -> &'static str {
        self.0.recipe.role(number)
    }

    /// The number of the node that takes all writes just now.
    ///
    /// # Errors
    /// `Usage` where none does; when no node says so.
    pub(crate) fn primary(&self) -> Result<usize, StoreError> {
        let _there = self.0.enter()?;
        self.0.recipe.primary(&self.0.nodes(), &self.0.waits)
    }

    /// Which of the machines a node is in, each with a disk of its own; `None` where it keeps no data.
    ///
    /// # Errors
    /// `Usage` where there is no such node.
    pub(crate) fn machine(&self, number: usize) -> Result<Option<usize>, StoreError> {
        self.0.find(number).map(|_| self.0.machine(number))
    }

    /// Where a node's log is, and the directory that all its files are in.
    ///
    /// # Errors
    /// `Usage` where there is no such node.
    pub fn files(&self, number: usize) -> Result<(PathBuf, PathBuf), StoreError> {
        let made = self.0.find(number)?;
        Ok((made.log.to_path_buf(), made.root.to_path_buf()))
    }

    /// The host that operations are sent from, where the nodes have hosts of their own.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.0.network.as_ref()
    }

    /// Has this link between a node's host and all others from now on.
    ///
    /// # Errors
    /// `Usage` where there is no such node, it has no host of its own, or there can be no such link; as the kernel says.
    pub fn set_link(&self, number: usize, link: Link) -> Result<(), StoreError> {
        let host = self.0.find(number)?.host.ok_or_else(|| {
            let what = format!("{} is on this machine's own network, which has no links", self.0.spec.name);
            StoreError::usage(what).next("make a cluster of several: plimsoll list stores")
        })?;
        host.set_link(link)
    }

    /// What the link of a node's host does; plain where it is on this machine's own network.
    ///
    /// # Errors
    /// `Usage` where there is no such node.
    pub fn link(&self, number: usize) -> Result<Link, StoreError> {
        Ok(self.0.find(number)?.host.map(|host| host.link()).unwrap_or_default())
    }

    /// A node's server as it is just now; `None` while something is being done to it.
    ///
    /// # Errors
    /// `Usage` where there is no such node.
    pub fn seen(&self, number: usize) -> Result<Option<Seen>, StoreError> {
        let made = self.0.find(number)?;
        let mut server = match made.server.try_lock() {
            Ok(server) => server,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        Ok(Some(Seen { ended: server.ended(), pid: server.pid() }))
    }

    /// Numbers of nodes that are being started, since when.
    pub fn starting(&self) -> BTreeMap<usize, Instant> {
        self.0.starting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a node says of what runs long on it; each of its answers may take `bound`.
    ///
    /// # Errors
    /// `Usage` where there is no such node; when it does not answer.
    pub fn progress(&self, number: usize, bound: Duration) -> Result<Vec<Progress>, StoreError> {
        let (nodes, _there) = (self.0.nodes(), self.0.enter()?);
        self.0.recipe.progress(self.0.member(&nodes, number, false)?, &self.0.waits.with_answer(bound))
    }

    /// Has the calling thread, with what it starts meanwhile, on the host that operations are sent from until the value
    /// is dropped; `None` where the nodes are on this machine's own network.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn enter(&self) -> Result<Option<Entered>, StoreError> {
        self.0.enter()
    }

    /// The network namespace of a node's host; `None` where it is on this machine's own network.
    ///
    /// # Errors
    /// `Usage` where there is no such node.
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
        // Somebody may have a handle still. Of one that was closed there is nothing left to end.
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
    fn members(&self) -> Vec<Made> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nodes of one host are in one machine.
    fn machine(&self, number: usize) -> Option<usize> {
        self.recipe.keeps_data(number).then(|| self.recipe.host(number))
    }

    fn enter(&self) -> Result<Option<Entered>, StoreError> {
        self.network.as_ref().map(|network| network.enter()).transpose()
    }

    fn find(&self, number: usize) -> Result<Made, StoreError> {
        let found = self.members().into_iter().find(|member| member.node.number == number);
        found.ok_or_else(|| StoreError::usage(format!("there is no node {}", number + 1)))
    }

    /// Does something to the server of a node.
    fn on<T>(
        &self,
        number: usize,
        act: impl FnOnce(&mut PrivateServer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        act(&mut locked(&self.find(number)?.server))
    }

    /// Makes the place of a node, and a host if it is to have one.
    fn add_member(&self, number: usize, free_ports: impl Iterator<Item = u16>) -> Result<(), StoreError> {
        let mut server = PrivateServer::new(
            &self.supervisor,
            self.spec,
            self.user.clone(),
            &self.bases.places,
            &self.log_dir,
            &self.waits,
        )?;
        if let Some((disks, machine)) = self.bases.disks.as_ref().zip(self.machine(number)) {
            server.keep_data_in(&disks.mount_point(machine, Some(&self.user))?)?;
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
            address: host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.address()),
            ports: match host {
                Some(_) => self.recipe.ports(number).to_vec(),
                None => free_ports.take(self.spec.ports.len()).collect(),
            },
            secret: self.secret.clone(),
            limits: self.limits.clone(),
        };
        let (log, root) = (Arc::from(server.log()), Arc::from(server.root_dir()));
        let member = Made { node: Arc::new(node), server: Arc::new(Mutex::new(server)), host, log, root };
        self.members.write().unwrap_or_else(PoisonError::into_inner).push(member);
        Ok(())
    }

    /// The host of a node: another's, where the recipe says so, or a new one.
    fn host_of(&self, number: usize, network: &Arc<Network>) -> Result<Arc<Host>, StoreError> {
        let host = self.recipe.host(number);
        let shares = |member: &Made| self.recipe.host(member.node.number) == host;
        match self.members().into_iter().find(shares).and_then(|member| member.host) {
            Some(host) => Ok(host),
            None => network.add_host().map(Arc::new),
        }
    }

    fn drop_member(&self, number: usize) -> Result<(), StoreError> {
        let member = self.find(number)?;
        self.members.write().unwrap_or_else(PoisonError::into_inner).retain(|member| member.node.number != number);
        let ended = locked(&member.server).end();
        provisions::give_back(&member.node.ports);
        ended
    }

    /// Does something to each of `nodes`, those that were started last first, and says when.
    fn each(
        &self,
        nodes: Nodes,
        act: impl Fn(&mut PrivateServer) -> Result<(), StoreError>,
    ) -> Result<Span, StoreError> {
        let from = Instant::now();
        self.stages(nodes)?.into_iter().rev().flatten().try_for_each(|number| self.on(number, &act))?;
        Ok(Span { from, until: Instant::now() })
    }

    /// The numbers of `nodes` in the order in which they are started: each stage together.
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

    fn member<'a>(&self, nodes: &'a [Arc<Node>], number: usize, is_first: bool) -> Result<Member<'a>, StoreError> {
        let node = nodes.iter().find(|node| node.number == number);
        let node = node.ok_or_else(|| StoreError::usage(format!("there is no node {}", number + 1)))?;
        Ok(Member { nodes, node, is_first })
    }

    /// What a node needs before its first start.
    fn set_up(&self, node: Member<'_>) -> Result<(), StoreError> {
        let (files, program) = (self.recipe.files(node)?, self.recipe.set_up(node)?);
        self.on(node.number, |server| {
            files.iter().try_for_each(|(name, bytes)| server.put(name, bytes))?;
            program.map_or(Ok(()), |launch| server.run(&launch, SET_UP_BOUND))
        })
    }

    /// Launches nodes, all of a stage together, and waits until each is ready before the next stage.
    fn bring_up(&self, meant: Nodes, anew: bool, progress: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        let (nodes, _there) = (self.nodes(), self.enter()?);
        let running: Vec<usize> = self.running().iter().map(|node| node.number).collect();
        if meant == Nodes::All && !anew && running.is_empty() {
            let run = |node: &Node, launch: &Launch| self.on(node.number, |server| server.run(launch, RECOVER_BOUND));
            self.recipe.recover(&nodes, &run)?;
        }
        for (place, stage) in self.stages(meant)?.into_iter().enumerate() {
            if place > 0 {
                progress(&format!("{}: starting {} more of {}", self.spec.name, stage.len(), nodes.len()));
            }
            let is_first = place == 0 && meant == Nodes::All && running.is_empty();
            // Of all nodes those are started that do not run.
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
        for number in stage {
            let member = self.member(nodes, *number, is_first)?;
            if anew {
                self.set_up(member)?;
            }
            let launch = self.recipe.launch(member)?;
            self.on(*number, |server| {
                if server.pid().is_none() {
                    server.clear_sockets();
                }
                server.start(&launch)
            })?;
        }
        stage.iter().try_for_each(|number| self.until_ready(*number, nodes))
    }

    /// Notes that nodes are being started, or are no longer.
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
            // Not held while it is asked, so that somebody may end it meanwhile.
            self.on(number, PrivateServer::check)?;
            let Err(error) = self.recipe.ready(&node, &waits) else { return Ok(()) };
            match error.kind {
                StoreErrorKind::Interrupted => return Err(error),
                StoreErrorKind::Unreachable if Instant::now() < until => self.waits.pause(LOOK_INTERVAL)?,
                _ => {
                    let is_late = error.kind == StoreErrorKind::Unreachable;
                    let after = if is_late { format!(" after {} s", bound.as_secs()) } else { String::new() };
                    let what = format!("the private {} takes no connections{after}", self.spec.name);
                    let why = StoreError::new(StoreErrorKind::Broken, what).detail(error.to_string());
                    return self.on(number, |server| Err(server.give_up(why)));
                }
            }
        }
    }
}

impl Servers for Running {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.members().into_iter().map(|member| member.node).collect()
    }

    fn settings(&self) -> Vec<Setting> {
        let roles = self.members().into_iter().map(|member| self.recipe.role(member.node.number)).collect::<Vec<_>>();
        self.limits.settings().into_iter().chain(proxy::setting(roles.into_iter())).collect()
    }

    fn pids(&self) -> Vec<u32> {
        self.members().iter().filter_map(|member| locked(&member.server).pid()).collect()
    }

    fn check(&self, nodes: Nodes) -> Result<(), StoreError> {
        self.stages(nodes)?.into_iter().flatten().try_for_each(|number| self.on(number, PrivateServer::check))
    }

    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, PrivateServer::kill)
    }

    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |server| server.stop(self.spec.stop, STOP_BOUND))
    }

    fn start(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let from = Instant::now();
        self.bring_up(nodes, false, &mut |_| {})?;
        if nodes == Nodes::All {
            let _there = self.enter()?;
            self.recipe.until_whole(&self.nodes(), &self.waits)?;
        }
        Ok(Span { from, until: Instant::now() })
    }

    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |server| server.pause(true))
    }

    fn reload(&self, nodes: Nodes) -> Result<Span, StoreError> {
        if !self.spec.reloads {
            let what = format!("{} reads its settings at its start only", self.spec.name);
            return Err(StoreError::usage(what).next("restart it, which ends its sessions: plimsoll lab restart"));
        }
        let from = Instant::now();
        let _there = self.enter()?;
        for number in self.stages(nodes)?.into_iter().flatten() {
            self.on(number, |server| server.check())?;
            if !self.recipe.reload(&self.find(number)?.node, &self.waits)? {
                self.on(number, PrivateServer::reload)?;
            }
        }
        Ok(Span { from, until: Instant::now() })
    }

    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |server| server.pause(false))
    }

    fn add(&self) -> Result<usize, StoreError> {
        self.recipe.takes_more()?;
        let number = self.members().iter().map(|member| member.node.number + 1).max().unwrap_or(0);
        let ports = if self.spec.hosts == 0 { provisions::free_ports(self.spec.ports.len())? } else { Vec::new() };
        self.add_member(number, ports.into_iter())?;
        let joined = self.bring_up(Nodes::One(number), true, &mut |_| {}).and_then(|()| {
            let (nodes, _there) = (self.nodes(), self.enter()?);
            self.recipe.join(self.member(&nodes, number, false)?, &self.waits)?;
            self.recipe.until_whole(&nodes, &self.waits)
        });
        if joined.is_err() {
            self.drop_member(number)?;
        }
        joined.map(|()| number)
    }

    fn remove(&self, number: usize) -> Result<(), StoreError> {
        let (nodes, _there) = (self.nodes(), self.enter()?);
        self.recipe.part(self.member(&nodes, number, false)?, &self.waits)?;
        self.on(number, |server| server.stop(self.spec.stop, STOP_BOUND))?;
        self.drop_member(number)?;
        self.recipe.until_whole(&self.nodes(), &self.waits)
    }

    fn run(&self, node: usize, launch: &Launch, bound: Duration) -> Result<(), StoreError> {
        self.on(node, |server| server.run(launch, bound))
    }
}
