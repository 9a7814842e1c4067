//! A statement with the places of its parameters, and where in the database each of them finds values.

use std::collections::HashSet;

use plimsoll_core::Dialect;
use plimsoll_core::production::MARK;

use crate::pieces::{Piece, Sort, pieces};

/// A table that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Name as in the statement, with quotes and schema.
    pub name: String,
    /// Qualifier of the table's columns, without quotes.
    alias: String,
}

impl Table {
    /// Returns true if a column with this qualifier may belong to the table.
    pub fn has(&self, qualifier: Option<&str>) -> bool {
        qualifier.is_none_or(|qualifier| self.alias.eq_ignore_ascii_case(qualifier))
    }
}

/// Meaning of a parameter, as far as the text shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A value of this column, which may be qualified.
    Column {
        qualifier: Option<String>,
        /// Column as in the statement, with quotes.
        column: String,
        /// True if the value is a list.
        is_array: bool,
        /// True if the parameter is in a list, where values differ.
        is_listed: bool,
    },
    /// Always this.
    Fixed(&'static str),
    /// Unknown meaning.
    Unknown,
}

/// Clause of a statement that contains a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    /// List of selected expressions, or HAVING.
    List,
    /// GROUP BY, ORDER BY, PARTITION BY.
    By,
    Other,
}

/// A statement whose parameters are numbered from 0 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub text: String,
    dialect: Dialect,
    pieces: Vec<Piece>,
}

/// Words that end the name of a table, and are no alias of it.
const NO_ALIAS: &str = "as cross default fetch for force full group having ignore inner intersect join left limit natural \
    offset on order outer returning right select set straight_join tablesample union use using values where window";

impl Statement {
    pub fn new(text: &str, dialect: Dialect) -> Self {
        let text = text.trim().trim_end_matches(';').trim_end().to_owned();
        Self { pieces: pieces(&text, dialect), text, dialect }
    }

    /// A statement with parameters in place of its literals; what those were, and which of them were texts.
    pub fn of_literals(text: &str, dialect: Dialect) -> (Self, Vec<String>, Vec<bool>) {
        let literal = Self::new(text, dialect);
        let (mut template, mut values, mut is_text) = (String::new(), Vec::new(), Vec::new());
        let clauses = literal.clauses();
        let text = |at: usize| &literal.text[literal.pieces[at].range.clone()];
        let is_by = |at: &usize| literal.pieces[*at].sort == Sort::Literal && clauses[*at] == Clause::By;
        let grouped: HashSet<&str> = (0..clauses.len()).filter(is_by).map(text).collect();
        let mut last = 0;
        for (at, piece) in literal.pieces.iter().enumerate() {
            if piece.sort != Sort::Literal {
                continue;
            }
            let written = text(at);
            let follows = |words: &str| at > 0 && literal.is(at - 1, words);
            // A script would write a value into the text there.
            let is_typed = follows("interval") || written.starts_with('\'') && follows("date time timestamp");
            // A number behind BY is a column's, and an expression of the list has to be the one behind BY.
            let is_fixed = match clauses[at] {
                Clause::By => true,
                Clause::List => grouped.contains(written),
                Clause::Other => false,
            };
            if is_typed || is_fixed || literal.is_modifier(at) {
                continue;
            }
            let Some(mut value) = unquoted(written, dialect) else { continue };
            let is_number = written.starts_with(|first: char| first.is_ascii_digit());
            let mut start = piece.range.start;
            if is_number && literal.is_negative(at) {
                start = literal.pieces[at - 1].range.start;
                value.insert(0, '-');
            }
            template.push_str(&literal.text[last..start]);
            values.push(value);
            is_text.push(!is_number);
            template.push_str(&placeholder(dialect, values.len()));
            last = piece.range.end;
        }
        template.push_str(&literal.text[last..]);
        (Self::new(&template, dialect), values, is_text)
    }

    /// The clause that each of its pieces stands in.
    fn clauses(&self) -> Vec<Clause> {
        let (mut clause, mut outer) = (Clause::Other, Vec::new());
        let of_piece = |at: usize| {
            if self.is_sign(at, '(') {
                outer.push(clause);
            } else if self.is_sign(at, ')') {
                clause = outer.pop().unwrap_or(Clause::Other);
            } else if self.is(at, "by") {
                clause = Clause::By;
            } else if self.is(at, "select having") {
                clause = Clause::List;
            } else if self.is(at, "from where limit offset fetch union intersect except") {
                clause = Clause::Other;
            }
            clause
        };
        (0..self.pieces.len()).map(of_piece).collect()
    }

