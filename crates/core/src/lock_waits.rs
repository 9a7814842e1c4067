//! Sessions of a database that wait for locks: the objects that they wait for, and the statements of the holders.
//!
//! Each pair of them is a series, which a recording keeps without literals: no data of users enters it.

use std::collections::BTreeSet;

use crate::sampler::{HELD_BY, UNNAMED_HOLDER, WAITING_FOR, WAITING_FOR_LOCKS};
use crate::{Dialect, Reading, StoreError, StoreErrorKind, tokens};

/// Most pairs of object and statement that a server's series name; further ones are counted together.
const NAMED_MAX: usize = 8;
/// Most characters of a statement in the name of a series.
const STATEMENT_CHARS_MAX: usize = 100;

/// Session that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWait {
    /// Identifier of the waiting session or transaction.
    pub waiter: String,
    /// Identifier of the session or transaction that holds the lock, or waits for it since an earlier time; empty if the
    /// server does not name it.
    pub holder: String,
    /// Object of the lock: `a row of accounts`.
    pub object: String,
    /// Statement of the holder with its literals; empty if the server does not show it, `None` if the holder runs none.
    pub statement: Option<String>,
}

/// Series of the sessions that wait for locks on one server.
#[derive(Debug, Default)]
pub struct LockWaits {
    /// Names of the series so far.
    names: Vec<String>,
    /// True after the server has refused to list the waits.
    is_refused: bool,
}

