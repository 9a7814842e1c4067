//! Cuts a script into statements and meta commands, as psql's scanner does for pgbench.
//!
//! A statement ends at a `;` outside quotes, comments, parentheses and the bodies of `BEGIN ATOMIC … END` functions, at
//! a backslash that begins a meta command, and at the text's end. A meta command ends with its line, unless that ends
//! with a backslash.

use std::ops::Range;

use super::mistake::{Mistake, mistake};
use super::symbols::is_name_byte;

/// A command of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    Sql(RawSql),
    Meta(RawMeta),
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawSql {
    /// Text of the statement, without comments before it, blanks around it and the semicolon.
    pub(super) range: Range<usize>,
    /// `:name`s within, in order.
    pub(super) mentions: Vec<Mention>,
    /// Backslashes that only kept a colon from being a variable's: bytes to leave out.
    pub(super) escapes: Vec<usize>,
    /// True if the statement ended with `\;`: the next statement is sent with it.
    pub(super) joined: bool,
}

/// A `:name` in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    /// The colon and the name.
    pub(super) range: Range<usize>,
    /// True within quotes.
    pub(super) quoted: bool,
}

/// A meta command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawMeta {
    /// All of it, from the backslash on.
    pub(super) range: Range<usize>,
    /// Name of the command.
    pub(super) name: Range<usize>,
    /// Text after the name.
    pub(super) arguments: Range<usize>,
}

/// The commands of `text` in order.
pub(super) fn scan(text: &str) -> Result<Vec<Raw>, Mistake> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, commands: Vec::new(), sql: Sql::default() };
    scanner.run()?;
    Ok(scanner.commands)
}

/// The words of a meta command's arguments.
pub(super) fn words(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = range.start;
    while at < range.end {
        if bytes[at].is_ascii_whitespace() || continuation(bytes, at).is_some() {
            at += 1;
            continue;
        }
        let start = at;
        while at < range.end && !bytes[at].is_ascii_whitespace() && continuation(bytes, at).is_none() {
            at += 1;
        }
        words.push(start..at);
    }
    words
}

/// The length of a backslash and line end at `at`, if they stand there.
fn continuation(bytes: &[u8], at: usize) -> Option<usize> {
    match (bytes.get(at)?, bytes.get(at + 1), bytes.get(at + 2)) {
        (b'\\', Some(b'\n'), _) => Some(2),
        (b'\\', Some(b'\r'), Some(b'\n')) => Some(3),
        _ => None,
    }
}

