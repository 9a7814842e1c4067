//! Specification of the store, and opening it.

use std::io::BufRead;
use std::sync::Arc;

use plimsoll_core::production::LogReceiver;
use plimsoll_core::{
    Dialect, DiskSpec, ErrorCodes, IndexMode, Interface, LOG_DISK, Limits, Node, OpenOptions, ParamSpec, Params,
    Production, Reading, Recipe, Removal, SessionShape, SessionSpec, Store, StoreError, StoreErrorKind, StoreKind,
    StorePreset, StoreSpec, Target, with_limits,
};

use plimsoll_endpoint::{INSTANCES, Instances, READS, Reads};
use plimsoll_lab::proxy::{Door, PROXY, Proxied};

use crate::connection::attach;
use crate::conninfo::{self, Environment};
use crate::control::FLUSH_LOG;
use crate::counters;
use crate::galera;
use crate::log;
use crate::production::{MyProduction, SETTINGS};
use crate::server::{MariadbRecipe, Topology, find_server};
use crate::store::{MariadbStore, database_name};
use crate::write_kind::{PAGE_GUARD, write_kind};

/// Parameters, and the server's own names of what they set.
const PARAMS: [ParamSpec; 23] = with_limits([
    READS,
    INSTANCES,
    PROXY,
    ParamSpec::one_of(
        "topology",
        TOPOLOGIES,
        "topology of private servers: a Galera cluster, or a primary and its replicas, on hosts of their own",
    )
    .of_private(),
    ParamSpec::int("nodes", 1..=32, "1", "how many private servers there are").of_private(),
    ParamSpec::bytes("buffer_pool", "128MiB", "memory for cached pages of a private server (innodb_buffer_pool_size)")
        .of_private(),
    ParamSpec::bytes("log_file", "96MiB", "size of a private server's redo log (innodb_log_file_size)").of_private(),
    LOG_DISK,
    ParamSpec::int(
        "max_connections",
        10..=100_000,
        "151",
        "most connections a private server takes, and one more for its root",
    )
    .of_private(),
    ParamSpec::text(
        "settings",
        "",
        "any other settings of a private server: \"innodb_io_capacity=2000 innodb_doublewrite=OFF\"",
    )
    .of_private(),
]);

/// Values of the parameter `topology`.
const TOPOLOGIES: &[&str] = &["alone", "galera", "replicas"];

/// Settings of a private server that Plimsoll sets: its place, and the setting of a durability.
const NOT_TO_BE_SET: &[&str] = &["datadir", "innodb_log_group_home_dir", "tmpdir", "socket", "pid_file", FLUSH_LOG];

static SPEC: StoreSpec = StoreSpec {
    name: "mariadb",
    aliases: &["mysql"],
    summary: "MariaDB or MySQL, a private server or one that runs already",
    schemes: &["mysql", "mariadb"],
    interfaces: &[Interface::Records, Interface::Sql],
    dialect: Some(Dialect::Mysql),
    index_modes: &[IndexMode::None, IndexMode::Own],
    sessions: SessionSpec {
        bounded_by: Some("max_connections"),
        times: &[READS.name],
        ..SessionSpec::new(SessionShape::Wire, 32 << 10)
    },
    params: &PARAMS,
    presets: &[
        StorePreset {
            name: "galera",
            summary: "a Galera cluster of MariaDB, each node on a host of its own",
            params: &[("topology", "galera"), ("nodes", "3")],
            packages: &["galera-4", "rsync"],
        },
        StorePreset {
            name: "galera-haproxy",
            summary: "a Galera cluster of MariaDB behind an HAProxy, each on a host of its own",
            params: &[("topology", "galera"), ("nodes", "3"), ("haproxy", "true")],
            packages: &["galera-4", "rsync", "haproxy"],
        },
        StorePreset {
            name: "mariadb-replicas",
            summary: "a MariaDB and replicas of it, each on a host of its own",
            params: &[("topology", "replicas"), ("nodes", "3")],
            packages: &[],
        },
    ],
    packages: &["mariadb-server"],
    error_codes: ErrorCodes::Numbers,
    write_kind,
    page_guard: Some(PAGE_GUARD),
    password_places: "MYSQL_PWD, ~/.my.cnf or --password-file",
    habits: &[
        ("--mysql-socket", "sysbench", "a URL: --on 'mariadb:///?socket=#'"),
        ("--mysql-host", "sysbench", "a URL: --on mariadb://#/database"),
        ("--mysql-port", "sysbench", "a part of the URL: --on mariadb://user@host:#/database"),
        ("--mysql-user", "sysbench", "a part of the URL: --on mariadb://#@host/database"),
        ("--mysql-db", "sysbench", "a part of the URL: --on mariadb://user@host/#"),
        ("--mysql-password", "sysbench", "MYSQL_PWD, ~/.my.cnf or --password-file"),
    ],
    rarer_cycles: &[("checkpoint_rounds", "log_file=1GiB")],
    ..StoreSpec::PLAIN
};