    /// Returns true if the number at `at` follows a unary minus.
    fn is_negative(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(2).filter(|_| self.is_sign(at - 1, '-')) else { return false };
        ['=', '<', '>', '(', ','].iter().any(|sign| self.is_sign(before, *sign))
            || self.is(before, "and or not between select when then else limit offset")
    }

    /// Returns true if the literal at `at` belongs to a type, as in `CAST(a AS numeric(10,2))` and `a::varchar(10)`.
    fn is_modifier(&self, at: usize) -> bool {
        // There are two at most, the second of which may have a sign.
        let is_other = |at: &usize| {
            !matches!(self.pieces[*at].sort, Sort::Literal) && !self.is_sign(*at, ',') && !self.is_sign(*at, '-')
        };
        let Some(opening) = (at.saturating_sub(4)..at).rfind(is_other) else { return false };
        let (true, Some(name)) = (self.is_sign(opening, '('), opening.checked_sub(1)) else { return false };
        let before = name.wrapping_sub(if self.is(name, "varying") { 2 } else { 1 });
        let is_cast = self.is_sign(before, ':') && self.is_sign(before.wrapping_sub(1), ':');
        self.is_name(name) && (is_cast || self.is(before, "as") && !self.is(name, "values materialized"))
    }

    /// Number of its parameters.
    pub fn params(&self) -> usize {
        let number = |piece: &Piece| if let Sort::Param(number) = piece.sort { number + 1 } else { 0 };
        self.pieces.iter().map(number).max().unwrap_or(0)
    }

    /// Returns the text with `write` in place of each parameter.
    pub fn with(&self, write: impl Fn(usize) -> String) -> String {
        let (mut text, mut last) = (String::new(), 0);
        for piece in &self.pieces {
            if let Sort::Param(number) = piece.sort {
                text.push_str(&self.text[last..piece.range.start]);
                text.push_str(&write(number));
                last = piece.range.end;
            }
        }
        text.push_str(&self.text[last..]);
        text
    }

