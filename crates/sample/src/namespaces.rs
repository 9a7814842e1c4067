//! Network namespaces of nodes that have a host of their own.

use std::fs::{File, read_link};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use crate::server::{ServerProcesses, node_name};

/// Most bytes of a file that are read: some 400 sockets. A list of more would take too long.
const BYTES_MAX: u64 = 64 << 10;
/// Bytes of a page, in which the kernel collects the lines that one read returns.
const PAGE_BYTES: usize = 4 << 10;
/// Most bytes of a line of a list, with some room.
const LINE_BYTES_MAX: usize = 512;

/// Returns the text of the file `path` of `/proc`, empty without such a file; `None` if it is longer than
/// [`BYTES_MAX`] or cannot be read.
pub(crate) fn short_text(path: &str) -> Option<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return (error.kind() == ErrorKind::NotFound).then(String::new),
    };
    let mut text = vec![0; PAGE_BYTES];
    let length = file.read(&mut text).ok()?;
    text.truncate(length);
    // A page that has room for another line is the last one. For each read the kernel searches all sockets again, also for
    // the one that finds the end.
    if length + LINE_BYTES_MAX > PAGE_BYTES {
        file.take(BYTES_MAX + 1 - length as u64).read_to_end(&mut text).ok()?;
    }
    String::from_utf8(text).ok().filter(|text| text.len() as u64 <= BYTES_MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("text");
        let read = || short_text(path.to_str().unwrap());
        assert_eq!(read(), Some(String::new()), "there is no such file");
        for length in [0, 1, 3_584, 3_585, 4_096, 4_097, 10_000, BYTES_MAX as usize] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            std::fs::write(&path, &text).unwrap();
            assert!(read() == Some(text), "{length} bytes");
        }
        std::fs::write(&path, vec![b'x'; BYTES_MAX as usize + 1]).unwrap();
        assert_eq!(read(), None);
    }
}
