//! Servers of our own that run by a store's recipe: a cluster of one node or more, each in a place of its own, one
//! supervisor for all.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Launch, Member, Node, Nodes, Recipe, ServerSpec, Servers, Span, StoreError, StoreErrorKind, Waits,
};

use crate::hosts::{Entered, Host, Network};
use crate::private_server::PrivateServer;
use crate::supervisor::Supervisor;
use crate::user::ServerUser;

/// How long making a data directory may take, its sync on a slow disk included.
const SET_UP_BOUND: Duration = Duration::from_secs(180);
/// How long a start may take, recovery after a crash and loading the data included.
const START_BOUND: Duration = Duration::from_secs(600);
/// How long a stop may take: it writes all that is dirty in memory.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// Between two looks whether a node is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(10);
/// Bytes of what only the nodes and we know.
const SECRET_BYTES: usize = 24;

/// A running cluster. It ends, with all its files, when it is closed, dropped (its logs are kept then, for something
/// failed), or Plimsoll dies. Everything that can be done to it meanwhile is said of [`Servers`].
pub struct Cluster {
    running: Arc<Running>,
    /// The thread that has started it, and what that starts, reaches its hosts.
    _there: Option<Entered>,
}

struct Running {
    recipe: Box<dyn Recipe>,
    spec: ServerSpec,
    nodes: Vec<Node>,
    /// One for each node.
    servers: Vec<Mutex<PrivateServer>>,
    /// What they are on, where that is not this machine's own network.
    _hosts: Vec<Host>,
    waits: Waits,
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
        bases: &[PathBuf],
        log_dir: &Path,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let spec = recipe.spec();
        let user = ServerUser::caller_or(spec.user, spec.package)?;
        progress(&format!("starting a private {}", spec.name));
        let supervisor = Supervisor::start()?;
        let network = (spec.hosts > 0).then(Network::shared).transpose()?;
        let hosts: Vec<Host> =
            network.iter().flat_map(|network| (0..spec.hosts).map(|_| network.add_host())).collect::<Result<_, _>>()?;
        let ports = if hosts.is_empty() { free_ports(spec.nodes * spec.ports.len())? } else { Vec::new() };
        let secret = secret()?;
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for number in 0..spec.nodes {
            let host = hosts.get(recipe.host(number));
            let mut server = PrivateServer::new(&supervisor, spec, user.clone(), bases, log_dir, waits)?;
            nodes.push(Node {
                number,
                data_dir: server.data_dir().to_owned(),
                socket_dir: server.socket_dir().to_owned(),
                address: host.map_or(Ipv4Addr::LOCALHOST, Host::address),
                ports: match host {
                    Some(_) => spec.ports.to_vec(),
                    None => ports[number * spec.ports.len()..][..spec.ports.len()].to_vec(),
                },
                secret: secret.clone(),
            });
            host.into_iter().for_each(|host| server.live_on(host.namespace()));
            servers.push(Mutex::new(server));
        }
        let there = network.map(|network| network.enter()).transpose()?;
        let running = Arc::new(Running { recipe, spec, nodes, servers, _hosts: hosts, waits: waits.clone() });
        let cluster = Self { running, _there: there };
        cluster.running.bring_up(Nodes::All, true, progress)?;
        cluster.running.recipe.form(&cluster.running.nodes, waits)?;
        cluster.running.recipe.until_whole(&cluster.running.nodes, waits)?;
        Ok(cluster)
    }

    /// What acts on the servers, for any thread. It keeps nobody from ending them.
    pub fn handle(&self) -> Arc<dyn Servers> {
        Arc::clone(&self.running) as Arc<dyn Servers>
    }

    /// Ends all nodes at once, removes their files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        (0..self.running.nodes.len()).map(|number| self.running.server(number).end()).fold(Ok(()), Result::and)
    }
}

impl Deref for Cluster {
    type Target = dyn Servers;

    fn deref(&self) -> &Self::Target {
        &*self.running
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Somebody may have a handle still. Of one that was closed there is nothing left to end.
        (0..self.running.nodes.len()).for_each(|number| self.running.server(number).abandon());
    }
}

