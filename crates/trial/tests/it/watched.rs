//! Watching without a load: logs that are there already, logs that grow, and processes.

mod place;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_core::{StoreErrorKind, Utc};
use plimsoll_record::data::{ResultName, Run, RunState, Trial};
use plimsoll_trial::{WatchSpec, WatchedLog, WatchedServer, watch};

use place::{Idle, Place, await_until};

/// Time of the first line of a log that is there already, in seconds since 1970.
const FIRST_S: i64 = 1_700_000_000;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a line of an access log, with its response time in microseconds.
fn line(at_s: i64, request: &str, status: u32, took_us: u64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of_us(at_s * 1_000_000);
    let month = MONTHS[month as usize - 1];
    let time = format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000");
    let (seconds, rest_us) = (took_us / 1_000_000, took_us % 1_000_000);
    format!("10.0.0.1 - - [{time}] \"{request} HTTP/1.1\" {status} 512 \"-\" \"made by hand\" {seconds}.{rest_us:06}\n")
}

/// Returns a line of a Java virtual machine about a pause of 50 ms.
fn pause(at_s: i64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of_us(at_s * 1_000_000);
    let time = format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000+0000");
    format!("[{time}][info][gc] GC(1) Pause Young (Normal) 24M->4M(256M) 50.000ms\n")
}

fn now_s() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Returns the number of operations of a trial's phase; 0 without one.
fn ops(trial: &Trial) -> f64 {
    trial.phases[0].end.result(ResultName::Ops).map_or(0.0, |ops| ops.value)
}

/// Returns the values of a series of the source `log`, with their times in seconds.
fn values(run: &Run, name: &str) -> Vec<(f64, f64)> {
    let Some(position) = run.series.iter().position(|series| series.source == "log" && series.name == name) else {
        return Vec::new();
    };
    let value = |at_ns: u64, value: f64| (at_ns as f64 / 1e9, value);
    run.samples.iter().filter_map(|sample| Some(value(sample.at_ns, sample.value(position)?))).collect()
}

#[track_caller]
fn has_notice(run: &Run, words: &str) {
    assert!(run.header.notices.iter().any(|notice| notice.contains(words)), "{words}: {:?}", run.header.notices);
}

#[test]
fn several_logs_are_trials_on_one_time_axis() {
    let place = Place::new();
    let second = |at_s: i64| line(FIRST_S + at_s, "GET /item", 200, 2_000).repeat(20);
    let logs = [
        place.log("access.log", &[second(0), second(1), second(2)].concat()),
        place.log("gc.log", &[pause(FIRST_S + 1), pause(FIRST_S + 4)].concat()),
        place.log("late.log", &line(FIRST_S + 10, "GET /", 503, 1_000)),
    ];
    let run = place.watched(&place.spec(&logs));
    assert_eq!((&run.state, run.header.outline.watched, run.trials.len()), (&RunState::Complete, true, 3));
    assert_eq!(run.header.title, "Watched: access.log, gc.log, late.log");
    assert_eq!(run.header.started_wall_ns, FIRST_S * 1_000_000_000);
    let of = |trial: &Trial| (trial.header.store_label.clone(), trial.header.store.clone(), trial.header.start_ns);
    let wanted = [("access.log", "access", 0), ("gc.log", "gc", 1), ("late.log", "access", 10)];
    let wanted = wanted
        .map(|(label, store, at_s): (&str, &str, u64)| (label.to_owned(), store.to_owned(), at_s * 1_000_000_000));
    assert_eq!(run.trials.iter().map(of).collect::<Vec<_>>(), wanted);
    assert_eq!(run.trials.iter().map(ops).collect::<Vec<_>>(), [60.0, 0.0, 1.0]);
    let slices = run.trials.iter().map(|trial| trial.phases[0].slices.len());
    assert_eq!(slices.collect::<Vec<_>>(), [3, 0, 1], "a log of pauses has no operations");
    // A pause of 50 ms in a second, twice; nothing between.
    assert_eq!(values(&run, "stopped"), [(2.0, 5.0), (3.0, 0.0), (4.0, 0.0), (5.0, 5.0)]);
    let code = run.trials[2].phases[0].end.result(ResultName::ErrorCode).unwrap();
    assert_eq!((code.subject.as_str(), code.value), ("503", 1.0));
}

