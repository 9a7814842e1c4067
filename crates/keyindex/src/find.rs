//! Answering queries.

use std::ops::ControlFlow;

use plimsoll_core::Kv;

use crate::encode::raise_past;
use crate::entries::Extract;
use crate::indexes::Indexes;
use crate::keyspace::{INDEX_PREFIX_LEN, RECORD_PREFIX_LEN, index_prefix, record_prefix, split_index_key};
use crate::query::{Cursor, Query};
use crate::{Entries, IndexError, Rows};

/// Keys fetched by one [`Kv::get_many`]; their references stand on the stack.
pub(crate) const FETCH: usize = 64;
/// Most entries that a limited query reads at a time.
const PAGE: usize = 1024;

/// Result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Records that matched and were visited.
    pub matches: u64,
    /// Cursor for the next page; `None` after the last page, or for a query without limit. A full page that happens to
    /// be the last one has a cursor too, which leads to an empty page.
    pub next: Option<Cursor>,
}

/// Index keys read and not yet followed, a buffer: entries, and the store keys of their records.
#[derive(Debug, Default)]
pub(crate) struct KeyBatch {
    rows: Rows,
    order: Vec<usize>,
}

impl KeyBatch {
    fn store_key(&self, position: usize) -> &[u8] {
        self.rows.record(position)
    }

    /// The record's own key.
    fn key(&self, position: usize) -> &[u8] {
        &self.store_key(position)[RECORD_PREFIX_LEN..]
    }

    /// Keeps the first entry of each record.
    fn keep_first(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..self.rows.len());
        order.sort_unstable_by(|a, b| self.store_key(*a).cmp(self.store_key(*b)).then(a.cmp(b)));
        order.dedup_by(|later, first| self.store_key(*later) == self.store_key(*first));
        order.sort_unstable();
        self.rows.keep(&order);
        self.order = order;
    }

    /// Fetches the records and visits those that are there, in order, until `visit` fails.
    fn fetch(
        &self,
        kv: &mut (impl Kv + ?Sized),
        visit: &mut dyn FnMut(usize, &[u8]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut result = Ok(());
        for base in (0..self.rows.len()).step_by(FETCH) {
            let count = FETCH.min(self.rows.len() - base);
            let mut keys = [&[][..]; FETCH];
            for (offset, key) in keys[..count].iter_mut().enumerate() {
                *key = self.store_key(base + offset);
            }
            kv.get_many(&keys[..count], &mut |offset, record| {
                if result.is_ok() {
                    result = visit(base + offset, record);
                }
            })?;
            if result.is_err() {
                break;
            }
        }
        result
    }
}

