//! Specification of the store: its parameters and abilities.

use plimsoll_core::{
    IndexMode, Interface, OpenOptions, ParamSpec, Params, Reading, SessionShape, SessionSpec, Store, StoreError,
    StoreKind, StoreSpec, WriteKind, with_disk,
};

use crate::store::FjallStore;

/// The kind that the list of stores has.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(FjallKind)
}

struct FjallKind;

const PARAMS: [ParamSpec; 8] = with_disk([
    ParamSpec::bytes("cache", "32MiB", "size of the cache of blocks read from disk"),
    ParamSpec::bytes("memtable", "64MiB", "bytes written to a keyspace before it is flushed to a table"),
]);

static SPEC: StoreSpec = StoreSpec {
    name: "fjall",
    summary: "fjall, an embedded log-structured key-value store; indexes by keyindex",
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records],
    index_modes: &[IndexMode::None, IndexMode::Keyindex],
    sessions: SessionSpec { descriptors: 0, ..SessionSpec::new(SessionShape::Blocking, 64 << 10) },
    params: &PARAMS,
    write_kind: |path| match path.rsplit('/').nth(1) {
        _ if path.ends_with(".jnl") => WriteKind::Log,
        Some("tables") => WriteKind::DataPages,
        _ => WriteKind::Other,
    },
    rarer_cycles: &[("flushes", "memtable=512MiB")],
    ..StoreSpec::PLAIN
};

/// Memory limits of a database; the defaults are fjall's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the cache of blocks read from disk.
    pub cache_bytes: u64,
    /// Bytes written to a keyspace until it is flushed to a table.
    pub memtable_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { cache_bytes: 32 << 20, memtable_bytes: 64 << 20 }
    }
}

impl StoreKind for FjallKind {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn counters(&self, _: &Params) -> Vec<Reading> {
        vec![
            Reading::cycle("", "flushes", "", 0.0),
            Reading::level("", "memtables", "B", 0.0),
            Reading::level("", "tables", "", 0.0),
            Reading::level("", "tables_not_compacted", "", 0.0),
            Reading::level("", "compactions_running", "", 0.0),
            Reading::total("", "time_compacting", "s", 0.0),
        ]
    }

    fn open(&self, options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let data_dir = options.target.data_dir()?;
        let size = |name: &str, default| match options.params.0.get(name) {
            None => Ok(default),
            Some(_) => u64::try_from(options.params.int(name)).ok().filter(|bytes| *bytes > 0).ok_or_else(|| {
                let what = format!("fjall does not work with a {name} of 0 bytes");
                StoreError::usage(what).next(format!("Leave `{name}` out, or give it more, for example {name}=1MiB."))
            }),
        };
        let default = Sizes::default();
        let sizes = Sizes {
            cache_bytes: size("cache", default.cache_bytes)?,
            memtable_bytes: size("memtable", default.memtable_bytes)?,
        };
        let mut store = FjallStore::open(data_dir, sizes)?;
        store.waits = options.waits;
        Ok(Box::new(store))
    }
}
