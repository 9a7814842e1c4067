//! Questions to a running cluster, and changes of single nodes, from any thread.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, TryLockError};
use std::time::{Duration, Instant};

use plimsoll_core::{ClockChange, LimitChange, Link, Nodes, Servers, StoreError, Waits};

use super::progress::TrackedOperation;
use super::start::START_BOUND;
use super::{ClusterHandle, NodeAnswer, ServerState, locked};
use crate::PrivilegedFault;
use crate::hosts::{NamespaceGuard, Network};
use crate::private_server::PrivateServer;

/// Wait for a server that another thread asks for its state, too, which takes no longer. Starts and stops do.
const STATE_BOUND: Duration = Duration::from_millis(100);

impl ClusterHandle {
    /// Returns the handle reduced to operations on servers.
    pub fn servers(&self) -> Arc<dyn Servers> {
        Arc::clone(&self.0) as Arc<dyn Servers>
    }

    /// Returns the node's role in the cluster: as it was made, or since a replica was promoted by command.
    pub fn role(&self, number: usize) -> &'static str {
        self.0.recipe.role(self.0.position(number))
    }

    /// Returns true if the cluster itself may have given the node another role.
    pub(crate) fn changes_role(&self, number: usize) -> bool {
        self.0.recipe.changes_role(number)
    }

    /// Returns true if the former primary goes on to run after a promotion.
    pub(crate) fn switches_over(&self) -> bool {
        self.0.recipe.switches_over()
    }

    /// Returns the machine that a node is in, each with its own disk; `None` if the node keeps no data. While a node is
    /// being replaced, its machine and the disk stay.
    ///
    /// # Errors
    /// `Usage` if there is neither such a node nor its disk.
    pub(crate) fn machine(&self, number: usize) -> Result<Option<usize>, StoreError> {
        let machine = self.0.machine(number);
        match machine.zip(self.0.bases.disks.as_ref()) {
            Some((machine, disks)) if disks.has(machine) => Ok(Some(machine)),
            _ => self.0.find(number).map(|_| machine),
        }
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

    /// Fails if this process may not carry out a fault on these servers.
    ///
    /// # Errors
    /// As [`PrivilegedFault::must_be_permitted`].
    pub(crate) fn must_permit(&self, fault: PrivilegedFault) -> Result<(), StoreError> {
        fault.must_be_permitted(&self.0.spec)
    }

    /// Does planned work as [`Servers::work`] does, within `waits`.
    ///
    /// # Errors
    /// As [`Servers::work`].
    pub(crate) fn work_within(&self, nodes: Nodes, name: &str, waits: &Waits) -> Result<(), StoreError> {
        self.0.work_within(nodes, name, waits)
    }

    /// Starts the nodes that do not run, beside those that do, and waits until all are one cluster, each for at most the
    /// time that a start may take.
    ///
    /// # Errors
    /// As [`Servers::start`]; `Broken` if the nodes do not become one cluster.
    pub(crate) fn start_beside(&self) -> Result<(), StoreError> {
        self.0.start_within(Nodes::All, START_BOUND).map(drop)
    }

    /// Returns true if a node runs that does not follow the present primary.
    pub(crate) fn has_stale(&self) -> bool {
        !self.0.stale().is_empty()
    }

    /// Returns the error `lost` of a request to the running servers with the log of the first that reports a crash; of a
    /// single server with its log.
    pub(crate) fn explain(&self, lost: StoreError) -> StoreError {
        let members = self.0.members();
        let is_meant = |server: &PrivateServer| members.len() == 1 || server.crash().is_some();
        let mut servers = members.iter().map(|member| locked(&member.server));
        match servers.find(|server| is_meant(server)) {
            Some(server) => server.explain(lost),
            None => lost,
        }
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

    /// Returns the current state of a node's server; `None` if an operation on it lasts for 0.1 s more.
    ///
    /// # Errors
    /// `Usage` if there is no such node.
    pub fn server_state(&self, number: usize) -> Result<Option<ServerState>, StoreError> {
        let made = self.0.find(number)?;
        let until = Instant::now() + STATE_BOUND;
        let mut server = loop {
            match made.server.try_lock() {
                Ok(server) => break server,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let (ended, pid, hangs, clock) = (server.ended(), server.pid(), server.hangs(), server.clock());
        Ok(Some(ServerState { ended, pid, hangs, clock }))
    }

    /// Returns the numbers of nodes that are being started, with the times when that began.
    pub fn starting(&self) -> BTreeMap<usize, Instant> {
        self.0.starting()
    }

    /// Asks a node, as a client, if it is ready, and for its role and state. Each reply may take `bound`.
    ///
    /// # Errors
    /// `Usage` if there is no such node; an error if it is not ready.
    pub(crate) fn ready(&self, number: usize, bound: Duration) -> Result<NodeAnswer, StoreError> {
        let (nodes, _guard) = (self.0.nodes(), self.0.enter()?);
        let (node, waits) = (self.0.member(&nodes, number, false)?, self.0.waits.with_answer(bound));
        self.0.recipe.ready(&node, &waits)?;
        let role = match self.changes_role(number) {
            true => self.0.recipe.present_role(&node, &waits)?,
            false => self.role(number),
        };
        Ok(NodeAnswer { role, own_state: self.0.recipe.own_state(&node, &waits)? })
    }

    /// Asks the nodes that `is_asked` selects for their long-running operations.
    pub(crate) fn operations(&self, is_asked: impl Fn(usize) -> bool) -> Vec<TrackedOperation> {
        self.0.operations(Duration::ZERO, is_asked)
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
}

impl Deref for ClusterHandle {
    type Target = dyn Servers;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
