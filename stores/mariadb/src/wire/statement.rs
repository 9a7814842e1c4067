//! Prepared statements: what the server said of them at open, and the bytes that execute them.

use plimsoll_core::tables::{Shape, SqlOperation};
use plimsoll_core::{OpKind, StoreError, ValueType, Values};

use super::packet::{self, COM_QUERY, COM_STMT_EXECUTE, HEADER_BYTES};
use super::value::{Code, encode, parameter_type};
use crate::sql::Text;

/// A statement as the server knows it. Its execution is laid out once; an operation copies that and fills in the
/// values.
#[derive(Debug, Default)]
pub(crate) struct Statement {
    /// Text, and the parameter of each `?`.
    pub(crate) text: Text,
    /// Room for the header, and the command up to the types of the parameters; or, for what cannot be prepared, the
    /// whole command.
    execute: Vec<u8>,
    /// Goes as text each time, and its rows come in the text format.
    pub(crate) plain: bool,
    /// Position in `execute` of the bits of null parameters, and of the types.
    nulls_at: usize,
    types_at: usize,
    /// Type of each `?`, in the form of `execute`.
    types: Vec<u8>,
    /// Types of its columns.
    pub(crate) columns: Vec<Code>,
}

impl Statement {
    /// The server knows it as `id`; `declared` are the parameters' types, repeated for every record.
    fn prepared(&mut self, id: u32, declared: &[ValueType]) {
        let type_of = |which: &u16| {
            let declared = declared.get(usize::from(*which) % declared.len().max(1));
            parameter_type(declared.copied().unwrap_or(ValueType::Text))
        };
        self.types = self.text.parameters.iter().map(type_of).collect();
        self.execute.clear();
        self.execute.extend_from_slice(&[0; HEADER_BYTES]);
        self.execute.push(COM_STMT_EXECUTE);
        self.execute.extend_from_slice(&id.to_le_bytes());
        // No cursor; once.
        self.execute.extend_from_slice(&[0, 1, 0, 0, 0]);
        self.nulls_at = self.execute.len();
        if !self.types.is_empty() {
            self.execute.resize(self.nulls_at + self.types.len().div_ceil(8), 0);
            // The types follow.
            self.execute.push(1);
            self.types_at = self.execute.len();
            for parameter in &self.types {
                self.execute.extend_from_slice(&[*parameter, 0]);
            }
        }
    }

    /// Appends the command that executes it with `params`. Returns the number of the packet that comes after it.
    #[inline]
    pub(crate) fn execute(&self, params: Values<'_>, out: &mut Vec<u8>) -> u8 {
        let at = out.len();
        out.extend_from_slice(&self.execute);
        if self.plain {
            return 1;
        }
        for (place, (which, declared)) in self.text.parameters.iter().zip(&self.types).enumerate() {
            match encode(params.get(usize::from(*which)), out) {
                Some(sent) if sent == *declared => {}
                Some(sent) => out[at + self.types_at + 2 * place] = sent,
                None => out[at + self.nulls_at + place / 8] |= 1 << (place % 8),
            }
        }
        packet::finish(out, at, 0)
    }
}

/// An operation kind, prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Name in messages.
    pub(crate) name: String,
    /// Use of its statements.
    pub(crate) shape: Shape,
    /// See [`SqlOperation`].
    pub(crate) empty_is_not_found: bool,
    /// See [`OpKind::keep_answer`].
    pub(crate) keep_answer: bool,
    /// Types of its parameters.
    params: Vec<ValueType>,
    /// True for a step of another operation type.
    pub(crate) is_step: bool,
    /// Statements, all with the same columns.
    pub(crate) statements: Vec<Statement>,
}

impl Prepared {
    /// An operation kind whose statements the server does not know yet.
    pub(crate) fn new(kind: &OpKind, compiled: SqlOperation<Text>) -> Self {
        let statement = |text| Statement { text, ..Statement::default() };
        let mut statements: Vec<Statement> = compiled.texts.into_iter().map(statement).collect();
        if compiled.shape == Shape::Text {
            // Stands for all of them: what it knows of columns is the last answer's.
            statements.push(Statement { plain: true, ..Statement::default() });
        }
        Self {
            name: kind.name.clone(),
            shape: compiled.shape,
            empty_is_not_found: compiled.empty_is_not_found,
            keep_answer: kind.keep_answer,
            params: kind.params.clone(),
            is_step: kind.step_of.is_some(),
            statements,
        }
    }

