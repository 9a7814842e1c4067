//! SQL made from a layout: one table for each collection.
//!
//! Tables are `STRICT`, so that a value of the wrong type is refused and not kept. They have row numbers, as SQLite's
//! tables do by default; with an integer key the row number is the key. `WITHOUT ROWID` would order the rows themselves
//! by the key: with 100,000 rows of 200 bytes and keys in random order the load then takes 2.5 times as long, as
//! whole rows and not only small index entries go to random pages; a read by key takes a fifth less.

use plimsoll_core::tables::{self, SqlOperation, Tables};
use plimsoll_core::{Dialect, KvCall, Layout, OpKind, StoreError, ValueType, parameters};

use crate::kv;

/// SQLite's SQL.
pub(crate) struct Sqlite;

impl Tables for Sqlite {
    const SPEAKERS: &'static str = "SQLite";
    // SQLite itself has no limit.
    const NAME_BYTES_MAX: usize = usize::MAX;
    const OPTIONS: &'static str = " STRICT";

    fn column_type(&self, value_type: ValueType, _is_key: bool) -> String {
        let name = match value_type {
            ValueType::Bool | ValueType::Int | ValueType::Timestamp => "INTEGER",
            ValueType::Float => "REAL",
            ValueType::Text => "TEXT",
            ValueType::Bytes => "BLOB",
        };
        name.to_owned()
    }

    fn scan(select: &str, field: &str, condition: &dyn Fn(&str) -> String) -> String {
        // The unary plus keeps SQLite from using an index, also the key's.
        format!("{select} WHERE {}", condition(&format!("+{field}")))
    }

    fn pairs(call: KvCall) -> Option<(&'static str, bool)> {
        Some((kv::statement(call), matches!(call, KvCall::Get | KvCall::Delete)))
    }
}

/// Puts an operation kind into SQL over the tables of `layout`, with parameters as SQLite numbers them.
///
/// # Errors
/// `Usage`, when it asks for what is not there.
pub(crate) fn compile(layout: &Layout, kind: &OpKind) -> Result<SqlOperation, StoreError> {
    Ok(tables::compile::<Sqlite>(kind, layout)?.map(|text| numbered(&text)))
}

/// `$1`, `$2` … as SQLite numbers its parameters. It knows `$1` too, but numbers such names in the order in
/// which they first stand in the statement.
fn numbered(sql: &str) -> String {
    let mut out = sql.to_owned();
    for (place, _) in parameters(sql, Dialect::Sqlite) {
        out.replace_range(place.start..place.start + 1, "?");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_keep_their_numbers() {
        for (given, wanted) in [
            ("SELECT $2, $1", "SELECT ?2, ?1"),
            ("SELECT '$1', \"$1\", `$1` -- $1\n, $1 /* $1 */", "SELECT '$1', \"$1\", `$1` -- $1\n, ?1 /* $1 */"),
            ("SELECT 'it''s $1', $12", "SELECT 'it''s $1', ?12"),
            ("$x $", "$x $"),
            ("'$1", "'$1"),
            // A name.
            ("é$1", "é$1"),
            ("é=$1", "é=?1"),
        ] {
            assert_eq!(numbered(given), wanted);
        }
    }
}
