//! A value that is kept: bounds of questions, what a queried field holds, keys to be shown.

use std::cmp::Ordering;

use plimsoll_core::Value;

/// A value of its own memory. In order as [`Value::order`] says.
#[derive(Debug, Clone, Default)]
pub(crate) enum Field {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Timestamp(i64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl Field {
    pub fn of(value: Value<'_>) -> Self {
        match value {
            Value::Null => Field::Null,
            Value::Bool(value) => Field::Bool(value),
            Value::Int(value) => Field::Int(value),
            Value::Float(value) => Field::Float(value),
            Value::Timestamp(value) => Field::Timestamp(value),
            Value::Text(value) => Field::Text(value.into()),
            Value::Bytes(value) => Field::Bytes(value.into()),
        }
    }

    pub fn value(&self) -> Value<'_> {
        match self {
            Field::Null => Value::Null,
            Field::Bool(value) => Value::Bool(*value),
            Field::Int(value) => Value::Int(*value),
            Field::Float(value) => Value::Float(*value),
            Field::Timestamp(value) => Value::Timestamp(*value),
            Field::Text(value) => Value::Text(value),
            Field::Bytes(value) => Value::Bytes(value),
        }
    }
}

impl Ord for Field {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value().order(other.value())
    }
}

impl PartialOrd for Field {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Field {}
