//! The open store, attached or private: what it makes, and what it can be asked.

use std::fs::Metadata;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_core::{
    Address, BlockingSession, CacheSize, Cycle, Dialect, Durability, Footprint, IndexMode, Layout, Node, Nodes, Op,
    OpKind, Probe, Removal, Servers, Sessions, Setting, Store, StoreDescription, StoreError, StoreErrorKind, Values,
    Waits, tables, waits,
};
use plimsoll_endpoint::{Link, must_be_one_server, text};
use plimsoll_keyindex::records::Records;
use plimsoll_lab::tree_bytes;

use crate::connection::Connection;
use crate::control;
use crate::counters::{Counters, Replay};
use crate::kv::{self, KvConnect, PgKv};
use crate::reach::Endpoint;
use crate::servers::{SessionPlan, SessionServers};
use crate::sql::{Postgres, literal, quoted};
use crate::wire::Protocol;

/// Begins the comment on a schema that Plimsoll made.
const MADE_BY: &str = "Made by Plimsoll for run ";

/// The setting that says what a commit waits for.
const COMMIT: &str = "synchronous_commit";

/// Name of a server: no two start in one microsecond.
const STARTED: &str = "SELECT 'the one that started at ' \
                       || to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')";

/// Settings that commits need to survive power loss, and the consequence without each.
const NEEDED: [(&str, &str); 2] = [
    ("fsync", "none of its writes survives power loss"),
    ("full_page_writes", "a page that power loss leaves half written is not mended"),
];

pub(crate) fn schema_name(run_id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    format!("plimsoll_{}", run_id.chars().map(plain).collect::<String>())
}

/// Settings of the control plane's connection.
pub(crate) fn control_settings(run_id: &str) -> String {
    format!("SET statement_timeout = 0; {}", search_path(&schema_name(run_id)))
}

/// Returns the statement that limits the search path to the run's own schema, so that no other object can be written
/// to by its bare name.
fn search_path(schema: &str) -> String {
    format!("SET search_path = {}", quoted(schema))
}

