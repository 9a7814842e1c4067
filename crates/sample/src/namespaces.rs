//! Network namespaces of nodes that have a host of their own.

use std::fs::{File, read_link};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use crate::server::{ServerProcesses, node_name};

/// Most bytes of a file that are read: some 400 sockets. A list of more would take too long.
const BYTES_MAX: u64 = 64 << 10;

/// Returns the text of the file `path` of `/proc`, empty without such a file; `None` if it is longer than
/// [`BYTES_MAX`] or cannot be read.
pub(crate) fn short_text(path: &str) -> Option<String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return (error.kind() == ErrorKind::NotFound).then(String::new),
    };
    // In one piece, if it is short: for each read of a list the kernel searches all of its sockets again.
    let mut text = String::with_capacity(4 << 10);
    file.take(BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= BYTES_MAX).then_some(text)
}

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
    /// Returns the text of the file `name` in the namespace's `/proc/net`, as [`short_text`]; `None` if the process has
    /// ended.
    ///
    /// The file is opened each time: a descriptor would keep the namespace after the end of its last process, and with
    /// it the interfaces of the node's host.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let pid = self.pid;
        let is_same = read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|link| link == self.link);
        if is_same { short_text(&format!("/proc/{pid}/net/{name}")) } else { None }
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