/// The statement that is being read.
#[derive(Default)]
struct Sql {
    /// Start of the first word.
    start: Option<usize>,
    /// The end of its last word.
    end: usize,
    mentions: Vec<Mention>,
    escapes: Vec<usize>,
    parentheses: u32,
    /// Depth of `BEGIN … END` in the body of a function.
    bodies: u32,
    /// First letters of its first words, upper case: `CREATE OR REPLACE FUNCTION` is told by them.
    first_words: Vec<String>,
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    commands: Vec<Raw>,
    sql: Sql,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) -> Result<(), Mistake> {
        while self.at < self.bytes.len() {
            let start = self.at;
            match (self.peek(0), self.peek(1)) {
                (byte, _) if byte.is_ascii_whitespace() => {
                    self.at += 1;
                    continue;
                }
                (b'-', b'-') => {
                    while self.at < self.bytes.len() && self.bytes[self.at] != b'\n' {
                        self.at += 1;
                    }
                    continue;
                }
                // Comments to one server, and to another what it is to do: MariaDB's code, hints of how to plan.
                (b'/', b'*') if matches!(self.bytes.get(self.at + 2..), Some([b'!' | b'+', ..] | [b'M', b'!', ..])) => {
                    self.comment()?;
                }
                (b'/', b'*') => {
                    self.comment()?;
                    continue;
                }
                (b'\\', _) => {
                    self.backslash();
                    continue;
                }
                (b';', _) if self.sql.parentheses == 0 && self.sql.bodies == 0 => {
                    self.at += 1;
                    self.end_statement(false);
                    continue;
                }
                (b'\'', _) => self.quoted(b'\'', false)?,
                (b'"', _) => self.quoted(b'"', false)?,
                (b'$', _) => self.dollar()?,
                (b':', _) => self.colon(false),
                (byte, _) if is_name_byte(byte) => self.word()?,
                (byte, _) => {
                    match byte {
                        b'(' => self.sql.parentheses += 1,
                        b')' => self.sql.parentheses = self.sql.parentheses.saturating_sub(1),
                        _ => {}
                    }
                    self.at += 1;
                }
            }
            self.sql.start.get_or_insert(start);
            self.sql.end = self.at;
        }
        self.end_statement(false);
        Ok(())
    }

    fn end_statement(&mut self, joined: bool) {
        let sql = std::mem::take(&mut self.sql);
        let Some(start) = sql.start else {
            // Nothing goes with a statement whose `\;` was the last thing before this end.
            if let (false, Some(Raw::Sql(last))) = (joined, self.commands.last_mut()) {
                last.joined = false;
            }
            return;
        };
        let (mentions, escapes) = (sql.mentions, sql.escapes);
        self.commands.push(Raw::Sql(RawSql { range: start..sql.end, mentions, escapes, joined }));
    }

    /// A comment; they nest.
    fn comment(&mut self) -> Result<(), Mistake> {
        let start = self.at;
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ if self.at >= self.bytes.len() => {
                    return Err(
                        mistake(start..start + 2, "a comment that does not end".into()).with_help("end it by */")
                    );
                }
                _ => self.at += 1,
            }
        }
    }

    /// A string or a quoted name. A doubled quote is one of its characters; so is one after a backslash where
    /// `escapes` says that backslashes escape.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Result<(), Mistake> {
        let start = self.at;
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' if escapes => self.at += 2,
                byte if byte == quote && self.peek(1) == quote => self.at += 2,
                byte if byte == quote => {
                    self.at += 1;
                    return Ok(());
                }
                b':' => self.colon(true),
                _ => self.at += 1,
            }
        }
        self.at = self.bytes.len();
        Err(mistake(start..start + 1, "a quote that is not closed".into()))
    }

    /// A dollar-quoted string, or a parameter or operator.
    fn dollar(&mut self) -> Result<(), Mistake> {
        let start = self.at;
        let tag = self.bytes[start + 1..].iter().take_while(|byte| is_name_byte(**byte)).count();
        let begins_with_digit = self.peek(1).is_ascii_digit();
        if begins_with_digit || self.bytes.get(start + 1 + tag) != Some(&b'$') {
            self.at += 1 + tag;
            return Ok(());
        }
        let quote = &self.bytes[start..start + tag + 2];
        self.at += quote.len();
        while self.at < self.bytes.len() {
            if self.bytes[self.at..].starts_with(quote) {
                self.at += quote.len();
                return Ok(());
            }
            if self.peek(0) == b':' { self.colon(true) } else { self.at += 1 }
        }
        Err(mistake(start..start + quote.len(), "a dollar quote that is not closed".into()))
    }

    /// A variable, or colons that are none.
    fn colon(&mut self, quoted: bool) {
        let start = self.at;
        let first = self.peek(1);
        if !is_name_byte(first) || first.is_ascii_digit() {
            while self.peek(0) == b':' {
                self.at += 1;
            }
            return;
        }
        self.at += 1;
        while is_name_byte(self.peek(0)) {
            self.at += 1;
        }
        self.sql.mentions.push(Mention { range: start..self.at, quoted });
    }

    /// A word, a number, or the letters before a string that say how it is written.
    fn word(&mut self) -> Result<(), Mistake> {
        let start = self.at;
        // A name may hold `$` but not begin with it.
        while is_name_byte(self.peek(0)) || self.peek(0) == b'$' {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        if self.peek(0) == b'\'' && matches!(word, [b'e' | b'E']) {
            return self.quoted(b'\'', true);
        }
        if self.sql.first_words.len() < 4 || self.sql.bodies > 0 || word.eq_ignore_ascii_case(b"begin") {
            self.note_word(&String::from_utf8_lossy(word).to_ascii_uppercase());
        }
        Ok(())
    }

    /// Notices the body of a function in SQL, in which semicolons do not end the statement.
    fn note_word(&mut self, word: &str) {
        let sql = &mut self.sql;
        if sql.first_words.len() < 4 {
            sql.first_words.push(word.to_owned());
        }
        let words: Vec<&str> = sql.first_words.iter().map(String::as_str).collect();
        let makes_function = matches!(
            words.as_slice(),
            ["CREATE", "FUNCTION" | "PROCEDURE", ..] | ["CREATE", "OR", "REPLACE", "FUNCTION" | "PROCEDURE"]
        );
        if makes_function && sql.parentheses == 0 {
            match word {
                "BEGIN" => sql.bodies += 1,
                "CASE" if sql.bodies > 0 => sql.bodies += 1,
                "END" => sql.bodies = sql.bodies.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// `\;` joins two statements, `\:` is a colon, and everything else begins a meta command.
    fn backslash(&mut self) {
        let start = self.at;
        match self.peek(1) {
            b';' => {
                self.at += 2;
                self.end_statement(true);
                return;
            }
            b':' => {
                self.sql.escapes.push(start);
                self.sql.start.get_or_insert(start);
                self.at += 2;
                self.sql.end = self.at;
                return;
            }
            _ => {}
        }
        self.end_statement(false);
        let meta = meta(self.bytes, start);
        self.at = meta.range.end;
        self.commands.extend(Some(meta).filter(|meta| !meta.name.is_empty()).map(Raw::Meta));
    }
}

/// The meta command whose backslash stands at `start`; without a name, a backslash alone.
pub(super) fn meta(bytes: &[u8], start: usize) -> RawMeta {
    let mut end = start;
    while end < bytes.len() && bytes[end] != b'\n' {
        end += continuation(bytes, end).unwrap_or(1);
    }
    let blank = |at: &usize| bytes[*at].is_ascii_whitespace();
    let name_start = (start + 1..end).find(|at| !blank(at)).unwrap_or(end);
    let name_end = (name_start..end).find(|at| blank(at) || continuation(bytes, *at).is_some()).unwrap_or(end);
    RawMeta { range: start..end, name: name_start..name_end, arguments: name_end..end }
}
