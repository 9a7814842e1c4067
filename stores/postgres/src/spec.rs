//! The store as lists show it: its parameters, what it says before it is opened, and how it is.

use std::io::BufRead;
use std::sync::Arc;

use plimsoll_core::production::LogReceiver;
use plimsoll_core::{
    Dialect, DiskSpec, Durability, ErrorCodes, IndexMode, Interface, LOG_DISK, Limits, Node, OpenOptions, ParamSpec,
    Params, Production, Reading, Recipe, Removal, Servers, SessionShape, SessionSpec, Store, StoreError, StoreKind,
    StorePreset, StoreSpec, Target, Waits, with_limits,
};

use plimsoll_endpoint::{INSTANCES, Instances, READS, Reads};
use plimsoll_lab::proxy::PROXY;

use crate::connection::Connection;
use crate::conninfo::{self, ConnInfo, Environment, Wanted};
use crate::counters;
use crate::log;
use crate::patroni::{self, Patroni};
use crate::pooler::PGBOUNCER;
use crate::production::{PgProduction, SETTINGS};
use crate::reach::{Endpoint, reach, reach_all};
use crate::server::{POSTGRES, PostgresRecipe, behind_proxy};
use crate::servers::SessionServers;
use crate::store::{PostgresStore, control_settings, schema_name};
use crate::wire::Protocol;
use crate::write_kind::{PAGE_GUARD, write_kind};

const PROTOCOLS: [(&str, Protocol); 3] =
    [("prepared", Protocol::Prepared), ("extended", Protocol::Extended), ("simple", Protocol::Simple)];

const PARAMS: [ParamSpec; 31] = with_limits([
    ParamSpec::one_of(
        "protocol",
        &["prepared", "extended", "simple"],
        "protocol of statements: parsed once, parsed each time, or text with the values in it",
    ),
    READS,
    ParamSpec::bytes("shared_buffers", "128MiB", "memory for cached pages of a private server").of_private(),
    ParamSpec::int(
        "max_connections",
        10..=10_000,
        "100",
        "most connections a private server takes, three of them for superusers",
    )
    .of_private(),
    ParamSpec::bytes("max_wal_size", "1GiB", "most log that a private server writes between two checkpoints")
        .of_private(),
    ParamSpec::duration("checkpoint_timeout", "300s", "longest time between two checkpoints of a private server")
        .of_private(),
    LOG_DISK,
    ParamSpec::flag("data_checksums", "pages of a private server have checksums (initdb --data-checksums)")
        .of_private(),
    ParamSpec::int("nodes", 1..=32, "1", "private servers: a primary, and replicas of it on hosts of their own")
        .of_private(),
    INSTANCES,
    ParamSpec::int("synchronous", 0..=31, "0", "number of replicas that a commit of a private server waits for")
        .of_private(),
    PROXY,
    ParamSpec::flag("pgbouncer", "sessions go to private servers through a PgBouncer, on a host of its own")
        .of_private(),
    patroni::PARAMS[0],
    patroni::PARAMS[1],
    patroni::PARAMS[2],
    patroni::PARAMS[3],
    ParamSpec::text("settings", "", "any other settings of a private server: \"work_mem=64MB wal_compression=on\"")
        .of_private(),
]);

/// Advice for private servers without replicas.
const MAKE_REPLICAS: &str = "Make some: --on postgres-replicas, or nodes = 3.";

/// Settings that are Plimsoll's own business: where a private server is and how it is found.
const NOT_TO_BE_SET: [&str; 8] = [
    "data_directory",
    "hba_file",
    "external_pid_file",
    "listen_addresses",
    "port",
    "unix_socket_directories",
    "logging_collector",
    "synchronous_standby_names",
];

