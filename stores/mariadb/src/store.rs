//! The open store, attached or private: what it makes, and what it can be asked.

mod opening;

use std::fs::Metadata;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_core::lock_waits::LockWaits;
use plimsoll_core::{
    Address, CacheSize, Cycle, Dialect, Durability, Footprint, Layout, Node, Nodes, Op, OpKind, Probe, Removal,
    Servers, Sessions, Setting, Store, StoreDescription, StoreError, StoreErrorKind, Values, Waits, is_run_id, tables,
};
use plimsoll_endpoint::{Link, Reads, must_be_one_server, text};
use plimsoll_lab::tree_bytes;

use crate::connection::{Connection, attach, connect};
use crate::control::{self, FLUSH_LOG};
use crate::counters::{self, RedoLog};
use crate::galera;
use crate::lock_waits;
use crate::plan;
use crate::replicas;
use crate::server::{MariadbRecipe, Topology};
use crate::servers::{Server, SessionPlan, SessionServers};
use crate::sql::{self, Flavor, quoted};
use crate::wire::{Login, READ_ONLY};

/// Begins the name of a database that Plimsoll made.
const PREFIX: &str = "plimsoll_";

pub(crate) fn database_name(run_id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let id: String = run_id.chars().map(plain).take(50).collect();
    format!("{PREFIX}{id}")
}

/// Reports whether a database has the name of a run's.
fn is_of_run(database: &str) -> bool {
    database.strip_prefix(PREFIX).is_some_and(is_run_id)
}

pub(crate) struct MariadbStore {
    /// The private servers, and how they were made; `None` when attached.
    server: Option<(Arc<dyn Servers>, MariadbRecipe)>,
    /// The only one of these that is meant, beside which others know nothing of it.
    instance: Option<Arc<Node>>,
    /// Servers of the control plane, which uses the one that takes writes.
    addresses: Arc<[Address]>,
    /// Position of the control connection's server among these.
    primary_at: Arc<AtomicUsize>,
    sessions_at: SessionServers,
    /// Login of the control plane.
    login: Arc<Login>,
    /// The limits of what waits for the server: while connecting, and afterwards.
    connecting: Waits,
    waits: Waits,
    control: Link<Connection>,
    flavor: Flavor,
    /// The redo log as it was when sessions were opened.
    log: Option<RedoLog>,
    database: String,
    /// The database is there, and is ours.
    has_database: bool,
    /// Sessions only read, and the server sees to it.
    read_only: bool,
    /// Sessions go to this server alone, which is one of several with a copy each.
    copy: Option<SessionServers>,
    layout: Arc<Layout>,
}

/// Returns the settings of every connection. Texts are UTF-8, a TIMESTAMP is in UTC, and a value that does not fit a
/// column is an error.
fn session_settings() -> Vec<String> {
    vec![
        "SET NAMES utf8mb4".to_owned(),
        "SET SESSION time_zone = '+00:00', \
         sql_mode = CONCAT_WS(',', NULLIF(@@SESSION.sql_mode, ''), 'STRICT_TRANS_TABLES'), autocommit = 1"
            .to_owned(),
    ]
}

impl MariadbStore {
    /// Our own servers; none where it is attached.
    fn nodes(&self) -> Vec<Arc<Node>> {
        match (&self.instance, &self.server) {
            (Some(node), _) => vec![Arc::clone(node)],
            (None, Some((servers, recipe))) => recipe.servers_of(servers.nodes()),
            (None, None) => Vec::new(),
        }
    }

    /// The settings that its private servers were given.
    fn given(&self) -> Vec<(String, String)> {
        self.server.as_ref().map(|(_, recipe)| recipe.settings.clone()).unwrap_or_default()
    }

    /// Returns the address of the control plane's server.
    fn address(&self) -> &Address {
        &self.addresses[self.primary_at.load(Ordering::Relaxed)]
    }

    /// Returns the login of sessions: to the run's database, or before it was made to that of the URL.
    fn session_login(&self) -> Arc<Login> {
        if !self.has_database {
            return Arc::clone(&self.login);
        }
        Arc::new(Login { database: Some(self.database.clone()), ..(*self.login).clone() })
    }

