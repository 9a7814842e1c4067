//! Servers for tests, and connections to them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plimsoll_core::{Address, Layout, OpKind, StoreError};
use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::wire::{Login, MySession, Password};
use plimsoll_store_mariadb::{Connection, MariadbRecipe, connect, kind};
use plimsoll_testkit::process::free_port;
pub use plimsoll_testkit::records::layout;
pub use plimsoll_testkit::sql::{Dialect, SqlServer, ask};
pub use plimsoll_testkit::wire::sql;

pub const TIMEOUT: Duration = Duration::from_secs(100);

/// A MariaDB to connect to: a database of its own on the one that all tests share, or one of its own.
pub struct Server {
    own: Option<Cluster>,
    pub port: u16,
    pub database: String,
}

/// Server of all tests, which is removed when this process has ended.
fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(Server::alone)
}

/// Starts a private server. Its files are in memory: what is proved with it is not its disk.
pub fn start(settings: &[(&str, &str)]) -> Cluster {
    let base = PathBuf::from("/dev/shm");
    let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let recipe = Box::new(MariadbRecipe { settings, ..Default::default() });
    let bases = std::slice::from_ref(&base);
    let cluster = Cluster::start(recipe, bases, Path::new("/var/tmp"), &Default::default(), &mut |_| {});
    cluster.expect("a private server")
}

impl SqlServer for Server {
    type Session = MySession;
    type Control = MySession;
    const DIALECT: Dialect = Dialect {
        kind,
        version: "MariaDB ",
        admin: "root",
        taken: ("1062", &["23000: ", "c0007"]),
        refusals: ["1064", "1146"],
        sum: "SELECT $1 + $2",
        sleep: "SELECT SLEEP(30)",
        sleepers: "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%' AND DB = DATABASE()",
        own_id: "SELECT CONNECTION_ID()",
        end: "KILL {}",
        ended: &["1927", "1053", ""],
        bounded: ("SET max_statement_time = 0.5", "1969"),
        holder: "database",
        exists: "database exists",
        inventory: "SELECT GROUP_CONCAT(VARIABLE_NAME, VARIABLE_VALUE ORDER BY 1) \
                    FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME LIKE 'innodb%'",
        guest: "CREATE USER `The Guest`@localhost IDENTIFIED BY ''",
        refused: ["user `The Guest` may not make database", "As an administrator: "],
        analyze: "ANALYZE TABLE theirs",
        size: "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()",
        cache: ("innodb_buffer_pool_size", "SELECT @@GLOBAL.innodb_buffer_pool_size"),
        cache_shown: "33554432",
        checks: true,
        small: &[("buffer_pool", 32 << 20), ("log_file", 8 << 20), ("max_connections", 20)],
        plans: [&["table items", "key items_index_0"], &["type ALL"]],
    };

    fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let database = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        shared().control().simple(&format!("CREATE DATABASE {database}")).expect("a database");
        Server { own: None, port: shared().port, database }
    }

    fn alone() -> Server {
        let port = free_port();
        let own = start(&[("skip-networking", "OFF"), ("bind-address", "127.0.0.1"), ("port", &port.to_string())]);
        Server { own: Some(own), port, database: "mysql".to_owned() }
    }

    fn cluster(&self) -> &Cluster {
        self.own.as_ref().unwrap_or_else(|| shared().cluster())
    }

    fn address(&self) -> Address {
        address(self.cluster())
    }

    /// Root asks the server's database; others may not have a right to it.
    fn url(&self, user: &str) -> String {
        let database = if user == "root" { &self.database } else { "" };
        format!("mysql://{user}@/{database}?socket={}", self.socket().display())
    }

    fn open(&self, layout: &Layout, kinds: &[OpKind]) -> Result<Connection, StoreError> {
        connect(&self.address(), Arc::new(self.login()), Arc::new(layout.clone()), &[], kinds, TIMEOUT)
    }

    fn session(&self, layout: &Layout) -> MySession {
        MySession::new(Arc::new(self.login()), Arc::new(layout.clone()), vec!["SET NAMES utf8mb4".to_owned()])
    }

    fn tables(layout: &Layout) -> Vec<String> {
        plimsoll_store_mariadb::sql::create(layout, Default::default()).expect("a layout")
    }
}

impl Drop for Server {
    /// Closes a server of its own. One that is only dropped keeps its log, for a test that fails.
    fn drop(&mut self) {
        if let Some(own) = self.own.take().filter(|_| !std::thread::panicking()) {
            own.close().expect("the server ends");
        }
    }
}

impl Server {
    fn login(&self) -> Login {
        Login { database: Some(self.database.clone()), ..login("root", None) }
    }

    pub fn tcp(&self) -> Address {
        Address::Tcp("127.0.0.1".into(), self.port)
    }

    pub fn socket(&self) -> PathBuf {
        self.cluster().first().socket_dir.join("socket")
    }
}

/// Returns the address of a private server.
pub fn address(mariadb: &Cluster) -> Address {
    MariadbRecipe::default().address(&mariadb.first())
}

/// Connects with this login.
pub fn open_login(address: &Address, login: Login) -> Result<Connection, StoreError> {
    let private_way = matches!(address, Address::Unix(_));
    connect(address, Arc::new(Login { private_way, ..login }), Arc::default(), &[], &[], TIMEOUT)
}

pub fn login(user: &str, password: Option<&str>) -> Login {
    Login {
        user: user.into(),
        password: password.map(Password::new),
        program_name: "plimsoll".into(),
        private_way: true,
        place: "mysql://test".into(),
        ..Login::default()
    }
}
