//! Contents of records' states, if versions do not identify them or questions select by a field.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use plimsoll_core::{OwnedValue, Truth, ValueBuf, Version, Workload};

use crate::digest::digest;
use crate::log::{Row, Watch};

/// Queried values of each state, by its number.
pub(crate) struct Contents {
    workload: Arc<dyn Workload>,
    /// Rows are held against digests: versions do not vouch for contents.
    pub has_digests: bool,
    digests: Vec<u32>,
    columns: Vec<Column>,
    /// Room for the record that is looked at.
    row: ValueBuf,
}

/// A queried field.
struct Column {
    field: u16,
    values: Vec<OwnedValue>,
    /// Values that are not null, with the record and the number of the state.
    order: BTreeSet<(OwnedValue, u32, u32)>,
}

impl Contents {
    pub fn new(workload: Arc<dyn Workload>, watches: &[Watch]) -> Self {
        let has_digests = !workload.truth().is_some_and(Truth::sees_contents);
        let fields: BTreeSet<u16> = watches
            .iter()
            .filter_map(|watch| match watch {
                Watch::Find { field } => Some(*field),
                _ => None,
            })
            .collect();
        let column = |field| Column { field, values: Vec::new(), order: BTreeSet::new() };
        let columns = fields.into_iter().map(column).collect();
        Self { workload, has_digests, digests: Vec::new(), columns, row: ValueBuf::new() }
    }

    /// The state with this number is that of record `id` as the version with this stamp makes it.
    #[inline]
    pub fn hold(&mut self, number: u32, id: u32, stamp: i64) {
        if self.has_digests || !self.columns.is_empty() {
            self.hold_row(number, id, stamp);
        }
    }

    fn hold_row(&mut self, number: u32, id: u32, stamp: i64) {
        let mut row = std::mem::take(&mut self.row);
        let is_there = self.make(id, stamp, &mut row);
        let (place, values) = (number as usize, row.values());
        if self.has_digests {
            self.digests.resize(self.digests.len().max(place + 1), 0);
            self.digests[place] = digest(values);
        }
        for column in &mut self.columns {
            column.values.resize(column.values.len().max(place + 1), OwnedValue::Null);
            let value =
                if is_there { OwnedValue::from(values.get(usize::from(column.field))) } else { OwnedValue::Null };
            if !matches!(value, OwnedValue::Null) {
                column.order.insert((value.clone(), id, number));
            }
            column.values[place] = value;
        }
        self.row = row;
    }

    /// The state with this number is not known any more.
    #[inline]
    pub fn release(&mut self, number: u32, id: u32) {
        for column in &mut self.columns {
            let value = std::mem::take(&mut column.values[number as usize]);
            if !matches!(value, OwnedValue::Null) {
                column.order.remove(&(value, id, number));
            }
        }
    }

    /// Makes the row of a version; false for stamps of none.
    fn make(&self, id: u32, stamp: i64, row: &mut ValueBuf) -> bool {
        row.clear();
        let version = Version::from_stamp(stamp).zip(self.workload.truth());
        version.inspect(|(version, truth)| truth.row(u64::from(id), *version, row)).is_some()
    }

    /// Returns true if a row differs from the version that it claims to be. `number` is that of the version's state,
    /// where it is known.
    pub fn is_spoilt(&self, row: Row, number: Option<u32>) -> bool {
        let is = match number {
            Some(number) => self.digests[number as usize],
            None => {
                let mut values = ValueBuf::new();
                if !self.make(row.id, row.stamp, &mut values) {
                    return true;
                }
                digest(values.values())
            }
        };
        is != row.digest
    }

    /// Returns true if the field of the state with this number is within these bounds.
    pub fn matches(&self, number: u32, field: u16, [low, high]: &[OwnedValue; 2]) -> bool {
        let column = self.columns.iter().find(|column| column.field == field);
        let value = column.and_then(|column| column.values.get(number as usize));
        value.is_some_and(|value| value.value().lies_in(low.value(), high.value()))
    }

    /// The records with a state whose field is within these bounds, each once.
    pub fn matching(&self, field: u16, [low, high]: &[OwnedValue; 2]) -> Vec<u32> {
        let Some(column) = self.columns.iter().find(|column| column.field == field) else { return Vec::new() };
        let is_open = |bound: &OwnedValue| matches!(bound, OwnedValue::Null);
        if !is_open(low) && !is_open(high) && low >= high {
            return Vec::new();
        }
        let place = |bound: &OwnedValue| (bound.clone(), 0, 0);
        let from = if is_open(low) { Bound::Unbounded } else { Bound::Included(place(low)) };
        let to = if is_open(high) { Bound::Unbounded } else { Bound::Excluded(place(high)) };
        let mut records: Vec<u32> = column.order.range((from, to)).map(|(_, id, _)| *id).collect();
        records.sort_unstable();
        records.dedup();
        records
    }

    /// Values that are kept in order.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.columns.iter().map(|column| column.order.len()).sum()
    }
}