    /// Databases whose names are those of runs: `plimsoll_20261121_210455_9f3a`, or with a letter of an A/B run behind.
    pub(crate) fn left_behind(&mut self) -> Result<Vec<String>, StoreError> {
        let pattern = PREFIX.replace('_', "\\_");
        let answer = self.control.get()?.simple(&format!(
            "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '{pattern}%' ORDER BY 1"
        ))?;
        Ok(answer.row_iter().map(|row| text(row, 0).to_owned()).filter(|name| is_of_run(name)).collect())
    }

    /// Returns the command that drops a database of a run from an attached server.
    pub(crate) fn removal(&self, database: &str) -> Option<Removal> {
        if self.server.is_some() || !is_of_run(database) {
            return None;
        }
        let client = if self.flavor == Flavor::MariaDb { "mariadb" } else { "mysql" };
        let (server, port);
        let mut words = match self.address() {
            Address::Tcp(host, number) => {
                (server, port) = (host.as_str(), number.to_string());
                // Without --protocol=tcp clients connect to `localhost` through a socket, which may be another server's.
                vec![client, "--protocol=tcp", "-h", server, "-P", &port]
            }
            Address::Unix(path) => {
                server = path.to_str()?;
                vec![client, "-S", server]
            }
        };
        words.extend(["-u", &self.login.user]);
        if self.login.password.is_some() {
            words.push("-p");
        }
        let drop = format!("DROP DATABASE {database}");
        words.extend(["-e", &drop]);
        Removal::new(&words, server, database)
    }

    /// Refuses an address that leads to several servers, as one of a proxy: the database would stay on one of them.
    fn must_be_one(&mut self) -> Result<(), StoreError> {
        let (address, flavor) = (self.address().clone(), self.flavor);
        let name = control::server_name(self.control.get()?, flavor)?;
        let (login, waits) = (&self.login, &self.connecting);
        must_be_one_server(&login.place, "databases", &name, || {
            control::server_name(&mut attach(&address, Arc::clone(login), &[], waits)?, flavor)
        })
    }

    fn make_database(&mut self) -> Result<(), StoreError> {
        let (database, user, place) = (quoted(&self.database), self.login.user.clone(), self.login.place.clone());
        let made = self.control.get()?.simple(&format!("CREATE DATABASE {database}"));
        // The database may exist although no reply came.
        self.has_database = made.as_ref().map_or_else(StoreError::is_nobody_there, |_| true);
        match made {
            Err(error) if error.kind == StoreErrorKind::Permission => Err(StoreError {
                what: format!("user `{user}` may not make database {database} at {place}"),
                detail: Some(error.to_string()),
                next: Some(format!(
                    "As an administrator: GRANT ALL ON `{}%`.* TO {};",
                    PREFIX.replace('_', "\\_"),
                    self.control.get()?.value("SELECT CURRENT_USER()").map_or_else(|_| user, |user| account(&user))
                )),
                ..error
            }),
            made => made.map(drop),
        }
    }

    fn drop_database(&mut self) -> Result<(), StoreError> {
        if self.has_database {
            self.tidy(|control, name| {
                // What was given up after its timeout may still run on the server, and hold locks for as long as it
                // likes. Where that cannot be ended, dropping waits for it.
                if let Ok(answer) = control.simple(&format!(
                    "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = {} AND ID <> CONNECTION_ID()",
                    sql::literal(name)
                )) {
                    for row in answer.row_iter() {
                        let _ = control.simple(&format!("KILL {}", text(row, 0)));
                    }
                }
                control.simple(&format!("DROP DATABASE IF EXISTS {}", quoted(name)))
            })?;
            self.has_database = false;
        }
        Ok(())
    }

