//! Recipe of a private MariaDB or MySQL.
//!
//! The server listens on a Unix socket only, in a directory that only its user and root can enter, without a
//! password. The server reads no configuration file, and keeps no binary log, which would have no reader. The buffer
//! pool is neither written down at a stop nor read again at a start, so that a restart is cold. Every setting that the
//! caller does not set has the server's default, `innodb_flush_log_at_trx_commit` and the doublewrite buffer included.
//!
//! The nodes of a cluster have hosts of their own and listen there, too. Clients from other hosts log in as
//! `plimsoll` with a password that the first node is started with in a file; what makes a cluster of them stands in
//! `galera` and `replicas`.

use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::{
    Address, FailoverTime, Launch, Member, Node, Progress, Recipe, ServerSpec, StoreError, Waits, no_promotion,
};
use plimsoll_endpoint::text;
use plimsoll_lab::Program;
use plimsoll_lab::proxy::proxy_of;

use crate::connection::{Connection, connect};
use crate::galera;
use crate::progress;
use crate::replicas;
use crate::wire::{Login, Password};
use crate::works;

const PACKAGE: &str = "mariadb-server";
const MARIADBD: Program =
    Program { name: "mariadbd", directories: &["/usr/libexec", "/usr/local/mysql/bin"], package: PACKAGE };
/// MySQL's server, or MariaDB's by its old name.
const MYSQLD: Program =
    Program { name: "mysqld", directories: &["/usr/libexec", "/usr/local/mysql/bin"], package: PACKAGE };
const INSTALL_DB: Program =
    Program { name: "mariadb-install-db", directories: &["/usr/local/mysql/scripts"], package: PACKAGE };

/// Finds the server's program: MariaDB's, else MySQL's.
///
/// # Errors
/// `Missing`, with the line that installs MariaDB.
pub fn find_server() -> Result<PathBuf, StoreError> {
    MARIADBD.find().or_else(|missing| MYSQLD.find().map_err(|_| missing))
}

/// Topology of several servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// Single server.
    #[default]
    Alone,
    /// A Galera cluster: each takes writes, and a commit is certified by all.
    Galera,
    /// The first takes writes, the others follow its binary log.
    Replicas,
}

/// The user of those who come over the network.
const USER: &str = "plimsoll";
/// Statements that the first node of a cluster begins with; they hold the password.
const INIT_FILE: &str = "init.sql";
/// Options of the server's own clients, below `MYSQL_HOME`.
const CLIENT_FILE: &str = "my.cnf";

/// Threads that serve a client each; not this one, nor one that feeds a replica.
const SERVING: &str = "SELECT tid FROM information_schema.processlist \
     WHERE id <> CONNECTION_ID() AND user <> 'system user' AND command NOT IN ('Daemon', 'Binlog Dump') \
     AND COALESCE(info, '') NOT LIKE 'OPTIMIZE%' AND COALESCE(info, '') NOT LIKE 'ALTER%'";
const SERVING_OF_MYSQL: &str = "SELECT thread_os_id FROM performance_schema.threads \
     WHERE name = 'thread/sql/one_connection' AND processlist_id <> CONNECTION_ID() \
     AND processlist_command NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID')";

/// A private MariaDB, or MySQL where that is installed.
#[derive(Debug, Clone, Default)]
pub struct MariadbRecipe {
    /// Settings, by the names of the command line's options.
    pub settings: Vec<(String, String)>,
    /// Topology of the servers.
    pub topology: Topology,
    /// Number of servers; 1 without a topology.
    pub nodes: usize,
    /// Sessions go through an HAProxy, which is the node behind these.
    pub proxied: bool,
    /// Number of servers that know nothing of each other, on this machine's own network; 1 with a topology.
    pub instances: usize,
    /// True if the redo log is on a disk of its own; not with a topology.
    pub has_log_disk: bool,
}

impl MariadbRecipe {
    /// Returns the addresses of sessions: the only server, or each in turn. Of replicas only the present primary is used.
    pub fn sessions_at(&self, nodes: &[Arc<Node>]) -> Vec<Address> {
        if let Some(proxy) = proxy_of(nodes, self.nodes).filter(|_| self.proxied) {
            return vec![self.address(proxy)];
        }
        nodes.iter().map(|node| self.address(node)).collect()
    }

