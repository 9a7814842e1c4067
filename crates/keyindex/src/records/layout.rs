//! A collection's records as bytes.
//!
//! The key field is the store's key, without tag or end: text and bytes as they are, a truth value as 0 or 1, anything else
//! as 8 bytes that order as it does (so a key of −0.0 comes back as 0.0). The other fields are the value:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format, 1 |
//! | one bit a field | 1 where the field is null |
//! | 1 or 8 a field | truth values, integers, floats and timestamps, each at a place of its own; little-endian |
//! | rest | texts and bytes that are not null, in order: length as LEB128, then the bytes |
//!
//! A field of fixed size is read and set without looking at any other one.

use plimsoll_core::{Collection, Value, ValueBuf, ValueType, Values};

use crate::IndexError;
use crate::encode::{float_bits, float_of_bits, signed_bits, signed_of_bits};

const FORMAT: u8 = 1;

/// Position of a field.
#[derive(Debug, Clone, Copy)]
enum Place {
    Key,
    /// Fixed offset.
    Fixed(usize),
    /// The so-manieth of the texts and bytes.
    Variable(usize),
}

/// Layout of the records of a collection.
#[derive(Debug, Clone)]
pub(crate) struct RecordLayout {
    types: Vec<ValueType>,
    places: Vec<Place>,
    key: usize,
    /// Positions of the fields of variable size.
    variable: Vec<usize>,
    /// Start of the fields of variable length.
    fixed_len: usize,
}

impl RecordLayout {
    pub(crate) fn new(collection: &Collection) -> Self {
        let types: Vec<ValueType> = collection.fields.iter().map(|field| field.value_type).collect();
        let key = usize::from(collection.key);
        let mut fixed_len = 1 + types.len().div_ceil(8);
        let mut variable = Vec::new();
        let places = types
            .iter()
            .enumerate()
            .map(|(position, value_type)| match value_type {
                _ if position == key => Place::Key,
                ValueType::Text | ValueType::Bytes => {
                    variable.push(position);
                    Place::Variable(variable.len() - 1)
                }
                fixed => {
                    let at = fixed_len;
                    fixed_len += if *fixed == ValueType::Bool { 1 } else { 8 };
                    Place::Fixed(at)
                }
            })
            .collect();
        RecordLayout { types, places, key, variable, fixed_len }
    }

    /// Number of fields.
    pub(crate) fn width(&self) -> usize {
        self.types.len()
    }

    pub(crate) fn key_field(&self) -> usize {
        self.key
    }

    pub(crate) fn value_type(&self, field: usize) -> Option<ValueType> {
        self.types.get(field).copied()
    }

    /// True when `value` may stand in `field`: null or of its type.
    pub(crate) fn accepts(&self, field: usize, value: Value<'_>) -> bool {
        value.value_type().is_none_or(|of| self.types.get(field) == Some(&of))
    }

    /// Appends the store's key of a record; false when the value can name none.
    pub(crate) fn push_key(&self, out: &mut Vec<u8>, key: Value<'_>) -> bool {
        if !self.accepts(self.key, key) {
            return false;
        }
        match key {
            Value::Null => return false,
            Value::Bool(v) => out.push(u8::from(v)),
            Value::Int(v) | Value::Timestamp(v) => out.extend_from_slice(&signed_bits(v).to_be_bytes()),
            Value::Float(v) => out.extend_from_slice(&float_bits(v).to_be_bytes()),
            Value::Text(v) => out.extend_from_slice(v.as_bytes()),
            Value::Bytes(v) => out.extend_from_slice(v),
        }
        true
    }

    /// Appends a record whose values, key included, are `row`. The types have been checked.
    pub(crate) fn push_record(&self, out: &mut Vec<u8>, row: Values<'_>) {
        let start = out.len();
        out.resize(start + self.fixed_len, 0);
        let fixed = &mut out[start..];
        fixed[0] = FORMAT;
        for (field, place) in self.places.iter().enumerate() {
            set_null(fixed, field, row.get(field) == Value::Null);
            if let Place::Fixed(at) = place {
                set_fixed(fixed, *at, row.get(field));
            }
        }
        for field in &self.variable {
            push_variable(out, row.get(*field));
        }
    }

