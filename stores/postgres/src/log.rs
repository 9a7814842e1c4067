//! The statements in a server's log, in any of its three formats: as lines behind a prefix, as CSV, as JSON.
//!
//! A log may begin and end within an entry. Its format is that of the first line that belongs to one.

use std::io::{BufRead, Error, ErrorKind, Read};
use std::ops::RangeInclusive;

use plimsoll_core::log_time;
use plimsoll_core::production::{LogEntry, LogReceiver, TimedStatement, log_line};

/// Words before the parts of an entry: its severity, and what is said beside the message.
const SEVERITIES: [&str; 12] =
    ["LOG", "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "INFO", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5"];
const BESIDE: [&str; 7] = ["DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION", "BACKTRACE"];
/// Number of fields of an entry as CSV, which grows with versions, and the places of some of them.
const FIELDS: RangeInclusive<usize> = 23..=32;
const SEVERITY: usize = 11;
const MESSAGE: usize = 13;
const DETAIL: usize = 14;
/// Beginning of a message with a duration.
const DURATION: &str = "duration: ";
/// Months as syslog writes them.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Entry as JSON.
type Fields = serde_json::Map<String, serde_json::Value>;

/// Passes each statement of `log` to `tell`, with the values of its parameters.
pub(crate) fn read(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        if serde_json::from_slice::<Fields>(&line).is_ok() {
            return read_json(&mut line.chain(log), tell);
        }
        if begins_csv(&line) {
            return read_csv(line.chain(log), tell);
        }
        if part(&String::from_utf8_lossy(&line)).is_some() {
            return read_lines(&mut line.chain(log), tell);
        }
        line.clear();
    }
    Ok(())
}

/// Returns true for the beginning of a server's log in any of the formats, also without a statement. Entries must have a
/// time, which those of statements need.
pub(crate) fn is_log(head: &[u8]) -> bool {
    head.split_inclusive(|byte| *byte == b'\n').any(|line| match line.first() {
        Some(b'{') => serde_json::from_slice::<Fields>(line).is_ok_and(|entry| entry.contains_key("error_severity")),
        _ => begins_csv(line) || begins_timed(&String::from_utf8_lossy(line)),
    })
}

/// True for a line that begins an entry behind a prefix with a time.
fn begins_timed(line: &str) -> bool {
    let prefix = part(line).map(|(_, message)| &line[..line.len() - message.len()]);
    prefix.is_some_and(|prefix| time(prefix).is_some()) && must_not_be_of_syslog(line).is_ok()
}

fn begins_csv(line: &[u8]) -> bool {
    let mut record = csv::ByteRecord::new();
    // Making a reader takes longer than any line.
    let may_be_entry = line.iter().filter(|byte| **byte == b',').nth(SEVERITY - 1).is_some();
    may_be_entry && csv_reader(line).read_byte_record(&mut record).is_ok() && is_entry(&record)
}

fn csv_reader<R: Read>(log: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(log)
}

/// True for an entry as CSV, of which there may be the beginning only.
fn is_entry(record: &csv::ByteRecord) -> bool {
    let severity = record.get(SEVERITY).unwrap_or_default();
    SEVERITIES.iter().any(|known| known.as_bytes() == severity)
        && record.get(0).is_some_and(|time| time.first().is_some_and(u8::is_ascii_digit))
}

fn read_csv(log: impl Read, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let mut reader = csv_reader(log);
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(Error::other)? {
        let field = |at: usize| String::from_utf8_lossy(record.get(at).unwrap_or_default());
        match is_entry(&record) {
            true => {
                let text = field(MESSAGE);
                duration(time(&field(0)), &text, tell);
                message(&text, &field(DETAIL), FIELDS.contains(&record.len()), tell);
            }
            // Where quotes do not match, fields are parts of others.
            false => tell(LogEntry::Cut(true)),
        }
    }
    Ok(())
}

fn read_json(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        match serde_json::from_slice::<Fields>(&line) {
            Ok(entry) => {
                let field = |name: &str| entry.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
                duration(time(field("timestamp")), field("message"), tell);
                message(field("message"), field("detail"), true, tell);
            }
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => tell(LogEntry::Cut(true)),
        }
        line.clear();
    }
    Ok(())
}

