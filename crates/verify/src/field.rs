//! A value that is kept: bounds of questions, what a queried field holds, keys to be shown.

use std::cmp::Ordering;

use plimsoll_core::Value;

/// A value of its own memory. In order as [`Value::order`] says.
#[derive(Debug, Clone, Default)]
pub(crate) enum FieldValue {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Timestamp(i64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl FieldValue {
    pub fn of(value: Value<'_>) -> Self {
        match value {
            Value::Null => FieldValue::Null,
            Value::Bool(value) => FieldValue::Bool(value),
            Value::Int(value) => FieldValue::Int(value),
            Value::Float(value) => FieldValue::Float(value),
            Value::Timestamp(value) => FieldValue::Timestamp(value),
            Value::Text(value) => FieldValue::Text(value.into()),
            Value::Bytes(value) => FieldValue::Bytes(value.into()),
        }
    }

    pub fn value(&self) -> Value<'_> {
        match self {
            FieldValue::Null => Value::Null,
            FieldValue::Bool(value) => Value::Bool(*value),
            FieldValue::Int(value) => Value::Int(*value),
            FieldValue::Float(value) => Value::Float(*value),
            FieldValue::Timestamp(value) => Value::Timestamp(*value),
            FieldValue::Text(value) => Value::Text(value),
            FieldValue::Bytes(value) => Value::Bytes(value),
        }
    }
}

impl Ord for FieldValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value().order(other.value())
    }
}

impl PartialOrd for FieldValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FieldValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FieldValue {}
