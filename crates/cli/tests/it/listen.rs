//! `--listen`: the figures of a run over HTTP, while it is in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use plimsoll_testkit::process::free_port;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bench::{Guarded, Place, Ran, once_below, wait_for};

const BOOK: &str = include_str!("../../../../docs/src/listen.md");
const TOKEN: &str = "0123456789abcdef-token";

/// Run with `--listen`, and the address that it printed.
struct Listening {
    child: Guarded,
    address: String,
}

impl Listening {
    /// Starts a drive on `null` with two operation types; `more` are further options.
    fn start(place: &Place, more: &str) -> Self {
        let drive = "drive kv --on null --mix read=1,update=1 --durability buffered --warmup 0s --clients 2 --quiet";
        let line = format!("{drive} {more}");
        Self::begin(place, &line.split_whitespace().collect::<Vec<_>>(), token_of(more))
    }

    /// Starts the program with these words, one of which is `--listen`, and a token.
    fn begin(place: &Place, words: &[&str], token: &str) -> Self {
        let mut command = place.command(words);
        let mut child = Guarded(command.env("PLIMSOLL_LISTEN_TOKEN", token).spawn().unwrap());
        let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended early: {said}");
            said.push_str(&line);
            if let Some(rest) = line.trim_end().strip_prefix("listening on http://") {
                break rest.trim_end_matches('/').to_owned();
            }
        };
        // A full pipe would stop it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, address }
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        ask(&self.address, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }

    /// Waits for its end, and returns the exit code.
    fn code(mut self) -> Option<i32> {
        std::io::copy(&mut self.child.0.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
        self.child.0.wait().unwrap().code()
    }
}

/// Returns the token for a run with these options: one for addresses that need it.
fn token_of(options: &str) -> &'static str {
    if options.contains("0.0.0.0") { TOKEN } else { "" }
}

/// Sends a request, and returns the status and the text behind the head; `None` if the server is not there, or leaves.
fn ask(address: &str, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let (head, text) = reply.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().unwrap(), text.to_owned()))
}

/// Returns the samples of Prometheus' text by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

/// Returns the sum of the samples of all operations of the drive.
fn operations(text: &str) -> f64 {
    let is_of_drive = |name: &&str| name.starts_with("plimsoll_operations_total{") && name.contains("phase=\"drive\"");
    samples(text).into_iter().filter(|(name, _)| is_of_drive(name)).map(|(_, value)| value).sum()
}

