//! How a private MariaDB or MySQL is made.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter; so nobody is asked for a
//! password. No configuration file is read, and no binary log is kept, since nobody would read it. The buffer pool is
//! neither written down at a stop nor read again at a start, so that a restart is cold. Everything else is as the
//! server's own defaults are, `innodb_flush_log_at_trx_commit` and the doublewrite buffer included, but for what the
//! caller sets.

use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::{Address, Launch, Node, Recipe, ServerSpec, StoreError, Waits};
use plimsoll_lab::Program;

use crate::connection::connect;
use crate::wire::Login;

const PACKAGE: &str = "mariadb-server";
const MARIADBD: Program =
    Program { name: "mariadbd", directories: &["/usr/libexec", "/usr/local/mysql/bin"], package: PACKAGE };
/// MySQL's server, or MariaDB's by its old name.
const MYSQLD: Program =
    Program { name: "mysqld", directories: &["/usr/libexec", "/usr/local/mysql/bin"], package: PACKAGE };
const INSTALL_DB: Program =
    Program { name: "mariadb-install-db", directories: &["/usr/local/mysql/scripts"], package: PACKAGE };

/// Where the server's program is: MariaDB's, else MySQL's.
///
/// # Errors
/// `Missing`, with the line that installs MariaDB.
pub fn find_server() -> Result<PathBuf, StoreError> {
    MARIADBD.find().or_else(|missing| MYSQLD.find().map_err(|_| missing))
}

/// Where a private one listens.
pub fn address(node: &Node) -> Address {
    Address::Unix(node.socket_dir.join("socket"))
}

/// As whom one logs in there: as root, who may do everything and has no password.
pub(crate) fn login() -> Login {
    Login {
        user: "root".to_owned(),
        program_name: "plimsoll".to_owned(),
        private_way: true,
        place: "the private MariaDB".to_owned(),
        ..Login::default()
    }
}

/// A private MariaDB, or MySQL where that is installed.
#[derive(Debug, Clone, Default)]
pub struct MariadbRecipe {
    /// Its settings, by the names of its command line's options.
    pub settings: Vec<(String, String)>,
}

/// Where it has its tables, and its temporary files.
fn directories(node: &Node) -> [String; 2] {
    let below = |name: &str| node.data_dir.join(name).display().to_string();
    [format!("--datadir={}", below("db")), format!("--tmpdir={}", below("tmp"))]
}

impl Recipe for MariadbRecipe {
    fn spec(&self) -> ServerSpec {
        // Both servers' packages make this user.
        ServerSpec::new("MariaDB", "mysql", PACKAGE)
    }

    fn files(&self, _: &Node) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(["db/", "tmp/"].map(|name| (name.to_owned(), Vec::new())).into())
    }

    fn set_up(&self, node: &Node) -> Result<Option<Launch>, StoreError> {
        let program = find_server()?;
        let [data, temporary] = &directories(node);
        // MySQL makes its own tables; MariaDB has a script for it.
        let install = if program.ends_with(MARIADBD.name) { Some(INSTALL_DB.find()?) } else { INSTALL_DB.find().ok() };
        let Some(install) = install else {
            let arguments = ["--no-defaults", "--initialize-insecure", data, temporary];
            return Ok(Some(Launch::new("mysqld --initialize", program, arguments)));
        };
        // Nobody needs a name resolved, a test database, or root to be the system's root.
        let rest = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
        let arguments = ["--no-defaults", data, temporary].into_iter().chain(rest);
        Ok(Some(Launch::new(INSTALL_DB.name, install, arguments)))
    }

    fn launch(&self, node: &Node) -> Result<Launch, StoreError> {
        let [data, temporary] = directories(node);
        let sockets = node.socket_dir.display();
        let mut arguments = vec![
            // It must come first.
            "--no-defaults".to_owned(),
            data,
            temporary,
            format!("--socket={sockets}/socket"),
            format!("--pid-file={sockets}/pid"),
        ];
        let own = [
            "--skip-networking",
            "--skip-log-bin",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
            "--innodb-buffer-pool-load-at-startup=OFF",
            // MySQL's other protocol; MariaDB does not know it.
            "--loose-mysqlx=OFF",
        ];
        arguments.extend(own.map(str::to_owned));
        arguments.extend(self.settings.iter().map(|(name, value)| format!("--{name}={value}")));
        Ok(Launch::new("mariadbd", find_server()?, arguments))
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        connect(&address(node), Arc::new(login()), Arc::default(), &[], &[], waits).map(drop)
    }
}