    /// The server knows the statement at `position` as `id`, with this many parameters.
    ///
    /// # Errors
    /// `Usage` when those are not as many as the kind declares.
    pub(crate) fn known(&mut self, position: usize, id: u32, parameter_count: u16) -> Result<(), StoreError> {
        let declared = &self.params;
        let Some(statement) = self.statements.get_mut(position) else { return Ok(()) };
        let highest = statement.text.parameters.iter().max().map_or(0, |which| usize::from(*which) + 1);
        let fits = match self.shape {
            Shape::One => highest == declared.len(),
            Shape::Nothing | Shape::Text | Shape::Repeated(_) | Shape::Bounds => true,
        };
        if !fits || usize::from(parameter_count) != statement.text.parameters.len() {
            return Err(StoreError::usage(format!(
                "operation `{}` declares {} parameters and its statement takes {}: {}",
                self.name,
                declared.len(),
                if fits { usize::from(parameter_count) } else { highest },
                statement.text.sql
            )));
        }
        statement.prepared(id, declared);
        Ok(())
    }

    /// Returns true if it is a step that may change what names mean in later statements.
    pub(crate) fn changes_names(&self) -> bool {
        self.is_step && self.statements.iter().any(|statement| plimsoll_core::sql::changes_names(&statement.text.sql))
    }

    /// The server cannot prepare the statement at `position`: it goes as text. False when it has parameters.
    pub(crate) fn unprepared(&mut self, position: usize) -> bool {
        match self.statements.get_mut(position) {
            Some(statement) if statement.text.parameters.is_empty() => {
                statement.plain = true;
                statement.execute.clear();
                packet::command(&mut statement.execute, COM_QUERY, statement.text.sql.as_bytes());
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Call, Value, ValueBuf};

    use super::*;
    use crate::sql;

    fn statement(text: &str, params: &[ValueType]) -> Prepared {
        let kind = OpKind {
            name: "q".into(),
            call: Call::Sql(text.into()),
            params: params.to_vec(),
            keep_answer: true,
            step_of: None,
        };
        let compiled = sql::compile(&kind, &plimsoll_core::Layout::default()).unwrap();
        Prepared::new(&kind, compiled)
    }

    /// Example of the server's documentation of COM_STMT_EXECUTE.
    #[test]
    fn an_execution_is_laid_out_as_documented() {
        let mut prepared = statement("SELECT $2, $1, $2", &[ValueType::Int, ValueType::Text]);
        assert_eq!(prepared.statements[0].text.sql, "SELECT ?, ?, ?");
        prepared.known(0, 0x0102_0304, 3).unwrap();
        let mut params = ValueBuf::new();
        params.push(Value::Int(5));
        params.push(Value::Text("ab"));
        let mut out = Vec::new();
        assert_eq!(prepared.statements[0].execute(params.values(), &mut out), 1);
        let expected = [
            &[32, 0, 0, 0, 0x17, 4, 3, 2, 1, 0, 1, 0, 0, 0][..],
            &[0, 1, 253, 0, 8, 0, 253, 0],
            b"\x02ab\x05\0\0\0\0\0\0\0\x02ab",
        ]
        .concat();
        assert_eq!(out, expected);

        params.clear();
        params.push(Value::Null);
        params.push(Value::Int(-1));
        out.clear();
        prepared.statements[0].execute(params.values(), &mut out);
        assert_eq!(&out[14..22], [0b010, 1, 8, 0, 8, 0, 8, 0], "types as sent, a bit for the null");
    }

    #[test]
    fn parameters_that_are_not_declared_are_refused() {
        let error = statement("SELECT $1 + $2", &[ValueType::Int]).known(0, 1, 2).unwrap_err();
        assert!(error.what.contains("declares 1 parameters and its statement takes 2"), "{error}");
        let error = statement("SELECT 1", &[ValueType::Int]).known(0, 1, 0).unwrap_err();
        assert!(error.what.contains("declares 1 parameters and its statement takes 0"), "{error}");
    }
}
