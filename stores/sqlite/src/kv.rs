//! Keys and values: what the key index stands on.
//!
//! Two tables, so that the sizes of records and of their index keys can be told apart: one for keys that begin with
//! the key index's first byte for index keys, one for all others. To a caller they are one. Index keys are small and
//! read in order: their table is `WITHOUT ROWID`. The other's is not, for the reason that `statements` gives.

use std::ops::ControlFlow;

use plimsoll_core::{Kv, KvCall, KvCapabilities, KvError, WriteBatch};
use plimsoll_keyindex::keyspace::{INDEX_ROLE, parts};
use rusqlite::{Connection, OptionalExtension};

use crate::failure::kv_error;

/// Makes the tables.
pub(crate) const CREATE: [&str; 2] = [
    "CREATE TABLE kv (k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) STRICT",
    "CREATE TABLE kv_index (k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) STRICT, WITHOUT ROWID",
];

/// The table of index keys.
pub(crate) const INDEX_TABLE: &str = "kv_index";

/// The statements on one of the tables.
struct Table {
    get: &'static str,
    put: &'static str,
    delete: &'static str,
    scan: &'static str,
    scan_to_end: &'static str,
}

const RECORDS: Table = Table {
    get: "SELECT v FROM kv WHERE k = ?1",
    put: "INSERT INTO kv (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
    delete: "DELETE FROM kv WHERE k = ?1",
    scan: "SELECT k, v FROM kv WHERE k >= ?1 AND k < ?2 ORDER BY k",
    scan_to_end: "SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k",
};

const INDEX: Table = Table {
    get: "SELECT v FROM kv_index WHERE k = ?1",
    put: "INSERT INTO kv_index (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
    delete: "DELETE FROM kv_index WHERE k = ?1",
    scan: "SELECT k, v FROM kv_index WHERE k >= ?1 AND k < ?2 ORDER BY k",
    scan_to_end: "SELECT k, v FROM kv_index WHERE k >= ?1 ORDER BY k",
};

/// The statement of a call of the `kv` interface, which has the first table to itself.
pub(crate) fn statement(call: KvCall) -> &'static str {
    match call {
        KvCall::Get => RECORDS.get,
        KvCall::Put => RECORDS.put,
        KvCall::Delete => RECORDS.delete,
        KvCall::Scan => "SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k LIMIT ?2",
    }
}

/// SQLite's longest row, as it is built (`SQLITE_MAX_LENGTH`); a value stands in the same row.
const KEY_BYTES_MAX: usize = 1_000_000_000;

fn table(key: &[u8]) -> &'static Table {
    if key.first() == Some(&INDEX_ROLE) { &INDEX } else { &RECORDS }
}

/// Connection as an ordered key-value store.
pub(crate) struct SqliteKv {
    pub(crate) connection: Connection,
}

impl SqliteKv {
    fn write_one(&self, key: &[u8], value: Option<&[u8]>) -> rusqlite::Result<()> {
        let table = table(key);
        let mut statement = self.connection.prepare_cached(if value.is_some() { table.put } else { table.delete })?;
        statement.raw_bind_parameter(1, key)?;
        if let Some(value) = value {
            statement.raw_bind_parameter(2, value)?;
        }
        statement.raw_execute()?;
        Ok(())
    }

    fn write_all(&self, batch: &WriteBatch) -> rusqlite::Result<()> {
        for (key, value) in batch.iter() {
            self.write_one(key, value)?;
        }
        self.connection.prepare_cached("COMMIT")?.raw_execute()?;
        Ok(())
    }

    /// Visits what one table has of the range; breaks when `visit` does.
    fn scan_table(
        &self,
        table: &Table,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<ControlFlow<()>> {
        let mut statement =
            self.connection.prepare_cached(if high.is_some() { table.scan } else { table.scan_to_end })?;
        statement.raw_bind_parameter(1, low)?;
        if let Some(high) = high {
            statement.raw_bind_parameter(2, high)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if visit(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Kv for SqliteKv {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { atomic_batch: true, snapshot_scan: true, key_bytes_max: KEY_BYTES_MAX }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError> {
        value.clear();
        self.connection
            .prepare_cached(table(key).get)
            .and_then(|mut statement| {
                statement
                    .query_row([key], |row| {
                        value.extend_from_slice(row.get_ref(0)?.as_blob()?);
                        Ok(())
                    })
                    .optional()
            })
            .map(|found| found.is_some())
            .map_err(|error| kv_error("cannot get a key", &error))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.write_one(key, Some(value)).map_err(|error| kv_error("cannot put a key", &error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), KvError> {
        self.write_one(key, None).map_err(|error| kv_error("cannot delete a key", &error))
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), KvError> {
        let failed = |error| kv_error("cannot write a batch", &error);
        self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.raw_execute()).map_err(failed)?;
        self.write_all(batch).map_err(|error| {
            // After some errors SQLite has rolled back by itself.
            if !self.connection.is_autocommit()
                && let Err(stuck) = self.connection.execute_batch("ROLLBACK")
            {
                return kv_error("cannot roll back a batch", &stuck);
            }
            failed(error)
        })
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        let failed = |error| kv_error("cannot scan", &error);
        let parts = parts(low, high);
        // One statement sees one moment; several need a transaction to see the same one.
        let has_several = parts.clone().count() > 1;
        if has_several {
            self.connection.execute_batch("BEGIN").map_err(failed)?;
        }
        let mut scanned = Ok(ControlFlow::Continue(()));
        for (of_index, low, high) in parts {
            scanned = self.scan_table(if of_index { &INDEX } else { &RECORDS }, low, high, visit);
            if !matches!(scanned, Ok(ControlFlow::Continue(()))) {
                break;
            }
        }
        let ended = if has_several { self.connection.execute_batch("COMMIT") } else { Ok(()) };
        scanned.and(ended).map_err(failed)
    }
}
