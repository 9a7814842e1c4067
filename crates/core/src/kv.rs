//! The simplest interface of a store: values under keys, both bytes, in key order.

use std::ops::ControlFlow;

use crate::error::StoreError;

/// Capabilities of a key-value store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvCapabilities {
    /// [`Kv::write`] happens as a whole or not at all, even in a crash, and no reader sees half of it.
    pub atomic_batch: bool,
    /// Each [`Kv::scan`] sees the store as of one moment.
    pub snapshot_scan: bool,
    /// The longest key that can be put, in bytes.
    pub key_bytes_max: usize,
}

/// The reason why a key-value call failed.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// The store refused it; this call changed nothing.
    #[error("{0}")]
    Rejected(StoreError),
    /// The outcome is unknown: it may have happened.
    #[error("{0}")]
    Unknown(StoreError),
}

/// Puts and deletes that are executed together, in order; a later one overrides an earlier one of the same key.
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    writes: Vec<(u32, u32, Option<u32>)>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.writes.clear();
    }

    /// Adds a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let start = self.add(key);
        let middle = self.offset();
        self.bytes.extend_from_slice(value);
        self.writes.push((start, middle, Some(self.offset())));
    }

    /// Adds a delete; deleting a key that does not exist is no error.
    pub fn delete(&mut self, key: &[u8]) {
        let start = self.add(key);
        self.writes.push((start, self.offset(), None));
    }

    /// The writes in order: key, and the value to put or `None` to delete.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> + Clone {
        self.writes.iter().map(|&(start, middle, end)| {
            (&self.bytes[start as usize..middle as usize], end.map(|end| &self.bytes[middle as usize..end as usize]))
        })
    }

    fn add(&mut self, key: &[u8]) -> u32 {
        let start = self.offset();
        self.bytes.extend_from_slice(key);
        start
    }

    fn offset(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a write batch holds at most 4 GiB")
    }
}

/// A connection to an ordered key-value store. Keys are ordered by their bytes.
pub trait Kv {
    /// The capabilities of this store.
    fn capabilities(&self) -> KvCapabilities;

    /// Requests that the server had refused to begin, and that were sent again.
    fn asked_again(&self) -> u64 {
        0
    }

    /// Replaces `value` by the value of `key`; returns false, with `value` empty, if there is none.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError>;

    /// Gets several keys; calls `visit` with the position of each key that exists, in order. Stores with a cheaper
    /// way than one call per key should override it.
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), KvError> {
        let mut value = Vec::new();
        for (position, key) in keys.iter().enumerate() {
            if self.get(key, &mut value)? {
                visit(position, &value);
            }
        }
        Ok(())
    }

    /// Writes `value` to `key`, and replaces an earlier value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError>;

    /// Deletes `key`; no error if it does not exist.
    fn delete(&mut self, key: &[u8]) -> Result<(), KvError>;

    /// Executes `batch`: atomically if [`KvCapabilities::atomic_batch`] is set, otherwise one by one in order.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), KvError> {
        for (key, value) in batch.iter() {
            match value {
                Some(value) => self.put(key, value)?,
                None => self.delete(key)?,
            }
        }
        Ok(())
    }

    /// Visits every pair with `low <= key < high` in key order (`high` of `None`: to the end) until `visit` breaks.
    #[allow(clippy::type_complexity, reason = "a name for the visitor would say less than its type")]
    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_its_writes_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1");
        batch.delete(b"b");
        batch.put(b"", b"");
        let all: Vec<_> = batch.iter().collect();
        assert_eq!(all, [(&b"a"[..], Some(&b"1"[..])), (b"b", None), (b"", Some(b""))]);
    }
}
