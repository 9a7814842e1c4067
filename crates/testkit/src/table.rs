//! The records of one collection in memory, with their indexes.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::{Collection, IndexMode};

use crate::owned::{Owned, Row};

/// A collection. Methods that break its rules exist for the store that lies.
#[derive(Debug, Default)]
pub(crate) struct ReferenceTable {
    key: usize,
    /// Fields that an index leads with.
    indexed: Vec<usize>,
    rows: BTreeMap<Owned, Row>,
    /// (field, its value, key of the record).
    index: BTreeSet<(usize, Owned, Owned)>,
    /// Each record before its last change.
    before: BTreeMap<Owned, Row>,
    /// Second copies of records, which scans come across.
    doubles: Vec<Row>,
}

impl ReferenceTable {
    pub fn new(collection: &Collection, mode: IndexMode) -> Self {
        let leading = |index: &plimsoll_core::Index| index.fields.first().map(|field| usize::from(*field));
        let indexed = match mode {
            IndexMode::None => Vec::new(),
            IndexMode::Own | IndexMode::Keyindex => collection.indexes.iter().filter_map(leading).collect(),
        };
        Self { key: usize::from(collection.key), indexed, ..Self::default() }
    }

    /// The key of a row.
    pub fn key_of(&self, row: &Row) -> Owned {
        row.get(self.key).cloned().unwrap_or(Owned::Null)
    }

    /// Position of the key among a record's fields.
    pub fn key_field(&self) -> usize {
        self.key
    }

    /// True when the field has an index.
    pub fn is_indexed(&self, field: usize) -> bool {
        self.indexed.contains(&field)
    }

    /// Inserts all rows, or none and says which key stands in the way.
    pub fn insert(&mut self, rows: &[Row]) -> Result<(), Owned> {
        let mut keys = BTreeSet::new();
        for row in rows {
            let key = self.key_of(row);
            if self.rows.contains_key(&key) || !keys.insert(key.clone()) {
                return Err(key);
            }
        }
        rows.iter().for_each(|row| self.put(row));
        Ok(())
    }

    pub fn get(&self, key: &Owned) -> Option<&Row> {
        self.rows.get(key)
    }

    /// Returns the record before its last change.
    pub fn before(&self, key: &Owned) -> Option<&Row> {
        self.before.get(key)
    }

    /// Sets some fields; false when there is no such record.
    pub fn update(&mut self, key: &Owned, fields: &[u16], values: &[Owned]) -> bool {
        let Some(row) = self.rows.get(key) else { return false };
        let mut changed = row.clone();
        for (field, value) in fields.iter().zip(values) {
            changed[usize::from(*field)] = value.clone();
        }
        self.put(&changed);
        true
    }

    /// Removes a record; false when there is none.
    pub fn delete(&mut self, key: &Owned) -> bool {
        let Some(row) = self.rows.remove(key) else { return false };
        self.unlink(&row);
        self.before.insert(key.clone(), row);
        true
    }

    /// Stores a record, in place of any earlier one.
    pub fn put(&mut self, row: &Row) {
        let key = self.key_of(row);
        for field in &self.indexed {
            self.index.insert((*field, row[*field].clone(), key.clone()));
        }
        if let Some(old) = self.rows.insert(key.clone(), row.clone()) {
            let stays = |field: &usize| old[*field] == row[*field];
            for field in self.indexed.iter().filter(|field| !stays(field)) {
                self.index.remove(&(*field, old[*field].clone(), key.clone()));
            }
            self.before.insert(key, old);
        }
    }

    /// Removes a record's index entries, and leaves the record.
    pub fn unlink(&mut self, row: &Row) {
        let key = self.key_of(row);
        for field in &self.indexed {
            self.index.remove(&(*field, row[*field].clone(), key.clone()));
        }
    }

    /// Keeps a second copy of a record.
    pub fn double(&mut self, row: Row) {
        self.doubles.push(row);
    }

    /// Iterates over all records.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().chain(&self.doubles)
    }

    /// The records that match, by reading all of them.
    pub fn scan(&self, field: usize, low: &Owned, high: &Owned) -> impl Iterator<Item = &Row> {
        self.all().filter(move |row| row[field].value().lies_in(low.value(), high.value()))
    }

    /// The records that match, by the field's index.
    pub fn by_index(&self, field: usize, low: &Owned, high: &Owned) -> impl Iterator<Item = &Row> {
        let first = (field, low.clone(), Owned::Null);
        let within = move |(of, value, _): &&(usize, Owned, Owned)| {
            *of == field && (matches!(high, Owned::Null) || value < high)
        };
        let matching = self.index.range(first..).take_while(within);
        matching.filter(|(_, value, _)| !matches!(value, Owned::Null)).filter_map(|(.., key)| self.rows.get(key))
    }

    /// Bytes of the records' values, and of the index's.
    pub fn bytes(&self) -> (u64, u64) {
        let size = |value: &Owned| match value {
            Owned::Text(text) => text.len() as u64,
            Owned::Bytes(bytes) => bytes.len() as u64,
            _ => 8,
        };
        let data = self.all().flatten().map(size).sum();
        (data, self.index.iter().map(|(_, value, key)| size(value) + size(key)).sum())
    }
}
