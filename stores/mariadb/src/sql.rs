//! The SQL texts of the `records` interface: what makes a collection, and what asks it; and `$1` as `?`.
//!
//! A collection is an InnoDB table whose columns are its fields in order. Texts are in `utf8mb4` with a binary
//! collation that does not pad, so that they are told apart and ordered as their bytes are, as in every other store.

use plimsoll_core::{
    Access, Call, Collection, IndexMode, Layout, OpKind, RecordsCall, StoreError, StoreErrorKind, Value, ValueType,
    Values,
};

/// Longest name of a table, column or index ("Identifier Length Limits"), in characters.
const NAME_CHARS_MAX: usize = 64;

/// Most bytes of an index's entry (InnoDB, row format DYNAMIC, pages of 16 KiB).
const INDEX_BYTES_MAX: usize = 3_072;

/// Most bytes of a character of `utf8mb4`.
const CHAR_BYTES_MAX: usize = 4;

/// Most parameters of one statement.
const PARAMETERS_MAX: usize = 65_535;

/// Records of one INSERT: an insert of many is put together of these, since a statement has a fixed number of
/// parameters. Each is four round trips' worth of work or more for the server.
const RECORDS_AT_ONCE: [usize; 3] = [1, 16, 256];

/// Which of them it is. They differ in collations and in what they can be asked about themselves.
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
    /// Of a server's version: MariaDB's has its name in it.
    pub fn of_version(version: &str) -> Flavor {
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            _ if version.contains("MariaDB") => Flavor::MariaDb,
            Some(..8) => Flavor::MySqlBefore8,
            _ => Flavor::MySql,
        }
    }

    /// Its name.
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
    format!("`{}`", name.replace('`', "``"))
}

/// `text` as a string literal, whatever `sql_mode` says of backslashes: as bytes of utf8mb4.
pub(crate) fn literal(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{digits}'")
}

fn column_type(value_type: ValueType, is_key: bool, flavor: Flavor) -> String {
    match (value_type, is_key) {
        (ValueType::Bool, _) => "BOOLEAN".to_owned(),
        (ValueType::Int, _) => "BIGINT".to_owned(),
        (ValueType::Float, _) => "DOUBLE".to_owned(),
        (ValueType::Text, false) => format!("LONGTEXT CHARACTER SET utf8mb4 COLLATE {}", flavor.collation()),
        (ValueType::Text, true) => {
            let chars = INDEX_BYTES_MAX / CHAR_BYTES_MAX;
            format!("VARCHAR({chars}) CHARACTER SET utf8mb4 COLLATE {}", flavor.collation())
        }
        (ValueType::Bytes, false) => "LONGBLOB".to_owned(),
        (ValueType::Bytes, true) => format!("VARBINARY({INDEX_BYTES_MAX})"),
        // A TIMESTAMP ends in 2038 and begins in 1970.
        (ValueType::Timestamp, _) => "DATETIME(6)".to_owned(),
    }
}

/// The name of the index at `position` of a collection.
pub(crate) fn index_name(collection: &Collection, position: usize) -> String {
    format!("{}_index_{position}", collection.name)
}

/// The statements that make the layout's tables, and their indexes where the store is to keep them.
///
/// # Errors
/// `Usage`, when the layout is not for this server.
pub fn create(layout: &Layout, flavor: Flavor) -> Result<Vec<String>, StoreError> {
    if flavor == Flavor::MySqlBefore8 && !layout.collections.is_empty() {
        let what = "MySQL before 8.0 has no collation in which texts compare as their bytes, which records need";
        return Err(StoreError::new(StoreErrorKind::Usage, what)
            .next("Use MySQL 8.0.17 or MariaDB 10.2 or later, or a workload in SQL."));
    }
    layout.collections.iter().map(|collection| create_table(collection, layout.index, flavor)).collect()
}

