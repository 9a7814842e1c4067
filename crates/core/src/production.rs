//! Statements that a running store executed before the test.

use std::io::{self, BufRead};

use crate::error::StoreError;

/// A statement that a store executed, and its number of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementCount {
    /// The text, with the store's own placeholders for values.
    pub text: String,
    /// Number of calls.
    pub calls: u64,
}

/// Statements that a store executed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatementCounts {
    /// The statements, in no order; a text may occur several times.
    pub statements: Vec<StatementCount>,
    /// The counting facility, as in "counted by …".
    pub counted_by: String,
    /// Length of the counting period; `None` if the store does not report it.
    pub seconds: Option<f64>,
}

/// Name that a [`Production`] gives to a table that it draws values from, so that its statements can be told from
/// production's.
pub const MARK: &str = "plimsoll";

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column, without quotes.
    pub name: String,
    /// The values are texts.
    pub is_text: bool,
}

/// A store in production, over a read-only connection.
pub trait Production {
    /// The store's own schemas and tables, which tools query; `pg_*` matches all with that prefix.
    fn catalogue(&self) -> &'static [&'static str];

    /// Statements that it executed, in the database of its URL.
    ///
    /// # Errors
    /// `Usage`, with the setting to switch on, if nothing counts statements.
    fn asked(&mut self) -> Result<StatementCounts, StoreError>;

    /// The columns of a table, named as in a statement; empty if the table does not exist.
    ///
    /// # Errors
    /// Errors of the server.
    fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>, StoreError>;

    /// Returns up to `count` rows from all parts of a table, with the values of these columns as texts, none of them
    /// null.
    ///
    /// # Errors
    /// Errors of the server.
    fn rows(&mut self, table: &str, columns: &[String], count: usize) -> Result<Vec<Vec<String>>, StoreError>;

    /// The reason why the server refuses a statement with these values for its placeholders. The server plans the
    /// statement. If it `changes` rows, the server executes it, in a transaction that is rolled back.
    ///
    /// # Errors
    /// The connection failed.
    fn refusal(&mut self, text: &str, values: &[String], changes: bool) -> Result<Option<String>, StoreError>;
}

/// Longest line of a log, in bytes: more than a server writes for one statement.
const LINE_MAX: u64 = 64 << 20;

/// Appends the next line of a log, with its line end; false at the end.
///
/// # Errors
/// A log that cannot be read, or that has a line of more than 64 MiB and therefore is none.
pub fn log_line(log: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let read = io::Read::take(log, LINE_MAX).read_until(b'\n', line)? as u64;
    match read == LINE_MAX && line.last() != Some(&b'\n') {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "a line of more than 64 MiB: not a log of statements")),
        false => Ok(read > 0),
    }
}

/// Statement of whose execution a log has the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedStatement<'a> {
    /// End of the execution, in microseconds since 1970.
    pub at_us: i64,
    /// True if the log has the zone of the time. Otherwise the time is taken for one of UTC.
    pub has_zone: bool,
    /// Duration of the execution, in nanoseconds.
    pub took_ns: u64,
    /// Text, or its beginning; empty if the log has the duration alone.
    pub text: &'a str,
}

/// Statement in a log, which was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEntry<'a> {
    /// Text, and the values of its placeholders, if any.
    Statement(&'a str, &'a [Option<String>]),
    /// Time of an execution, before its text, if the log has both.
    Timed(TimedStatement<'a>),
    /// A part may be missing, because the end of the entry is not certain: true if that may be the time of an
    /// execution, too.
    Cut(bool),
}

/// Receiver of the statements in a log.
pub type LogReceiver<'a> = dyn FnMut(LogEntry<'_>) + 'a;
