//! The SQL texts of the `records` interface: what makes a collection, and what asks it; and `$1` as `?`.
//!
//! A collection is an InnoDB table whose columns are its fields in order. Texts are in `utf8mb4` with a binary
//! collation that does not pad, so that they are told apart and ordered as their bytes are, as in every other store.

use plimsoll_core::tables::{self, Shape, SqlOperation, Tables};
use plimsoll_core::{Dialect, Layout, OpKind, StoreError, ValueType};

/// Most bytes of an index's entry (InnoDB, row format DYNAMIC, pages of 16 KiB).
const INDEX_BYTES_MAX: usize = 3_072;

/// Most bytes of a character of `utf8mb4`.
const CHAR_BYTES_MAX: usize = 4;

/// Most parameters of one statement.
const PARAMETERS_MAX: usize = 65_535;

/// Records of one INSERT: an insert of many is put together of these, since a statement has a fixed number of
/// parameters. Each is four round trips' worth of work or more for the server.
const RECORDS_AT_ONCE: [usize; 3] = [1, 16, 256];

/// Product that the server is. The products differ in collations and in the facts that they report about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavor {
    /// MariaDB.
    #[default]
    MariaDb,
    /// MySQL.
    MySql,
    /// MySQL 5.6 and 5.7, which have no collation for records.
    MySqlBefore8,
}

impl Flavor {
    /// Returns the flavor of a server's version: MariaDB's has its name in it.
    pub fn of_version(version: &str) -> Flavor {
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            _ if version.contains("MariaDB") => Flavor::MariaDb,
            Some(..8) => Flavor::MySqlBefore8,
            _ => Flavor::MySql,
        }
    }

    /// Name of the flavor.
    pub fn name(self) -> &'static str {
        match self {
            Flavor::MariaDb => "MariaDB",
            Flavor::MySql | Flavor::MySqlBefore8 => "MySQL",
        }
    }

    /// The collation that compares texts as their bytes, blanks at the end included.
    fn collation(self) -> &'static str {
        match self {
            Flavor::MariaDb => "utf8mb4_nopad_bin",
            Flavor::MySql | Flavor::MySqlBefore8 => "utf8mb4_0900_bin",
        }
    }
}

/// `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    Flavor::quoted(name)
}

/// `text` as a string literal, whatever `sql_mode` says of backslashes: as bytes of utf8mb4.
pub(crate) fn literal(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{digits}'")
}

impl Tables for Flavor {
    const SPEAKERS: &'static str = "MariaDB or MySQL";
    /// "Identifier Length Limits": characters; the names that Plimsoll makes have one byte for each.
    const NAME_BYTES_MAX: usize = 64;
    const OPTIONS: &'static str = " ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

    fn quoted(name: &str) -> String {
        format!("`{}`", name.replace('`', "``"))
    }

    fn column_type(&self, value_type: ValueType, is_key: bool) -> String {
        match (value_type, is_key) {
            (ValueType::Bool, _) => "BOOLEAN".to_owned(),
            (ValueType::Int, _) => "BIGINT".to_owned(),
            (ValueType::Float, _) => "DOUBLE".to_owned(),
            (ValueType::Text, false) => format!("LONGTEXT CHARACTER SET utf8mb4 COLLATE {}", self.collation()),
            (ValueType::Text, true) => {
                let chars = INDEX_BYTES_MAX / CHAR_BYTES_MAX;
                format!("VARCHAR({chars}) CHARACTER SET utf8mb4 COLLATE {}", self.collation())
            }
            (ValueType::Bytes, false) => "LONGBLOB".to_owned(),
            (ValueType::Bytes, true) => format!("VARBINARY({INDEX_BYTES_MAX})"),
            // A TIMESTAMP ends in 2038 and begins in 1970.
            (ValueType::Timestamp, _) => "DATETIME(6)".to_owned(),
        }
    }

    /// Returns the indexed column, for texts and bytes with the longest prefix that an entry can hold.
    fn indexed(column: String, value_type: ValueType, is_key: bool, parts: usize) -> String {
        let bytes = INDEX_BYTES_MAX / parts.max(1);
        match value_type {
            ValueType::Text if !is_key => format!("{column}({})", bytes / CHAR_BYTES_MAX),
            ValueType::Bytes if !is_key => format!("{column}({bytes})"),
            _ => column,
        }
    }

    fn scan(select: &str, field: &str, condition: &dyn Fn(&str) -> String) -> String {
        // The empty list means: no index at all.
        format!("{select} USE INDEX () WHERE {}", condition(field))
    }
}

