//! Clusters: private servers of one node or more that run by a store's recipe, each in its own directory, with one
//! supervisor for all.

mod faults;
mod handle;
mod members;
mod programs;
pub(crate) mod progress;
mod provisions;
mod servers;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use plimsoll_core::waits::TICK;
use plimsoll_core::{
    ClockChange, Launch, Limits, Member, Node, Nodes, Recipe, ServerSpec, Servers, Span, StoreError, StoreErrorKind,
    Waits,
};

use crate::disks::Disks;
use crate::ending::Ending;
use crate::hosts::{Host, NamespaceGuard, Network};
use crate::private_server::PrivateServer;
use crate::supervisor::Supervisor;
use crate::user::ServerUser;
pub use programs::OtherProgram;
use progress::LatestLook;
pub use provisions::claim_port;

/// Longest time for a stop: the server writes all dirty memory.
const STOP_BOUND: Duration = Duration::from_secs(180);

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
    /// Numbers of nodes whose joins or starts are waited for, once for each wait.
    awaited: Mutex<Vec<usize>>,
    /// Number of requests for planned work in progress: no server is asked for its progress.
    works_running: AtomicUsize,
    latest_look: Mutex<LatestLook>,
    promotion: Mutex<Promotion>,
    /// Programs of nodes that are not their recipe's, by the nodes' numbers.
    other_programs: Mutex<BTreeMap<usize, OtherProgram>>,
    /// Held by a promotion, and by a start until its nodes are launched: a node that is launched in between would come
    /// back as a second primary.
    promoting: Mutex<()>,
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

/// Answers of a node that is ready.
#[derive(Debug, Clone)]
pub(crate) struct NodeAnswer {
    /// Present role.
    pub role: &'static str,
    /// State in the words of the node's own cluster; empty if it has none.
    pub own_state: String,
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
    /// Time at which the node was added.
    added: Instant,
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
            awaited: Mutex::default(),
            works_running: AtomicUsize::new(0),
            latest_look: Mutex::default(),
            promotion: Mutex::default(),
            other_programs: Mutex::default(),
            promoting: Mutex::default(),
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
            running.add_member(number, ports.iter().skip(number * spec.ports.len()).copied(), None)?;
        }
        let cluster = Self(ClusterHandle(running));
        let (running, nodes, _guard) = (&cluster.0.0, cluster.nodes(), cluster.0.enter()?);
        running.bring_up(Nodes::All, true, waits, progress)?;
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

impl Deref for Cluster {
    type Target = dyn Servers;

    fn deref(&self) -> &Self::Target {
        &*self.0.0
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn members(&self) -> Vec<ClusterMember> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn starting(&self) -> BTreeMap<usize, Instant> {
        locked(&self.starting).clone()
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
        found.ok_or_else(|| {
            let numbers: Vec<String> =
                self.members().iter().map(|member| (member.node.number + 1).to_string()).collect();
            let what = format!("there is no node {}", number + 1);
            StoreError::usage(what).next(format!("there are nodes {}", numbers.join(", ")))
        })
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
            let _guard = self.enter()?;
            let takes_writes =
                |node: &Arc<Node>| self.recipe.keeps_data(node.number) && self.is_replica(node) != Some(true);
            let first = self.running().into_iter().find(takes_writes);
            let none = || {
                let what = format!("no node of {} runs", self.spec.name);
                StoreError::new(StoreErrorKind::Unreachable, what)
                    .next("start one first: the fault `restart NODES`, in a lab plimsoll lab start")
            };
            return first.map(|node| node.number).ok_or_else(none);
        }
        if self.recipe.promotes().is_ok() && !self.recipe.switches_over() {
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
            // The nodes are asked for their roles.
            _ if self.recipe.switches_over() => number,
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
        locked(&self.promotion)
    }

    /// Waits until no other promotion or launch of nodes goes on, and keeps others waiting while the guard exists.
    fn promoting(&self, waits: &Waits) -> Result<MutexGuard<'_, ()>, StoreError> {
        let next = "Look if the node that is promoted or started hangs";
        waits.until(TICK, next, || {
            Ok(match self.promoting.try_lock() {
                Ok(guard) => Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => Err("another promotion or start goes on".to_owned()),
            })
        })
    }

    /// Returns the lowest number of a running node that is a replica, and follows the primary. Where nodes do not say that,
    /// it holds data and is not the primary.
    fn replica(&self) -> Result<usize, StoreError> {
        let primary = self.primary()?;
        let _guard = self.enter()?;
        let stale = self.promotion().stale.clone();
        let is_one = |node: &Arc<Node>| {
            let is_other = node.number != primary && self.recipe.keeps_data(node.number);
            is_other && !stale.contains(&node.number) && self.is_replica(node).unwrap_or(true)
        };
        let no_replica = || StoreError::usage(format!("no replica of {} runs", self.spec.name));
        let replica = self.running().into_iter().find(is_one).map(|node| node.number);
        replica.ok_or_else(|| no_replica().next("name a node by its number: node 1"))
    }

    /// Asks a node whether it is a replica now.
    fn is_replica(&self, node: &Node) -> Option<bool> {
        self.recipe.is_replica(node, &self.waits.with_answer(progress::ANSWER_BOUND))
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
            if meant.has(node.number) {
                let stage = self.recipe.stage(self.member(&nodes, node.number, false)?);
                stages.entry(stage).or_default().push(node.number);
            }
        }
        match meant {
            Nodes::One(number) if stages.is_empty() => return self.find(number).map(|_| Vec::new()),
            Nodes::Several(all) => all.numbers().try_for_each(|number| self.find(number).map(drop))?,
            Nodes::One(_) | Nodes::All => {}
        }
        Ok(stages.into_values().collect())
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
                Nodes::Several(all) => format!("none of the nodes {all} has planned work `{name}` in its present role"),
            };
            let next = if works.is_empty() { "name another node" } else { "there are: " };
            return Err(StoreError::usage(what).next(format!("{next}{}", works.join(", "))));
        }
        self.works_running.fetch_add(1, Ordering::SeqCst);
        let done = numbers.into_iter().try_for_each(|number| {
            let launch = self.work_unless_hung(name, number, waits, |waits| {
                let _guard = self.enter()?;
                self.recipe.work(name, self.member(&all, number, false)?, waits)
            })?;
            launch.map_or(Ok(()), |launch| self.run_beside(number, &launch, waits))
        });
        self.works_running.fetch_sub(1, Ordering::SeqCst);
        done
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
}
