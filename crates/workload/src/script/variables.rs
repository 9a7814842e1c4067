//! The values of one client's variables while scripts run.

use plimsoll_core::{Utc, Value, ValueBuf};

use super::expression::Scope;
use super::program::Initial;
use super::random::Xoroshiro;
use super::scalar::{Evaluated, EvaluationError, Scalar};

/// Value of a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Held {
    Unset,
    Scalar(Scalar),
    /// The text at the variable's place.
    Text,
    /// Microseconds since 1970, from an answer.
    Timestamp(i64),
}

/// The variables of one client. Texts keep their memory, so that nothing is allocated once they have grown.
#[derive(Debug, Clone)]
pub(super) struct Variables {
    held: Vec<Held>,
    texts: Vec<String>,
    /// Current source of random numbers.
    pub(super) random: Xoroshiro,
}

impl Variables {
    pub(super) fn new(initial: &[Initial], client: u32) -> Self {
        let mut texts = vec![String::new(); initial.len()];
        let mut held = Vec::with_capacity(initial.len());
        for (text, initial) in texts.iter_mut().zip(initial) {
            held.push(match initial {
                Initial::Unset => Held::Unset,
                Initial::Value(value) => Held::Scalar(*value),
                Initial::Client => Held::Scalar(Scalar::Int(i64::from(client))),
                // Set when an operation begins.
                Initial::Cycle | Initial::Sequence | Initial::Column(_) => Held::Scalar(Scalar::Int(0)),
                Initial::Text(initial) => {
                    text.push_str(initial);
                    Held::Text
                }
            });
        }
        Self { held, texts, random: Xoroshiro::of_seed(0) }
    }

    /// Makes them what `other` are.
    pub(super) fn copy_from(&mut self, other: &Variables) {
        self.random = other.random;
        for (position, held) in other.held.iter().enumerate() {
            self.held[position] = *held;
            if *held == Held::Text {
                self.texts[position].clear();
                self.texts[position].push_str(&other.texts[position]);
            }
        }
    }

    pub(super) fn set(&mut self, slot: usize, value: Scalar) {
        self.held[slot] = Held::Scalar(value);
    }

    /// Takes a value of an answer.
    pub(super) fn take(&mut self, slot: usize, value: Value<'_>) {
        use std::fmt::Write;
        let text = &mut self.texts[slot];
        self.held[slot] = match value {
            Value::Null => Held::Scalar(Scalar::Null),
            Value::Bool(value) => Held::Scalar(Scalar::Bool(value)),
            Value::Int(value) => Held::Scalar(Scalar::Int(value)),
            Value::Float(value) => Held::Scalar(Scalar::Float(value)),
            Value::Timestamp(value) => Held::Timestamp(value),
            Value::Text(value) => {
                text.clear();
                text.push_str(value);
                Held::Text
            }
            Value::Bytes(bytes) => {
                text.clear();
                text.push_str("\\x");
                for byte in bytes {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
                Held::Text
            }
        };
    }

    /// Appends the variable as a parameter.
    pub(super) fn push(&self, slot: usize, params: &mut ValueBuf) -> Evaluated<()> {
        params.push(match self.held[slot] {
            Held::Unset => return Err(EvaluationError::Undefined(slot)),
            Held::Scalar(value) => to_value(value),
            Held::Text => Value::Text(&self.texts[slot]),
            Held::Timestamp(value) => Value::Timestamp(value),
        });
        Ok(())
    }

    /// Appends the variable as it stands in a statement's text.
    pub(super) fn write(&self, slot: usize, out: &mut String) -> Evaluated<()> {
        match self.held[slot] {
            Held::Unset => return Err(EvaluationError::Undefined(slot)),
            Held::Scalar(value) => value.write(out),
            Held::Text => out.push_str(&self.texts[slot]),
            Held::Timestamp(value) => write_timestamp(value, out),
        }
        Ok(())
    }
}

impl Scope for Variables {
    fn variable(&self, slot: usize) -> Evaluated {
        match self.held.get(slot) {
            Some(Held::Scalar(value)) => Ok(*value),
            Some(Held::Text) => Scalar::of_text(&self.texts[slot]).ok_or(EvaluationError::Malformed(slot)),
            Some(Held::Timestamp(_)) => Err(EvaluationError::Malformed(slot)),
            Some(Held::Unset) | None => Err(EvaluationError::Undefined(slot)),
        }
    }

    fn random(&mut self) -> &mut Xoroshiro {
        &mut self.random
    }
}

/// A value of an expression as a parameter.
pub(super) fn to_value(value: Scalar) -> Value<'static> {
    match value {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(value) => Value::Int(value),
        Scalar::Float(value) => Value::Float(value),
    }
}

/// Writes microseconds since 1970 as `2026-11-22 01:02:03.000004+00`.
fn write_timestamp(us: i64, out: &mut String) {
    use std::fmt::Write;
    let Utc { year, month, day, hour, minute, second, us } = Utc::of_us(us);
    // Writing to a string cannot fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}+00");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_gave_is_what_a_statement_gets() {
        let mut variables = Variables::new(&[Initial::Unset, Initial::Text("t_007".into())], 3);
        let mut params = ValueBuf::new();
        assert_eq!(variables.push(0, &mut params), Err(EvaluationError::Undefined(0)));
        let mut text = String::new();
        for (value, wanted) in [
            (Value::Int(-7), "-7"),
            (Value::Text("1.50"), "1.50"),
            (Value::Bytes(b"\x00\xff"), "\\x00ff"),
            (Value::Timestamp(1_795_309_323_000_004), "2026-11-22 01:02:03.000004+00"),
            (Value::Null, "NULL"),
        ] {
            variables.take(0, value);
            text.clear();
            variables.write(0, &mut text).unwrap();
            assert_eq!(text, wanted);
        }
        variables.take(0, Value::Text("1.50"));
        assert_eq!(variables.variable(0), Ok(Scalar::Float(1.5)));
        assert_eq!(variables.variable(1), Err(EvaluationError::Malformed(1)));
    }
}
