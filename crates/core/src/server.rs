//! Private servers: a store's description of how one is started, and the actions on running ones.
//!
//! A store's [`Recipe`] is as pure as possible: it takes values, and returns the files to write and the programs to
//! execute. `lab` executes it. The result is a cluster of one or more nodes, on which its [`Servers`] act.

mod recipe;
mod running;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

pub use recipe::{Recipe, no_promotion};
pub use running::{Nodes, ProgramChange, Servers, Span};

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
