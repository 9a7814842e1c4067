//! The store: attached or private, what it makes, and what it can be asked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Address, BlockingSession, Call, Cold, Dialect, Durability, Footprint, IndexMode, Interface, Layout, Op, OpKind,
    OpenOptions, Outcome, ParamSpec, ParamType, Sessions, Store, StoreDescription, StoreError, StoreErrorKind,
    StoreKind, StoreSpec, Target, Value, Values, WireClient,
};
use plimsoll_keyindex::records::Records;
use plimsoll_lab::page_cache;

use crate::connection::{Connection, rejected};
use crate::conninfo::{self, Environment};
use crate::control::{self, TIDY_TIMEOUT};
use crate::kv::{self, KvConnect, PgKv};
use crate::server::{PrivatePostgres, find_postgres};
use crate::sql::{self, literal, quoted};
use crate::wire::{Login, PgSession};

/// How long a server may be silent over an ordinary statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

/// Begins the comment on a schema that Plimsoll made.
const MADE_BY: &str = "Made by Plimsoll for run ";

const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "shared_buffers",
        param_type: ParamType::Bytes,
        default: "128MiB",
        summary: "memory for cached pages of a private server",
    },
    ParamSpec {
        name: "max_connections",
        param_type: ParamType::Int { min: 10, max: 10_000 },
        default: "100",
        summary: "most connections a private server takes, three of them for superusers",
    },
];

static SPEC: StoreSpec = StoreSpec {
    name: "postgres",
    summary: "PostgreSQL, a private server or one that runs already",
    schemes: &["postgres", "postgresql"],
    private: true,
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records, Interface::Sql],
    durabilities: &[Durability::Durable, Durability::AtEnd],
    dialect: Some(Dialect::Postgres),
    index_modes: &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex],
    concurrent: true,
    keeps_data: true,
    params: PARAMS,
    packages: &["postgresql"],
};

/// PostgreSQL.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Postgres)
}

struct Postgres;

impl StoreKind for Postgres {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        find_postgres().map(|program| program.display().to_string())
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let Target::Attach { url, password } = &options.target else {
            return Ok(vec!["starts a private PostgreSQL, and removes it with its data afterwards".to_owned()]);
        };
        let info = conninfo::resolve(url, password.as_deref(), &Environment::of_process())?;
        let schema = schema_name(&options.run_id);
        Ok(vec![
            format!("attaches to {}", info.login.place),
            format!("makes schema {schema} there and drops it afterwards; writes to nothing else"),
            "asks for a CHECKPOINT when the data is settled, if the role may".to_owned(),
        ])
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(open(options, progress)?))
    }
}

fn schema_name(run_id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    format!("plimsoll_{}", run_id.chars().map(plain).collect::<String>())
}

