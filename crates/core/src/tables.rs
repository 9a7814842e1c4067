//! The `records` interface in SQL: a collection is a table whose columns are its fields in order.
//!
//! This module holds the SQL that all stores share; differences are a store's [`Tables`].

use crate::error::StoreError;
use crate::layout::{Collection, IndexMode, Layout};
use crate::op::{Access, Call, KvCall, OpKind, RecordsCall};
use crate::value::{Value, ValueType, Values};

/// Peculiarities of a store's SQL.
pub trait Tables {
    /// Names of the servers with this SQL, for messages.
    const SPEAKERS: &'static str;
    /// Longest name of a table, column or index, in bytes.
    const NAME_BYTES_MAX: usize;
    /// Text after a table's columns.
    const OPTIONS: &'static str = "";

    /// `name` as a quoted identifier.
    fn quoted(name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    /// Type of a column; the key column of a collection may have another type.
    fn column_type(&self, value_type: ValueType, is_key: bool) -> String;

    /// Text for a quoted column in an index of `parts` columns.
    fn indexed(column: String, _value_type: ValueType, _is_key: bool, _parts: usize) -> String {
        column
    }

    /// Returns a statement `SELECT columns FROM table` for the rows that meet `condition` on `field`, in a form that
    /// must read every row. Both are quoted; `field` may be put into the condition in another form.
    fn scan(select: &str, field: &str, condition: &dyn Fn(&str) -> String) -> String;

    /// The statement of a call of the `kv` interface, and whether no row means that the key does not exist; `None` if
    /// the interface is not spoken.
    fn pairs(_call: KvCall) -> Option<(&'static str, bool)> {
        None
    }
}

/// Use of statements by an operation type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// No statement: an empty round trip.
    Nothing,
    /// A single statement with all parameters.
    One,
    /// No fixed statement: the only parameter is its text.
    Text,
    /// A statement for each group of this many parameters: a record.
    Repeated(usize),
    /// Four statements: both bounds, only the upper, only the lower, none.
    Bounds,
}

impl Shape {
    /// Selects the statement of an operation with these parameters, and those that it takes. For [`Shape::Repeated`],
    /// the parameters of the first record.
    #[inline]
    pub fn statement<'a>(self, params: Values<'a>) -> (usize, Values<'a>) {
        match self {
            Shape::Nothing | Shape::One | Shape::Text => (0, params),
            Shape::Repeated(width) => (0, params.slice(0..width)),
            Shape::Bounds => {
                let open = |position| params.get(position) == Value::Null;
                let (below, above) = (open(0), open(1));
                let used = usize::from(below)..2 - usize::from(above);
                (usize::from(below) + 2 * usize::from(above), params.slice(used))
            }
        }
    }
}

/// An operation type in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOperation<T = String> {
    /// Statements, with `$1`, `$2` …
    pub texts: Vec<T>,
    /// Use of the statements.
    pub shape: Shape,
    /// No row returned or changed means that the record does not exist.
    pub empty_is_not_found: bool,
}

impl<T> SqlOperation<T> {
    /// Converts the statements with `each`.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> SqlOperation<U> {
        let texts = self.texts.into_iter().map(each).collect();
        SqlOperation { texts, shape: self.shape, empty_is_not_found: self.empty_is_not_found }
    }
}

/// Name of the index at `position` of a collection.
pub fn index_name(collection: &Collection, position: usize) -> String {
    format!("{}_index_{position}", collection.name)
}

/// Returns the statements that create the tables of `layout`, and their indexes if the store is to keep them.
///
/// # Errors
/// `Usage` if a name is too long or a field does not exist.
pub fn create<T: Tables>(tables: &T, layout: &Layout) -> Result<Vec<String>, StoreError> {
    let mut statements = Vec::new();
    for collection in &layout.collections {
        let names = collection.fields.iter().map(|field| field.name.clone()).chain([collection.name.clone()]);
        let indexes = (0..collection.indexes.len()).map(|position| index_name(collection, position));
        if let Some(name) = names.chain(indexes).find(|name| name.len() > T::NAME_BYTES_MAX) {
            let what =
                format!("the name `{name}` is longer than {} bytes, the most in {}", T::NAME_BYTES_MAX, T::SPEAKERS);
            return Err(StoreError::usage(what).next("Choose a shorter name."));
        }
        let key = column::<T>(collection, collection.key)?;
        let columns = collection.fields.iter().zip(0..).map(|(field, position)| {
            let is_key = position == collection.key;
            let not_null = if is_key { " NOT NULL" } else { "" };
            format!("{} {}{not_null}", T::quoted(&field.name), tables.column_type(field.value_type, is_key))
        });
        let columns: Vec<String> = columns.chain([format!("PRIMARY KEY ({key})")]).collect();
        let table = T::quoted(&collection.name);
        statements.push(format!("CREATE TABLE {table} ({}){}", columns.join(", "), T::OPTIONS));
        for (position, index) in collection.indexes.iter().enumerate().filter(|_| layout.index == IndexMode::Own) {
            let mut fields = Vec::new();
            for field in &index.fields {
                let name = column::<T>(collection, *field)?;
                let value_type = collection.fields[usize::from(*field)].value_type;
                fields.push(T::indexed(name, value_type, *field == collection.key, index.fields.len()));
            }
            let name = T::quoted(&index_name(collection, position));
            statements.push(format!("CREATE INDEX {name} ON {table} ({})", fields.join(", ")));
        }
    }
    Ok(statements)
}

