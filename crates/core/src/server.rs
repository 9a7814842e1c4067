//! Servers of our own: what a store says of how one is started, and what can be done to those that run.
//!
//! A store's [`Recipe`] is as pure as it can be: values in, what is to be written and executed out. Who does it is `lab`;
//! what runs then is a cluster, of one node or more, that its [`Servers`] act on.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::limits::Limits;
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

/// What is the same for all nodes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's own name, as in "the private PostgreSQL"; its log's begins with it.
    pub name: &'static str,
    /// Whom it runs as where Plimsoll is root's.
    pub user: &'static str,
    /// The Debian package that makes that user.
    pub package: &'static str,
    /// On this signal it stops in good order.
    pub stop: StopSignal,
    /// It reads its settings again on SIGHUP, or as [`Recipe::reload`] has it, and goes on serving meanwhile.
    pub reloads: bool,
    /// On this one it ends soonest: nobody wants its data any more.
    pub leave: StopSignal,
    /// How many there are.
    pub nodes: usize,
    /// The ports that each listens on, where it has a host of its own; as many others that are free on the loopback
    /// interface, where it has none.
    pub ports: &'static [u16],
    /// Memory that one takes with its settings as they are by default, before it has any data, as measured.
    pub memory_bytes: u64,
    /// How many hosts of their own they are on; 0 where they are on this machine's own network.
    pub hosts: usize,
}

impl ServerSpec {
    /// Of one node that listens on no port and stops on SIGTERM.
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

/// One server of a cluster: where it has its files, and where it listens.
#[derive(Clone, Serialize, Deserialize)]
pub struct Node {
    /// Its number, from 0; nobody else's, also when it has gone.
    pub number: usize,
    /// The directory of its data: its user's, 0700.
    pub data_dir: PathBuf,
    /// The directory of its sockets: its user's, 0700, at most 60 bytes long; empty at every start.
    pub socket_dir: PathBuf,
    /// Its address: its host's, or that of the loopback interface.
    pub address: Ipv4Addr,
    /// Ports that nobody else listens on there, as many as the recipe wants.
    pub ports: Vec<u16>,
    /// What nobody else knows, the same for all nodes: a password for what listens on ports.
    pub secret: String,
    /// What it may have of the machine.
    pub limits: Limits,
}

impl Node {
    /// Where it listens: its address with the port at `position`; port 0 where it has not so many.
    pub fn listens_at(&self, position: usize) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.ports.get(position).copied().unwrap_or(0))
    }
}

/// A node, and the cluster that it is in.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a [Arc<Node>],
    /// The one that is meant.
    pub node: &'a Node,
    /// No other node runs: it begins the cluster.
    pub is_first: bool,
}

impl Deref for Member<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.node
    }
}

