//! The control plane: one database file, its sessions, sizes, cold start and checks.

use std::fs::File;
use std::path::{Path, PathBuf};

use plimsoll_core::tables;
use plimsoll_core::{
    BlockingSession, CacheSize, Dialect, Durability, Footprint, IndexMode, Layout, OpKind, Params, Sessions, Setting,
    Store, StoreDescription, StoreError, StoreErrorKind, Values, Waits, waits,
};
use plimsoll_keyindex::records::Records;
use plimsoll_lab::remove_tree;
use rusqlite::Connection;

use crate::failure::store_error;
use crate::kv::{self, SqliteKv};
use crate::open;
use crate::session::{SqlSession, bind_given};
use crate::statements::{Sqlite, compile};

/// The database's file name.
const FILE: &str = "store.sqlite";

/// A database of our own.
pub(crate) struct SqliteStore {
    data_dir: PathBuf,
    pragmas: open::Pragmas,
    layout: Layout,
    /// Records and index keys, if the layout's indexes are kept as keys.
    records: Option<Records>,
    /// `None` only while the store is being reopened.
    open: Option<Open>,
    waits: Waits,
}

/// Resources of an open database.
struct Open {
    connection: Connection,
    /// The database file, to sync it. Closed after the last connection and never before: closing any
    /// descriptor of a file takes away the locks that SQLite holds on it in this process.
    file: File,
}

impl SqliteStore {
    pub(crate) fn open(data_dir: &Path, params: &Params, waits: Waits) -> Result<Self, StoreError> {
        let mut store = SqliteStore {
            data_dir: data_dir.to_owned(),
            pragmas: open::Pragmas::of(params),
            layout: Layout::default(),
            records: None,
            open: None,
            waits,
        };
        store.reopen()?;
        Ok(store)
    }

    fn path(&self) -> PathBuf {
        self.data_dir.join(FILE)
    }

    fn files(&self) -> [PathBuf; 4] {
        ["", "-wal", "-shm", "-journal"].map(|ending| self.data_dir.join(format!("{FILE}{ending}")))
    }

    fn connect(&self, durability: Durability, waits: &Waits) -> Result<Connection, StoreError> {
        open::open(&self.path(), &self.pragmas, durability, waits)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.shut()?;
        let connection = self.connect(Durability::Durable, &self.waits)?;
        let path = self.path();
        let file = File::open(&path).map_err(|error| StoreError::io(path.display(), &error))?;
        self.open = Some(Open { connection, file });
        Ok(())
    }

    /// Closes the database; the last connection writes the log back and removes it.
    fn shut(&mut self) -> Result<(), StoreError> {
        let Some(Open { connection, file }) = self.open.take() else {
            return Ok(());
        };
        let closed = connection.close().map_err(|(_, error)| store_error("cannot close the database", &error));
        drop(file);
        closed
    }

    fn remove_files(&self) -> Result<(), StoreError> {
        self.files().iter().try_for_each(|path| remove_tree(path))
    }

    fn layout_statements<'s>(&self, statements: impl Iterator<Item = &'s str>) -> Result<(), StoreError> {
        for sql in statements {
            let connection = &self.held()?.connection;
            connection.execute_batch(sql).map_err(|error| {
                let begin: String = sql.chars().take(60).collect();
                store_error(&format!("cannot make the layout at `{begin}`"), &error)
            })?;
        }
        Ok(())
    }

    fn held(&self) -> Result<&Open, StoreError> {
        self.open.as_ref().ok_or_else(|| StoreError::broken("sqlite: the database is closed since an earlier error"))
    }

    /// Writes the whole log back into the database and empties it.
    fn checkpoint(&self) -> Result<(), StoreError> {
        let busy: i64 = self
            .held()?
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map_err(|error| store_error("cannot write the log back", &error))?;
        if busy == 0 {
            return Ok(());
        }
        Err(StoreError::new(
            StoreErrorKind::Store,
            "sqlite: the log could not be written back: another connection is still reading",
        ))
    }

    /// Pages' bytes of every table and index, by name.
    fn sizes(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
        // The second argument asks for one row for each B-tree.
        let mut statement = connection.prepare("SELECT name, pgsize FROM dbstat('main', 1)")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
        rows.collect()
    }

    fn is_index(&self, name: &str) -> bool {
        match self.layout.index {
            IndexMode::None => false,
            IndexMode::Keyindex => name == kv::INDEX_TABLE,
            IndexMode::Own => self.layout.collections.iter().any(|collection| {
                (0..collection.indexes.len()).any(|position| tables::index_name(collection, position) == name)
            }),
        }
    }
}