fn create_table(collection: &Collection, mode: IndexMode, flavor: Flavor) -> Result<String, StoreError> {
    let names = collection.fields.iter().map(|field| field.name.clone()).chain([collection.name.clone()]);
    let index_names = (0..collection.indexes.len()).map(|position| index_name(collection, position));
    if let Some(name) = names.chain(index_names).find(|name| name.chars().count() > NAME_CHARS_MAX) {
        return Err(StoreError::new(
            StoreErrorKind::Usage,
            format!("the name `{name}` is longer than the {NAME_CHARS_MAX} characters that {} takes", flavor.name()),
        )
        .next("Choose a shorter name."));
    }
    let key = field(collection, collection.key)?;
    let mut parts: Vec<String> = (collection.fields.iter().map(|field| {
        let is_key = quoted(&field.name) == key;
        let not_null = if is_key { " NOT NULL" } else { "" };
        format!("{} {}{not_null}", quoted(&field.name), column_type(field.value_type, is_key, flavor))
    }))
    .chain([format!("PRIMARY KEY ({key})")])
    .collect();
    if mode == IndexMode::Own {
        for (position, index) in collection.indexes.iter().enumerate() {
            let share = INDEX_BYTES_MAX / index.fields.len().max(1);
            let fields: Result<Vec<String>, StoreError> =
                index.fields.iter().map(|position| indexed(collection, *position, share)).collect();
            parts.push(format!("KEY {} ({})", quoted(&index_name(collection, position)), fields?.join(", ")));
        }
    }
    let table = quoted(&collection.name);
    Ok(format!("CREATE TABLE {table} ({}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC", parts.join(", ")))
}

/// A field in an index: of texts and bytes as much of the beginning as an entry of `bytes` can hold.
fn indexed(collection: &Collection, position: u16, bytes: usize) -> Result<String, StoreError> {
    let name = field(collection, position)?;
    let value_type = collection.fields.get(usize::from(position)).map(|field| field.value_type);
    Ok(match value_type {
        _ if position == collection.key => name,
        Some(ValueType::Text) => format!("{name}({})", bytes / CHAR_BYTES_MAX),
        Some(ValueType::Bytes) => format!("{name}({bytes})"),
        _ => name,
    })
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
    /// No statement is known: the only parameter is one.
    Text,
    /// Records of this many parameters each; the statements take 1 and more of them at once.
    Repeated(usize),
    /// Four statements: both bounds, only the upper, only the lower, none.
    Bounds,
}

impl Shape {
    /// Which statement does an operation with these parameters, and with which of them. Of a [`Shape::Repeated`] one:
    /// its first record.
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

/// A statement with `?` for its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The statement.
    pub sql: String,
    /// Which parameter stands at each `?`.
    pub parameters: Vec<u16>,
}

/// What an operation kind is in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Its statements.
    pub texts: Vec<Text>,
    /// How they are used.
    pub shape: Shape,
    /// No row returned or touched means that there is no such record.
    pub empty_is_not_found: bool,
}