/// A program to be executed as a node's user in its data directory or, where its data are on a disk of ours, in another of its own: its
/// arguments name files by their whole paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Its name in messages.
    pub name: &'static str,
    /// Where it is.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Launch {
    /// `program`, called `name` in messages, with `arguments`.
    pub fn new<A: Into<String>>(name: &'static str, program: PathBuf, arguments: impl IntoIterator<Item = A>) -> Self {
        Self { name, program, arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// How servers of one kind are made: what stands in a store's folder, with the store's parameters in it.
pub trait Recipe: Send + Sync {
    /// What is the same for all nodes.
    fn spec(&self) -> ServerSpec;

    /// What the node at this position is to the cluster when it is made, in the store's own word: `primary`, `sentinel`.
    fn role(&self, _node: usize) -> &'static str {
        "server"
    }

    /// Whether a node keeps data that are lost with its disk. A proxy has nothing but its configuration.
    fn keeps_data(&self, _node: usize) -> bool {
        true
    }

    /// Whether one of the nodes takes all writes.
    fn has_primary(&self) -> bool {
        false
    }

    /// The number of the node that takes all writes just now, of a recipe that has one.
    ///
    /// # Errors
    /// When no node says so.
    fn primary(&self, nodes: &[Arc<Node>], _waits: &Waits) -> Result<usize, StoreError> {
        Ok(nodes.first().map_or(0, |node| node.number))
    }

    /// The ports that it listens on, where it has a host of its own.
    fn ports(&self, _node: usize) -> &'static [u16] {
        self.spec().ports
    }

    /// Which of the cluster's hosts it is on.
    fn host(&self, node: usize) -> usize {
        node
    }

    /// When it is started: those of stage 0 first and all together, those of the next stage when these are ready. Stopped
    /// is in the opposite order.
    fn stage(&self, _node: Member<'_>) -> usize {
        0
    }

    /// Files of a node before its first start, by their names below its data directory. A name that ends with `/` is a
    /// directory's.
    ///
    /// # Errors
    /// What of the store's parameters cannot be, or is not installed.
    fn files(&self, _node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(Vec::new())
    }

    /// What makes a node's data directory before its first start, where that needs a program. Those of an earlier
    /// [`Recipe::stage`] run.
    ///
    /// # Errors
    /// `Missing`, with the line that installs it.
    fn set_up(&self, _node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        Ok(None)
    }

    /// A node's server, which stays in the foreground and logs to its standard output or error.
    ///
    /// # Errors
    /// `Missing`, with the line that installs it.
    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError>;

    /// Asks a node as a client does whether it is ready.
    ///
    /// # Errors
    /// `Unreachable` while it is not yet; any other says that it will never be.
    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError>;

    /// Makes a cluster of nodes that are ready, once.
    ///
    /// # Errors
    /// What a node says no to.
    fn form(&self, _nodes: &[Arc<Node>], _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until nodes that are ready, and were a cluster before, are one again.
    ///
    /// # Errors
    /// `Broken` when that does not come about.
    fn until_whole(&self, _nodes: &[Arc<Node>], _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Has a node's server read its settings again, where that is not done by SIGHUP; whether it was.
    ///
    /// # Errors
    /// What it says no to.
    fn reload(&self, _node: &Node, _waits: &Waits) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// What runs long on a node that may have only begun to start, of itself and of those that it serves.
    ///
    /// # Errors
    /// When it does not answer, or says no.
    fn progress(&self, _node: Member<'_>, _waits: &Waits) -> Result<Vec<Progress>, StoreError> {
        Ok(Vec::new())
    }

    /// Before all nodes are started that were a cluster before: finds out which of them has the newest data, where that is not
    /// known. `run` runs a program to its end on a node.
    ///
    /// # Errors
    /// What such a program fails with; `Broken` where no node has data that could be begun with.
    fn recover(
        &self,
        _nodes: &[Arc<Node>],
        _run: &dyn Fn(&Node, &Launch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Variables of the environment by which the server's own clients reach a node and log in there.
    fn client_environment(&self, _node: &Node) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Whether nodes can come later.
    ///
    /// # Errors
    /// `Usage` where they cannot.
    fn takes_more(&self) -> Result<(), StoreError> {
        Err(StoreError::usage(format!("{} takes no further node while it runs", self.spec().name))
            .next("make it anew with more: --nodes N"))
    }

    /// Makes a node that is new and ready one of the cluster.
    ///
    /// # Errors
    /// What a node says no to.
    fn join(&self, _node: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    /// Has the cluster do without a node, which is stopped next.
    ///
    /// # Errors
    /// `Usage` where it cannot.
    fn part(&self, _node: Member<'_>, _waits: &Waits) -> Result<(), StoreError> {
        Err(StoreError::usage(format!("{} cannot do without a node", self.spec().name))
            .next("make it anew with fewer: --nodes N"))
    }
}

/// A server that a user describes in a plan; the store of its URL speaks its protocol. In commands, in the texts of files
/// and in the URL `{data}`, `{sockets}` and `{port}` stand for where it has its files and listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// What starts it: a command of the shell, which stays in the foreground.
    pub command: String,
    /// What makes its data directory before the first start; nothing where it is empty.
    #[serde(default)]
    pub set_up: String,
    /// What ends with exit status 0 when it is ready; where it is empty, it is when it listens.
    #[serde(default)]
    pub ready: String,
    /// Its files below the data directory, by their names, before the first start.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// What has it read its settings again; where it is empty, SIGHUP does.
    #[serde(default)]
    pub reload: String,
    /// Where it is reached, with `{port}` or `{sockets}`.
    #[serde(default)]
    pub url: String,
}

/// Which nodes of a cluster are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// All of them.
    All,
    /// The one with this number.
    One(usize),
}

/// When something was done: from its beginning to when it had taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub until: Instant,
}

impl Span {
    /// How long it took.
    pub fn length(&self) -> Duration {
        self.until - self.from
    }
}

/// Servers of our own that run. An `Arc` of it is the handle by which anybody on any thread acts on them while they are
/// used; every action returns when it has taken, with the time it took.
///
/// Where a node is named that there is not, that is an error of kind `Usage`.
pub trait Servers: Send + Sync {
    /// Where they are: one or more.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// Those that run.
    fn running(&self) -> Vec<Arc<Node>> {
        self.nodes().into_iter().filter(|node| self.check(Nodes::One(node.number)).is_ok()).collect()
    }

    /// The only one, or the first.
    fn first(&self) -> Arc<Node> {
        Arc::clone(&self.nodes()[0])
    }

    /// What of them is not as it is by default, as settings: limits of all, the links of nodes.
    fn settings(&self) -> Vec<Setting> {
        self.first().limits.settings()
    }

    /// Ids of the processes at the roots of those that run.
    fn pids(&self) -> Vec<u32>;

    /// Whether they run.
    ///
    /// # Errors
    /// How the first one ended that does not, with its last words; `Unreachable` of one that was stopped or killed here.
    fn check(&self, nodes: Nodes) -> Result<(), StoreError>;

    /// Kills them with all their descendants, as a crash would.
    ///
    /// # Errors
    /// When the supervisor does not do its part.
    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Stops them in good order.
    ///
    /// # Errors
    /// `Broken` when one takes too long; it is killed then.
    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Starts them where they were, with their data and settings, of all nodes those that do not run; returns when they take
    /// sessions.
    ///
    /// # Errors
    /// `Usage` when the one that is meant runs; `Broken` and others, with the last words of one that does not start.
    fn start(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Stops them in good order and starts them again.
    ///
    /// # Errors
    /// As [`Servers::stop`] and [`Servers::start`].
    fn restart(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let stopped = self.stop(nodes)?;
        Ok(Span { from: stopped.from, until: self.start(nodes)?.until })
    }

    /// Has all their processes stand still (SIGSTOP).
    ///
    /// # Errors
    /// `Broken` when one of them goes on.
    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Has them read their settings again.
    ///
    /// # Errors
    /// `Usage` of servers that cannot while they run; as the operating system says.
    fn reload(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Makes one more node and has it join, with all data; its number.
    ///
    /// # Errors
    /// `Usage` where nodes cannot come later; as one that is started.
    fn add(&self) -> Result<usize, StoreError>;

    /// Has a node leave, stops it and removes its files.
    ///
    /// # Errors
    /// `Usage` where the others cannot do without it.
    fn remove(&self, number: usize) -> Result<(), StoreError>;

    /// Has them go on (SIGCONT).
    ///
    /// # Errors
    /// As the operating system says.
    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Runs a program to its end as a node's user where its server is stopped.
    ///
    /// # Errors
    /// When it does not end well, with the words it said last; `Broken` when it is not done within `bound`, and killed.
    fn run(&self, node: usize, launch: &Launch, bound: Duration) -> Result<(), StoreError>;
}
