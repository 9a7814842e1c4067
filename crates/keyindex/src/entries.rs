//! Entries of a record in each index.

use plimsoll_core::Value;

use crate::IndexError;
use crate::encode;

/// An index of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexSpec {
    /// Values in an entry: more than one makes a composite index.
    pub width: usize,
    /// A record may have several entries, as a text has words, or none.
    pub multi: bool,
}

impl IndexSpec {
    /// An index whose entries have `width` values, one entry to a record.
    pub const fn new(width: usize) -> Self {
        IndexSpec { width, multi: false }
    }

    /// Permits any number of entries per record.
    #[must_use]
    pub const fn multi(self) -> Self {
        IndexSpec { multi: true, ..self }
    }
}

/// Extracts the index entries of records. Must be a pure function of key and record: the entries of an old version are
/// computed again to know which index keys to remove.
pub trait Extract {
    /// Adds the entries that the record has in the index at position `index`. An error means that these
    /// bytes are no record ([`IndexError::Corrupt`]).
    fn entries(&self, index: usize, key: &[u8], record: &[u8], entries: &mut Entries) -> Result<(), IndexError>;
}

impl<F: Fn(usize, &[u8], &[u8], &mut Entries) -> Result<(), IndexError>> Extract for F {
    fn entries(&self, index: usize, key: &[u8], record: &[u8], entries: &mut Entries) -> Result<(), IndexError> {
        self(index, key, record, entries)
    }
}

/// The encoded entries of one record in one index. A buffer: cleared and filled again for each.
#[derive(Debug, Default, Clone)]
pub struct Entries {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Entries {
    /// Adds an entry; what was added before is not added again.
    pub fn add(&mut self, values: &[Value<'_>]) {
        let start = self.bytes.len();
        for value in values {
            encode::push(&mut self.bytes, *value);
        }
        let (known, new) = self.bytes.split_at(start);
        let mut from = 0;
        for end in &self.ends {
            if known[from..*end] == *new {
                self.bytes.truncate(start);
                return;
            }
            from = *end;
        }
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let entry = &self.bytes[from..*end];
            from = *end;
            entry
        })
    }

    pub(crate) fn contains(&self, entry: &[u8]) -> bool {
        self.iter().any(|other| other == entry)
    }
}
