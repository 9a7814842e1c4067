//! Records and statements over one connection.

use plimsoll_core::tables::{self, Compiled};
use plimsoll_core::{
    Answer, BlockingSession, Call, KvCall, Layout, Op, OpKind, Outcome, RecordsCall, StoreError, StoreErrorKind, Value,
    ValueType, Values,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

use crate::failure::{fail, not_prepared};
use crate::statements::{self, Sqlite};

/// One client's connection.
///
/// Statements are prepared once and found again by their text in the connection's own cache.
pub(crate) struct SqlSession {
    connection: Connection,
    layout: Layout,
    kinds: Vec<Prepared>,
}

/// What is to be done, with everything looked up that can be before the first operation.
enum Prepared {
    Nothing,
    Insert {
        sql: String,
        width: usize,
    },
    Select {
        sql: String,
        format: RowFormat,
        one: bool,
    },
    /// As [`tables::Shape::Bounds`] has them.
    Find {
        sql: [String; 4],
        format: RowFormat,
    },
    /// `params` is how many the operation must have.
    Change {
        sql: String,
        params: usize,
    },
    Sql {
        sql: String,
        keep: bool,
        /// No row is not found.
        wanted: bool,
    },
    /// A statement that comes as the only parameter.
    SqlText {
        keep: bool,
    },
}

/// How rows become values.
struct RowFormat {
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

    fn insert(&self, sql: &str, width: usize, params: Values<'_>) -> rusqlite::Result<Outcome> {
        let mut statement = self.connection.prepare_cached(sql)?;
        if params.len() == width {
            bind(&mut statement, params)?;
            statement.raw_execute()?;
            return Ok(Outcome::Ok);
        }
        self.in_transaction(|| {
            for row in params.rows(width) {
                bind(&mut statement, row)?;
                statement.raw_execute()?;
            }
            Ok(Outcome::Ok)
        })
    }

    /// All of `work` or nothing. The write lock is taken at once, so that SQLite waits for it and does not give
    /// up a transaction half-way.
    fn in_transaction(&self, work: impl FnOnce() -> rusqlite::Result<Outcome>) -> rusqlite::Result<Outcome> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.raw_execute()?;
        let done = work().and_then(|outcome| {
            self.connection.prepare_cached("COMMIT")?.raw_execute()?;
            Ok(outcome)
        });
        // After some errors SQLite has rolled back by itself.
        if done.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        done
    }

    fn select(&self, sql: &str, format: &RowFormat, params: Values<'_>, answer: &mut Answer) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        bind_given(&mut statement, params)?;
        answer.columns = format.types.len();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            answer.rows += 1;
            if format.keep {
                for (column, value_type) in format.types.iter().enumerate() {
                    answer.values.push(typed(row.get_ref(column)?, *value_type)?);
                }
            }
        }
        Ok(())
    }
}

impl BlockingSession for SqlSession {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        let mut all = Vec::new();
        for kind in kinds {
            let prepared = prepared(&self.layout, kind)?;
            for sql in texts(&prepared) {
                self.connection.prepare_cached(sql).map_err(|error| not_prepared(kind, sql, &error))?;
            }
            all.push(prepared);
        }
        self.kinds = all;
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let Some(prepared) = self.kinds.get(usize::from(op.kind)) else {
            return answer.fail(Outcome::Rejected, "REFUSED", "this kind of operation has not been prepared");
        };
        let params = op.params;
        let done = match prepared {
            Prepared::Nothing => Ok(Outcome::Ok),
            Prepared::Insert { width, .. } if params.is_empty() || !params.len().is_multiple_of(*width) => {
                let what = "the number of values is not a multiple of the number of fields";
                return answer.fail(Outcome::Rejected, "REFUSED", what);
            }
            Prepared::Change { params: wanted, .. } if params.len() != *wanted => {
                return answer.fail(Outcome::Rejected, "REFUSED", "the number of values is not that of the operation");
            }
            Prepared::Insert { sql, width } => self.insert(sql, *width, params),
            Prepared::Select { sql, format, one } => {
                self.select(sql, format, params, answer).map(|()| found(*one, answer.rows))
            }
            Prepared::Find { sql, format } => {
                let (which, used) = tables::Shape::Bounds.statement(params);
                self.select(&sql[which], format, used, answer).map(|()| Outcome::Ok)
            }
            Prepared::Change { sql, .. } => self.change(sql, params),
            Prepared::Sql { sql, keep, wanted } => self
                .connection
                .prepare_cached(sql)
                .and_then(|mut statement| run(&mut statement, *keep, params, answer))
                .map(|rows| found(*wanted, rows)),
            Prepared::SqlText { keep } => match params.get(0) {
                Value::Text(sql) => self
                    .connection
                    .prepare(sql)
                    .and_then(|mut statement| run(&mut statement, *keep, Values::default(), answer))
                    .map(|_| Outcome::Ok),
                _ => return answer.fail(Outcome::Rejected, "REFUSED", "a statement's text is a text"),
            },
        };
        done.unwrap_or_else(|error| fail(answer, &error))
    }
}

impl SqlSession {
    fn change(&self, sql: &str, params: Values<'_>) -> rusqlite::Result<Outcome> {
        let mut statement = self.connection.prepare_cached(sql)?;
        bind(&mut statement, params)?;
        Ok(found(true, statement.raw_execute()? as u64))
    }
}

