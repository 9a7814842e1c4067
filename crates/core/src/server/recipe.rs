//! The recipe of a store's private servers.

use std::sync::Arc;

use super::{Launch, Member, Node, ServerSpec};
use crate::error::StoreError;
use crate::failover::FailoverTime;
use crate::progress::Progress;
use crate::waits::Waits;

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

    /// Returns false if servers choose a primary by vote and only some of the nodes have one. A minority and a majority
    /// of all nodes say nothing about the votes then.
    fn all_nodes_vote(&self) -> bool {
        true
    }

    /// Returns the published formula of failover with the time-outs of these servers; `None` if no node takes the place
    /// of a lost primary by itself.
    fn failover_time(&self) -> Option<FailoverTime> {
        None
    }

    /// Fails if a command cannot make a replica the primary, because the store takes none or has no replica.
    ///
    /// # Errors
    /// `Usage`.
    fn promotes(&self) -> Result<(), StoreError> {
        Err(no_promotion(self.spec().name))
    }

    /// Returns true if the former primary goes on to run after a promotion and becomes a replica by itself, as the other
    /// nodes do. Otherwise it is killed before, because it would take writes that are lost. If true, nodes are asked
    /// for their roles.
    fn switches_over(&self) -> bool {
        false
    }

    /// Makes a replica the primary.
    ///
    /// # Errors
    /// `Usage` if it is no replica; a refusal by the node.
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

    /// Option with which a server's program prints its version and ends.
    fn version_option(&self) -> &'static str {
        "--version"
    }

    /// Returns the words of which one stands before the version in the output of the node's program with
    /// [`Recipe::version_option`].
    ///
    /// # Errors
    /// `Usage` if the node cannot be started with another program.
    fn version_marks(&self, _node: usize) -> Result<&'static [&'static str], StoreError> {
        let what = format!("{} cannot be started with another program", self.spec().name);
        Err(StoreError::usage(what).next("restart it with its own program: leave `with` out"))
    }

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

    /// Fails if the program that does [planned work](Recipe::works) of this name is not installed. Work that servers do
    /// themselves needs none.
    ///
    /// # Errors
    /// `Missing`, with the line that installs it.
    fn work_must_be_installed(&self, _name: &str) -> Result<(), StoreError> {
        Ok(())
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
            .next("make it with all its nodes, or use a store whose nodes join and leave"))
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
