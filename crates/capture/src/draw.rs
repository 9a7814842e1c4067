//! Values for a statement's parameters: as a log has them, or out of the tables that it names.

use std::collections::HashMap;

use plimsoll_core::production::{Production, TableColumn};
use plimsoll_core::{Dialect, StoreError};

use crate::statement::{Origin, Statement, bare};

/// Values tried for a parameter of unknown type.
const GUESSES: [&str; 5] = ["1", "'a'", "'2026-01-01'", "true", "'{}'"];

/// A statement with values for its parameters.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub statement: Statement,
    /// Values for its parameters, row by row; none where it has no parameter.
    pub rows: Vec<Vec<String>>,
    /// True for each parameter that is a text, whatever its values look like.
    pub is_text: Vec<bool>,
    /// Values that nothing but a guess tells, as they stand in the statement now.
    pub guessed: Option<&'static str>,
}

/// Draws values.
pub(crate) struct Draw {
    dialect: Dialect,
    rows_max: usize,
    columns: HashMap<String, Vec<TableColumn>>,
}

/// A parameter's column: the place of its table among those asked, that of the column, and which row it takes beside the
/// statement's own.
struct Cell {
    table: usize,
    column: usize,
    ahead: usize,
    is_array: bool,
    is_text: bool,
}

impl Draw {
    pub fn new(dialect: Dialect, rows_max: usize) -> Self {
        Self { dialect, rows_max, columns: HashMap::new() }
    }

    /// The statement with values, or why it cannot have any. `seen` are some that it had, and which of
    /// them were texts.
    pub fn values(
        &mut self,
        statement: &Statement,
        seen: (Vec<Vec<String>>, Vec<bool>),
        production: &mut dyn Production,
    ) -> Result<Result<Drawn, String>, StoreError> {
        let (rows, is_text) = seen;
        if !rows.is_empty() || statement.params() == 0 {
            let drawn = Drawn { statement: statement.clone(), rows, is_text, guessed: None };
            return self.checked(drawn, production);
        }
        let origins = statement.origins();
        let (mut tables, mut cells) = (Vec::new(), Vec::new());
        for (number, origin) in origins.iter().enumerate() {
            let listed = |other: &&Origin| *other == origin && matches!(origin, Origin::Column { is_listed: true, .. });
            let ahead = origins[..number].iter().filter(listed).count();
            cells.push(self.cell(statement, origin, ahead, &mut tables, production)?);
        }
        let mut sampled = Vec::new();
        for (table, columns) in &tables {
            let rows = production.rows(table, columns, self.rows_max)?;
            if rows.is_empty() {
                return Ok(Err(format!("the table {table} has no row to draw values from")));
            }
            sampled.push(rows);
        }
        let count = sampled.iter().map(Vec::len).max().unwrap_or(1);
        let value = |row: usize, cell: &Cell| {
            let rows = &sampled[cell.table];
            let value = rows[(row + cell.ahead) % rows.len()][cell.column].clone();
            let quoted = || format!("{{\"{}\"}}", value.replace('\\', "\\\\").replace('"', "\\\""));
            if cell.is_array { quoted() } else { value.clone() }
        };
        let drawn: Vec<&Cell> = cells.iter().flatten().collect();
        let is_text: Vec<bool> = drawn.iter().map(|cell| cell.is_text).collect();
        let rows: Vec<Vec<String>> = match drawn.is_empty() {
            true => Vec::new(),
            false => (0..count).map(|row| drawn.iter().map(|cell| value(row, cell)).collect()).collect(),
        };
        let is_guessed =
            origins.iter().zip(&cells).any(|(origin, cell)| cell.is_none() && !matches!(origin, Origin::Fixed(_)));
        let guesses = if is_guessed { &GUESSES[..] } else { &GUESSES[..1] };
        let mut refusal = String::new();
        for guess in guesses {
            // Parameters that have a column keep their places; they are numbered anew.
            let text = statement.with(|number| match (&cells[number], &origins[number]) {
                (Some(_), _) => {
                    let before = cells[..number].iter().flatten().count();
                    crate::statement::placeholder(self.dialect, before + 1)
                }
                (None, Origin::Fixed(fixed)) if fixed.contains(' ') => format!("'{fixed}'"),
                (None, Origin::Fixed(fixed)) => (*fixed).to_owned(),
                (None, _) => (*guess).to_owned(),
            });
            let drawn = Drawn {
                statement: Statement::new(&text, self.dialect),
                rows: rows.clone(),
                is_text: is_text.clone(),
                guessed: is_guessed.then_some(*guess),
            };
            match self.checked(drawn, production)? {
                Ok(drawn) => return Ok(Ok(drawn)),
                Err(why) if refusal.is_empty() => refusal = why,
                Err(_) => {}
            }
        }
        Ok(Err(refusal))
    }

    /// Makes the server plan the statement, or execute it for nothing if it changes rows.
    fn checked(&self, drawn: Drawn, production: &mut dyn Production) -> Result<Result<Drawn, String>, StoreError> {
        let first = drawn.rows.first().map_or(&[][..], Vec::as_slice);
        let refusal = production.refusal(&drawn.statement.text, first, drawn.statement.changes_rows())?;
        Ok(match refusal {
            None => Ok(drawn),
            Some(refusal) => Err(format!("is refused: {refusal}")),
        })
    }

    /// Returns the column that holds the values of `origin`; `None` if no table has it.
    fn cell(
        &mut self,
        statement: &Statement,
        origin: &Origin,
        ahead: usize,
        wanted: &mut Vec<(String, Vec<String>)>,
        production: &mut dyn Production,
    ) -> Result<Option<Cell>, StoreError> {
        let Origin::Column { qualifier, column, is_array, .. } = origin else { return Ok(None) };
        for table in statement.tables() {
            if !table.has(qualifier.as_deref()) {
                continue;
            }
            if !self.columns.contains_key(&table.name) {
                let columns = production.columns(&table.name)?;
                self.columns.insert(table.name.clone(), columns);
            }
            let name = bare(column);
            let found = self.columns[&table.name].iter().find(|known| known.name.eq_ignore_ascii_case(&name));
            let Some(found) = found else { continue };
            let place = wanted.iter().position(|(name, _)| *name == table.name).unwrap_or_else(|| {
                wanted.push((table.name.clone(), Vec::new()));
                wanted.len() - 1
            });
            let columns = &mut wanted[place].1;
            let at = columns.iter().position(|known| known == column).unwrap_or_else(|| {
                columns.push(column.clone());
                columns.len() - 1
            });
            let (is_array, is_text) = (*is_array, found.is_text);
            return Ok(Some(Cell { table: place, column: at, ahead, is_array, is_text }));
        }
        Ok(None)
    }
}
