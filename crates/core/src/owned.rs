//! Values that are kept: bounds of questions, contents of fields, keys.

use std::cmp::Ordering;

use crate::Value;

/// A value that owns its contents. Ordered by [`Value::order`].
#[derive(Debug, Clone, Default)]
pub enum OwnedValue {
    /// No value.
    #[default]
    Null,
    /// See [`Value::Bool`].
    Bool(bool),
    /// See [`Value::Int`].
    Int(i64),
    /// See [`Value::Float`].
    Float(f64),
    /// See [`Value::Timestamp`].
    Timestamp(i64),
    /// See [`Value::Text`].
    Text(Box<str>),
    /// See [`Value::Bytes`].
    Bytes(Box<[u8]>),
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => OwnedValue::Null,
            Value::Bool(value) => OwnedValue::Bool(value),
            Value::Int(value) => OwnedValue::Int(value),
            Value::Float(value) => OwnedValue::Float(value),
            Value::Timestamp(value) => OwnedValue::Timestamp(value),
            Value::Text(value) => OwnedValue::Text(value.into()),
            Value::Bytes(value) => OwnedValue::Bytes(value.into()),
        }
    }
}

impl OwnedValue {
    /// The value, borrowed.
    pub fn value(&self) -> Value<'_> {
        match self {
            OwnedValue::Null => Value::Null,
            OwnedValue::Bool(value) => Value::Bool(*value),
            OwnedValue::Int(value) => Value::Int(*value),
            OwnedValue::Float(value) => Value::Float(*value),
            OwnedValue::Timestamp(value) => Value::Timestamp(*value),
            OwnedValue::Text(value) => Value::Text(value),
            OwnedValue::Bytes(value) => Value::Bytes(value),
        }
    }
}

impl Ord for OwnedValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value().order(other.value())
    }
}

impl PartialOrd for OwnedValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OwnedValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OwnedValue {}
