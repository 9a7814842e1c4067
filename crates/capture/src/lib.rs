//! Makes a workload of what a database was asked in production: statements with their shares, and values for their parameters
//! drawn from its tables or from its log.
//!
//! | module | what |
//! |---|---|
//! | `pieces` | a statement cut into pieces |
//! | `statement` | its parameters, and the columns that they are of |
//! | `draw` | values for them |
//! | `written` | the workload as a plan and CSV files |

mod draw;
mod pieces;
mod statement;
mod written;

use std::collections::HashMap;

use plimsoll_core::production::LogEntry;
use plimsoll_core::{Dialect, Production, StoreError, random, sql};

use crate::draw::{Draw, Drawn};
use crate::statement::Statement;
pub use crate::written::{Written, write};

/// Scope of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Most statements to capture, by their number of calls.
    pub statements: usize,
    /// Rows of values for each.
    pub values: usize,
    /// Also statements that may change something.
    pub writes: bool,
}

/// Statements as they were asked.
pub struct StatementLog {
    dialect: Dialect,
    rows_max: usize,
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
    /// Calls whose text is not certain.
    cut: u64,
    /// Name of the source of the counts, as in "counted by …".
    pub counted_by: String,
    /// Duration of the counts, seconds.
    pub seconds: Option<f64>,
}

/// A statement.
struct Entry {
    statement: Statement,
    calls: u64,
    /// Values of its parameters as they were seen: some of the calls.
    rows: Vec<Vec<String>>,
    /// True for each parameter whose values were seen as texts.
    is_text: Vec<bool>,
}

/// A workload made of them.
#[derive(Debug)]
pub struct Captured {
    dialect: Dialect,
    kept: Vec<Kept>,
    /// Reasons for omitted statements, with their number and calls; most calls first.
    pub left_out: Vec<(String, usize, u64)>,
    /// Calls of all statements.
    pub calls: u64,
    counted_by: String,
    seconds: Option<f64>,
}

#[derive(Debug)]
struct Kept {
    name: String,
    calls: u64,
    drawn: Drawn,
}

impl Captured {
    /// Statements that it has.
    pub fn statements(&self) -> usize {
        self.kept.len()
    }

    /// Calls of its statements.
    pub fn calls_kept(&self) -> u64 {
        self.kept.iter().map(|kept| kept.calls).sum()
    }
}

impl StatementLog {
    /// Makes an empty log with at most so many rows of values each.
    pub fn new(dialect: Dialect, rows_max: usize) -> Self {
        let (entries, places) = (Vec::new(), HashMap::new());
        Self { dialect, rows_max, entries, places, cut: 0, counted_by: String::new(), seconds: None }
    }

    /// Reads all statements that `production` has counted.
    ///
    /// # Errors
    /// As [`Production::asked`].
    pub fn counted(dialect: Dialect, production: &mut dyn Production) -> Result<Self, StoreError> {
        let counted = production.asked()?;
        let mut asked = Self::new(dialect, 0);
        for one in counted.statements {
            asked.entry(Statement::new(&one.text, dialect)).calls += one.calls;
        }
        (asked.counted_by, asked.seconds) = (counted.counted_by, counted.seconds);
        Ok(asked)
    }

    /// Adds a statement of a log.
    pub fn log(&mut self, entry: LogEntry<'_>) {
        match entry {
            LogEntry::Statement(text, values) => self.statement(text, values),
            LogEntry::Timed(_) => {}
            LogEntry::Cut(_) => self.cut += 1,
        }
    }

    /// Adds a statement: its literals and `values`, which its placeholders stand for, become values of parameters.
    fn statement(&mut self, text: &str, values: &[Option<String>]) {
        let given = Statement::new(text, self.dialect);
        let (statement, row, is_text) = match given.params() {
            0 => {
                let (statement, row, is_text) = Statement::of_literals(text, self.dialect);
                (statement, Some(row), is_text)
            }
            // A null is no value that a file of values can have.
            params => {
                let row = values.iter().take(params).cloned().collect::<Option<Vec<String>>>();
                (given, row, vec![false; params])
            }
        };
        let (params, rows_max) = (statement.params(), self.rows_max);
        let entry = self.entry(statement);
        entry.calls += 1;
        entry.is_text = is_text;
        // Each call is kept as likely as any other (Vitter's algorithm R), by a hash of its number.
        let Some(row) = row.filter(|row| params > 0 && row.len() == params) else { return };
        if entry.rows.len() < rows_max {
            entry.rows.push(row);
        } else {
            let place = random::mix(entry.calls) % entry.calls;
            if let Some(kept) = entry.rows.get_mut(place as usize) {
                *kept = row;
            }
        }
    }

    fn entry(&mut self, statement: Statement) -> &mut Entry {
        let next = self.entries.len();
        let place = *self.places.entry(statement.text.clone()).or_insert(next);
        if place == next {
            self.entries.push(Entry { statement, calls: 0, rows: Vec::new(), is_text: Vec::new() });
        }
        &mut self.entries[place]
    }

    /// The workload that they make: `production` gives the values that are not known, and refuses what it would not run.
    ///
    /// # Errors
    /// The connection failed.
    pub fn capture(
        mut self,
        wanted: Wanted,
        production: &mut dyn Production,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Captured, StoreError> {
        self.entries
            .sort_by(|one, other| other.calls.cmp(&one.calls).then(one.statement.text.cmp(&other.statement.text)));
        let calls = self.entries.iter().map(|entry| entry.calls).sum::<u64>() + self.cut;
        let mut kept: Vec<Kept> = Vec::new();
        let mut left_out: HashMap<String, (usize, u64)> = HashMap::new();
        if self.cut > 0 {
            left_out.insert("may be cut off: the log does not show its end".to_owned(), (self.cut as usize, self.cut));
        }
        let mut draw = Draw::new(self.dialect, wanted.values);
        for entry in self.entries {
            let why = if kept.len() == wanted.statements {
                Err(format!("beyond the {} that were asked most (--top)", wanted.statements))
            } else if let Some(why) = entry.statement.foreign(production.catalogue()) {
                Err(why.to_owned())
            } else if !wanted.writes && !sql::only_selects(&entry.statement.placed(), Some(self.dialect)) {
                Err("may change something, as far as the text tells (--allow-writes)".to_owned())
            } else {
                progress(&entry.statement.text);
                draw.values(&entry.statement, (entry.rows, entry.is_text), production)?
            };
            match why {
                Ok(drawn) => {
                    let name = free_name(&entry.statement.name(), &kept);
                    kept.push(Kept { name, calls: entry.calls, drawn });
                }
                Err(why) => {
                    let (count, of_calls) = left_out.entry(why).or_default();
                    (*count, *of_calls) = (*count + 1, *of_calls + entry.calls);
                }
            }
        }
        let mut left_out: Vec<_> = left_out.into_iter().map(|(why, (count, calls))| (why, count, calls)).collect();
        left_out.sort_by(|one, other| other.2.cmp(&one.2).then(one.0.cmp(&other.0)));
        let (counted_by, seconds) = (self.counted_by, self.seconds);
        Ok(Captured { dialect: self.dialect, kept, left_out, calls, counted_by, seconds })
    }
}

fn free_name(name: &str, kept: &[Kept]) -> String {
    let is_free = |name: &String| kept.iter().all(|kept| kept.name != *name);
    let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}_{number}")));
    names.into_iter().find(is_free).unwrap_or_default()
}