/// Opens a connection to the only server, or to the first of several that takes writes. Returns its position, too.
fn open_primary(endpoints: &[Endpoint], settings: &str, waits: &Waits) -> Result<(usize, Connection), StoreError> {
    let (mut refused, is_only) = (None, endpoints.len() == 1);
    for (position, endpoint) in endpoints.iter().enumerate() {
        let opened = endpoint.open(Arc::default(), settings, &[], waits);
        match opened.and_then(|mut made| Ok((is_only || made.value("SELECT pg_is_in_recovery()")? == "f", made))) {
            Ok((true, made)) => return Ok((position, made)),
            Ok((false, _)) => {}
            Err(error) if error.is_interrupt() => return Err(error),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let no_primary =
        || StoreError::new(StoreErrorKind::Unreachable, "no node of the private PostgreSQL is the primary");
    Err(refused.unwrap_or_else(no_primary))
}

pub(crate) struct PostgresStore {
    /// The private server; `None` when attached.
    server: Option<Arc<dyn Servers>>,
    /// The only one of these that is meant, beside which others know nothing of it.
    pub(crate) instance: Option<Arc<Node>>,
    /// Number of servers behind an HAProxy, if there is one.
    pub(crate) proxied: Option<usize>,
    /// Names of the settings that we have given it.
    ours: Vec<String>,
    endpoint: Endpoint,
    /// Servers of driven sessions: the endpoint, a pooler in front, or several in turn.
    pub(crate) sessions_at: SessionServers,
    /// The limits of what waits for the server: while connecting, and afterwards.
    connecting: Waits,
    waits: Waits,
    /// Protocol of statements of sessions.
    pub(crate) protocol: Protocol,
    control: Link<Connection>,
    /// Position of the control connection's server among all.
    primary_at: Arc<AtomicUsize>,
    schema: String,
    run_id: String,
    /// The schema is there, and is ours.
    has_schema: bool,
    /// Sessions only read, and the server sees to it.
    read_only: bool,
    /// Endpoints of servers with a copy, by the numbers of their nodes.
    pub(crate) copies: Vec<(usize, Endpoint)>,
    /// Sessions read that one.
    copy: Option<SessionServers>,
    layout: Arc<Layout>,
    /// Records, if [`IndexMode::Keyindex`] is used.
    records: Option<Records>,
}

impl PostgresStore {
    /// Makes a store on private servers, with the names of the settings they were given, or on an attached server. Of
    /// several endpoints, of which there is one at least, the control plane uses the primary's.
    pub(crate) fn new(
        server: Option<(Arc<dyn Servers>, Vec<String>)>,
        endpoints: Vec<Endpoint>,
        control: Option<Connection>,
        connecting: Waits,
        waits: Waits,
        run_id: String,
    ) -> PostgresStore {
        let (server, ours) = server.unzip();
        let (endpoint, primary_at) = (endpoints[0].clone(), Arc::new(AtomicUsize::new(0)));
        // Of several, one may be away: the primary is asked for, and their state is of interest only without it.
        let is_only = endpoints.len() == 1;
        let checked = server.clone().filter(|_| is_only).map(|server| (server, Nodes::All));
        // Nodes close connections while another one becomes the primary, as under Patroni.
        let patience = Some(waits.clone()).filter(|_| !is_only);
        let connect = {
            let (connecting, waits) = (connecting.clone(), waits.clone());
            let (settings, primary_at) = (control_settings(&run_id), Arc::clone(&primary_at));
            move || {
                let (position, mut made) = open_primary(&endpoints, &settings, &connecting)?;
                primary_at.store(position, Ordering::Relaxed);
                made.set_waits(waits.clone());
                Ok(made)
            }
        };
        let control = control.map(|mut control| {
            control.set_waits(waits.clone());
            control
        });
        let control = Link::new(checked, connect).holding(control).waiting(patience);
        PostgresStore {
            server,
            instance: None,
            proxied: None,
            ours: ours.unwrap_or_default(),
            sessions_at: SessionServers::new(vec![endpoint.clone()]),
            endpoint,
            connecting,
            waits,
            protocol: Protocol::default(),
            control,
            primary_at,
            schema: schema_name(&run_id),
            run_id,
            has_schema: false,
            read_only: false,
            copies: Vec::new(),
            copy: None,
            layout: Arc::default(),
            records: None,
        }
    }

    /// Our own servers; none where it is attached.
    fn nodes(&self) -> Vec<Arc<Node>> {
        match (&self.instance, &self.server) {
            (Some(node), _) => vec![Arc::clone(node)],
            (None, server) => server.as_ref().map(|server| server.nodes()).unwrap_or_default(),
        }
    }

    /// Schemas that earlier runs of this role could not drop.
    pub(crate) fn left_behind(&mut self) -> Result<Vec<String>, StoreError> {
        let answer = self.control.get()?.simple(&format!(
            "SELECT nspname FROM pg_namespace WHERE nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) \
             AND starts_with(obj_description(oid, 'pg_namespace'), {}) ORDER BY nspname",
            literal(MADE_BY)
        ))?;
        Ok(answer.row_iter().map(|row| text(row, 0).to_owned()).collect())
    }

    /// Returns the command that drops a schema of a run from an attached server.
    pub(crate) fn removal(&self, schema: &str) -> Option<Removal> {
        if self.server.is_some() {
            return None;
        }
        let (login, address) = (&self.endpoint.login, &self.endpoint.address);
        let (host, port) = match address {
            Address::Tcp(host, port) => (host.clone(), port.to_string()),
            Address::Unix(path) => {
                let port = path.extension()?.to_str()?.to_owned();
                (path.parent()?.to_str()?.to_owned(), port)
            }
        };
        // psql takes such a word for a URL, or for key=value pairs.
        if login.database.contains(['=', ':']) {
            return None;
        }
        let drop = format!("DROP SCHEMA {} CASCADE", quoted(schema));
        let words = ["psql", "-h", &host, "-p", &port, "-U", &login.user, "-d", &login.database, "-c", &drop];
        Removal::new(&words, &host, schema)
    }

    /// Refuses an address that leads to several servers, as one of a proxy: the schema would stay on one of them.
    fn must_be_one(&mut self) -> Result<(), StoreError> {
        let name = self.control.get()?.value(STARTED)?;
        let (endpoint, waits) = (&self.endpoint, &self.connecting);
        must_be_one_server(&endpoint.login.place, "schemas", &name, || {
            endpoint.open(Arc::default(), "", &[], waits)?.value(STARTED)
        })
    }

    fn make_schema(&mut self) -> Result<(), StoreError> {
        let (schema, user, database) =
            (quoted(&self.schema), self.endpoint.login.user.clone(), self.endpoint.login.database.clone());
        let comment = format!("COMMENT ON SCHEMA {schema} IS {}", literal(&format!("{MADE_BY}{}", self.run_id)));
        let made = self.control.get()?.simple(&format!("CREATE SCHEMA {schema}; {comment}"));
        // The schema may exist although no reply came.
        self.has_schema = made.as_ref().map_or_else(StoreError::is_nobody_there, |_| true);
        match made {
            Err(error) if error.kind == StoreErrorKind::Permission => Err(StoreError {
                what: format!("role `{user}` may not make a schema in database `{database}`"),
                detail: Some(error.to_string()),
                next: Some(format!(
                    "As its owner: GRANT CREATE ON DATABASE {} TO {};",
                    quoted(&database),
                    quoted(&user)
                )),
                ..error
            }),
            made => made.map(drop),
        }
    }

    fn drop_schema(&mut self) -> Result<(), StoreError> {
        if self.has_schema {
            self.tidy(|connection, schema| {
                let schema = quoted(schema);
                // What was given up after its timeout may still run on the server, and hold locks for as long as it
                // likes. Where that cannot be ended, dropping waits for it.
                let _ = connection.simple(&control::end_given_up(&schema));
                connection.simple(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"))
            })?;
            self.has_schema = false;
        }
        Ok(())
    }

    /// Runs the layout's statements in the run's schema.
    fn layout_statements<'s>(&mut self, statements: impl Iterator<Item = &'s str>) -> Result<(), StoreError> {
        self.tidy(|control, _| control.layout_statements(statements))
    }

    /// Does something slow on the control connection.
    fn tidy<T>(&mut self, run: impl FnOnce(&mut Connection, &str) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let schema = self.schema.clone();
        self.control.get()?.work(|control| run(control, &schema))
    }

    /// `synchronous_commit` as a session has it that sets nothing, and who asked for that: `None` when it is the server's
    /// own value for everybody.
    fn commit_setting(&mut self) -> Result<(String, Option<String>), StoreError> {
        let is_ours = self.ours.iter().any(|name| name == COMMIT);
        let control = self.control.get()?;
        control.simple(&format!("RESET {COMMIT}"))?;
        let answer = control.simple(&format!("SELECT setting, source FROM pg_settings WHERE name = '{COMMIT}'"))?;
        let row = answer.values.values();
        let source = match text(row, 1) {
            _ if is_ours => Some("the store's parameter `settings`"),
            "client" => Some("the connection's options (the URL's, or PGOPTIONS)"),
            "user" => Some("the role's settings"),
            "database" => Some("the database's settings"),
            "database user" => Some("the role's settings in this database"),
            _ => None,
        };
        Ok((text(row, 0).to_owned(), source.map(str::to_owned)))
    }

    /// The value of `synchronous_commit` that gives `durability`; `None`, to leave it as it is.
    fn commit_for(&mut self, durability: Durability) -> Result<Option<String>, StoreError> {
        let place = self.endpoint.login.place.clone();
        Ok(Some(match durability {
            Durability::AsConfigured => return Ok(None),
            Durability::Durable => {
                for (name, what) in NEEDED {
                    if self.control.get()?.value(&format!("SHOW {name}"))? != "on" {
                        let what = format!("{place} runs with {name}=off: {what}");
                        return Err(StoreError::usage(what).next(format!(
                            "Set {name} = on in its configuration, or ask for durability `as-configured`."
                        )));
                    }
                }
                match self.commit_setting()? {
                    (value, Some(source)) if value == "off" => {
                        let what = format!(
                            "{COMMIT} is {value} by {source}, and durability `durable` asks for commits that survive \
                             power loss"
                        );
                        return Err(StoreError::usage(what).next(format!("Leave {COMMIT} out there.")));
                    }
                    // All others wait for the disk, and some for standbys too.
                    (value, Some(_)) => value,
                    (_, None) => "on".to_owned(),
                }
            }
            // With synchronous_commit=off an acknowledged commit is in the server's memory only for a while, and
            // dies with it. Nothing that a session can set is in between.
            Durability::Buffered => {
                return Err(StoreError::usage("PostgreSQL has no commit that survives the server but not the machine")
                    .next("Ask for durability `durable` or `as-configured`."));
            }
            Durability::AtEnd => "off".to_owned(),
        }))
    }

    fn session_settings(&mut self, durability: Durability) -> Result<String, StoreError> {
        let mut all = Vec::new();
        // Before a load there is no schema of this run: the tables are the user's own.
        all.extend(self.has_schema.then(|| search_path(&self.schema)));
        all.extend(self.commit_for(durability)?.map(|commit| format!("SET {COMMIT} = {commit}")));
        all.extend(self.read_only.then(|| "SET default_transaction_read_only = on".to_owned()));
        Ok(all.join("; "))
    }
}

impl Store for PostgresStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let private = self.server.is_some();
        let nodes = self.nodes().len();
        let place = self.endpoint.login.place.clone();
        let control = self.control.get()?;
        let place = match (private, control.session().agreed()) {
            (true, _) if let Some(nodes) = self.proxied => format!("private cluster of {nodes} behind HAProxy"),
            (true, _) if nodes > 1 => format!("private cluster of {nodes}"),
            (true, _) => "private server".to_owned(),
            (false, None) => place,
            (false, Some(agreed)) => format!("{place} over {agreed}"),
        };
        Ok(StoreDescription {
            version: control.value("SELECT 'PostgreSQL ' || current_setting('server_version')")?,
            place,
            settings: control::settings(control, &self.ours)?,
        })
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        self.commit_for(durability).map(drop)
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let (commit, _) = self.commit_setting()?;
        for (name, what) in NEEDED {
            if self.control.get()?.value(&format!("SHOW {name}"))? != "on" {
                return Ok(format!("PostgreSQL runs with {name}=off: {what}."));
            }
        }
        Ok(match commit.as_str() {
            "off" => {
                "PostgreSQL answers before it syncs its log (synchronous_commit=off): acknowledged commits of the \
                      last moments, up to three times wal_writer_delay, may be lost."
                    .to_owned()
            }
            on => format!(
                "PostgreSQL syncs its log before it answers (synchronous_commit={on}, fsync and full_page_writes on): by \
                 these settings an acknowledged commit survives power loss."
            ),
        })
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        let settings = self.session_settings(durability)?;
        let mut session = self.sessions_at.first().open(Arc::default(), &settings, &[], &self.connecting)?;
        Ok(Some(control::settings(&mut session, &self.ours)?))
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        let mut records = None;
        if layout.index == IndexMode::Keyindex {
            if self.sessions_at.read_apart() {
                let what = "with keyindex a session reads before it writes, and cannot read from replicas";
                return Err(StoreError::usage(what).next("Leave `reads` out, or ask for index = \"own\" or \"none\"."));
            }
            records = Some(Records::new(layout)?);
            statements.push(kv::CREATE.to_owned());
        } else if layout.collections.is_empty() && layout.statements.is_empty() {
            statements.push(kv::CREATE.to_owned());
        } else {
            statements = tables::create(&Postgres, layout)?;
        }
        if self.server.is_none() {
            self.must_be_one()?;
        }
        self.drop_schema()?;
        self.make_schema()?;
        let own = statements.iter().map(String::as_str);
        self.layout_statements(own.chain(Layout::texts_for(&layout.statements, Dialect::Postgres)))?;
        self.layout = Arc::new(layout.clone());
        self.records = records;
        Ok(())
    }

    fn after_load(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.layout_statements(Layout::texts_for(&layout.after_load, Dialect::Postgres))
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        if !self.copies.is_empty() {
            let all = SessionServers::new(self.copies.iter().map(|(_, endpoint)| endpoint.clone()).collect());
            all.until_replicas_follow(self.control.get()?, &self.connecting, &self.waits)?;
        }
        Ok(self.copies.iter().map(|(number, _)| *number).collect())
    }

    fn read_copy(&mut self, node: Option<usize>) {
        let endpoint = self.copies.iter().find(|(number, _)| Some(*number) == node);
        self.copy = endpoint.map(|(_, endpoint)| SessionServers::new(vec![endpoint.clone()]));
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let settings = self.session_settings(durability)?;
        let Some(records) = &self.records else {
            if self.copy.is_none() && self.sessions_at.are_several() {
                if self.has_schema {
                    // What was acknowledged without being synced is on its way to replicas when it is.
                    self.sync()?;
                }
                self.sessions_at.until_replicas_follow(self.control.get()?, &self.connecting, &self.waits)?;
            }
            // Sessions begin with the present primary.
            self.control.get()?;
            let first = self.primary_at.load(Ordering::Relaxed);
            let plan = SessionPlan { layout: &self.layout, settings: &settings, protocol: self.protocol, first };
            let sessions_at = self.copy.as_ref().unwrap_or(&self.sessions_at);
            let client = |number: u32| sessions_at.session(number as usize, &plan);
            return Ok(Sessions::Wire((0..count).map(client).collect::<Result<_, StoreError>>()?));
        };
        let endpoint = self.copy.as_ref().unwrap_or(&self.sessions_at).first().clone();
        let connect = KvConnect { endpoint, settings, waits: self.waits.with_grace(waits::GRACE) };
        let session = |_| {
            let kv = PgKv::open(connect.clone())?;
            Ok(Box::new(records.session(kv)) as Box<dyn BlockingSession>)
        };
        Ok(Sessions::Blocking((0..count).map(session).collect::<Result<_, StoreError>>()?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // An acknowledged synchronous commit that wrote something: the log is flushed up to its record, and so
        // is everything committed before it. A checkpoint would also write the tables' pages, which the promise
        // does not need, and which not every role may ask for.
        let run_id = self.run_id.clone();
        self.tidy(|control, schema| {
            let comment = literal(&format!("{MADE_BY}{run_id}"));
            let schema = quoted(schema);
            // No BEGIN: what fails must not leave this connection in a transaction.
            control.simple(&format!("SET synchronous_commit = on; COMMENT ON SCHEMA {schema} IS {comment}"))?;
            Ok(())
        })
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        let waits = self.waits.clone();
        self.tidy(|control, schema| control::settle(control, schema, &waits))
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.control.hang_up();
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        if !self.has_schema {
            return self.tidy(|control, _| control::footprint_of_others(control));
        }
        let keyindex = self.records.is_some();
        let mut footprint = self.tidy(|control, schema| control::footprint(control, schema, keyindex))?;
        if self.server.is_some() {
            footprint.total_bytes = self.nodes().iter().map(|node| tree_bytes(&node.data_dir, Metadata::len)).sum();
        }
        Ok(footprint)
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        let bytes = self.control.get()?.value("SELECT pg_size_bytes(current_setting('shared_buffers'))")?;
        Ok(bytes.parse().ok().map(|bytes| CacheSize::Own { setting: "shared_buffers", bytes }))
    }

    fn explain(&mut self, kind: &OpKind, params: Values<'_>) -> Result<Option<String>, StoreError> {
        if let Some(records) = &self.records {
            return Ok(records.explain(kind).map(str::to_owned));
        }
        let explain = tables::explain::<Postgres>(kind, &self.layout, params)?;
        let Some((explain, used)) = explain else { return Ok(None) };
        // Without a schema of this run the tables are the user's, where the role finds them.
        let path = if self.has_schema { search_path(&self.schema) } else { String::new() };
        let kinds = std::slice::from_ref(&explain);
        let mut connection = self.endpoint.open(Arc::default(), &path, kinds, &self.connecting)?;
        let answer = connection.ask(&Op::new(0, used))?;
        let lines: Vec<&str> = answer.row_iter().map(|row| text(row, 0)).collect();
        Ok(Some(lines.join("\n")))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let private = self.server.is_some();
        self.tidy(|control, schema| control::check_integrity(control, schema, private))
    }

    fn probes(&mut self) -> Vec<Probe> {
        let sessions_at = self.sessions_at.clone();
        let (mut counters, mut replay) = (Counters::default(), Replay::default());
        let has_replicas = self.nodes().len() > 1;
        vec![self.control.probe(move |control| {
            // While sessions are at work no other thread does it.
            sessions_at.cancel_given_up();
            let mut all = counters.read(control)?;
            if has_replicas {
                all.extend(replay.read(control)?);
            }
            Ok(all)
        })]
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        // A checkpoint begins this long after the one before began, and is drawn out over its share of the same time.
        let asked = "SELECT extract(epoch FROM current_setting('checkpoint_timeout')::interval) \
                     * (1 + current_setting('checkpoint_completion_target')::float8) \
                     || ' ' || current_setting('checkpoint_timeout')";
        let answer = self.control.get()?.value(asked)?;
        let Some((seconds, timeout)) = answer.split_once(' ') else { return Ok(None) };
        let Ok(seconds) = seconds.parse::<f64>() else { return Ok(None) };
        Ok(Some(Cycle {
            seconds,
            by_work: false,
            words: format!(
                "checkpoint_timeout is {timeout}: the next checkpoint has ended {seconds:.0} s after one began, or earlier \
                 where log fills max_wal_size. Shorter settings (30s at least) bring one into shorter load steps"
            ),
        }))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let dropped = self.drop_schema();
        self.has_schema = false;
        dropped.map_err(|error| {
            let what = format!("schema {} at {}", self.schema, self.endpoint.login.place);
            error.leaves(what, self.removal(&self.schema))
        })
    }
}