fn open(options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<PostgresStore, StoreError> {
    let (server, address, login, timeout) = match &options.target {
        Target::Attach { url, password } => {
            let info = conninfo::resolve(url, password.as_deref(), &Environment::of_process())?;
            (None, info.address, info.login, info.connect_timeout)
        }
        Target::Private { data_dir, log_dir } => {
            let bases = [data_dir.clone(), PathBuf::from("/var/tmp"), PathBuf::from("/tmp")];
            // What is not given is at PostgreSQL's own default.
            let given = |name: &str, unit: &str, factor: i64| match options.params.int(name) / factor {
                0 => None,
                value => Some((name.to_owned(), format!("{value}{unit}"))),
            };
            let settings = [given("shared_buffers", "kB", 1024), given("max_connections", "", 1)];
            let settings: Vec<_> = settings.into_iter().flatten().collect();
            let server = PrivatePostgres::start(&bases, log_dir, &settings, progress)?;
            let login = Login {
                user: server.user().to_owned(),
                database: server.database().to_owned(),
                password: None,
                no_password_because: None,
                application_name: "plimsoll".to_owned(),
                options: None,
                place: "the private PostgreSQL".to_owned(),
            };
            let address = server.address();
            (Some(server), address, login, Duration::from_secs(30))
        }
    };
    let mut store = PostgresStore {
        server,
        address,
        login: Arc::new(login),
        connect_timeout: timeout,
        control: None,
        schema: schema_name(&options.run_id),
        run_id: options.run_id,
        has_schema: false,
        layout: Arc::default(),
        records: None,
    };
    if store.server.is_none() {
        for left in store.left_behind()? {
            progress(&format!("schema {left} of an earlier run is still there; DROP SCHEMA {left} CASCADE removes it"));
        }
    }
    Ok(store)
}

struct PostgresStore {
    /// The private server; `None` when attached.
    server: Option<PrivatePostgres>,
    address: Address,
    login: Arc<Login>,
    connect_timeout: Duration,
    /// The control plane's connection, made when it is needed.
    control: Option<Connection>,
    schema: String,
    run_id: String,
    /// The schema is there, and is ours.
    has_schema: bool,
    layout: Arc<Layout>,
    /// With [`IndexMode::Keyindex`].
    records: Option<Records>,
}

impl PostgresStore {
    fn control(&mut self) -> Result<&mut Connection, StoreError> {
        // Between two uses the server may have been restarted, or have ended a connection that was idle.
        if !self.control.as_mut().is_some_and(Connection::is_still_ready) {
            // How one of our own ended says more than that nobody listens any more.
            if let Some(server) = &mut self.server {
                server.check()?;
            }
            let settings = format!("SET statement_timeout = 0; {}", self.search_path());
            let login = Arc::clone(&self.login);
            let mut made =
                Connection::open(&self.address, login, Arc::default(), &settings, &[], self.connect_timeout)?;
            made.set_timeout(STATEMENT_TIMEOUT);
            self.control = Some(made);
        }
        Ok(self.control.as_mut().expect("it was made just now"))
    }

    /// Nothing but our own schema is looked into, so that nothing else can be written to by its bare name.
    fn search_path(&self) -> String {
        format!("SET search_path = {}", quoted(&self.schema))
    }

    /// Schemas that earlier runs of this role could not drop.
    fn left_behind(&mut self) -> Result<Vec<String>, StoreError> {
        let answer = self.control()?.simple(&format!(
            "SELECT nspname FROM pg_namespace WHERE nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) \
             AND starts_with(obj_description(oid, 'pg_namespace'), {}) ORDER BY nspname",
            literal(MADE_BY)
        ))?;
        let names = answer.row_iter().map(|row| match row.get(0) {
            Value::Text(name) => name.to_owned(),
            _ => String::new(),
        });
        Ok(names.collect())
    }

    fn make_schema(&mut self) -> Result<(), StoreError> {
        let (schema, user, database) = (quoted(&self.schema), self.login.user.clone(), self.login.database.clone());
        let comment = format!("COMMENT ON SCHEMA {schema} IS {}", literal(&format!("{MADE_BY}{}", self.run_id)));
        match self.control()?.simple(&format!("CREATE SCHEMA {schema}; {comment}")) {
            Ok(_) => {
                self.has_schema = true;
                Ok(())
            }
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
            Err(error) => Err(error),
        }
    }

    fn drop_schema(&mut self) -> Result<(), StoreError> {
        if self.has_schema {
            let schema = quoted(&self.schema);
            let control = self.control()?;
            // What was given up after its timeout may still run on the server, and hold locks for as long as it likes.
            // Where that cannot be ended, dropping waits for it.
            let _ = control.simple(&control::end_given_up(&schema));
            control.simple(&format!("DROP SCHEMA {schema} CASCADE"))?;
            self.has_schema = false;
        }
        Ok(())
    }

    /// Runs the layout's statements in the run's schema.
    fn layout_statements<'s>(&mut self, statements: impl Iterator<Item = &'s str>) -> Result<(), StoreError> {
        self.tidy(|control, _| {
            for statement in statements {
                control.simple(statement).map_err(|error| StoreError {
                    what: format!("the layout's statement failed: {statement}"),
                    detail: Some(error.to_string()),
                    ..error
                })?;
            }
            Ok(())
        })
    }

    /// Does something slow on the control connection.
    fn tidy<T>(&mut self, run: impl FnOnce(&mut Connection, &str) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let schema = self.schema.clone();
        let control = self.control()?;
        control.set_timeout(TIDY_TIMEOUT);
        let result = run(control, &schema);
        control.set_timeout(STATEMENT_TIMEOUT);
        result
    }

    fn session_settings(&mut self, durability: Durability) -> Result<String, StoreError> {
        let place = self.login.place.clone();
        let commit = match durability {
            Durability::Durable => {
                if self.control()?.value("SHOW fsync")? != "on" {
                    return Err(StoreError::new(
                        StoreErrorKind::Usage,
                        format!("{place} runs with fsync=off: none of its writes survives power loss"),
                    )
                    .next("Set fsync = on in its configuration, or ask for durability `at-end`."));
                }
                "on"
            }
            // With synchronous_commit=off an acknowledged commit is in the server's memory only for a while, and
            // dies with it. Nothing that a session can set is in between.
            Durability::Buffered => {
                return Err(StoreError::new(
                    StoreErrorKind::Usage,
                    "PostgreSQL has no commit that survives the server but not the machine",
                )
                .next("Ask for durability `durable` or `at-end`."));
            }
            Durability::AtEnd => "off",
        };
        Ok(format!("{}; SET synchronous_commit = {commit}", self.search_path()))
    }

    fn server_or(&mut self, what: &str) -> Result<&mut PrivatePostgres, StoreError> {
        let place = &self.login.place;
        let error = StoreError::new(StoreErrorKind::Usage, format!("{place} is attached and is not ours to {what}"))
            .next("Use a private server: --on postgres");
        self.server.as_mut().ok_or(error)
    }
}

