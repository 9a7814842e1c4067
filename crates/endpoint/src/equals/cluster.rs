//! Control connections to the servers of a cluster, and requests to one or to all of them.

use std::sync::Arc;

use plimsoll_core::{Node, Nodes, ParamSpec, Probe, Reading, StoreError, StoreErrorKind, Target, Waits};

use super::{Addresses, ClusterSpec};
use crate::{Connected, Link};

/// Number of private servers.
pub const NODES: ParamSpec = ParamSpec::int(
    "nodes",
    1..=15,
    "1",
    "servers of a private cluster, each on a host of its own; sessions go to them in turn",
)
.of_private();

/// Opens a control connection to the first of the addresses, and logs in.
type Open<C> = fn(&Addresses, &Waits) -> Result<C, StoreError>;

/// Servers that a probe reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Repeats the request on every server.
    Servers,
    /// The first server that answers, of the whole cluster.
    Cluster,
}

struct Server<C> {
    control: Link<C>,
    /// `None` for an attached server.
    node: Option<Arc<Node>>,
}

/// Servers of one cluster: one or more, all private or all attached.
pub struct Equals<C> {
    /// Addresses that sessions connect to: those of the servers, or that of a proxy in front of them.
    pub addresses: Addresses,
    servers: Vec<Server<C>>,
    is_proxied: bool,
}

impl<C: Connected> Equals<C> {
    /// Returns the cluster of `target`. Connections are made by `open` when they are needed.
    /// `proxy` is the number of the private node with an HAProxy.
    ///
    /// # Errors
    /// As [`Addresses::of_target`].
    pub fn of_target(
        spec: &ClusterSpec,
        target: &Target,
        proxy: Option<usize>,
        open: Open<C>,
        waits: &Waits,
    ) -> Result<Self, StoreError> {
        let link = |own, addresses: Addresses| {
            let waits = waits.clone();
            Link::new(own, move || open(&addresses, &waits))
        };
        let Target::Servers(own) = target else {
            let addresses = Addresses::of_target(spec, target)?;
            let server = |at| Server { control: link(None, addresses.only(at)), node: None };
            let servers = (0..addresses.hosts.len()).map(server).collect();
            return Ok(Self { addresses, servers, is_proxied: false });
        };
        let running = own.running();
        let all = if running.is_empty() { own.nodes() } else { running };
        let (proxies, nodes): (Vec<_>, Vec<_>) = all.into_iter().partition(|node| Some(node.number) == proxy);
        let is_proxied = !proxies.is_empty();
        let doors = if is_proxied { &proxies } else { &nodes };
        let addresses = Addresses::of_nodes(spec, doors.iter().map(|node| &**node));
        let server = |node: Arc<Node>| {
            let only = Addresses::of_nodes(spec, [&*node]);
            Server { control: link(Some((Arc::clone(own), Nodes::One(node.number))), only), node: Some(node) }
        };
        Ok(Self { addresses, servers: nodes.into_iter().map(server).collect(), is_proxied })
    }

    /// Number of servers.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// True for servers that were started by this program.
    pub fn is_private(&self) -> bool {
        self.nodes().next().is_some()
    }

    /// True for private servers with an HAProxy in front of them.
    pub fn is_proxied(&self) -> bool {
        self.is_proxied
    }

    /// Describes the cluster in a report.
    pub fn described(&self) -> String {
        match (self.is_private(), self.count()) {
            (true, count) if self.is_proxied => format!("private cluster of {count} servers behind HAProxy"),
            (true, 1) => "private server".to_owned(),
            (true, count) => format!("private cluster of {count} servers"),
            (false, _) => self.addresses.place.clone(),
        }
    }

    /// Returns the private nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.servers.iter().filter_map(|server| server.node.as_ref())
    }

    /// Returns another connection to each server.
    pub fn links(&self) -> Vec<Link<C>> {
        self.servers.iter().map(|server| server.control.another()).collect()
    }

    /// Asks the first server that answers.
    ///
    /// # Errors
    /// The answer's; that of the first server if all are unreachable.
    pub fn first<T>(&mut self, ask: impl Fn(&mut C) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut failure = None;
        for server in &mut self.servers {
            match server.control.ask(&ask) {
                Err(error) if error.kind == StoreErrorKind::Unreachable => drop(failure.get_or_insert(error)),
                asked => return asked,
            }
        }
        Err(failure.unwrap_or_else(|| StoreError::broken("a cluster without servers")))
    }

    /// Asks every server. Returns the answers, and the last error of those that are unreachable.
    ///
    /// # Errors
    /// The first error of a server that answers.
    pub fn each<T>(
        &mut self,
        ask: impl Fn(&mut C, Option<&Node>) -> Result<T, StoreError>,
    ) -> Result<(Vec<T>, Option<StoreError>), StoreError> {
        let (mut answers, mut away) = (Vec::new(), None);
        for Server { control, node } in &mut self.servers {
            match control.ask(|control| ask(control, node.as_deref())) {
                Ok(answer) => answers.push(answer),
                Err(error) if error.kind == StoreErrorKind::Unreachable => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok((answers, away))
    }

    /// Ends the connections.
    pub fn hang_up(&mut self) {
        self.servers.iter_mut().for_each(|server| server.control.hang_up());
    }

    /// Returns probes over connections of their own: one for each server, or one that asks the servers in turn for the
    /// readings of the cluster. `read` is told the subject of a server's own readings.
    pub fn probes(
        &self,
        scope: Scope,
        read: impl Fn(&mut C, &str) -> Result<Vec<Reading>, StoreError> + Clone + Send + 'static,
    ) -> Vec<Probe> {
        let is_alone = self.count() == 1;
        let probe = |(server, number): (&Server<C>, usize)| {
            let subject = if is_alone { String::new() } else { format!("node {number}") };
            let read = read.clone();
            server.control.probe(move |control| read(control, &subject))
        };
        let mut probes: Vec<Probe> = self.servers.iter().zip(1..).map(probe).collect();
        if scope == Scope::Servers {
            return probes;
        }
        vec![Box::new(move || {
            let mut failure = None;
            for probe in &mut probes {
                match probe() {
                    Ok(read) if read.is_empty() => {}
                    Err(error) => failure = Some(error),
                    read => return read,
                }
            }
            failure.map_or(Ok(Vec::new()), Err)
        })]
    }
}
