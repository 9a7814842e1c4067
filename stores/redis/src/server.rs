//! A private Redis: how it is made, started, found ready, and stopped.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter; so nobody is asked for a
//! password. The node of a cluster listens on the loopback interface besides, and asks. It takes no snapshots: the append-only file is what keeps its data, and how that is synced is what the
//! durabilities are. Everything else is as the server's own defaults are, but for what the caller sets.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits};
use plimsoll_lab::{OwnServer, PrivateServer, Program, ServerUser, StopSignal, Supervisor};

use crate::control::Control;
use crate::endpoint::{Endpoint, Login, Password};

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
        match self {
            Make::Redis => Program { name: "redis-server", directories: &[], package: "redis-server" },
            Make::Valkey => Program { name: "valkey-server", directories: &[], package: "valkey-server" },
        }
    }

    /// The user that the package makes.
    fn user(self) -> &'static str {
        match self {
            Make::Redis => "redis",
            Make::Valkey => "valkey",
        }
    }
}

/// How long a start may take, loading the data included.
const READY_BOUND: Duration = Duration::from_secs(600);
/// How long a stop may take: it syncs what it has written.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// Between two looks whether it is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(10);

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

/// What makes a private server a node of a cluster. Nodes find one another over the network, so it listens on two ports
/// of the loopback interface, and asks for a password there.
#[derive(Debug, Clone)]
pub struct ClusterNode {
    /// Where clients and other nodes are told to go.
    pub port: u16,
    /// Where nodes speak to each other.
    pub bus_port: u16,
    /// What clients are asked for.
    pub password: Password,
    /// Guards all nodes.
    pub supervisor: Supervisor,
}

/// A running server of our own. Ends, with all its files, when it is closed, dropped (its log is kept then, for
/// something failed), or Plimsoll dies.
pub struct PrivateRedis {
    server: PrivateServer,
    make: Make,
    program: PathBuf,
    arguments: Vec<String>,
    node: Option<ClusterNode>,
}

