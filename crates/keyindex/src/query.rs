//! Queries of an index.

use std::ops::Bound;

use plimsoll_core::Value;

use crate::encode;

/// A question to one index: values that the first fields equal, then at most one range or beginning.
///
/// What follows a range or beginning has no meaning in an order of keys, and panics.
///
/// A buffer: [`Query::reset`] makes another question of it without allocating.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pub(crate) index: usize,
    /// Encoded bounds of the entries, `low <= entry < high`; `high` empty where there is no bound.
    pub(crate) low: Vec<u8>,
    pub(crate) high: Vec<u8>,
    /// A range or beginning has been given: nothing can follow it.
    ended: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<Cursor>,
}

/// Position at which a limited query stopped. Its bytes may be kept and made a cursor of the same query again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(crate) Vec<u8>);

impl Cursor {
    /// The cursor as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A cursor from [`Cursor::as_bytes`].
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Cursor(bytes)
    }
}

impl Query {
    /// Every entry of the index at position `index`.
    pub fn on(index: usize) -> Self {
        Query { index, ..Query::default() }
    }

    /// Forgets all and asks for every entry of the index at position `index`.
    pub fn reset(&mut self, index: usize) {
        self.index = index;
        self.low.clear();
        self.high.clear();
        self.ended = false;
        self.limit = None;
        self.after = None;
    }

    /// The next field equals `value`; null equals null.
    #[must_use]
    pub fn equal(mut self, value: Value<'_>) -> Self {
        self.and_equal(value);
        self
    }

    /// The next field lies in a range. Null lies in none, and a bound of null bounds nothing: it is
    /// [`Bound::Unbounded`], as in `Find` of the `records` interface. To ask for nulls, say that the field equals null.
    #[must_use]
    pub fn range(mut self, low: Bound<Value<'_>>, high: Bound<Value<'_>>) -> Self {
        self.and_range(low, high);
        self
    }

    /// The next field is a text (or bytes) that begins with `value`; with a value of another type, null too, it equals it.
    #[must_use]
    pub fn prefix(mut self, value: Value<'_>) -> Self {
        self.next_field();
        encode::push_beginning(&mut self.low, value);
        self.close();
        self.ended = true;
        self
    }

    /// Limits the result to `limit` records.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Goes on where an earlier call with the same bounds stopped.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Adds a condition as [`Query::equal`], in place.
    pub fn and_equal(&mut self, value: Value<'_>) {
        self.next_field();
        encode::push(&mut self.low, value);
        self.close();
    }

    /// Adds a condition as [`Query::range`], in place.
    pub fn and_range(&mut self, low: Bound<Value<'_>>, high: Bound<Value<'_>>) {
        self.next_field();
        self.ended = true;
        self.high.clear();
        self.high.extend_from_slice(&self.low);
        let bound = |bound| match bound {
            Bound::Included(Value::Null) | Bound::Excluded(Value::Null) => Bound::Unbounded,
            other => other,
        };
        match bound(low) {
            Bound::Included(value) => encode::push(&mut self.low, value),
            Bound::Excluded(value) => {
                encode::push(&mut self.low, value);
                encode::raise_past(&mut self.low);
            }
            Bound::Unbounded => self.low.push(encode::ABOVE_NULL),
        }
        match bound(high) {
            Bound::Included(value) => {
                encode::push(&mut self.high, value);
                encode::raise_past(&mut self.high);
            }
            Bound::Excluded(value) => encode::push(&mut self.high, value),
            Bound::Unbounded => {
                encode::raise_past(&mut self.high);
            }
        }
    }

    fn next_field(&self) {
        assert!(!self.ended, "a range or beginning is the last part of a query");
    }

    /// Restricts the query to values with the prefix `low`.
    fn close(&mut self) {
        self.high.clear();
        self.high.extend_from_slice(&self.low);
        encode::raise_past(&mut self.high);
    }

    /// True when `entry` lies within the bounds.
    pub(crate) fn admits(&self, entry: &[u8]) -> bool {
        self.low.as_slice() <= entry && (self.high.is_empty() || entry < self.high.as_slice())
    }
}