/// Entry that is read as lines.
#[derive(Default)]
struct Entry {
    /// Time in the prefix, if there is one.
    at: Option<(i64, bool)>,
    message: String,
    detail: String,
    /// Part that the next line may go on with.
    last: Option<Last>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Message,
    Detail,
    Other,
}

impl Entry {
    /// Takes the text of a further line.
    fn go_on(&mut self, further: &str) {
        let part = match self.last {
            Some(Last::Message) => &mut self.message,
            Some(Last::Detail) => &mut self.detail,
            Some(Last::Other) | None => return,
        };
        part.push('\n');
        part.push_str(further);
    }

    /// Passes the statement to `tell`. After a message only another part of an entry says that it is whole; a detail
    /// shows this itself.
    fn end(&mut self, is_followed: bool, tell: &mut LogReceiver<'_>) {
        let is_whole = is_followed || self.last != Some(Last::Message);
        duration(self.at, &self.message, tell);
        message(&self.message, &self.detail, is_whole, tell);
        *self = Self::default();
    }
}

/// Reads entries behind a prefix of anybody's making: further lines of one begin with a tab.
fn read_lines(log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
    let (mut entry, mut is_whole) = (Entry::default(), true);
    let mut line = Vec::new();
    while log_line(log, &mut line)? {
        is_whole = line.ends_with(b"\n");
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some(further) = text.strip_prefix('\t') {
            entry.go_on(further);
        } else {
            must_not_be_of_syslog(text)?;
            match part(text) {
                Some(("DETAIL", detail)) => (entry.detail, entry.last) = (detail.to_owned(), Some(Last::Detail)),
                Some((word, _)) if BESIDE.contains(&word) => entry.last = Some(Last::Other),
                Some((word, message)) => {
                    entry.end(true, tell);
                    // A statement may have times of its own.
                    let prefix = &text[..text.len() - message.len()];
                    let at = if message.starts_with(DURATION) { time(prefix) } else { None };
                    let message = if word == "LOG" { message.to_owned() } else { String::new() };
                    entry = Entry { at, message, last: Some(Last::Message), ..Entry::default() };
                }
                None => entry.end(false, tell),
            }
        }
        line.clear();
    }
    if !is_whole {
        entry.last = Some(Last::Message);
    }
    entry.end(false, tell);
    Ok(())
}

/// The word of a part of an entry, and the text behind it.
fn part(line: &str) -> Option<(&'static str, &str)> {
    line.match_indices(":  ").find_map(|(at, sign)| {
        let word = SEVERITIES.into_iter().chain(BESIDE).find(|word| line[..at].ends_with(*word))?;
        Some((word, &line[at + sign.len()..]))
    })
}

/// Refuses a line of syslog or the journal: `Nov 26 11:49:14 db1 postgres[47]: …`, or with a time of ISO 8601. They
/// make several messages of an entry, and lose some of them.
fn must_not_be_of_syslog(line: &str) -> std::io::Result<()> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let before_program = match first {
        month if MONTHS.contains(&month) => 3,
        time if time.starts_with(|first: char| first.is_ascii_digit()) && time.contains('T') => 1,
        _ => return Ok(()),
    };
    let is_program = |word: &str| word.ends_with("]:") && !word.starts_with('[') && word.contains('[');
    if !words.nth(before_program).is_some_and(is_program) {
        return Ok(());
    }
    let what = "written by syslog or the journal, which cut statements; log_destination = 'csvlog' keeps them whole";
    Err(Error::new(ErrorKind::InvalidData, what))
}

/// Returns the first time in a text, in microseconds since 1970, and true if it has a zone that is known. Otherwise it
/// is taken for one of UTC.
fn time(text: &str) -> Option<(i64, bool)> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let numbers = text.char_indices().filter(|(at, letter)| is_digit(*letter) && !text[..*at].ends_with(is_digit));
    numbers.map(|(at, _)| &text[at..]).find_map(|text| {
        let [(at_us, _), (east_us, _)] = [log_time::iso(text.as_bytes(), 0)?, log_time::iso(text.as_bytes(), 1)?];
        Some((at_us, at_us == east_us))
    })
}

