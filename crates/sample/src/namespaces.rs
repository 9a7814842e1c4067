//! Network namespaces of nodes that have a host of their own.

use std::fs::{read_link, read_to_string};
use std::path::PathBuf;

use crate::server::{ServerProcesses, node_name};

/// Network namespace of a node.
#[derive(Debug)]
pub(crate) struct NodeNetwork {
    /// Name of the node.
    pub(crate) subject: String,
    pid: u32,
    /// Identity of the namespace.
    link: PathBuf,
}

impl NodeNetwork {
    /// Returns the text of the file `name` in the namespace's `/proc/net`; `None` if the process has ended.
    ///
    /// The file is opened each time: a descriptor would keep the namespace after the end of its last process, and with
    /// it the interfaces of the node's host.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let pid = self.pid;
        let is_same = read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|link| link == self.link);
        is_same.then(|| read_to_string(format!("/proc/{pid}/net/{name}")).ok()).flatten()
    }
}

/// The networks of all nodes that are not in this process's own.
#[derive(Debug, Default)]
pub(crate) struct NodeNetworks {
    processes: ServerProcesses,
    change: u64,
    all: Vec<NodeNetwork>,
}

impl NodeNetworks {
    pub(crate) fn new(processes: ServerProcesses) -> Self {
        Self { processes, ..Self::default() }
    }

    /// Returns the networks now. Of nodes that share one, the first has it.
    pub(crate) fn now(&mut self) -> &[NodeNetwork] {
        if let Some(sites) = self.processes.since(self.change) {
            self.change = sites.change;
            self.all.clear();
            let own = read_link("/proc/self/ns/net").ok();
            for site in &sites.all {
                let Ok(link) = read_link(format!("/proc/{}/ns/net", site.pid)) else { continue };
                if own.as_ref() != Some(&link) && self.all.iter().all(|known| known.link != link) {
                    self.all.push(NodeNetwork { subject: node_name(site), pid: site.pid, link });
                }
            }
        }
        &self.all
    }
}
