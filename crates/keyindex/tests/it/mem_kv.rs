// A key-value store in memory that counts its calls and can die between any two writes.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_core::{Kv, KvCapabilities, KvError, StoreError, StoreErrorKind, WriteBatch};

/// Longest key that it takes.
pub const KEY_BYTES_MAX: usize = 300;

/// Calls made since the counters were last cleared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    pub gets: u64,
    pub scans: u64,
    pub writes: u64,
}

#[derive(Debug, Default)]
struct Inside {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    calls: Calls,
    /// Writes that are still done; then the store is dead.
    left: Option<u64>,
}

/// A connection; clones are connections to the same store.
#[derive(Debug, Clone)]
pub struct MemKv {
    inside: Arc<Mutex<Inside>>,
    atomic: bool,
}

#[allow(dead_code, reason = "the README's example uses less of it than the tests")]
impl MemKv {
    pub fn atomic() -> Self {
        MemKv { inside: Arc::default(), atomic: true }
    }

    pub fn not_atomic() -> Self {
        MemKv { inside: Arc::default(), atomic: false }
    }

    /// Dies after `writes` more writes; `None`: never. An atomic batch is one write.
    pub fn die_after(&self, writes: Option<u64>) {
        self.inside().left = writes;
    }

    pub fn take_calls(&self) -> Calls {
        std::mem::take(&mut self.inside().calls)
    }

    pub fn pairs(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.inside().pairs.clone()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }
}

impl Inside {
    fn spend_write(&mut self) -> Result<(), KvError> {
        self.calls.writes += 1;
        match &mut self.left {
            Some(0) => Err(KvError::Unknown(StoreError::new(StoreErrorKind::Broken, "the store died"))),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn apply(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.pairs.insert(key.to_vec(), value.to_vec()),
            None => self.pairs.remove(key),
        };
    }
}

impl Kv for MemKv {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { atomic_batch: self.atomic, snapshot_scan: true, key_bytes_max: KEY_BYTES_MAX }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError> {
        let mut inside = self.inside();
        inside.calls.gets += 1;
        value.clear();
        let found = inside.pairs.get(key);
        value.extend_from_slice(found.map_or(&[][..], |found| found));
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let mut inside = self.inside();
        inside.spend_write()?;
        inside.apply(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), KvError> {
        let mut inside = self.inside();
        inside.spend_write()?;
        inside.apply(key, None);
        Ok(())
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), KvError> {
        if !self.atomic {
            for (key, value) in batch.iter() {
                match value {
                    Some(value) => self.put(key, value)?,
                    None => self.delete(key)?,
                }
            }
            return Ok(());
        }
        let mut inside = self.inside();
        inside.spend_write()?;
        for (key, value) in batch.iter() {
            inside.apply(key, value);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        let mut inside = self.inside();
        inside.calls.scans += 1;
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, value) in inside.pairs.range::<[u8], _>((Bound::Included(low), high)) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