impl<X: Extract> Indexes<X> {
    /// Visits the key and the record of every match, once, in the order of the index (a record whose entry
    /// is changing, or left an index key behind in a crash, may stand at the older place).
    ///
    /// Store calls: one scan of the matching index keys and one get for each of them, whatever the number of
    /// records. Each record fetched is held against the query again, so a wrong one is never visited: not
    /// one changed meanwhile, and not one behind an index key that a crash has left.
    ///
    /// Without a limit, and on a store whose scans are snapshots, it visits every record that matched during
    /// the whole call, whatever is written meanwhile; the keys of all matches are held in memory. With a limit it holds
    /// at most 1,024, and records that change their entry while pages are read may be missed.
    pub fn find(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Page, IndexError> {
        if query.limit.is_some() {
            return self.find_page(kv, query, visit);
        }
        self.collect(kv, query, None, usize::MAX)?;
        if !self.one_key_to_a_record(kv, query) {
            self.found.keep_first();
        }
        let (found, extract, entries) = (&self.found, &self.extract, &mut self.entries);
        let mut matches = 0;
        found.fetch(kv, &mut |position, record| {
            if first_admitted(extract, query, found.key(position), record, entries)?.is_some() {
                matches += 1;
                visit(found.key(position), record);
            }
            Ok(())
        })?;
        Ok(Page { matches, next: None })
    }

    /// Visits the key of every match, once, in the order of the index.
    ///
    /// Where batches are atomic the index is right by itself and no record is fetched, unless the query has a limit and
    /// records have several entries. Elsewhere it is [`Indexes::find`].
    pub fn find_keys(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Page, IndexError> {
        if self.one_key_to_a_record(kv, query) {
            return self.stream_keys(kv, query, visit);
        }
        if query.limit.is_some() || !kv.capabilities().atomic_batch {
            return self.find(kv, query, &mut |key, _| visit(key));
        }
        self.collect(kv, query, None, usize::MAX)?;
        self.found.keep_first();
        for position in 0..self.found.rows.len() {
            visit(self.found.key(position));
        }
        Ok(Page { matches: self.found.rows.len() as u64, next: None })
    }

    /// Number of records that match; reads what [`Indexes::find_keys`] reads.
    pub fn count(&mut self, kv: &mut (impl Kv + ?Sized), query: &Query) -> Result<u64, IndexError> {
        Ok(self.find_keys(kv, query, &mut |_| {})?.matches)
    }

    /// True when one scan shows one index key to a matching record, and none without a record.
    fn one_key_to_a_record(&self, kv: &(impl Kv + ?Sized), query: &Query) -> bool {
        let can = kv.capabilities();
        can.atomic_batch && can.snapshot_scan && !self.specs[query.index].multi
    }

    fn find_page(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Page, IndexError> {
        let limit = query.limit.unwrap_or(usize::MAX) as u64;
        let mut page = Page { matches: 0, next: query.after.clone() };
        while page.matches < limit {
            let wanted = PAGE.min((limit - page.matches) as usize);
            let next = self.collect(kv, query, page.next.as_ref(), wanted)?;
            let (found, extract, entries) = (&self.found, &self.extract, &mut self.entries);
            found.fetch(kv, &mut |position, record| {
                // Of a record's entries in the range the first one counts, and it must be the record's own: so a
                // record comes once over all pages without remembering which have been.
                let first = first_admitted(extract, query, found.key(position), record, entries)?;
                if first == Some(found.rows.key(position)) {
                    page.matches += 1;
                    visit(found.key(position), record);
                }
                Ok(())
            })?;
            page.next = next;
            if page.next.is_none() {
                break;
            }
        }
        Ok(page)
    }

    fn stream_keys(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Page, IndexError> {
        let limit = query.limit.map_or(u64::MAX, |limit| limit as u64);
        let mut page = Page { matches: 0, next: query.after.clone() };
        if limit == 0 {
            return Ok(page);
        }
        page.next = None;
        let width = self.specs[query.index].width;
        self.scan_bounds(kv, query, query.after.as_ref(), &mut |body| {
            if let Some((_, key)) = split_index_key(body, width) {
                visit(key);
                page.matches += 1;
                if page.matches == limit {
                    page.next = Some(Cursor(body.to_vec()));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(page)
    }

    /// Reads at most `most` index keys of the query after `after` into `self.found`; where to go on, if there were as many.
    fn collect(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Cursor>, IndexError> {
        let mut found = std::mem::take(&mut self.found);
        found.rows.clear();
        let (collection, width) = (self.collection, self.specs[query.index].width);
        let (mut left, mut next) = (most, None);
        let scanned = self.scan_bounds(kv, query, after, &mut |body| {
            if let Some((entry, key)) = split_index_key(body, width) {
                found.rows.push_with(
                    |bytes| bytes.extend_from_slice(entry),
                    |bytes| {
                        bytes.extend_from_slice(&record_prefix(collection));
                        bytes.extend_from_slice(key);
                    },
                );
            }
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            next = Some(Cursor(body.to_vec()));
            ControlFlow::Break(())
        });
        self.found = found;
        scanned.map(|()| next)
    }

    /// Scans the index keys of the query after `after`; `visit` gets what follows the index's prefix.
    fn scan_bounds(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        after: Option<&Cursor>,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let prefix = index_prefix(self.collection, query.index as u8);
        let low = &mut self.key;
        low.clear();
        low.extend_from_slice(&prefix);
        match after {
            Some(cursor) if cursor.0 >= query.low => {
                low.extend_from_slice(&cursor.0);
                low.push(0);
            }
            _ => low.extend_from_slice(&query.low),
        }
        let high = &mut self.high;
        high.clear();
        high.extend_from_slice(&prefix);
        let bounded = if query.high.is_empty() {
            raise_past(high)
        } else {
            high.extend_from_slice(&query.high);
            true
        };
        if bounded && *low >= *high {
            return Ok(());
        }
        kv.scan(low, bounded.then_some(high.as_slice()), &mut |key, _| visit(&key[INDEX_PREFIX_LEN..]))?;
        Ok(())
    }
}

/// The lowest of a record's entries that the query admits.
fn first_admitted<'a>(
    extract: &impl Extract,
    query: &Query,
    key: &[u8],
    record: &[u8],
    entries: &'a mut Entries,
) -> Result<Option<&'a [u8]>, IndexError> {
    entries.clear();
    extract.entries(query.index, key, record, entries)?;
    Ok(entries.iter().filter(|entry| query.admits(entry)).min())
}
