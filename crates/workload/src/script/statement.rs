//! Statements: which places take parameters, what is written into the text instead, and what opens and closes a
//! transaction block.

use plimsoll_core::HttpCall;
use plimsoll_core::command::Part;

use super::program::Initial;
use super::scan::{Mention, RawSql};
use super::symbols::{Symbols, is_name_byte};

/// Form in which a statement is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatementText {
    /// Prepared, with the variables at these places as `$1`, `$2` …
    Prepared(String, Vec<usize>),
    /// Text, put together from these pieces.
    Pieces(Vec<Piece>),
    /// Words of a command, with the variables at these places as its parameters.
    Command(Vec<Vec<Part>>, Vec<usize>),
    /// A request, with the variables at these places as its parameters.
    Request(Box<HttpCall>, Vec<usize>),
}

impl StatementText {
    /// The places of the variables whose values it needs.
    pub(super) fn slots(&self) -> Vec<usize> {
        match self {
            StatementText::Prepared(_, slots) | StatementText::Command(_, slots) | StatementText::Request(_, slots) => {
                slots.clone()
            }
            StatementText::Pieces(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Variable(slot) => Some(*slot),
                    Piece::Text(_) => None,
                })
                .collect(),
        }
    }
}

/// A piece of a statement's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The value of the variable at this place.
    Variable(usize),
}

/// Use of a statement's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Take {
    /// The variables that its columns go to.
    pub(crate) slots: Vec<usize>,
    /// `\aset`: an answer without rows changes nothing, of several rows the last counts. Otherwise exactly one row.
    pub(crate) all: bool,
}

/// Effect of a statement on the session's transaction block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockEffect {
    None,
    Opens,
    Closes,
    /// Closes it whatever comes of it.
    Ends,
}

/// The words of `sql`, upper case, without comments and what is between quotes; at most `most`.
fn leading_words(sql: &str, most: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql;
    while words.len() < most {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else {
            let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
            if length == 0 {
                break;
            }
            words.push(rest[..length].to_ascii_uppercase());
            rest = &rest[length..];
        }
    }
    words
}

/// Returns the effect of `sql` on the session's transaction block.
pub(super) fn block_effect(sql: &str) -> BlockEffect {
    let words = leading_words(sql, 5);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |wanted: &str| words.contains(&wanted);
    match words.as_slice() {
        ["BEGIN", ..] | ["START", "TRANSACTION", ..] => BlockEffect::Opens,
        ["COMMIT" | "ROLLBACK", "PREPARED", ..] => BlockEffect::None,
        ["COMMIT" | "END" | "ROLLBACK" | "ABORT", ..] if !has("TO") && (!has("CHAIN") || has("NO")) => {
            BlockEffect::Closes
        }
        ["PREPARE", "TRANSACTION", ..] => BlockEffect::Closes,
        _ => BlockEffect::None,
    }
}

/// Returns the form in which the statement `sql` of `script` is sent, and its first words.
pub(super) fn texts(
    script: &str,
    sql: &RawSql,
    symbols: &Symbols,
    initial: &[Initial],
    as_text: bool,
) -> (StatementText, String) {
    let takes_parameters = leading_words(&script[sql.range.clone()], 1).first().is_some_and(|word| {
        const STATEMENTS: [&str; 9] =
            ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "VALUES", "WITH", "CALL"];
        STATEMENTS.contains(&word.as_str())
    });
    let has_value = |slot: usize| symbols.is_assigned(slot) || initial[slot] != Initial::Unset;
    let mut pieces: Vec<Piece> = Vec::new();
    let add = |pieces: &mut Vec<Piece>, text: &str| match pieces.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ if !text.is_empty() => pieces.push(Piece::Text(text.to_owned())),
        _ => {}
    };
    // Whether all variables that are left stand where a parameter may.
    let mut all_parameters = takes_parameters && !as_text;
    let mut at = sql.range.start;
    for mention in &sql.mentions {
        let slot = symbols.known(&script[mention.range.start + 1..mention.range.end]).filter(|slot| has_value(*slot));
        // Between quotes it may be anything: it is a variable only if there is one of that name.
        let Some(slot) = slot else { continue };
        add(&mut pieces, &without_escapes(script, at..mention.range.start, &sql.escapes));
        at = mention.range.end;
        let parameter = takes_parameters && takes_parameter(script, sql, mention);
        match initial_text(&initial[slot]).filter(|_| !symbols.is_assigned(slot)) {
            // What never changes need not be written anew each time.
            Some(text) if !parameter || as_text => add(&mut pieces, &text),
            _ => {
                all_parameters &= parameter;
                pieces.push(Piece::Variable(slot));
            }
        }
    }
    add(&mut pieces, &without_escapes(script, at..sql.range.end, &sql.escapes));
    let head = head(&script[sql.range.clone()]);
    let constant = !pieces.iter().any(|piece| matches!(piece, Piece::Variable(_)));
    if !all_parameters && !constant {
        return (StatementText::Pieces(pieces), head);
    }
    let mut text = String::new();
    let mut slots: Vec<usize> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(&piece),
            Piece::Variable(slot) => {
                slots.push(slot);
                text.push_str(&format!("${}", slots.len()));
            }
        }
    }
    (StatementText::Prepared(text, slots), head)
}