    /// Returns the addresses of those of `nodes` that follow a primary.
    pub(crate) fn replicas(&self, nodes: &[Arc<Node>]) -> Vec<Address> {
        let replicas = nodes.iter().filter(|node| self.role(node.number) == "replica");
        replicas.map(|node| self.address(node)).collect()
    }

    /// Returns the servers without the proxy in front of them.
    pub(crate) fn servers_of(&self, nodes: Vec<Arc<Node>>) -> Vec<Arc<Node>> {
        nodes.into_iter().filter(|node| !(self.proxied && node.number == self.nodes)).collect()
    }

    /// Returns the address where a node listens to its clients.
    pub fn address(&self, node: &Node) -> Address {
        match self.topology {
            Topology::Alone => socket(node),
            _ => Address::Tcp(node.address.to_string(), node.listens_at(0).port()),
        }
    }

    /// Returns the login at a node: root, without a password, over the socket, or a user with equal rights over the
    /// network.
    pub(crate) fn login(&self, node: &Node) -> Login {
        let place = "the private MariaDB".to_owned();
        let login = Login { program_name: "plimsoll".to_owned(), private_way: true, place, ..Login::default() };
        match self.topology {
            Topology::Alone => Login { user: "root".to_owned(), ..login },
            _ => Login { user: USER.to_owned(), password: Some(Password::new(node.secret.as_str())), ..login },
        }
    }

    /// A connection for root by the socket, which no other host has a part in.
    pub(crate) fn open(&self, node: &Node, waits: &Waits) -> Result<Connection, StoreError> {
        let alone = MariadbRecipe { topology: Topology::Alone, ..Self::default() };
        connect(&socket(node), Arc::new(alone.login(node)), Arc::default(), &[], &[], waits)
    }
}

/// Returns the socket where a node listens to clients on its own machine.
fn socket(node: &Node) -> Address {
    Address::Unix(node.socket_dir.join("socket"))
}

/// Returns the options for the directories of tables, of temporary files and, if it has a disk of its own, of the log.
fn directories(node: &Node) -> Vec<String> {
    let below = |name: &str| node.data_dir.join(name).display().to_string();
    let log = node.log_dir.as_ref().map(|log| format!("--innodb-log-group-home-dir={}", log.display()));
    [format!("--datadir={}", below("db")), format!("--tmpdir={}", below("tmp"))].into_iter().chain(log).collect()
}

impl Recipe for MariadbRecipe {
    fn spec(&self) -> ServerSpec {
        // Both servers' packages make this user.
        let spec = ServerSpec::new("MariaDB", "mysql", PACKAGE);
        match self.topology {
            Topology::Alone => ServerSpec { nodes: self.instances.max(1), memory_bytes: 130 << 20, ..spec },
            topology => {
                let (name, ports): (_, &[u16]) = match topology {
                    Topology::Galera => ("Galera", &galera::PORTS),
                    _ => ("MariaDB", &[3306]),
                };
                ServerSpec { name, nodes: self.nodes, hosts: self.nodes, ports, memory_bytes: 130 << 20, ..spec }
            }
        }
    }