/// Puts an operation kind into SQL over the tables of `layout`.
pub fn compile(kind: &OpKind, layout: &Layout) -> Result<Compiled, StoreError> {
    let one = |text: &str, empty_is_not_found| Compiled {
        texts: vec![with_question_marks(text)],
        shape: Shape::One,
        empty_is_not_found,
    };
    let (collection, call) = match &kind.call {
        Call::Nothing | Call::Steps => {
            return Ok(Compiled { texts: Vec::new(), shape: Shape::Nothing, empty_is_not_found: false });
        }
        Call::Sql(text) => return Ok(one(text, false)),
        Call::SqlRow(text) => return Ok(one(text, true)),
        Call::SqlText => return Ok(Compiled { texts: Vec::new(), shape: Shape::Text, empty_is_not_found: false }),
        Call::Kv(_) | Call::Http(_) | Call::Ldap(_) => {
            let what = format!("operation `{}` asks for an interface that MariaDB and MySQL do not speak", kind.name);
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
        RecordsCall::Insert => inserts(&table, &columns, collection.fields.len()),
        RecordsCall::Get => one(&format!("SELECT {columns} FROM {table} WHERE {key} = $1"), true),
        RecordsCall::Update { fields } => {
            let mut sets = Vec::new();
            for (position, number) in fields.iter().zip(2..) {
                sets.push(format!("{} = ${number}", field(collection, *position)?));
            }
            if sets.is_empty() {
                sets.push(format!("{key} = {key}"));
            }
            one(&format!("UPDATE {table} SET {} WHERE {key} = $1", sets.join(", ")), true)
        }
        RecordsCall::Delete => one(&format!("DELETE FROM {table} WHERE {key} = $1"), true),
        RecordsCall::Find { field: position, access } => {
            let field = field(collection, *position)?;
            let hint = match access {
                Access::Indexed => "",
                // The empty list means: no index at all.
                Access::Scan => " USE INDEX ()",
            };
            let conditions = [
                format!("{field} >= $1 AND {field} < $2"),
                format!("{field} < $1"),
                format!("{field} >= $1"),
                format!("{field} IS NOT NULL"),
            ];
            let text = |condition| format!("SELECT {columns} FROM {table}{hint} WHERE {condition}");
            let texts = conditions.into_iter().map(|condition| with_question_marks(&text(condition)));
            Compiled { texts: texts.collect(), shape: Shape::Bounds, empty_is_not_found: false }
        }
        RecordsCall::All => one(&format!("SELECT {columns} FROM {table}"), false),
    })
}

/// INSERTs of one record and of several.
fn inserts(table: &str, columns: &str, width: usize) -> Compiled {
    let record = format!("({})", vec!["?"; width].join(", "));
    let text = |records: &usize| Text {
        sql: format!("INSERT INTO {table} ({columns}) VALUES {}", vec![record.as_str(); *records].join(", ")),
        parameters: (0..records * width).map(|which| which as u16).collect(),
    };
    let sizes = RECORDS_AT_ONCE.iter().filter(|records| *records * width <= PARAMETERS_MAX);
    Compiled { texts: sizes.map(text).collect(), shape: Shape::Repeated(width), empty_is_not_found: false }
}

/// Puts `?` where `$1`, `$2` … stand outside of quotes and comments.
pub(crate) fn with_question_marks(text: &str) -> Text {
    let mut sql = String::with_capacity(text.len());
    let mut parameters = Vec::new();
    let mut rest = text;
    let mut in_name = false;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '\'' | '"' | '`' => quoted_length(rest, next),
            '#' => line_length(rest),
            // Two dashes begin a comment when a blank or nothing follows them.
            '-' if rest.starts_with("--") && !rest[2..].starts_with(|c: char| !c.is_whitespace()) => line_length(rest),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '$' if !in_name => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                match rest[1..=digits].parse::<u16>() {
                    Ok(number @ 1..) => {
                        sql.push('?');
                        parameters.push(number - 1);
                        rest = &rest[1 + digits..];
                        continue;
                    }
                    _ => 1,
                }
            }
            '?' => {
                // Counts as the parameter of its place, as everywhere in this dialect.
                parameters.push(u16::try_from(parameters.len()).unwrap_or(u16::MAX));
                1
            }
            other => other.len_utf8(),
        };
        in_name = next.is_alphanumeric() || matches!(next, '_' | '$' | '@');
        let (taken, left) = rest.split_at(length);
        sql.push_str(taken);
        rest = left;
    }
    Text { sql, parameters }
}

/// Bytes up to and with the quote that ends what begins with `quote`.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, next)) = chars.next() {
        if next == '\\' && quote != '`' {
            chars.next();
        } else if next == quote {
            // A doubled quote begins another piece at once.
            return at + 1;
        }
    }
    text.len()
}

fn line_length(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
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
        assert_eq!(inserts("t", "a", 9).texts.len(), 3);
        assert_eq!(inserts("t", "a", 257).texts.len(), 2);
        assert_eq!(inserts("t", "a, b", 2).texts[1].parameters.len(), 32);
    }
}
