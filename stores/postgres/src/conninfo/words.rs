//! `host=db.example dbname='my db'`: libpq's key=value strings, alone or after `postgres://`.

use plimsoll_core::StoreError;

use super::{Parameters, parameter, usage};

/// The key=value string that `text` is; `None` when it looks like a URL.
pub(super) fn of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    let rest = rest.unwrap_or(if text.contains("://") { "" } else { text });
    let key_end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'))?;
    (key_end > 0 && rest[key_end..].trim_start().starts_with('=')).then_some(rest)
}

/// Takes a key=value string of connection parameters apart.
pub(super) fn parse(text: &str) -> Result<Parameters, StoreError> {
    let heeded = |(name, value): (String, String)| parameter(&name, value, "the key=value string").transpose();
    pairs(text)?.into_iter().filter_map(heeded).collect()
}

/// Takes any key=value string apart. Blanks around `=` count for nothing; a value with blanks, or none, stands in single
/// quotes; a backslash escapes.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, String)>, StoreError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let key_end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(key_end);
        let Some(after) = after.trim_start().strip_prefix('=') else {
            // It may be a piece of a password with a blank in it: it is not shown.
            return Err(usage(
                "the key=value string has a word without `=`",
                "Put a value with blanks into single quotes: dbname='my db'",
            ));
        };
        let (value, after) = value(after.trim_start())?;
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

fn value(text: &str) -> Result<(String, &str), StoreError> {
    let (quoted, text) = text.strip_prefix('\'').map_or((false, text), |rest| (true, rest));
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            c if !quoted && c.is_whitespace() => return Ok((value, &text[at..])),
            c => value.push(c),
        }
    }
    if quoted {
        return Err(usage(
            "the key=value string has a quote that is not closed",
            "Close it, and write a quote inside a value as \\'",
        ));
    }
    Ok((value, ""))
}
