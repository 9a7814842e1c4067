//! Private servers: a store's description of how one is started, and the actions on running ones.
//!
//! A store's [`Recipe`] is as pure as possible: it takes values, and returns the files to write and the programs to
//! execute. `lab` executes it. The result is a cluster of one or more nodes, on which its [`Servers`] act.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock::ClockChange;
use crate::disk::NodeChoice;
use crate::error::StoreError;
use crate::failover::FailoverTime;
use crate::limits::{LimitChange, Limits};
use crate::link::Link;
use crate::progress::Progress;
use crate::store::Setting;
use crate::waits::Waits;

/// A signal that asks a server to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

/// Properties that all nodes of a cluster share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's name, as in "the private PostgreSQL"; the name of its log begins with it.
    pub name: &'static str,
    /// User that runs the server if Plimsoll runs as root.
    pub user: &'static str,
    /// The Debian package that makes that user.
    pub package: &'static str,
    /// Signal for an orderly shutdown.
    pub stop: StopSignal,
    /// Reloads its settings on SIGHUP, or by [`Recipe::reload`], without interrupting service.
    pub reloads: bool,
    /// Signal for the fastest shutdown, for when the data is not needed any more.
    pub leave: StopSignal,
    /// Number of nodes.
    pub nodes: usize,
    /// Ports that each node listens on, if it has its own host. Without one, it gets as many free ports on the
    /// loopback interface.
    pub ports: &'static [u16],
    /// Memory that one server takes with default settings and without data, as measured.
    pub memory_bytes: u64,
    /// Number of hosts for the nodes; 0 if they use this machine's own network.
    pub hosts: usize,
}

impl ServerSpec {
    /// Creates the spec of a single node that listens on no port and stops on SIGTERM.
    pub const fn new(name: &'static str, user: &'static str, package: &'static str) -> Self {
        Self {
            name,
            user,
            package,
            stop: StopSignal::Term,
            leave: StopSignal::Term,
            reloads: false,
            nodes: 1,
            ports: &[],
            memory_bytes: 0,
            hosts: 0,
        }
    }
}

/// A server of a cluster: the directories of its files and the addresses it listens on.
#[derive(Clone, Serialize, Deserialize)]
pub struct Node {
    /// Number of the node, from 0; never reused after the node has left.
    pub number: usize,
    /// The data directory: owned by the server's user, mode 0700.
    pub data_dir: PathBuf,
    /// The directory of its sockets: owned by the server's user, mode 0700, at most 60 bytes long; empty at every
    /// start.
    pub socket_dir: PathBuf,
    /// Directory for the write-ahead log on a disk of its own; `None` if the log is with the data.
    #[serde(default)]
    pub log_dir: Option<PathBuf>,
    /// Address of its host, or of the loopback interface.
    pub address: Ipv4Addr,
    /// Ports reserved for this node there, as many as the recipe needs.
    pub ports: Vec<u16>,
    /// A secret shared by all nodes: a password for the services that listen on ports.
    pub secret: String,
    /// Limits on its use of the machine.
    pub limits: Limits,
}

impl Node {
    /// The address with the port at `position`; port 0 if the node has fewer.
    pub fn listens_at(&self, position: usize) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.ports.get(position).copied().unwrap_or(0))
    }
}

/// Place of a node's running server on this machine. Its network namespace and control groups are those of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSite {
    /// Number of the node, from 0.
    pub node: usize,
    /// Id of the server's first process.
    pub pid: u32,
    /// A directory on the disk that has the node's data.
    pub directory: PathBuf,
}

/// A node, and the cluster that it is in.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a [Arc<Node>],
    /// The node itself.
    pub node: &'a Node,
    /// No other node runs: this one starts the cluster.
    pub is_first: bool,
    /// Number of the node that was made the primary last; at first that of the first node.
    pub primary: usize,
}

impl Member<'_> {
    /// Returns the node that was made the primary last.
    pub fn primary_node(&self) -> &Node {
        self.nodes.iter().find(|node| node.number == self.primary).map_or(self.node, |node| node)
    }
}

