//! Positions of parameters in an SQL statement, as servers of a dialect read it.

use std::ops::Range;

use crate::store::Dialect;

/// Positions of `$1`, `$2` … in `text`, in order, each with its parameter, counted from 0. Names, quotes and comments
/// contain none. In MariaDB's and MySQL's dialect, each `?` is the next parameter.
pub fn parameters(text: &str, dialect: Dialect) -> Vec<(Range<usize>, u16)> {
    let mut found = Vec::new();
    for token in tokens(text, dialect) {
        match text[token.clone()].strip_prefix('$').and_then(|digits| digits.parse::<u16>().ok()) {
            Some(number @ 1..) => found.push((token, number - 1)),
            _ if dialect == Dialect::Mysql && &text[token.clone()] == "?" => {
                let position = u16::try_from(found.len()).unwrap_or(u16::MAX);
                found.push((token, position));
            }
            _ => {}
        }
    }
    found
}

/// Tokens of an SQL statement, in order: parameters, words, numbers, quoted texts, comments, and other characters.
pub fn tokens(text: &str, dialect: Dialect) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let start = at;
        at += token_bytes(rest, rest.chars().next()?, dialect);
        Some(start..at)
    })
}

/// Length in bytes of the first token of `rest`.
fn token_bytes(rest: &str, first: char, dialect: Dialect) -> usize {
    let (is_postgres, is_mysql) = (dialect == Dialect::Postgres, dialect == Dialect::Mysql);
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let up_to = |end: Option<usize>| end.unwrap_or(rest.len());
    match first {
        '\'' | '"' => quoted_bytes(rest, first, is_mysql),
        '`' if !is_postgres => quoted_bytes(rest, first, false),
        // E'…', N'…', X'…'. In the first, a backslash escapes.
        c if c.is_ascii_alphabetic() && rest[1..].starts_with('\'') => {
            1 + quoted_bytes(&rest[1..], '\'', is_mysql || is_postgres && matches!(c, 'e' | 'E'))
        }
        '#' if is_mysql => up_to(rest.find('\n')),
        // In MariaDB and MySQL two dashes begin a comment when a blank or nothing follows them.
        '-' if rest.starts_with("--") && !(is_mysql && rest[2..].starts_with(|c: char| !c.is_whitespace())) => {
            up_to(rest.find('\n'))
        }
        '/' if rest.starts_with("/*") => comment_bytes(rest, is_postgres),
        '$' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            1 + rest[1..].bytes().take_while(u8::is_ascii_digit).count()
        }
        '$' if is_postgres => dollar_quoted_bytes(rest),
        // A name may hold a `$`, a number may not.
        '0'..='9' => number_bytes(rest, |c| is_of_word(c) && !(is_postgres && c == '$')),
        '@' if is_mysql => 1 + rest[1..].find(|c| !is_of_word(c)).unwrap_or(rest.len() - 1),
        c if is_of_word(c) => up_to(rest.find(|c| !is_of_word(c))),
        c => c.len_utf8(),
    }
}

/// Length of a number, and of letters directly after it.
fn number_bytes(text: &str, is_of_word: impl Fn(char) -> bool) -> usize {
    let mut before = '0';
    let ends = |c: char| {
        let signed = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !text.starts_with("0x");
        before = c;
        !(is_of_word(c) || c == '.' || signed)
    };
    text.find(ends).unwrap_or(text.len())
}

/// Length of a quoted text; a quote in it is doubled, or escaped if that is allowed.
fn quoted_bytes(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    text.len()
}

/// Length of `$tag$ … $tag$`, or of the `$` alone.
fn dollar_quoted_bytes(text: &str) -> usize {
    let Some(tag_end) = text[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')) else { return 1 };
    if !text[1 + tag_end..].starts_with('$') {
        return 1;
    }
    let tag = &text[..tag_end + 2];
    text[tag.len()..].find(tag).map_or(text.len(), |end| 2 * tag.len() + end)
}

/// Length of a comment, which may hold others if it `nests`.
fn comment_bytes(text: &str, nests: bool) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let rest = &text[at..];
        match (rest.find("/*").filter(|_| nests), rest.find("*/")) {
            (Some(open), Some(close)) if open < close => (at, depth) = (at + open + 2, depth + 1),
            (_, Some(close)) => (at, depth) = (at + close + 2, depth - 1),
            _ => return text.len(),
        }
    }
    at
}
