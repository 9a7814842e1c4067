//! An open fjall database.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use plimsoll_core::{
    CacheSize, Cycle, Durability, Footprint, IndexMode, Layout, OpKind, Probe, Sessions, Setting, Store,
    StoreDescription, StoreError, StoreErrorKind, Values, Waits,
};
use plimsoll_keyindex::records::Records;
use plimsoll_lab::ending::is_full;
use plimsoll_lab::{remove_tree, tree_bytes};

use crate::errors::{is_closed, store_error};
use crate::flushes::Flushes;
use crate::group::GroupCommit;
use crate::kind::Sizes;
use crate::kv::{FjallKv, Keyspaces};

/// The version of the crate that is compiled in; a test holds it against the lock file.
pub(crate) const VERSION: &str = "3.1.13";

/// Quiet for this long is settled.
const QUIET: Duration = Duration::from_millis(20);

/// A fjall database in a directory of its own.
pub struct FjallStore {
    dir: PathBuf,
    sizes: Sizes,
    keyspaces: Option<Keyspaces>,
    flushes: Arc<Mutex<Flushes>>,
    group: Arc<GroupCommit>,
    /// Records, without a collection before [`Store::create`].
    records: Records,
    index: IndexMode,
    /// Limits of the wait for fjall's background work.
    pub(crate) waits: Waits,
}

impl FjallStore {
    /// Makes a database under `data_dir`.
    pub fn open(data_dir: &Path, sizes: Sizes) -> Result<Self, StoreError> {
        let mut store = FjallStore {
            dir: data_dir.join("fjall"),
            sizes,
            keyspaces: None,
            flushes: Arc::default(),
            group: Arc::default(),
            records: Records::new(&Layout::default())?,
            index: IndexMode::None,
            waits: Waits::default(),
        };
        store.start()?;
        Ok(store)
    }

    /// A connection of its own, for those who want keys and values.
    pub fn kv(&self, durability: Durability) -> Result<FjallKv, StoreError> {
        Ok(FjallKv { keyspaces: self.keyspaces()?.clone(), group: Arc::clone(&self.group), durability })
    }

    fn start(&mut self) -> Result<(), StoreError> {
        let Sizes { cache_bytes, memtable_bytes } = self.sizes;
        let open = || -> fjall::Result<Keyspaces> {
            let db = Database::builder(&self.dir).cache_size(cache_bytes).manual_journal_persist(true).open()?;
            let options =
                || KeyspaceCreateOptions::default().manual_journal_persist(true).max_memtable_size(memtable_bytes);
            let records = db.keyspace("records", options)?;
            let index = db.keyspace("index", options)?;
            Ok(Keyspaces { db, records, index })
        };
        let keyspaces = open().map_err(|error| self.error(&error))?;
        locked(&self.flushes).are_of(keyspaces.clone());
        self.keyspaces = Some(keyspaces);
        // A database that was closed and opened takes writes again.
        self.group = Arc::default();
        Ok(())
    }

    /// Closes it, which syncs its journal. It is closed when this returns unless a session is still open.
    fn stop(&mut self) {
        locked(&self.flushes).are_over();
        self.keyspaces = None;
    }

    fn keyspaces(&self) -> Result<&Keyspaces, StoreError> {
        self.keyspaces.as_ref().ok_or_else(is_closed)
    }

    fn error(&self, error: &fjall::Error) -> StoreError {
        store_error(&self.dir, error)
    }

    /// Waits until no flush and no compaction has run for a moment.
    fn wait_until_quiet(&self) -> Result<(), StoreError> {
        let Keyspaces { db, records, index } = self.keyspaces()?;
        let mut quiet_since = Instant::now();
        let mut compactions = db.compactions_completed();
        self.waits.until(Duration::from_millis(1), "Look for errors of its disk", || {
            let sealed = records.sealed_memtable_count() + index.sealed_memtable_count();
            let busy = sealed > 0 || db.outstanding_flushes() > 0 || db.active_compactions() > 0;
            if busy || db.compactions_completed() != compactions {
                compactions = db.compactions_completed();
                quiet_since = Instant::now();
            }
            // A flush or compaction that failed is not tried again, and what it was to write stays where it is.
            if busy && matches!(db.persist(PersistMode::Buffer), Err(fjall::Error::Poisoned)) {
                let what =
                    format!("{}: fjall could not write its tables, and takes no more writes", self.dir.display());
                let kind = if is_full(&self.dir) { StoreErrorKind::DiskFull } else { StoreErrorKind::Broken };
                return Err(StoreError::new(kind, what)
                    .next("Look whether its disk is full, has turned read-only or fails (`dmesg`)."));
            }
            // Asking may have taken longer than that while it was busy.
            let is_quiet = !busy && quiet_since.elapsed() >= QUIET;
            Ok(if is_quiet { Ok(()) } else { Err("fjall is still flushing or compacting".to_owned()) })
        })
    }
}

