//! What a running store tells of the statements that it was asked before anybody tested it.

use std::io::{self, BufRead};

use crate::error::StoreError;

/// A statement that a store was asked, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its text, with the store's own placeholders for values.
    pub text: String,
    /// How often it was asked.
    pub calls: u64,
}

/// Statements that a store was asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AskedStatements {
    /// In no order; of one text there may be several.
    pub statements: Vec<Asked>,
    /// What has counted them, as in "counted by …".
    pub counted_by: String,
    /// For how long it has counted; `None` where it does not tell.
    pub seconds: Option<f64>,
}

/// What a [`Production`] calls a table that it draws values from, so that its statements can be told from production's.
pub const MARK: &str = "plimsoll";

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, without quotes.
    pub name: String,
    /// Its values are texts.
    pub is_text: bool,
}

/// A store in production, over a connection that only reads.
pub trait Production {
    /// Its own schemas and tables, which tools ask; `pg_*` are all that begin so.
    fn catalogue(&self) -> &'static [&'static str];

    /// What it was asked, in the database of its URL.
    ///
    /// # Errors
    /// `Usage`, with what has to be switched on, where nothing counts.
    fn asked(&mut self) -> Result<AskedStatements, StoreError>;

    /// The columns of a table, which is named as in a statement; none where there is no such table.
    ///
    /// # Errors
    /// As the server says.
    fn columns(&mut self, table: &str) -> Result<Vec<Column>, StoreError>;

    /// Up to `count` rows of a table from all over it, with the values of these columns as texts; none of them is null.
    ///
    /// # Errors
    /// As the server says.
    fn rows(&mut self, table: &str, columns: &[String], count: usize) -> Result<Vec<Vec<String>>, StoreError>;

    /// Why the server would refuse a statement with these values for its placeholders; it is planned, not executed.
    ///
    /// # Errors
    /// The connection failed.
    fn refusal(&mut self, text: &str, values: &[String]) -> Result<Option<String>, StoreError>;
}

/// Longest line of a log, in bytes: more than a server writes of one statement.
const LINE_MAX: u64 = 64 << 20;

/// Appends the next line of a log, with its end; false where there is none.
///
/// # Errors
/// It cannot be read, or is no log: a line of more than 64 MiB.
pub fn log_line(log: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let read = io::Read::take(log, LINE_MAX).read_until(b'\n', line)? as u64;
    match read == LINE_MAX && line.last() != Some(&b'\n') {
        true => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a line of more than 64 MiB: this is no log of statements"))
        }
        false => Ok(read > 0),
    }
}

/// What is told of each statement in a log: its text, with the values of its placeholders where it has any.
pub type Logged<'a> = dyn FnMut(&str, &[Option<String>]) + 'a;
