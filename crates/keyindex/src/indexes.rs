//! The indexes of one collection, and the writes that keep them.

use std::sync::Arc;

use plimsoll_core::{Kv, KvError, StoreError, WriteBatch};

use crate::IndexError;
use crate::keyspace::{index_key, index_of, record_key};
use crate::locks::KeyLocks;
use crate::records::Fields;
use crate::rows::Rows;

/// Keys fetched by one [`Kv::get_many`]; their references stand on the stack.
pub(crate) const FETCH: usize = 64;

/// The records of one collection and the indexes kept beside them, in one key-value store.
///
/// Each call is given a connection. The buffers belong to one session; the locks are those of all sessions.
///
/// **Order of writes.** New index keys, then the record, then the index keys that are no longer right; a
/// deleted record goes before its index keys. One atomic batch where the store has them. Where it has not, a
/// crash between any two leaves index keys without a record behind them, never a record without its index
/// keys; queries see through the former.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    pub(crate) fields: Fields,
    pub(crate) locks: Arc<KeyLocks>,
    pub(crate) key: Vec<u8>,
    pub(crate) high: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    pub(crate) found: Rows,
    pub(crate) order: Vec<usize>,
    batch: WriteBatch,
    old_entry: Vec<u8>,
    old: Vec<u8>,
    new: Vec<u8>,
    index_keys: Rows,
    index_order: Vec<usize>,
}

impl Indexes {
    /// Returns the indexes of a collection; other sessions of the same store share `locks`.
    pub(crate) fn new(fields: Fields, locks: Arc<KeyLocks>) -> Self {
        Indexes { fields, locks, ..Indexes::default() }
    }

    /// Replaces `record` by the one under `key`; false when there is none.
    pub(crate) fn get(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        key: &[u8],
        record: &mut Vec<u8>,
    ) -> Result<bool, IndexError> {
        record_key(&mut self.key, self.fields.collection, key);
        Ok(kv.get(&self.key, record)?)
    }

    /// Inserts records, none of which may be there: a get of all of them finds out, and one batch writes all of them.
    /// On a store without atomic batches a crash may leave some of them inserted, each of them whole.
    /// False, and nothing written, when a key is taken: by a stored record or by another of `rows`.
    ///
    /// They are looked for and written in the order of their keys, as are their index keys: neighbours
    /// are cheaper for an ordered store than the same keys at random.
    pub(crate) fn insert(&mut self, kv: &mut (impl Kv + ?Sized), rows: &Rows) -> Result<bool, IndexError> {
        let mut order = std::mem::take(&mut self.order);
        rows.by_key(&mut order);
        let done = self.insert_in_order(kv, rows, &order);
        self.order = order;
        done
    }

    fn insert_in_order(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        rows: &Rows,
        order: &[usize],
    ) -> Result<bool, IndexError> {
        if order.windows(2).any(|pair| rows.key(pair[0]) == rows.key(pair[1])) {
            return Ok(false);
        }
        let _guard = self.locks.lock_keys(order.iter().map(|position| rows.key(*position)));
        if self.any_taken(kv, rows, order)? {
            return Ok(false);
        }
        let collection = self.fields.collection;
        self.index_keys.clear();
        for position in order {
            let key = rows.key(*position);
            for index in 0..self.fields.indexes() {
                self.fields.entry(index, key, rows.record(*position), &mut self.entry)?;
                index_key(&mut self.key, collection, index as u8, &self.entry, key);
                self.index_keys.push(&self.key, &[]);
            }
        }
        self.batch.clear();
        self.index_keys.by_key(&mut self.index_order);
        for position in &self.index_order {
            self.batch.put(self.index_keys.key(*position), &[]);
        }
        for position in order {
            record_key(&mut self.key, collection, rows.key(*position));
            self.batch.put(&self.key, rows.record(*position));
        }
        self.write(kv)?;
        Ok(true)
    }

