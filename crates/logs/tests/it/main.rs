//! Lines of each format, as the programs write them, and broken ones.

// A broken expectation is what a test is there to show.
#![allow(clippy::unwrap_used)]

use plimsoll_core::Outcome;
use plimsoll_core::production::{LogEntry, TimedStatement};
use plimsoll_logs::{
    LineOptions, LineReader, LogFormat, LogLine, LogText, LoggedOp, SliceTable, TableSlice, TimeUnit, recognise,
};
use proptest::prelude::*;

/// 2026-11-29 16:15:29 UTC.
const AT_US: i64 = 1_795_968_929_000_000;
const MS: u64 = 1_000_000;
const OPTIONS: LineOptions = LineOptions { unit: None, field: None, zone_s: 0, newest_us: AT_US };

fn line(format: LogFormat, line: &str) -> LogLine {
    LineReader::new(format, OPTIONS).line(line.as_bytes())
}

/// Kind, outcome, end after [`AT_US`] in microseconds, response time and bytes of the operation in a line.
#[track_caller]
fn op(format: LogFormat, text: &str) -> (&'static str, Outcome, i64, Option<u64>, u64) {
    match line(format, text) {
        LogLine::Op(LoggedOp { at_us, took_ns, kind, outcome, bytes, .. }) => {
            (format.kinds()[usize::from(kind)], outcome, at_us - AT_US, took_ns, bytes)
        }
        other => panic!("{text}: {other:?}"),
    }
}

const COMMON: &str = r#"127.0.0.1 - frank [29/Nov/2026:16:15:29 +0000] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
const AGENT: &str = r#" "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; \"I\" ;Nav)""#;
const HAPROXY: &str = "Nov 29 16:15:29 lb haproxy[14389]: 10.0.1.2:33317 [29/Nov/2026:16:15:28.891] http-in \
                       static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \
                       \"GET /index.html HTTP/1.1\"";

#[test]
fn access_logs_have_response_times_behind_the_common_part() {
    let access = |more: &str| op(LogFormat::Access, &format!("{COMMON}{more}"));
    assert_eq!(access(""), ("GET", Outcome::Ok, 0, None, 2326));
    assert_eq!(access(AGENT).3, None);
    for (more, took_ns) in [
        (format!("{AGENT} 5123"), None),
        (format!(" 0.005123{AGENT}"), Some(5_123_000)),
        (format!("{AGENT} 0.005"), Some(5 * MS)),
        (format!("{AGENT} rt=0.005 uct=\"0.001\" urt=\"0.004\""), Some(5 * MS)),
        (format!("{AGENT} upstream=10.0.0.1:80 request_time=\"1.250\""), Some(1_250 * MS)),
        (format!("{AGENT} 10.1.2.3 -"), None),
        (format!("{AGENT} \"-\" 0.000"), Some(0)),
    ] {
        assert_eq!(access(&more).3, took_ns, "{more}");
    }
    let seconds = LineOptions { unit: Some(TimeUnit::Seconds), ..OPTIONS };
    let read = LineReader::new(LogFormat::Access, seconds).line(format!("{COMMON} 3").as_bytes());
    assert!(matches!(read, LogLine::Op(LoggedOp { took_ns: Some(3_000_000_000), .. })), "{read:?}");
    let host = format!("www.example.com:443 {COMMON}");
    assert_eq!(op(LogFormat::Access, &host).0, "GET");
}