    /// Appends to `out`, which is empty, the record `old` with `fields` set to `values`. The types have been checked.
    pub(crate) fn push_changed(
        &self,
        out: &mut Vec<u8>,
        old: &[u8],
        fields: &[u16],
        values: Values<'_>,
    ) -> Result<(), IndexError> {
        let head = self.head(old)?;
        out.extend_from_slice(head);
        let mut any_variable = false;
        for (position, field) in fields.iter().enumerate() {
            let (field, value) = (usize::from(*field), values.get(position));
            set_null(out, field, value == Value::Null);
            match self.places.get(field) {
                Some(Place::Fixed(at)) => set_fixed(out, *at, value),
                Some(Place::Variable(_)) => any_variable = true,
                Some(Place::Key) | None => {}
            }
        }
        if !any_variable {
            out.extend_from_slice(&old[self.fixed_len..]);
            return Ok(());
        }
        let mut rest = &old[self.fixed_len..];
        for field in &self.variable {
            let kept = if is_null(head, *field) { None } else { Some(take_variable(&mut rest)?) };
            match fields.iter().rposition(|set| usize::from(*set) == *field) {
                Some(position) => push_variable(out, values.get(position)),
                None => kept.into_iter().for_each(|bytes| push_bytes(out, bytes)),
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn field<'a>(&self, key: &'a [u8], record: &'a [u8], field: usize) -> Result<Value<'a>, IndexError> {
        let head = self.head(record)?;
        let value_type = self.types[field];
        match self.places[field] {
            Place::Key => self.key_value(key),
            _ if is_null(head, field) => Ok(Value::Null),
            Place::Fixed(at) => Ok(fixed(head, at, value_type)),
            Place::Variable(ordinal) => {
                let mut rest = &record[self.fixed_len..];
                for before in &self.variable[..ordinal] {
                    if !is_null(head, *before) {
                        take_variable(&mut rest)?;
                    }
                }
                variable(take_variable(&mut rest)?, value_type)
            }
        }
    }

    /// Appends all values of a record, in the order of its fields.
    pub(crate) fn push_row(&self, key: &[u8], record: &[u8], row: &mut ValueBuf) -> Result<(), IndexError> {
        let head = self.head(record)?;
        let mut rest = &record[self.fixed_len..];
        for (field, (place, value_type)) in self.places.iter().zip(&self.types).enumerate() {
            row.push(match place {
                Place::Key => self.key_value(key)?,
                _ if is_null(head, field) => Value::Null,
                Place::Fixed(at) => fixed(head, *at, *value_type),
                Place::Variable(_) => variable(take_variable(&mut rest)?, *value_type)?,
            });
        }
        Ok(())
    }

    fn key_value<'a>(&self, key: &'a [u8]) -> Result<Value<'a>, IndexError> {
        let bits = || key.try_into().map(u64::from_be_bytes).map_err(|_| IndexError::Corrupt("its key is not 8 bytes"));
        Ok(match self.types[self.key] {
            ValueType::Bool => Value::Bool(key == [1]),
            ValueType::Int => Value::Int(signed_of_bits(bits()?)),
            ValueType::Timestamp => Value::Timestamp(signed_of_bits(bits()?)),
            ValueType::Float => Value::Float(float_of_bits(bits()?)),
            ValueType::Text => Value::Text(text(key)?),
            ValueType::Bytes => Value::Bytes(key),
        })
    }

    #[inline]
    fn head<'a>(&self, record: &'a [u8]) -> Result<&'a [u8], IndexError> {
        match record.get(..self.fixed_len) {
            Some(head) if head[0] == FORMAT => Ok(head),
            Some(_) => Err(IndexError::Corrupt("it is of another format")),
            None => Err(IndexError::Corrupt("it is too short")),
        }
    }
}

fn is_null(head: &[u8], field: usize) -> bool {
    head[1 + field / 8] & 1 << (field % 8) != 0
}

fn set_null(head: &mut [u8], field: usize, null: bool) {
    let (byte, bit) = (1 + field / 8, 1 << (field % 8));
    if null {
        head[byte] |= bit;
    } else {
        head[byte] &= !bit;
    }
}

fn set_fixed(head: &mut [u8], at: usize, value: Value<'_>) {
    let bits = match value {
        Value::Bool(v) => {
            head[at] = u8::from(v);
            return;
        }
        Value::Int(v) | Value::Timestamp(v) => v as u64,
        Value::Float(v) => v.to_bits(),
        // A null's place keeps what it held: the null bit says that it means nothing.
        Value::Null | Value::Text(_) | Value::Bytes(_) => return,
    };
    head[at..at + 8].copy_from_slice(&bits.to_le_bytes());
}

fn fixed(head: &[u8], at: usize, value_type: ValueType) -> Value<'static> {
    if value_type == ValueType::Bool {
        return Value::Bool(head[at] != 0);
    }
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    let bits = u64::from_le_bytes(bytes);
    match value_type {
        ValueType::Float => Value::Float(f64::from_bits(bits)),
        ValueType::Timestamp => Value::Timestamp(bits as i64),
        _ => Value::Int(bits as i64),
    }
}

fn push_variable(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Text(v) => push_bytes(out, v.as_bytes()),
        Value::Bytes(v) => push_bytes(out, v),
        _ => {}
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
}

fn take_variable<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], IndexError> {
    const CUT: IndexError = IndexError::Corrupt("it ends within a field");
    let mut len = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(CUT)?;
        *rest = after;
        len |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            let (bytes, after) = rest.split_at_checked(len).ok_or(CUT)?;
            *rest = after;
            return Ok(bytes);
        }
    }
    Err(IndexError::Corrupt("a field's length is no number"))
}

