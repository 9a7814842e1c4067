//! Execution plan of a statement, in a line for each of its steps.

use plimsoll_core::{Value, Values};

/// Names of EXPLAIN's columns, of MariaDB and of MySQL, which has two more.
const PLAN_COLUMNS: [&str; 10] =
    ["id", "select", "table", "type", "possible keys", "key", "key bytes", "ref", "rows", ""];
const PLAN_COLUMNS_MYSQL: [&str; 12] = [
    "id",
    "select",
    "table",
    "partitions",
    "type",
    "possible keys",
    "key",
    "key bytes",
    "ref",
    "rows",
    "% filtered",
    "",
];

/// A row of a plan in words: `table items, type range, key items_index_0, … Using index condition`.
pub(crate) fn line(row: Values<'_>) -> String {
    let names: &[&str] = if row.len() > PLAN_COLUMNS.len() { &PLAN_COLUMNS_MYSQL } else { &PLAN_COLUMNS };
    let part = |(name, value): (&&str, Value<'_>)| {
        let shown = match value {
            Value::Text(text) => text.to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return None,
        };
        let wanted = !shown.is_empty() && !matches!(*name, "id" | "select" | "possible keys" | "key bytes");
        wanted.then(|| format!("{name} {shown}").trim_start().to_owned())
    };
    names.iter().zip(row.iter()).filter_map(part).collect::<Vec<_>>().join(", ")
}
