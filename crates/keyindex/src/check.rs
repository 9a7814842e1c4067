//! Building an index over records that are there, and checking indexes against records.
//!
//! All of it goes page by page, so memory is bounded by a page of [`PAGE_RECORDS`] records or
//! [`PAGE_BYTES`]. Writers of the same process wait while a page is worked on, and only then; writers of
//! other processes must be quiet.

use std::ops::ControlFlow;
use std::sync::Arc;

use plimsoll_core::Kv;

use crate::encode::raise_past;
use crate::entries::Extract;
use crate::indexes::Indexes;
use crate::keyspace::{
    INDEX_PREFIX_LEN, INDEX_ROLE, RECORD_PREFIX_LEN, index_key, record_key, record_prefix, split_index_key,
};
use crate::locks::Stripes;
use crate::{IndexError, KeyLocks, Rows};

/// Most records or index keys in a page.
pub const PAGE_RECORDS: usize = 500;
/// A page ends with the record that makes it this large.
pub const PAGE_BYTES: usize = 4 << 20;
/// Most faults that are kept one by one; all are counted.
pub const FAULTS_KEPT: usize = 20;

/// Findings of a check, or corrections of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Records read.
    pub records: u64,
    /// Index keys read.
    pub index_keys: u64,
    /// Index keys without a record that has this entry.
    pub dangling: u64,
    /// Entries of records without their index key.
    pub missing: u64,
    /// Records that cannot be read. A repair leaves them, and their index keys, as they are.
    pub unreadable: u64,
    /// The first [`FAULTS_KEPT`] faults.
    pub faults: Vec<IndexFault>,
}

/// A disagreement between records and an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexFault {
    /// An index key without a record that has this entry.
    Dangling {
        /// Number of the index, which may be one that there is no more.
        index: u8,
        /// The index key without its prefix.
        body: Vec<u8>,
    },
    /// A record without an index key that it should have.
    Missing {
        /// Number of the index.
        index: u8,
        /// The record's key.
        key: Vec<u8>,
    },
    /// A record that cannot be read.
    Unreadable {
        /// The record's key.
        key: Vec<u8>,
        /// Fault of the entry.
        what: &'static str,
    },
}

impl Check {
    /// True when records and indexes agree and every record can be read.
    pub fn is_clean(&self) -> bool {
        self.dangling == 0 && self.missing == 0 && self.unreadable == 0
    }

    fn fault(&mut self, fault: IndexFault) {
        *match fault {
            IndexFault::Dangling { .. } => &mut self.dangling,
            IndexFault::Missing { .. } => &mut self.missing,
            IndexFault::Unreadable { .. } => &mut self.unreadable,
        } += 1;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(fault);
        }
    }
}

impl<X: Extract> Indexes<X> {
    /// Writes the index keys that the records there are have in the index at position `index`; returns
    /// how many. Done again after a crash it comes to the same.
    pub fn build(&mut self, kv: &mut (impl Kv + ?Sized), index: usize) -> Result<u64, IndexError> {
        let mut written = 0;
        self.records_by_page(kv, &mut |indexes, kv, page| {
            indexes.batch.clear();
            for (key, record) in records(page) {
                indexes.entries.clear();
                indexes.extract.entries(index, key, record, &mut indexes.entries)?;
                for entry in indexes.entries.iter() {
                    index_key(&mut indexes.key, indexes.collection, index as u8, entry, key);
                    indexes.batch.put(&indexes.key, &[]);
                }
            }
            written += indexes.batch.len() as u64;
            indexes.write(kv)
        })?;
        Ok(written)
    }

    /// Holds every record against its index keys and every index key against its record. Changes nothing.
    pub fn verify(&mut self, kv: &mut (impl Kv + ?Sized)) -> Result<Check, IndexError> {
        self.check(kv, false)
    }

    /// Verifies as [`Indexes::verify`], writes missing index keys, and deletes those without a record.
    pub fn repair(&mut self, kv: &mut (impl Kv + ?Sized)) -> Result<Check, IndexError> {
        self.check(kv, true)
    }

    fn check(&mut self, kv: &mut (impl Kv + ?Sized), mend: bool) -> Result<Check, IndexError> {
        let mut check = Check::default();
        self.records_by_page(kv, &mut |indexes, kv, page| indexes.check_records(kv, page, mend, &mut check))?;
        let low = [INDEX_ROLE, self.collection];
        pages(kv, &self.locks.clone(), &low, &mut |kv, page| self.check_index_keys(kv, page, mend, &mut check))?;
        Ok(check)
    }