/// MariaDB and MySQL.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Mariadb)
}

struct Mariadb;

impl StoreKind for Mariadb {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        find_server().map(|program| program.display().to_string())
    }

    fn counters(&self, params: &Params) -> Vec<Reading> {
        counters::examples(params.text("topology") == "replicas")
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let (url, password) = options.target.url()?;
        let info = conninfo::resolve(url, password, &Environment::of_process())?;
        let database = database_name(&options.run_id);
        let others = info.others.iter().map(|(_, login)| login.place.as_str());
        let places: Vec<&str> = std::iter::once(info.login.place.as_str()).chain(others).collect();
        Ok(vec![
            format!("attaches to {}", places.join(" and ")),
            format!("makes database {database} there and drops it afterwards"),
            "changes no setting of the server".to_owned(),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let recipe = recipe(params)?;
        let replicas = if recipe.topology == Topology::Replicas { recipe.nodes - 1 } else { 0 };
        Reads::of(params).must_have(replicas, "Make some: --on mariadb-replicas")?;
        if recipe.proxied {
            // That it takes connections is all that is known of a node without an account of HAProxy's own.
            let door = Door { to: (0..recipe.nodes).collect(), check: Vec::new() };
            return Ok(Some(Box::new(Proxied::new(Box::new(recipe), vec![door])?)));
        }
        Ok(Some(Box::new(recipe)))
    }

    fn production(&self, options: OpenOptions) -> Result<Option<Box<dyn Production>>, StoreError> {
        let (url, password) = options.target.url()?;
        let info = conninfo::resolve(url, password, &Environment::of_process())?;
        let (connecting, settings) = (options.waits.with_answer(info.connect_timeout), [SETTINGS.to_owned()]);
        let mut connection = attach(&info.address, Arc::new(info.login), &settings, &connecting)?;
        connection.set_waits(options.waits);
        Ok(Some(Box::new(MyProduction::new(connection))))
    }

    fn read_log(&self, log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
        log::read(log, tell)
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits, .. } = options;
        let reads = Reads::of(&params);
        if let Target::Servers(servers) = target {
            let recipe = recipe(&params)?;
            if recipe.instances == 1 {
                return Ok(Box::new(MariadbStore::private(servers, recipe, reads, &waits, &run_id)?));
            }
            let instance = |node: Arc<Node>| {
                let store = MariadbStore::instance(Arc::clone(&servers), recipe.clone(), node, &waits, &run_id)?;
                Ok(Box::new(store) as Box<dyn Store>)
            };
            let all = servers.nodes().into_iter().map(instance).collect::<Result<_, StoreError>>()?;
            return Ok(Box::new(Instances::new(all)));
        }
        let (url, password) = target.url()?;
        let info = conninfo::resolve(url, password, &Environment::of_process())?;
        let mut store = MariadbStore::attach(info, reads, &waits, &run_id, progress)?;
        for left in store.left_behind()? {
            progress(&Removal::note(&format!("database {left}"), store.removal(&left).as_ref()));
        }
        Ok(Box::new(store))
    }
}

