//! A value that is kept: bounds of questions, what a queried field holds, keys to be shown.

use std::cmp::Ordering;

use plimsoll_core::Value;

/// A value of its own memory. In order as [`compare`] says.
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
        compare(self.value(), other.value())
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

/// True when `low <= value < high`; a null bound is open, and a null value never matches.
pub(crate) fn within(value: Value<'_>, low: Value<'_>, high: Value<'_>) -> bool {
    value != Value::Null
        && (low == Value::Null || compare(value, low).is_ge())
        && (high == Value::Null || compare(value, high).is_lt())
}

/// The order of two values of one type; those of different types are in the order of their types.
fn compare(a: Value<'_>, b: Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        (Value::Int(a), Value::Int(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (Value::Float(a), Value::Float(b)) => {
            let plain = |value: f64| if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
            plain(a).total_cmp(&plain(b))
        }
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        _ => a.value_type().map(|t| t as u8).cmp(&b.value_type().map(|t| t as u8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_take_a_minus_zero_for_a_zero_and_all_nans_for_one() {
        let float = Value::Float;
        assert!(within(float(-0.0), float(0.0), Value::Null), "every store gives -0.0 for 0.0 <= x");
        assert!(!within(float(-0.0), Value::Null, float(0.0)));
        assert!(!within(float(-f64::NAN), Value::Null, float(0.0)), "a NaN is above every other float");
        assert!(within(float(f64::NEG_INFINITY), Value::Null, float(0.0)));
    }
}
