//! A server for one test, and connections to it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, Answer, Layout, Op, OpKind, Outcome, StoreError, Ticket, Value, WireSession};
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::wire::{Login, Password};
use plimsoll_store_postgres::{Connection, Endpoint, PostgresRecipe};
pub use plimsoll_testkit::wire::{Wire, kind, layout, sql, values};

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A PostgreSQL to connect to: a database of its own on the one that all tests share, or one of its own.
pub struct Server {
    alone: Option<Alone>,
    socket: PathBuf,
    pub database: String,
}

/// A PostgreSQL that lives as long as this value, and listens on TCP too.
struct Alone {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

/// Server of all tests, which is removed when this process has ended.
fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| {
        let base = PathBuf::from("/var/tmp");
        let recipe = Box::new(PostgresRecipe::default());
        Cluster::start(recipe, std::slice::from_ref(&base), &base, &Default::default(), &mut |_| {})
            .expect("a private server")
    })
}

fn bin_dir() -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|all| all.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    found.retain(|dir| dir.join("initdb").exists() && dir.join("postgres").exists());
    found.sort();
    found.pop().expect("postgres is not installed: apt-get install postgresql (or run `cargo xtask test`)")
}

fn as_server_user(program: &Path) -> Command {
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

fn server_uid() -> Option<u32> {
    rustix::process::geteuid().is_root().then(|| fs::metadata("/var/lib/postgresql").expect("its home").uid())
}

impl Server {
    /// A database of its own on the shared server.
    pub fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let socket = shared().first().socket_dir.join(".s.PGSQL.5432");
        let database = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let server = Server { alone: None, socket, database: "postgres".to_owned() };
        server.control().simple(&format!("CREATE DATABASE {database}")).expect("a database");
        Server { database, ..server }
    }

    /// A server of its own, which trusts everybody.
    pub fn alone() -> Server {
        Self::start_with("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    }

    /// A server of its own, with these lines as pg_hba.conf.
    pub fn start_with(hba: &str) -> Server {
        Self::start_with_files(hba, &[], &[])
    }

    /// Starts a server with these files in its data directory, which only it can read, and these settings.
    pub fn start_with_files(hba: &str, files: &[(&str, String)], settings: &[&str]) -> Server {
        let dir = tempfile::Builder::new()
            .prefix(&format!("postgres-test-{}-", std::process::id()))
            .tempdir_in("/var/tmp")
            .expect("a directory");
        chown(dir.path(), server_uid(), None).expect("the server's own directory");
        let data = dir.path().join("data");
        let made = as_server_user(&bin_dir().join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .current_dir("/")
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        fs::write(data.join("pg_hba.conf"), hba).expect("pg_hba.conf");
        for (name, text) in files {
            let path = data.join(name);
            fs::write(&path, text).expect("a file of the server");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
            chown(&path, server_uid(), None).expect("the server's own file");
        }
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let log = fs::File::create(dir.path().join("log")).expect("a log");
        let child = as_server_user(&bin_dir().join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(dir.path())
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "log_statement=none"])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres runs");
        let alone = Alone { child, dir, port };
        let began = Instant::now();
        while !alone.log().contains("ready to accept connections") {
            assert!(began.elapsed() < TIMEOUT, "the server did not start: {}", alone.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        let socket = alone.dir.path().join(format!(".s.PGSQL.{port}"));
        Server { alone: Some(alone), socket, database: "postgres".to_owned() }
    }

    pub fn socket(&self) -> Address {
        Address::Unix(self.socket.clone())
    }

    fn own(&self) -> &Alone {
        self.alone.as_ref().expect("this test needs a server of its own")
    }

    pub fn port(&self) -> u16 {
        self.own().port
    }

    pub fn tcp(&self) -> Address {
        Address::Tcp("127.0.0.1".into(), self.port())
    }

    pub fn kill(&mut self) {
        let alone = self.alone.as_mut().expect("this test needs a server of its own");
        alone.child.kill().expect("it runs");
        alone.child.wait().expect("it ends");
    }

    /// A connection of the superuser with `kinds` over `layout`.
    pub fn open(&self, layout: &Layout, kinds: &[OpKind]) -> Result<Connection, StoreError> {
        let login = Login { database: self.database.clone(), ..login("postgres", None) };
        let endpoint = Endpoint::plain(self.socket(), login);
        endpoint.open(Arc::new(layout.clone()), "", kinds, TIMEOUT)
    }

    pub fn control(&self) -> Connection {
        self.open(&Layout::default(), &[]).expect("a connection")
    }
}

impl Alone {
    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let _ = self.child.wait();
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

/// Makes the tables of [`layout`] the way the store would.
pub fn create(connection: &mut Connection, layout: &Layout) {
    for statement in plimsoll_core::tables::create(&plimsoll_store_postgres::sql::Postgres, layout).expect("a layout") {
        connection.simple(&statement).expect("created");
    }
}

/// The server's URL for a user.
pub fn url(server: &Server, user: &str) -> String {
    let dir = server.socket.parent().expect("a socket stands in a directory").display();
    let port = server.socket.extension().expect("its name ends with the port").to_string_lossy();
    format!("postgres://{user}@/{}?host={dir}&port={port}", server.database)
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
