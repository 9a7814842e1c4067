//! Values out of CSV files (RFC 4180): each operation takes one row of each file, whose columns are variables.

use std::fmt;
use std::sync::Arc;

use plimsoll_core::{CsvFile, Script, Value, ValueType, WorkloadError};

use super::plain::OperationNumber;
use super::program::Initial;
use super::symbols::is_name_byte;
use crate::scramble::{below, hash};

const ROW_SALT: u64 = 0xc5f1;

/// A file's rows, without its header line.
struct Table {
    seed: u64,
    in_order: bool,
    rows: usize,
    columns: usize,
    /// All values one behind the other, and where each of them ends.
    text: String,
    ends: Vec<u32>,
    /// True for each column of which all values are integers in canonical form.
    is_int: Vec<bool>,
}

/// A column of a file.
#[derive(Clone)]
pub(crate) struct Column {
    table: Arc<Table>,
    at: usize,
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.at == other.at
    }
}

impl fmt::Debug for Column {
    // Without values: a file may hold passwords.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "column {} of {} rows", self.at, self.table.rows)
    }
}

impl Column {
    pub(super) fn value_type(&self) -> ValueType {
        if self.is_int() { ValueType::Int } else { ValueType::Text }
    }

    fn is_int(&self) -> bool {
        self.table.is_int.get(self.at).copied().unwrap_or(false)
    }

    /// Returns the value in the row of an operation. All columns of a file use the same row.
    #[inline]
    pub(super) fn value(&self, place: OperationNumber) -> Value<'_> {
        let (table, rows) = (&*self.table, self.table.rows as u64);
        let row = match table.in_order {
            true => place.sequence() % rows,
            false => below(hash(table.seed, u64::from(place.client), place.cycle), rows),
        };
        let field = row as usize * table.columns + self.at;
        let end = |field: usize| table.ends.get(field).map_or(0, |end| *end as usize);
        let text = table.text.get(field.checked_sub(1).map_or(0, end)..end(field)).unwrap_or_default();
        match text.parse() {
            Ok(number) if self.is_int() => Value::Int(number),
            _ => Value::Text(text),
        }
    }
}

/// The variables that the CSV files of `scripts` give, by name.
///
/// # Errors
///
/// As of [`variables`].
pub(crate) fn columns(seed: u64, scripts: &[Script]) -> Result<Vec<(String, Initial)>, WorkloadError> {
    // All scripts have the same.
    variables(seed, scripts.first().map_or(&[], |script| &script.csv))
}

/// The variables that `files` give, by name.
///
/// # Errors
///
/// A file without a row, one whose rows are not of one length, and columns of one name.
fn variables(seed: u64, files: &[Arc<CsvFile>]) -> Result<Vec<(String, Initial)>, WorkloadError> {
    let mut variables: Vec<(String, Initial)> = Vec::new();
    for (position, file) in files.iter().enumerate() {
        let (names, table) = read(hash(seed, ROW_SALT, position as u64), file)?;
        let table = Arc::new(table);
        for (at, name) in names.into_iter().enumerate() {
            if variables.iter().any(|(known, _)| *known == name) {
                let what = format!("{}:1: the variable `{name}` is there already", file.file);
                let help = "name each column once; of several files give one a `prefix`";
                return Err(WorkloadError::new(what, help));
            }
            variables.push((name, Initial::Column(Column { table: Arc::clone(&table), at })));
        }
    }
    Ok(variables)
}

/// The line of a quote that begins a value and is never closed.
fn open_quote(text: &str) -> Option<u64> {
    let (mut line, mut opened, mut begins) = (1, None, true);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, opened) {
            (b'"', Some(_)) if bytes.peek() == Some(&b'"') => drop(bytes.next()),
            (b'"', Some(_)) => opened = None,
            (b'"', None) if begins => opened = Some(line),
            _ => {}
        }
        line += u64::from(byte == b'\n');
        begins = opened.is_none() && matches!(byte, b',' | b'\n' | b'\r');
    }
    opened
}

/// The names of a file's columns, and its rows.
fn read(seed: u64, file: &CsvFile) -> Result<(Vec<String>, Table), WorkloadError> {
    let wrong = |line: u64, what: &str, help: &str| WorkloadError::new(format!("{}:{line}: {what}", file.file), help);
    if let Some(line) = open_quote(&file.text) {
        return Err(wrong(
            line,
            "a quote is never closed",
            "close it, or write two for one that is meant; the file may be cut off",
        ));
    }
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file.text.as_bytes());
    let unreadable = |error: &csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        wrong(line, "it is not CSV", "write CSV with commas, in UTF-8")
    };
    let names: Vec<String> =
        reader.headers().map_err(|error| unreadable(&error))?.iter().map(|name| variable(&file.prefix, name)).collect();
    if names.is_empty() {
        return Err(wrong(1, "the file is empty", "its first line names the columns, each further line is a row"));
    }
    if let Some(at) = names.iter().position(|name| *name == file.prefix) {
        let what = format!("column {} has no name", at + 1);
        return Err(wrong(1, &what, "the first line names the columns, with commas between them"));
    }
    let (mut text, mut ends, mut is_int) = (String::new(), Vec::new(), vec![true; names.len()]);
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| unreadable(&error))? {
        if record.len() != names.len() {
            let line = record.position().map_or(1, |position| line_of(&file.text, position));
            let s = if record.len() == 1 { "" } else { "s" };
            let what = format!("{} value{s}, where the first line names {} columns", record.len(), names.len());
            return Err(wrong(line, &what, "a value that holds a comma, a quote or a line's end stands in \"quotes\""));
        }
        for (value, is_int) in record.iter().zip(&mut is_int) {
            text.push_str(value);
            ends.push(text.len() as u32);
            *is_int &= is_integer(value);
        }
    }
    if ends.is_empty() {
        return Err(wrong(1, "there is no row below the header line", "each line below it is a row"));
    }
    let (rows, columns) = (ends.len() / names.len(), names.len());
    Ok((names, Table { seed, in_order: file.in_order, rows, columns, text, ends, is_int }))
}

