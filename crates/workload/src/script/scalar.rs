//! Values of expressions, how they turn into one another, and what can go wrong.

use std::fmt;

/// A value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
}

/// Error of an expression, in pgbench's own words if it has any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum EvaluationError {
    /// An operation's result is no 64-bit integer.
    OutOfRange(&'static str),
    DivisionByZero,
    /// A value of the first type is none of the second.
    Coercion(&'static str, &'static str),
    /// No integer is near this one.
    NoInteger(f64),
    EmptyRange,
    WideRange,
    Gaussian(f64),
    Zipfian(f64),
    Exponential(f64),
    PermuteSize(i64),
    /// The variable at this position has no value yet.
    Undefined(usize),
    /// The text of the variable at this position is no value.
    Malformed(usize),
    /// `\sleep` for less than nothing.
    Sleep(i64),
    /// The answer to `\gset` had this many rows, not one.
    Rows(u64),
    /// The answer to `\gset` or `\aset` had the second number of columns, not the first.
    Columns(usize, usize),
    /// `\startpipeline`, `\syncpipeline`, `\endpipeline`, `\gset` where they cannot stand.
    Pipeline(&'static str),
}

impl EvaluationError {
    /// A short name, as a store's error code.
    pub(crate) fn code(self) -> &'static str {
        match self {
            EvaluationError::DivisionByZero => "DIVISION_BY_ZERO",
            EvaluationError::OutOfRange(_) | EvaluationError::NoInteger(_) => "OUT_OF_RANGE",
            EvaluationError::Undefined(_) => "UNDEFINED_VARIABLE",
            EvaluationError::Coercion(..) | EvaluationError::Malformed(_) => "BAD_TYPE",
            EvaluationError::Rows(_) | EvaluationError::Columns(..) => "BAD_ANSWER",
            EvaluationError::Pipeline(_) => "PIPELINE",
            _ => "BAD_ARGUMENT",
        }
    }

    /// Writes it in words; `names` are the variables'.
    pub(crate) fn write(self, names: &[String], out: &mut impl fmt::Write) -> fmt::Result {
        let name = |slot: usize| names.get(slot).map_or("", String::as_str);
        match self {
            EvaluationError::OutOfRange(operation) => write!(out, "bigint {operation} out of range"),
            EvaluationError::DivisionByZero => out.write_str("division by zero"),
            EvaluationError::Coercion(from, to) => write!(out, "cannot coerce {from} to {to}"),
            EvaluationError::NoInteger(value) => write!(out, "double to int overflow for {value}"),
            EvaluationError::EmptyRange => out.write_str("empty range given to random"),
            EvaluationError::WideRange => out.write_str("random range is too large"),
            EvaluationError::Gaussian(value) => write!(out, "gaussian parameter must be at least 2 (not {value})"),
            EvaluationError::Zipfian(value) => {
                write!(out, "zipfian parameter must be in range [1.001, 1000] (not {value})")
            }
            EvaluationError::Exponential(value) => {
                write!(out, "exponential parameter must be greater than zero (not {value})")
            }
            EvaluationError::PermuteSize(value) => {
                write!(out, "permute size parameter must be greater than zero (not {value})")
            }
            EvaluationError::Undefined(slot) => write!(out, "undefined variable \"{}\"", name(slot)),
            EvaluationError::Malformed(slot) => write!(out, "malformed value of variable \"{}\"", name(slot)),
            EvaluationError::Sleep(value) => write!(out, "cannot sleep for {value}"),
            EvaluationError::Rows(rows) => write!(out, "\\gset: expected one row, got {rows}"),
            EvaluationError::Columns(wanted, got) => {
                write!(out, "\\gset: the statement names {wanted} columns and its answer has {got}")
            }
            EvaluationError::Pipeline(what) => out.write_str(what),
        }
    }
}

/// The value or why there is none.
pub(crate) type Evaluated<T = Scalar> = Result<T, EvaluationError>;

