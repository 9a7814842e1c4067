//! `plimsoll watch`: logs that are there, a log that grows, a process, and a running server.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use plimsoll_core::Utc;
use plimsoll_record::data::Run;

use crate::bench::{Guarded, Place, wait_for};
use crate::servers::Redis;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A line of an access log at so many seconds since 1970, with the response time in microseconds.
pub fn line(at_s: i64, request: &str, status: u32, took_us: u64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of_us(at_s * 1_000_000);
    let month = MONTHS[month as usize - 1];
    let time = format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000");
    format!(
        "10.0.0.1 - - [{time}] \"{request} HTTP/1.1\" {status} 512 \"-\" \"made (\\\"by hand\\\")\" 0.{took_us:06}\n"
    )
}

/// A minute of a log: 1,000 operations a second, of 1, 2 and 5 ms; each hundredth fails.
fn minute() -> String {
    let operation = |n: i64| {
        let (request, status) = if n % 100 == 99 { ("POST /order", 503) } else { ("GET /item", 200) };
        line(1_795_968_900 + n / 1_000, request, status, [1_000, 2_000, 5_000][(n % 3) as usize])
    };
    (0..60_000).map(operation).collect()
}

fn written(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Number of operations of the phase of each trial of the newest run.
fn counts(place: &Place) -> Vec<Option<u64>> {
    let report = place.report();
    let trials = report["trials"].as_array().unwrap();
    trials.iter().map(|trial| trial["phases"][0]["ops"]["count"].as_u64()).collect()
}

#[test]
fn the_figures_of_a_log_are_those_of_its_lines() {
    let place = Place::new();
    let log = written(&place, "access.log", &minute());
    let goals = ["--goal", "p99=20ms", "--goal", "GET.rate=900/s", "--goal", "status.5XX=1%"];
    let ran = place.run(&[&["watch", &log, "--name", "shop"][..], &goals].concat()).expect(0);
    ran.says("Watched, not driven").says("3 goals held").says("shop");
    let phase = place.driven();
    let ops = &phase["ops"];
    assert_eq!((ops["count"].as_u64(), ops["seconds"].as_f64()), (Some(60_000), Some(60.0)), "{ops}");
    assert_eq!((ops["unknown"].as_u64(), ops["rejected"].as_u64()), (Some(600), Some(0)), "{ops}");
    let latencies = phase["latencies"].as_array().unwrap();
    let get = latencies.iter().find(|row| row["op"] == "GET").unwrap_or_else(|| panic!("{latencies:#?}"));
    assert_eq!(get["count"].as_u64(), Some(59_400), "{get}");
    let max_ns = get["max_ns"].as_u64().unwrap();
    assert!(max_ns.abs_diff(5_000_000) < 5_000, "{max_ns}");
    place.run(&["watch", &log, "--goal", "p99=1ms"]).expect(1).says("p99 of response time was 5");
    place.line("report latest --format text").expect(0).says("access.log");
}

#[test]
fn logs_of_one_name_are_kept_apart() {
    let place = Place::new();
    let [first, second] = ["a", "b"].map(|folder| {
        fs::create_dir(place.path().join(folder)).unwrap();
        written(&place, &format!("{folder}/access.log"), &line(1_795_968_900, "GET /", 200, 1_000))
    });
    place.run(&["watch", &first, &second]).expect(0);
    assert_eq!(counts(&place), [Some(1), Some(1)]);
}

#[test]
fn what_cannot_be_watched_is_named() {
    let place = Place::new();
    let empty = written(&place, "empty.log", "");
    let log = written(&place, "access.log", &line(1_795_968_900, "GET /", 200, 1));
    for (line, words) in [
        ("watch".to_owned(), "--cgroup PATH"),
        ("watch /nonexistent/access.log".to_owned(), "name a log"),
        (format!("watch {log} --live"), "leave --live out, or add --follow"),
        (format!("watch {log} --name {}", "x".repeat(201)), "write a name of 1 to 200 characters"),
        (format!("watch {log} --listen"), "leave --listen out, or add --follow"),
        (format!("watch {log} --gadget /dev/nope"), "--gadget"),
        (format!("watch {empty} --follow"), "has no line yet that tells its format"),
        (format!("watch {log} --log-zone CET"), "no distance from UTC"),
        (format!("watch {log} --for 1s"), "add --follow"),
        (format!("watch {log} --goal lost=0"), "has no such figure"),
        (format!("watch {log} {log}"), "was named twice"),
        (format!("watch {log} --samplers cpu"), "leave --samplers out, or add --follow"),
        ("watch --pid 1 --samplers cpu,nope".to_owned(), "--samplers nope … samplers: default, "),
        ("watch --on http://127.0.0.1:1/".to_owned(), "a server of http has no counters … --pid"),
        ("watch --cgroup /nonexistent".to_owned(), "/sys/fs/cgroup"),
    ] {
        place.refuses(&[(line.as_str(), words)]);
    }
    assert!(place.all_runs().is_empty(), "nothing was recorded");
}

#[test]
fn a_pipe_without_a_log_ends_with_one_signal() {
    let place = Place::new();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (idle, _writer) = std::io::pipe().unwrap();
    for (log, input) in [(pipe.to_str().unwrap(), Stdio::null()), ("-", Stdio::from(idle))] {
        let mut child = Guarded(place.command(&["watch", log]).stdin(input).spawn().unwrap());
        let said = child.0.stderr.as_mut().unwrap();
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"reading ") {
            assert!(said.read_exact(&mut byte).is_ok(), "it ended: {}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        // By then it waits, as a rule.
        std::thread::sleep(Duration::from_millis(300));
        child.signal(rustix::process::Signal::INT);
        wait_for("the end", Duration::from_secs(100), || child.0.try_wait().unwrap().is_some());
        let ended = child.ended();
        assert_eq!(ended.code, Some(130), "{ended:?}");
        ended.says("before a log was read");
    }
}

#[test]
fn the_report_names_the_field_and_the_unit_of_response_times() {
    let place = Place::new();
    let common = "1.2.3.4 - - [29/Nov/2026:16:15:29 +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"ua\"";
    let ingress = written(&place, "ingress.log", &format!("{common} 320 0.250 [svc] 1500 0.249\n").repeat(20));
    place.run(&["watch", &ingress, "--goal", "p50=200ms"]).expect(1).says("word 4 behind the size of the answer");
    let sizes = written(&place, "sizes.log", &format!("{common} 512 3400 151000\n").repeat(20));
    place.run(&["watch", &sizes]).expect(0).says("--log-field");
    let named = ["watch", &sizes, "--log-unit", "us", "--log-field", "5", "--goal", "p50=160ms"];
    place.run(&named).expect(0).says("word 5").says("in microseconds");
}

#[test]
fn the_part_of_a_pipe_that_was_read_counts_when_the_user_ends_it() {
    let place = Place::new();
    let (input, mut writer) = std::io::pipe().unwrap();
    let child = Guarded(place.command(&["watch", "-"]).stdin(input).spawn().unwrap());
    let lines: String = minute().split_inclusive('\n').take(2_000).collect();
    writer.write_all(lines.as_bytes()).unwrap();
    let unread = || rustix::io::ioctl_fionread(&writer).unwrap();
    wait_for("the pipe to be read", Duration::from_secs(100), || unread() == 0);
    child.signal(rustix::process::Signal::INT);
    let ended = child.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(counts(&place), [Some(2_000)]);
}

pub fn now_s() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64
}

pub fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_log_is_followed_through_rotation_with_the_process_beside_it() {
    let place = Place::new();
    let log = place.path().join("access.log");
    append(&log, &line(now_s(), "GET /before", 200, 1_000));
    let server = Guarded(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = server.0.id().to_string();
    let child = place.recording(&["watch", log.to_str().unwrap(), "--pid", &pid, "--for", "8s", "--json"]);
    for round in 0..20 {
        append(&log, &line(now_s(), "GET /item", 200, 2_000).repeat(5));
        if round == 10 {
            let old: PathBuf = place.path().join("access.log.1");
            fs::rename(&log, &old).unwrap();
            append(&old, &line(now_s(), "GET /last", 200, 2_000));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = child.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(counts(&place), [Some(101)]);
    let report = place.report();
    let sources: Vec<&str> =
        report["plots"]["host"].as_array().unwrap().iter().filter_map(|panel| panel["source"].as_str()).collect();
    assert!(sources.contains(&"server") && sources.contains(&"cpu"), "{sources:?}");
}

#[test]
fn a_process_is_watched_by_the_samplers_that_are_named_until_it_ends_or_the_user_ends_it() {
    let place = Place::new();
    let mut server = Command::new("sleep").arg("5").spawn().unwrap();
    let pid = server.id().to_string();
    // A process without a parent that waits for it stays.
    let waits = std::thread::spawn(move || server.wait().unwrap());
    place.run(&["watch", "--pid", &pid]).expect(0).says("sleep").says("no goal was set").says("of memory");
    assert!(waits.join().unwrap().success());

    let server = Guarded(Command::new("sleep").arg("600").spawn().unwrap());
    let mut child = place.recording(&["watch", "--pid", &server.0.id().to_string(), "--samplers", "cpu"]);
    let readings = || place.all_runs().pop().and_then(|run| Run::load(&run).ok()).map_or(0, |run| run.samples.len());
    wait_for("readings", Duration::from_secs(100), || readings() >= 2);
    child.signal(rustix::process::Signal::INT);
    wait_for("the end", Duration::from_secs(100), || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.ended().code, Some(0));
    let report = place.report();
    let panels = report["plots"]["host"].as_array().unwrap();
    assert!(!panels.is_empty() && panels.iter().all(|panel| panel["source"] == "cpu"), "{panels:?}");
}

#[test]
fn the_counters_of_a_running_server_are_watched_and_its_data_stays_as_it_is() {
    let place = Place::new();
    let server = Redis::start(place.path());
    server.ask(&["SET", "mine", "1"]);
    place.recording(&["watch", "--on", &server.url(), "--for", "4s"]).ended().expect(0).says("no goal was set");
    assert_eq!((server.ask(&["DBSIZE"]), server.ask(&["GET", "mine"])), ("1".to_owned(), "1".to_owned()));
    let store = place.report()["plots"]["store"].to_string();
    assert!(store.replace('_', " ").contains("used memory"), "{store}");
}

#[test]
fn a_server_that_does_not_answer_is_named_before_anything_is_recorded() {
    let place = Place::new();
    place.line("watch --on redis://127.0.0.1:1/").expect(3);
    assert!(place.all_runs().is_empty(), "nothing was recorded");
}
