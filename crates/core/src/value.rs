//! Values of operations and answers, and the buffer that holds them.
//!
//! A worker writes an operation's parameters into its own [`ValueBuf`] and clears that before the next operation, so
//! that nothing is allocated per operation once the buffer has grown.

use std::cmp::Ordering;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The type of a field or a parameter. The types are ordered as their values are in [`Value::order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueType {
    /// True or false.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An IEEE 754 double.
    Float,
    /// Microseconds since 1970-01-01 00:00 UTC.
    Timestamp,
    /// UTF-8 text.
    Text,
    /// Any bytes.
    Bytes,
}

impl ValueType {
    /// True if [`Value::with_bytes`] has bytes for values of this type.
    pub fn has_bytes(&self) -> bool {
        matches!(self, ValueType::Bytes | ValueType::Text | ValueType::Int)
    }
}

/// A value, borrowed from its buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// No value. As a bound of a range: unbounded.
    Null,
    /// See [`ValueType::Bool`].
    Bool(bool),
    /// See [`ValueType::Int`].
    Int(i64),
    /// See [`ValueType::Float`].
    Float(f64),
    /// See [`ValueType::Text`].
    Text(&'a str),
    /// See [`ValueType::Bytes`].
    Bytes(&'a [u8]),
    /// See [`ValueType::Timestamp`].
    Timestamp(i64),
}

impl Value<'_> {
    /// The type of the value; `None` for null, which is of every type.
    pub fn value_type(&self) -> Option<ValueType> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(_) => ValueType::Bool,
            Value::Int(_) => ValueType::Int,
            Value::Float(_) => ValueType::Float,
            Value::Text(_) => ValueType::Text,
            Value::Bytes(_) => ValueType::Bytes,
            Value::Timestamp(_) => ValueType::Timestamp,
        })
    }

    /// Compares values: null, false, true, integers, floats, timestamps, texts, bytes; within a type by value, texts
    /// by their bytes. All NaN are equal, above every other float; the two zeros are equal too.
    pub fn order(self, other: Value<'_>) -> Ordering {
        let plain = |value: f64| if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
        let rank = |value: Value<'_>| value.value_type().map(|value_type| value_type as u8);
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
            (Value::Int(a), Value::Int(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
            (Value::Float(a), Value::Float(b)) => plain(a).total_cmp(&plain(b)),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }

    /// Passes the value as bytes to `take`, for protocols that only know bytes: a text's, or the digits of an
    /// integer. Null and values of other types have none ([`ValueType::has_bytes`]).
    #[inline]
    pub fn with_bytes<T>(self, take: impl FnOnce(&[u8]) -> T) -> T {
        let mut digits = itoa::Buffer::new();
        take(match self {
            Value::Bytes(bytes) => bytes,
            Value::Text(text) => text.as_bytes(),
            Value::Int(number) => digits.format(number).as_bytes(),
            _ => &[],
        })
    }

    /// True if a value that is not null is at least `low` and less than `high`; a null bound is unbounded.
    pub fn lies_in(self, low: Value<'_>, high: Value<'_>) -> bool {
        self != Value::Null
            && (low == Value::Null || low.order(self).is_le())
            && (high == Value::Null || self.order(high).is_lt())
    }
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Timestamp(i64),
    Text(u32, u32),
    Bytes(u32, u32),
}

/// A growable list of values whose texts and bytes share two arenas.
///
/// Holds at most 4 GiB of text and 4 GiB of bytes; more is a bug in the caller and panics.
#[derive(Debug, Default, Clone)]
pub struct ValueBuf {
    slots: Vec<Slot>,
    text: String,
    bytes: Vec<u8>,
    record: Option<u64>,
}

impl ValueBuf {
    /// An empty buffer that has allocated nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty buffer with room for `values` values and `text_bytes` bytes of text.
    pub fn with_capacity(values: usize, text_bytes: usize) -> Self {
        Self { slots: Vec::with_capacity(values), text: String::with_capacity(text_bytes), ..Self::default() }
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.text.clear();
        self.bytes.clear();
        self.record = None;
    }

    /// Notes that the values name the record with this number, so that readers need not tell it from the key.
    #[inline]
    pub fn name_record(&mut self, id: u64) {
        self.record = Some(id);
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Appends a copy of `value`.
    pub fn push(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.slots.push(Slot::Null),
            Value::Bool(v) => self.slots.push(Slot::Bool(v)),
            Value::Int(v) => self.slots.push(Slot::Int(v)),
            Value::Float(v) => self.slots.push(Slot::Float(v)),
            Value::Timestamp(v) => self.slots.push(Slot::Timestamp(v)),
            Value::Text(v) => self.push_text_with(|text| text.push_str(v)),
            Value::Bytes(v) => self.push_bytes_with(|bytes| bytes.extend_from_slice(v)),
        }
    }

    /// Appends a text that `write` appends to the arena, without a temporary.
    pub fn push_text_with(&mut self, write: impl FnOnce(&mut String)) {
        let start = arena_offset(self.text.len());
        write(&mut self.text);
        self.slots.push(Slot::Text(start, arena_offset(self.text.len())));
    }

    /// Appends bytes that `write` appends to the arena, without a temporary.
    pub fn push_bytes_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = arena_offset(self.bytes.len());
        write(&mut self.bytes);
        self.slots.push(Slot::Bytes(start, arena_offset(self.bytes.len())));
    }

    /// Appends copies of all of `values`.
    pub fn extend(&mut self, values: Values<'_>) {
        for value in values.iter() {
            self.push(value);
        }
    }

    /// All values, borrowed.
    #[inline]
    pub fn values(&self) -> Values<'_> {
        Values { buf: self, start: 0, end: self.slots.len() }
    }
}

impl ValueBuf {
    #[inline]
    fn resolve(&self, slot: Slot) -> Value<'_> {
        match slot {
            Slot::Null => Value::Null,
            Slot::Bool(v) => Value::Bool(v),
            Slot::Int(v) => Value::Int(v),
            Slot::Float(v) => Value::Float(v),
            Slot::Timestamp(v) => Value::Timestamp(v),
            Slot::Text(start, end) => Value::Text(&self.text[start as usize..end as usize]),
            Slot::Bytes(start, end) => Value::Bytes(&self.bytes[start as usize..end as usize]),
        }
    }
}

fn arena_offset(len: usize) -> u32 {
    u32::try_from(len).expect("a value buffer holds at most 4 GiB")
}

static EMPTY: ValueBuf = ValueBuf { slots: Vec::new(), text: String::new(), bytes: Vec::new(), record: None };

/// A borrowed list of values.
// The buffer and a range, not the buffer's slices: an operation carries this to its store, and three words are
// created and copied faster than six that have just been written.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    buf: &'a ValueBuf,
    start: usize,
    end: usize,
}

impl Default for Values<'_> {
    fn default() -> Self {
        EMPTY.values()
    }
}

impl std::fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Values<'a> {
    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// True when there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Number of the record that these values name, if their writer noted it: [`ValueBuf::name_record`].
    #[inline]
    pub fn record(&self) -> Option<u64> {
        // Not of a part: a buffer may hold several records, and its name is that of the last.
        if self.start == 0 && self.end == self.buf.slots.len() { self.buf.record } else { None }
    }

    /// The value at `index`; null if there is none.
    #[inline]
    pub fn get(&self, index: usize) -> Value<'a> {
        self.slots().get(index).map_or(Value::Null, |slot| self.buf.resolve(*slot))
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + use<'a> {
        let buf = self.buf;
        self.slots().iter().map(move |slot| buf.resolve(*slot))
    }

    /// The values of `range`, clamped to the length.
    pub fn slice(&self, range: Range<usize>) -> Values<'a> {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        Values { buf: self.buf, start: self.start + start, end: self.start + end }
    }

    /// The values in rows of `columns` each.
    pub fn rows(&self, columns: usize) -> impl ExactSizeIterator<Item = Values<'a>> + use<'a> {
        let (all, columns) = (*self, columns.max(1));
        (0..self.len().div_ceil(columns)).map(move |row| all.slice(row * columns..(row + 1) * columns))
    }

    #[inline]
    fn slots(&self) -> &'a [Slot] {
        &self.buf.slots[self.start..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_take_a_minus_zero_for_a_zero_and_all_nans_for_one() {
        let float = Value::Float;
        assert!(float(-0.0).lies_in(float(0.0), Value::Null), "every store gives -0.0 for 0.0 <= x");
        assert!(!float(-0.0).lies_in(Value::Null, float(0.0)));
        assert!(!float(-f64::NAN).lies_in(Value::Null, float(0.0)), "a NaN is above every other float");
        assert!(float(f64::NEG_INFINITY).lies_in(Value::Null, float(0.0)));
    }

    #[test]
    fn numbers_are_decimal_where_only_bytes_are_known() {
        for number in [0, 7, -1, i64::MAX, i64::MIN] {
            assert_eq!(Value::Int(number).with_bytes(<[u8]>::to_vec), number.to_string().as_bytes());
        }
        assert_eq!(Value::Text("ä").with_bytes(<[u8]>::len) + Value::Bytes(b"b").with_bytes(<[u8]>::len), 3);
        assert!(Value::Null.with_bytes(<[u8]>::is_empty) && Value::Float(1.0).with_bytes(<[u8]>::is_empty));
    }

    #[test]
    fn values_come_back_as_they_were_pushed() {
        let mut buf = ValueBuf::new();
        let all = [
            Value::Null,
            Value::Bool(true),
            Value::Int(-7),
            Value::Float(0.5),
            Value::Text("käse"),
            Value::Bytes(b"\x00\xff"),
            Value::Timestamp(9),
            Value::Text(""),
        ];
        for value in all {
            buf.push(value);
        }
        assert_eq!(buf.values().iter().collect::<Vec<_>>(), all);
        assert_eq!(buf.values().slice(4..6).get(0), Value::Text("käse"));
        assert_eq!(buf.values().get(99), Value::Null);
        assert_eq!(buf.values().rows(4).map(|row| row.get(0)).collect::<Vec<_>>(), [Value::Null, Value::Text("käse")]);
        buf.name_record(7);
        assert_eq!((buf.values().record(), buf.values().slice(1..2).record()), (Some(7), None));
        buf.clear();
        assert!(buf.is_empty() && buf.values().record().is_none());
    }
}
