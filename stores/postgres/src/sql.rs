//! The SQL texts of the `records` interface: what makes a collection, and what asks it.
//!
//! A collection is a table whose columns are its fields in order. Texts are `COLLATE "C"`, so that they
//! order as their bytes do, as in every other store.

use plimsoll_core::{
    Access, Call, Collection, IndexMode, Layout, OpKind, RecordsCall, StoreError, StoreErrorKind, Value, ValueType,
    Values,
};

use crate::kv;

/// PostgreSQL cuts longer names without an error (`NAMEDATALEN` − 1).
const NAME_BYTES_MAX: usize = 63;

/// `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `text` as a string literal, whatever `standard_conforming_strings` says.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn column_type(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Bool => "boolean",
        ValueType::Int => "bigint",
        ValueType::Float => "double precision",
        ValueType::Text => "text COLLATE \"C\"",
        ValueType::Bytes => "bytea",
        ValueType::Timestamp => "timestamp with time zone",
    }
}

/// The name of the index at `position` of a collection.
pub(crate) fn index_name(collection: &Collection, position: usize) -> String {
    format!("{}_index_{position}", collection.name)
}

/// The statements that make the layout's tables, and their indexes where the store is to keep them.
pub fn create(layout: &Layout) -> Result<Vec<String>, StoreError> {
    let mut statements = Vec::new();
    for collection in &layout.collections {
        let names = collection.fields.iter().map(|field| &field.name).chain([&collection.name]);
        if let Some(name) = names.into_iter().find(|name| name.len() > NAME_BYTES_MAX) {
            return Err(StoreError::new(
                StoreErrorKind::Usage,
                format!("the name `{name}` is longer than the {NAME_BYTES_MAX} bytes that PostgreSQL keeps"),
            )
            .next("Choose a shorter name."));
        }
        let key = field(collection, collection.key)?;
        let columns: Vec<String> = (collection.fields.iter().map(|field| {
            let not_null = if quoted(&field.name) == key { " NOT NULL" } else { "" };
            format!("{} {}{not_null}", quoted(&field.name), column_type(field.value_type))
        }))
        .chain([format!("PRIMARY KEY ({key})")])
        .collect();
        let table = quoted(&collection.name);
        statements.push(format!("CREATE TABLE {table} ({})", columns.join(", ")));
        if layout.index == IndexMode::Own {
            for (position, index) in collection.indexes.iter().enumerate() {
                let fields: Result<Vec<String>, StoreError> =
                    index.fields.iter().map(|position| field(collection, *position)).collect();
                let name = quoted(&index_name(collection, position));
                statements.push(format!("CREATE INDEX {name} ON {table} ({})", fields?.join(", ")));
            }
        }
    }
    Ok(statements)
}

fn field(collection: &Collection, position: u16) -> Result<String, StoreError> {
    let field = collection.fields.get(usize::from(position)).ok_or_else(|| {
        StoreError::new(StoreErrorKind::Usage, format!("collection `{}` has no field {position}", collection.name))
    })?;
    Ok(quoted(&field.name))
}

/// How an operation kind uses its statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// There is no statement: an empty round trip.
    Nothing,
    /// One statement, all parameters.
    One,
    /// One statement, whose text is the parameter.
    Given,
    /// One statement, executed once for every this many parameters.
    Repeated(usize),
    /// Four statements: both bounds, only the upper, only the lower, none.
    Bounds,
}

impl Shape {
    /// Which statement does an operation with these parameters, and with which of them. Of a
    /// [`Shape::Repeated`] one: the first time.
    #[inline]
    pub fn statement<'a>(self, params: Values<'a>) -> (usize, Values<'a>) {
        match self {
            Shape::Nothing | Shape::One | Shape::Given => (0, params),
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

/// What an operation kind is in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Statements with `$1`, `$2` …
    pub texts: Vec<String>,
    /// How they are used.
    pub shape: Shape,
    /// No row returned or touched means that there is no such record.
    pub empty_is_not_found: bool,
}

/// Puts an operation kind into SQL over the tables of `layout`.
pub fn compile(kind: &OpKind, layout: &Layout) -> Result<Compiled, StoreError> {
    let one = |text: String, empty_is_not_found| Compiled { texts: vec![text], shape: Shape::One, empty_is_not_found };
    let (collection, call) = match &kind.call {
        Call::Nothing | Call::Steps => {
            return Ok(Compiled { texts: Vec::new(), shape: Shape::Nothing, empty_is_not_found: false });
        }
        Call::Sql(text) => return Ok(one(text.clone(), false)),
        Call::SqlRow(text) => return Ok(one(text.clone(), true)),
        Call::SqlText => {
            return Ok(Compiled { texts: Vec::new(), shape: Shape::Given, empty_is_not_found: false });
        }
        Call::Kv(call) => {
            let (text, empty_is_not_found) = kv::statement(*call);
            return Ok(one(text.to_owned(), empty_is_not_found));
        }
        Call::Http(_) | Call::Ldap(_) => {
            let what = format!("operation `{}` asks for an interface that PostgreSQL does not speak", kind.name);
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        Call::Records { collection, call } => (*collection, call),
    };
    let collection = layout.collections.get(usize::from(collection)).ok_or_else(|| {
        StoreError::new(
            StoreErrorKind::Usage,
            format!("operation `{}` asks collection {collection}, which the layout has not", kind.name),
        )
    })?;
    let table = quoted(&collection.name);
    let key = field(collection, collection.key)?;
    let columns: Vec<String> = collection.fields.iter().map(|field| quoted(&field.name)).collect();
    let columns = columns.join(", ");
    Ok(match call {
        RecordsCall::Insert => {
            let width = collection.fields.len();
            let values: Vec<String> = (1..=width).map(|n| format!("${n}")).collect();
            Compiled {
                texts: vec![format!("INSERT INTO {table} ({columns}) VALUES ({})", values.join(", "))],
                shape: Shape::Repeated(width),
                empty_is_not_found: false,
            }
        }
        RecordsCall::Get => one(format!("SELECT {columns} FROM {table} WHERE {key} = $1"), true),
        RecordsCall::Update { fields } => {
            let mut sets = Vec::new();
            for (position, number) in fields.iter().zip(2..) {
                sets.push(format!("{} = ${number}", field(collection, *position)?));
            }
            if sets.is_empty() {
                sets.push(format!("{key} = {key}"));
            }
            one(format!("UPDATE {table} SET {} WHERE {key} = $1", sets.join(", ")), true)
        }
        RecordsCall::Delete => one(format!("DELETE FROM {table} WHERE {key} = $1"), true),
        RecordsCall::Find { field: position, access } => {
            let field = field(collection, *position)?;
            let conditions = [
                format!("{field} >= $1 AND {field} < $2"),
                format!("{field} < $1"),
                format!("{field} >= $1"),
                format!("{field} IS NOT NULL"),
            ];
            let texts = conditions.into_iter().map(|condition| {
                // The planner does not look for index conditions inside CASE, so this reads every record
                // without a setting that would also change how the session's other statements are planned.
                let condition = match access {
                    Access::Indexed => condition,
                    Access::Scan => format!("CASE WHEN {condition} THEN true ELSE false END"),
                };
                format!("SELECT {columns} FROM {table} WHERE {condition}")
            });
            Compiled { texts: texts.collect(), shape: Shape::Bounds, empty_is_not_found: false }
        }
        RecordsCall::All => one(format!("SELECT {columns} FROM {table}"), false),
    })
}