    /// True when one of `rows` has a key that has a record already.
    fn any_taken(&mut self, kv: &mut (impl Kv + ?Sized), rows: &Rows, order: &[usize]) -> Result<bool, IndexError> {
        if let [only] = order {
            record_key(&mut self.key, self.fields.collection, rows.key(*only));
            return Ok(kv.get(&self.key, &mut self.old)?);
        }
        for some in order.chunks(FETCH) {
            // A buffer that is needed for index keys later.
            self.index_keys.clear();
            for position in some {
                record_key(&mut self.key, self.fields.collection, rows.key(*position));
                self.index_keys.push(&self.key, &[]);
            }
            let mut keys = [&[][..]; FETCH];
            keys.iter_mut().zip(self.index_keys.iter()).for_each(|(to, (key, _))| *to = key);
            let mut taken = false;
            kv.get_many(&keys[..some.len()], &mut |_, _| taken = true)?;
            if taken {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Changes the record under `key`: `edit` appends the new version, given the old one, to an empty buffer. Index keys that
    /// both versions have are not touched. False when there is no such record.
    pub(crate) fn update(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        key: &[u8],
        edit: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), IndexError>,
    ) -> Result<bool, IndexError> {
        let collection = self.fields.collection;
        let _guard = self.locks.lock_keys([key]);
        record_key(&mut self.key, collection, key);
        if !kv.get(&self.key, &mut self.old)? {
            return Ok(false);
        }
        self.new.clear();
        edit(&self.old, &mut self.new)?;
        self.batch.clear();
        // Of these, those of the old version.
        self.index_keys.clear();
        for index in 0..self.fields.indexes() {
            self.fields.entry(index, key, &self.new, &mut self.entry)?;
            self.fields.entry(index, key, &self.old, &mut self.old_entry)?;
            if self.entry != self.old_entry {
                index_key(&mut self.key, collection, index as u8, &self.entry, key);
                self.batch.put(&self.key, &[]);
                index_key(&mut self.key, collection, index as u8, &self.old_entry, key);
                self.index_keys.push(&self.key, &[]);
            }
        }
        record_key(&mut self.key, collection, key);
        self.batch.put(&self.key, &self.new);
        self.index_keys.iter().for_each(|(key, _)| self.batch.delete(key));
        self.write(kv)?;
        Ok(true)
    }

    /// Deletes the record under `key` and its index keys. False when there is no such record.
    pub(crate) fn delete(&mut self, kv: &mut (impl Kv + ?Sized), key: &[u8]) -> Result<bool, IndexError> {
        let _guard = self.locks.lock_keys([key]);
        record_key(&mut self.key, self.fields.collection, key);
        if !kv.get(&self.key, &mut self.old)? {
            return Ok(false);
        }
        self.batch.clear();
        self.batch.delete(&self.key);
        for index in 0..self.fields.indexes() {
            self.fields.entry(index, key, &self.old, &mut self.entry)?;
            index_key(&mut self.key, self.fields.collection, index as u8, &self.entry, key);
            self.batch.delete(&self.key);
        }
        self.write(kv)?;
        Ok(true)
    }

    fn write(&mut self, kv: &mut (impl Kv + ?Sized)) -> Result<(), IndexError> {
        let capabilities = kv.capabilities();
        // Beforehand: without atomic batches the keys before it would stand.
        let too_long = |key: &&[u8]| key.len() > capabilities.key_bytes_max;
        if let Some(key) = self.batch.iter().filter_map(|(key, value)| value.map(|_| key)).find(too_long) {
            return Err(key_too_long(key, capabilities.key_bytes_max).into());
        }
        let partial_possible = self.batch.iter().len() > 1 && !capabilities.atomic_batch;
        kv.write(&self.batch).map_err(|error| match error {
            // The store refused one write of several, and those before it stand.
            KvError::Rejected(error) if partial_possible => KvError::Unknown(error),
            other => other,
        })?;
        Ok(())
    }
}

fn key_too_long(key: &[u8], key_bytes_max: usize) -> KvError {
    let (whose, shorten) = match index_of(key) {
        Some(index) => (format!("an entry of index {index}"), "the record's key or the indexed values"),
        None => ("a record".to_owned(), "the record's key"),
    };
    KvError::Rejected(StoreError::usage(format!(
        "{whose} would have a key of {} bytes, and this store keeps keys of up to {key_bytes_max}: shorten {shorten}",
        key.len()
    )))
}