/// The statements that make the layout's tables, and their indexes where the store is to keep them.
///
/// # Errors
/// `Usage`, when the layout is not for this server.
pub fn create(layout: &Layout, flavor: Flavor) -> Result<Vec<String>, StoreError> {
    if flavor == Flavor::MySqlBefore8 && !layout.collections.is_empty() {
        let what = "MySQL before 8.0 has no collation in which texts compare as their bytes, which records need";
        return Err(StoreError::usage(what).next("Use MySQL 8.0.17 or MariaDB 10.2 or later, or a workload in SQL."));
    }
    tables::create(&flavor, layout)
}

/// A statement with `?` for its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The statement.
    pub sql: String,
    /// Index of the parameter for each `?`.
    pub parameters: Vec<u16>,
}

/// Puts an operation kind into SQL over the tables of `layout`. The statements of [`Shape::Repeated`] take 1 and more
/// records at once.
///
/// # Errors
/// `Usage`, when it asks for what is not there.
pub fn compile(kind: &OpKind, layout: &Layout) -> Result<SqlOperation<Text>, StoreError> {
    let compiled = tables::compile::<Flavor>(kind, layout)?;
    let of = |text: String| with_question_marks(&text);
    Ok(match (compiled.shape, compiled.texts.first()) {
        (Shape::Repeated(width), Some(insert)) => SqlOperation { texts: inserts(insert, width), ..compiled.map(of) },
        _ => compiled.map(of),
    })
}

/// INSERTs of one record and of several, after the one of one record of `width` fields.
fn inserts(one: &str, width: usize) -> Vec<Text> {
    let into = one.rsplit_once(" VALUES ").map_or(one, |(into, _)| into);
    let record = format!("({})", vec!["?"; width].join(", "));
    let text = |records: &usize| Text {
        sql: format!("{into} VALUES {}", vec![record.as_str(); *records].join(", ")),
        parameters: (0..records * width).map(|which| which as u16).collect(),
    };
    RECORDS_AT_ONCE.iter().filter(|records| *records * width <= PARAMETERS_MAX).map(text).collect()
}

/// Puts `?` where `$1`, `$2` … stand.
fn with_question_marks(text: &str) -> Text {
    let mut sql = String::with_capacity(text.len());
    let (mut parameters, mut from) = (Vec::new(), 0);
    for (place, which) in plimsoll_core::parameters(text, Dialect::Mysql) {
        sql.push_str(&text[from..place.start]);
        sql.push('?');
        parameters.push(which);
        from = place.end;
    }
    sql.push_str(&text[from..]);
    Text { sql, parameters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_question_marks_outside_of_quotes_and_comments() {
        for (text, sql, parameters) in [
            ("SELECT $1", "SELECT ?", &[0][..]),
            ("$2+$1,$10", "?+?,?", &[1, 0, 9]),
            ("SELECT '$1', \"$1\", `$1`, $1", "SELECT '$1', \"$1\", `$1`, ?", &[0]),
            ("'it''s $1' 'a\\'$1' $1", "'it''s $1' 'a\\'$1' ?", &[0]),
            ("`a\\` = $1", "`a\\` = ?", &[0]),
            ("-- $1\n$1 # $2\n/* $3 */ $2", "-- $1\n? # $2\n/* $3 */ ?", &[0, 1]),
            ("3--$1", "3--?", &[0]),
            ("a$1 = @x$1 + $$", "a$1 = @x$1 + $$", &[]),
            ("$0 $", "$0 $", &[]),
            ("käse = $1 '", "käse = ? '", &[0]),
            ("? + ?", "? + ?", &[0, 1]),
            ("--", "--", &[]),
        ] {
            let got = with_question_marks(text);
            assert_eq!((got.sql.as_str(), &got.parameters[..]), (sql, parameters), "{text}");
        }
    }

    #[test]
    fn a_literal_means_the_same_in_every_mode() {
        assert_eq!(literal("a'\\"), "_utf8mb4 x'61275c'");
        assert_eq!(quoted("a`b"), "`a``b`");
    }

    #[test]
    fn records_are_inserted_in_pieces_that_have_not_too_many_parameters() {
        assert_eq!(inserts("INSERT INTO t (a) VALUES ($1)", 9).len(), 3);
        assert_eq!(inserts("INSERT INTO t (a) VALUES ($1)", 257).len(), 2);
        let all = inserts("INSERT INTO t (a, b) VALUES ($1, $2)", 2);
        assert_eq!(all[0].sql, "INSERT INTO t (a, b) VALUES (?, ?)");
        assert_eq!(all[1].parameters.len(), 32);
    }
}