/// What is to be done for `kind`, with its statements as text.
fn prepared(layout: &Layout, kind: &OpKind) -> Result<Prepared, StoreError> {
    let Compiled { texts, empty_is_not_found: wanted, .. } = tables::compile::<Sqlite>(kind, layout)?;
    let mut texts = texts.iter().map(|text| statements::numbered(text));
    let mut sql = || texts.next().unwrap_or_default();
    let keep = kind.keep_answer;
    let (collection, call) = match &kind.call {
        Call::Records { collection, call } => (&layout.collections[usize::from(*collection)], call),
        Call::Sql(_) | Call::SqlRow(_) => return Ok(Prepared::Sql { sql: sql(), keep, wanted }),
        Call::SqlText => return Ok(Prepared::SqlText { keep }),
        Call::Kv(call) => {
            let format = |columns| RowFormat { types: vec![ValueType::Bytes; columns], keep };
            return Ok(match call {
                KvCall::Get => Prepared::Select { sql: sql(), format: format(1), one: wanted },
                KvCall::Scan => Prepared::Select { sql: sql(), format: format(2), one: wanted },
                KvCall::Put => Prepared::Change { sql: sql(), params: 2 },
                KvCall::Delete => Prepared::Change { sql: sql(), params: 1 },
            });
        }
        // Of all others none has a statement.
        _ => return Ok(Prepared::Nothing),
    };
    let format = RowFormat { types: collection.fields.iter().map(|field| field.value_type).collect(), keep };
    Ok(match call {
        RecordsCall::Insert => Prepared::Insert { sql: sql(), width: collection.fields.len() },
        RecordsCall::Get | RecordsCall::All => Prepared::Select { sql: sql(), format, one: wanted },
        RecordsCall::Delete => Prepared::Change { sql: sql(), params: 1 },
        RecordsCall::Update { fields } if fields.contains(&collection.key) => {
            let what = format!("operation `{}`: the key of `{}` cannot be set", kind.name, collection.name);
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        RecordsCall::Update { fields } => Prepared::Change { sql: sql(), params: fields.len() + 1 },
        RecordsCall::Find { .. } => Prepared::Find { sql: [sql(), sql(), sql(), sql()], format },
    })
}

/// The statement of `kind` with these parameters, numbered as SQLite numbers them, and those of them that it takes; `None`
/// when it has none.
pub(crate) fn statement_text<'p>(
    layout: &Layout,
    kind: &OpKind,
    params: Values<'p>,
) -> Result<Option<(String, Values<'p>)>, StoreError> {
    let compiled = tables::compile::<Sqlite>(kind, layout)?;
    let (which, used) = compiled.shape.statement(params);
    Ok(compiled.texts.get(which).map(|text| (statements::numbered(text), used)))
}

fn texts(prepared: &Prepared) -> Vec<&str> {
    match prepared {
        Prepared::Nothing | Prepared::SqlText { .. } => Vec::new(),
        Prepared::Find { sql, .. } => sql.iter().map(String::as_str).collect(),
        Prepared::Insert { sql, .. } => vec![sql, "BEGIN IMMEDIATE", "COMMIT"],
        Prepared::Select { sql, .. } | Prepared::Change { sql, .. } | Prepared::Sql { sql, .. } => vec![sql],
    }
}

/// Runs a statement of the `sql` interface. Returns how many rows it answered with, or touched.
fn run(statement: &mut Statement<'_>, keep: bool, params: Values<'_>, answer: &mut Answer) -> rusqlite::Result<u64> {
    bind(statement, params)?;
    let columns = statement.column_count();
    if columns == 0 {
        return Ok(statement.raw_execute()? as u64);
    }
    answer.columns = columns;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        answer.rows += 1;
        if keep {
            for column in 0..columns {
                answer.values.push(untyped(row.get_ref(column)?)?);
            }
        }
    }
    Ok(answer.rows)
}

fn found(wanted: bool, rows: u64) -> Outcome {
    if wanted && rows == 0 { Outcome::NotFound } else { Outcome::Ok }
}

/// Binds all of `params`, which must be as many as the statement has.
#[inline]
fn bind(statement: &mut Statement<'_>, params: Values<'_>) -> rusqlite::Result<()> {
    if params.len() != statement.parameter_count() {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), statement.parameter_count()));
    }
    bind_given(statement, params)
}

/// Binds those of `params` that the statement has: an open bound has no place in it.
#[inline]
pub(crate) fn bind_given(statement: &mut Statement<'_>, params: Values<'_>) -> rusqlite::Result<()> {
    for (position, value) in params.iter().enumerate().take(statement.parameter_count()) {
        statement.raw_bind_parameter(position + 1, Param(value))?;
    }
    Ok(())
}

/// A column of a collection as a value of its field's type.
#[inline]
fn typed(value: ValueRef<'_>, value_type: ValueType) -> rusqlite::Result<Value<'_>> {
    Ok(match (value, value_type) {
        (ValueRef::Integer(number), ValueType::Bool) => Value::Bool(number != 0),
        (ValueRef::Integer(number), ValueType::Timestamp) => Value::Timestamp(number),
        (other, _) => return untyped(other),
    })
}

/// A column of a statement as the value that SQLite says it is.
#[inline]
fn untyped(value: ValueRef<'_>) -> rusqlite::Result<Value<'_>> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(_) => Value::Text(value.as_str()?),
        ValueRef::Blob(bytes) => Value::Bytes(bytes),
    })
}