/// The line that a record begins on. The reader's own position stands before the line ends that it skips.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let rest = text.as_bytes().iter().skip(position.byte() as usize);
    let skipped = rest.take_while(|byte| matches!(byte, b'\r' | b'\n')).filter(|byte| **byte == b'\n').count();
    position.line() + skipped as u64
}

/// Returns the variable name of a column: `First name` is `First_name`.
fn variable(prefix: &str, name: &str) -> String {
    let mut variable = prefix.to_owned();
    for c in name.trim().chars() {
        let fits = !c.is_ascii() || is_name_byte(c as u8);
        if variable.is_empty() && c.is_ascii_digit() {
            variable.push('_');
        }
        variable.push(if fits { c } else { '_' });
    }
    variable
}

/// Returns true if `text` is an integer in canonical form.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !digits.starts_with(['0', '+']) || text == "0";
    is_plain && text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(text: &str, in_order: bool) -> Arc<CsvFile> {
        let (file, prefix) = ("users.csv".to_owned(), String::new());
        Arc::new(CsvFile { file, text: text.to_owned(), digest: String::new(), prefix, in_order })
    }

    fn columns(text: &str, in_order: bool) -> Vec<(String, Column)> {
        let column = |(name, initial)| match initial {
            Initial::Column(column) => (name, column),
            other => panic!("{other:?}"),
        };
        variables(7, &[file(text, in_order)]).unwrap().into_iter().map(column).collect()
    }

    fn place(client: u32, cycle: u64) -> OperationNumber {
        OperationNumber { client, clients: 2, cycle }
    }

    #[test]
    fn clients_share_the_rows_in_order_and_begin_again_at_the_end() {
        let all = columns("\u{feff}id,E-mail,2nd\n1,\"a, \"\"b\"\"\",x\n\n2,é,\n3,c,007\n", true);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["id", "E_mail", "_2nd"]);
        let row = |client, cycle| all.iter().map(|(_, column)| column.value(place(client, cycle))).collect::<Vec<_>>();
        assert_eq!(row(0, 0), [Value::Int(1), Value::Text("a, \"b\""), Value::Text("x")]);
        assert_eq!(row(1, 0), [Value::Int(2), Value::Text("é"), Value::Text("")]);
        assert_eq!(row(0, 1), [Value::Int(3), Value::Text("c"), Value::Text("007")]);
        assert_eq!(row(1, 1), row(0, 0));
        assert_eq!(all[2].1.value_type(), ValueType::Text);
    }

    #[test]
    fn at_random_an_operation_has_one_row_and_all_rows_come() {
        let all = columns("a,b\n1,1\n2,2\n3,3\n", false);
        let mut seen = std::collections::BTreeSet::new();
        for cycle in 0..100 {
            let values = [0, 1].map(|at| all[at].1.value(place(1, cycle)));
            assert_eq!(values[0], values[1]);
            seen.insert(format!("{values:?}"));
        }
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_line() {
        for (text, wanted) in [
            ("", "users.csv:1: the file is empty"),
            ("\n\n", "users.csv:1: the file is empty"),
            ("a,b\n", "users.csv:1: there is no row below the header line"),
            ("a,\n1,2\n", "users.csv:1: column 2 has no name"),
            ("a,b\n1,2\n\n3\n", "users.csv:4: 1 value, where the first line names 2 columns"),
            ("a,b\r\n1,2\r\n3\r\n", "users.csv:3: 1 value, where the first line names 2 columns"),
            ("a,b\n1,2,3\n", "users.csv:2: 3 values, where the first line names 2 columns"),
            ("a,b\n\"1\n2\",3\n4\n", "users.csv:4: 1 value, where the first line names 2 columns"),
            ("a,a\n1,2\n", "users.csv:1: the variable `a` is there already"),
        ] {
            let error = variables(7, &[file(text, false)]).unwrap_err();
            assert_eq!(error.what, wanted, "{text:?}");
            assert!(error.help.is_some());
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_it_is_read_or_refused(text in "[a-c0-9\",\n\r é-]{0,60}", cycle: u64) {
            if let Ok(all) = variables(7, &[file(&text, cycle % 2 == 0)]) {
                for (_, initial) in all {
                    let Initial::Column(column) = initial else { panic!("{initial:?}") };
                    let value = column.value(place(1, cycle));
                    prop_assert_eq!(matches!(value, Value::Int(_)), column.value_type() == ValueType::Int);
                }
            }
        }
    }
}
