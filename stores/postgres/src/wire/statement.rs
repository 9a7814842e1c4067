//! Prepared statements: what was described at open, and the bytes that execute them.

use plimsoll_core::{OpKind, StoreError, StoreErrorKind, Values};

use super::message::{EXECUTE, Reader, cstr, patch_length};
use super::value::{Code, decode, encode};
use crate::sql::{Compiled, Shape};

/// A statement as the server knows it. Its Bind and Execute are laid out once; an operation copies them and
/// fills in the values.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Its name on the server.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// Bind up to the number of parameters, all formats binary.
    bind: Vec<u8>,
    /// Where in `bind` the parameters' formats begin.
    formats_at: usize,
    params: Vec<Code>,
    /// The end of Bind: the formats of the columns.
    column_formats: Vec<u8>,
    columns: Vec<Code>,
}

impl Statement {
    fn new(name: String, text: String) -> Self {
        Self {
            name,
            text,
            bind: Vec::new(),
            formats_at: 0,
            params: Vec::new(),
            column_formats: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Takes a ParameterDescription; false when it is not one.
    pub(crate) fn describe_params(&mut self, body: &[u8]) -> bool {
        let mut reader = Reader(body);
        let Some(count) = reader.u16() else { return false };
        self.params.clear();
        for _ in 0..count {
            let Some(oid) = reader.u32() else { return false };
            self.params.push(Code::of_oid(oid));
        }
        true
    }

    /// Takes a RowDescription, or the empty slice for NoData; false when it is not one. Completes the statement.
    pub(crate) fn describe_columns(&mut self, body: &[u8]) -> bool {
        self.columns.clear();
        if !body.is_empty() && !parse_row_description(body, &mut self.columns) {
            return false;
        }
        self.column_formats.clear();
        extend_u16(&mut self.column_formats, self.columns.len() as u16);
        for code in &self.columns {
            extend_u16(&mut self.column_formats, code.format());
        }
        self.bind.clear();
        self.bind.extend_from_slice(&[b'B', 0, 0, 0, 0, 0]);
        cstr(&mut self.bind, &self.name);
        extend_u16(&mut self.bind, self.params.len() as u16);
        self.formats_at = self.bind.len();
        for _ in &self.params {
            extend_u16(&mut self.bind, 1);
        }
        extend_u16(&mut self.bind, self.params.len() as u16);
        true
    }

    /// Number of parameters it takes.
    pub(crate) fn param_count(&self) -> usize {
        self.params.len()
    }

    /// Types of its columns.
    #[inline]
    pub(crate) fn columns(&self) -> &[Code] {
        &self.columns
    }

    /// Appends Bind and Execute with the values of `params`.
    #[inline]
    pub(crate) fn execute(&self, params: Values<'_>, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&self.bind);
        for (position, code) in self.params.iter().enumerate() {
            if !encode(*code, params.get(position), out) {
                out[at + self.formats_at + 2 * position + 1] = 0;
            }
        }
        out.extend_from_slice(&self.column_formats);
        let length = out.len() - at - 1;
        patch_length(out, at + 1, length);
        out.extend_from_slice(&EXECUTE);
    }
}

/// The types of the columns that a RowDescription lists; false when it is not one.
pub(crate) fn parse_row_description(body: &[u8], columns: &mut Vec<Code>) -> bool {
    let mut reader = Reader(body);
    let Some(count) = reader.u16() else { return false };
    for _ in 0..count {
        // Name; then table, attribute; then type; then size, modifier, format.
        let Some(oid) =
            reader.cstr().and_then(|_| reader.take(6)).and_then(|_| reader.u32()).filter(|_| reader.take(8).is_some())
        else {
            return false;
        };
        columns.push(Code::of_oid(oid));
    }
    true
}

/// Appends the columns of a DataRow to `values`; false when it is not a row of these columns.
#[inline]
pub(crate) fn decode_row(body: &[u8], columns: &[Code], values: &mut plimsoll_core::ValueBuf) -> bool {
    let mut reader = Reader(body);
    if reader.u16() != u16::try_from(columns.len()).ok() {
        return false;
    }
    for code in columns {
        let Some(length) = reader.i32() else { return false };
        if length == -1 {
            values.push(plimsoll_core::Value::Null);
            continue;
        }
        let Some(bytes) = usize::try_from(length).ok().and_then(|length| reader.take(length)) else { return false };
        if !decode(*code, bytes, values) {
            return false;
        }
    }
    true
}

fn extend_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// An operation kind, prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its name in messages.
    pub(crate) name: String,
    shape: Shape,
    /// See [`Compiled`].
    pub(crate) empty_is_not_found: bool,
    /// See [`OpKind::keep_answer`].
    pub(crate) keep_answer: bool,
    /// Number of declared parameters.
    param_count: usize,
    /// Its statements; those of one kind have the same columns.
    pub(crate) statements: Vec<Statement>,
}

impl Prepared {
    /// Names the statements of the kind at `position`.
    pub(crate) fn new(position: usize, kind: &OpKind, compiled: Compiled) -> Self {
        let name = |number| format!("p{position}_{number}");
        let statements =
            compiled.texts.into_iter().enumerate().map(|(number, text)| Statement::new(name(number), text)).collect();
        Self {
            name: kind.name.clone(),
            shape: compiled.shape,
            empty_is_not_found: compiled.empty_is_not_found,
            keep_answer: kind.keep_answer,
            param_count: kind.params.len(),
            statements,
        }
    }

