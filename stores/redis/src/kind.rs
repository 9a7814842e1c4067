//! The store as `stores/all` lists it.

use plimsoll_core::{
    Interface, Limits, OpenOptions, ParamSpec, Params, Reading, Recipe, SessionShape, SessionSpec, Store, StoreError,
    StoreKind, StorePreset, StoreSpec, Target, WriteKind, with_limits,
};
use plimsoll_endpoint::{Environment, READS, Reads};

use crate::endpoint;
use crate::facts;
use crate::readers::not_in_cluster;
use crate::server::{Make, RedisRecipe, Shape, find_server};
use crate::store::RedisStore;
use crate::store::runs::prefix_of;
use crate::wire::Protocol;

const PARAMS: [ParamSpec; 24] = with_limits([
    READS,
    ParamSpec::one_of(
        "server",
        &["any", "redis", "valkey"],
        "make of a private server: Redis, Valkey, or the first that is installed",
    )
    .of_private(),
    ParamSpec::bytes(
        "maxmemory",
        "0B",
        "most memory for a private server's data, writes beyond it are refused; 0 is no limit",
    )
    .of_private(),
    ParamSpec::int("maxclients", 100..=1_000_000, "10000", "most connections a private server takes").of_private(),
    ParamSpec::int("io_threads", 1..=128, "1", "threads of a private server that send its answers").of_private(),
    ParamSpec::bytes(
        "aof_rewrite_min_size",
        "64MiB",
        "size below which a private server does not rewrite its append-only file (auto-aof-rewrite-min-size)",
    )
    .of_private(),
    ParamSpec::int(
        "nodes",
        1..=32,
        "1",
        "masters of a private cluster, each with an equal part of the keys; 1 is a server alone",
    )
    .of_private(),
    ParamSpec::int("replicas", 0..=5, "0", "replicas of each private master, all on hosts of their own").of_private(),
    ParamSpec::int("sentinels", 0..=31, "0", "Sentinels that watch a private master and its replicas").of_private(),
    ParamSpec::text(
        "settings",
        "",
        "any other settings of a private server, which `as-configured` leaves: \"appendfsync=everysec save=60,1000\"",
    )
    .of_private(),
    ParamSpec::one_of("protocol", &["2", "3"], "version of the protocol: RESP2 or RESP3"),
]);

/// Settings that the recipe of a private server needs: its place and how it is found.
const NOT_TO_BE_SET: &[&str] = &[
    "port",
    "unixsocket",
    "unixsocketperm",
    "dir",
    "daemonize",
    "bind",
    "cluster-enabled",
    "cluster-port",
    "replicaof",
];

static SPEC: StoreSpec = StoreSpec {
    name: "redis",
    aliases: &["valkey"],
    summary: "Redis or Valkey, a private server or one that runs already",
    schemes: &["redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix", "redis-sentinel", "redis+sentinel"],
    interfaces: &[Interface::Kv, Interface::Commands],
    sessions: SessionSpec {
        times: &["nodes", READS.name],
        bounded_by: Some("maxclients"),
        ..SessionSpec::new(SessionShape::Wire, 16 << 10)
    },
    params: &PARAMS,
    presets: &[
        StorePreset {
            name: "redis-cluster",
            summary: "Redis Cluster: three masters and a replica of each, each on a host of its own",
            params: &[("nodes", "3"), ("replicas", "1")],
            packages: &[],
        },
        StorePreset {
            name: "redis-sentinel",
            summary: "a Redis, two replicas of it and three Sentinels, on three hosts",
            params: &[("replicas", "2"), ("sentinels", "3")],
            packages: &[],
        },
    ],
    packages: &["redis-server"],
    write_kind,
    password_places: "REDISCLI_AUTH or --password-file",
    habits: &[
        (
            "-t",
            "redis-benchmark",
            "drive kv --mix read=1 for get, --mix update=1 for set; others as commands of your own with -f",
        ),
        ("-n", "redis-benchmark", "--ops # (of each client)"),
        ("-P", "redis-benchmark", "--depth #"),
        ("-d", "redis-benchmark", "--set field_count=1 --set field_length=#"),
    ],
    rarer_cycles: &[("aof_rewrites", "aof_rewrite_min_size=16GiB")],
    ..StoreSpec::PLAIN
};

