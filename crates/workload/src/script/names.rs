//! The names of the columns that a statement's answer has, read from its text: what `\gset` calls its variables.
//!
//! pgbench takes them from the server. Here they are known before the script runs, so that a variable without a value
//! is found immediately, and an answer need not carry names.

/// The names in order, or what keeps them from being known.
pub(super) fn columns(sql: &str) -> Result<Vec<String>, &'static str> {
    let tokens = tokens(sql);
    let list = list_of(&tokens)?;
    // `SELECT` alone is one row without columns.
    let columns = list.split(|token| *token == Token::Comma).filter(|_| !list.is_empty());
    columns.map(name_of).collect()
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A word that is not quoted, in lower case.
    Word(String),
    /// A quoted name.
    Quoted(String),
    Comma,
    Dot,
    Star,
    /// `::`
    Cast,
    /// Text in parentheses or brackets.
    Group,
    /// A string, a number or a variable.
    Literal,
    Operator,
}

const UNKNOWN: &str = "the names of its columns cannot be read from it";
const NAMELESS: &str = "it has a column without a name: name it with AS";

fn tokens(sql: &str) -> Vec<Token> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let name_bytes = |text: &str| text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (mut tokens, mut rest, mut depth) = (Vec::new(), sql, 0_u32);
    while let Some(first) = rest.chars().next() {
        let mut bytes = first.len_utf8();
        let token = match first {
            c if c.is_whitespace() => None,
            '-' if rest.starts_with("--") => {
                bytes = rest.find('\n').unwrap_or(rest.len());
                None
            }
            '/' if rest.starts_with("/*") => {
                bytes = rest[2..].find("*/").map_or(rest.len(), |end| end + 4);
                None
            }
            quote @ ('\'' | '"') => {
                let inside = quoted(rest, quote);
                bytes = inside.map_or(rest.len(), |inside| inside.len() + 2);
                let inside = inside.unwrap_or_default();
                Some(if quote == '"' { Token::Quoted(inside.replace("\"\"", "\"")) } else { Token::Literal })
            }
            '(' | '[' => {
                depth += 1;
                (depth == 1).then_some(Token::Group)
            }
            ')' | ']' => {
                depth = depth.saturating_sub(1);
                None
            }
            ':' if rest.starts_with("::") => {
                bytes = 2;
                Some(Token::Cast)
            }
            // A variable.
            ':' => {
                bytes += name_bytes(&rest[1..]);
                Some(Token::Literal)
            }
            c if c.is_ascii_digit() => {
                bytes = rest.find(|c| !is_name(c) && c != '.').unwrap_or(rest.len());
                Some(Token::Literal)
            }
            c if is_name(c) => {
                bytes = name_bytes(rest);
                Some(Token::Word(rest[..bytes].to_lowercase()))
            }
            ',' => Some(Token::Comma),
            '.' => Some(Token::Dot),
            '*' => Some(Token::Star),
            _ => Some(Token::Operator),
        };
        tokens.extend(token.filter(|token| depth == 0 || *token == Token::Group));
        rest = &rest[bytes..];
    }
    tokens
}

/// Returns the text between the quotes that `text` begins with; `None` if the closing quote is missing. A doubled
/// quote does not close.
fn quoted(text: &str, quote: char) -> Option<&str> {
    let mut at = 1;
    loop {
        let end = at + text[at..].find(quote)?;
        if !text[end + 1..].starts_with(quote) {
            return Some(&text[1..end]);
        }
        at = end + 2;
    }
}