    fn check_records(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        page: &Rows,
        mend: bool,
        check: &mut Check,
    ) -> Result<(), IndexError> {
        self.batch.clear();
        let mut unused = Vec::new();
        for (key, record) in records(page) {
            check.records += 1;
            for index in 0..self.specs.len() {
                self.entries.clear();
                match self.extract.entries(index, key, record, &mut self.entries) {
                    Err(IndexError::Corrupt(what)) => {
                        check.fault(IndexFault::Unreadable { key: key.to_vec(), what });
                        break;
                    }
                    other => other?,
                }
                for entry in self.entries.iter() {
                    index_key(&mut self.key, self.collection, index as u8, entry, key);
                    if !kv.get(&self.key, &mut unused)? {
                        check.fault(IndexFault::Missing { index: index as u8, key: key.to_vec() });
                        self.batch.put(&self.key, &[]);
                    }
                }
            }
        }
        if mend { self.write(kv) } else { Ok(()) }
    }

    fn check_index_keys(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        page: &Rows,
        mend: bool,
        check: &mut Check,
    ) -> Result<(), IndexError> {
        self.batch.clear();
        let mut record = Vec::new();
        for (store_key, _) in page.iter() {
            check.index_keys += 1;
            if !self.has_record(kv, store_key, &mut record)? {
                let (index, body) = (
                    store_key.get(INDEX_PREFIX_LEN - 1).copied().unwrap_or_default(),
                    store_key.get(INDEX_PREFIX_LEN..).unwrap_or_default(),
                );
                check.fault(IndexFault::Dangling { index, body: body.to_vec() });
                self.batch.delete(store_key);
            }
        }
        if mend { self.write(kv) } else { Ok(()) }
    }

    /// True when the record that an index key names has its entry, or cannot be read to tell.
    fn has_record(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        store_key: &[u8],
        record: &mut Vec<u8>,
    ) -> Result<bool, IndexError> {
        let Some((head, body)) = store_key.split_at_checked(INDEX_PREFIX_LEN) else { return Ok(false) };
        let index = usize::from(head[INDEX_PREFIX_LEN - 1]);
        let Some(spec) = self.specs.get(index) else { return Ok(false) };
        let Some((entry, key)) = split_index_key(body, spec.width) else { return Ok(false) };
        record_key(&mut self.key, self.collection, key);
        if !kv.get(&self.key, record)? {
            return Ok(false);
        }
        self.entries.clear();
        match self.extract.entries(index, key, record, &mut self.entries) {
            Err(IndexError::Corrupt(_)) => Ok(true),
            other => other.map(|()| self.entries.contains(entry)),
        }
    }

    fn records_by_page<K: Kv + ?Sized>(
        &mut self,
        kv: &mut K,
        work: &mut dyn FnMut(&mut Self, &mut K, &Rows) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let (locks, prefix) = (self.locks.clone(), record_prefix(self.collection));
        pages(kv, &locks, &prefix, &mut |kv, page| work(self, kv, page))
    }
}

/// The records of a page by their own keys.
fn records(page: &Rows) -> impl Iterator<Item = (&[u8], &[u8])> {
    page.iter().map(|(key, record)| (&key[RECORD_PREFIX_LEN..], record))
}

/// Reads all pairs whose keys begin with `prefix`, page by page, each under all locks.
fn pages<K: Kv + ?Sized>(
    kv: &mut K,
    locks: &Arc<KeyLocks>,
    prefix: &[u8],
    work: &mut dyn FnMut(&mut K, &Rows) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut low = prefix.to_vec();
    let mut high = prefix.to_vec();
    let bounded = raise_past(&mut high);
    // Copied: nothing can be read while a scan runs.
    let mut page = Rows::new();
    loop {
        let _guard = locks.lock(Stripes::ALL);
        page.clear();
        kv.scan(&low, bounded.then_some(high.as_slice()), &mut |key, value| {
            page.push(key, value);
            if page.len() == PAGE_RECORDS || page.bytes() >= PAGE_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if page.is_empty() {
            return Ok(());
        }
        low.clear();
        low.extend_from_slice(page.key(page.len() - 1));
        low.push(0);
        work(kv, &page)?;
    }
}
