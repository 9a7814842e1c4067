//! Language of the statements of scripts: SQL, or commands of a line each.

use plimsoll_core::Call;
use plimsoll_core::command::{self, Part, RawPart};

use super::mistake::{Mistake, mistake};
use super::names;
use super::program::Initial;
use super::scan::{self, Mention, Raw, RawSql};
use super::statement::{self, BlockEffect, StatementText, head, initial_text};
use super::symbols::Symbols;

/// Language of the statements of scripts, and the way of values into them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// SQL, with values as parameters wherever they may stand.
    Sql,
    /// SQL, with all values written into the text, as pgbench's simple protocol does.
    SqlText,
    /// A command a line, in words: [`plimsoll_core::command`].
    Commands,
}

impl Language {
    pub(super) fn scan(self, text: &str) -> Result<Vec<Raw>, Mistake> {
        if self == Language::Commands { scan_lines(text) } else { scan::scan(text) }
    }

    /// The columns of a statement's answer, or why they are not known. Of a command it is one, without a name.
    pub(super) fn columns(self, text: &str) -> Result<Vec<String>, &'static str> {
        match self {
            Language::Commands => Ok(vec![String::new()]),
            _ => names::columns(text),
        }
    }

    pub(super) fn block_effect(self, text: &str) -> BlockEffect {
        if self != Language::Commands {
            return statement::block_effect(text);
        }
        match text.split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "MULTI" => BlockEffect::Opens,
            "EXEC" | "DISCARD" => BlockEffect::Ends,
            _ => BlockEffect::None,
        }
    }

    /// Returns the statement that ends a transaction block after an error, with its name.
    pub(super) fn roll_back(self) -> (&'static str, Call) {
        match self {
            Language::Commands => ("discard", Call::Command(vec![vec![Part::Text("DISCARD".to_owned())]])),
            _ => ("rollback", Call::Sql("ROLLBACK".to_owned())),
        }
    }

    /// Returns the statements that end a transaction block, for messages.
    pub(super) fn ends_of_block(self) -> &'static str {
        if self == Language::Commands { "EXEC or DISCARD" } else { "COMMIT or ROLLBACK" }
    }

    pub(super) fn a_statement(self) -> &'static str {
        if self == Language::Commands { "a command" } else { "an SQL command" }
    }

    /// Returns the text that sends the statement `raw` of `script`, and its first words.
    pub(super) fn texts(
        self,
        script: &str,
        raw: &RawSql,
        symbols: &Symbols,
        initial: &[Initial],
    ) -> (StatementText, String) {
        if self != Language::Commands {
            return statement::texts(script, raw, symbols, initial, self == Language::SqlText);
        }
        let has_value = |slot: &usize| symbols.is_assigned(*slot) || initial[*slot] != Initial::Unset;
        let mut slots = Vec::new();
        let mut part = |part: RawPart| match part {
            RawPart::Text(text) => Part::Text(text),
            RawPart::Name { range, .. } => match symbols.known(&script[range.start + 1..range.end]).filter(has_value) {
                None => Part::Text(script[range].to_owned()),
                Some(slot) => match initial_text(&initial[slot]).filter(|_| !symbols.is_assigned(slot)) {
                    // What never changes need not be written anew each time.
                    Some(text) => Part::Text(text),
                    None => {
                        slots.push(slot);
                        Part::Param
                    }
                },
            },
        };
        // It was read once already.
        let words = command::words(script, raw.range.start).map(|(words, _)| words).unwrap_or_default();
        let words = words.into_iter().map(|word| joined(word.into_iter().map(&mut part))).collect();
        (StatementText::Command(words, slots), head(&script[raw.range.clone()]))
    }
}

/// The parts of a word, with neighbouring texts put together.
fn joined(parts: impl Iterator<Item = Part>) -> Vec<Part> {
    let mut word: Vec<Part> = Vec::new();
    for part in parts {
        match (word.last_mut(), part) {
            (Some(Part::Text(last)), Part::Text(text)) => last.push_str(&text),
            (_, part) => word.push(part),
        }
    }
    word
}

/// The commands and meta commands of `text`, each on a line of its own. Lines that begin with `#` or `--` are comments.
fn scan_lines(text: &str) -> Result<Vec<Raw>, Mistake> {
    let bytes = text.as_bytes();
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            byte if byte.is_ascii_whitespace() => at += 1,
            b'#' => at = line_end(bytes, at),
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = line_end(bytes, at),
            b'\\' => {
                let meta = scan::meta(bytes, at);
                at = meta.range.end;
                commands.extend(Some(meta).filter(|meta| !meta.name.is_empty()).map(Raw::Meta));
            }
            _ => {
                let (raw, end) = command_at(text, at)?;
                commands.push(Raw::Sql(raw));
                at = end;
            }
        }
    }
    Ok(commands)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at)
}

/// The command that begins at byte `at`, and its line's end.
fn command_at(text: &str, at: usize) -> Result<(RawSql, usize), Mistake> {
    let (words, end) = command::words(text, at).map_err(|(range, what)| mistake(range, what.to_owned()))?;
    let range = at..at + text[at..end].trim_end().len();
    if range.len() > 1 && text[range.clone()].ends_with(';') {
        let what = "a command ends with its line, not by a semicolon".to_owned();
        return Err(mistake(range.end - 1..range.end, what).with_help("leave it out, or put the word in quotes"));
    }
    // What other tools put a number or a key in place of would be sent as it is, each time the same.
    for theirs in ["__rand_int__", "__key__", "__data__"] {
        if let Some(found) = text[range.clone()].find(theirs) {
            let found = at + found..at + found + theirs.len();
            let what = format!("`{theirs}` belongs to another tool, and would be sent unchanged");
            return Err(
                mistake(found, what).with_help("write \\set id random(1, 100000) on a line before, and :id here")
            );
        }
    }
    let mut mentions = Vec::new();
    for (position, part) in words.iter().enumerate().flat_map(|(at, word)| word.iter().map(move |part| (at, part))) {
        let RawPart::Name { range, or_text } = part else { continue };
        if position == 0 {
            let what = "the name of a command cannot be a variable's value".to_owned();
            return Err(mistake(range.clone(), what).with_help("write it out"));
        }
        mentions.push(Mention { range: range.clone(), quoted: *or_text });
    }
    Ok((RawSql { range, mentions, escapes: Vec::new(), joined: false }, end))
}
