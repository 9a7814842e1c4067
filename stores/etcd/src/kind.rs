//! The store as `stores/all` lists it.

use plimsoll_core::sampler::TERM;
use plimsoll_core::{
    Durability, IndexMode, Interface, OpenOptions, ParamSpec, Params, Reading, Recipe, SessionShape, SessionSpec,
    Store, StoreError, StoreKind, StorePreset, StoreSpec, WriteKind, with_limits,
};
use plimsoll_endpoint::equals::{Addresses, Equals, NODES};
use plimsoll_lab::proxy::{Door, PROXY, Proxied};

use crate::control::Control;
use crate::server::{ETCD, EtcdRecipe, SERVER};
use crate::store::{EtcdStore, prefix_of};

const PARAMS: [ParamSpec; 17] = with_limits([
    PROXY,
    NODES,
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
    schemes: &ETCD.schemes,
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
    write_kind,
    password_places: "ETCDCTL_PASSWORD or --password-file",
    ..StoreSpec::PLAIN
};

/// Returns the kind of a file: its log, or the database of the applied entries.
fn write_kind(path: &str) -> WriteKind {
    match path {
        _ if path.ends_with(".wal") => WriteKind::Log,
        _ if path.ends_with("member/snap/db") => WriteKind::DataPages,
        _ => WriteKind::Other,
    }
}

/// etcd.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Etcd)
}

struct Etcd;

fn nodes(params: &Params) -> usize {
    usize::try_from(params.int(NODES.name)).unwrap_or(1).max(1)
}

impl StoreKind for Etcd {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        SERVER.find().map(|program| program.display().to_string())
    }

    fn counters(&self, _: &Params) -> Vec<Reading> {
        vec![
            Reading::total("", "raft_applied", "", 0.0),
            Reading::level("", TERM, "", 0.0),
            Reading::level("", "db_size", "B", 0.0),
            Reading::level("", "db_size_in_use", "B", 0.0),
        ]
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let addresses = Addresses::of_target(&ETCD, &options.target)?;
        addresses.tls_client()?;
        let place = addresses.place;
        let prefix = prefix_of(&options.run_id);
        Ok(vec![
            format!("attaches to {place}"),
            format!("writes keys that begin with {prefix} there, and deletes them afterwards; compacts nothing"),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let (nodes, quota) = (nodes(params), u64::try_from(params.int("quota")).unwrap_or(0));
        let recipe = EtcdRecipe::new(nodes, quota, params.bool("unsafe_no_fsync"))?;
        if !params.bool(PROXY.name) {
            return Ok(Some(Box::new(recipe)));
        }
        let check = ["option httpchk GET /health", "http-check expect status 200"].map(str::to_owned);
        let door = Door { to: (0..nodes).collect(), check: check.into() };
        Ok(Some(Box::new(Proxied::new(Box::new(recipe), vec![door])?)))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits } = options;
        let proxy = params.bool(PROXY.name).then(|| nodes(&params));
        let cluster = Equals::of_target(&ETCD, &target, proxy, Control::open, &waits)?;
        Ok(Box::new(EtcdStore::open(cluster, params.bool("unsafe_no_fsync"), &run_id, waits, progress)?))
    }
}