#[test]
fn lines_that_are_in_no_figure_are_counted_in_notices_by_the_reason() {
    let place = Place::new();
    let usual = line(FIRST_S, "GET /", 200, 1_000).repeat(10);
    let long = line(FIRST_S, "GET /report", 200, 4_000_000_000);
    let stray = line(FIRST_S, "GET /", 200, 1_000).replace("/2023:", "/1999:");
    assert!(stray.contains("/1999:"));
    let logs = [place.log("access.log", &format!("{usual}no line at all\n{long}{stray}10.0.0.1 - - [cut"))];
    let run = place.watched(&place.spec(&logs));
    assert_eq!(ops(&run.trials[0]), 11.0);
    assert!(run.header.notices[0].starts_with("Watched, not driven: "), "{:?}", run.header.notices);
    for words in [
        "access.log: 1 of 14 lines are none of the format `access`; the first is line 11: no line at all",
        "access.log: entries without an end were left out: 1",
        "access.log: operations of more than an hour, which count as one hour: 1",
        "access.log: lines with a time before the year 2000 or ahead of this machine's clock, which count in no figure: 1",
    ] {
        has_notice(&run, words);
    }
}

#[test]
fn a_log_without_response_times_has_rates_and_no_slices() {
    let place = Place::new();
    let second = |at_s: i64, status: u32| line(FIRST_S + at_s, "GET /", status, 1_000).replace(" 0.001000\n", "\n");
    let text = [second(0, 200).repeat(9), second(0, 503), second(1, 200).repeat(10)].concat();
    let run = place.watched(&place.spec(&[place.log("bare.log", &text)]));
    assert_eq!((ops(&run.trials[0]), run.trials[0].phases[0].slices.len()), (20.0, 0));
    assert_eq!(values(&run, "operations"), [(1.0, 10.0), (2.0, 10.0)]);
    assert_eq!(values(&run, "failed"), [(1.0, 1.0), (2.0, 0.0)]);
    assert_eq!(values(&run, "sent"), [(1.0, 5_120.0), (2.0, 5_120.0)]);
    has_notice(&run, "bare.log: 20 of 20 operations have no response time");
    let is_missing = |notice: &String| notice.contains("are in none of the figures");
    assert!(!run.header.notices.iter().any(is_missing), "rates have all of them: {:?}", run.header.notices);
}

