//! How a private Redis is made, alone or as the node of a cluster.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter; so nobody is asked for a
//! password. The node of a cluster listens on the loopback interface besides, where nodes find one another, and asks. It
//! takes no snapshots: the append-only file is what keeps its data, and how that is synced is what the durabilities are.
//! Everything else is as the server's own defaults are, but for what the caller sets.

use std::path::PathBuf;

use plimsoll_core::{Address, Launch, Member, Node, Recipe, ServerSpec, StoreError, Waits};
use plimsoll_lab::Program;

use crate::control::Control;
use crate::endpoint::{Endpoint, Login, Password};
use crate::formation;

/// Whose server it is.
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

/// Where the server's program is: that of `make`, or of whichever is there.
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

/// A private Redis, or a cluster of them.
#[derive(Debug, Clone)]
pub struct RedisRecipe {
    make: Make,
    program: PathBuf,
    settings: Vec<(String, String)>,
    nodes: usize,
}

impl RedisRecipe {
    /// So many nodes, with these settings by the server's own names.
    ///
    /// # Errors
    /// `Missing` when `make`, or any, is not installed.
    pub fn new(make: Option<Make>, settings: Vec<(String, String)>, nodes: usize) -> Result<Self, StoreError> {
        let (make, program) = find_server(make)?;
        Ok(Self { make, program, settings, nodes })
    }

    /// Where a node listens, and how to log in: as nobody, or with the password of a cluster's node.
    pub fn endpoint(&self, node: &Node) -> Endpoint {
        let password = (self.nodes > 1).then(|| Password::new(node.secret.as_str()));
        let place = format!("the private {}", self.make.user());
        let login = Login { password, place, ..Login::default() };
        Endpoint { address: Address::Unix(node.socket_dir.join("redis.sock")), tls: None, login }
    }

    /// The program that checks append-only files, where it is installed.
    pub fn check_program(&self) -> Option<PathBuf> {
        let name = format!("{}-check-aof", self.make.user());
        Some(self.program.with_file_name(name)).filter(|path| path.is_file())
    }
}

impl Recipe for RedisRecipe {
    fn spec(&self) -> ServerSpec {
        // A node listens to clients on one port and to other nodes on another.
        let ports: &[u16] = if self.nodes > 1 { &[6379, 16379] } else { &[] };
        let package = self.make.program().package;
        ServerSpec { nodes: self.nodes, ports, ..ServerSpec::new(self.make.user(), self.make.user(), package) }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let text = format!("requirepass {}\n", node.secret).into_bytes();
        Ok(if self.nodes > 1 { vec![(PASSWORD_FILE.to_owned(), text)] } else { Vec::new() })
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let data = node.data_dir.display().to_string();
        let socket = node.socket_dir.join("redis.sock").display().to_string();
        let port = |at: usize| node.ports.get(at).copied().unwrap_or(0).to_string();
        let (port, bus_port) = (port(0), port(1));
        let own = [
            ("port", port.as_str()),
            ("unixsocket", &socket),
            ("unixsocketperm", "700"),
            ("dir", &data),
            ("daemonize", "no"),
            ("save", ""),
            ("appendonly", "yes"),
            ("appendfsync", "always"),
        ];
        let in_cluster = [("bind", "127.0.0.1"), ("cluster-enabled", "yes"), ("cluster-port", &bus_port)];
        let in_cluster = in_cluster.into_iter().filter(|_| self.nodes > 1);
        let settings = self.settings.iter().map(|(name, value)| (&**name, &**value));
        let all = own.into_iter().chain(in_cluster).chain(settings);
        let mut arguments: Vec<String> =
            all.flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect();
        if self.nodes > 1 {
            arguments.insert(0, node.data_dir.join(PASSWORD_FILE).display().to_string());
        }
        Ok(Launch::new(self.make.program().name, self.program.clone(), arguments))
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        Control::open(&self.endpoint(node), waits)?.command(&[b"PING"]).map(drop)
    }

    fn form(&self, nodes: &[Node], waits: &Waits) -> Result<(), StoreError> {
        if nodes.len() > 1 { formation::form(self, nodes, waits) } else { Ok(()) }
    }

    fn until_whole(&self, nodes: &[Node], waits: &Waits) -> Result<(), StoreError> {
        if nodes.len() > 1 { formation::until_whole(self, nodes, waits) } else { Ok(()) }
    }
}
