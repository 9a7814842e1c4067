//! What can be told of a statement of SQL without a server: that it only reads, or that it stays within the schema that
//! its session is in. "No" is always a safe answer.
//!
//! It holds for PostgreSQL's SQL and for MariaDB's and MySQL's alike, so what one of them reads otherwise than the others
//! (a backslash in a literal, `#`, dollar quotes, comments in comments) is never told anything of.

/// Functions that do nothing but calculate.
const FUNCTIONS: &str = "abs avg cast ceil ceiling char_length coalesce concat concat_ws count date_trunc dense_rank exp \
    extract floor generate_series greatest hashtext ifnull lag lead least left length ln lower lpad \
    ltrim max md5 min mod now ntile nullif octet_length position pow power rand random rank repeat \
    replace right round row_number rpad rtrim sign sqrt string_agg strpos substr substring sum to_char \
    to_date to_number to_timestamp translate trim trunc truncate upper";

/// Words that a parenthesis may follow without being a function's.
const BEFORE_PARENTHESIS: &str = "all and any array except intersect limit offset union as between bigint bpchar by case char check default distinct else exists filter \
    from having in int integer interval join key lateral like materialized not numeric on or over \
    partition returning row select set some then unique using values varchar when where with";

/// Words that a SELECT must not have: what changes something, locks something, or writes a file.
const NO_READ: &str = "analyse call delete do dumpfile execute for insert into lock merge outfile procedure replace update \
    write";

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A word that is not quoted, in small letters.
    Word(String),
    /// A name between `"` or backticks: in MariaDB the former may also be a text.
    Quoted,
    /// A text between `'`.
    Text,
    /// Anything else.
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }

    /// Whether it is one of `words`, which stand between blanks.
    fn is_one_of(&self, words: &str) -> bool {
        matches!(self, Token::Word(own) if words.split_ascii_whitespace().any(|word| word == own))
    }

    fn is_name(&self) -> bool {
        matches!(self, Token::Word(_) | Token::Quoted)
    }
}

/// True for a statement that certainly changes nothing, locks nothing and calls nothing that might do more than
/// calculate, unless the tables that it names are views that do: a read, or the beginning or end of a transaction.
pub fn only_reads(text: &str) -> bool {
    tokens(text).is_some_and(|tokens| reads(&tokens) || is_of_transaction(&tokens))
}

/// [`only_reads`], and it is no beginning or end of a transaction.
pub fn only_selects(text: &str) -> bool {
    tokens(text).is_some_and(|tokens| reads(&tokens))
}

/// True for a statement that certainly changes nothing outside the schema that its session is in: whatever is named
/// where something may be changed is named without a schema, and nothing is called that might do more than calculate.
pub fn stays_in_schema(text: &str) -> bool {
    let Some(tokens) = tokens(text) else { return false };
    if reads(&tokens) || is_of_transaction(&tokens) {
        return true;
    }
    if !calculates(&tokens) {
        return false;
    }
    let first = |words: &str| tokens.first().is_some_and(|token| token.is_one_of(words));
    let has = |words: &str| tokens.iter().any(|token| token.is_one_of(words));
    if first("insert update delete merge replace with select") {
        return !has("outfile dumpfile procedure") && !changes_qualified(&tokens);
    }
    const THINGS: &str = "table temp temporary unlogged index unique sequence";
    let of_things = first("create drop alter") && tokens.get(1).is_some_and(|token| token.is_one_of(THINGS));
    (of_things || first("truncate analyze vacuum"))
        && !has("schema owner tablespace rename")
        && !(0..tokens.len()).any(|at| is_qualified(&tokens, at))
}

/// Whether something that is named with its schema may be changed by a statement that changes rows.
fn changes_qualified(tokens: &[Token]) -> bool {
    // MariaDB's UPDATE may name several tables, up to SET.
    let mut in_update = false;
    for (at, token) in tokens.iter().enumerate() {
        in_update = token.is("update") || in_update && !token.is("set");
        let before = |back: usize| at.checked_sub(back).and_then(|before| tokens.get(before));
        let is_before = |back, words| before(back).is_some_and(|token| token.is_one_of(words));
        let begins = in_update
            || is_before(1, "into update only delete merge insert replace ignore low_priority quick")
            || is_before(1, "from") && is_before(2, "delete quick ignore");
        if begins && is_qualified(tokens, at) {
            return true;
        }
        // DELETE a, b.c FROM …: the list may go on after a comma.
        if token.is("delete") && !tokens.get(at + 1).is_some_and(|next| next.is("from")) {
            let list = tokens[at..].iter().take_while(|token| !token.is("from")).count();
            if (at..at + list).any(|at| is_qualified(tokens, at)) {
                return true;
            }
        }
    }
    false
}

