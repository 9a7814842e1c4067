//! A statement of SQL cut into pieces, as its dialect has it. Whatever the text holds, the pieces are slices of it, in order.

use std::ops::Range;

use plimsoll_core::{Dialect, parameters, tokens};

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
    let is_mysql = dialect == Dialect::Mysql;
    let mut params = parameters(text, dialect).into_iter().peekable();
    let piece = |range: Range<usize>| {
        let token = &text[range.clone()];
        let sort = match token.chars().next()? {
            _ if token.starts_with("--") || token.starts_with("/*") => return None,
            _ if let Some((_, number)) = params.next_if(|(place, _)| *place == range) => Sort::Param(number.into()),
            '#' if is_mysql => return None,
            first if first.is_ascii() && first.is_whitespace() => return None,
            '\'' | '0'..='9' => Sort::Literal,
            '"' if is_mysql => Sort::Literal,
            '$' if is_dollar_quoted(token) => Sort::Literal,
            '"' | '`' => Sort::Name,
            // E'…' is a text of its own kind.
            first if first.is_alphanumeric() || first == '_' => {
                if token[first.len_utf8()..].starts_with('\'') {
                    Sort::Sign
                } else {
                    Sort::Word
                }
            }
            _ => Sort::Sign,
        };
        Some(Piece { sort, range })
    };
    tokens(text, dialect).filter_map(piece).collect()
}

/// True for `$tag$ … $tag$`.
fn is_dollar_quoted(token: &str) -> bool {
    let tag = token[1..].find('$').map(|end| &token[..end + 2]);
    tag.is_some_and(|tag| token[tag.len()..].ends_with(tag))
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
