//! Recipe of a private Redis: alone, with replicas and Sentinels, or as a node of a cluster.
//!
//! The server listens on a Unix socket only, in a directory that only its user and root can enter, without a
//! password. The node of a cluster listens on the loopback interface besides, where nodes find one another, and asks for a
//! password. Snapshots are off: the append-only file keeps the data, and the durability says how that file is synced.
//! The server watches its own slow work (`latency_events`). Every setting that the caller does not set has the server's
//! default.

use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::{
    Address, FailoverTime, Launch, Member, Node, Progress, Recipe, ServerSpec, StoreError, StoreErrorKind, Waits,
    no_promotion,
};
use plimsoll_lab::Program;

use crate::control::Control;
use crate::endpoint::{Endpoint, Login, Password};
use crate::facts::Info;
use crate::failover;
use crate::formation;
use crate::latency_events;
use crate::reshard::{self, RESHARD, Reshards};
use crate::switchover;
use crate::works;

/// Make of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

impl Make {
    fn program(self) -> Program {
        let name = if self == Make::Redis { "redis-server" } else { "valkey-server" };
        Program { name, directories: &[], package: name }
    }

    /// The user that the package makes; the server's name too.
    fn user(self) -> &'static str {
        if self == Make::Redis { "redis" } else { "valkey" }
    }
}

/// Finds the program of a server of this make, or of the make that is installed.
///
/// # Errors
/// `Missing`, with the line that installs it.
pub fn find_server(make: Option<Make>) -> Result<(Make, PathBuf), StoreError> {
    let find = |make: Make| make.program().find().map(|path| (make, path));
    match make {
        Some(make) => find(make),
        None => find(Make::Redis).or_else(|missing| find(Make::Valkey).map_err(|_| missing)),
    }
}

/// The file with the password of a cluster's node. In a list of processes it would be for all to see.
const PASSWORD_FILE: &str = "password.conf";
/// A Sentinel's file, which it writes to.
const SENTINEL_FILE: &str = "sentinel.conf";
/// Name under which Sentinels watch a master.
pub(crate) const WATCHED: &str = "plimsoll";
/// Ports of clients, and of a cluster's other nodes.
const PORTS: [u16; 2] = [6379, 16379];
const SENTINEL_PORTS: [u16; 1] = [26379];
/// Time without a reply after which Sentinels take a master for down, in milliseconds. With Redis' own 30 s a failover
/// would take longer than most runs do.
const DOWN_AFTER_MS: u32 = 2_000;
/// Default of a cluster's `cluster-node-timeout`, in milliseconds.
const NODE_TIMEOUT_MS: &str = "15000";

/// The role of a server that has keys of its own.
pub(crate) const MASTER: &str = "master";
pub(crate) const REPLICA: &str = "replica";
pub(crate) const SENTINEL: &str = "sentinel";

/// Number of servers of each role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Masters, each with an equal part of the keys; more than one form a cluster.
    pub masters: usize,
    /// Number of replicas of each master.
    pub replicas: usize,
    /// Number of Sentinels, which watch a single master and its replicas.
    pub sentinels: usize,
}

impl Shape {
    /// A server alone.
    pub const ALONE: Shape = Shape { masters: 1, replicas: 0, sentinels: 0 };

    /// Masters and replicas.
    pub(crate) fn servers(self) -> usize {
        self.masters * (1 + self.replicas)
    }

    /// Returns true if the servers have hosts of their own, so that the loss of one has a meaning.
    fn has_hosts(self) -> bool {
        self.replicas > 0 || self.sentinels > 0
    }

    fn is_alone(self) -> bool {
        self == Shape::ALONE
    }
}

/// A private Redis, or several that belong together.
#[derive(Debug, Clone)]
pub struct RedisRecipe {
    make: Make,
    program: PathBuf,
    settings: Vec<(String, String)>,
    pub(crate) shape: Shape,
    /// Reshards of these servers in progress.
    pub(crate) reshards: Reshards,
}