impl Scalar {
    /// The type's name in messages.
    fn type_name(self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "boolean",
            Scalar::Int(_) => "int",
            Scalar::Float(_) => "double",
        }
    }

    /// Converts to a truth value; fails for other types.
    pub(crate) fn to_bool(self) -> Evaluated<bool> {
        match self {
            Scalar::Bool(value) => Ok(value),
            other => Err(EvaluationError::Coercion(other.type_name(), "boolean")),
        }
    }

    /// Converts to an integer; a double is rounded to the nearest, halves to the even one.
    #[inline]
    pub(crate) fn to_int(self) -> Evaluated<i64> {
        match self {
            Scalar::Int(value) => Ok(value),
            Scalar::Float(value) => {
                let rounded = value.round_ties_even();
                // 2^63 is the first double that is too large; -2^63 is one that fits.
                let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
                if fits { Ok(rounded as i64) } else { Err(EvaluationError::NoInteger(value)) }
            }
            other => Err(EvaluationError::Coercion(other.type_name(), "int")),
        }
    }

    /// Converts to a double.
    #[inline]
    pub(crate) fn to_float(self) -> Evaluated<f64> {
        match self {
            Scalar::Float(value) => Ok(value),
            Scalar::Int(value) => Ok(value as f64),
            other => Err(EvaluationError::Coercion(other.type_name(), "double")),
        }
    }

    /// Returns true if a condition holds: not null, false or zero.
    pub(crate) fn is_true(self) -> bool {
        match self {
            Scalar::Null => false,
            Scalar::Bool(value) => value,
            Scalar::Int(value) => value != 0,
            Scalar::Float(value) => value != 0.0,
        }
    }

    /// The value of a variable's text, as pgbench reads it; `None` when it is none.
    pub(crate) fn of_text(text: &str) -> Option<Scalar> {
        let begins = |word: &str| word.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text));
        let is = |word: &str| word.eq_ignore_ascii_case(text);
        if text.is_empty() {
            return None;
        }
        if is("null") {
            return Some(Scalar::Null);
        }
        if begins("true") || begins("yes") || is("on") {
            return Some(Scalar::Bool(true));
        }
        if begins("false") || begins("no") || is("off") || is("of") {
            return Some(Scalar::Bool(false));
        }
        let number = text.trim_start();
        let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return number.parse().ok().map(Scalar::Int);
        }
        number
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite() || !digits.starts_with(|c: char| c.is_ascii_digit()))
            .map(Scalar::Float)
    }

    /// Writes it as pgbench writes a variable into a statement.
    pub(crate) fn write(self, out: &mut String) {
        use fmt::Write;
        // Writing to a string cannot fail.
        let _ = match self {
            Scalar::Null => out.write_str("NULL"),
            Scalar::Bool(value) => write!(out, "{value}"),
            Scalar::Int(value) => write!(out, "{value}"),
            Scalar::Float(value) => write_double(value, out),
        };
    }
}

/// C's `%.15g`: 15 digits, without zeros at the end.
fn write_double(value: f64, out: &mut String) -> fmt::Result {
    use fmt::Write;
    if !value.is_finite() {
        return out.write_str(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        });
    }
    // The exponent after rounding to 15 digits decides the form.
    let start = out.len();
    write!(out, "{value:.14e}")?;
    let exponent: i32 = out.get(start..).and_then(|text| text.split_once('e')?.1.parse().ok()).unwrap_or(0);
    let scientific = !(-4..15).contains(&exponent);
    if scientific {
        let mantissa_end = out.get(start..).and_then(|text| text.find('e')).map_or(out.len(), |at| start + at);
        out.truncate(mantissa_end);
    } else {
        out.truncate(start);
        write!(out, "{value:.*}", (14 - exponent).max(0) as usize)?;
    }
    if out.get(start..).is_some_and(|text| text.contains('.')) {
        let kept = out.trim_end_matches('0').trim_end_matches('.').len();
        out.truncate(kept.max(start + 1));
    }
    if scientific {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.abs())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: f64) -> String {
        let mut out = "x = ".to_owned();
        Scalar::Float(value).write(&mut out);
        out.split_off(4)
    }

    /// Each as pgbench 15's `debug` prints it.
    #[test]
    fn doubles_are_written_as_pgbench_writes_them() {
        for (value, text) in [
            (2.5, "2.5"),
            (7.0, "7"),
            (1024.0, "1024"),
            (2f64.sqrt(), "1.4142135623731"),
            (1f64.exp(), "2.71828182845905"),
            (1.0 / 3.0, "0.333333333333333"),
            (123_456_789_012_345_678.0, "1.23456789012346e+17"),
            (0.00001234, "1.234e-05"),
            (300_000.0, "300000"),
            (0.0, "0"),
            (-0.5, "-0.5"),
            (999_999_999_999_999.9, "1e+15"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(written(value), text);
        }
    }

    #[test]
    fn a_text_is_the_value_that_pgbench_sees_in_it() {
        for (text, value) in [
            ("7", Some(Scalar::Int(7))),
            (" -007", Some(Scalar::Int(-7))),
            ("1.50", Some(Scalar::Float(1.5))),
            ("1e3", Some(Scalar::Float(1000.0))),
            ("NULL", Some(Scalar::Null)),
            ("y", Some(Scalar::Bool(true))),
            ("TRU", Some(Scalar::Bool(true))),
            ("on", Some(Scalar::Bool(true))),
            ("o", None),
            ("nO", Some(Scalar::Bool(false))),
            ("of", Some(Scalar::Bool(false))),
            ("", None),
            ("9223372036854775808", None),
            ("abc", None),
            ("käse", None),
        ] {
            assert_eq!(Scalar::of_text(text), value, "{text:?}");
        }
    }

    #[test]
    fn halves_round_to_the_even_number_and_what_is_too_large_is_none() {
        assert_eq!(Scalar::Float(2.5).to_int(), Ok(2));
        assert_eq!(Scalar::Float(3.5).to_int(), Ok(4));
        assert_eq!(Scalar::Float(-9.3e18).to_int(), Err(EvaluationError::NoInteger(-9.3e18)));
        assert!(Scalar::Float(f64::NAN).to_int().is_err());
        assert_eq!(Scalar::Bool(true).to_int(), Err(EvaluationError::Coercion("boolean", "int")));
    }
}