/// Returns the recipe of private servers with these parameters.
fn recipe(params: &Params) -> Result<MariadbRecipe, StoreError> {
    let (topology, nodes) = match (params.text("topology"), usize::try_from(params.int("nodes")).unwrap_or(1).max(1)) {
        ("galera", nodes) => (Topology::Galera, nodes),
        ("replicas", nodes) => (Topology::Replicas, nodes),
        (_, 1) => (Topology::Alone, 1),
        (_, nodes) => {
            return Err(StoreError::usage(format!("{nodes} servers of MariaDB have no topology"))
                .next("Name one: --on galera, --on mariadb-replicas, or topology = \"galera\" or \"replicas\""));
        }
    };
    if topology != Topology::Alone && find_server()?.file_name().is_none_or(|name| name != "mariadbd") {
        return Err(StoreError::new(
            StoreErrorKind::Missing,
            "a cluster of this kind needs MariaDB, and MySQL is installed",
        )
        .next("apt-get install mariadb-server"));
    }
    if topology == Topology::Galera {
        galera::installed()?;
    }
    // What is not given is at the server's own default.
    let set = |setting: &str, value: i64| Some((setting.to_owned(), value.to_string())).filter(|_| value > 0);
    let given = |name: &str, setting: &str| set(setting, params.int(name));
    let settings = [
        // Half of what it may have: the rest is for its sessions, and the page cache of its logs.
        set("innodb-buffer-pool-size", Limits::sized(params, "buffer_pool", 128 << 20, 0.5)),
        // MySQL's redo log has another name for its size since 8.0.30.
        given("log_file", "loose-innodb-log-file-size"),
        given("log_file", "loose-innodb-redo-log-capacity"),
        given("max_connections", "max-connections"),
    ];
    let mut settings: Vec<_> = settings.into_iter().flatten().collect();
    // Of one that is said twice the last counts.
    settings.extend(further_settings(params)?);
    let instances = usize::try_from(params.int(INSTANCES.name)).unwrap_or(1).max(1);
    if instances > 1 && topology != Topology::Alone {
        let what = format!("{instances} instances are servers alone, and no cluster");
        return Err(StoreError::usage(what).next("Leave `instances` or `topology` out."));
    }
    let proxied = params.bool(PROXY.name);
    if proxied && topology != Topology::Galera {
        return Err(StoreError::usage("an HAProxy is in front of a Galera cluster, each of whose nodes takes writes")
            .next("Say --on galera, or leave `haproxy` out."));
    }
    let has_log_disk = DiskSpec::has_log_disk(params)?;
    if has_log_disk && topology != Topology::Alone {
        return Err(StoreError::usage("nodes of a cluster of MariaDB have their logs with their data")
            .next("leave `log_disk` or `topology` out"));
    }
    Ok(MariadbRecipe { settings, topology, nodes, proxied, instances, has_log_disk })
}

/// The settings of the parameter `settings`, by the names of the command line's options.
fn further_settings(params: &Params) -> Result<Vec<(String, String)>, StoreError> {
    let wrong = |what: String| {
        StoreError::usage(what).next("Write it as settings = \"innodb_io_capacity=2000 innodb_doublewrite=OFF\"")
    };
    let one = |word: &str| {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(wrong(format!("the store's parameter `settings` has `{word}`, which is not NAME=VALUE")));
        };
        let plain = name.trim_start_matches('-').replace('-', "_");
        match NOT_TO_BE_SET.contains(&plain.as_str()) {
            true if plain == FLUSH_LOG => {
                Err(StoreError::usage(format!("`settings` names {plain}, which a durability sets"))
                    .next("Ask for a durability: --durability durable (1), buffered (2) or at-end (0)"))
            }
            true => Err(wrong(format!("`settings` names {plain}, which is Plimsoll's business in a private server"))),
            false => Ok((plain.replace('_', "-"), value.to_owned())),
        }
    };
    params.text("settings").split_whitespace().map(one).collect()
}
