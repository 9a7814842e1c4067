//! Requests to a lab, and its replies.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use plimsoll_core::{
    ClockChange, FailoverTime, LimitChange, Limits, Link, Node, Nodes, ParamValue, Progress, StoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::PrivilegedFault;
use crate::cluster::OtherProgram;

/// A request, and the process that sends it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sent<R> {
    pub process: u32,
    pub request: R,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LabRequest {
    /// Returns [`LabStatus`].
    Status,
    /// Returns [`NodesReply`], with the secret that clients need to log in.
    Nodes,
    /// Returns the long-running operations of the nodes.
    InProgress,
    /// Performs an action on one node, or on all.
    Act { act: LabAction, nodes: Nodes },
    /// Restarts a node, or each, with another program.
    RestartWith { nodes: Nodes, program: PathBuf },
    /// Runs a program to its end in the directories of a stopped node.
    Run { node: usize, program: PathBuf, arguments: Vec<String>, bound_ms: u64 },
    /// Returns the paths of the network namespaces of the first client hosts.
    ClientHosts { count: u32 },
    /// Sets the link between a node's host, or each, and all others. Returns former links, by node.
    Link { nodes: Nodes, link: Link },
    /// Changes a limit of a node, or of each. `given` is the change as the user wrote it. Returns changes back to former
    /// limits, by node.
    Limit { nodes: Nodes, change: LimitChange, given: String },
    /// Sets the error of the wall clock of a node, or of each; none for the true clock. Returns former errors, by node.
    Clock { nodes: Nodes, change: Option<ClockChange> },
    /// Looks if the process that holds the lab may carry out a fault.
    Permits(PrivilegedFault),
    /// Returns the node that is the primary.
    Primary,
    /// Returns a node that is a replica.
    Replica,
    /// Restarts nodes that do not follow the present primary.
    Rejoin,
    /// Does planned work on nodes. `bound_ms` limits each wait. The end of what the client sends stops the work.
    Work { nodes: Nodes, name: String, bound_ms: u64 },
    /// Heals the faults that the process has made, when it ends.
    Lease,
    /// Adds a node. A process may need it only while it lives.
    Add { needed_by: Option<u32> },
    /// Removes a node.
    Remove(usize),
    /// Ends the lab.
    Down,
}

/// Actions on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LabAction {
    Check,
    Kill,
    Stop,
    Start,
    Restart,
    Pause,
    Hang,
    Resume,
    Reset,
    Reload,
    Promote,
}

impl LabAction {
    /// Returns the name of its command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Hang => "hang",
            Self::Resume => "resume",
            Self::Reset => "reset",
            Self::Reload => "reload",
            Self::Promote => "promote",
        }
    }
}

/// A reply: what the request returns, or its error.
pub(super) type LabReply = Result<Value, StoreError>;

/// Reply to [`LabRequest::Nodes`]: the nodes, the namespace of the load host, [`Servers::has_primary`], and
/// [`Servers::failover_time`].
///
/// [`Servers::has_primary`]: plimsoll_core::Servers::has_primary
/// [`Servers::failover_time`]: plimsoll_core::Servers::failover_time
pub(super) type NodesReply = (Vec<Node>, Option<PathBuf>, bool, Option<FailoverTime>);

/// Status of a lab, as `plimsoll lab status` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Name of the lab.
    pub name: String,
    /// Name of the store, and the name that the user gave when the lab was made.
    pub store: String,
    /// See `store`.
    pub made_as: String,
    /// Parameters of the store.
    pub params: BTreeMap<String, ParamValue>,
    /// Version of the servers, as they report it.
    pub version: String,
    /// URL of a server that a plan describes.
    pub url: Option<String>,
    /// Process that holds the lab.
    pub process: u32,
    /// Time when the lab was made, in nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// Load host, from which operations are sent; `None` if the lab is on this machine's own network.
    pub load: Option<HostStatus>,
    /// Nodes.
    pub nodes: Vec<NodeStatus>,
    /// Long-running operations of the nodes.
    pub in_progress: Vec<OperationStatus>,
}

/// A long-running operation, as seen last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStatus {
    /// Operation, node and progress. Its duration is always known here.
    #[serde(flatten)]
    pub progress: Progress,
    /// Time since the last progress, in seconds.
    pub still_s: u64,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Address of the host.
    pub address: Ipv4Addr,
    /// Path of the host's network namespace.
    pub namespace: PathBuf,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Number of the node, from 0.
    pub number: usize,
    /// Present role; `initially` and the first one if the node may have another and cannot be asked.
    pub role: String,
    /// Address and ports on which the node listens.
    pub address: Ipv4Addr,
    /// See `address`.
    pub ports: Vec<u16>,
    /// Network namespace of the node's own host, if it has one.
    pub namespace: Option<PathBuf>,
    /// Log, which contains the output of all starts.
    pub log: PathBuf,
    /// Directory with all files of the node.
    pub directory: PathBuf,
    /// Directory of its sockets on this machine.
    pub socket_dir: PathBuf,
    /// Id of its process.
    pub process: Option<u32>,
    /// State of the node.
    pub state: NodeState,
    /// Reason why the node does not run, with the last lines of its log, or why it is not ready.
    pub reason: Option<String>,
    /// State in the words of its own cluster; empty if it has none, or is not ready.
    pub own_state: String,
    /// True if a run added the node and ended without removing it.
    pub is_left: bool,
    /// Number of restarts after it had ended by itself.
    pub restarts: u32,
    /// Processor time of all its living processes, in seconds.
    pub processor_s: f64,
    /// Resident memory of these processes, in bytes; shared memory counts for each.
    pub memory_bytes: u64,
    /// Limits of its resources.
    pub limits: Limits,
    /// Time that it waited for its share of the processors, in seconds.
    pub throttled_s: f64,
    /// Link of its host.
    pub link: Link,
    /// Error of its wall clock; none for the true clock.
    #[serde(default)]
    pub clock: Option<ClockChange>,
    /// Program of its server, if it was changed by a command or a fault; otherwise the program is of the lab's version.
    #[serde(default)]
    pub program: Option<OtherProgram>,
}

plimsoll_core::words! {
    /// State of a node.
    pub enum NodeState {
        /// Running, and ready for clients.
        Running = "running",
        /// Started, but not accepting sessions yet.
        Starting = "starting",
        /// Running as a process, and not answering as a client needs it.
        NotReady = "not ready",
        /// Running as a process; if it answers as a client needs it was not found out in time.
        Unknown = "not known",
        /// Running and ready, and one of its threads hangs by a command.
        Hanging = "hanging",
        /// Paused by a command.
        Paused = "paused",
        /// Stopped by a command.
        Stopped = "stopped",
        /// Killed by a command.
        Killed = "killed",
        /// Ended by itself; a restart follows soon.
        Restarting = "restarting",
        /// Ended by itself too often, or not to be restarted.
        Maintenance = "maintenance",
    }
}
