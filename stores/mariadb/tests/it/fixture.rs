//! A server for one test, and connections to it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plimsoll_core::{Address, Answer, Layout, Op, OpKind, Outcome, StoreError, Ticket, Value, WireSession};
use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::wire::{Login, Password};
use plimsoll_store_mariadb::{Connection, MariadbRecipe, connect};
pub use plimsoll_testkit::wire::{Wire, kind, layout, sql, values};

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A MariaDB to connect to: a database of its own on the one that all tests share.
pub struct Server {
    pub database: String,
}

struct Shared {
    mariadb: Cluster,
    port: u16,
}

/// Server of all tests, which listens on TCP too and is removed when this process has ended.
fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let settings = [("skip-networking", "OFF"), ("bind-address", "127.0.0.1"), ("port", &*port.to_string())];
        Shared { mariadb: start(&settings).expect("a private server"), port }
    })
}

/// A private server of one's own.
pub fn start(settings: &[(&str, &str)]) -> Result<Cluster, StoreError> {
    let base = PathBuf::from("/var/tmp");
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut told = Vec::new();
    let recipe = Box::new(MariadbRecipe { settings, ..Default::default() });
    let started = Cluster::start(recipe, std::slice::from_ref(&base), &base, &Default::default(), &mut |what| {
        told.push(what.to_owned());
    });
    assert!(!told.is_empty(), "mariadbd is not installed: apt-get install mariadb-server (or run `cargo xtask test`)");
    started
}

impl Server {
    /// A database of its own on the shared server.
    pub fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let database = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut control = open_login(&address(&shared().mariadb), login("root", None)).expect("a connection");
        control.simple(&format!("CREATE DATABASE {database}")).expect("a database");
        Server { database }
    }

    pub fn address(&self) -> Address {
        address(&shared().mariadb)
    }

    pub fn tcp(&self) -> Address {
        Address::Tcp("127.0.0.1".into(), shared().port)
    }

    pub fn socket(&self) -> PathBuf {
        let Address::Unix(path) = self.address() else { panic!("a private server has a socket") };
        path
    }

    /// A connection of root's with `kinds` over `layout`.
    pub fn open(&self, layout: &Layout, kinds: &[OpKind]) -> Result<Connection, StoreError> {
        let login = Arc::new(Login { database: Some(self.database.clone()), ..login("root", None) });
        connect(&self.address(), login, Arc::new(layout.clone()), &[], kinds, TIMEOUT)
    }

    pub fn control(&self) -> Connection {
        self.open(&Layout::default(), &[]).expect("a connection")
    }

    /// The URL for a user.
    pub fn url(&self, user: &str) -> String {
        format!("mysql://{user}@/?socket={}", self.socket().display())
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

/// Makes the tables of [`layout`] the way the store would.
pub fn create(connection: &mut Connection, layout: &Layout) {
    for statement in plimsoll_store_mariadb::sql::create(layout, Default::default()).expect("a layout") {
        connection.simple(&statement).expect("created");
    }
}

/// Runs one operation to its end.
pub fn ask(connection: &mut Connection, kind: u16, params: &[Value<'_>]) -> (Outcome, Answer) {
    let params = values(params);
    let mut result = None;
    let op = Op::new(kind, params.values());
    let ended = connection.run(|session, out| session.start(Ticket(0), &op, out), &mut |_, outcome, answer| {
        result = Some((outcome, answer.clone()))
    });
    let result = result.expect("every operation comes to something");
    assert!(ended.is_ok() || result.0 == Outcome::Unknown, "{ended:?}");
    result
}
