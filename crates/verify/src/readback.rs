//! Contents of the store at the end: all its records, and the answer of its index.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::{Answer, Call, OpKind, RecordsCall, Truth, ValueBuf, Values, Version, Workload};

use crate::digest::digest;
use crate::log::{ALIEN, NO_STAMP, Row};
use crate::witness::record_number;
use crate::words::shown;

/// Alien keys that are kept to be shown.
const ALIENS_KEPT: usize = 8;

/// All records of a store, read back while nothing writes.
pub struct ReadBack {
    workload: Arc<dyn Workload>,
    key: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) aliens: Vec<String>,
    pub(crate) index: Option<IndexAnswer>,
    pub(crate) gap: Option<String>,
    /// Records that were read and found absent, in order; `None` if every record without a row is absent.
    pub(crate) absent: Option<Vec<u32>>,
}

/// Answer of the index, beside the records themselves.
pub(crate) struct IndexAnswer {
    field: usize,
    bounds: ValueBuf,
    /// The records that matched when they were read, with what they were.
    pub by_record: BTreeMap<u32, Row>,
    /// The records that the index gave, and whether they match as it gave them.
    pub by_index: Vec<(Row, bool)>,
}

impl ReadBack {
    /// An empty one.
    pub fn new(workload: Arc<dyn Workload>) -> Self {
        Self::of_rows(workload, Vec::new())
    }

    /// Makes the result for a store that could not be read; `why` is the reason, in a few words.
    pub fn unreadable(workload: Arc<dyn Workload>, why: &str) -> Self {
        Self { gap: Some(format!("what the store holds could not be read: {why}")), ..Self::new(workload) }
    }

    pub(crate) fn of_rows(workload: Arc<dyn Workload>, rows: Vec<Row>) -> Self {
        let key = key_position(&*workload);
        Self { workload, key, rows, aliens: Vec::new(), index: None, gap: None, absent: None }
    }

    /// Makes the result of reading key by key. Records in neither `rows` nor `absent` could not be read.
    pub(crate) fn of_keys(workload: Arc<dyn Workload>, rows: Vec<Row>, mut absent: Vec<u32>) -> Self {
        absent.sort_unstable();
        Self { absent: Some(absent), ..Self::of_rows(workload, rows) }
    }

    /// Returns true if the reading of a record without a row was answered.
    pub(crate) fn is_absent(&self, id: u32) -> bool {
        self.absent.as_ref().is_none_or(|absent| absent.binary_search(&id).is_ok())
    }

    /// Announces that `kind`, a find, will be asked through the index with `params`, so that records can be
    /// held against its answer. To be called before any records are added; false when `kind` is no find.
    pub fn expect_index(&mut self, kind: &OpKind, params: Values<'_>) -> bool {
        let Call::Records { call: RecordsCall::Find { field, .. }, .. } = kind.call else { return false };
        let mut bounds = ValueBuf::new();
        bounds.extend(params);
        let field = usize::from(field);
        self.index = Some(IndexAnswer { field, bounds, by_record: BTreeMap::new(), by_index: Vec::new() });
        true
    }

    /// Adds records that the store gave when asked for all of them.
    pub fn add_records(&mut self, answer: &Answer) {
        for values in answer.row_iter() {
            let row = self.row(values);
            if let Some(index) = &mut self.index {
                let bounds = index.bounds.values();
                if row.id != ALIEN && values.get(index.field).lies_in(bounds.get(0), bounds.get(1)) {
                    index.by_record.insert(row.id, row);
                }
            }
            self.rows.push(row);
        }
    }

    /// Adds records that the store gave when asked through its index.
    pub fn add_index_records(&mut self, answer: &Answer) {
        for values in answer.row_iter() {
            let row = self.row(values);
            if let Some(index) = &mut self.index {
                let bounds = index.bounds.values();
                index.by_index.push((row, values.get(index.field).lies_in(bounds.get(0), bounds.get(1))));
            }
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn row(&mut self, values: Values<'_>) -> Row {
        let key = values.get(self.key);
        let truth: Option<&dyn Truth> = self.workload.truth();
        let id = truth.map_or(ALIEN, |truth| record_number(truth, key));
        if id == ALIEN && self.aliens.len() < ALIENS_KEPT {
            self.aliens.push(shown(key));
        }
        let stamp = truth.and_then(|truth| truth.version(values)).map_or(NO_STAMP, Version::stamp);
        Row { id, digest: digest(values), stamp }
    }
}

/// Position of the value that names a record, in a row.
pub(crate) fn key_position(workload: &dyn Workload) -> usize {
    workload.layout().collections.first().map_or(0, |collection| usize::from(collection.key))
}
