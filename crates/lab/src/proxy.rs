//! A proxy in front of a cluster: HAProxy on its own host, which distributes connections to the nodes behind it.
//!
//! The proxy wraps a store's recipe, which does not know of it. It is the last node, starts last, and is left out of
//! the nodes that the recipe sees. It passes bytes on (`mode tcp`), checks each node every half a second, and closes
//! the connections of a failed one. Adding and removing nodes is refused, because HAProxy's configuration lists the
//! nodes of the start.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Launch, Member, Node, ParamSpec, Progress, Recipe, ServerSpec, Setting, StoreError, StoreErrorKind, Waits,
};

use crate::packages::Program;

/// Program of the proxy.
const HAPROXY: Program = Program { name: "haproxy", directories: &[], package: "haproxy" };
/// Configuration file of HAProxy.
const FILE: &str = "haproxy.cfg";
/// Ports on which HAProxy listens, in the order of [`Proxied::doors`].
const PORTS: [u16; 2] = [8000, 8001];
/// Start stage of the proxy, after all stages of the nodes behind it.
const STAGE: usize = 100;
/// Longest time for accepting a connection.
const LOOK_BOUND: Duration = Duration::from_secs(1);

/// Parameter of stores that can have a proxy.
pub const PROXY: ParamSpec =
    ParamSpec::flag("haproxy", "sessions go to private servers through an HAProxy, on a host of its own").of_private();

/// A listening port of the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// Numbers of the nodes that receive connections, in turn.
    pub to: Vec<usize>,
    /// Lines of configuration for health checks beyond accepting connections.
    pub check: Vec<String>,
}

/// A recipe with a proxy in front.
pub struct Proxied {
    inner: Box<dyn Recipe>,
    doors: Vec<Door>,
    program: PathBuf,
}

impl Proxied {
    /// Wraps `inner`, whose nodes have their own hosts, with a proxy with one or two `doors`.
    ///
    /// # Errors
    /// `Missing`, with the command that installs it; `Usage` if there is only one node without a host.
    pub fn new(inner: Box<dyn Recipe>, doors: Vec<Door>) -> Result<Self, StoreError> {
        if inner.spec().hosts == 0 {
            let what =
                format!("HAProxy needs a cluster, and this {} has one node without its own host", inner.spec().name);
            return Err(StoreError::usage(what).next("Use more nodes: nodes = 3"));
        }
        Ok(Self { inner, doors, program: HAPROXY.find()? })
    }

    fn number(&self) -> usize {
        self.inner.spec().nodes
    }

    fn is_it(&self, number: usize) -> bool {
        number == self.number()
    }

    /// Returns all nodes but the proxy.
    fn behind(&self, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
        nodes.iter().filter(|node| !self.is_it(node.number)).cloned().collect()
    }

    /// Calls the inner recipe for one of its own nodes.
    fn of<T>(&self, node: Member<'_>, ask: impl FnOnce(&dyn Recipe, Member<'_>) -> T) -> T {
        ask(&*self.inner, Member { nodes: &self.behind(node.nodes), ..node })
    }

    fn config(&self, node: Member<'_>) -> String {
        let mut text = "global\n    log stderr format raw daemon notice\n\
                        defaults\n    mode tcp\n    log global\n    timeout connect 5s\n    timeout client 1d\n    \
                        timeout server 1d\n    timeout check 1s\n    option clitcpka\n    option redispatch 1\n"
            .to_owned();
        for (at, door) in self.doors.iter().enumerate() {
            text.push_str(&format!("listen door{at}\n    bind {}\n    balance roundrobin\n", node.listens_at(at)));
            door.check.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
            let how = "check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions";
            for behind in node.nodes.iter().filter(|behind| door.to.contains(&behind.number)) {
                text.push_str(&format!("    server node{} {} {how}\n", behind.number + 1, behind.listens_at(0)));
            }
        }
        text
    }
}

/// Returns the report's setting for sessions through a proxy, if one of these roles is a proxy.
pub(crate) fn setting<'r>(roles: impl Iterator<Item = &'r str>) -> Option<Setting> {
    let (proxies, nodes): (Vec<&str>, Vec<&str>) = roles.partition(|role| *role == HAPROXY.name);
    let value = format!("through HAProxy to {} nodes; replies are not told apart by node", nodes.len());
    (!proxies.is_empty()).then(|| Setting::ours("sessions", value, "direct"))
}

/// Returns the proxy's node of a cluster with `behind` nodes behind it, if it has one.
pub fn proxy_of(nodes: &[Arc<Node>], behind: usize) -> Option<&Arc<Node>> {
    nodes.iter().find(|node| node.number == behind)
}

impl Recipe for Proxied {
    fn spec(&self) -> ServerSpec {
        let spec = self.inner.spec();
        ServerSpec { nodes: spec.nodes + 1, hosts: spec.hosts + 1, ..spec }
    }