#[test]
fn files_of_a_directory_are_one_log_and_copies_cut_and_damaged_ones_are_named() {
    let place = Place::new();
    fs::create_dir(place.path("logs")).unwrap();
    let same = line(FIRST_S, "GET /", 200, 1_000).repeat(20);
    for name in ["logs/a.log", "logs/b.log"] {
        fs::write(place.path(name), &same).unwrap();
    }
    fs::write(place.path("logs/empty.log"), "").unwrap();
    fs::write(place.path("logs/damaged.log.gz"), [0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(line(FIRST_S, "GET /old", 200, 1_000).repeat(2_000).as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    fs::write(place.path("logs/cut.log.gz"), &packed[..packed.len() - 9]).unwrap();
    let run = place.watched(&place.spec(&[place.named("logs")]));
    assert_eq!(run.trials.len(), 1);
    assert!((41.0..=2_040.0).contains(&ops(&run.trials[0])), "{}", ops(&run.trials[0]));
    has_notice(&run, "/b.log begins as ");
    has_notice(&run, "/a.log does: operations in both count twice");
    has_notice(&run, "/cut.log.gz was read up to an error: ");
    has_notice(&run, "/damaged.log.gz was not read: ");
    let of_empty = run.header.notices.iter().filter(|notice| notice.contains("empty.log"));
    assert_eq!(of_empty.count(), 0, "{:?}", run.header.notices);
}

#[test]
fn a_log_with_few_operations_a_second_names_the_limit_of_its_slow_ones() {
    let place = Place::new();
    let took_us = |n: i64| if n % 50 == 0 { 227_000 } else { 20_000 };
    let text = |each_s: i64| -> String {
        let of = |n: i64| line(FIRST_S + n / each_s, "GET /item", 200, took_us(n));
        (0..10 * each_s).map(of).collect()
    };
    let words =
        "no finding can name slow moments; `plimsoll explain latest --above 200ms` describes the slow operations";
    has_notice(&place.watched(&place.spec(&[place.log("few.log", &text(60))])), words);
    let run = place.watched(&place.spec(&[place.log("many.log", &text(150))]));
    assert!(!run.header.notices.iter().any(|notice| notice.contains("slow moments")), "{:?}", run.header.notices);
}

#[test]
fn a_log_that_cannot_be_read_is_refused_with_its_first_line_and_a_remedy() {
    let place = Place::new();
    let begun = line(FIRST_S, "GET /", 200, 1).trim_end().to_owned();
    fs::create_dir(place.path("bare")).unwrap();
    for (name, text) in [
        ("empty.log", ""),
        ("other.log", "nothing\nof\nthe kind\n"),
        ("begun.log", begun.as_str()),
        ("syslog.log", "by syslog: a statement\n"),
    ] {
        place.log(name, text);
    }
    fs::write(place.path("access.log.xz"), b"\xfd7zXZ\0\0\0").unwrap();
    fs::write(place.path("access.log.gz"), [0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    for (name, format, words, next, detail) in [
        ("none.log", None, "none.log: ", "name a log: a file, a directory", ""),
        ("bare", None, "no file is in this directory", "name a log, or a directory", ""),
        ("empty.log", None, "empty.log is empty", "add --follow to wait for them", ""),
        ("other.log", None, "the format of this log is not known", "--log-format", "the first line: nothing"),
        (
            "other.log",
            Some("access"),
            "none of 3 lines is an operation of a log in the format `access`",
            "another format",
            "line 1: nothing",
        ),
        ("begun.log", None, "no line of it has an end", "add the end of the line", ""),
        ("begun.log", Some("access"), "no line of it has an end", "add the end of the line", ""),
        ("access.log.xz", None, "is compressed, and not with gzip", "xzcat", ""),
        ("access.log.gz", None, "gzip compressed it, and it is damaged", "`gzip -t`", ""),
        ("syslog.log", None, "syslog.log: written by syslog", "or its format with --log-format", ""),
        (
            "other.log",
            Some("apache"),
            "there is no format of logs `apache`",
            "formats of logs: access, haproxy, ldap, gc, talkative, counted",
            "",
        ),
    ] {
        let logs = [place.named(name)];
        let error = place.refuses(&WatchSpec { format, ..place.spec(&logs) }, words, next);
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
        assert_eq!(error.detail.as_deref().unwrap_or_default(), detail, "{error:?}");
    }
}

#[test]
fn what_cannot_be_watched_live_is_refused_before_anything_is_recorded() {
    let place = Place::new();
    let text = line(FIRST_S, "GET /", 200, 1);
    let both = [place.log("a.log", &text), place.log("b.log", &text)];
    let stdin = [WatchedLog { label: "stdin".to_owned(), path: "-".into() }];
    let unknown = [place.log("unknown.log", "nothing\nof\nthe kind\n")];
    File::create(place.path("packed.gz")).unwrap().write_all(&[0x1f, 0x8b, 8, 0]).unwrap();
    let packed = [place.named("packed.gz")];
    for (logs, words, next) in [
        (&both[..], "one log with operations can be followed at a time", "start `plimsoll watch` once for each"),
        (&stdin[..], "- cannot be followed", "name one file that a server writes"),
        (&unknown[..], "the format of this log is not known", "--log-format"),
        (&packed[..], "is compressed, and cannot be followed", "leave --follow out"),
    ] {
        let error = place.refuses(&WatchSpec { follow: true, ..place.spec(logs) }, words, next);
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    }
    // Numbers of processes end at 4,194,304.
    let pids = [4_194_305];
    place.refuses(&WatchSpec { pids: &pids, ..place.spec(&[]) }, "there is no process 4194305", "pgrep -o NAME");
    for (group, words) in [(place.logs.path(), "is no control group"), (Path::new("/nonexistent"), "/nonexistent: ")] {
        place.refuses(&WatchSpec { group: Some(group), ..place.spec(&[]) }, words, "below /sys/fs/cgroup");
    }
    for (url, words, next) in [
        ("nowhere", "--on nowhere: this is not the URL of a running server", "SCHEME://user@host/database"),
        ("talkative", "--on talkative: this is not the URL of a running server", "plimsoll list stores"),
        ("talk://here", "a server of talkative has no counters that can be read", "or its process with --pid"),
        ("count://here", "nobody is there", ""),
    ] {
        let server = WatchedServer { url: url.to_owned(), login: (url.to_owned(), None) };
        place.refuses(&WatchSpec { server: Some(&server), ..place.spec(&[]) }, words, next);
    }
}

#[test]
fn reading_that_the_user_ends_keeps_what_was_read_and_is_an_error_without_that() {
    let place = Place::new();
    rustix::fs::mknodat(rustix::fs::CWD, place.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let logs = [place.named("pipe")];
    let one = line(FIRST_S, "GET /", 200, 1_000);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = OpenOptions::new().write(true).open(place.path("pipe")).unwrap();
            // More than a pipe holds: when all is written, most of it was read.
            writer.write_all(one.repeat(2_000).as_bytes()).unwrap();
            place.stop.store(true, Ordering::SeqCst);
        });
        place.watched(&place.spec(&logs))
    });
    assert_eq!(run.state, RunState::Interrupted);
    assert!((1_000.0..=2_000.0).contains(&ops(&run.trials[0])), "{}", ops(&run.trials[0]));
    let error = watch(&place.spec(&logs), &place.heard).unwrap_err();
    assert_eq!((error.kind, error.what.as_str()), (StoreErrorKind::Interrupted, "interrupted before a log was read"));
}

#[test]
fn a_log_that_grows_is_followed_through_rotation_beside_one_of_pauses() {
    let place = Place::new();
    let text = line(now_s(), "GET /before", 200, 1_000);
    // In any order: the log with operations is the trial.
    let logs = [place.log("gc.log", &pause(now_s())), place.log("access.log", &text)];
    let (log, old) = (place.path("access.log"), place.path("access.log.1"));
    let (result, run) = place.live(&WatchSpec { follow: true, ..place.spec(&logs) }, || {
        append(&log, &line(now_s(), "GET /item", 200, 2_000).repeat(50));
        append(&place.path("gc.log"), &pause(now_s()));
        fs::rename(&log, &old).unwrap();
        append(&old, &line(now_s(), "GET /last", 200, 2_000));
        append(&log, &line(now_s(), "GET /item", 503, 2_000).repeat(50));
        place.await_ops(101);
    });
    assert_eq!((result, &run.state, run.trials.len()), (Ok(()), &RunState::Complete, 1));
    let trial = &run.trials[0];
    assert_eq!((trial.header.store_label.as_str(), ops(trial)), ("access.log", 101.0), "none from before");
    let slices = trial.phases[0].slices.iter().flat_map(|slice| &slice.histograms);
    assert_eq!(slices.map(|one| one.histogram.len()).sum::<u64>(), 101);
    assert!(values(&run, "stopped").iter().any(|(_, percent)| *percent > 0.0), "{:?}", run.samples);
    let code = trial.phases[0].end.result(ResultName::ErrorCode).unwrap();
    assert_eq!((code.subject.as_str(), code.value), ("503", 50.0));
}

#[test]
fn times_of_another_clock_are_moved_to_this_machines() {
    let place = Place::new();
    let logs = [place.log("access.log", &line(now_s() - 3_600, "GET /before", 200, 1_000))];
    let (result, run) = place.live(&WatchSpec { follow: true, ..place.spec(&logs) }, || {
        append(&logs[0].path, &line(now_s() - 3_600, "GET /item", 200, 2_000).repeat(10));
        place.await_ops(10);
    });
    assert_eq!(result, Ok(()));
    let is_told = |text: &String| {
        text.starts_with("access.log: its clock is 36")
            && text.ends_with(" s behind this machine's; its times were moved by that")
    };
    assert!(place.heard.notices.lock().unwrap().iter().any(is_told), "{:?}", place.heard.notices);
    assert!(run.events.iter().any(|event| is_told(&event.text)), "{:?}", run.events);
    assert_eq!(ops(&run.trials[0]), 10.0);
}

#[test]
fn a_log_of_statements_is_followed_from_its_first_message_on_and_an_error_in_it_ends_the_run() {
    let place = Place::new();
    let logs = [place.log("server.log", "ready\n")];
    let statement = |text: &str| format!("{} 2000000 {text}\n", now_s() * 1_000_000);
    let (result, run) = place.live(&WatchSpec { follow: true, ..place.spec(&logs) }, || {
        let statements = statement("SELECT 1").repeat(15) + "checkpoint\n" + &statement("COMMIT").repeat(5);
        append(&logs[0].path, &(statements + "by syslog: a statement\n"));
        await_until("the end", || place.heard.ended.load(Ordering::SeqCst));
    });
    let error = result.unwrap_err();
    assert!(error.what.ends_with("server.log: written by syslog"), "{error:?}");
    assert_eq!(
        (error.kind, error.next.as_deref()),
        (StoreErrorKind::Usage, Some("name another format with --log-format"))
    );
    assert!(matches!(&run.state, RunState::Failed(why) if why.contains("written by syslog")), "{:?}", run.state);
    let slices = run.trials[0].phases[0].slices.iter().flat_map(|slice| &slice.histograms);
    assert_eq!(slices.map(|one| one.histogram.len()).sum::<u64>(), 20, "what was read before is recorded");
    assert_eq!(run.trials[0].header.store, "talkative");
}

#[test]
fn a_log_to_which_nothing_is_written_says_so() {
    let place = Place::new();
    let logs = [place.log("access.log", &line(now_s(), "GET /before", 200, 1_000))];
    let (result, run) = place.live(&WatchSpec { follow: true, ..place.spec(&logs) }, || ());
    assert_eq!((result, &run.state, ops(&run.trials[0])), (Ok(()), &RunState::Complete, 0.0));
    let words = "access.log: no line was written while the log was followed";
    assert!(run.events.iter().any(|event| event.text == words), "{:?}", run.events);
    assert!(place.heard.notices.lock().unwrap().iter().any(|notice| notice == words));
}

#[test]
fn processes_are_watched_until_the_last_of_them_ends() {
    let place = Place::new();
    let [mut one, mut other] = [Idle::start(), Idle::start()];
    let (pids, samplers) = ([one.0.id(), other.0.id()], ["cpu".to_owned()]);
    let (result, run) = place.live(&WatchSpec { pids: &pids, samplers: &samplers, ..place.spec(&[]) }, || {
        one.end();
        // Between two samples there are looks at the processes.
        let samples = || place.heard.samples.load(Ordering::SeqCst);
        let before = samples();
        await_until("two samples", || samples() >= before + 2);
        assert!(!place.heard.ended.load(Ordering::SeqCst), "one of them runs");
        other.end();
        await_until("the end", || place.heard.ended.load(Ordering::SeqCst));
    });
    assert_eq!((result, &run.state), (Ok(()), &RunState::Complete));
    let mut pids = pids;
    pids.sort_unstable();
    let header = &run.trials[0].header;
    assert_eq!(header.place, format!("pid {}, {}", pids[0], pids[1]));
    assert_eq!((header.store_label.as_str(), header.store.as_str()), ("processes", "watch"));
}

#[test]
fn the_samplers_that_are_named_are_read_for_the_time_that_is_given() {
    let place = Place::new();
    let (pids, samplers) = ([std::process::id()], ["cpu".to_owned()]);
    let length = Duration::from_millis(1_100);
    let began = Instant::now();
    let spec = WatchSpec { pids: &pids, samplers: &samplers, length: Some(length), ..place.spec(&[]) };
    let run = place.watched(&spec);
    assert!(began.elapsed() >= length, "{:?}", began.elapsed());
    assert!(!run.series.is_empty() && run.series.iter().all(|series| series.source == "cpu"), "{:?}", run.series);
    let watched_ns = run.end_ns.unwrap() - run.trials[0].header.start_ns;
    assert!(watched_ns >= length.as_nanos() as u64, "{watched_ns}");
}