impl Deref for Member<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.node
    }
}

/// A program to execute as a node's user, with absolute paths in its arguments. Its working directory is the node's
/// data directory, or another one if the data is on a disk that can lose power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Name in messages.
    pub name: &'static str,
    /// Path of the executable.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

impl Launch {
    /// Creates a launch of `program` with `arguments`; messages call it `name`.
    pub fn new<A: Into<String>>(name: &'static str, program: PathBuf, arguments: impl IntoIterator<Item = A>) -> Self {
        Self { name, program, arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// Returns the error of a store without replicas that a command promotes.
pub fn no_promotion(store: &str) -> StoreError {
    StoreError::usage(format!("a replica of {store} cannot be promoted by a command"))
        .next("kill or cut the primary: the cluster chooses another one by itself, if it can")
}

/// Instructions for making servers of one kind, with the store's parameters filled in. Each store's folder holds its
/// own.
pub trait Recipe: Send + Sync {
    /// Properties that all nodes share.
    fn spec(&self) -> ServerSpec;

    /// Initial role of the node at this position, in the store's own term: `primary`, `sentinel`.
    fn role(&self, _node: usize) -> &'static str {
        "server"
    }

    /// Returns true if the role of the node may change other than by [`Recipe::promote`].
    fn changes_role(&self, _node: usize) -> bool {
        false
    }

    /// Returns the present role of a node that is ready and [changes it](Recipe::changes_role).
    ///
    /// # Errors
    /// If the node does not answer.
    fn present_role(&self, node: &Node, _waits: &Waits) -> Result<&'static str, StoreError> {
        Ok(self.role(node.number))
    }

    /// True if the node holds data that is lost with its disk. A proxy only has its configuration.
    fn keeps_data(&self, _node: usize) -> bool {
        true
    }

    /// True if nodes that hold data have their write-ahead log on a disk of its own.
    fn has_log_disk(&self) -> bool {
        false
    }

    /// True if one of the nodes takes all writes.
    fn has_primary(&self) -> bool {
        false
    }

    /// Number of the current primary, for a recipe that has one.
    ///
    /// # Errors
    /// If no node claims to be the primary.
    fn primary(&self, nodes: &[Arc<Node>], _waits: &Waits) -> Result<usize, StoreError> {
        Ok(nodes.first().map_or(0, |node| node.number))
    }

    /// Returns true if a node is a replica now, false if it is none or does not answer. `None` if several nodes take
    /// writes and all of them are alike, or one node is the [primary](Recipe::primary).
    fn is_replica(&self, _node: &Node, _waits: &Waits) -> Option<bool> {
        None
    }

    /// Returns the published formula of failover with the time-outs of these servers; `None` if no node takes the place
    /// of a lost primary by itself.
    fn failover_time(&self) -> Option<FailoverTime> {
        None
    }

    /// Fails if no replica can be made the primary, because the store does that itself or has none.
    ///
    /// # Errors
    /// `Usage`.
    fn promotes(&self) -> Result<(), StoreError> {
        Err(no_promotion(self.spec().name))
    }

    /// Makes a replica the primary.
    ///
    /// # Errors
    /// A refusal by the node.
    fn promote(&self, _to: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        self.promotes()
    }

    /// Makes a running replica follow the present primary. A node that does not [rejoins](Recipe::rejoin) before its
    /// next start.
    ///
    /// # Errors
    /// `Usage` if the node is no replica; an error if it does not answer.
    fn follow(&self, _node: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        self.promotes()
    }

    /// Returns the program that makes a former primary, or a replica that did not run during a promotion, follow the
    /// present primary.
    ///
    /// # Errors
    /// `Missing` if it is not installed; an error if the primary does not answer.
    fn rejoin(&self, _node: Member<'_>, _waits: &Waits) -> Result<Option<Launch>, StoreError> {
        Ok(None)
    }

    /// Makes a node that [rejoined](Recipe::rejoin), and runs again, follow the present primary.
    ///
    /// # Errors
    /// An error if the node or the primary does not answer.
    fn rejoined(&self, _node: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns true if clients reach the node over TCP.
    fn takes_tcp(&self, node: usize) -> bool {
        !self.ports(node).is_empty()
    }

    /// Fails if no single thread or process of the node's server can hang while the others serve.
    ///
    /// # Errors
    /// `Usage`.
    fn hangs(&self, _node: usize) -> Result<(), StoreError> {
        let what = format!("{} has no thread or process for each client, of which one could hang", self.spec().name);
        Err(StoreError::usage(what).next("suspend the whole server: pause instead of hang"))
    }

    /// Returns the ids of threads or processes of the node that serve one client each now.
    ///
    /// # Errors
    /// If the node does not answer.
    fn serving(&self, node: Member<'_>, _waits: &Waits) -> Result<Vec<u32>, StoreError> {
        self.hangs(node.number).map(|()| Vec::new())
    }

    /// Ports that the node listens on, if it has its own host.
    fn ports(&self, _node: usize) -> &'static [u16] {
        self.spec().ports
    }

    /// Number of the cluster's host that the node is on.
    fn host(&self, node: usize) -> usize {
        node
    }

    /// Start stage of a node: nodes of stage 0 start first and in parallel, those of the next stage when these are
    /// ready. Nodes stop in the opposite order.
    fn stage(&self, _node: Member<'_>) -> usize {
        0
    }

    /// Files of a node before its first start, by their paths relative to its data directory. A path that ends with
    /// `/` is a directory.
    ///
    /// # Errors
    /// Invalid values of the store's parameters, or a missing program.
    fn files(&self, _node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(Vec::new())
    }

    /// Program that creates a node's data directory before its first start, if one is needed. Nodes of an earlier
    /// [`Recipe::stage`] run by then.
    ///
    /// # Errors
    /// `Missing`, with the line that installs it.
    fn set_up(&self, _node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        Ok(None)
    }

    /// A node's server, which stays in the foreground and logs to standard output or standard error.
    ///
    /// # Errors
    /// `Missing`, with the line that installs it.
    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError>;

    /// Checks as a client whether a node is ready.
    ///
    /// # Errors
    /// `Unreachable` while it is not ready yet; any other error means that it never will be.
    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError>;

    /// Returns the state of a node that is ready in the words of its own cluster, for people; empty if it has none.
    ///
    /// # Errors
    /// If the node does not answer.
    fn own_state(&self, _node: &Node, _waits: &Waits) -> Result<String, StoreError> {
        Ok(String::new())
    }

    /// Forms a cluster of nodes that are ready, once.
    ///
    /// # Errors
    /// A refusal by a node.
    fn form(&self, _nodes: &[Arc<Node>], _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until nodes that are ready, and were a cluster before, form one again.
    ///
    /// # Errors
    /// `Broken` if they do not.
    fn until_whole(&self, _nodes: &[Arc<Node>], _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes a node's server reload its settings, if SIGHUP does not do that. Returns true if it did.
    ///
    /// # Errors
    /// A refusal by the server.
    fn reload(&self, _node: &Node, _waits: &Waits) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Long-running work on a node, which may have only begun to start, and on the nodes that it serves.
    ///
    /// # Errors
    /// If the node does not answer, or refuses.
    fn progress(&self, _node: Member<'_>, _waits: &Waits) -> Result<Vec<Progress>, StoreError> {
        Ok(Vec::new())
    }

    /// Finds out, before a restart of all nodes of a cluster, which of them has the newest data, if that is not
    /// known. `run` runs a program to its end on a node.
    ///
    /// # Errors
    /// Failures of such a program; `Broken` if no node has data to start from.
    fn recover(
        &self,
        _nodes: &[Arc<Node>],
        _run: &dyn Fn(&Node, &Launch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Names of planned work that a node in the [role](Recipe::role) of this position can do during a load: `backup`.
    /// Empty if it has none.
    fn works(&self, _node: usize) -> &'static [&'static str] {
        &[]
    }

    /// True for planned work that the servers do one at a time: of two at once, the second one is refused.
    fn works_alone(&self, _name: &str) -> bool {
        false
    }

    /// Does one of the [`Recipe::works`] of a node that runs, or returns the program that does. The program runs beside
    /// the server, in an empty directory that is removed afterwards. A stop of `waits` stops the work, if the server
    /// has a command for that.
    ///
    /// # Errors
    /// `Missing` if the program is not installed; `Interrupted`; a refusal by the node.
    fn work(&self, name: &str, _node: Member<'_>, _waits: &Waits) -> Result<Option<Launch>, StoreError> {
        Err(StoreError::usage(format!("{} has no planned work `{name}`", self.spec().name)))
    }

    /// Returns the progress of [planned work](Recipe::work) of a node that this process carries out, without a request
    /// to a server. Work without progress never hangs.
    fn work_progress(&self, _node: usize) -> Option<Progress> {
        None
    }

    /// Environment variables with which the server's own clients reach a node and log in.
    fn client_environment(&self, _node: &Node) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Fails if nodes cannot be added later.
    ///
    /// # Errors
    /// `Usage`.
    fn takes_more(&self) -> Result<(), StoreError> {
        Err(StoreError::usage(format!("{} does not accept further nodes while it runs", self.spec().name))
            .next("create it again with more: --nodes N"))
    }

    /// Joins a new node that is ready to the cluster.
    ///
    /// # Errors
    /// A refusal by a node.
    fn join(&self, _node: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes a node from the cluster's membership; the node is stopped next.
    ///
    /// # Errors
    /// `Usage` if the cluster cannot.
    fn part(&self, _node: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        Err(StoreError::usage(format!("{} cannot remove a node while it runs", self.spec().name))
            .next("create it again with fewer: --nodes N"))
    }
}

/// A server that a user describes in a plan; the store of its URL speaks its protocol. In commands, in the texts of
/// files and in the URL, `{data}`, `{sockets}` and `{port}` stand for its directories and port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerDescription {
    /// Shell command that starts it and stays in the foreground.
    pub command: String,
    /// Shell command that creates the data directory before the first start; empty for none.
    #[serde(default)]
    pub set_up: String,
    /// Shell command that exits with status 0 once the server is ready. If empty, the server is ready when it
    /// listens.
    #[serde(default)]
    pub ready: String,
    /// Files to write before the first start, by their paths relative to the data directory.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Shell command that makes it reload its settings; if empty, SIGHUP does.
    #[serde(default)]
    pub reload: String,
    /// URL for clients, with `{port}` or `{sockets}`.
    #[serde(default)]
    pub url: String,
}

/// The nodes of a cluster that an action applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nodes {
    /// All of them.
    All,
    /// The node with this number.
    One(usize),
}

impl Nodes {
    /// Returns true if the node with this number is one of them.
    pub fn has(self, number: usize) -> bool {
        self == Self::All || self == Self::One(number)
    }
}

/// Period of an action: from its start until it took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start of the action.
    pub from: Instant,
    /// Moment at which it took effect.
    pub until: Instant,
}

impl Span {
    /// Duration of the action.
    pub fn length(&self) -> Duration {
        self.until - self.from
    }
}

/// Running private servers. An `Arc` of it is a handle with which any thread acts on them while they are in use.
/// Every action returns when it has taken effect, with the time it took.
///
/// Naming a node that does not exist is an error of kind `Usage`.
pub trait Servers: Send + Sync {
    /// The nodes: one or more.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// Returns the nodes at this moment. Nodes of a lab come and go; [`Servers::nodes`] has those that it began with.
    ///
    /// # Errors
    /// Fails if the lab does not answer.
    fn present(&self) -> Result<Vec<Arc<Node>>, StoreError> {
        Ok(self.nodes())
    }

    /// The nodes that run.
    fn running(&self) -> Vec<Arc<Node>> {
        self.nodes().into_iter().filter(|node| self.check(Nodes::One(node.number)).is_ok()).collect()
    }

    /// The first node.
    fn first(&self) -> Arc<Node> {
        Arc::clone(&self.nodes()[0])
    }

    /// Deviations from the default as settings: limits of all nodes, links of single ones.
    fn settings(&self) -> Vec<Setting> {
        self.first().limits.settings()
    }

    /// Returns the places of the running servers on this machine.
    fn sites(&self) -> Vec<NodeSite>;

    /// Process ids of the running servers' roots.
    fn pids(&self) -> Vec<u32> {
        self.sites().into_iter().map(|site| site.pid).collect()
    }

    /// Fails if one of the nodes does not run.
    ///
    /// # Errors
    /// The cause of the first such node's end, with its last output; `Unreachable` for a node that was stopped or
    /// killed here.
    fn check(&self, nodes: Nodes) -> Result<(), StoreError>;

    /// Kills the servers and all their descendants, as a crash would.
    ///
    /// # Errors
    /// If the supervisor fails.
    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Stops the servers by an orderly shutdown.
    ///
    /// # Errors
    /// `Broken` if one takes too long; it is killed then.
    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Starts stopped servers with their data and settings, and returns when they accept sessions. `All` starts only
    /// those that do not run.
    ///
    /// # Errors
    /// `Usage` if the named node runs; `Broken` and others, with the last output of a server that does not start;
    /// `Broken` if it hangs: something is left to do, and there is no progress for [`Waits::hung_after`].
    fn start(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Stops and starts the servers.
    ///
    /// # Errors
    /// As [`Servers::stop`] and [`Servers::start`].
    fn restart(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let stopped = self.stop(nodes)?;
        Ok(Span { from: stopped.from, until: self.start(nodes)?.until })
    }

    /// Suspends all processes of the servers (SIGSTOP).
    ///
    /// # Errors
    /// `Broken` if one of them keeps running.
    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Stops the busiest thread or process that serves a client, on each node. The rest of the server goes on. `All`
    /// means the nodes that can hang so. It continues at [`Servers::resume`], and at the end of the holding process.
    ///
    /// # Errors
    /// `Usage` if none can hang alone; `Broken` if no client is served; `Permission`.
    fn hang(&self, _nodes: Nodes) -> Result<Span, StoreError> {
        Err(StoreError::usage("these servers have no thread that can hang alone")
            .next("suspend the whole server: pause instead of hang"))
    }

    /// Resets the established TCP connections to the ports of nodes.
    ///
    /// # Errors
    /// `Broken` if there is no such connection; `Permission`; `Missing` if the kernel cannot.
    fn reset(&self, _nodes: Nodes) -> Result<Span, StoreError> {
        Err(StoreError::usage("these servers have no connections that can be reset")
            .next("cut the link instead, or use a store that clients reach over TCP"))
    }

    /// Makes the servers reload their settings.
    ///
    /// # Errors
    /// `Usage` for servers that cannot while they run; errors of the operating system.
    fn reload(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Returns the operations in progress that joins, starts and planned work wait for, at most half a second old.
    ///
    /// # Errors
    /// Fails if a lab does not answer.
    fn in_progress(&self) -> Result<Vec<Progress>, StoreError> {
        Ok(Vec::new())
    }

    /// Creates a node, joins it to the cluster with all data, and returns its number.
    ///
    /// # Errors
    /// `Usage` if nodes cannot be added later; otherwise as [`Servers::start`].
    fn add(&self) -> Result<usize, StoreError>;

    /// Removes a node from the cluster, stops it and deletes its files.
    ///
    /// # Errors
    /// `Usage` if the cluster cannot do without it.
    fn remove(&self, number: usize) -> Result<(), StoreError>;

    /// Resumes suspended processes (SIGCONT), and threads that hang.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Returns true if one of the nodes takes all writes.
    fn has_primary(&self) -> bool {
        false
    }

    /// Returns [`Recipe::failover_time`] of their recipe.
    fn failover_time(&self) -> Option<FailoverTime> {
        None
    }

    /// Returns the nodes that `choice` means now.
    ///
    /// # Errors
    /// `Usage` if there is no such node or role; an error if the servers cannot be asked for their roles.
    fn chosen(&self, choice: NodeChoice) -> Result<Nodes, StoreError> {
        Err(StoreError::usage(format!("these servers do not tell which node is meant by `{choice}`")))
    }

    /// Makes a replica the primary. Kills the former primary before, if it runs.
    ///
    /// # Errors
    /// `Usage` if the store cannot; a refusal by the node.
    fn promote(&self, _number: usize) -> Result<Span, StoreError> {
        Err(StoreError::usage("these servers have no replica that can be promoted"))
    }

    /// Restarts running nodes that do not follow the present primary since a promotion, so that they do.
    ///
    /// # Errors
    /// As [`Servers::start`].
    fn rejoin(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the path of the network namespace of a node's host; `None` if the node is on this machine's own network.
    ///
    /// # Errors
    /// `Usage` if there is no such node; an error if the servers cannot be asked.
    fn namespace(&self, _number: usize) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }

    /// Sets the link between the hosts of nodes and all others. Returns the former links, by the nodes' numbers.
    ///
    /// # Errors
    /// `Usage` if the nodes have no hosts of their own; otherwise an error of the kernel. The links are as before then,
    /// unless the error names nodes that could not be set back.
    fn set_link(&self, _nodes: Nodes, _link: Link) -> Result<Vec<(usize, Link)>, StoreError> {
        Err(StoreError::usage("these servers have no network links of their own"))
    }

    /// Changes a limit of nodes while they run. Returns the changes back to the former limits, by the nodes' numbers.
    ///
    /// # Errors
    /// `Usage` if the nodes have no control group for the limit, or the limit is not possible. The limits are as before
    /// then, unless the error names nodes that could not be set back.
    fn change_limit(&self, _nodes: Nodes, _change: &LimitChange) -> Result<Vec<(usize, LimitChange)>, StoreError> {
        Err(StoreError::usage("these servers have no limits that can be changed"))
    }

    /// Sets the error of the wall clock of nodes' programs; `None` for the true clock. Returns the former errors, by
    /// the nodes' numbers.
    ///
    /// # Errors
    /// `Usage` if this machine cannot; `Permission`; `Broken` if it did not take effect. The clocks are as before then.
    fn set_clock(
        &self,
        _nodes: Nodes,
        _change: Option<ClockChange>,
    ) -> Result<Vec<(usize, Option<ClockChange>)>, StoreError> {
        let what = "these servers have no clocks that can be changed";
        Err(StoreError::usage(what).next("name a store whose servers Plimsoll starts, or leave the fault `clock` out"))
    }

    /// True if the servers outlive this process: those of a lab, where other runs may have data too.
    fn outlive(&self) -> bool {
        false
    }

    /// Announces that this process makes faults. Servers that outlive it heal those that are left when it ends.
    ///
    /// # Errors
    /// `Usage` if a node of such servers does not run.
    fn lease(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Does planned work ([`Recipe::work`]) on nodes that run, one after the other. `All` means those that have it in
    /// their present roles.
    ///
    /// # Errors
    /// `Usage` if there is no such work; `Interrupted` after a stop; a refusal by a node, or the failure of a program;
    /// `Broken` if it hangs, as [`Servers::add`].
    fn work(&self, _nodes: Nodes, name: &str) -> Result<(), StoreError> {
        Err(StoreError::usage(format!("these servers have no planned work `{name}`")))
    }

    /// Runs a program to its end as the user of a node whose server is stopped.
    ///
    /// # Errors
    /// If it fails, with its last output; `Broken` if it has not ended within `bound`, and was killed.
    fn run(&self, node: usize, launch: &Launch, bound: Duration) -> Result<(), StoreError>;
}
