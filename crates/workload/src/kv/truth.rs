//! Expected values of keys.
//!
//! Every client may write every key, so of writes at the same time either may be the last; but each value says which
//! write it is of, and each of its bytes follows from that.

use plimsoll_core::{Truth, Value, ValueBuf, Values, Version};

use super::content::Content;

impl Truth for Content {
    fn record_id(&self, key: Value<'_>) -> Option<u64> {
        match key {
            Value::Bytes(key) => self.id_of(key),
            _ => None,
        }
    }

    fn key(&self, id: u64, key: &mut ValueBuf) {
        key.push_bytes_with(|key| self.write_key(id, key));
    }

    fn version(&self, row: Values<'_>) -> Option<Version> {
        match (row.get(0), row.get(1)) {
            (Value::Bytes(key), Value::Bytes(value)) => self.version_of(key, value),
            _ => None,
        }
    }

    fn written(&self, row: Values<'_>) -> Option<Version> {
        match row.get(1) {
            Value::Bytes(value) => Content::claim(value),
            _ => None,
        }
    }

    fn version_under(&self, id: u64, values: Values<'_>) -> Option<Version> {
        match values.get(0) {
            Value::Bytes(value) => Content::version_under(self, id, value),
            _ => None,
        }
    }

    fn sees_contents(&self) -> bool {
        true
    }

    fn row(&self, id: u64, version: Version, row: &mut ValueBuf) {
        row.push_bytes_with(|key| self.write_key(id, key));
        row.push_bytes_with(|value| self.write_value(id, version, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_key_and_a_value_that_say_whose_they_are() {
        let content = Content::new(5, 200);
        let mut row = ValueBuf::new();
        for version in [Version::Loaded, Version::Written { client: 3, cycle: 9 }] {
            row.clear();
            content.row(77, version, &mut row);
            let values = row.values();
            assert_eq!(content.record_id(values.get(0)), Some(77));
            assert_eq!(content.version(values), Some(version));
            assert_eq!(content.written(values), Some(version));
            assert_eq!(Truth::version_under(&content, 77, values.slice(1..2)), Some(version));
            assert_eq!(Truth::version_under(&content, 78, values.slice(1..2)), None);
        }
        assert!(content.record_id(Value::Text("user")).is_none());
    }
}