/// Whether `a.b` begins at `at`.
fn is_qualified(tokens: &[Token], at: usize) -> bool {
    tokens.get(at).is_some_and(Token::is_name) && tokens.get(at + 1) == Some(&Token::Sign('.'))
}

fn reads(tokens: &[Token]) -> bool {
    let begins = tokens.iter().find(|token| **token != Token::Sign('('));
    let is_read = begins.is_some_and(|first| first.is_one_of("select values with table"));
    // `replace` is a function too.
    let is_function = |at: usize| tokens[at].is("replace") && tokens.get(at + 1) == Some(&Token::Sign('('));
    is_read
        && calculates(tokens)
        && !tokens.iter().enumerate().any(|(at, token)| token.is_one_of(NO_READ) && !is_function(at))
}

/// Whether it begins or ends a transaction and does nothing else.
fn is_of_transaction(tokens: &[Token]) -> bool {
    const FIRST: &str = "begin start commit end rollback abort savepoint release";
    tokens.first().is_some_and(|token| token.is_one_of(FIRST))
        && !tokens.iter().any(|token| token.is_one_of("write prepared slave replica atomic"))
}

/// Whether everything that is called only calculates. A function of somebody's schema may have any name, and so may one
/// between quotes.
fn calculates(tokens: &[Token]) -> bool {
    tokens.windows(2).enumerate().all(|(at, pair)| {
        if pair[1] != Token::Sign('(') {
            return true;
        }
        match &pair[0] {
            Token::Sign(_) => true,
            Token::Quoted | Token::Text => names_a_table(tokens, at),
            word => {
                let qualified = at > 0 && tokens[at - 1] == Token::Sign('.');
                let is_known = word.is_one_of(FUNCTIONS) || word.is_one_of(BEFORE_PARENTHESIS);
                names_a_table(tokens, at) || !qualified && is_known
            }
        }
    })
}

/// Whether the name at `at` is a table's, whose columns stand behind it: `INTO t (`, `TABLE t (`, `ON t (`, `WITH t (`.
fn names_a_table(tokens: &[Token], at: usize) -> bool {
    let mut first = at;
    while first >= 2 && tokens[first - 1] == Token::Sign('.') {
        first -= 2;
    }
    let Some(before) = first.checked_sub(1).and_then(|before| tokens.get(before)) else { return false };
    let creates = tokens.first().is_some_and(|token| token.is("create"));
    before.is_one_of("into table references index key") || creates && before.is_one_of("on exists")
}

