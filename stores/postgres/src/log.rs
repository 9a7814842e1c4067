//! The statements in a server's log, in any of its three formats: as lines behind a prefix, as CSV, as JSON.

use std::io::{BufRead, Error, Read};

use plimsoll_core::production::{LogReceiver, log_line};

/// Passes each statement of `log` to `tell`, with the values of its parameters.
pub(crate) fn read(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let mut first = Vec::new();
    log_line(log, &mut first)?;
    let start = String::from_utf8_lossy(&first).into_owned();
    if start.starts_with('{') {
        return read_json(&mut first.chain(log), tell);
    }
    let is_csv = start.starts_with(|first: char| first.is_ascii_digit()) && start.matches(',').count() >= 12;
    if is_csv { read_csv(first.chain(log), tell) } else { read_lines(&mut first.chain(log), tell) }
}

fn read_csv(log: impl Read, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(log);
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(Error::other)? {
        let field = |at| String::from_utf8_lossy(record.get(at).unwrap_or_default()).into_owned();
        message(&field(13), &field(14), tell);
    }
    Ok(())
}

fn read_json(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        // The last line of a log that is being written may be a part.
        if let Ok(entry) = serde_json::from_slice::<serde_json::Value>(&line) {
            let field = |name: &str| entry.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
            message(field("message"), field("detail"), tell);
        }
        line.clear();
    }
    Ok(())
}

/// Messages behind a prefix of anybody's making: further lines of one begin with a tab.
fn read_lines(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let (mut of_message, mut of_detail, mut is_detail) = (String::new(), String::new(), false);
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        let text = String::from_utf8_lossy(&line).into_owned();
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some(further) = text.strip_prefix('\t') {
            let of = if is_detail { &mut of_detail } else { &mut of_message };
            of.push('\n');
            of.push_str(further);
        } else if let (Some((_, detail)), false) = (text.split_once("DETAIL:  "), text.contains("LOG:  ")) {
            (of_detail, is_detail) = (detail.to_owned(), true);
        } else {
            message(&of_message, &of_detail, tell);
            of_message = text.split_once("LOG:  ").map_or(String::new(), |(_, message)| message.to_owned());
            of_detail.clear();
            is_detail = false;
        }
        line.clear();
    }
    message(&of_message, &of_detail, tell);
    Ok(())
}

/// Passes the statement of a message to `tell`, if it has one.
fn message(message: &str, detail: &str, tell: &mut LogReceiver<'_>) {
    let timed = message.strip_prefix("duration: ").and_then(|rest| rest.split_once(" ms  "));
    let message = timed.map_or(message, |(_, message)| message);
    // What was parsed and bound is executed too.
    let executed = || message.strip_prefix("execute ").and_then(|rest| rest.split_once(": ")).map(|(_, text)| text);
    if let Some(text) = message.strip_prefix("statement: ").or_else(executed) {
        let detail = detail.strip_prefix("parameters: ").or_else(|| detail.strip_prefix("Parameters: "));
        tell(text, &detail.map(values).unwrap_or_default());
    }
}

/// The values of `$1 = '7', $2 = NULL`.
fn values(mut text: &str) -> Vec<Option<String>> {
    let mut values = Vec::new();
    while let Some((_, rest)) = text.split_once(" = ") {
        let Some(inside) = rest.strip_prefix('\'') else {
            values.push(None);
            text = rest;
            continue;
        };
        let (mut value, mut end) = (String::new(), inside.len());
        let mut letters = inside.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter == '\'' && letters.next_if(|(_, next)| *next == '\'').is_none() {
                end = at + 1;
                break;
            }
            value.push(letter);
        }
        values.push(Some(value));
        text = &inside[end..];
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(log: &str) -> Vec<(String, Vec<Option<String>>)> {
        let mut told = Vec::new();
        read(&mut log.as_bytes(), &mut |text, values| told.push((text.to_owned(), values.to_vec()))).unwrap();
        told
    }

    #[test]
    fn each_format_tells_the_same() {
        let values = vec![Some("7".to_owned()), None, Some("it's = 'x',\n$9".to_owned())];
        let text = "SELECT a\nFROM t WHERE b = $1".to_owned();
        let wanted = vec![(text, values), ("SELECT 1".to_owned(), Vec::new())];
        let lines = "2026-11-23 10:00:00.1 UTC [7] LOG:  duration: 0.1 ms  parse s1: SELECT a\n\
            2026-11-23 10:00:00.1 UTC [7] LOG:  duration: 0.312 ms  execute s1: SELECT a\n\tFROM t WHERE b = $1\n\
            2026-11-23 10:00:00.1 UTC [7] DETAIL:  parameters: $1 = '7', $2 = NULL, $3 = 'it''s = ''x'',\n\t$9'\n\
            2026-11-23 10:00:00.1 UTC [7] ERROR:  no\n\
            2026-11-23 10:00:00.1 UTC [8] LOG:  statement: SELECT 1\n";
        assert_eq!(told(lines), wanted);
        let csv = "2026-11-23 10:00:00.1 UTC,\"me\",\"db\",7,\"h:1\",6.7,3,\"SELECT\",2026-11-23 10:00:00 UTC,3/1,0,LOG,00000,\
            \"duration: 0.312 ms  execute s1: SELECT a\nFROM t WHERE b = $1\",\
            \"Parameters: $1 = '7', $2 = NULL, $3 = 'it''s = ''x'',\n$9'\",,,,,,,,,\"psql\",\"client backend\",,0\n\
            2026-11-23 10:00:00.1 UTC,\"me\",\"db\",7,\"h:1\",6.7,4,\"SELECT\",2026-11-23 10:00:00 UTC,3/1,0,LOG,00000,\
            \"statement: SELECT 1\",,,,,,,,,,\"psql\",\"client backend\",,0\n";
        assert_eq!(told(csv), wanted);
        let json = "{\"message\":\"duration: 0.3 ms  execute s1: SELECT a\\nFROM t WHERE b = $1\",\"detail\":\
            \"parameters: $1 = '7', $2 = NULL, $3 = 'it''s = ''x'',\\n$9'\"}\n{\"message\":\"statement: SELECT 1\"}\n{\"mess";
        assert_eq!(told(json), wanted);
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_there_is_read(log in "(LOG:  |DETAIL:  parameters: |statement: |execute s: |\\{|,|'|\\$1 = |\t|\n|é|a){0,30}") {
            told(&log);
        }
    }
}