static SPEC: StoreSpec = StoreSpec {
    name: "postgres",
    aliases: &["pg", "postgresql", "pgsql"],
    summary: "PostgreSQL, a private server or one that runs already",
    schemes: &["postgres", "postgresql"],
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records, Interface::Sql],
    durabilities: &[Durability::Durable, Durability::AtEnd],
    dialect: Some(Dialect::Postgres),
    index_modes: &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex],
    // Three for its process on this machine, of which the server sampler keeps files open.
    sessions: SessionSpec {
        descriptors: 4,
        bounded_by: Some("max_connections"),
        times: &[READS.name, INSTANCES.name],
        ..SessionSpec::new(SessionShape::Wire, 48 << 10)
    },
    params: &PARAMS,
    presets: &[
        StorePreset {
            name: "postgres-replicas",
            summary: "a PostgreSQL and streaming replicas of it, each on a host of its own",
            params: &[("nodes", "3")],
            packages: &[],
        },
        StorePreset {
            name: "postgres-patroni",
            summary: "a PostgreSQL and two replicas under Patroni, with etcd on the host of each",
            params: &[("nodes", "3"), ("patroni", "true")],
            packages: &["patroni", "python3-etcd", "etcd-server"],
        },
        StorePreset {
            name: "postgres-haproxy",
            summary: "a PostgreSQL and two replicas behind an HAProxy, each on a host of its own",
            params: &[("nodes", "3"), ("haproxy", "true")],
            packages: &["haproxy"],
        },
        StorePreset {
            name: "postgres-pgbouncer",
            summary: "a PostgreSQL behind a PgBouncer, each on a host of its own",
            params: &[("pgbouncer", "true")],
            packages: &["pgbouncer"],
        },
    ],
    packages: &["postgresql"],
    error_codes: ErrorCodes::SqlStates,
    write_kind,
    page_guard: Some(PAGE_GUARD),
    rarer_cycles: &[("checkpoints", "checkpoint_timeout=3600s")],
    password_places: "PGPASSWORD, PGPASSFILE, a service file or --password-file",
    habits: &[
        ("-M", "pgbench", "--set postgres.protocol=#"),
        ("--protocol", "pgbench", "--set postgres.protocol=#"),
        ("--pgsql-host", "sysbench", "a URL: --on postgres://#/database"),
        ("--pgsql-port", "sysbench", "a part of the URL: --on postgres://user@host:#/database"),
        ("--pgsql-user", "sysbench", "a part of the URL: --on postgres://#@host/database"),
        ("--pgsql-db", "sysbench", "a part of the URL: --on postgres://user@host/#"),
        ("--pgsql-password", "sysbench", "PGPASSWORD, PGPASSFILE or --password-file"),
    ],
    ..StoreSpec::PLAIN
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
        POSTGRES.find().map(|program| program.display().to_string())
    }

    fn counters(&self, params: &Params) -> Vec<Reading> {
        counters::examples(params.int("nodes") > 1)
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let (url, password) = options.target.url()?;
        let info = conninfo::resolve(url, password, &Environment::of_process())?;
        let schema = schema_name(&options.run_id);
        let places: Vec<&str> = info.hosts.iter().map(|host| host.login.place.as_str()).collect();
        let spreads = info.balanced || Reads::of(&options.params) != Reads::Primary;
        Ok(vec![
            format!("attaches to {}", places.join(if spreads { " and " } else { ", or else to " })),
            format!("makes schema {schema} there and drops it afterwards"),
            "asks for a CHECKPOINT when the data is settled, if the role may".to_owned(),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let recipe = recipe(params)?;
        Reads::of(params).must_have(recipe.nodes - 1, MAKE_REPLICAS)?;
        Ok(Some(if recipe.proxied { Box::new(behind_proxy(recipe)?) } else { Box::new(recipe) }))
    }

    fn production(&self, options: OpenOptions) -> Result<Option<Box<dyn Production>>, StoreError> {
        let (url, password) = options.target.url()?;
        let info = conninfo::resolve(url, password, &Environment::of_process())?;
        let (_, mut connection) = reach(&info, SETTINGS, &options.waits.with_answer(info.connect_timeout))?;
        connection.set_waits(options.waits);
        Ok(Some(Box::new(PgProduction(connection))))
    }

    fn read_log(&self, log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
        log::read(log, tell)
    }

    fn is_log(&self, head: &[u8]) -> bool {
        log::is_log(head)
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits } = options;
        let protocol = PROTOCOLS.iter().find(|(word, _)| *word == params.text("protocol"));
        let protocol = protocol.map(|(_, protocol)| *protocol).unwrap_or_default();
        let mut store = match target {
            Target::Servers(servers) => {
                let recipe = recipe(&params)?;
                if recipe.instances == 1 {
                    private(&servers, recipe, Reads::of(&params), None, &waits, &run_id)?
                } else {
                    let instance = |node: Arc<Node>| {
                        let (recipe, node) = (recipe.clone(), Some(node));
                        let mut store = private(&servers, recipe, Reads::Primary, node, &waits, &run_id)?;
                        store.protocol = protocol;
                        Ok(Box::new(store) as Box<dyn Store>)
                    };
                    let all = servers.nodes().into_iter().map(instance).collect::<Result<_, StoreError>>()?;
                    return Ok(Box::new(Instances::new(all)));
                }
            }
            target => {
                let (url, password) = target.url()?;
                let info = conninfo::resolve(url, password, &Environment::of_process())?;
                let connecting = waits.with_answer(info.connect_timeout);
                let attached = attached(&info, Reads::of(&params), &control_settings(&run_id), &connecting, progress)?;
                let (endpoint, control, sessions_at) = attached;
                let mut store = PostgresStore::new(None, vec![endpoint], Some(control), connecting, waits, run_id);
                store.sessions_at = sessions_at;
                for left in store.left_behind()? {
                    progress(&Removal::note(&format!("schema {left}"), store.removal(&left).as_ref()));
                }
                store
            }
        };
        store.protocol = protocol;
        Ok(Box::new(store))
    }
}