    /// Runs the layout's statements in the run's database.
    fn layout_statements<'s>(&mut self, statements: impl Iterator<Item = &'s str>) -> Result<(), StoreError> {
        let (login, settings) = (self.session_login(), session_settings());
        let mut statements = statements.peekable();
        if statements.peek().is_none() {
            return Ok(());
        }
        // A connection of its own: what the statements set, and the database they are in, must not stay.
        let mut connection = connect(self.address(), login, Arc::default(), &settings, &[], &self.connecting)?;
        connection.set_works(true);
        connection.layout_statements(statements)
    }

    /// Does something slow on the control connection.
    fn tidy<T>(&mut self, run: impl FnOnce(&mut Connection, &str) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let database = self.database.clone();
        self.control.get()?.work(|control| run(control, &database))
    }

    /// Makes the server as durable as asked: ours by setting it, another by looking whether it is at least so.
    fn make_durable(&mut self, durability: Durability) -> Result<(), StoreError> {
        let place = self.login.place.clone();
        let level = match durability {
            // The server's own default, too.
            Durability::Durable | Durability::AsConfigured => 1,
            Durability::Buffered => 2,
            Durability::AtEnd => 0,
        };
        if let Some((servers, recipe)) = &self.server {
            // No session has a value of its own.
            let set = format!("SET GLOBAL {FLUSH_LOG} = {level}");
            let running = || recipe.servers_of(servers.running());
            let nodes = self.instance.as_ref().map_or_else(running, |node| vec![Arc::clone(node)]);
            for node in nodes {
                recipe.open(&node, &self.connecting)?.simple(&set)?;
            }
            return Ok(());
        }
        if durability == Durability::Durable && self.control.get()?.value(BINLOG)? != "1" {
            return Err(StoreError::new(
                StoreErrorKind::Usage,
                format!("{place} writes a binary log without syncing it at each commit: that is not `durable`"),
            )
            .next("Have sync_binlog set to 1 there, or ask for durability `as-configured`."));
        }
        let found = self.control.get()?.value(&format!("SELECT @@GLOBAL.{FLUSH_LOG}"))?;
        // 3 is 1 with more syncs, of MariaDB.
        let enough = match durability {
            Durability::Durable => matches!(found.as_str(), "1" | "3"),
            Durability::Buffered => matches!(found.as_str(), "1" | "2" | "3"),
            Durability::AtEnd | Durability::AsConfigured => true,
        };
        if enough {
            return Ok(());
        }
        Err(StoreError::usage(format!(
            "{place} runs with {FLUSH_LOG}={found}: that is not durability `{}`",
            durability.name()
        ))
        .next(format!("Set {FLUSH_LOG} to {level} there, or ask for durability `as-configured`.")))
    }
}

/// Returns a probe of a server's counters under the name `node`, over a connection such as `link` makes.
fn probe_over(link: &Link<Connection>, flavor: Flavor, topology: Topology, node: String) -> Probe {
    let (mut log_bytes, mut locks) = (None, LockWaits::default());
    link.probe(move |control| {
        let log_bytes = match log_bytes {
            Some(known) => known,
            None => *log_bytes.insert(counters::log_bytes(control, flavor)?),
        };
        let mut all = counters::read(control, log_bytes, &node)?;
        lock_waits::add(&mut all, &mut locks, control, flavor)?;
        if topology == Topology::Replicas {
            all.extend(counters::lag(control, &node)?);
        }
        Ok(all)
    })
}

/// All settings of a server that differ from the defaults, and the one that decides what a commit survives.
fn settings(
    connection: &mut Connection,
    flavor: Flavor,
    is_private: bool,
    given: &[(String, String)],
) -> Result<Vec<Setting>, StoreError> {
    const OURS: [&str; 9] = [
        "innodb_buffer_pool_dump_at_shutdown",
        "innodb_buffer_pool_load_at_startup",
        "innodb_buffer_pool_size",
        FLUSH_LOG,
        "innodb_log_file_size",
        "innodb_redo_log_capacity",
        "log_bin",
        "max_connections",
        "skip_networking",
    ];
    let mut settings = control::settings(connection, flavor, if is_private { &OURS } else { &[] })?;
    if is_private {
        // Where it keeps its files is another place each time, and no setting that anybody chose.
        settings.retain(|setting| {
            !matches!(setting.name.as_str(), "datadir" | "init_file" | "pid_file" | "socket" | "tmpdir")
        });
    }
    // Galera says all of its own settings as one; what it was started with stands in there.
    settings.retain_mut(|setting| {
        if setting.name != "wsrep_provider_options" {
            return true;
        }
        setting.value = galera::set_ones(&setting.value, given);
        !setting.value.is_empty()
    });
    // Decides what the figures are of; shown even where it is as the server's makers left it.
    if !settings.iter().any(|setting| setting.name == FLUSH_LOG) {
        let value = connection.value(&format!("SELECT @@GLOBAL.{FLUSH_LOG}"))?;
        settings.push(Setting::new(FLUSH_LOG, value, None, "server"));
    }
    Ok(settings)
}

/// `user@host` as an account in a statement; the last `@` is the one between the two.
fn account(user: &str) -> String {
    let (user, host) = user.rsplit_once('@').unwrap_or((user, "%"));
    format!("{}@{}", quoted(user), quoted(host))
}