    /// The statements, all described now, take the parameters that the kind declares.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let Some(statement) = self.statements.first() else { return Ok(()) };
        if statement.param_count() == self.param_count {
            return Ok(());
        }
        Err(StoreError::new(
            StoreErrorKind::Usage,
            format!(
                "operation `{}` declares {} parameters and its statement takes {}: {}",
                self.name,
                self.param_count,
                statement.param_count(),
                statement.text
            ),
        ))
    }

    /// Types of the answer's columns.
    #[inline]
    pub(crate) fn columns(&self) -> &[Code] {
        self.statements.first().map_or(&[], Statement::columns)
    }

    /// Appends Bind and Execute for each statement of an operation, without a Sync; returns how many.
    #[inline]
    pub(crate) fn execute(&self, params: Values<'_>, out: &mut Vec<u8>) -> u32 {
        match self.shape {
            Shape::One => {
                self.statements[0].execute(params, out);
                1
            }
            Shape::Nothing => 0,
            Shape::Repeated(width) => {
                let mut count = 0;
                for row in params.rows(width) {
                    self.statements[0].execute(row, out);
                    count += 1;
                }
                count
            }
            Shape::Bounds => {
                let (which, params) = self.shape.statement(params);
                self.statements[which].execute(params, out);
                1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use plimsoll_core::{Value, ValueBuf};
    use postgres_protocol::IsNull;
    use postgres_protocol::message::frontend;

    use super::*;
    use crate::wire::message;

    /// (int8, text, bytea) -> (int4, numeric)
    fn described() -> Statement {
        let mut statement = Statement::new("p0_0".into(), "SELECT …".into());
        assert!(statement.describe_params(&[0, 3, 0, 0, 0, 20, 0, 0, 0, 25, 0, 0, 0, 17]));
        let mut columns = vec![0, 2];
        for oid in [23_u32, 1700] {
            columns.extend_from_slice(b"name\0\0\0\0\0\0\0");
            columns.extend_from_slice(&oid.to_be_bytes());
            columns.extend_from_slice(&[0, 4, 0, 0, 0, 0, 0, 0]);
        }
        assert!(statement.describe_columns(&columns));
        statement
    }

    #[test]
    fn what_is_written_is_what_the_protocol_crate_writes() {
        let mut ours = Vec::new();
        message::startup(&mut ours, &[("user", "käse"), ("database", "d")]);
        message::parse_and_describe(&mut ours, "p0_0", "SELECT 1");
        let mut params = ValueBuf::new();
        for value in [Value::Int(-7), Value::Text("x"), Value::Null] {
            params.push(value);
        }
        described().execute(params.values(), &mut ours);
        params.clear();
        for value in [Value::Text("8"), Value::Bytes(b"\xff"), Value::Bytes(b"")] {
            params.push(value);
        }
        described().execute(params.values(), &mut ours);
        ours.extend_from_slice(&message::SYNC);
        message::frame(&mut ours, b'Q', |out| cstr(out, "SELECT 2"));
        ours.extend_from_slice(&message::TERMINATE);

        let mut theirs = BytesMut::new();
        let bind = |formats: [i16; 3], values: [Option<&[u8]>; 3], theirs: &mut BytesMut| {
            let value = |value: Option<&[u8]>, buf: &mut BytesMut| {
                value.map_or(Ok(IsNull::Yes), |value| {
                    buf.extend_from_slice(value);
                    Ok(IsNull::No)
                })
            };
            assert!(frontend::bind("", "p0_0", formats, values, value, [1, 0], theirs).is_ok());
            frontend::execute("", 0, theirs).unwrap();
        };
        frontend::startup_message([("user", "käse"), ("database", "d")], &mut theirs).unwrap();
        frontend::parse("p0_0", "SELECT 1", [], &mut theirs).unwrap();
        frontend::describe(b'S', "p0_0", &mut theirs).unwrap();
        bind([1, 1, 1], [Some(&(-7_i64).to_be_bytes()), Some(b"x"), None], &mut theirs);
        bind([0, 0, 1], [Some(b"8"), Some(b"\xff"), Some(b"")], &mut theirs);
        frontend::sync(&mut theirs);
        frontend::query("SELECT 2", &mut theirs).unwrap();
        frontend::terminate(&mut theirs);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_row_of_other_columns_is_refused() {
        let statement = described();
        let mut values = ValueBuf::new();
        let row = [&[0, 2, 0, 0, 0, 4, 0, 0, 0, 9][..], &[0, 0, 0, 3], b"1.5"].concat();
        assert!(decode_row(&row, statement.columns(), &mut values));
        assert_eq!(values.values().iter().collect::<Vec<_>>(), [Value::Int(9), Value::Text("1.5")]);
        for end in 0..row.len() {
            assert!(!decode_row(&row[..end], statement.columns(), &mut values), "cut to {end}");
        }
        assert!(!decode_row(&[0, 1, 0, 0, 0, 0], statement.columns(), &mut values), "one column of two");
    }
}