/// Passes the duration of a message to `tell`, if it is that of an execution. Parsing and binding are steps of one.
fn duration(at: Option<(i64, bool)>, message: &str, tell: &mut LogReceiver<'_>) {
    let timed = message.strip_prefix(DURATION).and_then(|rest| rest.split_once(" ms"));
    let (Some((at_us, has_zone)), Some((ms, rest))) = (at, timed) else { return };
    let rest = rest.trim_start();
    let Some(ms) = ms.parse::<f64>().ok().filter(|ms| (0.0..1e12).contains(ms)) else { return };
    if !rest.starts_with("parse ") && !rest.starts_with("bind ") {
        let text = rest.split_once(": ").map_or("", |(_, text)| text);
        tell(LogEntry::Timed(TimedStatement { at_us, has_zone, took_ns: (ms * 1e6).round() as u64, text }));
    }
}

/// Passes the statement of a message to `tell`, if it has one. `is_whole` says that nothing of it is missing.
fn message(message: &str, detail: &str, is_whole: bool, tell: &mut LogReceiver<'_>) {
    let timed = message.strip_prefix("duration: ").and_then(|rest| rest.split_once(" ms  "));
    let message = timed.map_or(message, |(_, message)| message);
    // What was parsed and bound is executed too. A fetch continues what was executed before.
    let executed = || {
        let (name, text) = message.strip_prefix("execute ")?.split_once(": ")?;
        (!name.starts_with("fetch from ")).then_some(text)
    };
    let Some(text) = message.strip_prefix("statement: ").or_else(executed) else { return };
    let given = detail.strip_prefix("parameters: ").or_else(|| detail.strip_prefix("Parameters: "));
    match given.map_or(Some(Vec::new()), values).filter(|_| is_whole) {
        Some(values) => tell(LogEntry::Statement(text, &values)),
        None => tell(LogEntry::Cut(false)),
    }
}

