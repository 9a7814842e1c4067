//! Servers for tests, and connections to them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, Layout, OpKind, StoreError, tables};
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::sql::Postgres;
use plimsoll_store_postgres::wire::{Login, Password, PgSession, Secured};
use plimsoll_store_postgres::{Connection, Endpoint, PostgresRecipe, kind};
use plimsoll_testkit::certificates::Authority;
use plimsoll_testkit::process::free_port;
pub use plimsoll_testkit::records::layout;
pub use plimsoll_testkit::sql::{Dialect, SqlServer, ask};
pub use plimsoll_testkit::wire::{Wire, sql, values};

pub const TIMEOUT: Duration = Duration::from_secs(100);

/// A PostgreSQL to connect to: a database of its own on the one that all tests share, or one of its own.
pub struct Server {
    own: Option<Cluster>,
    pub port: u16,
    pub database: String,
}

/// Starts a server that listens on TCP too. Its files are in memory: what is proved with it is not its disk.
fn started() -> (Cluster, u16) {
    let (base, port) = (PathBuf::from("/dev/shm"), free_port());
    let settings = [("listen_addresses", "127.0.0.1".to_owned()), ("port", port.to_string())];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
    let recipe = Box::new(PostgresRecipe { settings, synced_later: true, ..Default::default() });
    let bases = std::slice::from_ref(&base);
    let cluster = Cluster::start(recipe, bases, Path::new("/var/tmp"), &Default::default(), &mut |_| {});
    (cluster.expect("a private server"), port)
}

/// Server of all tests, which is removed when this process has ended.
fn shared() -> &'static (Cluster, u16) {
    static SHARED: OnceLock<(Cluster, u16)> = OnceLock::new();
    SHARED.get_or_init(started)
}

impl SqlServer for Server {
    type Session = PgSession;
    type Control = Secured;
    const DIALECT: Dialect = Dialect {
        kind,
        version: "PostgreSQL ",
        admin: "postgres",
        taken: ("23505", &["items_pkey"]),
        refusals: ["42601", "42P01"],
        sum: "SELECT $1::int + $2::int",
        sleep: "SELECT pg_sleep(30)",
        sleepers: "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
                   AND query LIKE 'SELECT pg_sleep%'",
        own_id: "SELECT pg_backend_pid()",
        end: "SELECT pg_terminate_backend({})",
        ended: &["57P01"],
        bounded: ("SET statement_timeout = 500", "57014"),
        holder: "schema",
        exists: "already exists",
        inventory: INVENTORY,
        guest: "CREATE ROLE \"The Guest\" LOGIN",
        refused: ["role `The Guest` may not make a schema", "As its owner: "],
        analyze: "ANALYZE theirs",
        size: "SELECT pg_total_relation_size('theirs')",
        cache: ("shared_buffers", "SELECT setting::int8 * 8192 FROM pg_settings WHERE name = 'shared_buffers'"),
        cache_shown: "32MB",
        checks: false,
        small: &[("shared_buffers", 32 << 20), ("max_connections", 20)],
        plans: [&["items_index_0"], &["Seq Scan on items"]],
    };

    fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let database = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut server = Server { own: None, port: shared().1, database: "postgres".to_owned() };
        server.control().simple(&format!("CREATE DATABASE {database}")).expect("a database");
        server.database = database;
        server
    }

    fn alone() -> Server {
        let (own, port) = started();
        Server { own: Some(own), port, database: "postgres".to_owned() }
    }

    fn cluster(&self) -> &Cluster {
        self.own.as_ref().unwrap_or_else(|| &shared().0)
    }

    fn address(&self) -> Address {
        Address::Unix(self.cluster().first().socket_dir.join(format!(".s.PGSQL.{}", self.port)))
    }

    /// URL of the socket; for a server of its own that of its port, with a password that the server does not ask for.
    fn url(&self, user: &str) -> String {
        if !self.is_shared() {
            return format!("postgres://{user}:s3cret@127.0.0.1:{}/{}", self.port, self.database);
        }
        self.socket_url(user)
    }

    fn open(&self, layout: &Layout, kinds: &[OpKind]) -> Result<Connection, StoreError> {
        Endpoint::plain(self.address(), self.login()).open(Arc::new(layout.clone()), "", kinds, TIMEOUT)
    }

    fn session(&self, layout: &Layout) -> PgSession {
        PgSession::new(Arc::new(self.login()), Arc::new(layout.clone()), "SET synchronous_commit = off")
    }

    fn tables(layout: &Layout) -> Vec<String> {
        tables::create(&Postgres, layout).expect("a layout")
    }
}

/// Statement for everything in a database that is not the system's.
const INVENTORY: &str = "SELECT string_agg(nspname || '.' || coalesce(relname, ''), ' ' ORDER BY nspname, relname) \
     FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid \
     WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";

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
        Login { database: self.database.clone(), ..login("postgres", None) }
    }

    pub fn socket_url(&self, user: &str) -> String {
        let dir = self.cluster().first().socket_dir.display().to_string();
        format!("postgres://{user}@/{}?host={dir}&port={}", self.database, self.port)
    }

    pub fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    pub fn tcp(&self) -> Address {
        Address::Tcp("127.0.0.1".into(), self.port)
    }

    /// Replaces pg_hba.conf, of a server of its own.
    pub fn lets_in(&self, hba: &str) {
        self.write("pg_hba.conf", hba);
        self.set(&[]);
    }

    /// Gives the server a certificate for 127.0.0.1, and replaces the lines of pg_hba.conf that are not for the socket.
    pub fn encrypt(&self, authority: &Authority, hba: &str) {
        let pair = authority.sign("127.0.0.1");
        let files = [("server.crt", pair.certificate), ("server.key", pair.key), ("root.crt", authority.root())];
        for (name, path) in files {
            self.write(name, &fs::read_to_string(path).expect("it was just written"));
        }
        self.write("pg_hba.conf", &format!("local all all trust\n{hba}"));
        self.set(&[("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key"), ("ssl_ca_file", "root.crt")]);
        self.set(&[("ssl", "on")]);
    }

    /// Writes a file of the data directory, which only the server can read.
    fn write(&self, name: &str, text: &str) {
        let path = self.cluster().first().data_dir.join(name);
        fs::write(&path, text).expect("a file of the server");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        let owner = path.parent().and_then(|dir| dir.metadata().ok()).map(|dir| dir.uid());
        chown(&path, owner, None).expect("the server's own file");
    }

    /// Sets settings, of a server of its own, and waits until the server has read its files.
    pub fn set(&self, settings: &[(&str, &str)]) {
        let loaded = || self.control().value("SELECT pg_conf_load_time()").expect("a time");
        let (before, began) = (loaded(), Instant::now());
        let mut control = self.control();
        for (name, value) in settings {
            control.simple(&format!("ALTER SYSTEM SET {name} = '{value}'")).expect("set");
        }
        control.simple("SELECT pg_reload_conf()").expect("reloaded");
        while loaded() == before {
            assert!(began.elapsed() < TIMEOUT, "it does not read its files");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Connects with this login.
pub fn open_login(address: &Address, login: Login) -> Result<Connection, StoreError> {
    Endpoint::plain(address.clone(), login).open(Arc::default(), "", &[], TIMEOUT)
}

pub fn login(user: &str, password: Option<&str>) -> Login {
    Login {
        user: user.into(),
        database: "postgres".into(),
        password: password.map(Password::new),
        application_name: "plimsoll".into(),
        place: "postgres://test".into(),
        ..Login::default()
    }
}
