//! Statements of a running server by its statement digests, and values out of its tables.

use plimsoll_core::production::{MARK, StatementCount, StatementCounts, TableColumn};
use plimsoll_core::{Production, StoreError, StoreErrorKind};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::sql::literal;

/// Settings of sessions: they write nothing.
pub(crate) const SETTINGS: &str = "SET SESSION TRANSACTION READ ONLY";
/// Begins a transaction in which a statement may change rows for a moment. MySQL does not limit the time of that.
const BEGIN: [&str; 2] = [
    "SET SESSION innodb_lock_wait_timeout = 5 /*M!, SESSION max_statement_time = 5 */",
    "START TRANSACTION READ WRITE",
];
/// Ends it.
const END: [&str; 2] =
    ["ROLLBACK", "SET SESSION innodb_lock_wait_timeout = DEFAULT /*M!, SESSION max_statement_time = DEFAULT */"];
/// Counts the tables whose changes a ROLLBACK does not undo.
const NOT_ROLLED_BACK: &str = "SELECT COUNT(*) FROM information_schema.TABLES t JOIN information_schema.ENGINES e \
    ON e.ENGINE = t.ENGINE WHERE e.TRANSACTIONS <> 'YES' \
    AND t.TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys')";

pub(crate) struct MyProduction {
    connection: Connection,
    /// True if a ROLLBACK undoes changes of all tables; `None` as long as the server was not asked.
    rolls_back: Option<bool>,
}

impl MyProduction {
    pub fn new(connection: Connection) -> Self {
        Self { connection, rolls_back: None }
    }

    fn rolls_back(&mut self) -> Result<bool, StoreError> {
        if self.rolls_back.is_none() {
            self.rolls_back = Some(self.connection.value(NOT_ROLLED_BACK)? == "0");
        }
        Ok(self.rolls_back == Some(true))
    }

    /// Runs statements up to the first that the server refuses. Returns its words.
    fn refused(&mut self, statements: &[String]) -> Result<Option<String>, StoreError> {
        for one in statements {
            match self.connection.simple(one) {
                Ok(_) => {}
                Err(error) if error.is_nobody_there() || error.kind == StoreErrorKind::Broken => return Err(error),
                Err(error) => return Ok(Some(error.said().to_owned())),
            }
        }
        Ok(None)
    }

    /// Writes the list of values of an INSERT, which a digest shortens to three points, with a placeholder for each
    /// column.
    fn with_values(&mut self, text: String) -> Result<String, StoreError> {
        let Some((before, after)) = text.split_once("VALUES(...)") else { return Ok(text) };
        let before = before.trim_end();
        let listed = before.strip_suffix(')').and_then(|before| before.rsplit_once('('));
        let (names, count) = match (listed, before.split_once(" INTO ")) {
            (Some((_, columns)), _) => (String::new(), columns.split(',').count()),
            (None, Some((_, table))) => {
                let columns = self.columns(table.trim())?;
                let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
                (format!("({})", names.join(", ")), names.len())
            }
            (None, None) => return Ok(text),
        };
        if count == 0 {
            return Ok(text);
        }
        Ok(format!("{before}{names} VALUES ({}){after}", vec!["?"; count].join(", ")))
    }
}

