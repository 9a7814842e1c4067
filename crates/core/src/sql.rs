//! What can be told of a statement of SQL without a server: that it only reads, or that it stays within the schema that
//! its session is in. "No" is always a safe answer.
//!
//! It holds for PostgreSQL's SQL and for MariaDB's and MySQL's alike, so what one of them reads otherwise than the others
//! (a backslash in a literal, `#`, dollar quotes, comments in comments, letters beyond ASCII) is never told anything of.

use crate::Dialect;

/// Functions that do nothing but calculate, and that every server has: elsewhere the name is anybody's.
const FUNCTIONS: &str = "abs avg cast ceil ceiling char_length coalesce concat concat_ws count dense_rank exp extract \
    floor greatest lag lead least left length ln lower lpad ltrim max md5 min mod now ntile nullif \
    octet_length position pow power rank repeat replace right round row_number rpad rtrim sign sqrt \
    substr substring sum trim upper";

/// Words that a parenthesis may follow without being a function's.
const BEFORE_PARENTHESIS: &str = "all and as between bigint case char check default distinct else except exists from \
    having in int integer intersect interval like limit not numeric on or returning row select then \
    union unique using values varchar when where with";

/// The same after certain words only, each with those: elsewhere they are names.
const AFTER: [(&str, &str); 2] = [("by", "group order partition"), ("key", "primary foreign unique")];

/// Words that a SELECT must not have: what changes something, locks something, or writes a file.
const NO_READ: &str = "analyse call delete do dumpfile execute for insert into lock merge outfile procedure replace update \
    write";

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A word that is not quoted, in small letters.
    Word(String),
    /// A name between `"` or backticks, with them: in MariaDB the former may also be a text.
    Quoted(String),
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

    /// Whether it may name something of PostgreSQL's own, which is found without its schema.
    fn is_of_system(&self) -> bool {
        match self {
            Token::Word(own) => own.starts_with("pg_"),
            Token::Quoted(own) => own.get(1..).is_some_and(|name| name.to_ascii_lowercase().starts_with("pg_")),
            _ => false,
        }
    }

    fn is_name(&self) -> bool {
        matches!(self, Token::Word(_) | Token::Quoted(_))
    }
}

/// True for a statement that changes nothing, locks nothing and calls nothing that might do more than calculate, as far as
/// its text tells: a read, or the beginning or end of a transaction. It does not tell of views, operators and casts that
/// somebody made, nor of PostgreSQL's `t.f` for `f(t)`. Without a dialect it holds for all of them.
pub fn only_reads(text: &str, dialect: Option<Dialect>) -> bool {
    tokens(text).is_some_and(|tokens| reads(&tokens, dialect) || is_of_transaction(&tokens))
}

/// [`only_reads`], and it is no beginning or end of a transaction.
pub fn only_selects(text: &str, dialect: Option<Dialect>) -> bool {
    tokens(text).is_some_and(|tokens| reads(&tokens, dialect))
}

/// True for a statement that changes nothing outside the schema that its session is in, as far as its text tells (see
/// [`only_reads`]): whatever is named where something may be changed is named without a schema, and nothing is called
/// that might do more than calculate.
pub fn stays_in_schema(text: &str, dialect: Option<Dialect>) -> bool {
    let Some(tokens) = tokens(text) else { return false };
    if reads(&tokens, dialect) || is_of_transaction(&tokens) {
        return true;
    }
    if !calculates(&tokens, dialect) || tokens.iter().any(Token::is_of_system) {
        return false;
    }
    let first = |words: &str| tokens.first().is_some_and(|token| token.is_one_of(words));
    let has = |words: &str| tokens.iter().any(|token| token.is_one_of(words));
    if first("insert update delete merge replace with select") {
        return !has("outfile dumpfile procedure") && !changes_qualified(&tokens);
    }
    const THINGS: &str = "table temp temporary unlogged index unique sequence";
    let of_things = first("create drop alter") && tokens.get(1).is_some_and(|token| token.is_one_of(THINGS));
    // Without a name they go over all that there is.
    const OPTIONS: &str = "full freeze verbose analyze analyse";
    let of_tables =
        first("analyze vacuum") && tokens[1..].iter().any(|token| token.is_name() && !token.is_one_of(OPTIONS));
    (of_things || of_tables || first("truncate"))
        && !has("schema owner tablespace rename into connection directory")
        && !(0..tokens.len()).any(|at| is_qualified(&tokens, at))
}