    fn role(&self, node: usize) -> &'static str {
        if self.is_it(node) { HAPROXY.name } else { self.inner.role(node) }
    }

    fn keeps_data(&self, node: usize) -> bool {
        !self.is_it(node) && self.inner.keeps_data(node)
    }

    fn takes_tcp(&self, node: usize) -> bool {
        self.is_it(node) || self.inner.takes_tcp(node)
    }

    fn hangs(&self, node: usize) -> Result<(), StoreError> {
        match self.is_it(node) {
            true => {
                let what = "HAProxy serves many clients with one thread, and `hang` needs a thread for each";
                let next = "name another node, or suspend the whole HAProxy: pause instead of hang";
                Err(StoreError::usage(what).next(next))
            }
            false => self.inner.hangs(node),
        }
    }

    fn serving(&self, node: Member<'_>, waits: &Waits) -> Result<Vec<u32>, StoreError> {
        match self.is_it(node.number) {
            true => self.hangs(node.number).map(|()| Vec::new()),
            false => self.of(node, |inner, node| inner.serving(node, waits)),
        }
    }

    fn has_log_disk(&self) -> bool {
        self.inner.has_log_disk()
    }

    fn has_primary(&self) -> bool {
        self.inner.has_primary()
    }

    fn primary(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<usize, StoreError> {
        self.inner.primary(&self.behind(nodes), waits)
    }

    fn changes_role(&self, node: usize) -> bool {
        !self.is_it(node) && self.inner.changes_role(node)
    }

    fn present_role(&self, node: &Node, waits: &Waits) -> Result<&'static str, StoreError> {
        self.inner.present_role(node, waits)
    }

    fn is_replica(&self, node: &Node, waits: &Waits) -> Option<bool> {
        if self.is_it(node.number) { None } else { self.inner.is_replica(node, waits) }
    }

    fn promotes(&self) -> Result<(), StoreError> {
        Err(StoreError::usage("a replica behind an HAProxy cannot be promoted by a command")
            .next("use the store without the HAProxy"))
    }

    fn ports(&self, node: usize) -> &'static [u16] {
        if self.is_it(node) { &PORTS } else { self.inner.ports(node) }
    }

    fn host(&self, node: usize) -> usize {
        if self.is_it(node) { self.inner.spec().hosts } else { self.inner.host(node) }
    }

    fn stage(&self, node: Member<'_>) -> usize {
        if self.is_it(node.number) { STAGE } else { self.of(node, |inner, node| inner.stage(node)) }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        match self.is_it(node.number) {
            true => Ok(vec![(FILE.to_owned(), self.config(node).into_bytes())]),
            false => self.of(node, |inner, node| inner.files(node)),
        }
    }

    fn set_up(&self, node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        if self.is_it(node.number) { Ok(None) } else { self.of(node, |inner, node| inner.set_up(node)) }
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        if !self.is_it(node.number) {
            return self.of(node, |inner, node| inner.launch(node));
        }
        let file = node.data_dir.join(FILE).display().to_string();
        Ok(Launch::new(HAPROXY.name, self.program.clone(), ["-db", "-f", &file]))
    }

    fn version_option(&self) -> &'static str {
        self.inner.version_option()
    }

    fn version_marks(&self, node: usize) -> Result<&'static [&'static str], StoreError> {
        match self.is_it(node) {
            true => {
                let what = "HAProxy is not the store's server, and keeps its program";
                Err(StoreError::usage(what).next("name another node, or all"))
            }
            false => self.inner.version_marks(node),
        }
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        if !self.is_it(node.number) {
            return self.inner.ready(node, waits);
        }
        (0..self.doors.len()).try_for_each(|at| {
            let address = SocketAddr::from(node.listens_at(at));
            let connected = TcpStream::connect_timeout(&address, LOOK_BOUND);
            connected
                .map(drop)
                .map_err(|error| StoreError::new(StoreErrorKind::Unreachable, format!("HAProxy at {address}: {error}")))
        })
    }

    fn own_state(&self, node: &Node, waits: &Waits) -> Result<String, StoreError> {
        if self.is_it(node.number) { Ok(String::new()) } else { self.inner.own_state(node, waits) }
    }

    fn form(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        self.inner.form(&self.behind(nodes), waits)
    }

    fn until_whole(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        self.inner.until_whole(&self.behind(nodes), waits)
    }

    fn recover(
        &self,
        nodes: &[Arc<Node>],
        run: &dyn Fn(&Node, &Launch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.recover(&self.behind(nodes), run)
    }

    fn works(&self, node: usize) -> &'static [&'static str] {
        if self.is_it(node) { &[] } else { self.inner.works(node) }
    }

    fn work(&self, name: &str, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        match self.is_it(node.number) {
            true => Err(StoreError::usage(format!("the HAProxy has no planned work `{name}`"))),
            false => self.of(node, |inner, node| inner.work(name, node, waits)),
        }
    }

    fn work_must_be_installed(&self, name: &str) -> Result<(), StoreError> {
        self.inner.work_must_be_installed(name)
    }

    fn works_alone(&self, name: &str) -> bool {
        self.inner.works_alone(name)
    }

    fn work_progress(&self, node: usize) -> Option<Progress> {
        self.inner.work_progress(node)
    }

    fn client_environment(&self, node: &Node) -> Vec<(&'static str, String)> {
        self.inner.client_environment(node)
    }

    fn takes_more(&self) -> Result<(), StoreError> {
        Err(StoreError::usage("HAProxy only knows the nodes that it was started with")
            .next("start a new cluster with more nodes: --nodes N"))
    }

    fn part(&self, _: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        Err(StoreError::usage("HAProxy needs all nodes that it was started with")
            .next("stop the node instead (lab stop), or start a new cluster with fewer nodes: --nodes N"))
    }
}
