//! Checking indexes against records.
//!
//! All of it goes page by page, so memory is bounded by a page of [`PAGE_RECORDS`] records or
//! [`PAGE_BYTES`]. Writers of the same process wait while a page is worked on, and only then; writers of
//! other processes must be quiet.

use std::ops::ControlFlow;
use std::sync::Arc;

use plimsoll_core::Kv;

use crate::IndexError;
use crate::encode::raise_past;
use crate::indexes::Indexes;
use crate::keyspace::{
    INDEX_PREFIX_LEN, INDEX_ROLE, RECORD_PREFIX_LEN, index_key, record_key, record_prefix, split_index_key,
};
use crate::locks::{KeyLocks, Stripes};
use crate::rows::Rows;

/// Most records or index keys in a page.
const PAGE_RECORDS: usize = 500;
/// A page ends with the record that makes it this large.
const PAGE_BYTES: usize = 4 << 20;

/// Findings of a check.
#[derive(Debug, Default)]
pub(crate) struct Check {
    /// Records read.
    pub(crate) records: u64,
    /// Index keys read.
    pub(crate) index_keys: u64,
    /// Index keys without a record that has this entry.
    pub(crate) dangling: u64,
    /// Entries of records without their index key.
    pub(crate) missing: u64,
    /// Records that cannot be read.
    pub(crate) unreadable: u64,
    /// The first fault, in words.
    pub(crate) example: Option<String>,
}

impl Indexes {
    /// Holds every record against its index keys and every index key against its record. Changes nothing.
    pub(crate) fn check(&mut self, kv: &mut (impl Kv + ?Sized)) -> Result<Check, IndexError> {
        let (mut check, locks, collection) = (Check::default(), self.locks.clone(), self.fields.collection);
        pages(kv, &locks, &record_prefix(collection), &mut |kv, page| self.check_records(kv, page, &mut check))?;
        let index_keys = [INDEX_ROLE, collection];
        pages(kv, &locks, &index_keys, &mut |kv, page| self.check_index_keys(kv, page, &mut check))?;
        Ok(check)
    }

    fn check_records(&mut self, kv: &mut (impl Kv + ?Sized), page: &Rows, check: &mut Check) -> Result<(), IndexError> {
        let mut unused = Vec::new();
        for (key, record) in page.iter() {
            let key = &key[RECORD_PREFIX_LEN..];
            check.records += 1;
            for index in 0..self.fields.indexes() {
                match self.fields.entry(index, key, record, &mut self.entry) {
                    Err(IndexError::Corrupt(what)) => {
                        check.unreadable += 1;
                        check.example.get_or_insert_with(|| format!("the record {}: {what}", key.escape_ascii()));
                        break;
                    }
                    other => other?,
                }
                index_key(&mut self.key, self.fields.collection, index as u8, &self.entry, key);
                if !kv.get(&self.key, &mut unused)? {
                    check.missing += 1;
                    let example = || format!("the record {} in index {index}", key.escape_ascii());
                    check.example.get_or_insert_with(example);
                }
            }
        }
        Ok(())
    }

    fn check_index_keys(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        page: &Rows,
        check: &mut Check,
    ) -> Result<(), IndexError> {
        let mut record = Vec::new();
        for (store_key, _) in page.iter() {
            check.index_keys += 1;
            if !self.has_record(kv, store_key, &mut record)? {
                check.dangling += 1;
                check.example.get_or_insert_with(|| format!("the index key {}", store_key.escape_ascii()));
            }
        }
        Ok(())
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
        if index >= self.fields.indexes() {
            return Ok(false);
        }
        let Some((entry, key)) = split_index_key(body, self.fields.width(index)) else { return Ok(false) };
        record_key(&mut self.key, self.fields.collection, key);
        if !kv.get(&self.key, record)? {
            return Ok(false);
        }
        match self.fields.entry(index, key, record, &mut self.entry) {
            Err(IndexError::Corrupt(_)) => Ok(true),
            other => other.map(|()| self.entry == entry),
        }
    }
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
    let mut page = Rows::default();
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
        if page.len() == 0 {
            return Ok(());
        }
        low.clear();
        low.extend_from_slice(page.key(page.len() - 1));
        low.push(0);
        work(kv, &page)?;
    }
}