impl Store for FjallStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        // So that `at-end` needs no system call for each write; each session asks for what its durability needs.
        let mut settings = vec![Setting::ours("manual_journal_persist", "true", "false")];
        let default = Sizes::default();
        for (name, bytes, default) in [
            ("cache_size", self.sizes.cache_bytes, default.cache_bytes),
            ("max_memtable_size", self.sizes.memtable_bytes, default.memtable_bytes),
        ] {
            if bytes != default {
                settings.push(Setting::ours(name, bytes.to_string(), &default.to_string()));
            }
        }
        Ok(StoreDescription { version: VERSION.into(), place: "embedded".into(), settings })
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let what = "fjall hands each write to the kernel before it answers: an acknowledged write survives the process, \
                    not power loss.";
        Ok(what.to_owned())
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let records = Records::new(layout)?;
        self.stop();
        remove_tree(&self.dir)?;
        self.start()?;
        self.records = records;
        self.index = layout.index;
        Ok(())
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        locked(&self.flushes).begin();
        let sessions = (0..count).map(|_| Ok(Box::new(self.records.session(self.kv(durability)?)) as _));
        Ok(Sessions::Blocking(sessions.collect::<Result<_, StoreError>>()?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.keyspaces()?.db.persist(PersistMode::SyncData).map_err(|error| self.error(&error))
    }

    /// Flushes what stands in memory and compacts both keyspaces to one run each.
    fn settle(&mut self) -> Result<(), StoreError> {
        let Keyspaces { records, index, .. } = self.keyspaces()?;
        for step in [|keyspace: &Keyspace| keyspace.rotate_memtable().map(drop), Keyspace::major_compact] {
            for keyspace in [records, index] {
                step(keyspace).map_err(|error| self.error(&error))?;
            }
            self.wait_until_quiet()?;
        }
        Ok(())
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.stop();
        Ok(())
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        self.start()
    }

    /// Sizes of the tables. What stands in memory and the journal only is written to tables first: fjall cannot
    /// say how much of it belongs to which keyspace.
    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let keyspaces = self.keyspaces()?;
        for keyspace in [&keyspaces.records, &keyspaces.index] {
            keyspace.rotate_memtable().map_err(|error| self.error(&error))?;
        }
        self.wait_until_quiet()?;
        Ok(Footprint {
            data_bytes: keyspaces.records.disk_space(),
            index_bytes: Some(keyspaces.index.disk_space()),
            // Space on the disk: a journal's file is made longer than what is in it.
            total_bytes: tree_bytes(&self.dir, |file| file.blocks() * 512),
        })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        Ok(Some(CacheSize::Own { setting: "cache", bytes: self.sizes.cache_bytes }))
    }

    fn explain(&mut self, kind: &OpKind, _params: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(self.records.explain(kind).map(str::to_owned))
    }

    /// fjall has no check of its own; with indexes, they are held against the records.
    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        if self.index != IndexMode::Keyindex {
            return Ok(None);
        }
        self.records.check(&mut self.kv(Durability::Buffered)?).map(Some)
    }

    fn probes(&mut self) -> Vec<Probe> {
        let flushes = Arc::clone(&self.flushes);
        vec![Box::new(move || locked(&flushes).counters())]
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        Ok(locked(&self.flushes).cycle(self.sizes.memtable_bytes))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.stop();
        remove_tree(&self.dir)
    }
}

fn locked(flushes: &Mutex<Flushes>) -> MutexGuard<'_, Flushes> {
    flushes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_the_one_in_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let (_, after) = lock.split_once("name = \"fjall\"\nversion = \"").expect("fjall is in the lock file");
        assert_eq!(after.split_once('"').map(|(version, _)| version), Some(super::VERSION));
    }
}