    /// Returns the reason that a script cannot contain the statement, or must not; `catalogue` as
    /// [`Production::catalogue`](plimsoll_core::Production::catalogue).
    pub fn foreign(&self, catalogue: &[&str]) -> Option<&'static str> {
        let first = self.pieces.first()?;
        if self.is(0, "begin start commit end rollback abort savepoint release set show reset discard use prepare execute deallocate") {
            return Some("begins or ends a transaction, or is a session's own");
        }
        if !matches!(first.sort, Sort::Word) && !self.is_sign(0, '(') || self.text.ends_with("...") {
            return Some("is cut off");
        }
        let is_open = |piece: &Piece| piece.sort == Sort::Literal && is_open(&self.text[piece.range.clone()]);
        if self.pieces.last().is_some_and(is_open) {
            return Some("is cut off");
        }
        let is_tools = |table: &Table| {
            let is_own = |part: &str| {
                let part = bare(part.trim()).to_ascii_lowercase();
                catalogue.iter().any(|own| own.strip_suffix('*').map_or(*own == part, |own| part.starts_with(own)))
            };
            table.alias == MARK || table.name.split('.').any(is_own)
        };
        if self.tables().iter().any(is_tools) {
            return Some("asks the catalogue, as tools do");
        }
        let sign = |at: usize| match self.pieces[at].sort {
            Sort::Sign => self.text[self.pieces[at].range.clone()].chars().next(),
            _ => None,
        };
        (0..self.pieces.len()).find_map(|at| match sign(at) {
            Some(';') => Some("is several statements"),
            Some('@') => Some("asks for a variable of the session or server"),
            Some('\\') => Some("has a backslash, which begins a command in scripts"),
            Some(':')
                if self.pieces.get(at + 1).is_some_and(|next| next.sort == Sort::Word)
                    && (at == 0 || sign(at - 1) != Some(':')) =>
            {
                Some("has a colon and a name, which is a variable in scripts")
            }
            _ => None,
        })
    }

    /// Returns true if it can change rows and nothing else, so that a transaction undoes it.
    pub fn changes_rows(&self) -> bool {
        self.is(0, "insert update delete replace merge")
    }

    /// A name for it: what it does, and to which table.
    pub fn name(&self) -> String {
        let verb = self.pieces.first().map_or("", |first| &self.text[first.range.clone()]).to_ascii_lowercase();
        let table =
            self.tables().into_iter().next().map(|table| bare(table.name.rsplit('.').next().unwrap_or("").trim()));
        let name = [verb].into_iter().chain(table).collect::<Vec<_>>().join("_");
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect();
        if plain.starts_with(|c: char| c.is_ascii_alphabetic()) { plain } else { format!("s_{plain}") }
    }

    /// The tables that it names.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for at in 0..self.pieces.len() {
            let is_from = self.is(at, "from");
            if !is_from && !self.is(at, "join update into") {
                continue;
            }
            let mut next = at + 1;
            loop {
                while self.is(next, "only lateral ignore low_priority") {
                    next += 1;
                }
                let Some(end) = self.name_end(next) else { break };
                let name = self.text[self.pieces[next].range.start..self.pieces[end].range.end].to_owned();
                next = end + 1 + usize::from(self.is(end + 1, "as"));
                let mut alias = bare(&self.text[self.pieces[end].range.clone()]);
                if self.is_name(next) && !self.is(next, NO_ALIAS) {
                    alias = bare(&self.text[self.pieces[next].range.clone()]);
                    next += 1;
                }
                tables.push(Table { name, alias });
                if !is_from || !self.is_sign(next, ',') {
                    break;
                }
                next += 1;
            }
        }
        tables
    }

    /// Returns the meanings of the parameters.
    pub fn origins(&self) -> Vec<Origin> {
        let mut origins = vec![Origin::Unknown; self.params()];
        for (at, piece) in self.pieces.iter().enumerate() {
            if let Sort::Param(number) = piece.sort {
                let origin = self.origin(at);
                if origins[number] == Origin::Unknown {
                    origins[number] = origin;
                }
            }
        }
        origins
    }

    fn origin(&self, at: usize) -> Origin {
        let Some(mut before) = at.checked_sub(1) else { return Origin::Unknown };
        if self.is(before, "limit") {
            return Origin::Fixed(if self.is_sign(at + 1, ',') { "0" } else { "10" });
        }
        if self.is_sign(before, ',') && before >= 2 && self.is(before - 2, "limit") || self.is(before, "first next") {
            return Origin::Fixed("10");
        }
        if self.is(before, "offset") {
            return Origin::Fixed("0");
        }
        if self.is(before, "interval") {
            // MySQL's unit follows.
            return Origin::Fixed(if self.dialect == Dialect::Mysql { "1" } else { "1 day" });
        }
        // The upper end of BETWEEN.
        if self.is(before, "and") && before >= 2 && self.is(before - 2, "between") {
            before -= 2;
        }
        let (mut is_array, mut is_listed) = (false, false);
        if self.is_sign(before, '(') && before >= 2 && self.is(before - 1, "any all some") {
            (is_array, before) = (true, before - 2);
        } else if let Some(opening) = self.opening(before) {
            if opening > 0 && self.is(opening - 1, "in") {
                (is_listed, before) = (true, opening - 1);
            } else if let Some(column) = self.inserted(opening, at) {
                return column;
            }
        }
        let compares = |at: usize| self.text[self.pieces[at].range.clone()].starts_with(['=', '<', '>', '!', '~']);
        let is_operator = |at: usize| self.pieces[at].sort == Sort::Sign && compares(at);
        let mut end = before;
        if self.is(before, "like ilike rlike regexp in between") {
            end = before.wrapping_sub(1);
            end = end.wrapping_sub(usize::from(self.is(end, "not")));
        } else if is_operator(before) {
            while end < self.pieces.len() && is_operator(end) {
                end = end.wrapping_sub(1);
            }
        } else {
            // The column may stand on the other side.
            let mut next = at + 1;
            if self.is_sign(next, ':') {
                next += 3;
            }
            let first = next;
            while next < self.pieces.len() && is_operator(next) {
                next += 1;
            }
            let end = (next > first).then(|| self.name_end(next)).flatten();
            return end.and_then(|end| self.column(end)).unwrap_or(Origin::Unknown);
        }
        // lower(email) = $1, and id::text = $1.
        while self.is_sign(end, ')') {
            end = end.wrapping_sub(1);
        }
        if end >= 3 && end < self.pieces.len() && self.is_sign(end - 1, ':') && self.is_sign(end - 2, ':') {
            end -= 3;
        }
        match self.column(end) {
            Some(Origin::Column { qualifier, column, .. }) => Origin::Column { qualifier, column, is_array, is_listed },
            _ => Origin::Unknown,
        }
    }

    /// The parenthesis before a list of parameters and literals that ends at `at`.
    fn opening(&self, mut at: usize) -> Option<usize> {
        loop {
            match self.pieces.get(at)?.sort {
                _ if self.is_sign(at, '(') => return Some(at),
                Sort::Param(_) | Sort::Literal => {}
                _ if self.is_sign(at, ',') || self.is_sign(at, '-') || self.is(at, "null default true false") => {}
                _ => return None,
            }
            at = at.checked_sub(1)?;
        }
    }

    /// The column that the value at `at` is inserted into, where VALUES stand from `opening` on.
    fn inserted(&self, opening: usize, at: usize) -> Option<Origin> {
        let values = (0..opening).rfind(|at| self.is(*at, "values value"))?;
        let position = (opening..at).filter(|at| self.is_sign(*at, ',')).count();
        let into = (0..values).find(|at| self.is(*at, "into"))?;
        let first = (into..values).find(|at| self.is_sign(*at, '('))?;
        let column = (first..values).filter(|at| self.is_name(*at)).nth(position)?;
        self.column(column)
    }

    /// The column whose name ends at `end`.
    fn column(&self, end: usize) -> Option<Origin> {
        const NO_COLUMN: &str = "and or not where select set on case when then else between in values limit";
        if !self.is_name(end) || self.is(end, NO_COLUMN) {
            return None;
        }
        let text = |at: usize| self.text[self.pieces[at].range.clone()].to_owned();
        let is_qualified = end >= 2 && self.is_sign(end - 1, '.') && self.is_name(end - 2);
        let qualifier = is_qualified.then(|| bare(&text(end - 2)));
        Some(Origin::Column { qualifier, column: text(end), is_array: false, is_listed: false })
    }

    /// Returns the end of a name that begins at `at` and may have several parts.
    fn name_end(&self, at: usize) -> Option<usize> {
        if !self.is_name(at) || self.is(at, "select") {
            return None;
        }
        let goes_on = self.is_sign(at + 1, '.') && self.is_name(at + 2);
        if goes_on { self.name_end(at + 2) } else { Some(at) }
    }

    fn is_name(&self, at: usize) -> bool {
        self.pieces.get(at).is_some_and(|piece| matches!(piece.sort, Sort::Word | Sort::Name))
    }

    /// Returns true if the piece at `at` is one of `words`, which are separated by blanks.
    fn is(&self, at: usize, words: &str) -> bool {
        self.pieces.get(at).is_some_and(|piece| {
            let own = &self.text[piece.range.clone()];
            piece.sort == Sort::Word && words.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(own))
        })
    }

    fn is_sign(&self, at: usize, sign: char) -> bool {
        self.pieces
            .get(at)
            .is_some_and(|piece| self.text[piece.range.clone()].starts_with(sign) && piece.sort == Sort::Sign)
    }

    /// Returns the text with the store's own placeholders.
    pub fn placed(&self) -> String {
        self.with(|number| placeholder(self.dialect, number + 1))
    }
}

