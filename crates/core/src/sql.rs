//! Properties of an SQL statement that its text alone proves: it only reads, or it stays within the schema of its
//! session. "No" is always a safe answer.
//!
//! The analysis holds for PostgreSQL's SQL and for MariaDB's and MySQL's alike. Text that they read differently (a
//! backslash in a literal, `#`, dollar quotes, nested comments, letters beyond ASCII) therefore always gives "no".

use crate::Dialect;

/// Functions that only calculate and that every server has. Any other name may be a user's function.
const FUNCTIONS: &str = "abs avg cast ceil ceiling char_length coalesce concat concat_ws count dense_rank exp extract \
    floor greatest lag lead least left length ln lower lpad ltrim max md5 min mod now ntile nullif \
    octet_length position pow power rank repeat replace right round row_number rpad rtrim sign sqrt \
    substr substring sum trim upper";

/// Words that can precede a parenthesis without being a function's name.
const BEFORE_PARENTHESIS: &str = "all and as between bigint case char check default distinct else except exists from \
    having in int integer intersect interval like limit not numeric on or returning row select then \
    union unique using values varchar when where with";

/// Further such words, each with the words that must precede it; elsewhere they are names.
const AFTER: [(&str, &str); 2] = [("by", "group order partition"), ("key", "primary foreign unique")];

/// Words that a SELECT must not contain: they change or lock data, or write a file.
const NO_READ: &str = "analyse call delete do dumpfile execute for insert into lock merge outfile procedure replace update \
    write";

/// A token of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// An unquoted word, in lower case.
    Word(String),
    /// A name between `"` or backticks, with them; in MariaDB, `"` may also enclose a text.
    Quoted(String),
    /// A text in single quotes.
    Text,
    /// Any other character.
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }

    /// True if it is one of `words`, which are separated by blanks.
    fn is_one_of(&self, words: &str) -> bool {
        matches!(self, Token::Word(own) if words.split_ascii_whitespace().any(|word| word == own))
    }

    /// True if it may name an object of PostgreSQL's system catalogue, which is found without its schema.
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

/// True for a statement whose text proves that it changes and locks nothing, and only calls functions that calculate:
/// a read, or the beginning or end of a transaction. User-defined views, operators and casts are not considered, nor
/// is PostgreSQL's notation `t.f` for `f(t)`. Without a dialect, the result holds for all of them.
pub fn only_reads(text: &str, dialect: Option<Dialect>) -> bool {
    tokens(text).is_some_and(|tokens| reads(&tokens, dialect) || is_of_transaction(&tokens))
}

/// True for a statement that [`only_reads`] and does not begin or end a transaction.
pub fn only_selects(text: &str, dialect: Option<Dialect>) -> bool {
    tokens(text).is_some_and(|tokens| reads(&tokens, dialect))
}

/// True for a statement whose text proves that it changes nothing outside the schema of its session (see
/// [`only_reads`]): every object that may be changed is named without a schema, and only functions that calculate are
/// called.
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
    // Without a name, they process all tables.
    const OPTIONS: &str = "full freeze verbose analyze analyse";
    let of_tables =
        first("analyze vacuum") && tokens[1..].iter().any(|token| token.is_name() && !token.is_one_of(OPTIONS));
    (of_things || of_tables || first("truncate"))
        && !has("schema owner tablespace rename into connection directory")
        && !(0..tokens.len()).any(|at| is_qualified(&tokens, at))
}

/// Returns true for a statement that may change what names mean in later ones of its session: CREATE, USE, and SET of the
/// schemas or the role.
pub fn changes_names(text: &str) -> bool {
    let Some(tokens) = tokens(text) else { return false };
    let first = |words: &str| tokens.first().is_some_and(|token| token.is_one_of(words));
    let sets_names = || tokens.iter().any(|token| token.is_one_of("search_path schema role authorization"));
    first("create use") || first("set") && sets_names()
}

/// Returns true for a statement that drops the prepared statements of its session: DISCARD ALL and DEALLOCATE ALL.
pub fn drops_statements(text: &str) -> bool {
    ["discard all", "deallocate all", "deallocate prepare all"].iter().any(|words| is_words(text, words))
}

/// Returns true for a statement that resets the settings of its session: DISCARD ALL and RESET ALL.
pub fn resets_settings(text: &str) -> bool {
    is_words(text, "discard all") || is_words(text, "reset all")
}