/// A client of servers of our own: of all as a cluster, or of one that is an `instance` beside others.
fn private(
    servers: &Arc<dyn Servers>,
    recipe: PostgresRecipe,
    reads: Reads,
    instance: Option<Arc<Node>>,
    waits: &Waits,
    run_id: &str,
) -> Result<PostgresStore, StoreError> {
    let proxied = recipe.proxied.then_some(recipe.nodes);
    let endpoint = recipe.endpoint(instance.as_ref().unwrap_or(&servers.first()));
    let is_replica = |node: &&Arc<Node>| recipe.role(node.number) == "replica";
    let copies = servers.nodes().iter().filter(is_replica).map(|node| (node.number, recipe.endpoint(node))).collect();
    let replicas = if reads == Reads::Primary { Vec::new() } else { recipe.replicas(&servers.running()) };
    reads.must_have(replicas.len(), MAKE_REPLICAS)?;
    let at = if instance.is_some() { endpoint.clone() } else { recipe.sessions_at(&servers.nodes()) };
    // Sessions look for the primary among these, the present one first.
    let turns = match recipe.moves_primary() {
        true => servers.nodes().iter().map(|node| recipe.endpoint(node)).collect(),
        false => Vec::new(),
    };
    let own = [
        "listen_addresses",
        "unix_socket_directories",
        "port",
        "hba_file",
        "synchronous_standby_names",
        "wal_log_hints",
        "wal_keep_size",
    ];
    let own = own.map(str::to_owned);
    let ours = recipe.settings.into_iter().map(|(name, _)| name).chain(own).collect();
    let own = Some((Arc::clone(servers), ours));
    let control_at = if turns.is_empty() { vec![endpoint] } else { turns.clone() };
    let mut store = PostgresStore::new(own, control_at, None, waits.clone(), waits.clone(), run_id.to_owned());
    let turns = turns.into_iter().map(|endpoint| endpoint.address);
    store.sessions_at = SessionServers::new(vec![at]).reading(reads, replicas).in_turn(turns.collect());
    store.instance = instance;
    store.proxied = proxied;
    store.copies = copies;
    Ok(store)
}

/// Assigns the URL's hosts: the one for the control plane, with its connection, and those of sessions.
fn attached(
    info: &ConnInfo,
    reads: Reads,
    settings: &str,
    connecting: &Waits,
    progress: &mut dyn FnMut(&str),
) -> Result<(Endpoint, Connection, SessionServers), StoreError> {
    if !info.balanced && reads == Reads::Primary {
        let (endpoint, control) = reach(info, settings, connecting)?;
        let sessions_at = SessionServers::new(vec![endpoint.clone()]);
        return Ok((endpoint, control, sessions_at));
    }
    if info.balanced && reads != Reads::Primary {
        let what = "`reads` and load_balance_hosts both say which host a session goes to";
        return Err(StoreError::usage(what).next("Leave one of them out."));
    }
    // The schema is made on the primary, and `wanted` says where sessions go.
    let first = ConnInfo { wanted: Wanted::Primary, ..info.clone() };
    let (endpoint, control) = match reach(&first, settings, connecting) {
        Err(_) if reads == Reads::Primary => reach(info, settings, connecting)?,
        reached => reached?,
    };
    let wanted = if reads == Reads::Primary { info.wanted } else { Wanted::Standby };
    let (found, misses) = reach_all(info, wanted, "", connecting);
    let is_primary = |error: &StoreError| reads != Reads::Primary && error.what.starts_with(&endpoint.login.place);
    for miss in misses.iter().filter(|miss| !is_primary(miss)) {
        progress(&format!("sessions go without a host: {miss}"));
    }
    let sessions_at = match reads {
        Reads::Primary => SessionServers::new(found),
        reads => {
            reads.must_have(found.len(), "Name the replicas in the URL: postgres://primary,replica/db")?;
            SessionServers::new(vec![endpoint.clone()]).reading(reads, found)
        }
    };
    Ok((endpoint, control, sessions_at))
}