/// 1 if pages are written twice, so that one that is left half written is mended; else 0.
const DOUBLEWRITE: &str = "SELECT IF(UPPER(@@GLOBAL.innodb_doublewrite) IN ('0', 'OFF', 'DETECT_ONLY'), 0, 1)";

/// Commits per sync of the binary log, 1 without that log: a commit that is in InnoDB's log and not in that
/// one is undone after a crash.
const BINLOG: &str = "SELECT CASE WHEN @@GLOBAL.log_bin THEN @@GLOBAL.sync_binlog ELSE 1 END";

impl Store for MariadbStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let place = match &self.server {
            Some((_, recipe)) if recipe.proxied => format!("private cluster of {} behind HAProxy", recipe.nodes),
            Some(_) if self.nodes().len() > 1 => format!("private cluster of {}", self.nodes().len()),
            Some(_) => "private server".to_owned(),
            None => self.login.place.clone(),
        };
        let flavor = self.flavor;
        let version = self.control.get()?.value("SELECT VERSION()")?;
        let is_private = self.server.is_some();
        let given = self.given();
        let settings = settings(self.control.get()?, flavor, is_private, &given)?;
        Ok(StoreDescription { version: format!("{} {version}", flavor.name()), place, settings })
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        if self.server.is_some() { Ok(()) } else { self.make_durable(durability) }
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let name = self.flavor.name();
        let control = self.control.get()?;
        let level = control.value(&format!("SELECT @@GLOBAL.{FLUSH_LOG}"))?;
        let survives = match level.as_str() {
            "0" => "writes and syncs its log every second: acknowledged commits of the last one may be lost",
            "2" => {
                "writes its log at each commit and syncs it every second: power loss may take acknowledged commits of \
                    the last one"
            }
            _ if control.value(BINLOG)? != "1" => {
                "syncs its log at each commit, and its binary log not (sync_binlog): \
                                                   power loss may undo the last acknowledged commits"
            }
            _ if control.value(DOUBLEWRITE)? == "0" => {
                "syncs its log at each commit, without a doublewrite buffer (innodb_doublewrite): a page that power loss \
                 leaves half written is not mended"
            }
            _ => "syncs its log at each commit: by its settings an acknowledged commit survives power loss",
        };
        Ok(format!("{name} ({FLUSH_LOG}={level}) {survives}."))
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        self.make_durable(durability)?;
        let (login, mut statements) = (self.session_login(), session_settings());
        statements.extend(self.read_only.then(|| READ_ONLY.to_owned()));
        let mut session = connect(self.address(), login, Arc::default(), &statements, &[], &self.connecting)?;
        let mut all = settings(&mut session, self.flavor, self.server.is_some(), &self.given())?;
        for own in control::settings_of_session(&mut session, self.flavor)? {
            all.retain(|setting| setting.name != own.name);
            all.push(own);
        }
        Ok(Some(all))
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let statements = sql::create(layout, self.flavor)?;
        if self.server.is_none() {
            self.must_be_one()?;
        }
        self.drop_database()?;
        self.make_database()?;
        let own = statements.iter().map(String::as_str);
        self.layout_statements(own.chain(Layout::texts_for(&layout.statements, Dialect::Mysql)))?;
        self.layout = Arc::new(layout.clone());
        Ok(())
    }

    fn after_load(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.layout_statements(Layout::texts_for(&layout.after_load, Dialect::Mysql))
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        let Some((_, recipe)) = &self.server else { return Ok(Vec::new()) };
        let (nodes, looks) = (self.nodes(), self.connecting.clone());
        let numbers = nodes.iter().map(|node| node.number);
        match recipe.topology {
            Topology::Alone => Ok(Vec::new()),
            Topology::Galera => galera::until_applied(recipe, &nodes, &looks).map(|()| numbers.collect()),
            Topology::Replicas => {
                let primary = replicas::until_whole(recipe, &nodes, &looks)?;
                Ok(numbers.filter(|number| *number != primary).collect())
            }
        }
    }

    fn read_copy(&mut self, node: Option<usize>) {
        let found = self.nodes().into_iter().find(|one| Some(one.number) == node);
        let server = found.zip(self.server.as_ref()).map(|(node, (_, recipe))| recipe.address(&node));
        self.copy = server.map(|address| SessionServers::only(Server { address, login: Arc::clone(&self.login) }));
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        self.make_durable(durability)?;
        let flavor = self.flavor;
        self.log = Some(RedoLog::begin(self.control.get()?, flavor)?);
        if self.addresses.len() > 1 && self.sessions_at.reads != Reads::Primary {
            // A promotion changes which of them follow.
            let primary = self.primary_at.load(Ordering::Relaxed);
            let all = self.sessions_at.all.iter().enumerate();
            self.sessions_at.replicas =
                all.filter(|(position, _)| *position != primary).map(|(_, one)| one.clone()).collect();
        }
        self.sessions_at.until_replicas_follow(self.control.get()?, &self.connecting, &self.waits)?;
        let plan = SessionPlan {
            database: self.has_database.then_some(&*self.database),
            layout: &self.layout,
            settings: &session_settings(),
            read_only: self.read_only,
            primary: (self.addresses.len() > 1).then(|| self.primary_at.load(Ordering::Relaxed)),
        };
        Ok(Sessions::Wire(self.copy.as_ref().unwrap_or(&self.sessions_at).sessions(count, &plan)?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let place = self.login.place.clone();
        let attached = self.server.is_none();
        self.tidy(|control, _| {
            // Where every commit is synced there is nothing to sync.
            let level = control.value(&format!("SELECT @@GLOBAL.{FLUSH_LOG}"))?;
            if attached && matches!(level.as_str(), "1" | "3") {
                return Ok(());
            }
            match control.simple("FLUSH ENGINE LOGS") {
                Err(error) if error.kind == StoreErrorKind::Permission => {
                    let what = format!("the log of {place} cannot be synced without a privilege");
                    Err(StoreError { what, detail: Some(error.to_string()), ..error }
                        .next("Grant RELOAD to the user, or ask for durability `durable`."))
                }
                result => result.map(|_| ()),
            }
        })
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        let (flavor, private, waits) = (self.flavor, self.server.is_some(), self.waits.clone());
        self.tidy(|control, database| control::settle(control, database, flavor, private, &waits))
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.control.hang_up();
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let flavor = self.flavor;
        if !self.has_database {
            // What others have made and filled is in the database that the URL names.
            let theirs = self.login.database.clone().unwrap_or_default();
            return self.tidy(|control, _| control::footprint(control, &theirs, flavor));
        }
        let mut footprint = self.tidy(|control, database| control::footprint(control, database, flavor))?;
        if self.server.is_some() {
            footprint.total_bytes = self.nodes().iter().map(|node| tree_bytes(&node.data_dir, Metadata::len)).sum();
        }
        Ok(footprint)
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        let bytes = self.control.get()?.value("SELECT @@GLOBAL.innodb_buffer_pool_size")?;
        Ok(bytes.parse().ok().map(|bytes| CacheSize::Own { setting: "innodb_buffer_pool_size", bytes }))
    }

    fn explain(&mut self, kind: &OpKind, params: Values<'_>) -> Result<Option<String>, StoreError> {
        let explain = tables::explain::<Flavor>(kind, &self.layout, params)?;
        let Some((explain, used)) = explain else { return Ok(None) };
        let (login, kinds) = (self.session_login(), std::slice::from_ref(&explain));
        let settings = session_settings();
        let mut connection = connect(self.address(), login, Arc::default(), &settings, kinds, &self.connecting)?;
        let answer = connection.ask(&Op::new(0, used))?;
        Ok(Some(answer.row_iter().map(plan::line).collect::<Vec<_>>().join("\n")))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        self.tidy(control::check_integrity)
    }

    fn probes(&mut self) -> Vec<Probe> {
        let Some((servers, recipe)) = self.server.as_ref().filter(|_| self.nodes().len() > 1) else {
            return vec![probe_over(&self.control, self.flavor, Topology::Alone, String::new())];
        };
        let topology = recipe.topology;
        let of_node = |node: Arc<Node>| {
            let (name, number) = (format!("node {}", node.number + 1), node.number);
            let (recipe, waits) = (recipe.clone(), self.waits.clone());
            let link = Link::new(Some((Arc::clone(servers), Nodes::One(number))), move || recipe.open(&node, &waits));
            probe_over(&link, self.flavor, topology, name)
        };
        self.nodes().into_iter().map(of_node).collect()
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        let Some(log) = &self.log else { return Ok(None) };
        log.cycle(self.control.get()?)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let dropped = self.drop_database();
        self.has_database = false;
        dropped.map_err(|error| {
            let what = format!("database {} at {}", self.database, self.login.place);
            error.leaves(what, self.removal(&self.database))
        })
    }
}