impl Production for MyProduction {
    fn catalogue(&self) -> &'static [&'static str] {
        &["information_schema", "performance_schema", "mysql", "sys"]
    }

    fn asked(&mut self) -> Result<StatementCounts, StoreError> {
        let next = "name one in the URL: --from mariadb://user@host/database";
        if self.connection.value("SELECT DATABASE()")?.is_empty() {
            return Err(StoreError::usage("the URL names no database").next(next));
        }
        if self.connection.value("SELECT @@performance_schema")? != "1" {
            return Err(StoreError::usage("the server's performance_schema is off: nothing counts its statements").next(
                "start it with performance_schema=ON, or give its slow or general log: --log FILE (SET GLOBAL slow_query_log=1, \
                 long_query_time=0 logs all that new connections ask)",
            ));
        }
        const DIGESTS: &str = "performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME = DATABASE()";
        let answer = self.connection.simple(&format!("SELECT DIGEST_TEXT, COUNT_STAR FROM {DIGESTS}"))?;
        let mut statements = Vec::new();
        for row in answer.row_iter() {
            let calls = text(row, 1).parse().unwrap_or(0);
            statements.push(StatementCount { text: self.with_values(as_written(text(row, 0)))?, calls });
        }
        let since = format!("SELECT TIMESTAMPDIFF(SECOND, MIN(FIRST_SEEN), NOW()) FROM {DIGESTS}");
        let seconds = self.connection.value(&since)?.parse().ok();
        Ok(StatementCounts { statements, counted_by: "events_statements_summary_by_digest".to_owned(), seconds })
    }

    fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>, StoreError> {
        let answer = self.connection.simple(&format!(
            "SELECT COLUMN_NAME, DATA_TYPE LIKE '%char' OR DATA_TYPE LIKE '%text' OR DATA_TYPE IN ('enum', 'set') \
             FROM information_schema.COLUMNS WHERE {}",
            named(table)
        ))?;
        let column = |row| TableColumn { name: text(row, 0).to_owned(), is_text: text(row, 1) == "1" };
        Ok(answer.row_iter().map(column).collect())
    }

    fn rows(&mut self, table: &str, columns: &[String], count: usize) -> Result<Vec<Vec<String>>, StoreError> {
        let rows = self
            .connection
            .value(&format!("SELECT TABLE_ROWS FROM information_schema.TABLES WHERE {}", named(table)))?;
        let share = 2.0 * count as f64 / rows.parse::<f64>().unwrap_or(0.0);
        let there: Vec<String> = columns.iter().map(|column| format!("{column} IS NOT NULL")).collect();
        let mut sampled = |share: f64| {
            let some = if share < 1.0 { format!(" AND RAND() < {share}") } else { String::new() };
            let (columns, there) = (columns.join(", "), there.join(" AND "));
            self.connection.work(|connection| {
                connection.simple(&format!("SELECT {columns} FROM {table} AS {MARK} WHERE {there}{some} LIMIT {count}"))
            })
        };
        let mut answer = sampled(share)?;
        if answer.rows == 0 && share < 1.0 {
            answer = sampled(1.0)?;
        }
        Ok(answer.row_iter().map(|row| (0..columns.len()).map(|at| text(row, at).to_owned()).collect()).collect())
    }

    fn refusal(&mut self, statement: &str, values: &[String], changes: bool) -> Result<Option<String>, StoreError> {
        let executes = changes && self.rolls_back()?;
        let tried = if executes { statement.to_owned() } else { format!("EXPLAIN {statement}") };
        // A read-only transaction does not even plan a change.
        let mut ask = if changes { BEGIN.map(str::to_owned).to_vec() } else { Vec::new() };
        ask.push(format!("SET @plimsoll = {}", literal(&tried)));
        ask.push("PREPARE plimsoll FROM @plimsoll".to_owned());
        let is_number = |value: &String| value.parse::<i64>().is_ok();
        ask.extend((1..).zip(values).map(|(number, value)| match is_number(value) {
            true => format!("SET @plimsoll{number} = {value}"),
            false => format!("SET @plimsoll{number} = {}", literal(value)),
        }));
        let names: Vec<String> = (1..=values.len()).map(|number| format!("@plimsoll{number}")).collect();
        let using = if names.is_empty() { String::new() } else { format!(" USING {}", names.join(", ")) };
        ask.extend([format!("EXECUTE plimsoll{using}"), "DEALLOCATE PREPARE plimsoll".to_owned()]);
        let refused = self.refused(&ask)?;
        if changes {
            self.refused(&END.map(str::to_owned))?;
        }
        Ok(refused)
    }
}

/// A digest as a statement: it has a blank before each parenthesis, where a function's must not have one, three points in place of
/// a list and of LIMIT's second number, and units as the server calls them.
fn as_written(digest: &str) -> String {
    const ALSO: [(&str, &str); 4] =
        [(" (", "("), ("IN(...)", "IN (?)"), ("LIMIT ?, ...", "LIMIT ?, ?"), ("SQL_TSI_", "")];
    ALSO.iter().fold(digest.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The condition that a table of `information_schema` is about this one.
fn named(table: &str) -> String {
    let bare = |part: &str| literal(part.trim().trim_matches('`'));
    match table.rsplit_once('.') {
        Some((database, table)) => format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", bare(database), bare(table)),
        None => format!("TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {}", bare(table)),
    }
}
