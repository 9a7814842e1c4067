//! Values that own what they hold: the rows of the reference store, and answers that have to be kept.

use std::cmp::Ordering;

use plimsoll_core::{Value, Values};

/// A value that owns what it holds. Ordered by type and then by value: texts by their bytes, floats by
/// IEEE 754's total order; null is least.
#[derive(Debug, Clone)]
pub enum Owned {
    /// No value.
    Null,
    /// See [`Value::Bool`].
    Bool(bool),
    /// See [`Value::Int`].
    Int(i64),
    /// See [`Value::Float`].
    Float(f64),
    /// See [`Value::Text`].
    Text(String),
    /// See [`Value::Bytes`].
    Bytes(Vec<u8>),
    /// See [`Value::Timestamp`].
    Timestamp(i64),
}

/// The values of one record.
pub type Row = Vec<Owned>;

impl Owned {
    /// The value, borrowed.
    pub fn value(&self) -> Value<'_> {
        match self {
            Owned::Null => Value::Null,
            Owned::Bool(value) => Value::Bool(*value),
            Owned::Int(value) => Value::Int(*value),
            Owned::Float(value) => Value::Float(*value),
            Owned::Text(value) => Value::Text(value),
            Owned::Bytes(value) => Value::Bytes(value),
            Owned::Timestamp(value) => Value::Timestamp(*value),
        }
    }

    /// True when `low <= self < high`; a null bound is open, and null itself never matches.
    pub fn is_within(&self, low: &Owned, high: &Owned) -> bool {
        let null = |value: &Owned| matches!(value, Owned::Null);
        !null(self) && (null(low) || self >= low) && (null(high) || self < high)
    }

    fn rank(&self) -> u8 {
        match self {
            Owned::Null => 0,
            Owned::Bool(_) => 1,
            Owned::Int(_) => 2,
            Owned::Float(_) => 3,
            Owned::Text(_) => 4,
            Owned::Bytes(_) => 5,
            Owned::Timestamp(_) => 6,
        }
    }
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Owned::Null,
            Value::Bool(value) => Owned::Bool(value),
            Value::Int(value) => Owned::Int(value),
            Value::Float(value) => Owned::Float(value),
            Value::Text(value) => Owned::Text(value.to_owned()),
            Value::Bytes(value) => Owned::Bytes(value.to_vec()),
            Value::Timestamp(value) => Owned::Timestamp(value),
        }
    }
}

impl Ord for Owned {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Owned::Bool(a), Owned::Bool(b)) => a.cmp(b),
            (Owned::Int(a), Owned::Int(b)) | (Owned::Timestamp(a), Owned::Timestamp(b)) => a.cmp(b),
            (Owned::Float(a), Owned::Float(b)) => a.total_cmp(b),
            (Owned::Text(a), Owned::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Owned::Bytes(a), Owned::Bytes(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Owned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Owned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Owned {}

/// Copies of all of `values`.
pub fn row(values: Values<'_>) -> Row {
    values.iter().map(Owned::from).collect()
}