pub(crate) fn placeholder(dialect: Dialect, number: usize) -> String {
    if dialect == Dialect::Mysql { "?".to_owned() } else { format!("${number}") }
}

/// A name without its quotes.
pub(crate) fn bare(name: &str) -> String {
    name.trim_matches(['"', '`']).to_owned()
}

/// A text that begins with a quote and does not end with it.
fn is_open(literal: &str) -> bool {
    literal
        .chars()
        .next()
        .is_some_and(|quote| matches!(quote, '\'' | '"') && (literal.len() < 2 || !literal.ends_with(quote)))
}

/// The value of a literal; `None` of a number that is none.
fn unquoted(literal: &str, dialect: Dialect) -> Option<String> {
    let Some(quote) = literal.chars().next().filter(|first| matches!(first, '\'' | '"' | '$')) else {
        return literal.parse::<f64>().ok().map(|_| literal.to_owned());
    };
    if quote == '$' {
        let tag = literal[1..].find('$')? + 2;
        return literal.get(tag..literal.len().checked_sub(tag)?).map(str::to_owned);
    }
    let inside = literal.get(1..literal.len().checked_sub(1)?)?;
    let doubled = inside.replace(&format!("{quote}{quote}"), &quote.to_string());
    if dialect != Dialect::Mysql || !doubled.contains('\\') {
        return Some(doubled);
    }
    let (mut value, mut letters) = (String::new(), doubled.chars());
    while let Some(letter) = letters.next() {
        value.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '0' => '\0',
                other => other,
            },
            other => other,
        });
    }
    Some(value)
}

#[cfg(test)]
#[path = "statement_tests.rs"]
mod tests;
