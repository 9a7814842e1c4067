//! The statements in a server's slow log or general log.

use std::io::BufRead;

use plimsoll_core::production::{LogReceiver, log_line};

/// Passes each statement of `log` to `tell`; values are part of the text.
pub(crate) fn read(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    // `None` between statements.
    let mut statement: Option<String> = None;
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        let text = String::from_utf8_lossy(&line).into_owned();
        let text = text.trim_end_matches(['\n', '\r']);
        if text.starts_with("# ") {
            // What belongs to a slow statement stands before it.
            let begins = text.starts_with("# Query_time:") || statement.as_deref() == Some("");
            end(&mut statement, tell);
            statement = (begins && !text.starts_with("# administrator")).then(String::new);
        } else if let Some((command, rest)) = general(text) {
            end(&mut statement, tell);
            statement = matches!(command, "Query" | "Execute").then(|| rest.to_owned());
        } else if let Some(statement) = &mut statement {
            // Lines of the slow log's own, before the statement.
            let is_first = statement.is_empty();
            let is_own = is_first && (text.starts_with("SET timestamp=") || text.starts_with("use "));
            if !is_own {
                statement.extend(if is_first { [""; 1] } else { ["\n"] });
                statement.push_str(text);
            }
        }
        line.clear();
    }
    end(&mut statement, tell);
    Ok(())
}

/// Passes the statement that has ended here to `tell`.
fn end(statement: &mut Option<String>, tell: &mut LogReceiver<'_>) {
    if let Some(text) = statement.take().filter(|text| !text.trim().is_empty()) {
        tell(&text, &[]);
    }
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

    fn told(log: &str) -> Vec<String> {
        let mut told = Vec::new();
        read(&mut log.as_bytes(), &mut |text, _| told.push(text.to_owned())).unwrap();
        told
    }

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
        assert_eq!(told(slow), ["SELECT c\n FROM t WHERE id = 5;"]);
        assert_eq!(told(general), ["SELECT c\n FROM t WHERE id = 5;", "SELECT 1"]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_there_is_read(log in "(# Query_time: |# |SET timestamp=|use |\t| 8 Query|a|é|\n){0,30}") {
            told(&log);
        }
    }
}