/// The values of `$1 = '7', $2 = NULL`; `None` if the end of one is missing.
fn values(mut text: &str) -> Option<Vec<Option<String>>> {
    let mut values = Vec::new();
    while let Some((_, rest)) = text.split_once(" = ") {
        let Some(inside) = rest.strip_prefix('\'') else {
            values.push(None);
            text = rest;
            continue;
        };
        let (mut value, mut end) = (String::new(), None);
        let mut letters = inside.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter == '\'' && letters.next_if(|(_, next)| *next == '\'').is_none() {
                end = Some(at + 1);
                break;
            }
            value.push(letter);
        }
        values.push(Some(value));
        text = &inside[end?..];
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Vec<(String, Vec<Option<String>>)>;

    /// Statements with their values, and the number of those that may be cut off.
    fn told(log: &str) -> (Told, usize) {
        let (mut told, mut cut) = (Vec::new(), 0);
        let result = read(&mut log.as_bytes(), &mut |entry| match entry {
            LogEntry::Statement(text, values) => told.push((text.to_owned(), values.to_vec())),
            LogEntry::Timed(_) => {}
            LogEntry::Cut(_) => cut += 1,
        });
        result.unwrap();
        (told, cut)
    }

    /// Times of executions: end, duration and the first word of the text.
    fn times(log: &str) -> Vec<(i64, u64, String)> {
        let mut times = Vec::new();
        let result = read(&mut log.as_bytes(), &mut |entry| {
            if let LogEntry::Timed(TimedStatement { at_us, took_ns, text, .. }) = entry {
                times.push((at_us, took_ns, text.split_whitespace().next().unwrap_or_default().to_owned()));
            }
        });
        result.unwrap();
        times
    }

    #[test]
    fn lines_before_the_first_entry_take_little_time() {
        let begun = std::time::Instant::now();
        assert_eq!(told(&"\n1,2,3\n".repeat(50_000)), (Vec::new(), 0));
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    fn texts(log: &str) -> (Vec<String>, usize) {
        let (told, cut) = told(log);
        (told.into_iter().map(|(text, _)| text).collect(), cut)
    }

    const LINES: &str = "2026-11-23 10:00:00.1 UTC [7] LOG:  duration: 0.1 ms  parse s1: SELECT a\n\
        2026-11-23 10:00:00.1 UTC [7] LOG:  duration: 0.312 ms  execute s1: SELECT a\n\tFROM t WHERE b = $1\n\
        2026-11-23 10:00:00.1 UTC [7] DETAIL:  parameters: $1 = '7', $2 = NULL, $3 = 'it''s = ''x'',\n\t$9'\n\
        2026-11-23 10:00:00.1 UTC [7] ERROR:  no\n\
        2026-11-23 10:00:00.1 UTC [8] LOG:  statement: SELECT 1\n\
        2026-11-23 10:00:00.1 UTC [8] LOG:  disconnection: session time: 0:00:00.001\n";
    const CSV: &str = "2026-11-23 10:00:00.1 UTC,\"me\",\"db\",7,\"h:1\",6.7,3,\"SELECT\",2026-11-23 10:00:00 UTC,3/1,0,LOG,00000,\
        \"duration: 0.312 ms  execute s1: SELECT a\nFROM t WHERE b = $1\",\
        \"Parameters: $1 = '7', $2 = NULL, $3 = 'it''s = ''x'',\n$9'\",,,,,,,,,\"psql\",\"client backend\",,0\n\
        2026-11-23 10:00:00.1 UTC,\"me\",\"db\",7,\"h:1\",6.7,4,\"SELECT\",2026-11-23 10:00:00 UTC,3/1,0,LOG,00000,\
        \"statement: SELECT 1\",,,,,,,,,,\"psql\",\"client backend\",,0\n";
    const JSON: &str = "{\"message\":\"duration: 0.3 ms  execute s1: SELECT a\\nFROM t WHERE b = $1\",\"detail\":\
        \"parameters: $1 = '7', $2 = NULL, $3 = 'it''s = ''x'',\\n$9'\"}\n{\"message\":\"statement: SELECT 1\"}\n";

    #[test]
    fn each_format_tells_the_same() {
        let values = vec![Some("7".to_owned()), None, Some("it's = 'x',\n$9".to_owned())];
        let text = "SELECT a\nFROM t WHERE b = $1".to_owned();
        let wanted = (vec![(text, values), ("SELECT 1".to_owned(), Vec::new())], 0);
        assert_eq!(told(LINES), wanted);
        assert_eq!(told(CSV), wanted);
        assert_eq!(told(JSON), wanted);
    }

    #[test]
    fn each_format_has_the_times_of_executions_and_not_of_their_steps() {
        let at_us = 1_795_428_000_100_000;
        let json = JSON.replacen('{', "{\"timestamp\":\"2026-11-23 10:00:00.1 UTC\",", 1);
        assert_eq!(times(LINES), [(at_us, 312_000, "SELECT".to_owned())]);
        assert_eq!(times(CSV), [(at_us, 312_000, "SELECT".to_owned())]);
        assert_eq!(times(&json), [(at_us, 300_000, "SELECT".to_owned())]);
        let alone = "2026-11-23 11:00:00.1 CET [7] LOG:  duration: 5.250 ms\n";
        assert_eq!(times(alone), [(at_us, 5_250_000, String::new())]);
        let own = "[7] LOG:  duration: 5.250 ms  statement: SELECT '2020-01-01 00:00:00'\n";
        assert!(times(own).is_empty(), "the prefix has no time");
    }

    #[test]
    fn a_zone_that_is_not_known_is_told() {
        for (zone, is_known) in [("UTC", true), ("CEST", true), ("+03", true), ("KST", false), ("GMT+3", false)] {
            let log = format!("2026-11-23 10:00:00.1 {zone} [7] LOG:  duration: 1 ms  statement: SELECT 1\n");
            let mut told = Vec::new();
            let result = read(&mut log.as_bytes(), &mut |entry| {
                told.extend(matches!(entry, LogEntry::Cut(true)).then_some(true));
                if let LogEntry::Timed(timed) = entry {
                    told.push(timed.has_zone);
                }
            });
            assert_eq!((result.is_ok(), told), (true, vec![is_known]), "{zone}");
        }
    }

    #[test]
    fn a_log_that_is_cut_anywhere_tells_whole_statements_only() {
        for log in [LINES, CSV, JSON] {
            let (whole, _) = told(log);
            for end in (0..log.len()).filter(|end| log.is_char_boundary(*end)) {
                let (told, cut) = told(&log[..end]);
                assert!(whole.starts_with(&told) && told.len() + cut <= 2, "{told:?}: {}", &log[..end]);
                // Of both the beginning is there.
                assert!(end < log.len() - 20 || told.len() + cut == 2, "{told:?}: {}", &log[..end]);
            }
            // The end of another log, and the beginning of this one.
            let begun = &log[10..];
            let (told, cut) = told(begun);
            assert!(whole.ends_with(&told) && cut <= 1, "{told:?}: {begun}");
        }
        let json = format!("{JSON}{{\"message\":\"statement: SEL\n{JSON}");
        let csv = format!("{}{CSV}", &CSV[..150]);
        assert_eq!((told(&json).0.len(), told(&json).1), (4, 1));
        assert!(told(&csv).1 > 0, "{:?}", told(&csv));
    }

    #[test]
    fn a_fetch_is_no_call_and_commas_make_no_csv() {
        let of = |message: &str| format!("2026-11-26 12:10:10 UTC [71] app@shop LOG:  {message}\n");
        let parameters = "2026-11-26 12:10:10 UTC [71] app@shop DETAIL:  parameters: $1 = '50'\n";
        let fetch = of("duration: 0.009 ms  execute fetch from s2/c3: SELECT id FROM item WHERE id <= $1") + parameters;
        let log = of("duration: 0.024 ms  execute s2/c3: SELECT id FROM item WHERE id <= $1") + parameters + &fetch;
        assert_eq!(
            told(&log),
            (vec![("SELECT id FROM item WHERE id <= $1".to_owned(), vec![Some("50".to_owned())])], 0)
        );

        let wide = "SELECT a,b,c,d,e,f,g,h,i,j,k,l,m,n FROM wide WHERE a = 1";
        let log = of(&format!("duration: 1.079 ms  statement: {wide}")) + &of("checkpoint starting: time");
        assert_eq!(texts(&log), (vec![wide.to_owned()], 0));
    }

    #[test]
    fn further_lines_that_are_no_servers_leave_the_end_of_a_statement_uncertain() {
        let begun = "[7] LOG:  statement: SELECT count(*) FROM item\n";
        for further in ["stdout \tWHERE id < 100\n", "#011WHERE id < 100\n", "\n", "", "\tWHERE id < 100"] {
            assert_eq!(texts(&format!("{begun}{further}")), (Vec::new(), 1), "{further}");
        }
        let whole = "[7] LOG:  statement: SELECT 1\n[7] LOG:  statement: SELECT 2\n[7] HINT:  none\n";
        assert_eq!(texts(whole), (vec!["SELECT 1".to_owned(), "SELECT 2".to_owned()], 0));
    }

    #[test]
    fn a_log_by_way_of_syslog_is_refused() {
        for before in
            ["Nov 26 11:49:14 db1 postgres[47]: [7-1] 2026-11-26", "2026-11-26T11:49:14.1+00:00 db1 postgres[47]:"]
        {
            let log = format!("{before} LOG:  statement: SELECT count(*) FROM item\n");
            let error = read(&mut log.as_bytes(), &mut |_| {}).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        }
    }

    #[test]
    fn a_log_with_messages_alone_is_recognised() {
        let lines = "initdb: done\n2026-11-23 10:00:00.1 UTC [1] LOG:  database system is ready\n";
        let csv = "2026-11-23 10:00:00.1 UTC,,,1,,6.1,1,,2026-11-23 10:00:00 UTC,,0,LOG,00000,\"database system is ready\",\
            ,,,,,,,,\"\",\"postmaster\",,0\n";
        let json = "{\"timestamp\":\"2026-11-23 10:00:00.1 UTC\",\"error_severity\":\"LOG\",\"message\":\"ready\"}\n";
        for log in [lines, csv, json, LINES, CSV] {
            assert!(is_log(log.as_bytes()) && (log == LINES || log == CSV || told(log).0.is_empty()), "{log}");
        }
        for other in [
            "",
            "[1] LOG:  without a time\n",
            "2026-11-23 10:00:00 0 [Note] ready for connections.\n",
            "{\"time\":\"2026-11-23T10:00:00Z\",\"level\":\"info\"}\n",
            "2026-11-26T11:49:14.1+00:00 db1 postgres[47]: LOG:  by way of syslog\n",
        ] {
            assert!(!is_log(other.as_bytes()), "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_there_is_read(log in "(LOG:  |DETAIL:  parameters: |statement: |execute s: |\\{|,|'|\\$1 = |\t|\n|é|a){0,30}") {
            told(&log);
        }
    }
}
