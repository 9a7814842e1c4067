//! The indexes of one collection, and the writes that keep them.

use std::sync::Arc;

use plimsoll_core::{Kv, KvError, WriteBatch};

use crate::entries::{Entries, Extract, IndexSpec};
use crate::keyspace::{index_key, index_of, record_key};
use crate::locks::KeyLocks;
use crate::rows::Rows;
use crate::{IndexError, find};

/// Result of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// All records are there.
    All,
    /// No record was written: the key of the record at this position is taken, by a stored record or by an earlier one
    /// of the same rows.
    KeyTaken(usize),
}

/// The records of one collection and the indexes kept beside them, in one key-value store.
///
/// It holds no connection: each call is given one. It does hold buffers, so a thread wants its own, made by
/// [`Indexes::another`] so that they share their locks.
///
/// **Order of writes.** New index keys, then the record, then the index keys that are no longer right; a
/// deleted record goes before its index keys. One atomic batch where the store has them. Where it has not, a
/// crash between any two leaves index keys without a record behind them, never a record without its index
/// keys; queries see through the former and [`Indexes::repair`] removes them.
pub struct Indexes<X> {
    pub(crate) collection: u8,
    pub(crate) specs: Vec<IndexSpec>,
    pub(crate) extract: X,
    pub(crate) locks: Arc<KeyLocks>,
    pub(crate) batch: WriteBatch,
    pub(crate) key: Vec<u8>,
    pub(crate) high: Vec<u8>,
    pub(crate) entries: Entries,
    pub(crate) found: find::KeyBatch,
    old_entries: Entries,
    old: Vec<u8>,
    new: Vec<u8>,
    order: Vec<usize>,
    index_keys: Rows,
    index_order: Vec<usize>,
}

impl<X: Extract> Indexes<X> {
    /// The indexes of the collection with this number. At most 256 of them.
    ///
    /// # Panics
    /// With more than 256 indexes, or one of no fields.
    pub fn new(collection: u8, specs: Vec<IndexSpec>, extract: X) -> Self {
        assert!(specs.len() <= 256, "a collection has at most 256 indexes");
        assert!(specs.iter().all(|spec| spec.width > 0), "an index has at least one field");
        Indexes {
            collection,
            specs,
            extract,
            locks: Arc::default(),
            batch: WriteBatch::new(),
            key: Vec::new(),
            high: Vec::new(),
            entries: Entries::default(),
            found: find::KeyBatch::default(),
            old_entries: Entries::default(),
            old: Vec::new(),
            new: Vec::new(),
            order: Vec::new(),
            index_keys: Rows::new(),
            index_order: Vec::new(),
        }
    }

    /// Returns the same indexes with separate buffers, for another thread: writers wait for each other on a record.
    #[must_use]
    pub fn another(&self) -> Self
    where
        X: Clone,
    {
        let mut other = Indexes::new(self.collection, self.specs.clone(), self.extract.clone());
        other.locks = Arc::clone(&self.locks);
        other
    }

    /// Uses these locks, which other `Indexes` of the same store share.
    #[must_use]
    pub fn with_locks(mut self, locks: Arc<KeyLocks>) -> Self {
        self.locks = locks;
        self
    }

    /// Replaces `record` by the one under `key`; false when there is none.
    pub fn get(&mut self, kv: &mut (impl Kv + ?Sized), key: &[u8], record: &mut Vec<u8>) -> Result<bool, IndexError> {
        record_key(&mut self.key, self.collection, key);
        Ok(kv.get(&self.key, record)?)
    }

    /// Inserts records, none of which may be there: a get of all of them finds out, and one batch writes all of them.
    /// On a store without atomic batches a crash may leave some of them inserted, each of them whole.
    ///
    /// They are looked for and written in the order of their keys, as are their index keys: neighbours
    /// are cheaper for an ordered store than the same keys at random.
    pub fn insert(&mut self, kv: &mut (impl Kv + ?Sized), rows: &Rows) -> Result<Inserted, IndexError> {
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
    ) -> Result<Inserted, IndexError> {
        if let Some(pair) = order.windows(2).find(|pair| rows.key(pair[0]) == rows.key(pair[1])) {
            return Ok(Inserted::KeyTaken(pair[1]));
        }
        let _guard = self.locks.lock_keys(order.iter().map(|position| rows.key(*position)));
        if let Some(taken) = self.first_taken(kv, rows, order)? {
            return Ok(Inserted::KeyTaken(taken));
        }
        self.index_keys.clear();
        for position in order {
            let key = rows.key(*position);
            for index in 0..self.specs.len() {
                self.entries.clear();
                self.extract.entries(index, key, rows.record(*position), &mut self.entries)?;
                for entry in self.entries.iter() {
                    index_key(&mut self.key, self.collection, index as u8, entry, key);
                    self.index_keys.push(&self.key, &[]);
                }
            }
        }
        self.batch.clear();
        self.index_keys.by_key(&mut self.index_order);
        for position in &self.index_order {
            self.batch.put(self.index_keys.key(*position), &[]);
        }
        for position in order {
            record_key(&mut self.key, self.collection, rows.key(*position));
            self.batch.put(&self.key, rows.record(*position));
        }
        self.write(kv)?;
        Ok(Inserted::All)
    }