    fn role(&self, node: usize) -> &'static str {
        match self.topology {
            Topology::Alone => "server",
            Topology::Galera => "node",
            Topology::Replicas if node == 0 => "primary",
            Topology::Replicas => "replica",
        }
    }

    fn has_log_disk(&self) -> bool {
        self.has_log_disk
    }

    fn has_primary(&self) -> bool {
        self.topology == Topology::Replicas
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        if self.topology == Topology::Galera { galera::failover_time(self.nodes, &self.settings) } else { None }
    }

    fn stage(&self, node: Member<'_>) -> usize {
        match self.topology {
            Topology::Alone => 0,
            Topology::Galera => galera::stage(node),
            Topology::Replicas => usize::from(node.number != node.primary),
        }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut files: Vec<_> = ["db/", "tmp/"].map(|name| (name.to_owned(), Vec::new())).into();
        if self.topology != Topology::Alone && node.is_first {
            // The others are told of it by this one.
            let account = format!("'{USER}'@'%'");
            let text = format!(
                "CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{}';\nGRANT ALL ON *.* TO {account};\n",
                node.secret
            );
            files.push((INIT_FILE.to_owned(), text.into_bytes()));
        }
        if self.topology == Topology::Alone {
            // Debian's configuration names a socket, which has precedence over MYSQL_UNIX_PORT.
            let text = format!("[client]\nsocket = {}/socket\n", node.socket_dir.display());
            files.push((CLIENT_FILE.to_owned(), text.into_bytes()));
        }
        Ok(files)
    }

    fn set_up(&self, node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        if self.topology == Topology::Galera && !node.is_first {
            // It is given everything by another node.
            return Ok(None);
        }
        let program = find_server()?;
        let directories = directories(&node);
        let directories = directories.iter().map(String::as_str);
        // MySQL makes its own tables; MariaDB has a script for it.
        let install = if program.ends_with(MARIADBD.name) { Some(INSTALL_DB.find()?) } else { INSTALL_DB.find().ok() };
        let Some(install) = install else {
            let arguments = ["--no-defaults", "--initialize-insecure"].into_iter().chain(directories);
            return Ok(Some(Launch::new("mysqld --initialize", program, arguments)));
        };
        // No resolved names, test database, or system's root as root are needed.
        let rest = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
        let arguments = ["--no-defaults"].into_iter().chain(directories).chain(rest);
        Ok(Some(Launch::new(INSTALL_DB.name, install, arguments)))
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let sockets = node.socket_dir.display();
        // It must come first.
        let mut arguments = vec!["--no-defaults".to_owned()];
        arguments.extend(directories(&node));
        arguments.extend([format!("--socket={sockets}/socket"), format!("--pid-file={sockets}/pid")]);
        let own = [
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
            "--innodb-buffer-pool-load-at-startup=OFF",
            // MySQL's other protocol; MariaDB does not know it.
            "--loose-mysqlx=OFF",
        ];
        arguments.extend(own.map(str::to_owned));
        if self.topology == Topology::Alone {
            arguments.push("--skip-networking".to_owned());
        } else {
            let listens_at = node.listens_at(0);
            arguments.push(format!("--bind-address={}", listens_at.ip()));
            arguments.push(format!("--port={}", listens_at.port()));
            arguments.push("--skip-name-resolve".to_owned());
            let init_file = node.data_dir.join(INIT_FILE);
            // Another node may begin the cluster anew, which has the account already.
            let makes_account = node.is_first && init_file.exists();
            arguments.extend(makes_account.then(|| format!("--init-file={}", init_file.display())));
        }
        match self.topology {
            Topology::Alone => arguments.push("--skip-log-bin".to_owned()),
            Topology::Galera => arguments.extend(galera::arguments(node)?),
            Topology::Replicas => arguments.extend(replicas::arguments(node)),
        }
        arguments.extend(self.settings.iter().map(|(name, value)| format!("--{name}={value}")));
        Ok(Launch::new("mariadbd", find_server()?, arguments))
    }

    fn version_marks(&self, _: usize) -> Result<&'static [&'static str], StoreError> {
        Ok(&["  Ver "])
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        let mut connection = self.open(node, waits)?;
        match self.topology {
            Topology::Galera => galera::ready(&mut connection),
            _ => Ok(()),
        }
    }

    fn own_state(&self, node: &Node, waits: &Waits) -> Result<String, StoreError> {
        match self.topology {
            Topology::Galera => galera::own_state(&mut self.open(node, waits)?),
            _ => Ok(String::new()),
        }
    }

    fn promotes(&self) -> Result<(), StoreError> {
        match self.topology {
            Topology::Replicas if self.nodes > 1 => Ok(()),
            _ => Err(no_promotion(self.spec().name)),
        }
    }

    fn promote(&self, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        replicas::promote(self, to, waits)
    }

    fn follow(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        replicas::turn(self, node.primary_node(), &node, &waits.with_work(replicas::FOLLOW_BOUND))
    }

    fn rejoined(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        replicas::rejoin(self, node.primary_node(), &node, waits)
    }

    fn form(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        if self.topology == Topology::Replicas { replicas::form(self, nodes, waits) } else { Ok(()) }
    }

    fn recover(
        &self,
        nodes: &[Arc<Node>],
        run: &dyn Fn(&Node, &Launch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.topology == Topology::Galera { galera::recover(self, nodes, run) } else { Ok(()) }
    }

    fn progress(&self, node: Member<'_>, waits: &Waits) -> Result<Vec<Progress>, StoreError> {
        match self.open(&node, waits) {
            Ok(mut connection) => progress::of(&mut connection, &node, self.topology),
            // It listens when it has all data.
            Err(error) if self.topology == Topology::Galera => {
                progress::state_transfer(node).map(|found| vec![found]).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    fn hangs(&self, _: usize) -> Result<(), StoreError> {
        let handling = self.settings.iter().rfind(|(name, _)| name.replace('-', "_") == "thread_handling");
        match handling.filter(|(_, value)| value != "one-thread-per-connection") {
            Some((_, value)) => {
                let what = format!(
                    "with thread_handling={value} a thread serves many clients, and `hang` needs a thread for each"
                );
                let next = "leave out `thread_handling`, or suspend the whole server: pause instead of hang";
                Err(StoreError::usage(what).next(next))
            }
            None => Ok(()),
        }
    }

    fn serving(&self, node: Member<'_>, waits: &Waits) -> Result<Vec<u32>, StoreError> {
        let mut connection = self.open(&node, waits)?;
        // MySQL has no such column.
        let answer = connection.simple(SERVING).or_else(|_| connection.simple(SERVING_OF_MYSQL))?;
        Ok(answer.row_iter().filter_map(|row| text(row, 0).parse().ok()).collect())
    }

    fn works(&self, node: usize) -> &'static [&'static str] {
        if self.role(node) == "replica" { works::OF_REPLICA } else { works::WORKS }
    }

    fn work_must_be_installed(&self, name: &str) -> Result<(), StoreError> {
        if name == works::BACKUP { works::backup_program().map(drop) } else { Ok(()) }
    }

    fn work(&self, name: &str, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        if name == works::BACKUP {
            return works::backup(&node).map(Some);
        }
        works::rewrite(|waits| self.open(&node, waits), &node, name, waits).map(|()| None)
    }

    fn client_environment(&self, node: &Node) -> Vec<(&'static str, String)> {
        match self.topology {
            Topology::Alone => vec![("MYSQL_HOME", node.data_dir.display().to_string())],
            _ => vec![
                ("MYSQL_HOST", node.address.to_string()),
                ("MYSQL_TCP_PORT", node.listens_at(0).port().to_string()),
                ("MYSQL_PWD", node.secret.clone()),
            ],
        }
    }

    fn takes_more(&self) -> Result<(), StoreError> {
        match self.topology {
            Topology::Alone => Err(StoreError::usage("a MariaDB that was made alone takes no other nodes")
                .next("make a cluster: plimsoll lab up galera, or mariadb-replicas")),
            _ => Ok(()),
        }
    }

    fn join(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        match self.topology {
            Topology::Replicas => replicas::follow(self, node.primary_node(), &node, waits),
            // It was given all data when it began, and is one of them since.
            _ => Ok(()),
        }
    }

    fn part(&self, node: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        let is_last = node.nodes.len() == 1;
        match self.topology {
            Topology::Galera if !is_last => Ok(()),
            Topology::Replicas if node.number != node.primary => Ok(()),
            _ => Err(StoreError::usage("the cluster needs this node: no other node has its data, or takes writes")
                .next("name another node, or end the lab: plimsoll lab down NAME")),
        }
    }

    fn until_whole(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        match self.topology {
            Topology::Alone => Ok(()),
            Topology::Galera => galera::until_whole(self, nodes, waits),
            Topology::Replicas => replicas::until_whole(self, nodes, waits).map(drop),
        }
    }
}