/// Returns true for a statement of these words, which are separated by blanks.
fn is_words(text: &str, words: &str) -> bool {
    let text = text.trim_ascii_end().trim_end_matches(';');
    let are = |tokens: &[Token]| {
        let words = words.split_ascii_whitespace();
        words.clone().count() == tokens.len() && words.zip(tokens).all(|(word, token)| token.is(word))
    };
    tokens(text).is_some_and(|tokens| are(&tokens))
}

/// Returns true for a statement that may run others, such as CALL: an error in one of them may follow work of another.
/// Text that cannot be read gives true.
pub fn runs_others(text: &str) -> bool {
    const RUNS: &str = "begin call execute for if loop repeat while";
    tokens(text).is_none_or(|tokens| tokens.first().is_none_or(|token| token.is_one_of(RUNS)))
}

/// True if the statement may change rows of an object that is named with its schema.
fn changes_qualified(tokens: &[Token]) -> bool {
    /// Words that can precede the name of a table, in any order.
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

/// Number of tokens before `word`, not counting those in parentheses.
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

/// True if `a.b` begins at `at`.
fn is_qualified(tokens: &[Token], at: usize) -> bool {
    // `$1` is a name in MariaDB.
    tokens.get(at).is_some_and(|token| token.is_name() || *token == Token::Sign('$'))
        && tokens.get(at + 1) == Some(&Token::Sign('.'))
}

fn reads(tokens: &[Token], dialect: Option<Dialect>) -> bool {
    let begins = tokens.iter().find(|token| **token != Token::Sign('('));
    let is_read = begins.is_some_and(|first| first.is_one_of("select values with table"));
    // Also a function.
    let is_function = |at: usize| tokens[at].is("replace") && tokens.get(at + 1) == Some(&Token::Sign('('));
    is_read
        && calculates(tokens, dialect)
        && !tokens.iter().enumerate().any(|(at, token)| token.is_one_of(NO_READ) && !is_function(at))
}

/// True if it begins or ends a transaction and does nothing else.
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

/// True if all functions that are called only calculate. A user-defined function may have any name, and so may a
/// quoted one.
fn calculates(tokens: &[Token], dialect: Option<Dialect>) -> bool {
    // In MariaDB's Oracle mode, `nextval` advances a sequence without a parenthesis.
    let calls = |at: usize| tokens[at + 1] == Token::Sign('(') && !is_calculated(tokens, at, dialect);
    !tokens.iter().any(|token| token.is("nextval")) && !(1..tokens.len()).any(|end| calls(end - 1))
}

/// True if the token at `at`, before a parenthesis, is a function that only calculates, or no function.
fn is_calculated(tokens: &[Token], at: usize, dialect: Option<Dialect>) -> bool {
    let word = match &tokens[at] {
        Token::Sign(sign) => return *sign != '$',
        word => word,
    };
    let before = |words: &str| at > 0 && tokens[at - 1].is_one_of(words);
    let follows = |sign| at > 0 && tokens[at - 1] == Token::Sign(sign);
    // Includes words that are not functions.
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

/// True if the name at `at` is a table's, followed by columns: `INTO t (`, `TABLE t (`, `INDEX i ON t (`.
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

/// Splits `text` into tokens, without comments; `None` if servers would read it differently, or it is not a single
/// statement.
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
                // Without the blank, MariaDB does not read a comment.
                if !rest[2..].starts_with([' ', '\t', '\n', '\r']) && rest.len() > 2 {
                    return None;
                }
                let length = rest.find('\n').unwrap_or(rest.len());
                // PostgreSQL ends the comment at `\r`.
                let comment = &rest[..length];
                if comment.strip_suffix('\r').unwrap_or(comment).contains('\r') {
                    return None;
                }
                length
            }
            '/' if rest.starts_with("/*") => {
                let body = rest[2..].find("*/")?;
                let inside = &rest[2..2 + body];
                // MariaDB executes the contents of /*! … */ and /*M! … */, and PostgreSQL nests comments.
                if inside.starts_with(['!', 'M', '+']) || inside.contains("/*") {
                    return None;
                }
                body + 4
            }
            '\\' | '#' | ';' => return None,
            '$' => match rest[1..].bytes().take_while(u8::is_ascii_digit).count() {
                0 => return None,
                // A single name in MariaDB, two tokens in PostgreSQL.
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
            // Servers differ in the blanks and letters that they know beyond ASCII.
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

/// True if some server takes `letter` as part of a name that precedes it.
fn goes_on(letter: char) -> bool {
    is_of_word(letter) || letter == '$' || !letter.is_ascii()
}

/// Length in bytes of the quoted text at the start of `text`; a doubled quote is part of the text.
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
#[path = "sql_tests.rs"]
mod tests;
