//! Answering queries.

use std::ops::ControlFlow;

use plimsoll_core::{Kv, Value};

use crate::IndexError;
use crate::encode::{self, raise_past};
use crate::indexes::{FETCH, Indexes};
use crate::keyspace::{INDEX_PREFIX_LEN, RECORD_PREFIX_LEN, index_prefix, record_prefix, split_index_key};

/// A question to one index: the values of its first field in a range. A buffer.
#[derive(Debug, Default)]
pub(crate) struct Query {
    index: usize,
    /// Encoded bounds of the entries, `low <= entry < high`; `high` empty where there is no bound.
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Query {
    /// Asks the index at position `index` for `low <= value < high`. Null lies in no range, and a bound of null
    /// bounds nothing.
    pub(crate) fn range(&mut self, index: usize, low: Value<'_>, high: Value<'_>) {
        self.index = index;
        self.low.clear();
        self.high.clear();
        match low {
            Value::Null => self.low.push(encode::ABOVE_NULL),
            low => encode::push(&mut self.low, low),
        }
        if high != Value::Null {
            encode::push(&mut self.high, high);
        }
    }
}

impl Indexes {
    /// Visits the key and the record of every match, once, in the order of the index (a record whose entry
    /// is changing, or left an index key behind in a crash, may stand at the older place). Returns their number.
    ///
    /// Store calls: one scan of the matching index keys and one get for each of them, whatever the number of
    /// records. Each record fetched is held against the query again, so a wrong one is never visited: not
    /// one changed meanwhile, and not one behind an index key that a crash has left.
    ///
    /// On a store whose scans are snapshots, it visits every record that matched during the whole call, whatever is
    /// written meanwhile. The keys of all matches are held in memory.
    pub(crate) fn find(
        &mut self,
        kv: &mut (impl Kv + ?Sized),
        query: &Query,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, IndexError> {
        self.collect(kv, query)?;
        let can = kv.capabilities();
        // Otherwise one scan shows one index key to a matching record.
        if !can.atomic_batch || !can.snapshot_scan {
            self.keep_first();
        }
        let (found, fields, entry) = (&self.found, &self.fields, &mut self.entry);
        let (mut matches, mut result) = (0, Ok(()));
        for base in (0..found.len()).step_by(FETCH) {
            let count = FETCH.min(found.len() - base);
            let mut keys = [&[][..]; FETCH];
            for (offset, key) in keys[..count].iter_mut().enumerate() {
                *key = found.key(base + offset);
            }
            kv.get_many(&keys[..count], &mut |offset, record| {
                if result.is_ok() {
                    let key = &found.key(base + offset)[RECORD_PREFIX_LEN..];
                    result = fields.entry(query.index, key, record, entry);
                    let is_within = query.low <= *entry && (query.high.is_empty() || *entry < query.high);
                    if result.is_ok() && is_within {
                        matches += 1;
                        visit(key, record);
                    }
                }
            })?;
            if result.is_err() {
                break;
            }
        }
        result.map(|()| matches)
    }

    /// Keeps the first index key of each record.
    fn keep_first(&mut self) {
        let (found, order) = (&mut self.found, &mut self.order);
        found.by_key(order);
        order.dedup_by(|later, first| found.key(*later) == found.key(*first));
        order.sort_unstable();
        found.keep(order);
    }

    /// Reads the index keys of the query into `self.found`, as the store keys of their records.
    fn collect(&mut self, kv: &mut (impl Kv + ?Sized), query: &Query) -> Result<(), IndexError> {
        let (collection, width) = (self.fields.collection, self.fields.width(query.index));
        let prefix = index_prefix(collection, query.index as u8);
        let (low, high, found) = (&mut self.key, &mut self.high, &mut self.found);
        found.clear();
        low.clear();
        low.extend_from_slice(&prefix);
        low.extend_from_slice(&query.low);
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
        kv.scan(low, bounded.then_some(high.as_slice()), &mut |index_key, _| {
            if let Some((_, key)) = split_index_key(&index_key[INDEX_PREFIX_LEN..], width) {
                found.push_with(
                    |bytes| {
                        bytes.extend_from_slice(&record_prefix(collection));
                        bytes.extend_from_slice(key);
                    },
                    |_| {},
                );
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}
