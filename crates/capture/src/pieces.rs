//! A statement of SQL cut into pieces, as its dialect has it. Whatever the text holds, the pieces are slices of it, in order.

use std::ops::Range;

use plimsoll_core::Dialect;

/// Most parameters of a statement: their number has 16 bits on the wire.
const PARAMS_MAX: usize = 65_535;

/// Sort of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A word without quotes.
    Word,
    /// A name between quotes.
    Name,
    /// A text, or a number without a sign.
    Literal,
    /// The place of the parameter with this number, from 0 on.
    Param(usize),
    /// Any other character.
    Sign,
}

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub sort: Sort,
    pub range: Range<usize>,
}

/// The pieces of `text`; comments are none.
pub(crate) fn pieces(text: &str, dialect: Dialect) -> Vec<Piece> {
    // There a backslash escapes, `#` begins a comment, `"` a text, and `?` is a parameter.
    let escapes = dialect == Dialect::Mysql;
    let mut pieces = Vec::new();
    let (mut at, mut params) = (0, 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let is_comment = rest.starts_with("--") || rest.starts_with("/*") || (escapes && first == '#');
        let (sort, length) = match first {
            _ if first.is_whitespace() => (None, first.len_utf8()),
            _ if is_comment => (None, comment(rest)),
            '\'' => (Some(Sort::Literal), quoted(rest, '\'', escapes)),
            '"' => (Some(if escapes { Sort::Literal } else { Sort::Name }), quoted(rest, '"', escapes)),
            '`' => (Some(Sort::Name), quoted(rest, '`', false)),
            '?' if escapes => {
                params += 1;
                (Some(Sort::Param(params - 1)), 1)
            }
            '$' if !escapes => match rest[1..].bytes().take_while(u8::is_ascii_digit).count() {
                0 => match dollar_quoted(rest) {
                    Some(length) => (Some(Sort::Literal), length),
                    None => (Some(Sort::Sign), 1),
                },
                digits => {
                    // What no protocol carries is no parameter, and the server refuses it.
                    let number = rest[1..=digits].parse().ok().filter(|number| *number <= PARAMS_MAX).unwrap_or(0);
                    (Some(number.checked_sub(1).map_or(Sort::Sign, Sort::Param)), 1 + digits)
                }
            },
            '0'..='9' => (Some(Sort::Literal), number(rest)),
            _ if is_of_word(first) => {
                let length = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                // E'…', N'…', X'…': a text of its own kind.
                match rest[length..].starts_with('\'') && length == 1 {
                    true => {
                        let escapes = escapes || rest.starts_with(['e', 'E']);
                        (Some(Sort::Sign), length + quoted(&rest[length..], '\'', escapes))
                    }
                    false => (Some(Sort::Word), length),
                }
            }
            _ => (Some(Sort::Sign), first.len_utf8()),
        };
        pieces.extend(sort.map(|sort| Piece { sort, range: at..at + length }));
        at += length;
    }
    pieces
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Bytes of the comment that `text` begins with.
fn comment(text: &str) -> usize {
    let end = match text.strip_prefix("/*") {
        Some(inside) => inside.find("*/").map(|end| end + 4),
        None => text.find('\n'),
    };
    end.unwrap_or(text.len())
}

/// Bytes of what begins with `quote`, up to the one that ends it.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if escapes => drop(letters.next()),
            _ if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of the text between `$tag$` and `$tag$` that `text` begins with.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = &text[..text[1..].find('$')? + 2];
    let is_tag = tag[1..tag.len() - 1].chars().all(is_of_word);
    text[tag.len()..].find(tag).filter(|_| is_tag).map(|end| 2 * tag.len() + end)
}

/// Bytes of the number that `text` begins with, and of letters right behind it.
fn number(text: &str) -> usize {
    let mut before = '0';
    let ends = |letter: char| {
        let signed = matches!(letter, '+' | '-') && matches!(before, 'e' | 'E') && !text.starts_with("0x");
        before = letter;
        !(is_of_word(letter) || letter == '.' || signed)
    };
    text.find(ends).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, dialect: Dialect) -> Vec<(&str, Sort)> {
        pieces(text, dialect).into_iter().map(|piece| (&text[piece.range], piece.sort)).collect()
    }

    #[test]
    fn each_dialect_has_its_own_quotes_and_parameters() {
        use Sort::{Literal, Name, Param, Sign, Word};
        assert_eq!(
            cut("a.\"b\"\"c\" = $2 /* x */ AND d<'it''s'--end\n", Dialect::Postgres),
            [
                ("a", Word),
                (".", Sign),
                ("\"b\"\"c\"", Name),
                ("=", Sign),
                ("$2", Param(1)),
                ("AND", Word),
                ("d", Word),
                ("<", Sign),
                ("'it''s'", Literal)
            ]
        );
        assert_eq!(
            cut("`a b`=? # x\nOR c=\"it\\\"s\" AND d=-1.5e-3", Dialect::Mysql),
            [
                ("`a b`", Name),
                ("=", Sign),
                ("?", Param(0)),
                ("OR", Word),
                ("c", Word),
                ("=", Sign),
                ("\"it\\\"s\"", Literal),
                ("AND", Word),
                ("d", Word),
                ("=", Sign),
                ("-", Sign),
                ("1.5e-3", Literal)
            ]
        );
        assert_eq!(
            cut("E'a\\'b' $x$it's$x$ ::int", Dialect::Postgres),
            [("E'a\\'b'", Sign), ("$x$it's$x$", Literal), (":", Sign), (":", Sign), ("int", Word)]
        );
    }

    proptest! {
        #[test]
        fn whatever_the_text_its_pieces_are_parts_of_it_in_order(text in "[a$1?'\"`\\\\/*.e #é\n-]{0,30}") {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                let mut last = 0;
                for piece in pieces(&text, dialect) {
                    prop_assert!(piece.range.start >= last && !text[piece.range.clone()].is_empty());
                    last = piece.range.end;
                }
            }
        }
    }
}
