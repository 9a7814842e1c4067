//! Running servers, and the actions on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Launch, Node, NodeSite};
use crate::clock::ClockChange;
use crate::disk::NodeChoice;
use crate::error::StoreError;
use crate::failover::FailoverTime;
use crate::limits::LimitChange;
use crate::link::Link;
use crate::node_set::NodeSet;
use crate::progress::Progress;
use crate::store::Setting;

/// The nodes of a cluster that an action applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nodes {
    /// All of them.
    All,
    /// The node with this number.
    One(usize),
    /// Several nodes.
    Several(NodeSet),
}

impl Nodes {
    /// Returns true if the node with this number is one of them.
    pub fn has(self, number: usize) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == number,
            Self::Several(all) => all.has(number),
        }
    }

    /// Returns true if a node is among both.
    pub fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => true,
            (Self::One(number), nodes) | (nodes, Self::One(number)) => nodes.has(number),
            (Self::Several(one), Self::Several(other)) => one.meets(other),
        }
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

/// A change of the program that a node's server runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramChange {
    /// Number of the node, from 0.
    pub node: usize,
    /// Program before the change.
    pub former: PathBuf,
    /// Version of the program before the change.
    pub from: String,
    /// Version of the program since the change.
    pub to: String,
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
    /// `Broken` if it hangs: something is left to do, and there is no progress for
    /// [`Waits::hung_after`](crate::Waits::hung_after).
    fn start(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Stops and starts the servers.
    ///
    /// # Errors
    /// As [`Servers::stop`] and [`Servers::start`].
    fn restart(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let stopped = self.stop(nodes)?;
        Ok(Span { from: stopped.from, until: self.start(nodes)?.until })
    }

    /// Stops the servers and starts them with another program, which they also have at later starts. Nodes of a cluster
    /// whose program is not the store's, such as a proxy, restart with their own. Returns the changes.
    ///
    /// # Errors
    /// `Usage` if the program cannot be executed or is not the store's; nothing is stopped then. `Broken` if a server
    /// does not start with it; the servers are started with their former programs then.
    fn restart_with(&self, _nodes: Nodes, _program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        Err(StoreError::usage("these servers cannot be started with another program"))
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

    /// Removes a node from the cluster, and joins an empty one of its number, on its host, with all data.
    ///
    /// # Errors
    /// `Usage` if these servers do not replace nodes, or cannot do without this one; otherwise as [`Servers::add`].
    fn replace(&self, number: usize) -> Result<(), StoreError> {
        Err(StoreError::usage(format!("node {} is not replaced in one step here", number + 1))
            .next("remove it and add another: plimsoll lab remove, plimsoll lab add"))
    }

    /// Resumes suspended processes (SIGCONT), and threads that hang.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError>;

    /// Returns true if one of the nodes takes all writes.
    fn has_primary(&self) -> bool {
        false
    }

    /// Returns [`Recipe::failover_time`](super::Recipe::failover_time) of their recipe.
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

    /// Returns the nodes that a choice of several means now, for [`Servers::chosen`].
    ///
    /// # Errors
    /// `Usage` if a node of a list is not there, or fewer than three nodes have no minority; errors of
    /// [`Servers::present`].
    fn several(&self, choice: NodeChoice) -> Result<Nodes, StoreError> {
        let mut numbers: Vec<usize> = self.present()?.iter().map(|node| node.number).collect();
        numbers.sort_unstable();
        let there = numbers.iter().map(|number| (number + 1).to_string()).collect::<Vec<_>>().join(", ");
        let meant = match choice {
            NodeChoice::Numbers(meant) => Some(meant),
            _ => {
                // Without a primary, the numbers decide alone.
                let primary = self.chosen(NodeChoice::Primary).ok();
                numbers.sort_by_key(|number| primary == Some(Nodes::One(*number)));
                let (minority, majority) = numbers.split_at(NodeChoice::Minority.count(numbers.len()));
                NodeSet::of(if choice == NodeChoice::Minority { minority } else { majority })
            }
        };
        let wrong = |what: String| Err(StoreError::usage(what).next(format!("the nodes are {there}")));
        let Some(meant) = meant else {
            let most = NodeSet::NODES_MAX;
            return wrong(format!("a {choice} needs three nodes or more, with numbers up to {most}"));
        };
        if let Some(absent) = meant.numbers().find(|number| !numbers.contains(number)) {
            return wrong(format!("there is no node {}", absent + 1));
        }
        let mut all = meant.numbers();
        Ok(match (all.next(), all.next()) {
            _ if numbers.iter().all(|number| meant.has(*number)) => Nodes::All,
            (Some(only), None) => Nodes::One(only),
            _ => Nodes::Several(meant),
        })
    }

    /// Returns the numbers of the nodes in the order of a rolling restart: the primary last.
    ///
    /// # Errors
    /// As [`Servers::chosen`] and [`Servers::present`].
    fn rolling_order(&self) -> Result<Vec<usize>, StoreError> {
        let primary = self.chosen(NodeChoice::Primary)?;
        let mut numbers: Vec<usize> = self.present()?.iter().map(|node| node.number).collect();
        numbers.sort_by_key(|number| primary == Nodes::One(*number));
        Ok(numbers)
    }

    /// Makes a replica the primary. Kills the former primary before, if it runs and does not become a replica by itself.
    ///
    /// # Errors
    /// `Usage` if the store cannot, or the node has not followed the primary since the last promotion; a refusal by the
    /// node.
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

    /// Returns the paths of the network namespaces of the first `count` client hosts, in the network of the nodes' hosts.
    /// Makes those that do not exist yet; all live as long as the servers.
    ///
    /// # Errors
    /// `Usage` if the nodes have no hosts of their own; otherwise an error of the kernel.
    fn client_hosts(&self, _count: u32) -> Result<Vec<PathBuf>, StoreError> {
        Err(StoreError::usage("these servers have no network that client hosts can be added to")
            .next("leave `client_hosts` out, or use a store with several nodes: plimsoll list stores"))
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

    /// Does planned work ([`Recipe::work`](super::Recipe::work)) on nodes that run, one after the other. `All` means
    /// those that have it in their present roles.
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