#[test]
fn counters_only_grow_and_are_those_of_the_report_at_the_end() {
    let place = Place::new();
    let run = Listening::start(&place, "--for 2s --slice 100ms --goal p99=1s --listen 127.0.0.1:0");
    let (mut texts, mut newest) = (0, String::new());
    while let Some((200, text)) = run.get("/metrics") {
        let (before, now) = (samples(&newest), samples(&text));
        let is_counter = |name: &str| {
            ["_total", "_bucket", "_count"].iter().any(|end| name.split('{').next().unwrap_or_default().ends_with(end))
        };
        for (name, value) in before.iter().filter(|(name, _)| is_counter(name)) {
            assert!(now.get(name).is_some_and(|now| now >= value), "{name} was {value}: {:?}", now.get(name));
        }
        (texts, newest) = (texts + 1, text);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(run.code(), Some(0));
    assert!(texts > 3, "{texts}");
    let last = samples(&newest);
    assert_eq!(last["plimsoll_run_ended"], 1.0, "the last figures are served after the end");
    let driven = place.driven();
    assert_eq!(operations(&newest), driven["ops"]["count"].as_f64().unwrap());
    let is_count = |name: &str| name.starts_with("plimsoll_response_seconds_count{") && name.contains("\"drive\"");
    let count = last.iter().find(|(name, _)| is_count(name)).map(|(_, count)| *count);
    assert_eq!(count, driven["latencies"][0]["count"].as_f64());
    let held = last.iter().find(|(name, _)| name.starts_with("plimsoll_goal_held{"));
    assert_eq!(held.map(|(_, held)| *held), Some(1.0));
}

#[test]
fn prometheus_own_tool_finds_no_fault_and_the_book_lists_every_metric() {
    let place = Place::new();
    let run = Listening::start(&place, "--for 1s --slice 100ms --goal p99=1s --listen 127.0.0.1:0");
    let (mut newest, mut served) = (String::new(), BTreeSet::new());
    while let Some((200, text)) = run.get("/metrics") {
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE plimsoll_")?.split(' ').next());
        served.extend(names.map(str::to_owned));
        newest = text;
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(run.code(), Some(0));
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is not installed: apt-get install prometheus (or run `cargo xtask test`)");
    promtool.stdin.take().unwrap().write_all(newest.as_bytes()).unwrap();
    Ran::of(&promtool.wait_with_output().unwrap()).expect(0);
    let served: BTreeSet<&str> = served.iter().map(String::as_str).collect();
    let listed: BTreeSet<&str> =
        BOOK.lines().filter_map(|line| line.strip_prefix("| `plimsoll_")?.split('`').next()).collect();
    assert!(served.is_subset(&listed), "{:?} are not in the book", served.difference(&listed));
    // Of these, this run has none.
    let rare = BTreeSet::from(["cells", "fault_active"]);
    let unserved: BTreeSet<&str> = listed.difference(&served).copied().collect();
    assert!(unserved.is_subset(&rare), "{unserved:?} are in the book and not served");
    let dashboard = include_str!("../../src/listen/grafana.json");
    let shown = dashboard.split("plimsoll_").skip(1);
    let is_end = |c: char| !(c.is_ascii_lowercase() || c == '_');
    for name in shown.filter_map(|rest| rest.split(is_end).next()) {
        assert!(listed.contains(name.trim_end_matches("_bucket")), "the dashboard shows plimsoll_{name}");
    }
}

/// Returns the value of the only sample that a Prometheus answers a query with.
fn queried(prometheus: &str, query: &str) -> Option<f64> {
    let (_, text) = ask(prometheus, &format!("GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n"))?;
    let answer: Value = serde_json::from_str(&text).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

/// Returns the newest value since `begin` of the only series that a Prometheus answers a query with.
fn queried_since(prometheus: &str, query: &str, begin: SystemTime) -> Option<f64> {
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let (start, end) = (seconds(begin), seconds(SystemTime::now()));
    let range = format!("start={start:.3}&end={end:.3}&step=0.1");
    let (_, text) = ask(prometheus, &format!("GET /api/v1/query_range?{range}&query={query} HTTP/1.0\r\n\r\n"))?;
    let answer: Value = serde_json::from_str(&text).ok()?;
    answer["data"]["result"][0]["values"].as_array()?.last()?[1].as_str()?.parse().ok()
}

/// Starts a Prometheus that scrapes `target`. Returns it and its address.
fn prometheus(place: &Place, target: &str, options: &[&str]) -> (Guarded, String) {
    let config = place.path().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}\n\
         scrape_configs: [{{job_name: plimsoll, static_configs: [{{targets: [\"{target}\"]}}]}}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", place.path().join("prometheus").display()))
        .arg(format!("--web.listen-address={address}"))
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus is not installed: apt-get install prometheus (or run `cargo xtask test`)");
    (Guarded(prometheus), address)
}

#[test]
fn a_prometheus_scrapes_a_run_in_progress_and_answers_queries() {
    let place = Place::new();
    let run = Listening::start(&place, "--for 300s --slice 100ms --think 1ms --listen 127.0.0.1:0");
    let (_prometheus, address) = prometheus(&place, &run.address, &[]);
    let limit = Duration::from_secs(100);
    wait_for("a scrape", limit, || queried(&address, "sum(plimsoll_operations_total)").is_some_and(|sum| sum > 0.0));
    // After a scrape that a busy machine lets fail there is no value until the next one.
    let median = "histogram_quantile(0.5,sum+by(le)(plimsoll_response_seconds_bucket))";
    wait_for("a median", limit, || queried(&address, median).is_some_and(|median| median > 0.0 && median < 1.0));
}

#[test]
fn a_percentile_of_native_histograms_is_that_of_the_report_within_a_bucket() {
    // The last figures are served for a second, in which each scrape of a busy machine may fail, but not each time.
    let (scraped_s, reported_s) = (0..3).find_map(|_| last_p99_s()).expect("a scrape of the last figures");
    let ratio = scraped_s / reported_s;
    assert!((1.0 / 1.022..1.022).contains(&ratio), "{scraped_s} s, and {reported_s} s in the report");
}

/// Returns the 99th percentile of a run in seconds, as Prometheus has it after the last scrape, and as the report has it;
/// `None` if no scrape came after the end of the run.
fn last_p99_s() -> Option<(f64, f64)> {
    let place = Place::new();
    let begin = SystemTime::now();
    let run = Listening::start(&place, "--for 300s --slice 100ms --think 100us --listen 127.0.0.1:0");
    // From Prometheus 3.8 on, `scrape_native_histograms: true` in its configuration instead.
    let (_prometheus, address) = prometheus(&place, &run.address, &["--enable-feature=native-histograms"]);
    let times = "plimsoll_response_seconds%7Bphase%3D%22drive%22%7D";
    let recent = format!("histogram_quantile(0.99,rate({times}[5s]))");
    wait_for("two scrapes", Duration::from_secs(100), || {
        queried(&address, &recent).is_some_and(|p99| p99 > 0.0 && p99 < 1.0)
    });
    run.child.signal(Signal::INT);
    assert_eq!(run.code(), Some(130));
    let whole = format!("histogram_quantile(0.99,{times})+and+on()+(plimsoll_run_ended%3D%3D1)");
    let ended = Instant::now();
    let scraped_s = loop {
        match queried_since(&address, &whole, begin) {
            None if ended.elapsed() < Duration::from_secs(5) => std::thread::sleep(Duration::from_millis(50)),
            found => break found?,
        }
    };
    let driven = place.driven();
    let percentiles = driven["latencies"][0]["percentiles"].as_array().unwrap();
    let p99 = percentiles.iter().find(|percentile| percentile["name"] == "p99").unwrap();
    Some((scraped_s, p99["ns"].as_f64().unwrap() / 1e9))
}

#[test]
fn a_page_and_figures_for_programs_are_at_their_paths_and_nothing_is_changed() {
    let place = Place::new();
    let run = Listening::start(&place, "--for 300s --slice 100ms --tag live --listen 127.0.0.1:0");
    let is_begun = |text: &str| text.contains("\"tag\":\"live\"");
    wait_for("the run", Duration::from_secs(30), || run.get("/figures.json").is_some_and(|(_, text)| is_begun(&text)));
    let (status, page) = run.get("/").unwrap();
    assert!(status == 200 && page.contains("<title>Plimsoll: run in progress</title>"), "{page}");
    let (status, paths) = run.get("/figures").unwrap();
    assert!(status == 404 && paths.contains("/figures.json /figures.xml"), "{paths}");
    let post = format!("POST /metrics HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n", run.address);
    assert_eq!(ask(&run.address, &post).unwrap(), (405, "only GET and HEAD\n".to_owned()));
    let head = format!("HEAD / HTTP/1.1\r\nHost: {}\r\n\r\n", run.address);
    assert_eq!(ask(&run.address, &head).unwrap(), (200, String::new()));
    let elsewhere = "GET /figures.json HTTP/1.1\r\nHost: example.com\r\n\r\n";
    assert_eq!(ask(&run.address, elsewhere).unwrap().0, 421, "a page of another site leads here");
    let (_, xml) = run.get("/figures.xml").unwrap();
    assert!(xml.starts_with("<?xml") && xml.contains("<tag>live</tag>") && xml.ends_with("</plimsoll>\n"), "{xml}");
    run.child.signal(Signal::INT);
    assert_eq!(run.code(), Some(130));
}

#[test]
fn events_end_with_the_last_figures_of_the_run() {
    // The figures of a run from its events; `None` if a busy machine comes too late for its drive.
    let seen = |place: &Place| {
        let run = Listening::start(place, "--for 2s --slice 100ms --goal p99=1s --tag live --listen 127.0.0.1:0");
        let (status, events) = run.get("/events")?;
        let figures = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let figures: Vec<Value> = figures.map(|text| serde_json::from_str(text).expect(text)).collect();
        assert_eq!((status, run.code()), (200, Some(0)), "{events}");
        // What was written is read back after the drive, and a slow reader gets the newest figures only.
        let is_driven = |figures: &&Value| {
            figures["phase"]["kind"] == "drive" && figures["phase"]["done"]["count"].as_u64() > Some(0)
        };
        let drive = figures.iter().rfind(is_driven)?.clone();
        Some((figures.last().unwrap().clone(), drive))
    };
    let seen = (0..20).find_map(|_| {
        let place = Place::new();
        seen(&place).map(|figures| (place, figures))
    });
    let (place, (last, drive)) = seen.expect("events of a drive");
    assert_eq!((last["run"]["state"].as_str(), last["run"]["tag"].as_str()), (Some("complete"), Some("live")));
    assert_ne!(last, drive);
    let (told, all) = (&drive["phase"]["done"]["count"], &place.driven()["ops"]["count"]);
    assert!(told.as_u64() <= all.as_u64(), "{told} of {all}");
    let types = drive["phase"]["types"].as_array().unwrap();
    let names: Vec<_> = types.iter().filter_map(|of_type| of_type["op"].as_str()).collect();
    assert_eq!(names, ["read", "update"]);
    let goals = &last["phase"];
    assert_eq!((&goals["goals_phase"], &goals["goals"][0]["holds"]), (&json!("drive"), &json!(true)), "{last}");
}

#[test]
fn a_pause_of_the_server_is_a_slow_moment_in_the_figures_while_the_run_goes_on() {
    let place = Place::new();
    let drive = "drive kv --on redis --mix read=1 --set records=1000 --warmup 0s --clients 4 --think 2ms --slice 500ms \
                 --for 300s --quiet --listen 127.0.0.1:0 --fault";
    let words: Vec<&str> = drive.split_whitespace().chain(["pause all at 6s for 1500ms"]).collect();
    let run = Listening::begin(&place, &words, "");
    let is_named = |moment: &Value| moment["meanwhile"][0].as_str().is_some_and(|text| text.starts_with("pause all"));
    wait_for("a slow moment", Duration::from_secs(200), || {
        let figures = run.get("/figures.json").and_then(|(_, text)| serde_json::from_str::<Value>(&text).ok());
        let moments = figures.and_then(|figures| figures["phase"]["moments"].as_array().cloned());
        moments.is_some_and(|moments| moments.iter().any(is_named))
    });
    run.child.signal(Signal::INT);
    assert_eq!(run.code(), Some(130));
}

#[test]
fn the_first_percentile_comes_before_the_end_of_the_first_slice() {
    // On a busy machine the question may come after a slice of four seconds.
    once_below(3.9, first_shown_s);
}

/// Returns the length so far of the first slice that is shown with a percentile, in seconds; infinity without one.
fn first_shown_s() -> f64 {
    let place = Place::new();
    let run = Listening::start(&place, "--for 5s --slice 4s --listen 127.0.0.1:0");
    // Length of the newest slice of the drive, once it has a percentile.
    let shown_s = |text: &str| -> Option<f64> {
        let figures: Value = serde_json::from_str(text).ok()?;
        let newest = &figures["phase"]["newest"];
        let is_shown = figures["phase"]["kind"] == "drive" && newest["p99_ns"].is_u64();
        is_shown.then(|| Some(newest["end_s"].as_f64()? - newest["start_s"].as_f64()?))?
    };
    let mut first_s = None;
    wait_for("a percentile", Duration::from_secs(200), || {
        // A run that has ended was asked too late.
        first_s = run.get("/figures.json").map_or(Some(f64::INFINITY), |(_, text)| shown_s(&text));
        first_s.is_some()
    });
    assert_eq!(run.code(), Some(0));
    assert_eq!(place.driven()["ops"]["seconds"].as_f64().map(f64::round), Some(5.0));
    first_s.unwrap()
}

#[test]
fn clients_that_read_slowly_or_say_nothing_do_not_slow_the_run() {
    let place = Place::new();
    let begun = Instant::now();
    let run = Listening::start(&place, "--for 2s --slice 100ms --think 1ms --listen 127.0.0.1:0");
    let connect = || TcpStream::connect(&run.address).unwrap();
    let silent: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    let slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = connect();
            stream.write_all(format!("GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", run.address).as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut byte_by_byte = slow[0].try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut byte = [0];
        (0..3)
            .filter(|_| {
                std::thread::sleep(Duration::from_secs(1));
                byte_by_byte.read(&mut byte).is_ok_and(|read| read == 1)
            })
            .count()
    });
    assert_eq!(run.get("/metrics").unwrap().0, 200, "others are served meanwhile");
    assert_eq!(run.code(), Some(0));
    // A run that waits for its readers waits for ever.
    assert!(begun.elapsed() < Duration::from_secs(200), "{:?}", begun.elapsed());
    assert!(reader.join().unwrap() > 0);
    drop((silent, slow));
    let seconds = place.driven()["ops"]["seconds"].as_f64().unwrap();
    assert!((1.9..100.0).contains(&seconds), "{seconds}");
}

#[test]
fn an_address_that_is_taken_or_needs_a_token_is_refused_before_the_run() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let drive = "drive kv --on null --mix read=1 --for 100ms";
    place
        .line(&format!("{drive} --listen {address}"))
        .expect(6)
        .says(&format!("--listen {address}: Address already in use … choose another port"));
    place.line(&format!("{drive} --listen 0.0.0.0:0")).expect(2).says("without a token … PLIMSOLL_LISTEN_TOKEN");
    place.line("drive --listen kv --on null --mix read=1 --for 100ms").expect(2);
    place.line(&format!("{drive} --listen 192.0.2.1:0")).expect(2);
    let mut weak = place.command(&drive.split(' ').chain(["--listen", "0.0.0.0:0"]).collect::<Vec<_>>());
    Ran::of(&weak.env("PLIMSOLL_LISTEN_TOKEN", "short").output().unwrap()).expect(2).says("is not a token");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_token_opens_the_figures_and_stands_nowhere() {
    let place = Place::new();
    let run = Listening::start(&place, "--for 300s --think 1ms --listen 0.0.0.0:0");
    let address = format!("127.0.0.1:{}", run.address.rsplit(':').next().unwrap());
    let get = |more: &str| ask(&address, &format!("GET /metrics HTTP/1.1\r\nHost: here\r\n{more}\r\n")).unwrap();
    assert_eq!(get("").0, 401);
    assert_eq!(get("Authorization: Bearer 0123456789abcdef-tokem\r\n").0, 401);
    let (status, text) = get(&format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(status == 200 && !text.contains(TOKEN), "{text}");
    run.child.signal(Signal::INT);
    assert_eq!(run.code(), Some(130));
    let recording = std::fs::read(place.only_run().join("run.sqlite")).unwrap();
    assert!(!recording.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()));
}