impl RedisRecipe {
    /// Makes the recipe of a number of servers, with these settings by the server's own names.
    ///
    /// # Errors
    /// `Missing` when `make`, or any, is not installed; `Usage` where Sentinels are to watch a cluster, which needs none.
    pub fn new(make: Option<Make>, settings: Vec<(String, String)>, shape: Shape) -> Result<Self, StoreError> {
        if shape.sentinels > 0 && (shape.masters > 1 || shape.replicas == 0) {
            return Err(StoreError::usage("Sentinels watch one master and its replicas")
                .next("Leave nodes at 1 and say replicas, or leave sentinels out: a cluster watches itself"));
        }
        let (make, program) = find_server(make)?;
        Ok(Self { make, program, settings, shape, reshards: Reshards::default() })
    }

    /// Reports whether the server belongs to a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.shape.masters > 1
    }

    /// Returns the value of a setting under `as-configured`.
    pub(crate) fn configured<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        let set = self.settings.iter().rfind(|(known, _)| known == name);
        set.map_or(default, |(_, value)| value)
    }

    /// Returns the endpoint of a node: without a login, or with the password of a cluster's node.
    pub fn endpoint(&self, node: &Node) -> Endpoint {
        let is_sentinel = self.role(node.number) == SENTINEL;
        let password = (!self.shape.is_alone() && !is_sentinel).then(|| Password::new(node.secret.as_str()));
        let place = format!("the private {}", self.make.user());
        let login = Login { password, place, ..Login::default() };
        let address = match (is_sentinel, self.shape.has_hosts()) {
            (true, _) => Address::Tcp(node.address.to_string(), node.listens_at(0).port()),
            (_, true) if !self.is_cluster() => Address::Tcp(node.address.to_string(), node.listens_at(0).port()),
            _ => Address::Unix(node.socket_dir.join("redis.sock")),
        };
        Endpoint { address, tls: None, login }
    }

    /// The program that checks append-only files (`aof`) or snapshots (`rdb`), where it is installed.
    pub fn check_program(&self, of: &str) -> Option<PathBuf> {
        let name = format!("{}-check-{of}", self.make.user());
        Some(self.program.with_file_name(name)).filter(|path| path.is_file())
    }
}

impl Recipe for RedisRecipe {
    fn spec(&self) -> ServerSpec {
        let servers = self.shape.servers();
        let (hosts, ports): (_, &[u16]) = match self.shape {
            Shape::ALONE => (0, &[]),
            shape if shape.has_hosts() => (servers.max(shape.sentinels), &PORTS),
            _ => (0, &PORTS),
        };
        let nodes = servers + self.shape.sentinels;
        let package = self.make.program().package;
        let memory_bytes = 12 << 20;
        ServerSpec { nodes, hosts, ports, memory_bytes, ..ServerSpec::new(self.make.user(), self.make.user(), package) }
    }