/// The tokens of the list that names the columns.
fn list_of(tokens: &[Token]) -> Result<&[Token], &'static str> {
    let word = |token: &Token, wanted: &[&str]| matches!(token, Token::Word(word) if wanted.contains(&word.as_str()));
    let first = tokens
        .iter()
        .position(|token| word(token, &["select", "insert", "update", "delete", "merge", "values", "show", "replace"]));
    let Some(first) = first else { return Err(UNKNOWN) };
    let rest = tokens.get(first..).unwrap_or(&[]);
    match rest.first() {
        Some(token) if word(token, &["select"]) => {
            let mut start = 1;
            while rest.get(start).is_some_and(|token| word(token, &["all", "distinct"])) {
                start += 1;
                if rest.get(start).is_some_and(|token| word(token, &["on"])) {
                    start += 2;
                }
            }
            const AFTER: [&str; 14] = [
                "from",
                "where",
                "group",
                "having",
                "window",
                "union",
                "intersect",
                "except",
                "order",
                "limit",
                "offset",
                "fetch",
                "for",
                "into",
            ];
            let list = rest.get(start..).unwrap_or(&[]);
            // `AS from` would be a name.
            let end = (0..list.len()).find(|at| word(&list[*at], &AFTER) && !(*at > 0 && word(&list[at - 1], &["as"])));
            Ok(list.get(..end.unwrap_or(list.len())).unwrap_or(&[]))
        }
        Some(token) if word(token, &["show"]) => Ok(rest.get(1..).unwrap_or(&[])),
        Some(token) if word(token, &["values"]) => Err("VALUES names no columns: select from it, with names"),
        _ => match rest.iter().position(|token| word(token, &["returning"])) {
            Some(at) => Ok(rest.get(at + 1..).unwrap_or(&[])),
            None => Err("it has no answer: a SELECT or RETURNING has one"),
        },
    }
}

/// The name of one column, as PostgreSQL finds it.
fn name_of(item: &[Token]) -> Result<String, &'static str> {
    let named = |token: &Token| match token {
        Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
        _ => None,
    };
    match item {
        [] => Err(UNKNOWN),
        [.., Token::Star] if matches!(item, [Token::Star] | [.., Token::Dot, Token::Star]) => {
            Err("`*` names no columns: write them out")
        }
        [.., Token::Word(keyword), name] if keyword == "as" => named(name).ok_or(UNKNOWN),
        // A cast has the name of what is cast, if that has one.
        [inner @ .., Token::Cast, Token::Word(_)] | [inner @ .., Token::Cast, Token::Word(_), Token::Group] => {
            name_of(inner)
        }
        [.., Token::Word(keyword)] if keyword == "end" => Ok("case".to_owned()),
        [name] | [Token::Word(_) | Token::Quoted(_), Token::Dot, name] => named(name).ok_or(NAMELESS),
        [name, Token::Group] | [Token::Word(_) | Token::Quoted(_), Token::Dot, name, Token::Group] => {
            named(name).ok_or(NAMELESS)
        }
        // `a + b` ends with a name and an operator before it; `f(x) b` and `1 b` do not.
        [.., Token::Group | Token::Word(_) | Token::Quoted(_) | Token::Literal, name] => named(name).ok_or(NAMELESS),
        _ => Err(NAMELESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_as_postgresql_names_them() {
        for (sql, wanted) in [
            ("SELECT abalance FROM pgbench_accounts WHERE aid = :aid", "abalance"),
            ("SELECT 1 AS one, 2 AS \"Two\"", "one,Two"),
            ("select a.b, c AS from, count(*), max(x) m from t a", "b,from,count,m"),
            ("SELECT DISTINCT ON (a) a, b FROM t", "a,b"),
            ("WITH x AS (SELECT 1 AS hidden) SELECT y FROM x -- , z\n", "y"),
            ("INSERT INTO t (a, b) VALUES (1, 2) RETURNING id, b + 1 AS next", "id,next"),
            ("UPDATE t SET a = 1 RETURNING t.a", "a"),
            ("SELECT (SELECT 1, 2) AS s, ARRAY[1] arr, x::text, CASE WHEN a THEN 1 END /* , y */", "s,arr,x,case"),
            ("SELECT count(*)::int, x::numeric(10, 2) y, 1 z, a[1]", "count,y,z,a"),
            ("SHOW Work_Mem", "work_mem"),
            ("SELECT 'a,b' AS t, now()", "t,now"),
            ("SELECT WHERE false", ""),
            ("SELECT 1 AS fail UNION SELECT 2 ORDER BY 1", "fail"),
        ] {
            assert_eq!(columns(sql).map(|names| names.join(",")), Ok(wanted.to_owned()), "{sql}");
        }
    }

    #[test]
    fn what_has_no_names_says_so() {
        for (sql, why) in [
            ("SELECT * FROM t", "`*`"),
            ("SELECT t.*, a FROM t", "`*`"),
            ("SELECT 1", "AS"),
            ("SELECT a + b FROM t", "AS"),
            ("DELETE FROM t", "no answer"),
            ("VALUES (1)", "VALUES"),
            ("CHECKPOINT", "cannot be read"),
        ] {
            assert!(columns(sql).is_err_and(|found| found.contains(why)), "{sql}: {:?}", columns(sql));
        }
    }
}
