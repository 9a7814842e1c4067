//! Keys and values in memory behind one lock, told truly or with one kind of lie now and then.
//!
//! As [`crate::lying`], for stores that speak `kv` and `kv-scan`.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plimsoll_core::{
    Answer, BlockingSession, Call, Durability, Footprint, Interface, KvCall, Layout, Op, OpKind, OpenOptions, Outcome,
    Sessions, Store, StoreDescription, StoreError, StoreKind, StoreSpec, Value,
};

use crate::lying::{LATER, Lies};
use crate::reference::{SPEC, open};

/// Lie of a key-value store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvLie {
    /// A write is acknowledged and not done.
    Lose,
    /// Returns a value that was overwritten.
    Resurrect,
    /// A read shows what was there before.
    Stale,
    /// A value is spoilt.
    Corrupt,
    /// A value is kept under another key.
    Misplace,
    /// A write is refused and done.
    Deny,
    /// A read finds nothing where something is.
    Hide,
    /// A range leaves a record out.
    Skip,
    /// A range gives two records in the wrong order.
    Swap,
    /// A range gives a record twice.
    Repeat,
    /// Returns a record that was never written in a range.
    Invent,
}

impl KvLie {
    /// Every kind of lie.
    pub const ALL: [KvLie; 11] = [
        KvLie::Lose,
        KvLie::Resurrect,
        KvLie::Stale,
        KvLie::Corrupt,
        KvLie::Misplace,
        KvLie::Deny,
        KvLie::Hide,
        KvLie::Skip,
        KvLie::Swap,
        KvLie::Repeat,
        KvLie::Invent,
    ];
}

/// A kind of store of keys and values.
pub struct Pairs {
    lies: Lies<Option<KvLie>>,
    spec: StoreSpec,
}

impl Pairs {
    /// Makes a store that does not lie.
    pub fn honest() -> Self {
        let interfaces = &[Interface::Kv, Interface::KvScan];
        let spec =
            StoreSpec { name: "pairs", summary: "keys and values in memory", interfaces, index_modes: &[], ..SPEC };
        Self { lies: Lies::new(None, 1, 0), spec }
    }

    /// Makes a store that tells `lie` at one in `one_in` opportunities, as `seed` chooses.
    pub fn lying(lie: KvLie, one_in: u64, seed: u64) -> Self {
        Self { lies: Lies::new(Some(lie), one_in, seed), ..Self::honest() }
    }

    /// Returns the number of lies so far.
    pub fn told(&self) -> u64 {
        self.lies.told()
    }
}

impl StoreKind for Pairs {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn open(&self, options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        open(&options)?;
        Ok(Box::new(PairsStore { map: Map::default(), lies: self.lies.shared() }))
    }
}

/// A value, and the one before it.
#[derive(Debug, Default, Clone)]
struct Entry {
    now: Vec<u8>,
    before: Option<Vec<u8>>,
}

#[derive(Debug, Default, Clone)]
struct Map(Arc<RwLock<BTreeMap<Vec<u8>, Entry>>>);

impl Map {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Vec<u8>, Entry>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Vec<u8>, Entry>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Option<Vec<u8>> {
        let mut map = self.write();
        let entry = map.entry(key).or_default();
        let old = std::mem::replace(&mut entry.now, value);
        entry.before = (!old.is_empty()).then_some(old);
        entry.before.clone()
    }
}

struct PairsStore {
    map: Map,
    lies: Lies<Option<KvLie>>,
}