#[test]
fn outcomes_follow_from_status_and_method() {
    for (request, status, kind, outcome) in [
        ("GET / HTTP/1.1", "304", "GET", Outcome::Ok),
        ("GET / HTTP/1.1", "404", "GET", Outcome::NotFound),
        ("GET / HTTP/1.1", "403", "GET", Outcome::Rejected),
        ("GET / HTTP/1.1", "502", "GET", Outcome::Rejected),
        ("POST / HTTP/1.1", "502", "POST", Outcome::Unknown),
        ("POST / HTTP/1.1", "501", "POST", Outcome::Rejected),
        ("PUT / HTTP/2.0", "499", "PUT", Outcome::Unknown),
        ("-", "408", "other", Outcome::Rejected),
        (r"\x16\x03\x01", "400", "other", Outcome::Rejected),
        ("PROPFIND /dav HTTP/1.1", "207", "other", Outcome::Ok),
    ] {
        let text = format!(r#"::1 - - [29/Nov/2026:16:15:29 +0000] "{request}" {status} -"#);
        assert_eq!(op(LogFormat::Access, &text), (kind, outcome, 0, None, 0), "{request} {status}");
    }
}

#[test]
fn a_zone_of_the_log_is_honoured() {
    let there = COMMON.replace("16:15:29 +0000", "21:45:29 +0530");
    assert_eq!(op(LogFormat::Access, &there).2, 0);
    let mut reader = LineReader::new(LogFormat::Access, OPTIONS);
    let at_us: Vec<i64> = [COMMON, &there, COMMON]
        .into_iter()
        .map(|text| match reader.line(text.as_bytes()) {
            LogLine::Op(op) => op.at_us,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(at_us, [AT_US; 3]);
    let mut reader = LineReader::new(LogFormat::Haproxy, LineOptions { zone_s: 3_600, ..OPTIONS });
    let read = reader.line(HAPROXY.as_bytes());
    assert!(matches!(read, LogLine::Op(op) if op.at_us == AT_US - 3_600_000_000), "{read:?}");
}

#[test]
fn the_log_of_a_proxy_has_the_whole_time_and_its_end() {
    assert_eq!(op(LogFormat::Haproxy, HAPROXY), ("GET", Outcome::Ok, 0, Some(109 * MS), 2750));
    let failed = HAPROXY.replace("10/0/30/69/109 200 2750", "7/3001/-1/-1/+3109 503 +212");
    assert_eq!(op(LogFormat::Haproxy, &failed), ("GET", Outcome::Rejected, 3_000_000, Some(3_109 * MS), 212));
    let gone = HAPROXY.replace("109 200 2750", "-1 -1 0").replace("GET /index.html HTTP/1.1", "<BADREQ>");
    assert_eq!(op(LogFormat::Haproxy, &gone), ("other", Outcome::Unknown, -109_000, None, 0));
    let tcp = HAPROXY.replace("10/0/30/69/109 200 2750", "0/0/5007 212");
    assert_eq!(line(LogFormat::Haproxy, &tcp), LogLine::Broken);
}

#[test]
fn directory_servers_have_a_line_with_the_result_of_each_operation() {
    let ldap = |text: &str| op(LogFormat::Ldap, text);
    let of_389 = "[29/Nov/2026:16:15:29.500000000 +0000] conn=7 op=1 RESULT err=0 tag=101 nentries=1 wtime=0.000123 \
                  optime=0.000456 etime=0.000579";
    assert_eq!(ldap(of_389), ("search", Outcome::Ok, 500_000, Some(579_000), 0));
    let bind = of_389.replace("tag=101", "tag=97").replace("err=0", "err=49");
    assert_eq!(ldap(&bind).0, "bind");
    assert_eq!(ldap(&bind).1, Outcome::Rejected);
    let result = "conn=1001 op=2 SEARCH RESULT tag=101 err=32 qtime=0.000012 etime=0.000345 nentries=0 text=";
    let seconds = format!("{:08x}", AT_US / 1_000_000);
    let own = [format!("{seconds}.00000000 0x7f0a1b2c3d4e"), seconds];
    for time in ["2026-11-29T16:15:29Z", "Nov 29 16:15:29 ds1 slapd[123]:", &own[0], &own[1]] {
        let wanted = ("search", Outcome::NotFound, 0, Some(345_000), 0);
        let text = format!("{time} {result}");
        assert_eq!(ldap(&text), wanted, "{text}");
    }
    let search = "[29/Nov/2026:16:15:29 +0000] conn=7 op=1 SRCH base=\"dc=x\" scope=2 filter=\"(uid=a)\" attrs=ALL";
    assert_eq!(line(LogFormat::Ldap, search), LogLine::Ignored);
}

#[test]
fn a_virtual_machine_has_pauses_and_other_lines() {
    let young = "[2026-11-29T16:15:29.000+0000][0.123s][info][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) \
                 24M->4M(256M) 3.456ms";
    assert_eq!(line(LogFormat::Gc, young), LogLine::Pause { at_us: AT_US, took_ns: 3_456_000 });
    let aligned = "[2026-11-29T16:15:29.000+0000][info][gc          ] GC(0) Pause Remark 30M->30M(256M) 1.2ms";
    assert_eq!(line(LogFormat::Gc, aligned), LogLine::Pause { at_us: AT_US, took_ns: 1_200_000 });
    for other in [
        "[2026-11-29T16:15:29.000+0000][info][gc] Using G1",
        "[2026-11-29T16:15:29.000+0000][info][gc,start] GC(12) Pause Young (Normal) (G1 Evacuation Pause)",
        "[2026-11-29T16:15:29.000+0000][info][gc] GC(13) Concurrent Mark Cycle 7.8ms",
        "[2026-11-29T16:15:29.000+0000][info][gc,phases] GC(12)   Evacuate Collection Set: 2.5ms",
    ] {
        assert_eq!(line(LogFormat::Gc, other), LogLine::Ignored, "{other}");
    }
    assert_eq!(line(LogFormat::Gc, "[0.123s][info][gc] GC(0) Pause Full 1.0ms"), LogLine::Broken, "without a time");
}

/// Lengths of the pauses in lines of one log, in microseconds, each with its end after [`AT_US`].
fn pauses(lines: &[&str]) -> Vec<(u64, i64)> {
    let mut reader = LineReader::new(LogFormat::Gc, OPTIONS);
    let read = lines.iter().filter_map(|text| match reader.line(text.as_bytes()) {
        LogLine::Pause { at_us, took_ns } => Some((took_ns / 1_000, at_us - AT_US)),
        LogLine::Ignored => None,
        other => panic!("{text}: {other:?}"),
    });
    read.collect()
}

#[test]
fn a_virtual_machine_of_version_8_has_pauses_that_begin_at_their_times() {
    let at = "2026-11-29T16:15:29.000+0000: 1.234: ";
    let new = format!(
        "{at}[GC (Allocation Failure) {at}[ParNew: 153344K->17023K(153344K), 0.0123456 secs] \
         153344K->17023K(494592K), 0.0124000 secs] [Times: user=0.04 sys=0.01, real=0.01 secs] "
    );
    let full = format!(
        "{at}[Full GC (Ergonomics) [PSYoungGen: 1K->0K(7K)] [ParOldGen: 1K->2K(9K)] 10K->9K(25K), [Metaspace: \
         2K->2K(10K)], 0.1000000 secs] [Times: user=0.3 sys=0.0, real=0.10 secs]"
    );
    let g1 = format!("{at}[GC pause (G1 Evacuation Pause) (young), 0.0069000 secs]");
    let others = [
        "OpenJDK 64-Bit Server VM (25.392-b08) for linux-amd64 JRE (1.8.0_392-b08), built on Oct 18 2023",
        "Memory: 4k page, physical 8048692k(6112256k free), swap 0k(0k free)",
        "CommandLine flags: -XX:+PrintGC -XX:+PrintGCDateStamps",
        "   [Parallel Time: 4.5 ms, GC Workers: 4]",
        " [Times: user=0.02 sys=0.00, real=0.01 secs]",
        &format!("{at}[GC concurrent-root-region-scan-end, 0.0012000 secs]"),
        &format!("{at}[CMS-concurrent-mark: 0.011/0.011 secs] [Times: user=0.01 sys=0.00, real=0.01 secs]"),
        &format!("{at}Application time: 1.0000000 seconds"),
    ];
    let lines = [&[new.as_str(), full.as_str(), g1.as_str()][..], &others].concat();
    assert_eq!(pauses(&lines), [(12_400, 12_400), (100_000, 100_000), (6_900, 6_900)]);
    assert_eq!(recognise(format!("{}\n", lines.join("\n")).as_bytes()), Some(LogFormat::Gc));
    assert_eq!(line(LogFormat::Gc, "1.234: [GC (System.gc()) 1K->1K(7K), 0.1 secs]"), LogLine::Broken, "no time");
}

#[test]
fn a_safepoint_is_a_pause_without_the_collections_in_it() {
    let at = "[2026-11-29T16:15:29.000+0000][info]";
    let safepoint = |reaching_ns: u64, total_ns: u64| {
        format!(
            "{at}[safepoint] Safepoint \"G1CollectForAllocation\", Time since last: 1009284021 ns, Reaching \
             safepoint: {reaching_ns} ns, At safepoint: 3 ns, Total: {total_ns} ns"
        )
    };
    let collection = format!("{at}[gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms");
    let stopped = format!(
        "{at}[safepoint] Total time for which application threads were stopped: 0.0021500 seconds, Stopping threads \
         took: 0.0000123 seconds"
    );
    let of_8 = stopped.replace(&format!("{at}[safepoint]"), "2026-11-29T16:15:29.000+0000: 1.234:");
    let lines = [
        collection.as_str(),
        // The collection, and the time to stop for it.
        &safepoint(20_000, 3_500_000),
        &safepoint(100_000, 250_000),
        &collection,
        // Some thread was slow to stop.
        &safepoint(80_000_000, 83_456_000),
        &stopped,
        &of_8,
    ];
    assert_eq!(pauses(&lines), [(3_456, 0), (250, 0), (3_456, 0), (80_000, 0), (2_150, 0), (2_150, 0)]);
}

#[test]
fn a_format_is_recognised_by_most_of_the_first_lines() {
    let of_389 = "\t389-Directory/2.4.5 B2024.1\n\n[29/Nov/2026:16:15:29 +0000] conn=1 fd=64 slot=64 connection\n";
    for (text, format) in [
        (format!("{COMMON}\n{COMMON}{AGENT}\nnonsense\n"), Some(LogFormat::Access)),
        (format!("{HAPROXY}\n"), Some(LogFormat::Haproxy)),
        (of_389.to_owned(), Some(LogFormat::Ldap)),
        ("[2026-11-29T16:15:29.000+0000][info][gc] Using G1\n".to_owned(), Some(LogFormat::Gc)),
        (format!("{COMMON}\nnonsense\nmore\nof it\n"), None),
        (COMMON.to_owned(), None),
        ("2026-11-29 16:15:29 UTC [7] LOG:  duration: 1 ms\n".to_owned(), None),
        // Statements and messages of several lines, and another proxy.
        (
            "2026-11-29 16:15:29 UTC [7] LOG:  duration: 1 ms  statement: SELECT 1\n\tFROM t\n\tWHERE a = 1\n".into(),
            None,
        ),
        ("[2026-11-29T16:15:29.655Z] \"GET /x HTTP/1.1\" 200 - 0 138 25 24 \"-\" \"curl/7\"\n".into(), None),
        (format!("{}{COMMON}\n", "\0".repeat(20_000)), Some(LogFormat::Access)),
        (String::new(), None),
    ] {
        assert_eq!(recognise(text.as_bytes()), format, "{text}");
    }
}

/// Reads a log that is handed over in pieces of so many bytes.
fn read(text: &[u8], piece: usize) -> LogText {
    let mut log = LogText::new(LineReader::new(LogFormat::Access, OPTIONS), SliceTable::growing());
    text.chunks(piece).for_each(|piece| log.push(piece));
    log.end_file();
    log.end();
    log
}

#[test]
fn broken_lines_are_counted_and_a_last_line_without_its_end_is_left_out() {
    let text = format!("{COMMON} 0.1\r\nwhat is this\n{COMMON} 0.2\n\nand this\n{COMMON} 0.3");
    for piece in [1, 7, text.len()] {
        let log = read(text.as_bytes(), piece);
        let counts = log.counts();
        assert_eq!((counts.lines, counts.ops, counts.broken, counts.unfinished, counts.untimed), (6, 2, 2, 1, 0));
        assert_eq!(counts.first_broken, Some((2, "what is this".to_owned())), "{piece}");
    }
    let long = [vec![b'x'; 3 << 20], format!("\n{COMMON}\n").into_bytes()].concat();
    let log = read(&long, 1 << 16);
    assert_eq!((log.counts().broken, log.counts().ops, log.counts().lines), (1, 1, 2));
    assert_eq!(log.counts().first_broken.as_ref().map(|(number, text)| (*number, text.len())), Some((1, 120)));
}

#[test]
fn a_hundred_thousand_lines_are_as_many_operations_in_the_slices_of_their_seconds() {
    let mut text = String::new();
    for n in 0..100_000u64 {
        let (minute, second) = (n / 60_000, n / 1_000 % 60);
        let (method, status) = (["GET", "POST"][(n % 2) as usize], if n % 100 == 99 { 503 } else { 200 });
        let time = format!("29/Nov/2026:16:{minute:02}:{second:02} +0000");
        text.push_str(&format!("h - - [{time}] \"{method} /{n} HTTP/1.1\" {status} 10 0.{:06}\n", 1_000 + n % 5));
    }
    let mut log = read(text.as_bytes(), 64 << 10);
    assert_eq!((log.counts().ops, log.counts().broken, log.counts().late), (100_000, 0, 0));
    assert_eq!(log.counts().codes, [(503, 1_000)].into());
    let slices = log.table().take_all();
    assert_eq!(slices.len(), 100);
    let each: Vec<(u64, u64, u64, usize)> =
        slices.iter().map(|slice| (slice.timed(), slice.failed, slice.bytes, slice.pairs())).collect();
    // Times of answers and of errors are apart: of 5 times, GET has 5, and POST 5 and 1.
    assert!(each.iter().all(|one| *one == (1_000, 10, 10_000, 11)), "{each:?}");
    let (get, post) = (0, 2);
    let counts: Vec<(u16, Outcome, u64)> =
        slices[0].histograms().iter().map(|one| (one.kind, one.outcome, one.histogram.len())).collect();
    assert_eq!(counts, [(get, Outcome::Ok, 500), (post, Outcome::Ok, 490), (post, Outcome::Unknown, 10)]);
}

#[test]
fn a_clock_that_differs_is_corrected_and_a_coarse_one_is_not() {
    for (apart_us, shift_us) in [(0, 0), (2_000_000, 0), (-3_600_000_000, -3_600_000_000), (7_000_000, 7_000_000)] {
        let table = SliceTable::of_length(1_000_000, AT_US + apart_us - 5_000_000);
        let mut log = LogText::new(LineReader::new(LogFormat::Access, OPTIONS), table);
        log.set_now(AT_US + apart_us);
        log.push(format!("{COMMON} 0.1\n").as_bytes());
        assert_eq!((log.shift_us(), log.counts().late), (shift_us, 0), "{apart_us}");
        let counts: Vec<u64> = log.table().take_all().iter().map(TableSlice::timed).collect();
        assert_eq!(counts.iter().sum::<u64>(), 1);
        assert_eq!(counts.len(), if shift_us == apart_us { 6 } else { 4 }, "{apart_us}");
    }
}

#[test]
fn a_slow_request_with_the_time_of_its_beginning_is_no_difference_of_clocks() {
    let now_us = AT_US + 30_000_000;
    let table = SliceTable::of_length(1_000_000, now_us - 5_000_000);
    let mut log = LogText::new(LineReader::new(LogFormat::Access, OPTIONS), table);
    log.set_now(now_us);
    log.push(format!("{COMMON} 29.5\n").as_bytes());
    assert_eq!((log.shift_us(), log.counts().late), (0, 1));
    // It began before the first slice, and counts in that.
    let slices = log.table().take_all();
    assert_eq!(slices.iter().map(TableSlice::timed).collect::<Vec<_>>(), [1]);
}

#[test]
fn an_operation_that_was_logged_is_not_ahead_of_this_clock() {
    let table = SliceTable::of_length(1_000_000, AT_US - 5_000_000);
    let mut log = LogText::new(LineReader::new(LogFormat::Statements, OPTIONS), table);
    log.set_now(AT_US);
    log.entry(LogEntry::Timed(TimedStatement {
        at_us: AT_US + 19_800_000_000,
        has_zone: true,
        took_ns: MS,
        text: "SELECT 1",
    }));
    let slices = log.table().take_all();
    assert_eq!((slices.len(), slices[5].timed()), (6, 1));
}

#[test]
fn statements_are_operations_by_their_first_word() {
    let reader = LineReader::new(LogFormat::Statements, OPTIONS);
    let mut log = LogText::new(reader, SliceTable::growing());
    for text in ["select 1", " SELECT 2", "UPDATE t SET a = 1", "/* x */ SELECT 3", "", "END;"] {
        log.entry(LogEntry::Statement(text, &[]));
        log.entry(LogEntry::Timed(TimedStatement { at_us: AT_US, has_zone: true, took_ns: 5 * MS, text }));
    }
    log.entry(LogEntry::Cut(true));
    log.entry(LogEntry::Cut(false));
    assert_eq!((log.counts().ops, log.counts().unfinished), (6, 1));
    let slices = log.table().take_all();
    let kinds: Vec<(&str, u64)> = slices[0]
        .histograms()
        .iter()
        .map(|one| (LogFormat::Statements.kinds()[usize::from(one.kind)], one.histogram.len()))
        .collect();
    assert_eq!(kinds, [("SELECT", 2), ("UPDATE", 1), ("COMMIT", 1), ("other", 2)]);
}

#[test]
fn lines_of_a_clock_that_was_not_set_are_out_of_the_figures() {
    let at = |year: &str| format!("{}\n", COMMON.replace("/2026:", year));
    let mut log = read(format!("{}{}{}", at("/1970:"), at("/2026:").repeat(3), at("/2125:")).as_bytes(), 1 << 20);
    assert_eq!((log.counts().ops, log.counts().stray, log.counts().untimed), (3, 2, 3));
    assert_eq!((log.table().length_us(), log.table().take_all().len()), (1_000_000, 1));
    let mut ahead = read(at("/2125:").repeat(3).as_bytes(), 1 << 20);
    assert_eq!((ahead.counts().ops, ahead.counts().stray, ahead.table().take_all().len()), (3, 0, 1));
}

#[test]
fn a_time_above_an_hour_is_counted_as_one() {
    let log = read(format!("{COMMON} 14400.5\n{COMMON} 0.000\n").as_bytes(), 1 << 20);
    assert_eq!((log.counts().ops, log.counts().long), (2, 1));
}

proptest! {
    #[test]
    fn any_bytes_are_read_in_pieces_as_whole(
        text in r#"(127\.0\.0\.1 - - \[|29/Nov/2026:16:15:29 \+0000|\] |"GET / HTTP/1\.1"|"|\\| 200 12| 0\.5| rt=|\[|GC\(|Pause |ms|: 1\.2: \[GC | secs\]|Safepoint "| Total: | stopped: |conn=1| RESULT | tag=101| err=| etime=0\.1|-|9{1,25}|/|\t|\r|\n|é|a){0,40}"#,
        piece in 1usize..50,
    ) {
        let [pieces, whole] = [piece, 1 << 20].map(|piece| read(text.as_bytes(), piece));
        prop_assert_eq!(pieces.counts(), whole.counts());
        for format in LogFormat::ALL {
            let mut reader = LineReader::new(format, OPTIONS);
            for line in text.split('\n') {
                reader.line(line.as_bytes());
            }
        }
        recognise(text.as_bytes());
    }

    #[test]
    fn any_bytes_at_all_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes, 17);
        recognise(&bytes);
        for format in LogFormat::ALL {
            LineReader::new(format, OPTIONS).line(&bytes);
        }
    }
}