/// Translates an operation type into SQL over the tables of `layout`.
///
/// # Errors
/// `Usage` if it refers to something that does not exist, or to an interface that is not spoken.
pub fn compile<T: Tables>(kind: &OpKind, layout: &Layout) -> Result<SqlOperation, StoreError> {
    let one =
        |text: String, empty_is_not_found| SqlOperation { texts: vec![text], shape: Shape::One, empty_is_not_found };
    let none = |shape| Ok(SqlOperation { texts: Vec::new(), shape, empty_is_not_found: false });
    match &kind.call {
        Call::Nothing | Call::Steps => none(Shape::Nothing),
        Call::Sql(text) => Ok(one(text.clone(), false)),
        Call::SqlRow(text) => Ok(one(text.clone(), true)),
        Call::SqlText => none(Shape::Text),
        Call::Kv(call) => match T::pairs(*call) {
            Some((text, empty_is_not_found)) => Ok(one(text.to_owned(), empty_is_not_found)),
            None => Err(kind.refused(T::SPEAKERS)),
        },
        Call::Command(_) | Call::Http(_) | Call::Ldap(_) => Err(kind.refused(T::SPEAKERS)),
        Call::Records { collection, call } => match layout.collections.get(usize::from(*collection)) {
            Some(collection) => records::<T>(collection, call)
                .map_err(|error| StoreError { what: format!("operation `{}`: {}", kind.name, error.what), ..error }),
            None => {
                let what =
                    format!("operation `{}` uses collection {collection}, which is not in the layout", kind.name);
                Err(StoreError::usage(what))
            }
        },
    }
}

/// Returns an operation that asks the server for its query plan of an operation of `kind`, with the parameters it
/// takes. `None` if there is no fixed statement.
///
/// # Errors
/// As [`compile`].
pub fn explain<'a, T: Tables>(
    kind: &OpKind,
    layout: &Layout,
    params: Values<'a>,
) -> Result<Option<(OpKind, Values<'a>)>, StoreError> {
    let compiled = compile::<T>(kind, layout)?;
    let (which, used) = compiled.shape.statement(params);
    let Some(statement) = compiled.texts.get(which) else { return Ok(None) };
    let types: Vec<ValueType> = kind.params.iter().copied().cycle().take(used.len()).collect();
    let explain = OpKind::new(format!("explain {}", kind.name), Call::Sql(format!("EXPLAIN {statement}")), &types);
    Ok(Some((explain.kept(), used)))
}

fn records<T: Tables>(collection: &Collection, call: &RecordsCall) -> Result<SqlOperation, StoreError> {
    let one = |text, empty_is_not_found| SqlOperation { texts: vec![text], shape: Shape::One, empty_is_not_found };
    let table = T::quoted(&collection.name);
    let key = column::<T>(collection, collection.key)?;
    let columns: Vec<String> = collection.fields.iter().map(|field| T::quoted(&field.name)).collect();
    let columns = columns.join(", ");
    let select = format!("SELECT {columns} FROM {table}");
    Ok(match call {
        RecordsCall::Insert => {
            let width = collection.fields.len();
            let values: Vec<String> = (1..=width).map(|number| format!("${number}")).collect();
            let text = format!("INSERT INTO {table} ({columns}) VALUES ({})", values.join(", "));
            SqlOperation { shape: Shape::Repeated(width), ..one(text, false) }
        }
        RecordsCall::Get => one(format!("{select} WHERE {key} = $1"), true),
        RecordsCall::Update { fields } => {
            let mut sets = Vec::new();
            for (position, number) in fields.iter().zip(2..) {
                sets.push(format!("{} = ${number}", column::<T>(collection, *position)?));
            }
            if sets.is_empty() {
                sets.push(format!("{key} = {key}"));
            }
            one(format!("UPDATE {table} SET {} WHERE {key} = $1", sets.join(", ")), true)
        }
        RecordsCall::Delete => one(format!("DELETE FROM {table} WHERE {key} = $1"), true),
        RecordsCall::Find { field, access } => {
            let field = column::<T>(collection, *field)?;
            let conditions: [fn(&str) -> String; 4] = [
                |field| format!("{field} >= $1 AND {field} < $2"),
                |field| format!("{field} < $1"),
                |field| format!("{field} >= $1"),
                |field| format!("{field} IS NOT NULL"),
            ];
            let texts = conditions.iter().map(|condition| match access {
                Access::Indexed => format!("{select} WHERE {}", condition(&field)),
                Access::Scan => T::scan(&select, &field, condition),
            });
            SqlOperation { texts: texts.collect(), shape: Shape::Bounds, empty_is_not_found: false }
        }
        RecordsCall::All => one(select, false),
    })
}

fn column<T: Tables>(collection: &Collection, position: u16) -> Result<String, StoreError> {
    match collection.fields.get(usize::from(position)) {
        Some(field) => Ok(T::quoted(&field.name)),
        None => Err(StoreError::usage(format!("collection `{}` has no field {position}", collection.name))),
    }
}
