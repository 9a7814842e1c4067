//! The statements in a server's slow log or general log.
//!
//! An entry of the slow log begins with lines of a `#` and ends with a semicolon before the next one. An entry of the
//! general log ends before the next one. Both may have lines in between that look like anything.

use std::cell::Cell;
use std::io::BufRead;

use plimsoll_core::production::{LogEntry, LogReceiver, TimedStatement, log_line};

/// Beginnings of the first lines of an entry of the slow log; the first two are missing with `--log-short-format`.
const SLOW: [&str; 4] = ["# Time: ", "# User@Host: ", "# Thread_id: ", "# Query_time: "];

/// End of a slow statement, in microseconds since 1970, and its duration in nanoseconds, as far as its lines have them.
type SlowTimes = (Option<i64>, Option<u64>);

/// Passes each statement of `log` to `tell`; values are part of the text.
pub(crate) fn read(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let times: Cell<SlowTimes> = Cell::default();
    let tell = &mut |entry: LogEntry<'_>| {
        let is_other = matches!(entry, LogEntry::Statement("", _));
        if let (Some(at_us), Some(took_ns)) = times.take()
            && let LogEntry::Statement(text, _) = entry
        {
            tell(LogEntry::Timed(TimedStatement { at_us, has_zone: true, took_ns, text }));
        }
        if !is_other {
            tell(entry);
        }
    };
    let (mut state, mut is_whole) = (State::Outside, true);
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        is_whole = line.ends_with(b"\n");
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let is_about = matches!(state, State::About(true));
        state = state.next(text, tell);
        let (at_us, took_ns) = times.get();
        if let Some(seconds) = text.strip_prefix(SLOW[3]) {
            times.set((None, fraction(seconds.split_whitespace().next().unwrap_or_default(), 9)));
        } else if is_about && is_own(text) {
            times.set((timestamp(text).or(at_us), took_ns));
        }
        line.clear();
    }
    // Where the log ends, an entry of the general log may miss further lines.
    let is_general = matches!(state, State::General(_));
    state.end(is_whole && !is_general, tell);
    Ok(())
}

/// Returns the time that the log's own `SET` has, in microseconds since 1970.
fn timestamp(set: &str) -> Option<i64> {
    let (_, value) = set.split_once("timestamp=")?;
    fraction(value.split([',', ';']).next()?, 6).and_then(|us| i64::try_from(us).ok())
}

/// Parses a decimal number, in units of its `digits`th decimal place.
fn fraction(text: &str, digits: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain(std::iter::repeat('0')).take(digits).collect();
    format!("{whole}{part}").parse().ok()
}

/// Part of the log that a line belongs to.
enum State {
    /// No entry.
    Outside,
    /// Lines about a slow statement; true if its time was among them.
    About(bool),
    /// Text of a slow statement.
    Slow(String),
    /// Text of an entry of the general log; `None` if it is not an executed statement.
    General(Option<String>),
}

impl State {
    fn next(self, line: &str, tell: &mut LogReceiver<'_>) -> Self {
        let is_slow = SLOW.iter().any(|begin| line.starts_with(begin));
        let goes_on = match &self {
            Self::Outside => false,
            Self::About(is_timed) => !(*is_timed && is_slow),
            Self::Slow(_) => !is_slow,
            Self::General(_) => general(line).is_none(),
        };
        if is_start(line) {
            self.end(true, tell);
            return Self::Outside;
        }
        if goes_on {
            return self.with(line);
        }
        self.end(true, tell);
        match general(line) {
            _ if is_slow => Self::About(line.starts_with(SLOW[3])),
            Some((command, text)) => Self::General(matches!(command, "Query" | "Execute").then(|| text.to_owned())),
            None => Self::Outside,
        }
    }

    /// Takes a further line of the entry.
    fn with(self, line: &str) -> Self {
        match self {
            Self::About(is_timed) if line.starts_with('#') => Self::About(is_timed || line.starts_with(SLOW[3])),
            Self::About(is_timed) if line.starts_with("use ") => Self::About(is_timed),
            Self::About(true) => Self::Slow(if is_own(line) { String::new() } else { line.to_owned() }),
            Self::Slow(text) if text.is_empty() => Self::Slow(line.to_owned()),
            Self::Slow(text) => Self::Slow(joined(text, line)),
            Self::General(text) => Self::General(text.map(|text| joined(text, line))),
            Self::About(false) | Self::Outside => Self::Outside,
        }
    }