/// The pieces of `text`, comments left out; `None` where servers would read it differently, or it is not one statement.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => {
                let length = quoted_bytes(rest, first)?;
                tokens.push(if first == '\'' { Token::Text } else { Token::Quoted });
                length
            }
            '-' if rest.starts_with("--") => {
                // Without the blank it is no comment in MariaDB.
                if !rest[2..].starts_with([' ', '\t', '\n', '\r']) && rest.len() > 2 {
                    return None;
                }
                rest.find('\n').unwrap_or(rest.len())
            }
            '/' if rest.starts_with("/*") => {
                let body = rest[2..].find("*/")?;
                let inside = &rest[2..2 + body];
                // MariaDB runs what stands in /*! … */ and /*M! … */, and PostgreSQL nests.
                if inside.starts_with(['!', 'M', '+']) || inside.contains("/*") {
                    return None;
                }
                body + 4
            }
            '\\' | '#' | ';' => return None,
            '$' => match rest[1..].bytes().take_while(u8::is_ascii_digit).count() {
                0 => return None,
                digits => {
                    tokens.push(Token::Sign('$'));
                    digits + 1
                }
            },
            letter if is_of_word(letter) => {
                let length = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..length].to_lowercase()));
                length
            }
            sign => {
                tokens.push(Token::Sign(sign));
                sign.len_utf8()
            }
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Bytes of what begins with `quote`, up to the one that ends it; doubled it is part of the text.
fn quoted_bytes(text: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    loop {
        let end = at + text[at..].find([quote, '\\'])?;
        if text[end..].starts_with('\\') {
            return None;
        }
        if !text[end + 1..].starts_with(quote) {
            return Some(end + 1);
        }
        at = end + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_reads_reads() {
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
            "  select count(*), max (v) FROM t WHERE (a = $1 OR b IN ($2, $3)) AND EXISTS (SELECT 1 FROM u)",
            "SELECT v FROM formats WHERE intos = $1::int LIMIT 1",
            "SELECT a FROM s.t WHERE name = 'O''Hara; DELETE' -- UPDATE\n",
            "WITH w AS (SELECT a FROM t) SELECT replace(a, 'x', 'y') FROM w",
            "(SELECT 1) UNION (SELECT 2)",
            "SELECT \"a\" FROM \"s\".\"t\" WHERE b = 1 /* update */",
            "VALUES (1), (2)",
            "BEGIN",
            "start transaction isolation level serializable, read only",
            "END",
            "ROLLBACK TO SAVEPOINT s",
        ] {
            assert!(only_reads(text), "{text}");
        }
        for text in [
            "UPDATE t SET a = 1",
            "WITH gone AS (DELETE FROM t RETURNING a) SELECT a FROM gone",
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t FOR\nSHARE",
            "SELECT a FROM t LOCK IN SHARE MODE",
            "SELECT a INTO u FROM t",
            "SELECT a FROM t INTO OUTFILE 'x'",
            "SELECT nextval ($1)",
            "SELECT set_config('default_transaction_read_only', 'off', false)",
            "SELECT pg_advisory_lock(1)",
            "SELECT count(*) FROM t WHERE f(a)",
            "SELECT mine.count(*)",
            "SELECT mine . count(*)",
            "SELECT \"f\"(1)",
            "SELECT `f`(1)",
            "SELECT 1; DELETE FROM t",
            "SELECT 1 /*! INTO OUTFILE 'x' */",
            "SELECT /* x */ f/**/(1)",
            "SELECT 5--1, f(1)",
            "SELECT 'it\\'s', f(1)",
            "SELECT $$x$$",
            "BEGIN READ WRITE",
            "COMMIT PREPARED 'x'",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            "EXPLAIN ANALYZE DELETE FROM t",
            "CALL p()",
            "DO $$BEGIN END$$",
            "LOCK TABLE t",
            "COPY t TO PROGRAM 'x'",
            "",
        ] {
            assert!(!only_reads(text), "{text}");
        }
    }

    #[test]
    fn what_stays_in_its_schema_names_no_other_where_it_changes_something() {
        for text in [
            "UPDATE t SET a = t.a + 1 WHERE t.b = $1",
            "UPDATE accounts SET balance = balance - 1 WHERE aid = $1 RETURNING balance",
            "INSERT INTO t (a, b) VALUES ($1, now())",
            "INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 100000 * 1) AS n",
            "DELETE FROM t USING u WHERE t.a = u.a",
            "SELECT balance FROM accounts WHERE aid = $1 FOR UPDATE",
            "CREATE TABLE accounts (aid int PRIMARY KEY, balance int DEFAULT (0), name varchar(20), CHECK (balance > 0))",
            "CREATE TABLE IF NOT EXISTS t (a int)",
            "CREATE UNIQUE INDEX i ON t (a, b)",
            "DROP TABLE IF EXISTS t",
            "TRUNCATE t",
            "ANALYZE t",
            "VACUUM ANALYZE t",
            "ALTER TABLE t ADD PRIMARY KEY (a)",
            "BEGIN",
            "SELECT a FROM public.t",
        ] {
            assert!(stays_in_schema(text), "{text}");
        }
        for text in [
            "UPDATE public.t SET a = 1",
            "UPDATE t, shop.u SET u.a = 1",
            "UPDATE ONLY public.t SET a = 1",
            "INSERT INTO public.t VALUES (1)",
            "INSERT INTO \"public\".\"t\" VALUES (1)",
            "INSERT shop.t VALUES (1)",
            "DELETE FROM public.t",
            "DELETE t, shop.u FROM t JOIN shop.u ON t.a = u.a",
            "WITH w AS (DELETE FROM public.t RETURNING a) SELECT a FROM w",
            "SELECT a INTO public.u FROM t",
            "MERGE INTO public.t USING u ON true WHEN MATCHED THEN DELETE",
            "DROP TABLE t, public.u",
            "DROP SCHEMA public",
            "CREATE TABLE public.t (a int)",
            "CREATE INDEX ON public.t (a)",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'DELETE FROM public.t'",
            "ALTER TABLE t SET SCHEMA public",
            "TRUNCATE public.t",
            "SET search_path = public",
            "USE shop",
            "UPDATE t SET a = f(1)",
            "SELECT setval('public.s', 1)",
            "CALL p()",
            "GRANT ALL ON t TO public",
            "COPY t FROM STDIN",
        ] {
            assert!(!stays_in_schema(text), "{text}");
        }
    }
}