    /// The position of the first of `rows`, in this order, whose key has a record already.
    fn first_taken(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        rows: &Rows,
        order: &[usize],
    ) -> Result<Option<usize>, IndexError> {
        if let [only] = order {
            record_key(&mut self.key, self.collection, rows.key(*only));
            return Ok(kv.get(&self.key, &mut self.old)?.then_some(*only));
        }
        for some in order.chunks(find::FETCH) {
            // A buffer that is needed for index keys later.
            self.index_keys.clear();
            for position in some {
                record_key(&mut self.key, self.collection, rows.key(*position));
                self.index_keys.push(&self.key, &[]);
            }
            let mut keys = [&[][..]; find::FETCH];
            keys.iter_mut().zip(self.index_keys.iter()).for_each(|(to, (key, _))| *to = key);
            let mut taken = None;
            kv.get_many(&keys[..some.len()], &mut |at, _| taken = taken.or(some.get(at).copied()))?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    /// Puts a record, whether or not one is there. True when one was.
    pub fn put(&mut self, kv: &mut (impl Kv + ?Sized), key: &[u8], record: &[u8]) -> Result<bool, IndexError> {
        let _guard = self.locks.lock_keys([key]);
        record_key(&mut self.key, self.collection, key);
        let there = kv.get(&self.key, &mut self.old)?;
        self.new.clear();
        self.new.extend_from_slice(record);
        self.replace(kv, key, there)?;
        Ok(there)
    }

    /// Changes the record under `key`: `edit` appends the new version, given the old one, to an empty buffer. Index keys that
    /// both versions have are not touched. False when there is no such record.
    pub fn update(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        key: &[u8],
        edit: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), IndexError>,
    ) -> Result<bool, IndexError> {
        let _guard = self.locks.lock_keys([key]);
        record_key(&mut self.key, self.collection, key);
        if !kv.get(&self.key, &mut self.old)? {
            return Ok(false);
        }
        self.new.clear();
        edit(&self.old, &mut self.new)?;
        self.replace(kv, key, true)?;
        Ok(true)
    }

    /// Deletes the record under `key` and its index keys. False when there is no such record.
    pub fn delete(&mut self, kv: &mut (impl Kv + ?Sized), key: &[u8]) -> Result<bool, IndexError> {
        let _guard = self.locks.lock_keys([key]);
        record_key(&mut self.key, self.collection, key);
        if !kv.get(&self.key, &mut self.old)? {
            return Ok(false);
        }
        self.batch.clear();
        self.batch.delete(&self.key);
        for index in 0..self.specs.len() {
            self.entries.clear();
            self.extract.entries(index, key, &self.old, &mut self.entries)?;
            for entry in self.entries.iter() {
                index_key(&mut self.key, self.collection, index as u8, entry, key);
                self.batch.delete(&self.key);
            }
        }
        self.write(kv)?;
        Ok(true)
    }

    /// Writes `self.new` in the place of `self.old`, which counts only when `there`.
    fn replace(&mut self, kv: &mut (impl Kv + ?Sized), key: &[u8], there: bool) -> Result<(), IndexError> {
        self.batch.clear();
        self.changed_entries(key, there, false)?;
        record_key(&mut self.key, self.collection, key);
        self.batch.put(&self.key, &self.new);
        if there {
            self.changed_entries(key, there, true)?;
        }
        self.write(kv)
    }

    /// Adds to the batch the puts of entries that only the new version has, or the deletes of those that
    /// only the old one has.
    fn changed_entries(&mut self, key: &[u8], there: bool, delete: bool) -> Result<(), IndexError> {
        for index in 0..self.specs.len() {
            self.entries.clear();
            self.old_entries.clear();
            self.extract.entries(index, key, &self.new, &mut self.entries)?;
            if there {
                self.extract.entries(index, key, &self.old, &mut self.old_entries)?;
            }
            let (from, against) =
                if delete { (&self.old_entries, &self.entries) } else { (&self.entries, &self.old_entries) };
            for entry in from.iter().filter(|entry| !against.contains(entry)) {
                index_key(&mut self.key, self.collection, index as u8, entry, key);
                if delete {
                    self.batch.delete(&self.key);
                } else {
                    self.batch.put(&self.key, &[]);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, kv: &mut (impl Kv + ?Sized)) -> Result<(), IndexError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let capabilities = kv.capabilities();
        // Beforehand: without atomic batches the keys before it would stand.
        let too_long = |key: &&[u8]| key.len() > capabilities.key_bytes_max;
        if let Some(key) = self.batch.iter().filter_map(|(key, value)| value.map(|_| key)).find(too_long) {
            let (index, key_bytes_max) = (index_of(key), capabilities.key_bytes_max);
            return Err(IndexError::KeyTooLong { index, key_bytes: key.len(), key_bytes_max });
        }
        let partial_possible = self.batch.len() > 1 && !capabilities.atomic_batch;
        kv.write(&self.batch).map_err(|error| match error {
            // The store refused one write of several, and those before it stand.
            KvError::Rejected(error) if partial_possible => KvError::Unknown(error),
            other => other,
        })?;
        Ok(())
    }
}