fn variable(bytes: &[u8], value_type: ValueType) -> Result<Value<'_>, IndexError> {
    if value_type == ValueType::Text { text(bytes).map(Value::Text) } else { Ok(Value::Bytes(bytes)) }
}

fn text(bytes: &[u8]) -> Result<&str, IndexError> {
    std::str::from_utf8(bytes).map_err(|_| IndexError::Corrupt("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Field;

    use super::*;

    fn all_types(key: u16) -> RecordLayout {
        use ValueType::{Bool, Bytes, Float, Int, Text, Timestamp};
        let fields = [Text, Int, Bool, Bytes, Float, Text, Timestamp, Int, Bytes]
            .into_iter()
            .enumerate()
            .map(|(n, value_type)| Field { name: format!("f{n}"), value_type })
            .collect();
        RecordLayout::new(&Collection { name: "all".into(), fields, key, indexes: Vec::new() })
    }

    fn row_of(values: &[Value<'_>]) -> ValueBuf {
        let mut row = ValueBuf::new();
        values.iter().for_each(|value| row.push(*value));
        row
    }

    fn record_of(layout: &RecordLayout, row: &ValueBuf) -> (Vec<u8>, Vec<u8>) {
        let (mut key, mut record) = (Vec::new(), Vec::new());
        assert!(layout.push_key(&mut key, row.values().get(layout.key_field())));
        layout.push_record(&mut record, row.values());
        (key, record)
    }

    const LONG: &str = "a text of more than 127 bytes, so that its length takes two: \
        ........................................................................";

    fn sample() -> [Value<'static>; 9] {
        [
            Value::Text("käse"),
            Value::Int(i64::MIN),
            Value::Bool(true),
            Value::Bytes(b"\x00\xff"),
            Value::Float(-0.5),
            Value::Text(LONG),
            Value::Timestamp(-1),
            Value::Int(7),
            Value::Bytes(b""),
        ]
    }

    #[test]
    fn a_record_comes_back_whatever_its_key_is_and_whichever_fields_are_null() {
        for key in 0..9 {
            let layout = all_types(key);
            for nulls in 0..1u32 << 9 {
                let mut values = sample();
                for (field, value) in values.iter_mut().enumerate() {
                    if nulls >> field & 1 == 1 && field != usize::from(key) {
                        *value = Value::Null;
                    }
                }
                let row = row_of(&values);
                let (key, record) = record_of(&layout, &row);
                let mut back = ValueBuf::new();
                layout.push_row(&key, &record, &mut back).unwrap();
                assert_eq!(back.values().iter().collect::<Vec<_>>(), values);
                for (field, value) in values.iter().enumerate() {
                    assert_eq!(layout.field(&key, &record, field).unwrap(), *value);
                }
            }
        }
    }

    #[test]
    fn setting_fields_sets_those_and_no_others() {
        let layout = all_types(0);
        let (key, old) = record_of(&layout, &row_of(&sample()));
        let mut other = sample();
        other[1..].copy_from_slice(&[
            Value::Int(1),
            Value::Bool(false),
            Value::Bytes(b"new"),
            Value::Float(9.0),
            Value::Text(""),
            Value::Timestamp(2),
            Value::Null,
            Value::Null,
        ]);
        for set in 0..1u32 << 9 {
            let fields: Vec<u16> = (1..9).filter(|field| set >> field & 1 == 1).collect();
            let values = row_of(&fields.iter().map(|field| other[usize::from(*field)]).collect::<Vec<_>>());
            let mut new = Vec::new();
            layout.push_changed(&mut new, &old, &fields, values.values()).unwrap();
            let mut back = ValueBuf::new();
            layout.push_row(&key, &new, &mut back).unwrap();
            for field in 0..9u16 {
                let expected = if fields.contains(&field) { other } else { sample() }[usize::from(field)];
                assert_eq!(back.values().get(usize::from(field)), expected, "field {field} of set {set:b}");
            }
        }
    }

    #[test]
    fn what_is_no_record_is_refused_and_never_panics() {
        let layout = all_types(1);
        let (key, record) = record_of(&layout, &row_of(&sample()));
        for cut in 0..record.len() {
            let mut row = ValueBuf::new();
            assert!(layout.push_row(&key, &record[..cut], &mut row).is_err(), "cut to {cut}");
        }
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut bent = record.clone();
                bent[at] ^= 1 << bit;
                let _ = layout.push_row(&key, &bent, &mut ValueBuf::new());
                let _ = layout.push_changed(&mut Vec::new(), &bent, &[5], row_of(&[Value::Null]).values());
            }
        }
        assert!(layout.push_row(&key[1..], &record, &mut ValueBuf::new()).is_err());
    }

    #[test]
    fn a_key_is_not_null_and_of_its_type() {
        let layout = all_types(1);
        assert!(!layout.push_key(&mut Vec::new(), Value::Null));
        assert!(!layout.push_key(&mut Vec::new(), Value::Text("1")));
        assert!(layout.push_key(&mut Vec::new(), Value::Int(1)));
    }
}