fn without_escapes(script: &str, range: std::ops::Range<usize>, escapes: &[usize]) -> String {
    let mut text = String::new();
    let mut at = range.start;
    for escape in escapes.iter().filter(|escape| range.contains(escape)) {
        text.push_str(&script[at..*escape]);
        at = escape + 1;
    }
    text.push_str(&script[at..range.end]);
    text
}

pub(super) fn initial_text(initial: &Initial) -> Option<String> {
    match initial {
        Initial::Value(value) => {
            let mut text = String::new();
            value.write(&mut text);
            Some(text)
        }
        Initial::Text(text) => Some(text.clone()),
        Initial::Unset | Initial::Client | Initial::Cycle | Initial::Sequence | Initial::Column(_) => None,
    }
}

/// Returns true if a parameter may replace `mention` and means the same as its value's text: not within quotes or a
/// name, not in place of a table or the text of a literal, not where a number is a column's.
fn takes_parameter(script: &str, sql: &RawSql, mention: &Mention) -> bool {
    if mention.quoted {
        return false;
    }
    let before = &script[sql.range.start..mention.range.start];
    let after = script[mention.range.end..sql.range.end].bytes().next();
    let touches_name =
        before.bytes().next_back().is_some_and(|byte| is_name_byte(byte) || byte == b'.' || byte == b'"');
    if touches_name || matches!(after, Some(b'.' | b'"')) {
        return false;
    }
    let before = before.trim_end();
    let start = before.bytes().rposition(|byte| !is_name_byte(byte)).map_or(0, |at| at + 1);
    let word = before[start..].to_ascii_uppercase();
    const TEXT_AFTER: [&str; 13] = [
        "FROM",
        "INTO",
        "UPDATE",
        "JOIN",
        "TABLE",
        "ONLY",
        "BY",
        "AS",
        "INTERVAL",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "COLLATE",
    ];
    !TEXT_AFTER.contains(&word.as_str())
}

/// The first words of a statement, for a name.
pub(super) fn head(sql: &str) -> String {
    const CHARS_MAX: usize = 40;
    let mut head = String::new();
    for word in sql.split_whitespace() {
        let length = head.chars().count() + 1 + word.chars().count();
        if !head.is_empty() && length > CHARS_MAX {
            break;
        }
        if !head.is_empty() {
            head.push(' ');
        }
        head.extend(word.chars().take(CHARS_MAX));
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_blocks_open_and_close_where_sql_says() {
        for (sql, effect) in [
            ("BEGIN", BlockEffect::Opens),
            ("begin isolation level serializable", BlockEffect::Opens),
            ("/* x */ START TRANSACTION", BlockEffect::Opens),
            ("END", BlockEffect::Closes),
            ("COMMIT WORK", BlockEffect::Closes),
            ("COMMIT AND CHAIN", BlockEffect::None),
            ("ROLLBACK AND NO CHAIN", BlockEffect::Closes),
            ("ROLLBACK TO SAVEPOINT s", BlockEffect::None),
            ("ROLLBACK TO s", BlockEffect::None),
            ("PREPARE TRANSACTION 'x'", BlockEffect::Closes),
            ("COMMIT PREPARED 'x'", BlockEffect::None),
            ("SELECT 1", BlockEffect::None),
        ] {
            assert_eq!(block_effect(sql), effect, "{sql}");
        }
    }

    #[test]
    fn a_name_is_the_first_words() {
        assert_eq!(head("UPDATE  t\n SET a = 1"), "UPDATE t SET a = 1");
        assert_eq!(
            head("SELECT abalance FROM pgbench_accounts WHERE aid = :aid"),
            "SELECT abalance FROM pgbench_accounts"
        );
        assert_eq!(head(&"x".repeat(99)), "x".repeat(40));
    }
}
