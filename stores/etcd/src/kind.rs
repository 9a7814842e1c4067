//! The store as `stores/all` lists it.

use plimsoll_core::{
    Durability, IndexMode, Interface, OpenOptions, ParamSpec, Params, Recipe, SessionShape, SessionSpec, Store,
    StoreError, StoreKind, StorePreset, StoreSpec, Target, with_limits,
};
use plimsoll_endpoint::Environment;
use plimsoll_lab::proxy::{Door, PROXY, Proxied};

use crate::endpoint;
use crate::server::{EtcdRecipe, SERVER};
use crate::store::{EtcdStore, prefix_of};

const PARAMS: [ParamSpec; 15] = with_limits([
    PROXY,
    ParamSpec::int(
        "nodes",
        1..=15,
        "1",
        "servers of a private cluster, each on a host of its own; sessions go to them in turn",
    )
    .of_private(),
    ParamSpec::flag("unsafe_no_fsync", "a private server syncs nothing (unsafe-no-fsync)").of_private(),
    ParamSpec::bytes(
        "quota",
        "8GiB",
        "size of a private server's data beyond which it takes no writes (quota-backend-bytes)",
    )
    .of_private(),
]);

static SPEC: StoreSpec = StoreSpec {
    name: "etcd",
    summary: "etcd, private servers or a cluster that runs already; indexes by keyindex",
    schemes: &["etcd"],
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records],
    index_modes: &[IndexMode::None, IndexMode::Keyindex],
    durabilities: &[Durability::Durable],
    sessions: SessionSpec::new(SessionShape::Async, 48 << 10),
    params: &PARAMS,
    presets: &[StorePreset {
        name: "etcd-haproxy",
        summary: "three members of etcd behind an HAProxy, each on a host of its own",
        params: &[("nodes", "3"), ("haproxy", "true")],
        packages: &["haproxy"],
    }],
    packages: &["etcd-server"],
    password_places: "ETCDCTL_PASSWORD or --password-file",
    ..StoreSpec::PLAIN
};

/// etcd.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Etcd)
}

struct Etcd;

fn recipe(params: &Params) -> Result<EtcdRecipe, StoreError> {
    let number = |name: &str| u64::try_from(params.int(name)).unwrap_or(0);
    EtcdRecipe::new(number("nodes").max(1) as usize, number("quota"), params.bool("unsafe_no_fsync"))
}

impl StoreKind for Etcd {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        SERVER.find().map(|program| program.display().to_string())
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let (url, password) = options.target.url()?;
        let endpoint = endpoint::resolve(url, password, Environment::of_process().var)?;
        let prefix = prefix_of(&options.run_id);
        Ok(vec![
            format!("attaches to {}", endpoint.place),
            format!("writes keys that begin with {prefix} there, and deletes them afterwards; compacts nothing"),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let (nodes, recipe) = (usize::try_from(params.int("nodes")).unwrap_or(1), recipe(params)?);
        if !params.bool(PROXY.name) {
            return Ok(Some(Box::new(recipe)));
        }
        let check = ["option httpchk GET /health", "http-check expect status 200"].map(str::to_owned);
        let door = Door { to: (0..nodes).collect(), check: check.into() };
        Ok(Some(Box::new(Proxied::new(Box::new(recipe), vec![door])?)))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits } = options;
        let nodes = usize::try_from(params.int("nodes")).unwrap_or(1);
        let store = match target {
            Target::Servers(servers) => {
                let mut store = EtcdStore::private(&servers, params.bool(PROXY.name).then_some(nodes), &waits);
                store.unsynced = params.bool("unsafe_no_fsync");
                store
            }
            target => {
                let (url, password) = target.url()?;
                let endpoint = endpoint::resolve(url, password, Environment::of_process().var)?;
                EtcdStore::attach(&endpoint, &run_id, &waits, progress)?
            }
        };
        Ok(Box::new(store))
    }
}