impl Store for PairsStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        Ok(StoreDescription { version: env!("CARGO_PKG_VERSION").into(), place: "embedded".into(), settings: vec![] })
    }

    fn create(&mut self, _layout: &Layout) -> Result<(), StoreError> {
        self.map.write().clear();
        Ok(())
    }

    fn sessions(&mut self, count: u32, _durability: Durability) -> Result<Sessions, StoreError> {
        let session = |_| -> Box<dyn BlockingSession> {
            let (map, lies) = (self.map.clone(), self.lies.session());
            Box::new(Session { map, kinds: Vec::new(), lies, pending: Vec::new() })
        };
        Ok(Sessions::Blocking((0..count).map(session).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let data_bytes = self.map.read().iter().map(|(key, entry)| (key.len() + entry.now.len()) as u64).sum();
        Ok(Footprint { data_bytes, index_bytes: None, total_bytes: None })
    }
}

struct Session {
    map: Map,
    kinds: Vec<OpKind>,
    lies: Lies<Option<KvLie>>,
    /// Old values that come back after so many operations.
    pending: Vec<(u32, Vec<u8>, Vec<u8>)>,
}

impl Session {
    /// True at one in so many opportunities for this lie: then it has been told.
    fn tells(&mut self, lie: KvLie) -> bool {
        self.lies.lie == Some(lie) && self.lies.is_told()
    }

    fn catch_up(&mut self, all: bool) {
        let map = &self.map;
        self.pending.retain_mut(|(after, key, old)| {
            *after = after.saturating_sub(1);
            let waits = *after > 0 && !all;
            if !waits {
                map.put(key.clone(), old.clone());
            }
            waits
        });
    }

    fn put(&mut self, key: Vec<u8>, mut value: Vec<u8>, answer: &mut Answer) -> Outcome {
        if self.tells(KvLie::Lose) {
            return Outcome::Ok;
        }
        if self.tells(KvLie::Corrupt)
            && let Some(last) = value.last_mut()
        {
            *last ^= 1;
        }
        if self.tells(KvLie::Misplace) {
            let other = self.map.read().range(key.clone()..).nth(1).map(|(key, _)| key.clone());
            if let Some(other) = other {
                self.map.put(other, value);
                return Outcome::Ok;
            }
        }
        let before = self.map.put(key.clone(), value);
        if let Some(before) = before
            && self.tells(KvLie::Resurrect)
        {
            self.pending.push((LATER, key, before));
        }
        if self.tells(KvLie::Deny) {
            return answer.fail(Outcome::Rejected, "denied", "the store lies");
        }
        Outcome::Ok
    }

    fn get(&mut self, key: &[u8], answer: &mut Answer) -> Outcome {
        let Some(entry) = self.map.read().get(key).cloned() else { return Outcome::NotFound };
        if self.tells(KvLie::Hide) {
            return Outcome::NotFound;
        }
        let value = match entry.before {
            Some(before) if self.tells(KvLie::Stale) => before,
            _ => entry.now,
        };
        (answer.rows, answer.columns) = (1, 1);
        answer.values.push(Value::Bytes(&value));
        Outcome::Ok
    }

    fn scan(&mut self, key: &[u8], count: usize, answer: &mut Answer) -> Outcome {
        let map = self.map.read();
        let found = map.range(key.to_vec()..).take(count + 1);
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = found.map(|(key, entry)| (key.clone(), entry.now.clone())).collect();
        drop(map);
        if rows.len() > 2 && self.tells(KvLie::Skip) {
            rows.remove(1);
        }
        rows.truncate(count);
        if rows.len() > 2 && self.tells(KvLie::Swap) {
            rows.swap(0, 1);
        }
        if rows.len() > 2 && self.tells(KvLie::Repeat) {
            rows[1] = rows[0].clone();
        }
        if rows.len() > 2 && self.tells(KvLie::Invent) {
            rows[1].0.push(b'?');
        }
        (answer.rows, answer.columns) = (rows.len() as u64, 2);
        for (key, value) in &rows {
            answer.values.push(Value::Bytes(key));
            answer.values.push(Value::Bytes(value));
        }
        Outcome::Ok
    }
}

impl BlockingSession for Session {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.kinds = kinds.to_vec();
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        self.catch_up(false);
        let bytes = |position| match op.params.get(position) {
            Value::Bytes(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        match self.kinds.get(usize::from(op.kind)).map(|kind| &kind.call) {
            Some(Call::Kv(KvCall::Put)) => self.put(bytes(0), bytes(1), answer),
            Some(Call::Kv(KvCall::Get)) => self.get(&bytes(0), answer),
            Some(Call::Kv(KvCall::Scan)) => {
                let count = if let Value::Int(count) = op.params.get(1) { count.max(0) as usize } else { 0 };
                self.scan(&bytes(0), count, answer)
            }
            Some(Call::Kv(KvCall::Delete)) => match self.map.write().remove(&bytes(0)) {
                Some(_) => Outcome::Ok,
                None => Outcome::NotFound,
            },
            _ => Outcome::Ok,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.catch_up(true);
    }
}