/// Whether something that is named with its schema may be changed by a statement that changes rows.
fn changes_qualified(tokens: &[Token]) -> bool {
    /// What may stand before the name of a table, in any order.
    const BEFORE_NAME: &str = "into only table temp temporary local global unlogged for";
    tokens.iter().enumerate().any(|(at, token)| {
        let rest = &tokens[at..];
        let length = match token {
            // MariaDB's DELETE may name several tables, before FROM or after it, and its UPDATE up to SET.
            _ if token.is("delete") => up_to(rest, "where"),
            _ if token.is("update") => up_to(rest, "set"),
            _ if token.is_one_of("insert replace") => rest
                .iter()
                .take_while(|next| **next != Token::Sign('(') && !next.is_one_of("values value select set"))
                .count(),
            // INTO shop.t, MERGE ONLY shop.t, NEXT VALUE FOR shop.s.
            _ if token.is_one_of("into merge value") => {
                2 + rest[1..].iter().take_while(|next| next.is_one_of(BEFORE_NAME)).count()
            }
            _ => 0,
        };
        (at..at + length).any(|at| is_qualified(tokens, at))
    })
}

/// How many pieces stand before `word`, leaving out what is in parentheses.
fn up_to(tokens: &[Token], word: &str) -> usize {
    let mut depth = 0_i32;
    let before = tokens.iter().take_while(|token| {
        depth += match token {
            Token::Sign('(') => 1,
            Token::Sign(')') => -1,
            _ => 0,
        };
        depth > 0 || depth == 0 && !token.is(word)
    });
    before.count()
}

/// Whether `a.b` begins at `at`.
fn is_qualified(tokens: &[Token], at: usize) -> bool {
    // `$1` is a name in MariaDB.
    tokens.get(at).is_some_and(|token| token.is_name() || *token == Token::Sign('$'))
        && tokens.get(at + 1) == Some(&Token::Sign('.'))
}

fn reads(tokens: &[Token], dialect: Option<Dialect>) -> bool {
    let begins = tokens.iter().find(|token| **token != Token::Sign('('));
    let is_read = begins.is_some_and(|first| first.is_one_of("select values with table"));
    // `replace` is a function too.
    let is_function = |at: usize| tokens[at].is("replace") && tokens.get(at + 1) == Some(&Token::Sign('('));
    is_read
        && calculates(tokens, dialect)
        && !tokens.iter().enumerate().any(|(at, token)| token.is_one_of(NO_READ) && !is_function(at))
}

/// Whether it begins or ends a transaction and does nothing else.
fn is_of_transaction(tokens: &[Token]) -> bool {
    const FIRST: &str = "begin start commit end rollback abort savepoint release";
    const NEXT: &str = "transaction work isolation level serializable repeatable read only committed uncommitted \
        deferred deferrable not and no chain release with consistent snapshot to savepoint";
    let Some((first, rest)) = tokens.split_first() else { return false };
    first.is_one_of(FIRST)
        && rest.iter().zip(tokens).all(|(token, before)| {
            let is_of_list = token.is_one_of(NEXT) || *token == Token::Sign(',');
            is_of_list || token.is_name() && before.is_one_of("savepoint release to")
        })
}

/// Whether everything that is called only calculates. A function of somebody's schema may have any name, and so may one
/// between quotes.
fn calculates(tokens: &[Token], dialect: Option<Dialect>) -> bool {
    // In MariaDB's Oracle mode a sequence goes on without a parenthesis.
    let calls = |at: usize| tokens[at + 1] == Token::Sign('(') && !is_calculated(tokens, at, dialect);
    !tokens.iter().any(|token| token.is("nextval")) && !(1..tokens.len()).any(|end| calls(end - 1))
}

/// Whether what stands at `at`, before a parenthesis, is a function that only calculates, or none.
fn is_calculated(tokens: &[Token], at: usize, dialect: Option<Dialect>) -> bool {
    let word = match &tokens[at] {
        Token::Sign(sign) => return *sign != '$',
        word => word,
    };
    let before = |words: &str| at > 0 && tokens[at - 1].is_one_of(words);
    let follows = |sign| at > 0 && tokens[at - 1] == Token::Sign(sign);
    // Also words that are no function's.
    let of_dialect = match dialect {
        Some(Dialect::Postgres) => {
            "any array bpchar date_trunc generate_series hashtext offset random some string_agg strpos to_char to_date \
             to_number to_timestamp translate trunc"
        }
        Some(Dialect::Mysql) => "if ifnull rand truncate",
        Some(Dialect::Sqlite) | None => "",
    };
    let is_known = word.is_one_of(FUNCTIONS)
        || word.is_one_of(BEFORE_PARENTHESIS)
        || word.is_one_of(of_dialect)
        || AFTER.iter().any(|(own, words)| word.is(own) && before(words))
        || word.is_one_of("filter over") && follows(')')
        || word.is_one_of("join lateral materialized any some")
            && tokens.get(at + 2).is_some_and(|inside| inside.is_one_of("select values with"));
    is_known && !follows('.') || names_a_table(tokens, at)
}