impl PrivateRedis {
    /// Makes a data directory under the first of `bases` that the server's user can get to, and starts a server there
    /// with `settings` on its command line. The user is the caller, or the one of the server's package if that is root.
    /// The log is copied to `log_dir` if anything fails. `progress` is told what takes a while.
    ///
    /// # Errors
    /// `Missing` when it is not installed; `Permission` when no base will do; `DiskFull`; `Broken` with its last words
    /// when it does not start.
    pub fn start(
        make: Option<Make>,
        bases: &[PathBuf],
        log_dir: &Path,
        settings: &[(String, String)],
        node: Option<ClusterNode>,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let (make, program) = find_server(make)?;
        let user = ServerUser::caller_or(make.user(), make.program().package)?;
        let supervisor = node.as_ref().map_or_else(Supervisor::start, |node| Ok(node.supervisor.clone()))?;
        let server = PrivateServer::guarded_by(supervisor, make.user(), bases, user, StopSignal::Term, log_dir, waits)?;
        let (data, sockets) = (server.data_dir().display().to_string(), server.socket_dir().join("redis.sock"));
        let sockets = sockets.display().to_string();
        let (port, bus_port) = node.as_ref().map_or((0, 0), |node| (node.port, node.bus_port));
        let (port, bus_port) = (port.to_string(), bus_port.to_string());
        let own = [
            ("port", port.as_str()),
            ("unixsocket", &sockets),
            ("unixsocketperm", "700"),
            ("dir", &data),
            ("daemonize", "no"),
            ("save", ""),
            ("appendonly", "yes"),
            ("appendfsync", "always"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let in_cluster = [("bind", "127.0.0.1"), ("cluster-enabled", "yes"), ("cluster-port", &bus_port)];
        let in_cluster = in_cluster.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let in_cluster = in_cluster.iter().filter(|_| node.is_some());
        let mut arguments = Vec::new();
        if let Some(node) = &node {
            arguments.push(write_password(server.data_dir(), &node.password)?);
        }
        let all = own.iter().chain(in_cluster).chain(settings);
        arguments.extend(all.flat_map(|(name, value)| [format!("--{name}"), value.clone()]));
        let mut redis = Self { server, make, program, arguments, node };
        progress(&format!("starting a private {}", make.user()));
        redis.launch()?;
        Ok(redis)
    }

    /// Where it listens, and how to log in: as nobody, or with the password of a cluster's node.
    pub fn endpoint(&self) -> Endpoint {
        let place = format!("the private {}", self.make.user());
        let password = self.node.as_ref().map(|node| node.password.clone());
        Endpoint {
            address: Address::Unix(self.server.socket_dir().join("redis.sock")),
            tls: None,
            login: Login { user: None, password, database: 0, place },
        }
    }

    /// What makes it a node of a cluster.
    pub fn node(&self) -> Option<&ClusterNode> {
        self.node.as_ref()
    }

    /// The id of its process; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// The directory of its data.
    pub fn data_dir(&self) -> &Path {
        self.server.data_dir()
    }

    /// The program that checks its append-only file, where it is installed.
    pub fn check_program(&self) -> Option<PathBuf> {
        let name = format!("{}-check-aof", self.make.user());
        Some(self.program.with_file_name(name)).filter(|path| path.is_file())
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// `Broken`, with how it ended and its last words, when it does not.
    pub fn check(&mut self) -> Result<(), StoreError> {
        self.server.check()
    }

    /// Kills it at once, as a crash would.
    ///
    /// # Errors
    /// When the supervisor does not do its part.
    pub fn kill(&mut self) -> Result<(), StoreError> {
        self.server.kill()
    }

    /// Copies its log, as far as it got, into the log directory; returns the copy's path.
    ///
    /// # Errors
    /// As copying says.
    pub fn keep_log(&self) -> io::Result<PathBuf> {
        self.server.keep_log()
    }

    /// Ends it at once, removes all its files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        self.server.close()
    }

    fn launch(&mut self) -> Result<(), StoreError> {
        self.server.start(self.make.program().name, &self.program, &self.arguments)?;
        let endpoint = self.endpoint();
        let until = Instant::now() + READY_BOUND;
        let last_words = loop {
            self.server.check()?;
            let looked = Control::open(&endpoint, self.server.waits().with_answer(LOOK_BOUND))
                .and_then(|mut control| control.command(&[b"PING"]));
            match looked {
                Ok(_) => return Ok(()),
                Err(error) if error.kind == StoreErrorKind::Interrupted => return Err(error),
                Err(error) if error.kind != StoreErrorKind::Unreachable || Instant::now() > until => break error,
                Err(_) => self.server.waits().pause(LOOK_INTERVAL)?,
            }
        };
        let next = self.server.keep_log().map(|path| format!("read its log, {}", path.display()));
        let _ = self.server.kill();
        let error = StoreError::new(StoreErrorKind::Broken, format!("{} takes no connections", endpoint.login.place));
        let next = next.unwrap_or_else(|error| format!("its log could not be kept: {error}"));
        Err(error.detail(last_words.to_string()).next(next))
    }
}

impl OwnServer for PrivateRedis {
    const STORE: &'static str = "redis";

    fn stop(&mut self) -> Result<(), StoreError> {
        self.server.stop(StopSignal::Term, STOP_BOUND)
    }

    fn start_again(&mut self) -> Result<(), StoreError> {
        self.launch()
    }

    fn files(&self) -> PathBuf {
        self.server.data_dir().to_owned()
    }
}

/// Writes the password where the server reads it and nobody else: in a list of processes it would be for all to see.
/// Returns the file's path. The directory is the server's user's alone.
fn write_password(data: &Path, password: &Password) -> Result<String, StoreError> {
    let path = data.join("password.conf");
    let text = [b"requirepass ", password.text().as_bytes(), b"\n"].concat();
    let write = || {
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))
    };
    write().map_err(|error| StoreError::io(path.display(), &error))?;
    Ok(path.display().to_string())
}
