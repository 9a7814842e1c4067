#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | `store` | the control plane: one database file, its sessions, sizes, cold start, checks |
//! | `open` | connections, their pragmas, and which of them differ from SQLite's defaults |
//! | `statements` | SQL made from a layout |
//! | `session` | records and statements, one connection each |
//! | `kv` | keys and values in two tables, for the key index |
//! | `write_kind` | kinds of files, and the settings that protect pages |
//! | `failure` | SQLite's errors as outcomes and as errors for people |

mod failure;
mod kv;
mod open;
mod session;
mod statements;
mod store;
mod write_kind;

use plimsoll_core::{
    Dialect, IndexMode, Interface, OpenOptions, ParamSpec, SessionShape, SessionSpec, Store, StoreError, StoreKind,
    StoreSpec, with_disk,
};

const PARAMS: [ParamSpec; 9] = with_disk([
    ParamSpec::bytes("cache_size", "2000KiB", "page cache of each connection"),
    ParamSpec::one_of(
        "journal_mode",
        &["wal", "delete", "truncate", "persist"],
        "a write-ahead log, or a rollback journal that ends a transaction by being deleted, truncated or overwritten",
    ),
    ParamSpec::one_of(
        "synchronous",
        &["by-durability", "off", "normal", "full", "extra"],
        "PRAGMA synchronous, instead of the value of the durability",
    ),
]);

const SPEC: StoreSpec = StoreSpec {
    name: "sqlite",
    aliases: &["sqlite3"],
    summary: "SQLite inside Plimsoll: one file, write-ahead log, one writer at a time",
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records, Interface::Sql],
    dialect: Some(Dialect::Sqlite),
    index_modes: &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex],
    sessions: SessionSpec { descriptors: 2, ..SessionSpec::new(SessionShape::Blocking, 2 << 20) },
    params: &PARAMS,
    write_kind: write_kind::write_kind,
    page_guard: Some(write_kind::PAGE_GUARD),
    ..StoreSpec::PLAIN
};

/// SQLite as a kind of store.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(SqliteKind)
}

struct SqliteKind;

impl StoreKind for SqliteKind {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        Ok(format!("built in, version {}", rusqlite::version()))
    }

    fn open(&self, options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let data_dir = options.target.data_dir()?;
        Ok(Box::new(store::SqliteStore::open(data_dir, &options.params, options.waits.clone())?))
    }
}