    fn role(&self, node: usize) -> &'static str {
        match node {
            _ if node < self.shape.masters => MASTER,
            _ if node < self.shape.servers() => REPLICA,
            _ => SENTINEL,
        }
    }

    fn changes_role(&self, node: usize) -> bool {
        self.shape.replicas > 0 && self.role(node) != SENTINEL
    }

    fn present_role(&self, node: &Node, waits: &Waits) -> Result<&'static str, StoreError> {
        let info = Info::read(&mut Control::open(&self.endpoint(node), waits)?)?;
        Ok(if info.text("role") == MASTER { MASTER } else { REPLICA })
    }

    fn ports(&self, node: usize) -> &'static [u16] {
        if self.role(node) == SENTINEL { &SENTINEL_PORTS } else { &PORTS }
    }

    fn takes_tcp(&self, node: usize) -> bool {
        // The sessions of a cluster use the sockets of its nodes.
        self.role(node) == SENTINEL || (self.shape.has_hosts() && !self.is_cluster())
    }

    fn host(&self, node: usize) -> usize {
        // A Sentinel is beside a server, as people have it where they have three machines.
        node.checked_sub(self.shape.servers()).unwrap_or(node)
    }

    fn has_primary(&self) -> bool {
        !self.is_cluster() && self.shape.replicas > 0
    }

    fn primary(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<usize, StoreError> {
        // Sentinels also name a master that only clients cannot reach.
        if let Some(master) = formation::watched_master(self, nodes, waits) {
            return Ok(master.number);
        }
        for node in nodes.iter().take(self.shape.servers()) {
            if self.present_role(node, waits)? == MASTER {
                return Ok(node.number);
            }
        }
        Err(StoreError::new(StoreErrorKind::Unreachable, "no node of the private Redis is the master just now"))
    }

    fn is_replica(&self, node: &Node, waits: &Waits) -> Option<bool> {
        self.is_cluster().then(|| self.present_role(node, waits).is_ok_and(|role| role == REPLICA))
    }

    fn all_nodes_vote(&self) -> bool {
        // Sentinels vote, or the masters of a cluster.
        let has_replicas = self.is_cluster() && self.shape.replicas > 0;
        self.shape.sentinels == 0 && !has_replicas
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        match self.shape {
            // Of fewer Sentinels or masters, those that are left are no majority.
            Shape { sentinels: 3.., .. } => Some(failover::of_sentinels(DOWN_AFTER_MS)),
            Shape { masters: 3.., replicas: 1.., .. } => {
                failover::of_cluster(self.configured("cluster-node-timeout", NODE_TIMEOUT_MS))
            }
            _ => None,
        }
    }

    fn promotes(&self) -> Result<(), StoreError> {
        let has_replicas = self.is_cluster() && self.shape.replicas > 0;
        if self.shape.sentinels > 0 || has_replicas { Ok(()) } else { Err(no_promotion(self.spec().name)) }
    }

    fn switches_over(&self) -> bool {
        true
    }

    fn promote(&self, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        switchover::promote(self, to, waits)
    }

    fn stage(&self, node: Member<'_>) -> usize {
        match self.role(node.number) {
            REPLICA if !self.is_cluster() => 1,
            SENTINEL => 2,
            _ => 0,
        }
    }

    fn works(&self, node: usize) -> &'static [&'static str] {
        match self.role(node) {
            SENTINEL => &[],
            MASTER if self.is_cluster() => works::OF_MASTER,
            _ => works::WORKS,
        }
    }

    fn work(&self, name: &str, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        match name {
            RESHARD => reshard::run(self, node, waits)?,
            _ => works::run(&mut Control::open(&self.endpoint(&node), waits)?, name)?,
        }
        Ok(None)
    }

    fn works_alone(&self, name: &str) -> bool {
        name == RESHARD
    }

    fn work_progress(&self, node: usize) -> Option<Progress> {
        self.reshards.of(node)
    }

    fn client_environment(&self, node: &Node) -> Vec<(&'static str, String)> {
        if self.shape.is_alone() { Vec::new() } else { vec![("REDISCLI_AUTH", node.secret.clone())] }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        if self.shape.is_alone() {
            return Ok(Vec::new());
        }
        let Some(master) = node.nodes.first().filter(|_| self.role(node.number) == SENTINEL) else {
            let text = format!("requirepass {0}\nmasterauth {0}\n", node.secret);
            return Ok(vec![(PASSWORD_FILE.to_owned(), text.into_bytes())]);
        };
        let (own, watched) = (node.listens_at(0), master.listens_at(0));
        // As many as decide that a master is down: more than half.
        let text = format!(
            "port {}\nbind {}\ndir {}\nsentinel monitor {WATCHED} {} {} {}\nsentinel auth-pass {WATCHED} {}\n\
             sentinel down-after-milliseconds {WATCHED} {DOWN_AFTER_MS}\nsentinel failover-timeout {WATCHED} 10000\n",
            own.port(),
            own.ip(),
            node.data_dir.display(),
            watched.ip(),
            watched.port(),
            self.shape.sentinels / 2 + 1,
            node.secret,
        );
        Ok(vec![(SENTINEL_FILE.to_owned(), text.into_bytes())])
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        if self.role(node.number) == SENTINEL {
            let file = node.data_dir.join(SENTINEL_FILE).display().to_string();
            return Ok(Launch::new(SENTINEL, self.program.clone(), [file.as_str(), "--sentinel"]));
        }
        let data = node.data_dir.display().to_string();
        let socket = node.socket_dir.join("redis.sock").display().to_string();
        let (port, bus_port) = (node.listens_at(0).port().to_string(), node.listens_at(1).port().to_string());
        let address = node.address.to_string();
        let own = [
            ("port", port.as_str()),
            ("unixsocket", &socket),
            ("unixsocketperm", "700"),
            ("dir", &data),
            ("daemonize", "no"),
            ("save", ""),
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            (latency_events::THRESHOLD, latency_events::THRESHOLD_MS),
        ];
        let bound = Some(("bind", address.as_str())).filter(|_| !self.shape.is_alone());
        // Redis itself waits 5 s for more replicas before it copies to the first.
        let has_replicas = Some(("repl-diskless-sync-delay", "0")).filter(|_| self.shape.replicas > 0);
        let in_cluster = [("cluster-enabled", "yes"), ("cluster-port", bus_port.as_str())];
        let in_cluster = in_cluster.into_iter().filter(|_| self.is_cluster());
        let settings = self.settings.iter().map(|(name, value)| (&**name, &**value));
        let all = own.into_iter().chain(bound).chain(has_replicas).chain(in_cluster).chain(settings);
        let mut arguments: Vec<String> =
            all.flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect();
        if !self.shape.is_alone() {
            arguments.insert(0, node.data_dir.join(PASSWORD_FILE).display().to_string());
        }
        if self.has_primary() && node.number != node.primary {
            let master = node.primary_node().listens_at(0);
            arguments.extend(["--replicaof".to_owned(), master.ip().to_string(), master.port().to_string()]);
        }
        Ok(Launch::new(self.make.program().name, self.program.clone(), arguments))
    }

    fn version_marks(&self, _: usize) -> Result<&'static [&'static str], StoreError> {
        // Valkey reads the data of Redis up to 7.2.
        Ok(&["Redis server v=", "Valkey server v="])
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        Control::open(&self.endpoint(node), waits)?.command(&[b"PING"]).map(drop)
    }

    fn progress(&self, node: Member<'_>, waits: &Waits) -> Result<Vec<Progress>, StoreError> {
        let info = Info::read(&mut Control::open(&self.endpoint(&node), waits)?)?;
        Ok(info.progress(node.number))
    }

    fn form(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        if self.is_cluster() { formation::form(self, nodes, waits) } else { Ok(()) }
    }

    fn until_whole(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        match self.is_cluster() {
            true => formation::until_whole(self, nodes, waits),
            false => formation::until_watched(self, nodes, waits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(shape: Shape, settings: &[(&str, &str)]) -> RedisRecipe {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (program, reshards) = (PathBuf::new(), Reshards::default());
        RedisRecipe { make: Make::Redis, program, settings, shape, reshards }
    }

    #[test]
    fn the_formula_of_failover_follows_the_shape_and_the_settings_of_the_servers() {
        let (watched, cluster) =
            (Shape { replicas: 2, sentinels: 3, ..Shape::ALONE }, Shape { masters: 3, replicas: 1, sentinels: 0 });
        assert_eq!(recipe(watched, &[]).failover_time(), Some(failover::of_sentinels(DOWN_AFTER_MS)));
        assert_eq!(recipe(cluster, &[]).failover_time(), failover::of_cluster("15000"));
        let set = recipe(cluster, &[("cluster-node-timeout", "5000"), ("cluster-node-timeout", "2000")]);
        assert_eq!(set.failover_time().map(|time| time.killed_s), Some((2.5, 5.0)));
        for shape in [Shape::ALONE, Shape { replicas: 0, ..cluster }, Shape { sentinels: 2, ..watched }] {
            assert_eq!(recipe(shape, &[]).failover_time(), None, "{shape:?}");
        }
    }

    #[test]
    fn replicas_are_promoted_by_sentinels_or_in_a_cluster_and_not_by_a_server_alone() {
        let (replicas, masters) = (Shape { replicas: 1, ..Shape::ALONE }, Shape { masters: 3, ..Shape::ALONE });
        let can = |shape: Shape| recipe(shape, &[]).promotes().is_ok();
        assert!(can(Shape { sentinels: 1, ..replicas }) && can(Shape { replicas: 1, ..masters }));
        assert!(!can(Shape::ALONE) && !can(replicas) && !can(masters));
    }

    #[test]
    fn not_all_nodes_vote_beside_sentinels_and_where_masters_of_a_cluster_have_replicas() {
        let (replicas, masters) = (Shape { replicas: 2, ..Shape::ALONE }, Shape { masters: 3, ..Shape::ALONE });
        let all_vote = |shape: Shape| recipe(shape, &[]).all_nodes_vote();
        assert!(!all_vote(Shape { sentinels: 3, ..replicas }) && !all_vote(Shape { replicas: 1, ..masters }));
        assert!(all_vote(Shape::ALONE) && all_vote(replicas) && all_vote(masters));
    }
}