/// Returns the recipe of private servers with these parameters.
fn recipe(params: &Params) -> Result<PostgresRecipe, StoreError> {
    let count = |name: &str| usize::try_from(params.int(name)).unwrap_or(0);
    let (nodes, synchronous) = (count("nodes").max(1), count("synchronous"));
    if synchronous >= nodes && synchronous > 0 {
        let what = format!("a commit is to wait for {synchronous} replicas, and there are {}", nodes - 1);
        return Err(StoreError::usage(what).next(format!("Ask for more nodes: nodes = {}", synchronous + 1)));
    }
    let pooled = params.bool("pgbouncer");
    if pooled {
        PGBOUNCER.find()?;
    }
    let instances = count(INSTANCES.name).max(1);
    if instances > 1 && (nodes > 1 || pooled) {
        let what = format!("{instances} instances are servers alone, without replicas or a PgBouncer");
        return Err(StoreError::usage(what).next("Leave `instances` out, or `nodes` and `pgbouncer`."));
    }
    let proxied = params.bool(PROXY.name);
    if proxied && (nodes == 1 || pooled) {
        return Err(StoreError::usage("an HAProxy is in front of a primary and its replicas")
            .next("Ask for nodes = 3, and leave `pgbouncer` out."));
    }
    let patroni = Patroni::of(params, nodes)?;
    if patroni.is_some() && (pooled || proxied) {
        return Err(StoreError::usage("sessions look for the primary of Patroni themselves")
            .next("Leave `haproxy` and `pgbouncer` out."));
    }
    let (settings, checksums) = (server_settings(params)?, params.bool("data_checksums"));
    // A disk that can lose power is synced as a whole before anything is driven on it.
    let synced_later = DiskSpec::of(params).is_some();
    let has_log_disk = DiskSpec::has_log_disk(params)?;
    Ok(PostgresRecipe {
        settings,
        synced_later,
        has_log_disk,
        checksums,
        nodes,
        synchronous,
        instances,
        proxied,
        pooled,
        patroni,
    })
}

/// Returns the settings of a private server. A setting that is not given has PostgreSQL's default.
fn server_settings(params: &Params) -> Result<Vec<(String, String)>, StoreError> {
    let set =
        |name: &str, unit: &str, value: i64| Some((name.to_owned(), format!("{value}{unit}"))).filter(|_| value > 0);
    let given = |name: &str, unit: &str, factor: i64| set(name, unit, params.int(name) / factor);
    let mut settings: Vec<(String, String)> = [
        // A quarter of what it may have, as its manual advises: it counts on the page cache, too.
        set("shared_buffers", "kB", Limits::sized(params, "shared_buffers", 128 << 20, 0.25) / 1024),
        given("max_connections", "", 1),
        given("max_wal_size", "MB", 1 << 20),
        given("checkpoint_timeout", "s", 1_000_000_000),
    ]
    .into_iter()
    .flatten()
    .collect();
    for (name, value) in conninfo::pairs(params.text("settings")).map_err(|error| StoreError {
        what: format!("the store's parameter `settings` cannot be read: {error}"),
        next: Some("Write it as settings = \"work_mem=64MB wal_compression=on\"".to_owned()),
        ..error
    })? {
        if NOT_TO_BE_SET.contains(&name.as_str()) {
            let what = format!("`settings` names {name}, which is Plimsoll's business in a private server");
            return Err(StoreError::usage(what).next("Leave it out."));
        }
        settings.retain(|(known, _)| *known != name);
        settings.push((name, value));
    }
    Ok(settings)
}
