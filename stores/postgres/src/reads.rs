//! Which operations only read, as far as that can be told without the server.

use plimsoll_core::{Call, KvCall, OpKind, RecordsCall};

/// Functions that do nothing but calculate.
const FUNCTIONS: [&str; 16] = [
    "abs",
    "avg",
    "cast",
    "coalesce",
    "count",
    "greatest",
    "least",
    "length",
    "lower",
    "max",
    "min",
    "mod",
    "round",
    "substring",
    "sum",
    "upper",
];
/// Words that a parenthesis may follow without being a function's.
const WORDS: [&str; 23] = [
    "all", "and", "any", "as", "between", "by", "case", "distinct", "else", "exists", "from", "having", "in", "join",
    "not", "on", "or", "select", "some", "then", "using", "when", "where",
];

/// True when the operation may stand in one transaction with others of its sort that belong to other clients: it changes
/// nothing and locks nothing, and its answer is short or is not kept.
pub(crate) fn may_share_a_sync(kind: &OpKind) -> bool {
    kind.step_of.is_none()
        && match &kind.call {
            Call::Records { call: RecordsCall::Get, .. } | Call::Kv(KvCall::Get) => true,
            Call::Sql(text) => !kind.keep_answer && is_plain_read(text),
            _ => false,
        }
}

/// True for a SELECT that certainly calls nothing that might do more than read, unless the tables that it names are
/// views that do. False is always a safe answer.
fn is_plain_read(text: &str) -> bool {
    // Literals, quoted names and comments may hold anything, and are not looked into.
    if text.contains(['\'', '"', ';', '\\']) || text.contains("--") || text.contains("/*") || text.contains("$$") {
        return false;
    }
    let lower = text.to_lowercase();
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = lower.split(|letter| !is_of_word(letter)).filter(|word| !word.is_empty());
    // SELECT INTO makes a table, and FOR UPDATE locks.
    if words.next() != Some("select") || words.any(|word| word == "into" || word == "for") {
        return false;
    }
    let mut before = lower.split('(').collect::<Vec<_>>();
    before.pop();
    before.into_iter().all(|before| {
        let before = before.trim_end();
        let word = before.rsplit(|letter| !is_of_word(letter)).next().unwrap_or_default();
        // A function of somebody's schema may have any name.
        let qualified = before.strip_suffix(word).is_some_and(|before| before.trim_end().ends_with('.'));
        word.is_empty() || !qualified && (FUNCTIONS.contains(&word) || WORDS.contains(&word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_reads_is_a_plain_read() {
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
            "  select count(*), max (v) FROM t WHERE (a = $1 OR b IN ($2, $3)) AND EXISTS (SELECT 1 FROM u)",
            "SELECT v FROM formats WHERE intos = $1::int LIMIT 1",
        ] {
            assert!(is_plain_read(text), "{text}");
        }
        for text in [
            "UPDATE t SET a = 1",
            "WITH gone AS (DELETE FROM t RETURNING a) SELECT a FROM gone",
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t FOR\nSHARE",
            "SELECT a INTO u FROM t",
            "SELECT nextval ($1)",
            "SELECT pg_advisory_lock(1)",
            "SELECT count(*) FROM t WHERE f(a)",
            "SELECT mine.count(*)",
            "SELECT mine . count(*)",
            "SELECT \"f\"(1)",
            "SELECT 1; DELETE FROM t",
            "SELECT 1 /* */",
            "SELECT /* x */ f/**/(1)",
            "SELECT U&'d\\0061t'",
            "",
            "BEGIN",
            "VALUES (1)",
        ] {
            assert!(!is_plain_read(text), "{text}");
        }
    }
}