/// Whether the name at `at` is a table's, whose columns stand behind it: `INTO t (`, `TABLE t (`, `INDEX i ON t (`.
fn names_a_table(tokens: &[Token], at: usize) -> bool {
    let mut first = at;
    while first >= 2 && tokens[first - 1] == Token::Sign('.') {
        first -= 2;
    }
    let Some((before, earlier)) = tokens[..first].split_last() else { return false };
    let starts = |words: &[&str]| words.iter().zip(tokens).all(|(word, token)| token.is(word));
    let indexes = starts(&["create", "index"]) || starts(&["create", "unique", "index"]);
    let is_first = !earlier.iter().any(|token| token.is_one_of("as on select values where"));
    let [.., one, two] = earlier else { return before.is_one_of("into table") };
    before.is_one_of("into table references index key")
        || before.is("on") && indexes && is_first
        || before.is("exists") && starts(&["create"]) && is_first && one.is("if") && two.is("not")
}

/// The pieces of `text`, comments left out; `None` where servers would read it differently, or it is not one statement.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => {
                let length = quoted_bytes(rest, first)?;
                tokens.push(if first == '\'' { Token::Text } else { Token::Quoted(rest[..length].to_owned()) });
                length
            }
            '-' if rest.starts_with("--") => {
                // Without the blank it is no comment in MariaDB.
                if !rest[2..].starts_with([' ', '\t', '\n', '\r']) && rest.len() > 2 {
                    return None;
                }
                let length = rest.find('\n').unwrap_or(rest.len());
                // PostgreSQL ends it at `\r`.
                let comment = &rest[..length];
                if comment.strip_suffix('\r').unwrap_or(comment).contains('\r') {
                    return None;
                }
                length
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
                // It is a name in MariaDB, or two pieces in PostgreSQL.
                digits if rest[digits + 1..].starts_with(goes_on) => return None,
                digits => {
                    tokens.push(Token::Sign('$'));
                    digits + 1
                }
            },
            letter if is_of_word(letter) => {
                let length = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                let word = rest[..length].to_ascii_lowercase();
                // `$` may be a part of a name; and U&"…" UESCAPE '!' may be any name.
                if rest[length..].starts_with(goes_on) || word == "uescape" {
                    return None;
                }
                tokens.push(Token::Word(word));
                length
            }
            // Servers differ in which blanks and letters they know beside ASCII's.
            other if !other.is_ascii_graphic() => return None,
            sign => {
                tokens.push(Token::Sign(sign));
                1
            }
        };
        rest = rest[length..].trim_ascii_start();
    }
    Some(tokens)
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Whether a name that has begun goes on with `letter` for some server.
fn goes_on(letter: char) -> bool {
    is_of_word(letter) || letter == '$' || !letter.is_ascii()
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

    const DIALECTS: [Option<Dialect>; 4] = [None, Some(Dialect::Postgres), Some(Dialect::Mysql), Some(Dialect::Sqlite)];

    #[test]
    fn only_what_certainly_reads_reads() {
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
            "  select count(*), max (v) FROM t WHERE (a = $1 OR b IN ($2, $3)) AND EXISTS (SELECT 1 FROM u)",
            "SELECT v FROM formats WHERE intos = $1::int LIMIT 1",
            "SELECT a FROM s.t WHERE name = 'O''Hara; DELETE' -- UPDATE\n",
            "WITH w AS (SELECT a FROM t) SELECT replace(a, 'x', 'y') FROM w",
            "(SELECT 1) UNION (SELECT 2)",
            "WITH w AS MATERIALIZED (SELECT a FROM t) SELECT a FROM w",
            "SELECT \"a\" FROM \"s\".\"t\" WHERE b = 1 /* update */",
            "VALUES (1), (2)",
            "BEGIN",
            "start transaction isolation level serializable, read only",
            "END",
            "ROLLBACK TO SAVEPOINT s",
            "release s",
            "COMMIT AND NO CHAIN",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "SELECT a -- x\r\nFROM t --\r\n",
            "SELECT 'é' /* é */ FROM \"é\" -- é",
            "SELECT count(*) FILTER (WHERE a > $1), sum(a) OVER (PARTITION BY (b)) FROM t GROUP BY (b)",
            "SELECT a FROM t JOIN (SELECT b FROM u) AS x ON (a = b) WHERE a = ANY (SELECT c FROM v)",
        ] {
            assert!(only_reads(text, None), "{text}");
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
            // MariaDB: each of them starts replication.
            "START ALL SLAVES",
            "START ALL REPLICAS",
            "START GROUP_REPLICATION",
            "BEGIN f",
            // PostgreSQL ends the comment at \r.
            "SELECT a -- x\rINTO u FROM t",
            "SELECT a --\rINTO u FROM t",
            // `f$1` and, in MariaDB, `$1` are names of functions.
            "SELECT f$1(2)",
            "SELECT $1(2)",
            "SELECT $1 /* x */ (2)",
            "SELECT $1f(2)",
            // No servers' blank; and the sign of Kelvin is none of their letters.
            "SELECT f\u{a0}(1)",
            "SELECT count\u{a0}(1)",
            "SELECT loc\u{212a}, ran\u{212a}(1)",
            "SELECT 1\u{b}, now()",
            "SELECT a FROM U&\"f!0075\" UESCAPE '!'",
            "SELECT s.nextval",
            // Words that are functions' where they stand elsewhere.
            "SELECT filter(1)",
            "SELECT by(1), key(1)",
            "SELECT set(1)",
            "SELECT 1 WHERE join(1)",
            "SELECT NOT materialized(1)",
        ] {
            for dialect in DIALECTS {
                assert!(!only_reads(text, dialect), "{text}");
            }
        }
    }

    #[test]
    fn a_function_is_known_where_the_server_has_it() {
        let (postgres, mysql) = (Some(Dialect::Postgres), Some(Dialect::Mysql));
        for (text, own) in [
            ("SELECT random()", postgres),
            ("SELECT hashtext('a')", postgres),
            ("SELECT to_number('1', '9')", postgres),
            ("SELECT a FROM t WHERE a = ANY ($1)", postgres),
            ("SELECT n FROM generate_series(1, 2) AS n", postgres),
            ("SELECT rand()", mysql),
            ("SELECT ifnull(a, 1) FROM t", mysql),
        ] {
            for dialect in DIALECTS {
                assert_eq!(only_reads(text, dialect), dialect == own, "{text}: {dialect:?}");
            }
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
            "DELETE FROM t WHERE a IN (SELECT a FROM public.u)",
            "INSERT INTO t SELECT a FROM public.u",
            "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
            "CREATE INDEX IF NOT EXISTS i ON t (a)",
            "VACUUM FULL VERBOSE t",
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
            assert!(stays_in_schema(text, Some(Dialect::Postgres)), "{text}");
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
            "DELETE FROM t, shop.u USING t JOIN shop.u ON t.a = u.a WHERE t.b = 1",
            "DELETE LOW_PRIORITY FROM shop.t",
            "DELETE HISTORY FROM shop.t",
            "DELETE u FROM (SELECT a FROM t WHERE b = 1) AS x JOIN shop.u AS u ON u.a = x.a",
            "INSERT HIGH_PRIORITY shop.t VALUES (1)",
            "INSERT DELAYED shop.t VALUES (1)",
            "INSERT LOW_PRIORITY IGNORE shop.t VALUES (1)",
            "REPLACE DELAYED shop.t VALUES (1)",
            "SELECT a INTO TEMP shop.u FROM t",
            "SELECT a INTO TABLE shop.u FROM t",
            "SELECT NEXT VALUE FOR shop.s",
            "CREATE TABLE t AS SELECT 1 FROM a JOIN b ON f(1)",
            "CREATE TABLE t AS SELECT 1 WHERE EXISTS f(1)",
            "CREATE TABLE t SELECT 1 FROM a JOIN b ON f(1)",
            "CREATE TABLE t (a int) ENGINE = FEDERATED CONNECTION = 'mysql://h/shop/t'",
            "VACUUM",
            "VACUUM FULL",
            "VACUUM ANALYZE",
            "VACUUM INTO '/tmp/copy'",
            "ANALYZE",
            "ANALYZE VERBOSE",
            "UPDATE pg_database SET datallowconn = false",
            "UPDATE \"pg_database\" SET datallowconn = false",
            "DELETE FROM pg_authid",
            "UPDATE $1.t SET a = 1",
        ] {
            for dialect in DIALECTS {
                assert!(!stays_in_schema(text, dialect), "{text}");
            }
        }
    }
}
