//! Statements whose values stand inside them: the simple query protocol.
//!
//! The `$1`, `$2` … of a text are found once; an operation puts literals in their places.

use std::io::Write;
use std::ops::Range;

use plimsoll_core::{Dialect, Value, Values, parameters};

use super::value::write_timestamp;

/// A statement, and where its parameters stand in it.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Places, in order, and the position of the parameter that each is for.
    parameters: Vec<(Range<usize>, u16)>,
}

impl Text {
    /// Finds the parameters of a statement.
    pub(crate) fn new(text: String) -> Text {
        Text { parameters: parameters(&text, Dialect::Postgres), text }
    }

    /// Number of parameters it takes.
    pub(crate) fn param_count(&self) -> usize {
        self.parameters.iter().map(|(_, position)| usize::from(*position) + 1).max().unwrap_or(0)
    }

    /// Appends the statement with the values of `params` in it.
    pub(crate) fn render(&self, params: Values<'_>, out: &mut Vec<u8>) {
        let mut from = 0;
        for (place, position) in &self.parameters {
            plain(&self.text[from..place.start], out);
            literal(params.get(usize::from(*position)), out);
            from = place.end;
        }
        plain(&self.text[from..], out);
    }
}

/// A zero would end the message: what comes after it is not sent, as with every C program.
pub(super) fn plain(text: &str, out: &mut Vec<u8>) {
    out.extend(text.bytes().take_while(|byte| *byte != 0));
}

/// Appends a value as a literal, in the form in which the server finds its type from where it stands, as it does for
/// a parameter; but whole numbers stand bare, as everybody writes them.
fn literal(value: Value<'_>, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Null => out.write_all(b"NULL"),
        Value::Bool(v) => write!(out, "{v}"),
        Value::Int(v @ 0..) => write!(out, "{v}"),
        // Its digits alone are too many for a bigint.
        Value::Int(i64::MIN) => out.write_all(b"'-9223372036854775808'::bigint"),
        // Two minus signs would begin a comment.
        Value::Int(v) => write!(out, "({v})"),
        Value::Float(v) if v.is_infinite() => write!(out, "'{}Infinity'", if v < 0.0 { "-" } else { "" }),
        Value::Float(v) => write!(out, "'{v}'"),
        Value::Timestamp(v) => {
            out.push(b'\'');
            let written = write_timestamp(v, out);
            out.push(b'\'');
            written
        }
        Value::Text(v) => {
            quote(v, out);
            Ok(())
        }
        Value::Bytes(v) => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            // The escape is the same whatever standard_conforming_strings says.
            out.extend_from_slice(b" E'\\\\x");
            out.extend(v.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
            out.push(b'\'');
            Ok(())
        }
    };
}

/// Appends a text in quotes. With a backslash or a zero in it, it is an escape string: that means the same whatever
/// `standard_conforming_strings` says, and the server refuses a zero there as it does in a parameter.
fn quote(text: &str, out: &mut Vec<u8>) {
    let escaped = text.bytes().any(|byte| matches!(byte, b'\\' | 0));
    out.extend_from_slice(if escaped { b" E'" } else { b"'" });
    for byte in text.bytes() {
        match byte {
            b'\'' => out.extend_from_slice(b"''"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0 => out.extend_from_slice(b"\\000"),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use plimsoll_core::ValueBuf;

    use super::*;

    fn rendered(text: &str, values: &[Value<'_>]) -> String {
        let mut params = ValueBuf::new();
        for value in values {
            params.push(*value);
        }
        let mut out = Vec::new();
        Text::new(text.to_owned()).render(params.values(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_parameters_are_replaced() {
        for (text, expected, count) in [
            ("SELECT $1, $2+$1", "SELECT 7, 8+7", 2),
            ("$1", "7", 1),
            ("SELECT '$1', 'it''s $1', \"$1\", E'\\'$1', $2", "SELECT '$1', 'it''s $1', \"$1\", E'\\'$1', 8", 2),
            ("SELECT $$ $1 $$, $a$ $1 $b$ $$ $a$, $1", "SELECT $$ $1 $$, $a$ $1 $b$ $$ $a$, 7", 1),
            ("SELECT a$1, käse$1, $1 -- $1\n, $1", "SELECT a$1, käse$1, 7 -- $1\n, 7", 1),
            ("/* $1 /* $1 */ $1 */ $1", "/* $1 /* $1 */ $1 */ 7", 1),
            ("SELECT 5-$1", "SELECT 5-7", 1),
            ("SELECT '$1", "SELECT '$1", 0),
            ("/* $1", "/* $1", 0),
            ("SELECT $", "SELECT $", 0),
            ("SELECT $0, $9", "SELECT $0, NULL", 9),
            ("SELECT $tag", "SELECT $tag", 0),
        ] {
            assert_eq!(rendered(text, &[Value::Int(7), Value::Int(8)]), expected);
            assert_eq!(Text::new(text.to_owned()).param_count(), count, "{text}");
        }
    }

    #[test]
    fn literals_cannot_be_left() {
        for (value, expected) in [
            (Value::Null, "NULL"),
            (Value::Bool(true), "true"),
            (Value::Int(-7), "(-7)"),
            (Value::Int(i64::MIN), "'-9223372036854775808'::bigint"),
            (Value::Float(0.1), "'0.1'"),
            (Value::Float(-1e300), &format!("'-1{}'", "0".repeat(300))),
            (Value::Float(f64::NEG_INFINITY), "'-Infinity'"),
            (Value::Text("o'clock"), "'o''clock'"),
            (Value::Text("\\'; DROP TABLE t; --"), " E'\\\\''; DROP TABLE t; --'"),
            (Value::Text("a\0b"), " E'a\\000b'"),
            (Value::Bytes(b"\x00\xff'"), " E'\\\\x00ff27'"),
            (Value::Timestamp(1), "'1970-01-01 00:00:00.000001+00'"),
        ] {
            assert_eq!(rendered("$1", &[value]), expected);
        }
    }
}