/// Returns the kind of a file: the append-only file is a log behind its snapshot.
fn write_kind(path: &str) -> WriteKind {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("aof") => WriteKind::Log,
        Some("rdb") => WriteKind::DataPages,
        _ => WriteKind::Other,
    }
}

/// Redis and Valkey.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Redis)
}

struct Redis;

impl StoreKind for Redis {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        find_server(None).map(|(_, program)| program.display().to_string())
    }

    fn counters(&self, params: &Params) -> Vec<Reading> {
        facts::counter_examples(params.int("replicas") > 0, params.int("nodes") > 1)
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let (url, password) = options.target.url()?;
        let endpoint = endpoint::resolve(url, password, Environment::of_process().var)?.endpoint;
        endpoint.tls_client()?;
        let prefix = prefix_of(&options.run_id);
        Ok(vec![
            format!("attaches to {}", endpoint.login.place),
            format!("writes keys that begin with {prefix} there, finds them by SCAN and unlinks them afterwards"),
            "notes the run in the set plimsoll:runs meanwhile".to_owned(),
            "changes no setting; latency events are read only if latency-monitor-threshold is above 0".to_owned(),
            "asks for a BGREWRITEAOF, or a BGSAVE where appendonly is off, when a load without syncs ends".to_owned(),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let (recipe, reads) = (recipe(params)?, Reads::of(params));
        if reads != Reads::Primary && recipe.shape.masters > 1 {
            return Err(not_in_cluster());
        }
        reads.must_have(recipe.shape.replicas, "Make some: --on redis-sentinel, or replicas = 2.")?;
        Ok(Some(Box::new(recipe)))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits } = options;
        let protocol = if params.text("protocol") == "3" { Protocol::Resp3 } else { Protocol::Resp2 };
        let asked = (protocol, Reads::of(&params));
        let store = match target {
            Target::Servers(servers) => {
                RedisStore::private(&servers, &recipe(&params)?, asked, (&run_id, &waits), progress)
            }
            target => {
                let (url, password) = target.url()?;
                let found = endpoint::resolve(url, password, Environment::of_process().var)?;
                RedisStore::attach(found, asked, &run_id, &waits, progress)?
            }
        };
        Ok(Box::new(store))
    }
}

fn recipe(params: &Params) -> Result<RedisRecipe, StoreError> {
    let make = match params.text("server") {
        "redis" => Some(Make::Redis),
        "valkey" => Some(Make::Valkey),
        _ => None,
    };
    let count = |name: &str| usize::try_from(params.int(name)).unwrap_or(0);
    let shape = Shape { masters: count("nodes").max(1), replicas: count("replicas"), sentinels: count("sentinels") };
    RedisRecipe::new(make, settings(params)?, shape)
}

/// Returns the settings of a private server's command line. A setting that is not given has the server's default.
fn settings(params: &Params) -> Result<Vec<(String, String)>, StoreError> {
    let set = |setting: &str, value: i64, default: i64| {
        Some((setting.to_owned(), value.to_string())).filter(|_| value > default)
    };
    let given = |name: &str, setting: &str, default: i64| set(setting, params.int(name), default);
    let all = [
        // Half of what it may have: who rewrites its file copies the pages that are written meanwhile.
        set("maxmemory", Limits::sized(params, "maxmemory", 0, 0.5), 0),
        given("maxclients", "maxclients", 0),
        given("io_threads", "io-threads", 1),
        given("aof_rewrite_min_size", "auto-aof-rewrite-min-size", 0),
    ];
    let mut all: Vec<_> = all.into_iter().flatten().collect();
    for word in params.text("settings").split_whitespace() {
        let wrong =
            |what: String| StoreError::usage(what).next("Write it as settings = \"appendfsync=everysec save=60,1000\"");
        let pair = word.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair
            .ok_or_else(|| wrong(format!("the store's parameter `settings` has `{word}`, which is not NAME=VALUE")))?;
        if NOT_TO_BE_SET.contains(&name) {
            return Err(wrong(format!("`settings` names {name}, which is Plimsoll's business in a private server")));
        }
        // Words of a value are parted by blanks in Redis' own file.
        all.push((name.to_owned(), value.replace(',', " ")));
    }
    Ok(all)
}
