//! The SQL texts of the `records` interface: what makes a collection, and what asks it.
//!
//! A collection is a table whose columns are its fields in order. Texts are `COLLATE "C"`, so that they
//! order as their bytes do, as in every other store.

use plimsoll_core::tables::Tables;
use plimsoll_core::{KvCall, ValueType};

use crate::kv;

/// PostgreSQL's SQL.
pub struct Postgres;

impl Tables for Postgres {
    const SPEAKERS: &'static str = "PostgreSQL";
    /// Longer names are cut without an error (`NAMEDATALEN` − 1).
    const NAME_BYTES_MAX: usize = 63;

    fn column_type(&self, value_type: ValueType, _is_key: bool) -> String {
        let name = match value_type {
            ValueType::Bool => "boolean",
            ValueType::Int => "bigint",
            ValueType::Float => "double precision",
            ValueType::Text => "text COLLATE \"C\"",
            ValueType::Bytes => "bytea",
            ValueType::Timestamp => "timestamp with time zone",
        };
        name.to_owned()
    }

    fn scan(select: &str, field: &str, condition: &dyn Fn(&str) -> String) -> String {
        // The planner does not look for index conditions inside CASE, so this reads every record without a setting that
        // would also change how the session's other statements are planned.
        format!("{select} WHERE CASE WHEN {} THEN true ELSE false END", condition(field))
    }

    fn pairs(call: KvCall) -> Option<(&'static str, bool)> {
        Some(kv::statement(call))
    }
}

/// `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    Postgres::quoted(name)
}

/// `text` as a string literal, whatever `standard_conforming_strings` says.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}