impl Store for PostgresStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let ours: &[&str] = match self.server {
            Some(_) => &["shared_buffers", "max_connections", "listen_addresses", "unix_socket_directories"],
            None => &[],
        };
        let place = match self.server {
            Some(_) => "private server".to_owned(),
            None => self.login.place.clone(),
        };
        let control = self.control()?;
        Ok(StoreDescription {
            version: control.value("SELECT 'PostgreSQL ' || current_setting('server_version')")?,
            place,
            settings: control::settings(control, ours)?,
        })
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        let mut records = None;
        if layout.index == IndexMode::Keyindex {
            records = Some(Records::new(layout)?);
            statements.push(kv::CREATE.to_owned());
        } else if layout.collections.is_empty() && layout.statements.is_empty() {
            statements.push(kv::CREATE.to_owned());
        } else {
            statements = sql::create(layout)?;
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

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let settings = self.session_settings(durability)?;
        let (address, login) = (self.address.clone(), Arc::clone(&self.login));
        let Some(records) = &self.records else {
            let client = |_| WireClient {
                address: address.clone(),
                session: Box::new(PgSession::new(Arc::clone(&login), Arc::clone(&self.layout), settings.clone())),
            };
            return Ok(Sessions::Wire((0..count).map(client).collect()));
        };
        let connect = KvConnect { address, login, settings, timeout: STATEMENT_TIMEOUT };
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
        self.tidy(control::settle)
    }

    fn cold(&mut self) -> Result<Cold, StoreError> {
        let Some(server) = &mut self.server else {
            return Ok(Cold::NotPossible("an attached server is not ours to stop".to_owned()));
        };
        self.control = None;
        server.stop()?;
        let data = server.data_dir();
        let dropped = page_cache::drop_files(data).map_err(|error| StoreError::io(data.display(), &error))?;
        server.start_again()?;
        Ok(Cold::Done { file_bytes: dropped.file_bytes, resident_bytes: dropped.resident_bytes })
    }

    fn restart(&mut self) -> Result<(), StoreError> {
        self.server_or("restart")?.restart()?;
        self.control = None;
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let keyindex = self.records.is_some();
        let mut footprint = self.tidy(|control, schema| control::footprint(control, schema, keyindex))?;
        if let Some(server) = &self.server {
            footprint.total_bytes = tree_bytes(server.data_dir());
        }
        Ok(footprint)
    }

    fn explain(&mut self, kind: &OpKind, params: Values<'_>) -> Result<Option<String>, StoreError> {
        if let Some(records) = &self.records {
            return Ok(records.explain(kind).map(str::to_owned));
        }
        let compiled = sql::compile(kind, &self.layout)?;
        let (which, used) = compiled.shape.statement(params);
        let Some(text) = compiled.texts.get(which) else { return Ok(None) };
        let explain = OpKind {
            name: format!("explain {}", kind.name),
            call: Call::Sql(format!("EXPLAIN {text}")),
            params: kind.params.iter().copied().cycle().take(used.len()).collect(),
            keep_answer: true,
            step_of: None,
        };
        let (login, place) = (Arc::clone(&self.login), self.login.place.clone());
        let settings = self.search_path();
        let mut connection = Connection::open(
            &self.address,
            login,
            Arc::default(),
            &settings,
            std::slice::from_ref(&explain),
            self.connect_timeout,
        )?;
        let mut result = Ok(Vec::new());
        connection.execute(&Op::new(0, used), &mut |outcome, answer| {
            result = match outcome {
                Outcome::Ok | Outcome::NotFound => Ok(answer.row_iter().map(first_text).collect()),
                Outcome::Rejected | Outcome::Unknown => Err(rejected(&place, answer)),
            };
        })?;
        Ok(Some(result?.join("\n")))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let private = self.server.is_some();
        self.tidy(|control, schema| control::check_integrity(control, schema, private))
    }

    fn processes(&self) -> Vec<u32> {
        self.server.as_ref().and_then(PrivatePostgres::pid).into_iter().collect()
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        let Some(server) = self.server.take() else { return self.drop_schema() };
        self.has_schema = false;
        self.control = None;
        server.close()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Not closed: something failed before. What an attached server holds of ours still goes.
        if self.server.is_none() {
            let _ = self.drop_schema();
        }
    }
}

fn first_text(row: Values<'_>) -> String {
    match row.get(0) {
        Value::Text(text) => text.to_owned(),
        _ => String::new(),
    }
}

/// Bytes of all files of a tree; `None` where it cannot be read.
fn tree_bytes(dir: &std::path::Path) -> Option<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        // A file that the server removes meanwhile counts nothing.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { tree_bytes(&entry.path())? } else { metadata.len() };
    }
    Some(bytes)
}