impl Running {
    fn server(&self, number: usize) -> MutexGuard<'_, PrivateServer> {
        self.servers[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to each of `nodes`, those that were started last first, and says when.
    fn each(&self, nodes: Nodes, mut act: impl FnMut(usize) -> Result<(), StoreError>) -> Result<Span, StoreError> {
        let from = Instant::now();
        self.stages(nodes).into_iter().rev().flatten().try_for_each(&mut act)?;
        Ok(Span { from, until: Instant::now() })
    }

    /// `nodes` in the order in which they are started: each stage together.
    fn stages(&self, nodes: Nodes) -> Vec<Vec<usize>> {
        let mut stages: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let numbers = match nodes {
            Nodes::All => 0..self.nodes.len(),
            Nodes::One(number) => number..number + 1,
        };
        for number in numbers {
            stages.entry(self.recipe.stage(self.member(number, false))).or_default().push(number);
        }
        stages.into_values().collect()
    }

    fn member(&self, number: usize, is_first: bool) -> Member<'_> {
        Member { nodes: &self.nodes, number, is_first }
    }

    /// What a node needs before its first start.
    fn set_up(&self, node: Member<'_>) -> Result<(), StoreError> {
        let files = self.recipe.files(node)?;
        let mut server = self.server(node.number);
        files.iter().try_for_each(|(name, bytes)| server.put(name, bytes))?;
        match self.recipe.set_up(node)? {
            Some(launch) => server.run(&launch, SET_UP_BOUND),
            None => Ok(()),
        }
    }

    /// Launches nodes, all of a stage together, and waits until each is ready before the next stage.
    fn bring_up(&self, nodes: Nodes, anew: bool, progress: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        for (place, stage) in self.stages(nodes).into_iter().enumerate() {
            if place > 0 {
                progress(&format!("{}: starting the next {} of {}", self.spec.name, stage.len(), self.nodes.len()));
            }
            let is_first = place == 0 && nodes == Nodes::All;
            for number in &stage {
                let member = self.member(*number, is_first);
                if anew {
                    self.set_up(member)?;
                }
                let launch = self.recipe.launch(member)?;
                let mut server = self.server(*number);
                if server.pid().is_none() {
                    server.clear_sockets();
                }
                server.start(&launch)?;
            }
            stage.into_iter().try_for_each(|number| self.until_ready(number))?;
        }
        Ok(())
    }

    fn until_ready(&self, number: usize) -> Result<(), StoreError> {
        let (until, waits) = (Instant::now() + START_BOUND, self.waits.with_answer(LOOK_BOUND));
        loop {
            // Not held while it is asked, so that somebody may end it meanwhile.
            self.server(number).check()?;
            let Err(error) = self.recipe.ready(&self.nodes[number], &waits) else { return Ok(()) };
            match error.kind {
                StoreErrorKind::Interrupted => return Err(error),
                StoreErrorKind::Unreachable if Instant::now() < until => self.waits.pause(LOOK_INTERVAL)?,
                _ => {
                    let what = format!("the private {} takes no connections", self.spec.name);
                    let why = StoreError::new(StoreErrorKind::Broken, what).detail(error.to_string());
                    return Err(self.server(number).give_up(why));
                }
            }
        }
    }
}

impl Servers for Running {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn pids(&self) -> Vec<u32> {
        (0..self.nodes.len()).filter_map(|number| self.server(number).pid()).collect()
    }

    fn check(&self, nodes: Nodes) -> Result<(), StoreError> {
        self.stages(nodes).into_iter().flatten().try_for_each(|number| self.server(number).check())
    }

    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |number| self.server(number).kill())
    }

    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |number| self.server(number).stop(self.spec.stop, STOP_BOUND))
    }

    fn start(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let from = Instant::now();
        self.bring_up(nodes, false, &mut |_| {})?;
        if nodes == Nodes::All {
            self.recipe.until_whole(&self.nodes, &self.waits)?;
        }
        Ok(Span { from, until: Instant::now() })
    }

    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |number| self.server(number).pause(true))
    }

    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |number| self.server(number).pause(false))
    }

    fn run(&self, node: usize, launch: &Launch, bound: Duration) -> Result<(), StoreError> {
        self.server(node).run(launch, bound)
    }
}

/// Ports of the loopback interface that nobody listens on.
fn free_ports(count: usize) -> Result<Vec<u16>, StoreError> {
    // All are held until all are known, so that none is found twice.
    let find = || {
        let all = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<std::io::Result<Vec<_>>>()?;
        all.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<_>>()
    };
    find().map_err(|error| StoreError::io("looking for free ports of 127.0.0.1", &error))
}

fn secret() -> Result<String, StoreError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::new(StoreErrorKind::Broken, format!("no random bytes to be had: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
