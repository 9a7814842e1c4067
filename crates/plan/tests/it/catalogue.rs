//! A small catalogue for the tests' plans.

use plimsoll_core::catalogue::LabEntry;
use plimsoll_core::{
    Call, Catalogue, Durability, ErrorCodes, IndexMode, Interface, OpKind, OpenOptions, ParamSpec, ParamType, Params,
    Preset, SamplerSpec, Script, SessionShape, SessionSpec, Store, StoreError, StoreErrorKind, StoreKind, StorePreset,
    StoreSpec, Truth, Value, ValueBuf, Values, Version, Workload, WorkloadError, WorkloadSpec,
};

struct Kind(StoreSpec);

impl StoreKind for Kind {
    fn spec(&self) -> &StoreSpec {
        &self.0
    }

    fn announce(&self, _options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn open(&self, _options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::new(StoreErrorKind::Usage, "a plan opens nothing"))
    }
}

const PLAIN: StoreSpec = StoreSpec {
    interfaces: &[Interface::Kv, Interface::Records, Interface::Sql],
    index_modes: &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex],
    sessions: SessionSpec { descriptors: 0, ..SessionSpec::new(SessionShape::Blocking, 0) },
    ..StoreSpec::PLAIN
};

const COUPONS: &[ParamSpec] = &[
    ParamSpec::int("records", 1..=1_000_000, "100000", ""),
    ParamSpec::one_of("index", &["none", "own", "keyindex"], ""),
    ParamSpec::duration("pause", "1ms", ""),
    ParamSpec { name: "strict", param_type: ParamType::Bool, default: "true", summary: "", of_private: false },
];

const COUPON_KINDS: &[&str] = &["read", "update", "query"];

const PRESETS: &[Preset] = &[
    Preset::of("coupons:reads", "", &[("read", 9), ("query", 1)]),
    Preset { params: &[("records", "500_000")], ..Preset::of("coupons:many", "", &[("update", 1)]) },
];

/// Takes every script without the word `wrong`.
fn refuse_wrong(_seed: u64, _params: &Params, scripts: &[Script]) -> Result<Box<dyn Workload>, WorkloadError> {
    let found = |(at, script): (usize, &Script)| Some((at, script.text.find("wrong")?));
    match scripts.iter().enumerate().find_map(found) {
        Some((at, start)) => {
            let place = Some((at, start..start + "wrong".len()));
            Err(WorkloadError { what: "this is wrong".to_owned(), place, help: None })
        }
        None => Ok(Box::new(Nothing::default())),
    }
}

/// A workload that is never run.
#[derive(Default)]
struct Nothing {
    kinds: Vec<OpKind>,
    is_checked: bool,
}

impl Workload for Nothing {
    fn layout(&self) -> &plimsoll_core::Layout {
        unreachable!("a plan runs nothing")
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, _spec: &plimsoll_core::StreamSpec) -> Result<Box<dyn plimsoll_core::Stream>, String> {
        Err("a plan runs nothing".to_owned())
    }

    fn truth(&self) -> Option<&dyn Truth> {
        self.is_checked.then_some(self as &dyn Truth)
    }
}

impl Truth for Nothing {
    fn record_id(&self, _key: Value<'_>) -> Option<u64> {
        None
    }

    fn version(&self, _row: Values<'_>) -> Option<Version> {
        None
    }

    fn row(&self, _id: u64, _version: Version, _row: &mut ValueBuf) {}
}

fn unchecked(_seed: u64, _params: &Params, _scripts: &[Script]) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(Nothing::default()))
}

/// Makes a workload whose answers, except those to updates, are checked if it is strict.
fn checked(_seed: u64, params: &Params, _scripts: &[Script]) -> Result<Box<dyn Workload>, WorkloadError> {
    let kind = |name: &&str| OpKind { keep_answer: *name != "update", ..OpKind::new(*name, Call::Nothing, &[]) };
    let kinds = COUPON_KINDS.iter().map(kind).collect();
    Ok(Box::new(Nothing { kinds, is_checked: params.bool("strict") }))
}

const CACHE: &[ParamSpec] = &[ParamSpec::bytes("cache", "2MiB", "")];
const BUFFERS: &[ParamSpec] = &[ParamSpec::bytes("shared_buffers", "128MiB", "").of_private()];

/// A catalogue in which sqlite supports everything, fjall has no SQL and no native index, postgres and ldap also have
/// URLs, and slow is never durable.
pub fn catalogue() -> Catalogue {
    let stores = [
        StoreSpec { name: "sqlite", params: CACHE, ..PLAIN },
        StoreSpec {
            name: "fjall",
            interfaces: &[Interface::Kv, Interface::Records],
            dialect: None,
            index_modes: &[IndexMode::None, IndexMode::Keyindex],
            ..PLAIN
        },
        StoreSpec {
            name: "postgres",
            aliases: &["pg"],
            schemes: &["postgres", "postgresql"],
            password_places: "PGPASSWORD, PGPASSFILE, a service file or --password-file",
            interfaces: &[Interface::Records, Interface::Sql],
            dialect: None,
            index_modes: &[IndexMode::None, IndexMode::Own],
            params: BUFFERS,
            ..PLAIN
        },
        StoreSpec { name: "ldap", schemes: &["ldap"], params: BUFFERS, ..PLAIN },
        StoreSpec {
            name: "slow",
            error_codes: ErrorCodes::Statuses,
            interfaces: &[Interface::Records],
            durabilities: &[Durability::Buffered, Durability::AtEnd],
            ..PLAIN
        },
    ];
    let any = WorkloadSpec {
        name: "",
        summary: "",
        interfaces: &[],
        dialects: &[],
        kinds: &[],
        params: &[],
        presets: &[],
        make: unchecked,
    };
    let coupons = WorkloadSpec {
        name: "coupons",
        interfaces: &[Interface::Records],
        kinds: COUPON_KINDS,
        params: COUPONS,
        presets: PRESETS,
        make: checked,
        ..any
    };
    let select = WorkloadSpec { name: "select", interfaces: &[Interface::Sql], kinds: &["select"], ..any };
    let nothing = WorkloadSpec { name: "nothing", kinds: &["nothing"], ..any };
    let script = WorkloadSpec { name: "script", interfaces: &[Interface::Sql], make: refuse_wrong, ..any };
    Catalogue {
        labs: Vec::new(),
        stores: stores.into_iter().map(|spec| Box::new(Kind(spec)) as Box<dyn StoreKind>).collect(),
        workloads: vec![coupons, select, nothing, script],
        samplers: [("cpu", true), ("disk", true), ("fsync", false)]
            .map(|(name, by_default)| SamplerSpec { name, summary: "", by_default, series: &[] })
            .to_vec(),
    }
}

const REPLICAS: StorePreset = StorePreset { name: "replicas", summary: "", params: &[], packages: &[] };
const CLUSTERS: &[StorePreset] = &[REPLICAS, StorePreset { name: "shards", ..REPLICAS }];

/// The catalogue with one more store, `group`. It has two presets, and a lab of each.
pub fn with_labs() -> Catalogue {
    let lab = |name: &str, made_as: &str| LabEntry {
        name: name.to_owned(),
        labs: Default::default(),
        process: 1,
        store: "group".to_owned(),
        made_as: made_as.to_owned(),
        params: Params::default(),
        nodes: vec![1, 2, 3],
    };
    let mut catalogue = catalogue();
    catalogue.stores.push(Box::new(Kind(StoreSpec { name: "group", presets: CLUSTERS, ..PLAIN })));
    catalogue.labs = vec![lab("mine", "replicas"), lab("other", "shards")];
    catalogue
}