    /// Passes the statement of the entry to `tell`. `is_whole` says that the log has the end of the entry.
    fn end(self, is_whole: bool, tell: &mut LogReceiver<'_>) {
        match self {
            // A command is an execution without a statement.
            Self::Slow(text) if text.starts_with("# administrator") => tell(LogEntry::Statement("", &[])),
            Self::Slow(text) if is_whole && text.trim_end().ends_with(';') => tell(LogEntry::Statement(&text, &[])),
            Self::General(Some(text)) if is_whole => {
                if !text.trim().is_empty() {
                    tell(LogEntry::Statement(&text, &[]));
                }
            }
            Self::About(true) | Self::Slow(_) => tell(LogEntry::Cut(true)),
            Self::General(Some(_)) => tell(LogEntry::Cut(false)),
            Self::About(false) | Self::General(None) | Self::Outside => {}
        }
    }
}

/// Appends a line to a text, in time that does not depend on the text.
fn joined(mut text: String, line: &str) -> String {
    text.push('\n');
    text.push_str(line);
    text
}

/// True for the first of the lines that a server writes when it starts, or begins a file anew.
fn is_start(line: &str) -> bool {
    line.contains(", Version: ") && line.ends_with("started with:")
}

/// True for the slow log's own line before a statement: `SET last_insert_id=7,insert_id=8,timestamp=1700000000;`.
fn is_own(line: &str) -> bool {
    let Some(set) = line.strip_prefix("SET ").and_then(|rest| rest.strip_suffix(';')) else { return false };
    set.split(',').all(|one| {
        one.split_once('=').is_some_and(|(name, value)| {
            matches!(name, "last_insert_id" | "insert_id" | "timestamp")
                && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    })
}

/// The command of a line of the general log, and what follows it: `231123 10:00:00<TAB>     8 Query<TAB>SELECT 1`.
fn general(line: &str) -> Option<(&str, &str)> {
    let (mut before, mut rest) = line.split_once('\t')?;
    if rest.starts_with('\t') {
        (before, rest) = ("", &rest[1..]);
    }
    let is_time = |text: &str| text.is_empty() || text.starts_with(|first: char| first.is_ascii_digit());
    let (numbered, text) = rest.split_once('\t')?;
    let (number, command) = numbered.trim_start().split_once(' ')?;
    (is_time(before) && number.parse::<u64>().is_ok()).then_some((command.trim(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statements, and the number of those that may be cut off.
    fn told(log: &str) -> (Vec<String>, usize) {
        let (mut told, mut cut) = (Vec::new(), 0);
        let result = read(&mut log.as_bytes(), &mut |entry| match entry {
            LogEntry::Statement(text, _) => told.push(text.to_owned()),
            LogEntry::Timed(_) => {}
            LogEntry::Cut(_) => cut += 1,
        });
        result.unwrap();
        (told, cut)
    }

    fn one(text: &str) -> (Vec<String>, usize) {
        (vec![text.to_owned()], 0)
    }

    const ABOUT: &str = "# User@Host: shop[shop] @ localhost []\n# Thread_id: 8  Schema: shop  QC_hit: No\n\
        # Query_time: 0.000302  Lock_time: 0.000040  Rows_sent: 1  Rows_examined: 1\n\
        # Rows_affected: 0  Bytes_sent: 82\n";
    const START: &str = "mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:\n\
        Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock\nTime\t\t    Id Command\tArgument\n";

    #[test]
    fn both_logs_tell_their_statements() {
        let slow = "/usr/sbin/mariadbd, Version: 10.11 (Debian 12). started with:\nTcp port: 0  Unix socket: x\n\
            Time                Id Command\tArgument\n# Time: 261123 10:00:00\n# User@Host: root[root] @ localhost []\n\
            # Thread_id: 8  Schema: shop  QC_hit: No\n# Query_time: 0.000102  Lock_time: 0.000\n# Rows_affected: 0  Bytes_sent: 57\n\
            use shop;\nSET timestamp=1700000000;\nSELECT c\n FROM t WHERE id = 5;\n# User@Host: root[root] @ localhost []\n\
            # Query_time: 0.1  Lock_time: 0.0\nSET timestamp=1700000000;\n# administrator command: Quit;\n";
        let general = "/usr/sbin/mariadbd, Version: 10.11. started with:\nTime\t\t    Id Command\tArgument\n\
            261123 10:00:00\t     8 Connect\troot@localhost on shop\n\t\t     8 Query\tSELECT c\n FROM t WHERE id = 5;\n\
            \t\t     8 Prepare\tSELECT ?\n2026-11-23T10:00:00.1Z\t    9 Execute\tSELECT 1\n\t\t     8 Quit\t\n";
        assert_eq!(told(slow), one("SELECT c\n FROM t WHERE id = 5;"));
        assert_eq!(told(general), (vec!["SELECT c\n FROM t WHERE id = 5;".to_owned(), "SELECT 1".to_owned()], 0));
    }

    #[test]
    fn slow_statements_have_their_times() {
        let log = format!(
            "{ABOUT}use shop;\nSET timestamp=1700000000;\nSELECT c\n FROM t;\n\
             {ABOUT}SET insert_id=7,timestamp=1700000001.5;\nINSERT INTO t VALUES (1);\n# Query_time: 1.5  Lock_time: 0.0\nSELECT 1;\n"
        );
        let mut times = Vec::new();
        let result = read(&mut log.as_bytes(), &mut |entry| {
            if let LogEntry::Timed(TimedStatement { at_us, took_ns, text, .. }) = entry {
                times.push((at_us, took_ns, text.to_owned()));
            }
        });
        result.unwrap();
        let wanted = [
            (1_700_000_000_000_000, 302_000, "SELECT c\n FROM t;".to_owned()),
            (1_700_000_001_500_000, 302_000, "INSERT INTO t VALUES (1);".to_owned()),
        ];
        // Of the last one the end is not known.
        assert_eq!(times, wanted);
        let command = format!("{ABOUT}SET timestamp=1700000000;\n# administrator command: Quit;\n");
        let mut told = Vec::new();
        read(&mut command.as_bytes(), &mut |entry| told.push(matches!(entry, LogEntry::Timed(_)))).unwrap();
        assert_eq!(told, [true]);
    }

    #[test]
    fn lines_of_the_slow_log_are_told_from_those_of_a_statement() {
        let explain = "#\n# explain: id\tselect_type\ttable\n# explain: 1\tSIMPLE\titem\n#\n";
        assert_eq!(told(&format!("{ABOUT}{explain}SET timestamp=1;\nSELECT 1;\n")), one("SELECT 1;"));
        let commented = "SELECT name FROM item\n# by its key\nWHERE id = 5;";
        assert_eq!(told(&format!("{ABOUT}SET timestamp=1;\n{commented}\n")), one(commented));
        let own = "SET last_insert_id=7,insert_id=8,timestamp=1795690800;";
        assert_eq!(
            told(&format!("{ABOUT}{own}\nINSERT INTO o (n) VALUES (2);\n")),
            one("INSERT INTO o (n) VALUES (2);")
        );
        // One that the user sets is no line of the log's.
        assert_eq!(told(&format!("{ABOUT}SET timestamp=1;\n{own}\n")), one(own));
        let again = format!("{ABOUT}SET timestamp=1;\nSELECT 8;\n{START}{ABOUT}SET timestamp=2;\nSELECT 9;\n");
        assert_eq!(told(&again), (vec!["SELECT 8;".to_owned(), "SELECT 9;".to_owned()], 0));
    }

    #[test]
    fn a_statement_whose_end_is_missing_is_counted_and_not_told() {
        let whole = format!("{ABOUT}SET timestamp=1;\nSELECT a\nFROM t;\n");
        for cut in ["SELECT a", "SELECT a\n", "SELECT a\nFROM t;", ""] {
            assert_eq!(
                told(&format!("{whole}{ABOUT}SET timestamp=1;\n{cut}")),
                (one("SELECT a\nFROM t;").0, 1),
                "{cut}"
            );
        }
        assert_eq!(told(&format!("{ABOUT}SET timestamp=1;\nSELECT a\n{whole}")), (one("SELECT a\nFROM t;").0, 1));
        assert_eq!(told(&format!("{ABOUT}{whole}")), (one("SELECT a\nFROM t;").0, 1));
        let general = "261123 10:00:00\t     8 Query\tSELECT 1\n\t\t     8 Query\tSELECT a\n";
        assert_eq!(told(general), (one("SELECT 1").0, 1));
        assert_eq!(told(&format!("{general}{START}")), (vec!["SELECT 1".to_owned(), "SELECT a".to_owned()], 0));
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_there_is_read(log in "(# Query_time: |# User@Host: |# |SET timestamp=1;|use |\t| 8 Query|;|a|é|\n){0,30}") {
            told(&log);
        }
    }
}
