//! Connection to an open database.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use fjall::{Database, Keyspace, PersistMode, Readable, Snapshot, UserValue};
use plimsoll_core::{Durability, Kv, KvCapabilities, KvError, StoreError, WriteBatch};
use plimsoll_keyindex::keyspace::{INDEX_ROLE, parts};

use crate::errors::kv_error;
use crate::group::GroupCommit;

const KEY_BYTES_MAX: usize = 65_535;

/// Index keys stand in a keyspace of their own, so that their size can be told; keys that begin with any
/// other byte stand in the other one. Both have one journal, and a batch may write to both.
#[derive(Clone)]
pub(crate) struct Keyspaces {
    pub(crate) db: Database,
    pub(crate) records: Keyspace,
    pub(crate) index: Keyspace,
}

impl Keyspaces {
    fn of(&self, key: &[u8]) -> &Keyspace {
        if key.first() == Some(&INDEX_ROLE) { &self.index } else { &self.records }
    }
}

/// Connection to a fjall database. Reads see a snapshot each: fjall's reads without one show parts of
/// a batch that is just being applied.
pub struct FjallKv {
    pub(crate) keyspaces: Keyspaces,
    pub(crate) group: Arc<GroupCommit>,
    pub(crate) durability: Durability,
}

impl FjallKv {
    fn snapshot(&self) -> Snapshot {
        self.keyspaces.db.snapshot()
    }

    fn read(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<UserValue>, KvError> {
        if check_key(key).is_err() {
            return Ok(None);
        }
        snapshot.get(self.keyspaces.of(key), key).map_err(|error| kv_error(&error))
    }

    /// Does writes together, as durable as this connection is.
    fn commit<'a>(
        &self,
        writes: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
    ) -> Result<(), KvError> {
        writes.clone().try_for_each(|(key, _)| check_key(key))?;
        let keyspaces = &self.keyspaces;
        let mode = match self.durability {
            Durability::Durable => {
                let writes = writes.map(|(key, value)| (keyspaces.of(key).clone(), key.into(), value.map(Into::into)));
                return self.group.commit(&keyspaces.db, writes);
            }
            // fjall's own default, too.
            Durability::Buffered | Durability::AsConfigured => Some(PersistMode::Buffer),
            Durability::AtEnd => None,
        };
        let mut batch = fjall::OwnedWriteBatch::with_capacity(keyspaces.db.clone(), writes.len()).durability(mode);
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(keyspaces.of(key), key, value),
                None => batch.remove(keyspaces.of(key), key),
            }
        }
        batch.commit().map_err(|error| kv_error(&error))
    }

    /// Performs a single write. If nothing has to get to the operating system yet, fjall has a shorter way than a batch.
    fn write_one(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), KvError> {
        if self.durability != Durability::AtEnd {
            return self.commit(std::iter::once((key, value)));
        }
        check_key(key)?;
        let keyspace = self.keyspaces.of(key);
        match value {
            Some(value) => keyspace.insert(key, value),
            None => keyspace.remove(key),
        }
        .map_err(|error| kv_error(&error))
    }
}

/// fjall panics at keys that it cannot keep.
fn check_key(key: &[u8]) -> Result<(), KvError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    let what = format!("a key of {} bytes; fjall keeps keys of 1 to {KEY_BYTES_MAX} bytes", key.len());
    Err(KvError::Rejected(StoreError::usage(what)))
}

impl Kv for FjallKv {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { atomic_batch: true, snapshot_scan: true, key_bytes_max: KEY_BYTES_MAX }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError> {
        value.clear();
        let found = self.read(&self.snapshot(), key)?;
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), KvError> {
        let snapshot = self.snapshot();
        for (position, key) in keys.iter().enumerate() {
            if let Some(value) = self.read(&snapshot, key)? {
                visit(position, &value);
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.write_one(key, Some(value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), KvError> {
        self.write_one(key, None)
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), KvError> {
        let mut writes = batch.iter();
        match writes.len() {
            0 => Ok(()),
            1 => writes.next().map_or(Ok(()), |(key, value)| self.write_one(key, value)),
            _ => self.commit(writes),
        }
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        let snapshot = self.snapshot();
        for (of_index, low, high) in parts(low, high) {
            let keyspace = if of_index { &self.keyspaces.index } else { &self.keyspaces.records };
            let range = (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded));
            for pair in snapshot.range::<&[u8], _>(keyspace, range) {
                let (key, value) = pair.into_inner().map_err(|error| kv_error(&error))?;
                if visit(&key, &value).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
