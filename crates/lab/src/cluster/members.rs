//! Nodes that join a cluster and leave it.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use plimsoll_core::{Node, Nodes, Servers, StoreError};

use super::{ClusterMember, Running, locked, provisions};
use crate::disks::log_disk_of;
use crate::hosts::{Host, Network};
use crate::limits;

impl Running {
    /// Makes a node of this number, on `host` or one of its own, and joins it to the cluster. A node that does not join is
    /// removed.
    pub(super) fn join_as(&self, number: usize, host: Option<Arc<Host>>) -> Result<(), StoreError> {
        let ports = if self.spec.hosts == 0 { provisions::free_ports(self.spec.ports.len())? } else { Vec::new() };
        self.add_member(number, ports.into_iter(), host)?;
        let joined = self.unless_hung("join", &[number], |waits| {
            self.bring_up(Nodes::One(number), true, waits, &mut |_| {})?;
            let (nodes, _guard) = (self.nodes(), self.enter()?);
            self.recipe.join(self.member(&nodes, number, false)?, waits)?;
            self.recipe.until_whole(&nodes, waits)
        });
        match joined {
            // The error of the join is the cause.
            Err(_) => joined.and(self.drop_member(number)),
            Ok(()) => Ok(()),
        }
    }

    /// Makes the directories of a node, and a host if it is to have one and none is given.
    pub(super) fn add_member(
        &self,
        number: usize,
        free_ports: impl Iterator<Item = u16>,
        host: Option<Arc<Host>>,
    ) -> Result<(), StoreError> {
        let mut server = self.new_server(&self.waits)?;
        let mut log_dir = None;
        if let Some((disks, machine)) = self.bases.disks.as_ref().zip(self.machine(number)) {
            server.keep_data_in(&disks.mount_point(machine, Some(&self.user))?)?;
            if self.recipe.has_log_disk() {
                log_dir = Some(server.directory_in(&disks.mount_point(log_disk_of(machine), Some(&self.user))?)?);
            }
        }
        limits::apply(&self.limits, server.root_dir())?;
        let host = match (host, &self.network) {
            (None, Some(network)) => Some(self.host_of(number, network)?),
            (host, _) => host,
        };
        host.iter().for_each(|host| server.live_on(host.namespace()));
        let node = Node {
            number,
            data_dir: server.data_dir().to_owned(),
            socket_dir: server.socket_dir().to_owned(),
            log_dir,
            address: host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.address()),
            ports: match host {
                Some(_) => self.recipe.ports(number).to_vec(),
                None => free_ports.take(self.spec.ports.len()).collect(),
            },
            secret: self.secret.clone(),
            limits: self.limits.clone(),
        };
        let (log, root) = (Arc::from(server.log()), Arc::from(server.root_dir()));
        let (node, server) = (Arc::new(node), Arc::new(Mutex::new(server)));
        let member = ClusterMember { node, server, host, log, root, added: Instant::now() };
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.push(member);
        members.sort_by_key(|member| member.node.number);
        Ok(())
    }

    /// Returns the host of a node: another node's if the recipe says so, or a new one.
    fn host_of(&self, number: usize, network: &Arc<Network>) -> Result<Arc<Host>, StoreError> {
        let host = self.recipe.host(number);
        let shares = |member: &ClusterMember| self.recipe.host(member.node.number) == host;
        match self.members().into_iter().find(shares).and_then(|member| member.host) {
            Some(host) => Ok(host),
            None => network.add_host().map(Arc::new),
        }
    }

    /// Refuses to let a node join or leave while a node other than `but` does not run: that would wait in vain until all
    /// are one cluster.
    pub(super) fn others_must_run(&self, but: Option<usize>) -> Result<(), StoreError> {
        for member in self.members().iter().filter(|member| Some(member.node.number) != but) {
            if let Err(ended) = locked(&member.server).check() {
                let (number, name) = (member.node.number + 1, self.spec.name);
                let what = format!("node {number} of {name} does not run: a node joins or leaves while all others run");
                let refused = StoreError { what, detail: Some(ended.to_string()), ..ended };
                return Err(refused.next("start that node before"));
            }
        }
        Ok(())
    }

    /// Removes a node, and ends its server.
    pub(super) fn drop_member(&self, number: usize) -> Result<(), StoreError> {
        let member = self.find(number)?;
        self.members.write().unwrap_or_else(PoisonError::into_inner).retain(|member| member.node.number != number);
        // A later node may have this number.
        self.other_programs().remove(&number);
        self.promotion().stale.remove(&number);
        let ended = locked(&member.server).end();
        provisions::give_back(&member.node.ports);
        ended
    }
}
