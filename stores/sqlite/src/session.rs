//! Records and statements over one connection.

use plimsoll_core::tables::{Shape, SqlOperation};
use plimsoll_core::{
    Answer, BlockingSession, Call, Layout, Op, OpKind, Outcome, RecordsCall, StoreError, Value, ValueType, Values,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

use crate::failure::{fail, not_prepared};
use crate::statements::compile;

/// Connection of a client.
///
/// Statements are prepared once and found again by their text in the connection's own cache.
pub(crate) struct SqlSession {
    connection: Connection,
    layout: Layout,
    kinds: Vec<Prepared>,
}

/// A kind of operation, with everything looked up that can be before the first one.
struct Prepared {
    /// Statements of the operation. An insert of several records runs its only statement for each.
    sql: SqlOperation,
    /// Types of a collection's fields. SQLite reports the types of other answers.
    types: Vec<ValueType>,
    keep: bool,
}

/// A value on its way to SQLite, borrowed.
struct Param<'a>(Value<'a>);

impl ToSql for Param<'_> {
    #[inline]
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Bool(truth) => ValueRef::Integer(i64::from(truth)),
            Value::Int(number) | Value::Timestamp(number) => ValueRef::Integer(number),
            Value::Float(number) => ValueRef::Real(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl SqlSession {
    pub(crate) fn new(connection: Connection, layout: Layout) -> Self {
        SqlSession { connection, layout, kinds: Vec::new() }
    }

    /// The rows that an operation answered with, or touched.
    fn run(&self, kind: &Prepared, params: Values<'_>, answer: &mut Answer) -> rusqlite::Result<u64> {
        if let (Shape::Text, Value::Text(sql)) = (kind.sql.shape, params.get(0)) {
            return run(&mut self.connection.prepare(sql)?, kind, Values::default(), answer);
        }
        let (which, used) = kind.sql.shape.statement(params);
        let Some(sql) = kind.sql.texts.get(which) else { return Ok(1) };
        let mut statement = self.connection.prepare_cached(sql)?;
        match kind.sql.shape {
            Shape::Repeated(width) if params.len() > width => {
                self.in_transaction(|| params.rows(width).try_fold(0, |_, row| run(&mut statement, kind, row, answer)))
            }
            _ => run(&mut statement, kind, used, answer),
        }
    }

    /// All of `work` or nothing. The write lock is taken at once, so that SQLite waits for it and does not give
    /// up a transaction half-way.
    fn in_transaction(&self, work: impl FnOnce() -> rusqlite::Result<u64>) -> rusqlite::Result<u64> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.raw_execute()?;
        let done = work().and_then(|rows| {
            self.connection.prepare_cached("COMMIT")?.raw_execute()?;
            Ok(rows)
        });
        // After some errors SQLite has rolled back by itself.
        if done.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        done
    }
}

impl BlockingSession for SqlSession {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        let mut all = Vec::new();
        for kind in kinds {
            let prepared = prepared(&self.layout, kind)?;
            let around = ["BEGIN IMMEDIATE", "COMMIT"].into_iter();
            let around = around.filter(|_| matches!(prepared.sql.shape, Shape::Repeated(_)));
            for sql in prepared.sql.texts.iter().map(String::as_str).chain(around) {
                self.connection.prepare_cached(sql).map_err(|error| not_prepared(kind, sql, &error))?;
            }
            all.push(prepared);
        }
        self.kinds = all;
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let params = op.params;
        let what = match self.kinds.get(usize::from(op.kind)) {
            None => "this operation type has not been prepared",
            Some(kind) => match kind.sql.shape {
                Shape::Repeated(width) if params.is_empty() || !params.len().is_multiple_of(width) => {
                    "the number of values is not a multiple of the number of fields"
                }
                Shape::Text if !matches!(params.get(0), Value::Text(_)) => "a statement's text is a text",
                _ => {
                    return match self.run(kind, params, answer) {
                        Ok(0) if kind.sql.empty_is_not_found => Outcome::NotFound,
                        Ok(_) => Outcome::Ok,
                        Err(error) => fail(answer, &error),
                    };
                }
            },
        };
        answer.fail(Outcome::Rejected, "REFUSED", what)
    }
}

/// Prepares operations of type `kind`.
fn prepared(layout: &Layout, kind: &OpKind) -> Result<Prepared, StoreError> {
    let sql = compile(layout, kind)?;
    let mut types = Vec::new();
    if let Call::Records { collection, call } = &kind.call {
        let collection = &layout.collections[usize::from(*collection)];
        if matches!(call, RecordsCall::Update { fields } if fields.contains(&collection.key)) {
            let what = format!("operation `{}`: the key of `{}` cannot be set", kind.name, collection.name);
            return Err(StoreError::usage(what));
        }
        types.extend(collection.fields.iter().map(|field| field.value_type));
    }
    Ok(Prepared { sql, types, keep: kind.keep_answer })
}

/// Runs a statement with all of `params`, which must be as many as it has. Returns how many rows it answered with, or
/// touched.
#[inline]
fn run(
    statement: &mut Statement<'_>,
    kind: &Prepared,
    params: Values<'_>,
    answer: &mut Answer,
) -> rusqlite::Result<u64> {
    if params.len() != statement.parameter_count() {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), statement.parameter_count()));
    }
    bind_given(statement, params)?;
    let columns = statement.column_count();
    if columns == 0 {
        return Ok(statement.raw_execute()? as u64);
    }
    answer.columns = columns;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        answer.rows += 1;
        if kind.keep {
            for column in 0..columns {
                answer.values.push(value(row.get_ref(column)?, kind.types.get(column).copied())?);
            }
        }
    }
    Ok(answer.rows)
}

/// Binds those of `params` that the statement has: an open bound has no place in it.
#[inline]
pub(crate) fn bind_given(statement: &mut Statement<'_>, params: Values<'_>) -> rusqlite::Result<()> {
    for (position, value) in params.iter().enumerate().take(statement.parameter_count()) {
        statement.raw_bind_parameter(position + 1, Param(value))?;
    }
    Ok(())
}

/// A column as a value of its field's type, or as the value that SQLite says it is.
#[inline]
fn value(value: ValueRef<'_>, value_type: Option<ValueType>) -> rusqlite::Result<Value<'_>> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) if value_type == Some(ValueType::Bool) => Value::Bool(number != 0),
        ValueRef::Integer(number) if value_type == Some(ValueType::Timestamp) => Value::Timestamp(number),
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(_) => Value::Text(value.as_str()?),
        ValueRef::Blob(bytes) => Value::Bytes(bytes),
    })
}
