//! What the store holds when everything is over: all its records, and the answer of its index.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::{
    Answer, Call, KindId, OpKind, Outcome, RecordsCall, Stream, Truth, ValueBuf, Values, Version, Workload,
};

use crate::digest::digest;
use crate::old::answers::within;
use crate::old::history::History;
use crate::old::ledger::key_position;
use crate::old::log::{ALIEN, NO_STAMP, Part, Row};
use crate::old::witness::record_number;
use crate::old::words::shown;

/// Alien keys that are kept to be shown.
const ALIENS_KEPT: usize = 8;

/// All records of a store, read back while nothing writes.
pub struct ReadBack {
    workload: Arc<dyn Workload>,
    key: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) aliens: Vec<String>,
    pub(crate) index: Option<IndexAnswer>,
}

/// What the index says, beside what the records themselves say.
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
    ///
    pub fn new(workload: Arc<dyn Workload>) -> Self {
        let key = key_position(&*workload);
        Self { workload, key, rows: Vec::new(), aliens: Vec::new(), index: None }
    }

    /// What `phase` read key by key, with observers of [`crate::old::Ledger::observers_reading_back`].
    pub fn of_phase(history: &History, phase: u16) -> Self {
        let mut found = Self::new(Arc::clone(&history.workload));
        for part in history.parts.iter().filter(|part| part.reads_back) {
            let events = part.events.iter().filter(|event| event.phase == phase && event.id != ALIEN);
            found.rows.extend(events.filter(|event| event.outcome == Outcome::Ok).filter_map(Part::value_of));
        }
        found
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
                if row.id != ALIEN && within(values.get(index.field), bounds.get(0), bounds.get(1)) {
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
                index.by_index.push((row, within(values.get(index.field), bounds.get(0), bounds.get(1))));
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