impl LockWaits {
    /// Adds the numbers of sessions that wait for each object to `counters`, which have the number of all that wait.
    /// Only if that is not 0, `ask` lists them. A waiter that is listed more than once is counted as it is listed first.
    ///
    /// # Errors
    /// Errors of `ask`, except for a refusal: then these series are missing.
    pub fn read(
        &mut self,
        counters: &mut Vec<Reading>,
        dialect: Dialect,
        ask: impl FnOnce() -> Result<Vec<LockWait>, StoreError>,
    ) -> Result<(), StoreError> {
        let count = counters.iter().find(|counter| counter.name == WAITING_FOR_LOCKS);
        let Some(count) = count.filter(|_| !self.is_refused) else { return Ok(()) };
        let subject = count.subject.clone();
        let waits = if count.number() > 0.0 { ask() } else { Ok(Vec::new()) };
        match waits {
            Ok(waits) => counters.extend(self.readings(&subject, &waits, dialect)),
            Err(error) if matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Store) => {
                self.is_refused = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns a level for each series that is known by now: the number of its sessions in `waits`, or 0.
    fn readings(&mut self, subject: &str, waits: &[LockWait], dialect: Dialect) -> Vec<Reading> {
        let mut counts = vec![0.0; self.names.len()];
        let mut seen = BTreeSet::new();
        for wait in waits.iter().filter(|wait| seen.insert(wait.waiter.as_str())) {
            let mut name = name(wait, waits, dialect);
            if !self.names.contains(&name) && self.names.len() >= NAMED_MAX {
                name = format!("{WAITING_FOR}other locks");
            }
            match self.names.iter().position(|known| *known == name) {
                Some(at) => counts[at] += 1.0,
                None => {
                    self.names.push(name);
                    counts.push(1.0);
                }
            }
        }
        self.names.iter().zip(counts).map(|(name, count)| Reading::level(subject, name, "", count)).collect()
    }
}

/// Returns the name of the series of a wait. Sessions that wait for the same lock also wait for one another: the named
/// holder is the one at the end.
fn name(wait: &LockWait, waits: &[LockWait], dialect: Dialect) -> String {
    let mut last = wait;
    // In a deadlock there is no end.
    for _ in waits {
        let Some(next) = waits.iter().find(|other| other.waiter == last.holder) else { break };
        last = next;
    }
    let holder = match last.statement.as_deref() {
        _ if last.holder.is_empty() => UNNAMED_HOLDER.to_owned(),
        None => "a session that is between two statements".to_owned(),
        Some("") => "a session that does not show its statement".to_owned(),
        Some(text) => format!("a session that ran {}", without_literals(text, dialect)),
    };
    format!("{WAITING_FOR}{}{HELD_BY}{holder}", wait.object)
}

/// Returns the beginning of a statement, with `?` in place of its literals and without comments.
fn without_literals(text: &str, dialect: Dialect) -> String {
    let mut short = String::new();
    for token in tokens(text, dialect) {
        let token = &text[token];
        let is_comment = ["--", "/*"].iter().any(|begin| token.starts_with(begin))
            || dialect == Dialect::Mysql && token.starts_with('#');
        if is_comment || token.trim().is_empty() {
            if !short.ends_with(' ') {
                short.push(' ');
            }
            continue;
        }
        // `$1` is a parameter. A text that the server has cut off has no end.
        let is_dollar_quoted =
            token.strip_prefix('$').is_some_and(|rest| rest.starts_with(|first: char| !first.is_ascii_digit()));
        let is_text =
            token.contains('\'') || is_dollar_quoted || dialect != Dialect::Postgres && token.starts_with('"');
        match is_text || token.starts_with(|first: char| first.is_ascii_digit()) {
            true => short.push('?'),
            false => short.push_str(token),
        }
        // A setting of the server decides if a backslash escapes a quote, and with it where the text ends.
        let is_unsure = is_text && token.contains('\\');
        if is_unsure || short.chars().count() > STATEMENT_CHARS_MAX {
            let beginning: String = short.chars().take(STATEMENT_CHARS_MAX).collect();
            return format!("{}…", beginning.trim());
        }
    }
    short.trim().trim_end_matches(';').trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wait(waiter: &str, holder: &str, object: &str, statement: Option<&str>) -> LockWait {
        let text = |text: &str| text.to_owned();
        LockWait { waiter: text(waiter), holder: text(holder), object: text(object), statement: statement.map(text) }
    }

    /// Reads the series after a counter of this many sessions that wait.
    fn read(locks: &mut LockWaits, count: f64, ask: Result<Vec<LockWait>, StoreError>) -> Vec<(String, f64)> {
        let mut counters = vec![Reading::level("node 2", WAITING_FOR_LOCKS, "", count)];
        locks.read(&mut counters, Dialect::Postgres, || ask).unwrap();
        assert!(counters.iter().all(|counter| counter.subject == "node 2"));
        counters.iter().skip(1).map(|counter| (counter.name.clone(), counter.number())).collect()
    }

    #[test]
    fn sessions_are_counted_by_object_and_by_the_statement_at_the_end_of_the_queue() {
        let mut locks = LockWaits::default();
        assert_eq!(read(&mut locks, 0.0, Err(StoreError::usage("asked for nothing"))), []);
        let row = "a row of branches";
        let update = "UPDATE branches SET balance = balance + 17 WHERE id = 1;";
        // 12 waits for 11, which waits for 10.
        let waits = [
            wait("12", "11", row, Some("SELECT 1")),
            wait("11", "10", row, Some(update)),
            wait("11", "9", row, Some("listed again")),
            wait("14", "13", "table tellers", None),
        ];
        let held = "waiting for a row of branches, held by a session that ran UPDATE branches SET balance = balance + ? \
                    WHERE id = ?";
        let idle = "waiting for table tellers, held by a session that is between two statements";
        let named = |rows: f64, tables: f64| vec![(held.to_owned(), rows), (idle.to_owned(), tables)];
        assert_eq!(read(&mut locks, 3.0, Ok(waits.to_vec())), named(2.0, 1.0));
        assert_eq!(read(&mut locks, 0.0, Ok(Vec::new())), named(0.0, 0.0), "a series goes on");
    }

    #[test]
    fn a_holder_that_the_server_does_not_name_is_not_known() {
        let waits = vec![wait("12", "", "a table metadata lock", None), wait("13", "12", "a row", Some("COMMIT"))];
        let held = |object: &str| format!("waiting for {object}, held by a session that the server does not name");
        let found = read(&mut LockWaits::default(), 2.0, Ok(waits));
        assert_eq!(found, [(held("a table metadata lock"), 1.0), (held("a row"), 1.0)]);
    }

    #[test]
    fn deadlocks_end_names_are_limited_and_a_refusal_is_taken_once() {
        let mut locks = LockWaits::default();
        let circle = vec![wait("1", "2", "a row", Some("")), wait("2", "1", "a row", Some(""))];
        let hidden = "waiting for a row, held by a session that does not show its statement";
        assert_eq!(read(&mut locks, 2.0, Ok(circle)), [(hidden.to_owned(), 2.0)]);
        let many = (10..40).map(|n| wait(&n.to_string(), "1", &format!("table t{n}"), None)).collect();
        let found = read(&mut locks, 30.0, Ok(many));
        assert_eq!(found.len(), NAMED_MAX + 1);
        assert_eq!(found[NAMED_MAX], ("waiting for other locks".to_owned(), 23.0));
        let mut locks = LockWaits::default();
        let refused = StoreError::new(StoreErrorKind::Permission, "no right to it");
        assert_eq!(read(&mut locks, 1.0, Err(refused)), []);
        assert_eq!(read(&mut locks, 1.0, Ok(vec![wait("1", "2", "a row", None)])), [], "not asked again");
        let mut counters = vec![Reading::level("", WAITING_FOR_LOCKS, "", 1.0)];
        let lost = || Err(StoreError::new(StoreErrorKind::Unreachable, "gone"));
        assert!(LockWaits::default().read(&mut counters, Dialect::Mysql, lost).is_err());
    }

    #[test]
    fn a_statement_is_shortened_and_has_no_literals_or_comments() {
        let postgres = |text: &str| without_literals(text, Dialect::Postgres);
        let mysql = |text: &str| without_literals(text, Dialect::Mysql);
        assert_eq!(
            postgres("update  \"t\"\nset a=$1, b = E'x' /* ada */ where c in ('o''k', $q$s$q$, 1.5e3) -- 7"),
            "update \"t\" set a=$1, b = ? where c in (?, ?, ?)"
        );
        assert_eq!(postgres("SELECT $q$it is cut"), "SELECT ?");
        assert_eq!(mysql("UPDATE `t` SET a = \"s\", b = x'0a' # ada"), "UPDATE `t` SET a = ?, b = ?");
        let long = format!("SELECT {} FROM t", "column, ".repeat(40));
        assert_eq!(postgres(&long).chars().count(), STATEMENT_CHARS_MAX + 1);
        // Servers differ in where this text ends.
        for text in ["SET a = 'x\\' , secret = 'y'", "SET a = 'x\\', 'secret"] {
            assert_eq!((postgres(text), mysql(text)), ("SET a = ?…".to_owned(), "SET a = ?…".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn no_digit_outside_of_a_name_is_left(text in "[a1?'\"`\\\\/*.e #é\n=-]{0,40}") {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                let short = without_literals(&text, dialect);
                prop_assert!(short.chars().count() <= STATEMENT_CHARS_MAX + 1);
                prop_assert!(!short.starts_with(|first: char| first.is_ascii_digit()), "{short}");
                prop_assert!(!short.contains('\''), "{short}");
            }
        }
    }
}