impl Store for SqliteStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        Ok(StoreDescription {
            version: format!("SQLite {}", rusqlite::version()),
            place: "embedded".to_owned(),
            settings: open::settings(&self.held()?.connection, Some(&self.pragmas))?,
        })
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        open::settings(&self.connect(durability, &self.waits)?, None).map(Some)
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        open::promise(&self.connect(Durability::AsConfigured, &self.waits)?)
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let records = match layout.index {
            IndexMode::Keyindex => Some(Records::new(layout)?),
            IndexMode::None | IndexMode::Own => None,
        };
        self.shut()?;
        self.remove_files()?;
        self.reopen()?;
        self.layout = layout.clone();
        let mut all: Vec<String> = match records {
            Some(_) => kv::CREATE.map(str::to_owned).into(),
            None if layout.collections.is_empty() && layout.statements.is_empty() => vec![kv::CREATE[0].to_owned()],
            None => tables::create(&Sqlite, layout)?,
        };
        self.records = records;
        all.extend(Layout::texts_for(&layout.statements, Dialect::Sqlite).map(str::to_owned));
        self.layout_statements(all.iter().map(String::as_str))
    }

    fn after_load(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.layout_statements(Layout::texts_for(&layout.after_load, Dialect::Sqlite))
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let waits = self.waits.with_grace(waits::GRACE);
        let one = |_| -> Result<Box<dyn BlockingSession>, StoreError> {
            let connection = self.connect(durability, &waits)?;
            Ok(match &self.records {
                Some(records) => Box::new(records.session(SqliteKv { connection })),
                None => Box::new(SqlSession::new(connection, self.layout.clone())),
            })
        };
        (0..count).map(one).collect::<Result<_, _>>().map(Sessions::Blocking)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.checkpoint()?;
        // Pages that earlier checkpoints of unsynced sessions wrote back have not been synced by anybody.
        self.held()?.file.sync_all().map_err(|error| StoreError::io(self.path().display(), &error))
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.held()?
            .connection
            .execute_batch("ANALYZE")
            .map_err(|error| store_error("cannot analyze the tables", &error))?;
        self.checkpoint()
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.shut()
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        self.reopen()
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let sizes = Self::sizes(&self.held()?.connection)
            .map_err(|error| store_error("cannot read the sizes of tables", &error))?;
        let (mut data_bytes, mut index_bytes) = (0, 0);
        for (name, bytes) in sizes {
            if self.is_index(&name) {
                index_bytes += bytes;
            } else if !name.starts_with("sqlite_") || name.starts_with("sqlite_autoindex_") {
                data_bytes += bytes;
            }
        }
        let on_disk = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        let total_bytes = self.files().iter().map(on_disk).sum();
        Ok(Footprint { data_bytes, index_bytes: Some(index_bytes), total_bytes: Some(total_bytes) })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        let ask = |pragma: &str| -> Result<i64, StoreError> {
            let connection = &self.held()?.connection;
            let answer = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
            answer.map_err(|error| store_error(&format!("cannot read the setting {pragma}"), &error))
        };
        // Pages, or with a minus KiB.
        let size = ask("cache_size")?;
        let unit_bytes = if size < 0 { 1024 } else { ask("page_size")?.unsigned_abs() };
        let bytes = size.unsigned_abs().saturating_mul(unit_bytes);
        Ok(Some(CacheSize::Own { setting: "cache_size of each connection", bytes }))
    }

    fn explain(&mut self, kind: &OpKind, params: Values<'_>) -> Result<Option<String>, StoreError> {
        if let Some(records) = &self.records {
            return Ok(records.explain(kind).map(str::to_owned));
        }
        let compiled = compile(&self.layout, kind)?;
        let (which, used) = compiled.shape.statement(params);
        let Some(sql) = compiled.texts.get(which) else { return Ok(None) };
        let connection = &self.held()?.connection;
        let lines = || -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            bind_given(&mut statement, used)?;
            statement.raw_query().mapped(|row| row.get("detail")).collect()
        };
        let lines = lines().map_err(|error| store_error(&format!("cannot explain `{}`", kind.name), &error))?;
        Ok((!lines.is_empty()).then(|| lines.join("; ")))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let failed = |error| store_error("cannot check the database", &error);
        let found: Vec<String> = {
            let mut statement = self.held()?.connection.prepare("PRAGMA integrity_check(10)").map_err(failed)?;
            let rows = statement.query_map([], |row| row.get(0)).map_err(failed)?;
            rows.collect::<rusqlite::Result<_>>().map_err(failed)?
        };
        if found != ["ok"] {
            return Err(
                StoreError::new(StoreErrorKind::Corrupt, "sqlite: the database is damaged").detail(found.join("; "))
            );
        }
        let mut said = "integrity_check: ok".to_owned();
        if let Some(records) = &self.records {
            said.push_str("; ");
            let connection = self.connect(Durability::Durable, &self.waits)?;
            said.push_str(&records.check(&mut SqliteKv { connection })?);
        }
        Ok(Some(said))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let shut = self.shut();
        self.remove_files()?;
        shut
    }
}
