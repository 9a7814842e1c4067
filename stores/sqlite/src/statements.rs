//! SQL made from a layout: one table for each collection.
//!
//! Tables are `STRICT`, so that a value of the wrong type is refused and not kept. They have row numbers, as SQLite's
//! tables do by default; with an integer key the row number is the key. `WITHOUT ROWID` would order the rows themselves
//! by the key: with 100,000 rows of 200 bytes and keys in random order the load then takes 2.5 times as long, as
//! whole rows and not only small index entries go to random pages; a read by key takes a fifth less.

use plimsoll_core::{Access, Collection, IndexMode, Layout, RecordsCall, ValueType};

/// The statements that make the tables of `layout` and, where the store keeps them itself, their indexes.
pub(crate) fn create(layout: &Layout) -> Vec<String> {
    let mut statements = Vec::new();
    for collection in &layout.collections {
        let columns: Vec<String> = collection
            .fields
            .iter()
            .enumerate()
            .map(|(position, field)| {
                let key = if position == usize::from(collection.key) { " PRIMARY KEY NOT NULL" } else { "" };
                format!("{} {}{key}", quoted(&field.name), column_type(field.value_type))
            })
            .collect();
        statements.push(format!("CREATE TABLE {} ({}) STRICT", table(collection), columns.join(", ")));
        if layout.index == IndexMode::Own {
            for (position, index) in collection.indexes.iter().enumerate() {
                let fields: Vec<String> = index.fields.iter().map(|field| column(collection, *field)).collect();
                let name = index_name(collection, position);
                statements.push(format!("CREATE INDEX {name} ON {} ({})", table(collection), fields.join(", ")));
            }
        }
    }
    statements
}

/// The name of the index at `position` of the collection, quoted.
pub(crate) fn index_name(collection: &Collection, position: usize) -> String {
    quoted(&format!("{}_index_{position}", collection.name))
}

/// The statement of `call`. Parameters are numbered in the order of the operation's.
///
/// [`RecordsCall::Find`] has a statement for each pair of open and given bounds: `low` and `high` say which are given.
pub(crate) fn of_call(collection: &Collection, call: &RecordsCall, low: bool, high: bool) -> String {
    let (table, key) = (table(collection), column(collection, collection.key));
    let all: Vec<String> = (0..collection.fields.len() as u16).map(|field| column(collection, field)).collect();
    let all = all.join(", ");
    match call {
        RecordsCall::Insert => {
            let values: Vec<String> = (1..=collection.fields.len()).map(|number| format!("?{number}")).collect();
            format!("INSERT INTO {table} ({all}) VALUES ({})", values.join(", "))
        }
        RecordsCall::Get => format!("SELECT {all} FROM {table} WHERE {key} = ?1"),
        RecordsCall::Update { fields } => {
            let set: Vec<String> = fields
                .iter()
                .enumerate()
                .map(|(position, field)| format!("{} = ?{}", column(collection, *field), position + 2))
                .collect();
            format!("UPDATE {table} SET {} WHERE {key} = ?1", set.join(", "))
        }
        RecordsCall::Delete => format!("DELETE FROM {table} WHERE {key} = ?1"),
        RecordsCall::Find { field, access } => {
            // The unary plus keeps SQLite from using an index, also the key's.
            let plus = if *access == Access::Scan { "+" } else { "" };
            let field = format!("{plus}{}", column(collection, *field));
            let bounds = match (low, high) {
                (true, true) => format!("{field} >= ?1 AND {field} < ?2"),
                (true, false) => format!("{field} >= ?1"),
                (false, true) => format!("{field} < ?2"),
                (false, false) => format!("{field} IS NOT NULL"),
            };
            format!("SELECT {all} FROM {table} WHERE {bounds}")
        }
        RecordsCall::All => format!("SELECT {all} FROM {table}"),
    }
}

/// `$1`, `$2` … as SQLite numbers its parameters. It knows `$1` too, but numbers such names in the order in
/// which they first stand in the statement. Texts, quoted names and comments are left alone.
pub(crate) fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => quoted_length(rest, first),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '$' if rest.len() > 1 && rest.as_bytes()[1].is_ascii_digit() => {
                out.push('?');
                rest = &rest[1..];
                continue;
            }
            other => other.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// Length of what stands between two of `quote`, both included. A doubled quote inside begins another such text.
fn quoted_length(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

fn table(collection: &Collection) -> String {
    quoted(&collection.name)
}

fn column(collection: &Collection, field: u16) -> String {
    collection.fields.get(usize::from(field)).map_or_else(|| "NULL".to_owned(), |field| quoted(&field.name))
}

fn column_type(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Bool | ValueType::Int | ValueType::Timestamp => "INTEGER",
        ValueType::Float => "REAL",
        ValueType::Text => "TEXT",
        ValueType::Bytes => "BLOB",
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
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
            ("é$1", "é?1"),
        ] {
            assert_eq!(numbered(given), wanted);
        }
    }
}
