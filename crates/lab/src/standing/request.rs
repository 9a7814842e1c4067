//! What is asked of a lab, and what it answers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use plimsoll_core::{Limits, Node, ParamValue, Progress, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};

use crate::hosts::Link;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    /// What [`LabStatus`] says.
    Status,
    /// Where its servers are, with what clients need to log in.
    Nodes,
    /// Something done to one node, or to all.
    Act { act: Act, node: Option<usize> },
    /// A program run to its end where a node's server is stopped.
    Run { node: usize, program: PathBuf, arguments: Vec<String>, bound_ms: u64 },
    /// Another link between a node's host, or each, and all others.
    Link { node: Option<usize>, link: Link },
    /// One more node.
    Add,
    /// One node less.
    Remove(usize),
    /// The end.
    Down,
}

/// What can be done to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Act {
    Check,
    Kill,
    Stop,
    Start,
    Pause,
    Resume,
    Reload,
}

/// What is answered.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Done,
    Added(usize),
    Status(Box<LabStatus>),
    Nodes { nodes: Vec<Node>, namespace: Option<PathBuf> },
    Failed(Failed),
}

/// A [`StoreError`] on its way.
#[derive(Serialize, Deserialize)]
pub(super) struct Failed {
    kind: StoreErrorKind,
    what: String,
    detail: Option<String>,
    next: Option<String>,
}

impl From<StoreError> for Failed {
    fn from(StoreError { kind, what, detail, next }: StoreError) -> Self {
        Self { kind, what, detail, next }
    }
}

impl From<Failed> for StoreError {
    fn from(Failed { kind, what, detail, next }: Failed) -> Self {
        Self { kind, what, detail, next }
    }
}

/// A lab as `plimsoll lab status` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Its name.
    pub name: String,
    /// The store's name, and what it was called when the lab was made.
    pub store: String,
    /// See `store`.
    pub made_as: String,
    /// The store's parameters.
    pub params: BTreeMap<String, ParamValue>,
    /// The servers' version, in their own words.
    pub version: String,
    /// Where the server is reached, where a plan describes it.
    pub url: Option<String>,
    /// The process that holds it.
    pub process: u32,
    /// When it was made, in nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// Where operations are sent from; `None` where it is on this machine's own network.
    pub load: Option<HostStatus>,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
    /// What runs long on them.
    pub in_progress: Vec<InProgress>,
}

/// Something that runs long, as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InProgress {
    /// What, of which node, and how far it is; for how long it has run is always known here.
    #[serde(flatten)]
    pub progress: Progress,
    /// For how long it has stood still, in seconds.
    pub still_s: u64,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its address.
    pub address: Ipv4Addr,
    /// Where its network namespace is opened.
    pub namespace: PathBuf,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number, from 0.
    pub number: usize,
    /// What it was to the cluster when it was made.
    pub role: String,
    /// Where it listens.
    pub address: Ipv4Addr,
    /// See `address`.
    pub ports: Vec<u16>,
    /// Its host, where it has one of its own.
    pub namespace: Option<PathBuf>,
    /// What it says, over all of its starts.
    pub log: PathBuf,
    /// The directory with all its files.
    pub directory: PathBuf,
    /// Where it listens on this machine.
    pub socket_dir: PathBuf,
    /// The id of its process.
    pub process: Option<u32>,
    /// How it is.
    pub state: NodeState,
    /// Why it does not run, with the last lines of its log.
    pub reason: Option<String>,
    /// How often it was started again after it had ended by itself.
    pub restarts: u32,
    /// Processor time of all its processes that live, in seconds.
    pub processor_s: f64,
    /// Memory that they have resident, in bytes; what they share is counted for each.
    pub memory_bytes: u64,
    /// What it may have of the machine.
    pub limits: Limits,
    /// For how long it had to wait for its share of the processors, in seconds.
    pub throttled_s: f64,
    /// What its link does to what goes over it.
    pub link: Link,
}

plimsoll_core::words! {
    /// How a node is.
    pub enum NodeState {
        /// It runs.
        Running = "running",
        /// It has been started, and takes no sessions yet.
        Starting = "starting",
        /// It stands still, since somebody said so.
        Paused = "paused",
        /// It was stopped by somebody's command.
        Stopped = "stopped",
        /// It was killed by one.
        Killed = "killed",
        /// It has ended by itself, and is started again soon.
        Restarting = "restarting",
        /// It has ended by itself too often, or is not to be started again.
        Maintenance = "maintenance",
    }
}
